//! The end of a generation.
#![forbid(unsafe_code)]

use std::time::Instant;

use super::{Generator, Phase};
use crate::generate::event::{Event, EventKind, FinishReason};

impl Generator {
    /// Why the token of the last event was the last one, if it was: then all that was asked for is reported.
    pub fn settled(&self) -> Option<FinishReason> {
        match self.phase {
            Phase::Tokens if self.stopping => Some(FinishReason::Stopped),
            Phase::Tokens if self.text.is_stopped() => Some(FinishReason::StopString),
            Phase::Tokens if self.usage.n_generated >= self.options.max_tokens => {
                Some(FinishReason::MaxTokens)
            }
            _ => None,
        }
    }

    /// Ends the generation; returns the last event. The held-back end of the text may complete a stop string, which is the reason
    /// then. After the end, returns the same event.
    pub fn end(&mut self, reason: FinishReason) -> Event<'_> {
        let reason = self.usage.finish.unwrap_or_else(|| self.finish(reason));
        let text = if reason == FinishReason::Stopped { "" } else { self.text.text() };
        Event { text, kind: EventKind::End(reason) }
    }

    fn finish(&mut self, reason: FinishReason) -> FinishReason {
        self.phase = Phase::Ended;
        if reason == FinishReason::Stopped {
            self.usage.finish = Some(reason);
            return reason;
        }
        let was_stopped = self.text.is_stopped();
        self.text.finish();
        let reason = match reason {
            FinishReason::MaxTokens | FinishReason::EndOfGeneration | FinishReason::ContextFull
                if self.text.is_stopped() && !was_stopped =>
            {
                FinishReason::StopString
            }
            other => other,
        };
        self.usage.finish = Some(reason);
        reason
    }

    /// Makes the next step the last one: it takes the token of the event before into the sequence, and its event has no text.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Whether the first event is the prompt's text, and has not been taken.
    pub(in crate::generate) fn is_before_echo(&self) -> bool {
        self.phase == Phase::Echo
    }

    /// Whether log-probabilities were asked for.
    pub(in crate::generate) fn tells_logprobs(&self) -> bool {
        self.options.logprobs || self.options.n_top > 0
    }

    /// Whether the generation's time limit has passed.
    pub fn is_overdue(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}
