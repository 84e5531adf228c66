//! Options of generation.

use std::ffi::c_char;

use super::args::{free_handle, handle, output, text};
use super::cancel::{ember_cancel_token, token_or_none};
use super::error::ember_error;
use super::guard::{guard, guard_value};
use super::handle::{CType, Exclusive, into_raw};
use crate::error::{Error, Result, ember_status};
use crate::generate::{GenerateOptions, MAX_TOPS};

/// How to generate. Made with ember_generate_options_new, owned by the caller, used by one thread at a time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_generate_options {
    _private: (),
}

impl CType for ember_generate_options {
    type Object = Exclusive<GenerateOptions>;
    const TAG: u64 = u64::from_be_bytes(*b"emb:gopt");
    const NAME: &'static str = "ember_generate_options";
}

pub(super) fn options_or_default(options: *const ember_generate_options) -> Result<GenerateOptions> {
    match options.is_null() {
        true => Ok(GenerateOptions::default()),
        false => Ok(handle!(options).lock("options")?.clone()),
    }
}

fn to_n_top(n: u32) -> Result<usize> {
    match n as usize {
        n if n <= MAX_TOPS => Ok(n),
        n => Err(Error::InvalidArgument(format!("n_top must be at most {MAX_TOPS}, got {n}"))),
    }
}

fn to_stop(stop: &str) -> Result<String> {
    match stop {
        "" => Err(Error::InvalidArgument("stop is empty: it would end every text".into())),
        stop => Ok(stop.to_owned()),
    }
}

/// Writes new options with their defaults to `out`; free them with ember_generate_options_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_new(
    out: *mut *mut ember_generate_options,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        output!(out).set(into_raw::<ember_generate_options>(Exclusive::new(GenerateOptions::default())))
    })
}

/// Frees options. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_free(options: *mut ember_generate_options) {
    guard_value((), || free_handle!(options))
}

/// Most tokens to generate. Default: 128.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_max_tokens(
    options: *mut ember_generate_options,
    max_tokens: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.max_tokens = max_tokens as usize;
        Ok(())
    })
}

/// The sequence of the context to continue. Default: 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_sequence(
    options: *mut ember_generate_options,
    sequence: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.seq = sequence;
        Ok(())
    })
}

/// Whether the text of control tokens in the prompt stands for these tokens. Default: false, as is right for text that
/// users type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_parse_special(
    options: *mut ember_generate_options,
    parse_special: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.parse_special = parse_special;
        Ok(())
    })
}

/// Whether control tokens that the model generates appear in the text. Default: false.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_render_special(
    options: *mut ember_generate_options,
    render_special: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.render_special = render_special;
        Ok(())
    })
}

/// Whether to go on after an end-of-generation token. Default: false.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_ignore_eog(
    options: *mut ember_generate_options,
    ignore_eog: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.ignore_eog = ignore_eog;
        Ok(())
    })
}

/// Adds a stop string, `stop_len` bytes of UTF-8: generation ends where it has been generated, with
/// EMBER_FINISH_STOP_STRING, and the text ends before it. Text that may be the beginning of a stop string is held back
/// until that is certain, however the model cuts it into tokens. Of several stop strings the one that is complete
/// first counts, of those complete at once the longest.
/// Errors: EMBER_E_INVALID_ARGUMENT for an empty one, EMBER_E_UTF8, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_add_stop(
    options: *mut ember_generate_options,
    stop: *const c_char,
    stop_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, stop) = (handle!(options), text!(stop, stop_len));
        options.lock("options")?.stops.push(to_stop(stop)?);
        Ok(())
    })
}

/// Whether the stop string that ended a generation is the end of its text. Default: false.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_include_stop(
    options: *mut ember_generate_options,
    include_stop: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.include_stop = include_stop;
        Ok(())
    })
}

/// Whether the prompt is the whole of what the sequence shall hold, from its first token on: what the sequence begins with
/// already is kept, the rest of it is forgotten, and only what is new of the prompt is run (its last token in any
/// case). For conversations: give all of it each time and pay for what was added. Default: false, the prompt goes behind
/// what the sequence holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_reuse_prefix(
    options: *mut ember_generate_options,
    reuse_prefix: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.reuse_prefix = reuse_prefix;
        Ok(())
    })
}

/// Whether the first event is the prompt's text. Default: false.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_echo(
    options: *mut ember_generate_options,
    echo: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.echo = echo;
        Ok(())
    })
}

/// Whether events tell the log-probability of their token: of the model's own distribution, before the sampler's stages.
/// Default: false.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_logprobs(
    options: *mut ember_generate_options,
    logprobs: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.logprobs = logprobs;
        Ok(())
    })
}

/// How many of the likeliest tokens each event tells with their log-probabilities, at most 64; more than 0 means
/// ember_generate_options_set_logprobs too. Default: 0. Errors: EMBER_E_INVALID_ARGUMENT for more than 64, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_n_top(
    options: *mut ember_generate_options,
    n_top: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.n_top = to_n_top(n_top)?;
        Ok(())
    })
}

/// The token that ends the generation early, with EMBER_FINISH_CANCELLED and no error. The options keep what they need of
/// it. NULL, the default: none. The context's own token ends it too. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_cancel_token(
    options: *mut ember_generate_options,
    token: *const ember_cancel_token,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, token) = (handle!(options), token_or_none(token)?);
        options.lock("options")?.cancel = token;
        Ok(())
    })
}
