//! Whole pages that were computed, found again by the tokens they stand for and those before: a tree with a page in each
//! node, as in RadixAttention (Zheng et al. 2023, arXiv:2312.07104) with edges of one page.
#![forbid(unsafe_code)]

use ahash::AHashMap;

use super::sequences::PAGE_LEN;

/// The tokens of a page.
type Tokens = [u32; PAGE_LEN];

/// In place of the parent of a page that begins a text.
const ROOT: u32 = u32::MAX;

struct Node {
    parent: u32,
    tokens: Tokens,
    page: u32,
    n_children: u32,
    /// When it was of use last.
    used: u64,
}

/// The tree. It counts as a user of each of its pages.
#[derive(Default)]
pub struct Prefixes {
    nodes: Vec<Option<Node>>,
    vacant: Vec<u32>,
    /// Nodes by parent and tokens. Seeded by chance, since texts choose the keys.
    index: AHashMap<(u32, Tokens), u32>,
    clock: u64,
}

impl Prefixes {
    /// The node and the page of `tokens` behind node `parent` (`None`: at the beginning of a text), if it is there.
    pub fn find(&mut self, parent: Option<u32>, tokens: &Tokens) -> Option<(u32, u32)> {
        let id = *self.index.get(&(parent.unwrap_or(ROOT), *tokens))?;
        self.clock += 1;
        let node = self.nodes[id as usize].as_mut()?;
        node.used = self.clock;
        Some((id, node.page))
    }

    /// Adds a page that is not there yet, and returns its node.
    pub fn insert(&mut self, parent: Option<u32>, tokens: &Tokens, page: u32) -> u32 {
        let parent = parent.unwrap_or(ROOT);
        self.clock += 1;
        let node = Node { parent, tokens: *tokens, page, n_children: 0, used: self.clock };
        let id = match self.vacant.pop() {
            Some(id) => {
                self.nodes[id as usize] = Some(node);
                id
            }
            None => {
                self.nodes.push(Some(node));
                self.nodes.len() as u32 - 1
            }
        };
        self.index.insert((parent, *tokens), id);
        self.count_child(parent, |n| n + 1);
        id
    }

    fn count_child(&mut self, parent: u32, change: impl FnOnce(u32) -> u32) {
        if let Some(Some(node)) = self.nodes.get_mut(parent as usize) {
            node.n_children = change(node.n_children);
        }
    }

    /// Pages that nobody but the tree has. Where a sequence has a page of the tree it has all before it too, so that these
    /// can all be had by [`Prefixes::evict`].
    pub fn n_unused(&self, users: &[u32]) -> usize {
        self.nodes.iter().flatten().filter(|node| users[node.page as usize] == 1).count()
    }

    /// Takes node `id` out of the tree, unless others follow it; whether it did. The page is the caller's to give back.
    pub fn remove(&mut self, id: u32) -> bool {
        let Some(node) = self.nodes[id as usize].take_if(|node| node.n_children == 0) else { return false };
        self.index.remove(&(node.parent, node.tokens));
        self.vacant.push(id);
        self.count_child(node.parent, |n| n - 1);
        true
    }

    /// Takes the page out of the tree that nobody else has, no other follows, and was of no use for the longest time.
    pub fn evict(&mut self, users: &[u32]) -> Option<u32> {
        let nodes = (0..).zip(&self.nodes).filter_map(|(id, node)| Some((id, node.as_ref()?)));
        let unused = nodes.filter(|(_, node)| node.n_children == 0 && users[node.page as usize] == 1);
        let (id, _) = unused.min_by_key(|(_, node)| node.used)?;
        let page = self.nodes[id as usize].as_ref()?.page;
        self.remove(id).then_some(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_leaf_that_nobody_has_goes_first() {
        let mut tree = Prefixes::default();
        let (a, b, c) = ([1; PAGE_LEN], [2; PAGE_LEN], [3; PAGE_LEN]);
        let first = tree.insert(None, &a, 10);
        let second = tree.insert(Some(first), &b, 11);
        tree.insert(Some(second), &c, 12);
        let other = tree.insert(None, &b, 13);
        assert_eq!(tree.find(Some(first), &b), Some((second, 11)));
        assert_eq!(tree.find(None, &b), Some((other, 13)));
        assert_eq!(tree.find(Some(other), &a), None);
        let mut users = [1; 20];
        users[12] = 2;
        assert_eq!(tree.n_unused(&users), 3);
        users[12] = 1;
        assert_eq!(tree.evict(&users), Some(12));
        assert_eq!(tree.evict(&users), Some(11), "found before 13 was");
        users[13] = 2;
        assert_eq!(tree.evict(&users), Some(10));
        assert_eq!(tree.evict(&users), None);
        let again = tree.insert(None, &a, 14);
        assert_eq!(tree.find(None, &a), Some((again, 14)));
    }
}
