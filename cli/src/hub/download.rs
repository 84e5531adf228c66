//! Fetches a file into the cache: goes on where an earlier attempt ended, tries again, and checks what came.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::cache::{Repository, make_folder_of};
use super::checksum::Hasher;
use super::client::{About, Client, Trouble};
use crate::failure::{Failure, Result};
use crate::output;

/// Attempts in a row of which none brought a byte, of a file and of what is asked before.
const MOST_ATTEMPTS: u32 = 6;
const MOST_QUESTIONS: u32 = 3;
/// The longest that a hub may ask to wait.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Does something that may fail for a while.
pub fn patiently<T>(mut attempt: impl FnMut() -> Result<T, Trouble>) -> Result<T> {
    let mut n_failed = 0;
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(trouble) => wait(trouble, &mut n_failed, MOST_QUESTIONS)?,
        }
    }
}

/// Waits for the next attempt, or gives up.
fn wait(trouble: Trouble, n_failed: &mut u32, most: u32) -> Result<()> {
    let (sentence, asked) = match trouble {
        Trouble::Final(failure) => return Err(failure),
        Trouble::Passing(sentence, asked) => (sentence, asked),
    };
    *n_failed += 1;
    if *n_failed >= most {
        return Err(Failure::Said(format!("{sentence}; that was attempt {n_failed}, and the last")));
    }
    // 0.5, 1, 2, 4 and 8 seconds.
    let pause = asked.unwrap_or(Duration::from_millis(250 << *n_failed));
    if pause > LONGEST_WAIT {
        return Err(Failure::Said(format!("{sentence}; it may be asked again in {} s", pause.as_secs())));
    }
    output::note(format_args!("ember: {sentence}; trying again in {:.1} s", pause.as_secs_f32()));
    std::thread::sleep(pause);
    Ok(())
}

/// A file to fetch.
pub struct Wanted<'a> {
    pub client: &'a Client,
    pub repository: &'a str,
    pub cache: &'a Repository,
    pub commit: &'a str,
    pub file: &'a str,
    pub about: &'a About,
    pub quiet: bool,
}

impl Wanted<'_> {
    /// Puts the file into the snapshot of its commit, and fetches it first unless it is there.
    pub fn fetch(&self) -> Result<()> {
        let url = self.client.address(self.repository, self.commit, self.file);
        let mut about = self.about.clone();
        if about.size.is_none() || about.checksum.is_none() {
            about = patiently(|| self.client.about(&url, self.file, self.repository))?;
        }
        let (Some(size), Some(checksum)) = (about.size, about.checksum) else {
            return Err(self.refuse("the hub says neither its size nor its checksum"));
        };
        if Hasher::new(&checksum, size).is_none() {
            return Err(self.refuse(&format!(
                "the hub's checksum is {checksum:?}, which is neither SHA-256 nor Git's SHA-1"
            )));
        }
        let blob = self.cache.blob(&checksum);
        make_folder_of(&blob)?;
        let _lock = self.cache.lock(&checksum, || {
            output::note(format_args!("ember: another program fetches {}; waiting for it", self.file));
        })?;
        if fs::metadata(&blob).is_ok_and(|data| data.len() == size) {
            self.say(format_args!("{} is there already", self.file));
        } else {
            self.download(&url, &blob, size, &checksum)?;
        }
        self.cache.link(&checksum, self.commit, self.file)
    }

    fn refuse(&self, why: &str) -> Failure {
        Failure::Said(format!("{}/{}: {why}", self.repository, self.file))
    }

    fn say(&self, text: std::fmt::Arguments<'_>) {
        if !self.quiet {
            output::note(text);
        }
    }

    fn download(&self, url: &str, blob: &Path, size: u64, checksum: &str) -> Result<()> {
        let path = blob.with_file_name(format!("{checksum}.incomplete"));
        let failed = |e: io::Error| Failure::of(path.display(), &e);
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        let mut resumed = file.metadata().map_err(failed)?.len();
        if resumed > size {
            resumed = 0;
        }
        match resumed {
            0 => self.say(format_args!("{}: {}", self.file, output::size(size))),
            n => self.say(format_args!(
                "{}: {} of {} are there",
                self.file,
                output::size(n),
                output::size(size)
            )),
        }
        loop {
            let found = self.complete(url, &mut file, &path, resumed, size, checksum)?;
            if found == checksum {
                break;
            }
            file.set_len(0).map_err(failed)?;
            if resumed == 0 {
                drop(file);
                let _ = fs::remove_file(&path);
                return Err(self.refuse(&format!(
                    "its checksum is {found}, but the hub's is {checksum}; what came is deleted"
                )));
            }
            // What an earlier attempt left may be to blame.
            output::note(format_args!("ember: {} is not what the hub has; beginning anew", self.file));
            resumed = 0;
        }
        file.sync_all().map_err(failed)?;
        drop(file);
        fs::rename(&path, blob).map_err(|e| Failure::of(blob.display(), &e))
    }

    /// Fetches what is missing, and gives the checksum of the whole.
    fn complete(
        &self,
        url: &str,
        file: &mut File,
        path: &Path,
        resumed: u64,
        size: u64,
        checksum: &str,
    ) -> Result<String> {
        let bar = self.bar(size);
        let failed = |e: io::Error| Failure::of(path.display(), &e);
        let new = || Hasher::new(checksum, size).ok_or_else(|| self.refuse("the hub gives no checksum"));
        let mut hasher = new()?;
        let mut at = hash(file, resumed, &mut hasher).map_err(failed)?;
        let mut n_failed = 0;
        while at < size {
            bar.set_position(at);
            let before = at;
            let trouble = match self.client.get(url, at, self.file, self.repository) {
                Ok((response, about)) => {
                    if about
                        .checksum
                        .as_ref()
                        .is_some_and(|sum| sum != checksum && sum.len() == checksum.len())
                    {
                        return Err(self.refuse("the hub has another file now; please try again"));
                    }
                    let from = first_byte(&response, at);
                    if from != at {
                        // A server that knows no ranges.
                        (hasher, at) = (new()?, 0);
                        file.set_len(0).map_err(failed)?;
                    }
                    if from != 0 && from != at {
                        return Err(
                            self.refuse(&format!("the hub sends it from byte {from} on, not from {at}"))
                        );
                    }
                    file.seek(SeekFrom::Start(at)).map_err(failed)?;
                    let mut body = response.into_body().into_with_config().limit(u64::MAX).reader();
                    match copy(&mut body, file, &mut hasher, &mut at, size, &bar).map_err(failed)? {
                        Ended::Well if at < size => {
                            Some(format!("the connection ended at byte {at} of {size}"))
                        }
                        Ended::Well => None,
                        Ended::Badly(why) => Some(why),
                        Ended::TooLate => {
                            return Err(
                                self.refuse(&format!("more bytes come than the {size} that the hub says"))
                            );
                        }
                    }
                    .map(|why| Trouble::Passing(format!("{}: {why}", self.file), None))
                }
                Err(trouble) => Some(trouble),
            };
            if at > before {
                n_failed = 0;
            }
            if let Some(trouble) = trouble {
                bar.suspend(|| wait(trouble, &mut n_failed, MOST_ATTEMPTS))?;
            }
        }
        bar.finish_and_clear();
        Ok(hasher.finish())
    }

    /// A bar on terminals; nothing elsewhere.
    fn bar(&self, size: u64) -> ProgressBar {
        if self.quiet {
            return ProgressBar::hidden();
        }
        let form = "{bar:30} {percent:>3}%  {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        let bar = ProgressBar::new(size);
        bar.with_style(ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar()))
    }
}

/// Reads the first `n` bytes, and says how many there were. The file then goes on there.
fn hash(file: &mut File, n: u64, hasher: &mut Hasher) -> io::Result<u64> {
    file.seek(SeekFrom::Start(0))?;
    let (mut buffer, mut at) = (vec![0; 1 << 18], 0);
    while at < n {
        let most = usize::try_from(n - at).unwrap_or(usize::MAX).min(buffer.len());
        match file.read(&mut buffer[..most])? {
            0 => break,
            read => {
                hasher.update(&buffer[..read]);
                at += read as u64;
            }
        }
    }
    file.set_len(at)?;
    Ok(at)
}

/// Where an answer begins, which was asked for from byte `at` on.
fn first_byte(response: &ureq::http::Response<ureq::Body>, at: u64) -> u64 {
    if response.status().as_u16() != 206 {
        return 0;
    }
    let range = response.headers().get("content-range").and_then(|text| text.to_str().ok());
    let first = range.and_then(|text| text.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok());
    first.unwrap_or(at)
}

/// How the body of an answer ended.
enum Ended {
    Well,
    /// With an error of the connection.
    Badly(String),
    /// Not where the file ends.
    TooLate,
}

/// Copies up to byte `size`. Errors of the file are errors.
fn copy(
    body: &mut impl Read,
    file: &mut File,
    hasher: &mut Hasher,
    at: &mut u64,
    size: u64,
    bar: &ProgressBar,
) -> io::Result<Ended> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = match body.read(&mut buffer) {
            Ok(0) => return Ok(Ended::Well),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Ok(Ended::Badly(e.to_string())),
        };
        if n as u64 > size - *at {
            return Ok(Ended::TooLate);
        }
        file.write_all(&buffer[..n])?;
        hasher.update(&buffer[..n]);
        *at += n as u64;
        bar.set_position(*at);
    }
}
