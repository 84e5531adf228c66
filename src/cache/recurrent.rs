//! Which slots hold the recurrent states of which sequences.
//!
//! A sequence has one state, after a number of its tokens: all of them, or fewer after it was shortened. The tokens since then
//! run once more, from the state or from a snapshot that is nearer. A call never writes to the slot of the state that it begins
//! with, so a call that fails changes nothing. Snapshots are states that a sequence may return to. They hold their slots until
//! those are needed; the least recently used one goes first.
#![forbid(unsafe_code)]

use super::{MAX_AHEAD, PAGE_LEN};
use crate::backend::{StateCopy, StateRun};

/// Slots for texts that are embedded: one for the state that the next micro-batch reads, and one for states that are not read.
pub const EMBED_SLOTS: [u32; 2] = [0, 1];

/// A slot whose state may be gone when it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    slot: u32,
    stamp: u64,
}

/// The slots of a store, and the number of users of each.
struct Slots {
    users: Vec<u32>,
    /// Slots without a user that are no snapshot.
    free: Vec<u32>,
    /// A number that distinguishes a snapshot from what the slot held before; 0: the slot holds no snapshot.
    stamps: Vec<u64>,
    /// When each was used last.
    used: Vec<u64>,
    clock: u64,
}

impl Slots {
    fn new(n: usize) -> Slots {
        let free = (EMBED_SLOTS.len() as u32..n as u32).rev().collect();
        let mut users = vec![0; n];
        EMBED_SLOTS.iter().for_each(|&slot| users[slot as usize] = 1);
        Slots { users, free, stamps: vec![0; n], used: vec![0; n], clock: 0 }
    }

    /// A slot without a user: one without a snapshot, or else that of the oldest snapshot.
    fn take(&mut self) -> Option<u32> {
        let slot = match self.free.pop() {
            Some(slot) => slot as usize,
            None => (0..self.users.len()).filter(|&i| self.users[i] == 0).min_by_key(|&i| self.used[i])?,
        };
        (self.users[slot], self.stamps[slot]) = (1, 0);
        Some(slot as u32)
    }

    fn share(&mut self, slot: u32) {
        self.users[slot as usize] += 1;
    }

    fn release(&mut self, slot: u32) {
        let i = slot as usize;
        self.users[i] -= 1;
        if self.users[i] == 0 && self.stamps[i] == 0 {
            self.free.push(slot);
        }
    }

    /// The state in `slot` as a snapshot.
    fn snapshot(&mut self, slot: u32) -> Snapshot {
        let i = slot as usize;
        self.clock += 1;
        self.used[i] = self.clock;
        if self.stamps[i] == 0 {
            self.stamps[i] = self.clock;
        }
        Snapshot { slot, stamp: self.stamps[i] }
    }

    fn is_there(&self, snapshot: Snapshot) -> bool {
        self.stamps[snapshot.slot as usize] == snapshot.stamp
    }

    /// The slot of `snapshot`, which gets one more user.
    fn revive(&mut self, snapshot: Snapshot) -> u32 {
        self.share(snapshot.slot);
        self.clock += 1;
        self.used[snapshot.slot as usize] = self.clock;
        snapshot.slot
    }
}

/// The states of one sequence.
#[derive(Default)]
struct States {
    /// The slot of the state after the first `at` tokens; `None` where that is none.
    live: Option<u32>,
    at: usize,
    /// Where the call under way leaves the state after its last token.
    next: Option<u32>,
    /// Slots that the call under way fills, by the number of tokens before the state; afterwards those of tokens that lie ready.
    copies: Vec<(usize, u32)>,
    /// By ascending numbers of tokens.
    snapshots: Vec<(usize, Snapshot)>,
    /// Whether `live` is where a prompt ended.
    ends_prompt: bool,
}

/// The states of all sequences.
pub struct Recurrent {
    slots: Slots,
    sequences: Vec<States>,
    /// Slots beyond the required ones of sequences.
    n_snapshots: usize,
    /// How many of these belong to the call under way and to tokens that lie ready.
    n_copies: usize,
    /// Tokens between two snapshots within a prompt.
    distance: usize,
}

impl Recurrent {
    /// Slots for `n_seq` sequences and `n_snapshots` snapshots.
    pub fn n_slots(n_seq: usize, n_snapshots: usize) -> usize {
        // A sequence has one slot, and a second one within a call.
        (2 * n_seq).saturating_add(EMBED_SLOTS.len()).saturating_add(n_snapshots)
    }

    /// No states. Within a prompt, one is kept every `distance` tokens, at the end of a page.
    pub fn new(n_seq: usize, n_snapshots: usize, distance: usize) -> Recurrent {
        let slots = Slots::new(Recurrent::n_slots(n_seq, n_snapshots));
        let (copies, snapshots) = (MAX_AHEAD + 2, MAX_AHEAD);
        let states = || States {
            copies: Vec::with_capacity(copies),
            snapshots: Vec::with_capacity(snapshots),
            ..States::default()
        };
        let sequences = std::iter::repeat_with(states).take(n_seq).collect();
        let distance = distance.next_multiple_of(PAGE_LEN).max(PAGE_LEN);
        Recurrent { slots, sequences, n_snapshots, n_copies: 0, distance }
    }

    /// The number of tokens before the state of `seq`.
    pub fn at(&self, seq: usize) -> usize {
        self.sequences[seq].at
    }

    /// The largest number of tokens, up to `n`, after which `seq` has a state.
    pub fn nearest(&self, seq: usize, n: usize) -> usize {
        let s = &self.sequences[seq];
        let own = if s.at <= n { s.at } else { 0 };
        own.max(self.nearest_snapshot(seq, n).map_or(0, |(at, _)| at))
    }

    fn nearest_snapshot(&self, seq: usize, n: usize) -> Option<(usize, Snapshot)> {
        let there = |(at, snapshot): &&(usize, Snapshot)| *at <= n && self.slots.is_there(*snapshot);
        self.sequences[seq].snapshots.iter().rev().find(there).copied()
    }

    /// How many tokens the next call can leave ready for `seq`, in place of those that lie ready there.
    pub fn most_ahead(&self, seq: usize) -> usize {
        let others = self.n_copies - self.sequences[seq].copies.len();
        self.n_snapshots.saturating_sub(others)
    }

    /// A call will bring `seq` from `len` tokens, where its state is, to `planned`; the last `n_ahead` will lie ready.
    pub fn begin(&mut self, seq: usize, len: usize, planned: usize, n_ahead: usize) {
        self.forget_call(seq);
        if planned == len {
            return;
        }
        let first_ahead = planned - n_ahead;
        let most = self.most_ahead(seq);
        let (first, step) = match n_ahead {
            0 => {
                // Too many snapshots are spread further apart.
                let n_within = |distance: usize| (planned - 1) / distance - len / distance;
                let mut distance = self.distance;
                while n_within(distance) > (self.n_snapshots / 2).min(most) {
                    distance = distance.saturating_mul(2);
                }
                ((len / distance + 1) * distance, distance)
            }
            _ => (first_ahead, 1),
        };
        let s = &mut self.sequences[seq];
        s.next = self.slots.take();
        for at in (first..planned).step_by(step).take(most) {
            let Some(slot) = self.slots.take() else { break };
            s.copies.push((at, slot));
            self.n_copies += 1;
        }
    }

    /// The state that a run of `seq` reads and writes, which begins at `position`; the sequence had `len` tokens before the call.
    pub fn run(&self, seq: usize, len: usize, position: usize) -> StateRun {
        let s = &self.sequences[seq];
        let to = s.next.unwrap_or(EMBED_SLOTS[1]);
        StateRun { from: if position == len { s.live } else { Some(to) }, to }
    }

    /// The states that are kept within a run of `n` rows of `seq` that begins at `position` and with row `first` of its batch.
    pub fn copies(
        &self,
        seq: usize,
        position: usize,
        n: usize,
        first: usize,
    ) -> impl Iterator<Item = StateCopy> + '_ {
        let within = move |&&(at, _): &&(usize, u32)| at > position && at <= position + n;
        let copy = move |&(at, to): &(usize, u32)| StateCopy { row: (first + at - position - 1) as u32, to };
        self.sequences[seq].copies.iter().filter(within).map(copy)
    }

    /// The call under way succeeded, and `seq` has `len` tokens now; tokens that lie ready after them have states.
    pub fn commit(&mut self, seq: usize, len: usize) {
        let s = &mut self.sequences[seq];
        let Some(next) = s.next.take() else { return };
        let (old, old_at) = (s.live.take(), s.at);
        let is_ahead = s.copies.last().is_some_and(|&(at, _)| at >= len);
        let is_prompt = !is_ahead && len > old_at + 1;
        // The end of a prompt or of an answer.
        if let Some(old) = old {
            if s.ends_prompt || is_prompt {
                let snapshot = self.slots.snapshot(old);
                s.snapshots.push((old_at, snapshot));
            }
            self.slots.release(old);
        }
        s.ends_prompt = is_prompt;
        if is_ahead {
            // The last token that lies ready is the last of the call.
            let end = s.copies.last().map_or(len, |&(at, _)| at + 1);
            s.copies.push((end, next));
            self.n_copies += 1;
            let (at, slot) = s.copies.remove(0);
            self.n_copies -= 1;
            (s.at, s.live) = (at, Some(slot));
        } else {
            for (at, slot) in s.copies.drain(..) {
                let snapshot = self.slots.snapshot(slot);
                s.snapshots.push((at, snapshot));
                self.slots.release(slot);
                self.n_copies -= 1;
            }
            (s.at, s.live) = (len, Some(next));
        }
        let slots = &self.slots;
        s.snapshots.retain(|(_, snapshot)| slots.is_there(*snapshot));
        s.snapshots.sort_by_key(|(at, _)| *at);
        s.snapshots.dedup_by_key(|(at, _)| *at);
        if is_prompt {
            // The first token after a prompt makes its end a snapshot.
            s.snapshots.reserve(1);
        }
    }

    /// The first token that lies ready belongs to `seq` now, which has `len`.
    pub fn advance(&mut self, seq: usize, len: usize) {
        let s = &mut self.sequences[seq];
        if s.copies.first().is_none_or(|&(at, _)| at != len) {
            return;
        }
        let (at, slot) = s.copies.remove(0);
        self.n_copies -= 1;
        if let Some(old) = s.live.replace(slot) {
            self.slots.release(old);
        }
        s.at = at;
    }

    /// Gives back the slots of `seq` for the call under way, or for tokens that lie ready.
    fn forget_call(&mut self, seq: usize) {
        let s = &mut self.sequences[seq];
        s.next.take().into_iter().for_each(|slot| self.slots.release(slot));
        for (_, slot) in s.copies.drain(..) {
            self.slots.release(slot);
            self.n_copies -= 1;
        }
    }

    /// Shortens `seq` to `len` tokens: its state becomes the nearest one there is. The call under way is forgotten.
    pub fn truncate(&mut self, seq: usize, len: usize) {
        self.forget_call(seq);
        if self.sequences[seq].at > len {
            let nearest = self.nearest_snapshot(seq, len);
            self.set(seq, nearest);
        }
        self.sequences[seq].snapshots.retain(|(at, _)| *at <= len);
    }

    /// Makes a snapshot the state of `seq`; `None`: the state of an empty text.
    fn set(&mut self, seq: usize, snapshot: Option<(usize, Snapshot)>) {
        let live = snapshot.map(|(at, snapshot)| (at, self.slots.revive(snapshot)));
        let s = &mut self.sequences[seq];
        s.live.take().into_iter().for_each(|slot| self.slots.release(slot));
        (s.at, s.live) = live.map_or((0, None), |(at, slot)| (at, Some(slot)));
        s.ends_prompt = live.is_some();
    }

    /// Gives the empty sequence `to` the states that `from` has for its first `n` tokens.
    pub fn copy(&mut self, from: usize, to: usize, n: usize) {
        let source = &self.sequences[from];
        let (at, live) = (source.at, source.live.filter(|_| source.at <= n));
        let of_these = |(at, snapshot): &&(usize, Snapshot)| *at <= n && self.slots.is_there(*snapshot);
        let mut snapshots = std::mem::take(&mut self.sequences[to].snapshots);
        let source = &self.sequences[from];
        snapshots.clear();
        snapshots.extend(source.snapshots.iter().filter(of_these).copied());
        let nearest = self.nearest_snapshot(from, n);
        match live {
            Some(slot) => {
                self.slots.share(slot);
                let s = &mut self.sequences[to];
                (s.at, s.live, s.ends_prompt) = (at, Some(slot), true);
            }
            None => self.set(to, nearest),
        }
        self.sequences[to].snapshots = snapshots;
    }

    /// The snapshots of `seq` that still exist.
    pub fn snapshots(&self, seq: usize) -> impl Iterator<Item = (usize, Snapshot)> + '_ {
        let snapshots = self.sequences[seq].snapshots.iter();
        snapshots.filter(|(_, snapshot)| self.slots.is_there(*snapshot)).copied()
    }

    /// Whether a snapshot still exists.
    pub fn is_there(&self, snapshot: Snapshot) -> bool {
        self.slots.is_there(snapshot)
    }

    /// Gives the empty sequence `seq` the state `snapshot` of its first `at` tokens.
    pub fn adopt(&mut self, seq: usize, at: usize, snapshot: Snapshot) {
        if self.slots.is_there(snapshot) {
            self.set(seq, Some((at, snapshot)));
            let s = &mut self.sequences[seq];
            s.snapshots.clear();
            s.snapshots.push((at, snapshot));
        }
    }

    /// The states of `seq` for a saved state: the number of tokens and slot of each, the sequence's own last.
    pub fn held(&self, seq: usize) -> Vec<(usize, u32)> {
        let s = &self.sequences[seq];
        let there = |(at, snapshot): &&(usize, Snapshot)| *at < s.at && self.slots.is_there(*snapshot);
        let snapshots = s.snapshots.iter().filter(there).map(|(at, snapshot)| (*at, snapshot.slot));
        snapshots.chain(s.live.map(|slot| (s.at, slot))).collect()
    }

    /// A slot for a saved state of the empty sequence `seq` after `at` tokens. States come by ascending numbers of tokens, and
    /// the last one is the sequence's own.
    pub fn restore(&mut self, seq: usize, at: usize) -> Option<u32> {
        let slot = self.slots.take()?;
        let snapshot = self.slots.snapshot(slot);
        self.set(seq, Some((at, snapshot)));
        self.slots.release(slot);
        self.sequences[seq].snapshots.push((at, snapshot));
        Some(slot)
    }

    /// The next call of `seq` brings its state nearer to the end of its tokens: from which slot to which, until
    /// [`Recurrent::end_replay`]. `None` if no slot is left, which cannot happen: each sequence has two.
    pub fn begin_replay(&mut self, seq: usize) -> Option<StateRun> {
        self.forget_call(seq);
        let s = &mut self.sequences[seq];
        s.next = self.slots.take();
        Some(StateRun { from: s.live, to: s.next? })
    }

    /// The state of `seq` is after `at` tokens now; `None`: the replay failed.
    pub fn end_replay(&mut self, seq: usize, at: Option<usize>) {
        let s = &mut self.sequences[seq];
        if let (Some(at), Some(next)) = (at, s.next.take_if(|_| at.is_some())) {
            s.live.replace(next).into_iter().for_each(|slot| self.slots.release(slot));
            s.at = at;
        }
        self.forget_call(seq);
    }
}
