//! The parts of a `tokenizer.json` around its model: normalizer, pre-tokenizer, post-processor, decoder.
//! Their meaning: <https://huggingface.co/docs/tokenizers/components>.
#![forbid(unsafe_code)]

use serde::Deserialize;
use serde_json::Value;
use tokenizers::pre_tokenizers::metaspace::PrependScheme;
use tokenizers::{NormalizerWrapper, PreTokenizerWrapper};

use super::charsmap::Charsmap;
use super::expression::Expressions;
use super::foreign::{ForeignNormalizer, ForeignPreTokenizer};
use super::normalize::{Normalizer, Step};
use super::oniguruma::translated;
use super::pre::{Cut, Keeps, Pattern, PreTokenizer, Stage};
use super::pre_registry::GPT2;
use crate::error::{Error, Result, quoted, shortened};

/// The name of a part.
fn kind(part: &Value) -> &str {
    part.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// The parts of a sequence, or the part itself; none for null.
fn flat<'v>(part: &'v Value, list: &str, out: &mut Vec<&'v Value>) {
    match part.get(list).and_then(Value::as_array) {
        Some(parts) if kind(part) == "Sequence" => parts.iter().for_each(|part| flat(part, list, out)),
        _ if part.is_null() => {}
        _ => out.push(part),
    }
}

/// The parts of `part`, which may be a sequence of them in `list`.
fn parts<'v>(part: &'v Value, list: &str) -> Vec<&'v Value> {
    let mut out = Vec::new();
    flat(part, list, &mut out);
    out
}

fn is_true(part: &Value, field: &str) -> bool {
    part.get(field) == Some(&Value::Bool(true))
}

/// The text that a `Split` or `Replace` searches for, if it is not an expression.
fn literal(part: &Value) -> Option<&str> {
    part.get("pattern")?.get("String")?.as_str().filter(|text| !text.is_empty())
}

/// The expression that a `Split` or `Replace` searches for.
fn expression(part: &Value) -> Option<&str> {
    part.get("pattern")?.get("Regex")?.as_str()
}

/// The normalizers that the `tokenizers` crate runs.
const NORMALIZERS: &[&str] = &[
    "BertNormalizer",
    "ByteLevel",
    "Lowercase",
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
    "Nmt",
    "Strip",
    "StripAccents",
];

/// The pre-tokenizers that the `tokenizers` crate runs.
const PRE_TOKENIZERS: &[&str] = &[
    "BertPreTokenizer",
    "CharDelimiterSplit",
    "Digits",
    "FixedLength",
    "Metaspace",
    "Punctuation",
    "Split",
    "UnicodeScripts",
    "Whitespace",
    "WhitespaceSplit",
];

/// Refuses a part whose name is not in `known`; `own` are those that are read elsewhere. The `tokenizers` crate infers the type
/// of a part with an unknown name from its fields, so its result is checked as well.
fn check_kind(what: &str, part: &Value, known: &[&str], own: &[&str]) -> Result<()> {
    match part.get("type").and_then(Value::as_str) {
        Some(name) if known.contains(&name) => Ok(()),
        name => Err(Error::Unsupported(format!(
            "the {what} {} is not known, or malformed; known are: {}",
            quoted(name.unwrap_or_default().as_bytes()),
            [known, own].concat().join(", ")
        ))),
    }
}

/// The steps of the normalizer.
pub(super) fn normalizer(value: &Value, expressions: &mut Expressions) -> Result<Normalizer> {
    let mut steps = Vec::new();
    for part in parts(value, "normalizers") {
        let text = |field: &str| part.get(field).and_then(Value::as_str);
        steps.push(match (kind(part), text("prepend"), literal(part), text("content")) {
            ("Prepend", Some(prefix), ..) => Step::Prefix(prefix.to_owned()),
            ("Replace", _, Some(from), Some(to)) => Step::Replace(from.to_owned(), to.to_owned()),
            ("Precompiled", ..) => {
                let name = "precompiled_charsmap";
                let blob = text(name).and_then(base64).ok_or_else(|| {
                    Error::Format(format!("the field {name:?} of the normalizer Precompiled is not base64"))
                })?;
                Step::Charsmap { map: Box::new(Charsmap::new(&blob, name)?), graphemes: true }
            }
            ("Replace", _, _, Some(to)) if expression(part).is_some() => {
                let from = expression(part).unwrap_or_default();
                let matcher = expressions.compile(&translated(from)).map_err(|e| {
                    Error::Format(format!(
                        "the expression {} of the normalizer Replace is invalid: {}",
                        quoted(from.as_bytes()),
                        shortened(e)
                    ))
                })?;
                Step::ReplaceMatches(matcher, to.to_owned())
            }
            (name, ..) => {
                check_kind(
                    "normalizer",
                    part,
                    NORMALIZERS,
                    &["Precompiled", "Prepend", "Replace", "Sequence"],
                )?;
                let normalizer = NormalizerWrapper::deserialize(part).map_err(|e| {
                    let (name, e) = (quoted(name.as_bytes()), shortened(e));
                    Error::Unsupported(format!("the normalizer {name} is not known, or malformed: {e}"))
                })?;
                use NormalizerWrapper::{Precompiled, Prepend, Replace, Sequence};
                if matches!(normalizer, Sequence(_) | Precompiled(_) | Replace(_) | Prepend(_)) {
                    let name = quoted(name.as_bytes());
                    return Err(Error::Unsupported(format!(
                        "the normalizer {name} has the fields of another"
                    )));
                }
                let keeps_ascii = matches!(name, "NFC" | "NFD" | "NFKC" | "NFKD" | "StripAccents");
                Step::Other { normalizer: ForeignNormalizer(Box::new(normalizer)), keeps_ascii }
            }
        });
    }
    Ok(Normalizer { steps })
}

/// A pre-tokenizer, and what it implies for the spelling.
pub(super) struct PreParts {
    pub(super) pre: PreTokenizer,
    /// Words are written in the byte alphabet.
    pub(super) byte_level: bool,
}

/// The most stages of a pre-tokenizer. Real ones have five at most; each may have an expression of some ten kilobytes.
const MAX_STAGES: usize = 1000;

/// The stages of the pre-tokenizer.
pub(super) fn pre_tokenizer(value: &Value, expressions: &mut Expressions) -> Result<PreParts> {
    let mut out = PreParts { pre: PreTokenizer::default(), byte_level: false };
    for part in parts(value, "pretokenizers") {
        if out.pre.stages.len() == MAX_STAGES {
            return Err(Error::Unsupported(format!(
                "the pre-tokenizer has more than {MAX_STAGES} stages, the most Ember reads"
            )));
        }
        let name = kind(part);
        let keeps = match (part.get("behavior").and_then(Value::as_str), is_true(part, "invert")) {
            (Some("Isolated"), _) => Some(Keeps::Both),
            (Some("Removed"), false) => Some(Keeps::Gaps),
            (Some("Removed"), true) => Some(Keeps::Matches),
            _ => None,
        };
        if out.byte_level {
            let name = quoted(name.as_bytes());
            return Err(Error::Unsupported(format!(
                "the pre-tokenizer {name} comes after ByteLevel, which is not supported"
            )));
        }
        match (name, expression(part), keeps) {
            ("ByteLevel", ..) => {
                out.byte_level = true;
                if is_true(part, "add_prefix_space") {
                    if !out.pre.stages.is_empty() {
                        return Err(Error::Unsupported(
                            "a ByteLevel pre-tokenizer that is not the first puts a space before each word, which is \
                             not supported"
                                .into(),
                        ));
                    }
                    out.pre.prefix_space = true;
                }
                // Older files do not have this field: the expression is used.
                if part.get("use_regex") != Some(&Value::Bool(false)) {
                    out.pre.stages.push(Stage::Cut(Cut::new(GPT2, name, expressions)?));
                }
            }
            ("Split", Some(expression), Some(keeps)) => {
                let (expression, mut storage) = (translated(expression), String::new());
                let pattern = Pattern::published(&expression, &mut storage);
                out.pre.stages.push(Stage::Cut(Cut::new(pattern, name, expressions)?.keeping(keeps)));
            }
            ("Split", Some(_), None) => {
                return Err(Error::Unsupported(
                    "a pre-tokenizer Split by an expression is supported with the behavior Isolated or Removed".into(),
                ));
            }
            ("FixedLength", ..) if part.get("length").and_then(Value::as_u64) == Some(0) => {
                return Err(Error::Format(
                    "the field \"length\" of the pre-tokenizer FixedLength is 0, expected at least 1".into(),
                ));
            }
            _ => out.pre.stages.push(other_stage(name, part)?),
        }
    }
    Ok(out)
}

/// A stage that the `tokenizers` crate runs.
fn other_stage(name: &str, part: &Value) -> Result<Stage> {
    check_kind("pre-tokenizer", part, PRE_TOKENIZERS, &["ByteLevel", "Sequence"])?;
    let pre_tokenizer = PreTokenizerWrapper::deserialize(part).map_err(|e| {
        let (name, e) = (quoted(name.as_bytes()), shortened(e));
        Error::Unsupported(format!("the pre-tokenizer {name} is not known, or malformed: {e}"))
    })?;
    let (bare, only_first) = match &pre_tokenizer {
        PreTokenizerWrapper::Metaspace(m) => {
            let mut bare = m.clone();
            bare.set_prepend_scheme(PrependScheme::Never);
            let bare = ForeignPreTokenizer(Box::new(PreTokenizerWrapper::Metaspace(bare)));
            (Some(bare), m.get_prepend_scheme() == PrependScheme::First)
        }
        _ => (None, false),
    };
    // An inverted one removes, or keeps, the text between matches.
    let is_plain = name == "Split" && !is_true(part, "invert");
    let needs = if is_plain { literal(part).map(str::to_owned) } else { None };
    let pre_tokenizer = ForeignPreTokenizer(Box::new(pre_tokenizer));
    Ok(Stage::Other { pre_tokenizer, bare, only_first, needs })
}

/// The most tokens before a text, and after it. Each may stand for many ids in the file: without a limit a small file could ask
/// for much memory.
const MAX_FRAME: usize = 256;

/// The tokens that a post-processor puts before and after a single text.
pub(super) fn frame(value: &Value) -> Result<(Vec<u32>, Vec<u32>)> {
    let (mut prefix, mut suffix) = (Vec::new(), Vec::new());
    let bad = |what: &str| Error::Format(format!("the post-processor {what}"));
    let number = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
    for part in parts(value, "processors") {
        match kind(part) {
            "ByteLevel" => {}
            "TemplateProcessing" => {
                let single = part.get("single").and_then(Value::as_array);
                let mut seen_text = false;
                for item in single.ok_or_else(|| bad("TemplateProcessing has no list \"single\""))? {
                    if item.get("Sequence").is_some() {
                        seen_text = true;
                        continue;
                    }
                    let token = item.get("SpecialToken").and_then(|token| token.get("id"));
                    let name =
                        token.and_then(Value::as_str).ok_or_else(|| bad("has a token without an id"))?;
                    let ids =
                        part.get("special_tokens").and_then(|all| all.get(name)?.get("ids")?.as_array());
                    let ids = ids.and_then(|ids| ids.iter().map(number).collect::<Option<Vec<u32>>>());
                    let name = quoted(name.as_bytes());
                    let ids =
                        ids.ok_or_else(|| bad(&format!("names the token {name}, but no ids for it")))?;
                    if seen_text {
                        suffix.extend(ids)
                    } else {
                        prefix.extend(ids)
                    }
                    if prefix.len().max(suffix.len()) > MAX_FRAME {
                        return Err(bad(&format!("puts more than {MAX_FRAME} tokens around a text")));
                    }
                }
            }
            name @ ("BertProcessing" | "RobertaProcessing") => {
                let id = |field: &str| {
                    let id = part.get(field).and_then(|pair| pair.get(1)).and_then(number);
                    id.ok_or_else(|| bad(&format!("{name} has no id for {field:?}")))
                };
                prefix.push(id("cls")?);
                suffix.push(id("sep")?);
            }
            other => {
                let name = quoted(other.as_bytes());
                return Err(Error::Unsupported(format!("the post-processor {name} is not known")));
            }
        }
    }
    Ok((prefix, suffix))
}

/// What a decoder implies for the spelling.
#[derive(Default)]
pub(super) struct DecoderFacts {
    pub(super) byte_level: bool,
    /// `▁` stands for a space.
    pub(super) escapes_space: bool,
    /// One space at the start is removed.
    pub(super) strips_space: bool,
}

/// Whether a part, or one within it, is of this kind.
pub(super) fn has(value: &Value, wanted: &str) -> bool {
    ["pretokenizers", "decoders"]
        .iter()
        .any(|list| parts(value, list).iter().any(|part| kind(part) == wanted))
}

/// Reads the decoder.
pub(super) fn decoder(value: &Value) -> DecoderFacts {
    let mut facts = DecoderFacts::default();
    for part in parts(value, "decoders") {
        match kind(part) {
            "ByteLevel" => facts.byte_level = true,
            "Replace" => facts.escapes_space |= literal(part) == Some(super::SPACE),
            "Metaspace" => {
                facts.escapes_space = true;
                let scheme = part.get("prepend_scheme").and_then(Value::as_str);
                facts.strips_space |=
                    scheme != Some("never") && part.get("add_prefix_space") != Some(&Value::Bool(false));
            }
            "Strip" => {
                let starts = part.get("start").and_then(Value::as_u64).is_some_and(|n| n > 0);
                facts.strips_space |= starts && part.get("content").and_then(Value::as_str) == Some(" ");
            }
            "WordPiece" => facts.strips_space = true,
            _ => {}
        }
    }
    facts
}

/// The bytes of base64 text (RFC 4648, section 4).
fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut bits, mut n_bits) = (0u32, 0);
    for c in text.bytes() {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        n_bits += 6;
        if n_bits >= 8 {
            n_bits -= 8;
            out.push((bits >> n_bits) as u8);
            bits &= (1 << n_bits) - 1;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_the_rfcs() {
        for (text, bytes) in
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")]
        {
            assert_eq!(base64(text), Some(bytes.into()));
        }
        assert_eq!(base64("+/+/"), Some(vec![0xfb, 0xff, 0xbf]));
        assert_eq!(base64("Zm 9v"), None);
    }
}
