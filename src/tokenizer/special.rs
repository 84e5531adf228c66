//! Special tokens: which tokens play a role, which end a generation, and how they are found in text.
#![forbid(unsafe_code)]

use std::collections::{BTreeSet, HashMap};

use super::vocab::{TOKENS, TokenType, Vocab};
use crate::error::{Error, Result};
use crate::gguf::Metadata;

/// Texts of control tokens that end a turn; the first one found is the end-of-turn token when the file names none.
const END_OF_TURN: [&str; 11] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
];

/// Texts of further control tokens after which there is nothing more to generate: other ends of text, tool calls,
/// and the markers between files and repositories of code models.
const END_OF_GENERATION: [&str; 22] = [
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "</s>",
    "<|eom_id|>",
    "[EOS]",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
];

/// The tokens with a role, and whether text is framed by them.
pub(super) struct Roles {
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) eot: Option<u32>,
    pub(super) unk: Option<u32>,
    pub(super) pad: Option<u32>,
    pub(super) add_bos: bool,
    pub(super) add_eos: bool,
    /// Every token that ends a generation.
    pub(super) eog: BTreeSet<u32>,
}

/// What the kind of vocabulary says where the file is silent.
pub(super) struct Defaults {
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) unk: Option<u32>,
    pub(super) add_bos: bool,
}

impl Roles {
    /// Reads the ids and flags. Tokens that end a generation by their text become control tokens in `vocab`.
    pub(super) fn from_gguf(meta: &Metadata, vocab: &mut Vocab<'_>, defaults: &Defaults) -> Result<Roles> {
        let n = vocab.len();
        let id = |key: &str, default: Option<u32>| match meta.u32(key)? {
            Some(id) if id as usize >= n => {
                Err(Error::Format(format!("the key {key:?} is {id}, but {TOKENS:?} has only {n} tokens")))
            }
            Some(id) => Ok(Some(id)),
            None => Ok(default.filter(|&id| (id as usize) < n)),
        };
        let bos = id("tokenizer.ggml.bos_token_id", defaults.bos)?;
        let eos = id("tokenizer.ggml.eos_token_id", defaults.eos)?;
        let named_eot = id("tokenizer.ggml.eot_token_id", None)?;
        let eom = id("tokenizer.ggml.eom_token_id", None)?;
        let unk = id("tokenizer.ggml.unknown_token_id", defaults.unk)?;
        let pad = id("tokenizer.ggml.padding_token_id", None)?;

        let framed = |key: &str, id: Option<u32>, id_key: &str, default: bool| match (meta.bool(key)?, id) {
            (Some(true), None) => {
                Err(Error::Format(format!("the key {key:?} is true, but the key {id_key:?} is missing")))
            }
            (flag, _) => Ok(flag.unwrap_or(default && id.is_some())),
        };
        let add_bos =
            framed("tokenizer.ggml.add_bos_token", bos, "tokenizer.ggml.bos_token_id", defaults.add_bos)?;
        let add_eos = framed("tokenizer.ggml.add_eos_token", eos, "tokenizer.ggml.eos_token_id", false)?;

        let ends = [eos, named_eot, eom];
        let mut eog: BTreeSet<u32> = ends.into_iter().flatten().collect();
        let mut first_of = [None; END_OF_TURN.len()];
        let mut known = Vec::new();
        for (id, text, ty) in vocab.iter() {
            // A normal token of such a text is text, unless the file gives it a role.
            if !matches!(ty, TokenType::Control | TokenType::UserDefined) && !ends.contains(&Some(id)) {
                continue;
            }
            if let Some(rank) = END_OF_TURN.iter().position(|&t| t == text) {
                first_of[rank].get_or_insert(id);
                known.push(id);
            } else if END_OF_GENERATION.contains(&text) {
                known.push(id);
            }
        }
        for &id in &known {
            vocab.types[id as usize] = TokenType::Control;
        }
        eog.extend(known);
        let eot = named_eot.or_else(|| first_of.into_iter().flatten().next());
        Ok(Roles { bos, eos, eot, unk, pad, add_bos, add_eos, eog })
    }
}

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fragment<'t> {
    /// To be encoded.
    Text(&'t str),
    /// Spelled a special token.
    Token(u32),
}

/// Finds special tokens in text.
pub(super) struct SpecialTokens {
    /// User-defined tokens, which every text is searched for.
    always: Finder,
    /// Those and the control and unknown tokens.
    all: Finder,
}

impl SpecialTokens {
    /// Indexes the special tokens of `vocab`. Of tokens with the same text the first counts.
    pub(super) fn new(vocab: &Vocab<'_>) -> SpecialTokens {
        let mut always = Finder::default();
        let mut all = Finder::default();
        for (id, text, ty) in vocab.iter().filter(|(_, text, _)| (1..=MAX_SEARCHED).contains(&text.len())) {
            match ty {
                TokenType::UserDefined => {
                    always.add(text, id);
                    all.add(text, id);
                }
                TokenType::Control | TokenType::Unknown => all.add(text, id),
                _ => {}
            }
        }
        SpecialTokens { always, all }
    }

    /// Cuts `text` at special tokens; control and unknown tokens count only if `control` is true.
    ///
    /// Longer tokens are looked for first, over the whole text; among tokens of one length the leftmost wins.
    pub(super) fn split<'t>(&self, text: &'t str, control: bool) -> Vec<Fragment<'t>> {
        let finder = if control { &self.all } else { &self.always };
        let mut fragments = if text.is_empty() { vec![] } else { vec![Fragment::Text(text)] };
        for group in finder.groups.iter().rev() {
            let mut finer = Vec::with_capacity(fragments.len());
            for fragment in fragments {
                match fragment {
                    Fragment::Text(text) => group.split(text, &finder.ids, &mut finer),
                    token => finer.push(token),
                }
            }
            fragments = finer;
        }
        fragments
    }
}

/// The longest special token, in bytes, that is looked for in text. Real ones are shorter by far; the limit keeps the
/// search linear in the text for any vocabulary.
const MAX_SEARCHED: usize = 256;

/// A set of texts to look for.
#[derive(Default)]
struct Finder {
    ids: HashMap<Box<str>, u32>,
    /// The texts' lengths, ascending.
    groups: Vec<Group>,
}

/// The texts of one length.
struct Group {
    /// In bytes.
    len: usize,
    /// Which bytes such a text begins with.
    first: [bool; 256],
}

impl Finder {
    /// `text` is not empty.
    fn add(&mut self, text: &str, id: u32) {
        self.ids.entry(text.into()).or_insert(id);
        let at = match self.groups.binary_search_by_key(&text.len(), |g| g.len) {
            Ok(at) => at,
            Err(at) => {
                self.groups.insert(at, Group { len: text.len(), first: [false; 256] });
                at
            }
        };
        self.groups[at].first[text.as_bytes()[0] as usize] = true;
    }
}

impl Group {
    /// Appends `text`, cut at this group's tokens, to `out`.
    fn split<'t>(&self, text: &'t str, ids: &HashMap<Box<str>, u32>, out: &mut Vec<Fragment<'t>>) {
        let bytes = text.as_bytes();
        let (mut done, mut at) = (0, 0);
        while at + self.len <= bytes.len() {
            let found = if self.first[bytes[at] as usize] {
                text.get(at..at + self.len).and_then(|candidate| ids.get(candidate))
            } else {
                None
            };
            match found {
                Some(&id) => {
                    if done < at {
                        out.push(Fragment::Text(&text[done..at]));
                    }
                    out.push(Fragment::Token(id));
                    at += self.len;
                    done = at;
                }
                None => at += 1,
            }
        }
        if done < bytes.len() {
            out.push(Fragment::Text(&text[done..]));
        }
    }
}
