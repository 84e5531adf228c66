//! States in files, and from readers.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Context;
use crate::error::{Error, Result};
use crate::gguf::{FileBytes, Reading};
use crate::threads;

/// Bytes that a reader is asked for at a time.
const READ_BYTES: usize = 1 << 20;

/// Gives the next bytes of a state: writes some to the buffer and tells how many, 0 at the end.
pub type Reader<'a> = dyn FnMut(&mut [u8]) -> Result<usize> + 'a;

/// Tells temporary files of one process apart.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl Context {
    /// As [`Context::save_state`], to a file. Whatever fails, a file that was there before is as it was: the state is
    /// written beside it and put in its place when it is whole and on disk.
    ///
    /// Errors: also `Io`, beginning with the path.
    pub fn save_state_file(&self, seq: Option<u32>, path: &Path) -> Result<()> {
        let name = path.display().to_string();
        let beside = beside(path);
        let outcome = self.write_file(seq, &beside).and_then(|()| {
            fs::rename(&beside, path).map_err(|e| Error::Io(format!("the state cannot be put in place: {e}")))
        });
        if outcome.is_err() {
            let _ = fs::remove_file(&beside);
        }
        outcome.map_err(|e| e.within(&name))
    }

    fn write_file(&self, seq: Option<u32>, path: &Path) -> Result<()> {
        let failed = |e: std::io::Error| Error::Io(format!("the state cannot be written: {e}"));
        let mut file = BufWriter::new(File::create_new(path).map_err(failed)?);
        self.save_state(seq, &mut |bytes| file.write_all(bytes).map_err(failed))?;
        let file = file.into_inner().map_err(|e| failed(e.into_error()))?;
        file.sync_all().map_err(failed)
    }

    /// As [`Context::load_state`], from a file.
    ///
    /// Errors: also `Io`; all begin with the path.
    pub fn load_state_file(&mut self, seq: Option<u32>, path: &Path) -> Result<()> {
        let name = path.display().to_string();
        let too_long =
            |len: u64| Error::Format(format!("the file has {len} bytes, more than a state of this context"));
        let most = self.most_state_len();
        let state = fs::metadata(path).map_or(Ok(()), |meta| match meta.len() {
            len if len > most => Err(too_long(len)),
            _ => Ok(()),
        });
        let state = state.and_then(|()| FileBytes::read(path, &Reading::default()));
        state.and_then(|state| self.load_state(seq, &state)).map_err(|e| e.within(&name))
    }

    /// As [`Context::load_state`], from a reader, which is asked until it gives no more.
    ///
    /// Errors: also those of `read`.
    pub fn load_state_from(&mut self, seq: Option<u32>, read: &mut Reader<'_>) -> Result<()> {
        let most = self.most_state_len();
        let mut state = Vec::new();
        loop {
            let len = state.len();
            if len as u64 > most {
                return Err(Error::Format(format!(
                    "the state is longer than {most} bytes, the most of this context"
                )));
            }
            let no_memory = |_| Error::NoMemory(format!("no memory for a state of {len} bytes and more"));
            state.try_reserve(READ_BYTES).map_err(no_memory)?;
            state.resize(len + READ_BYTES, 0);
            let n = read(&mut state[len..])?.min(READ_BYTES);
            state.truncate(len + n);
            if n == 0 {
                return self.load_state(seq, &state);
            }
        }
    }
}

/// A name in the same folder that nobody else takes.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{}.tmp", threads::process(), NEXT.fetch_add(1, Relaxed)));
    path.with_file_name(name)
}
