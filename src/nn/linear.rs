//! A linear layer: one weight matrix and perhaps a bias.
#![forbid(unsafe_code)]

use crate::backend::{Backend, Product};

/// `out = x · weightᵀ + bias`.
pub struct Linear<B: Backend> {
    /// `[n_out, n_in]`.
    pub weight: B::Weight,
    /// `[n_out]`.
    pub bias: Option<B::Weight>,
}

impl<B: Backend> Linear<B> {
    /// Applies the layer to the first `n` rows of `x`.
    pub fn forward(&self, backend: &mut B, x: &B::Buffer, n: usize, out: &mut B::Buffer) {
        backend.matmul(x, n, Product { weight: &self.weight, out });
        self.add_bias(backend, n, out);
    }

    /// Applies several layers to the same `x`, whose preparation (quantization, say) they share.
    pub fn forward_many<const N: usize>(
        layers: [(&Linear<B>, &mut B::Buffer); N],
        backend: &mut B,
        x: &B::Buffer,
        n: usize,
    ) {
        let biases = layers.each_ref().map(|(layer, _)| layer.bias.as_ref());
        let mut products = layers.map(|(layer, out)| Product { weight: &layer.weight, out });
        backend.matmul_many(x, n, &mut products);
        for (product, bias) in products.iter_mut().zip(biases) {
            if let Some(bias) = bias {
                backend.add_bias(product.out, bias, n);
            }
        }
    }

    fn add_bias(&self, backend: &mut B, n: usize, out: &mut B::Buffer) {
        if let Some(bias) = &self.bias {
            backend.add_bias(out, bias, n);
        }
    }
}
