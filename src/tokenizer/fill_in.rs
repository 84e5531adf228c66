//! The tokens that ask code models to fill a gap in a text.
#![forbid(unsafe_code)]

use super::roles::Trust;
use super::vocab::{TokenType, Vocab};
use crate::error::Result;

/// Texts of control tokens that code models put around the parts of a file: before the text in front of the gap, before the text
/// after it, and before the text that fills it. A row for each family. They end no generation.
const MARKS: [[&str; 3]; 8] = [
    ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
    ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"],
    ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
    ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
    ["<PRE>", "<SUF>", "<MID>"],
    ["▁<PRE>", "▁<SUF>", "▁<MID>"],
    ["<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"],
    ["<|prefix|>", "<|suffix|>", "<|middle|>"],
];

/// The marks of Mistral's code models, which have two. Their texts are common words, so the file decides whether they are control
/// tokens.
const MISTRAL: [&str; 2] = ["[PREFIX]", "[SUFFIX]"];

/// Texts of control tokens before the name of a repository and before that of a file.
const REPOSITORY: [&str; 6] =
    ["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<repo_name>"];
const FILE: [&str; 3] = ["<|file_sep|>", "<file_sep>", "<filename>"];

/// Whether a token of this text is a control token, whatever its file says.
pub(super) fn is_mark(text: &str) -> bool {
    MARKS.iter().flatten().any(|&mark| mark == text)
}

/// The tokens; a model that was not trained to fill gaps has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FillIn {
    /// Before the text in front of the gap.
    pub prefix: Option<u32>,
    /// Before the text after it.
    pub suffix: Option<u32>,
    /// Before the text that fills it.
    pub middle: Option<u32>,
    /// Before the name of a repository.
    pub repository: Option<u32>,
    /// Before the name of a file, which a line end and the file's text follow.
    pub file: Option<u32>,
}

impl FillIn {
    /// The tokens that keys name, newer names of keys before older ones; `id` reads a key.
    pub(super) fn named(id: impl Fn(&str) -> Result<Option<u32>>) -> Result<FillIn> {
        let of = |names: &[&str]| -> Result<Option<u32>> {
            for name in names {
                if let Some(found) = id(&format!("tokenizer.ggml.{name}_token_id"))? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        };
        Ok(FillIn {
            prefix: of(&["fim_pre", "prefix"])?,
            suffix: of(&["fim_suf", "suffix"])?,
            middle: of(&["fim_mid", "middle"])?,
            repository: of(&["fim_rep"])?,
            file: of(&["fim_sep"])?,
        })
    }

    /// Adds tokens without a key, by their texts: the marks of the first family that is complete.
    pub(super) fn find(&mut self, vocab: &Vocab<'_>, trust: Trust) {
        let texts = || MARKS.iter().flatten().chain(&MISTRAL).chain(&REPOSITORY).chain(&FILE);
        let mut found = vec![None; texts().count()];
        let is_special = |ty| matches!(ty, TokenType::Control | TokenType::UserDefined);
        for (id, text, ty) in vocab.iter().filter(|(_, text, _)| text.starts_with(['<', '[', '▁'])) {
            let trusted = is_special(ty) || trust == Trust::Texts && is_mark(text);
            if trusted && let Some(at) = texts().position(|&known| known == text) {
                found[at].get_or_insert(id);
            }
        }
        let (marks, others) = found.split_at(3 * MARKS.len());
        let (mistral, others) = others.split_at(MISTRAL.len());
        let (repository, file) = others.split_at(REPOSITORY.len());
        let family = marks.chunks(3).find(|marks| marks.iter().all(Option::is_some));
        let marks = family.or_else(|| Some(mistral).filter(|marks| marks.iter().all(Option::is_some)));
        if let Some(marks) = marks.filter(|_| self.prefix.is_none() || self.suffix.is_none()) {
            self.prefix = self.prefix.or(marks[0]);
            self.suffix = self.suffix.or(marks[1]);
            self.middle = self.middle.or(marks.get(2).copied().flatten());
        }
        self.repository = self.repository.or_else(|| repository.iter().copied().flatten().next());
        self.file = self.file.or_else(|| file.iter().copied().flatten().next());
    }
}
