//! The encoder of BERT (Devlin et al. 2019) and its successors: every token of a text sees the whole text, and norms come after
//! the residual sums. Variations are fields, as in the [`decoder`](super::decoder).
#![forbid(unsafe_code)]

use super::attention::{AttentionParams, SelfAttention};
use super::mlp::Mlp;
use super::norm::NormLayer;
use super::workspace::Workspace;
use super::{Batch, Cache, KvPlace, Source};
use crate::backend::{Backend, Embed};
use crate::error::Result;

/// The place of the keys and values of all layers: a layer's are not needed after it.
pub const ENCODER_KV: KvPlace = KvPlace { group: 0, layer: 0 };

/// An encoder bound to its weights.
pub struct Encoder<B: Backend> {
    /// `[n_vocab, n_embd]`.
    pub token_embd: B::Weight,
    /// Learned positions, `[n_ctx_train, n_embd]`.
    pub position_embd: Option<B::Weight>,
    /// Added to each token of a single text, or of the first of a pair, `[n_embd]`.
    pub token_type: Option<B::Weight>,
    /// The same for the first and the second of a pair, `[types, n_embd]`, where there are at least two.
    pub token_types: Option<B::Weight>,
    /// Norm of the sum of the embeddings.
    pub embd_norm: NormLayer<B>,
    /// The attention of all layers; not causal.
    pub attention: AttentionParams,
    /// The layers, first to last.
    pub layers: Vec<EncoderLayer<B>>,
}

/// One layer.
pub struct EncoderLayer<B: Backend> {
    /// Attention.
    pub attn: SelfAttention<B>,
    /// Norm of the sum of attention and its input.
    pub attn_norm: NormLayer<B>,
    /// Norm of the sum of that and the layer's input.
    pub second_norm: Option<NormLayer<B>>,
    /// Feed-forward.
    pub ffn: Mlp<B>,
    /// Added to the output of feed-forward.
    pub ffn_bias: Option<B::Weight>,
    /// Norm of the sum of feed-forward and its input.
    pub ffn_norm: NormLayer<B>,
}

impl<B: Backend> Encoder<B> {
    /// Runs a batch of whole texts, each one run of it, and writes the hidden states of its outputs, `[outputs, n_embd]`. A
    /// layer's keys and values are used within the layer only, so all layers share the first store. Errors: `Cancelled` by the
    /// batch's `watch`; `Io` as [`Backend::embed`].
    pub fn forward(
        &self,
        backend: &mut B,
        ws: &mut Workspace<B>,
        cache: &mut Cache<B>,
        batch: &Batch<'_>,
        out: &mut [f32],
    ) -> Result<()> {
        let (n, n_embd) = (batch.tokens.len(), ws.shape.n_embd);
        backend.embed(Embed { table: &self.token_embd, rows: batch.tokens, out: &mut ws.proj })?;
        match (&self.token_types, &self.token_type) {
            (Some(table), _) if !batch.types.is_empty() => {
                backend.embed(Embed { table, rows: batch.types, out: &mut ws.norm })?;
                backend.add(&mut ws.proj, &ws.norm, n * n_embd);
            }
            (_, Some(token_type)) => backend.add_bias(&mut ws.proj, token_type, n),
            (_, None) => {}
        }
        if let Some(table) = &self.position_embd {
            backend.embed(Embed { table, rows: batch.positions, out: &mut ws.norm })?;
            backend.add(&mut ws.proj, &ws.norm, n * n_embd);
        }
        self.embd_norm.forward(backend, &ws.proj, None, n, &mut ws.x);
        for layer in &self.layers {
            batch.watch.check()?;
            layer.attn.forward(&self.attention, ENCODER_KV, Source::Residual, backend, ws, cache, batch);
            backend.add(&mut ws.proj, &ws.x, n * n_embd);
            match &layer.second_norm {
                None => layer.attn_norm.forward(backend, &ws.proj, None, n, &mut ws.x),
                Some(second) => {
                    layer.attn_norm.forward(backend, &ws.proj, None, n, &mut ws.norm);
                    backend.add(&mut ws.norm, &ws.x, n * n_embd);
                    second.forward(backend, &ws.norm, None, n, &mut ws.x);
                }
            }
            layer.ffn.forward(Source::Residual, backend, ws, n);
            if let Some(bias) = &layer.ffn_bias {
                backend.add_bias(&mut ws.proj, bias, n);
            }
            backend.add(&mut ws.proj, &ws.x, n * n_embd);
            layer.ffn_norm.forward(backend, &ws.proj, None, n, &mut ws.x);
        }
        for (&row, out) in batch.outputs.iter().zip(out.chunks_exact_mut(n_embd)) {
            backend.read(&ws.x, row as usize * n_embd, out);
        }
        Ok(())
    }
}
