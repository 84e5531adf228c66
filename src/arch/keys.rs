//! Keys of GGUF files that an architecture did not ask for.
//!
//! The [`Binder`](super::bind::Binder) notes each key `ARCH.…` that an architecture's file asks for; those are honoured. For the
//! other keys this table says why they change nothing, that they belong to other architectures and are ignored with a warning, or
//! when the file is refused. A warning names a key that is not in `keys_table`. That table has every key that llama.cpp reads
//! (`tests/oracle/gguf_keys.py`); `docs/gguf-keys.md` shows it, and `tests/gguf_keys.rs` checks both.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use super::ModelInfo;
use super::keys_table::KEYS;
use crate::error::{Error, Result, shortened};
use crate::gguf::{Gguf, quoted};

/// What happens to a key that no code asked for.
#[derive(Debug, Clone, Copy)]
pub enum Unasked {
    /// It changes nothing, for this reason.
    Nothing(&'static str),
    /// Models of other architectures use it: it is ignored, and a warning names it.
    Warned,
    /// The file is refused if the key fits the rule; the text names the feature.
    Refused(Rule, &'static str),
    /// Another layer reads it, for this purpose.
    Elsewhere(&'static str),
}

/// When a key asks for a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// When it is above this number.
    Above(i64),
    /// When it is false.
    False,
    /// When it is not the width of the residual stream.
    OtherWidth,
    /// When it is not the length of a head.
    OtherHead,
    /// When it is not the number of rotated elements of a head.
    OtherRotary,
}

/// What is known of the key `name` of an architecture.
fn known(name: &str) -> Option<Unasked> {
    let rest = |key: &'static str| key.strip_prefix("{arch}.");
    KEYS.iter().find(|(key, _)| rest(key) == Some(name)).map(|(_, unasked)| *unasked)
}

/// How many keys a warning names.
const SHOWN: usize = 8;

/// Checks the keys of an architecture that are not in `asked`: refuses what changes results, and notes the rest.
pub(super) fn check(gguf: &Gguf, info: &ModelInfo, asked: &HashSet<String>) -> Result<Notes> {
    let meta = gguf.metadata();
    let (mut foreign, mut unknown) = (Names::default(), Names::default());
    for (key, _) in meta.iter() {
        let Some(name) = key.strip_prefix(&*info.architecture).and_then(|rest| rest.strip_prefix('.')) else {
            continue;
        };
        if asked.contains(key) {
            continue;
        }
        match known(name) {
            Some(Unasked::Nothing(_) | Unasked::Elsewhere(_)) => {}
            Some(Unasked::Warned) => foreign.add(key),
            Some(Unasked::Refused(rule, what)) => {
                if asks(gguf, info, key, rule)? {
                    let key = gguf.call_key(key);
                    return Err(Error::Unsupported(format!("{what} ({key}) are not supported")));
                }
            }
            None => unknown.add(key),
        }
    }
    Ok(Notes { architecture: info.architecture.clone(), foreign, unknown })
}

fn asks(gguf: &Gguf, info: &ModelInfo, key: &str, rule: Rule) -> Result<bool> {
    let meta = gguf.metadata();
    if rule == Rule::False {
        return Ok(meta.bool(key)? == Some(false));
    }
    let Some(found) = meta.i64(key)? else { return Ok(false) };
    let wanted = match rule {
        Rule::Above(n) => return Ok(found > n),
        Rule::OtherWidth => Some(info.n_embd as i64),
        Rule::OtherRotary => meta.i64(&format!("{}.rope.dimension_count", info.architecture))?,
        Rule::OtherHead | Rule::False => None,
    };
    Ok(found != wanted.unwrap_or(info.head_dim as i64))
}

/// The ignored keys of a file.
pub(super) struct Notes {
    architecture: String,
    foreign: Names,
    unknown: Names,
}

impl Notes {
    /// Logs a warning of each kind with their names.
    pub(super) fn warn(self) {
        let arch = &self.architecture;
        let foreign = format!("the architecture \"{arch}\" has no use for these keys, which are ignored");
        self.foreign.warn(&foreign);
        self.unknown.warn("this version does not know these keys, which are ignored");
    }
}

/// Names of keys, the first few of which are shown.
#[derive(Default)]
struct Names {
    shown: Vec<String>,
    n: usize,
}

impl Names {
    fn add(&mut self, key: &str) {
        self.n += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(shortened(quoted(key.as_bytes())));
        }
    }

    fn warn(&self, what: &str) {
        let more = match self.n - self.shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        if self.n > 0 {
            log::warn!("{what}: {}{more}", self.shown.join(", "));
        }
    }
}
