//! Packs matrices ([`crate::quant::packed`]) when all of a model's are known: roughly in the order of the file, and on all
//! threads.
//! Ember reads a mapped file half a megabyte at a time. So a model does not lie in memory twice, and the system does not map
//! pages that are read one time (which takes three times as long). Vectors between matrices are copied as they are: some systems
//! map up to two megabytes around each touched byte, and the norms alone would bring most of the file into memory.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::Zeroed;
use crate::cancel::{CancelToken, Progress, Watch};
use crate::error::{Error, Result};
use crate::gguf::FileBytes;
use crate::memory::Memory;
use crate::quant::Format;
use crate::quant::pack::{Rows, Transpose};
use crate::quant::packed::{ALIGN, Packing, ROWS};
use crate::threads::{Mutex, ThreadPool};

/// Least bytes of packed rows in an allocation that matrices share. Large pages make it fast, and each allocation wastes part of
/// its last page. It is small enough to blame a failed allocation on a tensor.
const BLOCK_BYTES: usize = 64 << 20;
/// Approximate bytes of packed rows in one task. What a task reads is still in the second-level cache when it is packed, and a
/// system call costs little beside the packing.
const TASK_BYTES: usize = 512 << 10;
/// The file is fetched from disk this many tasks ahead of the one that is packed.
const TASKS_AHEAD: usize = 32;

/// The groups of one matrix, or a copy of a vector.
pub struct PackedRows {
    block: Arc<Zeroed<u8>>,
    range: Range<usize>,
}

impl PackedRows {
    /// One group after another.
    pub fn bytes(&self) -> &[u8] {
        &self.block[self.range.clone()]
    }
}

/// A matrix to be packed, or a vector to be copied.
pub struct Source {
    /// The tensor's name.
    pub name: String,
    /// Where its rows are.
    pub file: Arc<FileBytes>,
    /// Which bytes of the file they are.
    pub range: Range<usize>,
    /// Their format.
    pub format: Format,
    /// How they are packed; without one they are copied.
    pub packing: Option<&'static Packing>,
    /// Rows.
    pub n_rows: usize,
    /// Length of a row in elements.
    pub n_cols: usize,
    /// Where the result goes.
    pub slot: Arc<OnceLock<PackedRows>>,
}

impl Source {
    /// Bytes of the result: whole cache lines, so that the next result begins at one.
    fn packed_bytes(&self) -> usize {
        match self.packing {
            Some(packing) => self.n_rows.div_ceil(ROWS) * packing.group_bytes(self.n_cols),
            None => self.range.len().next_multiple_of(ALIGN),
        }
    }

    /// Rows of one task, and bytes of its result.
    fn task(&self) -> (usize, usize) {
        match self.packing.map(|packing| packing.group_bytes(self.n_cols)) {
            Some(group_bytes) => {
                let n_groups = (TASK_BYTES / group_bytes).max(1);
                (n_groups * ROWS, n_groups * group_bytes)
            }
            None => (self.n_rows, self.packed_bytes()),
        }
    }

    /// The bytes in the file of up to `n` rows from row `first` on.
    fn rows(&self, first: usize, n: usize) -> Range<usize> {
        let row_bytes = self.format.row_bytes(self.n_cols);
        let start = self.range.start + first * row_bytes;
        start..self.range.end.min(start + n * row_bytes)
    }
}

/// Some groups of a matrix.
struct Task<'a> {
    source: &'a Source,
    /// Their rows in the file.
    range: Range<usize>,
    out: &'a mut [u8],
}

impl Task<'_> {
    fn run(&mut self, transpose: Transpose, buffers: &ReadBuffers) -> Result<()> {
        let Source { file, format, n_cols, .. } = self.source;
        let Some(packing) = self.source.packing else {
            return file.copy_to(self.range.start, &mut self.out[..self.range.len()]);
        };
        buffers.with(|buffer| {
            let rows = file.read_at(self.range.clone(), buffer)?;
            let row_bytes = format.row_bytes(*n_cols);
            let groups = self.out.chunks_exact_mut(packing.group_bytes(*n_cols));
            for (bytes, group) in rows.chunks(ROWS * row_bytes).zip(groups) {
                (packing.pack)(&Rows { bytes, row_bytes }, transpose, group);
            }
            Ok(())
        })
    }
}

/// A buffer for each thread to read into. They are freed when all is packed, so no memory limit counts them.
struct ReadBuffers {
    n_bytes: usize,
    free: Mutex<Vec<Zeroed<u8>>>,
}

impl ReadBuffers {
    /// Buffers large enough for the tasks of `sources`, into which files are read.
    fn new(sources: &[Source]) -> ReadBuffers {
        let mapped = sources.iter().filter(|source| source.packing.is_some() && source.file.is_mapped());
        let n_bytes = mapped.map(|source| source.rows(0, source.task().0).len()).max().unwrap_or(0);
        ReadBuffers { n_bytes, free: Mutex::default() }
    }

    fn with(&self, read: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        let free = self.free.lock().pop();
        let new = || Memory::UNLIMITED.zeroed(self.n_bytes, "a part of a file that is read");
        let mut buffer = free.map_or_else(new, Ok)?;
        let outcome = read(&mut buffer);
        self.free.lock().push(buffer);
        outcome
    }
}

/// Options and progress of loading weights.
#[derive(Debug, Clone, Default)]
pub struct Loading {
    /// End the packing early. Every task looks at them.
    pub cancel: [Option<CancelToken>; 2],
    /// Counts bytes of the file.
    pub progress: Progress,
    /// Keeps weights in memory, whatever else the system is short of.
    pub lock: bool,
}

impl Loading {
    fn watch(&self) -> Watch<'_> {
        Watch::new(self.cancel[0].as_ref(), self.cancel[1].as_ref())
    }

    /// The error for memory of `what` that could not be locked.
    pub fn not_locked(what: &str, error: &std::io::Error) -> Error {
        Error::NoMemory(format!(
            "{what} cannot be locked in memory ({error}): the system sets a limit to what a process may lock"
        ))
    }
}

/// Collects matrices and packs them.
pub struct Packer {
    sources: Vec<Source>,
    /// See [`crate::kernels::Kernels::transpose`].
    transpose: Transpose,
    /// Options and progress.
    pub loading: Loading,
}

impl Packer {
    /// A packer that uses `transpose`.
    pub fn new(transpose: Transpose) -> Packer {
        Packer { sources: Vec::new(), transpose, loading: Loading::default() }
    }

    /// Adds `source` for the next [`Packer::run`], which puts the result into the returned slot.
    pub fn add(&mut self, source: Source) -> Arc<OnceLock<PackedRows>> {
        self.loading.progress.expect(source.range.len() as u64);
        let slot = Arc::clone(&source.slot);
        self.sources.push(source);
        slot
    }

    /// Packs the added sources into memory of `memory`.
    ///
    /// Errors: `NoMemory` names the tensor that did not fit; those before it are packed. `Cancelled`. `Io` names the tensor whose
    /// bytes are no longer in a mapped file.
    pub fn run(&mut self, pool: &mut ThreadPool, memory: &Memory) -> Result<()> {
        self.run_in_blocks(BLOCK_BYTES, pool, memory)
    }

    /// As [`Packer::run`]; matrices share an allocation until it has `block_bytes`.
    fn run_in_blocks(&mut self, block_bytes: usize, pool: &mut ThreadPool, memory: &Memory) -> Result<()> {
        let mut sources = std::mem::take(&mut self.sources);
        // Files in the order in which they were added, not in that of their addresses: so every count of the blocks is the same.
        let file = |source: &Source| Arc::as_ptr(&source.file).addr();
        let mut places = HashMap::new();
        for source in &sources {
            let next = places.len();
            places.entry(file(source)).or_insert(next);
        }
        sources.sort_by_key(|source| (places[&file(source)], source.range.start));
        let buffers = ReadBuffers::new(&sources);
        let mut rest = &sources[..];
        while !rest.is_empty() {
            self.loading.watch().check()?;
            let mut n_bytes = 0;
            let n = rest.iter().take_while(|s| {
                let fits = n_bytes < block_bytes;
                n_bytes += if fits { s.packed_bytes() } else { 0 };
                fits
            });
            let (block, others) = rest.split_at(n.count());
            self.pack_block(block, n_bytes, &buffers, pool, memory)?;
            rest = others;
        }
        Ok(())
    }

    /// Packs matrices into one allocation of `n_bytes`.
    fn pack_block(
        &self,
        sources: &[Source],
        n_bytes: usize,
        buffers: &ReadBuffers,
        pool: &mut ThreadPool,
        memory: &Memory,
    ) -> Result<()> {
        let Some(first) = sources.first() else { return Ok(()) };
        let what = match sources.len() {
            1 => format!("the packed rows of the tensor {:?}", first.name),
            n => format!("the packed rows of the tensor {:?} and {} after it", first.name, n - 1),
        };
        let mut block = memory.zeroed::<u8>(n_bytes, &what)?;
        block.prefer_large_pages();
        if !memory.measures() {
            self.fill(sources, &mut block, buffers, pool)?;
        }
        if self.loading.lock {
            block.lock().map_err(|e| Loading::not_locked(&what, &e))?;
        }
        let block = Arc::new(block);
        let mut end = 0;
        for source in sources {
            let start = end;
            end += source.packed_bytes();
            let range = match source.packing {
                Some(_) => start..end,
                None => start..start + source.range.len(),
            };
            // A slot is filled once: its weight was added once.
            let _ = source.slot.set(PackedRows { block: Arc::clone(&block), range });
            // Pages that were touched before, when the numbers were checked.
            source.file.release(source.range.clone());
        }
        Ok(())
    }

    /// Packs or copies sources one after another into `block`.
    fn fill(
        &self,
        sources: &[Source],
        block: &mut [u8],
        buffers: &ReadBuffers,
        pool: &mut ThreadPool,
    ) -> Result<()> {
        let mut tasks = Vec::new();
        let mut rest = block;
        for source in sources {
            let (out, others) = rest.split_at_mut(source.packed_bytes());
            rest = others;
            let (n_rows, n_bytes) = source.task();
            for (i, out) in out.chunks_mut(n_bytes).enumerate() {
                tasks.push(Task { source, range: source.rows(i * n_rows, n_rows), out });
            }
        }
        let ranges: Vec<_> = tasks.iter().map(|task| (&task.source.file, task.range.clone())).collect();
        let fetch = |i: usize| {
            if let Some((file, range)) = ranges.get(i) {
                file.will_need(range.clone());
            }
        };
        (0..TASKS_AHEAD).for_each(fetch);
        let (ended, watch) = (OnceLock::new(), self.loading.watch());
        pool.for_parts(&mut tasks, 1, |i, tasks| {
            if ended.get().is_some() {
                return;
            }
            fetch(i + TASKS_AHEAD);
            let outcome = watch.check().and_then(|()| {
                tasks.iter_mut().try_for_each(|task| {
                    let outcome = task.run(self.transpose, buffers);
                    outcome.map_err(|e| e.within(&format!("the tensor {:?}", task.source.name)))
                })
            });
            match outcome {
                Ok(()) => self.loading.progress.add(tasks.iter().map(|task| task.range.len() as u64).sum()),
                // Only the first is reported.
                Err(error) => drop(ended.set(error)),
            }
        });
        ended.into_inner().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    #[cfg(unix)]
    use crate::gguf::Reading;
    use crate::quant::pack::transpose;
    use crate::quant::tests::sample_row;

    /// Three matrices and a vector in one file, in another order than they are added, and each with its number of rows.
    fn sources() -> Vec<Source> {
        let shapes = [
            (Format::Q4_0, 700, 4096),
            (Format::Q6_K, 33, 256),
            (Format::F32, 1, 77),
            (Format::Q8_0, 16, 64),
        ];
        let mut bytes = vec![0; 10];
        let ranges = shapes.map(|(format, n_rows, n_cols)| {
            let start = bytes.len();
            let rows = sample_row(format.info(), 7 * n_cols, start as u32);
            bytes.extend(rows.into_iter().cycle().take(n_rows * format.row_bytes(n_cols)));
            start..bytes.len()
        });
        let file = Arc::new(FileBytes::copy(&bytes, &Memory::default()).expect("memory"));
        let source = |((format, n_rows, n_cols), range)| Source {
            name: format!("{format:?}"),
            file: Arc::clone(&file),
            range,
            format,
            packing: format.info().packing.as_ref().filter(|_| n_rows > 1),
            n_rows,
            n_cols,
            slot: Arc::new(OnceLock::new()),
        };
        shapes.into_iter().zip(ranges).map(source).rev().collect()
    }

    #[test]
    fn tasks_and_blocks_make_what_packing_group_by_group_makes() {
        for (block_bytes, n_threads) in [(1, 1), (1 << 20, 3), (BLOCK_BYTES, 2)] {
            let mut pool = ThreadPool::new(n_threads, None).expect("threads");
            let mut packer = Packer::new(transpose);
            let expected = sources().into_iter().map(|source| {
                let rows = &source.file[source.range.clone()];
                let Some(packing) = source.packing else {
                    let copy = rows.to_vec();
                    return (packer.add(source), copy);
                };
                let row_bytes = source.format.row_bytes(source.n_cols);
                let mut groups = vec![0xAA; source.packed_bytes()];
                let group_bytes = packing.group_bytes(source.n_cols);
                for (g, group) in groups.chunks_exact_mut(group_bytes).enumerate() {
                    let bytes = &rows[g * ROWS * row_bytes..];
                    let bytes = &bytes[..bytes.len().min(ROWS * row_bytes)];
                    (packing.pack)(&Rows { bytes, row_bytes }, transpose, group);
                }
                (packer.add(source), groups)
            });
            let expected: Vec<_> = expected.collect();
            packer.run_in_blocks(block_bytes, &mut pool, &Memory::default()).expect("memory");
            for (slot, groups) in expected {
                assert!(slot.get().expect("packed").bytes() == groups, "{block_bytes} bytes in a block");
            }
            packer.run(&mut pool, &Memory::default()).expect("nothing to do");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_a_mapped_file_has_no_more_is_an_error_that_names_the_tensor() {
        let path = std::env::temp_dir().join(format!("ember-packer-{}", std::process::id()));
        let bytes = sources().pop().map(|source| source.file.to_vec()).expect("sources");
        for (len, name) in [(bytes.len(), None), (bytes.len() - 1, Some("Q8_0")), (700, Some("Q4_0"))] {
            std::fs::write(&path, &bytes).expect("a file");
            let file = Arc::new(FileBytes::map(&path, &Reading::default()).expect("a map"));
            let mut packer = Packer::new(transpose);
            let sources = sources().into_iter().map(|source| Source { file: Arc::clone(&file), ..source });
            let slots: Vec<_> = sources.map(|source| packer.add(source)).collect();
            std::fs::OpenOptions::new()
                .write(true)
                .open(&path)
                .and_then(|f| f.set_len(len as u64))
                .expect("cut");
            let outcome = packer.run(&mut ThreadPool::new(1, None).expect("threads"), &Memory::default());
            match (outcome, name) {
                (Ok(()), None) => assert!(slots.iter().all(|slot| slot.get().is_some())),
                (Err(Error::Io(m)), Some(name)) => {
                    assert!(m.contains(name) && m.contains(&format!("has {len} now")), "{m}");
                }
                (outcome, _) => panic!("{len} bytes: {outcome:?}"),
            }
        }
        std::fs::remove_file(&path).expect("the file");
    }

    #[test]
    fn a_cancelled_run_packs_nothing_and_says_so() {
        let mut pool = ThreadPool::new(2, None).expect("threads");
        let (cancel, mut packer) = (CancelToken::new(), Packer::new(transpose));
        packer.loading.cancel[0] = Some(cancel.clone());
        let all = sources();
        let slots: Vec<_> = all.into_iter().map(|source| packer.add(source)).collect();
        cancel.cancel();
        assert!(matches!(packer.run(&mut pool, &Memory::default()), Err(Error::Cancelled(_))));
        assert!(slots.iter().all(|slot| slot.get().is_none()));
    }

    #[test]
    fn a_matrix_beyond_memory_is_named() {
        let mut pool = ThreadPool::new(1, None).expect("threads");
        for (at, name) in [(0, "Q8_0"), (3, "Q4_0")] {
            let mut packer = Packer::new(transpose);
            for (i, mut source) in sources().into_iter().enumerate() {
                if i == at {
                    source.n_rows = isize::MAX as usize / source.format.row_bytes(source.n_cols);
                }
                packer.add(source);
            }
            let error = packer.run_in_blocks(1, &mut pool, &Memory::default()).expect_err("too much");
            assert!(matches!(&error, Error::NoMemory(text) if text.contains(name)), "{error}");
        }
    }
}
