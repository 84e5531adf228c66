//! A linear layer: one weight matrix and perhaps a bias.
#![forbid(unsafe_code)]

use crate::backend::{Backend, Product};

/// `out = scale · x · weightᵀ + bias`.
pub struct Linear<B: Backend> {
    /// `[n_out, n_in]`.
    pub weight: B::Weight,
    /// Factor on the product and `n_out`, where the weight's number format has too little range (NVFP4).
    pub scale: Option<(f32, usize)>,
    /// `[n_out]`.
    pub bias: Option<B::Weight>,
}

impl<B: Backend> Linear<B> {
    /// Whether the layer is its product, with neither a factor nor a bias.
    pub fn is_plain(&self) -> bool {
        self.scale.is_none() && self.bias.is_none()
    }

    /// Applies the layer to the first `n` rows of `x`.
    pub fn forward(&self, backend: &mut B, x: &B::Buffer, n: usize, out: &mut B::Buffer) {
        backend.matmul(x, n, Product { weight: &self.weight, out });
        Self::finish(self.scale, self.bias.as_ref(), backend, n, out);
    }

    /// Applies several layers to the same `x`, which is prepared (quantized, say) one time.
    pub fn forward_many<const N: usize>(
        layers: [(&Linear<B>, &mut B::Buffer); N],
        backend: &mut B,
        x: &B::Buffer,
        n: usize,
    ) {
        let ends = layers.each_ref().map(|(layer, _)| (layer.scale, layer.bias.as_ref()));
        let mut products = layers.map(|(layer, out)| Product { weight: &layer.weight, out });
        backend.matmul_many(x, n, &mut products);
        for (product, (scale, bias)) in products.iter_mut().zip(ends) {
            Self::finish(scale, bias, backend, n, product.out);
        }
    }

    /// Applies what follows the product.
    fn finish(
        scale: Option<(f32, usize)>,
        bias: Option<&B::Weight>,
        backend: &mut B,
        n: usize,
        out: &mut B::Buffer,
    ) {
        if let Some((factor, n_out)) = scale {
            backend.scale(out, factor, n * n_out);
        }
        if let Some(bias) = bias {
            backend.add_bias(out, bias, n);
        }
    }
}
