//! What the sequence of a conversation holds, as text and as tokens, so that held tokens do not run again.
//!
//! The next prompt keeps tokens up to the last joint before the texts differ. A *joint* is beside a control token, or where generated text
//! begins or ends, so no token before it depends on what follows.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::chat::Rendered;
use crate::error::Result;
use crate::tokenizer::{Encoder, Tokenizer};

/// A place where the tokens on both sides stay the same when the text is cut: beside a control token, and where generated text
/// begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Joint {
    /// Tokens before it.
    pub n_tokens: usize,
    /// Bytes of text before it.
    pub n_bytes: usize,
}

/// Text, its tokens, and their common boundaries.
#[derive(Debug, Clone, Default)]
pub struct Held {
    pub(super) text: Vec<u8>,
    pub(super) tokens: Vec<u32>,
    /// Ascending.
    pub(super) joints: Vec<Joint>,
    /// As [`Rendered::foreign`], for the text that was not generated.
    pub(super) foreign: Vec<usize>,
    /// The generated text: the model's tokens, whatever they spell.
    pub(super) generated: Vec<Range<usize>>,
}

impl Held {
    /// How many bytes of `rendered` from `at` on equal the text from `from` on, and have the same origin.
    fn agreement(&self, from: usize, rendered: &Rendered, at: usize) -> usize {
        let (mine, other) = (&self.text[from..], &rendered.text.as_bytes()[at..]);
        let n = mine.iter().zip(other).take_while(|(a, b)| a == b).count();
        // A character of a message differs from an equal one of the template.
        let is_generated = |at: usize| self.generated.iter().any(|range| range.contains(&at));
        let within = |list: &[usize], first: usize| {
            let begin = list.partition_point(|&at| at < first);
            let end = list.partition_point(|&at| at < first + n);
            list[begin..end]
                .iter()
                .map(|at| at - first)
                .filter(|at| !is_generated(from + at))
                .collect::<Vec<_>>()
        };
        let (mine, other) = (within(&self.foreign, from), within(&rendered.foreign, at));
        let same = mine.iter().zip(&other).take_while(|(a, b)| a == b).count();
        let differs = |list: &[usize]| list.get(same).copied().unwrap_or(n);
        differs(&mine).min(differs(&other))
    }

    /// The last joint within `n_bytes`.
    fn joint_within(&self, n_bytes: usize) -> Joint {
        let end = self.joints.partition_point(|joint| joint.n_bytes <= n_bytes);
        end.checked_sub(1).map_or(Joint::default(), |last| self.joints[last])
    }

    /// Becomes `rendered`, and keeps its tokens as far as the text is the same.
    pub fn become_text(&mut self, tokenizer: Encoder<'_>, rendered: &Rendered) -> Result<()> {
        let joint = self.joint_within(self.agreement(0, rendered, 0));
        let (past, rest) = (&self.tokens[..joint.n_tokens], &rendered.text[joint.n_bytes..]);
        let first = rendered.foreign.partition_point(|&at| at < joint.n_bytes);
        let foreign: Vec<usize> = rendered.foreign[first..].iter().map(|at| at - joint.n_bytes).collect();
        let more = match rest.is_empty() && joint.n_tokens > 0 {
            true => Vec::new(),
            false => tokenizer.encode_rendered(past, rest, &foreign)?,
        };
        self.cut(joint);
        self.joints.extend(joints(tokenizer.tokenizer(), &more, rest, joint));
        self.tokens.extend_from_slice(&more);
        self.text.extend_from_slice(rest.as_bytes());
        self.foreign.extend_from_slice(&rendered.foreign[first..]);
        Ok(())
    }

    /// Forgets what follows `joint`.
    fn cut(&mut self, joint: Joint) {
        self.text.truncate(joint.n_bytes);
        self.tokens.truncate(joint.n_tokens);
        self.joints.retain(|other| other.n_bytes <= joint.n_bytes && other.n_tokens <= joint.n_tokens);
        self.foreign.retain(|&at| at < joint.n_bytes);
        self.generated.retain_mut(|range| {
            range.end = range.end.min(joint.n_bytes);
            range.start < range.end
        });
    }

    /// A generation begins here.
    pub fn begin_reply(&mut self) {
        self.join();
        self.generated.push(self.text.len()..self.text.len());
    }

    /// A token was generated, which stands for `bytes`.
    pub fn push(&mut self, token: u32, bytes: &[u8]) {
        self.tokens.push(token);
        self.text.extend_from_slice(bytes);
        if let Some(range) = self.generated.last_mut() {
            range.end = self.text.len();
        }
    }

    /// The generation is over.
    pub fn end_reply(&mut self) {
        // Where the last character is incomplete, no text can follow.
        if std::str::from_utf8(&self.text).is_ok() {
            self.join();
        }
    }

    /// The end of the text is a joint.
    fn join(&mut self) {
        let end = Joint { n_tokens: self.tokens.len(), n_bytes: self.text.len() };
        self.joints.pop_if(|last| last.n_bytes == end.n_bytes);
        self.joints.push(end);
    }

    /// The tokens to forget, from one joint to another, so that the text becomes the beginning of `rendered`, which lacks
    /// `n_dropped` bytes of the former prompt. `None` where the text after them differs.
    pub fn dropped(&self, rendered: &Rendered, n_dropped: usize) -> Option<(Joint, Joint)> {
        let common = self.agreement(0, rendered, 0);
        let candidates =
            self.joints.iter().rev().filter(|joint| joint.n_bytes <= common && joint.n_tokens > 0);
        candidates.into_iter().find_map(|&from| {
            let at =
                self.joints.binary_search_by_key(&(from.n_bytes + n_dropped), |joint| joint.n_bytes).ok()?;
            let to = self.joints[at];
            let n_after = self.text.len() - to.n_bytes;
            let agrees = n_after > 0 && self.agreement(to.n_bytes, rendered, from.n_bytes) == n_after;
            (agrees && to.n_tokens > from.n_tokens).then_some((from, to))
        })
    }

    /// Forgets what is between two joints.
    pub fn forget(&mut self, from: Joint, to: Joint) {
        self.text.drain(from.n_bytes..to.n_bytes);
        self.tokens.drain(from.n_tokens..to.n_tokens);
        let (n_bytes, n_tokens) = (to.n_bytes - from.n_bytes, to.n_tokens - from.n_tokens);
        self.joints.retain(|joint| joint.n_bytes <= from.n_bytes || joint.n_bytes > to.n_bytes);
        for joint in self.joints.iter_mut().filter(|joint| joint.n_bytes > to.n_bytes) {
            *joint = Joint { n_tokens: joint.n_tokens - n_tokens, n_bytes: joint.n_bytes - n_bytes };
        }
        let moved = |at: usize| if at < to.n_bytes { at.min(from.n_bytes) } else { at - n_bytes };
        self.foreign.retain(|at| !(from.n_bytes..to.n_bytes).contains(at));
        self.foreign.iter_mut().for_each(|at| *at = moved(*at));
        self.generated.retain_mut(|range| {
            *range = moved(range.start)..moved(range.end);
            range.start < range.end
        });
    }
}

/// The joints of `text`, whose tokens are `tokens`, after `begin`.
fn joints(tokenizer: &Tokenizer, tokens: &[u32], text: &str, begin: Joint) -> Vec<Joint> {
    let mut found = Vec::new();
    let (mut at, mut was_control, mut whole) = (0, true, true);
    for (i, &token) in tokens.iter().enumerate() {
        let is_control = tokenizer.is_control(token);
        if i > 0 && (is_control || was_control) && text.is_char_boundary(at) {
            found.push(Joint { n_tokens: begin.n_tokens + i, n_bytes: begin.n_bytes + at });
        }
        was_control = is_control;
        let bytes = tokenizer.token_bytes(token).unwrap_or_default();
        let rest = &text.as_bytes()[at..];
        at += match bytes {
            bytes if rest.starts_with(bytes) => bytes.len(),
            // A vocabulary may put a space before texts.
            [b' ', bytes @ ..] if rest.starts_with(bytes) => bytes.len(),
            // BOS, which the template did not write.
            _ if begin.n_tokens == 0 && i == 0 && tokenizer.bos() == Some(token) => 0,
            // A normalizer has changed the text, so the places of the other tokens are unknown.
            _ => {
                whole = false;
                break;
            }
        };
    }
    if !whole || at != text.len() {
        // The match may be a coincidence.
        found.clear();
    }
    found.push(Joint { n_tokens: begin.n_tokens + tokens.len(), n_bytes: begin.n_bytes + text.len() });
    found.dedup_by_key(|joint| joint.n_bytes);
    found
}
