//! How much memory models and contexts take.

use std::ffi::c_char;

use super::args::{fill_struct, handle, output_struct, text};
use super::context::ember_context;
use super::context_options::{context_options_or_default, ember_context_options};
use super::error::ember_error;
use super::guard::guard;
use super::model::{ember_model, to_path};
use super::model_options::{ember_model_options, options_or_default};
use crate::context::{Context, Estimate, estimate};
use crate::error::{Result, ember_status};
use crate::model::LoadedModel;

/// Bytes of the large buffers of a model and of a context. Tokenizer, metadata and the library, a few megabytes, are not
/// counted. Set struct_size to sizeof(ember_memory) before the call.
#[allow(non_camel_case_types, reason = "the C name")]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(target_pointer_width = "64", derive(bytemuck::NoUninit))]
pub struct ember_memory {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// The model's files. Where they are mapped the system reads, shares and drops their pages as it sees fit, and needs
    /// none for the weights that are packed.
    pub file: u64,
    /// The model's own memory: packed weights, the files where they are read and not mapped, and the tensors of a Hugging Face
    /// folder that are copied because they are laid out otherwise than in GGUF.
    pub weights: u64,
    /// The KV cache of the context when it is full; what is not filled yet takes addresses and no memory.
    pub kv: u64,
    /// What the context computes with, and logits for one token of each of its sequences; a call that wants more takes more.
    pub workspace: u64,
}

fn to_memory(estimate: &Estimate) -> ember_memory {
    let Estimate { file, weights, kv, workspace } = *estimate;
    ember_memory { struct_size: std::mem::size_of::<ember_memory>(), file, weights, kv, workspace }
}

/// What `model` has, and `context` if there is one. Contexts count against the model's memory limit, too.
fn of_model(model: &LoadedModel) -> Estimate {
    Estimate { file: model.gguf().file_size(), weights: model.weights_memory(), kv: 0, workspace: 0 }
}

fn of_context(context: &Context) -> Estimate {
    let (kv, workspace) = context.memory();
    Estimate { kv, workspace, ..of_model(context.model()) }
}

fn estimated(
    path: &str,
    model_options: *const ember_model_options,
    context_options: *const ember_context_options,
) -> Result<Estimate> {
    let options = context_options_or_default(context_options)?;
    estimate(to_path(path)?, &options_or_default(model_options)?, &options)
}

/// Computes what a model and one context over it would take, without loading the model. Ember reads little more than
/// the header. A memory limit of the bytes in `out` is enough for both.
/// - @param path as for ember_model_load, UTF-8; not NULL
/// - @param path_len length of `path` in bytes, or EMBER_NUL_TERMINATED
/// - @param model_options how the model would be loaded; NULL: the defaults; a limit in them does not count
/// - @param context_options how the context would be made; NULL: the defaults; a limit in them does not count
/// - @param out receives the bytes; set its struct_size first; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Ownership: `model_options` and `context_options` may be freed after the call.
/// - Threads: Any thread; one call at a time for `model_options` and `context_options`, a second gives EMBER_E_BUSY.
/// - Errors: as ember_model_load and ember_context_new, but for a lack of memory and for what "supported" of
///   ember_model_inspect does not look at.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_memory_estimate(
    path: *const c_char,
    path_len: usize,
    model_options: *const ember_model_options,
    context_options: *const ember_context_options,
    out: *mut ember_memory,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (path, out) = (text!(path, path_len), output_struct!(out));
        out.set(&to_memory(&estimated(path, model_options, context_options)?))
    })
}

/// Writes what a model takes, without its contexts.
/// - @param model the model; not NULL
/// - @param out receives the bytes; set its struct_size first; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_memory(
    model: *const ember_model,
    out: *mut ember_memory,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || fill_struct!(out, to_memory(&of_model(&handle!(model).model))))
}

/// Writes what a context takes, and its model.
/// - @param context the context; not NULL
/// - @param out receives the bytes; set its struct_size first; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread; one call at a time for `context`, a second gives EMBER_E_BUSY.
/// - Errors: EMBER_E_INVALID_ARGUMENT, EMBER_E_BUSY.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_context_memory(
    context: *const ember_context,
    out: *mut ember_memory,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || fill_struct!(out, to_memory(&of_context(&handle!(context).lock("context")?.context))))
}
