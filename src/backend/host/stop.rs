//! Ending a pass during an operation.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::cancel::{Asker, CancelToken, Watch, cancelled};
use crate::error::Result;

/// What may end a pass. Tasks of operations check it before each chunk of work and skip the work once it says so. The operation's
/// output is then invalid, so the pass ends as cancelled, even where the token was reset meanwhile.
#[derive(Debug, Default)]
pub struct Stop {
    tokens: [Option<CancelToken>; 2],
    askers: Vec<Asker>,
    /// Whether somebody has seen that it is to end.
    seen: AtomicBool,
}

impl Stop {
    /// A pass begins that `watch` may end.
    pub fn begin(&mut self, watch: &Watch<'_>) {
        let (tokens, askers) = watch.parts();
        self.tokens = tokens.map(Option::<&CancelToken>::cloned);
        self.askers.clear();
        self.askers.extend_from_slice(askers);
        *self.seen.get_mut() = false;
    }

    /// Whether the pass is to end.
    pub fn says_so(&self) -> bool {
        if self.seen.load(Relaxed) {
            return true;
        }
        let [one, other] = &self.tokens;
        let says_so = Watch::new(one.as_ref(), other.as_ref()).or_all(&self.askers).is_cancelled();
        if says_so {
            self.seen.store(true, Relaxed);
        }
        says_so
    }

    /// The pass is over. `Cancelled` if somebody has seen that it was to end.
    pub fn end(&mut self) -> Result<()> {
        self.tokens = [None, None];
        self.askers.clear();
        match std::mem::take(self.seen.get_mut()) {
            true => Err(cancelled()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_has_seen_all_see_whatever_becomes_of_the_token() {
        let token = CancelToken::new();
        let mut stop = Stop::default();
        stop.begin(&Watch::new(None, Some(&token)));
        assert!(!stop.says_so() && stop.end().is_ok());
        stop.begin(&Watch::new(Some(&token), None));
        token.cancel();
        assert!(stop.says_so());
        token.reset();
        assert!(stop.says_so() && stop.end().is_err() && stop.end().is_ok() && !stop.says_so());
        token.cancel();
        let askers = [[Some(token.clone()), None], [Some(CancelToken::new()), None]];
        stop.begin(&Watch::of_all(&askers));
        assert!(!stop.says_so() && stop.end().is_ok());
        stop.begin(&Watch::of_all(&askers[..1]));
        assert!(stop.says_so() && stop.end().is_err());
    }
}
