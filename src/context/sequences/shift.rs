//! Tokens in the midst of a sequence are forgotten: where those behind them go.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{PAGE_LEN, Sequence, Sequences, take};
use crate::context::plan::reserved;
use crate::context::pool::Pool;
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
    /// Errors, after which nothing has changed: `InvalidArgument` when the sequence is shorter, `ContextFull` when there
    /// are too few pages in place of those that others have too, `NoMemory`.
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
        self.truncate(i, len);
        let n_moved = len - end;
        let mut moves = Moves { copy: None, from: reserved(n_moved)?, to: reserved(n_moved)? };
        // Pages from the one of the first token that is forgotten are written to, as far as tokens move there.
        let written = keep / PAGE_LEN..if n_moved == 0 { 0 } else { (len - drop).div_ceil(PAGE_LEN) };
        self.make_room(i, written.clone())?;
        let (s, pool) = (&mut self.sequences[i], &mut self.pool);
        moves.from.extend((end..len).map(|position| s.slot(position)));
        for at in written {
            let page = s.pages[at];
            if pool.users(page) > 1 {
                let new = take(pool);
                if at * PAGE_LEN < keep {
                    moves.copy = Some((page, new));
                }
                s.pages[at] = new;
                pool.give_back(page);
            }
        }
        moves.to.extend((keep..len - drop).map(|position| s.slot(position)));
        s.ids.drain(keep..end);
        let plain = s.plain.min(keep);
        self.truncate(i, len - drop);
        let s = &mut self.sequences[i];
        s.nodes.truncate(keep / PAGE_LEN);
        s.plain = if n_moved == 0 { s.plain } else { plain };
        Ok(moves)
    }

    /// Sees that there is a free page for each page of sequence `i` among `written` that others have too. Where they are too
    /// few, the tree gives up those of these pages that nobody else has.
    fn make_room(&mut self, i: usize, written: Range<usize>) -> Result<()> {
        let (s, pool) = (&mut self.sequences[i], &mut self.pool);
        let needed = |s: &Sequence, pool: &Pool| {
            written.clone().filter(|&at| pool.users(s.pages[at]) > 1).count().saturating_sub(pool.n_free())
        };
        while needed(s, pool) > 0 && s.nodes.len() > written.start {
            let (at, node) = (s.nodes.len() - 1, s.nodes[s.nodes.len() - 1]);
            if pool.users(s.pages[at]) > 2 || !pool.prefixes.as_mut().is_some_and(|tree| tree.remove(node)) {
                break;
            }
            s.nodes.pop();
            pool.give_back(s.pages[at]);
        }
        match needed(s, pool) {
            0 => Ok(()),
            n => Err(Error::ContextFull(format!(
                "the tokens of sequence {i} move to pages that others have too, and {n} pages are missing to copy those: \
                 rewind a sequence"
            ))),
        }
    }
}
