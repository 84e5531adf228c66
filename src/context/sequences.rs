//! Page tables: which pages of the KV cache hold which positions of which sequence. Sequences that begin alike may share
//! pages; one that writes to a page which others have too takes a copy first.
#![forbid(unsafe_code)]

use super::Tokens;
use crate::error::{Error, Result};
pub use crate::kernels::attention::PAGE_LEN;

/// One token sequence.
struct Sequence {
    /// Tokens in the cache.
    len: usize,
    /// `len` plus what the call under way adds.
    planned: usize,
    /// Tokens of the call under way that were given a slot.
    placed: usize,
    /// Page of each `PAGE_LEN` positions.
    pages: Vec<u32>,
    /// Token of each position, `planned` of them.
    ids: Vec<u32>,
}

/// All sequences of a context and the pages none of them uses.
pub struct Sequences {
    sequences: Vec<Sequence>,
    free: Vec<u32>,
    /// How many sequences have each page.
    users: Vec<u32>,
    /// Pages to be copied before the call under way writes: from, to.
    copies: Vec<(u32, u32)>,
    n_ctx: usize,
}

impl Sequences {
    /// `n_seq` empty sequences of up to `n_ctx` tokens, and the pages to hold them all, but at most `most_pages`.
    pub fn new(n_seq: usize, n_ctx: usize, most_pages: usize) -> Result<Sequences> {
        let per_seq = n_ctx.div_ceil(PAGE_LEN);
        let too_many = || {
            Error::NoMemory(format!("a KV cache for {n_seq} sequences of {n_ctx} tokens has too many pages"))
        };
        let all = per_seq.checked_mul(n_seq).map(|n| n.min(most_pages));
        let n_pages = all.filter(|&n| n < (1 << 27)).ok_or_else(too_many)?;
        let mut free = Vec::new();
        free.try_reserve_exact(n_pages).map_err(|_| too_many())?;
        free.extend((0..n_pages as u32).rev());
        let mut users = Vec::new();
        users.try_reserve_exact(n_pages).map_err(|_| too_many())?;
        users.resize(n_pages, 0);
        let mut sequences = Vec::new();
        for _ in 0..n_seq {
            let mut pages = Vec::new();
            pages.try_reserve_exact(per_seq).map_err(|_| too_many())?;
            let mut ids = Vec::new();
            ids.try_reserve_exact(n_ctx).map_err(|_| too_many())?;
            sequences.push(Sequence { len: 0, planned: 0, placed: 0, pages, ids });
        }
        Ok(Sequences { sequences, free, users, copies: Vec::with_capacity(n_seq), n_ctx })
    }

    /// Pages in all.
    pub fn n_pages(&self) -> usize {
        self.users.len()
    }

    /// Pages that no sequence uses.
    pub fn n_free(&self) -> usize {
        self.free.len()
    }

    /// Moves `n` of the [`Sequences::n_free`] pages to the end of `pages`, until [`Sequences::give_back`]. No sequence
    /// may grow meanwhile.
    pub fn lend(&mut self, n: usize, pages: &mut Vec<u32>) {
        pages.extend(self.free.drain(self.free.len() - n..).rev());
    }

    /// Takes back all that was lent.
    pub fn give_back(&mut self, pages: &mut Vec<u32>) {
        self.free.extend(pages.drain(..).rev());
    }

    fn index(&self, seq: u32) -> Result<usize> {
        let n = self.sequences.len();
        match seq as usize {
            i if i < n => Ok(i),
            _ => Err(Error::InvalidArgument(format!(
                "sequence {seq} does not exist: the context has {n}, from 0 on"
            ))),
        }
    }

    /// Tokens in sequence `seq`.
    pub fn len(&self, seq: u32) -> Result<usize> {
        self.index(seq).map(|i| self.sequences[i].len)
    }

    /// The tokens of sequence `seq`.
    pub fn tokens(&self, seq: u32) -> Result<&[u32]> {
        self.index(seq).map(|i| &self.sequences[i].ids[..self.sequences[i].len])
    }

    /// Checks sequences, positions and room for all of `tokens` and takes the pages they need; on error nothing
    /// changes. What is returned has to be copied, from page to page, before anything is written.
    pub fn begin(&mut self, tokens: &Tokens<'_>) -> Result<&[(u32, u32)]> {
        self.forget_plan();
        let planned = (0..tokens.ids.len()).try_for_each(|i| self.plan_token(tokens, i));
        if let Err(error) = planned.and_then(|()| self.take_pages()) {
            self.forget_plan();
            return Err(error);
        }
        Ok(&self.copies)
    }

    fn plan_token(&mut self, tokens: &Tokens<'_>, i: usize) -> Result<()> {
        let seq = tokens.seqs.map_or(0, |s| s[i]);
        let at = self.index(seq)?;
        let n_ctx = self.n_ctx;
        let s = &mut self.sequences[at];
        if let Some(positions) = tokens.positions
            && positions[i] as usize != s.planned
        {
            return Err(Error::InvalidArgument(format!(
                "token {i} of the batch has position {}, but the next position of sequence {seq} is {}",
                positions[i], s.planned
            )));
        }
        if s.planned >= n_ctx {
            return Err(Error::ContextFull(format!(
                "sequence {seq} holds {} of n_ctx {n_ctx} tokens; the batch does not fit",
                s.len
            )));
        }
        s.planned += 1;
        s.ids.push(tokens.ids[i]);
        Ok(())
    }

    /// Takes the pages that the plan needs, new ones and those in place of shared ones that are written to.
    /// `ContextFull` when there are not enough.
    fn take_pages(&mut self) -> Result<()> {
        let new = |s: &Sequence| s.planned.div_ceil(PAGE_LEN).saturating_sub(s.pages.len());
        let n_new: usize = self.sequences.iter().map(new).sum();
        self.find_copies();
        let needed = n_new + self.copies.len();
        if needed > self.free.len() {
            self.copies.drain(..).for_each(|(page, _)| self.users[page as usize] += 1);
            return Err(Error::ContextFull(format!(
                "the batch needs {needed} more pages of {PAGE_LEN} tokens, but {} of the {} that the KV cache has are free: \
                 rewind a sequence",
                self.free.len(),
                self.users.len()
            )));
        }
        for (_, to) in &mut self.copies {
            let seq = *to as usize;
            let page = take(&mut self.free, &mut self.users);
            *to = page;
            self.sequences[seq].pages.last_mut().into_iter().for_each(|last| *last = page);
        }
        for s in &mut self.sequences {
            while s.pages.len() * PAGE_LEN < s.planned {
                s.pages.push(take(&mut self.free, &mut self.users));
            }
        }
        Ok(())
    }

    /// Puts the shared pages that the plan writes to into `copies`, each with its sequence, which no longer counts as
    /// one of the page's users.
    fn find_copies(&mut self) {
        self.copies.clear();
        for (seq, s) in self.sequences.iter().enumerate() {
            let writes_into = s.planned > s.len && !s.len.is_multiple_of(PAGE_LEN);
            if let Some(&last) = s.pages.last().filter(|_| writes_into)
                && self.users[last as usize] > 1
            {
                self.users[last as usize] -= 1;
                self.copies.push((last, seq as u32));
            }
        }
    }

    /// Makes `to` the first `n` tokens of `from`, whose pages both have then. What `to` held is gone.
    pub fn copy(&mut self, from: u32, to: u32, n: usize) -> Result<()> {
        let (source, target) = (self.index(from)?, self.index(to)?);
        let len = self.sequences[source].len;
        if source == target {
            return Err(Error::InvalidArgument(format!("sequence {from} cannot be copied to itself")));
        }
        if n > len {
            return Err(Error::InvalidArgument(format!(
                "{n} tokens of sequence {from} cannot be copied: it has {len}"
            )));
        }
        self.truncate(target, 0);
        let [source, target] = match self.sequences.get_disjoint_mut([source, target]) {
            Ok(both) => both,
            Err(_) => return Err(Error::Internal("two sequences are one".into())),
        };
        target.pages.extend_from_slice(&source.pages[..n.div_ceil(PAGE_LEN)]);
        target.pages.iter().for_each(|&page| self.users[page as usize] += 1);
        target.ids.extend_from_slice(&source.ids[..n]);
        (target.len, target.planned, target.placed) = (n, n, n);
        Ok(())
    }

    /// How many pages would be free if the sequences `seqs` were empty.
    pub fn n_free_without(&mut self, seqs: std::ops::Range<usize>) -> usize {
        let mut n_free = self.free.len();
        let pages = || seqs.clone().flat_map(|seq| &self.sequences[seq].pages);
        for &page in pages() {
            self.users[page as usize] -= 1;
            n_free += usize::from(self.users[page as usize] == 0);
        }
        pages().for_each(|&page| self.users[page as usize] += 1);
        n_free
    }

    /// Gives the empty sequence `seq` the tokens `ids` and pages that [`Sequences::take_page`] gave, each perhaps to several
    /// sequences.
    pub fn restore(&mut self, seq: usize, ids: impl Iterator<Item = u32>, pages: impl Iterator<Item = u32>) {
        let s = &mut self.sequences[seq];
        s.ids.extend(ids);
        s.pages.extend(pages);
        s.pages.iter().for_each(|&page| self.users[page as usize] += 1);
        (s.len, s.planned, s.placed) = (s.ids.len(), s.ids.len(), s.ids.len());
    }

    /// A free page that no sequence has yet.
    pub fn take_page(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Sequences.
    pub fn n_seq(&self) -> usize {
        self.sequences.len()
    }

    fn forget_plan(&mut self) {
        for s in &mut self.sequences {
            s.planned = s.len;
            s.placed = s.len;
            s.ids.truncate(s.len);
        }
    }

    /// The position and KV slot of the next token of `seq` in the call under way.
    pub fn place(&mut self, seq: usize) -> (usize, u32) {
        let s = &mut self.sequences[seq];
        let position = s.placed;
        s.placed += 1;
        let slot = s.pages[position / PAGE_LEN] as usize * PAGE_LEN + position % PAGE_LEN;
        (position, slot as u32)
    }

    /// The page table of `seq`, the call under way included.
    pub fn pages(&self, seq: usize) -> &[u32] {
        &self.sequences[seq].pages
    }

    /// The call under way succeeded.
    pub fn commit(&mut self) {
        for s in &mut self.sequences {
            s.len = s.planned;
        }
    }

    /// The call under way failed: its tokens and pages are given back.
    pub fn roll_back(&mut self) {
        for i in 0..self.sequences.len() {
            self.truncate(i, self.sequences[i].len);
        }
    }

    /// Shortens `seq` to `n_past` tokens and frees the pages behind them.
    pub fn rewind(&mut self, seq: u32, n_past: usize) -> Result<()> {
        let i = self.index(seq)?;
        let len = self.sequences[i].len;
        if n_past > len {
            return Err(Error::InvalidArgument(format!(
                "sequence {seq} cannot be rewound to {n_past} tokens: it has {len}"
            )));
        }
        self.truncate(i, n_past);
        Ok(())
    }

    fn truncate(&mut self, seq: usize, len: usize) {
        let s = &mut self.sequences[seq];
        s.len = len;
        s.planned = len;
        s.placed = len;
        s.ids.truncate(len);
        while s.pages.len() > len.div_ceil(PAGE_LEN) {
            let Some(page) = s.pages.pop() else { break };
            let users = &mut self.users[page as usize];
            *users -= 1;
            if *users == 0 {
                self.free.push(page);
            }
        }
    }
}

/// A free page, now with one user. The caller has counted that there is one.
fn take(free: &mut Vec<u32>, users: &mut [u32]) -> u32 {
    let page = free.pop().expect("free pages were counted");
    users[page as usize] = 1;
    page
}
