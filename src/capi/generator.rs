//! Generation in pull form.

use std::ffi::c_char;
use std::sync::Arc;

use super::args::{array, fill_struct, free_handle, handle, output, output_struct, text};
use super::context::{ContextState, ember_context};
use super::error::ember_error;
use super::generate::{
    ember_event, ember_generate_result, ember_token_logprob, sampler_or_greedy, to_event, to_result,
};
use super::generate_drafts::check_draft;
use super::generate_options::{ember_generate_options, options_or_default};
use super::guard::{guard, guard_value};
use super::handle::{CType, Exclusive, try_into_raw};
use super::sampler::ember_sampler;
use crate::error::{Result, ember_status};
use crate::generate::{Generator, Prompt};
use crate::sampler::Sampler;

/// A generation under way. One thread at a time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_generator {
    _private: (),
}

impl CType for ember_generator {
    type Object = Exclusive<GeneratorState>;
    const TAG: u64 = u64::from_be_bytes(*b"emb:gnrt");
    const NAME: &'static str = "ember_generator";
}

/// The object that an `ember_generator` handle points to.
pub struct GeneratorState {
    generator: Generator,
    context: Arc<Exclusive<ContextState>>,
    sampler: Arc<Exclusive<Sampler>>,
    tops: Vec<ember_token_logprob>,
}

impl GeneratorState {
    /// A new generator's handle.
    fn handle(
        context: &Arc<Exclusive<ContextState>>,
        prompt: Prompt<'_>,
        options: *const ember_generate_options,
        sampler: *mut ember_sampler,
    ) -> Result<*mut ember_generator> {
        let options = options_or_default(options)?;
        check_draft(&options, context)?;
        let state = GeneratorState {
            generator: Generator::new(&context.lock("context")?.context, prompt, &options)?,
            context: Arc::clone(context),
            sampler: sampler_or_greedy(sampler)?,
            tops: Vec::with_capacity(options.n_top),
        };
        try_into_raw::<ember_generator>(Exclusive::new(state))
    }

    fn next(&mut self) -> Result<ember_event> {
        let mut context = self.context.lock("the generator's context")?;
        let mut sampler = self.sampler.lock("the generator's sampler")?;
        let event = self.generator.next(&mut context.context, &mut sampler)?;
        Ok(to_event(&event, &mut self.tops))
    }
}

/// Frees a generator unless a call is using it, which the log then says.
fn may_go(state: &Exclusive<GeneratorState>) -> bool {
    let idle = state.is_idle();
    if !idle {
        log::error!("ember_generator_free: the generator is in use by another call and was not freed");
    }
    idle
}

/// Prepares a generation whose events ember_generator_next gives one by one; it does what ember_generate does. **A
/// prompt made by ember_chat_apply_template needs ember_generate_options_set_parse_special.** The first event runs
/// the prompt. Between two events the context may do other work, such as generators on its other sequences. If the
/// generator's own sequence is changed meanwhile, the next event is EMBER_E_INVALID_ARGUMENT.
/// - @param context the context; not NULL
/// - @param prompt the prompt, UTF-8; empty: continue what the sequence holds; may be NULL if `prompt_len` is 0
/// - @param prompt_len length of `prompt` in bytes, or EMBER_NUL_TERMINATED
/// - @param options how to generate; NULL: the defaults
/// - @param sampler chooses the tokens; NULL: greedy
/// - @param out receives the generator; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_generator_free. `options` may be freed after the call. The
///   generator keeps `context` and `sampler` alive; they may be freed in any order.
/// - Threads: Any thread; one call at a time for `context`, `options` and `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT when there is nothing to continue, or the sequence is out of range;
///   EMBER_E_UNSUPPORTED for an encoder or a model without a tokenizer; EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generator_new(
    context: *mut ember_context,
    prompt: *const c_char,
    prompt_len: usize,
    options: *const ember_generate_options,
    sampler: *mut ember_sampler,
    out: *mut *mut ember_generator,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (context, prompt, out) = (handle!(context), text!(prompt, prompt_len), output!(out));
        out.set(GeneratorState::handle(context, Prompt::Text(prompt), options, sampler)?)
    })
}

/// Prepares a generation after a prompt of token ids; see ember_generator_new. Nothing is added to the prompt. The
/// model needs no tokenizer, unless there are stop strings or an echo.
/// - @param context the context; not NULL
/// - @param tokens the token ids of the prompt; may be NULL if `n_tokens` is 0
/// - @param n_tokens number of `tokens`
/// - @param options how to generate; NULL: the defaults
/// - @param sampler chooses the tokens; NULL: greedy
/// - @param out receives the generator; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_generator_free. `options` may be freed after the call. The
///   generator keeps `context` and `sampler` alive; they may be freed in any order.
/// - Threads: Any thread; one call at a time for `context`, `options` and `sampler`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a token that does not exist; else as ember_generator_new.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generator_new_tokens(
    context: *mut ember_context,
    tokens: *const u32,
    n_tokens: usize,
    options: *const ember_generate_options,
    sampler: *mut ember_sampler,
    out: *mut *mut ember_generator,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (context, tokens, out) = (handle!(context), array!(tokens, n_tokens), output!(out));
        out.set(GeneratorState::handle(context, Prompt::Tokens(tokens), options, sampler)?)
    })
}

/// Frees a generator. What was generated stays in the context's sequence, but for the token of the last event, which
/// the next call would have run: begin the next prompt with it where no token shall be missing.
/// - @param generator the generator; may be NULL
/// - Threads: Any thread. While a call is using the generator (on another thread) it is not freed, and the log says
///   so: free it afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generator_free(generator: *mut ember_generator) {
    guard_value((), || free_handle!(generator, may_go))
}

/// Writes the next event of a generation. The first call runs the prompt, and each call the token of the event
/// before. So take events until EMBER_EVENT_END if the sequence shall hold all of them. After EMBER_EVENT_END it
/// comes again and again. After an error the next call tries again. The sequence is then as it was, but for what
/// reuse_prefix and a shift let it forget, and for what was run already where choosing the next token fails.
/// - @param generator the generator; not NULL
/// - @param event receives the event; set its struct_size first; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: What the event points to stays until the next call with the generator, or its free.
/// - Threads: Any thread; one call at a time for `generator`, its context and its sampler, a second gives
///   EMBER_E_BUSY.
/// - Errors: EMBER_E_CONTEXT_FULL when the prompt does not fit, or no page is left; EMBER_E_INVALID_ARGUMENT when the
///   sequence was changed by other calls, and for logits that are NaN; EMBER_E_NOMEM; EMBER_E_BUSY. A cancel token is
///   no error: it gives EMBER_EVENT_END.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generator_next(
    generator: *mut ember_generator,
    event: *mut ember_event,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (generator, out) = (handle!(generator), output_struct!(event));
        out.set(&generator.lock("generator")?.next()?)
    })
}

/// Writes what a generation did so far. Its finish_reason is EMBER_FINISH_NONE before EMBER_EVENT_END.
/// - @param generator the generator; not NULL
/// - @param out receives the counters; set its struct_size first; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `generator`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_generator_usage(
    generator: *const ember_generator,
    out: *mut ember_generate_result,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || fill_struct!(out, to_result(&handle!(generator).lock("generator")?.generator.usage())))
}
