//! Draft tokens: tokens that are probably next, from the text itself or from a smaller model, which run together with the one
//! before them. The model and the sampler decide which of them are accepted. This module makes drafts, and decides how many are
//! worth their cost.
//!
//! Draft tokens run after the sequence and lie ready there ([`Context::decode_ahead`]). When the chosen token is the next draft,
//! the sequence takes it without running it ([`Context::advance`]), logits included. So the sampler is asked at the same moments
//! as without drafts, and the sequence never holds a token that was not reported. The next call that decodes drops the tokens
//! that lie ready.
//!
//! The number of drafts depends on whether half of the last ones were accepted, not on the clock. So counts are the same on every
//! run.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::cancel::CancelToken;
use crate::context::{Context, MAX_AHEAD, Tokens};
use crate::error::{Error, Result};
use crate::memory::filled;
use crate::model::LoadedModel;

/// Most tokens that are drafted at a time.
pub const MAX_DRAFT: usize = MAX_AHEAD;
/// Longest run of tokens that is looked up.
pub const MAX_NGRAM: usize = 16;
/// Tokens at the end of the text that are searched for an earlier occurrence of its last ones.
const SEARCHED: usize = 1 << 16;
/// Shortest run of tokens that is looked up, if the caller allows as many: a single token is everywhere in a text.
const SHORTEST: usize = 2;
/// How far the likeliest token's logit must be above the second likeliest's in the draft model for a draft: twice as likely.
/// Where the smaller model is less sure, it is cheaper to leave the token to the larger one.
const CLEAR: f32 = 0.7;
/// Most steps without drafts after some of which none was accepted.
const LONGEST_PAUSE: u32 = 32;

/// Drafts by prompt lookup (Saxena 2023): the tokens that followed the last ones where they stood before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lookup {
    /// Most tokens to draft, at most [`MAX_DRAFT`].
    pub n_draft: usize,
    /// Longest run of tokens to look for, at most [`MAX_NGRAM`].
    pub ngram: usize,
}

impl Lookup {
    /// `InvalidArgument` for numbers out of range.
    pub fn check(&self) -> Result<()> {
        check_number("n_draft", self.n_draft, 0, MAX_DRAFT)?;
        check_number("ngram", self.ngram, 1, MAX_NGRAM)
    }
}

/// A context that is lent to a generator for as long as it drafts.
pub trait Lender: Send + Sync {
    /// Calls `f` with the context. `Busy` when another call uses it.
    fn lend(&self, f: &mut dyn FnMut(&mut Context) -> Result<()>) -> Result<()>;
}

impl Lender for Mutex<Context> {
    fn lend(&self, f: &mut dyn FnMut(&mut Context) -> Result<()>) -> Result<()> {
        match self.try_lock() {
            Some(mut context) => f(&mut context),
            None => Err(Error::Busy("the draft context is in use by another call".into())),
        }
    }
}

/// Drafts by a smaller model with the same vocabulary (Leviathan et al. 2023, arXiv:2211.17192), always its likeliest tokens.
#[derive(Clone)]
pub struct DraftModel {
    /// Its context, used during a generator's steps only.
    pub context: Arc<dyn Lender>,
    /// The sequence of that context to use; it becomes the beginning of the text, whatever it held.
    pub seq: u32,
    /// Most tokens to draft, at most [`MAX_DRAFT`].
    pub n_draft: usize,
}

impl DraftModel {
    /// `InvalidArgument` for a number out of range.
    pub fn check(&self) -> Result<()> {
        check_number("n_draft", self.n_draft, 0, MAX_DRAFT)
    }
}

impl fmt::Debug for DraftModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DraftModel")
            .field("seq", &self.seq)
            .field("n_draft", &self.n_draft)
            .finish_non_exhaustive()
    }
}

/// Drafts tokens, for one generator.
#[derive(Debug)]
pub struct Drafter {
    lookup: Option<Lookup>,
    model: Option<DraftModel>,
    cancel: Option<CancelToken>,
    pace: Pace,
    /// The tokens drafted last.
    drafts: Vec<u32>,
    /// Rows of the target's embedding; the draft model's may have more.
    n_vocab: usize,
}

impl Drafter {
    /// A drafter for texts of `target`; `None` when no drafts are asked for.
    ///
    /// Errors: `InvalidArgument` for numbers out of range, and for a draft model with another vocabulary.
    pub fn new(
        lookup: Option<Lookup>,
        model: Option<DraftModel>,
        cancel: Option<CancelToken>,
        target: &LoadedModel,
    ) -> Result<Option<Drafter>> {
        let lookup = lookup.filter(|lookup| lookup.n_draft > 0);
        let model = model.filter(|model| model.n_draft > 0);
        if let Some(lookup) = lookup {
            lookup.check()?;
        }
        if let Some(model) = &model {
            model.check()?;
            model.context.lend(&mut |context| {
                context.n_past(model.seq).map_err(of_draft)?;
                check_vocabularies(target, context.model())
            })?;
        }
        let most = lookup.map_or(0, |l| l.n_draft).max(model.as_ref().map_or(0, |m| m.n_draft));
        let drafts = Vec::with_capacity(most);
        let n_vocab = target.info().n_vocab;
        Ok((most > 0).then_some(Drafter { lookup, model, cancel, pace: Pace::new(most), drafts, n_vocab }))
    }

    /// Most tokens that [`Drafter::draft`] gives.
    pub fn most(&self) -> usize {
        self.pace.most
    }

    /// Tokens that may follow `tokens`, `most` at most; perhaps none.
    ///
    /// Errors: those of running the draft model. A full context, too little memory or a cancel token of the draft's only mean
    /// that there are no more drafts. `Busy` when its context is in use.
    pub fn draft(&mut self, tokens: &[u32], most: usize) -> Result<&[u32]> {
        self.drafts.clear();
        let most = most.min(self.pace.next());
        if most == 0 {
            return Ok(&[]);
        }
        if let Some(Lookup { n_draft, ngram }) = self.lookup {
            self.drafts.extend(look_up(tokens, ngram, most.min(n_draft)));
        }
        if self.drafts.is_empty()
            && let Some(DraftModel { context, seq, n_draft }) = &self.model
        {
            let (most, drafts) = (most.min(*n_draft), &mut self.drafts);
            let cancel = self.cancel.as_ref();
            let mut draft = |context: &mut Context| {
                draft_tokens(context, *seq, tokens, most, cancel, drafts).map_err(of_draft)
            };
            match context.lend(&mut draft) {
                // Only drafts are missing. The generation's own cancel token ends it where the target model runs.
                Ok(()) | Err(Error::ContextFull(_) | Error::NoMemory(_) | Error::Cancelled(_)) => {}
                Err(other) => return Err(other),
            }
            let known = drafts.iter().position(|&id| id as usize >= self.n_vocab);
            drafts.truncate(known.unwrap_or(most));
        }
        Ok(&self.drafts)
    }

    /// Keeps the first `n` of the tokens drafted last, and returns them.
    pub fn keep(&mut self, n: usize) -> &[u32] {
        self.drafts.truncate(n);
        &self.drafts
    }

    /// The drafted tokens have run; returns their number.
    pub fn ran(&mut self) -> usize {
        self.pace.drafted = self.drafts.len();
        self.drafts.len()
    }

    /// One more of the drafted tokens was accepted.
    pub fn accepted(&mut self) {
        self.pace.accepted += 1;
    }
}

/// An error of the draft's context, distinguished from those of the generation's own.
fn of_draft(error: Error) -> Error {
    error.within("the draft context")
}

fn check_number(name: &str, n: usize, least: usize, most: usize) -> Result<()> {
    match (least..=most).contains(&n) {
        true => Ok(()),
        false => Err(Error::InvalidArgument(format!("{name} must be {least} to {most}, got {n}"))),
    }
}

/// The number of tokens to draft. Running drafts costs little where they are accepted and something where they are not. How much
/// depends on the machine, so the rule is whether half of them were accepted.
#[derive(Debug)]
struct Pace {
    most: usize,
    /// How many to draft next.
    len: usize,
    /// Steps to come without drafts.
    wait: u32,
    /// How many steps to wait after drafts of which none was accepted: grows each time that happens, shrinks otherwise.
    pause: u32,
    /// How many ran last and are not counted yet.
    drafted: usize,
    /// How many of them were accepted.
    accepted: usize,
}

impl Pace {
    fn new(most: usize) -> Pace {
        Pace { most, len: most.min(4), wait: 0, pause: 0, drafted: 0, accepted: 0 }
    }

    /// How many to draft now.
    fn next(&mut self) -> usize {
        let (drafted, accepted) = (std::mem::take(&mut self.drafted), std::mem::take(&mut self.accepted));
        if drafted > 0 {
            self.len = match accepted == drafted {
                true => 2 * drafted,
                false => accepted + 1,
            }
            .min(self.most);
            if 2 * accepted >= drafted {
                self.pause /= 2;
            } else {
                self.pause = (2 * self.pause).clamp(1, LONGEST_PAUSE);
                self.wait = self.pause;
            }
        }
        if self.wait > 0 {
            self.wait -= 1;
            return 0;
        }
        self.len
    }
}

/// The tokens that followed the last ones of `tokens` where they stood before: at the place with the longest match, up to
/// `ngram`, and of equal matches at the last. `most` tokens, or none: the text between that place and the end is taken to repeat.
fn look_up(tokens: &[u32], ngram: usize, most: usize) -> impl Iterator<Item = u32> {
    let tokens = &tokens[tokens.len().saturating_sub(SEARCHED)..];
    let (mut best, mut at) = (SHORTEST.min(ngram) - 1, tokens.len());
    for end in (1..tokens.len()).rev() {
        let last = tokens[tokens.len() - ngram.min(tokens.len())..].iter().rev();
        let n = last.zip(tokens[..end].iter().rev()).take_while(|(a, b)| a == b).count();
        if n > best {
            (best, at) = (n, end);
            if n == ngram {
                break;
            }
        }
    }
    let followed = &tokens[at..];
    let most = if followed.is_empty() { 0 } else { most };
    (0..most).map(|i| followed[i % followed.len()])
}

/// Runs the tokens that sequence `seq` of a draft model's context lacks, and puts the likeliest continuation into `drafts`:
/// `most` tokens, fewer where the model is in doubt or the context is full.
fn draft_tokens(
    context: &mut Context,
    seq: u32,
    tokens: &[u32],
    most: usize,
    cancel: Option<&CancelToken>,
    drafts: &mut Vec<u32>,
) -> Result<()> {
    let n_free = (context.options().n_ctx + 1).saturating_sub(tokens.len());
    if n_free == 0 {
        return Ok(());
    }
    // The last token has to run for its logits.
    let held = context.reuse_prefix(seq, tokens, tokens.len() - 1)?;
    run(context, seq, &tokens[held..], cancel)?;
    while drafts.len() < most.min(n_free) {
        match clearly_likeliest(context.end_logits(seq)?) {
            Some(id) => drafts.push(id),
            None => break,
        }
        if drafts.len() < most.min(n_free) {
            run(context, seq, &drafts[drafts.len() - 1..], cancel)?;
        }
    }
    Ok(())
}

/// Runs tokens at the end of a sequence.
fn run(context: &mut Context, seq: u32, ids: &[u32], cancel: Option<&CancelToken>) -> Result<()> {
    let few = [seq; MAX_DRAFT + 1];
    let many;
    let seqs = match few.get(..ids.len()) {
        Some(seqs) => seqs,
        None => {
            many = filled(seq, ids.len(), "the sequence ids of a draft")?;
            &many
        }
    };
    context.decode_under(Tokens { seqs: Some(seqs), ..Tokens::next(ids) }, cancel)
}

/// The token with the largest logit, the first of equals, if the second largest is well below.
fn clearly_likeliest(logits: &[f32]) -> Option<u32> {
    let (mut id, mut first, mut second) = (None, f32::NEG_INFINITY, f32::NEG_INFINITY);
    for (i, &logit) in (0..).zip(logits) {
        if logit > first {
            (id, second, first) = (Some(i), first, logit);
        } else if logit > second {
            second = logit;
        }
    }
    id.filter(|_| first - second >= CLEAR)
}

/// `InvalidArgument` unless the tokens of both models stand for the same bytes. Embeddings may have more rows than there are
/// tokens.
fn check_vocabularies(target: &LoadedModel, draft: &LoadedModel) -> Result<()> {
    let differ = |what: String| {
        Err(Error::InvalidArgument(format!(
            "the draft model {} has another vocabulary than {}: {what}",
            draft.name(),
            target.name()
        )))
    };
    draft.require_logits().map_err(of_draft)?;
    let reason = "models do not draft for it, and it drafts for none";
    target.require_one_part(reason)?;
    draft.require_one_part(reason)?;
    match (target.tokenizer(), draft.tokenizer()) {
        (Ok(a), Ok(b)) => {
            if a.n_vocab() != b.n_vocab() {
                return differ(format!("{} tokens, not {}", b.n_vocab(), a.n_vocab()));
            }
            for id in 0..a.n_vocab() as u32 {
                if a.token_bytes(id)? != b.token_bytes(id)? {
                    return differ(format!("token {id} stands for other bytes"));
                }
            }
            Ok(())
        }
        (Err(_), Err(_)) if target.info().n_vocab == draft.info().n_vocab => Ok(()),
        (Err(_), Err(_)) => differ(format!("{} tokens, not {}", draft.info().n_vocab, target.info().n_vocab)),
        _ => differ("one of them has no tokenizer".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_followed_the_longest_run_is_found() {
        let found = |tokens: &[u32], ngram, most| look_up(tokens, ngram, most).collect::<Vec<_>>();
        assert_eq!(found(&[1, 2, 3, 4, 5, 1, 2, 3], 3, 4), [4, 5, 1, 2]);
        assert_eq!(found(&[1, 2, 3, 9, 2, 3, 7, 2, 3], 3, 1), [7], "the last of equals");
        assert_eq!(found(&[1, 2, 3, 9, 5, 2, 3, 7, 1, 2, 3], 3, 2), [9, 5], "the longest first");
        assert_eq!(found(&[1, 2, 3, 4, 9, 3], 3, 4), [0; 0], "one token is not enough");
        assert_eq!(found(&[1, 2, 3, 4, 9, 3], 1, 4), [4, 9, 3, 4], "unless it is asked for");
        assert_eq!(found(&[7, 7, 7, 7], 3, 9), [7; 9]);
        assert_eq!(found(&[1], 3, 4), [0; 0]);
        assert_eq!(found(&[1, 1], 3, 4), [0; 0]);
    }

    /// Runs the steps of a generation; of each number of drafts, `accepted` says how many are accepted. Returns how many were
    /// drafted in all.
    fn drafted(steps: usize, accepted: impl Fn(usize) -> usize) -> usize {
        let mut pace = Pace::new(8);
        let mut n = 0;
        for _ in 0..steps {
            let len = pace.next();
            (pace.drafted, pace.accepted) = (len, accepted(len));
            n += len;
        }
        n
    }

    #[test]
    fn few_drafts_are_made_where_none_come_true() {
        assert!(drafted(1000, |_| 0) < 1000 / 25);
        assert!(drafted(1000, |n| n) > 7900);
        assert!(drafted(1000, |n| n.min(3)) > 3000);
    }

    #[test]
    fn tokens_in_doubt_are_not_drafted() {
        assert_eq!(clearly_likeliest(&[0.0, 3.0, 2.0]), Some(1));
        assert_eq!(clearly_likeliest(&[0.0, 3.0, 2.5]), None);
        assert_eq!(clearly_likeliest(&[5.0, 3.0, 5.0]), None);
        assert_eq!(clearly_likeliest(&[f32::NAN, f32::NAN]), None);
    }
}
