//! Byte-pair encoding: a word is cut into the smallest tokens, which are then merged by rank (A. Radford et al., "Language Models
//! are Unsupervised Multitask Learners", 2019, for bytes; SentencePiece's BPE, written out as merges by Hugging Face, for
//! characters).
#![forbid(unsafe_code)]

use std::collections::HashSet;

use super::effort::Effort;
use super::merges::Merges;
use super::vocab::{Lexicon, Speller, Vocab};
use crate::error::{Error, Result, quoted};
use crate::gguf::with_capacity;

/// The encoder of a BPE vocabulary.
pub(super) struct Bpe {
    pub(super) merges: Merges,
    pub(super) units: Units,
    /// A word that is itself a token is taken whole, without merging.
    pub(super) ignore_merges: bool,
    /// A word of line feeds that is itself a token is taken whole.
    pub(super) whole_line_feeds: bool,
}

/// The units that a word is first cut into.
pub(super) enum Units {
    /// Bytes.
    Bytes {
        /// The token of each byte.
        tokens: Box<[Option<u32>; 256]>,
        /// Whether nothing is merged across a byte without a token; otherwise such a byte is ignored.
        gaps: bool,
    },
    /// Characters.
    Chars {
        /// Whether a character without a token becomes its byte tokens.
        byte_fallback: bool,
        /// The token of a character that cannot be expressed; without it the character is left out.
        unk: Option<u32>,
        /// Whether consecutive characters that cannot be expressed become one `unk`.
        fuse_unk: bool,
        /// Whether nothing is merged across a character that is left out; otherwise such a character is ignored.
        gaps: bool,
    },
}

impl Units {
    /// The bytes of a byte-level vocabulary.
    pub(super) fn bytes(lexicon: &Lexicon, gaps: bool) -> Units {
        Units::Bytes { tokens: Box::new(std::array::from_fn(|byte| lexicon.find(&[byte as u8]))), gaps }
    }
}

impl Bpe {
    /// Appends the tokens of `word`.
    ///
    /// Text that the vocabulary cannot express is left out. (SmolLM2, for example, has no token for a few control characters and
    /// for the unassigned planes of Unicode.)
    ///
    /// # Errors
    /// What ends the call.
    pub(super) fn encode(
        &self,
        lexicon: &Lexicon,
        word: &str,
        effort: &mut Effort,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        effort.step()?;
        let whole = self.ignore_merges || self.whole_line_feeds && word.bytes().all(|b| b == b'\n');
        if whole && let Some(token) = lexicon.find(word.as_bytes()) {
            out.push(token);
            return Ok(());
        }
        match &self.units {
            Units::Bytes { .. } => self.encode_bytes(lexicon, word.as_bytes(), effort, out),
            Units::Chars { byte_fallback, unk, fuse_unk, gaps } => {
                let mut symbols = Vec::with_capacity(word.len());
                let mut after_unk = false;
                for (at, c) in word.char_indices() {
                    effort.step()?;
                    let bytes = &word.as_bytes()[at..at + c.len_utf8()];
                    let is_unk = if let Some(token) = lexicon.find(bytes) {
                        symbols.push(token);
                        false
                    } else if *byte_fallback && bytes.iter().all(|&b| lexicon.bytes[b as usize].is_some()) {
                        lexicon.fall_back(bytes, None, &mut symbols);
                        false
                    } else {
                        if !(after_unk && *fuse_unk) {
                            symbols.extend(unk);
                        }
                        if *gaps && unk.is_none() {
                            self.merges.apply(&symbols, effort, out)?;
                            symbols.clear();
                        }
                        true
                    };
                    after_unk = is_unk;
                }
                self.merges.apply(&symbols, effort, out)
            }
        }
    }

    /// Appends the tokens of bytes that are not text.
    ///
    /// # Errors
    /// What ends the call.
    pub(super) fn encode_bytes(
        &self,
        lexicon: &Lexicon,
        bytes: &[u8],
        effort: &mut Effort,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        match &self.units {
            Units::Bytes { tokens, gaps } => {
                let mut symbols = Vec::with_capacity(bytes.len());
                for &byte in bytes {
                    match tokens[byte as usize] {
                        Some(token) => symbols.push(token),
                        None if *gaps => {
                            self.merges.apply(&symbols, effort, out)?;
                            symbols.clear();
                        }
                        None => {}
                    }
                }
                self.merges.apply(&symbols, effort, out)
            }
            Units::Chars { unk, .. } => {
                lexicon.fall_back(bytes, *unk, out);
                Ok(())
            }
        }
    }
}

/// Collects merges, best first, each as the texts of its two parts, whose tokens all exist. It leaves out a merge that spells a
/// token which plain text may not.
pub(super) struct MergeReader<'m> {
    lexicon: &'m Lexicon,
    speller: &'m Speller,
    /// For each token, whether plain text spells it.
    is_spelled: Vec<bool>,
    /// Texts of tokens that plain text may not spell.
    reserved: HashSet<&'m str>,
    merges: Merges,
    scratch: Vec<u8>,
    /// The result of the merge before. Merges are usually listed in the order of their results, so the next one gives the same
    /// token or the one after it, without a lookup.
    last_joint: u32,
}

impl<'m> MergeReader<'m> {
    /// Capacity for the `n` merges of `list`, or `NoMemory`.
    pub(super) fn new(
        vocab: &Vocab<'m>,
        lexicon: &'m Lexicon,
        speller: &'m Speller,
        list: &str,
        n: usize,
    ) -> Result<MergeReader<'m>> {
        let no_memory = || Error::NoMemory(format!("no memory for the {n} merges of the list {list:?}"));
        let merges = Merges::with_capacity(n).ok_or_else(no_memory)?;
        let mut is_spelled = with_capacity(vocab.len(), "the merges of the vocabulary's tokens")?;
        is_spelled.resize(vocab.len(), false);
        lexicon.spelled().for_each(|id| is_spelled[id as usize] = true);
        let n_special = vocab.types.iter().filter(|ty| ty.is_special()).count();
        let mut reserved = HashSet::new();
        reserved.try_reserve(n_special).map_err(|_| no_memory())?;
        reserved.extend(vocab.iter().filter(|(_, _, ty)| ty.is_special()).map(|(_, text, _)| text));
        Ok(MergeReader { lexicon, speller, is_spelled, reserved, merges, scratch: Vec::new(), last_joint: 0 })
    }

    /// Adds the merge of that rank.
    ///
    /// # Errors
    /// The text that is no token, in quotes.
    pub(super) fn push(&mut self, rank: usize, left: &str, right: &str) -> std::result::Result<(), String> {
        let scratch = &mut self.scratch;
        scratch.clear();
        let spelled_left = self.speller.spell(left, scratch);
        let middle = scratch.len();
        let spelled_right = self.speller.spell(right, scratch);
        let a = self.lexicon.find(&scratch[..middle]).filter(|_| spelled_left);
        let b = self.lexicon.find(&scratch[middle..]).filter(|_| spelled_right);
        let likely = [self.last_joint, self.last_joint.saturating_add(1)];
        let known = likely.into_iter().find(|&id| {
            self.is_spelled.get(id as usize) == Some(&true) && self.lexicon.get(id) == Some(scratch)
        });
        let ab = known.or_else(|| self.lexicon.find(scratch));
        self.last_joint = ab.unwrap_or(self.last_joint);
        match (a, b, ab) {
            (Some(a), Some(b), Some(ab)) => self.merges.push(rank as u32, a, b, ab),
            _ => {
                let joint = [left, right].concat();
                let missing = [(left, a), (right, b), (&joint, ab)];
                let missing = missing.iter().find(|(text, id)| id.is_none() && !self.reserved.contains(text));
                if let Some((text, _)) = missing {
                    return Err(quoted(text.as_bytes()));
                }
            }
        }
        Ok(())
    }

    /// The merges.
    pub(super) fn finish(self) -> Merges {
        self.merges
    }
}

/// The two parts of a merge that is written as one line: the first space that is not the first character separates
/// them.
pub(super) fn split_merge(line: &str) -> Option<(&str, &str)> {
    let (space, _) = line.char_indices().skip(1).find(|&(_, c)| c == ' ')?;
    Some((&line[..space], &line[space + 1..]))
}

/// The error of a merge that is not one.
pub(super) fn bad_merge(list: &str, rank: usize, what: &str) -> Error {
    Error::Format(format!("merge {rank} in {list:?} {what}"))
}

/// Checks that ranks fit their type.
pub(super) fn check_n_merges(list: &str, n: usize) -> Result<()> {
    match u32::try_from(n) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::Format(format!("the list {list:?} has {n} merges, too many"))),
    }
}
