//! The names of keys and tensors in a model's source, if that is no GGUF file: for error sentences.
#![forbid(unsafe_code)]

use std::fmt::Debug;

use super::Gguf;

/// The names in a model's source.
pub trait Origin: Debug + Send + Sync {
    /// The source's field for the key `key`, in words: `"a" of b.json`. `None` for a key without one.
    fn key(&self, key: &str) -> Option<String>;

    /// The source's name of the tensor `name`, which need not exist.
    fn tensor(&self, name: &str) -> Option<String>;

    /// The source's shape of the tensor `name`, for the shape `dims` here.
    fn shape(&self, name: &str, dims: &[usize]) -> Vec<usize>;
}

impl Gguf {
    /// This model, with the names of `origin`.
    pub fn made_from(self, origin: Box<dyn Origin>) -> Gguf {
        Gguf { origin: Some(origin), ..self }
    }

    /// The key `key` in quotes, by its name in the source. A key that [`Gguf::set_metadata`] has set keeps its own.
    pub fn call_key(&self, key: &str) -> String {
        let origin = self.origin.as_ref().filter(|_| !self.set_keys.iter().any(|set| **set == *key));
        origin.and_then(|origin| origin.key(key)).unwrap_or_else(|| format!("\"{key}\""))
    }

    /// The tensor's name in quotes, by its name in the source.
    pub fn call_tensor(&self, name: &str) -> String {
        let own = self.origin.as_ref().and_then(|origin| origin.tensor(name));
        format!("\"{}\"", own.as_deref().unwrap_or(name))
    }

    /// A shape of the tensor `name` in the source's order: the row's length first in GGUF files.
    pub fn call_shape(&self, name: &str, dims: &[usize]) -> Vec<usize> {
        match &self.origin {
            Some(origin) => origin.shape(name, dims),
            None => dims.to_vec(),
        }
    }
}
