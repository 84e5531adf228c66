//! Llama 4, text: most layers see only their token's stretch of positions; the others have no positions, and scores that grow with the
//! position. Some layers have experts beside one that every token takes.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, Name, WINDOW, layer_kinds, plain_sizes};
use crate::hf::layout::Change::{Same, TransposeEach};
use crate::hf::names::{ATTENTION, ATTENTION_BIASES, ENDS, MODEL, PRE_NORMS, ROTARY_BUFFERS};
use crate::hf::rope::{Rotary, WHOLE_HEADS};

const FEED_FORWARD: &[Name] = &[
    ("layers.{}.feed_forward.gate_proj", "blk.{}.ffn_gate", Same),
    ("layers.{}.feed_forward.up_proj", "blk.{}.ffn_up", Same),
    ("layers.{}.feed_forward.down_proj", "blk.{}.ffn_down", Same),
    ("layers.{}.feed_forward.router", "blk.{}.ffn_gate_inp", Same),
    ("layers.{}.feed_forward.experts.gate_up_proj", "blk.{}.ffn_gate_up_exps", TransposeEach),
    ("layers.{}.feed_forward.experts.down_proj", "blk.{}.ffn_down_exps", TransposeEach),
    ("layers.{}.feed_forward.shared_expert.gate_proj", "blk.{}.ffn_gate_shexp", Same),
    ("layers.{}.feed_forward.shared_expert.up_proj", "blk.{}.ffn_up_shexp", Same),
    ("layers.{}.feed_forward.shared_expert.down_proj", "blk.{}.ffn_down_shexp", Same),
];
const TEXT: Family = Family {
    model_type: "llama4_text",
    architecture: "llama4",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, ATTENTION, FEED_FORWARD],
    ignored: ROTARY_BUFFERS,
    conditions: ATTENTION_BIASES,
    head: Head::UntiedByDefault,
    keys,
};

/// Llama 4's part about text, by itself and in a model that sees.
pub const FAMILIES: &[Family] = &[
    TEXT,
    Family {
        model_type: "llama4",
        prefixes: &["language_model.model.", "language_model.", "model."],
        ignored: &["vision_model.*", "multi_modal_projector.*", "*.rotary_emb.inv_freq"],
        head: Head::UntiedInside,
        ..TEXT
    },
];

/// Layers of a period, of which the last has no positions.
const PERIOD: usize = 4;
/// Experts of the model that has no norms of queries and keys.
const WITHOUT_NORMS: u32 = 128;

fn keys(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    plain_sizes(config, out)?;
    out.reads_layer_types = true;
    let count = |key: &str, default: u32| Ok::<_, Error>(config.optional_count(&[key])?.unwrap_or(default));
    out.set("attention.head_count_kv", count("num_key_value_heads", 8)?);
    let head_dim = count("head_dim", 128)?;
    out.set("attention.key_length", head_dim);
    out.set("attention.value_length", head_dim);
    let eps = config.f64(&["rms_norm_eps"])?.unwrap_or(1e-5);
    out.set_f32("attention.layer_norm_rms_epsilon", Some(eps));
    let n_expert = count("num_local_experts", 16)?;
    out.set("feed_forward_length", count("intermediate_size_mlp", 16384)?);
    out.set("expert_feed_forward_length", count("intermediate_size", 8192)?);
    out.set("expert_count", n_expert);
    out.set("expert_used_count", count("num_experts_per_tok", 1)?);
    let n_layer = out.count("block_count").unwrap_or(0);
    out.set("interleave_moe_layer_step", step(config, n_layer)?);
    const NORMS: &str = "use_qk_norm";
    let has_norms = config.bool(NORMS)?.unwrap_or(true);
    if has_norms != (n_expert != WITHOUT_NORMS) {
        let expected = format!("{} in a model of {n_expert} experts", !has_norms);
        return Err(config.unsupported(NORMS, &has_norms.to_string(), &expected));
    }
    const STRETCH: &str = "attention_chunk_size";
    if config.is_null(STRETCH) {
        return Err(config.unsupported(STRETCH, "null", "a number"));
    }
    out.set(WINDOW, count(STRETCH, 8192)?);
    out.set("attention.temperature_length", count("floor_scale", 8192)?);
    let growth = match config.bool("attn_temperature_tuning")?.unwrap_or(true) {
        true => config.f64(&["attn_scale"])?.unwrap_or(0.1),
        false => 0.0,
    };
    out.set_f32("attention.temperature_scale", Some(growth));
    check_kinds(config, n_layer)?;
    let rope = Rotary { theta: 500_000.0, ..WHOLE_HEADS }.read_for(config, head_dim)?;
    rope.write_base(out);
    rope.write_scaling(out)
}

/// How many layers apart those with experts are. A list of them counts more than the number.
fn step(config: &Config<'_>, n_layer: usize) -> Result<u32> {
    const LAYERS: &str = "moe_layers";
    let Some(layers) = config.f64s(LAYERS)? else {
        return Ok(config.optional_count(&["interleave_moe_layer_step"])?.unwrap_or(1));
    };
    let mut layers: Vec<usize> = layers.iter().filter(|i| **i >= 0.0).map(|i| *i as usize).collect();
    layers.retain(|i| *i < n_layer);
    layers.sort_unstable();
    layers.dedup();
    let step = layers.first().map_or(n_layer, |first| *first) + 1;
    if !layers.iter().copied().eq((0..n_layer).skip(step - 1).step_by(step)) {
        let expected = format!("all layers that are {step} apart, or none");
        return Err(config.unsupported(LAYERS, &format!("{layers:?}"), &expected));
    }
    Ok(step.try_into().unwrap_or(u32::MAX))
}

/// Refuses layers of other kinds than the architecture implies.
fn check_kinds(config: &Config<'_>, n_layer: usize) -> Result<()> {
    const ROTATED: &str = "no_rope_layers";
    let has_positions = |i: usize| !(i + 1).is_multiple_of(PERIOD);
    match config.f64s(ROTATED)?.filter(|layers| !layers.is_empty()) {
        None => {
            const INTERVAL: &str = "no_rope_layer_interval";
            if let Some(found) = config.u32(&[INTERVAL])?.filter(|found| *found as usize != PERIOD) {
                return Err(config.unsupported(INTERVAL, &found.to_string(), &PERIOD.to_string()));
            }
        }
        Some(layers) if layers.len() < n_layer => {
            let found = format!("an array of {}", layers.len());
            return Err(config.unsupported(ROTATED, &found, &format!("one for each of {n_layer} layers")));
        }
        Some(layers) => {
            let wrong = layers.iter().take(n_layer).enumerate();
            if let Some((i, found)) =
                wrong.into_iter().find(|(i, found)| (**found != 0.0) != has_positions(*i))
            {
                let expected = format!("{} there", u8::from(has_positions(i)));
                return Err(config.unsupported(ROTATED, &format!("{found} for layer {i}"), &expected));
            }
        }
    }
    const KINDS: &str = "layer_types";
    let kinds = &[("chunked_attention", true), ("full_attention", false)];
    let kinds = layer_kinds(config, KINDS, Some(n_layer), kinds)?.unwrap_or_default();
    match kinds.iter().enumerate().find(|(i, stretch)| **stretch != has_positions(*i)) {
        Some((i, _)) => {
            let kind = if has_positions(i) { "chunked_attention" } else { "full_attention" };
            Err(config.unsupported(KINDS, &format!("another for layer {i}"), &format!("{kind:?} there")))
        }
        None => Ok(()),
    }
}
