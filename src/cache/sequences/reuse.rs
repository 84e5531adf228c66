//! Whole pages that are kept for later texts, and texts that begin with them.
#![forbid(unsafe_code)]

use super::{GONE, PAGE_LEN, Sequence, Sequences};
use crate::error::Result;

impl Sequences {
    /// Has the whole pages of sequence `seq` kept for later texts. A page that is there already, of the same tokens behind
    /// the same ones, takes the place of the sequence's own.
    pub(super) fn keep_prefix(&mut self, seq: usize) {
        self.match_prefix(seq, true);
    }

    /// As [`Sequences::keep_prefix`], and without `adds` only until a page is not there already.
    pub(super) fn match_prefix(&mut self, seq: usize, adds: bool) {
        let (s, pool) = (&mut self.sequences[seq], &mut self.pool);
        let has_gaps = pool.prefixes.as_ref().is_some_and(|tree| tree.has_gaps);
        let n_whole = s.len.min(s.plain) / PAGE_LEN;
        if n_whole * PAGE_LEN <= s.from || (s.from > 0 && !has_gaps) {
            return;
        }
        while s.nodes.len() < n_whole {
            let (i, parent) = (s.nodes.len(), s.nodes.last().copied());
            let Some(tokens) = s.ids[i * PAGE_LEN..].first_chunk::<PAGE_LEN>() else { return };
            let Some(tree) = &mut pool.prefixes else { return };
            let own = Some(s.pages[i]).filter(|&page| page != GONE);
            let (node, page) = match tree.find(parent, tokens) {
                Some(found) if adds || found.1.is_some() || own.is_none() => found,
                None if adds => (tree.insert(parent, tokens), None),
                _ => break,
            };
            s.nodes.push(node);
            match (own, page) {
                (Some(own), None) => {
                    tree.fill(node, own);
                    pool.share(own);
                }
                (Some(own), Some(page)) if own != page => {
                    pool.share(page);
                    s.pages[i] = page;
                    pool.give_back(own);
                }
                _ => {}
            }
        }
        let ends_in_gap =
            |s: &Sequence| s.nodes.len().checked_sub(1).is_some_and(|last| s.pages[last] == GONE);
        while ends_in_gap(s) {
            s.nodes.pop();
        }
    }

    /// Shortens sequence `seq` to what `ids` begins with too, `most` tokens at most, or, if pages of other texts were kept
    /// that are more of it, makes it those. Returns its length.
    pub fn reuse(&mut self, seq: u32, ids: &[u32], most: usize) -> Result<usize> {
        let i = self.index(seq)?;
        let ids = &ids[..ids.len().min(most).min(self.n_ctx)];
        let common = self.tokens(seq)?.iter().zip(ids).take_while(|(a, b)| a == b).count();
        let own = if self.can_cut(i, common) { common } else { 0 };
        let own = if self.state_at(i, own) == 0 { 0 } else { own };
        let (mut nodes, mut pages) = (Vec::<u32>::new(), Vec::new());
        // The longest beginning that can go on, and behind which of its pages none is missing.
        let (mut n_pages, mut first, mut behind_missing) = (0, 0, 0);
        if let Some(tree) = &mut self.pool.prefixes {
            for tokens in ids.as_chunks::<PAGE_LEN>().0 {
                let Some((node, page)) = tree.find(nodes.last().copied(), tokens) else { break };
                nodes.push(node);
                pages.push(page.unwrap_or(GONE));
                behind_missing = if page.is_none() { nodes.len() } else { behind_missing };
                let len = nodes.len() * PAGE_LEN;
                let needed = self.window.map_or(0, |window| window.needed(len));
                let goes_on = match (&self.recurrent, tree.state(node)) {
                    (Some(recurrent), state) => state.is_some_and(|state| recurrent.is_there(state)),
                    (None, _) => true,
                };
                if goes_on && needed >= behind_missing * PAGE_LEN {
                    (n_pages, first) = (nodes.len(), behind_missing);
                }
            }
        }
        let kept = n_pages * PAGE_LEN;
        if kept <= self.state_at(i, own) {
            self.truncate(i, own);
            return Ok(own);
        }
        let first = first.max(self.kept(kept) / PAGE_LEN);
        nodes.truncate(n_pages);
        pages.truncate(n_pages);
        pages[..first].fill(GONE);
        pages[first..].iter().for_each(|&page| self.pool.share(page));
        self.truncate(i, 0);
        self.adopt_state(i, nodes.last().copied(), kept);
        let s = &mut self.sequences[i];
        s.nodes = nodes;
        s.pages.extend(pages);
        s.ids.extend_from_slice(&ids[..kept]);
        (s.len, s.planned, s.placed, s.from) = (kept, kept, kept, first * PAGE_LEN);
        Ok(kept)
    }
}
