//! GLM-4 0414 and GLM-Z1: norms before and after attention and feed-forward, gate and values in one matrix. GLM-4.5 to 4.7: experts
//! beside some that every token takes, but for the first layers.
#![forbid(unsafe_code)]

use super::deepseek::SIGMOID_EXPERTS;
use crate::error::{Error, Result};
use crate::hf::config::Config;
use crate::hf::family::When::{Always, If, Never};
use crate::hf::family::{Family, Head, Keys, Name, plain_sizes};
use crate::hf::layout::Change::Same;
use crate::hf::names::{ATTENTION, ENDS, GATED, MODEL, QK_NORMS, ROTARY_BUFFERS};
use crate::hf::rope::{PART, WHOLE_HEADS};

const NORMS: &[Name] = &[
    ("layers.{}.input_layernorm", "blk.{}.attn_norm", Same),
    ("layers.{}.post_self_attn_layernorm", "blk.{}.post_attention_norm", Same),
    ("layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", Same),
    ("layers.{}.post_mlp_layernorm", "blk.{}.post_ffw_norm", Same),
];
const MLP: &[Name] = &[
    ("layers.{}.mlp.gate_up_proj", "blk.{}.ffn_up", Same),
    ("layers.{}.mlp.down_proj", "blk.{}.ffn_down", Same),
];
const TWO_NORMS: &[Name] = &[
    ("layers.{}.input_layernorm", "blk.{}.attn_norm", Same),
    ("layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", Same),
];
const GLM4: Family = Family {
    model_type: "glm4",
    architecture: "glm4",
    prefixes: MODEL,
    names: &[ENDS, NORMS, ATTENTION, MLP],
    ignored: ROTARY_BUFFERS,
    conditions: &[
        ("*.q_proj.bias", If("attention_bias", true)),
        ("*.k_proj.bias", If("attention_bias", true)),
        ("*.v_proj.bias", If("attention_bias", true)),
        ("*.bias", Never),
    ],
    head: Head::UntiedByDefault,
    keys,
};

/// GLM-4, and with experts.
pub const FAMILIES: &[Family] = &[
    GLM4,
    Family {
        model_type: "glm4_moe",
        architecture: "glm4moe",
        names: &[ENDS, TWO_NORMS, ATTENTION, QK_NORMS, GATED, SIGMOID_EXPERTS],
        conditions: &[
            ("*.q_norm.weight", If("use_qk_norm", false)),
            ("*.k_norm.weight", If("use_qk_norm", false)),
            ("*.e_score_correction_bias.bias", Always),
            ("*.q_proj.bias", If("attention_bias", false)),
            ("*.k_proj.bias", If("attention_bias", false)),
            ("*.v_proj.bias", If("attention_bias", false)),
            ("*.bias", Never),
        ],
        keys: mixture,
        ..GLM4
    },
];

/// What a class has where the configuration does not say.
struct Defaults {
    n_head_kv: u32,
    head_dim: Option<u32>,
    eps: f64,
}

fn keys(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    shared(config, out, &Defaults { n_head_kv: 2, head_dim: Some(128), eps: 1.5625e-7 })
}

/// The keys of both.
fn shared(config: &Config<'_>, out: &mut Keys, defaults: &Defaults) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    plain_sizes(config, out)?;
    let count = |key: &str, default: u32| Ok::<_, Error>(config.optional_count(&[key])?.unwrap_or(default));
    out.set("attention.head_count_kv", count("num_key_value_heads", defaults.n_head_kv)?);
    let head_dim = match defaults.head_dim {
        Some(default) => count("head_dim", default)?,
        None => crate::hf::family::head_dim(config)?,
    };
    out.set("attention.key_length", head_dim);
    out.set("attention.value_length", head_dim);
    out.set("feed_forward_length", config.count(&["intermediate_size"])?);
    let eps = config.f64(&["rms_norm_eps"])?.unwrap_or(defaults.eps);
    out.set_f32("attention.layer_norm_rms_epsilon", Some(eps));
    // A null is not replaced by the class's half.
    let part = if config.is_null(PART) { 1.0 } else { 0.5 };
    let rope = WHOLE_HEADS.part(part).read_for(config, head_dim)?;
    rope.write_base(out);
    rope.write_scaling(out)
}

fn mixture(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    shared(config, out, &Defaults { n_head_kv: 8, head_dim: None, eps: 1e-5 })?;
    let count = |keys: &[&str], default: u32| Ok::<_, Error>(config.optional_count(keys)?.unwrap_or(default));
    let n_dense = config.u32(&["first_k_dense_replace"])?.unwrap_or(1);
    out.set("leading_dense_block_count", n_dense.min(config.count(&["num_hidden_layers"])?));
    out.set("expert_feed_forward_length", count(&["moe_intermediate_size"], 1408)?);
    out.set("expert_count", count(&["n_routed_experts", "num_local_experts"], 128)?);
    out.set("expert_used_count", count(&["num_experts_per_tok"], 8)?);
    out.set("expert_shared_count", count(&["n_shared_experts"], 1)?);
    let scale = config.positive(&["routed_scaling_factor"])?.unwrap_or(1.0);
    out.set_f32("expert_weights_scale", Some(scale));
    out.set("expert_gating_func", 2u32);
    out.set("expert_weights_norm", config.bool("norm_topk_prob")?.unwrap_or(true));
    let (n_group, used) = (count(&["n_group"], 1)?, count(&["topk_group"], 1)?);
    if used > n_group {
        let expected = format!("{n_group} at most, as n_group says");
        return Err(config.unsupported("topk_group", &used.to_string(), &expected));
    }
    if n_group > 1 {
        out.set("expert_group_count", n_group);
        out.set("expert_group_used_count", used);
    }
    if config.bool("use_qk_norm")? == Some(true) {
        out.require_qk_norms();
    }
    // Layers after the others predict further tokens.
    out.n_next = config.u32(&["num_nextn_predict_layers", "num_mtp_layers"])?.unwrap_or(1) as usize;
    Ok(())
}
