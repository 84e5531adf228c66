//! Turns bytes that arrive in arbitrary chunks into whole Unicode code points.
#![forbid(unsafe_code)]

/// Holds back the bytes of an unfinished code point until the rest arrives. Bytes that can never become UTF-8 become U+FFFD, one
/// for each maximal ill-formed part, as the Unicode standard recommends (§3.9).
#[derive(Debug, Default)]
pub struct Utf8Assembler {
    /// Between calls at most 3 bytes: the beginning of a code point.
    pending: Vec<u8>,
    text: String,
}

impl Utf8Assembler {
    /// An assembler that allocates nothing for chunks of up to `n` bytes.
    pub fn with_capacity(n: usize) -> Utf8Assembler {
        // A bad byte becomes the three of U+FFFD.
        Utf8Assembler { pending: Vec::with_capacity(n + 3), text: String::with_capacity(3 * (n + 3)) }
    }

    /// Takes `bytes` and returns the text that is complete now; it may be empty.
    pub fn push(&mut self, bytes: &[u8]) -> &str {
        self.pending.extend_from_slice(bytes);
        self.text.clear();
        let mut rest = &self.pending[..];
        while let Some(chunk) = rest.utf8_chunks().next() {
            self.text.push_str(chunk.valid());
            let bad = &rest[chunk.valid().len()..];
            let unfinished = std::str::from_utf8(bad).is_err_and(|e| e.error_len().is_none());
            if unfinished {
                rest = bad;
                break;
            }
            if !chunk.invalid().is_empty() {
                self.text.push(char::REPLACEMENT_CHARACTER);
            }
            rest = &bad[chunk.invalid().len()..];
        }
        let done = self.pending.len() - rest.len();
        self.pending.drain(..done);
        &self.text
    }

    /// What the last call returned.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Ends the text: an unfinished code point becomes U+FFFD.
    pub fn finish(&mut self) -> &str {
        self.text.clear();
        if !self.pending.is_empty() {
            self.pending.clear();
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assemble(pieces: &[&[u8]]) -> String {
        let mut a = Utf8Assembler::default();
        let mut out = String::new();
        for piece in pieces {
            out.push_str(a.push(piece));
        }
        out.push_str(a.finish());
        out
    }

    #[test]
    fn every_split_of_valid_text_gives_the_text() {
        let text = "aé€😀 回転 e\u{301}\u{200d}z";
        let bytes = text.as_bytes();
        for i in 0..=bytes.len() {
            for j in i..=bytes.len() {
                assert_eq!(assemble(&[&bytes[..i], &bytes[i..j], &bytes[j..]]), text);
            }
        }
    }

    #[test]
    fn nothing_is_emitted_before_it_is_whole() {
        let mut a = Utf8Assembler::default();
        let bytes = "😀".as_bytes();
        for &b in &bytes[..3] {
            assert_eq!(a.push(&[b]), "");
        }
        assert_eq!(a.push(&bytes[3..]), "😀");
    }

    #[test]
    fn any_bytes_agree_with_the_standard_lossy_conversion_for_every_split() {
        let cases: [&[u8]; 6] =
            [b"\xff", b"a\xc3", b"\xe2\x82z", b"\xf0\x9f\x98", b"\xed\xa0\x80x", b"\x80\xc3\xa9\xc3\xc3\xa9"];
        for bytes in cases {
            for i in 0..=bytes.len() {
                let got = assemble(&[&bytes[..i], &bytes[i..]]);
                assert_eq!(got, String::from_utf8_lossy(bytes), "{bytes:x?} split at {i}");
            }
        }
    }
}
