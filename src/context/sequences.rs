//! Page tables: which pages of the KV cache hold which positions of which sequence.
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
    n_ctx: usize,
    n_pages: usize,
}

impl Sequences {
    /// `n_seq` empty sequences of up to `n_ctx` tokens, and the pages to hold them all.
    pub fn new(n_seq: usize, n_ctx: usize) -> Result<Sequences> {
        let per_seq = n_ctx.div_ceil(PAGE_LEN);
        let too_many = || {
            Error::NoMemory(format!("a KV cache for {n_seq} sequences of {n_ctx} tokens has too many pages"))
        };
        let n_pages = per_seq.checked_mul(n_seq).filter(|&n| n < (1 << 27)).ok_or_else(too_many)?;
        let mut free = Vec::new();
        free.try_reserve_exact(n_pages).map_err(|_| too_many())?;
        free.extend((0..n_pages as u32).rev());
        let mut sequences = Vec::new();
        for _ in 0..n_seq {
            let mut pages = Vec::new();
            pages.try_reserve_exact(per_seq).map_err(|_| too_many())?;
            let mut ids = Vec::new();
            ids.try_reserve_exact(n_ctx).map_err(|_| too_many())?;
            sequences.push(Sequence { len: 0, planned: 0, placed: 0, pages, ids });
        }
        Ok(Sequences { sequences, free, n_ctx, n_pages })
    }

    /// Pages in all.
    pub fn n_pages(&self) -> usize {
        self.n_pages
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
    /// changes.
    pub fn begin(&mut self, tokens: &Tokens<'_>) -> Result<()> {
        self.forget_plan();
        let outcome = (0..tokens.ids.len()).try_for_each(|i| self.plan_token(tokens, i));
        match outcome {
            Ok(()) => self.take_pages(),
            Err(_) => self.forget_plan(),
        }
        outcome
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

    /// There are pages for every sequence at its full length, so this cannot run out.
    fn take_pages(&mut self) {
        for s in &mut self.sequences {
            while s.pages.len() * PAGE_LEN < s.planned {
                let page = self.free.pop().expect("there are pages for all sequences at full length");
                s.pages.push(page);
            }
        }
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
            self.free.extend(s.pages.pop());
        }
    }
}
