//! Computed pages, found again by their tokens and all tokens before them: a tree with a page in each node, as in RadixAttention
//! (Zheng et al. 2023, arXiv:2312.07104) with edges of one page.
#![forbid(unsafe_code)]

use ahash::AHashMap;

use super::recurrent::Snapshot;
use super::sequences::PAGE_LEN;

/// The tokens of a page.
type Tokens = [u32; PAGE_LEN];

/// The parent of a page that begins a text.
const ROOT: u32 = u32::MAX;

struct Node {
    parent: u32,
    tokens: Tokens,
    /// `None`: it was given up or never there, and only later pages are.
    page: Option<u32>,
    n_children: u32,
    /// The recurrent state after the page.
    state: Option<Snapshot>,
    /// When it was used last.
    used: u64,
}

/// The tree. It counts as a user of each of its pages.
pub struct Prefixes {
    nodes: Vec<Option<Node>>,
    vacant: Vec<u32>,
    /// Nodes by parent and tokens. The hash has a random seed, since texts choose the keys.
    index: AHashMap<(u32, Tokens), u32>,
    clock: u64,
    /// Whether pages are useful without those before them, as in models with windows.
    pub has_gaps: bool,
}

impl Prefixes {
    /// An empty tree. With `has_gaps` it may give up pages that others follow.
    pub fn new(has_gaps: bool) -> Prefixes {
        Prefixes { nodes: Vec::new(), vacant: Vec::new(), index: AHashMap::new(), clock: 0, has_gaps }
    }

    /// The node of `tokens` after node `parent` (`None`: at the beginning of a text), if there is one, and its page.
    pub fn find(&mut self, parent: Option<u32>, tokens: &Tokens) -> Option<(u32, Option<u32>)> {
        let id = *self.index.get(&(parent.unwrap_or(ROOT), *tokens))?;
        self.clock += 1;
        let node = self.nodes[id as usize].as_mut()?;
        node.used = self.clock;
        Some((id, node.page))
    }

    /// Adds a node that is not there yet, without a page, and returns it.
    pub fn insert(&mut self, parent: Option<u32>, tokens: &Tokens) -> u32 {
        let parent = parent.unwrap_or(ROOT);
        self.clock += 1;
        let node = Node { parent, tokens: *tokens, page: None, n_children: 0, state: None, used: self.clock };
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

    /// Gives node `id`, which has none, a page.
    pub fn fill(&mut self, id: u32, page: u32) {
        self.nodes[id as usize].iter_mut().for_each(|node| node.page = Some(page));
    }

    /// Stores the recurrent state after the page of node `id`.
    pub fn set_state(&mut self, id: u32, state: Snapshot) {
        self.nodes[id as usize].iter_mut().for_each(|node| node.state = Some(state));
    }

    /// The recurrent state after the page of node `id`, if one was set.
    pub fn state(&self, id: u32) -> Option<Snapshot> {
        self.nodes[id as usize].as_ref()?.state
    }

    fn count_child(&mut self, parent: u32, change: impl FnOnce(u32) -> u32) {
        if let Some(Some(node)) = self.nodes.get_mut(parent as usize) {
            node.n_children = change(node.n_children);
        }
    }

    /// Pages that only the tree has, and that [`Prefixes::evict`] can give up one after the other.
    pub fn n_unused(&self, users: &[u32]) -> usize {
        let is_unused = |node: &Node| node.page.is_some_and(|page| users[page as usize] == 1);
        let nodes = || self.nodes.iter().flatten();
        let n_unused = nodes().filter(|node| is_unused(node)).count();
        if self.has_gaps {
            return n_unused;
        }
        // A sequence that has a page usually has all before it, and then this finds none.
        let mut blocked = Vec::new();
        for node in nodes().filter(|node| !is_unused(node)) {
            let mut id = node.parent;
            while let Some(Some(parent)) = self.nodes.get(id as usize)
                && is_unused(parent)
            {
                blocked.push(id);
                id = parent.parent;
            }
        }
        blocked.sort_unstable();
        blocked.dedup();
        n_unused - blocked.len()
    }

    /// Takes node `id` out of the tree, unless others follow it; returns whether it did. The caller gives the page back. Nodes
    /// without a page that only `id` followed go too.
    pub fn remove(&mut self, id: u32) -> bool {
        let is_leaf = |node: &mut Node| node.n_children == 0;
        let Some(mut node) = self.nodes[id as usize].take_if(is_leaf) else { return false };
        let mut id = id;
        loop {
            self.index.remove(&(node.parent, node.tokens));
            self.vacant.push(id);
            self.count_child(node.parent, |n| n - 1);
            id = node.parent;
            let parent = self.nodes.get_mut(id as usize);
            let Some(next) = parent.and_then(|p| p.take_if(|p| is_leaf(p) && p.page.is_none())) else {
                return true;
            };
            node = next;
        }
    }

    /// The node that has `page`, if there is one, and the nodes after it, which have to go first: in the order of going.
    pub fn descendants(&self, page: u32) -> Vec<u32> {
        let nodes = || (0u32..).zip(&self.nodes).filter_map(|(id, node)| Some((id, node.as_ref()?)));
        let mut found: Vec<u32> =
            nodes().filter(|(_, node)| node.page == Some(page)).map(|(id, _)| id).collect();
        let mut at = 0;
        while !self.has_gaps && at < found.len() {
            let parent = found[at];
            found.extend(nodes().filter(|(_, node)| node.parent == parent).map(|(id, _)| id));
            at += 1;
        }
        found.reverse();
        found
    }

    /// Gives up the page of node `id`, which the caller gives back; the node goes too, unless others follow it.
    pub fn give_up(&mut self, id: u32) -> Option<u32> {
        let page = self.nodes[id as usize].as_mut()?.page.take();
        self.remove(id);
        page
    }

    /// Gives up the least recently used page that only the tree has and that can go.
    pub fn evict(&mut self, users: &[u32]) -> Option<u32> {
        let nodes = (0..).zip(&self.nodes).filter_map(|(id, node)| Some((id, node.as_ref()?)));
        let unused = nodes.filter_map(|(id, node)| {
            let can_go = node.n_children == 0 || self.has_gaps;
            let page = node.page.filter(|&page| can_go && users[page as usize] == 1)?;
            Some((id, page, node.used))
        });
        let (id, ..) = unused.min_by_key(|&(_, _, used)| used)?;
        self.give_up(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(tree: &mut Prefixes, parent: Option<u32>, tokens: &Tokens, page: u32) -> u32 {
        let id = tree.insert(parent, tokens);
        tree.fill(id, page);
        id
    }

    #[test]
    fn the_oldest_leaf_that_nobody_has_goes_first() {
        let mut tree = Prefixes::new(false);
        let (a, b, c) = ([1; PAGE_LEN], [2; PAGE_LEN], [3; PAGE_LEN]);
        let first = insert(&mut tree, None, &a, 10);
        let second = insert(&mut tree, Some(first), &b, 11);
        insert(&mut tree, Some(second), &c, 12);
        let other = insert(&mut tree, None, &b, 13);
        assert_eq!(tree.find(Some(first), &b), Some((second, Some(11))));
        assert_eq!(tree.find(None, &b), Some((other, Some(13))));
        assert_eq!(tree.find(Some(other), &a), None);
        let mut users = [1; 20];
        users[12] = 2;
        assert_eq!(tree.n_unused(&users), 1, "13: the way to 12 stays with it");
        users[12] = 1;
        // Nodes before one that cannot go cannot go either; each is counted one time.
        let fourth = insert(&mut tree, Some(second), &a, 14);
        for (used, n) in [(vec![12], 2), (vec![12, 14], 1), (vec![11], 3), (vec![13, 10], 3), (vec![], 5)] {
            let mut users = users;
            used.iter().for_each(|&page: &usize| users[page] = 2);
            assert_eq!(tree.n_unused(&users), n, "{used:?}");
        }
        assert_eq!(tree.give_up(fourth), Some(14));
        assert_eq!(tree.evict(&users), Some(12));
        assert_eq!(tree.evict(&users), Some(11), "found before 13 was");
        users[13] = 2;
        assert_eq!(tree.evict(&users), Some(10));
        assert_eq!(tree.evict(&users), None);
        let again = insert(&mut tree, None, &a, 14);
        assert_eq!(tree.find(None, &a), Some((again, Some(14))));
    }

    #[test]
    fn with_gaps_the_oldest_goes_wherever_it_stands() {
        let mut tree = Prefixes::new(true);
        let (a, b, c) = ([1; PAGE_LEN], [2; PAGE_LEN], [3; PAGE_LEN]);
        let first = insert(&mut tree, None, &a, 10);
        let second = insert(&mut tree, Some(first), &b, 11);
        let third = insert(&mut tree, Some(second), &c, 12);
        let mut users = [1; 20];
        users[12] = 2;
        assert_eq!(tree.n_unused(&users), 2);
        assert_eq!(tree.evict(&users), Some(10));
        assert_eq!(tree.evict(&users), Some(11));
        assert_eq!((tree.n_unused(&users), tree.evict(&users)), (0, None));
        // The way to the last one is still there, and pages can come back.
        assert_eq!(tree.find(None, &a), Some((first, None)));
        assert_eq!(tree.find(Some(first), &b), Some((second, None)));
        assert_eq!(tree.find(Some(second), &c), Some((third, Some(12))));
        tree.fill(first, 13);
        users[12] = 1;
        assert_eq!(tree.evict(&users), Some(13), "it was found before the last one");
        // The nodes that led to the last page go with it.
        assert_eq!(tree.evict(&users), Some(12));
        assert_eq!(tree.find(None, &a), None);
        assert!(tree.index.is_empty() && tree.vacant.len() == tree.nodes.len());
    }
}
