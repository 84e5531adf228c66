//! RWKV-7 (Peng et al. 2025): a recurrence and a feed-forward block in each layer, which both see the token before, and no
//! attention.
#![forbid(unsafe_code)]

use super::ModelInfo;
use super::bind::Binder;
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Mlp;
use crate::nn::norm::{NormKind, NormLayer};
use crate::nn::time_mix::{ChannelMix, LowRank, TimeMix, TokenShift};

/// The epsilon of norms of heads.
const HEAD_EPSILON: f32 = 64e-5;
/// Added to a sum of squares before its root.
const LENGTH_EPSILON: f32 = 1e-24;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let n_ff = file.dim("feed_forward_length")?;
    let info = file.info_without_attention(n_ff)?;
    let (n_embd, eps) = (info.n_embd, file.positive("attention.layer_norm_epsilon")?);
    let head_dim = file.dim("wkv.head_size")?;
    file.divides("embedding_length", "wkv.head_size")?;
    if n_embd.checked_mul(head_dim).is_none_or(|n| n > u32::MAX as usize / 4) {
        return Err(Error::Format(format!(
            "{} is {head_dim}, too long for {n_embd} elements in all",
            file.called("wkv.head_size")
        )));
    }
    let shift = "token_shift_count";
    match file.count(shift)? {
        0 | 2 => {}
        n => {
            return Err(Error::Unsupported(format!(
                "{} is {n}, which is not supported; supported is: 2",
                file.called(shift)
            )));
        }
    }
    let layer = |norm: NormLayer<B>, mixer: Mixer<B>| DecoderLayer {
        attn_norm: Some(norm),
        mixer,
        post_attn_norm: None,
        ffn_input: FfnInput::Shared,
        ffn: Mlp::None,
        post_ffn_norm: None,
        extra: None,
        beside: false,
    };
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        let norm = file.layer_norm(&format!("blk.{i}.attn_norm"), n_embd, eps)?;
        layers.push(layer(norm, Mixer::TimeMix(Box::new(time_mix(file, i, n_embd, head_dim)?))));
        let norm = file.layer_norm(&format!("blk.{i}.attn_norm_2"), n_embd, eps)?;
        layers.push(layer(norm, Mixer::ChannelMix(channel_mix(file, i, n_embd, n_ff)?)));
    }
    let embd_norm = file.layer_norm("token_embd_norm", n_embd, eps)?;
    let norm = file.layer_norm("output_norm", n_embd, eps)?;
    let decoder = file.decoder(&info, Vec::new(), layers, norm)?;
    Ok((info, Decoder { embd_norm: Some(embd_norm), ..decoder }))
}

fn token_shift<B: Backend>(file: &mut Binder<'_, B>, n_embd: usize) -> Result<TokenShift<B>> {
    Ok(TokenShift { difference: file.computed("difference", n_embd, &[1.0, -1.0].repeat(n_embd))? })
}

fn time_mix<B: Backend>(
    file: &mut Binder<'_, B>,
    i: usize,
    n_embd: usize,
    head_dim: usize,
) -> Result<TimeMix<B>> {
    let name = |part: &str| format!("blk.{i}.time_mix_{part}");
    let n_head = n_embd / head_dim;
    let has_gate = file.has(&name("g1.weight"));
    let shares = match has_gate {
        true => file.flat(&name("lerp_fused.weight"), 6 * n_embd)?,
        // The last of six belongs to the gate.
        false => {
            let mut shares = file.flat(&name("lerp_fused.weight"), 5 * n_embd)?;
            shares.resize(6 * n_embd, 0.0);
            shares
        }
    };
    let mut share = |part: usize| file.computed("lerp", 1, &shares[part * n_embd..(part + 1) * n_embd]);
    let shares = [share(0)?, share(1)?, share(2)?, share(3)?, share(4)?, share(5)?];
    let mut square = |part: &str| file.linear(&name(part), n_embd, n_embd);
    let qkv = [square("receptance")?, square("key")?, square("value")?];
    let output = square("output")?;
    let mut low_rank = |letter: &str, rank: &str, has_bias: bool| {
        let rank = file.dim(rank)?;
        let down = file.linear(&name(&format!("{letter}1")), rank, n_embd)?;
        let mut up = file.linear(&name(&format!("{letter}2")), n_embd, rank)?;
        if has_bias {
            up.bias = Some(file.vector(&name(&format!("{letter}0.weight")), n_embd)?);
        }
        Ok::<_, Error>(LowRank { down, up, rank })
    };
    let decay = low_rank("w", "attention.decay_lora_rank", true)?;
    let rate = low_rank("a", "attention.iclr_lora_rank", true)?;
    let gate = has_gate.then(|| low_rank("g", "attention.gate_lora_rank", false)).transpose()?;
    let first_values = match i {
        0 => None,
        _ => Some(low_rank("v", "attention.value_residual_mix_lora_rank", true)?),
    };
    if i == 0 {
        // Files have these in the first layer too, where there are no earlier values to mix with.
        ["v0", "v1", "v2"].iter().for_each(|part| file.leave(&name(&format!("{part}.weight"))));
    }
    let key_rate = file.flat(&name("k_a.weight"), n_embd)?;
    let rest: Vec<f32> = key_rate.iter().map(|p| 1.0 - p).collect();
    let lengths = vec![1.0 / (head_dim as f32).sqrt(); head_dim];
    let known_norm = NormLayer {
        kind: NormKind::Rms,
        weight: file.computed("length", 1, &lengths)?,
        bias: None,
        eps: LENGTH_EPSILON / head_dim as f32,
    };
    let norm = match file.has(&name("ln.weight")) {
        false => None,
        true => {
            let mut of_heads = |part: &str| {
                let values = file.flat(&name(part), n_embd)?;
                file.computed(part, n_head, &values)
            };
            let (weight, bias) = (of_heads("ln.weight")?, Some(of_heads("ln.bias")?));
            Some(NormLayer { kind: NormKind::Layer, weight, bias, eps: HEAD_EPSILON })
        }
    };
    Ok(TimeMix {
        shift: token_shift(file, n_embd)?,
        shares,
        qkv,
        decay,
        rate,
        first_values,
        gate,
        known: file.vector(&name("k_k.weight"), n_embd)?,
        known_norm,
        key_rate: [file.computed("k_a", 1, &key_rate)?, file.computed("k_a", 1, &rest)?],
        norm,
        own: file.vector(&name("r_k.weight"), n_embd)?,
        output,
        n_head,
        head_dim,
    })
}

fn channel_mix<B: Backend>(
    file: &mut Binder<'_, B>,
    i: usize,
    n_embd: usize,
    n_ff: usize,
) -> Result<ChannelMix<B>> {
    let name = |part: &str| format!("blk.{i}.channel_mix_{part}");
    Ok(ChannelMix {
        shift: token_shift(file, n_embd)?,
        share: file.vector(&name("lerp_k.weight"), n_embd)?,
        up: file.linear(&name("key"), n_ff, n_embd)?,
        down: file.linear(&name("value"), n_embd, n_ff)?,
        n_embd,
        n_ff,
    })
}
