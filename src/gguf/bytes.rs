//! The bytes of a whole file: mapped, or owned in 64-byte-aligned memory. The only file of `gguf` with `unsafe`.

use std::fmt;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::ops::{Deref, Range};
use std::path::Path;

use memmap2::Mmap;

use crate::cancel::Watch;
use crate::error::{Error, Result};

/// Alignment of owned bytes: one cache line, and the widest vector register in use.
const ALIGNMENT: usize = 64;
/// Bytes that are read between two looks at what may end the reading.
const READ_BYTES: u64 = 16 << 20;

/// The immutable bytes of a file, `Send + Sync`. The first byte is at least 64-byte-aligned, so that an aligned offset
/// in the file is an aligned address.
pub struct FileBytes(Storage);

enum Storage {
    Mapped(Mmap),
    /// The bytes are `buffer[start..]`; `start` < 64 makes up for the allocator's smaller alignment. The buffer never
    /// grows once it is made, so the address of `buffer[start]` stays.
    Owned {
        buffer: Vec<u8>,
        start: usize,
    },
}

impl FileBytes {
    /// Maps the file, or reads it where the system cannot map it.
    ///
    /// # Errors
    /// As [`FileBytes::read`].
    pub fn map(path: &Path) -> Result<FileBytes> {
        let (file, len) = open_regular(path)?;
        // SAFETY: the map is private to this process and read-only. That nobody shortens or rewrites the file
        // meanwhile is the caller's part of the contract, stated at `Gguf::open`; parsing copes with any content.
        match unsafe { Mmap::map(&file) } {
            Ok(map) => Ok(FileBytes(Storage::Mapped(map))),
            Err(_) => read_all(file, len, Watch::default()),
        }
    }

    /// Reads the file into owned memory.
    ///
    /// # Errors
    /// `Io` when the file is missing, a directory, not a regular file or unreadable, `Format` when it is empty,
    /// `NoMemory` when it does not fit in memory.
    pub fn read(path: &Path) -> Result<FileBytes> {
        FileBytes::read_under(path, Watch::default())
    }

    /// As [`FileBytes::read`], unless `watch` ends it.
    ///
    /// # Errors
    /// As [`FileBytes::read`], and `Cancelled`.
    pub fn read_under(path: &Path, watch: Watch<'_>) -> Result<FileBytes> {
        let (file, len) = open_regular(path)?;
        read_all(file, len, watch)
    }

    /// Copies `bytes` into owned memory.
    ///
    /// # Errors
    /// `NoMemory` when the allocation fails.
    pub fn copy(bytes: &[u8]) -> Result<FileBytes> {
        let (mut buffer, start) = aligned_buffer(bytes.len())?;
        buffer.extend_from_slice(bytes);
        Ok(FileBytes(Storage::Owned { buffer, start }))
    }

    /// Owned memory of `len` bytes, zeros, that `fill` is handed to write to.
    ///
    /// # Errors
    /// `NoMemory` when the allocation fails.
    pub fn filled(len: usize, fill: impl FnOnce(&mut [u8])) -> Result<FileBytes> {
        let (mut buffer, start) = aligned_buffer(len)?;
        buffer.resize(start + len, 0);
        fill(&mut buffer[start..]);
        Ok(FileBytes(Storage::Owned { buffer, start }))
    }

    /// Asks the system to begin fetching `range` of a mapped file from disk. It may do so or not, and errors are of no
    /// interest: the bytes come when they are read in any case.
    pub fn will_need(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Some(map) = self.mapped(&range) {
            let _ = map.advise_range(memmap2::Advice::WillNeed, range.start, range.len());
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    /// Makes `range` of a mapped file readable without page faults, waiting for the disk where it has to: a hint as
    /// [`FileBytes::will_need`], on Linux only.
    pub fn populate(&self, range: Range<usize>) {
        #[cfg(target_os = "linux")]
        if let Some(map) = self.mapped(&range) {
            let _ = map.advise_range(memmap2::Advice::PopulateRead, range.start, range.len());
        }
        #[cfg(not(target_os = "linux"))]
        let _ = range;
    }

    /// Gives back the memory of the whole pages in `range` of a mapped file. The bytes stay readable: they come from
    /// the file again. Owned bytes, and systems that know no such advice, keep their memory.
    pub fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Some(map) = self.mapped(&range) {
            // SAFETY: the call has no conditions.
            let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
            let Some(page) = usize::try_from(page).ok().filter(|page| page.is_power_of_two()) else { return };
            let (start, end) = (range.start.next_multiple_of(page), range.end / page * page);
            if start < end {
                let advice = memmap2::UncheckedAdvice::DontNeed;
                // SAFETY: the map is private and was never written to, so that a page which is dropped comes back from
                // the file with the bytes it had; references to it stay valid.
                let _ = unsafe { map.unchecked_advise_range(advice, start, end - start) };
            }
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    /// The mapping that holds `range`, which is not empty.
    #[cfg(unix)]
    fn mapped(&self, range: &Range<usize>) -> Option<&Mmap> {
        match &self.0 {
            Storage::Mapped(map) if range.start < range.end && range.end <= map.len() => Some(map),
            _ => None,
        }
    }

    /// Takes over bytes that are no file: at whatever address they have.
    pub(super) fn unaligned(buffer: Vec<u8>) -> FileBytes {
        FileBytes(Storage::Owned { buffer, start: 0 })
    }
}

impl fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Storage::Mapped(map) => map,
            Storage::Owned { buffer, start } => &buffer[*start..],
        }
    }
}

/// Opens a non-empty regular file and tells its length. Looks before opening: opening a named pipe would block.
fn open_regular(path: &Path) -> Result<(File, u64)> {
    let describe = |e: std::io::Error| match e.kind() {
        ErrorKind::NotFound => Error::Io("the file does not exist".into()),
        ErrorKind::PermissionDenied => Error::Io("the file may not be read: permission denied".into()),
        _ => Error::Io(format!("the file cannot be opened: {e}")),
    };
    let kind = fs::metadata(path).map_err(describe)?.file_type();
    if kind.is_dir() {
        return Err(Error::Io("this is a directory, expected a file".into()));
    }
    if !kind.is_file() {
        return Err(Error::Io("this is not a regular file".into()));
    }
    let file = File::open(path).map_err(describe)?;
    match file.metadata().map_err(describe)?.len() {
        0 => Err(Error::Format("the file is empty".into())),
        len => Ok((file, len)),
    }
}

/// Reads the `len` bytes of `file` into owned memory.
fn read_all(file: File, len: u64, watch: Watch<'_>) -> Result<FileBytes> {
    let too_big =
        |_| Error::NoMemory(format!("the file has {len} bytes, more than this machine can address"));
    let (mut buffer, start) = aligned_buffer(usize::try_from(len).map_err(too_big)?)?;
    let mut n_read = 0;
    while n_read < len {
        watch.check()?;
        let n = (&file)
            .take(READ_BYTES.min(len - n_read))
            .read_to_end(&mut buffer)
            .map_err(|e| Error::Io(format!("the file cannot be read: {e}")))?;
        if n == 0 {
            return Err(Error::Io(format!("the file has {len} bytes, but only {n_read} could be read")));
        }
        n_read += n as u64;
    }
    Ok(FileBytes(Storage::Owned { buffer, start }))
}

/// A vector with room for `len` more bytes without growing, and filled up to the first aligned address, its index
/// returned.
fn aligned_buffer(len: usize) -> Result<(Vec<u8>, usize)> {
    let no_memory = || Error::NoMemory(format!("{len} bytes of memory are not available"));
    let capacity = len.checked_add(ALIGNMENT).ok_or_else(no_memory)?;
    let mut buffer = Vec::<u8>::new();
    buffer.try_reserve_exact(capacity).map_err(|_| no_memory())?;
    let start = buffer.as_ptr().addr().wrapping_neg() % ALIGNMENT;
    buffer.resize(start, 0);
    Ok((buffer, start))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn owned_bytes_are_aligned_and_equal() {
        for len in [0, 1, 63, 64, 65, 4096] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let copy = FileBytes::copy(&bytes).unwrap();
            assert_eq!(&copy[..], &bytes[..]);
            assert_eq!(copy.as_ptr().addr() % ALIGNMENT, 0);
            let filled = FileBytes::filled(len, |to| to.copy_from_slice(&bytes)).unwrap();
            assert_eq!(&filled[..], &bytes[..]);
            assert_eq!(filled.as_ptr().addr() % ALIGNMENT, 0);
        }
    }

    #[test]
    fn advice_changes_no_byte() {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock"));
        let expected = fs::read(path).unwrap();
        for bytes in [FileBytes::map(path).unwrap(), FileBytes::read(path).unwrap()] {
            for range in [0..expected.len(), 1..expected.len() - 1, 5..5, 5000..9000, 0..usize::MAX / 2] {
                bytes.will_need(range.clone());
                bytes.populate(range.clone());
                bytes.release(range);
                assert_eq!(&bytes[..], &expected[..]);
            }
        }
    }

    #[test]
    fn mapped_and_read_bytes_are_the_file() {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        let expected = fs::read(path).unwrap();
        assert_eq!(&FileBytes::map(path).unwrap()[..], &expected[..]);
        let read = FileBytes::read(path).unwrap();
        assert_eq!(&read[..], &expected[..]);
        assert_eq!(read.as_ptr().addr() % ALIGNMENT, 0);
    }
}
