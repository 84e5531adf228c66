//! Models: loading, information, reference counting.

use std::any::Any;
use std::ffi::{CString, c_char, c_void};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, LazyLock};

use super::args::{UserData, array, fill, fill_struct, free_handle, handle, lasting_array, output, text};
use super::embed::{ember_pooling, from_pooling};
use super::error::ember_error;
use super::guard::{guard, guard_value, host};
use super::handle::{CType, try_into_raw};
use super::model_options::{ember_model_options, options_or_default};
use crate::error::{Error, Result, ember_status};
use crate::kernels::{ISAS, Isa};
use crate::model::{LoadedModel, inspect};

/// A loaded model: immutable, usable from any number of threads at the same time, reference-counted.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_model {
    _private: (),
}

/// The object that an `ember_model` handle points to.
pub struct ModelObject {
    pub(super) model: Arc<LoadedModel>,
    references: AtomicUsize,
}

impl CType for ember_model {
    type Object = ModelObject;
    const TAG: u64 = u64::from_be_bytes(*b"emb:modl");
    const NAME: &'static str = "ember_model";
}

/// Dimensions of a model. Set struct_size to sizeof(ember_model_info) before the call.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(target_pointer_width = "64", derive(bytemuck::NoUninit))]
pub struct ember_model_info {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Number of weights.
    pub n_params: u64,
    /// Size of the model's files in bytes.
    pub file_size: u64,
    /// Logits per position; token ids are below it.
    pub n_vocab: u32,
    /// Positions the model was trained on.
    pub n_ctx_train: u32,
    /// Width of the residual stream.
    pub n_embd: u32,
    /// Layers.
    pub n_layer: u32,
    /// Query heads.
    pub n_head: u32,
    /// Key/value heads.
    pub n_head_kv: u32,
    /// Length of a head's vector.
    pub head_dim: u32,
    /// Width of the feed-forward block.
    pub n_ff: u32,
    /// Beginning-of-sequence token, or EMBER_TOKEN_NONE.
    pub bos_token: u32,
    /// End-of-sequence token, or EMBER_TOKEN_NONE.
    pub eos_token: u32,
    /// 1 when the file has a tokenizer, else 0.
    pub has_tokenizer: u32,
    /// 1 when a sequence begins with bos_token, as the file says; ember_model_tokenize adds it when asked.
    pub add_bos: u32,
    /// 1 for a model that gives logits; 0 for one that gives embeddings only: an encoder, or a decoder without an output
    /// projection.
    pub causal: u32,
    /// How embeddings are pooled, as the file says: an ember_pooling, EMBER_POOLING_AUTO when it says nothing.
    pub pooling: i32,
    /// Experts of a layer, 0 where there are none.
    pub n_expert: u32,
    /// Experts of a token.
    pub n_expert_used: u32,
    /// End-of-turn token, or EMBER_TOKEN_NONE.
    pub eot_token: u32,
    /// The token for what no other stands for, or EMBER_TOKEN_NONE.
    pub unk_token: u32,
    /// Padding token, or EMBER_TOKEN_NONE.
    pub pad_token: u32,
    /// 1 when the file has a chat template, else 0.
    pub has_chat_template: u32,
    /// Numbers of a text's vector: n_embd, but in models with dense modules after the pooling.
    pub n_embd_out: u32,
    /// Prompts for texts to be embedded, by their names (ember_embed_options_set_prompt).
    pub n_prompts: u32,
}

fn model_info(model: &LoadedModel) -> ember_model_info {
    let info = model.info();
    let tokenizer = model.tokenizer().ok();
    let token = |t: Option<u32>| t.unwrap_or(u32::MAX);
    ember_model_info {
        struct_size: std::mem::size_of::<ember_model_info>(),
        n_params: info.n_params,
        file_size: model.gguf().file_size(),
        n_vocab: info.n_vocab as u32,
        n_ctx_train: info.n_ctx_train as u32,
        n_embd: info.n_embd as u32,
        n_layer: info.n_layer as u32,
        n_head: info.n_head as u32,
        n_head_kv: info.n_head_kv as u32,
        head_dim: info.head_dim as u32,
        n_ff: info.n_ff as u32,
        bos_token: token(tokenizer.and_then(|t| t.bos())),
        eos_token: token(tokenizer.and_then(|t| t.eos())),
        has_tokenizer: u32::from(tokenizer.is_some()),
        add_bos: u32::from(tokenizer.is_some_and(|t| t.add_bos())),
        causal: u32::from(info.has_logits),
        pooling: if info.ranks {
            ember_pooling::EMBER_POOLING_RANK as i32
        } else {
            from_pooling(info.pooling)
        },
        n_expert: info.experts.map_or(0, |e| e.n_expert as u32),
        n_expert_used: info.experts.map_or(0, |e| e.n_used as u32),
        eot_token: token(tokenizer.and_then(|t| t.eot())),
        unk_token: token(tokenizer.and_then(|t| t.unk())),
        pad_token: token(tokenizer.and_then(|t| t.pad())),
        has_chat_template: u32::from(tokenizer.is_some_and(|t| t.chat_template().is_some())),
        n_embd_out: model.n_embd_out() as u32,
        n_prompts: model.gguf().further().prompts.len() as u32,
    }
}

/// Takes back bytes that were lent (ember_model_load_borrowed). It runs on the thread that gives the last of what
/// uses them back.
/// - @param user_data what was given with the callback
#[allow(non_camel_case_types, reason = "the C name")]
pub type ember_release_callback = Option<unsafe extern "C" fn(user_data: *mut c_void)>;

/// Bytes that were lent; dropped when nothing uses them any more.
struct Loan {
    release: ember_release_callback,
    user_data: UserData,
    /// A loan that came to nothing is not given back: the host has kept the bytes.
    taken: AtomicBool,
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(release) = self.release
            && self.taken.load(SeqCst)
        {
            // SAFETY: the host's function with the host's pointer, as its documentation says.
            host(|| unsafe { release(self.user_data.0) })
        }
    }
}

impl Loan {
    fn new(release: ember_release_callback, user_data: *mut c_void) -> Arc<Loan> {
        Arc::new(Loan { release, user_data: UserData(user_data), taken: AtomicBool::new(false) })
    }
}

/// Loads with bytes that are lent, and takes the loan if that succeeds. The loan is the caller's too: `data` must not be freed
/// before the function that has it for an argument has returned.
fn borrow_model(
    data: &'static [u8],
    loan: &Arc<Loan>,
    options: *const ember_model_options,
) -> Result<*mut ember_model> {
    let options = options_or_default(options)?;
    let owner: Arc<dyn Any + Send + Sync> = loan.clone();
    let model = new_model(LoadedModel::from_borrowed(data, owner, "<buffer>", &options)?)?;
    loan.taken.store(true, SeqCst);
    Ok(model)
}

/// A file of our own for the host's descriptor, which stays the host's.
#[cfg(unix)]
fn duplicate(fd: i32) -> Result<File> {
    if fd < 0 {
        return Err(Error::InvalidArgument(format!("fd is {fd}, expected an open file descriptor")));
    }
    // SAFETY: the descriptor is not -1, and only asked for a duplicate; one that is not open gives an error.
    let fd_of_host = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    let own = fd_of_host.try_clone_to_owned();
    own.map(File::from).map_err(|e| Error::Io(format!("<fd {fd}>: the descriptor cannot be duplicated: {e}")))
}

#[cfg(not(unix))]
fn duplicate(fd: i32) -> Result<File> {
    Err(Error::Unsupported(format!(
        "<fd {fd}>: file descriptors of this system belong to one C library each; load the file by its path, or map \
         it and lend it with ember_model_load_borrowed"
    )))
}

/// A model's path.
pub(super) fn to_path(path: &str) -> Result<&Path> {
    to_path_of("a GGUF file or of a folder", path)
}

/// Most bytes of a path: what no system goes beyond.
const MOST_PATH: usize = 1 << 17;

/// The path of something, which must not be empty: no file has no name, and the sentence would begin with nothing.
pub(super) fn to_path_of<'a>(what: &str, path: &'a str) -> Result<&'a Path> {
    match path {
        "" => Err(Error::InvalidArgument(format!("path is empty, expected the path of {what}"))),
        path if path.len() > MOST_PATH => Err(Error::InvalidArgument(format!(
            "path has {} bytes, expected the path of {what}, which has {MOST_PATH} at most",
            path.len()
        ))),
        path => Ok(Path::new(path)),
    }
}

/// The names of the levels, as C wants them. Made on first use and never changed.
static ISA_NAMES: LazyLock<Vec<(Isa, CString)>> =
    LazyLock::new(|| ISAS.iter().map(|row| (row.isa, CString::new(row.name).unwrap_or_default())).collect());

fn isa_name(isa: Isa) -> *const c_char {
    ISA_NAMES.iter().find(|row| row.0 == isa).map_or(c"".as_ptr(), |row| row.1.as_ptr())
}

fn new_model(model: LoadedModel) -> Result<*mut ember_model> {
    try_into_raw::<ember_model>(ModelObject { model: Arc::new(model), references: AtomicUsize::new(1) })
}

/// Loads a model from a GGUF file or a Hugging Face folder.
/// - @param path a GGUF file, UTF-8; one of several (`NAME-00001-of-00003.gguf`, any of them), whose others lie in
///   the same folder; or a folder with `config.json` and `model.safetensors`, or with several safetensors files and
///   their index; not NULL
/// - @param path_len length of `path` in bytes, or EMBER_NUL_TERMINATED
/// - @param options how to load; NULL: the defaults
/// - @param out receives the model with one reference; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller gives `*out` back with ember_model_release. `options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_IO (missing, unreadable); EMBER_E_FORMAT (malformed); EMBER_E_UNSUPPORTED (an architecture,
///   number format or tokenizer that this version does not know); EMBER_E_CANCELLED by the token of the options;
///   EMBER_E_INVALID_ARGUMENT, also for an environment variable EMBER_ISA that names no level; EMBER_E_UTF8,
///   EMBER_E_NOMEM, EMBER_E_BUSY. The error's sentence begins with the path and names the file, key or tensor that is
///   wrong.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_load(
    path: *const c_char,
    path_len: usize,
    options: *const ember_model_options,
    out: *mut *mut ember_model,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (path, out) = (text!(path, path_len), output!(out));
        let options = options_or_default(options)?;
        out.set(new_model(LoadedModel::open(to_path(path)?, &options)?)?)
    })
}

/// Loads a GGUF file that is part of an open file. This is for files without a path (Android assets, sandboxed
/// documents) and for files stored in an archive without compression.
///
/// Windows has no descriptors that libraries share, and there is no function for its handles. Load a file by its path
/// there, or map it (MapViewOfFile) and lend it with ember_model_load_borrowed.
/// - @param fd the descriptor of the open file; its position is neither used nor moved, so several threads may load
///   from one
/// - @param offset where the part begins, in bytes; where it is no multiple of 4 the part is read into memory, not
///   mapped
/// - @param len length of the part in bytes; 0: up to the end of the file
/// - @param options how to load; NULL: the defaults
/// - @param out receives the model with one reference; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller gives `*out` back with ember_model_release. `options` may be freed after the call. Ember
///   duplicates `fd`, which the caller may close after the call.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT for a part that is not inside the file; EMBER_E_UNSUPPORTED for one file of
///   several, and on Windows and WebAssembly; else as ember_model_load. The error's sentence begins with `<fd N>`.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_load_fd(
    fd: i32,
    offset: u64,
    len: u64,
    options: *const ember_model_options,
    out: *mut *mut ember_model,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (out, options) = (output!(out), options_or_default(options)?);
        let len = (len > 0).then_some(len);
        let name = format!("<fd {fd}>");
        out.set(new_model(LoadedModel::of_file(duplicate(fd)?, &name, (offset, len), &options)?)?)
    })
}

/// Loads a GGUF file that lies in memory, of which Ember keeps a copy.
/// - @param data the bytes of the file; not NULL
/// - @param len number of bytes
/// - @param options how to load; NULL: the defaults
/// - @param out receives the model with one reference; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller gives `*out` back with ember_model_release. `options` may be freed after the call. `data`
///   may be freed after the call.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: as ember_model_load. The error's sentence begins with `<buffer>`.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_load_buffer(
    data: *const u8,
    len: usize,
    options: *const ember_model_options,
    out: *mut *mut ember_model,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (data, out) = (array!(data, len), output!(out));
        let options = options_or_default(options)?;
        out.set(new_model(LoadedModel::from_bytes_with(data, "<buffer>", &options)?)?)
    })
}

/// Loads a GGUF file that lies in memory, without a copy of it. Ember copies an address that is no multiple of 4 all
/// the same, and releases it before the call returns.
/// - @param data the bytes of the file; not NULL
/// - @param len number of bytes
/// - @param release called once, when the model and all that uses it are gone; NULL: the bytes stay for ever, as a
///   constant of the program does
/// - @param user_data handed to `release` as it is; may be NULL
/// - @param options how to load; NULL: the defaults
/// - @param out receives the model with one reference; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: The caller gives `*out` back with ember_model_release. `options` may be freed after the call. On
///   EMBER_OK the bytes at `data` must stay where and as they are until `release` is called. On an error Ember calls
///   nothing, and the bytes are the caller's as before.
/// - Threads: Any thread; one call at a time for `options`, a second gives EMBER_E_BUSY.
/// - Errors: as ember_model_load. The error's sentence begins with `<buffer>`.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_load_borrowed(
    data: *const u8,
    len: usize,
    release: ember_release_callback,
    user_data: *mut c_void,
    options: *const ember_model_options,
    out: *mut *mut ember_model,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (data, out) = (lasting_array!(data, len), output!(out));
        let loan = Loan::new(release, user_data);
        out.set(borrow_model(data, &loan, options)?)
    })
}

/// Describes a model file as JSON, without reading its weights. The object has
/// - "path", "file_size", "n_tensors", "n_params", "architecture", "name", "tokenizer";
/// - "chat_template": whether there is one;
/// - "types": tensors and bytes of each number format;
/// - "metadata": all keys;
/// - "supported": whether this build would load the file. If so, "dimensions" has n_vocab to n_ff, n_expert,
///   n_expert_used and causal of ember_model_info. If not, "reason" is a sentence.
///
/// Of a Hugging Face folder of a kind that Ember does not know the object has "path", "architecture" (the model type), "tokenizer",
/// "chat_template", "supported" and "reason".
///
/// Of an array of more than 16 elements, and of a string of more than 65,536 bytes, "metadata" has "type" and
/// "length"; such an "architecture", "name" or "tokenizer" is null. "supported" does not look at the numbers in
/// tensors, the texts of the vocabulary's tokens and merges, and a folder's tokenizer.json.
/// - @param path as for ember_model_load, UTF-8; not NULL
/// - @param path_len length of `path` in bytes, or EMBER_NUL_TERMINATED
/// - @param buffer receives a JSON object, UTF-8 without NUL; may be NULL if `capacity` is 0
/// - @param capacity bytes that `buffer` can take; 0 to ask for the number
/// - @param n_needed receives how many bytes there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: as ember_model_load for a file that cannot be read as a model at all, and for EMBER_ISA; EMBER_E_UNSUPPORTED in a build
///   without the features "chat" and "hf"; EMBER_E_BUFFER_TOO_SMALL.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_inspect(
    path: *const c_char,
    path_len: usize,
    buffer: *mut u8,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let json = inspect(to_path(text!(path, path_len))?)?;
        fill!(json.as_bytes(), buffer, capacity, n_needed)
    })
}

/// Adds a reference to a model.
/// - @param model the model; may be NULL
/// - Ownership: The caller gives each reference back with ember_model_release.
/// - Threads: Any thread, also several at the same time.
/// - @return `model`, or NULL when it is not a model
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_retain(model: *mut ember_model) -> *mut ember_model {
    guard_value(std::ptr::null_mut(), || {
        handle!(model).references.fetch_add(1, SeqCst);
        Ok(model)
    })
}

/// Gives a reference to a model back. The last one frees the model as soon as no context uses it any more.
/// - @param model the model; may be NULL
/// - Threads: Any thread, also several at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_release(model: *mut ember_model) {
    guard_value((), || free_handle!(model, |m| m.references.fetch_sub(1, SeqCst) == 1))
}

/// Writes the dimensions of a model.
/// - @param model the model; not NULL
/// - @param out receives the dimensions; set its struct_size first; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_info_get(
    model: *const ember_model,
    out: *mut ember_model_info,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || fill_struct!(out, model_info(&handle!(model).model)))
}

/// Names the instruction-set level that the model's contexts compute with, for example "avx512". Contexts with
/// EMBER_BACKEND_SCALAR do not use it.
/// - @param model the model; may be NULL
/// - Ownership: The text is static and never freed.
/// - Threads: Any thread, also several at the same time.
/// - @return the name, NUL-terminated; NULL when `model` is not a model
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_isa(model: *const ember_model) -> *const c_char {
    guard_value(std::ptr::null(), || Ok(isa_name(handle!(model).model.isa())))
}
