//! Errors as C sees them.

use std::ffi::{CStr, CString, c_char};

use super::args::{free_handle, handle};
use super::guard::guard_value;
use super::handle::{CType, into_raw};
use crate::error::{Error, Result, ember_status};

/// An error: a status and a sentence that names the culprit. Owned by the caller; freed with ember_error_free.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_error {
    _private: (),
}

/// The object that an `ember_error` handle points to.
pub struct ErrorObject {
    status: ember_status,
    message: CString,
}

impl CType for ember_error {
    type Object = ErrorObject;
    const TAG: u64 = u64::from_be_bytes(*b"emb:err\0");
    const NAME: &'static str = "ember_error";
}

/// Hands `error` to the caller. A NUL inside the sentence (from a file's key, say) is written `\0`: C text ends there.
pub fn error_into_raw(error: &Error) -> *mut ember_error {
    let bytes = error.message().replace('\0', "\\0");
    into_raw::<ember_error>(ErrorObject {
        status: error.status(),
        message: CString::new(bytes).unwrap_or_default(),
    })
}

/// Gives the status of an error.
/// - @param error the error; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - @return the status; EMBER_OK for NULL, EMBER_E_INVALID_ARGUMENT for a handle of another type
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_error_status(error: *const ember_error) -> ember_status {
    guard_value(ember_status::EMBER_E_INVALID_ARGUMENT, || status_or_ok(error))
}

fn status_or_ok(error: *const ember_error) -> Result<ember_status> {
    match error.is_null() {
        true => Ok(ember_status::EMBER_OK),
        false => Ok(handle!(error).status),
    }
}

/// Gives the sentence of an error, which names the argument, file, key or tensor that was wrong.
/// - @param error the error; may be NULL
/// - Ownership: The text belongs to the error and lives as long.
/// - Threads: Any thread, also several at the same time.
/// - @return the sentence, NUL-terminated UTF-8; "" for NULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_error_message(error: *const ember_error) -> *const c_char {
    guard_value(c"".as_ptr(), || Ok(handle!(error).message.as_ptr()))
}

/// Frees an error.
/// - @param error the error; may be NULL
/// - Threads: Any thread; no other call may use the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_error_free(error: *mut ember_error) {
    guard_value((), || free_handle!(error))
}

/// Gives the name of a status, for example "EMBER_E_IO".
/// - @param status an ember_status
/// - Ownership: The text is static and never freed.
/// - Threads: Any thread, also several at the same time.
/// - @return the name, NUL-terminated; "unknown status" for a number that is no status
#[unsafe(no_mangle)]
pub extern "C" fn ember_status_name(status: i32) -> *const c_char {
    guard_value(c"unknown status".as_ptr(), || Ok(status_name(status).as_ptr()))
}

fn status_name(status: i32) -> &'static CStr {
    let known = ember_status::ALL.iter().find(|known| **known as i32 == status);
    known.map_or(c"unknown status", |known| known.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_off_nowhere() {
        let error = error_into_raw(&Error::Format("the key \"a\0b\" is bad".into()));
        // SAFETY: a living error.
        let message = unsafe { ember_error_message(error) };
        // SAFETY: its message, NUL-terminated.
        let message = unsafe { CStr::from_ptr(message) };
        assert_eq!(message.to_bytes(), b"the key \"a\\0b\" is bad");
        // SAFETY: made above, used no more.
        unsafe { ember_error_free(error) };
    }

    #[test]
    fn every_status_has_its_name() {
        for (number, status) in (0..).zip(ember_status::ALL) {
            assert_eq!(*status as i32, number, "numbers follow each other");
            assert_eq!(status_name(number).to_str(), Ok(&*format!("{status:?}")));
        }
        for number in [-1, ember_status::ALL.len() as i32, 99, i32::MIN, i32::MAX] {
            assert_eq!(status_name(number), c"unknown status");
        }
    }
}
