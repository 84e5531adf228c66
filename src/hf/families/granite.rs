//! Granite: a llama with factors on embeddings, scores, residual branches and logits, in some models with experts.
#![forbid(unsafe_code)]

use super::llama;
use crate::error::{Error, Result};
use crate::gguf::quoted;
use crate::hf::config::Config;
use crate::hf::family::When::{self, Always, If, Never};
use crate::hf::family::{
    Family, HIDDEN_SIZE, Head, Keys, N_HEAD, N_LAYER, Name, layer_kinds, plain_sizes, rms_norm_eps,
};
use crate::hf::layout::Change::{MinusExp, Same, Squeeze};
use crate::hf::names::{
    ATTENTION_BIASES, ENDS, GATED, INTERLEAVED_ATTENTION, LLAMA_BIASES, MODEL, PRE_NORMS, ROTARY_BUFFERS,
};
use crate::hf::rope::WHOLE_HEADS;

/// Experts under the names of published files, and under those that `transformers` has inside.
const EXPERTS: &[Name] = &[
    ("layers.{}.block_sparse_moe.router.layer", "blk.{}.ffn_gate_inp", Same),
    ("layers.{}.block_sparse_moe.input_linear", "blk.{}.ffn_gate_up_exps", Same),
    ("layers.{}.block_sparse_moe.output_linear", "blk.{}.ffn_down_exps", Same),
    ("layers.{}.block_sparse_moe.router", "blk.{}.ffn_gate_inp", Same),
    ("layers.{}.block_sparse_moe.experts.gate_up_proj", "blk.{}.ffn_gate_up_exps", Same),
    ("layers.{}.block_sparse_moe.experts.down_proj", "blk.{}.ffn_down_exps", Same),
];
/// The expert of all tokens, gate and values in one matrix.
const SHARED_EXPERT: &[Name] = &[
    ("layers.{}.shared_mlp.input_linear", "blk.{}.ffn_up_shexp", Same),
    ("layers.{}.shared_mlp.output_linear", "blk.{}.ffn_down_shexp", Same),
];

/// Mixers of Mamba-2.
const MAMBA: &[Name] = &[
    ("layers.{}.mamba.in_proj", "blk.{}.ssm_in", Same),
    ("layers.{}.mamba.conv1d", "blk.{}.ssm_conv1d", Squeeze),
    ("layers.{}.mamba.dt_bias", "blk.{}.ssm_dt", Same),
    ("layers.{}.mamba.A_log", "blk.{}.ssm_a", MinusExp),
    ("layers.{}.mamba.D", "blk.{}.ssm_d", Same),
    ("layers.{}.mamba.norm", "blk.{}.ssm_norm", Same),
    ("layers.{}.mamba.out_proj", "blk.{}.ssm_out", Same),
];
const MAMBA_BIASES: &[(&str, When)] = &[
    ("*.dt_bias.bias", Always),
    ("*.conv1d.bias", If("mamba_conv_bias", true)),
    ("*.in_proj.bias", If("mamba_proj_bias", false)),
    ("*.out_proj.bias", If("mamba_proj_bias", false)),
    ("*.q_proj.bias", If("attention_bias", false)),
    ("*.k_proj.bias", If("attention_bias", false)),
    ("*.v_proj.bias", If("attention_bias", false)),
    ("*.o_proj.bias", If("attention_bias", false)),
    ("*.bias", Never),
];

const GRANITE: Family = Family {
    model_type: "granite",
    architecture: "granite",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, INTERLEAVED_ATTENTION, GATED],
    ignored: ROTARY_BUFFERS,
    conditions: LLAMA_BIASES,
    head: Head::UntiedByDefault,
    keys,
};

/// Granite 3, and its models with experts.
pub const FAMILIES: &[Family] = &[
    GRANITE,
    Family {
        model_type: "granitemoe",
        architecture: "granitemoe",
        names: &[ENDS, PRE_NORMS, INTERLEAVED_ATTENTION, EXPERTS],
        conditions: ATTENTION_BIASES,
        keys: mixture,
        ..GRANITE
    },
    Family {
        model_type: "granitemoeshared",
        architecture: "granitemoe",
        names: &[ENDS, PRE_NORMS, INTERLEAVED_ATTENTION, EXPERTS, SHARED_EXPERT],
        conditions: ATTENTION_BIASES,
        keys: shared,
        ..GRANITE
    },
    Family {
        model_type: "granitemoehybrid",
        architecture: "granitehybrid",
        names: &[ENDS, PRE_NORMS, INTERLEAVED_ATTENTION, EXPERTS, SHARED_EXPERT, MAMBA],
        conditions: MAMBA_BIASES,
        keys: hybrid,
        ..GRANITE
    },
];

fn mixture(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    keys(config, out)?;
    out.set("expert_count", config.optional_count(&["num_local_experts"])?.unwrap_or(8));
    out.set("expert_used_count", config.optional_count(&["num_experts_per_tok"])?.unwrap_or(2));
    Ok(())
}

fn shared(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    mixture(config, out)?;
    let width = config.require_u32(&["shared_intermediate_size"])?;
    if width > 0 {
        out.set("expert_shared_feed_forward_length", width);
    }
    Ok(())
}

fn hybrid(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    const TYPES: &str = "layer_types";
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    plain_sizes(config, out)?;
    rms_norm_eps(config, out)?;
    factors(config, out)?;
    let n_layer = config.count(N_LAYER)? as usize;
    let kinds =
        &[("mamba", false), ("linear_attention", false), ("attention", true), ("full_attention", true)];
    let types = if config.has(TYPES) { TYPES } else { "layers_block_type" };
    let Some(attends) = layer_kinds(config, types, Some(n_layer), kinds)? else {
        return Err(config.missing(&[TYPES]));
    };
    let n_head_kv = config.optional_count(&["num_key_value_heads"])?.unwrap_or(config.count(N_HEAD)?);
    out.set_heads_by_layer(n_head_kv, &attends);
    let shared = config.optional_count(&["shared_intermediate_size"])?.unwrap_or(1024);
    match config.u32(&["num_local_experts"])?.unwrap_or(8) {
        0 => out.set("feed_forward_length", shared),
        n => {
            out.set("feed_forward_length", config.count(&["intermediate_size"])?);
            out.set("expert_count", n);
            out.set("expert_used_count", config.optional_count(&["num_experts_per_tok"])?.unwrap_or(2));
        }
    }
    out.set("expert_shared_feed_forward_length", shared);
    mamba(config, out)?;
    match config.str(&["position_embedding_type"])? {
        Some("rope") => WHOLE_HEADS.write(config, out)?,
        None | Some("nope") => out.set("rope.scaling.finetuned", false),
        Some(other) => {
            return Err(config.unsupported(
                "position_embedding_type",
                &quoted(other.as_bytes()),
                "rope, null",
            ));
        }
    }
    Ok(())
}

/// The sizes of the mixers.
fn mamba(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    let count = |key: &str, default: u32| Ok::<_, Error>(config.optional_count(&[key])?.unwrap_or(default));
    let n_head = count("mamba_n_heads", 128)?;
    let inner = count("mamba_expand", 2)?.checked_mul(config.count(HIDDEN_SIZE)?);
    let inner = inner.ok_or_else(|| config.unsupported("mamba_expand", "too large", "less"))?;
    const HEAD_DIM: &str = "mamba_d_head";
    // It is a number or "auto".
    let auto = config.shown(HEAD_DIM).is_none_or(|shown| shown == "\"auto\"");
    let head_dim = if auto { inner / n_head } else { config.count(&[HEAD_DIM])? };
    if head_dim.checked_mul(n_head) != Some(inner) {
        let expected = format!("{inner} divided by {n_head}, the number of heads");
        return Err(config.unsupported(HEAD_DIM, &head_dim.to_string(), &expected));
    }
    const BIAS: &str = "mamba_conv_bias";
    if config.is_null(BIAS) {
        return Err(config.unsupported(BIAS, "null", "true, false"));
    }
    const LIMIT: &str = "time_step_limit";
    if let Some((lower, upper)) = config.bounds(LIMIT)?.filter(|bounds| *bounds != (0.0, f64::INFINITY)) {
        return Err(config.unsupported(LIMIT, &format!("from {lower} to {upper}"), "from 0 to Infinity"));
    }
    out.set("ssm.inner_size", inner);
    out.set("ssm.time_step_rank", n_head);
    out.set("ssm.group_count", count("mamba_n_groups", 1)?);
    out.set("ssm.state_size", count("mamba_d_state", 256)?);
    out.set("ssm.conv_kernel", count("mamba_d_conv", 4)?);
    Ok(())
}

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    llama::keys(config, keys)?;
    factors(config, keys)
}

/// Factors on embeddings, scores, residual branches and logits.
fn factors(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    for (name, key) in [
        ("attention.scale", "attention_multiplier"),
        ("embedding_scale", "embedding_multiplier"),
        ("residual_scale", "residual_multiplier"),
        ("logit_scale", "logits_scaling"),
    ] {
        keys.set_f32(name, Some(config.f64(&[key])?.unwrap_or(1.0)));
    }
    Ok(())
}
