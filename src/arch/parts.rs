//! Blocks under the names that most architectures give their tensors (`blk.N.attn_q`, `blk.N.ffn_up`, …).
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ExpertInfo, ModelInfo};
use crate::backend::{Backend, DistanceBias, Gating, Groups, Pointwise, Sees, WeightRole};
use crate::error::{Error, Result};
use crate::kernels::GeluForm;
use crate::nn::attention::{AttentionParams, KvSource, QkNorm, RopeParams, SelfAttention};
use crate::nn::decoder::{Decoder, DecoderLayer};
use crate::nn::head::Head;
use crate::nn::linear::Linear;
use crate::nn::mlp::{Activation, Dense, GatedMlp, Mlp, PlainMlp};
use crate::nn::moe::{Experts, GateUp, Moe, SharedExpert};
use crate::nn::norm::NormLayer;

/// Causal attention over all earlier positions, scaled by `1/√head_dim`.
pub fn causal(info: &ModelInfo, rope: Option<RopeParams>) -> AttentionParams {
    AttentionParams {
        n_head: info.n_head,
        n_head_kv: info.n_head_kv,
        head_dim: info.head_dim,
        v_dim: None,
        v_at: None,
        rope,
        scale: 1.0 / (info.head_dim as f32).sqrt(),
        sees: Sees::All,
        causal: true,
        window: None,
        chunked: false,
        growth: None,
        softcap: None,
    }
}

/// The default in files: the steepest slopes are 2 to the power of this, negative and divided by the number of heads.
pub const MAX_SLOPE: f32 = 8.0;

/// The slopes of `n_head` heads (Press et al. 2022): a geometric series of a power of two; more heads get every second number of
/// the series of twice as many.
fn slopes(n_head: usize, most: f32) -> Vec<f32> {
    let n = 1usize << n_head.max(1).ilog2();
    let slope = |exponent: usize, n: usize| libm::exp2(-f64::from(most) * exponent as f64 / n as f64) as f32;
    (0..n_head).map(|h| if h < n { slope(h + 1, n) } else { slope(2 * (h - n) + 1, 2 * n) }).collect()
}

/// The properties of an architecture's mixture of experts; the numbers are read from the file.
pub struct MoeStyle {
    /// Whether the shares of a token's experts are divided by their sum, where the file does not say.
    pub normalize: bool,
    /// The expert that all tokens take.
    pub shared: Shared,
    /// Whether `feed_forward_length` is the width of a token's experts together, where the file has no
    /// `expert_feed_forward_length`; otherwise it is that of each.
    pub divided: bool,
    /// For routers whose shares may be sigmoids: added to the sum that shares are divided by. `None`: shares are a softmax,
    /// whatever the file says.
    pub sigmoid: Option<f32>,
    /// Applied to the gates of experts.
    pub activation: Activation,
    /// Applied to the hidden layers of experts without gates, and of the one that all tokens take.
    pub ungated: Option<Pointwise>,
    /// Length of the vectors that experts work on, where it differs from that of the residual stream; otherwise 0.
    pub n_latent: usize,
    /// The default of routers whose shares may be sigmoids.
    pub gating: Gating,
    /// Restricts the choice to experts of some groups.
    pub groups: Option<Groups>,
    /// Whether the router reads the layer's input, before attention.
    pub early: bool,
    /// Whether shares multiply the experts' inputs, and not their outputs.
    pub scales_gates: bool,
}

impl MoeStyle {
    /// Experts with SiLU gates and nothing beside them, whose shares are a softmax, divided by their sum.
    pub const PLAIN: MoeStyle = MoeStyle {
        normalize: true,
        shared: Shared::None,
        divided: false,
        sigmoid: None,
        activation: Activation::Silu,
        ungated: None,
        n_latent: 0,
        gating: Gating::Sigmoid,
        groups: None,
        early: false,
        scales_gates: false,
    };
}

/// Whether a mixture has an expert that all tokens take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shared {
    /// It has none.
    None,
    /// It has one, whose share is a sigmoid.
    Gated,
    /// It has one, whose share is 1, where the file says how wide it is.
    Plain,
}

impl<B: Backend> Binder<'_, B> {
    /// The slopes by which the scores of `n_head` heads fall with the distance, the steepest 2 to the power of `most`, negative
    /// and divided by the number of heads.
    pub fn slopes(&mut self, n_head: usize, most: f32) -> Result<DistanceBias<B::Weight>> {
        Ok(DistanceBias::Slopes(self.computed("slopes", 1, &slopes(n_head, most))?))
    }

    /// Projections of layer `i`: queries, keys and values in separate tensors or one below the other in one.
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
        let kv = KvSource::Own { k, v: Some(v), v_norm: None };
        Ok(SelfAttention {
            q,
            kv,
            output,
            qk_norm: None,
            bias: None,
            sinks: None,
            gated: false,
            head_gate: None,
            sub_norm: None,
        })
    }

    /// As [`Binder::attention`], with an output gate after each head's query.
    pub fn gated_attention(&mut self, i: usize, info: &ModelInfo) -> Result<SelfAttention<B>> {
        let (n_embd, n_q, n_kv) = (info.n_embd, info.n_head * info.head_dim, info.n_head_kv * info.head_dim);
        let name = |part: &str| format!("blk.{i}.{part}");
        let q = self.linear(&name("attn_q"), 2 * n_q, n_embd)?;
        let k = self.linear(&name("attn_k"), n_kv, n_embd)?;
        let v = Some(self.linear(&name("attn_v"), n_kv, n_embd)?);
        Ok(SelfAttention {
            q,
            kv: KvSource::Own { k, v, v_norm: None },
            output: self.linear(&name("attn_output"), n_embd, n_q)?,
            qk_norm: None,
            bias: None,
            sinks: None,
            gated: true,
            head_gate: None,
            sub_norm: None,
        })
    }

    /// RMS norms of each query head and key head of layer `i`.
    pub fn qk_head_norm(&mut self, i: usize, info: &ModelInfo, eps: f32) -> Result<QkNorm<B>> {
        let mut norm = |part: &str| self.rms_norm(&format!("blk.{i}.{part}"), info.head_dim, eps);
        Ok(QkNorm {
            q: norm("attn_q_norm")?,
            k: Some(norm("attn_k_norm")?),
            per_head: true,
            after_rope: false,
        })
    }

    /// The gated feed-forward block of layer `i`: gate and values in separate tensors or one below the other in `ffn_up`.
    pub fn gated_mlp(&mut self, i: usize, info: &ModelInfo, activation: Activation) -> Result<Mlp<B>> {
        Ok(Mlp::Dense(Dense::Gated(self.gated(i, "", (info.n_ff, info.n_embd), activation)?)))
    }

    /// The gated block of width `n_ff` of layer `i` whose tensors' names end with `end`.
    pub fn gated(
        &mut self,
        i: usize,
        end: &str,
        (n_ff, n_embd): (usize, usize),
        activation: Activation,
    ) -> Result<GatedMlp<B>> {
        let [gate, up, down] = ["gate", "up", "down"].map(|part| format!("blk.{i}.ffn_{part}{end}"));
        let (gate, up) = if self.has(&format!("{gate}.weight")) {
            (self.linear(&gate, n_ff, n_embd)?, self.linear(&up, n_ff, n_embd)?)
        } else {
            let gate = self.linear_part(&up, 0..n_ff, 2 * n_ff, n_embd)?;
            (gate, self.linear_part(&up, n_ff..2 * n_ff, 2 * n_ff, n_embd)?)
        };
        let down = self.linear(&down, n_embd, n_ff)?;
        Ok(GatedMlp { gate, up, down, n_ff, above_mean: None, activation, sub_norm: None })
    }

    /// The feed-forward block of layer `i` without a gate.
    pub fn gelu_mlp(&mut self, i: usize, info: &ModelInfo, form: GeluForm) -> Result<Mlp<B>> {
        let sizes = (info.n_ff, info.n_embd);
        Ok(Mlp::Dense(Dense::Plain(self.plain(i, "", sizes, Pointwise::Gelu(form))?)))
    }

    /// The block without a gate, of width `n_ff`, of layer `i` whose tensors' names end with `end`.
    pub fn plain(
        &mut self,
        i: usize,
        end: &str,
        (n_ff, n_embd): (usize, usize),
        activation: Pointwise,
    ) -> Result<PlainMlp<B>> {
        let up = self.linear(&format!("blk.{i}.ffn_up{end}"), n_ff, n_embd)?;
        let down = self.linear(&format!("blk.{i}.ffn_down{end}"), n_embd, n_ff)?;
        Ok(PlainMlp { up, down, n_ff, activation })
    }

    /// As [`Binder::info`], with the numbers of the experts; without them if there is no `expert_count` or it is 0.
    pub fn info_with_experts(&self, style: &MoeStyle) -> Result<ModelInfo> {
        self.with_experts(self.info()?, style)
    }

    /// `info` with the numbers of the experts; unchanged if there is no `expert_count` or it is 0.
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
        let width = "expert_shared_feed_forward_length";
        let n_ff_shared = match style.shared {
            Shared::None => 0,
            Shared::Gated => self.optional_dim(width)?.unwrap_or(info.n_ff),
            Shared::Plain => self.count(width)? as usize,
        };
        let joint = self.has_any("ffn_gate_up_exps.weight");
        Ok(ModelInfo {
            experts: Some(ExpertInfo { n_expert, n_used, n_ff, n_ff_shared, n_dense: 0, joint }),
            ..info
        })
    }

    /// The experts of layer `i`.
    pub fn moe(&mut self, i: usize, info: &ModelInfo, style: &MoeStyle) -> Result<Mlp<B>> {
        Ok(Mlp::Moe(Box::new(self.experts_of(i, info, style)?)))
    }

    /// The experts of layer `i` alone.
    pub fn experts_of(&mut self, i: usize, info: &ModelInfo, style: &MoeStyle) -> Result<Moe<B>> {
        let n_embd = info.n_embd;
        let Some(experts) = info.experts else {
            return Err(Error::Format(format!(
                "the required key {} is missing",
                self.called("expert_count")
            )));
        };
        let (n_expert, n_ff) = (experts.n_expert, experts.n_ff);
        let name = |part: &str| format!("blk.{i}.{part}");
        let shared = match experts.n_ff_shared {
            0 => None,
            n_ff => {
                let gate_inp = match style.shared {
                    Shared::Gated => Some(self.row(&name("ffn_gate_inp_shexp.weight"), n_embd)?),
                    _ => None,
                };
                let gate_inp = gate_inp.map(|weight| Linear { weight, scale: None, bias: None });
                let sizes = (n_ff, n_embd);
                let mlp = match style.ungated {
                    Some(pointwise) => Dense::Plain(self.plain(i, "_shexp", sizes, pointwise)?),
                    None => Dense::Gated(self.gated(i, "_shexp", sizes, Activation::Silu)?),
                };
                Some(SharedExpert { gate_inp, mlp })
            }
        };
        let (gating, epsilon) = match style.sigmoid {
            Some(epsilon) => (self.gating(style.gating)?, epsilon),
            None => (Gating::Softmax, 0.0),
        };
        let (bias, scale) = match style.sigmoid {
            Some(_) => {
                let bias = self.bias(&name("exp_probs_b"), 0..n_expert, n_expert)?;
                (bias, self.optional_positive("expert_weights_scale")?.unwrap_or(1.0))
            }
            None => (None, 1.0),
        };
        let (n_inner, latent) = match style.n_latent {
            0 => (n_embd, None),
            n => {
                let before = self.linear(&name("ffn_latent_down"), n, n_embd)?;
                (n, Some((before, self.linear(&name("ffn_latent_up"), n_embd, n)?)))
            }
        };
        Ok(Moe {
            router: Linear {
                weight: self.matrix(&name("ffn_gate_inp.weight"), n_expert, n_embd)?,
                scale: None,
                bias: self.bias(&name("ffn_gate_inp"), 0..n_expert, n_expert)?,
            },
            gate_up: self.gate_up(i, &experts, n_inner, style)?,
            down: self.experts(&name("ffn_down_exps"), n_expert, n_inner, n_ff)?,
            latent,
            shared,
            n_expert,
            n_used: experts.n_used,
            n_ff,
            gating,
            bias,
            normalize: self.flag("expert_weights_norm")?.unwrap_or(style.normalize).then_some(epsilon),
            scale,
            scales: None,
            groups: style.groups,
            early: style.early,
            scales_gates: style.scales_gates,
        })
    }

    /// Gate and values of the experts of layer `i`, as two matrices or as one, or values alone; `n_embd` is the length of their
    /// inputs.
    fn gate_up(
        &mut self,
        i: usize,
        experts: &ExpertInfo,
        n_embd: usize,
        style: &MoeStyle,
    ) -> Result<GateUp<B>> {
        let (&ExpertInfo { n_expert, n_ff, .. }, activation) = (experts, style.activation);
        let name = |part: &str| format!("blk.{i}.ffn_{part}_exps");
        if experts.joint && self.has(&format!("{}.weight", name("gate_up"))) {
            let both = self.experts(&name("gate_up"), n_expert, 2 * n_ff, n_embd)?;
            return Ok(GateUp::Joint(both, activation));
        }
        if let Some(pointwise) = style.ungated {
            return Ok(GateUp::Up(self.experts(&name("up"), n_expert, n_ff, n_embd)?, pointwise));
        }
        let gate = self.experts(&name("gate"), n_expert, n_ff, n_embd)?;
        Ok(GateUp::Apart { gate, up: self.experts(&name("up"), n_expert, n_ff, n_embd)?, activation })
    }

    /// A layer of each of `n` experts, with `n_rows` outputs and `n_cols` inputs: `name.weight` and perhaps `name.bias`.
    fn experts(&mut self, name: &str, n: usize, n_rows: usize, n_cols: usize) -> Result<Experts<B>> {
        let weight = self.matrices(&format!("{name}.weight"), n, n_rows, n_cols)?;
        let bias = format!("{name}.bias");
        let rows = &[n_rows, n];
        let bias = self.has(&bias).then(|| self.bind(&bias, rows, 0..n, WeightRole::Vector)).transpose()?;
        Ok(Experts { weight, bias })
    }

    /// How shares are computed from a router's logits, `default` where the file does not say.
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

    /// A decoder with the parts that every one has; callers set the other fields.
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
            embd_norm: None,
            per_layer: None,
            altup: None,
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

    /// Which layers have the window: as `attention.sliding_window_pattern` says, with a list of booleans or a period whose last
    /// layer sees everything; `period` where the file does not say.
    pub fn windowed(&self, n_layer: usize, period: usize) -> Result<Vec<bool>> {
        self.windowed_but(n_layer, period, |i, period| i % period == period - 1)
    }

    /// The same where `sees_all` says which layers of a period see everything.
    pub fn windowed_but(
        &self,
        n_layer: usize,
        period: usize,
        sees_all: fn(usize, usize) -> bool,
    ) -> Result<Vec<bool>> {
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
        Ok((0..n_layer).map(|i| !sees_all(i, period)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::slopes;

    #[test]
    fn slopes_are_those_of_the_paper() {
        assert_eq!(slopes(4, 8.0), [0.25, 0.0625, 0.015625, 0.00390625]);
        assert_eq!(slopes(8, 8.0)[..3], [0.5, 0.25, 0.125]);
        // Three heads: both numbers of the series of two, and the first of that of four.
        assert_eq!(slopes(3, 8.0), [0.0625, 0.00390625, 0.25]);
    }
}
