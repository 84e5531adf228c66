//! Qwen3-Next and Qwen 3.5: gated delta nets in most layers, attention with an output gate in the others. Their norms multiply by
//! one plus the weight, but for those within a delta net.
#![forbid(unsafe_code)]

use super::qwen::SHARED_EXPERT;
use crate::error::{Error, Result};
use crate::hf::config::Config;
use crate::hf::family::When::{self, Always, If, Never};
use crate::hf::family::{Family, Head, Keys, N_LAYER, Name, layer_kinds, rms_norm_eps, sizes};
use crate::hf::layout::Change::{MinusExp, PlusOne, Same, Squeeze, Stack};
use crate::hf::names::{ATTENTION, GATED, MODEL, WRAPPED};
use crate::hf::rope::{PART, WHOLE_HEADS};

const NAMES: &[Name] = &[
    ("embed_tokens", "token_embd", Same),
    ("norm", "output_norm", PlusOne),
    ("lm_head", "output", Same),
    ("layers.{}.input_layernorm", "blk.{}.attn_norm", PlusOne),
    ("layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", PlusOne),
    ("layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", PlusOne),
    ("layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", PlusOne),
    ("layers.{}.linear_attn.conv1d", "blk.{}.ssm_conv1d", Squeeze),
    ("layers.{}.linear_attn.dt_bias", "blk.{}.ssm_dt", Same),
    ("layers.{}.linear_attn.A_log", "blk.{}.ssm_a", MinusExp),
    ("layers.{}.linear_attn.norm", "blk.{}.ssm_norm", Same),
    ("layers.{}.linear_attn.out_proj", "blk.{}.ssm_out", Same),
];
const BY_HEAD: &[Name] = &[
    ("layers.{}.linear_attn.in_proj_qkvz", "blk.{}.ssm_in", Same),
    ("layers.{}.linear_attn.in_proj_ba", "blk.{}.ssm_ba", Same),
];
const APART: &[Name] = &[
    ("layers.{}.linear_attn.in_proj_qkv", "blk.{}.attn_qkv", Same),
    ("layers.{}.linear_attn.in_proj_z", "blk.{}.attn_gate", Same),
    ("layers.{}.linear_attn.in_proj_b", "blk.{}.ssm_beta", Same),
    ("layers.{}.linear_attn.in_proj_a", "blk.{}.ssm_alpha", Same),
];
/// Experts, each by itself or all in one tensor.
const EXPERTS: &[Name] = &[
    ("layers.{}.mlp.gate", "blk.{}.ffn_gate_inp", Same),
    ("layers.{}.mlp.experts.{}.gate_proj", "blk.{}.ffn_gate_exps", Stack),
    ("layers.{}.mlp.experts.{}.up_proj", "blk.{}.ffn_up_exps", Stack),
    ("layers.{}.mlp.experts.{}.down_proj", "blk.{}.ffn_down_exps", Stack),
    ("layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_gate_up_exps", Same),
    ("layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps", Same),
];

/// The step's bias is one of the net; others are in the attention, where the configuration says so.
const BIASES: &[(&str, When)] = &[
    ("*.dt_bias.bias", Always),
    ("*.q_proj.bias", If("attention_bias", false)),
    ("*.k_proj.bias", If("attention_bias", false)),
    ("*.v_proj.bias", If("attention_bias", false)),
    ("*.o_proj.bias", If("attention_bias", false)),
    ("*.bias", Never),
];

/// Layers that predict further tokens, and what older files keep of rotary positions.
const IGNORED: &[&str] = &["mtp.*", "*.rotary_emb.inv_freq"];
/// The same, and the part of the wrapper that sees.
const IGNORED_IN_WRAPPER: &[&str] = &["mtp.*", "*.rotary_emb.inv_freq", "visual.*"];

const fn family(model_type: &'static str, names: &'static [&'static [Name]]) -> Family {
    Family {
        model_type,
        architecture: "qwen35",
        prefixes: MODEL,
        names,
        ignored: IGNORED,
        conditions: BIASES,
        head: Head::UntiedByDefault,
        keys: dense,
    }
}

const DENSE: &[&[Name]] = &[NAMES, APART, ATTENTION, GATED];
const MIXTURE: &[&[Name]] = &[NAMES, APART, ATTENTION, EXPERTS, SHARED_EXPERT];

/// The families, two of them inside their wrapper too.
pub const FAMILIES: &[Family] = &[
    Family {
        architecture: "qwen3next",
        keys: next,
        ..family("qwen3_next", &[NAMES, BY_HEAD, ATTENTION, EXPERTS, SHARED_EXPERT])
    },
    family("qwen3_5_text", DENSE),
    Family { prefixes: WRAPPED, ignored: IGNORED_IN_WRAPPER, ..family("qwen3_5", DENSE) },
    Family { architecture: "qwen35moe", keys: mixture, ..family("qwen3_5_moe_text", MIXTURE) },
    Family {
        architecture: "qwen35moe",
        keys: mixture,
        prefixes: WRAPPED,
        ignored: IGNORED_IN_WRAPPER,
        ..family("qwen3_5_moe", MIXTURE)
    },
];

fn dense(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    shared(config, keys)
}

fn next(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    const STEP: &str = "decoder_sparse_step";
    if let Some(found) = config.u32(&[STEP])?.filter(|found| *found != 1) {
        return Err(config.unsupported(STEP, &found.to_string(), "1"));
    }
    if config.f64s("mlp_only_layers")?.is_some_and(|layers| !layers.is_empty()) {
        return Err(config.unsupported("mlp_only_layers", "a list of layers", "no layers"));
    }
    keys.set("expert_weights_norm", config.bool("norm_topk_prob")?.unwrap_or(true));
    if let Some(n) = config.optional_count(&["intermediate_size"])? {
        keys.set("feed_forward_length", n);
    }
    mixture(config, keys)
}

fn mixture(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    keys.set("expert_count", config.count(&["num_experts", "num_local_experts"])?);
    keys.set("expert_used_count", config.count(&["num_experts_per_tok"])?);
    keys.set("expert_feed_forward_length", config.count(&["moe_intermediate_size"])?);
    keys.set("expert_shared_feed_forward_length", config.count(&["shared_expert_intermediate_size"])?);
    shared(config, keys)
}

/// The keys of all.
fn shared(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    sizes(config, keys)?;
    rms_norm_eps(config, keys)?;
    let count = |name: &str, default: u32| Ok::<_, Error>(config.optional_count(&[name])?.unwrap_or(default));
    let n_head = count("linear_num_value_heads", 32)?;
    let v_dim = count("linear_value_head_dim", 128)?;
    let Some(n_values) = n_head.checked_mul(v_dim) else {
        let found = format!("{v_dim}, with {n_head} heads");
        return Err(config.unsupported("linear_value_head_dim", &found, "less"));
    };
    keys.set("ssm.time_step_rank", n_head);
    keys.set("ssm.inner_size", n_values);
    keys.set("ssm.group_count", count("linear_num_key_heads", 16)?);
    keys.set("ssm.state_size", count("linear_key_head_dim", 128)?);
    keys.set("ssm.conv_kernel", count("linear_conv_kernel_dim", 4)?);
    keys.values_are_grouped = true;
    set_recurrent_layers(config, keys)?;
    if config.is_null(PART) {
        return Err(config.unsupported(PART, "null", "a number"));
    }
    WHOLE_HEADS.part(0.25).write(config, keys)
}

/// Which layers are recurrent: a list, or else all but every so many.
fn set_recurrent_layers(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    let kinds = &[("linear_attention", true), ("full_attention", false)];
    match layer_kinds(config, "layer_types", Some(config.count(N_LAYER)? as usize), kinds)? {
        Some(recurrent) => keys.set("attention.recurrent_layers", recurrent),
        None => {
            let interval = config.optional_count(&["full_attention_interval"])?.unwrap_or(4);
            keys.set("full_attention_interval", interval);
        }
    }
    Ok(())
}
