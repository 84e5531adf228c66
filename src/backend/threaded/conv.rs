//! Causal convolutions, by several threads where there are many channels.

use std::ops::Range;

use super::super::{CausalConv, Run, StateRun};
use super::ThreadedBackend;
use crate::backend::host::{HostPass, HostStates};
use crate::threads::{DisjointMut, ThreadPool};

/// Fewest products that a task is worth.
const FEWEST_PRODUCTS: usize = 1 << 14;
/// Channels in a task are a multiple of a cache line's elements.
const LINE: usize = 16;

/// What all tasks read.
struct Conv<'a> {
    x: &'a [f32],
    n_channels: usize,
    len: usize,
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
}

/// See [`crate::backend::Backend::causal_conv`]. A task has some channels of all rows.
pub(super) fn run(pool: &mut ThreadPool, pass: &HostPass, args: CausalConv<'_, ThreadedBackend>) {
    let CausalConv { states, state, x, n_channels, len, weight, bias, out } = args;
    let (runs, plan) = (&pass.runs, pass.states());
    let conv = Conv { x, n_channels, len, weight: weight.f32s(), bias: bias.map(|bias| bias.f32s()) };
    let n_rows: usize = runs.iter().map(|run| run.len).sum();
    let n_products = n_rows * n_channels * len;
    let n_tasks = (n_products / FEWEST_PRODUCTS).clamp(1, pool.n_threads());
    let part = n_channels.div_ceil(n_tasks).next_multiple_of(LINE);
    let place = Place::of(states, state);
    let (values, out) = (DisjointMut::new(states.values_mut()), DisjointMut::new(out));
    pool.run(n_channels.div_ceil(part), &|_, task| {
        let channels = task * part..n_channels.min((task + 1) * part);
        for (run, slots) in runs.iter().zip(plan.runs) {
            for row in run.first..run.first + run.len {
                conv.row(run, row, slots, &place, &values, channels.clone(), &out);
            }
            for copy in plan.copies_of(run) {
                conv.keep(run, copy.row as usize, slots.from, copy.to, &place, &values, channels.clone());
            }
            conv.keep(run, run.first + run.len - 1, slots.from, slots.to, &place, &values, channels.clone());
        }
    });
}

/// Where the state lies in each slot.
struct Place {
    first: usize,
    slot_len: usize,
}

impl Place {
    fn of(states: &HostStates, state: usize) -> Place {
        let first = states.range(0, state).start;
        Place { first, slot_len: states.range(1, state).start - first }
    }
}

impl Conv<'_> {
    /// Where the channels of the input `back` rows before `row` are: in `x`, or else the row of the run's state.
    fn input(&self, run: &Run, row: usize, back: usize) -> Result<usize, usize> {
        match row.checked_sub(back).filter(|&row| row >= run.first) {
            Some(row) => Ok(row),
            None => Err(self.len - 1 - (back - (row - run.first))),
        }
    }

    /// Where channel `first` of row `i` of the state in `slot` is.
    fn at(&self, place: &Place, slot: u32, i: usize, first: usize) -> usize {
        slot as usize * place.slot_len + place.first + i * self.n_channels + first
    }

    #[allow(clippy::too_many_arguments, reason = "they are what a row needs")]
    fn row(
        &self,
        run: &Run,
        row: usize,
        slots: &StateRun,
        place: &Place,
        values: &DisjointMut<'_, f32>,
        channels: Range<usize>,
        out: &DisjointMut<'_, f32>,
    ) {
        let at = row * self.n_channels;
        // SAFETY: tasks have different channels, so their parts of the rows do not overlap.
        let out = unsafe { out.slice(at + channels.start..at + channels.end) };
        match self.bias {
            Some(bias) => out.copy_from_slice(&bias[channels.clone()]),
            None => out.fill(0.0),
        }
        for j in 0..self.len {
            let n = channels.len();
            let x = match (self.input(run, row, self.len - 1 - j), slots.from) {
                (Ok(row), _) => &self.x[row * self.n_channels + channels.start..][..n],
                (Err(i), Some(slot)) => {
                    let at = self.at(place, slot, i, channels.start);
                    // SAFETY: no other task has these channels.
                    unsafe { values.slice(at..at + n) }
                }
                (Err(_), None) => continue,
            };
            let weights = self.weight[channels.start * self.len..].iter().skip(j).step_by(self.len);
            for ((out, x), w) in out.iter_mut().zip(x).zip(weights) {
                *out += w * x;
            }
        }
    }

    /// Writes the state after `row` to slot `to`. Rows move towards the front, so it may be the run's own.
    #[allow(clippy::too_many_arguments, reason = "they are what a state needs")]
    fn keep(
        &self,
        run: &Run,
        row: usize,
        from: Option<u32>,
        to: u32,
        place: &Place,
        values: &DisjointMut<'_, f32>,
        channels: Range<usize>,
    ) {
        let n = channels.len();
        for i in 0..self.len - 1 {
            let at = self.at(place, to, i, channels.start);
            // SAFETY: no other task has these channels, and no part of them is borrowed.
            let to = unsafe { values.slice(at..at + n) };
            match (self.input(run, row, self.len - 2 - i), from) {
                (Ok(row), _) => to.copy_from_slice(&self.x[row * self.n_channels + channels.start..][..n]),
                (Err(j), Some(slot)) => {
                    let at_from = self.at(place, slot, j, channels.start);
                    if at_from != at {
                        // SAFETY: as before; it is another row than `to`.
                        to.copy_from_slice(unsafe { values.slice(at_from..at_from + n) });
                    }
                }
                (Err(_), None) => to.fill(0.0),
            }
        }
    }
}
