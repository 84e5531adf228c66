//! What a context has done, and how long it took.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::Tokens;

/// Tokens run and the time that took, since the context was made or the counters were reset. Calls that ended with an error do
/// not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timings {
    /// Tokens of calls with several tokens of a sequence: prompts.
    pub n_prefill: u64,
    /// Their time.
    pub prefill: Duration,
    /// Tokens of calls with one token of a sequence, or one of each of several, and draft tokens that were accepted:
    /// generation.
    pub n_decode: u64,
    /// Their time.
    pub decode: Duration,
    /// Tokens of texts that were embedded.
    pub n_embed: u64,
    /// Their time.
    pub embed: Duration,
    /// Tokens that ran once more for the states of recurrent layers, since their sequence was shortened.
    pub n_replay: u64,
    /// Their time.
    pub replay: Duration,
}

impl Timings {
    pub(super) fn add_tokens(&mut self, tokens: &Tokens<'_>, time: Duration) {
        let n = tokens.ids.len() as u64;
        if is_step(tokens) {
            self.n_decode += n;
            self.decode += time;
        } else {
            self.n_prefill += n;
            self.prefill += time;
        }
    }

    /// Counts one token that ran, with drafts after it.
    pub(super) fn add_step(&mut self, time: Duration) {
        self.n_decode += 1;
        self.decode += time;
    }

    pub(super) fn add_replay(&mut self, n: usize, time: Duration) {
        self.n_replay += n as u64;
        self.replay += time;
    }

    pub(super) fn add_texts(&mut self, n_tokens: u64, time: Duration) {
        self.n_embed += n_tokens;
        self.embed += time;
    }
}

/// Whether no sequence has two tokens; the sequences of a step come in ascending order.
fn is_step(tokens: &Tokens<'_>) -> bool {
    match tokens.seqs {
        _ if tokens.ids.len() <= 1 => true,
        Some(seqs) => seqs.is_sorted_by(|a, b| a < b),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_prompts_are_distinguished() {
        let mut timings = Timings::default();
        let ms = Duration::from_millis(1);
        timings.add_tokens(&Tokens::next(&[1]), ms);
        timings.add_tokens(&Tokens { seqs: Some(&[0, 1, 4]), ..Tokens::next(&[1, 2, 3]) }, ms);
        timings.add_tokens(&Tokens::next(&[1, 2, 3, 4, 5]), ms);
        timings.add_tokens(&Tokens { seqs: Some(&[0, 0]), ..Tokens::next(&[1, 2]) }, ms);
        timings.add_texts(3, ms);
        let expected = Timings {
            n_prefill: 7,
            prefill: 2 * ms,
            n_decode: 4,
            decode: 2 * ms,
            n_embed: 3,
            embed: ms,
            ..Timings::default()
        };
        assert_eq!(timings, expected);
    }
}
