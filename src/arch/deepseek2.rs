//! DeepSeek V2 and V3 (DeepSeek-AI 2024) and models with their graph, GLM-4.7-Flash among them: latent attention, and experts
//! beside some that every token takes, except in the first layers.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::{self, MoeStyle, Shared};
use super::{ModelInfo, rope};
use crate::backend::{Backend, Gating, Groups, WeightRole};
use crate::error::{Error, Result};
use crate::kernels::RopeStyle;
use crate::nn::attention::AttentionParams;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::latent::{Latent, LatentShape, Queries};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Added to the sum of shares.
const EPSILON: f32 = 1e-20;
/// The epsilon of norms of latent vectors, whatever that of other norms is.
const LATENT_EPS: f32 = 1e-6;
/// Layers and tokens of GLM-4.7-Flash, whose first files do not say that its router uses sigmoids.
const GLM_FLASH: ([usize; 2], usize) = ([47, 48], 154_880);

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let shape = shape(file)?;
    let info = file.info_with(Some(1), file.optional_dim("feed_forward_length")?.unwrap_or(0))?;
    let (n_embd, n_layer) = (info.n_embd, info.n_layer);
    let is_flash = GLM_FLASH.0.contains(&n_layer) && info.n_vocab == GLM_FLASH.1;
    let mut style = MoeStyle {
        normalize: false,
        shared: Shared::Plain,
        sigmoid: Some(EPSILON),
        gating: if is_flash { Gating::Sigmoid } else { Gating::Softmax },
        ..MoeStyle::PLAIN
    };
    let mut info = file.with_experts(info, &style)?;
    let n_shared = file.count("expert_shared_count")? as usize;
    let n_dense = file.count("leading_dense_block_count")? as usize;
    if let Some(experts) = &mut info.experts {
        experts.n_dense = n_dense.min(n_layer);
        experts.n_ff_shared =
            n_shared.checked_mul(experts.n_ff).filter(|&n| n <= 1 << 24).ok_or_else(|| {
                let called = file.called("expert_shared_count");
                Error::Format(format!("{called} is {n_shared}, too many experts of width {}", experts.n_ff))
            })?;
        let two = file.count("expert_gating_func")? == 2;
        style.groups = groups(file, experts.n_expert, experts.n_used, two)?;
    }
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let attention = attention(file, &info, shape, RopeStyle::Interleaved)?;
    let mut layers = Vec::new();
    for i in 0..n_layer {
        let name = |part: &str| format!("blk.{i}.{part}");
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&name("attn_norm"), n_embd, eps)?),
            mixer: Mixer::Latent { kind: 0, block: latent(file, i, n_embd, shape)? },
            post_attn_norm: None,
            ffn_input: FfnInput::Norm(file.rms_norm(&name("ffn_norm"), n_embd, eps)?),
            ffn: match info.experts {
                Some(experts) if i >= experts.n_dense => file.moe(i, &info, &style)?,
                _ => file.gated_mlp(i, &info, Activation::Silu)?,
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

/// The sizes of the attention. In early files keys and values are those of heads.
pub fn shape<B: Backend>(file: &Binder<'_, B>) -> Result<LatentShape> {
    let (n_head, rope_dim) = (file.dim("attention.head_count")?, file.dim("rope.dimension_count")?);
    let (latent_dim, q_latent_dim) =
        (file.dim("attention.kv_lora_rank")?, file.count("attention.q_lora_rank")? as usize);
    let is_absorbed = file.has_key("attention.key_length_mla");
    let k_name = if is_absorbed { "attention.key_length_mla" } else { "attention.key_length" };
    let k_dim = file.dim(k_name)?;
    let v_dim = match (is_absorbed, file.optional_dim("attention.value_length")?) {
        (true, _) => file.dim("attention.value_length_mla")?,
        (false, Some(n)) => n,
        (false, None) => file.dim("embedding_length")? / n_head,
    };
    let Some(nope_dim) = k_dim.checked_sub(rope_dim).filter(|&n| n > 0 && v_dim > 0) else {
        return Err(Error::Format(format!(
            "{} is {k_dim}, expected more than {rope_dim} ({})",
            file.called(k_name),
            file.called("rope.dimension_count")
        )));
    };
    // The sizes of the key and the value that all heads share follow from these.
    let of_all = [
        ("attention.key_length", latent_dim + rope_dim),
        ("attention.value_length", latent_dim),
        ("attention.head_count_kv", 1),
    ];
    for (name, expected) in of_all.into_iter().filter(|_| is_absorbed) {
        if let Some(found) = file.optional_dim(name)?.filter(|&found| found != expected) {
            return Err(Error::Format(format!("{} is {found}, expected {expected}", file.called(name))));
        }
    }
    let shape = LatentShape { n_head, nope_dim, rope_dim, latent_dim, v_dim, q_latent_dim };
    let longest = k_dim.max(latent_dim + rope_dim).max(v_dim);
    match n_head.checked_mul(longest).is_some_and(|n| n <= 1 << 24) && q_latent_dim <= 1 << 24 {
        true => Ok(shape),
        false => Err(Error::Format(format!(
            "{n_head} heads of length {longest} ({}, {}) are more than fit together",
            file.called(k_name),
            file.called("attention.kv_lora_rank")
        ))),
    }
}

/// How all heads read the shared key and value of a token.
pub fn attention<B: Backend>(
    file: &mut Binder<'_, B>,
    info: &ModelInfo,
    shape: LatentShape,
    style: RopeStyle,
) -> Result<AttentionParams> {
    let LatentShape { rope_dim, latent_dim, nope_dim, .. } = shape;
    let key_dim = rope_dim + latent_dim;
    let mut rope = rope::params(file, key_dim, style)?;
    // Files give a tenth of the multiplier in YaRN's factor on scores; with it keys and queries have no factor.
    const LOG: &str = "rope.scaling.yarn_log_multiplier";
    let plain = 1.0 / ((nope_dim + rope_dim) as f32).sqrt();
    let mut scale = file.optional_positive("attention.scale")?.unwrap_or(plain);
    let is_yarn = file.optional_str("rope.scaling.type")? == Some("yarn");
    if let Some(tenth) = file.optional_number(LOG)?.filter(|&tenth| tenth != 0.0 && is_yarn) {
        let factor = file.optional_positive("rope.scaling.factor")?.unwrap_or(1.0);
        let on_scores = rope::stretched(factor, 10.0 * tenth);
        scale *= on_scores * on_scores;
        rope.magnitude = file.optional_positive("rope.scaling.attn_factor")?.unwrap_or(1.0);
        if !(scale > 0.0 && scale.is_finite()) {
            return Err(Error::Format(format!(
                "{} is {tenth}, which gives no factor on scores",
                file.called(LOG)
            )));
        }
    }
    let plain = parts::causal(info, Some(rope));
    let values = AttentionParams { v_dim: Some(latent_dim), v_at: Some(rope_dim), ..plain };
    Ok(AttentionParams { n_head_kv: 1, head_dim: key_dim, scale, ..values })
}

/// The attention of layer `i`.
pub fn latent<B: Backend>(
    file: &mut Binder<'_, B>,
    i: usize,
    n_embd: usize,
    shape: LatentShape,
) -> Result<Latent<B>> {
    let name = |part: &str| format!("blk.{i}.attn_{part}");
    let LatentShape { n_head, nope_dim, rope_dim, latent_dim, v_dim, q_latent_dim } = shape;
    let n_q = n_head * (nope_dim + rope_dim);
    let queries = match q_latent_dim {
        0 => Queries::Direct(file.linear(&name("q"), n_q, n_embd)?),
        n => Queries::Latent {
            down: file.linear(&name("q_a"), n, n_embd)?,
            norm: file.rms_norm(&name("q_a_norm"), n, LATENT_EPS)?,
            up: file.linear(&name("q_b"), n_q, n)?,
        },
    };
    let heads = |n_rows: usize, n_cols: usize| [n_cols, n_rows, n_head];
    let (k, v) = match file.has(&name("kv_b.weight")) {
        true => file.split_kv(&name("kv_b.weight"), (n_head, nope_dim, v_dim, latent_dim))?,
        false => {
            let (n_k, n_v, role) = (n_head * latent_dim, n_head * v_dim, WeightRole::Matrix);
            let k = file.bind(&name("k_b.weight"), &heads(latent_dim, nope_dim), 0..n_k, role)?;
            (k, file.bind(&name("v_b.weight"), &heads(v_dim, latent_dim), 0..n_v, role)?)
        }
    };
    Ok(Latent {
        queries,
        kv: file.linear(&name("kv_a_mqa"), latent_dim + rope_dim, n_embd)?,
        norm: file.rms_norm(&name("kv_a_norm"), latent_dim, LATENT_EPS)?,
        k,
        v,
        output: file.linear(&name("output"), n_embd, n_head * v_dim)?,
        heads: (0..n_head).flat_map(|head| [head as f32, 1.0]).collect(),
        shape,
    })
}

/// The groups of experts; `two` as in [`Groups`].
pub fn groups<B: Backend>(
    file: &Binder<'_, B>,
    n_expert: usize,
    n_used: usize,
    two: bool,
) -> Result<Option<Groups>> {
    const COUNT: &str = "expert_group_count";
    let n = file.count(COUNT)? as usize;
    let n_groups_used = file.count("expert_group_used_count")? as usize;
    if n <= 1 {
        return Ok(None);
    }
    if n > Groups::MOST || !n_expert.is_multiple_of(n) {
        return Err(Error::Format(format!(
            "{} is {n}, expected {} at most, and a number that {n_expert} experts can be divided by",
            file.called(COUNT),
            Groups::MOST
        )));
    }
    if !(1..=n).contains(&n_groups_used) || n_groups_used * (n_expert / n) < n_used {
        return Err(Error::Format(format!(
            "{} is {n_groups_used}, expected 1 to {n} ({}), with {n_used} experts in them",
            file.called("expert_group_used_count"),
            file.called(COUNT)
        )));
    }
    Ok(Some(Groups { n, n_used: n_groups_used, two }))
}
