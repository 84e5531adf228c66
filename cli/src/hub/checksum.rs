//! Checksums of a hub's files, which are their names in the cache: SHA-256 of large files, Git's SHA-1 of others.
#![forbid(unsafe_code)]

use std::fmt::Write;

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// A checksum under way.
pub enum Hasher {
    Sha256(Sha256),
    Git(Sha1),
}

impl Hasher {
    /// Of a file of `size` bytes, for a checksum that has the form of `expected`; `None` when it is no checksum.
    pub fn new(expected: &str, size: u64) -> Option<Hasher> {
        if !expected.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c)) {
            return None;
        }
        match expected.len() {
            64 => Some(Hasher::Sha256(Sha256::new())),
            40 => Some(Hasher::Git(Sha1::new_with_prefix(format!("blob {size}\0")))),
            _ => None,
        }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(hasher) => hasher.update(bytes),
            Hasher::Git(hasher) => hasher.update(bytes),
        }
    }

    pub fn finish(self) -> String {
        match self {
            Hasher::Sha256(hasher) => hex(&hasher.finalize()),
            Hasher::Git(hasher) => hex(&hasher.finalize()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(form: &str, bytes: &[u8]) -> Option<String> {
        let mut hasher = Hasher::new(form, bytes.len() as u64)?;
        hasher.update(bytes);
        Some(hasher.finish())
    }

    /// `printf hello | sha256sum`, and `printf hello | git hash-object --stdin`.
    #[test]
    fn both_kinds_are_known() {
        let sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let git = "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0";
        assert_eq!([sum(sha256, b"hello"), sum(git, b"hello")], [Some(sha256.into()), Some(git.into())]);
        for other in ["", "abc", &"z".repeat(64), "d41d8cd98f00b204e9800998ecf8427e-3"] {
            assert_eq!(sum(other, b""), None, "{other}");
        }
    }
}
