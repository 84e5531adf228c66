//! States in files, and from readers.
#![forbid(unsafe_code)]

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use xxhash_rust::xxh3::xxh3_64;

use super::Context;
use crate::error::{Error, Result};
use crate::gguf::{FileBytes, Reading};
use crate::threads;

/// Bytes that a reader is asked for at a time.
const READ_BYTES: usize = 1 << 20;

/// Gives the next bytes of a state: writes some to the buffer and returns how many, 0 at the end.
pub type Reader<'a> = dyn FnMut(&mut [u8]) -> Result<usize> + 'a;

/// The most names that are tried for a file.
const MOST_NAMES: usize = 1000;
/// As many symbolic links in a row as Linux follows.
const MOST_LINKS: usize = 40;

/// Keeps the names of temporary files of one process distinct.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl Context {
    /// As [`Context::save_state`], to a file. On any failure an existing file stays as it was: the state is written to a file
    /// beside it, which replaces it when it is whole and on disk. Its permissions stay, and so does a symbolic link to it. A
    /// process that is killed meanwhile leaves the file beside it, `.ember-…tmp`, until a state is saved there again.
    ///
    /// Errors: also `Io`, which begins with the path, also for a path that is no file.
    pub fn save_state_file(&self, seq: Option<u32>, path: &Path) -> Result<()> {
        let name = path.display().to_string();
        self.replace_file(seq, path).map_err(|e| e.within(&name))
    }

    fn replace_file(&self, seq: Option<u32>, path: &Path) -> Result<()> {
        let failed = |e: std::io::Error| Error::Io(format!("the state cannot be written: {e}"));
        let path = &follow_links(path).map_err(failed)?;
        if fs::metadata(path).is_ok_and(|old| !old.is_file()) {
            return Err(Error::Io(
                "it is no file that could be replaced, but a folder, a pipe or a device".into(),
            ));
        }
        let (file, beside) = beside(path).map_err(failed)?;
        let outcome = self.write_file(seq, &file, path).and_then(|()| {
            fs::rename(&beside, path).map_err(|e| Error::Io(format!("the state cannot be put in place: {e}")))
        });
        if outcome.is_err() {
            let _ = fs::remove_file(&beside);
        }
        // Until here nobody else could have opened it.
        drop(file);
        outcome
    }

    /// Writes a state to `file`, which is to replace the one at `path`.
    fn write_file(&self, seq: Option<u32>, file: &File, path: &Path) -> Result<()> {
        let failed = |e: std::io::Error| Error::Io(format!("the state cannot be written: {e}"));
        if let Ok(old) = fs::metadata(path) {
            file.set_permissions(old.permissions()).map_err(failed)?;
        }
        let mut writer = BufWriter::new(file);
        self.save_state(seq, &mut |bytes| writer.write_all(bytes).map_err(failed))?;
        writer.into_inner().map_err(|e| failed(e.into_error()))?;
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

    /// As [`Context::load_state`], from a reader, which is called until it gives no more.
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

/// A new file in the same folder, locked for as long as it is open, and its path.
fn beside(path: &Path) -> io::Result<(File, PathBuf)> {
    let prefix = prefix_beside(path);
    remove_left(path, &prefix);
    for _ in 0..MOST_NAMES {
        let number = NEXT.fetch_add(1, Relaxed);
        let beside = path.with_file_name(format!("{prefix}{}-{number}.tmp", threads::process()));
        let file = match File::create_new(&beside) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
            file => file?,
        };
        // Before it was locked, another process may have taken it for an abandoned one. Where files cannot be locked no process
        // does.
        let is_locked = !matches!(file.try_lock(), Err(TryLockError::WouldBlock));
        match fs::symlink_metadata(&beside) {
            Ok(_) if is_locked => return Ok((file, beside)),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => {
                let _ = fs::remove_file(&beside);
                return Err(e);
            }
        }
    }
    Err(io::Error::other("a file that was made beside it is taken away again and again"))
}

/// The file that a write to `path` would go to, whether it exists or not.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::canonicalize(&path) {
            Ok(path) => return Ok(path),
            Err(e) => match fs::read_link(&path) {
                // The target does not exist, or is a link to a missing file.
                Ok(target) if e.kind() == io::ErrorKind::NotFound => {
                    path = path.parent().unwrap_or(Path::new("")).join(target);
                }
                Ok(_) => return Err(e),
                Err(_) => return Ok(path),
            },
        }
    }
    Err(io::Error::other(format!("it leads to more than {MOST_LINKS} symbolic links in a row")))
}

/// The prefix of the names of files that are to replace the one at `path`. It is short, since the longest names cannot be
/// extended.
fn prefix_beside(path: &Path) -> String {
    format!(".ember-{:016x}-", xxh3_64(path.file_name().unwrap_or_default().as_encoded_bytes()))
}

/// Removes files that killed processes left: those that no process has locked.
fn remove_left(path: &Path, prefix: &str) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(files) = fs::read_dir(folder) else { return };
    for file in files.flatten() {
        let name = file.file_name();
        let is_ours = name.as_encoded_bytes().starts_with(prefix.as_bytes());
        if is_ours
            && file.file_type().is_ok_and(|kind| kind.is_file())
            && let Ok(left) = File::open(file.path())
            && left.try_lock().is_ok()
        {
            // Still locked, so that no file that another process has just made and locked is removed.
            let _ = fs::remove_file(file.path());
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_to_what_is_not_there() {
        let folder = std::env::temp_dir().join(format!("ember-links-{}", threads::process()));
        fs::create_dir_all(folder.join("inner")).expect("a folder");
        let folder = fs::canonicalize(&folder).expect("a folder");
        let link = |to: &str, name: &str| symlink(to, folder.join(name)).expect("a link");
        link("state", "a");
        link("inner/b", "b");
        link("../c", "inner/b");
        link(folder.join("absolute").to_str().expect("UTF-8"), "c");
        link("gone/state", "d");
        link("loop", "loop");
        let leads = |name: &str| follow_links(&folder.join(name));
        assert_eq!(leads("a").ok(), Some(folder.join("state")));
        assert_eq!(leads("b").ok(), Some(folder.join("absolute")));
        assert_eq!(leads("none").ok(), Some(folder.join("none")));
        assert_eq!(
            leads("d").ok(),
            Some(folder.join("gone/state")),
            "the folder is not there: writing fails"
        );
        assert!(leads("loop").is_err());
        fs::write(folder.join("state"), "").expect("a file");
        assert_eq!(leads("a").ok(), Some(folder.join("state")));
        fs::remove_dir_all(&folder).expect("the folder");
    }

    #[test]
    fn files_that_nobody_writes_to_are_removed_and_no_others() {
        let folder = std::env::temp_dir().join(format!("ember-beside-{}", threads::process()));
        fs::create_dir(&folder).expect("a folder");
        let path = folder.join("x".repeat(255));
        let left = folder.join(format!("{}1-1.tmp", prefix_beside(&path)));
        let other = folder.join(format!("{}1-1.tmp", prefix_beside(&folder.join("y"))));
        for path in [&left, &other] {
            fs::write(path, "half a state").expect("a file");
        }
        let first = beside(&path).expect("a file");
        let second = beside(&path).expect("a file");
        assert!(!left.exists() && other.exists());
        assert!(first.1.exists() && second.1.exists() && first.1 != second.1);
        drop(first.0);
        let third = beside(&path).expect("a file");
        assert!(!first.1.exists() && second.1.exists() && third.1.exists());
        fs::remove_dir_all(&folder).expect("the folder");
    }
}
