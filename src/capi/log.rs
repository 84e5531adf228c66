//! The log: silent until a callback is set.

use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::sync::OnceLock;

use log::{Level, LevelFilter, Log, Metadata, Record};

use super::args::UserData;
use super::error::ember_error;
use super::guard::{guard, host};
use crate::error::{Error, Result, ember_status};
use crate::threads::Mutex;

/// How much a log line matters.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ember_log_level {
    /// Something went wrong that no call can report: a handle in use that was not freed, say. Errors of calls are not logged.
    EMBER_LOG_ERROR = 1,
    /// Something looks like a mistake.
    EMBER_LOG_WARN = 2,
    /// What was done: a model loaded.
    EMBER_LOG_INFO = 3,
    /// Details for finding defects.
    EMBER_LOG_DEBUG = 4,
}

/// Receives one line of the log, on the thread whose call logs. It may call Ember; lines that arise from such calls
/// are dropped. It must return: no exception of C++ may leave it, and no longjmp.
/// - @param level an ember_log_level
/// - @param text the line, UTF-8 without a line end or NUL, valid until the callback returns
/// - @param len length of `text` in bytes
/// - @param user_data what was given with the callback
#[allow(non_camel_case_types, reason = "the C name")]
pub type ember_log_callback =
    Option<unsafe extern "C" fn(level: i32, text: *const c_char, len: usize, user_data: *mut c_void)>;

/// Where lines go.
#[derive(Clone, Copy)]
struct Sink {
    callback: unsafe extern "C" fn(i32, *const c_char, usize, *mut c_void),
    user_data: UserData,
}

/// The only global state of the library.
static SINK: Mutex<Option<Sink>> = Mutex::new(None);
/// Whether lines come to [`Forward`].
static INSTALLED: OnceLock<bool> = OnceLock::new();

thread_local! {
    /// Whether the callback is running on this thread: a line of its own making would call it without end.
    static AT_WORK: Cell<bool> = const { Cell::new(false) };
}

struct Forward;

impl Log for Forward {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("ember")
    }

    fn log(&self, record: &Record<'_>) {
        // The lock is not held during the callback, which may set another one.
        let Some(sink) = SINK.lock_or_give_up().and_then(|sink| *sink) else { return };
        if !self.enabled(record.metadata()) {
            return;
        }
        let level = match record.level() {
            Level::Error => ember_log_level::EMBER_LOG_ERROR,
            Level::Warn => ember_log_level::EMBER_LOG_WARN,
            Level::Info => ember_log_level::EMBER_LOG_INFO,
            Level::Debug | Level::Trace => ember_log_level::EMBER_LOG_DEBUG,
        };
        let line = record.args().to_string().replace('\n', " ");
        if AT_WORK.replace(true) {
            return;
        }
        // SAFETY: the callback and its data were given together by the caller, for this use.
        host(|| unsafe {
            (sink.callback)(level as i32, line.as_ptr().cast::<c_char>(), line.len(), sink.user_data.0)
        });
        AT_WORK.set(false);
    }

    fn flush(&self) {}
}

/// Sets the callback that receives log lines. One callback serves all models and contexts of the process.
/// - @param callback receives each line; NULL makes the library silent again, as it is at the start
/// - @param user_data handed to `callback` as it is; may be NULL
/// - @param max_level an ember_log_level; lines above it are left out
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: `user_data` must stay valid until another callback is set and the calls of other threads that were
///   under way by then have returned.
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT for an unknown level.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_log_set(
    callback: ember_log_callback,
    user_data: *mut c_void,
    max_level: i32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || set(callback, UserData(user_data), max_level))
}

fn set(callback: ember_log_callback, user_data: UserData, max_level: i32) -> Result<()> {
    let filter = match max_level {
        _ if callback.is_none() => LevelFilter::Off,
        1 => LevelFilter::Error,
        2 => LevelFilter::Warn,
        3 => LevelFilter::Info,
        4 => LevelFilter::Debug,
        _ => {
            return Err(Error::InvalidArgument(format!(
                "max_level must be an ember_log_level (1 to 4), got {max_level}"
            )));
        }
    };
    // When a Rust host has its own logger in this copy of the library, that one and its level stay.
    let ours = *INSTALLED.get_or_init(|| log::set_logger(&Forward).is_ok());
    let was_at_work = || Error::InvalidArgument("fork() was called while another thread logged".into());
    let mut sink = SINK.lock_or_give_up().ok_or_else(was_at_work)?;
    *sink = callback.map(|callback| Sink { callback, user_data });
    if ours {
        log::set_max_level(filter);
    }
    Ok(())
}
