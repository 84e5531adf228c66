//! How building a tokenizer ends early.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::error::Result;

/// Entries of a vocabulary between two checks: less than a millisecond's work.
pub(super) const ENTRIES: usize = 4096;

/// What may end the building of a tokenizer: called every [`ENTRIES`] entries of any list; its error ends the building.
#[derive(Clone, Copy)]
pub(super) struct Looks<'a>(pub(super) &'a dyn Fn() -> Result<()>);

impl Looks<'_> {
    /// Checks at some entries `i`.
    pub(super) fn at(self, i: usize) -> Result<()> {
        self.at_one_of(i..i + 1)
    }

    /// Checks, if one of these entries is due.
    pub(super) fn at_one_of(self, entries: Range<usize>) -> Result<()> {
        match entries.start.next_multiple_of(ENTRIES) < entries.end {
            true => (self.0)(),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
mod tests {
    use std::cell::Cell;

    use crate::error::{Error, Result};
    use crate::gguf::writer::Writer;
    use crate::gguf::{Gguf, StringArray};
    use crate::tokenizer::Tokenizer;

    /// All strings of one to three letters, and the merges that make those of two and three.
    fn vocab() -> (Vec<String>, Vec<String>) {
        let letters = || ('a'..='z').map(String::from);
        let longer = |shorter: &[String]| -> Vec<(String, String)> {
            shorter.iter().flat_map(|s| letters().map(move |l| (s.clone(), l))).collect()
        };
        let mut tokens: Vec<String> = letters().collect();
        let mut merges = Vec::new();
        let mut last = tokens.clone();
        for _ in 0..2 {
            let pairs = longer(&last);
            merges.extend(pairs.iter().map(|(a, b)| format!("{a} {b}")));
            last = pairs.iter().map(|(a, b)| format!("{a}{b}")).collect();
            tokens.extend_from_slice(&last);
        }
        (tokens, merges)
    }

    /// Asserts that building checks `expected` times, and that any check ends it without another one.
    fn looks(expected: usize, build: impl Fn(&dyn Fn() -> Result<()>) -> Result<Tokenizer>) {
        for last in (1..=expected).chain([usize::MAX]) {
            let n = Cell::new(0);
            let outcome = build(&|| {
                n.set(n.get() + 1);
                if n.get() == last { Err(Error::Cancelled("enough".into())) } else { Ok(()) }
            });
            match outcome.map(|tokenizer| tokenizer.n_vocab()) {
                Err(Error::Cancelled(why)) if why == "enough" => assert_eq!(n.get(), last),
                Ok(n_vocab) => assert_eq!((n.get(), last, n_vocab), (expected, usize::MAX, 18_278)),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn the_building_of_a_tokenizer_ends_at_any_look() {
        let (tokens, merges) = vocab();
        // Five checks for each list of 18,278 tokens or 18,252 merges.
        for (kind, expected) in [("gpt2", 20), ("gemma4", 20), ("llama", 15), ("t5", 25)] {
            let mut file = Writer::new();
            file.set("tokenizer.ggml.model", kind);
            file.set("tokenizer.ggml.pre", "gpt-2");
            file.set("tokenizer.ggml.tokens", StringArray::copy(&tokens).unwrap());
            file.set("tokenizer.ggml.merges", StringArray::copy(&merges).unwrap());
            file.set("tokenizer.ggml.scores", vec![-1.0f32; tokens.len()]);
            let gguf = Gguf::from_bytes(&file.to_bytes().unwrap(), "test").unwrap();
            looks(expected, |step| Tokenizer::from_gguf_under(gguf.metadata(), step));
        }
    }

    #[cfg(feature = "hf")]
    #[test]
    fn the_building_from_json_ends_at_any_look() {
        use serde_json::{Map, Value, json};

        let (tokens, merges) = vocab();
        let ids: Map<String, Value> = tokens.iter().cloned().zip((0..).map(Value::from)).collect();
        let scores: Vec<_> = tokens.iter().map(|token| json!([token, -1.0])).collect();
        let bpe = json!({ "model": { "type": "BPE", "vocab": ids, "merges": merges } });
        let unigram = json!({ "model": { "type": "Unigram", "unk_id": 0, "vocab": scores } });
        for (file, expected) in [(bpe, 30), (unigram, 30)] {
            looks(expected, |step| Tokenizer::from_json_under(file.to_string().as_bytes(), None, step));
        }
    }
}
