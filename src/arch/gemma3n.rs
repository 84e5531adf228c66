//! Gemma 3n (Google 2025), text: Gemma 3 with a residual stream of several vectors, a layer of low rank beside attention, and
//! per-layer embeddings. The first layers keep few elements of their hidden layers, and the last layers read the keys and values
//! of earlier ones.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::gemma4::{attention, per_layer, per_layer_dim, per_layer_input, shared_layers};
use super::{ModelInfo, parts, rope};
use crate::backend::{Activation, Backend, WeightRole};
use crate::error::{Error, Result};
use crate::kernels::RopeStyle;
use crate::nn::altup::{AltUp, AltUpLayer};
use crate::nn::attention::AttentionParams;
use crate::nn::decoder::{Decoder, DecoderLayer, Extra, FfnInput};
use crate::nn::head::Head;
use crate::nn::linear::Linear;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::{Dense, Mlp};

/// Rotary bases of layers that see everything and of those with a window where the file does not say.
const FREQ_BASE: f32 = 1_000_000.0;
const LOCAL_FREQ_BASE: f32 = 10_000.0;
/// Cap of the logits where the file does not say.
const SOFTCAP: f32 = 30.0;
/// Layers with keys and values of their own where the file does not say.
const N_OWN: usize = 20;
/// The most vectors of the residual stream.
const MOST_STREAMS: usize = 64;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let n_ff = file.layer_counts("feed_forward_length")?;
    let widest = n_ff.iter().max().copied().unwrap_or(0) as usize;
    let n_streams = n_streams(file)?;
    let rank = laurel_rank(file)?;
    let dim = per_layer_dim(file, file.n_layer()?)?;
    if dim == 0 {
        let called = file.called("embedding_length_per_layer_input");
        return Err(Error::Format(format!("{called} is 0, which this architecture has no use for")));
    }
    // These use the buffers of the feed-forward blocks.
    let n_head_kv = file.optional_dim("attention.head_count_kv")?;
    let info = file.info_with(n_head_kv, widest.max(rank).max(dim).max(n_streams * n_streams))?;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let (n_embd, n_layer) = (info.n_embd, info.n_layer);
    let rope = rope::params_from(file, info.head_dim, RopeStyle::Halved, FREQ_BASE)?;
    let local_rope = rope::local_params(file, info.head_dim, RopeStyle::Halved, LOCAL_FREQ_BASE)?;
    let global = AttentionParams { scale: 1.0, ..parts::causal(&info, Some(rope)) };
    let local = AttentionParams { window: file.window()?, rope: Some(local_rope), ..global.clone() };
    let kinds = vec![global, local];
    let windowed = file.windowed(n_layer, 5)?;
    let shared = shared_layers(file, &windowed, n_layer.saturating_sub(N_OWN))?;
    let factors = sparsity(file, n_layer)?;
    let active = active(file, n_streams)?;
    let mut layers = Vec::new();
    for i in 0..n_layer {
        let name = |part: &str| format!("blk.{i}.{part}");
        let kind = usize::from(windowed[i]);
        let mut mlp = file.gated(i, "", (n_ff[i] as usize, n_embd), Activation::Gelu)?;
        mlp.above_mean = factors[i];
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&name("attn_norm"), n_embd, eps)?),
            mixer: Mixer::Attention {
                kind,
                block: attention(file, i, n_embd, &kinds[kind], shared[i], eps)?,
            },
            post_attn_norm: Some(file.rms_norm(&name("post_attention_norm"), n_embd, eps)?),
            ffn_input: FfnInput::Norm(file.rms_norm(&name("ffn_norm"), n_embd, eps)?),
            ffn: Mlp::Dense(Dense::Gated(mlp)),
            post_ffn_norm: Some(file.rms_norm(&name("post_ffw_norm"), n_embd, eps)?),
            extra: Some(Extra::AltUp(Box::new(AltUpLayer {
                active,
                router_norm: file.rms_norm(&name("altup_router_norm"), n_embd, eps)?,
                router: router(file, i, (n_streams, n_embd))?,
                predict: file.linear(&name("altup_predict_coef"), n_streams * n_streams, n_streams)?,
                correct: Linear {
                    bias: Some(file.ones(n_streams, eps)?.weight),
                    ..file.linear(&name("altup_correct_coef"), n_streams, n_streams)?
                },
                gain: match file.has(&name("altup_correct_scale.weight")) {
                    true => Some(file.vector(&name("altup_correct_scale.weight"), n_embd)?),
                    false => None,
                },
                laurel_left: file.linear(&name("laurel_l"), rank, n_embd)?,
                laurel_right: file.linear(&name("laurel_r"), n_embd, rank)?,
                laurel_norm: file.rms_norm(&name("laurel_post_norm"), n_embd, eps)?,
                input: per_layer_input(file, i, &info, dim, eps)?,
                shares: (0..n_streams).map(|stream| if stream == 0 { 0.0 } else { 1.0 }).collect(),
            }))),
            beside: false,
        });
    }
    let norm = file.rms_norm("output_norm", n_embd, eps)?;
    let plain = file.decoder(&info, kinds, layers, norm)?;
    let decoder = Decoder {
        embd_scale: Some((n_embd as f32).sqrt()),
        per_layer: Some(per_layer(file, &info, dim, eps)?),
        altup: Some(AltUp {
            spread: projections(file, "altup_proj", n_streams, n_embd)?,
            gather: projections(file, "altup_unembd_proj", n_streams, n_embd)?,
        }),
        head: Head { softcap: file.softcap("final_logit_softcapping", Some(SOFTCAP))?, ..plain.head },
        ..plain
    };
    Ok((info, decoder))
}

/// Vectors that make the residual stream: 4 where the file does not say.
fn n_streams<B: Backend>(file: &Binder<'_, B>) -> Result<usize> {
    const NAME: &str = "altup.num_inputs";
    let n = file.optional_dim(NAME)?.unwrap_or(4);
    match n <= MOST_STREAMS {
        true => Ok(n),
        false => Err(Error::Format(format!("{} is {n}, expected {MOST_STREAMS} at most", file.called(NAME)))),
    }
}

/// The vector that layers compute with.
fn active<B: Backend>(file: &Binder<'_, B>, n_streams: usize) -> Result<usize> {
    const NAME: &str = "altup.active_idx";
    let active = file.count(NAME)? as usize;
    match active < n_streams {
        true => Ok(active),
        false => Err(Error::Format(format!(
            "{} is {active}, but the residual stream is {n_streams} vectors ({})",
            file.called(NAME),
            file.called("altup.num_inputs")
        ))),
    }
}

/// The rank of the layers beside attention, which has no key.
fn laurel_rank<B: Backend>(file: &Binder<'_, B>) -> Result<usize> {
    let dims = file.dims("blk.0.laurel_l.weight")?;
    Ok(dims.get(1).copied().unwrap_or(1))
}

/// The projection from the active vector to the shares of each vector, followed by tanh.
fn router<B: Backend>(
    file: &mut Binder<'_, B>,
    i: usize,
    (n_streams, n_embd): (usize, usize),
) -> Result<Linear<B>> {
    let plain = file.linear(&format!("blk.{i}.altup_router"), n_streams, n_embd)?;
    let factor = plain.scale.map_or(1.0, |(factor, _)| factor) / n_embd as f32;
    Ok(Linear { scale: Some((factor, n_streams)), ..plain })
}

/// The projections of all streams but the first, which are one tensor.
fn projections<B: Backend>(
    file: &mut Binder<'_, B>,
    name: &str,
    n_streams: usize,
    n_embd: usize,
) -> Result<Vec<Linear<B>>> {
    let name = format!("{name}.weight");
    let dims = [n_embd, n_embd, n_streams - 1];
    let one = |i: usize| {
        let weight = file.bind(&name, &dims, i * n_embd..(i + 1) * n_embd, WeightRole::Matrix)?;
        Ok(Linear { weight, scale: None, bias: None })
    };
    (0..n_streams - 1).map(one).collect()
}

/// How many standard deviations above their mean elements of each layer's hidden gate have to lie; `None`: all are kept.
fn sparsity<B: Backend>(file: &Binder<'_, B>, n_layer: usize) -> Result<Vec<Option<f32>>> {
    const NAME: &str = "activation_sparsity_scale";
    let factors = file.numbers(NAME, n_layer)?.unwrap_or_else(|| vec![f32::NEG_INFINITY; n_layer]);
    let factor = |x: f32| match x {
        f32::NEG_INFINITY => Ok(None),
        x if x.is_finite() => Ok(Some(x)),
        _ => Err(Error::Format(format!("{} has {x}, expected finite numbers or -inf", file.called(NAME)))),
    };
    factors.into_iter().map(factor).collect()
}
