//! Timelines over a model: batches, the paged KV cache, rewinding, logits of the requested tokens; and embeddings of whole texts.
//!
//! [`LoadedModel`] is a file opened, checked and bound once, shared by its contexts. A [`Context`] owns a KV cache, a workspace
//! and a thread pool. Only the trait of the private module `runner` erases the type of the [`Backend`](crate::backend::Backend).
#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::backend::{Backend, NO_COLUMN};
use crate::cache::{Moves, Recurrent, Sequences, Window, most_pages};
use crate::cancel::{Asker, CancelToken, Watch};
use crate::error::{Error, Result};
use crate::memory::{Memory, MemoryOptions, Zeroed};
use crate::model::LoadedModel;
use crate::nn::head::Output;
use crate::nn::{KvMoves, Shift};
use crate::threads;

mod ahead;
mod classify;
mod embed;
mod encoded;
mod estimate;
mod logits;
mod options;
mod plan;
mod replay;
mod runner;
pub mod state;
mod state_io;
mod timings;

pub use crate::cache::{MAX_AHEAD, Tokens};
pub use classify::ScoreOptions;
pub use embed::EmbedOptions;
pub use estimate::{Estimate, estimate};
use logits::{Origin, Place};
pub use options::{BackendKind, ContextOptions, MAX_BATCH, MAX_CTX, MAX_SEQ, MAX_SNAPSHOTS};
use plan::Plan;
use runner::{KvRules, Runner};
pub use timings::Timings;

/// One or more token sequences being processed over a model. Used by one thread at a time.
pub struct Context {
    model: Arc<LoadedModel>,
    options: ContextOptions,
    runner: Box<dyn Runner>,
    /// The process that has the context's threads.
    process: u32,
    sequences: Sequences,
    plan: Plan,
    /// Rows that an encoder reads.
    encoded: encoded::Encoded,
    /// Texts being embedded.
    group: embed::Group,
    /// Large buffers are allocated here.
    memory: Memory,
    /// Bytes of the KV cache.
    kv_bytes: u64,
    /// Logits of the last call, `[outputs, n_vocab]`; its capacity may be larger.
    logits: Zeroed<f32>,
    /// Their origin.
    origin: Origin,
    /// Rows of the last call that have logits, ascending; the position in this list is the row in `logits`.
    outputs: Vec<u32>,
    /// The tokens of sequences that the rows belong to.
    places: Vec<Place>,
    /// Logits of one token, for callers that read them and keep none.
    row: Vec<f32>,
    /// Ends decoding and embedding early.
    cancel: Option<CancelToken>,
    timings: Timings,
}

impl Context {
    /// A context over `model`. Errors: `InvalidArgument` for options that contradict the model, `NoMemory`.
    pub fn new(model: &Arc<LoadedModel>, options: &ContextOptions) -> Result<Context> {
        let rules = KvRules::of_kind(options.backend);
        Context::with(model, options, rules, |options, sizes, memory| {
            runner::make(model, options, sizes, memory)
        })
    }

    /// As [`Context::new`] on a backend that `backend` makes over some memory, whatever the options say. The weights are bound
    /// for `B` one time and shared by all contexts of the model on that backend.
    pub fn on<B: Backend>(
        model: &Arc<LoadedModel>,
        options: &ContextOptions,
        backend: impl Fn(&Memory) -> Result<B>,
    ) -> Result<Context> {
        Context::with(model, options, KvRules::of::<B>(), |options, sizes, memory| {
            runner::make_on(model, options, sizes, memory, backend)
        })
    }

    /// A context with a runner that `make` makes, with these numbers of pages of each group, and of slots.
    fn with(
        model: &Arc<LoadedModel>,
        options: &ContextOptions,
        rules: KvRules,
        make: impl FnOnce(&ContextOptions, (&[usize], usize), &Memory) -> Result<(Box<dyn Runner>, u64)>,
    ) -> Result<Context> {
        let options = options.resolve(model)?;
        let n_batch = (!options.keep_all_positions).then_some(options.n_batch);
        let windows = model.info().windows.iter().map(|len| len.map(|len| Window::new(len, n_batch)));
        let windows: Vec<Option<Window>> = windows.collect();
        let most = |window: &Option<Window>| most_pages(options.n_seq, options.n_ctx, *window);
        let most = windows.iter().map(most).collect::<Result<Vec<usize>>>()?;
        let n_pages = match options.kv_limit {
            Some(limit) => rules.pages_within(limit, &most, model.info(), &options)?,
            None => most,
        };
        let n_snapshots = options.n_snapshots.unwrap_or(0);
        let is_recurrent = model.info().is_recurrent();
        let recurrent =
            is_recurrent.then(|| Recurrent::new(options.n_seq, n_snapshots, options.snapshot_distance));
        let n_slots = if is_recurrent { Recurrent::n_slots(options.n_seq, n_snapshots) } else { 0 };
        let groups: Vec<_> = windows.into_iter().zip(n_pages.iter().copied()).collect();
        let mut sequences =
            Sequences::new(options.n_seq, options.n_ctx, &groups, options.keep_prefixes, recurrent)?;
        sequences.decode_from(model.info().decoder_start);
        let limit = MemoryOptions { limit: options.memory_limit, ..Default::default() };
        let memory = model.memory().inner(limit);
        let (runner, kv_bytes) = make(&options, (&n_pages, n_slots), &memory)?;
        let plan = Plan::new(&options, n_pages.len())?;
        let mut context = Context {
            model: Arc::clone(model),
            options,
            runner,
            process: threads::process(),
            sequences,
            plan,
            encoded: encoded::Encoded::default(),
            group: embed::Group::default(),
            memory,
            kv_bytes,
            logits: Zeroed::default(),
            origin: Origin::default(),
            outputs: Vec::new(),
            places: Vec::new(),
            row: Vec::new(),
            cancel: None,
            timings: Timings::default(),
        };
        if context.model.info().has_logits {
            // One call may ask for the last token of each sequence.
            context.reserve_outputs(context.options.n_seq)?;
        }
        Ok(context)
    }

    /// The model.
    pub fn model(&self) -> &Arc<LoadedModel> {
        &self.model
    }

    /// The options in force, every default filled in.
    pub fn options(&self) -> &ContextOptions {
        &self.options
    }

    /// What the context has done.
    pub fn timings(&self) -> &Timings {
        &self.timings
    }

    /// Resets the counters.
    pub fn reset_timings(&mut self) {
        self.timings = Timings::default();
    }

    /// Bytes of large buffers of the context: of its KV cache, and of all else.
    pub fn memory(&self) -> (u64, u64) {
        (self.kv_bytes, self.memory.used().saturating_sub(self.kv_bytes))
    }

    /// Pages of the KV cache, of all groups of layers: how many there are, and how many of them no sequence has.
    pub fn kv_pages(&self) -> (usize, usize) {
        let groups = 0..self.sequences.n_groups();
        let sizes = groups.map(|group| (self.sequences.n_pages(group), self.sequences.n_free(group)));
        sizes.fold((0, 0), |(n, n_free), (more, more_free)| (n + more, n_free + more_free))
    }

    /// The number of tokens in sequence `seq`; the next one has this position.
    pub fn n_past(&self, seq: u32) -> Result<usize> {
        self.sequences.len(seq)
    }

    /// The tokens of sequence `seq`, in order.
    pub fn tokens(&self, seq: u32) -> Result<&[u32]> {
        self.sequences.tokens(seq)
    }

    /// Has `cancel` end calls of [`Context::decode`] and [`Context::embed`] from now on, with `Cancelled`; `None`: nothing does.
    /// It is checked before each layer.
    pub fn set_cancel_token(&mut self, cancel: Option<CancelToken>) {
        self.cancel = cancel;
    }

    /// Runs `tokens` through the model and keeps the requested logits.
    ///
    /// Errors leave the sequences as they were: `InvalidArgument` for a token, position or sequence out of range, or for
    /// a context of a parent process; `ContextFull` when a sequence would grow beyond `n_ctx`, `Unsupported` for an encoder,
    /// `Cancelled` by the context's token, `Io` when the model's file can no longer be read.
    pub fn decode(&mut self, tokens: Tokens<'_>) -> Result<()> {
        self.decode_under(tokens, None)
    }

    /// What ends a call: `cancel`, and the context's own token.
    pub fn watch<'a>(&'a self, cancel: Option<&'a CancelToken>) -> Watch<'a> {
        Watch::new(cancel, self.cancel.as_ref())
    }

    /// As [`Context::decode`], which `cancel` may end too.
    pub fn decode_under(&mut self, tokens: Tokens<'_>, cancel: Option<&CancelToken>) -> Result<()> {
        self.decode_with(tokens, 0, Watch::new(None, cancel), |context, watch| context.run(&tokens, watch))
    }

    /// As [`Context::decode`], which ends early too when all of `askers` are cancelled: the requests that the call is for.
    pub fn decode_for(&mut self, tokens: Tokens<'_>, askers: &[Asker]) -> Result<()> {
        self.decode_with(tokens, 0, Watch::of_all(askers), |context, watch| context.run(&tokens, watch))
    }

    /// As [`Context::decode_for`], but keeps only the token of the largest of the requested logits, which a greedy sampler takes.
    /// `best` gets one for each, or [`NO_COLUMN`] where a logit is NaN or all are `-inf`. After an error its content is
    /// undefined.
    pub fn decode_best(&mut self, tokens: Tokens<'_>, askers: &[Asker], best: &mut Vec<u32>) -> Result<()> {
        let watch = Watch::of_all(askers);
        self.decode_with(tokens, 0, watch, |context, watch| context.run_best(&tokens, watch, best))
    }

    /// As [`Context::decode_under`], but the requested logits go to `look` one token after the other, with the token's place in
    /// the batch. None are kept: their memory does not grow with the batch.
    pub fn decode_each(
        &mut self,
        tokens: Tokens<'_>,
        cancel: Option<&CancelToken>,
        look: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<()> {
        let watch = Watch::new(None, cancel);
        self.decode_with(tokens, 0, watch, |context, watch| context.run_each(&tokens, watch, look))
    }

    /// Checks `tokens`, runs them by `run`, and keeps them if that succeeds. The last `n_ahead`, which belong to the first one's
    /// sequence, then lie ready after it.
    fn decode_with(
        &mut self,
        tokens: Tokens<'_>,
        n_ahead: usize,
        watch: Watch<'_>,
        run: impl FnOnce(&mut Context, Watch<'_>) -> Result<()>,
    ) -> Result<()> {
        self.model.require_logits()?;
        self.check_process()?;
        self.check(&tokens)?;
        self.catch_up(&tokens, watch)?;
        let (start, n_batch) = (self.model.info().decoder_start, self.options.n_batch);
        self.encoded.plan(&tokens, start, &self.sequences, n_batch)?;
        self.sequences.begin(&tokens, n_ahead)?;
        for (group, from, to) in self.sequences.copies() {
            self.runner.pages_mut(group).copy_page(from, to);
        }
        let begin = Instant::now();
        let outcome = run(self, watch);
        match outcome {
            Ok(()) if n_ahead > 0 => {
                self.sequences.hold_back(tokens.seqs.map_or(0, |seqs| seqs[0]), n_ahead);
                self.sequences.commit();
                self.timings.add_step(begin.elapsed());
            }
            Ok(()) => {
                self.sequences.commit();
                self.timings.add_tokens(&tokens, begin.elapsed());
            }
            Err(_) => {
                self.forget_logits();
                self.sequences.roll_back();
            }
        }
        outcome
    }

    /// The micro-batch of `tokens` that begins with row `first`.
    fn rows_from(&self, first: usize, tokens: &Tokens<'_>) -> Range<usize> {
        first..self.encoded.end(first, tokens.ids.len().min(first + self.options.n_batch))
    }

    /// Runs the micro-batches. The logits of one are available when it is done.
    fn run(&mut self, tokens: &Tokens<'_>, watch: Watch<'_>) -> Result<()> {
        let n_outputs = (0..tokens.ids.len()).filter(|&i| tokens.wants(i)).count();
        self.reserve_outputs(n_outputs)?;
        self.forget_logits();
        let n_vocab = self.model.info().n_vocab;
        let mut end = 0;
        while end < tokens.ids.len() {
            let rows = self.rows_from(end, tokens);
            let first = rows.start;
            end = rows.end;
            self.plan.fill(tokens, rows, &mut self.sequences);
            let (done, more) = (self.outputs.len(), self.plan.outputs().len());
            let logits = &mut self.logits[done * n_vocab..(done + more) * n_vocab];
            let watch = watch.with(self.cancel.as_ref());
            self.runner.forward(&self.plan.batch(tokens, watch), Output::Logits(logits))?;
            self.outputs.extend(self.plan.outputs().iter().map(|&row| first as u32 + row));
            let places = self.plan.output_places(tokens).zip(done as u32..);
            self.places.extend(places.map(|((seq, position), row)| Place { seq, position, row }));
        }
        self.origin = Origin::Decode(tokens.ids.len());
        Ok(())
    }

    /// Runs the micro-batches and keeps the best token of each output.
    fn run_best(&mut self, tokens: &Tokens<'_>, watch: Watch<'_>, best: &mut Vec<u32>) -> Result<()> {
        self.forget_logits();
        best.clear();
        let n = tokens.ids.len();
        let no_memory = |_| Error::NoMemory(format!("no memory for the best tokens of a batch of {n}"));
        best.try_reserve(n).map_err(no_memory)?;
        let mut end = 0;
        while end < n {
            let rows = self.rows_from(end, tokens);
            end = rows.end;
            self.plan.fill(tokens, rows, &mut self.sequences);
            let done = best.len();
            best.resize(done + self.plan.outputs().len(), NO_COLUMN);
            let watch = watch.with(self.cancel.as_ref());
            self.runner.forward(&self.plan.batch(tokens, watch), Output::Best(&mut best[done..]))?;
        }
        Ok(())
    }

    /// Runs the micro-batches and shows the logits of each output.
    fn run_each(
        &mut self,
        tokens: &Tokens<'_>,
        watch: Watch<'_>,
        look: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<()> {
        self.forget_logits();
        self.row.resize(self.model.info().n_vocab, 0.0);
        let mut end = 0;
        while end < tokens.ids.len() {
            let rows = self.rows_from(end, tokens);
            let first = rows.start;
            end = rows.end;
            self.plan.fill(tokens, rows, &mut self.sequences);
            let watch = watch.with(self.cancel.as_ref());
            let mut look = |row: usize, logits: &[f32]| look(first + row, logits);
            let out = Output::Each { row: &mut self.row, look: &mut look };
            self.runner.forward(&self.plan.batch(tokens, watch), out)?;
        }
        Ok(())
    }

    /// Whether threads beside the caller's work in its calls.
    pub fn has_threads(&self) -> bool {
        self.options.backend == BackendKind::Auto && self.options.n_threads > 1
    }

    /// `InvalidArgument` in a child process made by `fork` for a context that was made before: its threads do not exist there.
    fn check_process(&self) -> Result<()> {
        match !self.has_threads() || self.process == threads::process() {
            true => Ok(()),
            false => Err(Error::InvalidArgument(format!(
                "the context was made before fork(), in process {}, which has its threads; make one in this process",
                self.process
            ))),
        }
    }

    fn check(&self, tokens: &Tokens<'_>) -> Result<()> {
        tokens.check_lengths()?;
        let n_vocab = self.model.info().n_vocab;
        match tokens.ids.iter().position(|&id| id as usize >= n_vocab) {
            Some(i) => Err(Error::InvalidArgument(format!(
                "token {i} of the batch is {}, but the vocabulary has {n_vocab} tokens",
                tokens.ids[i]
            ))),
            None => Ok(()),
        }
    }

    /// Makes sequence `to` the first `n` tokens of `from`; what it held is gone. Both share the memory until one of them writes
    /// to a shared page. They share the logits after these tokens too, if they are kept. `InvalidArgument` when `from` is
    /// shorter, has given back pages that would be seen from there ([`ContextOptions::keep_all_positions`]), or is the same
    /// sequence.
    pub fn copy_sequence(&mut self, from: u32, to: u32, n: usize) -> Result<()> {
        self.sequences.copy(from, to, n)?;
        self.share_place(from, to, n);
        Ok(())
    }

    /// Makes sequence `seq` as much of the beginning of `ids` as is in the cache, `most` tokens at most, and returns the number
    /// of tokens: those that the sequence has already, or whole kept pages of other texts, if they are more. Tokens of its own do
    /// not count where it has given back pages that would be seen from there.
    pub fn reuse_prefix(&mut self, seq: u32, ids: &[u32], most: usize) -> Result<usize> {
        let before = self.tokens(seq)?;
        let (len_before, goes_on) = (before.len(), ids.starts_with(before));
        let len = self.sequences.reuse(seq, ids, most)?;
        if len != len_before || !goes_on {
            self.forget_logits();
        }
        Ok(len)
    }

    /// Empties all sequences but `seq`.
    pub fn keep_sequence(&mut self, seq: u32) -> Result<()> {
        self.sequences.len(seq)?;
        for other in (0..self.sequences.n_seq() as u32).filter(|&other| other != seq) {
            self.sequences.rewind(other, 0)?;
        }
        self.places.retain(|place| place.seq == seq);
        Ok(())
    }

    /// Forgets the `drop` tokens of `seq` after its first `keep`. Those after them move forward to their places, and their keys
    /// are re-rotated to their new positions. What was computed from the forgotten tokens stays in what follows, so this is not
    /// the same as running the rest anew. Each time keys are rounded once more. The logits after the last token stay, unless it
    /// is forgotten.
    ///
    /// Errors, after which nothing has changed: `InvalidArgument` when the sequence is shorter, when the first `keep` tokens have
    /// given back what would be seen again, or for a context of a parent process; `Unsupported` for a model with learned
    /// positions and for an encoder; `ContextFull` when too few pages are free to copy those that
    /// other sequences have too, `NoMemory`.
    pub fn shift(&mut self, seq: u32, keep: usize, drop: usize) -> Result<()> {
        self.model.require_shift()?;
        self.check_process()?;
        let moves = self.sequences.shift(seq, keep, drop)?;
        let mut groups = Vec::with_capacity(moves.len());
        for (group, Moves { copy, from, to }) in moves.into_iter().enumerate() {
            if let Some((from, to)) = copy {
                self.runner.pages_mut(group).copy_page(from, to);
            }
            groups.push(KvMoves { from, to });
        }
        self.shift_places(seq, keep, drop);
        if groups.is_empty() {
            return Ok(());
        }
        self.runner.shift(&Shift { groups: &groups, by: drop, n_ctx: self.options.n_ctx })
    }

    /// `InvalidArgument` if a sequence that has grown to `n_ctx` tokens could not forget `drop` of them after its first `keep`,
    /// since those would be seen again and were given back.
    pub fn check_full_shift(&self, keep: usize, drop: usize) -> Result<()> {
        self.sequences.check_shift(keep, drop)
    }

    /// Whether there are enough pages for all of `growing`, sequences that grow to so many tokens, `n_batch` of them at a time.
    pub fn has_free_pages(&self, growing: impl Iterator<Item = (u32, usize)> + Clone) -> bool {
        (0..self.sequences.n_groups()).all(|group| {
            let more = growing.clone().map(|(seq, n)| self.sequences.n_more_pages(group, seq, n));
            more.sum::<usize>() <= self.sequences.n_free(group)
        })
    }

    /// Whether the whole cache has enough pages for a sequence whose `n` tokens have run.
    pub fn holds(&self, n: usize) -> bool {
        self.sequences.holds(n)
    }

    /// Forgets the tokens of `seq` from position `n_past` on; 0 empties the sequence. The last call's logits are gone.
    /// `InvalidArgument` when the sequence is shorter than that, or has given back pages that would be seen from there: its last
    /// [`MAX_AHEAD`] tokens can always be taken back one time, and all of them.
    pub fn rewind(&mut self, seq: u32, n_past: usize) -> Result<()> {
        self.sequences.rewind(seq, n_past)?;
        self.forget_logits();
        Ok(())
    }
}
