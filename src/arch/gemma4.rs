//! Gemma 4 (Google 2026), text. Layers with a window and those that see everything have heads of different lengths; keys of the
//! latter may be their values too. The last layers read the keys and values of earlier ones. In some models each token has an
//! embedding for each layer, in others there are experts beside the feed-forward blocks.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::{self, MoeStyle};
use super::{ModelInfo, rope};
use crate::backend::{Activation, Backend};
use crate::error::{Error, Result};
use crate::kernels::RopeStyle;
use crate::nn::attention::{AttentionParams, KvSource, QkNorm, SelfAttention};
use crate::nn::decoder::{Decoder, DecoderLayer, Extra, FfnInput};
use crate::nn::head::Head;
use crate::nn::mixer::Mixer;
use crate::nn::mlp::{Dense, Mlp};
use crate::nn::moe::BesideMoe;
use crate::nn::per_layer::{PerLayerEmbd, PerLayerInput};

/// Rotary bases of layers that see everything and of those with a window where the file does not say.
const FREQ_BASE: f32 = 1_000_000.0;
const LOCAL_FREQ_BASE: f32 = 10_000.0;
/// The style of this architecture's experts.
const STYLE: MoeStyle = MoeStyle { activation: Activation::Gelu, ..MoeStyle::PLAIN };

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let n_ff = file.layer_counts("feed_forward_length")?;
    let n_layer = file.n_layer()?;
    let windowed = file.windowed(n_layer, 6)?;
    let n_head_kv = file.layer_counts("attention.head_count_kv")?;
    let of_kind = |of: bool| windowed.iter().zip(&n_head_kv).filter(move |(w, _)| **w == of).map(|(_, n)| *n);
    let (n_global, n_local) = (one(file, of_kind(false))?, one(file, of_kind(true))?);
    let widest = n_ff.iter().max().copied().unwrap_or(0) as usize;
    // Per-layer embeddings use the buffers of the feed-forward blocks.
    let dim = per_layer_dim(file, n_layer)?;
    let mut info = file.with_experts(file.info_with(Some(n_global), widest.max(dim))?, &STYLE)?;
    info.experts.iter_mut().for_each(|experts| experts.n_dense = n_layer);
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let n_embd = info.n_embd;
    let kinds = kinds(file, &info, n_local)?;
    let shared = shared_layers(file, &windowed, 0)?;
    let mut layers = Vec::new();
    for (i, &local) in windowed.iter().enumerate() {
        let name = |part: &str| format!("blk.{i}.{part}");
        let kind = usize::from(local);
        let width = n_ff[i] as usize;
        let dense = Dense::Gated(file.gated(i, "", (width, n_embd), Activation::Gelu)?);
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&name("attn_norm"), n_embd, eps)?),
            mixer: Mixer::Attention {
                kind,
                block: attention(file, i, n_embd, &kinds[kind], shared[i], eps)?,
            },
            post_attn_norm: Some(file.rms_norm(&name("post_attention_norm"), n_embd, eps)?),
            ffn_input: FfnInput::Norm(file.rms_norm(&name("ffn_norm"), n_embd, eps)?),
            ffn: match file.has(&name("ffn_gate_inp.weight")) {
                true => Mlp::Beside(Box::new(beside(file, i, &info, dense, eps)?)),
                false => Mlp::Dense(dense),
            },
            post_ffn_norm: Some(file.rms_norm(&name("post_ffw_norm"), n_embd, eps)?),
            extra: Some(end(file, i, &info, dim, eps)?),
            beside: false,
        });
    }
    let norm = file.rms_norm("output_norm", n_embd, eps)?;
    let plain = file.decoder(&info, kinds, layers, norm)?;
    let decoder = Decoder {
        embd_scale: Some((n_embd as f32).sqrt()),
        per_layer: if dim > 0 { Some(per_layer(file, &info, dim, eps)?) } else { None },
        head: Head { softcap: file.softcap("final_logit_softcapping", None)?, ..plain.head },
        ..plain
    };
    Ok((info, decoder))
}

/// The number of key/value heads that all layers of a kind have; 1 where there are no such layers.
fn one<B: Backend>(file: &Binder<'_, B>, mut counts: impl Iterator<Item = u32>) -> Result<usize> {
    let first = counts.next().unwrap_or(1);
    match first > 0 && counts.all(|n| n == first) {
        true => Ok(first as usize),
        false => Err(Error::Unsupported(format!(
            "layers of a kind with different numbers in {} are not supported",
            file.called("attention.head_count_kv")
        ))),
    }
}

/// For each layer the one whose keys and values it reads, if they are not its own: the last earlier one of its kind, with or
/// without a window. The layers that share are the last `attention.shared_kv_layers`, or `absent` where the file does not say.
pub(super) fn shared_layers<B: Backend>(
    file: &Binder<'_, B>,
    windowed: &[bool],
    absent: usize,
) -> Result<Vec<Option<usize>>> {
    const NAME: &str = "attention.shared_kv_layers";
    let n_layer = windowed.len();
    let n_shared = if file.has_key(NAME) { file.count(NAME)? as usize } else { absent };
    let first = n_layer.checked_sub(n_shared).filter(|&first| first > 0).ok_or_else(|| {
        let called = file.called(NAME);
        Error::Format(format!("{called} is no number of layers after the first of {n_layer}"))
    })?;
    let shared = |(i, local): (usize, &bool)| match windowed[..first].iter().rposition(|w| w == local) {
        _ if i < first => Ok(None),
        Some(of) => Ok(Some(of)),
        None => Err(Error::Format(format!(
            "layer {i} shares keys and values ({}), but no layer before it has any of its kind",
            file.called(NAME)
        ))),
    };
    windowed.iter().enumerate().map(shared).collect()
}

/// Attention that sees everything, and attention with a window.
fn kinds<B: Backend>(
    file: &mut Binder<'_, B>,
    info: &ModelInfo,
    n_local: usize,
) -> Result<Vec<AttentionParams>> {
    let dim = file.optional_dim("attention.key_length_swa")?.unwrap_or(info.head_dim);
    let v_dim = file.optional_dim("attention.value_length_swa")?.unwrap_or(dim);
    file.refuse("attention.value_length_swa", v_dim != dim, "values of another length than keys")?;
    let whole = file.optional_dim("rope.dimension_count")?.is_none_or(|n| n == info.head_dim);
    file.refuse("rope.dimension_count", !whole, "rotary positions of a part of a head")?;
    let rope = rope::params_from(file, info.head_dim, RopeStyle::Halved, FREQ_BASE)?;
    let local_rope = rope::local_params_of(file, dim, RopeStyle::Halved, LOCAL_FREQ_BASE)?;
    if !info.n_head.is_multiple_of(n_local) {
        return Err(Error::Format(format!(
            "the head count {} is no multiple of the key/value head count {n_local} ({})",
            info.n_head,
            file.called("attention.head_count_kv")
        )));
    }
    if info.n_head.checked_mul(dim).is_none_or(|n| n > 1 << 24) {
        return Err(Error::Format(format!(
            "{} heads of length {dim} ({}) are more than fit together",
            info.n_head,
            file.called("attention.key_length_swa")
        )));
    }
    let global = AttentionParams { scale: 1.0, ..parts::causal(info, Some(rope)) };
    let window = file.window()?;
    let local = AttentionParams {
        n_head_kv: n_local,
        head_dim: dim,
        rope: Some(local_rope),
        window,
        ..global.clone()
    };
    Ok(vec![global, local])
}

/// The attention of layer `i`, which reads the keys and values of layer `shared`, if there is one.
pub(super) fn attention<B: Backend>(
    file: &mut Binder<'_, B>,
    i: usize,
    n_embd: usize,
    params: &AttentionParams,
    shared: Option<usize>,
    eps: f32,
) -> Result<SelfAttention<B>> {
    let name = |part: &str| format!("blk.{i}.{part}");
    let dim = params.head_dim;
    let (n_q, n_kv) = (params.n_head * dim, params.n_head_kv * dim);
    let q = file.linear(&name("attn_q"), n_q, n_embd)?;
    let (kv, k_norm) = match shared {
        // Such a layer's own tensors are not used.
        Some(of) => {
            for part in ["attn_k", "attn_v"] {
                if file.has(&name(&format!("{part}.weight"))) {
                    file.linear(&name(part), n_kv, n_embd)?;
                }
            }
            if file.has(&name("attn_k_norm.weight")) {
                file.rms_norm(&name("attn_k_norm"), dim, eps)?;
            }
            (KvSource::Shared(of), None)
        }
        None => {
            let k = file.linear(&name("attn_k"), n_kv, n_embd)?;
            let v = match file.has(&name("attn_v.weight")) {
                true => Some(file.linear(&name("attn_v"), n_kv, n_embd)?),
                false => None,
            };
            let v_norm = Some(file.ones(dim, eps)?);
            (KvSource::Own { k, v, v_norm }, Some(file.rms_norm(&name("attn_k_norm"), dim, eps)?))
        }
    };
    let q_norm = file.rms_norm(&name("attn_q_norm"), dim, eps)?;
    let output = file.linear(&name("attn_output"), n_embd, n_q)?;
    let qk_norm = Some(QkNorm { q: q_norm, k: k_norm, per_head: true, after_rope: false });
    Ok(SelfAttention {
        q,
        kv,
        output,
        qk_norm,
        bias: None,
        sinks: None,
        gated: false,
        head_gate: None,
        sub_norm: None,
    })
}

/// The experts of layer `i` beside its block `dense`.
fn beside<B: Backend>(
    file: &mut Binder<'_, B>,
    i: usize,
    info: &ModelInfo,
    dense: Dense<B>,
    eps: f32,
) -> Result<BesideMoe<B>> {
    let (name, n_embd) = (|part: &str| format!("blk.{i}.{part}"), info.n_embd);
    let mut router_norm = file.ones(n_embd, eps)?;
    router_norm.weight = file.vector(&name("ffn_gate_inp.scale"), n_embd)?;
    let mut moe = file.experts_of(i, info, &STYLE)?;
    moe.router.scale = Some((1.0 / (n_embd as f32).sqrt(), moe.n_expert));
    let scales = name("ffn_down_exps.scale");
    moe.scales = file.has(&scales).then(|| file.vector(&scales, moe.n_expert)).transpose()?;
    Ok(BesideMoe {
        dense,
        dense_norm: file.rms_norm(&name("post_ffw_norm_1"), n_embd, eps)?,
        router_norm,
        moe_norm: file.rms_norm(&name("pre_ffw_norm_2"), n_embd, eps)?,
        moe,
        post_norm: file.rms_norm(&name("post_ffw_norm_2"), n_embd, eps)?,
    })
}

/// Elements of the per-layer embeddings in each layer; 0 where there are none.
pub(super) fn per_layer_dim<B: Backend>(file: &Binder<'_, B>, n_layer: usize) -> Result<usize> {
    const NAME: &str = "embedding_length_per_layer_input";
    let dim = file.count(NAME)? as usize;
    match n_layer.checked_mul(dim).is_some_and(|n| n <= 1 << 24) {
        true => Ok(dim),
        false => Err(Error::Format(format!("{} is {dim}, too much for {n_layer} layers", file.called(NAME)))),
    }
}

/// The operations at the end of layer `i`.
fn end<B: Backend>(
    file: &mut Binder<'_, B>,
    i: usize,
    info: &ModelInfo,
    dim: usize,
    eps: f32,
) -> Result<Extra<B>> {
    let name = format!("blk.{i}.layer_output_scale.weight");
    let scale = file.optional_f32s(&name, 1)?.map_or(1.0, |scale| scale[0]);
    let input = if dim > 0 { Some(per_layer_input(file, i, info, dim, eps)?) } else { None };
    Ok(Extra::End { input, scale })
}

/// How layer `i` uses its per-layer embedding of `dim` elements.
pub(super) fn per_layer_input<B: Backend>(
    file: &mut Binder<'_, B>,
    i: usize,
    info: &ModelInfo,
    dim: usize,
    eps: f32,
) -> Result<PerLayerInput<B>> {
    let (name, n_embd) = (|part: &str| format!("blk.{i}.{part}"), info.n_embd);
    Ok(PerLayerInput {
        gate: file.linear(&name("inp_gate"), dim, n_embd)?,
        projection: file.linear(&name("proj"), n_embd, dim)?,
        norm: file.rms_norm(&name("post_norm"), n_embd, eps)?,
        first: (i * dim, info.n_layer * dim),
        dim,
    })
}

/// The per-layer embeddings, of `dim` elements for each layer.
pub(super) fn per_layer<B: Backend>(
    file: &mut Binder<'_, B>,
    info: &ModelInfo,
    dim: usize,
    eps: f32,
) -> Result<PerLayerEmbd<B>> {
    let (n_layer, n_embd, n) = (info.n_layer, info.n_embd, info.n_layer * dim);
    const TABLE: &str = "per_layer_token_embd.weight";
    // The table may lack the last tokens, which stand for images and audio.
    let n_rows = file.dims(TABLE)?.get(1).map_or(info.n_vocab, |&n_rows| n_rows.min(info.n_vocab));
    let mut projection = file.linear("per_layer_model_proj", n, n_embd)?;
    projection.scale = Some((projection.scale.map_or(1.0, |(scale, _)| scale) / (n_embd as f32).sqrt(), n));
    Ok(PerLayerEmbd {
        table: file.table(TABLE, n_rows, n)?,
        n_rows,
        table_scale: (dim as f32).sqrt(),
        projection,
        norm: file.rms_norm("per_layer_proj_norm", dim, eps)?,
        scale: std::f32::consts::FRAC_1_SQRT_2,
        n_layer,
        dim,
    })
}
