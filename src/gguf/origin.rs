//! What keys and tensors are called where a model came from, if that was no GGUF file: for sentences that name them.
#![forbid(unsafe_code)]

use std::fmt::Debug;

use super::Gguf;

/// Knows the names of what a model was made from.
pub trait Origin: Debug + Send + Sync {
    /// What stands in the place of the key `key`, in words: `"a" of b.json`. `None` for a key that stands for nothing there.
    fn key(&self, key: &str) -> Option<String>;

    /// The name of the tensor that `name` is, or would be if it were there.
    fn tensor(&self, name: &str) -> Option<String>;

    /// The shape there of the tensor that `name` is, for the shape `dims` here.
    fn shape(&self, name: &str, dims: &[usize]) -> Vec<usize>;
}

impl Gguf {
    /// This model, made from what `origin` knows the names of.
    pub fn made_from(self, origin: Box<dyn Origin>) -> Gguf {
        Gguf { origin: Some(origin), ..self }
    }

    /// The key `key` in quotes, by the name that the model's author knows. A key that [`Gguf::set_metadata`] has set goes by
    /// its own.
    pub fn call_key(&self, key: &str) -> String {
        let origin = self.origin.as_ref().filter(|_| !self.set_keys.iter().any(|set| **set == *key));
        origin.and_then(|origin| origin.key(key)).unwrap_or_else(|| format!("\"{key}\""))
    }

    /// The tensor's name in quotes, as the model's author knows it.
    pub fn call_tensor(&self, name: &str) -> String {
        let own = self.origin.as_ref().and_then(|origin| origin.tensor(name));
        format!("\"{}\"", own.as_deref().unwrap_or(name))
    }

    /// A shape of the tensor `name` as the model's author writes it: the row's length first in GGUF files.
    pub fn call_shape(&self, name: &str, dims: &[usize]) -> Vec<usize> {
        match &self.origin {
            Some(origin) => origin.shape(name, dims),
            None => dims.to_vec(),
        }
    }
}
