//! Where a sequence can continue from, although it has grown since and gave pages back: a mark keeps the pages that the next
//! token there sees. Ends of prompts are marked, since the next turn of a conversation often leaves out a part of the answer.
//! Marks are given up when their pages are needed.
#![forbid(unsafe_code)]

use super::{GONE, Group, PAGE_LEN, Sequences, Table};
use crate::cache::reserved;
use crate::error::Result;

/// The pages that are seen from a position of a sequence.
#[derive(Default)]
pub(super) struct Mark {
    /// Tokens before it; 0: there is none.
    pub at: usize,
    /// The number of the first page.
    first: usize,
    /// The pages from that one on.
    pub pages: Vec<u32>,
}

impl Mark {
    /// None yet, with capacity for all that a mark in `group` can have.
    pub fn of(group: &Group, n_ctx: usize) -> Result<Mark> {
        let seen = group.gives_back().then(|| n_ctx - group.needed(n_ctx));
        let pages = reserved(seen.map_or(0, |seen| seen.div_ceil(PAGE_LEN) + 1))?;
        Ok(Mark { at: 0, first: 0, pages })
    }
}

impl Sequences {
    /// Marks the end of sequence `i`. Recurrent states have snapshots instead.
    pub(super) fn set_marks(&mut self, i: usize) {
        let s = &mut self.sequences[i];
        if self.recurrent.is_none() {
            let tables = self.groups.iter_mut().zip(&mut s.tables);
            tables
                .filter(|(group, _)| group.gives_back())
                .for_each(|(group, table)| table.set_mark(group, s.len));
        }
    }

    /// Gives up all marks in `group`; whether there were any.
    pub(super) fn drop_marks(&mut self, group: usize) -> bool {
        let pages = &mut self.groups[group];
        let tables = self.sequences.iter_mut().map(|s| &mut s.tables[group]);
        let mut any = false;
        for table in tables.filter(|table| table.mark.at > 0) {
            table.drop_mark(pages);
            any = true;
        }
        any
    }

    /// The number of tokens before the mark of sequence `i`, if it has one.
    pub(super) fn marked(&self, i: usize) -> Option<usize> {
        self.sequences[i].tables.iter().map(|table| table.mark.at).find(|&at| at > 0)
    }
}

impl Table {
    fn set_mark(&mut self, group: &mut Group, len: usize) {
        self.drop_mark(group);
        let first = group.needed(len) / PAGE_LEN;
        self.mark.pages.extend_from_slice(&self.pages[first..len.div_ceil(PAGE_LEN)]);
        self.mark.pages.iter().for_each(|&page| group.pool.mark(page));
        (self.mark.at, self.mark.first) = (len, first);
    }

    pub(super) fn drop_mark(&mut self, group: &mut Group) {
        self.mark.pages.drain(..).for_each(|page| group.pool.unmark(page));
        self.mark.at = 0;
    }

    /// Whether its first `n` tokens can continue from the mark only.
    pub(super) fn needs_mark(&self, group: &Group, n: usize) -> bool {
        n > 0 && self.mark.at == n && !group.goes_on(self.from, n)
    }

    /// Fills the empty table with the pages of `mark`.
    pub(super) fn become_mark(&mut self, group: &mut Group, mark: &Mark) {
        self.pages.resize(mark.first, GONE);
        self.pages.extend_from_slice(&mark.pages);
        self.from = mark.first * PAGE_LEN;
        self.held().iter().for_each(|&page| group.pool.share(page));
    }

    /// Gives its pages back and takes those of its mark.
    pub(super) fn return_to_mark(&mut self, group: &mut Group) {
        let mark = std::mem::take(&mut self.mark);
        self.held().iter().filter(|page| **page != GONE).for_each(|&page| group.pool.give_back(page));
        self.pages.clear();
        self.nodes.clear();
        self.become_mark(group, &mark);
        self.mark = mark;
    }
}
