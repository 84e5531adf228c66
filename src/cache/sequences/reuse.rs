//! Whole pages that are kept for later texts, and texts that begin with them.
#![forbid(unsafe_code)]

use super::{ALL, GONE, Group, PAGE_LEN, Sequences, Table};
use crate::error::Result;

impl Sequences {
    /// Keeps the whole pages of sequence `seq` for later texts. Where the tree has a page with the same tokens after the same
    /// prefix, that page replaces the sequence's own.
    pub(super) fn keep_prefix(&mut self, seq: usize) {
        self.match_prefix(seq, true);
    }

    /// As [`Sequences::keep_prefix`], and without `adds` only until a page is not there already.
    pub(super) fn match_prefix(&mut self, seq: usize, adds: bool) {
        let s = &mut self.sequences[seq];
        let n_whole = s.len.min(s.plain) / PAGE_LEN;
        for (group, table) in self.groups.iter_mut().zip(&mut s.tables) {
            table.match_prefix(group, &s.ids, n_whole, adds);
        }
    }

    /// Shortens sequence `seq` to the prefix it shares with `ids`, at most `most` tokens. If kept pages of other texts have a
    /// longer prefix, the sequence gets those. Returns its length.
    pub fn reuse(&mut self, seq: u32, ids: &[u32], most: usize) -> Result<usize> {
        let i = self.index(seq)?;
        let all = ids;
        let ids = &ids[..ids.len().min(most).min(self.n_ctx)];
        let common = self.tokens(seq)?.iter().zip(ids).take_while(|(a, b)| a == b).count();
        let common = if self.encodes_alike(i, all, common) { common } else { 0 };
        let marked = self.marked(i).filter(|&at| at <= common && self.sequences[i].plain == ALL);
        let own = [Some(common), marked].into_iter().flatten().find(|&n| self.can_cut(i, n)).unwrap_or(0);
        let own = if self.state_at(i, own) == 0 { 0 } else { own };
        let mut found: Vec<_> = self.groups.iter_mut().map(|group| group.find(ids)).collect();
        let n_found = found.iter().map(|found| found.nodes.len()).min().unwrap_or(0);
        // The longest prefix after which all layers can continue.
        let n_pages = (1..=n_found).rev().find(|&n| self.continues_after(&found, n)).unwrap_or(0);
        let kept = n_pages * PAGE_LEN;
        if kept <= self.state_at(i, own) {
            self.truncate(i, own);
            return Ok(own);
        }
        for (group, found) in self.groups.iter_mut().zip(&mut found) {
            let first = found.after_missing[n_pages - 1].max(group.kept(kept) / PAGE_LEN);
            found.nodes.truncate(n_pages);
            found.pages.truncate(n_pages);
            found.pages[..first].fill(GONE);
            found.pages[first..].iter().for_each(|&page| group.pool.share(page));
            found.from = first * PAGE_LEN;
        }
        self.truncate(i, 0);
        self.adopt_state(i, found[0].nodes.last().copied(), kept);
        let s = &mut self.sequences[i];
        for (table, found) in s.tables.iter_mut().zip(found) {
            table.nodes = found.nodes;
            table.pages.extend(found.pages);
            table.from = found.from;
        }
        s.ids.extend_from_slice(&ids[..kept]);
        (s.len, s.planned, s.placed) = (kept, kept, kept);
        Ok(kept)
    }

    /// Whether a sequence can continue after the first `n` found pages of each group.
    fn continues_after(&self, found: &[Found], n: usize) -> bool {
        let is_there = |(group, found): (&Group, &Found)| {
            group.needed(n * PAGE_LEN) >= found.after_missing[n - 1] * PAGE_LEN
        };
        let tree = self.groups[0].pool.prefixes.as_ref();
        let state = tree.and_then(|tree| tree.state(found[0].nodes[n - 1]));
        let has_state = self
            .recurrent
            .as_ref()
            .is_none_or(|recurrent| state.is_some_and(|state| recurrent.is_there(state)));
        has_state && self.groups.iter().zip(found).all(is_there)
    }
}

/// Pages of a group that were kept of a text.
struct Found {
    nodes: Vec<u32>,
    /// [`GONE`] for pages that no longer exist.
    pages: Vec<u32>,
    /// For each page: the number of pages up to the last missing one before or at it.
    after_missing: Vec<usize>,
    /// The first useful position.
    from: usize,
}

impl Group {
    /// The pages that were kept of the text `ids`.
    fn find(&mut self, ids: &[u32]) -> Found {
        let mut found = Found { nodes: Vec::new(), pages: Vec::new(), after_missing: Vec::new(), from: 0 };
        let Some(tree) = &mut self.pool.prefixes else { return found };
        let mut after_missing = 0;
        for tokens in ids.as_chunks::<PAGE_LEN>().0 {
            let Some((node, page)) = tree.find(found.nodes.last().copied(), tokens) else { break };
            found.nodes.push(node);
            found.pages.push(page.unwrap_or(GONE));
            after_missing = if page.is_none() { found.nodes.len() } else { after_missing };
            found.after_missing.push(after_missing);
        }
        found
    }
}

impl Table {
    /// As [`Sequences::match_prefix`], for the first `n_whole` pages of the sequence of `ids`.
    fn match_prefix(&mut self, group: &mut Group, ids: &[u32], n_whole: usize, adds: bool) {
        let pool = &mut group.pool;
        let has_gaps = pool.prefixes.as_ref().is_some_and(|tree| tree.has_gaps);
        if n_whole * PAGE_LEN <= self.from || (self.from > 0 && !has_gaps) {
            return;
        }
        while self.nodes.len() < n_whole {
            let (i, parent) = (self.nodes.len(), self.nodes.last().copied());
            let Some(tokens) = ids[i * PAGE_LEN..].first_chunk::<PAGE_LEN>() else { return };
            let Some(tree) = &mut pool.prefixes else { return };
            let own = Some(self.pages[i]).filter(|&page| page != GONE);
            let (node, page) = match tree.find(parent, tokens) {
                Some(found) if adds || found.1.is_some() || own.is_none() => found,
                None if adds => (tree.insert(parent, tokens), None),
                _ => break,
            };
            self.nodes.push(node);
            match (own, page) {
                (Some(own), None) => {
                    tree.fill(node, own);
                    pool.share(own);
                }
                (Some(own), Some(page)) if own != page => {
                    pool.share(page);
                    self.pages[i] = page;
                    pool.give_back(own);
                }
                _ => {}
            }
        }
        while self.nodes.len().checked_sub(1).is_some_and(|last| self.pages[last] == GONE) {
            self.nodes.pop();
        }
    }
}
