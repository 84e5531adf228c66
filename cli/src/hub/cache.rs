//! The folder in which Hugging Face's clients keep what they fetched. A repository has `blobs`, files under their checksums; `snapshots`, a
//! folder of links for each commit; and `refs`, the commits of branches.
#![forbid(unsafe_code)]

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::name::is_safe_path;
use crate::failure::{Failure, Result};

pub struct Cache {
    root: PathBuf,
}

/// A variable that is set, with `~` as shells read it.
fn folder(name: &str) -> Option<PathBuf> {
    let value = env::var_os(name).filter(|value| !value.is_empty())?;
    match value.to_str().and_then(|text| text.strip_prefix("~/")) {
        Some(rest) => Some(env::home_dir()?.join(rest)),
        None => Some(value.into()),
    }
}

/// HF_HOME, or where it is by default.
fn home() -> Result<PathBuf> {
    let default = || {
        Some(folder("XDG_CACHE_HOME").or_else(|| Some(env::home_dir()?.join(".cache")))?.join("huggingface"))
    };
    folder("HF_HOME")
        .or_else(default)
        .ok_or_else(|| Failure::said("there is no home folder for the cache; HF_HOME names another one"))
}

/// What the hub is shown, from HF_TOKEN or the file that a login leaves.
pub fn token() -> Result<Option<String>> {
    for name in ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"] {
        if let Some(token) =
            env::var(name).ok().map(|token| token.trim().to_owned()).filter(|token| !token.is_empty())
        {
            return Ok(Some(token));
        }
    }
    let path = match folder("HF_TOKEN_PATH") {
        Some(path) => path,
        None => home()?.join("token"),
    };
    match fs::read_to_string(&path) {
        Ok(token) => Ok(Some(token.trim().to_owned()).filter(|token| !token.is_empty())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Failure::of(path.display(), &e)),
    }
}

impl Cache {
    /// HF_HUB_CACHE, or `hub` in HF_HOME.
    pub fn from_environment() -> Result<Cache> {
        let named = folder("HF_HUB_CACHE").or_else(|| folder("HUGGINGFACE_HUB_CACHE"));
        Ok(Cache { root: named.map_or_else(|| home().map(|home| home.join("hub")), Ok)? })
    }

    pub fn repository(&self, name: &str) -> Repository {
        let folder = format!("models--{}", name.replace('/', "--"));
        Repository { folder: self.root.join(&folder), locks: self.root.join(".locks").join(folder) }
    }
}

/// The folder of a repository.
pub struct Repository {
    folder: PathBuf,
    locks: PathBuf,
}

impl Repository {
    pub fn blob(&self, checksum: &str) -> PathBuf {
        self.folder.join("blobs").join(checksum)
    }

    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// The snapshot of a branch, a tag or a commit, if there is one.
    pub fn snapshot_of(&self, revision: &str) -> Option<PathBuf> {
        if !is_safe_path(revision) {
            return None;
        }
        let commit = fs::read_to_string(self.folder.join("refs").join(revision)).ok();
        let commit = commit.as_deref().map_or(revision, str::trim);
        Some(self.snapshot(commit)).filter(|path| is_safe_path(commit) && path.is_dir())
    }

    /// Has a branch or a tag stand for a commit.
    pub fn set_revision(&self, revision: &str, commit: &str) -> Result<()> {
        if revision == commit || !is_safe_path(revision) {
            return Ok(());
        }
        let path = self.folder.join("refs").join(revision);
        make_folder_of(&path)?;
        replace(&path, |new| fs::write(new, commit))
    }

    /// Puts a blob into a snapshot.
    pub fn link(&self, checksum: &str, commit: &str, file: &str) -> Result<()> {
        let path = self.snapshot(commit).join(file);
        let blob = self.blob(checksum);
        make_folder_of(&path)?;
        if is_same(&path, &blob) {
            return Ok(());
        }
        let up = "../".repeat(2 + file.matches('/').count());
        let relative = PathBuf::from(format!("{up}blobs/{checksum}"));
        replace(&path, |new| {
            // Windows lets few programs make symbolic links, and some systems make none without a word.
            let linked = symlink(&relative, new).and_then(|()| fs::metadata(new));
            if linked.is_ok() {
                return Ok(());
            }
            let _ = fs::remove_file(new);
            fs::hard_link(&blob, new).or_else(|_| fs::copy(&blob, new).map(|_| ()))
        })
    }

    /// Waits until no other program fetches this blob; the lock ends with the file.
    pub fn lock(&self, checksum: &str, when_waiting: impl FnOnce()) -> Result<File> {
        let path = self.locks.join(format!("{checksum}.lock"));
        make_folder_of(&path)?;
        let failed = |e: &io::Error| Failure::of(path.display(), e);
        let file =
            File::options().create(true).truncate(false).write(true).open(&path).map_err(|e| failed(&e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                when_waiting();
                file.lock().map_err(|e| failed(&e))?;
            }
            // A file system without locks: as without other programs.
            Err(fs::TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => {}
            Err(fs::TryLockError::Error(e)) => return Err(failed(&e)),
        }
        Ok(file)
    }
}

pub fn make_folder_of(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|e| Failure::of(folder.display(), &e))
}

/// Makes a file under another name, and has it take the place of what is at `path`.
fn replace(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<()> {
    let new = path.with_file_name(format!(".{}.new", std::process::id()));
    let _ = fs::remove_file(&new);
    make(&new).and_then(|()| fs::rename(&new, path)).map_err(|e| Failure::of(path.display(), &e))
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(windows)]
fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(target.to_string_lossy().replace('/', "\\"), link)
}

/// Whether a file of a snapshot is a blob already.
fn is_same(path: &Path, blob: &Path) -> bool {
    let of = |path: &Path| path.canonicalize().ok();
    of(path).is_some() && of(path) == of(blob)
}

/// The files below a folder, as paths of a repository, in order. Links that lead nowhere are left out.
pub fn files(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), String::new())];
    while let Some((path, prefix)) = folders.pop() {
        let failed = |e: io::Error| Failure::of(path.display(), &e);
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            match fs::metadata(entry.path()) {
                Ok(data) if data.is_dir() => folders.push((entry.path(), format!("{name}/"))),
                Ok(_) => found.push(name),
                Err(_) => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_links_to_blobs_and_a_branch_to_it() {
        let root = tempfile::tempdir().expect("a folder");
        let cache = Cache { root: root.path().to_owned() }.repository("a/b");
        let commit = "c".repeat(40);
        assert_eq!(cache.snapshot_of("main"), None);
        make_folder_of(&cache.blob("x")).expect("a folder");
        fs::write(cache.blob("x"), "one").expect("a file");
        for _ in 0..2 {
            cache.link("x", &commit, "1_Pooling/config.json").expect("a link");
            cache.set_revision("main", &commit).expect("a file");
        }
        let snapshot = cache.snapshot_of("main").expect("a snapshot");
        assert_eq!(snapshot, root.path().join("models--a--b/snapshots").join(&commit));
        assert_eq!(cache.snapshot_of(&commit), Some(snapshot.clone()));
        assert_eq!(files(&snapshot).expect("files"), ["1_Pooling/config.json"]);
        assert_eq!(fs::read_to_string(snapshot.join("1_Pooling/config.json")).expect("a file"), "one");
        fs::write(cache.blob("y"), "two").expect("a file");
        cache.link("y", &commit, "1_Pooling/config.json").expect("a link");
        assert_eq!(fs::read_to_string(snapshot.join("1_Pooling/config.json")).expect("a file"), "two");
        assert_eq!(cache.snapshot_of("../../x"), None);
    }
}
