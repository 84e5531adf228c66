//! Qwen 2 (biases on q, k and v), Qwen 3 (norms on q and k), and their mixtures of experts.
#![forbid(unsafe_code)]

use super::llama::plain;
use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::When::{Always, If, Never};
use crate::hf::family::{Family, Head, Keys, Name, rms_norm_sizes};
use crate::hf::layout::Change::{Flatten, Same, Stack, TransposeUnless};
use crate::hf::names::{
    ATTENTION, ATTENTION_BIASES, ENDS, GATED, MODEL, PRE_NORMS, QK_NORMS, ROTARY_BUFFERS, VISUAL, WRAPPED,
};
use crate::hf::rope::{Rotary, WHOLE_HEADS};

/// Experts in tensors of their own.
pub const EXPERTS: &[Name] = &[
    ("layers.{}.mlp.gate", "blk.{}.ffn_gate_inp", Same),
    ("layers.{}.mlp.experts.{}.gate_proj", "blk.{}.ffn_gate_exps", Stack),
    ("layers.{}.mlp.experts.{}.up_proj", "blk.{}.ffn_up_exps", Stack),
    ("layers.{}.mlp.experts.{}.down_proj", "blk.{}.ffn_down_exps", Stack),
];
/// All experts in one tensor, stored with the inputs first as they were published, or with the outputs first.
const JOINT_EXPERTS: &[Name] = &[
    ("layers.{}.mlp.gate", "blk.{}.ffn_gate_inp", Same),
    ("layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_gate_up_exps", TransposeUnless(2)),
    ("layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps", TransposeUnless(1)),
];
/// The expert that every token takes.
pub const SHARED_EXPERT: &[Name] = &[
    ("layers.{}.mlp.shared_expert_gate", "blk.{}.ffn_gate_inp_shexp", Flatten),
    ("layers.{}.mlp.shared_expert.gate_proj", "blk.{}.ffn_gate_shexp", Same),
    ("layers.{}.mlp.shared_expert.up_proj", "blk.{}.ffn_up_shexp", Same),
    ("layers.{}.mlp.shared_expert.down_proj", "blk.{}.ffn_down_shexp", Same),
];

const QWEN2: Family = Family {
    model_type: "qwen2",
    architecture: "qwen2",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, ATTENTION, GATED],
    ignored: ROTARY_BUFFERS,
    conditions: &[
        ("*.q_proj.bias", Always),
        ("*.k_proj.bias", Always),
        ("*.v_proj.bias", Always),
        ("*.bias", Never),
    ],
    head: Head::UntiedByDefault,
    keys,
};
const QWEN2_VL: Family = Family {
    model_type: "qwen2_vl",
    architecture: "qwen2vl",
    prefixes: WRAPPED,
    ignored: VISUAL,
    head: Head::UntiedByBoth,
    keys: keys_vl,
    ..QWEN2
};
const QWEN3: Family = Family {
    model_type: "qwen3",
    architecture: "qwen3",
    names: &[ENDS, PRE_NORMS, ATTENTION, QK_NORMS, GATED],
    conditions: ATTENTION_BIASES,
    ..QWEN2
};

/// Qwen 2 and 3, and the language models of those that see.
pub const FAMILIES: &[Family] = &[
    QWEN2,
    QWEN2_VL,
    Family { model_type: "qwen2_5_vl", ..QWEN2_VL },
    QWEN3,
    Family {
        model_type: "qwen3_vl",
        architecture: "qwen3vl",
        prefixes: WRAPPED,
        ignored: VISUAL,
        keys: keys_qwen3_vl,
        ..QWEN3
    },
    Family {
        model_type: "qwen3_vl_moe",
        architecture: "qwen3vlmoe",
        prefixes: WRAPPED,
        names: &[ENDS, PRE_NORMS, ATTENTION, QK_NORMS, JOINT_EXPERTS],
        ignored: VISUAL,
        keys: mixture_vl,
        ..QWEN3
    },
    Family {
        model_type: "qwen2_moe",
        architecture: "qwen2moe",
        prefixes: MODEL,
        names: &[ENDS, PRE_NORMS, ATTENTION, EXPERTS, SHARED_EXPERT],
        ignored: ROTARY_BUFFERS,
        conditions: &[
            ("*.q_proj.bias", If("qkv_bias", true)),
            ("*.k_proj.bias", If("qkv_bias", true)),
            ("*.v_proj.bias", If("qkv_bias", true)),
            ("*.bias", Never),
        ],
        head: Head::UntiedByDefault,
        keys: mixture_with_shared,
    },
    Family {
        model_type: "qwen3_moe",
        architecture: "qwen3moe",
        prefixes: MODEL,
        names: &[ENDS, PRE_NORMS, ATTENTION, QK_NORMS, EXPERTS],
        ignored: ROTARY_BUFFERS,
        conditions: ATTENTION_BIASES,
        head: Head::UntiedByDefault,
        keys: mixture,
    },
];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    config.expect_bool("use_sliding_window", false)?;
    rms_norm_sizes(config, keys)?;
    WHOLE_HEADS.write(config, keys)
}

/// Of models that see, whose rotary positions have sections for images.
fn keys_vl(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_bool("use_sliding_window", false)?;
    plain(config, keys)?;
    Rotary { theta: 1e6, sections: Some([16, 24, 24]), ..WHOLE_HEADS }.write(config, keys)
}

/// The same with sections that take turns.
fn keys_qwen3_vl(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    plain(config, keys)?;
    Rotary { theta: 500_000.0, ..WHOLE_HEADS }.write(config, keys)
}

fn mixture(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    keys(config, out)?;
    experts(config, out)?;
    out.set("expert_weights_norm", config.bool("norm_topk_prob")?.unwrap_or(false));
    Ok(())
}

/// As [`keys_qwen3_vl`], with experts whose shares are always normalised.
fn mixture_vl(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    keys_qwen3_vl(config, out)?;
    experts(config, out)
}

/// In every layer.
fn experts(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    const STEP: &str = "decoder_sparse_step";
    if let Some(found) = config.u32(&[STEP])?.filter(|found| *found != 1) {
        return Err(config.unsupported(STEP, &found.to_string(), "1"));
    }
    if config.f64s("mlp_only_layers")?.is_some_and(|layers| !layers.is_empty()) {
        return Err(config.unsupported("mlp_only_layers", "a list of layers", "no layers"));
    }
    out.set("expert_count", config.require_u32(&["num_experts", "num_local_experts"])?);
    out.set("expert_used_count", config.require_u32(&["num_experts_per_tok"])?);
    out.set("expert_feed_forward_length", config.require_u32(&["moe_intermediate_size"])?);
    Ok(())
}

fn mixture_with_shared(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    mixture(config, out)?;
    let n_ff = config.require_u32(&["shared_expert_intermediate_size"])?;
    out.set("expert_shared_feed_forward_length", n_ff);
    Ok(())
}
