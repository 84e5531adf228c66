//! The parts that the `tokenizers` crate does: the rarer normalizers and pre-tokenizers, exactly as their authors run them, and
//! expressions that are not regular. Without the feature of the same name `foreign_off` takes its place.
#![forbid(unsafe_code)]

use fancy_regex::{Regex, RegexBuilder};
use tokenizers::normalizers::{BertNormalizer, NFC};
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::tokenizer::{OffsetReferential, OffsetType};
use tokenizers::{NormalizedString, Normalizer as _, NormalizerWrapper};
use tokenizers::{PreTokenizedString, PreTokenizer as _, PreTokenizerWrapper};

use super::effort::Effort;
use crate::error::{Error, Result};

/// A normalizer.
pub(super) struct ForeignNormalizer(pub(super) Box<NormalizerWrapper>);

impl ForeignNormalizer {
    /// BERT's: no control characters, space around Chinese characters and, if `lowercase`, lower case. By default accents are
    /// removed when the case is.
    pub(super) fn bert(strip_accents: Option<bool>, lowercase: bool) -> Result<ForeignNormalizer> {
        let bert = BertNormalizer::new(true, true, strip_accents, lowercase);
        Ok(ForeignNormalizer(Box::new(NormalizerWrapper::BertNormalizer(bert))))
    }

    /// Composed characters.
    pub(super) fn nfc() -> Result<ForeignNormalizer> {
        Ok(ForeignNormalizer(Box::new(NormalizerWrapper::NFC(NFC))))
    }

    /// The normalized text.
    ///
    /// # Errors
    /// `Unsupported` if it fails or takes too long, and what ends `effort`.
    pub(super) fn apply(&self, text: &str, effort: &mut Effort) -> Result<String> {
        let mut out = String::with_capacity(text.len());
        for chunk in (Chunks { rest: text, may_begin: self.may_begin() }) {
            effort.check_now()?;
            let mut changed = NormalizedString::from(chunk);
            self.0
                .normalize(&mut changed)
                .map_err(|e| Error::Unsupported(format!("the text could not be normalized: {e}")))?;
            out.push_str(changed.get());
        }
        Ok(out)
    }

    /// Which characters begin a text that may be normalized independently of the text before it.
    fn may_begin(&self) -> fn(char) -> bool {
        use NormalizerWrapper::{BertNormalizer, Lowercase, NFC, NFD, NFKC, NFKD, StripAccents};
        match *self.0 {
            BertNormalizer(_) | Lowercase(_) | NFC(_) | NFD(_) | NFKC(_) | NFKD(_) | StripAccents(_) => {
                stands_alone
            }
            _ => |_| false,
        }
    }
}

/// Whether a character composes with none before it, keeps its place when marks are sorted, and stays when control characters are
/// removed: printable ASCII, and letters of the most frequent scripts.
fn stands_alone(c: char) -> bool {
    matches!(c,
        '\t' | '\n' | '\r' | ' '..='~'
        | '\u{c0}'..='\u{24f}' // Latin
        | '\u{391}'..='\u{3ff}' // Greek
        | '\u{400}'..='\u{481}' // Cyrillic
        | '\u{5d0}'..='\u{5ea}' // Hebrew
        | '\u{620}'..='\u{64a}' // Arabic
        | '\u{904}'..='\u{939}' // Devanagari
        | '\u{e01}'..='\u{e30}' // Thai
        | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' // Kana
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' // Han
        | '\u{ac00}'..='\u{d7a3}' // Hangul
    )
}

/// A text in chunks of some 4 KiB; each but the first begins with a character that may.
struct Chunks<'t> {
    rest: &'t str,
    may_begin: fn(char) -> bool,
}

/// Bytes of a chunk at least: some milliseconds' work.
const CHUNK: usize = 4096;

impl<'t> Iterator for Chunks<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let least = self.rest.ceil_char_boundary(CHUNK);
        let end = self.rest[least..].find(self.may_begin).map_or(self.rest.len(), |at| least + at);
        let (chunk, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!chunk.is_empty()).then_some(chunk)
    }
}

/// A pre-tokenizer.
pub(super) struct ForeignPreTokenizer(pub(super) Box<PreTokenizerWrapper>);

impl ForeignPreTokenizer {
    /// BERT's words: cut at white space and around each mark of punctuation.
    pub(super) fn bert() -> Result<ForeignPreTokenizer> {
        Ok(ForeignPreTokenizer(Box::new(PreTokenizerWrapper::BertPreTokenizer(BertPreTokenizer))))
    }

    /// Calls `found` with the words of `piece`, in order.
    ///
    /// # Errors
    /// `Unsupported` if it fails or takes too long, and what ends `effort`.
    pub(super) fn words(
        &self,
        piece: &str,
        effort: &mut Effort,
        mut found: impl FnMut(String),
    ) -> Result<()> {
        for chunk in (Chunks { rest: piece, may_begin: self.may_begin() }) {
            effort.check_now()?;
            let mut split = PreTokenizedString::from(chunk);
            self.0
                .pre_tokenize(&mut split)
                .map_err(|e| Error::Unsupported(format!("the text could not be cut into words: {e}")))?;
            let words = split.get_splits(OffsetReferential::Normalized, OffsetType::None);
            words.into_iter().for_each(|(word, ..)| found(word.to_owned()));
        }
        Ok(())
    }

    /// Which characters never continue a word.
    fn may_begin(&self) -> fn(char) -> bool {
        match *self.0 {
            PreTokenizerWrapper::BertPreTokenizer(_) => |c| c.is_whitespace() || c.is_ascii_punctuation(),
            PreTokenizerWrapper::Whitespace(_) | PreTokenizerWrapper::WhitespaceSplit(_) => {
                char::is_whitespace
            }
            _ => |_| false,
        }
    }
}

/// An expression that is not regular.
#[derive(Clone)]
pub(super) struct Backtracking(Regex);

/// How many times one attempt to match may backtrack. Real expressions need a few; at some microseconds each, this is a fraction
/// of a second.
const MOST_BACKTRACKS: usize = 100_000;

impl Backtracking {
    /// Compiles an expression, or returns what is wrong with it. Each of its regular parts may take `program_bytes`, and its
    /// states `state_bytes`.
    pub(super) fn new(
        expression: &str,
        program_bytes: usize,
        state_bytes: usize,
    ) -> std::result::Result<Backtracking, String> {
        let compile = |expression: &str| {
            RegexBuilder::new(expression)
                .backtrack_limit(MOST_BACKTRACKS)
                .delegate_size_limit(program_bytes)
                .delegate_dfa_size_limit(state_bytes)
                .build()
                .map_err(|e| e.to_string())
        };
        // Its errors are about the expression itself.
        compile(expression)?;
        compile(&[r"\G(?:", expression, ")"].concat()).map(Backtracking)
    }

    /// The match in `text` that begins at `at`, if there is one; assertions see the text before `at`.
    ///
    /// # Errors
    /// `Unsupported` when it takes too long.
    pub(super) fn match_at(&self, text: &str, at: usize) -> Result<Option<(usize, usize)>> {
        match self.0.find_from_pos(text, at) {
            Ok(found) => Ok(found.map(|found| (found.start(), found.end()))),
            Err(e) => Err(Error::Unsupported(format!(
                "the tokenizer takes too long on this text: an expression gives up at byte {at}: {e}"
            ))),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
mod tests {
    use tokenizers::NormalizedString;
    use tokenizers::normalizers::{Lowercase, NFD, NFKC, NFKD, StripAccents};

    use super::*;

    /// A text of 100,000 characters: letters that stand alone, marks that compose with them and are sorted, control characters.
    fn text(seed: u32) -> String {
        let interesting: Vec<char> = "eaßΣσςİıｶﾞがはﾟ각ᄀ ᅡᆨक़ऴ\u{93c}\u{9be}\u{9c7}َّ\u{300}\u{301}\u{302e}\u{316}\u{327}\u{345}\u{1d165}\u{fffd}\u{1}\u{200d} \t.,漢ﬁ①\u{a8}\u{37a}\u{1e9b}\u{323}ёй"
            .chars()
            .collect();
        let mut state = seed;
        let mut next = |n: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as usize % n
        };
        (0..100_000)
            .map(|_| match next(4) {
                0 => char::from_u32(next(0x3000) as u32).unwrap_or(' '),
                1 => char::from_u32(next(0x11_0000) as u32).unwrap_or('\u{301}'),
                _ => interesting[next(interesting.len())],
            })
            .collect()
    }

    #[test]
    fn chunks_are_normalized_as_the_whole_text_is() {
        let normalizers = [
            ForeignNormalizer::bert(None, true).unwrap(),
            ForeignNormalizer::bert(Some(false), false).unwrap(),
            ForeignNormalizer::bert(Some(true), false).unwrap(),
            ForeignNormalizer::nfc().unwrap(),
            ForeignNormalizer(Box::new(NormalizerWrapper::NFD(NFD))),
            ForeignNormalizer(Box::new(NormalizerWrapper::NFKC(NFKC))),
            ForeignNormalizer(Box::new(NormalizerWrapper::NFKD(NFKD))),
            ForeignNormalizer(Box::new(NormalizerWrapper::Lowercase(Lowercase))),
            ForeignNormalizer(Box::new(NormalizerWrapper::StripAccents(StripAccents))),
        ];
        for seed in 0..4 {
            let text = text(seed);
            for (i, normalizer) in normalizers.iter().enumerate() {
                let n_chunks = Chunks { rest: &text, may_begin: normalizer.may_begin() }.count();
                assert!(n_chunks > 20, "{n_chunks} chunks");
                let mut whole = NormalizedString::from(&*text);
                normalizer.0.normalize(&mut whole).unwrap();
                let chunked = normalizer.apply(&text, &mut Effort::new(text.len())).unwrap();
                assert!(chunked == whole.get(), "normalizer {i}, seed {seed}");
            }
        }
    }

    /// Every character that may begin a chunk, after letters and marks that could join it.
    #[test]
    fn no_character_that_begins_a_chunk_is_taken_by_those_before_it() {
        let normalizers =
            [ForeignNormalizer::nfc().unwrap(), ForeignNormalizer(Box::new(NormalizerWrapper::NFKD(NFKD)))];
        for c in (0..0x11_0000).filter_map(char::from_u32).filter(|&c| stands_alone(c)) {
            for before in ["e\u{301}", "a", "\u{928}", "\u{1100}", "\u{ac00}", "\u{304b}", "\u{a8}"] {
                for normalizer in &normalizers {
                    let parts = [before, &c.to_string()];
                    let apply = |text: &str| normalizer.apply(text, &mut Effort::new(text.len())).unwrap();
                    assert_eq!(apply(&parts.concat()), parts.map(apply).concat(), "{c:?} after {before:?}");
                }
            }
        }
    }

    #[test]
    fn chunks_are_cut_into_words_as_the_whole_text_is() {
        use tokenizers::pre_tokenizers::whitespace::{Whitespace, WhitespaceSplit};
        let pre_tokenizers = [
            ForeignPreTokenizer::bert().unwrap(),
            ForeignPreTokenizer(Box::new(PreTokenizerWrapper::Whitespace(Whitespace))),
            ForeignPreTokenizer(Box::new(PreTokenizerWrapper::WhitespaceSplit(WhitespaceSplit))),
        ];
        for (i, pre_tokenizer) in pre_tokenizers.iter().enumerate() {
            let text = text(9);
            assert!(Chunks { rest: &text, may_begin: pre_tokenizer.may_begin() }.count() > 20);
            let mut split = PreTokenizedString::from(&*text);
            pre_tokenizer.0.pre_tokenize(&mut split).unwrap();
            let whole: Vec<_> = split.get_splits(OffsetReferential::Normalized, OffsetType::None);
            let mut words = Vec::new();
            pre_tokenizer.words(&text, &mut Effort::new(text.len()), |word| words.push(word)).unwrap();
            assert!(words.iter().map(|w| &**w).eq(whole.iter().map(|w| w.0)), "pre-tokenizer {i}");
        }
    }
}
