//! Stages of samplers.

use std::ffi::{c_char, c_void};

use super::args::{UserData, array, handle, texts};
use super::constraint::ember_constraint;
use super::error::ember_error;
use super::guard::{guard, host};
use super::model::ember_model;
use super::sampler::{ember_sampler, push};
use crate::constrain::Constraint;
use crate::error::{Error, Result, ember_status};
use crate::generate::{DEFAULT_BREAKERS, breakers};
use crate::memory::expect_memory;
use crate::sampler::{Custom, Dry, Penalties, Stage};

/// Looks at the candidates that the stages before have left, and may change their logits. It runs on the thread that
/// samples.
/// - @param tokens the token ids in ascending order
/// - @param logits the logit of each token, which may be changed; -INFINITY rules a token out, NaN and INFINITY are
///   refused
/// - @param n number of candidates, at least 1
/// - @param user_data what was given with the callback
/// - @return 0 to go on; anything else ends the call with EMBER_E_CANCELLED, and a generation with
///   EMBER_FINISH_CANCELLED
#[allow(non_camel_case_types, reason = "the C name")]
pub type ember_candidates_callback = Option<
    unsafe extern "C" fn(tokens: *const u32, logits: *mut f32, n: usize, user_data: *mut c_void) -> i32,
>;

/// The stage that calls the host's function.
fn to_custom(callback: ember_candidates_callback, user_data: *mut c_void) -> Result<Stage> {
    let Some(callback) = callback else {
        return Err(Error::InvalidArgument("callback is NULL".into()));
    };
    let user_data = UserData(user_data);
    Ok(Stage::Custom(Custom::new(move |ids, logits| {
        let UserData(user_data) = { user_data };
        // SAFETY: the host's function with the host's pointer, and arrays of the length that it is given.
        match host(|| unsafe { callback(ids.as_ptr(), logits.as_mut_ptr(), ids.len(), user_data) }) {
            0 => Ok(()),
            _ => Err(Error::Cancelled("the callback of a sampler's stage ended the call".into())),
        }
    })))
}

/// The texts, or the usual ones where no array is given.
fn texts_or_default(array: *const *const c_char, texts: Vec<&str>) -> Vec<&str> {
    if array.is_null() { DEFAULT_BREAKERS.to_vec() } else { texts }
}

/// A list for a stage, which makes another of it.
fn copied(tokens: &[u32]) -> Result<Vec<u32>> {
    expect_memory(4 * size_of_val(tokens), "a list of this length").map(|()| tokens.to_vec())
}

/// Pairs of tokens and biases.
fn pairs(tokens: &[u32], biases: &[f32]) -> Result<Vec<(u32, f32)>> {
    expect_memory(8 * size_of_val(tokens), "a list of this length")?;
    Ok(tokens.iter().copied().zip(biases.iter().copied()).collect())
}

/// Adds a stage that keeps only the most probable token; of equals the one with the lowest id.
/// - @param sampler the sampler; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_greedy(
    sampler: *mut ember_sampler,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::Greedy))
}

/// Adds a stage that divides the logits by a temperature.
/// - @param sampler the sampler; not NULL
/// - @param temperature a finite number, at least 0; 0 is greedy
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_temperature(
    sampler: *mut ember_sampler,
    temperature: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::Temperature(temperature)))
}

/// Adds a stage that keeps the most probable tokens.
/// - @param sampler the sampler; not NULL
/// - @param k how many tokens stay; 0 keeps all
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_top_k(
    sampler: *mut ember_sampler,
    k: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::TopK(k as usize)))
}

/// Adds a stage that keeps the most probable tokens whose probabilities add up to a sum, at least one.
/// - @param sampler the sampler; not NULL
/// - @param p the sum, above 0, at most 1
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_top_p(
    sampler: *mut ember_sampler,
    p: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::TopP(p)))
}

/// Adds a stage that keeps tokens that are probable enough as against the likeliest.
/// - @param sampler the sampler; not NULL
/// - @param p the least share of the likeliest token's probability, 0 to 1; 0 keeps all
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_min_p(
    sampler: *mut ember_sampler,
    p: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::MinP(p)))
}

/// Adds a stage that keeps the tokens whose surprise is closest to the expected one.
/// - @param sampler the sampler; not NULL
/// - @param p the sum of probabilities that the tokens kept have to exceed, above 0, at most 1; 1 keeps all
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_typical_p(
    sampler: *mut ember_sampler,
    p: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::TypicalP(p)))
}

/// Adds a stage that keeps the tokens whose logits are near the largest (top-n-sigma). A temperature before it
/// changes nothing about what is kept.
/// - @param sampler the sampler; may be NULL if `n` is 0
/// - @param n the most standard deviations of all candidates' logits below the largest, finite, at least 0; 0 keeps
///   all
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_top_n_sigma(
    sampler: *mut ember_sampler,
    n: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::TopNSigma(n)))
}

/// Adds a stage whose temperature grows with the entropy of the distribution.
/// - @param sampler the sampler; not NULL
/// - @param temperature the middle of the temperatures, finite, at least 0
/// - @param range how far the temperature goes below (to 0 at most) and above the middle, finite, at least 0
/// - @param exponent the power of the entropy that it grows with, finite, at least 0
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_dynamic_temperature(
    sampler: *mut ember_sampler,
    temperature: f32,
    range: f32,
    exponent: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::DynamicTemperature { temperature, range, exponent }))
}

/// Adds a stage that removes at random all tokens above a threshold but the least likely of them ("exclude top
/// choices"). It takes a random number each time that it may change something, also where a later stage makes the
/// choice fail. Tried again, it goes on with the next random number.
/// - @param sampler the sampler; not NULL
/// - @param probability how often it removes tokens, 0 to 1
/// - @param threshold the probability from which on tokens are removed, 0 to 1; above 0.5 the stage does nothing
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_xtc(
    sampler: *mut ember_sampler,
    probability: f32,
    threshold: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::Xtc { probability, threshold }))
}

/// Adds a stage that makes tokens less likely that were accepted lately. ember_sampler_accept gives tokens to the
/// sampler. The sampler remembers as many of them as its stages look back at by then; so add such stages first.
/// - @param sampler the sampler; not NULL
/// - @param last_n how many of the tokens accepted latest count, 1048576 at most
/// - @param repeat a positive logit is divided by it, another one multiplied; above 0, 1 changes nothing
/// - @param frequency taken off a logit for each time the token occurred
/// - @param presence taken off a logit once
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_penalties(
    sampler: *mut ember_sampler,
    last_n: u32,
    repeat: f32,
    frequency: f32,
    presence: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        push(
            handle!(sampler),
            Stage::Penalties(Penalties { last_n: last_n as usize, repeat, frequency, presence }),
        )
    })
}

/// Sets which tokens `frequency` and `presence` of ember_sampler_add_penalties count. `repeat` always counts all.
/// - @param sampler the sampler; not NULL
/// - @param generated_only true: those generated since the last one of a prompt, as OpenAI's API has it; false, the
///   default: all that were accepted
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_set_penalties_generated_only(
    sampler: *mut ember_sampler,
    generated_only: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(sampler).lock("sampler")?.set_penalties_generated_only(generated_only);
        Ok(())
    })
}

/// Adds a stage against repeated passages (DRY). It makes tokens less likely which would carry on a passage that is
/// among the accepted tokens already. If the passage has `allowed_length` tokens at least, `multiplier` times `base`
/// to the power of (length of the passage − `allowed_length`) is taken off their logits. No passage goes beyond a
/// breaker. Tokens that were accepted before the stage was added may not be remembered.
/// - @param sampler the sampler; not NULL
/// - @param model the model to sample for, whose tokens the breakers are looked up in; not NULL
/// - @param multiplier the penalty of a passage of `allowed_length`; 0.8 is usual
/// - @param base how fast the penalty grows; 1.75 is usual
/// - @param allowed_length the length from which on passages count, 1048576 at most; 2 is usual
/// - @param last_n how many of the tokens accepted latest are searched, 1048576 at most
/// - @param breakers texts of 1 to 40 bytes of UTF-8; NULL: line end, colon, quotation mark, asterisk
/// - @param lengths length of each breaker in bytes; NULL: each ends at its NUL
/// - @param n_breakers number of `breakers`, 128 different ones at most
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `breakers` and keeps nothing of `model`.
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_UNSUPPORTED for a model without a tokenizer; EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8,
///   EMBER_E_NOMEM; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_dry(
    sampler: *mut ember_sampler,
    model: *const ember_model,
    multiplier: f32,
    base: f32,
    allowed_length: u32,
    last_n: u32,
    breakers: *const *const c_char,
    lengths: *const usize,
    n_breakers: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (sampler, model) = (handle!(sampler), handle!(model));
        let texts = texts_or_default(breakers, texts!(breakers, lengths, n_breakers));
        let breakers = self::breakers(model.model.tokenizer()?, &texts)?;
        let (allowed_length, last_n) = (allowed_length as usize, last_n as usize);
        push(sampler, Stage::Dry(Dry { multiplier, base, allowed_length, last_n, breakers }))
    })
}

/// Adds a stage of the caller's own, which may change the logits of the candidates.
/// - @param sampler the sampler; not NULL
/// - @param callback receives the candidates, on the thread that samples; not NULL
/// - @param user_data handed to the callback as it is; may be NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: `callback` and `user_data` must stay valid as long as the sampler, its clones and generators made
///   with it.
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_callback(
    sampler: *mut ember_sampler,
    callback: ember_candidates_callback,
    user_data: *mut c_void,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), to_custom(callback, user_data)?))
}

/// Adds a stage that keeps tokens whose surprise is below a bound, which follows the surprise that is wanted
/// (Mirostat 2). It is the last stage as a rule, and there is one of Mirostat's at most.
/// - @param sampler the sampler; not NULL
/// - @param tau the wanted surprise in bits
/// - @param eta the rate at which the bound follows
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_mirostat(
    sampler: *mut ember_sampler,
    tau: f32,
    eta: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::Mirostat { tau, eta }))
}

/// Adds a stage of Mirostat's first version, which keeps a number of tokens that follows the surprise that is wanted.
/// It is the last stage as a rule, and there is one of Mirostat's at most.
/// - @param sampler the sampler; not NULL
/// - @param tau the wanted surprise in bits
/// - @param eta the rate at which the number follows
/// - @param m from how many of the likeliest tokens the number is estimated, 2 to 1048576; 100 is usual
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_mirostat_1(
    sampler: *mut ember_sampler,
    tau: f32,
    eta: f32,
    m: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::Mirostat1 { tau, eta, m: m as usize }))
}

/// Adds a stage that makes tokens the likelier, the nearer their probability is to a target (adaptive-p). The target
/// moves so that accepted tokens have the wanted probability on average. It is the last stage as a rule, after min-p,
/// and there is one at most. It learns from a token that ember_sampler_sample gave last and ember_sampler_accept
/// takes; generations do both.
/// - @param sampler the sampler; not NULL
/// - @param target the wanted probability, 0 to 1
/// - @param decay how much an accepted token counts as against the next one, 0 to 0.99
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_adaptive_p(
    sampler: *mut ember_sampler,
    target: f32,
    decay: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::AdaptiveP { target, decay }))
}

/// Adds a stage that adds numbers to the logits of tokens. Tokens that have no logit are passed over.
/// - @param sampler the sampler; not NULL
/// - @param tokens the token ids; one that comes several times gets the sum; not NULL
/// - @param biases a number for each of `tokens`; -INFINITY rules the token out; may be NULL if `n` is 0
/// - @param n number of `tokens` and `biases`
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `tokens` and `biases`.
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a NaN or +INFINITY, and for a sum that leaves the range of floats;
///   EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_bias(
    sampler: *mut ember_sampler,
    tokens: *const u32,
    biases: *const f32,
    n: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (sampler, tokens, biases) = (handle!(sampler), array!(tokens, n), array!(biases, n));
        push(sampler, Stage::Bias(pairs(tokens, biases)?))
    })
}

/// Adds a stage that keeps the given tokens only. When none of them is left, sampling fails.
/// - @param sampler the sampler; not NULL
/// - @param tokens the token ids that stay; may be NULL if `n` is 0
/// - @param n number of `tokens`
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `tokens`.
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_allow(
    sampler: *mut ember_sampler,
    tokens: *const u32,
    n: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::Allow(copied(array!(tokens, n))?)))
}

/// Adds a stage that rules the given tokens out. When no other is left, sampling fails.
/// - @param sampler the sampler; not NULL
/// - @param tokens the token ids that go; may be NULL if `n` is 0
/// - @param n number of `tokens`
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `tokens`.
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_deny(
    sampler: *mut ember_sampler,
    tokens: *const u32,
    n: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::Deny(copied(array!(tokens, n))?)))
}

/// Adds a stage that keeps the tokens which may be next in a text that follows a constraint. Add it first: what other
/// stages left before it may be none of these. Where the constraint is complete it leaves the tokens that end a text,
/// and nothing else. The text is made of the tokens that ember_sampler_sample gives and ember_sampler_accept accepts
/// next. Other tokens that are accepted are a prompt, and the text under the constraint begins anew after them, as it
/// does with ember_sampler_reset. In a generation it begins after the prompt, and goes on where the prompt is empty.
/// A clone of the sampler goes on by itself. Generations run tokens together that the constraint leaves no choice
/// for. A sampler may have several such stages.
/// - @param sampler the sampler; not NULL
/// - @param constraint the constraint, made for the same model; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The sampler keeps what it needs of `constraint`; the caller may free it.
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY. Errors of sampling and generation:
///   EMBER_E_INVALID_ARGUMENT where a token was accepted that does not fit, where a limit of the constraint is
///   reached, for a constraint of another model, and with ember_generate_options_set_ignore_eog.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_constraint(
    sampler: *mut ember_sampler,
    constraint: *const ember_constraint,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (sampler, constraint) = (handle!(sampler), handle!(constraint));
        push(sampler, Stage::Constraint(Constraint::clone(constraint)))
    })
}
