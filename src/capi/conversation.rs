//! Conversations.

use std::ffi::{c_char, c_void};
use std::ops::ControlFlow;

use super::args::{
    UserData, array, fill, fill_struct, free_handle, handle, optional_struct, output, output_struct, text,
};
use super::chat_options::{ember_chat_options, options_or_default as chat_options_or_default};
use super::chat_parser::{ember_chat_event, to_event};
use super::context::ember_context;
use super::error::ember_error;
use super::generate::{from_finish, sampler_or_greedy};
use super::generate_drafts::check_draft;
use super::generate_options::{ember_generate_options, options_or_default};
use super::guard::{guard, guard_value, host};
use super::handle::{CType, Exclusive, try_into_raw};
use super::sampler::ember_sampler;
#[cfg(feature = "chat")]
use super::talk::Talk;
#[cfg(not(feature = "chat"))]
use super::talk_off::{Talk, TurnUsage};
#[cfg(feature = "chat")]
use crate::conversation::TurnUsage;
use crate::error::{Error, Result, ember_status};
use crate::memory::copied_text;

/// A conversation with a model, in one sequence of a context. One thread at a time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_conversation {
    _private: (),
}

impl CType for ember_conversation {
    type Object = Exclusive<Talk>;
    const TAG: u64 = u64::from_be_bytes(*b"emb:conv");
    const NAME: &'static str = "ember_conversation";
}

/// What a reply took. Set struct_size to sizeof(ember_conversation_usage) before the call.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(target_pointer_width = "64", derive(bytemuck::NoUninit))]
pub struct ember_conversation_usage {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Nanoseconds spent on the prompt.
    pub prefill_ns: u64,
    /// Nanoseconds spent on the generated tokens.
    pub decode_ns: u64,
    /// Tokens of the whole conversation, as it was when the reply began.
    pub n_prompt: u32,
    /// Of these, those that the sequence held already: n_prompt - n_reused were run.
    pub n_reused: u32,
    /// Tokens generated, an end-of-generation token not counted.
    pub n_generated: u32,
    /// Of these, those of thoughts.
    pub n_thinking: u32,
    /// Turns that were dropped before the reply, because the conversation had become too long.
    pub n_dropped_turns: u32,
    /// Tokens that the sequence forgot with them, without running the tokens after them again.
    pub n_forgotten: u32,
    /// An ember_finish_reason; EMBER_FINISH_NONE while the reply is under way.
    pub finish_reason: i32,
    /// Zero.
    pub reserved: i32,
}

fn to_usage(usage: &TurnUsage) -> ember_conversation_usage {
    let ns = |d: std::time::Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    let g = &usage.generation;
    ember_conversation_usage {
        struct_size: std::mem::size_of::<ember_conversation_usage>(),
        prefill_ns: ns(g.prefill),
        decode_ns: ns(g.decode),
        n_prompt: g.n_prompt as u32,
        n_reused: g.n_reused as u32,
        n_generated: g.n_generated as u32,
        n_thinking: usage.n_thinking as u32,
        n_dropped_turns: usage.n_dropped_turns as u32,
        n_forgotten: usage.n_forgotten as u32,
        finish_reason: from_finish(g.finish),
        reserved: 0,
    }
}

/// Receives an event of a reply, on the calling thread. It must return, as ember_event_callback says.
/// - @param event the event, valid until the callback returns
/// - @param user_data what was given with the callback
/// - @return 0 to go on; anything else ends the reply: what came of it becomes no message
#[allow(non_camel_case_types, reason = "the C name")]
pub type ember_chat_event_callback =
    Option<unsafe extern "C" fn(event: *const ember_chat_event, user_data: *mut c_void) -> i32>;

fn next_event(talk: &mut Talk) -> Result<ember_chat_event> {
    let (parts, end) = talk.next()?;
    let mut event = to_event(parts);
    if let Some(reason) = end {
        event.kind = super::chat_parser::ember_chat_event_kind::EMBER_CHAT_EVENT_END as i32;
        event.finish_reason = from_finish(Some(reason));
    }
    Ok(event)
}

/// Has a reply come to its end, or to the callback's.
fn run(talk: &mut Talk, mut on_event: impl FnMut(&ember_chat_event) -> ControlFlow<()>) -> Result<()> {
    while talk.is_under_way() {
        let event = match next_event(talk) {
            Ok(event) => event,
            Err(error) => {
                talk.abandon();
                return Err(error);
            }
        };
        if on_event(&event).is_break() {
            talk.abandon();
        }
    }
    Ok(())
}

fn forward(
    callback: ember_chat_event_callback,
    user_data: UserData,
) -> Result<impl FnMut(&ember_chat_event) -> ControlFlow<()>> {
    let callback = callback.ok_or_else(|| Error::InvalidArgument("callback is NULL".into()))?;
    Ok(move |event: &ember_chat_event| {
        let user_data = &user_data;
        // SAFETY: the callback and its data were given together by the caller, for this use.
        let stop = host(|| unsafe { callback(event, user_data.0) });
        if stop == 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
}

fn given(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Makes a conversation in a sequence of a context. Each reply runs only what the sequence does not hold. Use the
/// sequence for nothing else: what others put there has to be run again. **What a user types can never spell a
/// control token**: see ember_chat_tokenize.
/// - @param context the context; not NULL
/// - @param system the system text, UTF-8; empty: none; may be NULL if `system_len` is 0
/// - @param system_len length of `system` in bytes, or EMBER_NUL_TERMINATED
/// - @param chat_options the template, variables, tools and thinking; NULL: the defaults; add_generation_prompt means
///   nothing here
/// - @param generate_options how replies are generated: most tokens, the sequence, stop strings, a cancel token, a
///   time limit and so on; NULL: the defaults; echo, shift, ignore_eog and log-probabilities are refused
/// - @param out receives the conversation; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_conversation_free. `chat_options` and `generate_options` may be
///   freed after the call. The conversation keeps `context` alive.
/// - Threads: Any thread; one call at a time for `context`, `chat_options` and `generate_options`, a second gives
///   EMBER_E_BUSY.
/// - Errors: EMBER_E_UNSUPPORTED for a model without a template or a tokenizer, for tools whose calls the template
///   does not write, for thinking that it cannot switch, and in a build without the feature "chat"; EMBER_E_NOT_FOUND
///   for a name that no template has; EMBER_E_FORMAT for a broken template; EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8,
///   EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_conversation_new(
    context: *mut ember_context,
    system: *const c_char,
    system_len: usize,
    chat_options: *const ember_chat_options,
    generate_options: *const ember_generate_options,
    out: *mut *mut ember_conversation,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (context, system, out) = (handle!(context), text!(system, system_len), output!(out));
        let (chat, generate) =
            (chat_options_or_default(chat_options)?, options_or_default(generate_options)?);
        check_draft(&generate, context)?;
        let system = given(system).map(|text| copied_text(text, "the system text")).transpose()?;
        out.set(try_into_raw::<ember_conversation>(Exclusive::new(Talk::new(
            context, system, chat, generate,
        )?))?)
    })
}

/// Frees a conversation. What its sequence holds stays there.
/// - @param conversation the conversation; may be NULL
/// - Threads: Any thread. While a call is using the conversation (from that call's callback, or on another thread) it
///   is not freed, and the log says so: free it afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_conversation_free(conversation: *mut ember_conversation) {
    guard_value((), || free_handle!(conversation, may_go))
}

fn may_go(talk: &Exclusive<Talk>) -> bool {
    let idle = talk.is_idle();
    if !idle {
        log::error!("ember_conversation_free: the conversation is in use by another call and was not freed");
    }
    idle
}

/// Adds a message without having it answered, such as the result of a tool, or the messages of a conversation that
/// was held elsewhere.
/// - @param conversation the conversation; not NULL
/// - @param message a JSON object with `role` (system, developer, user, assistant, tool) and what else the template
///   takes: `content`, `tool_calls`, `tool_call_id`, `name`; not NULL
/// - @param message_len length of `message` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `conversation`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_BUSY while a reply is under way, too; EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_conversation_add(
    conversation: *mut ember_conversation,
    message: *const c_char,
    message_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || handle!(conversation).lock("conversation")?.add(text!(message, message_len)))
}

/// Adds a user's message, has it answered, and hands each event of the reply to a callback. The last event is
/// EMBER_CHAT_EVENT_END; then the reply is a message. A call of a tool ends a reply as a rule: add its result, and
/// ask for the reply to that. On an error, and where the callback ends it, the reply is no message. The user's
/// message stays once its reply began; where it could not begin, it is taken back.
/// - @param conversation the conversation; not NULL
/// - @param text the user's message, UTF-8; empty: have the messages answered that were added; may be NULL if
///   `text_len` is 0
/// - @param text_len length of `text` in bytes, or EMBER_NUL_TERMINATED
/// - @param sampler chooses the tokens; NULL: greedy
/// - @param callback receives each event, on the calling thread; not NULL
/// - @param user_data handed to the callback as it is; may be NULL
/// - @param out_usage receives what the reply took; set its struct_size first; NULL: not wanted
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `conversation`, its context and `sampler`, a second gives
///   EMBER_E_BUSY.
/// - Errors: EMBER_E_CONTEXT_FULL where the conversation does not fit its sequence, whatever is dropped;
///   EMBER_E_INVALID_ARGUMENT when there is nothing to reply to, or the template refuses the messages;
///   EMBER_E_CANCELLED where a token ends the encoding of a prompt of more than 4 KiB; EMBER_E_UTF8, EMBER_E_NOMEM,
///   EMBER_E_BUSY. Otherwise a cancel token is no error: finish_reason says so.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_conversation_send(
    conversation: *mut ember_conversation,
    text: *const c_char,
    text_len: usize,
    sampler: *mut ember_sampler,
    callback: ember_chat_event_callback,
    user_data: *mut c_void,
    out_usage: *mut ember_conversation_usage,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (conversation, text) = (handle!(conversation), text!(text, text_len));
        let (on_event, out) = (forward(callback, UserData(user_data))?, optional_struct!(out_usage));
        let mut talk = conversation.lock("conversation")?;
        talk.begin(given(text), sampler_or_greedy(sampler)?)?;
        run(&mut talk, on_event)?;
        out.map_or(Ok(()), |out| out.set(&to_usage(&talk.usage())))
    })
}

/// Begins the reply to a user's message; its events come from ember_conversation_next. This is the pull form of
/// ember_conversation_send.
/// - @param conversation the conversation; not NULL
/// - @param text the user's message, UTF-8; empty: have the messages answered that were added; may be NULL if
///   `text_len` is 0
/// - @param text_len length of `text` in bytes, or EMBER_NUL_TERMINATED
/// - @param sampler chooses the tokens; NULL: greedy
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The conversation keeps `sampler` as long as the reply is under way.
/// - Threads: Any thread; one call at a time for `conversation`, its context and `sampler`, a second gives
///   EMBER_E_BUSY.
/// - Errors: as ember_conversation_send.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_conversation_begin(
    conversation: *mut ember_conversation,
    text: *const c_char,
    text_len: usize,
    sampler: *mut ember_sampler,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (conversation, text) = (handle!(conversation), text!(text, text_len));
        conversation.lock("conversation")?.begin(given(text), sampler_or_greedy(sampler)?)
    })
}

/// Writes the next event of a reply. After EMBER_CHAT_EVENT_END it comes again and again; before the first reply the
/// event is EMBER_CHAT_EVENT_NONE. An error leaves the reply where it was: try again, or ember_conversation_abandon.
/// - @param conversation the conversation; not NULL
/// - @param event receives the event; set its struct_size first; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: What the event points to stays until the next call with the conversation.
/// - Threads: Any thread; one call at a time for `conversation`, its context and the sampler of the reply, a second
///   gives EMBER_E_BUSY.
/// - Errors: as ember_generator_next.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_conversation_next(
    conversation: *mut ember_conversation,
    event: *mut ember_chat_event,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (conversation, out) = (handle!(conversation), output_struct!(event));
        out.set(&next_event(&mut *conversation.lock("conversation")?)?)
    })
}

/// Gives up a reply that is under way: it becomes no message. Without one the call does nothing.
/// - @param conversation the conversation; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `conversation`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_conversation_abandon(
    conversation: *mut ember_conversation,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(conversation).lock("conversation")?.abandon();
        Ok(())
    })
}

/// Forgets the last turn: the user's last message and all after it.
/// - @param conversation the conversation; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `conversation`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT when there is none; EMBER_E_BUSY while a reply is under way, too.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_conversation_undo(
    conversation: *mut ember_conversation,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || handle!(conversation).lock("conversation")?.undo())
}

/// Writes all messages so far, those that were dropped included.
/// - @param conversation the conversation; not NULL
/// - @param buffer receives a JSON array, UTF-8 without NUL; may be NULL if `capacity` is 0
/// - @param capacity bytes that `buffer` can take; 0 to ask for the number
/// - @param n_needed receives how many bytes there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `conversation`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_conversation_messages(
    conversation: *const ember_conversation,
    buffer: *mut u8,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let messages = handle!(conversation).lock("conversation")?.messages();
        fill!(messages.as_bytes(), buffer, capacity, n_needed)
    })
}

/// Writes what the last reply took.
/// - @param conversation the conversation; not NULL
/// - @param out receives the counters; set its struct_size first; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `conversation`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_conversation_usage_get(
    conversation: *const ember_conversation,
    out: *mut ember_conversation_usage,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || fill_struct!(out, to_usage(&handle!(conversation).lock("conversation")?.usage())))
}

/// Copies a conversation into another sequence of the same context, which gets what this one's holds. Both go on by
/// themselves. The callback for a full sequence is not copied.
/// - @param conversation the conversation; not NULL
/// - @param sequence number of the other sequence
/// - @param out receives the copy; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_conversation_free.
/// - Threads: Any thread; one call at a time for `conversation`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a sequence that does not exist; EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_conversation_fork(
    conversation: *const ember_conversation,
    sequence: u32,
    out: *mut *mut ember_conversation,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (conversation, out) = (handle!(conversation), output!(out));
        let fork = conversation.lock("conversation")?.fork(sequence)?;
        out.set(try_into_raw::<ember_conversation>(Exclusive::new(fork))?)
    })
}

/// Writes a conversation as bytes: its messages, and which tokens its sequence holds. Save the sequence too
/// (ember_context_state_save) where it shall not be run again.
/// - @param conversation the conversation; not NULL
/// - @param buffer receives the bytes; may be NULL if `capacity` is 0
/// - @param capacity bytes that `buffer` can take; 0 to ask for the number
/// - @param n_needed receives how many bytes there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `conversation`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_BUSY while a reply is under way, too; EMBER_E_INVALID_ARGUMENT, EMBER_E_BUFFER_TOO_SMALL.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_conversation_save(
    conversation: *const ember_conversation,
    buffer: *mut u8,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let saved = handle!(conversation).lock("conversation")?.save()?;
        fill!(&saved[..], buffer, capacity, n_needed)
    })
}

/// Makes a conversation of saved bytes. Where the sequence does not hold what it held, the next reply runs it again.
/// - @param context the context; not NULL
/// - @param saved what ember_conversation_save wrote; not NULL
/// - @param len number of bytes
/// - @param chat_options as for ember_conversation_new; best those that it had; NULL: the defaults
/// - @param generate_options as for ember_conversation_new; best those that it had; NULL: the defaults
/// - @param out receives the conversation; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_conversation_free. `chat_options` and `generate_options` may be
///   freed after the call. The conversation keeps `context` alive.
/// - Threads: Any thread; one call at a time for `context`, `chat_options` and `generate_options`, a second gives
///   EMBER_E_BUSY.
/// - Errors: EMBER_E_FORMAT for bytes that are damaged; EMBER_E_UNSUPPORTED for those of a later version; else as
///   ember_conversation_new.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_conversation_load(
    context: *mut ember_context,
    saved: *const u8,
    len: usize,
    chat_options: *const ember_chat_options,
    generate_options: *const ember_generate_options,
    out: *mut *mut ember_conversation,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (context, saved, out) = (handle!(context), array!(saved, len), output!(out));
        let (chat, generate) =
            (chat_options_or_default(chat_options)?, options_or_default(generate_options)?);
        check_draft(&generate, context)?;
        out.set(try_into_raw::<ember_conversation>(Exclusive::new(Talk::load(
            context, saved, chat, generate,
        )?))?)
    })
}
