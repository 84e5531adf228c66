//! `tokenizer.ggml.model` = `hybriddna`: byte-level BPE, and between `<dna>` and `</dna>` tokens of six letters each.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use super::looks::Looks;
use super::vocab::Vocab;
use crate::error::{Error, Result};

/// Letters of a token.
const LETTERS: usize = 6;
const BEGIN: &str = "<dna>";
const END: &str = "</dna>";
const UNKNOWN: &str = "<oov>";
/// Ends the text of such a token in the file, which distinguishes it from the others.
const MARK: char = '\u{e000}';
/// The letter that pads a sequence.
const FILL: u8 = b'A';

/// The tokens of sequences.
pub(super) struct Dna {
    begin: u32,
    end: u32,
    /// The token for six letters without a token.
    unknown: u32,
    /// The tokens by their letters.
    tokens: HashMap<[u8; LETTERS], u32>,
}

impl Dna {
    /// Finds the tokens, removes the mark from their texts, and ensures that no other text spells them. `None` in a vocabulary
    /// without one of the tags, which is one of BPE alone.
    ///
    /// # Errors
    /// `NoMemory`; what ends it early.
    pub(super) fn take(vocab: &mut Vocab<'_>, looks: Looks<'_>) -> Result<Option<Dna>> {
        let [begin, end, unknown] = [BEGIN, END, UNKNOWN].map(|text| vocab.find(text));
        let mut tokens = HashMap::new();
        // They follow the unknown one.
        for id in unknown.map_or(vocab.len(), |id| id as usize + 1)..vocab.len() {
            looks.at(id)?;
            let Some(text) = vocab.texts[id].strip_suffix(MARK).filter(|text| !text.is_empty()) else {
                continue;
            };
            vocab.texts[id] = text;
            let no_memory = |_| Error::NoMemory("no memory for the tokens of sequences".into());
            vocab.apart.try_reserve(1).map_err(no_memory)?;
            vocab.apart.insert(id as u32);
            if let Ok(letters) = text.as_bytes().try_into() {
                tokens.try_reserve(1).map_err(no_memory)?;
                tokens.entry(letters).or_insert(id as u32);
            }
        }
        match (begin, end, unknown) {
            (Some(begin), Some(end), Some(unknown)) => Ok(Some(Dna { begin, end, unknown, tokens })),
            _ => Ok(None),
        }
    }

    /// Appends the tokens of `text`; `plain` appends those outside of sequences.
    ///
    /// # Errors
    /// Those of `plain`.
    pub(super) fn encode(
        &self,
        text: &str,
        out: &mut Vec<u32>,
        mut plain: impl FnMut(&str, &mut Vec<u32>) -> Result<()>,
    ) -> Result<()> {
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(BEGIN) {
            if !before.is_empty() {
                plain(before, out)?;
            }
            out.push(self.begin);
            let (letters, after) = match after.split_once(END) {
                Some((letters, after)) => (letters, Some(after)),
                None => (after, None),
            };
            self.push(letters, out);
            let Some(after) = after else { return Ok(()) };
            out.push(self.end);
            rest = after;
        }
        if rest.is_empty() { Ok(()) } else { plain(rest, out) }
    }

    /// Appends the tokens of a sequence; small letters count as capital ones.
    fn push(&self, letters: &str, out: &mut Vec<u32>) {
        for part in letters.as_bytes().chunks(LETTERS) {
            let mut key = [FILL; LETTERS];
            key.iter_mut().zip(part).for_each(|(key, letter)| *key = letter.to_ascii_uppercase());
            out.push(self.tokens.get(&key).copied().unwrap_or(self.unknown));
        }
    }
}
