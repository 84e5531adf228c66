//! Byte-level BPE (`tokenizer.ggml.model` = `gpt2`): text is cut into words, each byte of a word is written as one
//! printable character, and the characters are merged by rank (A. Radford et al., "Language Models are Unsupervised
//! Multitask Learners", 2019). The merging is the `tokenizers` crate's.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use tokenizers::Model;
use tokenizers::models::bpe;

use super::pre::PreTokenizer;
use super::vocab::{Pieces, TOKENS, Vocab};
use crate::error::{Error, Result};
use crate::gguf::Metadata;

/// The key of the merges.
const MERGES: &str = "tokenizer.ggml.merges";

/// The last character of the byte alphabet is below this.
const ALPHABET_END: usize = 0x144;

/// The encoder of a byte-level BPE vocabulary.
pub(super) struct Bpe {
    model: bpe::BPE,
    pre: PreTokenizer,
    /// The character of each byte, or None where the vocabulary has no token for it.
    alphabet: [Option<char>; 256],
}

impl Bpe {
    /// Reads the merges and builds the merging model.
    pub(super) fn from_gguf(meta: &Metadata, vocab: &Vocab<'_>, pre: PreTokenizer) -> Result<Bpe> {
        let mut ids = bpe::Vocab::with_capacity(vocab.len());
        let mut control = HashSet::new();
        for (id, text, ty) in vocab.iter() {
            // Control tokens are kept from the model, so that plain text can never spell one.
            if ty.is_hidden() {
                control.insert(text);
            } else if !text.is_empty() {
                ids.entry(text.to_owned()).or_insert(id);
            }
        }
        let merges = read_merges(meta, &ids, &control)?;
        let alphabet = std::array::from_fn(|byte| {
            let c = byte_char(byte as u8);
            ids.contains_key(c.encode_utf8(&mut [0; 4]) as &str).then_some(c)
        });
        // The crate's cache of words lives in each calling thread and outlives the model: it would grow with every
        // model a long-lived host loads, so it is off.
        let model = bpe::BPE::builder()
            .vocab_and_merges(ids, merges)
            .ignore_merges(pre.ignore_merges)
            .cache_capacity(0)
            .build()
            .map_err(|e| Error::Format(format!("the vocabulary and {MERGES:?} do not fit together: {e}")))?;
        Ok(Bpe { model, pre, alphabet })
    }

    /// The exact bytes of each token. A normal token outside the byte alphabet stands for its own text.
    pub(super) fn token_bytes(vocab: &Vocab<'_>) -> Pieces {
        let mut bytes_of = [None; ALPHABET_END];
        for byte in 0..=255 {
            bytes_of[byte_char(byte) as usize] = Some(byte);
        }
        let mut pieces = Pieces::with_capacity(vocab.len());
        let mut bytes = Vec::new();
        for (_, text, ty) in vocab.iter() {
            bytes.clear();
            bytes.extend(text.chars().map_while(|c| *bytes_of.get(c as usize)?));
            let in_alphabet = bytes.len() == text.chars().count();
            pieces.push(if in_alphabet && !ty.is_special() { &bytes } else { text.as_bytes() });
        }
        pieces
    }

    /// Appends the tokens of `text`.
    ///
    /// A byte that the vocabulary has no token for is left out, and nothing is merged across it. (SmolLM2, for one,
    /// has none for a few control characters and for the planes of Unicode that nothing is assigned in.)
    pub(super) fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<()> {
        let mut word = String::new();
        for range in self.pre.split(text) {
            for &byte in &text.as_bytes()[range] {
                match self.alphabet[byte as usize] {
                    Some(c) => word.push(c),
                    None => self.merge(&mut word, out)?,
                }
            }
            self.merge(&mut word, out)?;
        }
        Ok(())
    }

    /// Appends the tokens of `word`, which is in the byte alphabet, and empties it.
    fn merge(&self, word: &mut String, out: &mut Vec<u32>) -> Result<()> {
        let tokens =
            self.model.tokenize(word).map_err(|e| Error::Internal(format!("merging a word failed: {e}")))?;
        out.extend(tokens.iter().map(|t| t.id));
        word.clear();
        Ok(())
    }
}

/// Reads the merges, best first, each as the texts of its two parts, all of whose tokens exist. Of a merge that is
/// there twice the first counts; one that spells a control token is left out.
fn read_merges(meta: &Metadata, ids: &bpe::Vocab, control: &HashSet<&str>) -> Result<bpe::Merges> {
    let lines = meta.require_strings(MERGES)?;
    let mut merges = Vec::with_capacity(lines.len());
    let mut seen = bpe::MergeMap::with_capacity(lines.len());
    let mut joint = String::new();
    for (rank, line) in lines.iter().enumerate() {
        let bad = |what: String| Error::Format(format!("merge {rank} in {MERGES:?} {what}"));
        let line = std::str::from_utf8(line).map_err(|e| bad(format!("is not UTF-8: {e}")))?;
        // The parts are separated by the first space that is not the first character.
        let space = line.char_indices().skip(1).find(|&(_, c)| c == ' ');
        let Some((left, right)) = space.map(|(at, _)| (&line[..at], &line[at + 1..])) else {
            return Err(bad(format!("is {line:?}, not two texts separated by a space")));
        };
        joint.clear();
        joint.push_str(left);
        joint.push_str(right);
        let found = [left, right, &joint].map(|text| (text, ids.get(text).copied()));
        if let Some((text, _)) = found.iter().find(|(text, id)| id.is_none() && !control.contains(text)) {
            return Err(bad(format!("is {line:?}, but {text:?} is not a token in {TOKENS:?}")));
        }
        if let [(_, Some(a)), (_, Some(b)), (_, Some(ab))] = found
            && seen.insert((a, b), (rank as u32, ab)).is_none()
        {
            merges.push((left.to_owned(), right.to_owned()));
        }
    }
    Ok(merges)
}

/// The printable character that stands for a byte: itself where it is printable in Latin-1, else one of the
/// characters from U+0100 on, in order.
fn byte_char(byte: u8) -> char {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if printable(byte) {
        return byte as char;
    }
    let rank = (0..byte).filter(|&b| !printable(b)).count() as u32;
    char::from_u32(0x100 + rank).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_alphabet_is_gpt2s() {
        let all: HashSet<char> = (0..=255).map(byte_char).collect();
        assert_eq!(all.len(), 256);
        assert_eq!((byte_char(b' '), byte_char(b'\n'), byte_char(b'a')), ('Ġ', 'Ċ', 'a'));
        assert_eq!((byte_char(0), byte_char(0x7f), byte_char(0xad), byte_char(0xff)), ('Ā', 'ġ', 'Ń', 'ÿ'));
    }
}
