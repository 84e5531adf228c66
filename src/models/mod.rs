//! Architectures: one file each, written purely against [`Backend`], and the registry that picks one.
//!
//! A model is built once from a file: hyper-parameters are validated, every weight is bound to a field with its
//! exact shape, and a missing, misshapen or left-over tensor is refused by name. Afterwards the model is immutable
//! and `forward` cannot fail on account of the file.
#![forbid(unsafe_code)]

use crate::backend::Backend;
use crate::backend::cpu::CpuBackend;
use crate::error::{Error, Result};
use crate::gguf::{Gguf, quoted};
use crate::nn::Batch;
use crate::nn::workspace::{Workspace, WorkspaceShape};

mod bind;
mod gpt2;
mod llama;

/// What the layers around a model need to know of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// `general.architecture`.
    pub architecture: String,
    /// Rows of the token embedding: the number of logits per position.
    pub n_vocab: usize,
    /// Positions the model was trained on.
    pub n_ctx_train: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Layers.
    pub n_layer: usize,
    /// Query heads.
    pub n_head: usize,
    /// Key/value heads.
    pub n_head_kv: usize,
    /// Length of a head's vector.
    pub head_dim: usize,
    /// Width of the feed-forward block.
    pub n_ff: usize,
    /// Longest context the weights allow at all, when they set a limit (learned positions do).
    pub n_ctx_max: Option<usize>,
    /// Number of weights in the file.
    pub n_params: u64,
}

/// A model bound to the weights of one backend. Immutable; shared by all contexts.
pub trait Model<B: Backend>: Send + Sync {
    /// Its dimensions.
    fn info(&self) -> &ModelInfo;
    /// Runs a batch: appends its keys and values to `kv` and writes the logits of the rows in `batch.outputs` to
    /// `logits`, `[outputs.len(), n_vocab]`.
    fn forward(
        &self,
        backend: &mut B,
        ws: &mut Workspace<B>,
        kv: &mut B::Kv,
        batch: &Batch<'_>,
        logits: &mut [f32],
    ) -> Result<()>;

    /// The workspace shape for batches of up to `n_tokens` rows.
    fn workspace_shape(&self, n_tokens: usize) -> WorkspaceShape {
        let info = self.info();
        WorkspaceShape {
            n_tokens,
            n_embd: info.n_embd,
            n_q: info.n_head * info.head_dim,
            n_kv: info.n_head_kv * info.head_dim,
            head_dim: info.head_dim,
            n_ff: info.n_ff,
            n_vocab: info.n_vocab,
        }
    }
}

/// Binds one architecture's weights.
type Bind<B> = fn(&mut bind::Binder<'_, B>) -> Result<Box<dyn Model<B>>>;

/// The architectures, by their names in files.
fn registry<B: Backend>() -> [(&'static str, Bind<B>); 2] {
    [
        ("gpt2", |file| Ok(Box::new(gpt2::Gpt2::bind(file)?))),
        ("llama", |file| Ok(Box::new(llama::Llama::bind(file)?))),
    ]
}

/// Names of the architectures [`build`] knows.
pub fn known() -> impl Iterator<Item = &'static str> {
    registry::<CpuBackend>().into_iter().map(|(name, _)| name)
}

/// Builds the model that `gguf` describes on `backend`.
///
/// Errors: `Unsupported` for an unknown architecture or number format, `Format` for missing, misshapen or
/// contradicting keys and tensors; each sentence names the culprit.
pub fn build<B: Backend>(gguf: &Gguf, backend: &B) -> Result<Box<dyn Model<B>>> {
    let name = gguf.metadata().require_str("general.architecture")?;
    let Some((_, bind)) = registry::<B>().into_iter().find(|(known, _)| *known == name) else {
        return Err(Error::Unsupported(format!(
            "the architecture {} is not supported; known are: {}",
            quoted(name.as_bytes()),
            known().collect::<Vec<_>>().join(", ")
        )));
    };
    let mut binder = bind::Binder::new(gguf, backend, name);
    let model = bind(&mut binder)?;
    binder.finish()?;
    Ok(model)
}
