//! Pre-tokenizers: how text is cut into words before byte-pair merging.
//!
//! A GGUF file names its pre-tokenizer in `tokenizer.ggml.pre`; the name stands for one or more regular expressions
//! that belong to the tokenizer the model was trained with. This table holds the ones Ember knows.
//!
//! The published expressions end in `\s+(?!\S)|\s+`: a run of white space leaves its last character to the word that
//! follows. A look-ahead needs a backtracking engine, which on hostile text fails or takes quadratic time, so the
//! expressions here end in plain `\s+` and [`PreTokenizer::split`] gives that last character back itself. What is
//! left is regular, and the regex engine matches it in linear time.
#![forbid(unsafe_code)]

use std::ops::Range;

use tokenizers::utils::SysRegex;

use crate::error::{Error, Result};

/// One row of the registry: the facts that a pre-tokenizer's names stand for.
struct Entry {
    /// The values of `tokenizer.ggml.pre` that mean this entry.
    names: &'static [&'static str],
    /// Applied in order, each to the pieces the one before it left.
    stages: &'static [Stage],
    /// A word that is itself a token is not merged from its letters.
    ignore_merges: bool,
    /// Whether text starts with BOS when the file does not say.
    add_bos: bool,
}

/// One expression. The text between its matches becomes pieces as well.
#[derive(Clone, Copy)]
enum Stage {
    /// Matches are pieces as they are.
    Split(&'static str),
    /// As `Split`; a match that is a run of white space leaves its last character to the word that follows.
    Words(&'static str),
    /// As `Words`, for expressions that match line ends on their own: a run that ends in one stays whole.
    Lines(&'static str),
}

use Stage::{Lines, Split, Words};

const GPT2: Stage = Words(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+");
const LLAMA3: Stage = Lines(concat!(
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
));
const QWEN2: Stage = Lines(concat!(
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
));
const QWEN35: Stage = Lines(concat!(
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}",
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
));
const DEEPSEEK3: Stage = Lines(concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+"
));

/// Every pre-tokenizer Ember knows.
#[rustfmt::skip]
static REGISTRY: &[Entry] = &[
    Entry { names: &["default"],
        stages: &[Split(r"[\p{P}\$\+<=>\^~\|]+"), GPT2, Split(r"\p{N}+"), Split("[0-9][0-9][0-9]")],
        ignore_merges: false, add_bos: false },
    Entry { names: &["gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "exaone4", "mpt", "olmo", "jais", "trillion",
            "granite-docling"],
        stages: &[GPT2], ignore_merges: false, add_bos: false },
    Entry { names: &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"],
        stages: &[Split(r"\p{N}"), GPT2], ignore_merges: false, add_bos: false },
    Entry { names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        stages: &[LLAMA3], ignore_merges: true, add_bos: true },
    Entry { names: &["dbrx", "smaug-bpe", "glm4", "chatglm-bpe"],
        stages: &[LLAMA3], ignore_merges: false, add_bos: false },
    Entry { names: &["qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "solar-open", "grok-2", "kormo"],
        stages: &[QWEN2], ignore_merges: false, add_bos: false },
    Entry { names: &["qwen35"],
        stages: &[QWEN35], ignore_merges: false, add_bos: false },
    Entry { names: &["falcon"],
        stages: &[Split(r"[\p{P}\$\+<=>\^~\|`]+"), GPT2, Split("[0-9][0-9][0-9]")],
        ignore_merges: false, add_bos: false },
    Entry { names: &["deepseek-v3", "hunyuan-dense", "joyai-llm"],
        stages: &[Split(r"\p{N}{1,3}"), Split("[一-龥぀-ゟ゠-ヿ]+"), DEEPSEEK3],
        ignore_merges: false, add_bos: false },
];

/// A compiled pre-tokenizer.
pub(super) struct PreTokenizer {
    stages: Vec<(Stage, SysRegex)>,
    /// A word that is itself a token is taken whole, without merging.
    pub(super) ignore_merges: bool,
    /// The value of `tokenizer.ggml.add_bos_token` that its absence means.
    pub(super) add_bos: bool,
}

impl PreTokenizer {
    /// The pre-tokenizer of that name, or an error that lists the known names.
    pub(super) fn named(name: &str) -> Result<PreTokenizer> {
        let Some(entry) = REGISTRY.iter().find(|e| e.names.contains(&name)) else {
            return Err(Error::Unsupported(format!(
                "the pre-tokenizer {name:?} (key \"tokenizer.ggml.pre\") is not supported; known are {}",
                known_names().join(", ")
            )));
        };
        let compile = |&stage: &Stage| match SysRegex::new(stage.pattern()) {
            Ok(regex) => Ok((stage, regex)),
            Err(e) => {
                Err(Error::Internal(format!("a pattern of the pre-tokenizer {name:?} is invalid: {e}")))
            }
        };
        Ok(PreTokenizer {
            stages: entry.stages.iter().map(compile).collect::<Result<_>>()?,
            ignore_merges: entry.ignore_merges,
            add_bos: entry.add_bos,
        })
    }

    /// Cuts `text` into words: byte ranges that follow one another and cover it.
    pub(super) fn split(&self, text: &str) -> Vec<Range<usize>> {
        let whole = 0..text.len();
        let mut pieces = vec![whole];
        for (stage, regex) in &self.stages {
            let mut finer = Vec::with_capacity(pieces.len());
            for piece in pieces {
                stage.split(regex, &text[piece.clone()], piece.start, &mut finer);
            }
            pieces = finer;
        }
        pieces
    }
}

impl Stage {
    fn pattern(&self) -> &'static str {
        match self {
            Split(p) | Words(p) | Lines(p) => p,
        }
    }

    /// Appends the pieces of `text`, whose first byte is number `base` of the whole, to `out`.
    fn split(&self, regex: &SysRegex, text: &str, base: usize, out: &mut Vec<Range<usize>>) {
        let mut push = |from: usize, to: usize| {
            if from < to {
                out.push(base + from..base + to);
            }
        };
        let mut at = 0; // everything before is in pieces
        'search: loop {
            let origin = at;
            for (start, end) in regex.find_iter(&text[origin..]) {
                let (start, end) = (origin + start, origin + end);
                push(at, start);
                let kept = self.word_end(text, start, end);
                push(start, kept);
                at = kept;
                if kept < end {
                    continue 'search; // the character given back belongs to the next match
                }
            }
            push(at, text.len());
            return;
        }
    }

    /// Where the piece of the match `start..end` ends: before its last character if it is a run of white space that
    /// a word follows.
    fn word_end(&self, text: &str, start: usize, end: usize) -> usize {
        let word = &text[start..end];
        let stays_whole = match self {
            Split(_) => true,
            Words(_) => false,
            Lines(_) => word.ends_with(['\r', '\n']),
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

/// All names of the registry, sorted.
fn known_names() -> Vec<&'static str> {
    let mut names: Vec<_> = REGISTRY.iter().flat_map(|e| e.names).copied().collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
mod tests {
    use super::*;

    fn words<'t>(pre: &str, text: &'t str) -> Vec<&'t str> {
        PreTokenizer::named(pre).unwrap().split(text).into_iter().map(|r| &text[r]).collect()
    }

    #[test]
    fn white_space_leaves_its_last_character_to_the_next_word() {
        assert_eq!(words("gpt-2", "a   b"), ["a", "  ", " b"]);
        assert_eq!(words("gpt-2", "a\n\nb"), ["a", "\n", "\n", "b"]);
        assert_eq!(words("gpt-2", "a \u{3000}\u{3000}é  "), ["a", " \u{3000}", "\u{3000}", "é", "  "]);
        assert_eq!(words("llama-bpe", "a\n\n  b"), ["a", "\n\n", " ", " b"]);
        assert_eq!(words("llama-bpe", "a \t\n"), ["a", " \t\n"]);
        assert_eq!(words("gpt-2", "I'll it's 'x"), ["I", "'ll", " it", "'s", " '", "x"]);
    }

    #[test]
    fn digits_are_grouped_as_each_tokenizer_wants() {
        assert_eq!(words("gpt-2", "x 12345"), ["x", " 12345"]);
        assert_eq!(words("smollm", "x 123"), ["x", " ", "1", "2", "3"]);
        assert_eq!(words("qwen2", "x 123"), ["x", " ", "1", "2", "3"]);
        assert_eq!(words("llama-bpe", "12345"), ["123", "45"]);
        // The digit stage comes first, so the white space before a digit is at the end of its piece.
        assert_eq!(words("smollm", "a   5"), ["a", "   ", "5"]);
    }

    #[test]
    fn pieces_follow_one_another_and_cover_the_text() {
        let text = "Hé  llo,\r\n\r\n wörld 3.14 — 日本語 ½ \u{85}\u{a0}x'S'lL\t\t";
        for name in known_names() {
            assert_eq!(words(name, text).concat(), text, "{name}");
        }
        assert!(words("gpt-2", "").is_empty());
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let e = PreTokenizer::named("gpt-17").err().unwrap();
        assert!(matches!(e, Error::Unsupported(_)));
        assert!(e.message().contains("\"gpt-17\"") && e.message().contains("smaug-bpe, smollm"), "{e}");
    }

    #[test]
    fn every_name_means_one_entry() {
        let names = known_names();
        assert!(names.windows(2).all(|w| w[0] != w[1]));
    }

    #[test]
    fn megabytes_of_one_character_split_in_linear_time() {
        let start = std::time::Instant::now();
        for text in [" ".repeat(4 << 20), "a".repeat(4 << 20), " \n".repeat(2 << 20), "  a".repeat(1 << 20)] {
            for name in ["default", "gpt-2", "smollm", "llama-bpe", "qwen2", "deepseek-v3"] {
                let pieces = PreTokenizer::named(name).unwrap().split(&text);
                assert_eq!(pieces.last().unwrap().end, text.len());
            }
        }
        assert!(start.elapsed().as_secs() < 60, "took {:?}", start.elapsed());
    }
}
