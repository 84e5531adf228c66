//! The tokenizer that a `tokenizer.json` describes.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use super::bpe::{Bpe, MergeReader, Units, bad_merge, check_n_merges, split_merge};
use super::effort::Effort;
use super::expression::Expressions;
use super::json_added;
use super::json_class::Class;
use super::json_config::{AddedFile, ConfigFile, TemplateFile};
use super::json_file::{MergeFile, ModelFile, TokenizerFile, VocabFile};
use super::json_parts::{self, DecoderFacts, PreParts};
use super::looks::Looks;
use super::normalize::Normalizer;
use super::roles::{Roles, Trust};
use super::special::{Added, SpecialTokens};
use super::unigram::Unigram;
use super::vocab::{Lexicon, Speller, Spelling, TokenType, Vocab, byte_token};
use super::wordpiece::{MAX_CHARS, WordPiece};
use super::{Model, Place, Tokenizer, TokenizerFiles};
use serde_json::Value;

use crate::error::{Error, Result, quoted, shortened};
use crate::gguf::{collected, filled, with_capacity};

/// The list of the merges.
const MERGES: &str = "model.merges";
/// The purpose of memory, in error sentences.
const VOCAB: &str = "the vocabulary";
const SPECIALS: &str = "the special tokens";

/// Builds the tokenizer.
pub(super) fn read(files: &TokenizerFiles<'_>, looks: Looks<'_>) -> Result<Tokenizer> {
    let mut file = TokenizerFile::read(files.tokenizer, looks)?;
    let (config, older) = read_configs(files)?;
    let (own_pre, own_decoder) = (file.pre_tokenizer.tree()?, file.decoder.tree()?);
    let byte_level = json_parts::has(&own_pre, "ByteLevel") || json_parts::has(&own_decoder, "ByteLevel");
    let kind = kind(&file.model)?;
    let class = Class::of(&config, files.model_type, byte_level);
    // A class that only the model's type implies says nothing about another kind of vocabulary.
    let is_named = config.tokenizer_class.is_some();
    let class = class.filter(|class| is_named || class.takes(kind.name(), byte_level));
    if let Some(class) = class {
        class.check(&config, kind.name(), byte_level)?;
        file.model.settings = class.settings(&config);
        json_added::check_unk(&file)?;
    }
    let part = |own: Value, of_class: fn(Class, &ConfigFile) -> Value| {
        class.map_or(own, |class| of_class(class, &config))
    };
    let mut expressions = Expressions::new();
    let own = file.normalizer.tree()?;
    let normalizer = match class {
        None => own,
        Some(class) => class.normalizer(&config, own),
    };
    let normalizer = json_parts::normalizer(&normalizer, &mut expressions)?;
    let pre = part(own_pre, Class::pre_tokenizer);
    let PreParts { pre, byte_level } = json_parts::pre_tokenizer(&pre, &mut expressions)?;
    let decoder = json_parts::decoder(&part(own_decoder, Class::decoder));
    let spelling = spelling(kind, byte_level, &decoder);

    json_added::add(&mut file, &config, class, &older)?;
    if kind != Kind::Bpe {
        json_added::check_words(&file)?;
    }
    let mut vocab = read_vocab(&file, kind, looks)?;
    let roles = read_roles(&file, &config, class, &mut vocab)?;
    let speller = Speller::new(spelling);
    let lexicon = Lexicon::new(&vocab, &speller, looks)?;
    let model = read_model(&file.model, kind, &vocab, &lexicon, &speller, roles.unk, looks)?;
    let (specials, normalized_specials) = read_specials(&file, &vocab, &normalizer, looks)?;
    Ok(Tokenizer {
        specials,
        normalizer,
        normalized_specials,
        pre,
        model,
        lexicon,
        types: vocab.types,
        roles,
        escapes_space: spelling == Spelling::Pieces,
        strips_space: decoder.strips_space,
        name: String::new(),
        dna: None,
        chat_templates: config.chat_template.map_or_else(Vec::new, TemplateFile::into_named),
    })
}

/// Most bytes of memory for a byte of a `tokenizer_config.json`.
const CONFIG_MEMORY_PER_BYTE: usize = 8;

/// Reads a `tokenizer_config.json`.
fn read_config(config: &[u8]) -> Result<ConfigFile> {
    let config: ConfigFile = read_small(config, "tokenizer_config.json")?;
    for (key, found) in [
        ("split_special_tokens", config.split_special_tokens),
        ("fix_mistral_regex", config.fix_mistral_regex),
    ] {
        if found == Some(true) {
            return Err(Error::Unsupported(format!(
                "the tokenizer_config.json: the key {key:?} is true, which is not supported; supported is: false"
            )));
        }
    }
    Ok(config)
}

/// Reads the configuration, with the older files beside it where it has no list of added tokens, and the tokens of an
/// `added_tokens.json`.
pub(super) fn read_configs(files: &TokenizerFiles<'_>) -> Result<(ConfigFile, AddedFile)> {
    let mut config = files.config.map(read_config).transpose()?.unwrap_or_default();
    if config.added_tokens_decoder.is_some() {
        return Ok((config, AddedFile::default()));
    }
    if let Some(map) = files.special_tokens_map {
        config.update(read_small(map, "special_tokens_map.json")?);
    }
    let older = files.added_tokens.map(|file| read_small(file, "added_tokens.json")).transpose()?;
    Ok((config, older.unwrap_or_default()))
}

/// Reads a small file.
fn read_small<'f, T: serde::Deserialize<'f>>(file: &'f [u8], name: &str) -> Result<T> {
    with_capacity::<u8>(file.len() * CONFIG_MEMORY_PER_BYTE, &format!("the {name}"))?;
    serde_json::from_slice(file)
        .map_err(|e| Error::Format(format!("the {name} cannot be read: {}", shortened(e))))
}

/// The kinds of model.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bpe,
    WordPiece,
    Unigram,
}

impl Kind {
    /// Its name in a `tokenizer.json`.
    fn name(self) -> &'static str {
        match self {
            Kind::Bpe => "BPE",
            Kind::WordPiece => "WordPiece",
            Kind::Unigram => "Unigram",
        }
    }
}

fn kind(model: &ModelFile<'_>) -> Result<Kind> {
    match model.settings.kind.as_deref() {
        Some("BPE") => Ok(Kind::Bpe),
        Some("WordPiece") => Ok(Kind::WordPiece),
        Some("Unigram") => Ok(Kind::Unigram),
        // Files of early versions do not name it.
        None if model.merges.is_some() => Ok(Kind::Bpe),
        None if matches!(model.vocab, VocabFile::Scores(_)) => Ok(Kind::Unigram),
        None if model.settings.max_input_chars_per_word.is_some() => Ok(Kind::WordPiece),
        other => Err(Error::Unsupported(format!(
            "the model {} of the tokenizer.json is not supported; known are BPE, Unigram, WordPiece",
            quoted(other.unwrap_or_default().as_bytes())
        ))),
    }
}

fn spelling(kind: Kind, byte_level: bool, decoder: &DecoderFacts) -> Spelling {
    match kind {
        Kind::WordPiece => Spelling::Continued,
        _ if byte_level || decoder.byte_level => Spelling::Alphabet,
        _ if decoder.escapes_space => Spelling::Pieces,
        _ => Spelling::Plain,
    }
}

/// Puts the model's tokens and the added ones in order of their ids.
fn read_vocab<'f>(file: &'f TokenizerFile<'_>, kind: Kind, looks: Looks<'_>) -> Result<Vocab<'f>> {
    let model: Vec<(&str, u32)> = match &file.model.vocab {
        VocabFile::Ids(tokens) => {
            collected(tokens.len(), VOCAB, tokens.iter().map(|(text, id)| Ok((&**text, *id))))?
        }
        VocabFile::Scores(tokens) => {
            collected(tokens.len(), VOCAB, (0..).zip(tokens).map(|(id, (text, _))| Ok((&**text, id))))?
        }
    };
    let count = model.len() + file.added_tokens.len();
    let added = file.added_tokens.iter().map(|added| (&*added.content, added.id));
    let Some((text, last)) = model.iter().copied().chain(added).max_by_key(|&(_, id)| id) else {
        return Err(Error::Format("the tokenizer.json has no tokens".into()));
    };
    // Ids may have gaps, but not so many that they are no ids.
    if last as usize / 2 > count + 1000 {
        return Err(Error::Format(format!(
            "the token {} has the id {last}, but there are only {count} tokens",
            quoted(text.as_bytes())
        )));
    }
    let n = last as usize + 1;
    let mut vocab = Vocab {
        texts: filled("", n, VOCAB)?,
        types: filled(TokenType::Unused, n, VOCAB)?,
        apart: HashSet::new(),
    };
    let bytes = kind != Kind::WordPiece && file.model.settings.byte_fallback == Some(true);
    for (i, (text, id)) in model.into_iter().enumerate() {
        looks.at(i)?;
        let is_byte = bytes && byte_token(text).is_some();
        vocab.texts[id as usize] = text;
        vocab.types[id as usize] = if is_byte { TokenType::Byte } else { TokenType::Normal };
    }
    for added in &file.added_tokens {
        // A token that the model's vocabulary lacks is found as an added token only: the model never builds it from letters.
        let is_new = vocab.types[added.id as usize] == TokenType::Unused;
        if is_new && !added.special && !added.content.contains(super::vocab::SPACE) {
            vocab.apart.try_reserve(1).map_err(|_| Error::NoMemory(format!("no memory for {VOCAB}")))?;
            vocab.apart.insert(added.id);
        }
        vocab.texts[added.id as usize] = &added.content;
        vocab.types[added.id as usize] =
            if added.special { TokenType::Control } else { TokenType::UserDefined };
    }
    Ok(vocab)
}

/// Finds the tokens with a role: those in the config and those that frame a text.
fn read_roles(
    file: &TokenizerFile<'_>,
    config: &ConfigFile,
    class: Option<Class>,
    vocab: &mut Vocab<'_>,
) -> Result<Roles> {
    let text = |role: &str| {
        let default = || class.and_then(|class| class.default_role(role));
        config.role(role).map_or_else(default, |token| token.map(|token| &*token.content))
    };
    let found = |vocab: &Vocab<'_>, role: &str| text(role).and_then(|text| vocab.find(text));
    let (prefix, suffix) = match class {
        None => json_parts::frame(&file.post_processor.tree()?)?,
        Some(class) if class.keeps_frame() => json_parts::frame(&file.post_processor.tree()?)?,
        Some(class) => {
            let frame = |role: Option<&str>| {
                let Some(role) = role else { return Ok(Vec::new()) };
                let missing = || Error::Format(format!("the token of {role:?} is not in the tokenizer.json"));
                found(vocab, role).map(|id| vec![id]).ok_or_else(missing)
            };
            let [prefix, suffix] = class.frame();
            (frame(prefix)?, frame(suffix)?)
        }
    };
    if let Some(&id) = prefix.iter().chain(&suffix).find(|&&id| id as usize >= vocab.len()) {
        let n = vocab.len();
        return Err(Error::Format(format!(
            "the post-processor names the token {id}, but there are only {n} tokens"
        )));
    }
    let named = |role: &str| found(vocab, role);
    let bos = named("bos_token").or_else(|| named("cls_token")).or(prefix.first().copied());
    let eos = named("eos_token").or_else(|| named("sep_token")).or(suffix.last().copied());
    let model = &file.model;
    let unk = match &model.settings.unk_token {
        Some(text) => Some(vocab.find(text).ok_or_else(|| {
            let text = quoted(text.as_bytes());
            Error::Format(format!("the field \"model.unk_token\" is {text}, which is not a token"))
        })?),
        None => model.settings.unk_id,
    };
    if let Some(id) = unk.filter(|&id| id as usize >= vocab.len()) {
        let n = vocab.len();
        return Err(Error::Format(format!(
            "the field \"model.unk_id\" is {id}, but there are only {n} tokens"
        )));
    }
    // A Unigram model finds its unknown token in a text like any other piece, unless it is an added one.
    let is_piece =
        |&unk: &u32| model.settings.unk_id.is_some() && vocab.types[unk as usize] == TokenType::Normal;
    if let Some(unk) = unk.filter(|unk| !is_piece(unk)) {
        vocab.types[unk as usize] = TokenType::Unknown;
    }
    let pad = found(vocab, "pad_token");
    let unk = unk.or_else(|| found(vocab, "unk_token"));
    // Classes that do not say otherwise give a model no token types.
    let one_type = !config.tells_types().unwrap_or(class == Some(Class::Bert));
    let mut roles = Roles { bos, eos, unk, pad, prefix, suffix, one_type, ..Roles::default() };
    // These keep the file's type, special or not.
    roles.find_ends(vocab, Trust::Types);
    Ok(roles)
}

/// The added tokens: those found in the unnormalized text and those found in the normalized text.
fn read_specials(
    file: &TokenizerFile<'_>,
    vocab: &Vocab<'_>,
    normalizer: &Normalizer,
    looks: Looks<'_>,
) -> Result<(SpecialTokens, SpecialTokens)> {
    let describe = |added: &super::json_file::AddedFile<'_>| Added {
        id: added.id,
        control: vocab.types[added.id as usize] != TokenType::UserDefined,
        lstrip: added.lstrip,
        rstrip: added.rstrip,
        single_word: added.single_word,
    };
    let those =
        |normalized: bool| file.added_tokens.iter().filter(move |added| added.normalized == normalized);
    let raw = those(false).map(|added| Ok((&*added.content, describe(added))));
    let raw = SpecialTokens::new(collected(those(false).count(), SPECIALS, raw)?)?;
    // Limited as one text.
    let mut effort = Effort::under(those(true).map(|added| added.content.len()).sum(), "", looks.0);
    let n = those(true).count();
    let mut normalized = with_capacity(n, SPECIALS)?;
    for (i, added) in those(true).enumerate() {
        looks.at(i)?;
        normalized.push((normalizer.apply(&added.content, Place::Start, &mut effort)?, describe(added)));
    }
    let borrowed = normalized.iter().map(|(text, added)| Ok((&**text, added.clone())));
    Ok((raw, SpecialTokens::new(collected(n, SPECIALS, borrowed)?)?))
}

fn read_model(
    file: &ModelFile<'_>,
    kind: Kind,
    vocab: &Vocab<'_>,
    lexicon: &Lexicon,
    speller: &Speller,
    unk: Option<u32>,
    looks: Looks<'_>,
) -> Result<Model> {
    let unk_in_model = unk.filter(|_| file.settings.unk_token.is_some() || file.settings.unk_id.is_some());
    let byte_fallback = file.settings.byte_fallback.unwrap_or(false);
    let prefix = file.settings.continuing_subword_prefix.as_deref().unwrap_or_default();
    match (kind, &file.vocab) {
        (Kind::Bpe, VocabFile::Ids(_)) => {
            for (field, affix) in [
                ("continuing_subword_prefix", prefix),
                ("end_of_word_suffix", file.settings.end_of_word_suffix.as_deref().unwrap_or_default()),
            ] {
                if !affix.is_empty() {
                    return Err(Error::Unsupported(format!(
                        "the field \"model.{field}\" is {}; a BPE model with one is not supported",
                        quoted(affix.as_bytes())
                    )));
                }
            }
            let merges = read_merges(file, vocab, lexicon, speller, looks)?;
            let units = if speller.spelling() == Spelling::Alphabet {
                Units::bytes(lexicon, false)
            } else {
                let fuse_unk = file.settings.fuse_unk.unwrap_or(false);
                Units::Chars { byte_fallback, unk: unk_in_model, fuse_unk, gaps: false }
            };
            let ignore_merges = file.settings.ignore_merges.unwrap_or(false);
            Ok(Model::Bpe(Bpe { merges, units, ignore_merges, whole_line_feeds: false }))
        }
        (Kind::WordPiece, VocabFile::Ids(_)) => {
            if !matches!(prefix, "" | "##") {
                return Err(Error::Unsupported(format!(
                    "the field \"model.continuing_subword_prefix\" is {}; only \"##\" is supported",
                    quoted(prefix.as_bytes())
                )));
            }
            let max_chars = file.settings.max_input_chars_per_word.unwrap_or(MAX_CHARS).min(1000);
            Ok(Model::WordPiece(WordPiece { unk: unk_in_model, max_chars }))
        }
        (Kind::Unigram, VocabFile::Scores(tokens)) => {
            let mut scores = filled(0.0, vocab.len(), "the scores of the vocabulary")?;
            for (id, (_, score)) in tokens.iter().enumerate() {
                scores[id] = *score;
            }
            let min_score = scores[..tokens.len()].iter().copied().fold(f64::INFINITY, f64::min);
            let min_score = if min_score.is_finite() { min_score } else { 0.0 };
            let unigram = Unigram::new(lexicon, scores, min_score, unk_in_model, byte_fallback, looks)?;
            Ok(Model::Unigram(unigram))
        }
        (Kind::Unigram, _) => {
            Err(Error::Format("the field \"model.vocab\" has ids, but Unigram needs scores".into()))
        }
        _ => Err(Error::Format("the field \"model.vocab\" has scores, but the model needs ids".into())),
    }
}

fn read_merges(
    file: &ModelFile<'_>,
    vocab: &Vocab<'_>,
    lexicon: &Lexicon,
    speller: &Speller,
    looks: Looks<'_>,
) -> Result<super::merges::Merges> {
    let list = file.merges.as_deref().unwrap_or_default();
    check_n_merges(MERGES, list.len())?;
    let mut merges = MergeReader::new(vocab, lexicon, speller, MERGES, list.len())?;
    for (rank, merge) in list.iter().enumerate() {
        looks.at(rank)?;
        let (left, right) = match merge {
            MergeFile::Pair(left, right) => (&**left, &**right),
            MergeFile::Line(line) => split_merge(line).ok_or_else(|| {
                let line = quoted(line.as_bytes());
                bad_merge(MERGES, rank, &format!("is {line}, not two texts separated by a space"))
            })?,
        };
        merges.push(rank, left, right).map_err(|missing| {
            let line = quoted([left, right].join(" ").as_bytes());
            bad_merge(MERGES, rank, &format!("is {line}, but {missing} is not a token"))
        })?;
    }
    Ok(merges.finish())
}
