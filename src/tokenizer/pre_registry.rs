//! The pre-tokenizers that GGUF files name in `tokenizer.ggml.pre`: a name stands for one or more regular expressions and a few
//! other properties of the tokenizer that the model was trained with. The expressions are the published ones of each model's
//! `tokenizer.json`; the names are llama.cpp's convention (`src/llama-vocab.cpp`).
#![forbid(unsafe_code)]

use super::expression::Expressions;
use super::pre::Pattern::{self, Lines, Powers, Split, Threes, Words};
use super::pre::{Cut, Keeps, PreTokenizer, Stage};
use crate::error::{Error, Result, quoted};

/// One row of the registry: the properties of a pre-tokenizer.
pub(super) struct Entry {
    /// The values of `tokenizer.ggml.pre` that mean this entry.
    names: &'static [&'static str],
    /// The alphabet of the vocabulary's texts.
    pub(super) letters: Letters,
    /// Applied in order, each to the pieces of the one before it.
    patterns: &'static [Pattern<'static>],
    /// A word that is itself a token is not merged from its letters.
    pub(super) ignore_merges: bool,
    /// Whether text starts with BOS when the file does not say.
    pub(super) add_bos: bool,
    /// Whether text is composed (NFC) first. Qwen 2's and 3's tokenizers do; llama.cpp does not, so the two differ on
    /// text that is not composed.
    pub(super) nfc: bool,
}

/// The alphabet of tokens' texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Letters {
    /// A printable character for each byte.
    Bytes,
    /// The characters of texts, `▁` for a space; `whole_line_feeds` as of [`Bpe`](super::bpe::Bpe).
    Pieces { whole_line_feeds: bool },
    /// The characters of words; white space between them is left out.
    Plain,
}

/// GPT-2's words.
pub(super) const GPT2: Pattern<'static> =
    Words(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+");
const LLAMA3: Pattern<'static> = Lines(concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
));
const QWEN2: Pattern<'static> = Lines(concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
));
const QWEN35: Pattern<'static> = Lines(concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}",
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
));
const DEEPSEEK3: Pattern<'static> = Lines(concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+"
));
const TEKKEN: Pattern<'static> = Lines(concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+"
));
const GPT4O: Pattern<'static> = Lines(concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+"
));
/// The letters of alphabets with cases, as DeepSeek LLM's expression lists them.
const DEEPSEEK_LETTERS: Pattern<'static> = Split(concat!(
    r"\s?[A-Za-z\u{B5}\u{C0}-\u{D6}\u{D8}-\u{F6}\u{F8}-\u{1BA}\u{1BC}-\u{1BF}\u{1C4}-\u{293}\u{295}-\u{2AF}",
    r"\u{370}-\u{373}\u{376}\u{377}\u{37B}-\u{37D}\u{37F}\u{386}\u{388}-\u{38A}\u{38C}\u{38E}-\u{3A1}",
    r"\u{3A3}-\u{3F5}\u{3F7}-\u{481}\u{48A}-\u{52F}\u{531}-\u{556}\u{10A0}-\u{10C5}\u{13A0}-\u{13F5}",
    r"\u{13F8}-\u{13FD}\u{1C90}-\u{1CBA}\u{1CBD}-\u{1CBF}\u{1D00}-\u{1D2B}\u{1D6B}-\u{1D77}\u{1D79}-\u{1D9A}",
    r"\u{1E00}-\u{1F15}\u{1F18}-\u{1F1D}\u{1F20}-\u{1F45}\u{1F48}-\u{1F4D}\u{1F50}-\u{1F57}\u{1F59}\u{1F5B}",
    r"\u{1F5D}\u{1F5F}-\u{1F7D}\u{1F80}-\u{1FB4}\u{1FB6}-\u{1FBC}\u{1FBE}\u{1FC2}-\u{1FC4}\u{1FC6}-\u{1FCC}",
    r"\u{1FD0}-\u{1FD3}\u{1FD6}-\u{1FDB}\u{1FE0}-\u{1FEC}\u{1FF2}-\u{1FF4}\u{1FF6}-\u{1FFC}\u{2102}\u{2107}",
    r"\u{210A}-\u{2113}\u{2115}\u{2119}-\u{211D}\u{2124}\u{2126}\u{2128}\u{212A}-\u{212D}\u{212F}-\u{2134}",
    r"\u{2139}\u{213C}-\u{213F}\u{2145}-\u{2149}\u{214E}\u{2183}\u{2184}\u{2C00}-\u{2C7B}\u{2C7E}-\u{2CE4}",
    r"\u{2CEB}-\u{2CEE}\u{2CF2}\u{2CF3}\u{A640}-\u{A66D}\u{A680}-\u{A69B}\u{A722}-\u{A76F}\u{A771}-\u{A787}",
    r"\u{A78B}-\u{A78E}\u{AB70}-\u{ABBF}\u{FB00}-\u{FB06}\u{FB13}-\u{FB17}\u{FF21}-\u{FF3A}\u{FF41}-\u{FF5A}",
    r"\u{10400}-\u{1044F}\u{104B0}-\u{104D3}\u{104D8}-\u{104FB}\u{10C80}-\u{10CB2}\u{10CC0}-\u{10CF2}",
    r"\u{118A0}-\u{118DF}\u{1E900}-\u{1E943}]+",
));
const DEEPSEEK_PUNCTUATION: Pattern<'static> =
    Split(r"\s?[!-/:-~\u{FF01}-\u{FF0F}\u{FF1A}-\u{FF5E}\u{2018}-\u{201F}\u{3000}-\u{3002}]+");
const DEEPSEEK_EAST_ASIAN: Pattern<'static> = Split(r"[\u{4E00}-\u{9FA5}\u{800}-\u{4E00}\u{AC00}-\u{D7FF}]+");

const MINICPM5: Pattern<'static> = Lines(concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
));
const JAIS2: Pattern<'static> = Powers(concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
));
/// Qwen 2's without English contractions.
const UFAKZEKA: Pattern<'static> =
    Lines(concat!(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}", r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"));
const BAILING: Pattern<'static> = Lines(concat!(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+"
));
const SEED_CODER: Pattern<'static> = Lines(concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+"
));
const EXAONE_MOE: Pattern<'static> = Lines(concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+"
));
const SPARK: Pattern<'static> = Words(concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
    r"| ?[\p{P}\p{S}]+|[\r\n]|\s+"
));
const YOUTU_EAST_ASIAN: Pattern<'static> = Split(concat!(
    r"[\u{AC00}-\u{D7A3}\u{3131}-\u{318E}]+",
    r"|[\u{FF01}\u{2026}\u{201C}\u{201D}\u{2018}\u{2019}\u{2014}\u{FF1A}\u{FF1B}\u{FF0C}\u{3001}-\u{303F}\u{FE30}-\u{FE4F}]+",
    r"|[\u{3105}-\u{312F}]+|[\u{4E00}-\u{9FA5}\u{3040}-\u{309F}\u{30A0}-\u{30FF}]+"
));
const YOUTU: Pattern<'static> = Lines(concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+"
));
const KIMI_K2: Pattern<'static> = Lines(concat!(
    r"\p{Han}+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
));
const BLOOM: Pattern<'static> =
    Split(r" ?[^(\s|.,!?\u{2026}\u{3002}\u{FF0C}\u{3001}\u{964}\u{6D4}\u{60C})]+");
const EAST_ASIAN: Pattern<'static> = Split(r"[\u{4E00}-\u{9FA5}\u{3040}-\u{309F}\u{30A0}-\u{30FF}]+");
const AFMOE_EAST_ASIAN: Pattern<'static> = Split(concat!(
    r"[\u{4E00}-\u{9FFF}\u{3400}-\u{4DBF}\u{8C48}-\u{FAFF}\u{3040}-\u{309F}\u{30A0}-\u{30FF}\u{FF65}-\u{FF9F}\u{2F00}-\u{2FDF}",
    r"\u{E40}-\u{E7F}\u{E80}-\u{EFF}\u{1780}-\u{17FF}\u{1000}-\u{109F}\u{AA60}-\u{AA7F}\u{A9E0}-\u{A9FF}\u{AC00}-\u{D7AF}",
    r"\u{1100}-\u{11FF}]+"
));
/// Lines, and what is between them.
pub(super) const LINES: Pattern<'static> = Split(r"[^\n]+|\n+");

/// The most common properties.
const PLAIN: Entry = Entry {
    names: &[],
    letters: Letters::Bytes,
    patterns: &[GPT2],
    ignore_merges: false,
    add_bos: false,
    nfc: false,
};

/// Every pre-tokenizer Ember knows.
#[rustfmt::skip]
static REGISTRY: &[Entry] = &[
    Entry { names: &["default"],
        patterns: &[Split(r"[\p{P}\$\+<=>\^~\|]+"), GPT2, Split(r"\p{N}+"), Split("[0-9][0-9][0-9]")], ..PLAIN },
    Entry { names: &["gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "exaone4", "mpt", "olmo", "jais", "trillion",
            "granite-docling", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "jina-v1-en", "jina-v2-code", "modern-bert",
            "roberta-bpe"],
        ..PLAIN },
    Entry { names: &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"],
        patterns: &[Split(r"\p{N}"), GPT2], ..PLAIN },
    Entry { names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"],
        patterns: &[LLAMA3], ignore_merges: true, add_bos: true, ..PLAIN },
    Entry { names: &["dbrx", "smaug-bpe", "chatglm-bpe"], patterns: &[LLAMA3], ..PLAIN },
    Entry { names: &["glm4", "glm5"], patterns: &[LLAMA3], ignore_merges: true, ..PLAIN },
    Entry { names: &["minicpm5"], patterns: &[Split(r"\p{N}{1,3}"), MINICPM5], ignore_merges: true, ..PLAIN },
    Entry { names: &["jais-2"], patterns: &[JAIS2], ..PLAIN },
    Entry { names: &["qwen2", "deepseek-r1-qwen", "f2llmv2"], patterns: &[QWEN2], nfc: true, ..PLAIN },
    Entry { names: &["stablelm2", "hunyuan", "megrez", "solar-open", "grok-2", "kormo"],
        patterns: &[QWEN2], ..PLAIN },
    Entry { names: &["laguna"], patterns: &[LINES, QWEN2], ..PLAIN },
    Entry { names: &["ufakzeka"], patterns: &[UFAKZEKA], ..PLAIN },
    Entry { names: &["bailingmoe", "bailingmoe2", "llada-moe"], patterns: &[BAILING], ..PLAIN },
    Entry { names: &["seed-coder"], patterns: &[SEED_CODER], ..PLAIN },
    Entry { names: &["exaone-moe"], patterns: &[EXAONE_MOE], ..PLAIN },
    Entry { names: &["qwen35"], patterns: &[QWEN35], ..PLAIN },
    Entry { names: &["falcon"],
        patterns: &[Split(r"[\p{P}\$\+<=>\^~\|`]+"), GPT2, Split("[0-9][0-9][0-9]")], ..PLAIN },
    Entry { names: &["deepseek-llm"],
        patterns: &[Split(r"[\r\n]"), DEEPSEEK_LETTERS, DEEPSEEK_PUNCTUATION, Split(r"\s+$"),
            DEEPSEEK_EAST_ASIAN, Split(r"\p{N}+")], ..PLAIN },
    Entry { names: &["deepseek-coder"],
        patterns: &[Split(r"[\r\n]"), Split(r"\s?\p{L}+"), Split(r"\s?\p{P}+"), DEEPSEEK_EAST_ASIAN,
            Split(r"\p{N}")], ..PLAIN },
    Entry { names: &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
        patterns: &[Split(r"\p{N}{1,3}"), EAST_ASIAN, DEEPSEEK3], ..PLAIN },
    Entry { names: &["spark2_5"],
        patterns: &[Split(r"\p{N}{1,3}"), EAST_ASIAN, SPARK, Split(r"\p{N}")], ..PLAIN },
    Entry { names: &["afmoe"], patterns: &[Threes(r"\p{N}+"), AFMOE_EAST_ASIAN, DEEPSEEK3], ..PLAIN },
    Entry { names: &["youtu"], patterns: &[YOUTU_EAST_ASIAN, YOUTU], ignore_merges: true, ..PLAIN },
    Entry { names: &["kimi-k2"], patterns: &[KIMI_K2], ..PLAIN },
    Entry { names: &["poro-chat", "bloom", "gpt3-finnish"], patterns: &[BLOOM], ..PLAIN },
    Entry { names: &["viking"], patterns: &[BLOOM, Split(r"\p{N}")], ..PLAIN },
    Entry { names: &["superbpe"], patterns: &[Split(r"\p{N}+"), Threes(r"\d+")], ..PLAIN },
    Entry { names: &["chameleon"],
        patterns: &[Split("<sentinel:[0-9]+>"), Split("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"), Split(r"([\t\n]|    |  )"),
            Split(r"\p{N}"), Split(r"[\p{P}!-/:-@\[-`{-~]"), GPT2], add_bos: true, ..PLAIN },
    Entry { names: &["tekken"], patterns: &[TEKKEN], ignore_merges: true, add_bos: true, ..PLAIN },
    Entry { names: &["gpt-4o", "llama4", "kanana2", "granite-embed-multi-97m"],
        patterns: &[GPT4O], ignore_merges: true, ..PLAIN },
    Entry { names: &["talkie", "minimax-m2"], patterns: &[GPT4O], ..PLAIN },
    Entry { names: &["tiny_aya", "cohere2moe"], patterns: &[Threes(r"\d+\b"), GPT4O], ..PLAIN },
    Entry { names: &["gemma4", "granite-embed-multi-311m"], letters: Letters::Pieces { whole_line_feeds: true },
        patterns: &[LINES], ..PLAIN },
    Entry { names: &["sarvam-moe"], letters: Letters::Pieces { whole_line_feeds: false }, patterns: &[LINES], ..PLAIN },
    Entry { names: &["whitespace"], letters: Letters::Plain, patterns: &[Split(r"\S+")], ..PLAIN },
];

impl Entry {
    /// The entry of that name, or an error that lists the known names.
    pub(super) fn named(name: &str) -> Result<&'static Entry> {
        REGISTRY.iter().find(|e| e.names.contains(&name)).ok_or_else(|| {
            Error::Unsupported(format!(
                "the pre-tokenizer {} (key \"tokenizer.ggml.pre\") is not supported; known are {}",
                quoted(name.as_bytes()),
                known_names().join(", ")
            ))
        })
    }

    /// Compiles the expressions.
    pub(super) fn pre_tokenizer(&self) -> Result<PreTokenizer> {
        let name = self.names.first().copied().unwrap_or_default();
        let mut expressions = Expressions::new();
        let keeps = if self.letters == Letters::Plain { Keeps::Matches } else { Keeps::Both };
        let compile = |&pattern: &Pattern<'_>| {
            Ok(Stage::Cut(Cut::new(pattern, name, &mut expressions)?.keeping(keeps)))
        };
        Ok(PreTokenizer::of(self.patterns.iter().map(compile).collect::<Result<_>>()?))
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
    use crate::tokenizer::Place;
    use crate::tokenizer::effort::Effort;

    fn words(pre: &str, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        let pre = Entry::named(pre).unwrap().pre_tokenizer().unwrap();
        let found = |word: &str, _: &mut Effort| {
            words.push(word.to_owned());
            Ok(())
        };
        pre.words(text, Place::Start, &mut Effort::new(text.len()), found).unwrap();
        words
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
    fn threes_are_counted_from_the_end() {
        assert_eq!(words("superbpe", "x 1234567 y"), ["x ", "1", "234", "567", " y"]);
        assert_eq!(words("tiny_aya", "12345 1234x"), ["12", "345", " ", "123", "4", "x"]);
        assert_eq!(words("afmoe", "12345"), ["12", "345"]);
    }

    #[test]
    fn powers_of_two_are_cut_off_white_space() {
        let cut = |n: usize| {
            words("jais-2", &["a", &" ".repeat(n), "1"].concat())[1..]
                .iter()
                .map(String::len)
                .collect::<Vec<_>>()
        };
        assert_eq!([cut(1), cut(2), cut(3)], [vec![1, 1], vec![1, 1, 1], vec![2, 1, 1]]);
        assert_eq!([cut(4), cut(7), cut(9)], [vec![2, 1, 1, 1], vec![4, 2, 1, 1], vec![8, 1, 1]]);
    }

    #[test]
    fn pieces_follow_one_another_and_cover_the_text() {
        let text = "Hé  llo,\r\n\r\n wörld 3.14 — 日本語 ½ \u{85}\u{a0}x'S'lL\t\t";
        for name in known_names().into_iter().filter(|&name| name != "whitespace") {
            assert_eq!(words(name, text).concat(), text, "{name}");
        }
        assert!(words("gpt-2", "").is_empty());
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let e = Entry::named("gpt-17").err().unwrap();
        assert!(matches!(e, Error::Unsupported(_)));
        assert!(e.message().contains("\"gpt-17\"") && e.message().contains("smaug-bpe, smollm"), "{e}");
    }

    #[test]
    fn every_name_means_one_entry() {
        let names = known_names();
        assert!(names.windows(2).all(|w| w[0] != w[1]));
    }

    /// Does not read the clock: quadratic time would take hours.
    #[test]
    fn megabytes_of_one_character_split_in_linear_time() {
        for text in [" ".repeat(4 << 20), "a".repeat(4 << 20), " \n".repeat(2 << 20), "  a".repeat(1 << 20)] {
            for name in [
                "default",
                "gpt-2",
                "smollm",
                "llama-bpe",
                "qwen2",
                "deepseek-v3",
                "jais-2",
                "afmoe",
                "kimi-k2",
            ] {
                let pre = Entry::named(name).unwrap().pre_tokenizer().unwrap();
                let mut n = 0;
                let found = |word: &str, _: &mut Effort| {
                    n += word.len();
                    Ok(())
                };
                pre.words(&text, Place::Start, &mut Effort::new(text.len()), found).unwrap();
                assert_eq!(n, text.len());
            }
        }
    }
}
