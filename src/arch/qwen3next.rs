//! Qwen3-Next and Qwen 3.5 to 3.8 (Qwen team 2025, 2026): gated delta nets in most layers, attention with an output gate in the
//! others, and in all a gated feed-forward block or experts.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::{self, MoeStyle, Shared};
use super::{ModelInfo, rope};
use crate::backend::{Backend, WeightRole};
use crate::error::{Error, Result};
use crate::kernels::RopeStyle;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::gated_delta::{DeltaShape, GatedDelta, TwoOf};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// One of this many layers has attention, where the file does not say.
const INTERVAL: usize = 4;

/// Binds the weights of a Qwen3-Next, which has experts and whose heads of a group are neighbours.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    bind_with(file, true, true)
}

/// Binds the weights of a Qwen 3.5.
pub fn bind_dense<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let grouped = file.values_are_grouped();
    bind_with(file, false, grouped)
}

/// Binds the weights of a Qwen 3.5 with experts.
pub fn bind_moe<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let grouped = file.values_are_grouped();
    bind_with(file, true, grouped)
}

fn bind_with<B: Backend>(
    file: &mut Binder<'_, B>,
    has_experts: bool,
    grouped: bool,
) -> Result<(ModelInfo, Decoder<B>)> {
    let style = MoeStyle { shared: Shared::Gated, ..MoeStyle::PLAIN };
    let info = if has_experts { file.info_with_experts(&style)? } else { file.info()? };
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let n_embd = info.n_embd;
    rope::sections(file)?;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let attention = parts::causal(&info, Some(rope));
    let shape = shape(file, grouped)?;
    let recurrent = recurrent(file, info.n_layer)?;
    let mut layers = Vec::new();
    for (i, recurrent) in recurrent.into_iter().enumerate() {
        let name = |part: &str| format!("blk.{i}.{part}");
        let mixer = match recurrent {
            true => Mixer::GatedDelta(gated_delta(file, i, n_embd, shape, eps)?),
            false => {
                let mut block = file.gated_attention(i, &info)?;
                block.qk_norm = Some(file.qk_head_norm(i, &info, eps)?);
                Mixer::Attention { kind: 0, block }
            }
        };
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&name("attn_norm"), n_embd, eps)?),
            mixer,
            post_attn_norm: None,
            ffn_input: FfnInput::Norm(file.rms_norm(&name("post_attention_norm"), n_embd, eps)?),
            ffn: match has_experts {
                true => file.moe(i, &info, &style)?,
                false => file.gated_mlp(i, &info, Activation::Silu)?,
            },
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.rms_norm("output_norm", n_embd, eps)?;
    let decoder = file.decoder(&info, vec![attention], layers, norm)?;
    Ok((info, decoder))
}

/// Which layers are recurrent: those that the file lists, or else all but one of each interval.
fn recurrent<B: Backend>(file: &Binder<'_, B>, n_layer: usize) -> Result<Vec<bool>> {
    let name = "attention.recurrent_layers";
    let interval = file.optional_dim("full_attention_interval")?.unwrap_or(INTERVAL);
    let layers = match file.bools(name) {
        Some(list) if list.len() < n_layer => {
            let (called, n) = (file.called(name), list.len());
            return Err(Error::Format(format!("{called} has {n} entries for {n_layer} layers")));
        }
        Some(list) => list[..n_layer].to_vec(),
        None if file.has_key(name) => {
            return Err(Error::Format(format!("the key {} is no list of booleans", file.called(name))));
        }
        None => (0..n_layer).map(|i| !(i + 1).is_multiple_of(interval)).collect(),
    };
    match layers.contains(&false) {
        true => Ok(layers),
        false => Err(Error::Unsupported(format!(
            "models without attention ({} says so of no layer) are not supported",
            file.called(if file.has_key(name) { name } else { "full_attention_interval" })
        ))),
    }
}

/// The sizes of the delta nets.
fn shape<B: Backend>(file: &Binder<'_, B>, grouped: bool) -> Result<DeltaShape> {
    let [n_head, n_head_k] = [file.dim("ssm.time_step_rank")?, file.dim("ssm.group_count")?];
    let n_values = file.dim("ssm.inner_size")?;
    file.divides("ssm.time_step_rank", "ssm.group_count")?;
    file.divides("ssm.inner_size", "ssm.time_step_rank")?;
    let (k_dim, v_dim) = (file.dim("ssm.state_size")?, n_values / n_head);
    let conv_len = file.dim("ssm.conv_kernel")?;
    let shape = DeltaShape { n_head, n_head_k, k_dim, v_dim, conv_len, grouped };
    let sizes = [
        n_head_k.checked_mul(k_dim).and_then(|n| n.checked_mul(2)),
        n_values.checked_mul(k_dim),
        n_head_k.checked_mul(k_dim).and_then(|n| n.checked_mul(conv_len)),
        n_values.checked_mul(conv_len),
    ];
    match sizes.iter().all(|n| n.is_some_and(|n| n <= u32::MAX as usize / 4)) {
        true => Ok(shape),
        false => Err(Error::Format(format!(
            "{n_head} heads of values of length {v_dim}, {n_head_k} of keys of length {k_dim} and convolutions of \
             {conv_len} tokens ({} and what belongs to it) are more than fit together",
            file.called("ssm.state_size")
        ))),
    }
}

/// The delta net of layer `i`.
fn gated_delta<B: Backend>(
    file: &mut Binder<'_, B>,
    i: usize,
    n_embd: usize,
    shape: DeltaShape,
    eps: f32,
) -> Result<GatedDelta<B>> {
    let name = |part: &str| format!("blk.{i}.{part}");
    let (n_head, n_channels, n_values) = (shape.n_head, shape.n_channels(), shape.n_values());
    let joint = n_channels + n_values;
    let qkv_z = match file.has(&name("ssm_in.weight")) {
        true => TwoOf::ByHead(file.linear(&name("ssm_in"), joint, n_embd)?),
        false => TwoOf::Apart(
            file.linear(&name("attn_qkv"), n_channels, n_embd)?,
            file.linear(&name("attn_gate"), n_values, n_embd)?,
        ),
    };
    let rate_step = match file.has(&name("ssm_ba.weight")) {
        true => TwoOf::ByHead(file.linear(&name("ssm_ba"), 2 * n_head, n_embd)?),
        false => TwoOf::Apart(
            file.linear(&name("ssm_beta"), n_head, n_embd)?,
            file.linear(&name("ssm_alpha"), n_head, n_embd)?,
        ),
    };
    let conv = &[shape.conv_len, n_channels];
    Ok(GatedDelta {
        qkv_z,
        rate_step,
        conv: file.bind(&name("ssm_conv1d.weight"), conv, 0..n_channels, WeightRole::Vector)?,
        step_bias: file.vector(&name("ssm_dt.bias"), n_head)?,
        a: file.vector(&name("ssm_a"), n_head)?,
        norm: file.rms_norm(&name("ssm_norm"), shape.v_dim, eps)?,
        output: file.linear(&name("ssm_out"), n_embd, n_values)?,
        shape,
    })
}
