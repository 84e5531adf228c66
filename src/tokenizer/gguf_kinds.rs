//! How the kinds of vocabulary in GGUF files are built.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use super::Model;
use super::bpe::{Bpe, MergeReader, Units, bad_merge, check_n_merges, split_merge};
use super::charsmap::Charsmap;
use super::expression::Expressions;
use super::gguf::{CHARSMAP, MERGES, SCORES, TOKENS, named, read_scores};
use super::longest::Longest;
use super::looks::Looks;
use super::normalize::{Normalizer, Step};
use super::plamo::Plamo;
use super::pre::{Cut, PreTokenizer, Stage};
use super::pre_registry::{Entry, LINES};
use super::spm::Spm;
use super::unigram::Unigram;
use super::vocab::{Lexicon, SPACE, Speller, Spelling, TokenType, Vocab};
use super::wordpiece::{MAX_CHARS, WordPiece};
use crate::error::{Error, Result, quoted};
use crate::gguf::{Array, Metadata, Value, collected, with_capacity};

/// The parts that differ for each kind of vocabulary.
pub(super) struct Parts {
    pub(super) lexicon: Lexicon,
    pub(super) model: Model,
    pub(super) normalizer: Normalizer,
    pub(super) pre: PreTokenizer,
    /// Pieces write a space as `▁`.
    pub(super) escapes_space: bool,
    /// Decoding removes the space that encoding puts before a text.
    pub(super) strips_space: bool,
}

/// Reads the merges.
fn read_merges(
    meta: &Metadata,
    vocab: &Vocab<'_>,
    lexicon: &Lexicon,
    speller: &Speller,
    looks: Looks<'_>,
) -> Result<super::merges::Merges> {
    let lines = meta.require_strings(MERGES)?;
    check_n_merges(MERGES, lines.len())?;
    let mut merges = MergeReader::new(vocab, lexicon, speller, MERGES, lines.len())?;
    for (rank, line) in lines.iter().enumerate() {
        looks.at(rank)?;
        let line =
            std::str::from_utf8(line).map_err(|e| bad_merge(MERGES, rank, &format!("is not UTF-8: {e}")))?;
        let Some((left, right)) = split_merge(line) else {
            let what = format!("is {}, not two texts separated by a space", quoted(line.as_bytes()));
            return Err(bad_merge(MERGES, rank, &what));
        };
        merges.push(rank, left, right).map_err(|missing| {
            let line = quoted(line.as_bytes());
            bad_merge(MERGES, rank, &format!("is {line}, but {missing} is not a token in {TOKENS:?}"))
        })?;
    }
    Ok(merges.finish())
}

/// Byte-level BPE.
pub(super) fn bpe(meta: &Metadata, vocab: &Vocab<'_>, entry: &Entry, looks: Looks<'_>) -> Result<Parts> {
    let speller = Speller::new(Spelling::Alphabet);
    let lexicon = Lexicon::new(vocab, &speller, looks)?;
    let merges = read_merges(meta, vocab, &lexicon, &speller, looks)?;
    let units = Units::bytes(&lexicon, true);
    let bpe = Bpe { merges, units, ignore_merges: entry.ignore_merges, whole_line_feeds: false };
    let steps = if entry.nfc { vec![Step::nfc()?] } else { vec![] };
    Ok(Parts {
        lexicon,
        model: Model::Bpe(bpe),
        normalizer: Normalizer { steps },
        pre: entry.pre_tokenizer()?,
        escapes_space: false,
        strips_space: false,
    })
}

/// Gemma 4 and others: SentencePiece's pieces with merges written out; lines are merged on their own.
pub(super) fn pieces(
    meta: &Metadata,
    vocab: &Vocab<'_>,
    unk: Option<u32>,
    whole_line_feeds: bool,
    looks: Looks<'_>,
) -> Result<Parts> {
    let speller = Speller::new(Spelling::Pieces);
    let lexicon = Lexicon::new(vocab, &speller, looks)?;
    let merges = read_merges(meta, vocab, &lexicon, &speller, looks)?;
    let units = Units::Chars { byte_fallback: true, unk, fuse_unk: true, gaps: false };
    let lines = Cut::new(LINES, "gemma4", &mut Expressions::new())?;
    let normalizer = prefix_if_asked(meta, false)?;
    Ok(Parts {
        lexicon,
        model: Model::Bpe(Bpe { merges, units, ignore_merges: false, whole_line_feeds }),
        strips_space: !normalizer.steps.is_empty(),
        normalizer,
        pre: PreTokenizer::of(vec![Stage::Cut(lines)]),
        escapes_space: true,
    })
}

/// Words between white space, in plain characters (`jina-embeddings-v2-base-zh`).
pub(super) fn plain(
    meta: &Metadata,
    vocab: &Vocab<'_>,
    entry: &Entry,
    unk: Option<u32>,
    looks: Looks<'_>,
) -> Result<Parts> {
    let speller = Speller::new(Spelling::Plain);
    let lexicon = Lexicon::new(vocab, &speller, looks)?;
    let merges = read_merges(meta, vocab, &lexicon, &speller, looks)?;
    let units = Units::Chars { byte_fallback: true, unk, fuse_unk: false, gaps: true };
    let lowercase = meta.bool("tokenizer.ggml.normalizer.lowercase")?.unwrap_or(false);
    Ok(Parts {
        lexicon,
        model: Model::Bpe(Bpe { merges, units, ignore_merges: entry.ignore_merges, whole_line_feeds: false }),
        normalizer: Normalizer { steps: if lowercase { vec![Step::Lowercase] } else { vec![] } },
        pre: entry.pre_tokenizer()?,
        escapes_space: false,
        strips_space: false,
    })
}

/// RWKV's tokens, whose texts are escaped bytes.
pub(super) fn longest(vocab: &Vocab<'_>, unk: Option<u32>, looks: Looks<'_>) -> Result<Parts> {
    let lexicon = Lexicon::new(vocab, &Speller::new(Spelling::Escaped), looks)?;
    Ok(Parts {
        model: Model::Longest(Longest::new(&lexicon, unk)?),
        lexicon,
        normalizer: Normalizer::default(),
        pre: PreTokenizer::default(),
        escapes_space: false,
        strips_space: false,
    })
}

/// PLaMo 2's pieces.
pub(super) fn plamo(meta: &Metadata, vocab: &Vocab<'_>, unk: Option<u32>, looks: Looks<'_>) -> Result<Parts> {
    let lexicon = Lexicon::new(vocab, &Speller::new(Spelling::Plain), looks)?;
    Ok(Parts {
        model: Model::Plamo(Plamo::new(&lexicon, &read_scores(meta, vocab.len())?, unk, looks)?),
        lexicon,
        normalizer: Normalizer::default(),
        pre: PreTokenizer::default(),
        escapes_space: false,
        strips_space: false,
    })
}

/// A space before text at the start of the sequence and after special tokens, if the file asks for it.
fn prefix_if_asked(meta: &Metadata, default: bool) -> Result<Normalizer> {
    let wanted = meta.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(default);
    let prefix = Step::Prefix(SPACE.to_owned());
    Ok(Normalizer { steps: if wanted { vec![prefix] } else { vec![] } })
}

/// SentencePiece's BPE by scores.
pub(super) fn spm(meta: &Metadata, vocab: &Vocab<'_>, unk: Option<u32>, looks: Looks<'_>) -> Result<Parts> {
    let scores = read_scores(meta, vocab.len())?;
    let mut normalizer = prefix_if_asked(meta, true)?;
    let strips_space = !normalizer.steps.is_empty();
    normalizer.steps.push(Step::Replace(SPACE.to_owned(), " ".to_owned()));
    Ok(Parts {
        lexicon: Lexicon::new(vocab, &Speller::new(Spelling::Pieces), looks)?,
        model: Model::Spm(Spm { scores, unk }),
        strips_space,
        normalizer,
        pre: PreTokenizer::default(),
        escapes_space: false,
    })
}

/// BERT's words. The conversion to GGUF marks tokens that begin a word with `▁` and drops the `##` of the others.
pub(super) fn wordpiece(
    meta: &Metadata,
    vocab: &Vocab<'_>,
    unk: Option<u32>,
    looks: Looks<'_>,
) -> Result<Parts> {
    let lowercase = meta.bool("tokenizer.ggml.normalizer.lowercase")?.unwrap_or(true);
    let strip_accents = meta.bool("tokenizer.ggml.normalizer.strip_accents")?;
    Ok(Parts {
        lexicon: Lexicon::new(vocab, &Speller::new(Spelling::Pieces), looks)?,
        model: Model::WordPiece(WordPiece { unk, max_chars: MAX_CHARS }),
        normalizer: Normalizer { steps: vec![Step::bert(strip_accents, lowercase)?] },
        pre: PreTokenizer::of(vec![Stage::bert()?]),
        escapes_space: false,
        strips_space: true,
    })
}

/// T5's and XLM-RoBERTa's pieces.
pub(super) fn unigram(
    meta: &Metadata,
    vocab: &Vocab<'_>,
    unk: Option<u32>,
    looks: Looks<'_>,
) -> Result<Parts> {
    let mut scores: Vec<f64> = with_capacity(vocab.len(), &named(SCORES))?;
    scores.extend(read_scores(meta, vocab.len())?.into_iter().map(f64::from));
    let mut min_score = f64::INFINITY;
    for (id, _, ty) in vocab.iter() {
        match ty {
            TokenType::UserDefined => scores[id as usize] = 0.0,
            TokenType::Normal => min_score = min_score.min(scores[id as usize]),
            _ => {}
        }
    }
    let lexicon = Lexicon::new(vocab, &Speller::new(Spelling::Pieces), looks)?;
    let min_score = if min_score.is_finite() { min_score } else { 0.0 };
    let unigram = Unigram::new(&lexicon, scores, min_score, unk, false, looks)?;
    let mut steps = Vec::new();
    if let Some(blob) = read_charsmap(meta)? {
        steps.push(Step::Charsmap { map: Box::new(Charsmap::new(&blob, CHARSMAP)?), graphemes: false });
    }
    if meta.bool("tokenizer.ggml.remove_extra_whitespaces")?.unwrap_or(false) {
        steps.push(Step::CollapseSpaces);
    }
    let prefix = prefix_if_asked(meta, true)?;
    let strips_space = !prefix.steps.is_empty();
    steps.extend(prefix.steps);
    Ok(Parts {
        lexicon,
        model: Model::Unigram(unigram),
        normalizer: Normalizer { steps },
        pre: PreTokenizer::default(),
        escapes_space: true,
        strips_space,
    })
}

/// The normalization table, if there is one that says anything.
pub(super) fn read_charsmap(meta: &Metadata) -> Result<Option<Cow<'_, [u8]>>> {
    Ok(match meta.get(CHARSMAP) {
        None => None,
        Some(Value::Array(Array::U8(bytes))) => Some(Cow::Borrowed(&bytes[..])),
        Some(Value::Array(Array::I8(bytes))) => {
            let bytes = collected(bytes.len(), &named(CHARSMAP), bytes.iter().map(|&b| Ok(b as u8)))?;
            Some(Cow::Owned(bytes))
        }
        Some(_) => {
            return Err(Error::Format(format!(
                "the key {CHARSMAP:?} is not an array of bytes, as it must be"
            )));
        }
    }
    .filter(|bytes| !bytes.is_empty()))
}
