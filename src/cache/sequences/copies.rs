//! Pages that a sequence writes to although others share them.
#![forbid(unsafe_code)]

use super::{Group, PAGE_LEN, Sequences};

impl Sequences {
    /// Puts the shared pages of `group` that the plan writes to into its `copies`, each with its sequence. The last user of a
    /// page may write to it.
    pub(super) fn find_copies(&mut self, group: usize) {
        let Group { pool, copies, .. } = &mut self.groups[group];
        copies.clear();
        for (seq, s) in self.sequences.iter().enumerate() {
            let writes_into = s.planned > s.len && !s.len.is_multiple_of(PAGE_LEN);
            let table = &s.tables[group];
            if let Some(&last) = table.pages.last().filter(|_| writes_into) {
                let left = copies.iter().filter(|(page, _)| *page == last).count();
                // The sequence's own mark lies before the written positions.
                let marked = usize::from(table.mark.pages.last() == Some(&last));
                if pool.users(last) as usize - left - marked > 1 {
                    copies.push((last, seq as u32));
                }
            }
        }
    }

    /// Has the tree of prefixes of `group` give up the pages that would be copied because of it, with the pages kept after them.
    /// Returns whether it gave up any; the group's `copies` are those that are left.
    pub(super) fn give_up_kept_copies(&mut self, group: usize) -> bool {
        let Group { pool, copies, .. } = &mut self.groups[group];
        let mut pages = Vec::new();
        for &(page, _) in &*copies {
            let Some(tree) = &mut pool.prefixes else { return false };
            let nodes = tree.descendants(page);
            // A sequence that has one of them as a whole page refers to its node.
            if nodes.iter().any(|node| self.sequences.iter().any(|s| s.tables[group].nodes.contains(node))) {
                continue;
            }
            pages.extend(nodes.into_iter().filter_map(|node| tree.give_up(node)));
        }
        pages.iter().for_each(|&page| pool.give_back(page));
        self.find_copies(group);
        !pages.is_empty()
    }
}
