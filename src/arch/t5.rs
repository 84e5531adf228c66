//! The encoder of T5 (Raffel et al. 2020) and of what became of it (mT5, UMT5): RMS norms before the blocks, no positions but a bias of
//! scores by distance, and scores that are not scaled.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::relative::Buckets;
use super::{ModelInfo, encoder};
use crate::backend::{Backend, DistanceBias, Pointwise};
use crate::error::{Error, Result};
use crate::gguf::quoted;
use crate::kernels::GeluForm;
use crate::nn::attention::{AttentionParams, KvSource, SelfAttention};
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::{Activation, Dense, GatedMlp, Mlp, PlainMlp};

/// What GGUF files mean, which do not say it.
const MAX_DISTANCE: usize = 128;
/// The most that is taken: a table has a number for each distance up to it.
const MOST_DISTANCE: usize = 1 << 16;

/// Why a file of the architecture `name` is refused, if that is the encoder with its decoder.
pub fn refused(name: &str) -> Option<&'static str> {
    (name == "t5").then_some(
        "the architecture \"t5\" is an encoder with a decoder, and Ember has no decoder that reads what an encoder gives: \
         it runs the encoder by itself (\"t5encoder\")",
    )
}

/// Binds the weights of an encoder by itself.
pub fn bind_encoder<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = encoder::info(file)?;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let buckets = buckets(file, true)?;
    let attention = AttentionParams { scale: 1.0, ..encoder::attention(&info, None) };
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        let name = |part: &str| format!("enc.blk.{i}.{part}");
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&name("attn_norm"), info.n_embd, eps)?),
            mixer: Mixer::Attention {
                kind: 0,
                block: block(file, &format!("enc.blk.{i}."), &info, buckets)?,
            },
            post_attn_norm: None,
            ffn_input: FfnInput::Norm(file.rms_norm(&name("ffn_norm"), info.n_embd, eps)?),
            ffn: mlp(file, &format!("enc.blk.{i}."), &info)?,
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.rms_norm("enc.output_norm", info.n_embd, eps)?;
    let decoder = file.decoder(&info, vec![attention], layers, norm)?;
    Ok((info, decoder))
}

/// How distances fall into buckets.
fn buckets<B: Backend>(file: &Binder<'_, B>, both_ways: bool) -> Result<Buckets> {
    let (count, most) = ("attention.relative_buckets_count", "attention.relative_max_distance");
    let (n, max_distance) = (file.dim(count)?, file.optional_dim(most)?.unwrap_or(MAX_DISTANCE));
    let exact = if both_ways { n / 4 } else { n / 2 };
    file.refuse(count, exact == 0, "fewer than 4 buckets of distances")?;
    file.refuse(most, max_distance > MOST_DISTANCE, "distances of more than 65536")?;
    file.refuse(count, max_distance <= exact, "more buckets of distances than there are distances")?;
    Ok(Buckets { n, max_distance, both_ways })
}

/// The attention of the layer whose tensors' names begin with `start`. Layers without a bias of their own have that of the first.
fn block<B: Backend>(
    file: &mut Binder<'_, B>,
    start: &str,
    info: &ModelInfo,
    buckets: Buckets,
) -> Result<SelfAttention<B>> {
    let (n_q, n_kv) = (info.n_head * info.head_dim, info.n_head_kv * info.head_dim);
    let q = file.linear(&format!("{start}attn_q"), n_q, info.n_embd)?;
    let k = file.linear(&format!("{start}attn_k"), n_kv, info.n_embd)?;
    let v = file.linear(&format!("{start}attn_v"), n_kv, info.n_embd)?;
    let output = file.linear(&format!("{start}attn_o"), info.n_embd, n_q)?;
    Ok(SelfAttention {
        q,
        kv: KvSource::Own { k, v: Some(v), v_norm: None },
        output,
        qk_norm: None,
        bias: Some(bias(file, start, info, buckets)?),
        sinks: None,
        gated: false,
        head_gate: None,
        sub_norm: None,
    })
}

fn bias<B: Backend>(
    file: &mut Binder<'_, B>,
    start: &str,
    info: &ModelInfo,
    buckets: Buckets,
) -> Result<DistanceBias<B::Weight>> {
    let own = format!("{start}attn_rel_b.weight");
    let name = if file.has(&own) { own.as_str() } else { "enc.blk.0.attn_rel_b.weight" };
    buckets.bind(file, name, info.n_head)
}

/// Feed-forward, with gates where the file has them. GGUF files do not say what passes through what: GELU with gates, and ReLU without.
fn mlp<B: Backend>(file: &mut Binder<'_, B>, start: &str, info: &ModelInfo) -> Result<Mlp<B>> {
    const ACTIVATION: &str = "hidden_activation";
    let (n_ff, n_embd) = (info.n_ff, info.n_embd);
    let gate = format!("{start}ffn_gate");
    let has_gate = file.has(&format!("{gate}.weight"));
    let (with, without) = match file.optional_str(ACTIVATION)? {
        None if has_gate => (Activation::Gelu, Pointwise::Gelu(GeluForm::Tanh)),
        None | Some("relu") => (Activation::Relu, Pointwise::Relu),
        Some("gelu") => (Activation::GeluErf, Pointwise::Gelu(GeluForm::Erf)),
        Some("gelu_pytorch_tanh") => (Activation::Gelu, Pointwise::Gelu(GeluForm::Tanh)),
        Some("silu") => (Activation::Silu, Pointwise::Silu),
        Some(other) => {
            return Err(Error::Unsupported(format!(
                "the activation {} ({}) is not supported; supported are: relu, gelu, gelu_pytorch_tanh, silu",
                quoted(other.as_bytes()),
                file.called(ACTIVATION)
            )));
        }
    };
    let gate = has_gate.then(|| file.linear(&gate, n_ff, n_embd)).transpose()?;
    let up = file.linear(&format!("{start}ffn_up"), n_ff, n_embd)?;
    let down = file.linear(&format!("{start}ffn_down"), n_embd, n_ff)?;
    Ok(Mlp::Dense(match gate {
        Some(gate) => Dense::Gated(GatedMlp {
            gate,
            up,
            down,
            n_ff,
            above_mean: None,
            activation: with,
            sub_norm: None,
        }),
        None => Dense::Plain(PlainMlp { up, down, n_ff, activation: without }),
    }))
}
