//! Page tables: which pages of the KV cache hold which positions of which sequence. Sequences with the same beginning may share
//! pages; a sequence that writes to a shared page takes a copy first. Layers that see equally far back are a [`Group`] with pages
//! of its own, and each sequence has a [`Table`] in it.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::pool::Pool;
use super::prefixes::Prefixes;
use super::{Recurrent, Tokens, reserved};
use crate::error::{Error, Result};
pub use crate::kernels::attention::PAGE_LEN;

mod copies;
mod encoded;
mod marks;
mod pages;
mod reuse;
mod shift;
mod states;
mod windows;

use marks::Mark;
pub use pages::most_pages;
pub use shift::Moves;
use windows::GONE;
pub use windows::Window;

/// One token sequence.
struct Sequence {
    /// Tokens in the cache.
    len: usize,
    /// `len` plus what the call under way adds.
    planned: usize,
    /// Tokens of the call under way that have a slot.
    placed: usize,
    /// Its pages in each group.
    tables: Vec<Table>,
    /// Token of each position, `planned` of them; between two calls those after `len` lie ready to be taken.
    ids: Vec<u32>,
    /// How many tokens at the beginning have the keys and values of their text. A shift moved the tokens after them, or they saw
    /// moved tokens, or a saved state says so. [`ALL`] where no token is affected.
    plain: usize,
}

/// The pages of a sequence in a group.
#[derive(Default)]
struct Table {
    /// The first position with keys and values; 0 unless the group has a [`Window`].
    from: usize,
    /// Page of each `PAGE_LEN` positions, those of tokens that lie ready included; [`GONE`] for those wholly before `from`.
    pages: Vec<u32>,
    /// Entries of `pages` that the call under way uses again further on.
    again: Range<usize>,
    /// For each whole page its node in the group's tree of prefixes, where there is one. The sequence has the page of the last one.
    nodes: Vec<u32>,
    /// Where it can continue from although it has grown since.
    mark: Mark,
}

/// The pages of the layers that see equally far back.
struct Group {
    pool: Pool,
    /// How far that is, unless it is to the beginning.
    window: Option<Window>,
    /// Pages to be copied before the call under way writes: from, to.
    copies: Vec<(u32, u32)>,
    /// How many pages further on the call under way writes to a page again.
    ring: usize,
}

/// Stands for all tokens.
pub const ALL: usize = usize::MAX;

/// All sequences of a context, and the free pages.
pub struct Sequences {
    sequences: Vec<Sequence>,
    /// At least one.
    groups: Vec<Group>,
    n_ctx: usize,
    /// The states of recurrent layers.
    recurrent: Option<Recurrent>,
    /// The token that begins the decoder's part of a sequence, after the part that an encoder reads.
    decoder_start: Option<u32>,
}

impl Sequences {
    /// `n_seq` empty sequences of up to `n_ctx` tokens. `groups`: the window and the number of pages of each group. With
    /// `keeps_prefixes` whole pages are kept for later texts with the same beginning, until the pages are needed.
    pub fn new(
        n_seq: usize,
        n_ctx: usize,
        groups: &[(Option<Window>, usize)],
        keeps_prefixes: bool,
        recurrent: Option<Recurrent>,
    ) -> Result<Sequences> {
        let group = |&(window, n_pages): &(Option<Window>, usize)| {
            let has_gaps = window.is_some_and(|window: Window| window.gives_back());
            let pool = Pool::new(n_pages, keeps_prefixes.then(|| Prefixes::new(has_gaps)))?;
            Ok(Group { pool, window, copies: Vec::with_capacity(n_seq), ring: usize::MAX })
        };
        let groups = groups.iter().map(group).collect::<Result<Vec<_>>>()?;
        let mut sequences = Vec::new();
        for _ in 0..n_seq {
            let mut tables = Vec::new();
            for group in &groups {
                let pages = reserved(n_ctx.div_ceil(PAGE_LEN))?;
                tables.push(Table { pages, mark: Mark::of(group, n_ctx)?, ..Table::default() });
            }
            let ids = reserved(n_ctx)?;
            sequences.push(Sequence { len: 0, planned: 0, placed: 0, tables, ids, plain: ALL });
        }
        Ok(Sequences { sequences, groups, n_ctx, recurrent, decoder_start: None })
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

    /// Checks the sequences and positions of `tokens` and takes all pages they need; on error nothing changes.
    /// [`Sequences::copies`] have to be made before anything is written.
    pub fn begin(&mut self, tokens: &Tokens<'_>, n_ahead: usize) -> Result<()> {
        self.forget_plan();
        let planned = (0..tokens.ids.len()).try_for_each(|i| self.plan_token(tokens, i));
        let planned = planned.and_then(|()| self.check_encoded());
        if let Err(error) = planned.and_then(|()| self.take_pages()) {
            self.forget_plan();
            return Err(error);
        }
        if let Some(recurrent) = &mut self.recurrent {
            for (i, s) in self.sequences.iter().enumerate() {
                recurrent.begin(i, s.len, s.planned, if s.planned > s.len { n_ahead } else { 0 });
            }
        }
        Ok(())
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

    /// Makes `to` the first `n` tokens of `from`, and both share the pages. What `to` held is gone.
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
            format_args!("the first {n} of sequence {from}'s {len} tokens cannot be copied"),
        )?;
        self.truncate(target, 0);
        self.recurrent.iter_mut().for_each(|recurrent| recurrent.copy(source, target, n));
        let [source, target] = match self.sequences.get_disjoint_mut([source, target]) {
            Ok(both) => both,
            Err(_) => return Err(Error::Internal("two sequences are one".into())),
        };
        for ((group, source), target) in self.groups.iter_mut().zip(&source.tables).zip(&mut target.tables) {
            if source.needs_mark(group, n) {
                target.become_mark(group, &source.mark);
                continue;
            }
            target.pages.extend_from_slice(&source.pages[..n.div_ceil(PAGE_LEN)]);
            target.nodes.extend(source.nodes.iter().take(n / PAGE_LEN));
            target.from = if n == 0 { 0 } else { source.from };
            target.held().iter().for_each(|&page| group.pool.share(page));
        }
        target.ids.extend_from_slice(&source.ids[..n]);
        (target.len, target.planned, target.placed) = (n, n, n);
        target.plain = if n <= source.plain { ALL } else { source.plain };
        Ok(())
    }

    /// How many tokens of `seq` at the beginning have the keys and values of their text; [`ALL`] if no shift moved any.
    pub fn plain(&self, seq: usize) -> usize {
        self.sequences[seq].plain
    }

    /// Gives the empty sequence `seq` the tokens `ids` and lent pages of each group, which several sequences may share. They
    /// begin at a position that [`Sequences::held_from`] gave; `plain` is as [`Sequences::plain`] gave it. Without `keeps` no
    /// text of another sequence will begin with these pages.
    pub fn restore(
        &mut self,
        seq: usize,
        ids: impl Iterator<Item = u32>,
        tables: impl Iterator<Item = (usize, Vec<u32>)>,
        plain: usize,
        keeps: bool,
    ) {
        let s = &mut self.sequences[seq];
        s.plain = plain;
        s.ids.extend(ids);
        for ((group, table), (from, pages)) in self.groups.iter_mut().zip(&mut s.tables).zip(tables) {
            table.from = from;
            table.pages.resize(from / PAGE_LEN, GONE);
            table.pages.extend(pages);
            table.held().iter().for_each(|&page| group.pool.share(page));
        }
        (s.len, s.planned, s.placed) = (s.ids.len(), s.ids.len(), s.ids.len());
        self.match_prefix(seq, keeps);
        let s = &mut self.sequences[seq];
        let n_known = s.tables.iter().map(|table| table.nodes.len() * PAGE_LEN).min().unwrap_or(0);
        if !keeps && self.groups[0].pool.prefixes.is_some() && n_known < s.len {
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

    /// Leaves the last `n` tokens of the call under way out of `seq`. They lie ready after it until the next call, or until the
    /// sequence is cut.
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

    /// The position of the next token of `seq` in the call under way.
    pub fn place(&mut self, seq: usize) -> usize {
        let s = &mut self.sequences[seq];
        let position = s.placed;
        s.placed += 1;
        position
    }

    /// The call under way succeeded.
    pub fn commit(&mut self) {
        for i in 0..self.sequences.len() {
            let len = self.sequences[i].planned;
            let n_new = len - self.sequences[i].len;
            self.sequences[i].len = len;
            self.sequences[i].tables.iter_mut().for_each(Table::end_ring);
            self.recurrent.iter_mut().for_each(|recurrent| recurrent.commit(i, len));
            self.settle(i);
            if n_new > 1 {
                self.set_marks(i);
            }
        }
    }

    /// Has sequence `i`, which has grown, keep its useful pages and states.
    fn settle(&mut self, i: usize) {
        self.keep_prefix(i);
        self.keep_states(i);
        self.give_back_passed(i);
    }

    /// The call under way failed: its tokens and pages are given back.
    pub fn roll_back(&mut self) {
        for i in 0..self.sequences.len() {
            self.truncate(i, self.sequences[i].len);
        }
    }

    /// Shortens `seq` to `n_past` tokens and frees the pages after them.
    pub fn rewind(&mut self, seq: u32, n_past: usize) -> Result<()> {
        let i = self.index(seq)?;
        let len = self.sequences[i].len;
        if n_past > len {
            return Err(Error::InvalidArgument(format!(
                "sequence {seq} cannot be rewound to {n_past} tokens: it has {len}"
            )));
        }
        self.check_cut(
            i,
            n_past,
            format_args!("sequence {seq} of {len} tokens cannot be rewound to {n_past}"),
        )?;
        self.truncate(i, n_past);
        Ok(())
    }

    fn truncate(&mut self, seq: usize, len: usize) {
        let s = &mut self.sequences[seq];
        s.len = len;
        s.planned = len;
        s.placed = len;
        s.ids.truncate(len);
        if len <= s.plain {
            s.plain = ALL;
        }
        self.groups.iter_mut().zip(&mut s.tables).for_each(|(group, table)| table.truncate(group, len));
        self.recurrent.iter_mut().for_each(|recurrent| recurrent.truncate(seq, len));
    }
}
