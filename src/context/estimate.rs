//! How much memory a model and a context take, without taking it.
#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::Arc;

use super::{Context, ContextOptions};
use crate::error::Result;
use crate::model::{LoadOptions, LoadedModel};

/// Bytes of large buffers. Tokenizer, metadata and the library itself, a few megabytes, are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// The model's files. Where they are mapped the system reads, shares and drops their pages as it sees fit. The pages of
    /// packed weights are not needed there any more.
    pub file: u64,
    /// The model's own memory: packed weights, the files where they are read instead of mapped, and the tensors of a folder
    /// that are copied.
    pub weights: u64,
    /// The KV cache of a full context; pages that are not used yet take address space only.
    pub kv: u64,
    /// Activations, scratch and the logits of one token of each sequence.
    pub workspace: u64,
}

/// What the model at `path` would take, and one context over it. Reads little more than the header of the file.
///
/// Errors: those of loading the model and of making the context, except for lack of memory, and except for errors in the texts of
/// the vocabulary or in a folder's `tokenizer.json`, which it does not read.
pub fn estimate(path: &Path, load: &LoadOptions, options: &ContextOptions) -> Result<Estimate> {
    let model = Arc::new(LoadedModel::measured(path, load)?);
    let context = Context::new(&model, &ContextOptions { memory_limit: None, ..options.clone() })?;
    let (kv, workspace) = context.memory();
    // Read now, since a backend binds weights when its first context is made.
    let weights = model.weights_memory();
    Ok(Estimate { file: model.gguf().file_size(), weights, kv, workspace })
}
