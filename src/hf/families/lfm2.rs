//! LFM2 and LFM3: short convolutions in some layers, attention in the others.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::When::{self, If, Never};
use crate::hf::family::{
    Family, Head, Keys, MOST_LAYERS, N_LAYER, Name, layer_kinds, plain_sizes, set_head_dim,
};
use crate::hf::layout::Change::{Same, Squeeze, Stack};
use crate::hf::names::{MODEL, ROTARY_BUFFERS};
use crate::hf::rope::{Rotary, WHOLE_HEADS, proportional};

const NAMES: &[Name] = &[
    ("embed_tokens", "token_embd", Same),
    ("embedding_norm", "token_embd_norm", Same),
    ("lm_head", "output", Same),
    ("layers.{}.operator_norm", "blk.{}.attn_norm", Same),
    ("layers.{}.ffn_norm", "blk.{}.ffn_norm", Same),
    ("layers.{}.self_attn.q_proj", "blk.{}.attn_q", Same),
    ("layers.{}.self_attn.k_proj", "blk.{}.attn_k", Same),
    ("layers.{}.self_attn.v_proj", "blk.{}.attn_v", Same),
    ("layers.{}.self_attn.out_proj", "blk.{}.attn_output", Same),
    ("layers.{}.self_attn.q_layernorm", "blk.{}.attn_q_norm", Same),
    ("layers.{}.self_attn.k_layernorm", "blk.{}.attn_k_norm", Same),
    ("layers.{}.conv.in_proj", "blk.{}.shortconv.in_proj", Same),
    ("layers.{}.conv.conv", "blk.{}.shortconv.conv", Squeeze),
    ("layers.{}.conv.out_proj", "blk.{}.shortconv.out_proj", Same),
    ("layers.{}.feed_forward.w1", "blk.{}.ffn_gate", Same),
    ("layers.{}.feed_forward.w3", "blk.{}.ffn_up", Same),
    ("layers.{}.feed_forward.w2", "blk.{}.ffn_down", Same),
];

const THIRD: &[Name] = &[
    ("layers.{}.post_operator_norm", "blk.{}.post_attention_norm", Same),
    ("layers.{}.post_ffn_norm", "blk.{}.post_ffw_norm", Same),
    ("layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", Same),
    ("layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", Same),
    ("layers.{}.self_attn.gate_proj", "blk.{}.attn_gate", Same),
    ("layers.{}.self_attn.g_proj", "blk.{}.attn_gate", Same),
    ("layers.{}.self_attn.o_proj", "blk.{}.attn_output", Same),
];

const EXPERTS: &[Name] = &[
    ("layers.{}.feed_forward.gate", "blk.{}.ffn_gate_inp", Same),
    ("layers.{}.feed_forward.experts.{}.w1", "blk.{}.ffn_gate_exps", Stack),
    ("layers.{}.feed_forward.experts.{}.w3", "blk.{}.ffn_up_exps", Stack),
    ("layers.{}.feed_forward.experts.{}.w2", "blk.{}.ffn_down_exps", Stack),
    ("layers.{}.feed_forward.expert_bias", "blk.{}.exp_probs_b", Same),
];

const CONV_BIASES: &[(&str, When)] = &[
    ("*.in_proj.bias", If("conv_bias", false)),
    ("*.conv.conv.bias", If("conv_bias", false)),
    ("*.conv.out_proj.bias", If("conv_bias", false)),
    ("*.expert_bias.bias", If("use_expert_bias", true)),
    ("*.bias", Never),
];

/// LFM2, and with experts.
pub const FAMILIES: &[Family] = &[
    Family {
        model_type: "lfm2",
        architecture: "lfm2",
        prefixes: MODEL,
        names: &[NAMES],
        ignored: ROTARY_BUFFERS,
        conditions: CONV_BIASES,
        head: Head::TiedByDefault,
        keys,
    },
    Family {
        model_type: "lfm2_moe",
        architecture: "lfm2moe",
        prefixes: MODEL,
        names: &[NAMES, EXPERTS],
        ignored: ROTARY_BUFFERS,
        conditions: CONV_BIASES,
        head: Head::TiedByDefault,
        keys: mixture,
    },
    Family {
        model_type: "lfm3",
        architecture: "lfm3",
        prefixes: MODEL,
        names: &[NAMES, THIRD],
        ignored: ROTARY_BUFFERS,
        conditions: &[
            ("*.post_operator_norm.weight", If("use_sandwich_norm", true)),
            ("*.post_ffn_norm.weight", If("use_sandwich_norm", true)),
            ("*.gate_proj.weight", If("use_attention_gate", true)),
            ("*.g_proj.weight", If("use_attention_gate", true)),
            ("*.self_attn.q_proj.bias", If("attention_bias", false)),
            ("*.self_attn.k_proj.bias", If("attention_bias", false)),
            ("*.self_attn.v_proj.bias", If("attention_bias", false)),
            ("*.self_attn.o_proj.bias", If("attention_bias", false)),
            ("*.in_proj.bias", If("conv_bias", false)),
            ("*.conv.conv.bias", If("conv_bias", false)),
            ("*.conv.out_proj.bias", If("conv_bias", false)),
            ("*.bias", Never),
        ],
        head: Head::TiedByDefault,
        keys: third,
    },
];

/// What a layer of LFM3 is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Conv,
    Whole,
    Windowed,
}

fn third(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    plain_sizes(config, out)?;
    out.set("feed_forward_length", config.count(&["intermediate_size"])?);
    let n_layer = config.count(N_LAYER)? as usize;
    if n_layer > MOST_LAYERS {
        return Err(config.unsupported(N_LAYER[0], &n_layer.to_string(), &format!("{MOST_LAYERS} at most")));
    }
    let kinds =
        &[("conv", Kind::Conv), ("full_attention", Kind::Whole), ("sliding_attention", Kind::Windowed)];
    let by_default = |i: usize| match i % 4 {
        2 => Kind::Whole,
        0 if i > 0 => Kind::Windowed,
        _ => Kind::Conv,
    };
    let kinds = match layer_kinds(config, "layer_types", Some(n_layer), kinds)? {
        Some(kinds) => kinds,
        None => (0..n_layer).map(by_default).collect(),
    };
    let attends: Vec<bool> = kinds.iter().map(|kind| *kind != Kind::Conv).collect();
    out.set_heads_by_layer(config.optional_count(&["num_key_value_heads"])?.unwrap_or(4), &attends);
    let head_dim = config.optional_count(&["head_dim"])?.unwrap_or(128);
    out.set("attention.key_length", head_dim);
    out.set("attention.value_length", head_dim);
    let windowed: Vec<bool> = kinds.iter().map(|kind| *kind == Kind::Windowed).collect();
    const WINDOW: &str = "sliding_window";
    if config.is_null(WINDOW) && windowed.contains(&true) {
        return Err(config.unsupported(WINDOW, "null", "a number"));
    }
    out.set("attention.sliding_window", config.optional_count(&[WINDOW])?.unwrap_or(256));
    let eps = config.f64(&["norm_eps", "rms_norm_eps"])?.unwrap_or(1e-5);
    out.set_f32("attention.layer_norm_rms_epsilon", Some(eps));
    out.set("shortconv.l_cache", config.optional_count(&["conv_L_cache"])?.unwrap_or(7));
    let mut require = |i: usize, part: &str| out.required.push(format!("blk.{i}.{part}.weight"));
    for (i, attends) in attends.iter().enumerate() {
        if *attends && config.bool("use_attention_gate")?.unwrap_or(true) {
            require(i, "attn_gate");
        }
        if config.bool("use_sandwich_norm")?.unwrap_or(true) {
            require(i, "post_attention_norm");
            require(i, "post_ffw_norm");
        }
    }
    out.set("attention.sliding_window_pattern", windowed);
    proportional(config, out, head_dim, 0.5)
}

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    shared(config, keys)?;
    keys.set("feed_forward_length", feed_forward_length(config)?);
    Ok(())
}

fn mixture(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    shared(config, keys)?;
    let n_layer = config.count(N_LAYER)?;
    let n_dense = config.u32(&["num_dense_layers"])?.unwrap_or(2).min(n_layer);
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    keys.set("leading_dense_block_count", n_dense);
    keys.set("expert_count", config.count(&["num_experts", "num_local_experts"])?);
    keys.set("expert_used_count", config.count(&["num_experts_per_tok"])?);
    keys.set("expert_feed_forward_length", config.count(&["moe_intermediate_size"])?);
    keys.set("expert_gating_func", 2u32);
    let scale = config.positive(&["routed_scaling_factor"])?.filter(|scale| *scale != 1.0);
    keys.set_f32("expert_weights_scale", scale);
    if config.bool("norm_topk_prob")? == Some(false) {
        keys.set("expert_weights_norm", false);
    }
    Ok(())
}

/// The keys of both.
fn shared(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    const TIED: &str = "tie_embedding";
    let tied = config.bool("tie_word_embeddings")?.unwrap_or(true);
    if let Some(found) = config.bool(TIED)?.filter(|found| *found != tied) {
        let supported = format!("{tied}, as \"tie_word_embeddings\"");
        return Err(config.unsupported(TIED, &found.to_string(), &supported));
    }
    plain_sizes(config, keys)?;
    set_head_dim(config, keys)?;
    let n_head_kv = config.optional_count(&["num_key_value_heads"])?.unwrap_or(8);
    match attends(config)? {
        None => keys.set("attention.head_count_kv", n_head_kv),
        Some(attends) => keys.set_heads_by_layer(n_head_kv, &attends),
    }
    let eps = config.f64(&["norm_eps"])?.unwrap_or(1e-5);
    keys.set_f32("attention.layer_norm_rms_epsilon", Some(eps));
    keys.set("shortconv.l_cache", config.optional_count(&["conv_L_cache"])?.unwrap_or(3));
    Rotary { theta: 1e6, ..WHOLE_HEADS }.write(config, keys)
}

/// Which layers have attention; `None`: all.
fn attends(config: &Config<'_>) -> Result<Option<Vec<bool>>> {
    let n_layer = config.count(N_LAYER)? as usize;
    let kinds = &[("conv", false), ("full_attention", true)];
    if let Some(attends) = layer_kinds(config, "layer_types", Some(n_layer), kinds)? {
        return Ok(Some(attends));
    }
    let Some(listed) = config.f64s("full_attn_idxs")? else { return Ok(None) };
    if n_layer > MOST_LAYERS {
        let found = format!("{n_layer}, beside \"full_attn_idxs\"");
        return Err(config.unsupported(N_LAYER[0], &found, &format!("{MOST_LAYERS} at most")));
    }
    Ok(Some((0..n_layer).map(|i| listed.contains(&(i as f64))).collect()))
}

/// The width of the feed-forward block, which is a part of the number that is written, unless the configuration says otherwise.
fn feed_forward_length(config: &Config<'_>) -> Result<u32> {
    const MULTIPLE: &str = "block_multiple_of";
    let written = match config.optional_count(&["block_ff_dim"])? {
        Some(n) => n,
        None => config.count(&["intermediate_size"])?,
    };
    if config.bool("block_auto_adjust_ff_dim")? == Some(false) {
        return Ok(written);
    }
    let n = (2.0 * f64::from(written) / 3.0).floor();
    const FACTOR: &str = "block_ffn_dim_multiplier";
    let n = match config.is_null(FACTOR) {
        true => n,
        false => {
            let multiple = f64::from(config.optional_count(&[MULTIPLE])?.unwrap_or(256));
            let n = (config.positive(&[FACTOR])?.unwrap_or(1.0) * n).floor();
            (n / multiple).ceil() * multiple
        }
    };
    match n {
        1.0..=4294967295.0 => Ok(n as u32),
        _ => {
            Err(config.unsupported("intermediate_size", &format!("{written}, adjusted to {n}"), "1 and more"))
        }
    }
}
