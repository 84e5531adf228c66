//! Page tables: which pages of the KV cache hold which positions of which sequence. Sequences that begin alike may share
//! pages; one that writes to a page which others have too takes a copy first.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::pool::Pool;
use super::prefixes::Prefixes;
use super::{Recurrent, Tokens};
use crate::error::{Error, Result};
pub use crate::kernels::attention::PAGE_LEN;

mod copies;
mod reuse;
mod shift;
mod states;
mod windows;

use windows::GONE;
pub use windows::Window;

/// One token sequence.
struct Sequence {
    /// Tokens in the cache.
    len: usize,
    /// `len` plus what the call under way adds.
    planned: usize,
    /// Tokens of the call under way that were given a slot.
    placed: usize,
    /// From which position on keys and values are there; 0 unless the model has a [`Window`].
    from: usize,
    /// Page of each `PAGE_LEN` positions, those of tokens that lie ready included; [`GONE`] for those wholly before `from`.
    pages: Vec<u32>,
    /// Entries of `pages` that the call under way uses once more further behind.
    again: Range<usize>,
    /// Token of each position, `planned` of them; between two calls those behind `len` lie ready to be taken.
    ids: Vec<u32>,
    /// For each whole page its node in the tree of prefixes, where there is one. The sequence has the page of the last one.
    nodes: Vec<u32>,
    /// Of how many tokens keys and values are those of a text that begins so; behind them are tokens that were moved there
    /// by a shift, or saw such, or of which only a state says so. [`ALL`] where that is true of none.
    plain: usize,
}

/// In place of a number of tokens: however many there are.
pub const ALL: usize = usize::MAX;

/// All sequences of a context and the pages none of them uses.
pub struct Sequences {
    sequences: Vec<Sequence>,
    pool: Pool,
    /// Pages to be copied before the call under way writes: from, to.
    copies: Vec<(u32, u32)>,
    n_ctx: usize,
    window: Option<Window>,
    /// The states of recurrent layers.
    recurrent: Option<Recurrent>,
}

impl Sequences {
    /// `n_seq` empty sequences of up to `n_ctx` tokens, and the pages that they have at most together, but no more than
    /// `most_pages`. With `keeps_prefixes` whole pages are kept for later texts that begin alike, until the room is needed.
    pub fn new(
        n_seq: usize,
        n_ctx: usize,
        most_pages: usize,
        keeps_prefixes: bool,
        window: Option<Window>,
        recurrent: Option<Recurrent>,
    ) -> Result<Sequences> {
        let per_seq = n_ctx.div_ceil(PAGE_LEN);
        let too_many = || {
            Error::NoMemory(format!("a KV cache for {n_seq} sequences of {n_ctx} tokens has too many pages"))
        };
        let at_once = window.map_or(per_seq, |window| window.most_pages().min(per_seq));
        let has_gaps = window.is_some_and(|window| window.gives_back());
        let all = at_once.checked_mul(n_seq).map(|n| n.min(most_pages));
        let n_pages = all.filter(|&n| n < (1 << 27)).ok_or_else(too_many)?;
        let pool = Pool::new(n_pages, keeps_prefixes.then(|| Prefixes::new(has_gaps)))?;
        let mut sequences = Vec::new();
        for _ in 0..n_seq {
            let mut pages = Vec::new();
            pages.try_reserve_exact(per_seq).map_err(|_| too_many())?;
            let mut ids = Vec::new();
            ids.try_reserve_exact(n_ctx).map_err(|_| too_many())?;
            sequences.push(Sequence {
                len: 0,
                planned: 0,
                placed: 0,
                from: 0,
                pages,
                again: 0..0,
                ids,
                nodes: Vec::new(),
                plain: ALL,
            });
        }
        Ok(Sequences { sequences, pool, copies: Vec::with_capacity(n_seq), n_ctx, window, recurrent })
    }

    /// Pages in all.
    pub fn n_pages(&self) -> usize {
        self.pool.len()
    }

    /// Pages that no sequence has.
    pub fn n_free(&self) -> usize {
        self.pool.n_free()
    }

    /// Moves `n` of the [`Sequences::n_free`] pages to the end of `pages`, until [`Sequences::give_back`]. No sequence
    /// may grow meanwhile.
    pub fn lend(&mut self, n: usize, pages: &mut Vec<u32>) {
        for _ in 0..n {
            pages.extend(self.pool.take(pages.last().copied()));
        }
    }

    /// Takes back all that was lent.
    pub fn give_back(&mut self, pages: &mut Vec<u32>) {
        pages.drain(..).rev().for_each(|page| self.pool.give_back(page));
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
    pub fn begin(&mut self, tokens: &Tokens<'_>, n_ahead: usize) -> Result<&[(u32, u32)]> {
        self.forget_plan();
        let planned = (0..tokens.ids.len()).try_for_each(|i| self.plan_token(tokens, i));
        if let Err(error) = planned.and_then(|()| self.take_pages()) {
            self.forget_plan();
            return Err(error);
        }
        if let Some(recurrent) = &mut self.recurrent {
            for (i, s) in self.sequences.iter().enumerate() {
                recurrent.begin(i, s.len, s.planned, if s.planned > s.len { n_ahead } else { 0 });
            }
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
                "sequence {seq} holds {} of n_ctx {n_ctx} tokens; the batch of {} does not fit",
                s.len,
                tokens.ids.len()
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
        let n_new = |most: usize| self.sequences.iter().map(|s| new(s).min(most)).sum::<usize>();
        let (n_all, n_least) = (n_new(usize::MAX), n_new(self.ring()));
        self.find_copies();
        // Counting takes a look at all pages, which most calls can do without.
        let mut n_free = if n_all + self.copies.len() == 0 { 0 } else { self.pool.n_free() };
        if n_least + self.copies.len() > n_free && self.give_up_kept_copies() {
            n_free = self.pool.n_free();
        }
        let needed = n_all + self.copies.len();
        // Where they are too few for all, what no row sees any more is written to again.
        let (needed, ring) = match needed > n_free {
            true => (n_least + self.copies.len(), self.ring()),
            false => (needed, usize::MAX),
        };
        if needed > n_free {
            self.copies.clear();
            return Err(Error::ContextFull(format!(
                "the batch needs {needed} more pages of {PAGE_LEN} tokens, but {n_free} of the {} that the KV cache has are \
                 free: rewind a sequence",
                self.pool.len()
            )));
        }
        for at in 0..self.copies.len() {
            let (from, seq) = self.copies[at];
            let to = take(&mut self.pool, None);
            self.sequences[seq as usize].pages.last_mut().into_iter().for_each(|last| *last = to);
            self.copies[at] = (from, to);
        }
        for s in &mut self.sequences {
            let begin = s.pages.len();
            while s.pages.len() * PAGE_LEN < s.planned {
                let again = s.pages.len().checked_sub(ring).filter(|&at| at >= begin).map(|at| s.pages[at]);
                s.pages.push(again.unwrap_or_else(|| take(&mut self.pool, s.pages.last().copied())));
            }
            s.again = begin..s.pages.len().saturating_sub(ring).max(begin);
        }
        // Only now, lest a page that is to be copied be taken for another.
        self.copies.iter().for_each(|&(from, _)| self.pool.give_back(from));
        Ok(())
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
        self.check_cut(
            source,
            n,
            &format!("the first {n} of sequence {from}'s {len} tokens cannot be copied"),
        )?;
        self.truncate(target, 0);
        self.recurrent.iter_mut().for_each(|recurrent| recurrent.copy(source, target, n));
        let [source, target] = match self.sequences.get_disjoint_mut([source, target]) {
            Ok(both) => both,
            Err(_) => return Err(Error::Internal("two sequences are one".into())),
        };
        target.pages.extend_from_slice(&source.pages[..n.div_ceil(PAGE_LEN)]);
        target.nodes.extend(source.nodes.iter().take(n / PAGE_LEN));
        target.from = if n == 0 { 0 } else { source.from };
        target.held().iter().for_each(|&page| self.pool.share(page));
        target.ids.extend_from_slice(&source.ids[..n]);
        (target.len, target.planned, target.placed) = (n, n, n);
        target.plain = if n <= source.plain { ALL } else { source.plain };
        Ok(())
    }

    /// How many pages would be free if the sequences `seqs` were empty.
    pub fn n_free_without(&mut self, seqs: std::ops::Range<usize>) -> usize {
        let pages: Vec<u32> = self.sequences[seqs].iter().flat_map(|s| s.held().iter().copied()).collect();
        self.pool.n_free_without(&pages)
    }

    /// Of how many tokens of `seq` keys and values are those of a text that begins so; [`ALL`] if no shift moved any.
    pub fn plain(&self, seq: usize) -> usize {
        self.sequences[seq].plain
    }

    /// Gives the empty sequence `seq` the tokens `ids` and pages that were lent, each perhaps to several sequences;
    /// `plain` and `from` as [`Sequences::plain`] and [`Sequences::held_from`] gave them. Without `keeps` no text of another
    /// sequence will begin with these pages.
    pub fn restore(
        &mut self,
        seq: usize,
        ids: impl Iterator<Item = u32>,
        pages: impl Iterator<Item = u32>,
        (plain, from): (usize, usize),
        keeps: bool,
    ) {
        let s = &mut self.sequences[seq];
        (s.plain, s.from) = (plain, from);
        s.ids.extend(ids);
        s.pages.resize(from / PAGE_LEN, GONE);
        s.pages.extend(pages);
        s.held().iter().for_each(|&page| self.pool.share(page));
        (s.len, s.planned, s.placed) = (s.ids.len(), s.ids.len(), s.ids.len());
        self.match_prefix(seq, keeps);
        let s = &mut self.sequences[seq];
        let n_known = s.nodes.len() * PAGE_LEN;
        if !keeps && self.pool.prefixes.is_some() && n_known < s.len {
            s.plain = s.plain.min(n_known);
        }
    }

    /// Sequences.
    pub fn n_seq(&self) -> usize {
        self.sequences.len()
    }

    fn forget_plan(&mut self) {
        for i in 0..self.sequences.len() {
            self.truncate(i, self.sequences[i].len);
        }
    }

    /// Leaves the last `n` tokens of the call under way, which are of `seq`, out of the sequence. They lie ready behind it
    /// until the next call, or until the sequence is cut.
    pub fn hold_back(&mut self, seq: u32, n: usize) {
        self.sequences[seq as usize].planned -= n;
    }

    /// Takes token `id` into `seq`, if it is the next that lies ready.
    pub fn advance(&mut self, seq: u32, id: u32) -> bool {
        let s = &mut self.sequences[seq as usize];
        if s.ids.get(s.len) != Some(&id) {
            return false;
        }
        s.len += 1;
        (s.planned, s.placed) = (s.len, s.len);
        let len = s.len;
        self.recurrent.iter_mut().for_each(|recurrent| recurrent.advance(seq as usize, len));
        self.settle(seq as usize);
        true
    }

    /// The position and KV slot of the next token of `seq` in the call under way.
    pub fn place(&mut self, seq: usize) -> (usize, u32) {
        let s = &mut self.sequences[seq];
        let position = s.placed;
        s.placed += 1;
        (position, s.slot(position))
    }

    /// The page table of `seq`, the call under way included.
    pub fn pages(&self, seq: usize) -> &[u32] {
        &self.sequences[seq].pages
    }

    /// The pages of what `seq` holds, from position [`Sequences::held_from`] on.
    pub fn held_pages(&self, seq: usize) -> &[u32] {
        let s = &self.sequences[seq];
        &s.pages[s.from / PAGE_LEN..s.len.div_ceil(PAGE_LEN)]
    }

    /// The call under way succeeded.
    pub fn commit(&mut self) {
        for i in 0..self.sequences.len() {
            let len = self.sequences[i].planned;
            self.sequences[i].len = len;
            self.sequences[i].end_ring();
            self.recurrent.iter_mut().for_each(|recurrent| recurrent.commit(i, len));
            self.settle(i);
        }
    }

    /// Has sequence `i`, which has grown, keep what is of use.
    fn settle(&mut self, i: usize) {
        self.keep_prefix(i);
        self.keep_states(i);
        self.give_back_behind(i);
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
        self.check_cut(i, n_past, &format!("sequence {seq} of {len} tokens cannot be rewound to {n_past}"))?;
        self.truncate(i, n_past);
        Ok(())
    }

    fn truncate(&mut self, seq: usize, len: usize) {
        let s = &mut self.sequences[seq];
        s.end_ring();
        s.len = len;
        s.planned = len;
        s.placed = len;
        s.ids.truncate(len);
        s.nodes.truncate(len / PAGE_LEN);
        if len <= s.plain {
            s.plain = ALL;
        }
        while s.pages.len() > len.div_ceil(PAGE_LEN) {
            let page = s.pages.pop().filter(|&page| page != GONE);
            page.into_iter().for_each(|page| self.pool.give_back(page));
        }
        if len == 0 {
            s.from = 0;
        }
        self.recurrent.iter_mut().for_each(|recurrent| recurrent.truncate(seq, len));
    }
}

impl Sequence {
    /// The pages that it has, those of tokens that lie ready included.
    fn held(&self) -> &[u32] {
        &self.pages[self.from / PAGE_LEN..]
    }

    /// The KV slot of a position.
    fn slot(&self, position: usize) -> u32 {
        (self.pages[position / PAGE_LEN] as usize * PAGE_LEN + position % PAGE_LEN) as u32
    }
}

/// A page, see [`Pool::take`]; the caller has counted that there is one.
fn take(pool: &mut Pool, after: Option<u32>) -> u32 {
    pool.take(after).expect("free pages were counted")
}
