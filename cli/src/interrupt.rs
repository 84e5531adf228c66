//! Ctrl-C. While a call of the library's is under way it ends that call; otherwise, and the second time, it ends the program.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::failure::{Failure, Result};
use crate::library::CancelToken;

static TOKEN: OnceLock<CancelToken> = OnceLock::new();
static BUSY: AtomicBool = AtomicBool::new(false);

/// The token of everything that Ctrl-C ends. The first call installs the handler.
pub fn token() -> Result<&'static CancelToken> {
    if let Some(token) = TOKEN.get() {
        return Ok(token);
    }
    let token = TOKEN.get_or_init(|| CancelToken::new().unwrap_or_default());
    let install = ctrlc::set_handler(move || {
        if BUSY.load(SeqCst) && !token.is_cancelled() {
            token.cancel();
        } else {
            std::process::exit(i32::from(Failure::Interrupted.exit_code()));
        }
    });
    install.map_err(|e| Failure::said(format!("Ctrl-C cannot be watched: {e}")))?;
    Ok(token)
}

/// Runs what Ctrl-C ends by the token, and says whether it did.
pub fn during<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, bool)> {
    let token = token()?;
    BUSY.store(true, SeqCst);
    let result = work();
    BUSY.store(false, SeqCst);
    let was = token.is_cancelled();
    token.reset();
    Ok((result?, was))
}
