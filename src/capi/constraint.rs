//! Constraints: what generated text has to follow.

use std::ffi::c_char;

use super::args::{free_handle, handle, output, text, texts};
use super::error::ember_error;
use super::guard::{guard, guard_value};
use super::handle::{CType, Exclusive, try_into_raw};
use super::model::ember_model;
use crate::constrain::{Constraint, ConstraintOptions, Grammar, Limits, Progress, Trigger};
use crate::error::{Error, Result, ember_status};
use crate::memory::expect_memory;
use crate::model::LoadedModel;

/// The crate llguidance has C functions of its own, which a shared library would export beside Ember's. Each object file may ask for a symbol
/// to be hidden, and linkers do as the strictest of them says: so these stay inside. (`tests/capi/symbols.sh` knows when a new one comes.)
#[cfg(all(feature = "constraints", not(target_vendor = "apple"), not(target_family = "wasm"), unix))]
macro_rules! hide {
    ($($name:literal,)*) => {
        std::arch::global_asm!($(concat!(".weak ", $name, "\n.hidden ", $name),)*);
    };
}

#[cfg(all(feature = "constraints", not(target_vendor = "apple"), not(target_family = "wasm"), unix))]
hide! {
    "llg_cancel", "llg_clone_cancellation_handle", "llg_clone_constraint", "llg_clone_matcher",
    "llg_clone_stop_controller", "llg_clone_tokenizer", "llg_commit_token", "llg_compute_mask",
    "llg_constraint_init_set_defaults", "llg_decode_tokens", "llg_flush_logs",
    "llg_free_cancellation_handle", "llg_free_constraint", "llg_free_matcher",
    "llg_free_stop_controller", "llg_free_tokenizer", "llg_get_error", "llg_get_temperature",
    "llg_get_version", "llg_is_stopped", "llg_matcher_compute_ff_tokens",
    "llg_matcher_compute_mask", "llg_matcher_compute_mask_into", "llg_matcher_consume_token",
    "llg_matcher_consume_tokens", "llg_matcher_get_cancellation_handle", "llg_matcher_get_error",
    "llg_matcher_get_mask", "llg_matcher_get_mask_byte_size", "llg_matcher_is_accepting",
    "llg_matcher_is_cancelled", "llg_matcher_is_error", "llg_matcher_is_stopped",
    "llg_matcher_reset", "llg_matcher_rollback", "llg_matcher_validate_tokens",
    "llg_new_constraint", "llg_new_constraint_any", "llg_new_constraint_json",
    "llg_new_constraint_lark", "llg_new_constraint_regex", "llg_new_matcher",
    "llg_new_stop_controller", "llg_new_tokenizer", "llg_new_tokenizer_v2", "llg_par_compute_mask",
    "llg_stop_commit_token", "llg_stringify_tokens", "llg_tokenize_bytes",
    "llg_tokenize_bytes_marker", "llg_validate_grammar",
}

/// How to make a constraint. Made with ember_constraint_options_new, owned by the caller, used by one thread at a time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_constraint_options {
    _private: (),
}

impl CType for ember_constraint_options {
    type Object = Exclusive<ConstraintOptions>;
    const TAG: u64 = u64::from_be_bytes(*b"emb:cnop");
    const NAME: &'static str = "ember_constraint_options";
}

/// What a text has to follow, compiled for the tokens of a model. It does not change, and many threads may use it at the same time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_constraint {
    _private: (),
}

impl CType for ember_constraint {
    type Object = Constraint;
    const TAG: u64 = u64::from_be_bytes(*b"emb:cstr");
    const NAME: &'static str = "ember_constraint";
}

/// A bound of ember_constraint_options_set_limit.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ember_constraint_limit {
    /// Most bytes of the schema, the expression, the grammar, or all choices together. Default: 1048576.
    EMBER_CONSTRAINT_LIMIT_SOURCE = 0,
    /// Most symbols of the compiled grammar. Default: 200000.
    EMBER_CONSTRAINT_LIMIT_GRAMMAR = 1,
    /// Most steps of compiling, about 50,000 in a millisecond. Default: 1000000.
    EMBER_CONSTRAINT_LIMIT_COMPILE = 2,
    /// Most steps in the expressions for one token, about 14,000 in a millisecond. Default: 200000.
    EMBER_CONSTRAINT_LIMIT_MASK = 3,
    /// Most items of the parser for one token, about 20,000 in a millisecond. Default: 50000.
    EMBER_CONSTRAINT_LIMIT_ITEMS = 4,
    /// Most states of the expressions in one text, each of 1 to 2 KB of memory. Default: 50000.
    EMBER_CONSTRAINT_LIMIT_STATES = 5,
}

/// How far a text is that follows a constraint.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ember_constraint_progress {
    /// There is no constraint.
    EMBER_CONSTRAINT_NONE = 0,
    /// No trigger came yet, or none came again where the constraint repeats: no text is unfinished.
    EMBER_CONSTRAINT_WAITING = 1,
    /// The text is a beginning of what it has to be, and cut off.
    EMBER_CONSTRAINT_UNFINISHED = 2,
    /// The text is what it has to be.
    EMBER_CONSTRAINT_COMPLETE = 3,
}

/// The progress in the form of C.
pub(super) fn from_progress(progress: Option<Progress>) -> i32 {
    use ember_constraint_progress::*;
    let progress = match progress {
        None => EMBER_CONSTRAINT_NONE,
        Some(Progress::Waiting) => EMBER_CONSTRAINT_WAITING,
        Some(Progress::Unfinished) => EMBER_CONSTRAINT_UNFINISHED,
        Some(Progress::Complete) => EMBER_CONSTRAINT_COMPLETE,
    };
    progress as i32
}

/// The caller's constraint, or none for NULL.
pub(super) fn constraint_or_none(constraint: *const ember_constraint) -> Result<Option<Constraint>> {
    match constraint.is_null() {
        true => Ok(None),
        false => Ok(Some(Constraint::clone(handle!(constraint)))),
    }
}

fn options_or_default(options: *const ember_constraint_options) -> Result<ConstraintOptions> {
    match options.is_null() {
        true => Ok(ConstraintOptions::default()),
        false => Ok(handle!(options).lock("options")?.clone()),
    }
}

/// Sets bound number `limit`.
fn set_limit(limits: &mut Limits, limit: i32, value: u64) -> Result<()> {
    let size = || usize::try_from(value).unwrap_or(usize::MAX);
    match limit {
        0 => limits.source = size(),
        1 => limits.grammar = size(),
        2 => limits.compile = value,
        3 => limits.mask = value,
        4 => limits.items = size(),
        5 => limits.states = size(),
        _ => {
            return Err(Error::InvalidArgument(format!(
                "limit must be an ember_constraint_limit (0 to 5), got {limit}"
            )));
        }
    }
    Ok(())
}

fn to_trigger(text: &str) -> Result<Trigger> {
    match text {
        "" => Err(Error::InvalidArgument("text is empty: it would be found everywhere".into())),
        text => {
            expect_memory(text.len().saturating_mul(4), "a trigger of this length")?;
            Ok(Trigger::Text(text.to_owned()))
        }
    }
}

/// The constraint that a handle points to.
fn compiled(
    model: &LoadedModel,
    grammar: Grammar<'_>,
    options: *const ember_constraint_options,
) -> Result<*mut ember_constraint> {
    let options = options_or_default(options)?;
    try_into_raw::<ember_constraint>(Constraint::new(model.vocabulary()?, grammar, &options)?)
}

/// Makes options for a constraint, with their defaults.
/// - @param out receives the options; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_constraint_options_free.
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_constraint_options_new(
    out: *mut *mut ember_constraint_options,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let options = Exclusive::new(ConstraintOptions::default());
        output!(out).set(try_into_raw::<ember_constraint_options>(options)?)
    })
}

/// Frees options. Constraints made with them stay as they are.
/// - @param options the options; may be NULL
/// - Threads: Any thread; no other call may use the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_constraint_options_free(options: *mut ember_constraint_options) {
    guard_value((), || free_handle!(options))
}

/// Limits white space between two parts of JSON. White space within strings is text.
/// - @param options the options to change; not NULL
/// - @param whitespace the most characters, 256 at most; 0: none, so that JSON is as short as it can be; default: 32
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY. A number above 256 is an error where the constraint is made.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_constraint_options_set_whitespace(
    options: *mut ember_constraint_options,
    whitespace: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.whitespace = whitespace as usize;
        Ok(())
    })
}

/// Adds a text that starts the constraint: what comes before it is free. For the text after a thought give the mark
/// that ends its thought (`</think>`). Ember finds it however the model cuts it into tokens, also where it is the
/// text of a control token. What follows it within its last token is the beginning of what the constraint describes.
/// Of several triggers, 16 at most, the one that is complete first counts. A text without a trigger is never under
/// the constraint: ember_generate_result says EMBER_CONSTRAINT_WAITING. Without triggers the constraint begins with
/// the first token.
/// - @param options the options to change; not NULL
/// - @param text the trigger, 1 to 256 bytes, UTF-8; not NULL
/// - @param text_len length of `text` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `text`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for an empty text; EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY. A text that is
///   too long, or too many, are errors where the constraint is made.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_constraint_options_add_trigger_text(
    options: *mut ember_constraint_options,
    text: *const c_char,
    text_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, text) = (handle!(options), text!(text, text_len));
        options.lock("options")?.triggers.push(to_trigger(text)?);
        Ok(())
    })
}

/// Adds a token that starts the constraint; see ember_constraint_options_add_trigger_text.
/// - @param options the options to change; not NULL
/// - @param token the token id; no token that ends a text
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY. A token that does not exist is an error where the constraint is
///   made.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_constraint_options_add_trigger_token(
    options: *mut ember_constraint_options,
    token: u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.triggers.push(Trigger::Token(token));
        Ok(())
    })
}

/// Sets what follows a complete constraint. Needs a trigger.
/// - @param options the options to change; not NULL
/// - @param repeat true: the text is free again until the next trigger, after which the constraint holds anew; false,
///   the default: the text ends
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_constraint_options_set_repeat(
    options: *mut ember_constraint_options,
    repeat: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.repeat = repeat;
        Ok(())
    })
}

/// Limits the work or memory of a constraint. Where a limit is reached, making the constraint fails, or the
/// generation ends with an error.
/// - @param options the options to change; not NULL
/// - @param limit an ember_constraint_limit
/// - @param value the limit, in the unit that ember_constraint_limit says
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a limit that does not exist; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_constraint_options_set_limit(
    options: *mut ember_constraint_options,
    limit: i32,
    value: u64,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || set_limit(&mut handle!(options).lock("options")?.limits, limit, value))
}

/// Makes a constraint: the text is JSON that a JSON Schema describes (drafts 4 to 2020-12). It is made once and used
/// by many generations of the model, also at the same time. The first constraint of a model arranges its tokens,
/// which takes about a second for a large vocabulary.
///
/// Members of objects come in the order of `properties`. Keywords that only describe (title, default …) are passed
/// over, and so are unknown ones, as JSON Schema says. Understood are type, const, enum, anyOf, allOf, $ref; oneOf,
/// if it is certain that its parts exclude each other; properties, required, additionalProperties, patternProperties,
/// minProperties, maxProperties; items, prefixItems, additionalItems, minItems, maxItems; minLength, maxLength,
/// pattern, format; minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf. Nothing is fetched for a $ref.
/// - @param model the model; not NULL
/// - @param schema the schema, JSON itself; not NULL
/// - @param schema_len length of `schema` in bytes, or EMBER_NUL_TERMINATED
/// - @param options how to make it; NULL: the defaults
/// - @param out receives the constraint; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_constraint_free. `options` may be freed after the call. `model`
///   may be released after the call.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_UNSUPPORTED for another keyword or format, by its name, for a model without a tokenizer, for
///   tokens that cannot spell JSON, and without the feature "constraints"; EMBER_E_INVALID_ARGUMENT for what is no
///   schema, or too large, and for a schema that no JSON meets; EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_constraint_new_json_schema(
    model: *const ember_model,
    schema: *const c_char,
    schema_len: usize,
    options: *const ember_constraint_options,
    out: *mut *mut ember_constraint,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, schema, out) = (handle!(model), text!(schema, schema_len), output!(out));
        out.set(compiled(&model.model, Grammar::JsonSchema(schema), options)?)
    })
}

/// Makes a constraint: the text is a JSON object, whatever it holds.
/// - @param model the model; not NULL
/// - @param options how to make it; NULL: the defaults
/// - @param out receives the constraint; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_constraint_free. `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: as ember_constraint_new_json_schema.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_constraint_new_json_object(
    model: *const ember_model,
    options: *const ember_constraint_options,
    out: *mut *mut ember_constraint,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, out) = (handle!(model), output!(out));
        out.set(compiled(&model.model, Grammar::JsonObject, options)?)
    })
}

/// Makes a constraint: a regular expression matches the text as a whole.
/// - @param model the model; not NULL
/// - @param regex the expression, UTF-8, in the syntax of the Rust crate regex; there is no look-around, and no
///   anchor but at the ends; not NULL
/// - @param regex_len length of `regex` in bytes, or EMBER_NUL_TERMINATED
/// - @param options how to make it; NULL: the defaults
/// - @param out receives the constraint; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_constraint_free. `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for what is no such expression; else as ember_constraint_new_json_schema.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_constraint_new_regex(
    model: *const ember_model,
    regex: *const c_char,
    regex_len: usize,
    options: *const ember_constraint_options,
    out: *mut *mut ember_constraint,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, regex, out) = (handle!(model), text!(regex, regex_len), output!(out));
        out.set(compiled(&model.model, Grammar::Regex(regex), options)?)
    })
}

/// Makes a constraint: a context-free grammar derives the text from its rule `start`. The syntax is Lark's as the
/// crate llguidance reads it: rules `name: "text" /regex/ other_rule`, terminals `NAME: /regex/`, `|`, `?`, `*`, `+`,
/// `{n,m}`, `%ignore`, `%json {…}`, and control tokens as `<|name|>`.
/// - @param model the model; not NULL
/// - @param grammar the grammar, UTF-8; not NULL
/// - @param grammar_len length of `grammar` in bytes, or EMBER_NUL_TERMINATED
/// - @param options how to make it; NULL: the defaults
/// - @param out receives the constraint; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_constraint_free. `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for what is no such grammar; else as ember_constraint_new_json_schema.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_constraint_new_lark(
    model: *const ember_model,
    grammar: *const c_char,
    grammar_len: usize,
    options: *const ember_constraint_options,
    out: *mut *mut ember_constraint,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, grammar, out) = (handle!(model), text!(grammar, grammar_len), output!(out));
        out.set(compiled(&model.model, Grammar::Lark(grammar), options)?)
    })
}

/// Makes a constraint: the text is one of several.
/// - @param model the model; not NULL
/// - @param texts the texts, UTF-8, none of them empty; not NULL
/// - @param lengths length of each text in bytes; NULL: each ends at its NUL
/// - @param n_texts number of `texts`
/// - @param options how to make it; NULL: the defaults
/// - @param out receives the constraint; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_constraint_free. `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for no texts or an empty one; else as ember_constraint_new_json_schema.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_constraint_new_choices(
    model: *const ember_model,
    texts: *const *const c_char,
    lengths: *const usize,
    n_texts: usize,
    options: *const ember_constraint_options,
    out: *mut *mut ember_constraint,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, texts, out) = (handle!(model), texts!(texts, lengths, n_texts), output!(out));
        out.set(compiled(&model.model, Grammar::Choices(&texts), options)?)
    })
}

/// Frees a constraint.
/// - @param constraint the constraint; may be NULL
/// - Ownership: Samplers, options and generations keep what they need of the constraint.
/// - Threads: Any thread; no other call may use the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_constraint_free(constraint: *mut ember_constraint) {
    guard_value((), || free_handle!(constraint))
}
