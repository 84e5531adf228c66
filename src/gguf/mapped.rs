//! A mapped file, which can be read as well.

use std::fs::File;
use std::io::ErrorKind;
#[cfg(not(any(unix, windows)))]
use std::io::{Read, Seek, SeekFrom};
#[cfg(unix)]
use std::os::fd::AsRawFd;

use memmap2::Mmap;

use crate::error::{Error, Result};

/// A range of a file in the address space. It costs memory only where it is touched. If the file was shortened, touching a
/// missing page ends the process; so the file can be read as well.
pub struct Mapped {
    /// The bytes.
    pub map: Mmap,
    /// The file of the bytes.
    pub file: File,
    /// Where the range begins in the file.
    offset: u64,
    /// Device and file number: programs that close all descriptors may get others under the same numbers later.
    #[cfg(unix)]
    identity: Option<(libc::dev_t, libc::ino_t)>,
}

impl Mapped {
    /// The mapping of `file` from `offset` on.
    pub fn new(map: Mmap, file: File, offset: u64) -> Mapped {
        #[cfg(unix)]
        let identity = status(&file).map(|status| (status.st_dev, status.st_ino));
        Mapped {
            map,
            file,
            offset,
            #[cfg(unix)]
            identity,
        }
    }

    /// How many bytes the file has now from the range's beginning on; `None` where the descriptor no longer belongs to the file.
    fn len_now(&self) -> Option<u64> {
        #[cfg(unix)]
        let len = {
            let now = status(&self.file).filter(|now| self.identity == Some((now.st_dev, now.st_ino)))?;
            u64::try_from(now.st_size).ok()?
        };
        #[cfg(not(unix))]
        let len = self.file.metadata().ok()?.len();
        Some(len.saturating_sub(self.offset))
    }

    /// See [`FileBytes::copy_to`](super::FileBytes::copy_to).
    pub fn copy_to(&self, start: usize, out: &mut [u8]) -> Result<()> {
        let is_file = self.len_now().is_some();
        match is_file.then(|| read_up_to(&self.file, out, self.offset + start as u64)) {
            Some(Ok(n)) if n == out.len() => Ok(()),
            Some(Ok(_)) => Err(Error::Io(format!(
                "the file was cut short after it was opened: it had {} bytes and has {} now",
                self.map.len(),
                self.len_now().unwrap_or(0)
            ))),
            Some(Err(e)) if e.kind() != ErrorKind::InvalidInput => Err(unreadable(e)),
            // Without the file the mapping is still there; also where only whole blocks can be read (O_DIRECT).
            None | Some(Err(_)) => {
                out.copy_from_slice(&self.map[start..start + out.len()]);
                Ok(())
            }
        }
    }
}

/// The status of an open file.
#[cfg(unix)]
fn status(file: &File) -> Option<libc::stat> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the call writes to what it is given, or fails.
    let failed = unsafe { libc::fstat(file.as_raw_fd(), status.as_mut_ptr()) } != 0;
    // SAFETY: it has not failed, so all was written.
    (!failed).then(|| unsafe { status.assume_init() })
}

/// Reads some of `file` from `offset` on. On Unix its position stays, which a host's descriptor shares with it, and several
/// threads may read at the same time.
fn read_some(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_at(file, buffer, offset);
    #[cfg(windows)]
    return std::os::windows::fs::FileExt::seek_read(file, buffer, offset);
    #[cfg(not(any(unix, windows)))]
    {
        let mut file = file;
        file.seek(SeekFrom::Start(offset))?;
        file.read(buffer)
    }
}

/// Reads `file` from `offset` on until `buffer` is full or the file ends. Returns the number of bytes.
pub fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut n_read = 0;
    while n_read < buffer.len() {
        match read_some(file, &mut buffer[n_read..], offset + n_read as u64) {
            Ok(0) => break,
            Ok(n) => n_read += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(n_read)
}

/// The error of a failed read.
pub fn unreadable(e: std::io::Error) -> Error {
    Error::Io(format!("the file cannot be read: {e}"))
}
