//! The tokenizer that the keys `tokenizer.ggml.*` of a GGUF file describe.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};

use super::bpe::check_n_merges;
use super::dna::Dna;
use super::fill_in::FillIn;
use super::gguf_keys::warn_of_keys;
use super::gguf_kinds::{Parts, bpe, longest, pieces, plain, plamo, read_charsmap, spm, unigram, wordpiece};
use super::looks::Looks;
use super::pre_registry::{Entry, Letters};
use super::roles::{Roles, Trust, warn_of_types};
use super::special::{Added, MAX_SEARCHED, SpecialTokens};
use super::vocab::{SPACE, TokenType, Vocab};
use super::{Model, Tokenizer};
use crate::error::{Error, Result, quoted};
use crate::gguf::{Metadata, StringArray, collected, copied_text, with_capacity};

/// The key of the kind of vocabulary.
const KIND: &str = "tokenizer.ggml.model";
/// The key of the token texts.
pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
/// The key of the token types.
const TYPES: &str = "tokenizer.ggml.token_type";
/// The key of the scores.
pub(super) const SCORES: &str = "tokenizer.ggml.scores";
/// The key of the merges.
pub(super) const MERGES: &str = "tokenizer.ggml.merges";
/// The key of the normalization table.
pub(super) const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";

/// How many bytes of a model's name are read.
const MAX_NAME: usize = 1024;

/// The defaults of a kind of vocabulary.
#[derive(Default)]
struct Defaults {
    bos: Option<u32>,
    eos: Option<u32>,
    sep: Option<u32>,
    unk: Option<u32>,
    add_bos: bool,
    add_eos: bool,
    /// The text ends with the separator.
    add_sep: bool,
}

/// The kinds of vocabulary.
#[derive(Clone, Copy)]
enum Kind {
    /// BPE with one of the known pre-tokenizers, usually of bytes.
    Bpe(&'static Entry),
    Gemma4,
    Spm,
    WordPiece,
    Unigram,
    /// RWKV's: at each place of a text the longest token.
    Longest,
    /// PLaMo 2's: integer scores, from the end on.
    Plamo,
    /// BPE of bytes beside sequences of DNA.
    Dna(&'static Entry),
}

impl Kind {
    fn of(meta: &Metadata) -> Result<Kind> {
        Ok(match meta.require_str(KIND)? {
            "gpt2" => Kind::Bpe(Entry::named(meta.str("tokenizer.ggml.pre")?.unwrap_or("default"))?),
            "gemma4" => Kind::Gemma4,
            "llama" => Kind::Spm,
            "bert" => Kind::WordPiece,
            "t5" => Kind::Unigram,
            "rwkv" => Kind::Longest,
            "plamo2" => Kind::Plamo,
            "hybriddna" => Kind::Dna(Entry::named(meta.str("tokenizer.ggml.pre")?.unwrap_or("default"))?),
            "whitespace" => Kind::Bpe(Entry::named("whitespace")?),
            other => {
                return Err(Error::Unsupported(format!(
                    "the kind of vocabulary {} (key {KIND:?}) is not supported; known are bert, gemma4, gpt2, hybriddna, llama, \
                     plamo2, rwkv, t5, whitespace",
                    quoted(other.as_bytes())
                )));
            }
        })
    }

    fn defaults(self) -> Defaults {
        match self {
            Kind::Bpe(entry) | Kind::Dna(entry) => Defaults { add_bos: entry.add_bos, ..Defaults::default() },
            Kind::Gemma4 => {
                Defaults { bos: Some(2), eos: Some(1), unk: Some(3), add_bos: true, ..Defaults::default() }
            }
            Kind::Spm => {
                Defaults { bos: Some(1), eos: Some(2), unk: Some(0), add_bos: true, ..Defaults::default() }
            }
            Kind::WordPiece => Defaults {
                bos: Some(101),
                sep: Some(102),
                unk: Some(100),
                add_bos: true,
                add_sep: true,
                ..Defaults::default()
            },
            Kind::Unigram => Defaults { eos: Some(1), unk: Some(2), add_eos: true, ..Defaults::default() },
            Kind::Longest => Defaults::default(),
            Kind::Plamo => Defaults { bos: Some(1), eos: Some(2), unk: Some(0), ..Defaults::default() },
        }
    }
}

/// Checks what the keys say, except the texts of tokens and merges: the kind of vocabulary and the pre-tokenizer, whether the
/// arrays that the kind needs exist and have equal lengths, and the tokens with a role.
///
/// # Errors
/// As [`read`].
pub(super) fn check(meta: &Metadata) -> Result<()> {
    outline(meta).map(drop)
}

/// As [`check`]; returns the kind of vocabulary and the tokens with a role.
fn outline(meta: &Metadata) -> Result<(Kind, Roles)> {
    let n = tokens(meta)?.len();
    let kind = Kind::of(meta)?;
    check_len(TYPES, meta.i32s(TYPES)?.map_or(n, |types| types.len()), n)?;
    let roles = read_roles(meta, n, &kind.defaults())?;
    match kind {
        Kind::Bpe(_) | Kind::Dna(_) | Kind::Gemma4 => {
            check_n_merges(MERGES, meta.require_strings(MERGES)?.len())?
        }
        Kind::Spm | Kind::Plamo => drop(read_scores(meta, n)?),
        Kind::Unigram => drop((read_scores(meta, n)?, read_charsmap(meta)?)),
        Kind::WordPiece | Kind::Longest => {}
    }
    chat_templates(meta)?;
    Ok((kind, roles))
}

/// Builds the tokenizer.
pub(super) fn read(meta: &Metadata, looks: Looks<'_>) -> Result<Tokenizer> {
    let (kind, mut roles) = outline(meta)?;
    warn_of_keys(meta);
    let mut vocab = read_vocab(meta, looks)?;
    // Converters have marked some of these as user-defined or normal; llama.cpp treats them as control tokens too.
    let controls = roles.find_ends(&vocab, Trust::Texts);
    warn_of_types(&vocab, &controls, TYPES);
    for id in controls {
        vocab.types[id as usize] = TokenType::Control;
    }
    let dna = match kind {
        Kind::Dna(_) => Dna::take(&mut vocab, looks)?,
        _ => None,
    };
    let parts = match kind {
        Kind::Bpe(entry) | Kind::Dna(entry) => match entry.letters {
            Letters::Bytes => bpe(meta, &vocab, entry, looks)?,
            Letters::Pieces { whole_line_feeds } => pieces(meta, &vocab, roles.unk, whole_line_feeds, looks)?,
            Letters::Plain => plain(meta, &vocab, entry, roles.unk, looks)?,
        },
        Kind::Gemma4 => pieces(meta, &vocab, roles.unk, true, looks)?,
        Kind::Spm => spm(meta, &vocab, roles.unk, looks)?,
        Kind::WordPiece => wordpiece(meta, &vocab, roles.unk, looks)?,
        Kind::Unigram => unigram(meta, &vocab, roles.unk, looks)?,
        Kind::Longest => longest(&vocab, roles.unk, looks)?,
        Kind::Plamo => plamo(meta, &vocab, roles.unk, looks)?,
    };
    let Parts { lexicon, model, normalizer, pre, escapes_space, strips_space } = parts;
    // With a space put before the text, that space would be part of such runs.
    let spaced = matches!(model, Model::Spm(_)) && !strips_space;
    Ok(Tokenizer {
        specials: specials(meta, &vocab, spaced, looks)?,
        normalized_specials: spaced_specials(if spaced { Some(&vocab) } else { None })?,
        lexicon,
        model,
        normalizer,
        pre,
        types: vocab.types,
        roles,
        escapes_space,
        strips_space,
        name: String::new(),
        chat_templates: chat_templates(meta)?,
        dna,
    })
}

/// `tokenizer.chat_template`, and `tokenizer.chat_template.NAME` for further ones.
fn chat_templates(meta: &Metadata) -> Result<Vec<(String, String)>> {
    const KEY: &str = "tokenizer.chat_template";
    let mut templates = Vec::new();
    for (key, _) in meta.iter() {
        let Some(rest) = key.strip_prefix(KEY) else { continue };
        let name = if rest.is_empty() { Some("default") } else { rest.strip_prefix('.') };
        if let (Some(name), Some(text)) = (name, name.and_then(|_| meta.str(key).transpose()).transpose()?) {
            let name = copied_text(name, "the name of a chat template")?;
            templates.push((name, copied_text(text, "the chat template")?));
        }
    }
    Ok(templates)
}

/// The texts of the tokens, at least one.
fn tokens(meta: &Metadata) -> Result<&StringArray> {
    let tokens = meta.require_strings(TOKENS)?;
    if tokens.is_empty() {
        return Err(Error::Format(format!(
            "the array {TOKENS:?} is empty; a vocabulary has at least one token"
        )));
    }
    if u32::try_from(tokens.len()).is_err() {
        return Err(Error::Format(format!("the array {TOKENS:?} has {} tokens, too many", tokens.len())));
    }
    Ok(tokens)
}

/// Reads and checks the arrays of texts and types; without types, all tokens are normal.
fn read_vocab<'m>(meta: &'m Metadata, looks: Looks<'_>) -> Result<Vocab<'m>> {
    let tokens = tokens(meta)?;
    let text = |(id, bytes): (usize, _)| {
        looks.at(id)?;
        std::str::from_utf8(bytes)
            .map_err(|e| Error::Format(format!("the text of token {id} in {TOKENS:?} is not UTF-8: {e}")))
    };
    let n = tokens.len();
    let texts = collected(n, &named(TOKENS), tokens.iter().enumerate().map(text))?;
    let numbers = meta.i32s(TYPES)?;
    check_len(TYPES, numbers.as_ref().map_or(n, |numbers| numbers.len()), n)?;
    let mut types = with_capacity(n, &named(TYPES))?;
    match numbers {
        Some(numbers) => types.extend(numbers.iter().map(|&n| TokenType::from_number(n))),
        None => types.resize(n, TokenType::Normal),
    }
    Ok(Vocab { texts, types, apart: HashSet::new() })
}

/// The array `key`, for an error sentence.
pub(super) fn named(key: &str) -> String {
    format!("the array {key:?}")
}

/// Checks that the array `key` of `len` elements has one for each of `n` tokens.
fn check_len(key: &str, len: usize, n: usize) -> Result<()> {
    if len == n {
        return Ok(());
    }
    Err(Error::Format(format!("the array {key:?} has {len} elements, but {TOKENS:?} has {n}")))
}

/// The scores, one for each token; -0.0 becomes 0.0.
pub(super) fn read_scores(meta: &Metadata, n: usize) -> Result<Vec<f32>> {
    let scores = meta.require_f32s(SCORES)?;
    check_len(SCORES, scores.len(), n)?;
    if let Some(id) = scores.iter().position(|score| score.is_nan()) {
        return Err(Error::Format(format!("the score of token {id} in {SCORES:?} is not a number")));
    }
    let mut positive = with_capacity(n, &named(SCORES))?;
    positive.extend(scores.iter().map(|score| score + 0.0));
    Ok(positive)
}

/// Reads the ids of the tokens with a role and the flags that say whether they frame a text. An id of no token is ignored, unless
/// a flag needs it.
fn read_roles(meta: &Metadata, n: usize, defaults: &Defaults) -> Result<Roles> {
    let id = |key: &str, default: Option<u32>| -> Result<Option<u32>> {
        // Writers use -1 for a missing token.
        let Some(id) = meta.i64(key)? else {
            return Ok(default.filter(|&id| (id as usize) < n));
        };
        let token = u32::try_from(id).ok().filter(|&id| (id as usize) < n);
        if token.is_none() {
            log::warn!("the key {key:?} is {id}, but {TOKENS:?} has only {n} tokens; it is ignored");
        }
        Ok(token)
    };
    let mut bos = id("tokenizer.ggml.bos_token_id", None)?;
    if bos.is_none() {
        bos = id("tokenizer.ggml.cls_token_id", defaults.bos)?;
    }
    let eos = id("tokenizer.ggml.eos_token_id", defaults.eos)?;
    let mut sep = id("tokenizer.ggml.seperator_token_id", None)?; // the specification spells it so
    if sep.is_none() {
        sep = id("tokenizer.ggml.separator_token_id", defaults.sep)?;
    }
    let framed = |key: &str, id: Option<u32>, id_key: &str, default: bool| match (meta.bool(key)?, id) {
        (Some(true), None) => {
            Err(Error::Format(format!("the key {key:?} is true, but the key {id_key:?} names no token")))
        }
        (flag, id) => Ok(id.filter(|_| flag.unwrap_or(default))),
    };
    let first = framed("tokenizer.ggml.add_bos_token", bos, "tokenizer.ggml.bos_token_id", defaults.add_bos)?;
    let last = framed("tokenizer.ggml.add_eos_token", eos, "tokenizer.ggml.eos_token_id", defaults.add_eos)?;
    let separator =
        framed("tokenizer.ggml.add_sep_token", sep, "tokenizer.ggml.seperator_token_id", defaults.add_sep)?;
    // llama.cpp ends a generation at these.
    let ends = ["fim_pad", "fim_rep", "fim_sep"].map(|name| format!("tokenizer.ggml.{name}_token_id"));
    let mut eog = BTreeSet::new();
    for key in &ends {
        eog.extend(id(key, None)?);
    }
    Ok(Roles {
        fill_in: FillIn::named(|key| id(key, None))?,
        eog,
        bos,
        eos: eos.or(if defaults.add_sep { sep } else { None }),
        eot: id("tokenizer.ggml.eot_token_id", None)?,
        eom: id("tokenizer.ggml.eom_token_id", None)?,
        unk: id("tokenizer.ggml.unknown_token_id", defaults.unk)?,
        pad: id("tokenizer.ggml.padding_token_id", None)?,
        prefix: first.into_iter().collect(),
        suffix: last.or(separator).into_iter().collect(),
        ..Roles::default()
    })
}

/// Special tokens, and their known strip rules, which no key has. With `spaced`, a user-defined text with spaces is searched for
/// as its author wrote it, with `▁`.
fn specials(meta: &Metadata, vocab: &Vocab<'_>, spaced: bool, looks: Looks<'_>) -> Result<SpecialTokens> {
    let name = meta.str("general.name").ok().flatten().unwrap_or_default();
    let name = name[..name.floor_char_boundary(MAX_NAME)].to_lowercase();
    let pre = meta.str("tokenizer.ggml.pre")?.unwrap_or_default();
    let kind = meta.str("tokenizer.ggml.model")?.unwrap_or_default();
    // Phi-3's tokenizer.json strips after all its special tokens except these.
    let phi3 = name.contains("phi-3") || name.contains("phi3");
    let keeps = ["<unk>", "<s>", "<|endoftext|>"];
    // The mask of XLM-RoBERTa and of BERT's grandchildren that were trained on its vocabulary.
    let mask = match pre {
        "modern-bert" => "[MASK]",
        "roberta-bpe" => "<mask>",
        _ if kind == "t5" || pre.starts_with("jina-v2") => "<mask>",
        _ => "",
    };
    let n = vocab.types.iter().filter(|ty| ty.is_special()).count();
    let mut tokens = with_capacity(n, "the special tokens")?;
    for (id, text, ty) in vocab.iter().filter(|(_, _, ty)| ty.is_special()) {
        looks.at(tokens.len())?;
        let control = ty != TokenType::UserDefined;
        let (lstrip, rstrip) = (text == mask, phi3 && !keeps.contains(&text));
        let text = match control {
            false if spaced && text.len() <= MAX_SEARCHED && text.contains(' ') => {
                Cow::Owned(text.replace(' ', SPACE))
            }
            _ => Cow::Borrowed(text),
        };
        tokens.push((text, Added { id, control, lstrip, rstrip, ..Added::default() }));
    }
    let borrowed = tokens.iter().map(|(text, added)| Ok((&**text, added.clone())));
    SpecialTokens::new(collected(n, "the special tokens", borrowed)?)
}

/// User-defined texts with spaces, which are searched for after `▁` has become a space too.
fn spaced_specials(vocab: Option<&Vocab<'_>>) -> Result<SpecialTokens> {
    let all = || vocab.into_iter().flat_map(Vocab::iter);
    let spaced = || all().filter(|(_, text, ty)| *ty == TokenType::UserDefined && text.contains(' '));
    let tokens = spaced().map(|(id, text, _)| Ok((text, Added { id, ..Added::default() })));
    SpecialTokens::new(collected(spaced().count(), "the special tokens", tokens)?)
}
