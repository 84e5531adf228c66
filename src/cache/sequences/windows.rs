//! Layers with a window (Beltagy et al. 2020, arXiv:2004.05150; Jiang et al. 2023, arXiv:2310.06825): pages
//! that no token to come sees are given back, so that a sequence holds its last positions only, however long it is. Layers that
//! see everything keep theirs in a group of their own.
//!
//! - A sequence keeps what its last 32 tokens saw, so that draft tokens can be taken back.
//! - A page that was given back is `GONE` in the page table. Rewinding, copying or shifting to positions that would see it is refused.
//! - No page is given back before a call has succeeded.
//! - A call with more tokens than there are pages writes over its own first pages when no row sees them any more. That ring is planned before
//!   anything is computed, so a prompt of any length needs a window and a batch of pages.
//! - In the tree of prefixes pages can be given up anywhere, the oldest first. A beginning is found if the pages that its next token sees are there.
#![forbid(unsafe_code)]

use std::fmt;

use super::{Group, PAGE_LEN, Sequences, Table};
use crate::cache::MAX_AHEAD;
use crate::error::{Error, Result};

/// Stands for a page that was given back.
pub const GONE: u32 = u32::MAX;

/// How far back tokens see, and whether pages are given back.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Positions that a token sees, its own included; at least a page and one more, so that a sequence has its last whole page.
    len: usize,
    /// Rows of a micro-batch; `None`: pages are kept.
    n_batch: Option<usize>,
}

impl Window {
    /// A window of `len` positions. `n_batch`: most rows that run at a time, or `None` if all positions shall be kept.
    pub fn new(len: usize, n_batch: Option<usize>) -> Window {
        Window { len: len.max(PAGE_LEN + 1), n_batch }
    }

    /// Whether pages are given back.
    pub fn gives_back(&self) -> bool {
        self.n_batch.is_some()
    }

    /// The first position that a token at position `len` sees.
    pub(super) fn needed(&self, len: usize) -> usize {
        (len + 1).saturating_sub(self.len)
    }

    /// The first kept position of a sequence of `len` tokens, so that its last [`MAX_AHEAD`] can be taken back; the first one of
    /// a page.
    fn kept(&self, len: usize) -> usize {
        match self.n_batch {
            Some(_) => self.needed(len).saturating_sub(MAX_AHEAD) / PAGE_LEN * PAGE_LEN,
            None => 0,
        }
    }

    /// How many consecutive pages hold all that the rows of a micro-batch see and all that is kept, wherever the batch begins in
    /// its first page; [`usize::MAX`] if pages are kept.
    fn ring(&self) -> usize {
        let more = |n_batch: usize| (self.len - 2).saturating_add(n_batch.max(MAX_AHEAD + PAGE_LEN));
        self.n_batch.map_or(usize::MAX, |n_batch| more(n_batch).div_ceil(PAGE_LEN) + 1)
    }

    /// The most pages that a sequence has between two calls.
    fn most_held(&self) -> usize {
        match self.n_batch {
            Some(_) => (self.len - 1).saturating_add(MAX_AHEAD + PAGE_LEN - 1).div_ceil(PAGE_LEN) + 1,
            None => usize::MAX,
        }
    }

    /// The most pages that a sequence has within a call, when it uses as few as it can.
    pub fn most_pages(&self) -> usize {
        self.most_held().saturating_add(self.ring())
    }

    /// The most pages that a sequence has when no call has more tokens than a micro-batch.
    fn most_growing(&self) -> usize {
        let in_a_call = |n_batch: usize| n_batch.div_ceil(PAGE_LEN) + 1;
        self.n_batch.map_or(usize::MAX, |n_batch| self.most_held().saturating_add(in_a_call(n_batch)))
    }
}

impl Group {
    /// Whether pages are given back.
    pub(super) fn gives_back(&self) -> bool {
        self.window.is_some_and(|window| window.gives_back())
    }

    /// The first position that a token at position `len` sees.
    pub(super) fn needed(&self, len: usize) -> usize {
        self.window.map_or(0, |window| window.needed(len))
    }

    /// The first kept position of a sequence of `len` tokens.
    pub(super) fn kept(&self, len: usize) -> usize {
        self.window.map_or(0, |window| window.kept(len))
    }

    /// Whether a sequence of `len` tokens, present from position `from` on, can continue.
    pub(super) fn goes_on(&self, from: usize, len: usize) -> bool {
        from == 0 || self.needed(len) >= from
    }

    /// The first position of a sequence of `len` tokens, present from `from` on, when `drop` tokens after its first `keep` are
    /// forgotten; `None` if it could not continue.
    pub(super) fn held_after_shift(
        &self,
        from: usize,
        len: usize,
        keep: usize,
        drop: usize,
    ) -> Option<usize> {
        let after = if from <= keep { from } else { from.saturating_sub(drop).max(keep) };
        match len - drop {
            0 => Some(0),
            len => self.goes_on(after, len).then_some(after),
        }
    }
}

impl Sequences {
    /// The first kept position of a sequence of `len` tokens in `group`.
    pub fn kept(&self, group: usize, len: usize) -> usize {
        self.groups[group].kept(len)
    }

    /// How many pages of `group` are enough for a call of any length: a page can be written to again that many pages further on.
    pub fn ring(&self, group: usize) -> usize {
        self.groups[group].window.map_or(usize::MAX, |window| window.ring())
    }

    /// The first position of sequence `seq` in `group`.
    pub fn held_from(&self, group: usize, seq: usize) -> usize {
        self.sequences[seq].tables[group].from
    }

    /// Whether a sequence of `len` tokens, present from position `from` on in `group`, can continue.
    pub fn goes_on(&self, group: usize, from: usize, len: usize) -> bool {
        self.groups[group].goes_on(from, len)
    }

    /// Whether a sequence can continue after the first `n` tokens of sequence `i`.
    pub(super) fn can_cut(&self, i: usize, n: usize) -> bool {
        if n > 0 && n < self.encoded_of(i, self.sequences[i].len) {
            return false;
        }
        let at = self.state_at(i, n);
        let mut tables = self.groups.iter().zip(&self.sequences[i].tables);
        n == 0 || tables.all(|(group, table)| group.goes_on(table.from, at) || table.needs_mark(group, n))
    }

    /// `InvalidArgument` if a sequence cannot continue after the first `n` tokens of sequence `i`; the sentence begins with
    /// `what`.
    pub(super) fn check_cut(&self, i: usize, n: usize, what: fmt::Arguments<'_>) -> Result<()> {
        if self.can_cut(i, n) {
            return Ok(());
        }
        let encoded = self.encoded_of(i, self.sequences[i].len);
        if n < encoded {
            return Err(Error::InvalidArgument(format!(
                "{what}: the encoder read its first {encoded} tokens as a whole; as many or more can be had, or none"
            )));
        }
        let tables = self.groups.iter().zip(&self.sequences[i].tables);
        let windows = tables.filter_map(|(group, table)| Some((table.from, group.window?.len)));
        let (from, window) = windows.max_by_key(|(from, window)| from + window).unwrap_or((0, 1));
        Err(Error::InvalidArgument(format!(
            "{what}: the model's window reaches further back than position {from} from there, and keys and values before \
             it were given back; {} tokens or more can be had, or none, or all with keep_all_positions",
            from + window - 1
        )))
    }

    /// `InvalidArgument` if a sequence that has grown to `n_ctx` tokens could not forget `drop` of them after its first `keep`.
    pub fn check_shift(&self, keep: usize, drop: usize) -> Result<()> {
        let n_ctx = self.n_ctx;
        let fails = |group: &&Group| group.held_after_shift(group.kept(n_ctx), n_ctx, keep, drop).is_none();
        match self.groups.iter().find(fails) {
            None => Ok(()),
            Some(group) => Err(cannot_shift("a full sequence", keep, drop, group.needed(n_ctx))),
        }
    }

    /// How many more pages of `group` sequence `seq` needs at most to grow to `n` tokens in calls of a micro-batch.
    pub fn n_more_pages(&self, group: usize, seq: u32, n: usize) -> usize {
        let Some(s) = self.sequences.get(seq as usize) else { return 0 };
        let held = s.len.div_ceil(PAGE_LEN) - s.tables[group].from / PAGE_LEN;
        let window = self.groups[group].window;
        let most = window.map_or(usize::MAX, |window| window.most_growing()).saturating_sub(held);
        n.div_ceil(PAGE_LEN).saturating_sub(s.len.div_ceil(PAGE_LEN)).min(most)
    }

    /// Whether the whole cache has enough pages for a sequence whose `n` tokens have run.
    pub fn holds(&self, n: usize) -> bool {
        let least = |group: &Group| n.div_ceil(PAGE_LEN) - group.needed(n) / PAGE_LEN;
        self.groups.iter().all(|group| least(group) <= group.pool.len())
    }

    /// Gives back the pages of sequence `i` that lie wholly before the kept positions.
    pub(super) fn give_back_passed(&mut self, i: usize) {
        let s = &mut self.sequences[i];
        for (group, table) in self.groups.iter_mut().zip(&mut s.tables) {
            let kept = group.kept(s.len);
            if kept > table.from {
                let passed = table.from / PAGE_LEN..kept / PAGE_LEN;
                for page in table.pages[passed].iter_mut().filter(|page| **page != GONE) {
                    group.pool.give_back(std::mem::replace(page, GONE));
                }
                table.from = kept;
                table.let_go_of_tree();
            }
        }
    }
}

impl Table {
    /// Puts the pages that the call under way used again at their last places.
    pub(super) fn end_ring(&mut self) {
        let again = std::mem::take(&mut self.again);
        self.pages[again].fill(GONE);
    }

    /// Forgets the nodes of the tree, unless the sequence has the page of the last one, which keeps them there.
    pub(super) fn let_go_of_tree(&mut self) {
        if self.nodes.len().checked_sub(1).is_some_and(|last| self.pages[last] == GONE) {
            self.nodes.clear();
        }
    }
}

/// The error for tokens that cannot be forgotten, since the window would reach pages that were given back.
pub(super) fn cannot_shift(what: &str, keep: usize, drop: usize, needed: usize) -> Error {
    Error::InvalidArgument(format!(
        "{what} cannot forget {drop} tokens passed its first {keep}: the model's window would reach those again, and their keys \
         and values were given back; forget at most {} tokens, or keep 0, or keep all with keep_all_positions",
        needed.saturating_sub(keep)
    ))
}

#[cfg(test)]
mod tests {
    use super::super::most_pages;
    use super::*;
    use crate::cache::Tokens;

    /// A sequence, and the position in each slot of the cache.
    struct Mirror {
        sequences: Sequences,
        slots: Vec<usize>,
        window: usize,
        n_batch: usize,
    }

    impl Mirror {
        /// Whether the page table has all positions that a token at `position` sees.
        fn check(&self, seen: std::ops::Range<usize>, what: &str) {
            for position in seen {
                let slot = self.sequences.slot(0, 0, position) as usize;
                assert_eq!(self.slots[slot], position, "{what}");
            }
        }

        fn before(&self, len: usize) -> std::ops::Range<usize> {
            (len + 1).saturating_sub(self.window)..len
        }

        /// A call of `n` tokens, which succeeds or fails at its end.
        fn call(&mut self, n: usize, succeeds: bool, what: &str) {
            let len = self.sequences.len(0).expect("a sequence");
            self.sequences.begin(&Tokens::next(&vec![7; n]), 0).unwrap_or_else(|e| panic!("{what}: {e}"));
            for first in (0..n).step_by(self.n_batch) {
                let rows = first..n.min(first + self.n_batch);
                for _ in rows.clone() {
                    let position = self.sequences.place(0);
                    self.slots[self.sequences.slot(0, 0, position) as usize] = position;
                }
                rows.for_each(|row| self.check(self.before(len + row).start..len + row + 1, what));
            }
            match succeeds {
                true => self.sequences.commit(),
                false => self.sequences.roll_back(),
            }
            let len = if succeeds { len + n } else { len };
            assert_eq!(self.sequences.len(0).expect("a sequence"), len);
            self.check(self.before(len), what);
            let n_held = self.sequences.n_pages(0) - self.sequences.n_free(0);
            let most_held = Window::new(self.window, Some(self.n_batch)).most_held();
            assert!(n_held <= most_held, "{what}: {n_held}");
        }
    }

    #[test]
    fn long_contexts_of_mistral_take_a_quarter_of_the_pages() {
        assert_eq!(Window::new(4096, Some(256)).most_pages(), 268);
        assert_eq!(32_768 / PAGE_LEN, 1024);
    }

    #[test]
    fn what_rows_see_is_never_written_over() {
        for (window, n_batch) in
            [1, 33, 34, 63, 70, 200].into_iter().flat_map(|w| [1, 5, 32, 33, 64, 100].map(|n| (w, n)))
        {
            for start in (0..70).step_by(3).chain([400]) {
                let what = format!("a window of {window}, batches of {n_batch}, {start} tokens before");
                let own = Some(Window::new(window, Some(n_batch)));
                let n_pages = most_pages(1, 5000, own).expect("few");
                let sequences = Sequences::new(1, 5000, &[(own, n_pages)], false, None).expect("small");
                let slots = vec![usize::MAX; n_pages * PAGE_LEN];
                assert!(slots.len() < 2 * window + n_batch + 12 * PAGE_LEN, "{what}: {}", slots.len());
                let mut mirror = Mirror { sequences, slots, window, n_batch };
                for first in (0..start).step_by(n_batch.min(40)) {
                    mirror.call((start - first).min(n_batch.min(40)), true, &what);
                }
                mirror.call(1200, false, &what);
                mirror.call(1200, true, &what);
                // Some tokens are taken back, wherever it is.
                for n_back in [1, MAX_AHEAD] {
                    let len = mirror.sequences.len(0).expect("a sequence");
                    mirror.sequences.rewind(0, len - n_back).unwrap_or_else(|e| panic!("{what}: {e}"));
                    mirror.check(mirror.before(len - n_back), &what);
                    mirror.call(n_back + 3, true, &what);
                }
                mirror.call(1000, false, &what);
                mirror.sequences.rewind(0, 0).expect("always");
                assert_eq!(mirror.sequences.n_free(0), mirror.sequences.n_pages(0));
            }
        }
    }
}
