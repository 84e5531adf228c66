//! The triggers of a constraint.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use llguidance::Matcher;

use super::options::{MAX_TRIGGER, MAX_TRIGGERS, Trigger};
use super::vocabulary::Vocabulary;
use crate::error::{Error, Result};

/// The triggers of a constraint.
pub(super) struct Watch {
    tokens: Vec<u32>,
    texts: Vec<Text>,
    /// Texts that must not be generated.
    never: Vec<Text>,
    /// Length of the longest text.
    longest: usize,
}

/// An awaited text.
struct Text {
    text: Vec<u8>,
    /// For each length of its beginning at the end of the text so far: the tokens that would complete it and continue with text
    /// that the grammar does not allow. Computed when they are first asked for.
    denied: Vec<OnceLock<Vec<u32>>>,
    /// The same for all tokens that would complete it.
    complete: Vec<OnceLock<Vec<u32>>>,
}

impl Text {
    fn new(text: &str) -> Text {
        let lists = || (0..text.len()).map(|_| OnceLock::new()).collect();
        Text { text: text.as_bytes().to_vec(), denied: lists(), complete: lists() }
    }

    /// Appends the tokens that would complete it after `tail`.
    fn completed_by(&self, tail: &[u8], vocabulary: &Vocabulary, ids: &mut Vec<u32>) {
        for (n, list) in self.complete.iter().enumerate().filter(|(n, _)| tail.ends_with(&self.text[..*n])) {
            ids.extend(list.get_or_init(|| complete(&self.text, n, vocabulary)));
        }
    }
}

/// The effect of a token.
pub(super) enum Seen {
    /// Nothing.
    Nothing,
    /// A trigger; these bytes of the token follow it.
    Trigger(Vec<u8>),
}

impl Watch {
    /// `None` where there are no triggers. `InvalidArgument` for one that is empty, too long or no token.
    pub(super) fn new(
        triggers: &[Trigger],
        never: &[String],
        vocabulary: &Vocabulary,
    ) -> Result<Option<Watch>> {
        let refuse = |why: String| Err(Error::InvalidArgument(why));
        if triggers.len() > MAX_TRIGGERS {
            return refuse(format!(
                "a constraint has at most {MAX_TRIGGERS} triggers, got {}",
                triggers.len()
            ));
        }
        if never.len() > MAX_TRIGGERS || never.iter().any(|text| text.is_empty() || text.len() > MAX_TRIGGER)
        {
            return refuse(format!(
                "texts that may not come are at most {MAX_TRIGGERS}, of 1 to {MAX_TRIGGER} bytes each"
            ));
        }
        if triggers.is_empty() && !never.is_empty() {
            return refuse(
                "a constraint without triggers never waits, so no text can be kept from coming".into(),
            );
        }
        let mut watch = Watch {
            tokens: Vec::new(),
            texts: Vec::new(),
            never: never.iter().map(|text| Text::new(text)).collect(),
            longest: never.iter().map(String::len).max().unwrap_or(0),
        };
        for trigger in triggers {
            match trigger {
                Trigger::Token(id) if *id as usize >= vocabulary.len() => {
                    let n = vocabulary.len();
                    return refuse(format!(
                        "the trigger token {id} does not exist: the vocabulary has {n} tokens"
                    ));
                }
                Trigger::Token(id) if vocabulary.is_end(*id) => {
                    return refuse(format!(
                        "the trigger token {id} ends a text, so that nothing can follow it"
                    ));
                }
                Trigger::Token(id) => watch.tokens.push(*id),
                Trigger::Text(text) if text.is_empty() => return refuse("a trigger text is empty".into()),
                Trigger::Text(text) if text.len() > MAX_TRIGGER => {
                    let n = text.len();
                    return refuse(format!("a trigger text has at most {MAX_TRIGGER} bytes, got {n}"));
                }
                Trigger::Text(text) => {
                    watch.longest = watch.longest.max(text.len());
                    watch.texts.push(Text::new(text));
                }
            }
        }
        Ok((!triggers.is_empty()).then_some(watch))
    }

    /// Takes a generated token. `tail` is the end of the text so far, as much as triggers need.
    pub(super) fn take(&self, id: u32, vocabulary: &Vocabulary, tail: &mut Vec<u8>) -> Seen {
        if self.tokens.contains(&id) {
            return Seen::Trigger(Vec::new());
        }
        let n_old = tail.len();
        tail.extend_from_slice(vocabulary.tokenizer().token_bytes(id).unwrap_or_default());
        // The trigger that is complete first counts; of those complete at the same byte, the longest. They leave the same rest.
        let found =
            (n_old + 1..=tail.len()).find(|&end| self.texts.iter().any(|t| tail[..end].ends_with(&t.text)));
        if let Some(end) = found {
            return Seen::Trigger(tail[end..].to_vec());
        }
        tail.drain(..tail.len().saturating_sub(self.longest.saturating_sub(1)));
        Seen::Nothing
    }

    /// Adds the tokens that may not be next, in ascending order: each would complete a trigger.
    pub(super) fn deny_all(&self, tail: &[u8], vocabulary: &Vocabulary, denied: &mut Vec<u32>) {
        denied.clear();
        denied.extend(&self.tokens);
        for text in self.texts.iter().chain(&self.never) {
            text.completed_by(tail, vocabulary, denied);
        }
        denied.sort_unstable();
        denied.dedup();
    }

    /// Adds the tokens that may not be next, in ascending order: each would complete a trigger with a rest that `start`, the
    /// beginning of the grammar, does not allow.
    pub(super) fn deny(&self, tail: &[u8], start: &Matcher, vocabulary: &Vocabulary, denied: &mut Vec<u32>) {
        denied.clear();
        for text in &self.texts {
            for (n, list) in text.denied.iter().enumerate().filter(|(n, _)| tail.ends_with(&text.text[..*n]))
            {
                denied.extend(list.get_or_init(|| unfit(&text.text, n, start, vocabulary)));
            }
        }
        self.never.iter().for_each(|text| text.completed_by(tail, vocabulary, denied));
        denied.sort_unstable();
        denied.dedup();
    }
}

/// Tokens that complete `text`, whose first `n` bytes are there.
fn complete(text: &[u8], n: usize, vocabulary: &Vocabulary) -> Vec<u32> {
    let completes = |id: &u32| {
        let bytes = vocabulary.tokenizer().token_bytes(*id).unwrap_or_default();
        match n {
            0 => bytes.windows(text.len()).any(|part| part == text),
            _ => bytes.starts_with(&text[n..]),
        }
    };
    (0..vocabulary.len() as u32).filter(completes).collect()
}

/// Tokens that complete `text`, whose first `n` bytes are there, and whose rest does not fit the grammar.
fn unfit(text: &[u8], n: usize, start: &Matcher, vocabulary: &Vocabulary) -> Vec<u32> {
    let lacking = &text[n..];
    let mut matcher: Option<Matcher> = None;
    let mut list = Vec::new();
    for id in 0..vocabulary.len() as u32 {
        let bytes = vocabulary.tokenizer().token_bytes(id).unwrap_or_default();
        let end = match n {
            0 => bytes.windows(text.len()).position(|part| part == text).map(|at| at + text.len()),
            _ => bytes.starts_with(lacking).then_some(lacking.len()),
        };
        if let Some(rest @ [_, ..]) = end.map(|end| &bytes[end..])
            && !fits(rest, matcher.get_or_insert_with(|| start.deep_clone()), vocabulary)
        {
            list.push(id);
        }
    }
    list
}

/// Whether the text at `matcher` may begin with these bytes.
fn fits(bytes: &[u8], matcher: &mut Matcher, vocabulary: &Vocabulary) -> bool {
    let ids = vocabulary.spell(bytes);
    ids.is_some_and(|ids| matcher.validate_tokens(&ids).is_ok_and(|n| n == ids.len()))
}
