//! Embeddings: options, vectors of texts and of token ids.

use std::ffi::c_char;

use super::args::{array, fill, free_handle, handle, needs_capacity, output, text, texts};
use super::context::ember_context;
use super::error::ember_error;
use super::guard::{guard, guard_value};
use super::handle::{CType, Exclusive, try_into_raw};
use crate::context::{Context, EmbedOptions};
use crate::error::{Error, Result, ember_status};
use crate::memory::{copied_text, with_capacity};
use crate::nn::pooling::Pooling;

/// How to embed. Made with ember_embed_options_new, owned by the caller, used by one thread at a time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_embed_options {
    _private: (),
}

/// What such an object holds.
#[derive(Debug, Clone, Default)]
pub struct Options {
    options: EmbedOptions,
    /// The name of a prompt.
    prompt: Option<String>,
}

impl CType for ember_embed_options {
    type Object = Exclusive<Options>;
    const TAG: u64 = u64::from_be_bytes(*b"emb:eopt");
    const NAME: &'static str = "ember_embed_options";
}

/// Which hidden states of a text make its vector. The numbers are those of the key `pooling_type` in model files.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ember_pooling {
    /// What the model file says, or the mean where it says nothing: the default.
    EMBER_POOLING_AUTO = -1,
    /// All of them: one vector for each token.
    EMBER_POOLING_NONE = 0,
    /// The mean of all tokens'.
    EMBER_POOLING_MEAN = 1,
    /// The first token's.
    EMBER_POOLING_CLS = 2,
    /// The last token's.
    EMBER_POOLING_LAST = 3,
    /// No vector: scores, which ember_classify and ember_rerank give. In ember_model_info alone; such a model embeds only
    /// with another pooling by option.
    EMBER_POOLING_RANK = 4,
}

fn to_pooling(pooling: i32) -> Result<Option<Pooling>> {
    match pooling {
        -1 => Ok(None),
        0 => Ok(Some(Pooling::None)),
        1 => Ok(Some(Pooling::Mean)),
        2 => Ok(Some(Pooling::Cls)),
        3 => Ok(Some(Pooling::Last)),
        4 => Err(Error::InvalidArgument(
            "pooling is EMBER_POOLING_RANK, which gives no vectors: ember_classify and ember_rerank give scores".into(),
        )),
        _ => {
            Err(Error::InvalidArgument(format!("pooling must be an ember_pooling (-1 to 3), got {pooling}")))
        }
    }
}

/// The number that stands for `pooling` in C.
pub(super) fn from_pooling(pooling: Option<Pooling>) -> i32 {
    match pooling {
        None => ember_pooling::EMBER_POOLING_AUTO as i32,
        Some(Pooling::None) => ember_pooling::EMBER_POOLING_NONE as i32,
        Some(Pooling::Mean) => ember_pooling::EMBER_POOLING_MEAN as i32,
        Some(Pooling::Cls) => ember_pooling::EMBER_POOLING_CLS as i32,
        Some(Pooling::Last) => ember_pooling::EMBER_POOLING_LAST as i32,
    }
}

fn options_or_default(options: *const ember_embed_options) -> Result<Options> {
    match options.is_null() {
        true => Ok(Options::default()),
        false => Ok(handle!(options).lock("options")?.clone()),
    }
}

/// `tokens` cut into texts of the given lengths, which must add up to it.
fn cut<'a>(mut tokens: &'a [u32], lengths: &[usize]) -> Result<Vec<&'a [u32]>> {
    let n_tokens = tokens.len();
    let mut texts = with_capacity(lengths.len(), "a list of texts")?;
    for &len in lengths {
        let wrong = || {
            Error::InvalidArgument(format!("the lengths add up to more than n_tokens, which is {n_tokens}"))
        };
        let (text, rest) = tokens.split_at_checked(len).ok_or_else(wrong)?;
        texts.push(text);
        tokens = rest;
    }
    match tokens.len() {
        0 => Ok(texts),
        rest => Err(Error::InvalidArgument(format!(
            "the lengths add up to {}, but n_tokens is {n_tokens}",
            n_tokens - rest
        ))),
    }
}

/// Embeds `texts` into the caller's buffer, if it is large enough.
fn embed(
    context: &mut Context,
    texts: &[&[u32]],
    options: &EmbedOptions,
    vectors: *mut f32,
    capacity: usize,
    n_needed: *mut usize,
) -> Result<()> {
    needs_capacity!(context.embedding_len(texts, options)?, vectors, capacity, n_needed);
    fill!(context.embed(texts, options)?, vectors, capacity, n_needed)
}

/// Makes options for embedding, with their defaults.
/// - @param out receives the options; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller frees `*out` with ember_embed_options_free.
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_embed_options_new(
    out: *mut *mut ember_embed_options,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || output!(out).set(try_into_raw::<ember_embed_options>(Exclusive::new(Options::default()))?))
}

/// Frees options.
/// - @param options the options; may be NULL
/// - Threads: Any thread; no other call may use the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_embed_options_free(options: *mut ember_embed_options) {
    guard_value((), || free_handle!(options))
}

/// Sets which hidden states make a text's vector.
/// - @param options the options to change; not NULL
/// - @param pooling an ember_pooling; default: EMBER_POOLING_AUTO
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for another number; EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_embed_options_set_pooling(
    options: *mut ember_embed_options,
    pooling: i32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.options.pooling = to_pooling(pooling)?;
        Ok(())
    })
}

/// Sets whether each vector is scaled to length 1, so that the dot product of two is their cosine similarity.
/// - @param options the options to change; not NULL
/// - @param normalize true: it is; false: it is not; default: true for one vector per text, unless the modules.json
///   of a folder lists no Normalize, and false for one per token
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_embed_options_set_normalize(
    options: *mut ember_embed_options,
    normalize: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.options.normalize = Some(normalize);
        Ok(())
    })
}

/// Sets whether Ember cuts a text that is too long instead of refusing it. It takes the first tokens (ember_embed:
/// and the special token at the end): as many as a text may have and as the free pages of the KV cache hold, if that
/// is one at least.
/// - @param options the options to change; not NULL
/// - @param truncate true: the text is cut; false, the default: the call fails
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_embed_options_set_truncate(
    options: *mut ember_embed_options,
    truncate: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.options.truncate = truncate;
        Ok(())
    })
}

/// Sets how many numbers of each vector are kept: the first ones. Models that were trained for it (Matryoshka) give
/// shorter vectors so. Where vectors are scaled to length 1, that comes afterwards. ember_embed refuses more numbers
/// than a vector has (n_embd_out of ember_model_info).
/// - @param options the options to change; not NULL
/// - @param dimensions numbers of a vector; 0, the default: all
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_embed_options_set_dimensions(
    options: *mut ember_embed_options,
    dimensions: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.options.dimensions = (dimensions > 0).then_some(dimensions);
        Ok(())
    })
}

/// Sets the prompt that ember_embed puts before each text, by its name. Prompts and their names, such as "query" and
/// "document", are in the config_sentence_transformers.json of a folder; GGUF files have none. ember_embed refuses a
/// name that the model does not have, with the names that there are.
/// - @param options the options to change; not NULL
/// - @param name the name, UTF-8; empty, the default: the model's default prompt, if it has one; may be NULL if
///   `length` is 0
/// - @param length length of `name` in bytes, or EMBER_NUL_TERMINATED
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: Ember copies `name`.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_embed_options_set_prompt(
    options: *mut ember_embed_options,
    name: *const c_char,
    length: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, name) = (handle!(options), text!(name, length));
        let name = copied_text(name, "the name of a prompt")?;
        options.lock("options")?.prompt = (!name.is_empty()).then_some(name);
        Ok(())
    })
}

/// Makes vectors of texts. A text gets the special tokens that the model's texts begin and end with; the text of a
/// control token is plain text. Texts run in batches of as many as fit n_batch, without padding. The tokens and
/// logits of the context's sequences stay as they are, and texts cannot use their pages. Encoders see a text as a
/// whole, so there it may have n_batch tokens at most (if n_batch was not set, that is n_ctx up to 65536). A folder
/// of sentence-transformers may name a default prompt, which is put before each text, and a max_seq_length, which a
/// text may have at most.
/// - @param context the context; not NULL
/// - @param texts the texts, UTF-8; may be NULL if `n_texts` is 0
/// - @param lengths length of each text in bytes; NULL: each ends at its NUL
/// - @param n_texts number of `texts`
/// - @param options pooling and so on; NULL: the defaults
/// - @param vectors receives the vectors in the order of the texts, each of n_embd_out numbers (ember_model_info), or
///   as many as ember_embed_options_set_dimensions says; with EMBER_POOLING_NONE n_embd numbers for each token of
///   each text; may be NULL if `capacity` is 0
/// - @param capacity numbers that `vectors` can take; 0 to ask for the number
/// - @param n_needed receives how many numbers there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `context` and `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_CONTEXT_FULL for a text that is too long, and EMBER_E_INVALID_ARGUMENT for a text without any
///   token and for a vector that would hold NaN or infinity (the model's weights overflow), each by the text's index;
///   EMBER_E_UNSUPPORTED for a model without a tokenizer; EMBER_E_CANCELLED by the context's token; EMBER_E_IO when
///   the model's file can no longer be read; EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_embed(
    context: *mut ember_context,
    texts: *const *const c_char,
    lengths: *const usize,
    n_texts: usize,
    options: *const ember_embed_options,
    vectors: *mut f32,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let mut state = handle!(context).lock("context")?;
        let (texts, options) = (texts!(texts, lengths, n_texts), options_or_default(options)?);
        let tokens = state.context.tokenize_prompted(&texts, &options.options, options.prompt.as_deref())?;
        let tokens: Vec<&[u32]> = tokens.iter().map(Vec::as_slice).collect();
        embed(&mut state.context, &tokens, &options.options, vectors, capacity, n_needed)
    })
}

/// Makes vectors of texts that are token ids already; see ember_embed. Nothing is added to them, no prompt either.
/// - @param context the context; not NULL
/// - @param tokens the token ids of all texts, one text after the other; may be NULL if `n_tokens` is 0
/// - @param n_tokens number of `tokens`, of all texts together
/// - @param lengths number of tokens of each text; not NULL
/// - @param n_texts number of texts, and of `lengths`
/// - @param options pooling and so on; NULL: the defaults
/// - @param vectors receives the vectors in the order of the texts, as from ember_embed; may be NULL if `capacity` is
///   0
/// - @param capacity numbers that `vectors` can take; 0 to ask for the number
/// - @param n_needed receives how many numbers there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `context` and `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for lengths that do not add up to `n_tokens`, and for a token that does not
///   exist; else as ember_embed; EMBER_E_BUFFER_TOO_SMALL.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_embed_tokens(
    context: *mut ember_context,
    tokens: *const u32,
    n_tokens: usize,
    lengths: *const usize,
    n_texts: usize,
    options: *const ember_embed_options,
    vectors: *mut f32,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let mut state = handle!(context).lock("context")?;
        let (tokens, lengths) = (array!(tokens, n_tokens), array!(lengths, n_texts));
        let (texts, options) = (cut(tokens, lengths)?, options_or_default(options)?);
        embed(&mut state.context, &texts, &options.options, vectors, capacity, n_needed)
    })
}
