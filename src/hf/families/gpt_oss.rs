//! gpt-oss: experts whose gates and values take turns among the columns of one matrix, as numbers or in MXFP4.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::When::{Always, If, Never};
use crate::hf::family::{Family, Head, Keys, Name, WINDOW, rms_norm_sizes, windowed_layers};
use crate::hf::layout::Change::{Codes, CodesEvenFirst, Same, Scales, TransposeEach, TransposeEvenFirst};
use crate::hf::names::{ATTENTION, ENDS, MODEL, ROTARY_BUFFERS};
use crate::hf::rope::{Rotary, WHOLE_HEADS};

const NAMES: &[Name] = &[
    ("layers.{}.input_layernorm", "blk.{}.attn_norm", Same),
    ("layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", Same),
    ("layers.{}.self_attn.sinks", "blk.{}.attn_sinks", Same),
    ("layers.{}.mlp.router", "blk.{}.ffn_gate_inp", Same),
    ("layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_gate_up_exps", TransposeEvenFirst),
    ("layers.{}.mlp.experts.gate_up_proj_bias", "blk.{}.ffn_gate_up_exps", TransposeEvenFirst),
    ("layers.{}.mlp.experts.gate_up_proj_blocks", "blk.{}.ffn_gate_up_exps", CodesEvenFirst),
    ("layers.{}.mlp.experts.gate_up_proj_scales", "blk.{}.ffn_gate_up_exps", Scales),
    ("layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps", TransposeEach),
    ("layers.{}.mlp.experts.down_proj_bias", "blk.{}.ffn_down_exps", Same),
    ("layers.{}.mlp.experts.down_proj_blocks", "blk.{}.ffn_down_exps", Codes),
    ("layers.{}.mlp.experts.down_proj_scales", "blk.{}.ffn_down_exps", Scales),
];

/// gpt-oss.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "gpt_oss",
    architecture: "gpt-oss",
    prefixes: MODEL,
    names: &[ENDS, ATTENTION, NAMES],
    ignored: ROTARY_BUFFERS,
    conditions: &[
        ("*.router.bias", Always),
        ("*.gate_up_proj_bias.bias", Always),
        ("*.down_proj_bias.bias", Always),
        ("*.q_proj.bias", If("attention_bias", true)),
        ("*.k_proj.bias", If("attention_bias", true)),
        ("*.v_proj.bias", If("attention_bias", true)),
        ("*.o_proj.bias", If("attention_bias", true)),
        ("*.bias", Never),
    ],
    head: Head::UntiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    for (key, only) in [("swiglu_alpha", 1.702), ("swiglu_limit", 7.0)] {
        if let Some(found) = config.f64(&[key])?.filter(|found| *found != only) {
            return Err(config.unsupported(key, &found.to_string(), &only.to_string()));
        }
    }
    rms_norm_sizes(config, keys)?;
    keys.set("expert_feed_forward_length", config.count(&["intermediate_size"])?);
    keys.set("expert_count", config.count(&["num_local_experts", "num_experts"])?);
    keys.set("expert_used_count", config.count(&["num_experts_per_tok"])?);
    if config.is_null("sliding_window") {
        return Err(config.unsupported("sliding_window", "null", "a number"));
    }
    keys.set(WINDOW, config.optional_count(&["sliding_window"])?.unwrap_or(128));
    let windowed = windowed_layers(config, keys.count("block_count"))?;
    keys.set_some("attention.sliding_window_pattern", windowed);
    Rotary::expect(config)?;
    Rotary { theta: 150_000.0, truncates: false, ..WHOLE_HEADS }.write(config, keys)
}
