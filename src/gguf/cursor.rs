//! A bounds-checked little-endian reader over untrusted bytes.
#![forbid(unsafe_code)]

use std::fmt::Display;

use crate::error::{Error, Result};

/// A position in a byte slice. Every read is checked against the end, and its error says what it was reading.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, position: 0 }
    }

    /// Offset of the next byte to read; never beyond the end.
    pub fn position(&self) -> usize {
        self.position
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// The next `n` bytes, which are `what` (a noun phrase for the error).
    pub fn take(&mut self, n: usize, what: impl Display) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.position..];
        let (taken, _) = rest.split_at_checked(n).ok_or_else(|| {
            let (at, left) = (self.position, rest.len());
            Error::Format(format!(
                "{what} at byte {at} needs {n} bytes, but only {left} are left in the file"
            ))
        })?;
        self.position += n;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self, what: impl Display) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N, what)?);
        Ok(bytes)
    }

    /// The next four bytes as an unsigned number.
    pub fn u32(&mut self, what: impl Display) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// The next eight bytes as an unsigned number.
    pub fn u64(&mut self, what: impl Display) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A count of elements (`what`, plural) that take at least `min_bytes` each, checked against the bytes left, so
    /// that the result is safe to allocate for.
    pub fn count(&mut self, min_bytes: usize, what: impl Display) -> Result<usize> {
        let n = self.u64(format_args!("the number of {what}"))?;
        let left = self.remaining();
        usize::try_from(n).ok().filter(|&n| n <= left / min_bytes).ok_or_else(|| {
            Error::Format(format!("the file claims {n} {what}, but only {left} bytes are left for them"))
        })
    }

    /// A string: its length in bytes as eight bytes, then the bytes, not checked for UTF-8.
    pub fn string(&mut self, what: impl Display) -> Result<&'a [u8]> {
        let len = self.u64(format_args!("the length of {what}"))?;
        let left = self.remaining();
        match usize::try_from(len) {
            Ok(len) if len <= left => self.take(len, what),
            _ => Err(Error::Format(format!(
                "{what} claims a length of {len} bytes, but only {left} are left in the file"
            ))),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn reads_little_endian_and_stops_at_the_end() {
        let mut c = Cursor::new(&[1, 2, 3, 4, 5]);
        assert_eq!(c.u32("a").unwrap(), 0x0403_0201);
        let e = c.u32("the tail").unwrap_err();
        assert_eq!(e.message(), "the tail at byte 4 needs 4 bytes, but only 1 are left in the file");
        assert_eq!((c.position(), c.remaining()), (4, 1), "a failed read does not move");
    }

    #[test]
    fn counts_and_strings_are_checked_against_the_end() {
        let mut bytes = u64::MAX.to_le_bytes().to_vec();
        bytes.extend([7; 16]);
        assert!(Cursor::new(&bytes).count(1, "things").is_err());
        assert!(Cursor::new(&bytes).string("a string").is_err());
        bytes[..8].copy_from_slice(&2u64.to_le_bytes());
        assert_eq!(Cursor::new(&bytes).count(8, "things").unwrap(), 2);
        assert!(Cursor::new(&bytes).count(9, "things").is_err());
        assert_eq!(Cursor::new(&bytes).string("a string").unwrap(), [7, 7]);
    }
}
