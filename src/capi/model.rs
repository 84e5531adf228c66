//! Models: options, loading, information, reference counting.

use std::ffi::{CString, c_char};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, LazyLock};

use super::args::{array, fill_struct, free_handle, handle, output, text};
use super::cancel::{ember_cancel_token, token_or_none};
use super::embed::from_pooling;
use super::error::ember_error;
use super::guard::{guard, guard_value};
use super::handle::{CType, Exclusive, into_raw};
use crate::context::{LoadOptions, LoadedModel, Pack};
use crate::error::{Error, Result, ember_status};
use crate::kernels::{ISAS, Isa};

/// How to load a model. Made with ember_model_options_new, owned by the caller, used by one thread at a time.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_model_options {
    _private: (),
}

impl CType for ember_model_options {
    type Object = Exclusive<LoadOptions>;
    const TAG: u64 = u64::from_be_bytes(*b"emb:mopt");
    const NAME: &'static str = "ember_model_options";
}

/// Which matrices are packed when a model is loaded: copied, with their rows rearranged for the vector instructions of this
/// machine, which multiply them several times as fast as rows in the file's order. Packing reads the whole model, so
/// that loading takes about as long as copying it does. Packed matrices take as much memory as in the file and belong
/// to the process. Where the file is mapped its own pages are given back meanwhile; a model that was read into memory or
/// came from a buffer keeps both and takes twice its size.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ember_pack {
    /// Those of number formats that this machine's instruction set has products with packed rows for: the default.
    EMBER_PACK_AUTO = 0,
    /// None: loading reads next to nothing, and the matrices lie in the mapped file, where processes with the same model
    /// share them and the system may drop and fetch them again; multiplying them is slower.
    EMBER_PACK_NEVER = 1,
    /// Those of every number format that can be packed. Where the instruction set has no products with packed rows, plain
    /// code multiplies them, slower than it does rows in the file's order: for comparing machines.
    EMBER_PACK_ALWAYS = 2,
}

/// A loaded model: immutable, usable from any number of threads at once, reference-counted.
#[allow(non_camel_case_types, reason = "the C name")]
pub struct ember_model {
    _private: (),
}

/// What stands behind an `ember_model`.
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
    /// 1 for a model that gives logits, 0 for an encoder, which gives embeddings only.
    pub causal: u32,
    /// How embeddings are pooled, as the file says: an ember_pooling, EMBER_POOLING_AUTO when it says nothing.
    pub pooling: i32,
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
        causal: u32::from(info.causal),
        pooling: from_pooling(info.pooling),
    }
}

fn to_pack(pack: i32) -> Result<Pack> {
    match pack {
        0 => Ok(Pack::Auto),
        1 => Ok(Pack::Never),
        2 => Ok(Pack::Always),
        _ => Err(Error::InvalidArgument(format!("pack must be an ember_pack (0 to 2), got {pack}"))),
    }
}

fn options_or_default(options: *const ember_model_options) -> Result<LoadOptions> {
    match options.is_null() {
        true => Ok(LoadOptions::default()),
        false => Ok(handle!(options).lock("options")?.clone()),
    }
}

/// A path, which must not be empty: no file has no name, and the sentence would begin with nothing.
fn to_path(path: &str) -> Result<&Path> {
    match path {
        "" => Err(Error::InvalidArgument(
            "path is empty, expected the path of a GGUF file or of a folder".into(),
        )),
        path => Ok(Path::new(path)),
    }
}

fn to_isa(name: &str) -> Result<Option<Isa>> {
    match name {
        "" => Ok(None),
        name => Isa::parse("isa", name).map(Some),
    }
}

/// The names of the levels, as C wants them. Made on first use and never changed.
static ISA_NAMES: LazyLock<Vec<(Isa, CString)>> =
    LazyLock::new(|| ISAS.iter().map(|row| (row.isa, CString::new(row.name).unwrap_or_default())).collect());

fn isa_name(isa: Isa) -> *const c_char {
    ISA_NAMES.iter().find(|row| row.0 == isa).map_or(c"".as_ptr(), |row| row.1.as_ptr())
}

fn new_model(model: LoadedModel) -> *mut ember_model {
    into_raw::<ember_model>(ModelObject { model: Arc::new(model), references: AtomicUsize::new(1) })
}

/// Writes new options with their defaults to `out`; free them with ember_model_options_free.
/// Errors: EMBER_E_INVALID_ARGUMENT when `out` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_new(
    out: *mut *mut ember_model_options,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || output!(out).set(into_raw::<ember_model_options>(Exclusive::new(LoadOptions::default()))))
}

/// Frees options; models loaded with them are not affected. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_free(options: *mut ember_model_options) {
    guard_value((), || free_handle!(options))
}

/// Whether the files are mapped (the default) or read into memory. A mapped file must not be changed or shortened while
/// the model lives: the operating system would end the process with SIGBUS. Set it to false for files that others may
/// change.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_set_use_mmap(
    options: *mut ember_model_options,
    use_mmap: bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.use_mmap = use_mmap;
        Ok(())
    })
}

/// Lowers the instruction-set level of the model and its contexts: `isa` names the highest that may be used, for example
/// "scalar" or "avx2"; ember_build_info lists those that the machine can run. A level above them changes nothing, an
/// empty name takes the limit away. Whatever the options say, the environment variable EMBER_ISA, read when a model is
/// loaded, lowers the level of every model of the process in the same way.
/// Errors: EMBER_E_INVALID_ARGUMENT for a name that this build does not know, EMBER_E_UTF8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_set_isa(
    options: *mut ember_model_options,
    isa: *const c_char,
    isa_len: usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, isa) = (handle!(options), text!(isa, isa_len));
        options.lock("options")?.isa = to_isa(isa)?;
        Ok(())
    })
}

/// Which matrices are packed, an ember_pack. Results with packed matrices and without differ by roundings.
/// Errors: EMBER_E_INVALID_ARGUMENT for any other number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_set_pack(
    options: *mut ember_model_options,
    pack: i32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        handle!(options).lock("options")?.pack = to_pack(pack)?;
        Ok(())
    })
}

/// The token that may end the loading early, which then gives EMBER_E_CANCELLED. The options keep what they need of it, and
/// so does a load under way. NULL, the default: none. Errors: EMBER_E_INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_options_set_cancel_token(
    options: *mut ember_model_options,
    token: *const ember_cancel_token,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (options, token) = (handle!(options), token_or_none(token)?);
        options.lock("options")?.cancel = token;
        Ok(())
    })
}

/// Loads the model at `path` and writes it with one reference to `out`; give it back with ember_model_release. The path
/// is that of
/// - a GGUF file; one of several (`NAME-00001-of-00003.gguf`, any of them) brings the others from the same folder;
/// - a Hugging Face folder: `config.json` and `model.safetensors`, or several safetensors files and their index.
///
/// `options` may be NULL and may be freed afterwards. The sentence of an error begins with the path and names the file,
/// key or tensor that is wrong.
/// Errors: EMBER_E_IO (missing, unreadable), EMBER_E_FORMAT (malformed), EMBER_E_UNSUPPORTED (architecture, number
/// format or tokenizer this version does not know), EMBER_E_NOMEM, EMBER_E_UTF8, EMBER_E_INVALID_ARGUMENT
/// (also for an environment variable EMBER_ISA that names no level), EMBER_E_CANCELLED by the token of the options.
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
        out.set(new_model(LoadedModel::open(to_path(path)?, &options)?))
    })
}

/// Loads a GGUF file that lies in memory, `len` bytes at `data`, of which a copy is kept. Everything else is as with
/// ember_model_load; error sentences begin with `<buffer>`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_load_buffer(
    data: *const u8,
    len: usize,
    out: *mut *mut ember_model,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (data, out) = (array!(data, len), output!(out));
        out.set(new_model(LoadedModel::from_bytes(data, "<buffer>")?))
    })
}

/// Adds a reference and returns `model`; NULL when `model` is not a model. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_retain(model: *mut ember_model) -> *mut ember_model {
    guard_value(std::ptr::null_mut(), || {
        handle!(model).references.fetch_add(1, SeqCst);
        Ok(model)
    })
}

/// Gives a reference back; the last one frees the model as soon as no context uses it any more. NULL is fine. Any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_release(model: *mut ember_model) {
    guard_value((), || free_handle!(model, |m| m.references.fetch_sub(1, SeqCst) == 1))
}

/// Writes the model's dimensions to `out`, whose struct_size must be set. Any thread.
/// Errors: EMBER_E_INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_info_get(
    model: *const ember_model,
    out: *mut ember_model_info,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || fill_struct!(out, model_info(&handle!(model).model)))
}

/// The name of the instruction-set level that the model's contexts compute with (all but those of EMBER_BACKEND_SCALAR), for
/// example "avx512"; NULL when `model` is not a model. Static; never freed. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_isa(model: *const ember_model) -> *const c_char {
    guard_value(std::ptr::null(), || Ok(isa_name(handle!(model).model.isa())))
}
