//! Draft tokens: what a generation runs ahead.

use std::sync::Arc;

use super::args::handle;
use super::context::{ContextState, ember_context};
use super::error::ember_error;
use super::generate_options::ember_generate_options;
use super::guard::guard;
use super::handle::Exclusive;
use crate::error::{Error, Result, ember_status};
use crate::generate::{DraftModel, GenerateOptions, Lookup};

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

/// Takes draft tokens from the text itself, to run several tokens in one step. The drafts are what followed the last
/// tokens where these stood in the text before. That pays where texts repeat what they have said or were given, as
/// summaries, corrections and code do. Where drafts are rejected Ember makes fewer, down to none for up to 32 tokens.
///
/// The tokens are the same as without: the sampler still chooses each from the model's logits, one for each event,
/// and with the default types of the KV cache these have the same bits. Between two events the sequence holds what it
/// would hold without. A call that decodes on the same context between two events discards the drafts made before it,
/// so generators that take turns gain nothing. An engine does without drafts. They take memory for the logits of
/// `n_draft` tokens more.
/// - @param options the options to change; not NULL
/// - @param n_draft the most draft tokens of a step, 32 at most; 0, the default: none
/// - @param ngram how many of the last tokens have to match, 1 to 16, 3 is good; where there is no match fewer are
///   tried, down to 2
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for numbers out of range; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
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

/// Takes draft tokens from a smaller model with the same vocabulary, to run several tokens in one step. Where a
/// lookup (ember_generate_options_set_lookup) finds some, those are taken. All that is said there of drafts holds
/// here. What is wrong with `draft` alone ends no generation: when it is full, short of memory or cancelled by its
/// own token (ember_context_set_cancel_token), there are no drafts.
/// - @param options the options to change; not NULL
/// - @param draft a context of the smaller model, with about the n_ctx of the other, or drafts end where it is full;
///   several generators may share it, each with a sequence of its own; NULL, the default: none
/// - @param sequence the sequence of `draft` that becomes the beginning of the text, whatever it held
/// - @param n_draft the most draft tokens of a step, 32 at most; 0: none
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The options, and generators made with them, keep `draft` alive; the caller may free it at any time.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY. `draft` is used while a
///   generator is made and during its steps. When another call is using it then, they give EMBER_E_BUSY and can be
///   tried again.
/// - Errors: EMBER_E_INVALID_ARGUMENT for an `n_draft` out of range, EMBER_E_BUSY. Errors where the generation
///   begins: EMBER_E_INVALID_ARGUMENT for a sequence that does not exist, for a model with other tokens, and when
///   `draft` is the context of the generation itself; EMBER_E_UNSUPPORTED for an encoder.
/// - @return EMBER_OK, or the status of the error
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
