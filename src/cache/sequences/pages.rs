//! The pages of a group: taken for a call, lent, and given back.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{GONE, Group, PAGE_LEN, Sequence, Sequences, Table, Window};
use crate::cache::pool::Pool;
use crate::error::{Error, Result};

/// The most pages that `n_seq` sequences of up to `n_ctx` tokens have together in a group with this window. `NoMemory` where the
/// count overflows.
pub fn most_pages(n_seq: usize, n_ctx: usize, window: Option<Window>) -> Result<usize> {
    let per_seq = n_ctx.div_ceil(PAGE_LEN);
    let most = window.map_or(per_seq, |window| window.most_pages().min(per_seq));
    most.checked_mul(n_seq).filter(|&n| n < (1 << 27)).ok_or_else(|| {
        Error::NoMemory(format!("a KV cache for {n_seq} sequences of {n_ctx} tokens has too many pages"))
    })
}

impl Sequences {
    /// Groups of layers.
    pub fn n_groups(&self) -> usize {
        self.groups.len()
    }

    /// Pages in all of `group`.
    pub fn n_pages(&self, group: usize) -> usize {
        self.groups[group].pool.len()
    }

    /// Pages of `group` that no sequence has.
    pub fn n_free(&self, group: usize) -> usize {
        let group = &self.groups[group];
        // Counting reads all pages, which are few where any are marked.
        let n_marked = if group.gives_back() { group.pool.n_only_marked() } else { 0 };
        group.pool.n_free() + n_marked
    }

    /// Moves `n` of the [`Sequences::n_free`] pages of `group` to the end of `pages`, until [`Sequences::give_back`]. No sequence
    /// may grow meanwhile.
    pub fn lend(&mut self, group: usize, n: usize, pages: &mut Vec<u32>) {
        if n > self.groups[group].pool.n_free() {
            self.drop_marks(group);
        }
        for _ in 0..n {
            pages.extend(self.groups[group].pool.take(pages.last().copied()));
        }
    }

    /// Takes back all that was lent of `group`.
    pub fn give_back(&mut self, group: usize, pages: &mut Vec<u32>) {
        pages.drain(..).rev().for_each(|page| self.groups[group].pool.give_back(page));
    }

    /// How many pages of `group` would be free if the sequences `seqs` were empty.
    pub fn n_free_without(&mut self, group: usize, seqs: Range<usize>) -> usize {
        let held = self.sequences[seqs].iter().flat_map(|s| s.tables[group].held());
        let marked = self.sequences.iter().flat_map(|s| &s.tables[group].mark.pages);
        let pages: Vec<u32> = held.chain(marked).copied().collect();
        self.groups[group].pool.n_free_without(&pages)
    }

    /// The page table of `seq` in `group`, the call under way included.
    pub fn pages(&self, group: usize, seq: usize) -> &[u32] {
        &self.sequences[seq].tables[group].pages
    }

    /// The pages of what `seq` holds in `group`, from position [`Sequences::held_from`] on.
    pub fn held_pages(&self, group: usize, seq: usize) -> &[u32] {
        let s = &self.sequences[seq];
        let table = &s.tables[group];
        &table.pages[table.from / PAGE_LEN..s.len.div_ceil(PAGE_LEN)]
    }

    /// The KV slot in `group` of a position of `seq`, the call under way included.
    pub fn slot(&self, group: usize, seq: usize, position: usize) -> u32 {
        self.sequences[seq].tables[group].slot(position)
    }

    /// The copies that have to be made before the call under way writes: the group, and from which page to which.
    pub fn copies(&self) -> impl Iterator<Item = (usize, u32, u32)> + '_ {
        let groups = self.groups.iter().enumerate();
        groups.flat_map(|(group, pages)| pages.copies.iter().map(move |&(from, to)| (group, from, to)))
    }

    /// Takes the pages that the plan needs: new ones, and copies of shared ones that it writes to. `ContextFull` when there are
    /// not enough.
    pub(super) fn take_pages(&mut self) -> Result<()> {
        // From all groups or from none.
        for group in 0..self.groups.len() {
            if let Err(error) = self.count_pages(group) {
                self.groups.iter_mut().for_each(|group| group.copies.clear());
                return Err(error);
            }
        }
        (0..self.groups.len()).for_each(|group| self.take_pages_of(group));
        Ok(())
    }

    /// Finds the pages to copy in `group`, and after how many pages one can be written to again. `ContextFull` when there are too
    /// few pages for the plan.
    fn count_pages(&mut self, group: usize) -> Result<()> {
        let new = |s: &Sequence| s.planned.div_ceil(PAGE_LEN).saturating_sub(s.tables[group].pages.len());
        let n_new = |most: usize| self.sequences.iter().map(|s| new(s).min(most)).sum::<usize>();
        let (n_all, n_least) = (n_new(usize::MAX), n_new(self.ring(group)));
        self.find_copies(group);
        let n_copies = self.groups[group].copies.len();
        // Counting reads all pages, which most calls can do without.
        let mut n_free = if n_all + n_copies == 0 { 0 } else { self.groups[group].pool.n_free() };
        if n_all + n_copies > n_free && self.drop_marks(group) {
            n_free = self.groups[group].pool.n_free();
            self.find_copies(group);
        }
        let n_copies = self.groups[group].copies.len();
        if n_least + n_copies > n_free && self.give_up_kept_copies(group) {
            n_free = self.groups[group].pool.n_free();
        }
        let n_copies = self.groups[group].copies.len();
        // Where pages are too few for all, the call reuses pages that no row sees any more.
        let (needed, ring) = match n_all + n_copies > n_free {
            true => (n_least + n_copies, self.ring(group)),
            false => (n_all + n_copies, usize::MAX),
        };
        match needed > n_free {
            true => Err(Error::ContextFull(format!(
                "the batch needs {needed} more pages of {PAGE_LEN} tokens{}, but {n_free} of the {} that the KV cache has \
                 are free: rewind a sequence",
                self.called(group),
                self.n_pages(group)
            ))),
            false => {
                self.groups[group].ring = ring;
                Ok(())
            }
        }
    }

    /// Takes what [`Sequences::count_pages`] counted.
    fn take_pages_of(&mut self, group: usize) {
        let Group { pool, copies, ring, .. } = &mut self.groups[group];
        for copy in &mut *copies {
            let (from, seq) = *copy;
            let to = take(pool, None);
            let table = &mut self.sequences[seq as usize].tables[group];
            table.pages.last_mut().into_iter().for_each(|last| *last = to);
            *copy = (from, to);
        }
        for s in &mut self.sequences {
            let table = &mut s.tables[group];
            let begin = table.pages.len();
            while table.pages.len() * PAGE_LEN < s.planned {
                let again = table.pages.len().checked_sub(*ring).filter(|&at| at >= begin);
                let page = again.map(|at| table.pages[at]);
                table.pages.push(page.unwrap_or_else(|| take(pool, table.pages.last().copied())));
            }
            table.again = begin..table.pages.len().saturating_sub(*ring).max(begin);
        }
        // Only now, so that no page to be copied is taken for another use.
        copies.iter().for_each(|&(from, _)| pool.give_back(from));
    }

    /// What error sentences about the pages of `group` add, where there are other groups.
    pub fn called(&self, group: usize) -> &'static str {
        match self.groups[group].window {
            _ if self.groups.len() == 1 => "",
            Some(_) => " for the layers with a window",
            None => " for the layers without a window",
        }
    }
}

impl Table {
    /// The pages that it has, those of tokens that lie ready included.
    pub(super) fn held(&self) -> &[u32] {
        &self.pages[self.from / PAGE_LEN..]
    }

    /// The KV slot of a position.
    pub(super) fn slot(&self, position: usize) -> u32 {
        (self.pages[position / PAGE_LEN] as usize * PAGE_LEN + position % PAGE_LEN) as u32
    }

    /// Gives the pages of `group` back that lie after the first `len` tokens.
    pub(super) fn truncate(&mut self, group: &mut Group, len: usize) {
        self.end_ring();
        if self.mark.at > len {
            self.drop_mark(group);
        }
        if self.needs_mark(group, len) {
            return self.return_to_mark(group);
        }
        self.nodes.truncate(len / PAGE_LEN);
        while self.pages.len() > len.div_ceil(PAGE_LEN) {
            let page = self.pages.pop().filter(|&page| page != GONE);
            page.into_iter().for_each(|page| group.pool.give_back(page));
        }
        if len == 0 {
            self.from = 0;
        }
    }
}

/// A page, see [`Pool::take`]; the caller has counted that there is one.
pub(super) fn take(pool: &mut Pool, after: Option<u32>) -> u32 {
    pool.take(after).expect("free pages were counted")
}
