//! Which tokens play a role: those that frame a text and those that end a generation.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use super::fill_in::{self, FillIn};
use super::vocab::{TokenType, Vocab};
use crate::error::quoted;

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

/// The end of a text, and HTML's tag for struck-out text. Gemma's and PLaMo's vocabularies have it as the latter, beside one of
/// these tokens.
const STRIKE: &str = "</s>";
const STRIKE_BESIDE: [&str; 4] = ["<start_of_turn>", "<end_of_turn>", "<|tool_response>", "<|plamo:eos|>"];

/// Whether the types of tokens with known texts are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// A normal token is text: the file comes from the authors.
    Types,
    /// The text decides: exporters have typed ends of turns as normal text.
    Texts,
}

/// The tokens with a role, and what frames a text.
#[derive(Debug, Default)]
pub(super) struct Roles {
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) eot: Option<u32>,
    pub(super) eom: Option<u32>,
    pub(super) unk: Option<u32>,
    pub(super) pad: Option<u32>,
    /// Put before a text on request.
    pub(super) prefix: Vec<u32>,
    /// Put after a text on request.
    pub(super) suffix: Vec<u32>,
    /// Every token that ends a generation.
    pub(super) eog: BTreeSet<u32>,
    /// The model has no token types, which say which text of a pair a token is of.
    pub(super) one_type: bool,
    /// The tokens that ask for a gap to be filled.
    pub(super) fill_in: FillIn,
}

impl Roles {
    /// Finds the tokens that end a generation, already named ones and those known by their text. Returns the tokens that are
    /// control tokens by their text: the latter, and those of code models for filling gaps.
    pub(super) fn find_ends(&mut self, vocab: &Vocab<'_>, trust: Trust) -> Vec<u32> {
        self.fill_in.find(vocab, trust);
        let ends = [self.eos, self.eot, self.eom];
        self.eog.extend(ends.into_iter().flatten());
        let mut first_of = [None; END_OF_TURN.len()];
        let (mut known, mut others) = (Vec::new(), Vec::new());
        let struck = vocab.iter().any(|(_, text, _)| STRIKE_BESIDE.contains(&text));
        for (id, text, ty) in vocab.iter() {
            let is_special = matches!(ty, TokenType::Control | TokenType::UserDefined);
            if !ends.contains(&Some(id)) {
                if trust == Trust::Types && !is_special {
                    continue;
                }
                // Only its type distinguishes the end of a text from the tag.
                let is_tag = !is_special || (struck && ty != TokenType::Control);
                if trust == Trust::Texts && text == STRIKE && is_tag {
                    continue;
                }
            }
            if let Some(rank) = END_OF_TURN.iter().position(|&t| t == text) {
                first_of[rank].get_or_insert(id);
                known.push(id);
            } else if END_OF_GENERATION.contains(&text) {
                known.push(id);
            } else if fill_in::is_mark(text) {
                others.push(id);
            }
        }
        let has = |wanted: &str| known.iter().any(|&id| vocab.texts[id as usize] == wanted);
        // Where messages have parts, `<|end|>` ends a part, and another token ends the last part.
        let has_call = has("<|call|>") || has("<|calls|>");
        let parts = has_call && (has("<|return|>") || has("<|flush|>"));
        let ordinary: &[&str] = match (parts, has("<|tool_response>")) {
            (true, false) => &["<|end|>"],
            (false, true) => &["</s>"],
            (true, true) => &["<|end|>", "</s>"],
            (false, false) => &[],
        };
        known.retain(|&id| !ordinary.contains(&vocab.texts[id as usize]));
        first_of.iter_mut().for_each(|first| *first = first.filter(|id| known.contains(id)));
        self.eog.extend(&known);
        self.eot = self.eot.or_else(|| first_of.into_iter().flatten().next());
        known.extend(others);
        known
    }
}

/// Warns of tokens that are control tokens by their text and text by the file's type. User-defined ones are common and not
/// reported.
pub(super) fn warn_of_types(vocab: &Vocab<'_>, controls: &[u32], key: &str) {
    const SHOWN: usize = 8;
    let is_wrong =
        |id: &&u32| !matches!(vocab.types[**id as usize], TokenType::Control | TokenType::UserDefined);
    let n = controls.iter().filter(is_wrong).count();
    let shown = controls.iter().filter(is_wrong).take(SHOWN);
    let shown: Vec<String> =
        shown.map(|&id| format!("{id} {}", quoted(vocab.texts[id as usize].as_bytes()))).collect();
    if n > 0 {
        let more = if n > SHOWN { format!(" and {} more", n - SHOWN) } else { String::new() };
        log::warn!(
            "the key {key:?} says that control tokens are text; these are taken for control tokens: {}{more}",
            shown.join(", ")
        );
    }
}
