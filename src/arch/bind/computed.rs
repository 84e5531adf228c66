//! Weights that no file has.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::Binder;
use crate::backend::{Backend, WeightRole, WeightSource};
use crate::error::{Error, Result};
use crate::gguf::FileBytes;
use crate::memory::{Memory, with_capacity};
use crate::nn::norm::{NormKind, NormLayer};
use crate::quant::Format;

impl<B: Backend> Binder<'_, B> {
    /// A gain of ones, which no file has, for a norm of `n` elements without one.
    pub fn ones(&mut self, n: usize, eps: f32) -> Result<NormLayer<B>> {
        let weight = self.computed("ones", 1, &vec![1.0; n])?;
        Ok(NormLayer { kind: NormKind::Rms, weight, bias: None, eps })
    }

    /// The `n` numbers of the tensor `name`, whatever its dimensions.
    pub fn flat(&mut self, name: &str, n: usize) -> Result<Vec<f32>> {
        let t = self.find(name)?;
        let found = t.dims.iter().try_fold(1usize, |all, &dim| all.checked_mul(dim));
        let format = Format::from_tensor_type(t.ty).map(Format::info);
        let format = format.filter(|format| t.dims[0].is_multiple_of(format.block_len));
        let (true, Some(format)) = (found == Some(n), format) else {
            let found = self.gguf.call_shape(name, &t.dims);
            return Err(Error::Format(format!(
                "the tensor {} is {} of shape {found:?}, expected {n} numbers",
                self.gguf.call_tensor(name),
                t.ty.name()
            )));
        };
        self.used.insert(&t.name);
        let mut out: Vec<f32> = with_capacity(n, "a table of numbers")?;
        out.resize(n, 0.0);
        (format.dequantize)(self.gguf.tensor_bytes(t), &mut out);
        Ok(out)
    }

    /// Whether two tensors exist and are the same, bit by bit.
    pub fn are_equal(&self, a: &str, b: &str) -> bool {
        match (self.gguf.tensor(a), self.gguf.tensor(b)) {
            (Some(a), Some(b)) => {
                (a.ty, &a.dims) == (b.ty, &b.dims) && self.gguf.tensor_bytes(a) == self.gguf.tensor_bytes(b)
            }
            _ => false,
        }
    }

    /// Skips the tensor `name`, which has no effect.
    pub fn leave(&mut self, name: &str) {
        if let Some(t) = self.gguf.tensor(name) {
            self.used.insert(&t.name);
        }
    }

    /// `n_rows` computed vectors of the same length as a weight.
    pub fn computed(&mut self, name: &str, n_rows: usize, elements: &[f32]) -> Result<B::Weight> {
        let bytes: Vec<u8> = elements.iter().flat_map(|x| x.to_le_bytes()).collect();
        let file = Arc::new(FileBytes::copy(&bytes, &Memory::default())?);
        let n_cols = elements.len() / n_rows;
        let (format, role) = (Format::F32, WeightRole::Vector);
        self.backend.upload(&WeightSource { name, file: &file, offset: 0, format, n_rows, n_cols, role })
    }
}
