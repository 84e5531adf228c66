//! The pages of the KV cache: which are free, and how many have each of the others.
#![forbid(unsafe_code)]

use super::prefixes::Prefixes;
use crate::error::{Error, Result};

/// Counted pages.
pub struct Pool {
    free: Vec<u32>,
    /// How many have each page: sequences, and the tree of prefixes.
    users: Vec<u32>,
    /// Pages that are kept for later texts as long as nobody needs the room.
    pub prefixes: Option<Prefixes>,
}

impl Pool {
    /// `n_pages` free pages, of which `prefixes`, if given, may keep some.
    pub fn new(n_pages: usize, prefixes: Option<Prefixes>) -> Result<Pool> {
        let too_many = |_| Error::NoMemory(format!("no memory for a list of {n_pages} pages"));
        let (mut free, mut users) = (Vec::new(), Vec::new());
        free.try_reserve_exact(n_pages).map_err(too_many)?;
        users.try_reserve_exact(n_pages).map_err(too_many)?;
        free.extend((0..n_pages as u32).rev());
        users.resize(n_pages, 0);
        Ok(Pool { free, users, prefixes })
    }

    /// Pages in all.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Pages that [`Pool::take`] can give.
    pub fn n_free(&self) -> usize {
        self.free.len() + self.prefixes.as_ref().map_or(0, |tree| tree.n_unused(&self.users))
    }

    /// A page, which now has one user.
    pub fn take(&mut self) -> Option<u32> {
        let evict = |tree: &mut Prefixes| tree.evict(&self.users);
        let page = self.free.pop().or_else(|| self.prefixes.as_mut().and_then(evict))?;
        self.users[page as usize] = 1;
        Some(page)
    }

    /// `page` has one user more.
    pub fn share(&mut self, page: u32) {
        self.users[page as usize] += 1;
    }

    /// `page` has one user less, and is free when that was the last.
    pub fn give_back(&mut self, page: u32) {
        let users = &mut self.users[page as usize];
        *users -= 1;
        if *users == 0 {
            self.free.push(page);
        }
    }

    /// How many have `page`.
    pub fn users(&self, page: u32) -> u32 {
        self.users[page as usize]
    }

    /// How many pages would be free if each of `pages` had one user less.
    pub fn n_free_without(&mut self, pages: &[u32]) -> usize {
        let before = self.users.clone();
        pages.iter().for_each(|&page| self.users[page as usize] -= 1);
        let freed = (0..).zip(&before).filter(|(i, n)| **n > 0 && self.users[*i] == 0).count();
        let n_free = self.n_free() + freed;
        self.users = before;
        n_free
    }
}
