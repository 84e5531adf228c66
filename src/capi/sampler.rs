//! Samplers: a chain of stages with its own random state.

use std::sync::Arc;

use super::args::{array, free_handle, handle, output};
use super::error::ember_error;
use super::guard::{guard, guard_value};
use super::handle::{CType, Exclusive, into_raw};
use crate::error::{Result, ember_status};
use crate::sampler::{Sampler, Stage};

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

/// Writes a new sampler without stages to `out`; free it with ember_sampler_free. Without a stage it draws from the
/// softmax of the logits. The random numbers are those of xoshiro256++ seeded through SplitMix64, so a seed gives the
/// same choices on every platform for the same logits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_new(
    seed: u64,
    out: *mut *mut ember_sampler,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || output!(out).set(into_raw::<ember_sampler>(Arc::new(Exclusive::new(Sampler::new(seed))))))
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

fn push(sampler: &Exclusive<Sampler>, stage: Stage) -> Result<()> {
    sampler.lock("sampler")?.push(stage)
}

/// Appends a stage that keeps the most probable token only; of equals the one with the lowest id.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_greedy(
    sampler: *mut ember_sampler,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::Greedy))
}

/// Appends a stage that divides the logits by `temperature`, a finite number not below 0; 0 is greedy.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_temperature(
    sampler: *mut ember_sampler,
    temperature: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::Temperature(temperature)))
}

/// Appends a stage that keeps the `k` most probable tokens; 0 keeps all.
/// Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_top_k(
    sampler: *mut ember_sampler,
    k: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::TopK(k as usize)))
}

/// Appends a stage that keeps the most probable tokens whose probabilities add up to `p` (above 0, at most 1), at
/// least one. Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_sampler_add_top_p(
    sampler: *mut ember_sampler,
    p: f32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || push(handle!(sampler), Stage::TopP(p)))
}

/// Starts the random numbers over, as if the sampler were new; the stages stay.
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

/// Chooses a token from `n` logits (the index is the token id) and writes it to `out`.
/// Errors: EMBER_E_INVALID_ARGUMENT for no logits, a NaN, or logits that rule every token out; EMBER_E_BUSY.
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
