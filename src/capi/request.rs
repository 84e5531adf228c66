//! Requests of an engine.

use super::args::{fill_struct, free_handle, handle, output_struct};
use super::engine::to_patience;
use super::error::ember_error;
use super::generate::{
    ember_event, ember_event_kind, ember_generate_result, ember_token_logprob, to_event, to_result,
};
use super::guard::{guard, guard_value};
use super::handle::{CType, Exclusive, try_into_raw};
use crate::engine::{OwnedEvent, Request};
use crate::error::{Result, ember_status};
use crate::generate::{Event, EventKind};

/// A generation that an engine was asked for. One thread at a time takes its events; any may cancel it.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_request {
    _private: (),
}

impl CType for ember_request {
    type Object = RequestState;
    const TAG: u64 = u64::from_be_bytes(*b"emb:rqst");
    const NAME: &'static str = "ember_request";
}

/// The object that an `ember_request` handle points to.
pub struct RequestState {
    request: Request,
    current: Exclusive<Current>,
}

/// The event that the caller looks at.
#[derive(Default)]
struct Current {
    event: Option<OwnedEvent>,
    tops: Vec<ember_token_logprob>,
}

pub(super) fn request_into_raw(request: Request) -> Result<*mut ember_request> {
    try_into_raw::<ember_request>(RequestState { request, current: Exclusive::new(Current::default()) })
}

impl RequestState {
    fn next(&self, timeout_ms: u32) -> Result<ember_event> {
        let mut current = self.current.lock("request")?;
        let Current { event, tops } = &mut *current;
        if let Some(next) = self.request.next(to_patience(timeout_ms))? {
            return Ok(to_event(&event.insert(next).event(), tops));
        }
        let nothing = Event { text: "", kind: EventKind::Echo };
        Ok(ember_event { kind: ember_event_kind::EMBER_EVENT_NONE as i32, ..to_event(&nothing, tops) })
    }
}

/// Frees a request unless a call is using it, which the log then says.
fn may_go(state: &RequestState) -> bool {
    let idle = state.current.is_idle();
    if !idle {
        log::error!("ember_request_free: the request is in use by another call and was not freed");
    }
    idle
}

/// Writes the next event of a request. While it waits and no other thread does the engine's steps, it does them, so
/// that a host needs no other thread; a step that has begun is done to its end, which may be later than the timeout.
/// After EMBER_EVENT_END it comes again and again. Of a request with a callback it is the only event, and comes when
/// the callback is not called any more.
/// - @param request the request; not NULL
/// - @param timeout_ms milliseconds to wait for an event; 0: not at all; EMBER_FOREVER: without end
/// - @param event receives the event, EMBER_EVENT_NONE when there was none in time; set its struct_size first; not
///   NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: What the event points to stays until the next call with the request, or its free.
/// - Threads: Any thread; one call at a time for `request`, a second gives EMBER_E_BUSY, and so does a callback of
///   the step under way.
/// - Errors: what ended the request, after its events, and then each time; EMBER_E_BUSY; EMBER_E_INVALID_ARGUMENT.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_request_next(
    request: *mut ember_request,
    timeout_ms: u32,
    event: *mut ember_event,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (request, out) = (handle!(request), output_struct!(event));
        out.set(&request.next(timeout_ms)?)
    })
}

/// Ends a request with the engine's next step, as EMBER_FINISH_CANCELLED. A step under way is done to its end, unless
/// all requests that it runs tokens of are cancelled: then it ends before the model's next layer.
/// - @param request the request; NULL, or what is no request, is left alone
/// - Threads: Any thread, also several at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_request_cancel(request: *const ember_request) {
    guard_value((), || {
        handle!(request).request.cancel();
        Ok(())
    })
}

/// Writes what a request did so far. Its finish_reason is EMBER_FINISH_NONE before the end. Its nanoseconds are those
/// of the steps that it was part of.
/// - @param request the request; not NULL
/// - @param out receives the counters; set its struct_size first; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_request_usage(
    request: *const ember_request,
    out: *mut ember_generate_result,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || fill_struct!(out, to_result(&handle!(request).request.usage()?)))
}

/// Frees a request. One that has not ended is cancelled, and its callback gets EMBER_EVENT_END with the engine's next
/// step.
/// - @param request the request; may be NULL
/// - Threads: Any thread. While a call is using the request (on another thread) it is not freed, and the log says so:
///   free it afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_request_free(request: *mut ember_request) {
    guard_value((), || free_handle!(request, may_go))
}
