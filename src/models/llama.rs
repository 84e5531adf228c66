//! Llama (Touvron et al. 2023; Llama 3: Grattafiori et al. 2024) and the many models that share its graph:
//! RMS norm, rotary positions on adjacent pairs, grouped key/value heads, SwiGLU, optional biases.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{Model, ModelInfo};
use crate::backend::{AddNorm, Backend, Embed};
use crate::error::{Error, Result};
use crate::gguf::quoted;
use crate::kernels::RopeStyle;
use crate::nn::Batch;
use crate::nn::attention::{AttentionParams, RopeParams, SelfAttention};
use crate::nn::head;
use crate::nn::mlp::SwiGlu;
use crate::nn::norm::{NormLayer, RmsNorm};
use crate::nn::workspace::Workspace;

/// RoPE base where the file does not say.
const DEFAULT_FREQ_BASE: f32 = 10_000.0;

/// A llama model.
pub struct Llama<B: Backend> {
    info: ModelInfo,
    attention: AttentionParams,
    /// `[n_vocab, n_embd]`; also the output projection when `output` is absent.
    token_embd: B::Weight,
    layers: Vec<Layer<B>>,
    output_norm: RmsNorm<B>,
    output: Option<B::Weight>,
}

struct Layer<B: Backend> {
    attn_norm: RmsNorm<B>,
    attn: SelfAttention<B>,
    ffn_norm: RmsNorm<B>,
    ffn: SwiGlu<B>,
}

impl<B: Backend> Llama<B> {
    /// Binds the weights.
    pub fn bind(file: &mut Binder<'_, B>) -> Result<Self> {
        let info = file.info()?;
        file.refuse("expert_count", file.count("expert_count")? > 0, "experts")?;
        file.refuse(
            "attention.causal",
            file.flag("attention.causal")? == Some(false),
            "attention masks that are not causal",
        )?;
        let eps = file.positive("attention.layer_norm_rms_epsilon")?;
        let (n_embd, n_ff) = (info.n_embd, info.n_ff);
        let (n_q, n_kv) = (info.n_head * info.head_dim, info.n_head_kv * info.head_dim);
        let rope = RopeParams { inv_freq: inv_freq(file, info.head_dim)?, style: RopeStyle::Interleaved };
        let mut layers = Vec::new();
        for i in 0..info.n_layer {
            let name = |part: &str| format!("blk.{i}.{part}");
            layers.push(Layer {
                attn_norm: file.rms_norm(&name("attn_norm"), n_embd, eps)?,
                attn: SelfAttention {
                    q: file.linear(&name("attn_q"), n_q, n_embd)?,
                    k: file.linear(&name("attn_k"), n_kv, n_embd)?,
                    v: file.linear(&name("attn_v"), n_kv, n_embd)?,
                    output: file.linear(&name("attn_output"), n_embd, n_q)?,
                },
                ffn_norm: file.rms_norm(&name("ffn_norm"), n_embd, eps)?,
                ffn: SwiGlu {
                    gate: file.linear(&name("ffn_gate"), n_ff, n_embd)?,
                    up: file.linear(&name("ffn_up"), n_ff, n_embd)?,
                    down: file.linear(&name("ffn_down"), n_embd, n_ff)?,
                },
            });
        }
        Ok(Llama {
            attention: AttentionParams {
                n_head: info.n_head,
                n_head_kv: info.n_head_kv,
                head_dim: info.head_dim,
                rope: Some(rope),
            },
            token_embd: file.matrix("token_embd.weight", info.n_vocab, n_embd)?,
            layers,
            output_norm: file.rms_norm("output_norm", n_embd, eps)?,
            output: file.optional_matrix("output.weight", info.n_vocab, n_embd)?,
            info,
        })
    }
}

/// `base^(-2i/n_rot)` for each rotated pair, slowed down by linear scaling and by the file's frequency factors
/// (llama 3 stores its scaling as the tensor `rope_freqs.weight`).
fn inv_freq<B: Backend>(file: &mut Binder<'_, B>, head_dim: usize) -> Result<Vec<f32>> {
    let n_rot = file.optional_dim("rope.dimension_count")?.unwrap_or(head_dim);
    if n_rot > head_dim || !n_rot.is_multiple_of(2) {
        return Err(Error::Format(format!(
            "heads of length {head_dim} cannot be rotated in {n_rot} dimensions (\"llama.rope.dimension_count\"): \
             expected an even number up to the length"
        )));
    }
    let base = file.optional_positive("rope.freq_base")?.unwrap_or(DEFAULT_FREQ_BASE);
    let scale = match file.optional_str("rope.scaling.type")? {
        Some("none") => 1.0,
        // Older files give a factor, under one of two keys, without saying that the scaling is linear.
        None | Some("linear") => {
            let factor = file.optional_positive("rope.scaling.factor")?;
            factor.or(file.optional_positive("rope.scale_linear")?).unwrap_or(1.0)
        }
        Some(other) => {
            return Err(Error::Unsupported(format!(
                "the rope scaling {} (\"llama.rope.scaling.type\") is not supported; supported are: none, linear",
                quoted(other.as_bytes())
            )));
        }
    };
    let factors = file.optional_f32s("rope_freqs.weight", n_rot / 2)?;
    let inv_freq: Vec<f32> = (0..n_rot / 2)
        .map(|i| {
            let factor = factors.as_ref().map_or(1.0, |f| f[i]);
            let exponent = -2.0 * i as f64 / n_rot as f64;
            (libm::pow(f64::from(base), exponent) / f64::from(scale) / f64::from(factor)) as f32
        })
        .collect();
    match inv_freq.iter().position(|x| !x.is_finite()) {
        Some(i) => {
            Err(Error::Format(format!("the rope frequency of pair {i} is not finite: check its factors")))
        }
        None => Ok(inv_freq),
    }
}

impl<B: Backend> Model<B> for Llama<B> {
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
        let n_embd = self.info.n_embd;
        backend.embed(Embed { table: &self.token_embd, rows: batch.tokens, out: &mut ws.x });
        for (i, layer) in self.layers.iter().enumerate() {
            layer.attn_norm.forward(backend, &ws.x, None, n, &mut ws.norm);
            layer.attn.forward(&self.attention, i, backend, ws, kv, batch);
            backend.add_rms_norm(AddNorm {
                x: &mut ws.x,
                y: &ws.proj,
                n,
                n_embd,
                weight: &layer.ffn_norm.weight,
                eps: layer.ffn_norm.eps,
                out: &mut ws.norm,
            });
            layer.ffn.forward(backend, ws, n);
            backend.add(&mut ws.x, &ws.proj, n * n_embd);
        }
        let output = self.output.as_ref().unwrap_or(&self.token_embd);
        head::logits(&self.output_norm, output, backend, ws, batch.outputs, logits);
        backend.finish()
    }
}
