//! What distinguishes a family of models: one row of data.
#![forbid(unsafe_code)]

use super::config::Config;
use super::layout::Change;
use crate::error::Result;
use crate::gguf::Value;

/// A tensor's name without `.weight` or `.bias` in the folder and in GGUF, where `{}` stands for the layer's number
/// (a second `{}` for an expert's or a head's), and what becomes of its elements.
pub type Name = (&'static str, &'static str, Change);

/// A family: a value of `model_type`, and how its folders are read.
#[derive(Debug)]
pub struct Family {
    /// `model_type` in `config.json`.
    pub model_type: &'static str,
    /// `general.architecture`.
    pub architecture: &'static str,
    /// What tensor names may begin with, before what `names` lists; the first that fits is taken off.
    pub prefixes: &'static [&'static str],
    /// The tensors.
    pub names: &'static [&'static [Name]],
    /// Names (after the prefix) of tensors that the computation does not need: whole, or with a `*` at one end.
    pub ignored: &'static [&'static str],
    /// The output projection.
    pub head: Head,
    /// Writes the hyper-parameters.
    pub keys: fn(&Config<'_>, &mut Keys) -> Result<()>,
}

/// A family's output projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// It has none: an encoder.
    None,
    /// The token embedding serves where `tie_word_embeddings` is true, and that is what an absent key means.
    TiedByDefault,
    /// It has one of its own unless `tie_word_embeddings` is true.
    UntiedByDefault,
    /// The token embedding serves always.
    Tied,
}

/// The keys, and the tensors that no file holds, of the GGUF file in the making.
pub struct Keys {
    architecture: &'static str,
    /// Keys under their full names.
    pub entries: Vec<(Box<str>, Value)>,
    /// Name and elements of F32 vectors that are computed.
    pub vectors: Vec<(&'static str, Vec<f32>)>,
}

impl Keys {
    /// Nothing but the architecture.
    pub fn new(architecture: &'static str) -> Keys {
        let entries = vec![("general.architecture".into(), architecture.into())];
        Keys { architecture, entries, vectors: Vec::new() }
    }

    /// Sets the key `ARCH.name`.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.entries.push((format!("{}.{name}", self.architecture).into(), value.into()));
    }

    /// The count that `ARCH.name` was set to.
    pub fn count(&self, name: &str) -> Option<usize> {
        let key = format!("{}.{name}", self.architecture);
        match self.entries.iter().find(|(k, _)| **k == *key) {
            Some((_, Value::U32(n))) => Some(*n as usize),
            _ => None,
        }
    }

    /// Lowers the count that `ARCH.name` was set to, if it is above `most`.
    pub fn at_most(&mut self, name: &str, most: u32) {
        let key = format!("{}.{name}", self.architecture);
        if let Some((_, Value::U32(n))) = self.entries.iter_mut().find(|(k, _)| **k == *key) {
            *n = most.min(*n);
        }
    }

    /// Sets the key `ARCH.name` if there is a value.
    pub fn set_some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Sets the key `ARCH.name` to a number rounded to f32, if there is one.
    pub fn set_f32(&mut self, name: &str, value: Option<f64>) {
        self.set_some(name, value.map(|x| x as f32));
    }
}

/// The keys of the sizes that every family has, under the names that `transformers` and older configurations use.
pub fn sizes(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    keys.set("block_count", config.count(N_LAYER)?);
    keys.set("context_length", config.count(N_CTX)?);
    keys.set("embedding_length", config.count(HIDDEN_SIZE)?);
    keys.set("attention.head_count", config.count(N_HEAD)?);
    keys.set_some("attention.head_count_kv", config.optional_count(&["num_key_value_heads"])?);
    keys.set_some("vocab_size", config.u32(&["vocab_size"])?);
    let head_dim = config.optional_count(&["head_dim"])?;
    keys.set_some("attention.key_length", head_dim);
    keys.set_some("attention.value_length", head_dim);
    Ok(())
}

/// The names of the number of layers.
pub const N_LAYER: &[&str] = &["num_hidden_layers", "n_layer"];
/// The names of the number of positions.
pub const N_CTX: &[&str] = &["max_position_embeddings", "n_positions", "n_ctx"];
/// The names of the width of the residual stream.
pub const HIDDEN_SIZE: &[&str] = &["hidden_size", "n_embd"];
/// The names of the number of heads.
pub const N_HEAD: &[&str] = &["num_attention_heads", "n_head"];

/// The size of a head, from `head_dim` or by division.
pub fn head_dim(config: &Config<'_>) -> Result<u32> {
    match config.optional_count(&["head_dim"])? {
        Some(n) => Ok(n),
        None => Ok(config.count(HIDDEN_SIZE)? / config.count(N_HEAD)?),
    }
}

/// The keys of models whose feed-forward width and RMS norms are under llama's names.
pub fn rms_norm_sizes(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    sizes(config, keys)?;
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    keys.set_f32("attention.layer_norm_rms_epsilon", Some(config.require_f64(&["rms_norm_eps"])?));
    Ok(())
}
