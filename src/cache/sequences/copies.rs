//! Pages that are written to although others have them too.
#![forbid(unsafe_code)]

use super::{PAGE_LEN, Sequences};

impl Sequences {
    /// Puts the shared pages that the plan writes to into `copies`, each with its sequence. The last sequence that has a
    /// page may write to it.
    pub(super) fn find_copies(&mut self) {
        self.copies.clear();
        for (seq, s) in self.sequences.iter().enumerate() {
            let writes_into = s.planned > s.len && !s.len.is_multiple_of(PAGE_LEN);
            if let Some(&last) = s.pages.last().filter(|_| writes_into) {
                let left = self.copies.iter().filter(|(page, _)| *page == last).count();
                if self.pool.users(last) as usize - left > 1 {
                    self.copies.push((last, seq as u32));
                }
            }
        }
    }

    /// Has the tree of prefixes give up the pages that are to be copied because of it, and what is kept behind them. Whether it
    /// gave up any; `copies` are those that are left.
    pub(super) fn give_up_kept_copies(&mut self) -> bool {
        let mut pages = Vec::new();
        for at in 0..self.copies.len() {
            let (page, _) = self.copies[at];
            let Some(tree) = &mut self.pool.prefixes else { return false };
            let nodes = tree.behind(page);
            // A sequence that has one of them as a whole page knows it by its node.
            if nodes.iter().any(|node| self.sequences.iter().any(|s| s.nodes.contains(node))) {
                continue;
            }
            pages.extend(nodes.into_iter().filter_map(|node| tree.give_up(node)));
        }
        pages.iter().for_each(|&page| self.pool.give_back(page));
        self.find_copies();
        !pages.is_empty()
    }
}
