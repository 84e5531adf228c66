//! One error type for the whole crate: one variant per C status, each carrying a sentence that names the culprit.
#![forbid(unsafe_code)]

use std::ffi::CStr;
use std::fmt;

/// Shorthand for a result with Ember's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// How a call went. A number, once released, is never reused for something else.
#[allow(non_camel_case_types, reason = "the name is the C name; cbindgen copies it into the header")]
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ember_status {
    /// Success.
    EMBER_OK = 0,
    /// An argument is NULL, out of range, or does not fit the others.
    EMBER_E_INVALID_ARGUMENT = 1,
    /// The operating system refused to open, map or read a file.
    EMBER_E_IO = 2,
    /// A model file is malformed or contradicts itself.
    EMBER_E_FORMAT = 3,
    /// A model file is well formed but needs something this version cannot do.
    EMBER_E_UNSUPPORTED = 4,
    /// An allocation failed or a size exceeds what the machine can address.
    EMBER_E_NOMEM = 5,
    /// The context cannot hold the tokens; its state is unchanged.
    EMBER_E_CONTEXT_FULL = 6,
    /// The object is in use by another call; nothing was done.
    EMBER_E_BUSY = 7,
    /// Text that must be UTF-8 is not.
    EMBER_E_UTF8 = 8,
    /// The caller's buffer is too small; the needed size was written.
    EMBER_E_BUFFER_TOO_SMALL = 9,
    /// The asked-for key, token or row does not exist.
    EMBER_E_NOT_FOUND = 10,
    /// A defect in Ember itself was caught; the process lives and the message says what happened.
    EMBER_E_INTERNAL = 11,
    /// A cancel token ended the call; the context's sequences are as before.
    EMBER_E_CANCELLED = 12,
    /// As many requests wait as may; nothing was done. Try it again later.
    EMBER_E_QUEUE_FULL = 13,
}

/// Makes [`Error`] and the list of statuses out of one table. A status that is not in the table does not compile.
macro_rules! errors {
    ($($variant:ident => $status:ident,)*) => {
        /// What went wrong, as a sentence. The variant decides the C status.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Error {
            $(
                #[doc = concat!("See [`ember_status::", stringify!($status), "`].")]
                $variant(String),
            )*
        }

        impl Error {
            /// The C status of this error.
            pub fn status(&self) -> ember_status {
                match self {
                    $(Error::$variant(_) => ember_status::$status,)*
                }
            }

            /// The sentence.
            pub fn message(&self) -> &str {
                match self {
                    $(Error::$variant(message) => message,)*
                }
            }

            fn message_mut(&mut self) -> &mut String {
                match self {
                    $(Error::$variant(message) => message,)*
                }
            }
        }

        impl ember_status {
            /// Every status, in the order of their numbers.
            pub const ALL: &[ember_status] = &[ember_status::EMBER_OK, $(ember_status::$status,)*];

            /// The C name.
            pub fn name(self) -> &'static CStr {
                const fn c_str(text: &'static str) -> &'static CStr {
                    match CStr::from_bytes_with_nul(text.as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a name has one NUL, at its end"),
                    }
                }
                match self {
                    ember_status::EMBER_OK => c"EMBER_OK",
                    $(ember_status::$status => const { c_str(concat!(stringify!($status), "\0")) },)*
                }
            }
        }
    };
}

errors! {
    InvalidArgument => EMBER_E_INVALID_ARGUMENT,
    Io => EMBER_E_IO,
    Format => EMBER_E_FORMAT,
    Unsupported => EMBER_E_UNSUPPORTED,
    NoMemory => EMBER_E_NOMEM,
    ContextFull => EMBER_E_CONTEXT_FULL,
    Busy => EMBER_E_BUSY,
    Utf8 => EMBER_E_UTF8,
    BufferTooSmall => EMBER_E_BUFFER_TOO_SMALL,
    NotFound => EMBER_E_NOT_FOUND,
    Internal => EMBER_E_INTERNAL,
    Cancelled => EMBER_E_CANCELLED,
    QueueFull => EMBER_E_QUEUE_FULL,
}

impl Error {
    /// The same error with `prefix` (a file name, say) put before its sentence.
    pub fn within(mut self, prefix: &str) -> Error {
        let m = self.message_mut();
        m.insert_str(0, ": ");
        m.insert_str(0, prefix);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Error {}

/// `bytes` in double quotes for an error sentence: escaped, and cut when long.
pub fn quoted(bytes: &[u8]) -> String {
    const MAX: usize = 96;
    let mut cut = &bytes[..bytes.len().min(MAX)];
    let dots = if cut.len() < bytes.len() { "…" } else { "" };
    // A character that the cut goes through is left out: it is none of those that are not UTF-8.
    if let Err(e) = std::str::from_utf8(cut)
        && e.error_len().is_none()
        && !dots.is_empty()
    {
        cut = &cut[..e.valid_up_to()];
    }
    format!("{:?}{dots}", String::from_utf8_lossy(cut))
}

/// The sizes of a tensor for an error sentence; a file may give any number of them.
pub fn sizes(shape: &[impl fmt::Debug]) -> String {
    match shape.len() {
        0..=8 => format!("{shape:?}"),
        n => format!("of {n} dimensions"),
    }
}

/// A message of another library, for an error sentence: it may quote all of a text of a file, so a long one is cut in
/// its midst.
pub fn shortened(text: impl fmt::Display) -> String {
    const HEAD: usize = 288;
    const TAIL: usize = 96;
    let text = text.to_string();
    if text.len() <= HEAD + TAIL {
        return text;
    }
    let (head, tail) = (text.floor_char_boundary(HEAD), text.ceil_char_boundary(text.len() - TAIL));
    format!("{}…{}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_puts_the_file_name_first() {
        let e = Error::Format("the magic is \"GGML\", expected \"GGUF\"".into()).within("a.gguf");
        assert_eq!(e.message(), "a.gguf: the magic is \"GGML\", expected \"GGUF\"");
        assert_eq!(e.status() as i32, 3);
    }

    #[test]
    fn quoted_escapes_and_cuts() {
        assert_eq!(quoted(b"a\"\n"), r#""a\"\n""#);
        assert_eq!(quoted(&[b'x'; 200]).chars().count(), 96 + 3);
        let cut = format!("x{}", "é".repeat(100));
        assert_eq!(quoted(cut.as_bytes()), format!("\"x{}\"…", "é".repeat(47)));
        // What is not UTF-8 shows, wherever it stands.
        assert_eq!(quoted(b"a\xc3"), "\"a\u{fffd}\"");
        assert_eq!(
            quoted(&[b"\xff".as_slice(), &[b'x'; 200]].concat()),
            format!("\"\u{fffd}{}\"…", "x".repeat(95))
        );
    }

    #[test]
    fn sizes_are_listed_as_far_as_they_are_few() {
        assert_eq!(sizes(&[1, 2]), "[1, 2]");
        assert_eq!(sizes(&[1; 9]), "of 9 dimensions");
    }

    #[test]
    fn long_words_of_others_lose_their_midst() {
        assert_eq!(shortened("x".repeat(384)), "x".repeat(384));
        let long = shortened(format!("begin {}end", "é".repeat(1000)));
        assert!(long.starts_with("begin é") && long.ends_with("éend") && long.len() < 400, "{long}");
    }
}
