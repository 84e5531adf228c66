//! Makes a conversation fit its sequence: drops turns, and moves the text after them forward.
//!
//! Ember drops whole turns and renders again. The text after them is the same at another place, so the sequence forgets the
//! tokens between two joints (`Context::shift`). Models that cannot shift run the tokens after them again.
#![forbid(unsafe_code)]

use super::held::{Held, Joint};
use super::messages::array;
use super::{Conversation, Role, WhenFull};
use crate::cancel::Watch;
use crate::chat::Rendered;
use crate::context::Context;
use crate::error::{Error, Result};

/// Called where a conversation is too long, with the number of tokens it needs, those free for a reply included, the number that
/// a sequence holds, and how many turns can be dropped, at least one. Returns how many to drop, the oldest first; 0: none, and
/// the reply ends in an error.
pub type OnFull = Box<dyn FnMut(usize, usize, usize) -> usize + Send>;

/// A prompt of at most this many bytes is rendered and encoded to its end, whatever is cancelled meanwhile.
const MOST_UNWATCHED: usize = 1 << 12;

impl Conversation {
    /// Makes `held` the prompt of the conversation, with as few turns dropped as it takes. The sequence forgets them too where it
    /// can, so that nothing after them runs again. Returns the prompt's text.
    pub(super) fn fit(&mut self, context: &mut Context) -> Result<String> {
        let n_ctx = context.options().n_ctx;
        let reserve = self.options.reserve.unwrap_or(self.options.generate.max_tokens.min(n_ctx / 4)).max(1);
        let whole = self.render(&self.dropped, context)?;
        let (mut dropped, mut rendered, mut n_dropped) = (self.dropped.clone(), whole.clone(), 0);
        let (held, forgotten) = loop {
            let watch = self.watch(context, whole.text.len());
            watch.check()?;
            let (held, forgotten) = self.planned(&whole, &rendered, watch)?;
            let n = held.tokens.len() + reserve;
            if n <= n_ctx {
                break (held, forgotten);
            }
            let starts = self.droppable(&dropped);
            let most = starts.len().saturating_sub(1);
            let n_turns = match (most, &mut self.on_full) {
                (0, _) => 0,
                (_, None) => 1,
                (_, Some(ask)) => ask(n, n_ctx, most).min(most),
            };
            if n_turns == 0 {
                let why = match (self.options.when_full, most) {
                    (WhenFull::Refuse, _) => "no turn may be dropped",
                    (_, 0) => "no turn is left to be dropped",
                    _ => "the host drops no turn",
                };
                return Err(Error::ContextFull(format!(
                    "the conversation has {} tokens and needs {reserve} more for a reply, but a sequence of this context holds n_ctx \
                     {n_ctx}, and {why}",
                    held.tokens.len()
                )));
            }
            dropped = if dropped.is_empty() { starts[0] } else { dropped.start }..starts[n_turns];
            n_dropped += n_turns;
            rendered = self.render(&dropped, context)?;
        };
        if let Some((from, to)) = forgotten {
            let (seq, n) = (self.options.generate.seq, to.n_tokens - from.n_tokens);
            // The sequence may hold something else by now, or the model may be unable to shift: then all that is needed runs.
            let holds = context.tokens(seq)?.starts_with(&self.held.tokens[..to.n_tokens]);
            if holds && context.shift(seq, from.n_tokens, n).is_ok() {
                self.usage.n_forgotten = n;
            }
        }
        (self.held, self.dropped) = (held, dropped);
        self.usage.n_dropped_turns = n_dropped;
        Ok(rendered.text)
    }

    /// The cancel tokens for work on a text of `n_bytes`. The generation reports a cancelled token; a short text is soon done.
    fn watch<'a>(&'a self, context: &'a Context, n_bytes: usize) -> Watch<'a> {
        match n_bytes > MOST_UNWATCHED {
            true => context.watch(self.options.generate.cancel.as_ref()),
            false => Watch::new(None, None),
        }
    }

    /// What is held when the prompt is `rendered`, which is `whole` without some turns; and the joints between which tokens are
    /// forgotten for it.
    fn planned(
        &self,
        whole: &Rendered,
        rendered: &Rendered,
        watch: Watch<'_>,
    ) -> Result<(Held, Option<(Joint, Joint)>)> {
        let mut held = self.held.clone();
        let n_dropped = whole.text.len().saturating_sub(rendered.text.len());
        let forgotten = if n_dropped > 0 { held.dropped(rendered, n_dropped) } else { None };
        if let Some((from, to)) = forgotten {
            held.forget(from, to);
        }
        let look = || watch.check();
        held.become_text(self.model.tokenizer_for(rendered.text.len())?.under(&look), rendered)?;
        Ok((held, forgotten))
    }

    /// The prompt without the messages `dropped`.
    fn render(&self, dropped: &std::ops::Range<usize>, context: &Context) -> Result<Rendered> {
        let kept = self.messages[..dropped.start].iter().chain(&self.messages[dropped.end..]);
        let messages = array(kept);
        let watch = self.watch(context, messages.len());
        watch.check()?;
        self.template.render(&messages, self.input(), &|| watch.check())
    }

    /// The first messages of the turns that can be dropped, followed by that of the first one that cannot.
    fn droppable(&self, dropped: &std::ops::Range<usize>) -> Vec<usize> {
        let turns = self.messages.iter().enumerate().filter(|(_, message)| message.role == Role::User);
        let turns: Vec<usize> = turns.map(|(at, _)| at).collect();
        let first = match self.options.when_full {
            WhenFull::Refuse => return Vec::new(),
            WhenFull::DropOldest => 1,
            WhenFull::DropOldestAndFirst => 0,
        };
        turns.into_iter().skip(first).filter(|at| dropped.is_empty() || *at >= dropped.end).collect()
    }
}
