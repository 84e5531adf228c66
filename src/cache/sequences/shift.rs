//! Forgetting tokens in the middle of a sequence: where the tokens after them go.
//!
//! The keys of moved tokens are rotated back by as many positions, in f32, with each layer's own frequencies, and rounded again.
//! Keys are already scaled where YaRN or LongRoPE scales them, so the rotation leaves the scale out. Layers without positions
//! move as they are. The oracle is the text run anew with one layer, whose keys depend on no other tokens.
//! Moved tokens saw the forgotten ones, so their values differ from those of the new text. The tree of prefixes never gets them,
//! and a saved state says where they begin.
//! from where on they are.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::pages::take;
use super::windows::cannot_shift;
use super::{GONE, Group, PAGE_LEN, Sequences, Table};
use crate::cache::pool::Pool;
use crate::cache::reserved;
use crate::error::{Error, Result};

/// What moves in a group when tokens in the middle of a sequence are forgotten.
pub struct Moves {
    /// A page that has to be copied first, with the tokens that stay: from, to.
    pub copy: Option<(u32, u32)>,
    /// The slots of the tokens that move.
    pub from: Vec<u32>,
    /// The slots they move to.
    pub to: Vec<u32>,
}

/// Tokens to forget, in one group.
struct Plan {
    keep: usize,
    drop: usize,
    /// The first position that the sequence has, before and after.
    from: (usize, usize),
    /// The positions that move.
    moved: Range<usize>,
    /// Pages at the beginning of the table that leave it.
    n_left_out: usize,
    /// The pages of the table that are written to.
    written: Range<usize>,
    moves: Moves,
}

impl Sequences {
    /// Removes the `drop` tokens after the first `keep` from `seq`, and finds new slots for those after them, in each group. The
    /// caller has to make the returned moves before anything else.
    ///
    /// Errors, after which nothing has changed: `InvalidArgument` when the sequence is shorter, or when a window would reach
    /// pages that were given back; `ContextFull` when there are too few pages for copies of shared ones, `NoMemory`.
    pub fn shift(&mut self, seq: u32, keep: usize, drop: usize) -> Result<Vec<Moves>> {
        let i = self.index(seq)?;
        let len = self.sequences[i].len;
        let end = keep.checked_add(drop).filter(|&end| end <= len).ok_or_else(|| {
            Error::InvalidArgument(format!(
                "{drop} tokens after the first {keep} of sequence {seq} cannot be forgotten: it has {len}"
            ))
        })?;
        if drop == 0 {
            return Ok(Vec::new());
        }
        let mut plans = Vec::new();
        for (group, table) in self.groups.iter().zip(&self.sequences[i].tables) {
            let old = table.from;
            let from = group.held_after_shift(old, len, keep, drop).ok_or_else(|| {
                cannot_shift(&format!("sequence {seq} of {len} tokens"), keep, drop, group.needed(len))
            })?;
            // The tokens that move, where the first ones of the sequence were given back.
            let moved = end.max(old)..len;
            let moves = Moves { copy: None, from: reserved(moved.len())?, to: reserved(moved.len())? };
            // Where no token in front stays, whole forgotten pages leave the table, and later pages move up.
            let n_left_out = if keep < old { drop / PAGE_LEN } else { 0 };
            // Tokens move into the pages from that of the first forgotten token on.
            let written = match moved.len() {
                0 => n_left_out..n_left_out,
                _ => {
                    n_left_out + (moved.start - drop) / PAGE_LEN..n_left_out + (len - drop).div_ceil(PAGE_LEN)
                }
            };
            plans.push(Plan { keep, drop, from: (old, from), moved, n_left_out, written, moves });
        }
        self.truncate(i, len);
        let tables = self.groups.iter_mut().zip(&mut self.sequences[i].tables);
        tables.for_each(|(group, table)| table.drop_mark(group));
        for (group, plan) in plans.iter().enumerate() {
            self.free_pages_for(group, i, plan.written.clone())?;
        }
        let s = &mut self.sequences[i];
        for ((group, table), plan) in self.groups.iter_mut().zip(&mut s.tables).zip(&mut plans) {
            table.shift(group, plan);
        }
        s.ids.drain(keep..end);
        let plain = s.plain.min(keep);
        self.truncate(i, len - drop);
        let s = &mut self.sequences[i];
        s.plain = if end == len { s.plain } else { plain };
        for (table, plan) in s.tables.iter_mut().zip(&plans) {
            table.nodes.truncate(keep / PAGE_LEN);
            table.from = plan.from.1;
            table.let_go_of_tree();
        }
        self.give_back_passed(i);
        Ok(plans.into_iter().map(|plan| plan.moves).collect())
    }

    /// Ensures a free page of `group` for each page of sequence `i` among `written` that others share. Where free pages are too
    /// few, the tree gives up those of these pages that nobody else has.
    fn free_pages_for(&mut self, group: usize, i: usize, written: Range<usize>) -> Result<()> {
        let is_missing = |page: u32, pool: &Pool| page == GONE || pool.users(page) > 1;
        let needed = |table: &Table, pool: &Pool| {
            let n_missing = written.clone().filter(|&at| is_missing(table.pages[at], pool)).count();
            n_missing.saturating_sub(pool.n_free())
        };
        let is_short = needed(&self.sequences[i].tables[group], &self.groups[group].pool) > 0;
        if is_short {
            self.drop_marks(group);
        }
        let (table, pool) = (&mut self.sequences[i].tables[group], &mut self.groups[group].pool);
        while needed(table, pool) > 0 && table.nodes.len() > written.start {
            let (at, node) = (table.nodes.len() - 1, table.nodes[table.nodes.len() - 1]);
            if table.pages[at] == GONE
                || pool.users(table.pages[at]) > 2
                || !pool.prefixes.as_mut().is_some_and(|tree| tree.remove(node))
            {
                break;
            }
            table.nodes.pop();
            pool.give_back(table.pages[at]);
        }
        table.let_go_of_tree();
        match needed(table, pool) {
            0 => Ok(()),
            n => Err(Error::ContextFull(format!(
                "the tokens of sequence {i} move to pages that others have too, and {n} pages{} are missing to copy those: \
                 rewind a sequence",
                self.called(group)
            ))),
        }
    }
}

impl Table {
    /// Does what `plan` says, except shortening the table.
    fn shift(&mut self, group: &mut Group, plan: &mut Plan) {
        let (keep, drop, moves, pool) = (plan.keep, plan.drop, &mut plan.moves, &mut group.pool);
        moves.from.extend(plan.moved.clone().map(|position| self.slot(position)));
        for at in plan.written.clone() {
            let page = self.pages[at];
            if page == GONE {
                self.pages[at] = take(pool, None);
            } else if pool.users(page) > 1 {
                let new = take(pool, None);
                if at * PAGE_LEN < keep {
                    moves.copy = Some((page, new));
                }
                self.pages[at] = new;
                pool.give_back(page);
            }
        }
        if keep < plan.from.0 {
            for page in self.pages[..plan.written.start].iter_mut().filter(|page| **page != GONE) {
                pool.give_back(std::mem::replace(page, GONE));
            }
            self.pages.drain(..plan.n_left_out);
        }
        let to = plan.moved.start - drop..plan.moved.end - drop;
        moves.to.extend(to.map(|position| self.slot(position)));
    }
}
