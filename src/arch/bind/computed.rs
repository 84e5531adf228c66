//! Vectors that no file has, as weights.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::Binder;
use crate::backend::{Backend, WeightRole, WeightSource};
use crate::error::Result;
use crate::gguf::FileBytes;
use crate::memory::Memory;
use crate::nn::norm::{NormKind, NormLayer};
use crate::quant::Format;

impl<B: Backend> Binder<'_, B> {
    /// A gain of ones, which no file has, for a norm of `n` elements without one.
    pub fn ones(&mut self, n: usize, eps: f32) -> Result<NormLayer<B>> {
        let weight = self.computed("ones", 1, &vec![1.0; n])?;
        Ok(NormLayer { kind: NormKind::Rms, weight, bias: None, eps })
    }

    /// Vectors that no file has, `n_rows` of the same length.
    pub fn computed(&mut self, name: &str, n_rows: usize, elements: &[f32]) -> Result<B::Weight> {
        let bytes: Vec<u8> = elements.iter().flat_map(|x| x.to_le_bytes()).collect();
        let file = Arc::new(FileBytes::copy(&bytes, &Memory::default())?);
        let n_cols = elements.len() / n_rows;
        let (format, role) = (Format::F32, WeightRole::Vector);
        self.backend.upload(&WeightSource { name, file: &file, offset: 0, format, n_rows, n_cols, role })
    }
}
