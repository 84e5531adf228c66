//! Options of generation.

use std::ffi::c_char;
use std::sync::Arc;
use std::time::Duration;

use super::args::{free_handle, handle, output, text};
use super::cancel::{ember_cancel_token, token_or_none};
use super::constraint::{constraint_or_none, ember_constraint};
use super::context::{ContextState, ember_context};
use super::error::ember_error;
use super::guard::{guard, guard_value};
use super::handle::{CType, Exclusive, try_into_raw};
use crate::error::{Error, Result, ember_status};
use crate::generate::{DraftModel, GenerateOptions, Lookup, MAX_TOPS, Shift};
use crate::memory::expect_room;

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
        false => {
            let options = handle!(options).lock("options")?;
            let n_bytes = options.stops.iter().map(String::len).sum::<usize>();
            expect_room(n_bytes.saturating_mul(16), "stops of this length")?;
            Ok(options.clone())
        }
    }
}

fn to_n_top(n: u32) -> Result<usize> {
    match n as usize {
        n if n <= MAX_TOPS => Ok(n),
        n => Err(Error::InvalidArgument(format!("n_top must be at most {MAX_TOPS}, got {n}"))),
    }
}

fn to_shift(n_keep: u32, n_drop: u32) -> Option<Shift> {
    (n_drop > 0).then_some(Shift { keep: n_keep as usize, drop: n_drop as usize })
}

fn to_lookup(n_draft: u32, ngram: u32) -> Result<Option<Lookup>> {
    if n_draft == 0 {
        return Ok(None);
    }
    let lookup = Lookup { n_draft: n_draft as usize, ngram: ngram as usize };
    lookup.check()?;
    Ok(Some(lookup))
}

fn to_draft(draft: *mut ember_context, seq: u32, n_draft: u32) -> Result<Option<DraftModel>> {
    if draft.is_null() {
        return Ok(None);
    }
    let context: Arc<Exclusive<ContextState>> = Arc::clone(&**handle!(draft));
    if n_draft == 0 {
        return Ok(None);
    }
    let draft = DraftModel { context, seq, n_draft: n_draft as usize };
    draft.check()?;
    Ok(Some(draft))
}

/// `InvalidArgument` when the generation would draft in its own context.
pub(super) fn check_draft(options: &GenerateOptions, context: &Arc<Exclusive<ContextState>>) -> Result<()> {
    let own = Arc::as_ptr(context).cast::<()>();
    match &options.draft {
        Some(draft) if Arc::as_ptr(&draft.context).cast::<()>() == own => Err(Error::InvalidArgument(
            "the draft context is the context of the generation itself; make one of a smaller model".into(),
        )),
        _ => Ok(()),
    }
}

fn to_stop(stop: &str) -> Result<String> {
    match stop {
        "" => Err(Error::InvalidArgument("stop is empty: it would end every text".into())),
        stop => expect_room(stop.len().saturating_mul(4), "a stop of this length").map(|()| stop.to_owned()),
    }
}

/// Writes new options with their defaults to `out`; free them with ember_generate_options_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_new(
    out: *mut *mut ember_generate_options,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        output!(out).set(try_into_raw::<ember_generate_options>(Exclusive::new(GenerateOptions::default()))?)
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

/// Whether the prompt is the whole of what the sequence shall hold, from its first token on. Ember keeps what the sequence begins with already,
/// forgets the rest of it, and runs only the new part of the prompt (its last token in any case). This is for conversations: give all of it each
/// time and pay for what was added. Default: false, the prompt goes behind what the sequence holds.
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

/// Whether events carry the log-probability of their token: that of the model's own distribution, before the sampler's stages.
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

/// How many of the likeliest tokens each event carries with their log-probabilities, at most 64; more than 0 means
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

/// How many milliseconds the generation may take, from the making of its generator or its submission to an engine on; it ends
/// with EMBER_FINISH_TIME_LIMIT when another token would come after that. A prompt that runs already is run to its end, or, by an
/// engine, to the end of the step. A limit that is over before the first step ends it there, and the prompt is not run. 0: any.
/// Default: 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_time_limit(
    options: *mut ember_generate_options,
    time_limit_ms: u64,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let limit = (time_limit_ms > 0).then_some(Duration::from_millis(time_limit_ms));
        handle!(options).lock("options")?.time_limit = limit;
        Ok(())
    })
}

/// Which of the requests that wait in an engine's queue begins first: that of the highest priority, of equal ones the one that came first.
/// Nobody waits for ever. Of the requests that 32 later ones have passed, the one that came first is next all the same, and all others are
/// counted from 0 again. So an urgent request behind a long queue waits for one of these at most, and then 32 go by priority. Where pages of
/// the KV cache are few, requests give theirs up in the opposite order and are run again later. Requests that came later and stay have
/// passed them too. Default: 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_priority(
    options: *mut ember_generate_options,
    priority: i32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.priority = priority;
        Ok(())
    })
}

/// The token that ends the generation early, with EMBER_FINISH_CANCELLED and no error. The options keep what they need of
/// it. NULL, the default: none. The context's own token ends it too. A request of an engine ends with the engine's next step, as
/// with ember_request_cancel. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
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

/// What a generation does where its sequence is full (n_ctx): it forgets `n_drop` tokens behind the first `n_keep` and goes on,
/// each time that happens, as ember_context_sequence_shift does it; ember_generate_result counts them. `n_drop`
/// of 0, the default: it ends with EMBER_FINISH_CONTEXT_FULL. A prompt that does not fit is an error all the same. If the KV
/// cache has no pages left to copy those that other sequences have too, the step gives EMBER_E_CONTEXT_FULL.
/// Errors here: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY. Errors where the generation begins: EMBER_E_INVALID_ARGUMENT when the
/// two numbers together are not below n_ctx, or of the first `n_keep` tokens would be seen again what was given back
/// (ember_context_options_set_keep_all_positions); EMBER_E_UNSUPPORTED for a model with learned positions (GPT-2) or recurrent
/// layers (LFM2, Qwen 3.5), and in an
/// engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_shift(
    options: *mut ember_generate_options,
    n_keep: u32,
    n_drop: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.shift = to_shift(n_keep, n_drop);
        Ok(())
    })
}

/// Takes draft tokens from the text itself: up to `n_draft` (at most 32; 0, the default: none), which run together with the token
/// before them. They are what followed the last tokens, `ngram` (1 to 16; 3 is good) down to 2, where they stood in the text before.
/// That pays where texts repeat what they have said or were given, as summaries, corrections and code do. Where drafts are
/// rejected Ember makes fewer, down to none for up to 32 tokens.
/// The tokens are the same as without: each is still chosen by the sampler from the model's logits, one for each event, and
/// with the default types of the KV cache these have the same bits. Between two events the sequence holds what it would hold
/// without. A call that decodes on the same context between two events discards the drafts made before it, so
/// generators that take turns gain nothing; an engine does without them. Takes memory for the logits of `n_draft` tokens more.
/// Errors: EMBER_E_INVALID_ARGUMENT for numbers out of range, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_lookup(
    options: *mut ember_generate_options,
    n_draft: u32,
    ngram: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.lookup = to_lookup(n_draft, ngram)?;
        Ok(())
    })
}

/// Takes draft tokens from a smaller model with the same vocabulary: up to `n_draft` (at most 32), which run together with the token
/// before them. Where a lookup (ember_generate_options_set_lookup) finds some, those are taken. All said there holds here.
/// `draft` is a context of the smaller model, whose sequence `sequence` becomes the beginning of the text, whatever it held; it
/// needs about the n_ctx of the other, or drafts end where it is full. Several generators may share it, each with a sequence of
/// its own. The options, and generators made with them, keep it alive, so it may be freed at any time. It is used while
/// a generator is made and during its steps: they give EMBER_E_BUSY when another call is using it then, and can be tried again.
/// What is wrong with `draft` alone ends no generation: when it is full, short of memory or cancelled by its own token
/// (ember_context_set_cancel_token), there are no drafts. `draft` NULL, the default, or `n_draft` 0: none.
/// Errors here: EMBER_E_INVALID_ARGUMENT for an n_draft out of range, EMBER_E_BUSY. Errors where the generation begins:
/// EMBER_E_INVALID_ARGUMENT for a sequence that does not exist, for a model with other tokens, and when `draft` is the context
/// of the generation itself; EMBER_E_UNSUPPORTED for an encoder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_draft(
    options: *mut ember_generate_options,
    draft: *mut ember_context,
    sequence: u32,
    n_draft: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, draft) = (handle!(options), to_draft(draft, sequence, n_draft)?);
        options.lock("options")?.draft = draft;
        Ok(())
    })
}

/// What the generated text has to follow: only tokens that it allows are candidates, before all stages of the sampler, and the
/// generation ends with it, as EMBER_FINISH_EOG. The options keep what they need of it. It begins with the first generated token, or behind its
/// trigger. ember_generate_result says whether the text is complete: one that is cut off, by max_tokens, a stop string, a full context or
/// a cancel token, is EMBER_CONSTRAINT_UNFINISHED. Tokens that it leaves no choice for are run together with the one before them, in
/// one batch; each has its event all the same. Draft tokens (ember_generate_options_set_lookup, ember_generate_options_set_draft) that
/// it does not allow are not run. NULL, the default: none.
/// Errors here: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY. Errors where the generation begins: EMBER_E_INVALID_ARGUMENT for a constraint of
/// another model, and with ember_generate_options_set_ignore_eog. Errors of a step: EMBER_E_INVALID_ARGUMENT where a limit of the
/// constraint is reached, or the sampler's stages rule out all that it allows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generate_options_set_constraint(
    options: *mut ember_generate_options,
    constraint: *const ember_constraint,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, constraint) = (handle!(options), constraint_or_none(constraint)?);
        options.lock("options")?.constraint = constraint;
        Ok(())
    })
}
