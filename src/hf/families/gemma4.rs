//! Gemma 4: two kinds of layers with heads of their own length, keys that are values, layers that share them, per-layer embeddings,
//! experts.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::gguf::quoted;
use crate::hf::config::Config;
use crate::hf::family::When::{self, If, Never};
use crate::hf::family::{
    Family, Head, Keys, N_LAYER, Name, TANH_GELU, WINDOW, plain_sizes, rms_norm_eps, windowed_layers,
};
use crate::hf::layout::Change::Same;
use crate::hf::names::{ATTENTION, ENDS, GATED, MODEL, QK_NORMS, ROTARY_BUFFERS, WRAPPED};
use crate::hf::rope::proportional;

const NAMES: &[Name] = &[
    ("embed_tokens_per_layer", "per_layer_token_embd", Same),
    ("per_layer_model_projection", "per_layer_model_proj", Same),
    ("per_layer_projection_norm", "per_layer_proj_norm", Same),
    ("layers.{}.input_layernorm", "blk.{}.attn_norm", Same),
    ("layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", Same),
    ("layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm", Same),
    ("layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm", Same),
    ("layers.{}.post_feedforward_layernorm_1", "blk.{}.post_ffw_norm_1", Same),
    ("layers.{}.post_feedforward_layernorm_2", "blk.{}.post_ffw_norm_2", Same),
    ("layers.{}.pre_feedforward_layernorm_2", "blk.{}.pre_ffw_norm_2", Same),
    ("layers.{}.per_layer_input_gate", "blk.{}.inp_gate", Same),
    ("layers.{}.per_layer_projection", "blk.{}.proj", Same),
    ("layers.{}.post_per_layer_input_norm", "blk.{}.post_norm", Same),
    ("layers.{}.layer_scalar", "blk.{}.layer_output_scale", Same),
    ("layers.{}.router.scale", "blk.{}.ffn_gate_inp", Same),
    ("layers.{}.router.proj", "blk.{}.ffn_gate_inp", Same),
    ("layers.{}.router.per_expert_scale", "blk.{}.ffn_down_exps", Same),
    ("layers.{}.experts.gate_up_proj", "blk.{}.ffn_gate_up_exps", Same),
    ("layers.{}.experts.down_proj", "blk.{}.ffn_down_exps", Same),
];

const MOE: When = If("enable_moe_block", false);
const CONDITIONS: &[(&str, When)] = &[
    ("*.router.scale.scale", MOE),
    ("*.router.proj.weight", MOE),
    ("*.router.per_expert_scale.scale", MOE),
    ("*.experts.gate_up_proj.weight", MOE),
    ("*.experts.down_proj.weight", MOE),
    ("*.post_feedforward_layernorm_1.weight", MOE),
    ("*.post_feedforward_layernorm_2.weight", MOE),
    ("*.pre_feedforward_layernorm_2.weight", MOE),
    ("*.gate_proj.bias", Never),
    ("*.up_proj.bias", Never),
    ("*.down_proj.bias", Never),
    ("*_proj.bias", If("attention_bias", false)),
    ("*.bias", Never),
];

const TEXT: Family = Family {
    model_type: "gemma4_text",
    architecture: "gemma4",
    prefixes: MODEL,
    names: &[ENDS, NAMES, ATTENTION, QK_NORMS, GATED],
    ignored: ROTARY_BUFFERS,
    conditions: CONDITIONS,
    head: Head::TiedByDefault,
    keys,
};

/// What has no part in text.
pub(super) const OTHER_PARTS: &[&str] =
    &["vision_tower.*", "audio_tower.*", "embed_vision.*", "embed_audio.*", "*.rotary_emb.inv_freq"];

/// Gemma 4, by itself and inside the model that sees and hears.
pub const FAMILIES: &[Family] =
    &[TEXT, Family { model_type: "gemma4", prefixes: WRAPPED, ignored: OTHER_PARTS, ..TEXT }];

/// Layers after which the pattern of windows repeats where the configuration does not list them.
const PERIOD: usize = 6;

fn keys(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_activation"], TANH_GELU)?;
    const BIDIRECTIONAL: &str = "use_bidirectional_attention";
    config.expect_str(&[BIDIRECTIONAL], &["vision"])?;
    plain_sizes(config, out)?;
    rms_norm_eps(config, out)?;
    let n_layer = config.count(N_LAYER)? as usize;
    let windowed = windowed(config, n_layer)?;
    let heads = heads(config, &windowed)?;
    let of = |local: bool| windowed.iter().zip(&heads).find(|(w, _)| **w == local).map(|(_, heads)| *heads);
    // A kind that no layer has is of the other's size.
    let both = [of(false).or(of(true)), of(true).or(of(false))];
    let [Some((dim, _)), Some((local_dim, _))] = both else { return Err(config.missing(N_LAYER)) };
    if let Some(i) = (0..n_layer).find(|&i| of(windowed[i]) != Some(heads[i])) {
        return Err(config.unsupported(
            "per_layer_config",
            &format!("another for layer {i} than for others of its kind"),
            "the same for all layers of a kind",
        ));
    }
    let list =
        |list: Vec<u32>| list.into_iter().map(|n| n.try_into().unwrap_or(i32::MAX)).collect::<Vec<i32>>();
    out.set("attention.head_count_kv", list(heads.iter().map(|(_, n)| *n).collect()));
    for (name, dim) in [
        ("attention.key_length", dim),
        ("attention.value_length", dim),
        ("attention.key_length_swa", local_dim),
        ("attention.value_length_swa", local_dim),
        ("rope.dimension_count", dim),
        ("rope.dimension_count_swa", local_dim),
    ] {
        out.set(name, dim);
    }
    if config.is_null("sliding_window") {
        return Err(config.unsupported("sliding_window", "null", "a number"));
    }
    out.set(WINDOW, config.optional_count(&["sliding_window"])?.unwrap_or(512));
    out.set("attention.sliding_window_pattern", windowed.clone());
    out.set_f32("final_logit_softcapping", config.f64(&["final_logit_softcapping"])?);
    let n_shared = config.u32(&["num_kv_shared_layers"])?.unwrap_or(0);
    out.set("attention.shared_kv_layers", n_shared);
    let first_shared = n_layer.saturating_sub(n_shared as usize);
    set_widths(config, out, n_layer, first_shared)?;
    set_per_layer(config, out)?;
    proportional(config, out, dim, 0.25)?;
    let keys_are_values = config.bool("attention_k_eq_v")?.unwrap_or(false);
    for (i, local) in windowed.iter().enumerate().take(first_shared) {
        let name = format!("blk.{i}.attn_v.weight");
        match keys_are_values && !local {
            true => out.unused.push((name, "attention_k_eq_v")),
            false => out.required.push(name),
        }
    }
    if config.bool("enable_moe_block")?.unwrap_or(false) {
        out.set("expert_count", config.count(&["num_experts"])?);
        out.set("expert_used_count", config.count(&["top_k_experts"])?);
        out.set("expert_feed_forward_length", config.count(&["moe_intermediate_size"])?);
    }
    Ok(())
}

/// Which layers have a window: all but every sixth where the list is absent, and never the last one.
fn windowed(config: &Config<'_>, n_layer: usize) -> Result<Vec<bool>> {
    const MOST_LAYERS: usize = 1 << 16;
    if n_layer > MOST_LAYERS {
        return Err(config.unsupported(N_LAYER[0], &n_layer.to_string(), &format!("{MOST_LAYERS} at most")));
    }
    let listed = windowed_layers(config, Some(n_layer))?;
    let mut windowed =
        listed.unwrap_or_else(|| (0..n_layer).map(|i| !(i + 1).is_multiple_of(PERIOD)).collect());
    if let Some(last) = windowed.last_mut().filter(|last| **last) {
        log::warn!("config.json: the last layer sees everything, whatever \"layer_types\" says");
        *last = false;
    }
    Ok(windowed)
}

/// Length and number of the key/value heads of each layer.
fn heads(config: &Config<'_>, windowed: &[bool]) -> Result<Vec<(u32, u32)>> {
    let dim = config.optional_count(&["head_dim"])?.unwrap_or(256);
    let n = config.optional_count(&["num_key_value_heads"])?.unwrap_or(4);
    const LAYERS: &str = "per_layer_config";
    if let Some(layers) = config.object(&[LAYERS])? {
        let of_layer = |i: usize| {
            let Some(layer) = layers.object(&[&i.to_string()])? else { return Ok((dim, n)) };
            let known = ["head_dim", "num_key_value_heads"];
            if let Some(other) = layer.keys().find(|key| !known.contains(key)) {
                return Err(layer.unsupported(other, "there", &known.join(", ")));
            }
            let own = |key: &str, all: u32| Ok::<_, Error>(layer.optional_count(&[key])?.unwrap_or(all));
            Ok((own("head_dim", dim)?, own("num_key_value_heads", n)?))
        };
        return (0..windowed.len()).map(of_layer).collect();
    }
    const GLOBAL: &str = "global_head_dim";
    if config.is_null(GLOBAL) {
        return Err(config.unsupported(GLOBAL, "null", "a number"));
    }
    let global_dim = config.optional_count(&[GLOBAL])?.unwrap_or(512);
    let global_n = match config.bool("attention_k_eq_v")?.unwrap_or(false) {
        true => config.optional_count(&["num_global_key_value_heads"])?.unwrap_or(n),
        false => n,
    };
    Ok(windowed.iter().map(|&local| if local { (dim, n) } else { (global_dim, global_n) }).collect())
}

/// Feed-forward blocks are twice as wide in layers that share keys and values, where the configuration says so.
fn set_widths(config: &Config<'_>, out: &mut Keys, n_layer: usize, first_shared: usize) -> Result<()> {
    const WIDTH: &str = "intermediate_size";
    let width = config.count(&[WIDTH])?;
    let factor = if config.bool("use_double_wide_mlp")?.unwrap_or(false) { 2 } else { 1 };
    let wide = width.checked_mul(factor).and_then(|wide| i32::try_from(wide).ok());
    let wide =
        wide.ok_or_else(|| config.unsupported(WIDTH, &quoted(width.to_string().as_bytes()), "less"))?;
    let width = i32::try_from(width).unwrap_or(wide);
    let of = |i: usize| if i < first_shared { width } else { wide };
    out.set("feed_forward_length", (0..n_layer).map(of).collect::<Vec<i32>>());
    Ok(())
}

/// Per-layer embeddings: 256 elements where the configuration does not say, and none where it says 0.
fn set_per_layer(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    const DIM: &str = "hidden_size_per_layer_input";
    if config.is_null(DIM) {
        return Err(config.unsupported(DIM, "null", "a number"));
    }
    let dim = config.u32(&[DIM])?.unwrap_or(256);
    out.set("embedding_length_per_layer_input", dim);
    const VOCABULARY: &str = "vocab_size_per_layer_input";
    let n_vocab = config.u32(&["vocab_size"])?.unwrap_or(262_144);
    let own = config.u32(&[VOCABULARY])?.unwrap_or(262_144);
    match dim == 0 || own == n_vocab {
        true => Ok(()),
        false => {
            Err(config.unsupported(VOCABULARY, &own.to_string(), &format!("{n_vocab}, as \"vocab_size\"")))
        }
    }
}
