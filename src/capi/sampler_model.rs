//! Samplers and stages that a model has a part in.

use std::sync::Arc;

use super::args::{handle, output};
use super::error::ember_error;
use super::guard::guard;
use super::handle::{Exclusive, try_into_raw};
use super::model::ember_model;
use super::sampler::{effective, ember_sampler, push};
use crate::error::ember_status;
use crate::generate::{infill, proposed_sampler};

/// Adds a stage for filling a gap in a text, which ends a generation where no continuation is likely. Where the
/// tokens that end one are likely as against the number of candidates, they alone are left. Otherwise tokens whose
/// texts begin with another candidate's are merged with it, and tokens with less than a fifth of the probability go.
/// When none is left, the end of a turn (or of the text) is chosen, whether it was among the candidates or not. The
/// stage stands after top-k and top-p as a rule.
/// - @param sampler the sampler; not NULL
/// - @param model the model to sample for; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember keeps nothing of `model`.
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_UNSUPPORTED for a model without a tokenizer or without a token that ends a text;
///   EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_infill(
    sampler: *mut ember_sampler,
    model: *const ember_model,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (sampler, model) = (handle!(sampler), handle!(model));
        push(sampler, infill(Arc::clone(model.model.shared_tokenizer()?))?)
    })
}

/// Makes a sampler with the stages that a model's file proposes. A GGUF file proposes them by its keys
/// `general.sampling.*`, in the order of their "sequence" or llama.cpp's. A folder does by its
/// generation_config.json, read as `generate` of the Python package transformers does: greedy unless `do_sample` is
/// true, and 50 for an absent `top_k` if it is. A warning of the log names what a file proposes beyond that, and what
/// it proposes without an effect.
/// - @param model the model; not NULL
/// - @param seed any number; EMBER_SEED_RANDOM: a random one
/// - @param out receives the sampler; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_sampler_free.
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_NOT_FOUND for a file that proposes nothing; EMBER_E_FORMAT for a proposal that is wrong;
///   EMBER_E_UNSUPPORTED for one that Ember cannot follow; EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_sampler(
    model: *const ember_model,
    seed: u64,
    out: *mut *mut ember_sampler,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, out) = (handle!(model), output!(out));
        let sampler = proposed_sampler(&model.model, effective(seed))?;
        out.set(try_into_raw::<ember_sampler>(Arc::new(Exclusive::new(sampler)))?)
    })
}
