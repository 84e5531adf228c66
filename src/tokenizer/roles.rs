//! Which tokens play a role: those that frame a text and those that end a generation.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use super::vocab::{TokenType, Vocab};

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

/// The tokens with a role, and what frames a text.
#[derive(Debug, Default)]
pub(super) struct Roles {
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) eot: Option<u32>,
    pub(super) eom: Option<u32>,
    pub(super) unk: Option<u32>,
    pub(super) pad: Option<u32>,
    /// Put before a text when asked.
    pub(super) prefix: Vec<u32>,
    /// Put behind a text when asked.
    pub(super) suffix: Vec<u32>,
    /// Every token that ends a generation.
    pub(super) eog: BTreeSet<u32>,
}

impl Roles {
    /// Finds the tokens that end a generation, those named already and those known by their text; gives the latter.
    pub(super) fn find_ends(&mut self, vocab: &Vocab<'_>) -> Vec<u32> {
        let ends = [self.eos, self.eot, self.eom];
        self.eog = ends.into_iter().flatten().collect();
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
        let has = |wanted: &str| known.iter().any(|&id| vocab.texts[id as usize] == wanted);
        // Where messages have parts, `<|end|>` ends a part, and the last part ends in one of the others.
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
        known
    }
}
