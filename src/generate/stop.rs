//! Finding stop strings in text that arrives in chunks: an automaton for each (Knuth, Morris & Pratt 1977), so that a byte costs
//! O(1) per stop string, and the least possible text is held back.
#![forbid(unsafe_code)]

/// One stop string and how much of it the text so far ends with.
#[derive(Debug, Clone)]
struct Stop {
    text: Vec<u8>,
    /// For each prefix of `text` of `i + 1` bytes: the length of the longest shorter prefix that is its suffix.
    failure: Vec<usize>,
    /// The length of the longest proper prefix of `text` that is a suffix of the text so far.
    matched: usize,
}

impl Stop {
    fn new(text: &str) -> Stop {
        let text = text.as_bytes().to_vec();
        let mut failure = vec![0; text.len()];
        let mut k = 0;
        for i in 1..text.len() {
            while k > 0 && text[i] != text[k] {
                k = failure[k - 1];
            }
            k += usize::from(text[i] == text[k]);
            failure[i] = k;
        }
        Stop { text, failure, matched: 0 }
    }

    /// Takes the next byte; returns whether the text ends with the stop string now.
    fn push(&mut self, byte: u8) -> bool {
        while self.matched > 0 && self.text[self.matched] != byte {
            self.matched = self.failure[self.matched - 1];
        }
        self.matched += usize::from(self.text[self.matched] == byte);
        self.matched == self.text.len()
    }
}

/// Looks for several stop strings in one pass. It finds the one that ends first; of those that end together, the longest. So the
/// result does not depend on how the text was cut.
#[derive(Debug, Clone, Default)]
pub struct StopFinder {
    stops: Vec<Stop>,
}

impl StopFinder {
    /// Looks for `stops`; empty ones are left out.
    pub fn new(stops: &[String]) -> StopFinder {
        let stops = stops.iter().filter(|stop| !stop.is_empty());
        StopFinder { stops: stops.map(|stop| Stop::new(stop)).collect() }
    }

    /// Takes the next bytes up to the end of a stop string, if one ends within them: then returns the number of bytes taken and
    /// the length of the stop string. No more may be pushed afterwards.
    pub fn push(&mut self, bytes: &[u8]) -> Option<(usize, usize)> {
        for (i, &byte) in bytes.iter().enumerate() {
            let mut found = None;
            for stop in &mut self.stops {
                if stop.push(byte) {
                    found = found.max(Some(stop.text.len()));
                }
            }
            if let Some(len) = found {
                return Some((i + 1, len));
            }
        }
        None
    }

    /// How many of the last bytes may begin a stop string.
    pub fn n_held(&self) -> usize {
        self.stops.iter().map(|stop| stop.matched).max().unwrap_or(0)
    }

    /// The largest value of [`StopFinder::n_held`].
    pub fn most_held(&self) -> usize {
        self.stops.iter().map(|stop| stop.text.len() - 1).max().unwrap_or(0)
    }
}
