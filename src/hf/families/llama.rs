//! Llama, AFM (squared ReLUs without gates), Mistral (which sees a window) and Mixtral (whose feed-forward is a mixture of experts).
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::gguf::quoted;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, Name, rms_norm_sizes, set_window, windowed_layers};
use crate::hf::layout::Change::Same;
use crate::hf::names::{
    ENDS, GATED, INTERLEAVED_ATTENTION, LLAMA_BIASES, MIXTRAL_EXPERTS, MODEL, NO_BIASES, PRE_NORMS,
    ROTARY_BUFFERS,
};
use crate::hf::rope::{Rotary, WHOLE_HEADS};

const MINISTRAL3: Family = Family {
    model_type: "ministral3",
    architecture: "mistral3",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, INTERLEAVED_ATTENTION, GATED],
    ignored: ROTARY_BUFFERS,
    conditions: NO_BIASES,
    head: Head::UntiedByDefault,
    keys: growing,
};
const WITHOUT_GATES: &[Name] =
    &[("layers.{}.mlp.up_proj", "blk.{}.ffn_up", Same), ("layers.{}.mlp.down_proj", "blk.{}.ffn_down", Same)];
const ORIGINAL: &str = "rope.scaling.original_context_length";

/// Llama and its relatives.
pub const FAMILIES: &[Family] = &[
    Family {
        model_type: "llama",
        architecture: "llama",
        prefixes: MODEL,
        names: &[ENDS, PRE_NORMS, INTERLEAVED_ATTENTION, GATED],
        ignored: ROTARY_BUFFERS,
        conditions: LLAMA_BIASES,
        head: Head::UntiedByDefault,
        keys,
    },
    Family {
        model_type: "arcee",
        architecture: "arcee",
        prefixes: MODEL,
        names: &[ENDS, PRE_NORMS, INTERLEAVED_ATTENTION, WITHOUT_GATES],
        ignored: ROTARY_BUFFERS,
        conditions: LLAMA_BIASES,
        head: Head::UntiedByDefault,
        keys: without_gates,
    },
    Family {
        model_type: "mistral",
        architecture: "llama",
        prefixes: MODEL,
        names: &[ENDS, PRE_NORMS, INTERLEAVED_ATTENTION, GATED],
        ignored: ROTARY_BUFFERS,
        conditions: NO_BIASES,
        head: Head::UntiedByDefault,
        keys: windowed,
    },
    MINISTRAL3,
    Family {
        model_type: "mistral3",
        prefixes: &["language_model.model.", "model.language_model.", "language_model.", "model."],
        ignored: &["vision_tower.*", "multi_modal_projector.*", "*.rotary_emb.inv_freq"],
        head: Head::TiedByDefault,
        keys: seeing,
        ..MINISTRAL3
    },
    Family {
        model_type: "mixtral",
        architecture: "llama",
        prefixes: MODEL,
        names: &[ENDS, PRE_NORMS, INTERLEAVED_ATTENTION, MIXTRAL_EXPERTS],
        ignored: ROTARY_BUFFERS,
        conditions: NO_BIASES,
        head: Head::UntiedByDefault,
        keys: mixture,
    },
];

/// The keys of a plain llama; other families that share its graph have them too.
pub fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    plain(config, keys)?;
    WHOLE_HEADS.write(config, keys)
}

/// The same without the rotary positions.
pub fn plain(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    rms_norm_sizes(config, keys)
}

/// Those of AFM.
fn without_gates(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["relu2"])?;
    rms_norm_sizes(config, keys)?;
    WHOLE_HEADS.write(config, keys)
}

fn windowed(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    keys(config, out)?;
    // A window for all layers or for none: the kinds of layers count more than the key.
    let layers = windowed_layers(config, out.count("block_count"))?;
    match layers {
        Some(layers) if !layers.contains(&true) => Ok(()),
        Some(layers) if layers.contains(&false) => {
            Err(config.unsupported("layer_types", "both kinds of layers", "one kind for all layers"))
        }
        _ => set_window(config, out),
    }
}

/// Scores that grow with the position, in steps of the context that the model was first trained on.
fn growing(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    const FACTOR: &str = "llama_4_scaling_beta";
    plain(config, keys)?;
    set_window(config, keys)?;
    Rotary::expect(config)?;
    let rope = WHOLE_HEADS.read(config)?;
    rope.write_base(keys);
    rope.write_scaling(keys)?;
    keys.set_f32("attention.temperature_scale", Some(rope.object().require_f64(&[FACTOR])?));
    if keys.count(ORIGINAL).is_none() {
        keys.set(ORIGINAL, rope.object().count(&["original_max_position_embeddings"])?);
    }
    Ok(())
}

/// The language model of one that sees: one of the two kinds.
fn seeing(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    const KEY: &str = "model_type";
    match config.str(&[KEY])? {
        Some("ministral3") => growing(config, keys),
        None | Some("mistral") => windowed(config, keys),
        Some(other) => Err(config.unsupported(KEY, &quoted(other.as_bytes()), "mistral, ministral3")),
    }
}

fn mixture(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    plain(config, out)?;
    Rotary { theta: 1e6, ..WHOLE_HEADS }.write(config, out)?;
    set_window(config, out)?;
    out.set("expert_count", config.require_u32(&["num_local_experts"])?);
    out.set("expert_used_count", config.require_u32(&["num_experts_per_tok"])?);
    Ok(())
}
