//! Dense modules: layers after the pooling, from the hidden state of a text to its vector (EmbeddingGemma has two).
#![forbid(unsafe_code)]

use super::ModelInfo;
use super::head::{Layer, numbers, optional};
use crate::error::{Error, Result};
use crate::gguf::Gguf;
use crate::memory::filled;
use crate::nn::pooling::Pooling;

/// Weights and biases, in order; their names have the place of their modules in a list that begins with the encoder and the
/// pooling.
pub(super) const TENSORS: [[&str; 2]; 2] =
    [["dense_2.weight", "dense_2.bias"], ["dense_3.weight", "dense_3.bias"]];
/// The longest vector of a text: far beyond real ones.
const MOST_OUTPUTS: usize = 1 << 20;

/// The layers bound to their weights, which are few and stay in f32.
pub struct Dense {
    /// Each layer, and whether a hyperbolic tangent follows it.
    layers: Vec<(Layer, bool)>,
    n_out: usize,
}

impl Dense {
    /// The dense modules of the model in `gguf`, if it has any.
    ///
    /// # Errors
    /// `Format` for tensors of other shapes; `Unsupported` in a model whose texts have no single vector; `NoMemory`.
    pub fn bind(gguf: &Gguf, info: &ModelInfo) -> Result<Option<Dense>> {
        let (mut layers, mut width) = (Vec::new(), info.n_embd);
        for (i, [weight, bias]) in TENSORS.into_iter().enumerate() {
            let Some(tensor) = gguf.tensor(weight) else {
                match gguf.tensor(bias) {
                    None => continue,
                    Some(_) => {
                        let (weight, bias) = (gguf.call_tensor(weight), gguf.call_tensor(bias));
                        return Err(Error::Format(format!(
                            "the tensor {weight} is missing, but {bias} is there"
                        )));
                    }
                }
            };
            if matches!(info.pooling, None | Some(Pooling::None)) {
                return Err(Error::Unsupported(format!(
                    "the tensor {} makes vectors of texts, but the key {} names no pooling",
                    gguf.call_tensor(weight),
                    gguf.call_key(&format!("{}.pooling_type", info.architecture))
                )));
            }
            let n_out = tensor.dims.get(1).copied().unwrap_or(1);
            if n_out > MOST_OUTPUTS {
                return Err(Error::Unsupported(format!(
                    "vectors of {n_out} numbers are longer than {MOST_OUTPUTS}"
                )));
            }
            let (weight, bias) = (numbers(gguf, tensor, &[width, n_out])?, optional(gguf, bias, &[n_out])?);
            let tanh = gguf.further().dense_tanh.get(i).copied().unwrap_or(false);
            layers.push((Layer { weight, bias }, tanh));
            width = n_out;
        }
        Ok((!layers.is_empty()).then_some(Dense { layers, n_out: width }))
    }

    /// Numbers of the resulting vectors.
    pub fn n_out(&self) -> usize {
        self.n_out
    }

    /// The vectors of texts whose pooled hidden states are `rows`, `[n, n_embd]`: `[n, n_out]`.
    pub fn forward(&self, rows: &[f32], n_embd: usize) -> Result<Vec<f32>> {
        let n = rows.len() / n_embd;
        let mut x = Vec::new();
        for (i, (layer, tanh)) in self.layers.iter().enumerate() {
            let (input, width) = if i == 0 { (rows, n_embd) } else { (&x[..], x.len() / n.max(1)) };
            let n_out = layer.weight.len() / width.max(1);
            let mut out = filled(0.0f32, n * n_out, "the vectors of texts")?;
            for (x, out) in input.chunks_exact(width.max(1)).zip(out.chunks_exact_mut(n_out.max(1))) {
                layer.forward(x, out);
                if *tanh {
                    out.iter_mut().for_each(|x| *x = libm::tanh(f64::from(*x)) as f32);
                }
            }
            x = out;
        }
        Ok(x)
    }
}
