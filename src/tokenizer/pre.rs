//! Pre-tokenizers: how text is cut into words before a model makes tokens of each.
//!
//! The published expressions end in `\s+(?!\S)|\s+`: a run of white space leaves its last character to the next word. A
//! look-ahead needs a backtracking engine, which on hostile text fails or takes quadratic time. So the expressions here end in
//! plain `\s+`, and [`Cut::cut`] gives that last character back itself. The rest is regular, and the regex engine matches it in
//! linear time.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::Place;
use super::effort::Effort;
use super::expression::{Expressions, Matcher};
use super::foreign::ForeignPreTokenizer;
use crate::error::{Error, Result, quoted, shortened};

/// One expression. The text between its matches becomes pieces as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern<'p> {
    /// Matches are pieces as they are.
    Split(&'p str),
    /// As `Split`; a match that is a run of white space leaves its last character to the next word.
    Words(&'p str),
    /// As `Words`, for expressions with separate matches of line ends: a run that ends in one stays whole.
    Lines(&'p str),
    /// As `Lines`, but where a word follows such a run, the largest power of two up to 512 that leaves some of it is cut off
    /// (Jais 2).
    Powers(&'p str),
    /// A match is cut into threes of characters, counted from its end.
    Threes(&'p str),
}

impl<'p> Pattern<'p> {
    /// A published expression, without the look-ahead described above if it ends in one.
    pub(super) fn published(expression: &'p str, storage: &'p mut String) -> Pattern<'p> {
        match expression.strip_suffix(r"|\s+(?!\S)|\s+").or(expression.strip_suffix(r"|\s+(?!\S)")) {
            Some(rest) => {
                *storage = [rest, r"|\s+"].concat();
                let lines = rest.contains(r"\s*[\r\n]+") || rest.contains("\\s*[\r\n]+");
                if lines { Pattern::Lines(storage) } else { Pattern::Words(storage) }
            }
            None => Pattern::Split(expression),
        }
    }
}

/// The treatment of a match that is a run of white space.
#[derive(Clone, Copy)]
enum White {
    StaysWhole,
    GivesLastBack,
    GivesLastBackUnlessLineEnd,
    IsCutByPowers,
    /// Every match is cut into threes.
    Threes,
}

/// One stage of a pre-tokenizer.
pub(super) enum Stage {
    /// An expression.
    Cut(Cut),
    /// Anything else, by the `tokenizers` crate.
    Other {
        pre_tokenizer: ForeignPreTokenizer,
        /// The same without the space that it puts before texts.
        bare: Option<ForeignPreTokenizer>,
        /// Only the text that starts the sequence gets that space; otherwise each text that does not continue another.
        only_first: bool,
        /// Text without this is one piece.
        needs: Option<String>,
    },
}

impl Stage {
    /// BERT's words: cut at white space and around each mark of punctuation.
    pub(super) fn bert() -> Result<Stage> {
        let pre_tokenizer = ForeignPreTokenizer::bert()?;
        Ok(Stage::Other { pre_tokenizer, bare: None, only_first: false, needs: None })
    }
}

/// A compiled expression.
pub(super) struct Cut {
    matcher: Matcher,
    white: White,
    keeps: Keeps,
}

/// Which pieces of a text are words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    Matches,
    Gaps,
    Both,
}

/// Stages, each applied to the pieces of the one before it; without any, text is one word.
#[derive(Default)]
pub(super) struct PreTokenizer {
    pub(super) stages: Vec<Stage>,
    /// A space is put before each text that begins with none, unless it continues another text.
    pub(super) prefix_space: bool,
}

impl PreTokenizer {
    /// One of these stages.
    pub(super) fn of(stages: Vec<Stage>) -> PreTokenizer {
        PreTokenizer { stages, prefix_space: false }
    }

    /// Calls `found` with each word of `text`, which is at `place`, in order.
    pub(super) fn words(
        &self,
        text: &str,
        place: Place,
        effort: &mut Effort,
        mut found: impl FnMut(&str, &mut Effort) -> Result<()>,
    ) -> Result<()> {
        let spaced;
        let text = if self.prefix_space && place != Place::After && !text.starts_with(' ') && !text.is_empty()
        {
            spaced = [" ", text].concat();
            &spaced
        } else {
            text
        };
        let whole = 0..text.len();
        let mut pieces = vec![whole];
        for (index, stage) in self.stages.iter().enumerate() {
            let cut = match stage {
                Stage::Cut(cut) => cut,
                Stage::Other { needs: Some(needs), .. } if !text.contains(&**needs) => continue,
                Stage::Other { .. } => {
                    // Such a stage may change the text, so pieces are owned from here on.
                    let goes_on = place == Place::After && pieces.first().is_some_and(|r| r.start == 0);
                    let start = place == Place::Start;
                    let pieces = pieces.into_iter().map(|r| text[r].to_owned()).collect();
                    return owned_words(&self.stages[index..], pieces, (start, goes_on), effort, found);
                }
            };
            let mut finer = Vec::with_capacity(pieces.len());
            for piece in pieces {
                cut.cut(&text[piece.clone()], piece.start, effort, &mut finer)?;
            }
            pieces = finer;
        }
        pieces.into_iter().filter(|r| !r.is_empty()).try_for_each(|r| found(&text[r], effort))
    }
}

/// As [`PreTokenizer::words`] for the remaining stages and `pieces`, of which the first one may start the sequence, or continue
/// another text.
fn owned_words(
    stages: &[Stage],
    mut pieces: Vec<String>,
    (start, mut goes_on): (bool, bool),
    effort: &mut Effort,
    mut found: impl FnMut(&str, &mut Effort) -> Result<()>,
) -> Result<()> {
    for stage in stages {
        let mut finer = Vec::with_capacity(pieces.len());
        for (index, piece) in pieces.into_iter().enumerate() {
            let first = index == 0;
            match stage {
                Stage::Cut(cut) => {
                    let mut ranges = Vec::new();
                    cut.cut(&piece, 0, effort, &mut ranges)?;
                    goes_on &= !first || ranges.first().is_some_and(|r| r.start == 0);
                    finer.extend(ranges.into_iter().map(|r| piece[r].to_owned()));
                }
                Stage::Other { pre_tokenizer, bare, only_first, .. } => {
                    effort.check_now()?;
                    let spaced = if *only_first { first && start } else { !(first && goes_on) };
                    let own = bare.as_ref().filter(|_| !spaced).unwrap_or(pre_tokenizer);
                    // Nothing comes before the first word, so it continues an empty text.
                    own.words(&piece, effort, |word| finer.push(word))?;
                    if first && goes_on {
                        goes_on = finer.first().is_some_and(|word| piece.starts_with(&**word));
                    }
                }
            }
        }
        pieces = finer;
    }
    pieces.iter().filter(|word| !word.is_empty()).try_for_each(|word| found(word, effort))
}

impl Cut {
    /// Compiles an expression of the tokenizer `name`.
    ///
    /// # Errors
    /// `Format` if it is invalid.
    pub(super) fn new(pattern: Pattern<'_>, name: &str, expressions: &mut Expressions) -> Result<Cut> {
        let (expression, white) = match pattern {
            Pattern::Split(e) => (e, White::StaysWhole),
            Pattern::Words(e) => (e, White::GivesLastBack),
            Pattern::Lines(e) => (e, White::GivesLastBackUnlessLineEnd),
            Pattern::Powers(e) => (e, White::IsCutByPowers),
            Pattern::Threes(e) => (e, White::Threes),
        };
        let matcher = expressions.compile(expression).map_err(|e| {
            Error::Format(format!(
                "the expression {} of the pre-tokenizer {} is invalid: {}",
                quoted(expression.as_bytes()),
                quoted(name.as_bytes()),
                shortened(e)
            ))
        })?;
        Ok(Cut { matcher, white, keeps: Keeps::Both })
    }

    /// The same, but only some of the pieces are words.
    pub(super) fn keeping(self, keeps: Keeps) -> Cut {
        Cut { keeps, ..self }
    }

    /// Appends the pieces of `text`, whose first byte is number `base` of the whole, to `out`.
    fn cut(&self, text: &str, base: usize, effort: &mut Effort, out: &mut Vec<Range<usize>>) -> Result<()> {
        let mut push = |from: usize, to: usize, kind: Keeps| {
            if from < to && (self.keeps == Keeps::Both || self.keeps == kind) {
                out.push(base + from..base + to);
            }
        };
        let mut at = 0; // everything before is in pieces
        let mut from = 0; // where to look for the next match
        while let Some((start, end)) = self.matcher.find(text, from, effort)? {
            push(at, start, Keeps::Gaps);
            at = self.word_end(text, start, end);
            let mut begin = start;
            for len in self.parts(&text[start..at]) {
                let part_end = text[begin..at].char_indices().nth(len).map_or(at, |(i, _)| begin + i);
                push(begin, part_end, Keeps::Matches);
                begin = part_end;
            }
            push(begin, at, Keeps::Matches);
            // A character that was given back belongs to the next match; after an empty match the search moves on.
            from = if at > from { at } else { text.ceil_char_boundary(at + 1) };
            if from > text.len() || at == text.len() {
                break;
            }
        }
        push(at, text.len(), Keeps::Gaps);
        Ok(())
    }

    /// How many characters each piece of the match `word` has; the rest is a piece too.
    fn parts(&self, word: &str) -> Vec<usize> {
        match self.white {
            White::Threes => {
                let n = word.chars().count();
                let first = if n.is_multiple_of(3) { 3 } else { n % 3 };
                std::iter::once(first).chain(std::iter::repeat_n(3, (n - first) / 3)).collect()
            }
            White::IsCutByPowers if word.chars().all(|c| c.is_whitespace() && !matches!(c, '\r' | '\n')) => {
                let (mut left, mut out) = (word.chars().count(), Vec::new());
                for power in (0..=9).rev().map(|i| 1 << i) {
                    let n = left / power;
                    out.extend(std::iter::repeat_n(power, n));
                    left -= n * power;
                }
                out
            }
            _ => Vec::new(),
        }
    }

    /// Where the piece of the match `start..end` ends: before its last character if it is a run of white space before a word.
    fn word_end(&self, text: &str, start: usize, end: usize) -> usize {
        let word = &text[start..end];
        let stays_whole = match self.white {
            White::StaysWhole => true,
            White::GivesLastBack => false,
            White::GivesLastBackUnlessLineEnd | White::IsCutByPowers => word.ends_with(['\r', '\n']),
            White::Threes => true,
        };
        if stays_whole || end == text.len() || !word.chars().all(char::is_whitespace) {
            return end;
        }
        match word.char_indices().next_back() {
            Some((last, _)) if last > 0 => start + last,
            _ => end,
        }
    }
}
