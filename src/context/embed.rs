//! Embeddings: many texts through the model in one call, in micro-batches of whole texts without padding.
#![forbid(unsafe_code)]

use super::Context;
use std::borrow::Cow;
use std::time::Instant;

use crate::arch::ModelInfo;
use crate::backend::{PageTables, Run, StatePlan, StateRun};
use crate::cache::{EMBED_SLOTS, PAGE_LEN};
use crate::cancel::Watch;
use crate::error::{Error, Result, quoted};
use crate::memory::expect_memory;
use crate::nn::Batch;
use crate::nn::head::Output;
use crate::nn::pooling::{self, Pooling};

/// How texts become vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EmbedOptions {
    /// `None`: what the model's file says, or the mean of all tokens where it says nothing.
    pub pooling: Option<Pooling>,
    /// Whether each row is scaled to length 1. `None`: pooled vectors are, unless `modules.json` of a folder has no
    /// `Normalize`; the rows of [`Pooling::None`] are not.
    pub normalize: Option<bool>,
    /// Cut a text that is too long to what fits, instead of refusing it.
    pub truncate: bool,
    /// How many numbers of each row are kept, the first ones, before it is scaled (Kusupati et al. 2022); `None`: all.
    pub dimensions: Option<usize>,
}

impl EmbedOptions {
    /// The pooling in force for a model.
    pub fn pooling(&self, info: &ModelInfo) -> Pooling {
        self.pooling.or(info.pooling).unwrap_or(Pooling::Mean)
    }
}

/// Where a text of the group under way lies.
struct Span {
    /// First row of the group.
    first: usize,
    /// Rows.
    len: usize,
    /// Where its page tables begin in those of the groups.
    pages: usize,
}

/// Texts that run together, planned in arrays that are reused from call to call.
#[derive(Default)]
pub(super) struct Group {
    spans: Vec<Span>,
    ids: Vec<u32>,
    positions: Vec<u32>,
    /// Which text of a pair each token is of; empty where there are no pairs.
    types: Vec<u32>,
    /// Pages of each group of layers that are lent for the texts.
    lent: Vec<Vec<u32>>,
    /// In each group the texts' page tables, one after another; and the slots of the micro-batch under way. A long text reuses
    /// its pages where no row sees them any more.
    groups: Vec<PageTables>,
    /// Of the micro-batch under way, as the following fields.
    runs: Vec<Run>,
    state_runs: Vec<StateRun>,
    outputs: Vec<u32>,
    /// Hidden states to be added to the sums.
    hidden: Vec<f32>,
}

impl Group {
    fn clear(&mut self) {
        self.spans.clear();
        self.ids.clear();
        self.positions.clear();
        self.types.clear();
        self.groups.iter_mut().for_each(PageTables::clear);
    }

    /// Adds a text. The last pages of each group were lent for it, as many as `n_pages` says; `second` is where the second text
    /// of a pair begins.
    fn push(&mut self, text: &[u32], second: Option<usize>, n_pages: impl Fn(usize) -> usize) {
        let start = self.groups.first().map_or(0, |tables| tables.pages.len());
        for (i, (tables, lent)) in self.groups.iter_mut().zip(&self.lent).enumerate() {
            let own = &lent[lent.len() - n_pages(i)..];
            tables.pages.extend(own.iter().cycle().take(text.len().div_ceil(PAGE_LEN)));
        }
        self.spans.push(Span { first: self.ids.len(), len: text.len(), pages: start });
        self.ids.extend_from_slice(text);
        self.positions.extend(0..text.len() as u32);
        self.types.extend(second.into_iter().flat_map(|at| (0..text.len()).map(move |i| u32::from(i >= at))));
    }

    /// Plans rows `first..end`: their runs, and the rows that `pooling` wants.
    fn plan(&mut self, first: usize, end: usize, pooling: Pooling) {
        self.runs.clear();
        self.state_runs.clear();
        self.outputs.clear();
        self.groups.iter_mut().for_each(|tables| tables.slots.clear());
        for span in &self.spans {
            let rows = span.first.max(first)..(span.first + span.len).min(end);
            if rows.is_empty() {
                continue;
            }
            let position = rows.start - span.first;
            for PageTables { slots, pages } in &mut self.groups {
                let pages = &pages[span.pages..];
                let slot = |i: usize| pages[i / PAGE_LEN] * PAGE_LEN as u32 + (i % PAGE_LEN) as u32;
                slots.extend((position..position + rows.len()).map(slot));
            }
            let (row, len) = (rows.start - first, rows.len());
            self.runs.push(Run { first: row, len, position, encoded: 0, pages: span.pages });
            let [carried, done] = EMBED_SLOTS;
            self.state_runs.push(StateRun {
                from: (position > 0).then_some(carried),
                to: if rows.end < span.first + span.len { carried } else { done },
            });
            let wanted = rows.filter(|row| pooling.wants(row - span.first, span.len));
            self.outputs.extend(wanted.map(|row| (row - first) as u32));
        }
    }

    /// The rows planned, in the form models take.
    fn batch<'a>(&'a self, first: usize, end: usize, n_ctx: usize, watch: Watch<'a>) -> Batch<'a> {
        Batch {
            tokens: &self.ids[first..end],
            positions: &self.positions[first..end],
            types: self.types.get(first..end).unwrap_or_default(),
            groups: &self.groups,
            runs: &self.runs,
            outputs: &self.outputs,
            states: StatePlan { runs: &self.state_runs, copies: &[] },
            n_ctx,
            watch,
        }
    }

    /// Adds the hidden states of the planned rows to the sums of their texts, `[spans, n_embd]`, and divides the complete sums by
    /// the number of tokens.
    fn add_up(&self, n_embd: usize, sums: &mut [f32]) {
        let mut hidden = self.hidden.chunks_exact(n_embd);
        // Texts run in order, so the runs belong to the spans from some first one on.
        let begins = |span: &Span| self.runs.first().is_some_and(|run| run.pages == span.pages);
        let first = self.spans.iter().position(begins).unwrap_or(0);
        let sums = sums.chunks_exact_mut(n_embd).skip(first);
        for ((run, span), sum) in self.runs.iter().zip(&self.spans[first..]).zip(sums) {
            for row in hidden.by_ref().take(run.len) {
                sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
            }
            if run.position + run.len == span.len {
                sum.iter_mut().for_each(|sum| *sum /= span.len as f32);
            }
        }
    }
}

/// The length limit of a text: most tokens, and what limits it.
#[derive(Clone, Copy)]
pub(super) struct Longest {
    pub(super) most: usize,
    by: Bound,
}

/// What limits the length of texts.
#[derive(Clone, Copy)]
enum Bound {
    /// An option of the context, by its name.
    Option(&'static str),
    /// The size of the KV cache, which is below `n_ctx`.
    Cache,
    /// The pages of the context's sequences.
    Sequences,
}

impl Longest {
    /// How many tokens of text `i` of `n` are embedded: all, or what fits where it may be cut. `ContextFull` otherwise.
    fn of_text(&self, i: usize, n: usize, truncate: bool) -> Result<usize> {
        let Longest { most, by } = *self;
        if n <= most || (truncate && most > 0) {
            return Ok(n.min(most));
        }
        let limit = match by {
            Bound::Option(name) => format!("a text of this context may have {most} ({name})"),
            Bound::Cache => format!("the KV cache holds {most} (kv_limit)"),
            Bound::Sequences => format!("the context's sequences leave space for {most}: rewind some"),
        };
        Err(Error::ContextFull(format!("text {i} has {n} tokens, but {limit}")))
    }
}

impl Context {
    /// The length limit of a text now. An encoder sees a text whole, so it must fit a micro-batch too; and there must be pages
    /// for it.
    pub(super) fn longest(&self) -> Longest {
        let (options, sequences) = (&self.options, &self.sequences);
        let (most, name) = match self.model.info().causal {
            false if options.n_batch < options.n_ctx => (options.n_batch, "n_batch"),
            _ => (options.n_ctx, "n_ctx"),
        };
        let (most, name) = match self.model.gguf().further().most_tokens {
            Some((n, field)) if (n as usize) < most => (n as usize, field),
            _ => (most, name),
        };
        let mut longest = Longest { most, by: Bound::Option(name) };
        for group in 0..sequences.n_groups() {
            let n_free = sequences.n_free(group);
            if n_free < sequences.ring(group) && n_free.saturating_mul(PAGE_LEN) < longest.most {
                let is_empty = n_free == sequences.n_pages(group);
                let by = if is_empty { Bound::Cache } else { Bound::Sequences };
                longest = Longest { most: n_free * PAGE_LEN, by };
            }
        }
        longest
    }

    /// The tokens of each text, with the special tokens at its beginning and end, and after the prompt that a folder of
    /// `sentence-transformers` puts before each text. With [`EmbedOptions::truncate`] a text that is too long now loses tokens
    /// before the special ones at its end.
    ///
    /// Errors: `Unsupported` for a model without a tokenizer; `Cancelled` by the context's token.
    pub fn tokenize_texts(&self, texts: &[&str], options: &EmbedOptions) -> Result<Vec<Vec<u32>>> {
        self.tokenize_prompted(texts, options, None)
    }

    /// As [`Context::tokenize_texts`], after the prompt of this name, if one is given.
    ///
    /// Errors: `InvalidArgument` for an unknown name, with the names that there are; `Unsupported` for a prompt that is left out
    /// of the pooling.
    pub fn tokenize_prompted(
        &self,
        texts: &[&str],
        options: &EmbedOptions,
        prompt: Option<&str>,
    ) -> Result<Vec<Vec<u32>>> {
        let tokenizer = self.model.tokenizer()?;
        // The memory of a list and its entry in others, and of the tokens.
        let n_bytes: usize = texts.iter().map(|text| 128 + 2 * text.len()).sum();
        expect_memory(n_bytes, "tokenizing so many texts")?;
        let Longest { most, .. } = self.longest();
        let closing = tokenizer.suffix();
        let prompt = match prompt {
            Some(name) => self.prompt(name)?,
            None => &self.model.gguf().further().prompt,
        };
        let watch = self.watch(None);
        let look = || watch.check();
        let tokens = |(i, text): (usize, &&str)| {
            // Longer texts check the cancel token while they are encoded.
            if i % 64 == 63 {
                watch.check()?;
            }
            let text = if prompt.is_empty() { Cow::Borrowed(*text) } else { [prompt, *text].concat().into() };
            let tokenizer = self.model.tokenizer_for(text.len())?;
            let mut ids = tokenizer.under(&look).encode(&text, true, false)?;
            // Where no token fits, embedding it says so.
            if options.truncate && most > 0 && ids.len() > most {
                ids.truncate(most);
                if let Some(end) = most.checked_sub(closing.len()).and_then(|first| ids.get_mut(first..)) {
                    end.copy_from_slice(closing);
                }
            }
            Ok(ids)
        };
        texts.iter().enumerate().map(tokens).collect()
    }

    /// The prompt called `name`.
    fn prompt(&self, name: &str) -> Result<&str> {
        let further = self.model.gguf().further();
        let Some((_, prompt)) = further.prompts.iter().find(|(known, _)| **known == *name) else {
            let names: Vec<String> =
                further.prompts.iter().map(|(name, _)| quoted(name.as_bytes())).collect();
            let names = match names.is_empty() {
                true => "it has none".to_owned(),
                false => format!("its prompts are: {}", names.join(", ")),
            };
            return Err(Error::InvalidArgument(format!(
                "{}: the model has no prompt called {}: {names}",
                self.model.name(),
                quoted(name.as_bytes())
            )));
        };
        match further.pools_prompt || prompt.is_empty() {
            true => Ok(prompt),
            false => Err(Error::Unsupported(format!(
                "{}: the tokens of a prompt are not to be pooled in this model (\"include_prompt\" is false), which is not supported",
                self.model.name()
            ))),
        }
    }

    /// Numbers in a row of pooling `pooling`, before [`EmbedOptions::dimensions`].
    fn row_len(&self, pooling: Pooling) -> usize {
        match pooling {
            Pooling::None => self.model.info().n_embd,
            Pooling::Mean | Pooling::Cls | Pooling::Last => self.model.n_embd_out(),
        }
    }

    /// How many numbers [`Context::embed`] gives for these texts: their rows times the embedding's width. The errors are those of
    /// `embed`, which this call does not run.
    pub fn embedding_len(&self, texts: &[&[u32]], options: &EmbedOptions) -> Result<usize> {
        let all = self.row_len(options.pooling(self.model.info()));
        let dimensions = options.dimensions.unwrap_or(all);
        if dimensions == 0 || dimensions > all {
            return Err(Error::InvalidArgument(format!(
                "dimensions is {dimensions}, but a vector of this model has {all} numbers: expected 1 to {all}"
            )));
        }
        Ok(self.n_rows(texts, options)?.saturating_mul(dimensions))
    }

    /// How many rows these texts give.
    fn n_rows(&self, texts: &[&[u32]], options: &EmbedOptions) -> Result<usize> {
        self.model.require_one_part("it gives answers and no embeddings (\"t5encoder\" has these)")?;
        let info = self.model.info();
        if info.ranks && options.pooling.is_none() {
            return Err(Error::Unsupported(format!(
                "{}: the model scores texts (its \"pooling_type\" is 4): ember_classify and ember_rerank give its scores, and \
                 embeddings need a pooling of the caller's choice",
                self.model.name()
            )));
        }
        let (longest, pooling) = (self.longest(), options.pooling(info));
        let mut n_rows = 0usize;
        for (i, text) in texts.iter().enumerate() {
            if text.is_empty() {
                return Err(Error::InvalidArgument(format!("text {i} is empty: it has no token to embed")));
            }
            let text = &text[..longest.of_text(i, text.len(), options.truncate)?];
            if let Some(j) = text.iter().position(|&id| id as usize >= info.n_vocab) {
                return Err(Error::InvalidArgument(format!(
                    "token {j} of text {i} is {}, but the vocabulary has {} tokens",
                    text[j], info.n_vocab
                )));
            }
            n_rows = n_rows.saturating_add(pooling.n_rows(text.len()));
        }
        Ok(n_rows)
    }

    /// The embeddings of `texts`, each a list of token ids: `[texts, n_embd_out]`, or with [`Pooling::None`] one row of `n_embd`
    /// numbers for each token of each text, in their order; fewer numbers with [`EmbedOptions::dimensions`].
    ///
    /// Each micro-batch takes as many texts as fit `n_batch` tokens and the pages that the context's sequences leave. Sequences
    /// and logits stay as they are. With the default types of the KV cache a text's embedding has the same bits in any batch.
    ///
    /// Errors: `InvalidArgument` for a text without tokens, a token out of range, a context of a parent process, and a result
    /// with NaN or infinity; `ContextFull` for a text that is too long, `NoMemory`, `Cancelled` by the context's token.
    pub fn embed(&mut self, texts: &[&[u32]], options: &EmbedOptions) -> Result<Vec<f32>> {
        self.embedding_len(texts, options)?;
        let mut out = self.hidden(texts, None, options)?;
        let pooling = options.pooling(self.model.info());
        if let Some(dense) = self.model.dense().filter(|_| pooling != Pooling::None) {
            out = dense.forward(&out, self.model.info().n_embd)?;
        }
        let mut row_len = self.row_len(pooling);
        if let Some(kept) = options.dimensions {
            let n = out.len() / row_len;
            (1..n).for_each(|i| out.copy_within(i * row_len..i * row_len + kept, i * kept));
            out.truncate(n * kept);
            row_len = kept;
        }
        let of_model = || self.model.gguf().further().normalizes.unwrap_or(true) && pooling != Pooling::None;
        if options.normalize.unwrap_or_else(of_model) {
            out.chunks_exact_mut(row_len).for_each(pooling::normalize);
        }
        self.check_finite(&out, row_len, texts, pooling)?;
        Ok(out)
    }

    /// Refuses rows with NaN or infinity.
    fn check_finite(&self, rows: &[f32], row_len: usize, texts: &[&[u32]], pooling: Pooling) -> Result<()> {
        let Some(at) = rows.iter().position(|x| !x.is_finite()) else { return Ok(()) };
        let i = text_of_row(texts, self.longest().most, at / row_len, pooling);
        Err(Error::InvalidArgument(format!(
            "number {} of the embedding of text {i} is {}: the model's numbers do not stay finite there",
            at % row_len,
            rows[at]
        )))
    }

    /// The hidden states of texts as `options` pool them, `[rows, n_embd]`, without further processing; or those of pairs of
    /// texts: `seconds[i]` is where the second one of pair `i` begins.
    pub(super) fn hidden(
        &mut self,
        texts: &[&[u32]],
        seconds: Option<&[usize]>,
        options: &EmbedOptions,
    ) -> Result<Vec<f32>> {
        self.check_process()?;
        let begin = Instant::now();
        let info = self.model.info();
        let len = self.n_rows(texts, options)?.saturating_mul(info.n_embd);
        let (n_embd, pooling) = (info.n_embd, options.pooling(info));
        let Longest { most, .. } = self.longest();
        let mut out = zeros(len)?;
        let mut group = std::mem::take(&mut self.group);
        let (mut done, mut rest) = (0, &mut out[..]);
        let mut outcome = Ok(());
        while done < texts.len() && outcome.is_ok() {
            let seconds = seconds.map(|seconds| &seconds[done..]);
            done += self.gather(&texts[done..], seconds, most, &mut group);
            let n_rows: usize = group.spans.iter().map(|span| pooling.n_rows(span.len)).sum();
            let (rows, tail) = std::mem::take(&mut rest).split_at_mut(n_rows * n_embd);
            outcome = self.run_group(&mut group, pooling, rows);
            rest = tail;
            for (i, lent) in group.lent.iter_mut().enumerate() {
                self.sequences.give_back(i, lent);
            }
        }
        self.group = group;
        outcome?;
        self.check_finite(&out, n_embd, texts, pooling)?;
        let n_tokens = texts.iter().map(|text| text.len().min(most) as u64).sum();
        self.timings.add_texts(n_tokens, begin.elapsed());
        Ok(out)
    }

    /// Pages that `text` takes in `group`.
    fn n_pages(&self, group: usize, text: &[u32]) -> usize {
        text.len().div_ceil(PAGE_LEN).min(self.sequences.ring(group))
    }

    /// Makes a group of the first of `texts`, at least one, with at most `most` tokens of each, and returns their number.
    fn gather(
        &mut self,
        texts: &[&[u32]],
        seconds: Option<&[usize]>,
        most: usize,
        group: &mut Group,
    ) -> usize {
        group.clear();
        group.groups.resize_with(self.sequences.n_groups(), PageTables::default);
        group.lent.resize_with(self.sequences.n_groups(), Vec::new);
        for (i, text) in texts.iter().enumerate() {
            let text = &text[..text.len().min(most)];
            let fits = group.ids.len() + text.len() <= self.options.n_batch;
            let groups = 0..self.sequences.n_groups();
            let has_pages = |g: usize| self.n_pages(g, text) <= self.sequences.n_free(g);
            if i > 0 && !(fits && groups.clone().all(has_pages)) {
                return i;
            }
            for g in groups {
                self.sequences.lend(g, self.n_pages(g, text), &mut group.lent[g]);
            }
            group.push(text, seconds.map(|seconds| seconds[i]), |g| self.n_pages(g, text));
        }
        texts.len()
    }

    /// Runs a group, in several micro-batches when it is one long text, and writes its rows.
    fn run_group(&mut self, group: &mut Group, pooling: Pooling, out: &mut [f32]) -> Result<()> {
        let n_embd = self.model.info().n_embd;
        let n_rows = group.ids.len();
        let mut written = 0;
        for first in (0..n_rows).step_by(self.options.n_batch) {
            let end = n_rows.min(first + self.options.n_batch);
            group.plan(first, end, pooling);
            let len = group.outputs.len() * n_embd;
            let mut hidden = std::mem::take(&mut group.hidden);
            let target = match pooling {
                Pooling::Mean => {
                    hidden.resize(len, 0.0);
                    &mut hidden[..]
                }
                Pooling::None | Pooling::Cls | Pooling::Last => &mut out[written..written + len],
            };
            let watch = Watch::new(self.cancel.as_ref(), None);
            let batch = group.batch(first, end, self.options.n_ctx, watch);
            let outcome = self.runner.forward(&batch, Output::Hidden(target));
            group.hidden = hidden;
            outcome?;
            written += len;
            if pooling == Pooling::Mean {
                group.add_up(n_embd, out);
            }
        }
        Ok(())
    }
}

/// Which of `texts` row `row` of their embeddings belongs to; `most` tokens of each text were taken.
fn text_of_row(texts: &[&[u32]], most: usize, row: usize, pooling: Pooling) -> usize {
    let ends = texts.iter().scan(0, |end, text| {
        *end += pooling.n_rows(text.len().min(most));
        Some(*end)
    });
    ends.take_while(|&end| end <= row).count()
}

/// `n` zeros.
fn zeros(n: usize) -> Result<Vec<f32>> {
    let mut out = Vec::new();
    let no_memory = |_| Error::NoMemory(format!("no memory for embeddings: {n} numbers"));
    out.try_reserve_exact(n).map_err(no_memory)?;
    out.resize(n, 0.0);
    Ok(out)
}
