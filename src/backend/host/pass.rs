//! The pass that a backend on the host runs.
#![forbid(unsafe_code)]

use super::Stop;
use crate::backend::{Limits, PageTables, Pass, Run, StateCopy, StatePlan, StateRun};
use crate::error::{Error, Result};
use crate::kernels::attention::PAGE_LEN;

/// A copy of what [`Backend::begin`](crate::backend::Backend::begin) was given, in arrays that are reused from pass to pass.
#[derive(Debug, Default)]
pub struct HostPass {
    /// Position of each row.
    pub positions: Vec<u32>,
    /// The rows by sequence.
    pub runs: Vec<Run>,
    /// Where keys and values are.
    pub groups: Vec<PageTables>,
    /// What ends it.
    pub stop: Stop,
    state_runs: Vec<StateRun>,
    state_copies: Vec<StateCopy>,
}

impl HostPass {
    /// Arrays large enough for any pass within `limits`.
    pub fn new(limits: &Limits) -> Result<HostPass> {
        fn with_capacity<T>(n: usize) -> Result<Vec<T>> {
            let mut list = Vec::new();
            let outcome = list.try_reserve_exact(n);
            outcome.map_err(|_| Error::NoMemory(format!("no memory for a batch of {n} entries")))?;
            Ok(list)
        }
        let n = limits.n_tokens;
        let n_pages = limits.n_ctx.div_ceil(PAGE_LEN).saturating_mul(limits.n_seq);
        let tables = |_| Ok(PageTables { slots: with_capacity(n)?, pages: with_capacity(n_pages)? });
        Ok(HostPass {
            positions: with_capacity(n)?,
            runs: with_capacity(n)?,
            groups: (0..limits.n_groups).map(tables).collect::<Result<_>>()?,
            stop: Stop::default(),
            state_runs: with_capacity(n)?,
            state_copies: with_capacity(n)?,
        })
    }

    /// Copies `pass`.
    pub fn begin(&mut self, pass: &Pass<'_>) {
        fn copy<T: Copy>(to: &mut Vec<T>, from: &[T]) {
            to.clear();
            to.extend_from_slice(from);
        }
        copy(&mut self.positions, pass.positions);
        copy(&mut self.runs, pass.runs);
        self.groups.resize_with(pass.groups.len(), PageTables::default);
        for (to, from) in self.groups.iter_mut().zip(pass.groups) {
            copy(&mut to.slots, &from.slots);
            copy(&mut to.pages, &from.pages);
        }
        self.stop.begin(&pass.watch);
        copy(&mut self.state_runs, pass.states.runs);
        copy(&mut self.state_copies, pass.states.copies);
    }

    /// The recurrent states of the runs.
    pub fn states(&self) -> StatePlan<'_> {
        StatePlan { runs: &self.state_runs, copies: &self.state_copies }
    }
}
