//! Scores of texts: classifiers and rerankers.

use std::ffi::c_char;

use super::args::{fill, free_handle, handle, needs_capacity, output, text, texts};
use super::context::ember_context;
use super::error::ember_error;
use super::guard::{check_memory, guard, guard_value};
use super::handle::{CType, Exclusive, try_into_raw};
use super::model::ember_model;
use crate::context::ScoreOptions;
use crate::error::{Error, Result, ember_status};
use crate::gguf::ScoreActivation;
use crate::memory::{copied_text, expect_memory};
use crate::model::LoadedModel;

/// How texts are scored. Made with ember_classify_options_new, owned by the caller, used by one thread at a time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_classify_options {
    _private: (),
}

impl CType for ember_classify_options {
    type Object = Exclusive<ScoreOptions>;
    const TAG: u64 = u64::from_be_bytes(*b"emb:sopt");
    const NAME: &'static str = "ember_classify_options";
}

/// What is done to the outputs of a head that scores texts.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ember_classify_activation {
    /// What the model's source says, or EMBER_CLASSIFY_SIGMOID for one label and EMBER_CLASSIFY_SOFTMAX for more: the default.
    EMBER_CLASSIFY_AUTO = -1,
    /// Nothing: the scores are any numbers.
    EMBER_CLASSIFY_NONE = 0,
    /// Each score is a probability of its own.
    EMBER_CLASSIFY_SIGMOID = 1,
    /// The scores of a text are probabilities that add up to 1.
    EMBER_CLASSIFY_SOFTMAX = 2,
}

fn to_activation(activation: i32) -> Result<Option<ScoreActivation>> {
    match activation {
        -1 => Ok(None),
        0 => Ok(Some(ScoreActivation::None)),
        1 => Ok(Some(ScoreActivation::Sigmoid)),
        2 => Ok(Some(ScoreActivation::Softmax)),
        _ => Err(Error::InvalidArgument(format!(
            "activation must be an ember_classify_activation (-1 to 2), got {activation}"
        ))),
    }
}

fn options_or_default(options: *const ember_classify_options) -> Result<ScoreOptions> {
    match options.is_null() {
        true => Ok(ScoreOptions::default()),
        false => {
            let options = handle!(options).lock("options")?;
            expect_memory(options.template.len(), "a copy of the options")?;
            Ok(options.clone())
        }
    }
}

fn label(model: &LoadedModel, index: usize) -> Result<&str> {
    let labels = model.require_head()?.labels();
    labels.get(index).map(String::as_str).ok_or_else(|| {
        Error::NotFound(format!(
            "there is no label number {index}: the model has {}, from 0 on",
            labels.len()
        ))
    })
}

/// Makes options for classifying and reranking, with their defaults.
/// - @param out receives the options; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_classify_options_free.
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_classify_options_new(
    out: *mut *mut ember_classify_options,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        output!(out).set(try_into_raw::<ember_classify_options>(Exclusive::new(ScoreOptions::default()))?)
    })
}

/// Frees options.
/// - @param options the options; may be NULL
/// - Threads: Any thread; no other call may use the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_classify_options_free(options: *mut ember_classify_options) {
    guard_value((), || free_handle!(options))
}

/// Sets what is done to the outputs of the model's head.
/// - @param options the options to change; not NULL
/// - @param activation an ember_classify_activation; default: EMBER_CLASSIFY_AUTO
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_classify_options_set_activation(
    options: *mut ember_classify_options,
    activation: i32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.activation = to_activation(activation)?;
        Ok(())
    })
}

/// Sets whether Ember cuts a text that is too long instead of refusing it. Of a query and a document, it leaves the
/// end of the document out.
/// - @param options the options to change; not NULL
/// - @param truncate true: the text is cut; false, the default: the call fails
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_classify_options_set_truncate(
    options: *mut ember_classify_options,
    truncate: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.truncate = truncate;
        Ok(())
    })
}

/// Sets the prompt of rerankers that are decoders. Encoders have no prompt.
/// - @param options the options to change; not NULL
/// - @param template_text a text with the places `{query}` and `{document}`, each once, in which texts of control
///   tokens stand for these tokens. Empty, the default: the model's `tokenizer.chat_template.rerank`, or
///   Qwen3-Reranker's where a model of that architecture has none; may be NULL if `template_len` is 0
/// - @param template_len length of `template_text` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `template_text`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_classify_options_set_template(
    options: *mut ember_classify_options,
    template_text: *const c_char,
    template_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, template_text) = (handle!(options), text!(template_text, template_len));
        options.lock("options")?.template = copied_text(template_text, "the prompt")?;
        check_memory()
    })
}

/// Sets whether a model without a head is asked for "yes" or "no", and its score is the probability of "yes".
/// Qwen3-Reranker's original folder is such a model; Ember recognizes it by its name too.
/// - @param options the options to change; not NULL
/// - @param yes_no true: it is asked; false, the default: it is not
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_classify_options_set_yes_no(
    options: *mut ember_classify_options,
    yes_no: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.yes_no = yes_no;
        Ok(())
    })
}

/// Counts the labels of a model that scores texts: the scores of a text.
/// - @param model the model; not NULL
/// - @param out receives the number of labels; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_UNSUPPORTED for a model without a head that scores texts; EMBER_E_INVALID_ARGUMENT.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_label_count(
    model: *const ember_model,
    out: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, out) = (handle!(model), output!(out));
        out.set(model.model.require_head()?.labels().len())
    })
}

/// Writes the name of a label.
/// - @param model the model; not NULL
/// - @param index number of the label, from 0
/// - @param buffer receives the name as the model's source has it, UTF-8 without NUL; a label without a name is
///   `LABEL_0` and so on; may be NULL if `capacity` is 0
/// - @param capacity bytes that `buffer` can take; 0 to ask for the number
/// - @param n_needed receives how many bytes there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_NOT_FOUND for an index that is too large; EMBER_E_UNSUPPORTED for a model without a head that
///   scores texts; EMBER_E_INVALID_ARGUMENT, EMBER_E_BUFFER_TOO_SMALL.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_label(
    model: *const ember_model,
    index: usize,
    buffer: *mut u8,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let label = label(&handle!(model).model, index)?;
        fill!(label.as_bytes(), buffer, capacity, n_needed)
    })
}

/// Gives each of several texts a score for each label of the model. Texts run together, as with ember_embed. The
/// context's sequences stay as they are.
/// - @param context the context; not NULL
/// - @param texts the texts, UTF-8; may be NULL if `n_texts` is 0
/// - @param lengths length of each text in bytes; NULL: each ends at its NUL
/// - @param n_texts number of `texts`
/// - @param options the activation and so on; NULL: the defaults
/// - @param scores receives, for each text in order, a number for each label (ember_model_label); may be NULL if
///   `capacity` is 0
/// - @param capacity scores that `scores` can take; 0 to ask for the number
/// - @param n_needed receives how many scores there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `context` and `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_UNSUPPORTED for a model without a head that scores texts, or without a tokenizer;
///   EMBER_E_CONTEXT_FULL for a text that is too long, by its index; EMBER_E_CANCELLED by the context's token;
///   EMBER_E_IO when the model's file can no longer be read; EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8,
///   EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_classify(
    context: *mut ember_context,
    texts: *const *const c_char,
    lengths: *const usize,
    n_texts: usize,
    options: *const ember_classify_options,
    scores: *mut f32,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let mut state = handle!(context).lock("context")?;
        let (texts, options) = (texts!(texts, lengths, n_texts), options_or_default(options)?);
        let n_labels = state.context.model().require_head()?.labels().len();
        needs_capacity!(texts.len().saturating_mul(n_labels), scores, capacity, n_needed);
        fill!(state.context.classify(&texts, &options)?, scores, capacity, n_needed)
    })
}

/// Gives each of several documents a score for how well it answers a query, the higher the better. Encoders read a
/// pair as they were trained to (`[CLS] query [SEP] document [SEP]` with token types for BERT), decoders after the
/// prompt of the model (ember_classify_options_set_template). Texts spell no control tokens. Pairs run together, as
/// texts do with ember_embed. The context's sequences stay as they are.
/// - @param context the context; not NULL
/// - @param query the query, UTF-8; not NULL
/// - @param query_len length of `query` in bytes, or EMBER_NUL_TERMINATED
/// - @param documents the documents, UTF-8; may be NULL if `n_documents` is 0
/// - @param lengths length of each text in bytes; NULL: each ends at its NUL
/// - @param n_documents number of `documents`
/// - @param options the activation and so on; NULL: the defaults
/// - @param scores receives a number for each document, in their order; may be NULL if `capacity` is 0
/// - @param capacity scores that `scores` can take; 0 to ask for the number
/// - @param n_needed receives how many scores there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `context` and `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_UNSUPPORTED for a model that has no head, or one with several labels of which none is "yes";
///   else as ember_classify; EMBER_E_BUFFER_TOO_SMALL.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_rerank(
    context: *mut ember_context,
    query: *const c_char,
    query_len: usize,
    documents: *const *const c_char,
    lengths: *const usize,
    n_documents: usize,
    options: *const ember_classify_options,
    scores: *mut f32,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let mut state = handle!(context).lock("context")?;
        let query = text!(query, query_len);
        let (documents, options) = (texts!(documents, lengths, n_documents), options_or_default(options)?);
        needs_capacity!(documents.len(), scores, capacity, n_needed);
        fill!(state.context.rerank(query, &documents, &options)?, scores, capacity, n_needed)
    })
}
