//! Finds special and added tokens in text.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use regex::Regex;

use crate::error::{Error, Result};
use crate::gguf::{collected, filled, with_capacity};

/// A token that is found in a text before all other steps.
#[derive(Debug, Clone, Default)]
pub(super) struct Added {
    pub(super) id: u32,
    /// Found only where control tokens are asked for.
    pub(super) control: bool,
    /// Removes the white space before it.
    pub(super) lstrip: bool,
    /// Removes the white space after it.
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

/// The tokens to find.
pub(super) struct SpecialTokens {
    /// User-defined tokens, which every text is searched for.
    always: Finder,
    /// Those and the control tokens.
    all: Finder,
}

/// The longest special token, in bytes, that is searched for. Real ones are shorter by far; the limit keeps the search small for
/// any vocabulary.
pub(super) const MAX_SEARCHED: usize = 512;
/// The most bytes of all special tokens. Gemma 3's 6,400 have 60 KB.
const MAX_BYTES: usize = 4 << 20;
/// Most bytes that building the automaton takes for each of those: its lists double when they are full.
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

    /// As [`SpecialTokens::split`] with control tokens, except those with a character at one of the byte offsets `foreign`, which
    /// are ascending.
    pub(super) fn split_guarded<'t>(&self, text: &'t str, foreign: &[usize]) -> Vec<Fragment<'t>> {
        if foreign.is_empty() {
            return self.all.split(text);
        }
        let is_foreign = |range: &Range<usize>| {
            let first = foreign.partition_point(|&at| at < range.start);
            foreign.get(first).is_some_and(|&at| at < range.end)
        };
        let mut cuts = Cuts::new(text);
        let mut at = 0;
        while let Some((range, token)) = self.all.next(text, at) {
            let spoilt = token.control && is_foreign(&range);
            // A user-defined token may begin in the same place.
            let found = match spoilt {
                false => Some((range.clone(), token)),
                true => {
                    // It is shorter than this one, which is the longest here.
                    let other = self.always.next(&text[..range.end], range.start);
                    other.filter(|(other, _)| other.start == range.start)
                }
            };
            match found {
                Some((range, token)) => {
                    at = range.end;
                    self.all.cut(&mut cuts, token, range);
                }
                None => at = range.start + text[range.start..].chars().next().map_or(1, char::len_utf8),
            }
        }
        cuts.finish()
    }

    /// Whether some text is `token`.
    pub(super) fn has(&self, token: u32) -> bool {
        self.all.tokens.iter().any(|added| added.id == token)
    }
}

/// A text to be the first of a large automaton. The builder moves each state that ends a text to the front. Then, for each moved
/// state, it walks through all states that changed places with each other: quadratic time if the front is full of them, ten
/// seconds for 50,000 tokens. After a text with as many states as all others have together, each changes places with one of the
/// filler's. The filler is never found, since no text has the byte 0xFF. Its first byte is that of a token, so the search has no
/// more possible beginnings than without it.
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
    // The four states before those of the texts change places too.
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
        let reserved = seen.try_reserve(tokens.len());
        reserved.map_err(|_| Error::NoMemory(format!("no memory for {} special tokens", tokens.len())))?;
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
            // The builder cannot fail for lack of memory, so the memory is checked first.
            let automaton_bytes = AUTOMATON_BYTES * (n_bytes + filler.as_ref().map_or(0, Vec::len));
            with_capacity::<u8>(automaton_bytes, "finding the special tokens in text")?;
            let texts = tokens.iter().map(|(text, _)| text.as_bytes());
            // The kind of automaton that stays small for any tokens.
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

    /// The texts of tokens and the texts between them. A token that begins within another one, or within white space that one
    /// removes, is left out; Hugging Face's `tokenizers` may return both.
    fn split<'t>(&self, text: &'t str) -> Vec<Fragment<'t>> {
        let mut cuts = Cuts::new(text);
        for found in self.automaton.iter().flat_map(|automaton| automaton.find_iter(text)) {
            self.cut(&mut cuts, &self.tokens[found.pattern().as_usize()], found.range());
        }
        cuts.finish()
    }

    /// The first text of a token from byte `at` on.
    fn next(&self, text: &str, at: usize) -> Option<(Range<usize>, &Added)> {
        let found = self.automaton.as_ref()?.find(Input::new(text).range(at.min(text.len())..))?;
        Some((found.range(), &self.tokens[found.pattern().as_usize()]))
    }

    /// Cuts at `token`, whose text is found at `range`.
    fn cut(&self, cuts: &mut Cuts<'_>, token: &Added, range: Range<usize>) {
        let (text, done) = (cuts.text, cuts.done);
        let Range { mut start, mut end } = range;
        if start < done || token.single_word && !self.stands_alone(&text[..start], &text[end..]) {
            return;
        }
        if token.lstrip {
            start = done + text[done..start].trim_end().len();
        }
        if token.rstrip {
            end = text.len() - text[end..].trim_start().len();
        }
        if done < start {
            cuts.fragments.push(Fragment::Text(&text[done..start]));
        }
        cuts.fragments.push(Fragment::Token(token.id));
        cuts.done = end;
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

/// The fragments of a text so far.
struct Cuts<'t> {
    text: &'t str,
    fragments: Vec<Fragment<'t>>,
    /// Everything before is in `fragments`.
    done: usize,
}

impl<'t> Cuts<'t> {
    fn new(text: &'t str) -> Cuts<'t> {
        Cuts { text, fragments: Vec::new(), done: 0 }
    }

    /// Adds the text after the last token.
    fn finish(mut self) -> Vec<Fragment<'t>> {
        if self.done < self.text.len() {
            self.fragments.push(Fragment::Text(&self.text[self.done..]));
        }
        self.fragments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Control tokens with a foreign character are text; user-defined ones are found all the same.
    #[test]
    fn control_tokens_with_foreign_characters_are_text() {
        let added = |id, control| Added { id, control, ..Added::default() };
        let tokens = vec![
            ("<|end|>", added(0, true)),
            ("<|", added(1, false)),
            ("end", added(2, false)),
            ("é>", added(3, true)),
        ];
        let special = SpecialTokens::new(tokens).expect("few tokens");
        let (text, token) = (Fragment::Text, Fragment::Token);
        assert_eq!(special.split_guarded("a<|end|>b", &[]), [text("a"), token(0), text("b")]);
        for foreign in 1..8 {
            let found = special.split_guarded("a<|end|>b", &[0, foreign]);
            assert_eq!(found, [text("a"), token(1), token(2), text("|>b")], "{foreign}");
        }
        assert_eq!(
            special.split_guarded("<|end|>é><|end|>", &[0, 7]),
            [token(1), token(2), text("|>é>"), token(0)]
        );
        assert_eq!(special.split_guarded("é>é>", &[2]), [text("é>"), token(3)]);
    }

    fn finder(texts: &[String]) -> Finder {
        let tokens = texts.iter().zip(0..).map(|(text, id)| (&**text, Added { id, ..Added::default() }));
        Finder::new(tokens.collect()).expect("few enough")
    }

    /// The fragments of a text by the definition: the leftmost, and of these the longest.
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
        // Beginnings, ends and middles of one another, in an automaton of some 11,000 states.
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

    /// Does not read the clock: quadratic time would take minutes here.
    #[test]
    fn many_tokens_are_indexed_in_linear_time() {
        // All states but the first end a text; then texts that end in the middle of others.
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
