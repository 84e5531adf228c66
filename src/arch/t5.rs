//! T5 (Raffel et al. 2020) and what became of it (mT5, UMT5), and its encoder by itself: RMS norms before the blocks, no positions but a bias of
//! scores by distance, and scores that are not scaled.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::encoder_decoder::EncoderDecoder;
use super::relative::Buckets;
use super::{ModelInfo, encoder, parts};
use crate::backend::{Backend, DistanceBias, Pointwise, Sees};
use crate::error::{Error, Result};
use crate::gguf::quoted;
use crate::kernels::GeluForm;
use crate::nn::attention::{AttentionParams, KvSource, SelfAttention};
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::linear::Linear;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::{Activation, Dense, GatedMlp, Mlp, PlainMlp};

/// What GGUF files mean, which do not say it.
const MAX_DISTANCE: usize = 128;
/// The most that is taken: a table has a number for each distance up to it.
const MOST_DISTANCE: usize = 1 << 16;

/// Binds the weights of an encoder by itself.
pub fn bind_encoder<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = encoder::info(file)?;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let attention = AttentionParams { scale: 1.0, ..encoder::attention(&info, None) };
    let layers = encoder_layers(file, &info, 0, eps)?;
    let norm = file.rms_norm("enc.output_norm", info.n_embd, eps)?;
    let decoder = file.decoder(&info, vec![attention], layers, norm)?;
    Ok((info, decoder))
}

/// The layers of an encoder, whose attention is of kind `kind`.
fn encoder_layers<B: Backend>(
    file: &mut Binder<'_, B>,
    info: &ModelInfo,
    kind: usize,
    eps: f32,
) -> Result<Vec<DecoderLayer<B>>> {
    let buckets = buckets(file, true)?;
    let layer = |i: usize| {
        let start = format!("enc.blk.{i}.");
        let block = block(file, &start, info, buckets)?;
        let parts = (format!("{start}attn_norm"), Mixer::Attention { kind, block });
        layer(file, info, parts, Some(&start), eps)
    };
    (0..info.n_layer).map(layer).collect()
}

/// A layer whose mixer comes after the norm of this name, and with the feed-forward block under `ffn` after its own, if there is one.
fn layer<B: Backend>(
    file: &mut Binder<'_, B>,
    info: &ModelInfo,
    (norm, mixer): (String, Mixer<B>),
    ffn: Option<&str>,
    eps: f32,
) -> Result<DecoderLayer<B>> {
    let attn_norm = Some(file.rms_norm(&norm, info.n_embd, eps)?);
    let (ffn_input, ffn) = match ffn {
        Some(start) => {
            let norm = file.rms_norm(&format!("{start}ffn_norm"), info.n_embd, eps)?;
            (FfnInput::Norm(norm), mlp(file, start, info)?)
        }
        None => (FfnInput::Residual, Mlp::None),
    };
    Ok(DecoderLayer {
        attn_norm,
        mixer,
        post_attn_norm: None,
        ffn_input,
        ffn,
        post_ffn_norm: None,
        extra: None,
        beside: false,
    })
}

/// Binds the weights of an encoder and its decoder.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, EncoderDecoder<B>)> {
    const START: &str = "decoder_start_token_id";
    const HEADS: &str = "attention.head_count_kv";
    let info = file.info()?;
    file.refuse(
        HEADS,
        info.n_head_kv != info.n_head,
        "fewer heads of keys than of queries in this architecture",
    )?;
    if !info.has_logits {
        return Err(Error::Unsupported(format!(
            "the architecture \"{}\" without an output projection is not supported",
            info.architecture
        )));
    }
    if !file.has_key(START) {
        return Err(Error::Format(format!("the required key {} is missing", file.called(START))));
    }
    let start = file.count(START)?;
    if start as usize >= info.n_vocab {
        return Err(Error::Format(format!(
            "{} is {start}, but the vocabulary has {} tokens",
            file.called(START),
            info.n_vocab
        )));
    }
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let n_decoder = file.optional_dim("decoder_block_count")?.unwrap_or(info.n_layer);
    let buckets = buckets(file, false)?;
    let plain = AttentionParams { scale: 1.0, ..parts::causal(&info, None) };
    let of_answer = AttentionParams { sees: Sees::Decoded, ..plain.clone() };
    let of_text = AttentionParams { sees: Sees::Encoded, causal: false, ..plain.clone() };
    let kinds = vec![of_answer, of_text, AttentionParams { causal: false, ..plain }];
    let encoder = encoder_layers(file, &info, 2, eps)?;
    let encoder_norm = file.rms_norm("enc.output_norm", info.n_embd, eps)?;
    let (n, n_embd) = (info.n_head * info.head_dim, info.n_embd);
    let (mut layers, mut cross) = (Vec::new(), Vec::new());
    for i in 0..n_decoder {
        let start = format!("dec.blk.{i}.");
        let block = block(file, &start, &info, buckets)?;
        let parts = (format!("{start}attn_norm"), Mixer::Attention { kind: 0, block });
        layers.push(layer(file, &info, parts, None, eps)?);
        let part = |part: &str| format!("{start}cross_attn_{part}");
        // The first checkpoints have one, which no implementation reads.
        file.leave(&part("rel_b.weight"));
        cross.push((file.linear(&part("k"), n, n_embd)?, file.linear(&part("v"), n, n_embd)?));
        let q = file.linear(&part("q"), n, n_embd)?;
        let output = file.linear(&part("o"), n_embd, n)?;
        let kv = KvSource::Shared(layers.len() - 1);
        let block = attention(q, kv, output, None);
        let parts = (part("norm"), Mixer::Attention { kind: 1, block });
        layers.push(layer(file, &info, parts, Some(&start), eps)?);
    }
    let norm = file.rms_norm("dec.output_norm", n_embd, eps)?;
    // A file does not say whether logits are scaled: they are where the embedding is the projection, as it is in the first T5.
    let is_tied = !file.has("output.weight") || file.are_equal("output.weight", "token_embd.weight");
    let scale = match file.optional_positive("logit_scale")? {
        None if is_tied => Some(1.0 / (n_embd as f32).sqrt()),
        scale => scale,
    };
    let mut decoder = file.decoder(&info, kinds, layers, norm)?;
    decoder.head.scale = scale;
    let info = ModelInfo { decoder_start: Some(start), ..info };
    Ok((info, EncoderDecoder { encoder, encoder_norm, cross, decoder }))
}

/// How distances fall into buckets.
fn buckets<B: Backend>(file: &Binder<'_, B>, both_ways: bool) -> Result<Buckets> {
    let (count, most) = ("attention.relative_buckets_count", "attention.relative_max_distance");
    let (n, max_distance) = (file.dim(count)?, file.optional_dim(most)?.unwrap_or(MAX_DISTANCE));
    let exact = if both_ways { n / 4 } else { n / 2 };
    file.refuse(count, exact == 0, "fewer than 4 buckets of distances")?;
    file.refuse(most, max_distance > MOST_DISTANCE, "distances of more than 65536")?;
    let what = format!("more buckets of distances than {} has distances", file.called(most));
    file.refuse(count, max_distance <= exact, &what)?;
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
    let bias = Some(bias(file, start, info, buckets)?);
    Ok(attention(q, KvSource::Own { k, v: Some(v), v_norm: None }, output, bias))
}

fn attention<B: Backend>(
    q: Linear<B>,
    kv: KvSource<B>,
    output: Linear<B>,
    bias: Option<DistanceBias<B::Weight>>,
) -> SelfAttention<B> {
    SelfAttention {
        q,
        kv,
        output,
        qk_norm: None,
        bias,
        sinks: None,
        gated: false,
        head_gate: None,
        sub_norm: None,
    }
}

fn bias<B: Backend>(
    file: &mut Binder<'_, B>,
    start: &str,
    info: &ModelInfo,
    buckets: Buckets,
) -> Result<DistanceBias<B::Weight>> {
    let own = format!("{start}attn_rel_b.weight");
    let of_first = format!("{}.blk.0.attn_rel_b.weight", if buckets.both_ways { "enc" } else { "dec" });
    buckets.bind(file, if file.has(&own) { &own } else { &of_first }, info.n_head)
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
