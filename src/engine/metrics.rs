//! What an engine has done.
#![forbid(unsafe_code)]

use std::time::Duration;

use crate::generate::{Event, EventKind, FinishReason, Usage};
use crate::threads::Mutex;

/// Counters since the engine was made, and its state now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Metrics {
    /// Requests that wait.
    pub n_queued: usize,
    /// Requests under way.
    pub n_active: usize,
    /// Requests that were taken.
    pub n_submitted: u64,
    /// Requests that were refused because the queue was full.
    pub n_refused: u64,
    /// Requests that ended by themselves, by a stop string or by their callback.
    pub n_finished: u64,
    /// Requests that were cancelled, or ended by their time limit.
    pub n_cancelled: u64,
    /// Requests that ended with an error.
    pub n_failed: u64,
    /// How often a request had to give up its pages for others, and was run again later.
    pub n_preempted: u64,
    /// Tokens of prompts of requests that began.
    pub n_prompt: u64,
    /// Of these, those that were not computed again but found in the cache.
    pub n_reused: u64,
    /// Tokens that were run, of prompts and of those run again.
    pub n_prefilled: u64,
    /// Tokens generated.
    pub n_generated: u64,
    /// Batches.
    pub n_steps: u64,
    /// Time spent on them.
    pub busy: Duration,
    /// Pages of the KV cache.
    pub n_pages: usize,
    /// Pages that no request under way has.
    pub n_free_pages: usize,
}

impl Metrics {
    /// Tokens generated for each second of work, prompts and all.
    pub fn tokens_per_s(&self) -> f64 {
        match self.busy.as_secs_f64() {
            0.0 => 0.0,
            busy => self.n_generated as f64 / busy,
        }
    }

    /// The share of the prompts' tokens that was found in the cache, 0 to 1.
    pub fn cache_hit_rate(&self) -> f64 {
        match self.n_prompt {
            0 => 0.0,
            n => self.n_reused as f64 / n as f64,
        }
    }
}

/// The request's part of the metrics. They are updated before an event is reported, since whoever takes the last event may read
/// them right away.
#[derive(Default)]
pub(super) struct Standing {
    is_active: bool,
    is_prompt_counted: bool,
}

impl Standing {
    pub(super) fn begin(&mut self, metrics: &Mutex<Metrics>) {
        self.is_active = true;
        metrics.lock().n_active += 1;
    }

    /// It waits again.
    pub(super) fn pause(&mut self, metrics: &Mutex<Metrics>) {
        self.is_active = false;
        let mut metrics = metrics.lock();
        metrics.n_active -= 1;
        metrics.n_preempted += 1;
    }

    /// Counts an event of a batch, except what its end counts; `usage` is as it was before the event.
    pub(super) fn take(&mut self, event: &Event<'_>, usage: Usage, metrics: &Mutex<Metrics>) {
        if !std::mem::replace(&mut self.is_prompt_counted, true) {
            let mut metrics = metrics.lock();
            metrics.n_prompt += usage.n_prompt as u64;
            metrics.n_reused += usage.n_reused as u64;
        }
        if let EventKind::Token(_) = event.kind {
            metrics.lock().n_generated += 1;
        }
    }

    pub(super) fn end(&mut self, reason: FinishReason, metrics: &Mutex<Metrics>) {
        let mut metrics = metrics.lock();
        metrics.n_active -= usize::from(std::mem::take(&mut self.is_active));
        match reason {
            FinishReason::Failed => metrics.n_failed += 1,
            FinishReason::Cancelled | FinishReason::TimeLimit => metrics.n_cancelled += 1,
            _ => metrics.n_finished += 1,
        }
    }
}
