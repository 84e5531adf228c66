//! The pages of the KV cache: which are free, and how many users each of the others has.
#![forbid(unsafe_code)]

use super::prefixes::Prefixes;
use crate::error::{Error, Result};

/// Pages in a word.
const BITS: usize = u64::BITS as usize;

/// The bit of a page in its word.
fn bit(page: u32) -> u64 {
    1 << (page as usize % BITS)
}

/// Counted pages.
pub struct Pool {
    /// A bit for each page that is free.
    free: Vec<u64>,
    n_free: usize,
    /// Words of `free` before this one are zero.
    front: usize,
    /// Pages from this one on were never taken.
    touched: u32,
    /// The number of users of each page: sequences, marks, and the tree of prefixes.
    users: Vec<u32>,
    /// How many of these are marks, which are given up when their pages are needed.
    marks: Vec<u32>,
    /// Pages that are kept for later texts as long as nobody needs them.
    pub prefixes: Option<Prefixes>,
}

impl Pool {
    /// `n_pages` free pages, of which `prefixes`, if given, may keep some.
    pub fn new(n_pages: usize, prefixes: Option<Prefixes>) -> Result<Pool> {
        let too_many = |_| Error::NoMemory(format!("no memory for a list of {n_pages} pages"));
        let (mut free, mut users, mut marks) = (Vec::new(), Vec::new(), Vec::new());
        free.try_reserve_exact(n_pages.div_ceil(BITS)).map_err(too_many)?;
        users.try_reserve_exact(n_pages).map_err(too_many)?;
        marks.try_reserve_exact(n_pages).map_err(too_many)?;
        free.extend((0..n_pages).step_by(BITS).map(|first| !0 >> BITS.saturating_sub(n_pages - first)));
        users.resize(n_pages, 0);
        marks.resize(n_pages, 0);
        Ok(Pool { free, n_free: n_pages, front: 0, touched: 0, users, marks, prefixes })
    }

    /// Pages in all.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Pages that [`Pool::take`] can give.
    pub fn n_free(&self) -> usize {
        self.n_free + self.prefixes.as_ref().map_or(0, |tree| tree.n_unused(&self.users))
    }

    /// A page, which now has one user. It is the page after `after` if that is free and was taken before, since memory is read
    /// fastest in order. Otherwise it is the first free page: so no more memory is touched than was needed at one time.
    pub fn take(&mut self, after: Option<u32>) -> Option<u32> {
        let next = after.filter(|&page| page < self.touched).map(|page| page + 1);
        let page =
            next.filter(|&page| page < self.touched && self.is_free(page)).or_else(|| self.first_free());
        if let Some(page) = page {
            self.free[page as usize / BITS] &= !bit(page);
            self.n_free -= 1;
            self.touched = self.touched.max(page + 1);
        }
        let evict = |tree: &mut Prefixes| tree.evict(&self.users);
        let page = page.or_else(|| self.prefixes.as_mut().and_then(evict))?;
        self.users[page as usize] = 1;
        Some(page)
    }

    fn is_free(&self, page: u32) -> bool {
        self.free.get(page as usize / BITS).is_some_and(|word| word & bit(page) != 0)
    }

    fn first_free(&mut self) -> Option<u32> {
        self.front += self.free[self.front..].iter().take_while(|word| **word == 0).count();
        Some((self.front * BITS) as u32 + self.free.get(self.front)?.trailing_zeros())
    }

    /// `page` has one more user.
    pub fn share(&mut self, page: u32) {
        self.users[page as usize] += 1;
    }

    /// `page` has one more mark, which is a user.
    pub fn mark(&mut self, page: u32) {
        self.marks[page as usize] += 1;
        self.share(page);
    }

    /// `page` has one mark fewer.
    pub fn unmark(&mut self, page: u32) {
        self.marks[page as usize] -= 1;
        self.give_back(page);
    }

    /// Pages that only marks have.
    pub fn n_only_marked(&self) -> usize {
        self.users.iter().zip(&self.marks).filter(|(users, marks)| **users > 0 && users == marks).count()
    }

    /// `page` has one user fewer, and is free when that was the last.
    pub fn give_back(&mut self, page: u32) {
        let users = &mut self.users[page as usize];
        *users -= 1;
        if *users == 0 {
            self.free[page as usize / BITS] |= bit(page);
            self.n_free += 1;
            self.front = self.front.min(page as usize / BITS);
        }
    }

    /// The number of users of `page`.
    pub fn users(&self, page: u32) -> u32 {
        self.users[page as usize]
    }

    /// How many pages would be free if each of `pages` had one user fewer.
    pub fn n_free_without(&mut self, pages: &[u32]) -> usize {
        let before = self.users.clone();
        pages.iter().for_each(|&page| self.users[page as usize] -= 1);
        let freed = (0..).zip(&before).filter(|(i, n)| **n > 0 && self.users[*i] == 0).count();
        let n_free = self.n_free() + freed;
        self.users = before;
        n_free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_or_else_the_first() {
        for n in [0, 1, 63, 64, 65, 128, 130] {
            let mut pool = Pool::new(n, None).expect("memory");
            let all: Vec<u32> = std::iter::from_fn(|| pool.take(None)).collect();
            assert_eq!(all, (0..n as u32).collect::<Vec<_>>());
            assert_eq!((pool.n_free(), pool.take(Some(3))), (0, None));
        }
        let mut pool = Pool::new(130, None).expect("memory");
        let mut take =
            |after: &[Option<u32>]| after.iter().map(|&after| pool.take(after)).collect::<Vec<_>>();
        // Pages that were never taken come from the front, whatever page they follow.
        assert_eq!(take(&[Some(62), None, Some(0), Some(129)]), [Some(0), Some(1), Some(2), Some(3)]);
        take(&[None; 80]);
        assert_eq!((pool.n_free(), pool.users(83), pool.users(84)), (46, 1, 0));
        pool.share(0);
        [0, 64, 65, 2].into_iter().for_each(|page| pool.give_back(page));
        let taken = [Some(63), Some(64), Some(65), Some(83)].map(|after| pool.take(after));
        assert_eq!(taken, [Some(64), Some(65), Some(2), Some(84)]);
        // A sequence that gives its first pages back as it grows reuses a few.
        let mut pool = Pool::new(1000, None).expect("memory");
        let mut last = None;
        let pages: Vec<u32> = std::iter::repeat_with(|| {
            last = pool.take(last);
            let page = last.expect("free pages");
            (page >= 3 || pool.users(3) > 0).then(|| pool.give_back((page + 1) % 4));
            page
        })
        .take(10)
        .collect();
        assert_eq!(pages, [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]);
    }
}
