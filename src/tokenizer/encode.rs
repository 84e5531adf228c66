//! Text to tokens.
#![forbid(unsafe_code)]

use super::effort::Effort;
use super::special::Fragment;
use super::{Model, Place, SPACE, Tokenizer};
use crate::error::Result;

/// Where control tokens are found.
#[derive(Clone, Copy)]
pub(super) enum Control<'a> {
    Nowhere,
    /// Everywhere but at these byte offsets of the text.
    Where(&'a [usize]),
}

impl Control<'_> {
    /// Whether they are found everywhere in `part` of `text`.
    fn is_anywhere_in(self, text: &str, part: &str) -> bool {
        let Control::Where(foreign) = self else { return false };
        let first = part.as_ptr() as usize - text.as_ptr() as usize;
        let next = foreign.partition_point(|&at| at < first);
        foreign.get(next).is_none_or(|&at| at >= first + part.len())
    }
}

impl<'t> Encoder<'t> {
    /// The tokens of `text`.
    ///
    /// With `add_special`, BOS and EOS (or what the model has in their place) frame them as the source asks. With
    /// `parse_special`, the text of a control token (`<|im_end|>`) becomes that token; otherwise no text can spell
    /// one. User-defined tokens are recognised either way.
    ///
    /// A SentencePiece-style vocabulary may put a space before the text at the start of the sequence and after each
    /// special token; empty text gives no such space. Some tokenizers change the text before they read it: Qwen's
    /// compose characters (NFC), BERT's fold the case. A byte that a vocabulary cannot express is left out.
    ///
    /// Takes O(n log n) time in the length of the text, whatever the text is; where an expression of a `tokenizer.json`
    /// takes much longer than that, encoding ends with an error.
    ///
    /// # Errors
    /// `Unsupported` if a normalizer or pre-tokenizer of a `tokenizer.json` fails on this text, and what ends the call.
    pub fn encode(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<u32>> {
        self.encode_bytes(text.as_bytes(), add_special, parse_special)
    }

    /// The tokens of `text` after the tokens `past`, which are all of its sequence. No special token is added. A space comes only
    /// where the whole text would have had one: after a special token, and at the start, which is after the tokens before a text.
    /// The unknown token counts as text.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn encode_after(&self, past: &[u32], text: &str, parse_special: bool) -> Result<Vec<u32>> {
        self.encode_at(self.tokenizer.place_after(past), text, parse_special)
    }

    /// The tokens of `text` in the middle of a text: no space is put before it, and no text spells a control token.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn encode_inside(&self, text: &str) -> Result<Vec<u32>> {
        self.encode_at(Place::After, text, false)
    }

    fn encode_at(&self, place: Place, text: &str, parse_special: bool) -> Result<Vec<u32>> {
        let control = if parse_special { Control::Where(&[]) } else { Control::Nowhere };
        let mut out = Vec::with_capacity(text.len() / 3 + 2);
        self.tokenizer.encode_text(text, place, control, &mut self.effort(text.len()), &mut out)?;
        Ok(out)
    }

    /// The tokens of a chat template's output, after the tokens `past`, which are all of its sequence. Control tokens are parsed,
    /// except those with a character at one of the byte offsets `foreign`, which are ascending: these are text. At the beginning
    /// of a sequence BOS comes first where the source asks for it, one time.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn encode_rendered(&self, past: &[u32], text: &str, foreign: &[usize]) -> Result<Vec<u32>> {
        let mut out = Vec::with_capacity(text.len() / 3 + 2);
        if past.is_empty() {
            out.extend_from_slice(&self.tokenizer.roles.prefix);
        }
        let n_prefix = out.len();
        let place = self.tokenizer.place_after(past);
        self.tokenizer.encode_text(
            text,
            place,
            Control::Where(foreign),
            &mut self.effort(text.len()),
            &mut out,
        )?;
        // Templates begin with BOS themselves.
        if n_prefix == 1 && out.get(1) == Some(&out[0]) && Some(out[0]) == self.tokenizer.roles.bos {
            out.remove(0);
        }
        Ok(out)
    }

    /// As [`Encoder::encode`] for text that need not be UTF-8.
    ///
    /// Each longest stretch of valid UTF-8 is encoded as text. The gaps between them are encoded byte by byte: a byte-level
    /// vocabulary merges the bytes of one gap like those of a word, one with byte tokens gives those, any other its unknown
    /// token.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn encode_bytes(&self, text: &[u8], add_special: bool, parse_special: bool) -> Result<Vec<u32>> {
        let mut out = Vec::with_capacity(text.len() / 3 + 2);
        if add_special {
            out.extend_from_slice(&self.tokenizer.roles.prefix);
        }
        let control = if parse_special { Control::Where(&[]) } else { Control::Nowhere };
        let mut place = Place::Start;
        let mut effort = self.effort(text.len());
        let mut gap = Vec::new();
        for chunk in text.utf8_chunks() {
            if !chunk.valid().is_empty() {
                self.tokenizer.encode_gap(&mut gap, &mut effort, &mut out)?;
                place = self.tokenizer.encode_text(chunk.valid(), place, control, &mut effort, &mut out)?;
            }
            if !chunk.invalid().is_empty() {
                gap.extend_from_slice(chunk.invalid());
                place = Place::Inside;
            }
        }
        self.tokenizer.encode_gap(&mut gap, &mut effort, &mut out)?;
        if add_special {
            out.extend_from_slice(&self.tokenizer.roles.suffix);
        }
        Ok(out)
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &'t Tokenizer {
        self.tokenizer
    }

    /// For a text of `len` bytes.
    pub(super) fn effort(&self, len: usize) -> Effort<'t> {
        Effort::under(len, &self.tokenizer.name, self.looks)
    }
}

/// A tokenizer for a call that may end early.
#[derive(Clone, Copy)]
pub struct Encoder<'t> {
    pub(super) tokenizer: &'t Tokenizer,
    looks: &'t dyn Fn() -> Result<()>,
}

/// Never ends a call.
const NEVER: &dyn Fn() -> Result<()> = &|| Ok(());

/// The same methods without an early end.
impl Tokenizer {
    /// Encodes under `looks`, which is called every few hundred bytes and whose error ends the call.
    pub fn under<'t>(&'t self, looks: &'t dyn Fn() -> Result<()>) -> Encoder<'t> {
        Encoder { tokenizer: self, looks }
    }

    /// See [`Encoder::encode`].
    pub fn encode(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<u32>> {
        self.under(NEVER).encode(text, add_special, parse_special)
    }

    /// See [`Encoder::encode_bytes`].
    pub fn encode_bytes(&self, text: &[u8], add_special: bool, parse_special: bool) -> Result<Vec<u32>> {
        self.under(NEVER).encode_bytes(text, add_special, parse_special)
    }

    /// See [`Encoder::encode_after`].
    pub fn encode_after(&self, past: &[u32], text: &str, parse_special: bool) -> Result<Vec<u32>> {
        self.under(NEVER).encode_after(past, text, parse_special)
    }

    /// See [`Encoder::encode_inside`].
    pub fn encode_inside(&self, text: &str) -> Result<Vec<u32>> {
        self.under(NEVER).encode_inside(text)
    }

    /// See [`Encoder::encode_rendered`].
    pub fn encode_rendered(&self, past: &[u32], text: &str, foreign: &[usize]) -> Result<Vec<u32>> {
        self.under(NEVER).encode_rendered(past, text, foreign)
    }

    /// See [`Encoder::encode_parts`].
    pub fn encode_parts(&self, parts: &[(&str, bool)]) -> Result<Vec<u32>> {
        self.under(NEVER).encode_parts(parts)
    }

    /// See [`Encoder::encode_pair`].
    pub fn encode_pair(&self, first: &str, second: &str, most: Option<usize>) -> Result<super::Pair> {
        self.under(NEVER).encode_pair(first, second, most)
    }

    /// The place after the tokens of a sequence.
    fn place_after(&self, past: &[u32]) -> Place {
        match past.last() {
            _ if past == self.roles.prefix => Place::Start,
            Some(&last) if self.ends_text(last) => Place::AfterSpecial,
            Some(_) => Place::After,
            None => Place::Start,
        }
    }

    /// Whether the text after `token` is a text of its own: the token was found in the unnormalized text, and stands for no text.
    fn ends_text(&self, token: u32) -> bool {
        self.specials.has(token) && !self.normalized_specials.has(token) && self.model.unk() != Some(token)
    }

    /// Appends the tokens of a stretch of text; gives the place after it.
    pub(super) fn encode_text(
        &self,
        text: &str,
        mut place: Place,
        control: Control<'_>,
        effort: &mut Effort,
        out: &mut Vec<u32>,
    ) -> Result<Place> {
        let fragments = match control {
            Control::Nowhere => self.specials.split(text, false),
            Control::Where(foreign) => self.specials.split_guarded(text, foreign),
        };
        for fragment in fragments {
            match fragment {
                Fragment::Token(token) => {
                    out.push(token);
                    place = Place::AfterSpecial;
                }
                Fragment::Text(part) => {
                    // The places of characters after normalizing are unknown.
                    let control = control.is_anywhere_in(text, part);
                    let text = part;
                    let normal = self.normalizer.apply(text, place, effort)?;
                    for fragment in self.normalized_specials.split(&normal, control) {
                        match fragment {
                            Fragment::Token(token) => out.push(token),
                            Fragment::Text(text) => match &self.dna {
                                None => self.encode_words(text, place, effort, out)?,
                                Some(dna) => dna.encode(text, out, |text, out| {
                                    self.encode_words(text, place, effort, out)
                                })?,
                            },
                        }
                        place = Place::Inside;
                    }
                }
            }
        }
        Ok(place)
    }

    fn encode_words(&self, text: &str, place: Place, effort: &mut Effort, out: &mut Vec<u32>) -> Result<()> {
        let found = |word: &str, effort: &mut Effort<'_>| self.encode_word(word, effort, out);
        self.pre.words(text, place, effort, found)
    }

    fn encode_word(&self, word: &str, effort: &mut Effort, out: &mut Vec<u32>) -> Result<()> {
        let spaced;
        let word = if self.escapes_space && word.contains(SPACE) {
            spaced = word.replace(SPACE, " ");
            &spaced
        } else {
            word
        };
        match &self.model {
            Model::Bpe(model) => model.encode(&self.lexicon, word, effort, out)?,
            Model::Spm(model) => model.encode(&self.lexicon, word, effort, out)?,
            Model::WordPiece(model) => model.encode(&self.lexicon, word, effort, out)?,
            Model::Unigram(model) => model.encode(&self.lexicon, word, effort, out)?,
            Model::Longest(model) => model.encode(&self.lexicon, word.as_bytes(), effort, out)?,
            Model::Plamo(model) => model.encode(&self.lexicon, word, effort, out)?,
        }
        Ok(())
    }

    /// Appends the tokens of bytes that are not text, and empties `gap`.
    fn encode_gap(&self, gap: &mut Vec<u8>, effort: &mut Effort, out: &mut Vec<u32>) -> Result<()> {
        if gap.is_empty() {
            return Ok(());
        }
        match &self.model {
            Model::Bpe(model) => model.encode_bytes(&self.lexicon, gap, effort, out)?,
            Model::Spm(model) => self.lexicon.fall_back(gap, model.unk, out),
            Model::WordPiece(model) => out.extend(model.unk),
            Model::Unigram(model) => model.encode_bytes(&self.lexicon, gap, out),
            Model::Longest(model) => model.encode(&self.lexicon, gap, effort, out)?,
            Model::Plamo(model) => self.lexicon.fall_back(gap, model.unk, out),
        }
        gap.clear();
        Ok(())
    }
}
