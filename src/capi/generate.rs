//! Generation: a prompt in, text out piece by piece.

use std::ffi::{c_char, c_void};
use std::ops::ControlFlow;
use std::time::Duration;

use super::args::{UserData, free_handle, handle, optional_struct, output, text};
use super::context::ember_context;
use super::error::ember_error;
use super::guard::{guard, guard_value};
use super::handle::{CType, Exclusive, into_raw};
use super::sampler::ember_sampler;
use crate::context::Context;
use crate::error::{Error, Result, ember_status};
use crate::generate::{FinishReason, GenerateOptions, Outcome, generate};
use crate::sampler::{Sampler, Stage};

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

/// Receives generated text: `len` bytes of whole UTF-8 code points, not NUL-terminated, valid during the call, and
/// the `user_data` given with the callback. Returning anything but 0 ends the generation. Runs on the calling thread.
#[allow(non_camel_case_types, reason = "the C name")]
pub type ember_text_callback =
    Option<unsafe extern "C" fn(text: *const c_char, len: usize, user_data: *mut c_void) -> i32>;

/// Why a generation ended.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ember_finish_reason {
    /// As many tokens as asked for were generated.
    EMBER_FINISH_MAX_TOKENS = 0,
    /// The model gave an end-of-generation token.
    EMBER_FINISH_EOG = 1,
    /// The callback asked to stop.
    EMBER_FINISH_STOPPED = 2,
    /// The context has no room for another token.
    EMBER_FINISH_CONTEXT_FULL = 3,
}

/// What a generation did. Set struct_size to sizeof(ember_generate_result) before the call.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ember_generate_result {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Nanoseconds spent on the prompt.
    pub prefill_ns: u64,
    /// Nanoseconds spent on the generated tokens, the callback's included.
    pub decode_ns: u64,
    /// Tokens of the prompt, BOS included.
    pub n_prompt: u32,
    /// Tokens generated, an end-of-generation token not counted.
    pub n_generated: u32,
    /// An ember_finish_reason.
    pub finish_reason: i32,
    /// Zero.
    pub reserved: u32,
}

fn result(outcome: &Outcome) -> ember_generate_result {
    let ns = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    let finish_reason = match outcome.finish {
        FinishReason::MaxTokens => ember_finish_reason::EMBER_FINISH_MAX_TOKENS,
        FinishReason::EndOfGeneration => ember_finish_reason::EMBER_FINISH_EOG,
        FinishReason::Stopped => ember_finish_reason::EMBER_FINISH_STOPPED,
        FinishReason::ContextFull => ember_finish_reason::EMBER_FINISH_CONTEXT_FULL,
    };
    ember_generate_result {
        struct_size: std::mem::size_of::<ember_generate_result>(),
        prefill_ns: ns(outcome.prefill),
        decode_ns: ns(outcome.decode),
        n_prompt: outcome.n_prompt as u32,
        n_generated: outcome.n_generated as u32,
        finish_reason: finish_reason as i32,
        reserved: 0,
    }
}

fn options_or_default(options: *const ember_generate_options) -> Result<GenerateOptions> {
    match options.is_null() {
        true => Ok(GenerateOptions::default()),
        false => Ok(handle!(options).lock("options")?.clone()),
    }
}

/// Generates with the caller's sampler, or greedily without one.
fn run(
    context: &mut Context,
    sampler: *mut ember_sampler,
    prompt: &str,
    options: &GenerateOptions,
    on_text: impl FnMut(&str) -> ControlFlow<()>,
) -> Result<Outcome> {
    if sampler.is_null() {
        let mut greedy = Sampler::new(0);
        greedy.push(Stage::Greedy)?;
        return generate(context, &mut greedy, prompt, options, on_text);
    }
    let mut sampler = handle!(sampler).lock("sampler")?;
    generate(context, &mut sampler, prompt, options, on_text)
}

/// The caller's callback as a closure.
fn forward(
    callback: ember_text_callback,
    user_data: UserData,
) -> Result<impl FnMut(&str) -> ControlFlow<()>> {
    let callback = callback.ok_or_else(|| Error::InvalidArgument("callback is NULL".into()))?;
    Ok(move |text: &str| {
        // SAFETY: the callback and its data were given together by the caller, for this use.
        let stop = unsafe { callback(text.as_ptr().cast::<c_char>(), text.len(), user_data.0) };
        if stop == 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
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

/// Continues a sequence of `context` by `prompt` and then by generated tokens, whose text goes to `callback` with
/// `user_data` as it comes. An empty sequence begins with the special tokens the file asks for (BOS). Afterwards the
/// sequence holds the prompt and the generated tokens (an end-of-generation token excepted), so that the next call
/// goes on from there; an empty prompt continues the text itself, if nothing else was decoded in between.
/// ember_context_rewind starts anew.
/// `options` NULL: the defaults; `sampler` NULL: greedy; `out_result` NULL: not wanted.
/// Errors: EMBER_E_CONTEXT_FULL when the prompt does not fit (the sequence is as before), EMBER_E_INVALID_ARGUMENT,
/// EMBER_E_UTF8, EMBER_E_UNSUPPORTED for an encoder or a model without a tokenizer, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate(
    context: *mut ember_context,
    prompt: *const c_char,
    prompt_len: usize,
    options: *const ember_generate_options,
    sampler: *mut ember_sampler,
    callback: ember_text_callback,
    user_data: *mut c_void,
    out_result: *mut ember_generate_result,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (context, prompt) = (handle!(context), text!(prompt, prompt_len));
        let (on_text, out) = (forward(callback, UserData(user_data))?, optional_struct!(out_result));
        let options = options_or_default(options)?;
        let outcome = run(&mut context.lock("context")?.context, sampler, prompt, &options, on_text)?;
        out.map_or(Ok(()), |out| out.set(&result(&outcome)))
    })
}
