//! Sequences as bytes: saved, and restored in another process with the same model.
//!
//! Little-endian: magic, version, fingerprint of the model, shape of the cache; for each sequence its length, whether its
//! logits follow, how many tokens stand before those that a shift moved, from which position on it was there, the numbers of
//! its pages from that one on and its tokens; the pages, each once however many sequences have it; logits; in models with recurrent
//! layers the states of each sequence; a checksum of all that. The checksum finds damage, not malice: whoever can write a state can make up what it says.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use xxhash_rust::xxh3::Xxh3;

use super::runner::kv_shape;
use super::{Context, Origin, Place};
use crate::backend::KvType;
use crate::cache::{ALL, PAGE_LEN};
use crate::error::{Error, Result};

const MAGIC: &[u8; 8] = b"emberkv\n";
const VERSION: u32 = 3;
/// Set in the number of sequences where they are all those of a context. (States of a context that were written before it was set
/// there are told by having several.)
const WHOLE: u32 = 1 << 31;
/// Set in the number of sequences where keys are those of a long context ([`Model::n_ctx_short`](crate::arch::Model)).
const LONG: u32 = 1 << 30;
/// In place of a number of tokens: all of them.
const ALL_TOKENS: u32 = u32::MAX;
/// Bytes of a fingerprint or a checksum.
const HASH_BYTES: usize = 16;

/// Receives the bytes of a state, part by part.
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

/// A number of [`Context::state_shape`] as errors tell it.
fn shown(name: &str, number: u32) -> String {
    let mut types = [KvType::F16, KvType::F32, KvType::Q8_0, KvType::I16].into_iter();
    match types.find(|kv_type| name.ends_with("_type") && type_number(*kv_type) == number) {
        Some(kv_type) => format!("{kv_type:?}").to_lowercase(),
        None => number.to_string(),
    }
}

/// One saved sequence.
struct Entry<'a> {
    /// Numbers among the state's pages.
    pages: Vec<u32>,
    /// Ids, four bytes each.
    ids: &'a [u8],
    /// The logits behind the last token, four bytes each; empty when they were not there.
    logits: &'a [u8],
    /// Tokens that no shift moved, nor saw such.
    plain: usize,
    /// From which position on keys and values are there.
    from: usize,
    /// Recurrent states and behind how many tokens each is, ascending.
    states: Vec<(usize, &'a [u8])>,
}

/// A state that was found to be whole and to fit.
struct Parsed<'a> {
    entries: Vec<Entry<'a>>,
    pages: Vec<&'a [u8]>,
}

impl Context {
    /// The sequences that `seq` means: one, or all of them for `None`.
    fn range(&self, seq: Option<u32>) -> Result<Range<u32>> {
        match seq {
            None => Ok(0..self.sequences.n_seq() as u32),
            Some(seq) => self.n_past(seq).map(|_| seq..seq + 1),
        }
    }

    /// What comes before the sequences: it must be equal to load a state.
    fn state_shape(&self) -> [u32; 6] {
        let shape = kv_shape(self.model.info(), &self.options, 0);
        [
            type_number(shape.k_type),
            type_number(shape.v_type),
            shape.layers.len() as u32,
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
        let pages = self.pages_of(range.clone())?.len() * self.runner.pages().page_bytes();
        let mut len =
            MAGIC.len() + 4 + HASH_BYTES + 4 * self.state_shape().len() + 2 * 4 + pages + HASH_BYTES;
        for seq in range {
            let logits = self.end_logits(seq).map_or(0, <[f32]>::len);
            len += 4 * (4 + self.sequences.held_pages(seq as usize).len() + self.n_past(seq)? + logits);
            if let Some(held) = self.sequences.held_states(seq as usize) {
                len += 4 + held.len() * (4 + self.runner.states().slot_bytes());
            }
        }
        Ok(len as u64)
    }

    /// The pages of some sequences in the order of their first use, and which tokens are of use in each.
    fn pages_of(&self, range: Range<u32>) -> Result<Vec<(u32, Range<usize>)>> {
        let mut order: Vec<(u32, Range<usize>)> = Vec::new();
        let mut numbers: HashMap<u32, usize> = HashMap::new();
        for seq in range {
            let (len, from) = (self.n_past(seq)?, self.sequences.held_from(seq as usize));
            for (i, &page) in (from / PAGE_LEN..).zip(self.sequences.held_pages(seq as usize)) {
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

    /// Hands the tokens and the cache of sequence `seq`, or of all sequences, to `write`, part by part; the logits behind
    /// them too where the last decode gave them.
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
        let order = self.pages_of(range.clone())?;
        let numbers: HashMap<u32, u32> = order.iter().map(|(page, _)| *page).zip(0..).collect();
        sink.u32s([range.len() as u32 | self.state_bits(seq), order.len() as u32])?;
        for seq in range.clone() {
            let ids = self.tokens(seq)?;
            let plain = u32::try_from(self.sequences.plain(seq as usize)).unwrap_or(ALL_TOKENS);
            let from = self.sequences.held_from(seq as usize) as u32;
            sink.u32s([ids.len() as u32, u32::from(self.end_logits(seq).is_ok()), plain, from])?;
            sink.u32s(self.sequences.held_pages(seq as usize).iter().map(|page| numbers[page]))?;
            sink.bytes(bytemuck::cast_slice(ids))?;
        }
        let pages = self.runner.pages();
        let mut buffer = vec![0; pages.page_bytes()];
        for (page, used) in order {
            pages.read_page(page, used, &mut buffer);
            sink.bytes(&buffer)?;
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
        let per_page = self.runner.pages().page_bytes() as u64;
        let per_seq = 16 + 8 * self.options.n_ctx as u64 + 4 * self.model.info().n_vocab as u64;
        // One that has all positions has pages that are left out when it is loaded.
        let n_pages = match self.sequences.ring() {
            usize::MAX => self.sequences.n_pages() as u64,
            _ => n_seq.saturating_mul(self.options.n_ctx.div_ceil(PAGE_LEN) as u64),
        };
        let n_states = self.options.n_snapshots.map_or(0, |n| n as u64 + 2 * n_seq);
        let states = n_states.saturating_mul(8 + self.runner.states().slot_bytes() as u64);
        n_pages.saturating_mul(per_page).saturating_add(states).saturating_add(128 + n_seq * per_seq)
    }

    /// Makes sequence `seq` what a state of one sequence says, or all sequences what a state of a context says, those that
    /// it does not have being empty then. On an error nothing has changed.
    ///
    /// Errors: `Format` for a state that is damaged; `InvalidArgument` for one of another model, of another kind of cache,
    /// of a context in place of a sequence or the other way round, of more sequences or of longer ones; `Unsupported` for one
    /// of a later version and for an encoder; `ContextFull` when the cache has too few pages left; `NoMemory`.
    pub fn load_state(&mut self, seq: Option<u32>, state: &[u8]) -> Result<()> {
        self.model.require_logits()?;
        let (range, is_whole) = (self.range(seq)?, seq.is_none());
        let Parsed { entries, pages } = self.parse(state, seq)?;
        let emptied = range.start as usize..range.end as usize;
        let n_free = self.sequences.n_free_without(emptied);
        let used: BTreeSet<u32> = entries.iter().flat_map(|entry| entry.pages.iter().copied()).collect();
        if used.len() > n_free {
            return Err(Error::ContextFull(format!(
                "the state has {} pages of {PAGE_LEN} tokens, but the KV cache has room for {n_free}: rewind a sequence",
                used.len()
            )));
        }
        let with_logits = entries.iter().filter(|entry| !entry.logits.is_empty()).count();
        self.reserve_outputs(with_logits)?;
        // Nothing can fail from here on.
        self.forget_logits();
        for seq in range.clone() {
            self.sequences.rewind(seq, 0)?;
        }
        let mut taken = Vec::with_capacity(used.len());
        self.sequences.lend(used.len(), &mut taken);
        let places: HashMap<u32, u32> = used.into_iter().zip(taken.iter().copied()).collect();
        for (&number, &page) in &places {
            self.runner.pages_mut().write_page(page, pages[number as usize]);
        }
        let n_vocab = self.model.info().n_vocab;
        for (seq, entry) in range.zip(entries) {
            let ids = entry.ids.as_chunks::<4>().0.iter().map(|id| u32::from_le_bytes(*id));
            let pages = entry.pages.iter().map(|number| places[number]);
            self.sequences.restore(seq as usize, ids, pages, (entry.plain, entry.from), is_whole);
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
        self.sequences.give_back(&mut taken);
        Ok(())
    }

    /// Looks at all of a state before anything is done with it.
    fn parse<'a>(&self, state: &'a [u8], seq: Option<u32>) -> Result<Parsed<'a>> {
        let damaged = |what: &str| Error::Format(format!("the state is damaged: {what}"));
        let Some((body, checksum)) = state.split_last_chunk::<HASH_BYTES>() else {
            return Err(damaged("it is too short"));
        };
        let mut rest = Rest(body);
        if rest.take(MAGIC.len()) != Some(MAGIC) {
            return Err(Error::Format("this is no state of a context: it does not begin like one".into()));
        }
        let version = rest.u32()?;
        if version != VERSION {
            return Err(Error::Unsupported(format!(
                "the state is of version {version}, but this version of Ember reads states of version {VERSION}"
            )));
        }
        let mut hash = Xxh3::new();
        hash.update(body);
        if hash.digest128().to_le_bytes() != *checksum {
            return Err(damaged("its checksum is wrong"));
        }
        if rest.take(HASH_BYTES) != Some(&self.model.fingerprint()?.to_le_bytes()) {
            return Err(Error::InvalidArgument(format!(
                "the state was saved with another model than \"{}\"",
                self.model.name()
            )));
        }
        let names = ["k_type", "v_type", "layers", "key/value heads", "head_dim", "tokens per page"];
        for (name, own) in names.into_iter().zip(self.state_shape()) {
            let found = rest.u32()?;
            if found != own {
                let [found, own] = [found, own].map(|number| shown(name, number));
                return Err(Error::InvalidArgument(format!(
                    "the state's cache differs from the context's: its {name} is {found}, the context's {own}"
                )));
            }
        }
        let (n_entries, n_pages) = (rest.u32()?, rest.u32()? as usize);
        let is_whole = n_entries & !LONG != 1;
        if (n_entries ^ self.state_bits(seq)) & LONG != 0 {
            return Err(Error::InvalidArgument(format!(
                "the state was saved in a context of {} positions than this one of {}: the model's keys are others there",
                if n_entries & LONG != 0 { "more" } else { "fewer" },
                self.options.n_ctx
            )));
        }
        let (n_entries, n_seq) = ((n_entries & !(WHOLE | LONG)) as usize, self.sequences.n_seq());
        match seq {
            Some(_) if is_whole => {
                Err(format!("is of a context with {n_entries} sequences, and not of one sequence"))
            }
            None if !is_whole => Err("is of one sequence, and not of a context: load it into one".into()),
            None if n_entries > n_seq => {
                Err(format!("has {n_entries} sequences, but there is room for {n_seq}"))
            }
            _ => Ok(()),
        }
        .map_err(|what| Error::InvalidArgument(format!("the state {what}")))?;
        let mut entries = Vec::with_capacity(n_entries);
        let mut with_logits = Vec::with_capacity(n_entries);
        // Where each page stands in the first sequence that has it.
        let mut used = BTreeMap::<u32, (usize, usize)>::new();
        for seq in 0..n_entries {
            let (n_tokens, has_logits) = (rest.u32()? as usize, rest.u32()?);
            let plain = match rest.u32()? {
                ALL_TOKENS => ALL,
                n if (n as usize) < n_tokens => n as usize,
                _ => return Err(damaged("it moved tokens that it does not have")),
            };
            if n_tokens > self.options.n_ctx {
                return Err(Error::InvalidArgument(format!(
                    "the state has a sequence of {n_tokens} tokens, more than n_ctx {}",
                    self.options.n_ctx
                )));
            }
            let from = rest.u32()? as usize;
            let is_moved = from.is_multiple_of(PAGE_LEN) || plain <= from;
            if !(from <= n_tokens && self.sequences.goes_on(from, n_tokens) && is_moved) {
                return Err(damaged("it lacks positions that are needed"));
            }
            let pages = rest.u32s(n_tokens.div_ceil(PAGE_LEN) - from / PAGE_LEN)?;
            let ids = rest.take(4 * n_tokens).ok_or_else(|| damaged("it ends too early"))?;
            let n_vocab = self.model.info().n_vocab;
            let mut numbers = ids.as_chunks::<4>().0.iter().map(|id| u32::from_le_bytes(*id));
            if has_logits > 1 || (has_logits == 1 && n_tokens == 0) {
                return Err(damaged("it has logits of nothing"));
            }
            if pages.iter().any(|&page| page as usize >= n_pages) || numbers.any(|id| id as usize >= n_vocab)
            {
                return Err(damaged("it names a page or token that does not exist"));
            }
            with_logits.push(has_logits == 1);
            let mut alike = HashMap::new();
            for (at, &page) in (from / PAGE_LEN..).zip(&pages) {
                let (first, there) = *used.entry(page).or_insert((seq, at));
                if first == seq && there == at {
                    continue;
                }
                // Sequences share the pages of what they begin with, and no others.
                let is_shared = entries.get(first).is_some_and(|other: &Entry<'_>| {
                    let n = *alike.entry(first).or_insert_with(|| n_alike(other.ids, ids));
                    there == at && n >= ((at + 1) * PAGE_LEN).min(other.ids.len() / 4).min(n_tokens)
                });
                if !is_shared {
                    return Err(damaged("it has a page at two places"));
                }
            }
            // This context may keep less than the one that saved it.
            let kept = self.sequences.kept(n_tokens).max(from);
            let pages = pages[kept / PAGE_LEN - from / PAGE_LEN..].to_vec();
            entries.push(Entry { pages, ids, logits: &[], plain, from: kept, states: Vec::new() });
        }
        if used.len() != n_pages {
            return Err(damaged("it has pages of no sequence"));
        }
        let page_bytes = self.runner.pages().page_bytes();
        let n_bytes = n_pages.checked_mul(page_bytes).ok_or_else(|| damaged("it has too many pages"))?;
        let bytes = rest.take(n_bytes).ok_or_else(|| damaged("it ends too early"))?;
        for (entry, _) in entries.iter_mut().zip(with_logits).filter(|(_, has)| *has) {
            let n_bytes = 4 * self.model.info().n_vocab;
            entry.logits = rest.take(n_bytes).ok_or_else(|| damaged("it ends too early"))?;
        }
        if self.model.info().is_recurrent() {
            for entry in &mut entries {
                entry.states = self.parse_states(&mut rest, entry)?;
            }
        }
        match rest.0.is_empty() {
            true => Ok(Parsed { entries, pages: bytes.chunks_exact(page_bytes).collect() }),
            false => Err(damaged("something follows its end")),
        }
    }

    /// The recurrent states of a sequence.
    fn parse_states<'a>(&self, rest: &mut Rest<'a>, entry: &Entry<'_>) -> Result<Vec<(usize, &'a [u8])>> {
        let damaged = |what: &str| Error::Format(format!("the state is damaged: {what}"));
        let n_tokens = entry.ids.len() / 4;
        let n = rest.u32()? as usize;
        let at = rest.u32s(n)?;
        let is_ascending = at.is_sorted_by(|a, b| a < b) && at.first().is_none_or(|&at| at > 0);
        let end = at.last().map_or(0, |&at| at as usize);
        if !is_ascending || end > n_tokens || !self.sequences.goes_on(entry.from, end) {
            return Err(damaged("it has recurrent states of no token"));
        }
        let slot_bytes = self.runner.states().slot_bytes();
        let state = |at: u32| Some((at as usize, rest.take(slot_bytes)?));
        at.into_iter().map(state).collect::<Option<_>>().ok_or_else(|| damaged("it ends too early"))
    }
}

/// Tokens that two lists of ids of four bytes begin with both.
fn n_alike(a: &[u8], b: &[u8]) -> usize {
    let [a, b] = [a, b].map(|ids| ids.as_chunks::<4>().0);
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// What is not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(self.u32s(1)?[0])
    }

    fn u32s(&mut self, n: usize) -> Result<Vec<u32>> {
        let bytes = n.checked_mul(4).and_then(|n| self.take(n));
        let bytes = bytes.ok_or_else(|| Error::Format("the state is damaged: it ends too early".into()))?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }
}
