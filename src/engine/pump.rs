//! The step: who is run, and how much of each.
#![forbid(unsafe_code)]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::metrics::Metrics;
use super::queue::{Queue, rank};
use super::request::{Sink, State};
use crate::cancel::Asker;
use crate::context::{Context, Tokens};
use crate::error::Error;
use crate::generate::{Choice, Event, EventKind, FinishReason, Generator, Usage};
use crate::kernels::attention::PAGE_LEN;
use crate::sampler::Sampler;

/// Tokens of prompts that a batch takes, however many others generate.
const LEAST_PREFILL: usize = 32;

/// A request as the engine has it.
pub(super) struct Job {
    generator: Generator,
    sampler: Sampler,
    sink: Sink,
    state: Arc<State>,
    pub(super) priority: i32,
    /// Its place in the order of submission.
    pub(super) number: u64,
    /// How many went before it that came later.
    pub(super) n_passed: u32,
    standing: Standing,
    /// Whether tokens are run that do not lead to the next one yet: those of its prompt, or all over again.
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

    /// It waits for room (again), and all that it ran is forgotten.
    fn leave(&mut self) {
        self.generator.leave();
        self.is_prefilling = true;
    }

    /// Whether the whole cache has too few pages for what has to be run before its next token.
    fn never_fits(&self, context: &Context) -> bool {
        context.least_pages(self.generator.tokens().len()) > context.kv_pages().0
    }

    /// How many pages it needs at once beyond those that its sequence `seq` has, to come to its next token.
    fn n_more_pages(&self, context: &Context, seq: u32) -> usize {
        context.n_more_pages(seq, self.generator.tokens().len() + 1)
    }

    /// Ends it and tells why.
    fn end(&mut self, reason: FinishReason, metrics: &Mutex<Metrics>) {
        let usage = self.generator.usage();
        self.standing.end(reason, metrics);
        let event = self.generator.end(reason);
        // There is nothing to end any more.
        let _ = self.state.tell(&mut self.sink, &event, usage);
        self.state.set_usage(self.generator.usage());
    }

    fn fail(&mut self, error: Error, metrics: &Mutex<Metrics>) {
        let usage = self.generator.usage();
        self.standing.end(FinishReason::Failed, metrics);
        self.state.fail(error);
        let event = self.generator.end(FinishReason::Failed);
        // Whoever takes the events gets the error in place of the last one.
        if let Sink::Callback(_) = &self.sink {
            let _ = self.state.tell(&mut self.sink, &event, usage);
        }
        self.state.set_usage(self.generator.usage());
    }

    /// Tells the prompt, if it shall be. Returns whether the request goes on.
    fn echo(&mut self, metrics: &Mutex<Metrics>) -> bool {
        let usage = self.generator.usage();
        let control = match self.generator.echo() {
            Some(event) => self.state.tell(&mut self.sink, &event, usage),
            None => ControlFlow::Continue(()),
        };
        if control.is_break() {
            self.stop(metrics);
        }
        control.is_continue()
    }

    /// Its callback wants no more.
    fn stop(&mut self, metrics: &Mutex<Metrics>) {
        self.generator.end(FinishReason::Stopped);
        self.standing.end(FinishReason::Stopped, metrics);
        self.state.set_usage(self.generator.usage());
    }

    /// Tells the next token, chosen by `choice`, when all before it was run. Returns whether the request goes on.
    fn take(&mut self, context: &Context, choice: Choice, metrics: &Mutex<Metrics>) -> bool {
        let usage = self.generator.usage();
        let event = match self.generator.take(context, &mut self.sampler, choice) {
            Ok(event) => event,
            Err(error) => {
                self.fail(error, metrics);
                return false;
            }
        };
        self.standing.take(&event, usage, metrics);
        let is_last = matches!(event.kind, EventKind::End(_));
        let control = self.state.tell(&mut self.sink, &event, usage);
        if !is_last && control.is_break() {
            self.stop(metrics);
            return false;
        }
        self.state.set_usage(self.generator.usage());
        // Nothing that comes later changes that, and what the sequence would hold is of no use here.
        if let Some(reason) = self.generator.settled() {
            self.end(reason, metrics);
            return false;
        }
        !is_last
    }
}

/// What the metrics know of a request: they are written before an event is told, since whoever takes the last one may read
/// them at once.
#[derive(Default)]
struct Standing {
    is_active: bool,
    is_prompt_counted: bool,
}

impl Standing {
    fn begin(&mut self, metrics: &Mutex<Metrics>) {
        self.is_active = true;
        metrics.lock().n_active += 1;
    }

    /// It waits again.
    fn pause(&mut self, metrics: &Mutex<Metrics>) {
        self.is_active = false;
        let mut metrics = metrics.lock();
        metrics.n_active -= 1;
        metrics.n_preempted += 1;
    }

    /// An event that a batch led to, and that `usage` was what there was before it.
    fn take(&mut self, event: &Event<'_>, usage: Usage, metrics: &Mutex<Metrics>) {
        if !std::mem::replace(&mut self.is_prompt_counted, true) {
            let mut metrics = metrics.lock();
            metrics.n_prompt += usage.n_prompt as u64;
            metrics.n_reused += usage.n_reused as u64;
        }
        match event.kind {
            EventKind::Echo => {}
            EventKind::Token(_) => metrics.lock().n_generated += 1,
            EventKind::End(reason) => self.end(reason, metrics),
        }
    }

    fn end(&mut self, reason: FinishReason, metrics: &Mutex<Metrics>) {
        let mut metrics = metrics.lock();
        metrics.n_active -= usize::from(std::mem::take(&mut self.is_active));
        match reason {
            FinishReason::Failed => metrics.n_failed += 1,
            FinishReason::Cancelled | FinishReason::TimeLimit => metrics.n_cancelled += 1,
            _ => metrics.n_finished += 1,
        }
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
    /// Whether the batch has no last token of its own, or the largest logit there is all that it needs.
    fn is_content_with_largest(&self) -> bool {
        self.n < self.job.generator.feed().len() || self.job.generator.wants_largest(&self.job.sampler)
    }
}

/// The context, and what runs on it.
pub(super) struct Pump {
    context: Context,
    /// Those that came first stand first.
    active: Vec<Active>,
    /// Sequences without a request.
    vacant: Vec<u32>,
    ids: Vec<u32>,
    seqs: Vec<u32>,
    wants: Vec<bool>,
    /// Those that the batch is for.
    askers: Vec<Asker>,
    /// The tokens of the largest logits, where nobody wants more than these.
    best: Vec<u32>,
}

impl Pump {
    pub(super) fn new(context: Context) -> Pump {
        let vacant = (0..context.options().n_seq as u32).rev().collect();
        let (ids, seqs, wants, askers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Pump { context, active: Vec::new(), vacant, ids, seqs, wants, askers, best: Vec::new() }
    }

    /// One batch. Returns whether there is more to do.
    pub(super) fn step(&mut self, queue: &Mutex<Queue>, metrics: &Mutex<Metrics>) -> bool {
        let begin = Instant::now();
        self.end_unwanted(queue, metrics);
        self.admit(queue, metrics);
        self.run(queue, metrics);
        let (n_pages, n_free_pages) = self.context.kv_pages();
        let mut m = metrics.lock();
        (m.n_pages, m.n_free_pages, m.n_active) = (n_pages, n_free_pages, self.active.len());
        m.busy += begin.elapsed();
        drop(m);
        !self.active.is_empty() || queue.lock().len() > 0
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

    /// Ends those that were cancelled or are late.
    fn end_unwanted(&mut self, queue: &Mutex<Queue>, metrics: &Mutex<Metrics>) {
        let mut waiting = queue.lock().take_if(|job| job.verdict().is_some());
        for job in &mut waiting {
            let reason = job.verdict().unwrap_or(FinishReason::Cancelled);
            job.end(reason, metrics);
        }
        for i in (0..self.active.len()).rev() {
            if let Some(reason) = self.active[i].job.verdict() {
                self.release(i).end(reason, metrics);
            }
        }
    }

    /// Takes request `i` off its sequence.
    fn release(&mut self, i: usize) -> Job {
        let Active { job, seq, .. } = self.active.remove(i);
        // A sequence of this context can be emptied.
        let _ = self.context.rewind(seq, 0);
        self.vacant.push(seq);
        job
    }

    /// Begins requests while there is a sequence for them, and pages for their prompts beside those that others need.
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
            let promised: usize = self.active.iter().map(|a| a.job.n_more_pages(&self.context, a.seq)).sum();
            let n_free = self.context.kv_pages().1;
            if !self.active.is_empty() && promised + job.n_more_pages(&self.context, seq) > n_free {
                let _ = self.context.rewind(seq, 0);
                job.leave();
                queue.lock().put_back(job);
                return;
            }
            queue.lock().passed_by(&job);
            self.vacant.pop();
            job.standing.begin(metrics);
            let goes_on = job.echo(metrics);
            self.active.push(Active { job, seq, n: 0 });
            if !goes_on {
                self.release(self.active.len() - 1);
            }
        }
    }

    /// Runs a batch and tells what came of it.
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
                Err(Error::ContextFull(_)) => self.make_room(queue, metrics),
                // Fewer may have enough.
                Err(Error::NoMemory(_)) if self.active.len() > 1 => self.make_room(queue, metrics),
                // The next step ends those that were cancelled.
                Err(Error::Cancelled(_)) => return,
                Err(error) => return self.fail_batch(&error, metrics),
            }
        }
        self.tell(begin.elapsed(), metrics);
    }

    /// Says how many tokens of each request the next batch takes: the last one of those that generate; of prompts what room
    /// there is, in equal shares.
    fn plan(&mut self, metrics: &Mutex<Metrics>) {
        self.take_what_others_computed(metrics);
        let mut room = self.context.options().n_batch;
        let mut prompts: Vec<usize> = Vec::new();
        for i in 0..self.active.len() {
            let n = self.active[i].job.generator.feed().len();
            self.active[i].n = n.min(1);
            if n == 1 {
                room = room.saturating_sub(1);
            } else if !self.comes_from_another(i, &prompts) {
                prompts.push(i);
            } else {
                self.active[i].n = 0;
            }
        }
        let mut room = room.max(LEAST_PREFILL);
        prompts.sort_by_key(|&i| self.active[i].job.generator.feed().len());
        for (k, &i) in prompts.iter().enumerate() {
            let share = (room / (prompts.len() - k)).max(1);
            self.active[i].n = self.active[i].job.generator.feed().len().min(share);
            room = room.saturating_sub(self.active[i].n);
        }
    }

    /// Has prompts take pages from the cache that others filled meanwhile.
    fn take_what_others_computed(&mut self, metrics: &Mutex<Metrics>) {
        if !self.context.options().keep_prefixes {
            return;
        }
        for i in (0..self.active.len()).rev() {
            let Active { job, seq, .. } = &mut self.active[i];
            if job.generator.feed().len() > PAGE_LEN
                && let Err(error) = job.generator.resume(&mut self.context, *seq)
            {
                self.release(i).fail(error, metrics);
            }
        }
    }

    /// Whether the next page of request `i` is one that one of `others` is computing, so that it can wait for it.
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

    /// Has the batch take less of the prompts, though no less than a page of each: where a window's pages are given back as a
    /// sequence grows, short pieces need fewer at once. Returns whether there was any to take less of.
    fn halve_pieces(&mut self) -> bool {
        let mut any = false;
        for active in self.active.iter_mut().filter(|active| active.n > PAGE_LEN) {
            active.n = (active.n / 2).max(PAGE_LEN);
            any = true;
        }
        any
    }

    /// Has the request of the highest rank give its pages to the others and wait again; the only one there is ends. Plans the batch
    /// of those that are left.
    fn make_room(&mut self, queue: &Mutex<Queue>, metrics: &Mutex<Metrics>) {
        if self.active.len() == 1 {
            self.release(0).end(FinishReason::ContextFull, metrics);
        } else if let Some(last) = (0..self.active.len()).max_by_key(|&i| rank(&self.active[i].job)) {
            let mut job = self.release(last);
            job.leave();
            job.standing.pause(metrics);
            // Those that came later and stay have passed it.
            let n_younger = self.active.iter().filter(|other| other.job.number > job.number).count();
            job.n_passed = job.n_passed.saturating_add(n_younger as u32);
            queue.lock().put_back(job);
        }
        self.plan(metrics);
    }

    fn fail_batch(&mut self, error: &Error, metrics: &Mutex<Metrics>) {
        for i in (0..self.active.len()).rev().filter(|&i| self.active[i].n > 0).collect::<Vec<_>>() {
            self.release(i).fail(error.clone(), metrics);
        }
    }

    /// Tells the tokens that follow from the batch, which took `time`.
    fn tell(&mut self, time: Duration, metrics: &Mutex<Metrics>) {
        let mut ended = Vec::new();
        let prefilling = self.active.iter().filter(|a| a.job.is_prefilling);
        let n_prefilled = prefilling.map(|a| a.n as u64).sum::<u64>();
        {
            // Whoever takes the last event may read them at once.
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
                if !job.take(&self.context, choice, metrics) {
                    ended.push(i);
                }
            }
        }
        // Only now: emptying a sequence takes the logits away.
        ended.into_iter().rev().for_each(|i| drop(self.release(i)));
    }
}
