//! What may change between the replies of a conversation: which tool is called, how long thoughts may be, and what happens where it
//! becomes too long.

use std::ffi::{c_char, c_void};

use super::args::{UserData, handle, text};
use super::conversation::ember_conversation;
use super::error::ember_error;
use super::guard::{guard, host};
#[cfg(not(feature = "chat"))]
use super::talk_off::{OnFull, WhenFull};
#[cfg(feature = "chat")]
use crate::conversation::{OnFull, WhenFull};
use crate::error::{Error, Result, ember_status};

/// What happens where a conversation becomes longer than its sequence.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ember_when_full {
    /// Whole turns are dropped, the oldest first: a user's message and all up to the next one. The system text and the first turn
    /// stay.
    EMBER_WHEN_FULL_DROP_OLDEST = 0,
    /// The same, but the first turn may go too.
    EMBER_WHEN_FULL_DROP_OLDEST_AND_FIRST = 1,
    /// The reply is EMBER_E_CONTEXT_FULL.
    EMBER_WHEN_FULL_REFUSE = 2,
}

/// Says how many turns are dropped where a conversation becomes too long. It runs on the calling thread, and again
/// where what it said was not enough.
/// - @param n_tokens how many tokens the conversation needs
/// - @param n_ctx how many tokens a sequence holds
/// - @param n_turns how many turns can be dropped, at least one
/// - @param user_data what was given with the callback
/// - @return how many turns are dropped, the oldest first; 0 ends the reply with EMBER_E_CONTEXT_FULL
#[allow(non_camel_case_types, reason = "the C name")]
pub type ember_full_callback =
    Option<unsafe extern "C" fn(n_tokens: u32, n_ctx: u32, n_turns: u32, user_data: *mut c_void) -> u32>;

fn to_when_full(when_full: i32) -> Result<WhenFull> {
    use ember_when_full::*;
    match when_full {
        w if w == EMBER_WHEN_FULL_DROP_OLDEST as i32 => Ok(WhenFull::DropOldest),
        w if w == EMBER_WHEN_FULL_DROP_OLDEST_AND_FIRST as i32 => Ok(WhenFull::DropOldestAndFirst),
        w if w == EMBER_WHEN_FULL_REFUSE as i32 => Ok(WhenFull::Refuse),
        other => Err(Error::InvalidArgument(format!("when_full is {other}, which is no ember_when_full"))),
    }
}

fn to_on_full(callback: ember_full_callback, user_data: UserData) -> Option<OnFull> {
    let callback = callback?;
    Some(Box::new(move |n_tokens, n_ctx, n_turns| {
        let user_data = &user_data;
        // SAFETY: the host's function with the host's pointer, given together.
        host(|| unsafe { callback(n_tokens as u32, n_ctx as u32, n_turns as u32, user_data.0) as usize })
    }))
}

/// Limits the tokens of a thought from now on. Then the thought is closed by the template's own mark, and the answer
/// comes.
/// - @param conversation the conversation; not NULL
/// - @param n_tokens the most tokens; 0, the default: as many as it takes
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `conversation`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_UNSUPPORTED when the template has no marks of thoughts; EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_conversation_set_thinking_budget(
    conversation: *mut ember_conversation,
    n_tokens: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let budget = (n_tokens > 0).then_some(n_tokens as usize);
        handle!(conversation).lock("conversation")?.set_thinking_budget(budget)
    })
}

/// Sets whether replies from now on have to call a tool, in place of what ember_chat_options_set_tool_choice said. A
/// choice holds until another one is set: after a call that was required, set "auto" before the reply to its result,
/// or the model has to call a tool again.
/// - @param conversation the conversation; not NULL
/// - @param tool_choice as for ember_chat_options_set_tool_choice; may be NULL if `tool_choice_len` is 0
/// - @param tool_choice_len length of `tool_choice` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `tool_choice`.
/// - Threads: Any thread; one call at a time for `conversation`, a second gives EMBER_E_BUSY.
/// - Errors: after which the choice is as before: EMBER_E_BUSY while a reply is under way, too;
///   EMBER_E_INVALID_ARGUMENT for a tool that the conversation does not have, and for a call that has to be made where
///   it has no tools; EMBER_E_UNSUPPORTED where the form of calls or a schema is one that replies cannot be held to;
///   EMBER_E_UTF8, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_conversation_set_tool_choice(
    conversation: *mut ember_conversation,
    tool_choice: *const c_char,
    tool_choice_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(conversation).lock("conversation")?.set_tool_choice(text!(tool_choice, tool_choice_len))
    })
}

/// Sets what happens from now on where the conversation becomes longer than its sequence.
/// - @param conversation the conversation; not NULL
/// - @param when_full an ember_when_full
/// - @param n_reserve how many tokens must be free for a reply when it begins; 0: max_tokens, and a quarter of the
///   sequence at most
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `conversation`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_conversation_set_when_full(
    conversation: *mut ember_conversation,
    when_full: i32,
    n_reserve: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (when_full, reserve) = (to_when_full(when_full)?, (n_reserve > 0).then_some(n_reserve as usize));
        handle!(conversation).lock("conversation")?.set_when_full(when_full, reserve);
        Ok(())
    })
}

/// Sets a callback that says how many turns are dropped where the conversation becomes too long.
/// ember_conversation_send and ember_conversation_begin call it.
/// - @param conversation the conversation; not NULL
/// - @param callback says how many turns are dropped, on the calling thread; NULL: as few as need be
/// - @param user_data handed to the callback as it is; may be NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: `callback` and `user_data` must stay valid as long as the conversation, or until others are set.
/// - Threads: Any thread; one call at a time for `conversation`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_conversation_set_on_full(
    conversation: *mut ember_conversation,
    callback: ember_full_callback,
    user_data: *mut c_void,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(conversation).lock("conversation")?.set_on_full(to_on_full(callback, UserData(user_data)));
        Ok(())
    })
}
