//! Samplers: a chain of stages with its own random state.

use std::sync::Arc;

use super::args::{array, free_handle, handle, output};
use super::constraint::from_progress;
use super::error::ember_error;
use super::guard::{check_memory, guard, guard_value};
use super::handle::{CType, Exclusive, try_into_raw};
use crate::constrain::Progress;
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

/// Makes a sampler without stages, which draws from the softmax of the logits. It can have 1000 stages. The random
/// numbers are those of xoshiro256++ seeded through SplitMix64, so a seed gives the same choices on every platform
/// for the same logits.
/// - @param seed any number; EMBER_SEED_RANDOM: a random one, which ember_sampler_seed gives
/// - @param out receives the sampler; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_sampler_free.
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
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

/// Frees a sampler.
/// - @param sampler the sampler; may be NULL
/// - Ownership: A generator made with the sampler keeps what it needs of it.
/// - Threads: Any thread. While a call is using the sampler (from that call's callback, or on another thread) it is
///   not freed, and the log says so: free it afterwards.
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

/// The seed itself, or a random one for `EMBER_SEED_RANDOM`: the standard library's source of seeds for hashing.
pub(super) fn effective(seed: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    match seed {
        SEED_RANDOM => RandomState::new().hash_one(std::time::Instant::now()) >> 1,
        seed => seed,
    }
}

pub(super) fn push(sampler: &Exclusive<Sampler>, stage: Stage) -> Result<()> {
    let mut sampler = sampler.lock("sampler")?;
    sampler.check_capacity()?;
    let mut longer = sampler.try_clone()?;
    longer.push(stage)?;
    // What there was only the reserve for must not stay.
    check_memory()?;
    *sampler = longer;
    Ok(())
}

/// Says how far the text is that follows a constraint of the sampler; of several constraints, the one furthest from
/// its end.
/// - @param sampler the sampler; not NULL
/// - @param out receives an ember_constraint_progress; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
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

/// Tells the stages that look back that a token is now part of the text. ember_sampler_sample accepts nothing by
/// itself; a prompt's tokens may be accepted too. A stage that is added later does not see the token, unless an
/// earlier one looks back as far.
/// - @param sampler the sampler; not NULL
/// - @param token the token id
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
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

/// Copies a sampler: its stages and their state, its random numbers where they stand.
/// - @param sampler the sampler; not NULL
/// - @param out receives the copy; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_sampler_free.
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
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

/// Gives the seed of a sampler's random numbers.
/// - @param sampler the sampler; not NULL
/// - @param out receives the seed; for a sampler made with EMBER_SEED_RANDOM the one that was taken; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
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

/// Starts a sampler over, as if it were new: the random numbers, and what was accepted. The stages stay.
/// - @param sampler the sampler; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
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

/// Chooses a token from logits. ember_sampler_accept makes it part of the text.
/// - @param sampler the sampler; not NULL
/// - @param logits a number for each token id; -INFINITY rules a token out, and +INFINITY all tokens that have less;
///   not NULL
/// - @param n number of `logits`, 1 to 16777215
/// - @param out receives the token id; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for no logits or too many, a NaN, or logits that rule every token out;
///   EMBER_E_CANCELLED by a stage's callback; EMBER_E_NOMEM; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
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
