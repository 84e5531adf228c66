//! The bytes of a whole model file: mapped, read into memory, or the host's.

use std::any::Any;
use std::fmt;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

#[cfg(any(unix, windows))]
use memmap2::Mmap;
use memmap2::MmapOptions;

use super::Reading;
use super::mapped::{Mapped, read_up_to, unreadable};
use crate::error::{Error, Result};
#[cfg(windows)]
use crate::memory::pages;
use crate::memory::{Memory, Zeroed};

/// The name of a copy in errors about memory.
const COPY: &str = "a copy of a file";
/// Bytes that are read between two checks for cancelling.
const READ_BYTES: usize = 1 << 19;
/// The alignment of numbers in a file; files put them at multiples of 32 from their beginning.
const ALIGNMENT: usize = 4;

/// The immutable bytes of a file, `Send + Sync`. The address of the first one is a multiple of 4, and usually of 64.
///
/// A [`Memory`] that only measures counts what reading and copying would take: a file is mapped instead of read, and a large copy
/// has only a length.
pub struct FileBytes {
    storage: Storage,
    /// The file's name in errors, if it is one of several.
    name: Option<Box<str>>,
    /// The charge for bytes that are elsewhere or only counted; otherwise empty.
    _counted: Zeroed<u8>,
}

enum Storage {
    Mapped(Mapped),
    Owned(Zeroed<u8>),
    /// Bytes that are no file, at any address.
    Loose(Vec<u8>),
    /// Bytes that were only counted.
    Counted(usize),
    /// The caller's bytes, which do not change while the owner is kept.
    Borrowed(&'static [u8], #[allow(dead_code, reason = "dropped, never read")] Arc<dyn Any + Send + Sync>),
}

impl FileBytes {
    /// Maps the file, or reads it where the system cannot map it.
    ///
    /// # Errors
    /// As [`FileBytes::read`].
    pub fn map(path: &Path, reading: &Reading<'_>) -> Result<FileBytes> {
        let (file, len) = open_regular(path)?;
        FileBytes::part(file, 0, len, true, reading)
    }

    /// Reads the file into memory.
    ///
    /// # Errors
    /// `Io` when the file is missing, a directory, not a regular file or unreadable, `Format` when it is empty,
    /// `NoMemory` when it does not fit in memory, and what ends `reading`.
    pub fn read(path: &Path, reading: &Reading<'_>) -> Result<FileBytes> {
        let (file, len) = open_regular(path)?;
        FileBytes::part(file, 0, len, false, reading)
    }

    /// The `len` bytes of an open file from `offset` on; up to its end when `len` is `None`.
    ///
    /// # Errors
    /// As [`FileBytes::read`], and `InvalidArgument` for a range that is not inside the file.
    pub fn part_of(
        file: File,
        offset: u64,
        len: Option<u64>,
        use_mmap: bool,
        reading: &Reading<'_>,
    ) -> Result<FileBytes> {
        let meta = file.metadata().map_err(|e| Error::Io(format!("it cannot be looked at: {e}")))?;
        if !meta.is_file() {
            return Err(Error::Io("this is not a regular file".into()));
        }
        let rest = meta.len().checked_sub(offset);
        match (rest, len) {
            (Some(rest), len) if len.is_none_or(|len| len <= rest) => match len.unwrap_or(rest) {
                0 => Err(Error::Format("the file is empty".into())),
                len => FileBytes::part(file, offset, len, use_mmap, reading),
            },
            _ => Err(Error::InvalidArgument(format!(
                "the file has {} bytes, so there are no {} from offset {offset} on",
                meta.len(),
                len.map_or("bytes".to_owned(), |len| format!("{len} bytes"))
            ))),
        }
    }

    fn part(file: File, offset: u64, len: u64, use_mmap: bool, reading: &Reading<'_>) -> Result<FileBytes> {
        let too_big =
            |_| Error::NoMemory(format!("the file has {len} bytes, more than this machine can address"));
        let n_bytes = usize::try_from(len).map_err(too_big)?;
        let mut options = MmapOptions::new();
        options.offset(offset).len(n_bytes);
        let measures = reading.memory.measures();
        let count = || reading.memory.zeroed(n_bytes, "the file");
        // SAFETY: the map is private to this process and read-only. The caller promises at `Gguf::open` that no program shortens
        // or rewrites the file meanwhile; parsing copes with any content.
        let map = (use_mmap || measures).then(|| unsafe { options.map(&file) });
        match map {
            Some(Ok(map)) if is_aligned(&map) => {
                let _counted = if use_mmap { Zeroed::default() } else { count()? };
                Ok(FileBytes {
                    storage: Storage::Mapped(Mapped::new(map, file, offset)),
                    name: None,
                    _counted,
                })
            }
            _ if measures => {
                let elsewhere = Reading { memory: &Memory::UNLIMITED, ..reading.clone() };
                let read = read_all(file, offset, n_bytes, &elsewhere)?;
                Ok(FileBytes { _counted: count()?, ..read })
            }
            _ => read_all(file, offset, n_bytes, reading),
        }
    }

    /// Copies `bytes`, also when `memory` only measures, so that they can be read.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn copy(bytes: &[u8], memory: &Memory) -> Result<FileBytes> {
        let (counted, memory) = match memory.measures() {
            true => (memory.zeroed(bytes.len(), COPY)?, &Memory::UNLIMITED),
            false => (Zeroed::default(), memory),
        };
        let copy = FileBytes::filled(bytes.len(), memory, |to| to.copy_from_slice(bytes))?;
        Ok(FileBytes { _counted: counted, ..copy })
    }

    /// Zeroed memory of `len` bytes that `fill` writes to. Where `memory` only measures, `fill` is not called and there are no
    /// bytes.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn filled(len: usize, memory: &Memory, fill: impl FnOnce(&mut [u8])) -> Result<FileBytes> {
        let mut buffer = memory.zeroed(len, COPY)?;
        if memory.measures() {
            return Ok(FileBytes { storage: Storage::Counted(len), name: None, _counted: buffer });
        }
        fill(&mut buffer);
        Ok(Storage::Owned(buffer).into())
    }

    /// Bytes that stay as they are until `owner` is dropped; a copy of them where they are not aligned.
    ///
    /// # Errors
    /// `NoMemory` for a copy.
    pub fn borrowed(
        bytes: &'static [u8],
        owner: Arc<dyn Any + Send + Sync>,
        memory: &Memory,
    ) -> Result<FileBytes> {
        match is_aligned(bytes) {
            true => Ok(Storage::Borrowed(bytes, owner).into()),
            false => FileBytes::copy(bytes, memory),
        }
    }

    /// How many bytes there are, or were counted.
    pub fn n_bytes(&self) -> usize {
        match &self.storage {
            Storage::Counted(len) => *len,
            _ => self.len(),
        }
    }

    /// Whether numbers of four bytes can be read in place from `offset` on.
    pub fn is_aligned_at(&self, offset: usize) -> bool {
        match &self.storage {
            Storage::Counted(_) => offset.is_multiple_of(ALIGNMENT),
            _ => is_aligned(&self[offset..]),
        }
    }

    /// Whether [`FileBytes::read_at`] reads a file.
    pub fn is_mapped(&self) -> bool {
        matches!(self.storage, Storage::Mapped(_))
    }

    /// The same bytes, with `name` for errors: for one file of several.
    pub(crate) fn called(self, name: &str) -> FileBytes {
        FileBytes { name: Some(name.into()), ..self }
    }

    /// Copies the bytes from `start` on to `out`. Those of a mapped file are read, so that no page of the mapping is touched.
    ///
    /// # Errors
    /// `Io` when the file no longer has them or cannot be read.
    pub fn copy_to(&self, start: usize, out: &mut [u8]) -> Result<()> {
        let Storage::Mapped(mapped) = &self.storage else {
            out.copy_from_slice(&self[start..start + out.len()]);
            return Ok(());
        };
        mapped.copy_to(start, out).map_err(|e| match &self.name {
            Some(name) => e.within(name),
            None => e,
        })
    }

    /// The bytes of `range`: in place when they are in memory; those of a mapped file are read into `buffer`, which must be large
    /// enough.
    ///
    /// # Errors
    /// As [`FileBytes::copy_to`].
    pub fn read_at<'a>(&'a self, range: Range<usize>, buffer: &'a mut [u8]) -> Result<&'a [u8]> {
        if !self.is_mapped() {
            return Ok(&self[range]);
        }
        let buffer = &mut buffer[..range.len()];
        self.copy_to(range.start, buffer)?;
        Ok(buffer)
    }

    /// Asks the system to begin fetching `range` of a mapped file from disk. It is a hint, and errors are ignored: reading the
    /// bytes works in any case.
    pub fn will_need(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Some(map) = self.mapped(&range) {
            let _ = map.advise_range(memmap2::Advice::WillNeed, range.start, range.len());
        }
        #[cfg(windows)]
        if let Some(map) = self.mapped(&range) {
            pages::will_need(&map[range]);
        }
        #[cfg(not(any(unix, windows)))]
        let _ = range;
    }

    /// Gives back the memory of the whole pages in `range` of a mapped file. The bytes stay readable: they are read from the file
    /// again. Owned bytes keep their memory, as do all bytes on systems without such a call.
    pub fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Some(map) = self.mapped(&range) {
            // SAFETY: the call has no conditions.
            let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
            let Some(page) = usize::try_from(page).ok().filter(|page| page.is_power_of_two()) else { return };
            let first = map.as_ptr().addr();
            let (start, end) =
                ((first + range.start).next_multiple_of(page), (first + range.end) / page * page);
            if start < end {
                let start = start - first;
                let end = end - first;
                let advice = memmap2::UncheckedAdvice::DontNeed;
                // SAFETY: the map is private and was never written to, so a dropped page is read from the file again with the
                // same bytes; references to it stay valid.
                let _ = unsafe { map.unchecked_advise_range(advice, start, end - start) };
            }
        }
        #[cfg(windows)]
        if let Some(map) = self.mapped(&range) {
            pages::release(&map[range]);
        }
        #[cfg(not(any(unix, windows)))]
        let _ = range;
    }

    /// Locks `range` into memory until the bytes are dropped. The host's bytes are left as they are.
    ///
    /// # Errors
    /// As [`Zeroed::lock`].
    pub fn lock(&self, range: Range<usize>) -> std::io::Result<()> {
        match &self.storage {
            #[cfg(unix)]
            Storage::Mapped(Mapped { map, .. }) => {
                let bytes = &map[range];
                // SAFETY: the call only reads the addresses of the pages.
                match unsafe { libc::mlock(bytes.as_ptr().cast(), bytes.len()) } {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            }
            #[cfg(windows)]
            Storage::Mapped(Mapped { map, .. }) => pages::lock(&map[range]),
            #[cfg(not(any(unix, windows)))]
            Storage::Mapped(..) => {
                let _ = range;
                Err(std::io::ErrorKind::Unsupported.into())
            }
            Storage::Owned(bytes) => bytes.lock(),
            Storage::Loose(_) | Storage::Counted(_) | Storage::Borrowed(..) => Ok(()),
        }
    }

    /// The mapping that holds `range`, which is not empty.
    #[cfg(any(unix, windows))]
    fn mapped(&self, range: &Range<usize>) -> Option<&Mmap> {
        match &self.storage {
            Storage::Mapped(Mapped { map, .. }) if range.start < range.end && range.end <= map.len() => {
                Some(map)
            }
            _ => None,
        }
    }

    /// Takes over bytes that are no file, at any address.
    pub(super) fn unaligned(buffer: Vec<u8>) -> FileBytes {
        Storage::Loose(buffer).into()
    }
}

impl From<Storage> for FileBytes {
    fn from(storage: Storage) -> FileBytes {
        FileBytes { storage, name: None, _counted: Zeroed::default() }
    }
}

impl fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.n_bytes())
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.storage {
            Storage::Mapped(Mapped { map, .. }) => map,
            Storage::Owned(buffer) => buffer,
            Storage::Loose(bytes) => bytes,
            Storage::Counted(_) => &[],
            Storage::Borrowed(bytes, _) => bytes,
        }
    }
}

/// Opens a non-empty regular file and returns its length. Checks the type before opening: opening a named pipe would block.
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

fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(ALIGNMENT)
}

/// Reads `len` bytes of `file` from `offset` on.
fn read_all(file: File, offset: u64, len: usize, reading: &Reading<'_>) -> Result<FileBytes> {
    let mut buffer = reading.memory.zeroed(len, "the file")?;
    reading.progress.expect(len as u64);
    for first in (0..len).step_by(READ_BYTES) {
        let buffer = &mut buffer[first..len.min(first + READ_BYTES)];
        let n = read_up_to(&file, buffer, offset + first as u64).map_err(unreadable)?;
        if n < buffer.len() {
            let n_read = first + n;
            return Err(Error::Io(format!("the file has {len} bytes, but only {n_read} could be read")));
        }
        reading.progress.add(n as u64);
        (reading.step)()?;
    }
    Ok(Storage::Owned(buffer).into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
mod tests {
    #[cfg(unix)]
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn owned_bytes_are_aligned_and_equal() {
        for len in [0, 1, 63, 64, 65, 4096] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let copy = FileBytes::copy(&bytes, &Memory::default()).unwrap();
            assert_eq!(&copy[..], &bytes[..]);
            assert_eq!(copy.as_ptr().addr() % 64, 0);
            let filled = FileBytes::filled(len, &Memory::default(), |to| to.copy_from_slice(&bytes)).unwrap();
            assert_eq!(&filled[..], &bytes[..]);
            assert_eq!(filled.as_ptr().addr() % 64, 0);
        }
    }

    #[test]
    fn advice_changes_no_byte() {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock"));
        let expected = fs::read(path).unwrap();
        for bytes in [
            FileBytes::map(path, &Reading::default()).unwrap(),
            FileBytes::read(path, &Reading::default()).unwrap(),
        ] {
            for range in [0..expected.len(), 1..expected.len() - 1, 5..5, 5000..9000, 0..usize::MAX / 2] {
                bytes.will_need(range.clone());
                bytes.release(range);
                assert_eq!(&bytes[..], &expected[..]);
            }
        }
    }

    #[test]
    fn mapped_and_read_bytes_are_the_file() {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        let expected = fs::read(path).unwrap();
        assert_eq!(&FileBytes::map(path, &Reading::default()).unwrap()[..], &expected[..]);
        let read = FileBytes::read(path, &Reading::default()).unwrap();
        assert_eq!(&read[..], &expected[..]);
        assert_eq!(read.as_ptr().addr() % 64, 0);
    }

    #[cfg(unix)]
    #[test]
    fn parts_are_read_where_they_are_and_those_that_are_gone_are_errors() {
        let path = std::env::temp_dir().join(format!("ember-bytes-{}", std::process::id()));
        let expected: Vec<u8> = (0..9000).map(|i| (i % 251) as u8).collect();
        fs::write(&path, &expected).unwrap();
        let reading = Reading::default();
        let part = |mapped| FileBytes::part_of(File::open(&path).unwrap(), 4, Some(8000), mapped, &reading);
        let (mapped, read) = (part(true).unwrap(), part(false).unwrap());
        assert!(mapped.is_mapped() && !read.is_mapped());
        let mut buffer = vec![0; 8000];
        for range in [0..8000, 0..1, 7999..8000, 100..5000, 50..50] {
            for bytes in [&mapped, &read] {
                let found = bytes.read_at(range.clone(), &mut buffer).unwrap();
                assert_eq!(found, &expected[4 + range.start..4 + range.end]);
            }
        }
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::fs::OpenOptionsExt;
            let direct = fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path);
            // Some file systems do not support it.
            if let Ok(direct) = direct {
                let direct = FileBytes::part_of(direct, 4, Some(8000), true, &reading).unwrap();
                assert_eq!(direct.read_at(100..5000, &mut buffer).unwrap(), &expected[104..5004]);
            }
        }
        // A descriptor that was closed and now belongs to another file, and one that does not exist.
        let elsewhere = File::open("/dev/null").unwrap();
        for new in [Some(elsewhere.as_raw_fd()), None] {
            let closed = part(true).unwrap();
            let Storage::Mapped(Mapped { file, .. }) = &closed.storage else { panic!("a mapping") };
            let fd = file.as_raw_fd();
            let done = match new {
                // SAFETY: two open descriptors, the second the file's own, which is forgotten below.
                Some(new) => unsafe { libc::dup2(new, fd) },
                // SAFETY: as above.
                None => unsafe { libc::close(fd) },
            };
            assert!(done >= 0);
            assert_eq!(closed.read_at(0..8000, &mut buffer).unwrap(), &expected[4..8004]);
            // Closing it again could close a descriptor of another test.
            std::mem::forget(closed);
        }
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1004).unwrap();
        let sentence = "the file was cut short after it was opened: it had 8000 bytes and has 1000 now";
        for range in [500..1500, 7000..7001] {
            assert_eq!(mapped.read_at(range, &mut buffer), Err(Error::Io(sentence.into())));
        }
        assert_eq!(mapped.read_at(0..1000, &mut buffer).unwrap(), &expected[4..1004]);
        assert_eq!(read.read_at(500..1500, &mut buffer).unwrap(), &expected[504..1504]);
        let error = mapped.called("the second").copy_to(1000, &mut buffer[..1]);
        assert_eq!(error, Err(Error::Io(format!("the second: {sentence}"))));
        fs::remove_file(&path).unwrap();
    }
}
