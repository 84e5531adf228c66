//! A model that is no GGUF file but has the same form: keys and tensors gathered from elsewhere.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::bytes::FileBytes;
use super::decode::{self, MAX_NAME_BYTES, MAX_TENSORS};
use super::metadata::Metadata;
use super::tensor::TensorInfo;
use super::value::Value;
use super::{Gguf, split};
use crate::error::{Error, Result};

/// The parts for [`Gguf::from_parts`].
#[derive(Debug)]
pub struct Parts {
    /// The beginning of error sentences.
    pub name: String,
    /// Keys and values under GGUF's names.
    pub metadata: Vec<(Box<str>, Value)>,
    /// The directory; each entry's `file` is an index into `files`.
    pub tensors: Vec<TensorInfo>,
    /// The bytes of the tensors: mapped files, or owned memory.
    pub files: Vec<Arc<FileBytes>>,
    /// Size in bytes of the files that the model was read from.
    pub file_size: u64,
    /// The properties without a key.
    pub further: Further,
}

/// Properties of a model that GGUF has no keys for. The default holds for every GGUF file.
#[derive(Debug, Clone, PartialEq)]
pub struct Further {
    /// Whether a decoder has an output projection: its own, or else the token embedding.
    pub has_head: bool,
    /// Whether the value heads of a gated delta net that share a key head are neighbours.
    pub values_are_grouped: bool,
    /// The shortest time step of mixers of Mamba-2.
    pub least_time_step: f32,
    /// The epsilon of norms within Mamba mixers, if the source gives it.
    pub mixer_epsilon: Option<f32>,
    /// Whether embeddings are scaled to length 1, if the source says so.
    pub normalizes: Option<bool>,
    /// The most tokens of a text to embed and the field that says so, if the source has it.
    pub most_tokens: Option<(u32, &'static str)>,
    /// The text before each text to embed.
    pub prompt: Box<str>,
    /// Other such texts that the caller may choose, with their names.
    pub prompts: Vec<(Box<str>, Box<str>)>,
    /// Whether the tokens of such a prompt are pooled with the text's.
    pub pools_prompt: bool,
    /// After which dense modules the hyperbolic tangent comes; after none where the list ends.
    pub dense_tanh: Vec<bool>,
    /// The activation of a head that scores texts, if the source gives it.
    pub score_activation: Option<ScoreActivation>,
    /// The sampling that a `generation_config.json` proposes, or its error.
    pub sampling: Option<Result<Sampling>>,
}

/// The activation of a head that scores texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreActivation {
    /// Nothing.
    None,
    /// A probability for each output alone.
    Sigmoid,
    /// Probabilities that add up to 1.
    Softmax,
}

/// A proposal for sampling, in the words of `transformers`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sampling {
    /// The changes to the logits, in order: the field and its number.
    pub stages: Vec<(&'static str, f64)>,
    /// Tokens that are never chosen.
    pub suppressed: Vec<u32>,
    /// Fields that would change the sampling and are not supported.
    pub ignored: Vec<Box<str>>,
}

impl Default for Further {
    fn default() -> Self {
        Further {
            has_head: true,
            values_are_grouped: false,
            least_time_step: 0.0,
            mixer_epsilon: None,
            normalizes: None,
            most_tokens: None,
            prompt: Box::default(),
            prompts: Vec::new(),
            pools_prompt: true,
            dense_tanh: Vec::new(),
            sampling: None,
            score_activation: None,
        }
    }
}

impl Gguf {
    /// A model of parts. Tensors may share their data.
    ///
    /// # Errors
    /// `Format` for a key or tensor that appears twice, a name that is empty or too long, an entry whose type, shape
    /// and size contradict each other or whose data does not lie inside its file; `Unsupported` for more tensors than
    /// Ember reads. Every sentence begins with the model's name.
    pub fn from_parts(parts: Parts) -> Result<Gguf> {
        let Parts { name, metadata, tensors, files, file_size, further } = parts;
        let checked = || -> Result<_> {
            decode::at_most(MAX_TENSORS, tensors.len(), "tensors")?;
            tensors.iter().try_for_each(|t| check(t, &files))?;
            Ok((Metadata::new(metadata)?, decode::index(&tensors)?))
        };
        let (metadata, tensor_index) = checked().map_err(|e| e.within(&name))?;
        let (origin, set_keys) = (None, Vec::new());
        let gguf = Gguf {
            name,
            version: 3,
            files,
            file_size,
            metadata,
            tensors,
            tensor_index,
            origin,
            set_keys,
            further,
            _charges: Vec::new(),
        };
        split::refuse(&gguf).map_err(|e| e.within(&gguf.name))?;
        Ok(gguf)
    }
}

/// Refuses an entry that contradicts itself or reaches beyond its file.
fn check(t: &TensorInfo, files: &[Arc<FileBytes>]) -> Result<()> {
    let wrong = |why: String| Error::Format(format!("the tensor {:?} {why}", t.name));
    decode::check_len(t.name.len(), MAX_NAME_BYTES).map_err(wrong)?;
    let expected = TensorInfo::new(&t.name, t.ty, &t.dims, t.file, t.offset)?.n_bytes;
    if t.n_bytes != expected {
        return Err(wrong(format!("has {} bytes of data, expected {expected}", t.n_bytes)));
    }
    let file = files.get(t.file).ok_or_else(|| {
        wrong(format!("lies in file number {}, but there are {} files", t.file, files.len()))
    })?;
    match t.offset.checked_add(t.n_bytes) {
        Some(end) if end <= file.n_bytes() => Ok(()),
        _ => Err(wrong(format!(
            "has {} bytes of data at offset {}, but its file has {} bytes",
            t.n_bytes,
            t.offset,
            file.n_bytes()
        ))),
    }
}
