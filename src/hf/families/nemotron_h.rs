//! Nemotron-H and Nemotron 3: layers of one block each, of four kinds.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::gguf::quoted;
use crate::hf::config::Config;
use crate::hf::family::When::{self, Always, If, Never};
use crate::hf::family::{Family, HIDDEN_SIZE, Head, Keys, N_CTX, N_HEAD, Name, layer_kinds};
use crate::hf::layout::Change::{MinusExp, Same, Squeeze, Stack};

const NAMES: &[Name] = &[
    ("embeddings", "token_embd", Same),
    ("norm_f", "output_norm", Same),
    ("lm_head", "output", Same),
    ("layers.{}.norm", "blk.{}.attn_norm", Same),
    ("layers.{}.mixer.q_proj", "blk.{}.attn_q", Same),
    ("layers.{}.mixer.k_proj", "blk.{}.attn_k", Same),
    ("layers.{}.mixer.v_proj", "blk.{}.attn_v", Same),
    ("layers.{}.mixer.o_proj", "blk.{}.attn_output", Same),
    ("layers.{}.mixer.in_proj", "blk.{}.ssm_in", Same),
    ("layers.{}.mixer.conv1d", "blk.{}.ssm_conv1d", Squeeze),
    ("layers.{}.mixer.dt_bias", "blk.{}.ssm_dt", Same),
    ("layers.{}.mixer.A_log", "blk.{}.ssm_a", MinusExp),
    ("layers.{}.mixer.D", "blk.{}.ssm_d", Same),
    ("layers.{}.mixer.norm", "blk.{}.ssm_norm", Same),
    ("layers.{}.mixer.out_proj", "blk.{}.ssm_out", Same),
    ("layers.{}.mixer.up_proj", "blk.{}.ffn_up", Same),
    ("layers.{}.mixer.down_proj", "blk.{}.ffn_down", Same),
    ("layers.{}.mixer.gate", "blk.{}.ffn_gate_inp", Same),
    ("layers.{}.mixer.gate.e_score_correction_bias", "blk.{}.exp_probs_b", Same),
    ("layers.{}.mixer.experts.{}.up_proj", "blk.{}.ffn_up_exps", Stack),
    ("layers.{}.mixer.experts.{}.down_proj", "blk.{}.ffn_down_exps", Stack),
    ("layers.{}.mixer.experts.up_proj", "blk.{}.ffn_up_exps", Same),
    ("layers.{}.mixer.experts.down_proj", "blk.{}.ffn_down_exps", Same),
    ("layers.{}.mixer.shared_experts.up_proj", "blk.{}.ffn_up_shexp", Same),
    ("layers.{}.mixer.shared_experts.down_proj", "blk.{}.ffn_down_shexp", Same),
    ("layers.{}.mixer.fc1_latent_proj", "blk.{}.ffn_latent_down", Same),
    ("layers.{}.mixer.fc2_latent_proj", "blk.{}.ffn_latent_up", Same),
];

const BIASES: &[(&str, When)] = &[
    ("*.dt_bias.bias", Always),
    ("*.e_score_correction_bias.bias", Always),
    ("*.conv1d.bias", If("use_conv_bias", true)),
    ("*.in_proj.bias", If("use_bias", false)),
    ("*.out_proj.bias", If("use_bias", false)),
    ("*.up_proj.bias", If("mlp_bias", false)),
    ("*.down_proj.bias", If("mlp_bias", false)),
    ("*_latent_proj.bias", If("mlp_bias", false)),
    ("*.bias", Never),
];

/// Nemotron-H and Nemotron 3, with experts or without.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "nemotron_h",
    architecture: "nemotron_h",
    prefixes: &["backbone.", "model."],
    names: &[NAMES],
    ignored: &["mtp.*"],
    conditions: BIASES,
    head: Head::Stored,
    keys,
}];

/// What a layer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Mamba,
    Attention,
    Mlp,
    Moe,
}

/// Their names in lists.
const KINDS: &[(&str, Kind)] = &[
    ("mamba", Kind::Mamba),
    ("linear_attention", Kind::Mamba),
    ("attention", Kind::Attention),
    ("full_attention", Kind::Attention),
    ("mlp", Kind::Mlp),
    ("moe", Kind::Moe),
];

fn keys(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    config.expect_str(&["mlp_hidden_act"], &["relu2"])?;
    config.expect_str(&["mamba_hidden_act"], &["silu", "swish"])?;
    let layers = layers(config)?;
    if layers.is_empty() {
        return Err(config.unsupported(list(config), "empty", "one layer and more"));
    }
    out.set("block_count", layers.len() as u32);
    out.set("context_length", config.count(N_CTX)?);
    out.set("embedding_length", config.count(HIDDEN_SIZE)?);
    out.set("attention.head_count", config.count(N_HEAD)?);
    out.set_some("vocab_size", config.u32(&["vocab_size"])?);
    let count = |key: &str, default: u32| Ok::<_, Error>(config.optional_count(&[key])?.unwrap_or(default));
    let attends: Vec<bool> = layers.iter().map(|kind| *kind == Kind::Attention).collect();
    out.set_heads_by_layer(count("num_key_value_heads", 8)?, &attends);
    let head_dim = config.optional_count(&["head_dim", "attention_head_dim"])?.unwrap_or(128);
    out.set("attention.key_length", head_dim);
    out.set("attention.value_length", head_dim);
    let eps = config.f64(&["layer_norm_epsilon"])?.unwrap_or(1e-5);
    out.set_f32("attention.layer_norm_rms_epsilon", Some(eps));
    let n_head = count("mamba_num_heads", 128)?;
    let head_dim = count("mamba_head_dim", 64)?;
    let inner = n_head.checked_mul(head_dim);
    out.set(
        "ssm.inner_size",
        inner.ok_or_else(|| config.unsupported("mamba_head_dim", &head_dim.to_string(), "less"))?,
    );
    out.set("ssm.time_step_rank", n_head);
    out.set("ssm.group_count", config.optional_count(&["mamba_n_groups", "n_groups"])?.unwrap_or(8));
    out.set("ssm.state_size", count("ssm_state_size", 128)?);
    out.set("ssm.conv_kernel", config.optional_count(&["mamba_d_conv", "conv_kernel"])?.unwrap_or(4));
    out.least_time_step = config.f64(&["mamba_dt_min", "time_step_min"])?.unwrap_or(0.001) as f32;
    let width = match layers.contains(&Kind::Moe) {
        true => experts(config, out, &layers)?,
        false => config.count(&["intermediate_size"])?,
    };
    let width = i32::try_from(width).unwrap_or(i32::MAX);
    let of = |kind: &Kind| if matches!(kind, Kind::Mlp | Kind::Moe) { width } else { 0 };
    out.set("feed_forward_length", layers.iter().map(of).collect::<Vec<i32>>());
    Ok(())
}

/// The keys of experts, and their width.
fn experts(config: &Config<'_>, out: &mut Keys, layers: &[Kind]) -> Result<u32> {
    if layers.contains(&Kind::Mlp) {
        return Err(config.unsupported(list(config), "both \"mlp\" and \"moe\"", "one of the two"));
    }
    for key in ["n_group", "topk_group"] {
        if let Some(found) = config.u32(&[key])?.filter(|found| *found != 1) {
            return Err(config.unsupported(key, &found.to_string(), "1"));
        }
    }
    let count = |keys: &[&str], default: u32| Ok::<_, Error>(config.optional_count(keys)?.unwrap_or(default));
    out.set("expert_count", count(&["n_routed_experts", "num_local_experts"], 8)?);
    out.set("expert_used_count", count(&["num_experts_per_tok"], 2)?);
    let width = count(&["moe_intermediate_size"], 7688)?;
    out.set("expert_feed_forward_length", width);
    out.set("expert_shared_feed_forward_length", count(&["moe_shared_expert_intermediate_size"], 7688)?);
    out.set("expert_weights_norm", config.bool("norm_topk_prob")?.unwrap_or(true));
    out.set_f32("expert_weights_scale", config.positive(&["routed_scaling_factor"])?);
    out.set_some("moe_latent_size", config.optional_count(&["moe_latent_size"])?);
    Ok(width)
}

/// The key that says what the layers are: the first of the lists that is there, or else the string.
fn list(config: &Config<'_>) -> &'static str {
    ["layer_types", "layers_block_type"]
        .into_iter()
        .find(|key| config.has(key))
        .unwrap_or("hybrid_override_pattern")
}

/// What each layer is.
fn layers(config: &Config<'_>) -> Result<Vec<Kind>> {
    const PATTERN: &str = "hybrid_override_pattern";
    if list(config) != PATTERN {
        return Ok(layer_kinds(config, list(config), None, KINDS)?.unwrap_or_default());
    }
    let Some(pattern) = config.str(&[PATTERN])? else {
        return Err(config.missing(&["layers_block_type", PATTERN]));
    };
    let kind = |letter: char| match letter {
        'M' => Ok(Kind::Mamba),
        '*' => Ok(Kind::Attention),
        '-' => Ok(Kind::Mlp),
        'E' => Ok(Kind::Moe),
        _ => Err(config.unsupported(PATTERN, &quoted(pattern.as_bytes()), "a string of M, E, * and -")),
    };
    pattern.chars().map(kind).collect()
}
