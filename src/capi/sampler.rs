//! Samplers: a chain of stages with its own random state.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use super::args::{UserData, array, free_handle, handle, output, texts};
use super::constraint::{ember_constraint, from_progress};
use super::error::ember_error;
use super::guard::{check_memory, guard, guard_value, host};
use super::handle::{CType, Exclusive, try_into_raw};
use super::model::ember_model;
use crate::constrain::{Constraint, Progress};
use crate::error::{Error, Result, ember_status};
use crate::generate::{DEFAULT_BREAKERS, breakers};
use crate::memory::expect_room;
use crate::sampler::{Custom, Dry, Penalties, Sampler, Stage};

/// An ordered chain of stages that narrow or reweigh the candidates, then one random draw. One thread at a time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_sampler {
    _private: (),
}

impl CType for ember_sampler {
    type Object = Arc<Exclusive<Sampler>>;
    const TAG: u64 = u64::from_be_bytes(*b"emb:smpl");
    const NAME: &'static str = "ember_sampler";
}

/// Looks at the `n` candidates that the stages before have left, at least one: token ids in ascending order, and their
/// logits, which it may change; -INFINITY rules a token out, NaN and INFINITY are refused. `user_data` is what was given
/// with the callback. Returning anything but 0 ends the call with EMBER_E_CANCELLED, and a generation with
/// EMBER_FINISH_CANCELLED. Runs on the thread that samples.
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
        // SAFETY: the host's function with the host's pointer, and arrays of the length that it is told.
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

/// Writes a new sampler without stages to `out`; free it with ember_sampler_free. Without a stage it draws from the softmax of the
/// logits; it has at most 1000 stages. The seed EMBER_SEED_RANDOM stands for a random one, which ember_sampler_seed gives. The random
/// numbers are those of xoshiro256++ seeded through SplitMix64, so a seed gives the same choices on every platform for the same logits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_new(
    seed: u64,
    out: *mut *mut ember_sampler,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        output!(out)
            .set(try_into_raw::<ember_sampler>(Arc::new(Exclusive::new(Sampler::new(effective(seed)))))?)
    })
}

/// Frees a sampler; a generator made with it keeps what it needs of it. NULL is fine. While a call is using the sampler
/// (from that call's callback, or on another thread) it is not freed, and the log says so: free it afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_free(sampler: *mut ember_sampler) {
    guard_value((), || free_handle!(sampler, may_go))
}

/// Frees a sampler unless a call is using it, which the log then says.
fn may_go(state: &Arc<Exclusive<Sampler>>) -> bool {
    let idle = state.is_idle();
    if !idle {
        log::error!("ember_sampler_free: the sampler is in use by another call and was not freed");
    }
    idle
}

/// `EMBER_SEED_RANDOM`, which cbindgen.toml writes into the header.
const SEED_RANDOM: u64 = u64::MAX;

/// The seed itself, or one by chance for `EMBER_SEED_RANDOM`: the standard library's source of seeds for hashing.
pub(super) fn effective(seed: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    match seed {
        SEED_RANDOM => RandomState::new().hash_one(std::time::Instant::now()) >> 1,
        seed => seed,
    }
}

/// A list for a stage, which makes another of it.
fn copied(tokens: &[u32]) -> Result<Vec<u32>> {
    expect_room(4 * size_of_val(tokens), "a list of this length").map(|()| tokens.to_vec())
}

/// Pairs of tokens and biases.
fn pairs(tokens: &[u32], biases: &[f32]) -> Result<Vec<(u32, f32)>> {
    expect_room(8 * size_of_val(tokens), "a list of this length")?;
    Ok(tokens.iter().copied().zip(biases.iter().copied()).collect())
}

pub(super) fn push(sampler: &Exclusive<Sampler>, stage: Stage) -> Result<()> {
    let mut sampler = sampler.lock("sampler")?;
    sampler.check_room()?;
    let mut longer = sampler.try_clone()?;
    longer.push(stage)?;
    // What there was only the reserve for must not stay.
    check_memory()?;
    *sampler = longer;
    Ok(())
}

/// Appends a stage that keeps the most probable token only; of equals the one with the lowest id.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_greedy(
    sampler: *mut ember_sampler,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::Greedy))
}

/// Appends a stage that divides the logits by `temperature`, a finite number not below 0; 0 is greedy.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_temperature(
    sampler: *mut ember_sampler,
    temperature: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::Temperature(temperature)))
}

/// Appends a stage that keeps the `k` most probable tokens; 0 keeps all.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_top_k(
    sampler: *mut ember_sampler,
    k: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::TopK(k as usize)))
}

/// Appends a stage that keeps the most probable tokens whose probabilities add up to `p` (above 0, at most 1), at
/// least one. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_top_p(
    sampler: *mut ember_sampler,
    p: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::TopP(p)))
}

/// Appends a stage that keeps tokens at least `p` (0 to 1) times as probable as the likeliest; 0 keeps all.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_min_p(
    sampler: *mut ember_sampler,
    p: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::MinP(p)))
}

/// Appends a stage that keeps the tokens whose surprise is closest to the expected one, until their probabilities add up
/// to more than `p` (above 0, at most 1); 1 keeps all. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_typical_p(
    sampler: *mut ember_sampler,
    p: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::TypicalP(p)))
}

/// Appends a stage that keeps the tokens whose logits are at most `n` (finite, not below 0) standard deviations of all
/// candidates' logits below the largest (top-n-sigma); 0 keeps all. A temperature before it changes nothing about what is kept.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_top_n_sigma(
    sampler: *mut ember_sampler,
    n: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::TopNSigma(n)))
}

/// Appends a stage with a temperature between `temperature - range` (at least 0) and `temperature + range`, which grows with
/// the entropy of the distribution to the power `exponent`. All are finite and at least 0.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
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

/// Appends a stage that, as often as `probability` (0 to 1) says, removes all tokens at least as probable as `threshold`
/// (0 to 1) but the least likely of them ("exclude top choices"). It takes a random number each time that it may
/// change something (above a threshold of 0.5 it never does), also where a later stage makes the choice fail; tried again, that
/// goes on with the next. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_xtc(
    sampler: *mut ember_sampler,
    probability: f32,
    threshold: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::Xtc { probability, threshold }))
}

/// Appends a stage that makes tokens less likely that are among the `last_n` (at most 1048576) accepted latest. A positive logit is divided
/// by `repeat` (above 0; 1 changes nothing), another one multiplied. Then `frequency` is taken off for each time the token occurred, and
/// `presence` once. ember_sampler_accept gives tokens to the sampler. It remembers as many of them as its stages look back at by then; so add
/// such stages first.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
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

/// Sets whether `frequency` and `presence` of ember_sampler_add_penalties count the tokens that were generated since the last one of a
/// prompt and no others, as OpenAI's API has them; false: all that were accepted. `repeat` always counts all. Errors: EMBER_E_BUSY.
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

/// Appends a stage that makes tokens less likely which would carry on a passage that is among the latest `last_n` accepted tokens already
/// (DRY). If the passage has `allowed_length` tokens at least, `multiplier` times `base` to the power of (length of the passage −
/// `allowed_length`) is taken off their logits. Usual values: 0.8, 1.75, 2. `allowed_length` and `last_n` are at most 1048576.
/// No passage goes beyond one of the `n_breakers` texts, 128 different ones at most: text i is `lengths[i]` bytes of UTF-8 at `breakers[i]`,
/// 1 to 40; `lengths` NULL: each ends at its NUL byte. `breakers` NULL: line end, colon, quotation mark, asterisk. `model` is the one to
/// sample for, whose tokens the breakers are looked up in. As for ember_sampler_add_penalties, tokens that were accepted before the stage
/// was added may not be remembered.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_UNSUPPORTED for a model without a tokenizer, EMBER_E_NOMEM, EMBER_E_BUSY.
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

/// Appends a stage of the caller's own: `callback` may change the logits of the candidates. It and `user_data` must be
/// usable as long as the sampler, its clones and generators made with it.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_callback(
    sampler: *mut ember_sampler,
    callback: ember_candidates_callback,
    user_data: *mut c_void,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), to_custom(callback, user_data)?))
}

/// Appends a stage that keeps tokens whose surprise is below a bound, which follows the surprise that is wanted, `tau` in
/// bits, at the rate `eta` (Mirostat 2). It is the last stage as a rule, and there is one at most.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_mirostat(
    sampler: *mut ember_sampler,
    tau: f32,
    eta: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::Mirostat { tau, eta }))
}

/// Appends a stage of Mirostat's first version. It keeps a number of tokens that follows the wanted surprise, `tau` in bits, at the rate
/// `eta`. The number is estimated from the `m` likeliest tokens (2 to 1048576; 100 is usual). It is the last stage as a rule, and there is one of
/// Mirostat's at most. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
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

/// Appends a stage that makes tokens the likelier, the nearer their probability is to a target, which moves so that accepted
/// tokens have the probability `target` (0 to 1) on average (adaptive-p). An accepted token counts `decay` times (0 to 0.99) as much
/// as the one behind it. It is the last stage as a rule, behind min-p, and there is one at most. It learns from a token that
/// ember_sampler_sample gave last and ember_sampler_accept takes; generations do both.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_adaptive_p(
    sampler: *mut ember_sampler,
    target: f32,
    decay: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::AdaptiveP { target, decay }))
}

/// Appends a stage that adds `biases[i]` to the logit of `tokens[i]`, for `n` tokens; -INFINITY rules a token out. A token that
/// comes several times gets the sum. Tokens that have no logit are passed over.
/// Errors: EMBER_E_INVALID_ARGUMENT for a NaN or +INFINITY, and for a sum that leaves the range of floats; EMBER_E_NOMEM,
/// EMBER_E_BUSY.
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

/// Appends a stage that keeps the `n` tokens at `tokens` only. When none of them is left, sampling fails.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_allow(
    sampler: *mut ember_sampler,
    tokens: *const u32,
    n: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::Allow(copied(array!(tokens, n))?)))
}

/// Appends a stage that rules the `n` tokens at `tokens` out. When no other is left, sampling fails.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_deny(
    sampler: *mut ember_sampler,
    tokens: *const u32,
    n: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::Deny(copied(array!(tokens, n))?)))
}

/// Appends a stage that keeps the tokens which may be next in a text that follows `constraint`, of which the sampler keeps what it needs.
/// Add it first: what other stages have left before it may be none of these. Where the constraint is complete it leaves the tokens that end a
/// text, and nothing else. It is about the tokens that ember_sampler_sample gives and ember_sampler_accept accepts next; other tokens that are
/// accepted are a prompt, and the text under the constraint begins anew behind them, as it does with ember_sampler_reset. In a generation it
/// begins behind the prompt, and goes on where the prompt is empty. A clone of the sampler goes on by itself. Tokens that the
/// constraint leaves no choice for are run together by generations. A sampler may have several such stages.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY. Sampling and generation give EMBER_E_INVALID_ARGUMENT where a token was accepted
/// that does not fit, where a limit of the constraint is reached, for a constraint of another model, and with ember_generate_options_set_ignore_eog.
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

/// Writes an ember_constraint_progress to `out`: how far the text is that follows a constraint of the sampler, of several the one that is
/// furthest from its end. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_progress(
    sampler: *const ember_sampler,
    out: *mut i32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (sampler, out) = (handle!(sampler), output!(out));
        out.set(from_progress(Progress::of(sampler.lock("sampler")?.runs())))
    })
}

/// Reports to the stages that look back that `token` is now part of the text: one that ember_sampler_sample gave, which accepts
/// nothing by itself, or one of a prompt. A stage that is added later does not see it, unless an earlier one looks back as far.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_accept(
    sampler: *mut ember_sampler,
    token: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(sampler).lock("sampler")?.accept(token);
        Ok(())
    })
}

/// Writes a copy of a sampler to `out`: its stages and their state, its random numbers where they stand. Free it with
/// ember_sampler_free. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_clone(
    sampler: *const ember_sampler,
    out: *mut *mut ember_sampler,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (sampler, out) = (handle!(sampler), output!(out));
        let copy = sampler.lock("sampler")?.try_clone()?;
        out.set(try_into_raw::<ember_sampler>(Arc::new(Exclusive::new(copy)))?)
    })
}

/// Writes the seed of the random numbers to `out`; for a sampler made with EMBER_SEED_RANDOM the one that was taken.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_seed(
    sampler: *const ember_sampler,
    out: *mut u64,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (sampler, out) = (handle!(sampler), output!(out));
        out.set(sampler.lock("sampler")?.seed())
    })
}

/// Starts over, as if the sampler were new: the random numbers and what was accepted; the stages stay.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_reset(
    sampler: *mut ember_sampler,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(sampler).lock("sampler")?.reset();
        Ok(())
    })
}

/// Chooses a token from `n` logits, 1 to 16777215 (the index is the token id), and writes it to `out`. -INFINITY rules a token
/// out, and +INFINITY all tokens that have less.
/// Errors: EMBER_E_INVALID_ARGUMENT for no logits or too many, a NaN, or logits that rule every token out; EMBER_E_CANCELLED by
/// a stage's callback; EMBER_E_NOMEM, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_sample(
    sampler: *mut ember_sampler,
    logits: *const f32,
    n: usize,
    out: *mut u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (sampler, logits, out) = (handle!(sampler), array!(logits, n), output!(out));
        out.set(sampler.lock("sampler")?.sample(logits)?)
    })
}
