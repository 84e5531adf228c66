//! The store of recurrent states.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::Zeroed;
use crate::backend::{StateShape, StateStore};
use crate::error::{Error, Result};
use crate::memory::Memory;

/// Slots one after another, each with its states one after another.
pub struct HostStates {
    shape: StateShape,
    /// Where each state begins in a slot, and where the slot ends.
    starts: Vec<usize>,
    values: Zeroed<f32>,
}

impl HostStates {
    /// A store of zeros; its memory is handed out by the operating system as it fills.
    pub fn new(shape: &StateShape, memory: &Memory) -> Result<HostStates> {
        let too_much =
            || Error::NoMemory(format!("recurrent states of {shape:?} have more bytes than memory"));
        let slot_len = shape.slot_len().ok_or_else(too_much)?;
        let len = slot_len.checked_mul(shape.n_slots).ok_or_else(too_much)?;
        let mut starts = vec![0];
        for len in &shape.lens {
            starts.push(starts.last().map_or(0, |start| start + len));
        }
        let values = memory.zeroed(len, "the recurrent states")?;
        Ok(HostStates { shape: shape.clone(), starts, values })
    }

    fn slot_len(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Where state `state` of a slot lies.
    pub fn range(&self, slot: u32, state: usize) -> Range<usize> {
        let start = slot as usize * self.slot_len() + self.starts[state];
        start..start + self.shape.lens[state]
    }

    /// State `state` of a slot.
    pub fn get(&self, slot: u32, state: usize) -> &[f32] {
        &self.values[self.range(slot, state)]
    }

    /// All slots. [`HostStates::range`] gives the place of each state.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    fn slot(&self, slot: u32) -> Range<usize> {
        slot as usize * self.slot_len()..(slot as usize + 1) * self.slot_len()
    }
}

impl StateStore for HostStates {
    fn slot_bytes(&self) -> usize {
        self.slot_len() * size_of::<f32>()
    }

    fn read_slot(&self, slot: u32, out: &mut [u8]) {
        out.copy_from_slice(bytemuck::cast_slice(&self.values[self.slot(slot)]));
    }

    fn write_slot(&mut self, slot: u32, bytes: &[u8]) {
        let range = self.slot(slot);
        bytemuck::cast_slice_mut(&mut self.values[range]).copy_from_slice(bytes);
    }
}
