//! Finds special and added tokens in text.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use regex::Regex;

use crate::error::{Error, Result};
use crate::gguf::{collected, filled, room_for};

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
pub(super) const MAX_SEARCHED: usize = 512;
/// The most bytes of all special tokens. Gemma 3's 6,400 have 60 KB.
const MAX_BYTES: usize = 4 << 20;
/// Bytes that building the automaton takes for each of those at most: its lists double when they are full.
const AUTOMATON_BYTES: usize = 112;
/// The most states of an automaton that is built without a filler.
const MAX_UNFILLED: usize = 4096;

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

    /// Whether some text is `token`.
    pub(super) fn has(&self, token: u32) -> bool {
        self.all.tokens.iter().any(|added| added.id == token)
    }
}

/// A text to be the first of a large automaton. Who builds it moves each state that ends a text to the front, and then walks, for
/// each state that was moved, through all that changed places with each other: a square of their number if the front
/// is full of them, ten seconds for 50,000 tokens. Behind a text of as many states as all others have together each
/// changes places with one of the filler's. It cannot be found, since no text has the byte 0xFF; its first byte is
/// a token's, so that the search looks for no more beginnings than without it.
fn filler(tokens: &[(&str, Added)]) -> Result<Option<Vec<u8>>> {
    let texts = tokens.iter().map(|(text, _)| Ok(text.as_bytes()));
    let mut sorted: Vec<&[u8]> = collected(tokens.len(), "the special tokens", texts)?;
    sorted.sort_unstable();
    let (mut n_states, mut last) = (0, &[][..]);
    for text in sorted {
        n_states += text.len() - text.iter().zip(last).take_while(|(a, b)| a == b).count();
        last = text;
    }
    if n_states <= MAX_UNFILLED {
        return Ok(None);
    }
    // The states before those of the texts are four, which change places too.
    let mut filler = filled(0xFF, n_states + 4, "finding the special tokens in text")?;
    filler[0] = last.first().copied().unwrap_or_default();
    Ok(Some(filler))
}

/// Tokens and the automaton that finds their texts.
struct Finder {
    automaton: Option<AhoCorasick>,
    /// One for each text of the automaton.
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
        let (mut automaton, mut fillers) = (None, None);
        if !tokens.is_empty() {
            let filler = filler(&tokens)?;
            // Those who build it cannot do with less: it is looked for beforehand.
            let room = AUTOMATON_BYTES * (n_bytes + filler.as_ref().map_or(0, Vec::len));
            room_for::<u8>(room, "finding the special tokens in text")?;
            let texts = tokens.iter().map(|(text, _)| text.as_bytes());
            // The kind that stays small whatever the tokens are.
            let built = AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .kind(Some(AhoCorasickKind::ContiguousNFA))
                .build(filler.as_deref().into_iter().chain(texts));
            let too_many = |e| Error::Unsupported(format!("{n} special tokens are too many: {e}"));
            automaton = Some(built.map_err(too_many)?);
            fillers = filler.map(|_| Added { id: u32::MAX, ..Added::default() });
        }
        let added = fillers.into_iter().chain(tokens.into_iter().map(|(_, added)| added));
        let tokens = collected(n + 1, "the special tokens", added.map(Ok))?;
        let word = if tokens.iter().any(|t| t.single_word) {
            Some(Regex::new(r"\w").map_err(|e| Error::Internal(format!("an expression is invalid: {e}")))?)
        } else {
            None
        };
        Ok(Finder { automaton, tokens, word })
    }

    /// The texts of tokens and what is between them. A token that begins within one, or within the white space that one took along,
    /// is left out; Hugging Face's `tokenizers` may give both.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn finder(texts: &[String]) -> Finder {
        let tokens = texts.iter().zip(0..).map(|(text, id)| (&**text, Added { id, ..Added::default() }));
        Finder::new(tokens.collect()).expect("few enough")
    }

    /// Those of a text by the definition: the leftmost, and of these the longest.
    fn expected<'t>(texts: &[String], text: &'t str) -> Vec<Fragment<'t>> {
        let (mut out, mut done, mut at) = (Vec::new(), 0, 0);
        while at < text.len() {
            let found = texts.iter().zip(0..).filter(|(token, _)| text[at..].starts_with(&***token));
            match found.max_by_key(|(token, _)| token.len()) {
                Some((token, id)) => {
                    if done < at {
                        out.push(Fragment::Text(&text[done..at]));
                    }
                    out.push(Fragment::Token(id));
                    at += token.len();
                    done = at;
                }
                None => at += text[at..].chars().next().map_or(1, char::len_utf8),
            }
        }
        if done < at {
            out.push(Fragment::Text(&text[done..]));
        }
        out
    }

    #[test]
    fn a_filler_changes_nothing_that_is_found() {
        // Beginnings, ends and the midst of one another, in an automaton of some 11,000 states.
        let mut texts: Vec<String> = (0..6000).map(|i| format!("<z{i:x}>")).collect();
        texts.extend(["z", "<z1", "z1", "f>", "<", "1f", "aab", "ab>"].map(String::from));
        let large = finder(&texts);
        assert_eq!(large.tokens.len(), texts.len() + 1);
        for text in ["<z1f>", "<<z1f", "<z1g<z176f><z1770>", "caab>aabf>1", "é<z12é", "", "<z", "zzz<z1f1f>"]
        {
            assert_eq!(large.split(text), expected(&texts, text), "{text}");
        }
        let few = &texts[..400];
        let small = finder(few);
        assert_eq!((small.tokens.len(), small.split("<z7>z")), (400, expected(few, "<z7>z")));
    }

    /// Without a look at the clock: what takes quadratic time takes minutes here.
    #[test]
    fn many_tokens_are_indexed_in_linear_time() {
        // All states end a text but the first; then texts that end in the midst of others.
        let shallow: Vec<String> = (0..100_000).map(|i| format!("z{i:x}")).collect();
        let chain: String = ('a'..='z').cycle().take(500).collect();
        let chains = (1..500).map(|n| chain[..n].to_owned());
        let deep: Vec<String> = chains.chain((0..2000).map(|i| format!("{i:04}{chain}"))).collect();
        for texts in [shallow, deep] {
            let finder = finder(&texts);
            let last = texts.last().expect("some").repeat(2);
            assert_eq!(finder.split(&last), expected(&texts, &last));
        }
    }
}
