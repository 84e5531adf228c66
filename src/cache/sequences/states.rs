//! What sequences of models with recurrent layers do beside their pages.
#![forbid(unsafe_code)]

use super::{PAGE_LEN, Sequences};
use crate::backend::{StateCopy, StateRun};
use crate::cache::Recurrent;
use crate::error::Result;

impl Sequences {
    /// The recurrent states, in models that have such.
    pub fn recurrent(&mut self) -> Option<&mut Recurrent> {
        self.recurrent.as_mut()
    }

    /// The number of tokens and the slot of each state that `seq` can go on from, its own last; `None` in models without
    /// recurrent layers.
    pub fn held_states(&self, seq: usize) -> Option<Vec<(usize, u32)>> {
        self.recurrent.as_ref().map(|recurrent| recurrent.held(seq))
    }

    /// From how many tokens on sequence `i` would have to be run again to go on after its first `n`.
    pub(super) fn state_at(&self, i: usize, n: usize) -> usize {
        self.recurrent.as_ref().map_or(n, |recurrent| recurrent.nearest(i, n))
    }

    /// Of how many tokens of `seq` the recurrent layers know nothing yet: from this one on they have to be run again.
    pub fn replay_from(&self, seq: u32) -> Option<usize> {
        let at = self.recurrent.as_ref()?.at(seq as usize);
        (at < self.sequences[seq as usize].len).then_some(at)
    }

    /// How many tokens the next call can leave ready after `seq`.
    pub fn most_ahead(&self, seq: u32) -> Result<usize> {
        let i = self.index(seq)?;
        Ok(self.recurrent.as_ref().map_or(usize::MAX, |recurrent| recurrent.most_ahead(i)))
    }

    /// What a run of `seq` in the call under way that begins at `position` does with states, and which it keeps within its `n`
    /// rows, the first of which is row `first` of the batch.
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

    /// Has the first group's tree of prefixes know the states of sequence `i` that lie between pages.
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

    /// Gives the empty sequence `i` the state that `node` of that tree knows, which is that of `n` tokens.
    pub(super) fn adopt_state(&mut self, i: usize, node: Option<u32>, n: usize) {
        let tree = self.groups[0].pool.prefixes.as_ref();
        let state = node.zip(tree).and_then(|(node, tree)| tree.state(node));
        if let (Some(recurrent), Some(state)) = (&mut self.recurrent, state) {
            recurrent.adopt(i, n, state);
        }
    }
}
