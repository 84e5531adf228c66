//! Tokens in the midst of a sequence are forgotten: where those behind them go.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::windows::cannot_shift;
use super::{GONE, PAGE_LEN, Sequence, Sequences, take};
use crate::cache::pool::Pool;
use crate::cache::reserved;
use crate::error::{Error, Result};

/// What moves when tokens in the midst of a sequence are forgotten.
pub struct Moves {
    /// A page that has to be copied first, with the tokens that stay: from, to.
    pub copy: Option<(u32, u32)>,
    /// The slots of the tokens that move.
    pub from: Vec<u32>,
    /// The slots they move to.
    pub to: Vec<u32>,
}

impl Sequences {
    /// Takes the `drop` tokens behind the first `keep` out of `seq`, and finds place for those behind them. What is
    /// returned has to be done before anything else.
    ///
    /// Errors, after which nothing has changed: `InvalidArgument` when the sequence is shorter, or its window would reach what
    /// was given back; `ContextFull` when there are too few pages in place of those that others have too, `NoMemory`.
    pub fn shift(&mut self, seq: u32, keep: usize, drop: usize) -> Result<Moves> {
        let i = self.index(seq)?;
        let len = self.sequences[i].len;
        let end = keep.checked_add(drop).filter(|&end| end <= len).ok_or_else(|| {
            Error::InvalidArgument(format!(
                "{drop} tokens behind the first {keep} of sequence {seq} cannot be forgotten: it has {len}"
            ))
        })?;
        if drop == 0 {
            return Ok(Moves { copy: None, from: Vec::new(), to: Vec::new() });
        }
        let old = self.sequences[i].from;
        let from = self.held_after_shift(old, len, keep, drop).ok_or_else(|| {
            cannot_shift(&format!("sequence {seq} of {len} tokens"), keep, drop, self.needed(len))
        })?;
        self.truncate(i, len);
        // What moves of a sequence whose first tokens were given back.
        let first = end.max(old);
        let n_moved = len - first;
        let mut moves = Moves { copy: None, from: reserved(n_moved)?, to: reserved(n_moved)? };
        // Where nothing in front stays, whole pages that are forgotten leave the table, in which those behind them move up.
        let n_left_out = if keep < old { drop / PAGE_LEN } else { 0 };
        // Pages from the one of the first token that is forgotten are written to, as far as tokens move there.
        let written = match n_moved {
            0 => n_left_out..n_left_out,
            _ => n_left_out + (first - drop) / PAGE_LEN..n_left_out + (len - drop).div_ceil(PAGE_LEN),
        };
        self.make_room(i, written.clone())?;
        let (s, pool) = (&mut self.sequences[i], &mut self.pool);
        moves.from.extend((first..len).map(|position| s.slot(position)));
        for at in written.clone() {
            let page = s.pages[at];
            if page == GONE {
                s.pages[at] = take(pool, None);
            } else if pool.users(page) > 1 {
                let new = take(pool, None);
                if at * PAGE_LEN < keep {
                    moves.copy = Some((page, new));
                }
                s.pages[at] = new;
                pool.give_back(page);
            }
        }
        if keep < old {
            for page in s.pages[..written.start].iter_mut().filter(|page| **page != GONE) {
                pool.give_back(std::mem::replace(page, GONE));
            }
            s.pages.drain(..n_left_out);
        }
        moves.to.extend((first - drop..len - drop).map(|position| s.slot(position)));
        s.ids.drain(keep..end);
        let plain = s.plain.min(keep);
        self.truncate(i, len - drop);
        let s = &mut self.sequences[i];
        s.nodes.truncate(keep / PAGE_LEN);
        s.plain = if n_moved == 0 { s.plain } else { plain };
        s.from = from;
        s.let_go_of_tree();
        self.give_back_behind(i);
        Ok(moves)
    }

    /// Sees that there is a free page for each page of sequence `i` among `written` that others have too. Where they are too
    /// few, the tree gives up those of these pages that nobody else has.
    fn make_room(&mut self, i: usize, written: Range<usize>) -> Result<()> {
        let (s, pool) = (&mut self.sequences[i], &mut self.pool);
        let is_missing = |page: u32, pool: &Pool| page == GONE || pool.users(page) > 1;
        let needed = |s: &Sequence, pool: &Pool| {
            let n_missing = written.clone().filter(|&at| is_missing(s.pages[at], pool)).count();
            n_missing.saturating_sub(pool.n_free())
        };
        while needed(s, pool) > 0 && s.nodes.len() > written.start {
            let (at, node) = (s.nodes.len() - 1, s.nodes[s.nodes.len() - 1]);
            if s.pages[at] == GONE
                || pool.users(s.pages[at]) > 2
                || !pool.prefixes.as_mut().is_some_and(|tree| tree.remove(node))
            {
                break;
            }
            s.nodes.pop();
            pool.give_back(s.pages[at]);
        }
        s.let_go_of_tree();
        match needed(s, pool) {
            0 => Ok(()),
            n => Err(Error::ContextFull(format!(
                "the tokens of sequence {i} move to pages that others have too, and {n} pages are missing to copy those: \
                 rewind a sequence"
            ))),
        }
    }
}
