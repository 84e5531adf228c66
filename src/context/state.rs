//! Sequences as bytes: saved, and restored in another process with the same model.
//!
//! Little-endian: magic, version, fingerprint of the model, shape of the cache; the sequences; the pages of each group, each one
//! time however many sequences share it; logits; in models with recurrent layers the states of each sequence; a checksum of all
//! that.
//! Of each sequence: its length, whether its logits follow, how many tokens stand before those that a shift moved, for each group
//! of layers its first position there and the numbers of its pages from that one on, and its tokens.
//! The checksum finds damage, not malice: whoever can write a state can forge its content.
//!
//! A state of all positions loads into a context that keeps only a window's positions, and the other way round. What a page holds
//! after the end of its sequences is left out, since it may be another sequence's. Loading checks everything first and cannot
//! fail once it begins.
#![forbid(unsafe_code)]

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use xxhash_rust::xxh3::Xxh3;

use super::{Context, Origin, Place};
use crate::backend::KvType;
use crate::cache::PAGE_LEN;
use crate::error::{Error, Result};

mod parse;

const MAGIC: &[u8; 8] = b"emberkv\n";
const VERSION: u32 = 4;
/// Set in the number of sequences where they are all those of a context. (Older states of a context, without this bit, are
/// recognized by having several.)
const WHOLE: u32 = 1 << 31;
/// Set in the number of sequences where keys are those of a long context ([`Model::n_ctx_short`](crate::arch::Model)).
const LONG: u32 = 1 << 30;
/// Stands for all tokens.
const ALL_TOKENS: u32 = u32::MAX;
/// Bytes of a fingerprint or a checksum.
const HASH_BYTES: usize = 16;

/// Receives the bytes of a state in chunks.
pub type Writer<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

/// Hashes and counts what passes through.
struct Sink<'a, 'b> {
    write: &'a mut Writer<'b>,
    hash: Xxh3,
}

impl Sink<'_, '_> {
    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.hash.update(bytes);
        (self.write)(bytes)
    }

    fn u32s(&mut self, numbers: impl IntoIterator<Item = u32>) -> Result<()> {
        numbers.into_iter().try_for_each(|n| self.bytes(&n.to_le_bytes()))
    }
}

fn type_number(kv_type: KvType) -> u32 {
    match kv_type {
        KvType::F16 => 0,
        KvType::F32 => 1,
        KvType::Q8_0 => 2,
        KvType::I16 => 3,
    }
}

/// A number of [`Context::state_shape`] as errors give it.
fn shown(name: &str, number: u32) -> String {
    let mut types = [KvType::F16, KvType::F32, KvType::Q8_0, KvType::I16].into_iter();
    match types.find(|kv_type| name.ends_with("_type") && type_number(*kv_type) == number) {
        Some(kv_type) => format!("{kv_type:?}").to_lowercase(),
        None => number.to_string(),
    }
}

/// One saved sequence.
struct Entry<'a> {
    /// For each group the first position with keys and values, and its page numbers among the state's pages.
    tables: Vec<(usize, Vec<u32>)>,
    /// Ids, four bytes each.
    ids: &'a [u8],
    /// The logits after the last token, four bytes each; empty when they were not there.
    logits: &'a [u8],
    /// Tokens before the first one that a shift moved, or that saw a moved one.
    plain: usize,
    /// Recurrent states, and the number of tokens before each, ascending.
    states: Vec<(usize, &'a [u8])>,
}

/// A state that was checked to be whole and to fit.
struct Parsed<'a> {
    entries: Vec<Entry<'a>>,
    /// Of each group.
    pages: Vec<Vec<&'a [u8]>>,
}

impl Context {
    /// The sequences that `seq` means: one, or all of them for `None`.
    fn range(&self, seq: Option<u32>) -> Result<Range<u32>> {
        match seq {
            None => Ok(0..self.sequences.n_seq() as u32),
            Some(seq) => self.n_past(seq).map(|_| seq..seq + 1),
        }
    }

    /// The numbers before the sequences. A state loads only if they are equal.
    fn state_shape(&self) -> [u32; 6] {
        let info = self.model.info();
        let (k_type, v_type) = self.runner.kv_types();
        let n_layers: usize = (0..info.windows.len()).map(|group| info.kv_layers(group).len()).sum();
        [
            type_number(k_type),
            type_number(v_type),
            n_layers as u32,
            self.model.info().n_head_kv as u32,
            self.model.info().head_dim as u32,
            PAGE_LEN as u32,
        ]
    }

    /// Bits in the number of sequences of a state: whether it is of all of them, and whether keys are those of a long context.
    fn state_bits(&self, seq: Option<u32>) -> u32 {
        let whole = if seq.is_none() { WHOLE } else { 0 };
        let n_ctx_short = self.model.threaded().n_ctx_short();
        whole | if n_ctx_short.is_some_and(|n| self.options.n_ctx > n) { LONG } else { 0 }
    }

    /// Bytes that [`Context::save_state`] would write.
    pub fn state_len(&self, seq: Option<u32>) -> Result<u64> {
        self.model.require_logits()?;
        let range = self.range(seq)?;
        let mut len = MAGIC.len() + 4 + HASH_BYTES + 4 * self.state_shape().len() + 4 + HASH_BYTES;
        for group in self.groups() {
            len += 4 + self.pages_of(group, range.clone())?.len() * self.runner.pages(group).page_bytes();
        }
        for seq in range {
            let logits = self.end_logits(seq).map_or(0, <[f32]>::len);
            let held = |group| 1 + self.sequences.held_pages(group, seq as usize).len();
            len += 4 * (3 + self.groups().map(held).sum::<usize>() + self.n_past(seq)? + logits);
            if let Some(held) = self.sequences.held_states(seq as usize) {
                len += 4 + held.len() * (4 + self.runner.states().slot_bytes());
            }
        }
        Ok(len as u64)
    }

    /// The groups of layers.
    fn groups(&self) -> Range<usize> {
        0..self.sequences.n_groups()
    }

    /// The pages of a group that some sequences have, in the order of their first use, and the useful tokens in each.
    fn pages_of(&self, group: usize, range: Range<u32>) -> Result<Vec<(u32, Range<usize>)>> {
        let mut order: Vec<(u32, Range<usize>)> = Vec::new();
        let mut numbers: HashMap<u32, usize> = HashMap::new();
        for seq in range {
            let (len, from) = (self.n_past(seq)?, self.sequences.held_from(group, seq as usize));
            for (i, &page) in (from / PAGE_LEN..).zip(self.sequences.held_pages(group, seq as usize)) {
                let first = i * PAGE_LEN;
                let own = from.saturating_sub(first)..PAGE_LEN.min(len - first);
                let number = *numbers.entry(page).or_insert_with(|| {
                    order.push((page, own.clone()));
                    order.len() - 1
                });
                let used = &mut order[number].1;
                *used = used.start.min(own.start)..used.end.max(own.end);
            }
        }
        Ok(order)
    }

    /// Hands the tokens and the cache of sequence `seq`, or of all sequences, to `write`, in chunks; and the logits after them
    /// where the last decode gave them.
    ///
    /// Errors: `InvalidArgument` for a sequence that does not exist, `Unsupported` for an encoder, and those of `write`.
    pub fn save_state(&self, seq: Option<u32>, write: &mut Writer<'_>) -> Result<()> {
        self.model.require_logits()?;
        let range = self.range(seq)?;
        let mut sink = Sink { write, hash: Xxh3::new() };
        sink.bytes(MAGIC)?;
        sink.u32s([VERSION])?;
        sink.bytes(&self.model.fingerprint()?.to_le_bytes())?;
        sink.u32s(self.state_shape())?;
        let orders =
            self.groups().map(|group| self.pages_of(group, range.clone())).collect::<Result<Vec<_>>>()?;
        let numbers =
            |order: &Vec<(u32, Range<usize>)>| order.iter().map(|(page, _)| *page).zip(0..).collect();
        let numbers: Vec<HashMap<u32, u32>> = orders.iter().map(numbers).collect();
        sink.u32s([range.len() as u32 | self.state_bits(seq)])?;
        sink.u32s(orders.iter().map(|order| order.len() as u32))?;
        for seq in range.clone() {
            let ids = self.tokens(seq)?;
            let plain = u32::try_from(self.sequences.plain(seq as usize)).unwrap_or(ALL_TOKENS);
            sink.u32s([ids.len() as u32, u32::from(self.end_logits(seq).is_ok()), plain])?;
            for (group, numbers) in numbers.iter().enumerate() {
                let held = self.sequences.held_pages(group, seq as usize);
                sink.u32s([self.sequences.held_from(group, seq as usize) as u32])?;
                sink.u32s(held.iter().map(|page| numbers[page]))?;
            }
            sink.bytes(bytemuck::cast_slice(ids))?;
        }
        for (group, order) in orders.into_iter().enumerate() {
            let pages = self.runner.pages(group);
            let mut buffer = vec![0; pages.page_bytes()];
            for (page, used) in order {
                pages.read_page(page, used, &mut buffer);
                sink.bytes(&buffer)?;
            }
        }
        let all = range.clone();
        for logits in range.filter_map(|seq| self.end_logits(seq).ok()) {
            sink.bytes(bytemuck::cast_slice(logits))?;
        }
        let states = self.runner.states();
        let mut buffer = vec![0; states.slot_bytes()];
        for held in all.filter_map(|seq| self.sequences.held_states(seq as usize)) {
            sink.u32s([held.len() as u32])?;
            sink.u32s(held.iter().map(|&(at, _)| at as u32))?;
            for (_, slot) in held {
                states.read_slot(slot, &mut buffer);
                sink.bytes(&buffer)?;
            }
        }
        let checksum = sink.hash.digest128();
        (sink.write)(&checksum.to_le_bytes())
    }

    /// The most bytes that a state of this context can have.
    pub fn most_state_len(&self) -> u64 {
        let n_seq = self.sequences.n_seq() as u64;
        let n_ctx = self.options.n_ctx as u64;
        let per_group = |group: usize| {
            // A saved sequence that has all positions has pages that are left out on loading.
            let n_pages = match self.sequences.ring(group) {
                usize::MAX => self.sequences.n_pages(group) as u64,
                _ => n_seq.saturating_mul(n_ctx.div_ceil(PAGE_LEN as u64)),
            };
            let in_pages = n_pages.saturating_mul(self.runner.pages(group).page_bytes() as u64);
            // The table of each sequence.
            in_pages.saturating_add(n_seq.saturating_mul(8 + n_ctx / 8))
        };
        let pages = self.groups().map(per_group).fold(0u64, u64::saturating_add);
        let per_seq = 16 + 4 * n_ctx + 4 * self.model.info().n_vocab as u64;
        // Pages that sequences share are written for each of them.
        let n_slots = self.options.n_snapshots.map_or(0, |n| n as u64 + 2 * n_seq);
        let n_states = n_seq.saturating_mul(n_slots);
        let states = n_states.saturating_mul(8 + self.runner.states().slot_bytes() as u64);
        pages.saturating_add(states).saturating_add(128 + n_seq * per_seq)
    }

    /// Restores sequence `seq` from a state of one sequence, or all sequences from a state of a context; sequences that the state
    /// does not have become empty. On an error nothing has changed.
    ///
    /// Errors: `Format` for a state that is damaged; `InvalidArgument` for one of another model, of another kind of cache,
    /// of a context in place of a sequence or the other way round, of more sequences or of longer ones; `Unsupported` for one
    /// of a later version and for an encoder; `ContextFull` when the cache has too few pages left; `NoMemory`.
    pub fn load_state(&mut self, seq: Option<u32>, state: &[u8]) -> Result<()> {
        self.model.require_logits()?;
        let (range, is_whole) = (self.range(seq)?, seq.is_none());
        let Parsed { entries, pages } = self.parse(state, seq)?;
        let emptied = range.start as usize..range.end as usize;
        let used_of = |group: usize| {
            entries.iter().flat_map(|entry| entry.tables[group].1.iter().copied()).collect::<BTreeSet<u32>>()
        };
        let used: Vec<_> = self.groups().map(used_of).collect();
        for (group, used) in used.iter().enumerate() {
            let n_free = self.sequences.n_free_without(group, emptied.clone());
            if used.len() > n_free {
                return Err(Error::ContextFull(format!(
                    "the state has {} pages of {PAGE_LEN} tokens{}, but the KV cache has {n_free} free: rewind a sequence",
                    used.len(),
                    self.sequences.called(group)
                )));
            }
        }
        let with_logits = entries.iter().filter(|entry| !entry.logits.is_empty()).count();
        self.reserve_outputs(with_logits)?;
        // Nothing can fail from here on.
        self.forget_logits();
        for seq in range.clone() {
            self.sequences.rewind(seq, 0)?;
        }
        let (mut taken, mut places) = (Vec::new(), Vec::new());
        for (group, (used, pages)) in used.into_iter().zip(&pages).enumerate() {
            let mut lent = Vec::with_capacity(used.len());
            self.sequences.lend(group, used.len(), &mut lent);
            for (&number, &page) in used.iter().zip(&lent) {
                self.runner.pages_mut(group).write_page(page, pages[number as usize]);
            }
            places.push(used.into_iter().zip(lent.iter().copied()).collect::<HashMap<u32, u32>>());
            taken.push(lent);
        }
        let n_vocab = self.model.info().n_vocab;
        for (seq, entry) in range.zip(entries) {
            let ids = entry.ids.as_chunks::<4>().0.iter().map(|id| u32::from_le_bytes(*id));
            let tables =
                entry.tables.iter().zip(&places).map(|((from, pages), places)| {
                    (*from, pages.iter().map(|number| places[number]).collect())
                });
            self.sequences.restore(seq as usize, ids, tables, entry.plain, is_whole);
            for (at, state) in entry.states {
                let slot =
                    self.sequences.recurrent().and_then(|recurrent| recurrent.restore(seq as usize, at));
                slot.into_iter().for_each(|slot| self.runner.states_mut().write_slot(slot, state));
            }
            let at = self.outputs.len();
            for (to, from) in self.logits[at * n_vocab..].iter_mut().zip(entry.logits.as_chunks::<4>().0) {
                *to = f32::from_le_bytes(*from);
            }
            if !entry.logits.is_empty() {
                self.outputs.push(at as u32);
                self.places.push(Place { seq, position: self.n_past(seq)? as u32 - 1, row: at as u32 });
            }
        }
        self.origin = Origin::State;
        for (group, lent) in taken.iter_mut().enumerate() {
            self.sequences.give_back(group, lent);
        }
        Ok(())
    }
}
