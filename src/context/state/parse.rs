//! Reads a state and checks all of it before the context changes.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use ahash::AHashMap;
use xxhash_rust::xxh3::Xxh3;

use super::{ALL_TOKENS, Entry, HASH_BYTES, LONG, MAGIC, Parsed, VERSION, WHOLE, shown};
use crate::cache::{ALL, PAGE_LEN};
use crate::context::Context;
use crate::error::{Error, Result};

impl Context {
    /// Checks all of a state before the context changes.
    pub(super) fn parse<'a>(&self, state: &'a [u8], seq: Option<u32>) -> Result<Parsed<'a>> {
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
        let n_entries = rest.u32()?;
        let n_pages = rest.u32s(self.sequences.n_groups())?;
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
                Err(format!("has {n_entries} sequences, but the context has {n_seq}"))
            }
            _ => Ok(()),
        }
        .map_err(|what| Error::InvalidArgument(format!("the state {what}")))?;
        let mut entries = Vec::with_capacity(n_entries);
        let mut with_logits = Vec::with_capacity(n_entries);
        let n_vocab = self.model.info().n_vocab;
        let mut beginnings = Beginnings::default();
        let mut begins_of: Vec<Vec<usize>> = Vec::with_capacity(n_entries);
        // Where each page of a group stands in the first sequence that has it.
        let mut used = vec![BTreeMap::<u32, (usize, usize)>::new(); n_pages.len()];
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
            let mut tables = Vec::with_capacity(n_pages.len());
            for (group, &n_pages) in n_pages.iter().enumerate() {
                let from = rest.u32()? as usize;
                let is_moved = from.is_multiple_of(PAGE_LEN) || plain <= from;
                if !(from <= n_tokens && self.sequences.goes_on(group, from, n_tokens) && is_moved) {
                    return Err(damaged("it lacks positions that are needed"));
                }
                let pages = rest.u32s(n_tokens.div_ceil(PAGE_LEN) - from / PAGE_LEN)?;
                if pages.iter().any(|&page| page >= n_pages) {
                    return Err(damaged("it names a page that does not exist"));
                }
                tables.push((from, pages));
            }
            let ids = rest.take(4 * n_tokens).ok_or_else(|| damaged("it ends too early"))?;
            let mut numbers = ids.as_chunks::<4>().0.iter().map(|id| u32::from_le_bytes(*id));
            if has_logits > 1 || (has_logits == 1 && n_tokens == 0) {
                return Err(damaged("it has logits of nothing"));
            }
            if numbers.any(|id| id as usize >= n_vocab) {
                return Err(damaged("it names a token that does not exist"));
            }
            with_logits.push(has_logits == 1);
            let begins = beginnings.of(ids);
            for (group, (from, pages)) in tables.iter_mut().enumerate() {
                for (at, &page) in (*from / PAGE_LEN..).zip(&*pages) {
                    let (first, there) = *used[group].entry(page).or_insert((seq, at));
                    if first == seq && there == at {
                        continue;
                    }
                    // Sequences share the pages of a common prefix, and no others.
                    let is_shared = entries.get(first).is_some_and(|other: &Entry<'_>| {
                        there == at
                            && begins_of[first][at] == begins[at]
                            && agree(page_ids(ids, at), page_ids(other.ids, at))
                    });
                    if !is_shared {
                        return Err(damaged("it has a page at two places"));
                    }
                }
                // This context may keep fewer positions than the one that saved it.
                let kept = self.sequences.kept(group, n_tokens).max(*from);
                pages.drain(..kept / PAGE_LEN - *from / PAGE_LEN);
                *from = kept;
            }
            begins_of.push(begins);
            entries.push(Entry { tables, ids, logits: &[], plain, states: Vec::new() });
        }
        let mut pages = Vec::with_capacity(n_pages.len());
        for (group, (used, n_pages)) in used.iter().zip(n_pages).enumerate() {
            if used.len() != n_pages as usize {
                return Err(damaged("it has pages of no sequence"));
            }
            let page_bytes = self.runner.pages(group).page_bytes();
            let n_bytes =
                used.len().checked_mul(page_bytes).ok_or_else(|| damaged("it has too many pages"))?;
            let bytes = rest.take(n_bytes).ok_or_else(|| damaged("it ends too early"))?;
            // Pages without bytes belong to layers that keep no keys and values.
            pages.push((0..used.len()).map(|i| &bytes[i * page_bytes..][..page_bytes]).collect());
        }
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
            true => Ok(Parsed { entries, pages }),
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
        let goes_on = |end: usize| {
            let mut tables = entry.tables.iter().enumerate();
            tables.all(|(group, (from, _))| self.sequences.goes_on(group, *from, end))
        };
        if !is_ascending || end > n_tokens || !goes_on(end) {
            return Err(damaged("it has recurrent states of no token"));
        }
        let slot_bytes = self.runner.states().slot_bytes();
        let state = |at: u32| Some((at as usize, rest.take(slot_bytes)?));
        at.into_iter().map(state).collect::<Option<_>>().ok_or_else(|| damaged("it ends too early"))
    }
}

/// Bytes of the ids of a page's tokens.
const PAGE_IDS: usize = 4 * PAGE_LEN;

/// The ids of page `at` of a list, as many as there are.
fn page_ids(ids: &[u8], at: usize) -> &[u8] {
    let first = (at * PAGE_IDS).min(ids.len());
    &ids[first..ids.len().min(first + PAGE_IDS)]
}

/// Whether two lists are equal up to the length of the shorter.
fn agree(a: &[u8], b: &[u8]) -> bool {
    let n = a.len().min(b.len());
    a[..n] == b[..n]
}

/// Numbers for the prefixes of texts in whole pages: equal prefixes have the same number. So prefixes are compared in constant
/// time, however many sequences share them.
#[derive(Default)]
struct Beginnings<'a> {
    /// By the number of the prefix before a page, and the page's ids. The empty prefix has the number 0.
    known: AHashMap<(usize, &'a [u8; PAGE_IDS]), usize>,
}

impl<'a> Beginnings<'a> {
    /// The numbers of the prefixes of `ids`: of no page, of one, and so on.
    fn of(&mut self, ids: &'a [u8]) -> Vec<usize> {
        let mut last = 0;
        let mut numbers = vec![last];
        for page in ids.as_chunks::<PAGE_IDS>().0 {
            let next = self.known.len() + 1;
            last = *self.known.entry((last, page)).or_insert(next);
            numbers.push(last);
        }
        numbers
    }
}

/// The bytes that are not read yet.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids of some pages, each of one number, and of a part of a page.
    fn ids(pages: &[u32], n_more: usize) -> Vec<u8> {
        let whole = pages.iter().flat_map(|&id| [id; PAGE_LEN]);
        whole.chain([9; PAGE_LEN].into_iter().take(n_more)).flat_map(u32::to_le_bytes).collect()
    }

    #[test]
    fn equal_beginnings_have_equal_numbers_and_no_others() {
        let lists =
            [ids(&[1, 2, 3], 0), ids(&[1, 2], 5), ids(&[1, 3, 3], 1), ids(&[], 7), ids(&[2, 2, 3], 0)];
        let mut beginnings = Beginnings::default();
        let numbers: Vec<_> = lists.iter().map(|list| beginnings.of(list)).collect();
        assert_eq!(numbers[0][..3], numbers[1]);
        assert_eq!((numbers[0][1], numbers[2].len()), (numbers[2][1], 4));
        assert_eq!(numbers[3], [0]);
        for (a, b) in
            [(numbers[0][2], numbers[2][2]), (numbers[0][3], numbers[2][3]), (numbers[0][3], numbers[4][3])]
        {
            assert_ne!(a, b);
        }
        assert!(agree(page_ids(&lists[1], 2), page_ids(&ids(&[1, 2, 9], 0), 2)));
        assert!(!agree(page_ids(&lists[1], 2), page_ids(&lists[0], 2)));
        assert!(page_ids(&lists[3], 4).is_empty());
    }
}
