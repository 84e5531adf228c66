//! The step: which requests run, and how much of each.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::metrics::{Metrics, Standing};
use super::queue::{Queue, rank};
use super::request::{Sink, State};
use crate::cache::PAGE_LEN;
use crate::cancel::Asker;
use crate::context::{Context, Tokens};
use crate::error::Error;
use crate::generate::{Choice, EventKind, FinishReason, Generator};
use crate::sampler::{Sampler, Stage};
use crate::threads::Mutex;

/// Tokens of prompts that a batch takes at least, however many requests generate.
const LEAST_PREFILL: usize = 32;

/// How a request ends.
enum Last {
    /// For this reason; its generator may have ended already.
    End(FinishReason),
    /// Its callback asked to stop.
    Stop,
    Fail(Error),
}

/// A request in the engine.
pub(super) struct Job {
    generator: Generator,
    sampler: Sampler,
    sink: Sink,
    state: Arc<State>,
    pub(super) priority: i32,
    /// Its place in the order of submission.
    pub(super) number: u64,
    /// How many later requests went before it.
    pub(super) n_passed: u32,
    standing: Standing,
    /// Whether it runs tokens that do not lead to the next one yet: those of its prompt, or all of them again.
    is_prefilling: bool,
}

impl Job {
    pub(super) fn new(
        generator: Generator,
        sampler: Sampler,
        sink: Sink,
        state: Arc<State>,
        priority: i32,
    ) -> Job {
        Job {
            generator,
            sampler,
            sink,
            state,
            priority,
            number: 0,
            n_passed: 0,
            standing: Standing::default(),
            is_prefilling: true,
        }
    }

    /// Whether a thread holds the lock of its events, perhaps one of a parent process that does not exist here.
    pub(super) fn is_held(&self) -> bool {
        self.state.is_held()
    }

    /// Why the request has to end now, if it has to.
    fn verdict(&self) -> Option<FinishReason> {
        match (self.state.is_cancelled(), self.generator.is_overdue()) {
            (true, _) => Some(FinishReason::Cancelled),
            (_, true) => Some(FinishReason::TimeLimit),
            _ => None,
        }
    }

    /// How many tokens its sequence holds.
    fn n_run(&self) -> usize {
        self.generator.tokens().len() - self.generator.feed().len()
    }

    /// It waits for pages (again), and all that it ran is forgotten.
    fn leave(&mut self) {
        self.generator.leave();
        self.is_prefilling = true;
    }

    /// Whether the whole cache has too few pages for the tokens that have to run before its next one.
    fn never_fits(&self, context: &Context) -> bool {
        !context.holds(self.generator.tokens().len())
    }

    /// How many tokens its sequence has with its next token.
    fn n_next(&self) -> usize {
        self.generator.tokens().len() + 1
    }

    /// Ends it and reports the end. It holds no pages any more.
    fn finish(&mut self, last: Last, metrics: &Mutex<Metrics>) {
        match last {
            Last::End(reason) => self.end(reason, metrics),
            Last::Stop => self.stop(metrics),
            Last::Fail(error) => self.fail(error, metrics),
        }
    }

    /// Ends it and reports why.
    fn end(&mut self, reason: FinishReason, metrics: &Mutex<Metrics>) {
        let usage = self.generator.usage();
        self.standing.end(reason, metrics);
        let event = self.generator.end(reason);
        // The request has ended, so an answer to this event changes nothing.
        let _ = self.state.tell(&mut self.sink, &event, usage);
        self.state.set_usage(self.generator.usage());
    }

    fn fail(&mut self, error: Error, metrics: &Mutex<Metrics>) {
        let usage = self.generator.usage();
        self.standing.end(FinishReason::Failed, metrics);
        self.state.fail(error);
        let event = self.generator.end(FinishReason::Failed);
        // A consumer with [`Sink::Pull`] gets the error in place of the last event.
        if let Sink::Callback(_) = &self.sink {
            let _ = self.state.tell(&mut self.sink, &event, usage);
        }
        self.state.set_usage(self.generator.usage());
    }

    /// Reports the prompt, if `echo` asks for it. Returns whether the request goes on.
    fn echo(&mut self) -> bool {
        let usage = self.generator.usage();
        match self.generator.echo() {
            Some(event) => self.state.tell(&mut self.sink, &event, usage).is_continue(),
            None => true,
        }
    }

    /// Whether a stage of its sampler is a function of the host.
    fn has_hosts_stage(&self) -> bool {
        self.sampler.stages().iter().any(|stage| matches!(stage, Stage::Custom(_)))
    }

    /// Stops it as its callback asked.
    fn stop(&mut self, metrics: &Mutex<Metrics>) {
        self.generator.end(FinishReason::Stopped);
        self.standing.end(FinishReason::Stopped, metrics);
        self.state.set_usage(self.generator.usage());
    }

    /// Reports the next token, chosen by `choice`, when all tokens before it have run. Returns how the request ends then, if it
    /// does.
    fn take(&mut self, context: &Context, choice: Choice, metrics: &Mutex<Metrics>) -> Option<Last> {
        let usage = self.generator.usage();
        let event = match self.generator.take(context, &mut self.sampler, choice) {
            Ok(event) => event,
            Err(error) => return Some(Last::Fail(error)),
        };
        self.standing.take(&event, usage, metrics);
        if let EventKind::End(reason) = event.kind {
            return Some(Last::End(reason));
        }
        if self.state.tell(&mut self.sink, &event, usage).is_break() {
            return Some(Last::Stop);
        }
        self.state.set_usage(self.generator.usage());
        // Later tokens do not change that, and what the sequence would hold is not needed.
        self.generator.settled().map(Last::End)
    }
}

/// A request under way.
struct Active {
    job: Job,
    seq: u32,
    /// How many of its tokens are in the batch.
    n: usize,
}

impl Active {
    /// Whether the batch has no last token of the request, or the largest logit is all that it needs.
    fn is_content_with_largest(&self) -> bool {
        self.n < self.job.generator.feed().len() || self.job.generator.wants_largest(&self.job.sampler)
    }
}

/// The context, and the requests on it.
pub(super) struct Pump {
    context: Context,
    /// The oldest first.
    active: Vec<Active>,
    /// Sequences without a request.
    vacant: Vec<u32>,
    ids: Vec<u32>,
    seqs: Vec<u32>,
    wants: Vec<bool>,
    /// The cancel tokens of those that the batch is for.
    askers: Vec<Asker>,
    /// The tokens of the largest logits, where no request needs more.
    best: Vec<u32>,
    /// The time up to which the metrics count.
    counted: Instant,
}

impl Pump {
    pub(super) fn new(context: Context) -> Pump {
        let vacant = (0..context.options().n_seq as u32).rev().collect();
        let (ids, seqs, wants, askers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (best, counted) = (Vec::new(), Instant::now());
        Pump { context, active: Vec::new(), vacant, ids, seqs, wants, askers, best, counted }
    }

    /// The requests under way.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.active.iter().map(|active| &active.job)
    }

    /// One batch. Returns whether there is more to do.
    pub(super) fn step(&mut self, queue: &Mutex<Queue>, metrics: &Mutex<Metrics>) -> bool {
        self.counted = Instant::now();
        self.end_unwanted(queue, metrics);
        self.admit(queue, metrics);
        self.run(queue, metrics);
        self.count(metrics);
        metrics.lock().n_active = self.active.len();
        !self.active.is_empty() || queue.lock().len() > 0
    }

    /// Brings pages and time in the metrics up to date.
    fn count(&mut self, metrics: &Mutex<Metrics>) {
        let (n_pages, n_free_pages) = self.context.kv_pages();
        let now = Instant::now();
        let mut m = metrics.lock();
        (m.n_pages, m.n_free_pages) = (n_pages, n_free_pages);
        m.busy += now - std::mem::replace(&mut self.counted, now);
    }

    /// Ends the requests `ended`, in order of their places; those without a [`Last`] have reported their end already. Their pages
    /// are free before the report.
    fn finish(&mut self, ended: Vec<(usize, Option<Last>)>, metrics: &Mutex<Metrics>) {
        if ended.is_empty() {
            return;
        }
        let ended: Vec<_> = ended.into_iter().rev().map(|(i, last)| (self.release(i), last)).collect();
        self.count(metrics);
        for (mut job, last) in ended.into_iter().rev() {
            if let Some(last) = last {
                job.finish(last, metrics);
            }
        }
    }

    /// Ends all requests as cancelled. There is nothing to do then.
    pub(super) fn end_all(&mut self, queue: &Mutex<Queue>, metrics: &Mutex<Metrics>) -> bool {
        let waiting = queue.lock().take_if(|_| true);
        let active = std::mem::take(&mut self.active);
        for mut job in active.into_iter().map(|active| active.job).chain(waiting) {
            job.end(FinishReason::Cancelled, metrics);
        }
        metrics.lock().n_active = 0;
        false
    }

    /// Ends those that were cancelled or ran out of time.
    fn end_unwanted(&mut self, queue: &Mutex<Queue>, metrics: &Mutex<Metrics>) {
        let mut waiting = queue.lock().take_if(|job| job.verdict().is_some());
        for job in &mut waiting {
            let reason = job.verdict().unwrap_or(FinishReason::Cancelled);
            job.end(reason, metrics);
        }
        let verdict = |(i, active): (usize, &Active)| Some((i, Some(Last::End(active.job.verdict()?))));
        let ended = self.active.iter().enumerate().filter_map(verdict).collect();
        self.finish(ended, metrics);
    }

    /// Takes request `i` off its sequence.
    fn release(&mut self, i: usize) -> Job {
        let Active { job, seq, .. } = self.active.remove(i);
        // Emptying a sequence of this context cannot fail.
        let _ = self.context.rewind(seq, 0);
        self.vacant.push(seq);
        job
    }

    /// Begins requests while there are sequences for them, and pages for their prompts beside those that others need.
    fn admit(&mut self, queue: &Mutex<Queue>, metrics: &Mutex<Metrics>) {
        while let Some(&seq) = self.vacant.last() {
            let Some(mut job) = queue.lock().pop() else { return };
            if job.never_fits(&self.context) {
                job.end(FinishReason::ContextFull, metrics);
                continue;
            }
            if let Err(error) = job.generator.resume(&mut self.context, seq) {
                job.fail(error, metrics);
                continue;
            }
            let growing = self.active.iter().map(|a| (a.seq, a.job.n_next()));
            let growing = growing.chain([(seq, job.n_next())]);
            if !self.active.is_empty() && !self.context.has_free_pages(growing) {
                let _ = self.context.rewind(seq, 0);
                job.leave();
                queue.lock().put_back(job);
                return;
            }
            queue.lock().passed_by(&job);
            self.vacant.pop();
            job.standing.begin(metrics);
            let goes_on = job.echo();
            self.active.push(Active { job, seq, n: 0 });
            if !goes_on {
                self.finish(vec![(self.active.len() - 1, Some(Last::Stop))], metrics);
            }
        }
    }

    /// Runs a batch and reports the results.
    fn run(&mut self, queue: &Mutex<Queue>, metrics: &Mutex<Metrics>) {
        let begin = Instant::now();
        self.plan(metrics);
        loop {
            self.fill();
            if self.ids.is_empty() {
                return;
            }
            let (seqs, outputs) = (Some(&self.seqs[..]), Some(&self.wants[..]));
            let tokens = Tokens { ids: &self.ids, positions: None, seqs, outputs };
            self.best.clear();
            let outcome = match self.active.iter().all(Active::is_content_with_largest) {
                true => self.context.decode_best(tokens, &self.askers, &mut self.best),
                false => self.context.decode_for(tokens, &self.askers),
            };
            match outcome {
                Ok(()) => break,
                Err(Error::ContextFull(_)) if self.halve_pieces() => {}
                Err(Error::ContextFull(_)) => self.free_pages(queue, metrics),
                // Fewer requests may have enough memory.
                Err(Error::NoMemory(_)) if self.active.len() > 1 => self.free_pages(queue, metrics),
                // The next step ends those that were cancelled.
                Err(Error::Cancelled(_)) => return,
                Err(error) => return self.fail_batch(&error, metrics),
            }
        }
        self.tell(begin.elapsed(), metrics);
    }

    /// Decides how many tokens of each request the next batch takes: the last one of each that generates, and equal shares of the
    /// rest of the budget for prompts.
    fn plan(&mut self, metrics: &Mutex<Metrics>) {
        self.take_what_others_computed(metrics);
        let mut budget = self.context.options().n_batch;
        let mut prompts: Vec<usize> = Vec::new();
        for i in 0..self.active.len() {
            let n = self.active[i].job.generator.feed().len();
            self.active[i].n = n.min(1);
            if n == 1 {
                budget = budget.saturating_sub(1);
            } else if !self.comes_from_another(i, &prompts) {
                prompts.push(i);
            } else {
                self.active[i].n = 0;
            }
        }
        let mut budget = budget.max(LEAST_PREFILL);
        prompts.sort_by_key(|&i| self.active[i].job.generator.feed().len());
        for (k, &i) in prompts.iter().enumerate() {
            let share = (budget / (prompts.len() - k)).max(1);
            self.active[i].n = self.active[i].job.generator.feed().len().min(share);
            budget = budget.saturating_sub(self.active[i].n);
        }
    }

    /// Has prompts take pages that other requests have computed since.
    fn take_what_others_computed(&mut self, metrics: &Mutex<Metrics>) {
        if !self.context.options().keep_prefixes {
            return;
        }
        for i in (0..self.active.len()).rev() {
            let Active { job, seq, .. } = &mut self.active[i];
            if job.generator.feed().len() > PAGE_LEN
                && let Err(error) = job.generator.resume(&mut self.context, *seq)
            {
                self.finish(vec![(i, Some(Last::Fail(error)))], metrics);
            }
        }
    }

    /// Whether one of `others` is computing the next page of request `i`, so that `i` can wait for it.
    fn comes_from_another(&self, i: usize, others: &[usize]) -> bool {
        let job = &self.active[i].job;
        let next_page = (job.n_run() / PAGE_LEN + 1) * PAGE_LEN;
        let is_shared = |&other: &usize| {
            let theirs = self.active[other].job.generator.tokens();
            let (ours, theirs) = (job.generator.tokens().get(..next_page), theirs.get(..next_page));
            ours.is_some() && ours == theirs
        };
        self.context.options().keep_prefixes
            && job.generator.feed().len() > PAGE_LEN
            && others.iter().any(is_shared)
    }

    /// Writes the batch.
    fn fill(&mut self) {
        self.ids.clear();
        self.seqs.clear();
        self.wants.clear();
        self.askers.clear();
        for a in self.active.iter().filter(|a| a.n > 0) {
            let feed = a.job.generator.feed();
            self.ids.extend_from_slice(&feed[..a.n]);
            self.seqs.extend(std::iter::repeat_n(a.seq, a.n));
            self.wants.extend((1..=a.n).map(|n| n == feed.len()));
            self.askers.push(a.job.state.cancel.clone());
        }
    }

    /// Has the batch take less of the prompts, though no less than a page of each. Where a growing sequence gives a window's
    /// pages back, short chunks need fewer at a time. Returns whether there was any to take less of.
    fn halve_pieces(&mut self) -> bool {
        let mut any = false;
        for active in self.active.iter_mut().filter(|active| active.n > PAGE_LEN) {
            active.n = (active.n / 2).max(PAGE_LEN);
            any = true;
        }
        any
    }

    /// Has the request of the highest rank give up its pages and wait again. A request that is alone ends. Then plans the batch
    /// of those that are left.
    fn free_pages(&mut self, queue: &Mutex<Queue>, metrics: &Mutex<Metrics>) {
        if self.active.len() == 1 {
            self.finish(vec![(0, Some(Last::End(FinishReason::ContextFull)))], metrics);
        } else if let Some(last) = (0..self.active.len()).max_by_key(|&i| rank(&self.active[i].job)) {
            let mut job = self.release(last);
            job.leave();
            job.standing.pause(metrics);
            // Younger requests that stay have passed it.
            let n_younger = self.active.iter().filter(|other| other.job.number > job.number).count();
            job.n_passed = job.n_passed.saturating_add(n_younger as u32);
            queue.lock().put_back(job);
        }
        self.plan(metrics);
    }

    fn fail_batch(&mut self, error: &Error, metrics: &Mutex<Metrics>) {
        let in_batch = self.active.iter().enumerate().filter(|(_, active)| active.n > 0);
        let ended = in_batch.map(|(i, _)| (i, Some(Last::Fail(error.clone())))).collect();
        self.finish(ended, metrics);
    }

    /// Reports the tokens that follow from the batch, which took `time`.
    fn tell(&mut self, time: Duration, metrics: &Mutex<Metrics>) {
        let mut ended = Vec::new();
        let prefilling = self.active.iter().filter(|a| a.job.is_prefilling);
        let n_prefilled = prefilling.map(|a| a.n as u64).sum::<u64>();
        {
            // Whoever takes the last event may read them right away.
            let mut metrics = metrics.lock();
            metrics.n_steps += 1;
            metrics.n_prefilled += n_prefilled;
        }
        let mut best = self.best.iter();
        for (i, Active { job, n, .. }) in self.active.iter_mut().enumerate().filter(|(_, a)| a.n > 0) {
            job.generator.fed(*n, time);
            if job.generator.feed().is_empty() {
                job.is_prefilling = false;
                let choice = best.next().map_or(Choice::Sampler, |&id| Choice::Largest(id));
                let mut last = job.take(&self.context, choice, metrics);
                let n_ctx = self.context.options().n_ctx;
                // Tokens that need no logits are reported right away, and run with the next batch.
                while last.is_none()
                    && let Some(id) = job.generator.forced(&mut job.sampler, n_ctx)
                {
                    last = job.take(&self.context, Choice::Forced(id), metrics);
                }
                match last {
                    None => {}
                    // Right after the host's stage that may have led to it, before the stages of other requests: so hosts know
                    // which request it was. Its pages are counted with those of the rest.
                    Some(last @ (Last::Fail(_) | Last::End(FinishReason::Cancelled)))
                        if job.has_hosts_stage() =>
                    {
                        job.finish(last, metrics);
                        ended.push((i, None));
                    }
                    last => ended.push((i, last)),
                }
            }
        }
        // Only now: emptying a sequence drops the logits.
        self.finish(ended, metrics);
    }
}
