//! dots.llm1: experts beside some that every token takes, but for the first layers.
#![forbid(unsafe_code)]

use super::deepseek::SIGMOID_EXPERTS;
use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::When::{Always, If, Never};
use crate::hf::family::{Family, Head, Keys, N_LAYER, rms_norm_sizes};
use crate::hf::names::{ATTENTION, ENDS, GATED, MODEL, PRE_NORMS, QK_NORMS, ROTARY_BUFFERS};
use crate::hf::rope::WHOLE_HEADS;

/// dots.llm1.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "dots1",
    architecture: "dots1",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, ATTENTION, QK_NORMS, GATED, SIGMOID_EXPERTS],
    ignored: ROTARY_BUFFERS,
    conditions: &[
        ("*.e_score_correction_bias.bias", Always),
        ("*.gate_proj.bias", Never),
        ("*.up_proj.bias", Never),
        ("*.down_proj.bias", Never),
        ("*_proj.bias", If("attention_bias", false)),
        ("*.bias", Never),
    ],
    head: Head::UntiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    rms_norm_sizes(config, out)?;
    // Layers from this one on see a window, unless a list says what each sees.
    const FIRST: &str = "max_window_layers";
    let n_layer = config.count(N_LAYER)?;
    let first = config.u32(&[FIRST])?.unwrap_or(62);
    if first < n_layer && !config.has("layer_types") && !config.is_null("sliding_window") {
        return Err(config.unsupported(FIRST, &first.to_string(), "the number of layers and more"));
    }
    out.set("leading_dense_block_count", config.u32(&["first_k_dense_replace"])?.unwrap_or(0));
    out.set("expert_feed_forward_length", config.optional_count(&["moe_intermediate_size"])?.unwrap_or(1408));
    out.set("expert_count", config.count(&["n_routed_experts", "num_local_experts"])?);
    out.set("expert_used_count", config.count(&["num_experts_per_tok"])?);
    out.set("expert_shared_count", config.count(&["n_shared_experts"])?);
    let scale = config.positive(&["routed_scaling_factor"])?.unwrap_or(1.0);
    out.set_f32("expert_weights_scale", Some(scale));
    out.set("expert_gating_func", 2u32);
    out.set("expert_weights_norm", config.bool("norm_topk_prob")?.unwrap_or(false));
    let n_group = config.optional_count(&["n_group"])?.unwrap_or(1);
    let used = config.optional_count(&["topk_group"])?.unwrap_or(1);
    if used > n_group {
        return Err(config.unsupported(
            "topk_group",
            &used.to_string(),
            &format!("{n_group} at most, as n_group says"),
        ));
    }
    if n_group > 1 {
        out.set("expert_group_count", n_group);
        out.set("expert_group_used_count", used);
    }
    WHOLE_HEADS.write(config, out)
}
