//! Contexts: decoding, logits, rewinding.

use std::sync::Arc;

use bytemuck::NoUninit;

use super::args::{array, fill, fill_struct, free_handle, handle, optional_array, output};
use super::cancel::{ember_cancel_token, token_or_none};
use super::context_options::{context_options_or_default, ember_context_options, from_backend};
use super::error::ember_error;
use super::guard::{guard, guard_value};
use super::handle::{CType, Exclusive, try_into_raw};
use super::model::ember_model;
use crate::cache::PAGE_LEN;
use crate::context::{Context, ContextOptions, Tokens};
use crate::error::{Result, ember_status};
use crate::generate::Lender;

/// Token sequences being processed over a model: KV cache, scratch memory, threads. One thread at a time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_context {
    _private: (),
}

impl CType for ember_context {
    type Object = Arc<Exclusive<ContextState>>;
    const TAG: u64 = u64::from_be_bytes(*b"emb:ctxt");
    const NAME: &'static str = "ember_context";
}

/// The object that an `ember_context` handle points to.
pub struct ContextState {
    pub(super) context: Context,
    /// The output flags of the call under way, kept to save the allocation.
    wants: Vec<bool>,
}

/// The options in force in a context. Set struct_size to sizeof(ember_context_info) before the call.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(C)]
#[derive(Debug, Clone, Copy, NoUninit)]
pub struct ember_context_info {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Positions per sequence.
    pub n_ctx: u32,
    /// Sequences, numbered from 0.
    pub n_seq: u32,
    /// Rows run through the model at a time.
    pub n_batch: u32,
    /// Threads, the caller's included.
    pub n_threads: u32,
    /// Tokens of a page of the KV cache; a sequence takes whole pages.
    pub page_len: u32,
    /// Pages of the KV cache; layers with a window have pages of their own.
    pub n_pages: u32,
    /// Pages that no sequence has at the moment.
    pub n_free_pages: u32,
    /// An ember_backend.
    pub backend: i32,
}

/// `o` are the options in force, `pages` all pages and those that are free.
pub(super) fn context_info(o: &ContextOptions, pages: (usize, usize)) -> ember_context_info {
    ember_context_info {
        struct_size: std::mem::size_of::<ember_context_info>(),
        n_ctx: o.n_ctx as u32,
        n_seq: o.n_seq as u32,
        n_batch: o.n_batch as u32,
        n_threads: o.n_threads as u32,
        page_len: PAGE_LEN as u32,
        n_pages: pages.0 as u32,
        n_free_pages: pages.1 as u32,
        backend: from_backend(o.backend) as i32,
    }
}

impl ContextState {
    fn decode(
        &mut self,
        ids: &[u32],
        positions: Option<&[u32]>,
        seqs: Option<&[u32]>,
        wants: Option<&[u8]>,
    ) -> Result<()> {
        self.wants.clear();
        self.wants.extend(wants.unwrap_or_default().iter().map(|&w| w != 0));
        let outputs = wants.map(|_| &self.wants[..]);
        self.context.decode(Tokens { ids, positions, seqs, outputs })
    }
}

impl Lender for Exclusive<ContextState> {
    fn lend(&self, f: &mut dyn FnMut(&mut Context) -> Result<()>) -> Result<()> {
        f(&mut self.lock("the draft context")?.context)
    }
}

/// Frees a context unless a call is using it, which the log then says.
fn may_go(state: &Arc<Exclusive<ContextState>>) -> bool {
    let idle = state.is_idle();
    if !idle {
        log::error!("ember_context_free: the context is in use by another call and was not freed");
    }
    idle
}

/// Makes a context over a model.
/// - @param model the model; not NULL
/// - @param options how to make it; NULL: the defaults
/// - @param out receives the context; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_context_free. `options` may be freed after the call. The context
///   keeps the model alive.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for options that contradict the model, or a CPU that may not be used;
///   EMBER_E_UNSUPPORTED for CPUs where the system cannot bind threads; EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_new(
    model: *const ember_model,
    options: *const ember_context_options,
    out: *mut *mut ember_context,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, out) = (handle!(model), output!(out));
        let context = Context::new(&model.model, &context_options_or_default(options)?)?;
        let state = Exclusive::new(ContextState { context, wants: Vec::new() });
        out.set(try_into_raw::<ember_context>(Arc::new(state))?)
    })
}

/// Frees a context.
/// - @param context the context; may be NULL
/// - Ownership: A generator, completions or a conversation made with the context keep what they need of it.
/// - Threads: Any thread. While a call is using the context (from that call's callback, or on another thread) it is
///   not freed, and the log says so: free it afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_free(context: *mut ember_context) {
    guard_value((), || free_handle!(context, may_go))
}

/// Writes the options in force in a context.
/// - @param context the context; not NULL
/// - @param out receives them; set its struct_size first; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_info_get(
    context: *const ember_context,
    out: *mut ember_context_info,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let state = handle!(context).lock("context")?;
        fill_struct!(out, context_info(state.context.options(), state.context.kv_pages()))
    })
}

/// Sets the token that may end the context's calls early from now on. Decoding, embedding and scoring then give
/// EMBER_E_CANCELLED, and a generation ends with EMBER_FINISH_CANCELLED. Sequences stay as they were, except for what
/// scoring lets its sequence forget. The logits of the call before are gone.
/// - @param context the context; not NULL
/// - @param token the token; NULL: none
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The context keeps what it needs of `token`; the caller may free it.
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_set_cancel_token(
    context: *mut ember_context,
    token: *const ember_cancel_token,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (context, token) = (handle!(context), token_or_none(token)?);
        context.lock("context")?.context.set_cancel_token(token);
        Ok(())
    })
}

/// Runs tokens through the model and puts them at the end of their sequences. On any error the sequences are as
/// before.
/// - @param context the context; not NULL
/// - @param tokens the token ids; not NULL
/// - @param positions the place of each token, checked against the end of its sequence; NULL: not checked
/// - @param sequences the sequence of each token; NULL: all in sequence 0
/// - @param want_logits non-zero for each token whose logits are wanted; NULL: for the last token only
/// - @param n number of tokens, and of elements of each array that is given; at least 1
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a token, position or sequence out of range, and for a context with threads
///   that the parent process made before fork(); EMBER_E_CONTEXT_FULL when a sequence is full or no page is left;
///   EMBER_E_UNSUPPORTED for an encoder, which has embeddings only; EMBER_E_CANCELLED by the context's token;
///   EMBER_E_IO when the model's file can no longer be read (ember_model_options_set_use_mmap); EMBER_E_NOMEM,
///   EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_decode(
    context: *mut ember_context,
    tokens: *const u32,
    positions: *const u32,
    sequences: *const u32,
    want_logits: *const u8,
    n: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let context = handle!(context);
        let (tokens, positions) = (array!(tokens, n), optional_array!(positions, n));
        let (sequences, want_logits) = (optional_array!(sequences, n), optional_array!(want_logits, n));
        context.lock("context")?.decode(tokens, positions, sequences, want_logits)
    })
}

/// Gives the logits of a token of the last ember_context_decode. After ember_context_state_load, `index` counts the
/// sequences of the state that have logits. After ember_generate and ember_generator_next it means nothing.
/// - @param context the context; not NULL
/// - @param index number of the token in that call, from 0
/// - @param out receives the address of n_vocab floats (ember_model_info); not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The logits belong to the context. They stay until its next decode, generate, score, rewind,
///   sequence_reuse, state_load or free.
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_NOT_FOUND when nothing was decoded yet, when the token does not exist or did not ask for logits,
///   and when the logits are gone; EMBER_E_UNSUPPORTED for an encoder; EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_logits(
    context: *const ember_context,
    index: usize,
    out: *mut *const f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (context, out) = (handle!(context), output!(out));
        out.set(context.lock("context")?.context.logits(index)?.as_ptr())
    })
}

/// Counts the tokens of a sequence. The number is the position of its next token.
/// - @param context the context; not NULL
/// - @param sequence number of the sequence, from 0
/// - @param out receives the number of tokens; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a sequence that does not exist; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_n_past(
    context: *const ember_context,
    sequence: u32,
    out: *mut u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (context, out) = (handle!(context), output!(out));
        out.set(context.lock("context")?.context.n_past(sequence)? as u32)
    })
}

/// Writes the tokens of a sequence, in order. They are those that decoding, generating and loading a state put there;
/// after a shift, those that are left.
/// - @param context the context; not NULL
/// - @param sequence number of the sequence, from 0
/// - @param tokens receives the token ids; may be NULL if `capacity` is 0
/// - @param capacity tokens that `tokens` can take; 0 to ask for the number
/// - @param n_needed receives how many tokens there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a sequence that does not exist; EMBER_E_BUFFER_TOO_SMALL, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_tokens(
    context: *const ember_context,
    sequence: u32,
    tokens: *mut u32,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let state = handle!(context).lock("context")?;
        fill!(state.context.tokens(sequence)?, tokens, capacity, n_needed)
    })
}

/// Forgets the end of a sequence. The logits of the last decode are gone.
/// - @param context the context; not NULL
/// - @param sequence number of the sequence, from 0
/// - @param n_past how many tokens stay, from the first on; 0 empties the sequence
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT when the sequence does not exist or is shorter, or has given back what its next
///   token would see (ember_context_options_set_keep_all_positions); EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_rewind(
    context: *mut ember_context,
    sequence: u32,
    n_past: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || handle!(context).lock("context")?.context.rewind(sequence, n_past as usize))
}
