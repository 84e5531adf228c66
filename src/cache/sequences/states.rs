//! The recurrent states of sequences.
#![forbid(unsafe_code)]

use super::{PAGE_LEN, Sequences};
use crate::backend::{StateCopy, StateRun};
use crate::cache::Recurrent;
use crate::error::Result;

impl Sequences {
    /// The recurrent states, in models that have them.
    pub fn recurrent(&mut self) -> Option<&mut Recurrent> {
        self.recurrent.as_mut()
    }

    /// The number of tokens and the slot of each state that `seq` can continue from, its own last; `None` in models without
    /// recurrent layers.
    pub fn held_states(&self, seq: usize) -> Option<Vec<(usize, u32)>> {
        self.recurrent.as_ref().map(|recurrent| recurrent.held(seq))
    }

    /// The first token of sequence `i` that would have to run again to continue after its first `n`.
    pub(super) fn state_at(&self, i: usize, n: usize) -> usize {
        self.recurrent.as_ref().map_or(n, |recurrent| recurrent.nearest(i, n))
    }

    /// The first token of `seq` that is missing from the recurrent state: from this one on tokens have to run again.
    pub fn replay_from(&self, seq: u32) -> Option<usize> {
        let at = self.recurrent.as_ref()?.at(seq as usize);
        (at < self.sequences[seq as usize].len).then_some(at)
    }

    /// How many tokens the next call can leave ready for `seq`.
    pub fn most_ahead(&self, seq: u32) -> Result<usize> {
        let i = self.index(seq)?;
        Ok(self.recurrent.as_ref().map_or(usize::MAX, |recurrent| recurrent.most_ahead(i)))
    }

    /// The states that a run of `seq` in the call under way reads and writes, and those it keeps within its `n` rows. The run
    /// begins at `position` and with row `first` of the batch.
    pub fn states(
        &self,
        seq: usize,
        position: usize,
        n: usize,
        first: usize,
    ) -> Option<(StateRun, impl Iterator<Item = StateCopy> + '_)> {
        let recurrent = self.recurrent.as_ref()?;
        let run = recurrent.run(seq, self.sequences[seq].len, position);
        Some((run, recurrent.copies(seq, position, n, first)))
    }

    /// Stores the states of sequence `i` at page boundaries in the first group's tree of prefixes.
    pub(super) fn keep_states(&mut self, i: usize) {
        let tree = self.groups[0].pool.prefixes.as_mut();
        let (Some(recurrent), Some(tree)) = (&mut self.recurrent, tree) else { return };
        let nodes = &self.sequences[i].tables[0].nodes;
        for (at, snapshot) in recurrent.snapshots(i).filter(|(at, _)| at.is_multiple_of(PAGE_LEN)) {
            if let Some(&node) = (at / PAGE_LEN).checked_sub(1).and_then(|page| nodes.get(page)) {
                tree.set_state(node, snapshot);
            }
        }
    }

    /// Gives the empty sequence `i` the state that `node` of that tree has, after `n` tokens.
    pub(super) fn adopt_state(&mut self, i: usize, node: Option<u32>, n: usize) {
        let tree = self.groups[0].pool.prefixes.as_ref();
        let state = node.zip(tree).and_then(|(node, tree)| tree.state(node));
        if let (Some(recurrent), Some(state)) = (&mut self.recurrent, state) {
            recurrent.adopt(i, n, state);
        }
    }
}
