//! Finds special and added tokens in text.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use regex::Regex;

use crate::error::{Error, Result};
use crate::gguf::{collected, room_for};

/// A token that is found in text before anything else is done with it.
#[derive(Debug, Clone, Default)]
pub(super) struct Added {
    pub(super) id: u32,
    /// Found only where control tokens are asked for.
    pub(super) control: bool,
    /// Takes the white space before it along.
    pub(super) lstrip: bool,
    /// Takes the white space behind it along.
    pub(super) rstrip: bool,
    /// Found only between characters that are no part of a word.
    pub(super) single_word: bool,
}

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fragment<'t> {
    /// To be encoded.
    Text(&'t str),
    /// Spelled a special token.
    Token(u32),
}

/// The tokens to be found.
pub(super) struct SpecialTokens {
    /// User-defined tokens, which every text is searched for.
    always: Finder,
    /// Those and the control tokens.
    all: Finder,
}

/// The longest special token, in bytes, that is looked for in text. Real ones are shorter by far; the limit keeps the
/// search small for any vocabulary.
const MAX_SEARCHED: usize = 512;
/// The most bytes of all special tokens. Gemma 3's 6,400 have 60 KB.
const MAX_BYTES: usize = 4 << 20;
/// Bytes that the automaton takes for each of those, about.
const AUTOMATON_BYTES: usize = 50;

impl SpecialTokens {
    /// Indexes tokens by their texts. Of tokens with the same text the first counts.
    ///
    /// # Errors
    /// `Unsupported` if there are more than are indexed.
    pub(super) fn new(tokens: Vec<(&str, Added)>) -> Result<SpecialTokens> {
        let plain = tokens.iter().filter(|(_, added)| !added.control).cloned().map(Ok);
        let plain = collected(tokens.len(), "the special tokens", plain)?;
        Ok(SpecialTokens { always: Finder::new(plain)?, all: Finder::new(tokens)? })
    }

    /// Cuts `text` at special tokens; control tokens count only if `control` is true. The leftmost token wins; of those
    /// that begin at one place, the longest.
    pub(super) fn split<'t>(&self, text: &'t str, control: bool) -> Vec<Fragment<'t>> {
        let finder = if control { &self.all } else { &self.always };
        finder.split(text)
    }
}

/// Tokens and the automaton that finds their texts.
struct Finder {
    automaton: Option<AhoCorasick>,
    /// One for each text.
    tokens: Vec<Added>,
    /// A character that is part of a word, if any token needs to know.
    word: Option<Regex>,
}

impl Finder {
    fn new(mut tokens: Vec<(&str, Added)>) -> Result<Finder> {
        let mut seen = HashSet::new();
        let room = seen.try_reserve(tokens.len());
        room.map_err(|_| Error::NoMemory(format!("no memory for {} special tokens", tokens.len())))?;
        tokens.retain(|(text, _)| (1..=MAX_SEARCHED).contains(&text.len()) && seen.insert(*text));
        let (n, n_bytes) = (tokens.len(), tokens.iter().map(|(text, _)| text.len()).sum::<usize>());
        if n_bytes > MAX_BYTES {
            return Err(Error::Unsupported(format!(
                "the texts of {n} special tokens have {n_bytes} bytes, more than {MAX_BYTES}"
            )));
        }
        let automaton = if tokens.is_empty() {
            None
        } else {
            // Those who build it cannot do with less: it is looked for beforehand.
            room_for::<u8>(AUTOMATON_BYTES * n_bytes, "finding the special tokens in text")?;
            // The kind that stays small whatever the tokens are.
            let built = AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .kind(Some(AhoCorasickKind::ContiguousNFA))
                .build(tokens.iter().map(|(text, _)| text));
            Some(built.map_err(|e| Error::Unsupported(format!("{n} special tokens are too many: {e}")))?)
        };
        let n = tokens.len();
        let tokens = collected(n, "the special tokens", tokens.into_iter().map(|(_, added)| Ok(added)))?;
        let word = if tokens.iter().any(|t| t.single_word) {
            Some(Regex::new(r"\w").map_err(|e| Error::Internal(format!("an expression is invalid: {e}")))?)
        } else {
            None
        };
        Ok(Finder { automaton, tokens, word })
    }

    fn split<'t>(&self, text: &'t str) -> Vec<Fragment<'t>> {
        let mut fragments = Vec::new();
        let mut done = 0; // everything before is in fragments
        for found in self.automaton.iter().flat_map(|automaton| automaton.find_iter(text)) {
            let (mut start, mut end) = (found.start(), found.end());
            let token = &self.tokens[found.pattern().as_usize()];
            if start < done || token.single_word && !self.stands_alone(&text[..start], &text[end..]) {
                continue;
            }
            if token.lstrip {
                start = done + text[done..start].trim_end().len();
            }
            if token.rstrip {
                end = text.len() - text[end..].trim_start().len();
            }
            if done < start {
                fragments.push(Fragment::Text(&text[done..start]));
            }
            fragments.push(Fragment::Token(token.id));
            done = end;
        }
        if done < text.len() {
            fragments.push(Fragment::Text(&text[done..]));
        }
        fragments
    }

    /// Whether neither neighbour is part of a word.
    fn stands_alone(&self, before: &str, after: &str) -> bool {
        let is_word = |c: Option<char>| {
            let mut buffer = [0; 4];
            c.zip(self.word.as_ref()).is_some_and(|(c, word)| word.is_match(c.encode_utf8(&mut buffer)))
        };
        !is_word(before.chars().next_back()) && !is_word(after.chars().next())
    }
}
