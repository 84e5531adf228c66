//! GPT-2 (Radford et al. 2019): learned positions, pre-norm blocks with layer norm and biases, GELU in its tanh form.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{Model, ModelInfo};
use crate::backend::{Backend, Embed};
use crate::error::{Error, Result};
use crate::nn::Batch;
use crate::nn::attention::{AttentionParams, SelfAttention};
use crate::nn::head;
use crate::nn::mlp::GeluMlp;
use crate::nn::norm::{LayerNorm, NormLayer};
use crate::nn::workspace::Workspace;

/// A GPT-2 model.
pub struct Gpt2<B: Backend> {
    info: ModelInfo,
    attention: AttentionParams,
    /// `[n_vocab, n_embd]`; also the output projection when `output` is absent.
    token_embd: B::Weight,
    /// `[n_ctx_train, n_embd]`.
    position_embd: B::Weight,
    layers: Vec<Layer<B>>,
    output_norm: LayerNorm<B>,
    output: Option<B::Weight>,
}

struct Layer<B: Backend> {
    attn_norm: LayerNorm<B>,
    attn: SelfAttention<B>,
    ffn_norm: LayerNorm<B>,
    ffn: GeluMlp<B>,
}

impl<B: Backend> Gpt2<B> {
    /// Binds the weights.
    pub fn bind(file: &mut Binder<'_, B>) -> Result<Self> {
        let mut info = file.info()?;
        info.n_ctx_max = Some(info.n_ctx_train);
        let eps = file.positive("attention.layer_norm_epsilon")?;
        let (n_embd, n_ff) = (info.n_embd, info.n_ff);
        if info.n_head_kv != info.n_head || info.n_head * info.head_dim != n_embd {
            return Err(Error::Format(format!(
                "gpt2 needs as many key/value heads as heads and heads that fill the embedding; found {} heads, {} \
                 key/value heads of length {} for an embedding of {n_embd}",
                info.n_head, info.n_head_kv, info.head_dim
            )));
        }
        let mut layers = Vec::new();
        for i in 0..info.n_layer {
            let name = |part: &str| format!("blk.{i}.{part}");
            let mut qkv = |part: usize| {
                let range = part * n_embd..(part + 1) * n_embd;
                file.linear_part(&name("attn_qkv"), range, 3 * n_embd, n_embd)
            };
            let (q, k, v) = (qkv(0)?, qkv(1)?, qkv(2)?);
            layers.push(Layer {
                attn_norm: file.layer_norm(&name("attn_norm"), n_embd, eps)?,
                attn: SelfAttention { q, k, v, output: file.linear(&name("attn_output"), n_embd, n_embd)? },
                ffn_norm: file.layer_norm(&name("ffn_norm"), n_embd, eps)?,
                ffn: GeluMlp {
                    up: file.linear(&name("ffn_up"), n_ff, n_embd)?,
                    down: file.linear(&name("ffn_down"), n_embd, n_ff)?,
                },
            });
        }
        Ok(Gpt2 {
            attention: AttentionParams {
                n_head: info.n_head,
                n_head_kv: info.n_head_kv,
                head_dim: info.head_dim,
                rope: None,
            },
            token_embd: file.matrix("token_embd.weight", info.n_vocab, n_embd)?,
            position_embd: file.matrix("position_embd.weight", info.n_ctx_train, n_embd)?,
            layers,
            output_norm: file.layer_norm("output_norm", n_embd, eps)?,
            output: file.optional_matrix("output.weight", info.n_vocab, n_embd)?,
            info,
        })
    }
}

impl<B: Backend> Model<B> for Gpt2<B> {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn forward(
        &self,
        backend: &mut B,
        ws: &mut Workspace<B>,
        kv: &mut B::Kv,
        batch: &Batch<'_>,
        logits: &mut [f32],
    ) -> Result<()> {
        let n = batch.tokens.len();
        let len = n * self.info.n_embd;
        backend.embed(Embed { table: &self.token_embd, rows: batch.tokens, out: &mut ws.x });
        backend.embed(Embed { table: &self.position_embd, rows: batch.positions, out: &mut ws.proj });
        backend.add(&mut ws.x, &ws.proj, len);
        for (i, layer) in self.layers.iter().enumerate() {
            layer.attn_norm.forward(backend, &ws.x, None, n, &mut ws.norm);
            layer.attn.forward(&self.attention, i, backend, ws, kv, batch);
            backend.add(&mut ws.x, &ws.proj, len);
            layer.ffn_norm.forward(backend, &ws.x, None, n, &mut ws.norm);
            layer.ffn.forward(backend, ws, n);
            backend.add(&mut ws.x, &ws.proj, len);
        }
        let output = self.output.as_ref().unwrap_or(&self.token_embd);
        head::logits(&self.output_norm, output, backend, ws, batch.outputs, logits);
        backend.finish()
    }
}
