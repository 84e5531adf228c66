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
/// Ends the text of such a token in the file, so that it is none of the others.
const MARK: char = '\u{e000}';
/// What a sequence is filled up with.
const FILL: u8 = b'A';

/// The tokens of sequences.
pub(super) struct Dna {
    begin: u32,
    end: u32,
    /// Six letters that are no token.
    unknown: u32,
    /// By their letters.
    tokens: HashMap<[u8; LETTERS], u32>,
}

impl Dna {
    /// Finds the tokens, takes the mark off their texts, and sees to it that no other text spells them. `None` in a vocabulary that lacks
    /// one of those around them, which is one of BPE alone.
    ///
    /// # Errors
    /// `NoMemory`; what ends it early.
    pub(super) fn take(vocab: &mut Vocab<'_>, looks: Looks<'_>) -> Result<Option<Dna>> {
        let [begin, end, unknown] = [BEGIN, END, UNKNOWN].map(|text| vocab.find(text));
        let mut tokens = HashMap::new();
        // They come after the unknown one.
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

    /// Appends the tokens of `text`, of which `plain` makes those outside of sequences.
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

    /// Appends the tokens of a sequence, of which small letters are as good as capital ones.
    fn push(&self, letters: &str, out: &mut Vec<u32>) {
        for part in letters.as_bytes().chunks(LETTERS) {
            let mut key = [FILL; LETTERS];
            key.iter_mut().zip(part).for_each(|(key, letter)| *key = letter.to_ascii_uppercase());
            out.push(self.tokens.get(&key).copied().unwrap_or(self.unknown));
        }
    }
}
