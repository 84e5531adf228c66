//! One micro-batch, planned: positions, KV slots and per-sequence runs, in arrays that are reused from call to call.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::ContextOptions;
use crate::backend::{PageTables, Run, StateCopy, StatePlan, StateRun};
use crate::cache::{PAGE_LEN, Sequences, Tokens, reserved};
use crate::cancel::Watch;
use crate::error::Result;
use crate::nn::Batch;

/// The planned arrays of a micro-batch.
pub struct Plan {
    /// The rows of the caller's batch that this micro-batch holds.
    rows: Range<usize>,
    positions: Vec<u32>,
    /// Slots and page tables in each group of layers.
    groups: Vec<PageTables>,
    runs: Vec<Run>,
    outputs: Vec<u32>,
    /// The sequence of each run, and its recurrent states.
    run_seqs: Vec<u32>,
    state_runs: Vec<StateRun>,
    state_copies: Vec<StateCopy>,
    /// Where each sequence's page table begins in those of each group, once it is there.
    page_start: Vec<Option<usize>>,
    n_ctx: usize,
}

impl Plan {
    /// Arrays large enough for any micro-batch of a context with these options, over `n_groups` groups of layers.
    pub fn new(options: &ContextOptions, n_groups: usize) -> Result<Plan> {
        let n = options.n_batch;
        // Tables share pages, and with windows most of their entries have none.
        let n_pages = options.n_ctx.div_ceil(PAGE_LEN).saturating_mul(options.n_seq);
        let tables = |_| Ok(PageTables { slots: reserved(n)?, pages: reserved(n_pages)? });
        Ok(Plan {
            rows: 0..0,
            positions: reserved(n)?,
            groups: (0..n_groups).map(tables).collect::<Result<_>>()?,
            runs: reserved(n)?,
            outputs: reserved(n)?,
            run_seqs: reserved(n)?,
            state_runs: reserved(n)?,
            state_copies: reserved(n)?,
            page_start: vec![None; options.n_seq],
            n_ctx: options.n_ctx,
        })
    }

    /// Plans rows `rows` of `tokens`, whose pages [`Sequences::begin`] took.
    pub fn fill(&mut self, tokens: &Tokens<'_>, rows: Range<usize>, sequences: &mut Sequences) {
        self.clear();
        let mut last_seq = None;
        for (row, i) in rows.clone().enumerate() {
            let seq = tokens.seqs.map_or(0, |s| s[i]) as usize;
            let position = sequences.place(seq);
            self.positions.push(position as u32);
            for (group, tables) in self.groups.iter_mut().enumerate() {
                tables.slots.push(sequences.slot(group, seq, position));
            }
            match self.runs.last_mut() {
                Some(run) if last_seq == Some(seq) => run.len += 1,
                _ => {
                    let pages = *self.page_start[seq]
                        .get_or_insert_with(|| add_pages(&mut self.groups, sequences, seq));
                    let encoded = sequences.encoded(seq);
                    self.runs.push(Run { first: row, len: 1, position, encoded, pages });
                    self.run_seqs.push(seq as u32);
                }
            }
            last_seq = Some(seq);
            if tokens.wants(i) {
                self.outputs.push(row as u32);
            }
        }
        for (run, &seq) in self.runs.iter().zip(&self.run_seqs) {
            let Some((states, copies)) = sequences.states(seq as usize, run.position, run.len, run.first)
            else {
                break;
            };
            self.state_runs.push(states);
            self.state_copies.extend(copies);
        }
        self.rows = rows;
    }

    /// Plans the tokens `ids` of `seq`, which it already has from `position` on, to run again for the states of recurrent layers
    /// alone: keys and values stay as they are.
    pub fn fill_again(
        &mut self,
        seq: u32,
        position: usize,
        n: usize,
        states: StateRun,
        sequences: &Sequences,
    ) {
        self.clear();
        self.positions.extend(position as u32..(position + n) as u32);
        add_pages(&mut self.groups, sequences, seq as usize);
        self.runs.push(Run { first: 0, len: n, position, encoded: 0, pages: 0 });
        self.state_runs.push(states);
        self.rows = 0..n;
    }

    fn clear(&mut self) {
        self.positions.clear();
        self.groups.iter_mut().for_each(PageTables::clear);
        self.runs.clear();
        self.outputs.clear();
        self.run_seqs.clear();
        self.state_runs.clear();
        self.state_copies.clear();
        self.page_start.fill(None);
    }

    /// Rows of the micro-batch whose logits are wanted.
    pub fn outputs(&self) -> &[u32] {
        &self.outputs
    }

    /// Sequence and position of each of [`Plan::outputs`].
    pub fn output_places<'a>(&'a self, tokens: &Tokens<'a>) -> impl Iterator<Item = (u32, u32)> + 'a {
        let (first, seqs) = (self.rows.start, tokens.seqs);
        self.outputs.iter().map(move |&row| {
            let row = row as usize;
            (seqs.map_or(0, |s| s[first + row]), self.positions[row])
        })
    }

    /// The micro-batch in the form models take.
    pub fn batch<'a>(&'a self, tokens: &Tokens<'a>, watch: Watch<'a>) -> Batch<'a> {
        Batch {
            tokens: &tokens.ids[self.rows.clone()],
            positions: &self.positions,
            types: &[],
            groups: &self.groups,
            runs: &self.runs,
            outputs: &self.outputs,
            states: StatePlan { runs: &self.state_runs, copies: &self.state_copies },
            n_ctx: self.n_ctx,
            watch,
        }
    }
}

/// Adds the page tables of sequence `seq`, which are of equal length, and returns where they begin.
fn add_pages(groups: &mut [PageTables], sequences: &Sequences, seq: usize) -> usize {
    let mut begin = 0;
    for (group, tables) in groups.iter_mut().enumerate() {
        begin = tables.pages.len();
        tables.pages.extend_from_slice(sequences.pages(group, seq));
    }
    begin
}
