//! From tokens' bytes to text to show: whole code points, without stop strings or the beginning of one.
#![forbid(unsafe_code)]

use super::stop::StopFinder;
use super::utf8::Utf8Assembler;

/// Bytes that a chunk may have without an allocation: more than any token that stands for text.
const CAPACITY: usize = 1024;

/// Assembles text. The whole text does not depend on how the bytes were cut into chunks.
#[derive(Debug, Default)]
pub struct TextAssembler {
    utf8: Utf8Assembler,
    stops: StopFinder,
    /// Whether the stop string itself belongs to the text.
    include_stop: bool,
    /// The text that the last call returned, followed by the text that is held back.
    text: String,
    /// Length of the first of the two.
    released: usize,
    stopped: bool,
}

impl TextAssembler {
    /// An assembler that ends the text before the first of `stops` (or after it with `include_stop`). The first one is that which
    /// ends first in the text, and of those that end together the longest.
    pub fn new(stops: &[String], include_stop: bool) -> TextAssembler {
        let stops = StopFinder::new(stops);
        let text = String::with_capacity(3 * (CAPACITY + 3) + stops.most_held());
        let utf8 = Utf8Assembler::with_capacity(CAPACITY);
        TextAssembler { utf8, stops, include_stop, text, ..TextAssembler::default() }
    }

    /// Takes `bytes` and returns the text that is certain now; it may be empty. After a stop string no text comes.
    pub fn push(&mut self, bytes: &[u8]) -> &str {
        self.text.drain(..self.released);
        self.released = 0;
        if self.stopped {
            return "";
        }
        self.text.push_str(self.utf8.push(bytes));
        self.release(self.text.len() - self.utf8.text().len())
    }

    /// Ends the text: an unfinished code point becomes U+FFFD, and the held-back text is returned, unless a stop string ended the
    /// text.
    pub fn finish(&mut self) -> &str {
        self.text.drain(..self.released);
        self.released = 0;
        if self.stopped {
            return "";
        }
        self.text.push_str(self.utf8.finish());
        self.release(self.text.len() - self.utf8.text().len());
        if !self.stopped {
            self.released = self.text.len();
        }
        &self.text[..self.released]
    }

    /// Whether a stop string has ended the text.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// The text that the last call returned.
    pub fn text(&self) -> &str {
        &self.text[..self.released]
    }

    /// Searches the new text, `text[from..]`, and returns what is certain.
    fn release(&mut self, from: usize) -> &str {
        match self.stops.push(&self.text.as_bytes()[from..]) {
            Some((n, len)) => {
                self.stopped = true;
                let end = from + n - if self.include_stop { 0 } else { len };
                self.text.truncate(end);
                self.released = end;
            }
            // A prefix of a stop string begins with a code point, so the cut is between two.
            None => self.released = self.text.len() - self.stops.n_held(),
        }
        &self.text[..self.released]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole text for these chunks; checks what each call returns.
    fn assemble(pieces: &[&[u8]], stops: &[String], include_stop: bool) -> (String, bool) {
        let mut a = TextAssembler::new(stops, include_stop);
        let mut out = String::new();
        for piece in pieces {
            let text = a.push(piece).to_owned();
            assert_eq!(text, a.text());
            out.push_str(&text);
        }
        out.push_str(a.finish());
        (out, a.is_stopped())
    }

    /// What the whole text must be, by plain search: up to the first place where a stop string ends.
    fn expected(bytes: &[u8], stops: &[String], include_stop: bool) -> (String, bool) {
        let text = String::from_utf8_lossy(bytes);
        for (end, _) in text.char_indices().chain([(text.len(), ' ')]) {
            let ending = stops.iter().filter(|stop| !stop.is_empty() && text[..end].ends_with(stop.as_str()));
            if let Some(longest) = ending.map(String::len).max() {
                return (text[..end - if include_stop { 0 } else { longest }].to_owned(), true);
            }
        }
        (text.into_owned(), false)
    }

    fn strings(stops: &[&str]) -> Vec<String> {
        stops.iter().map(|&stop| stop.to_owned()).collect()
    }

    fn check(bytes: &[u8], pieces: &[&[u8]], stops: &[String]) {
        for include_stop in [false, true] {
            let got = assemble(pieces, stops, include_stop);
            assert_eq!(
                got,
                expected(bytes, stops, include_stop),
                "{pieces:x?}, stops {stops:?}, {include_stop}"
            );
        }
    }

    #[test]
    fn every_split_of_short_texts_gives_the_same() {
        let texts: [&[u8]; 8] = [
            "ab€ba€b".as_bytes(),
            "aabaabaaab".as_bytes(),
            "x😀y😀😀".as_bytes(),
            b"a\xe2\x82ab\xff\xe2\x82\xac",
            b"\xf0\x9f\x98",
            b"",
            "éèé\u{301}é".as_bytes(),
            b"stop\xc3",
        ];
        let lists: [&[&str]; 10] = [
            &[],
            &["b"],
            &["€"],
            &["aaab", "ab"],
            &["aabaaa", "baab"],
            &["😀😀", "y"],
            &["ba€b", "a€", ""],
            &["\u{fffd}"],
            &["é\u{301}é", "èé"],
            &["top\u{fffd}", "stopx"],
        ];
        for bytes in texts {
            for stops in lists {
                let stops = strings(stops);
                for cuts in 0..1u32 << bytes.len().saturating_sub(1) {
                    let mut pieces = Vec::new();
                    let mut start = 0;
                    for i in 1..bytes.len() {
                        if cuts >> (i - 1) & 1 == 1 {
                            pieces.push(&bytes[start..i]);
                            start = i;
                        }
                    }
                    pieces.push(&bytes[start..]);
                    check(bytes, &pieces, &stops);
                }
            }
        }
    }

    /// Numbers that only need to be different each time (Marsaglia's xorshift).
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, n: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as usize % n
        }

        /// Few different code points and broken ones, so that stop strings nearly match all the time.
        fn bytes(&mut self, n: usize, broken: bool) -> Vec<u8> {
            let parts: [&[u8]; 9] = [
                b"a",
                b"b",
                b"\n",
                "é".as_bytes(),
                "€".as_bytes(),
                "😀".as_bytes(),
                b"\xe2\x82",
                b"\xff",
                b"\xf0\x9f",
            ];
            let n_parts = if broken { parts.len() } else { 6 };
            (0..n).flat_map(|_| parts[self.below(n_parts)].to_vec()).collect()
        }
    }

    #[test]
    fn random_splits_of_long_texts_give_the_same() {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        for round in 0..3000 {
            let n = 1 + numbers.below(60);
            let bytes = numbers.bytes(n, round % 2 == 0);
            let stops: Vec<String> = (0..numbers.below(4))
                .map(|_| {
                    let n = 1 + numbers.below(6);
                    String::from_utf8(numbers.bytes(n, false)).expect("whole code points")
                })
                .collect();
            let mut pieces = Vec::new();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (piece, more) = rest.split_at(rest.len().min(numbers.below(9)));
                pieces.push(piece);
                rest = more;
            }
            check(&bytes, &pieces, &stops);
        }
    }

    #[test]
    fn text_is_held_back_no_longer_than_it_takes() {
        let mut a = TextAssembler::new(&strings(&["</end>"]), false);
        assert_eq!(a.push(b"one </"), "one ");
        assert_eq!(a.push(b"en"), "");
        assert_eq!(a.push(b"x </"), "</enx ");
        assert_eq!(a.push(b"end> behind"), "");
        assert!(a.is_stopped());
        assert_eq!((a.push(b"more").to_owned(), a.finish()), (String::new(), ""));
        let mut a = TextAssembler::new(&strings(&["</end>"]), false);
        assert_eq!(a.push(b"</en"), "");
        assert_eq!(a.finish(), "</en");
    }
}
