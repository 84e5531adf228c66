//! SentencePiece's precompiled normalization table: a double-array trie from byte strings to their replacements.
//!
//! Layout (`sentencepiece/src/normalizer.cc` and darts-clone): the trie's size in bytes as a little-endian u32, the
//! trie as 32-bit units, then the replacements, each ended by a zero byte.
#![forbid(unsafe_code)]

use unicode_segmentation::UnicodeSegmentation;

use crate::error::{Error, Result};
use crate::gguf::{copied_text, with_capacity};

/// The table.
pub(super) struct Charsmap {
    units: Vec<u32>,
    /// The replacements.
    strings: String,
}

/// The longest key, in bytes, that is searched for: real ones are a few characters, and the limit keeps the search linear in the
/// text for any table.
const MAX_KEY: usize = 128;

/// The longest replacement, in bytes. Real ones are 18 characters at most.
const MAX_REPLACEMENT: usize = 1024;

impl Charsmap {
    /// Reads the table that `name` holds.
    ///
    /// # Errors
    /// `Format` if its sizes contradict each other or a replacement is not UTF-8.
    pub(super) fn new(blob: &[u8], name: &str) -> Result<Charsmap> {
        let bad = |what: String| Error::Format(format!("the normalization table {name:?} {what}"));
        let Some((size, rest)) = blob.split_first_chunk::<4>() else {
            return Err(bad(format!("has {} bytes, fewer than 4", blob.len())));
        };
        let size = u32::from_le_bytes(*size) as usize;
        if size > rest.len() || !size.is_multiple_of(4) || size == 0 {
            return Err(bad(format!("says that its trie has {size} bytes; {} bytes follow", rest.len())));
        }
        let (trie, strings) = rest.split_at(size);
        let strings = std::str::from_utf8(strings)
            .map_err(|e| bad(format!("has replacements that are not UTF-8: {e}")))?;
        if let Some(long) = strings.split('\0').find(|replacement| replacement.len() > MAX_REPLACEMENT) {
            let n = long.len();
            return Err(bad(format!("has a replacement of {n} bytes, more than {MAX_REPLACEMENT}")));
        }
        let what = format!("the normalization table {name:?}");
        let mut units = with_capacity(trie.len() / 4, &what)?;
        units.extend(trie.as_chunks::<4>().0.iter().map(|&unit| u32::from_le_bytes(unit)));
        Ok(Charsmap { units, strings: copied_text(strings, &what)? })
    }

    /// The lengths of the keys that `text` begins with, shortest first, each with the text from its replacement on. References
    /// outside the table match nothing.
    fn prefixes<'c>(&'c self, text: &str, mut found: impl FnMut(usize, &'c str)) {
        let offset = |unit: u32| (unit >> 10) << ((unit & (1 << 9)) >> 6);
        let Some(&root) = self.units.first() else { return };
        let mut node = offset(root);
        for (index, byte) in text.bytes().take(MAX_KEY).enumerate() {
            node ^= u32::from(byte);
            let Some(&unit) = self.units.get(node as usize) else { return };
            if byte == 0 || unit & (1 << 31 | 0xff) != u32::from(byte) {
                return;
            }
            node ^= offset(unit);
            let has_leaf = (unit >> 8) & 1 == 1;
            if has_leaf && let Some(&leaf) = self.units.get(node as usize) {
                let start = (leaf & !(1 << 31)) as usize;
                if let Some(rest) = self.strings.get(start..) {
                    found(index + 1, rest);
                }
            }
        }
    }

    /// Replaces the longest key at each place, as SentencePiece does. Stops once there are more than `most` bytes.
    pub(super) fn replace(&self, text: &str, most: usize) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(c) = rest.chars().next().filter(|_| out.len() <= most) {
            let mut longest = None;
            self.prefixes(rest, |len, replacement| {
                if rest.is_char_boundary(len) {
                    longest = Some((len, replacement));
                }
            });
            match longest {
                Some((len, replacement)) => {
                    out.push_str(first_string(replacement));
                    rest = &rest[len..];
                }
                None => {
                    out.push(c);
                    rest = &rest[c.len_utf8()..];
                }
            }
        }
        out
    }

    /// Replaces short grapheme clusters that begin with a key, else characters, as Hugging Face's normalizer
    /// `Precompiled` does. Stops once there are more than `most` bytes.
    pub(super) fn replace_graphemes(&self, text: &str, most: usize) -> String {
        let mut out = String::with_capacity(text.len());
        for grapheme in text.graphemes(true) {
            if out.len() > most {
                break;
            }
            if grapheme.len() < 6 && self.push_shortest(grapheme, &mut out) {
                continue;
            }
            for (at, c) in grapheme.char_indices() {
                if !self.push_shortest(&grapheme[at..at + c.len_utf8()], &mut out) {
                    out.push(c);
                }
            }
        }
        out
    }

    /// Appends the replacement of the shortest key that `text` begins with; false if there is none.
    fn push_shortest(&self, text: &str, out: &mut String) -> bool {
        let mut shortest = None;
        self.prefixes(text, |_, replacement| shortest = shortest.or(Some(replacement)));
        out.extend(shortest.map(first_string));
        shortest.is_some()
    }
}

/// `strings` up to the zero byte that ends the first.
fn first_string(strings: &str) -> &str {
    strings.split('\0').next().unwrap_or_default()
}
