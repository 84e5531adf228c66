//! Blocks under the names that most architectures give their tensors (`blk.N.attn_q`, `blk.N.ffn_up`, …).
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ExpertInfo, ModelInfo};
use crate::backend::{Backend, Gating};
use crate::error::{Error, Result};
use crate::kernels::GeluForm;
use crate::nn::attention::{AttentionParams, QkNorm, RopeParams, SelfAttention};
use crate::nn::decoder::{Decoder, DecoderLayer};
use crate::nn::head::Head;
use crate::nn::linear::Linear;
use crate::nn::mlp::{Activation, GatedMlp, GeluMlp, Mlp};
use crate::nn::moe::{Moe, SharedExpert};
use crate::nn::norm::NormLayer;

/// Causal attention over everything before, scaled by `1/√head_dim`.
pub fn causal(info: &ModelInfo, rope: Option<RopeParams>) -> AttentionParams {
    AttentionParams {
        n_head: info.n_head,
        n_head_kv: info.n_head_kv,
        head_dim: info.head_dim,
        rope,
        scale: 1.0 / (info.head_dim as f32).sqrt(),
        causal: true,
        window: None,
        softcap: None,
    }
}

/// Mixture-of-experts facts of an architecture; the numbers are read from the file.
pub struct MoeStyle {
    /// Whether the shares of a token's experts are divided by their sum, where the file does not say.
    pub normalize: bool,
    /// Whether there is an expert that all tokens take, with a sigmoid gate.
    pub shared: bool,
    /// Whether a token's experts are together as wide as `feed_forward_length` says, where the file has no
    /// `expert_feed_forward_length`; otherwise each is.
    pub divided: bool,
    /// Of routers whose shares are sigmoids, where the file does not say: what is added to the sum that shares are divided by.
    /// `None`: shares are parts of a softmax, whatever the file says.
    pub sigmoid: Option<f32>,
}

impl<B: Backend> Binder<'_, B> {
    /// Projections of layer `i`, of queries, keys and values separately or one below the other in one tensor.
    pub fn attention(&mut self, i: usize, info: &ModelInfo) -> Result<SelfAttention<B>> {
        let n_embd = info.n_embd;
        let (n_q, n_kv) = (info.n_head * info.head_dim, info.n_head_kv * info.head_dim);
        let name = |part: &str| format!("blk.{i}.{part}");
        let (q, k, v) = if self.has(&name("attn_qkv.weight")) {
            let mut part = |first: usize, len: usize| {
                self.linear_part(&name("attn_qkv"), first..first + len, n_q + 2 * n_kv, n_embd)
            };
            let mut parts = [part(0, n_q)?, part(n_q, n_kv)?, part(n_q + n_kv, n_kv)?];
            // Some files have one matrix and three biases.
            for (part, (name, n)) in parts.iter_mut().zip([("q", n_q), ("k", n_kv), ("v", n_kv)]) {
                if part.bias.is_none() {
                    part.bias = self.bias(&format!("blk.{i}.attn_{name}"), 0..n, n)?;
                }
            }
            parts.into()
        } else {
            let q = self.linear(&name("attn_q"), n_q, n_embd)?;
            let k = self.linear(&name("attn_k"), n_kv, n_embd)?;
            (q, k, self.linear(&name("attn_v"), n_kv, n_embd)?)
        };
        let output = self.linear(&name("attn_output"), n_embd, n_q)?;
        Ok(SelfAttention { q, k, v, output, qk_norm: None })
    }

    /// RMS norms of each query head and key head of layer `i`.
    pub fn qk_head_norm(&mut self, i: usize, info: &ModelInfo, eps: f32) -> Result<QkNorm<B>> {
        let mut norm = |part: &str| self.rms_norm(&format!("blk.{i}.{part}"), info.head_dim, eps);
        Ok(QkNorm { q: norm("attn_q_norm")?, k: norm("attn_k_norm")?, per_head: true })
    }

    /// The gated feed-forward block of layer `i`, gate and values separately or one below the other in `ffn_up`.
    pub fn gated_mlp(&mut self, i: usize, info: &ModelInfo, activation: Activation) -> Result<Mlp<B>> {
        let (n_ff, n_embd) = (info.n_ff, info.n_embd);
        let name = |part: &str| format!("blk.{i}.{part}");
        let (gate, up) = if self.has(&name("ffn_gate.weight")) {
            (self.linear(&name("ffn_gate"), n_ff, n_embd)?, self.linear(&name("ffn_up"), n_ff, n_embd)?)
        } else {
            let gate = self.linear_part(&name("ffn_up"), 0..n_ff, 2 * n_ff, n_embd)?;
            (gate, self.linear_part(&name("ffn_up"), n_ff..2 * n_ff, 2 * n_ff, n_embd)?)
        };
        let down = self.linear(&name("ffn_down"), n_embd, n_ff)?;
        Ok(Mlp::Gated(GatedMlp { gate, up, down, n_ff, activation }))
    }

    /// The feed-forward block of layer `i` without a gate.
    pub fn gelu_mlp(&mut self, i: usize, info: &ModelInfo, form: GeluForm) -> Result<Mlp<B>> {
        let (n_ff, n_embd) = (info.n_ff, info.n_embd);
        let up = self.linear(&format!("blk.{i}.ffn_up"), n_ff, n_embd)?;
        let down = self.linear(&format!("blk.{i}.ffn_down"), n_embd, n_ff)?;
        Ok(Mlp::Gelu(GeluMlp { up, down, n_ff, form }))
    }

    /// As [`Binder::info`], with the numbers of the experts; `None` without `expert_count` or with 0.
    pub fn info_with_experts(&self, style: &MoeStyle) -> Result<ModelInfo> {
        self.with_experts(self.info()?, style)
    }

    /// `info` with the numbers of the experts; as it is without `expert_count` or with 0.
    pub fn with_experts(&self, info: ModelInfo, style: &MoeStyle) -> Result<ModelInfo> {
        if self.count("expert_count")? == 0 {
            return Ok(info);
        }
        let (n_expert, n_used) = (self.dim("expert_count")?, self.dim("expert_used_count")?);
        if n_used > n_expert {
            return Err(Error::Format(format!(
                "{} is {n_used}, but there are {n_expert} experts ({})",
                self.called("expert_used_count"),
                self.called("expert_count")
            )));
        }
        let n_ff = self.optional_dim("expert_feed_forward_length")?;
        let n_ff = n_ff.unwrap_or(if style.divided { info.n_ff / n_used } else { info.n_ff });
        if n_expert.checked_mul(n_ff).is_none_or(|n| n > u32::MAX as usize) {
            return Err(Error::Format(format!("{n_expert} experts of width {n_ff} are too many")));
        }
        let n_ff_shared = match style.shared {
            true => self.optional_dim("expert_shared_feed_forward_length")?.unwrap_or(info.n_ff),
            false => 0,
        };
        Ok(ModelInfo {
            experts: Some(ExpertInfo { n_expert, n_used, n_ff, n_ff_shared, n_dense: 0 }),
            ..info
        })
    }

    /// The experts of layer `i`.
    pub fn moe(&mut self, i: usize, info: &ModelInfo, style: &MoeStyle) -> Result<Mlp<B>> {
        let n_embd = info.n_embd;
        let Some(experts) = info.experts else {
            return Err(Error::Format(format!(
                "the required key {} is missing",
                self.called("expert_count")
            )));
        };
        let (n_expert, n_ff) = (experts.n_expert, experts.n_ff);
        let name = |part: &str| format!("blk.{i}.{part}");
        let shared = match style.shared {
            false => None,
            true => {
                let n_ff = experts.n_ff_shared;
                let weight = self.row(&name("ffn_gate_inp_shexp.weight"), n_embd)?;
                Some(SharedExpert {
                    gate_inp: Linear { weight, scale: None, bias: None },
                    mlp: GatedMlp {
                        gate: self.linear(&name("ffn_gate_shexp"), n_ff, n_embd)?,
                        up: self.linear(&name("ffn_up_shexp"), n_ff, n_embd)?,
                        down: self.linear(&name("ffn_down_shexp"), n_embd, n_ff)?,
                        n_ff,
                        activation: Activation::Silu,
                    },
                })
            }
        };
        let (gating, epsilon) = match style.sigmoid {
            Some(epsilon) => (self.gating(Gating::Sigmoid)?, epsilon),
            None => (Gating::Softmax, 0.0),
        };
        let (bias, scale) = match style.sigmoid {
            Some(_) => {
                let bias = self.bias(&name("exp_probs_b"), 0..n_expert, n_expert)?;
                (bias, self.optional_positive("expert_weights_scale")?.unwrap_or(1.0))
            }
            None => (None, 1.0),
        };
        Ok(Mlp::Moe(Box::new(Moe {
            router: self.matrix(&name("ffn_gate_inp.weight"), n_expert, n_embd)?,
            gate: self.matrices(&name("ffn_gate_exps.weight"), n_expert, n_ff, n_embd)?,
            up: self.matrices(&name("ffn_up_exps.weight"), n_expert, n_ff, n_embd)?,
            down: self.matrices(&name("ffn_down_exps.weight"), n_expert, n_embd, n_ff)?,
            shared,
            n_expert,
            n_used: experts.n_used,
            n_ff,
            gating,
            bias,
            normalize: self.flag("expert_weights_norm")?.unwrap_or(style.normalize).then_some(epsilon),
            scale,
        })))
    }

    /// What makes shares of a router's logits, `default` where the file does not say.
    fn gating(&self, default: Gating) -> Result<Gating> {
        let name = "expert_gating_func";
        match self.count(name)? {
            0 => Ok(default),
            1 => Ok(Gating::Softmax),
            2 => Ok(Gating::Sigmoid),
            n => Err(Error::Unsupported(format!(
                "{} is {n}, which is not supported; supported are: 1 (softmax), 2 (sigmoid)",
                self.called(name)
            ))),
        }
    }

    /// A decoder with the parts that every one has; others are fields to be set.
    pub fn decoder(
        &mut self,
        info: &ModelInfo,
        attention: Vec<AttentionParams>,
        layers: Vec<DecoderLayer<B>>,
        norm: NormLayer<B>,
    ) -> Result<Decoder<B>> {
        Ok(Decoder {
            token_embd: self.token_embd(info)?,
            position_embd: None,
            embd_scale: None,
            attention,
            layers,
            residual_scale: None,
            head: self.head(info, norm)?,
        })
    }

    /// The output head: `norm`, then `output`, or the token embedding where the file has no `output.weight`.
    fn head(&mut self, info: &ModelInfo, norm: NormLayer<B>) -> Result<Head<B>> {
        let output = match self.has("output.weight") {
            true => Some(self.linear("output", info.n_vocab, info.n_embd)?),
            false => None,
        };
        Ok(Head { norm, output, scale: None, softcap: None })
    }

    /// The cap under the key `name`, `default` where the file does not say; 0 means none.
    pub fn softcap(&self, name: &str, default: Option<f32>) -> Result<Option<f32>> {
        match self.optional_number(name)? {
            Some(0.0) => Ok(None),
            _ => Ok(self.optional_positive(name)?.or(default)),
        }
    }

    /// The window of `attention.sliding_window`; 0 and absent mean none.
    pub fn window(&self) -> Result<Option<usize>> {
        Ok(match self.count("attention.sliding_window")? {
            0 => None,
            n => Some(n as usize),
        })
    }

    /// Which layers have the window: those that `attention.sliding_window_pattern` says, as a list of booleans or as a
    /// period whose last layer sees everything; `period` where the file does not say.
    pub fn windowed(&self, n_layer: usize, period: usize) -> Result<Vec<bool>> {
        let name = "attention.sliding_window_pattern";
        let period = match self.bools(name) {
            Some(list) if list.len() >= n_layer => return Ok(list[..n_layer].to_vec()),
            Some(list) => {
                return Err(Error::Format(format!(
                    "{} has {} entries for {n_layer} layers",
                    self.called(name),
                    list.len()
                )));
            }
            None => self.optional_dim(name)?.unwrap_or(period),
        };
        Ok((0..n_layer).map(|i| i % period < period - 1).collect())
    }
}
