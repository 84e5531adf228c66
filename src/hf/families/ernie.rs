//! ERNIE 4.5: llama's graph, in the larger models with experts beside some that every token takes.
#![forbid(unsafe_code)]

use super::llama::plain;
use crate::error::{Error, Result};
use crate::hf::config::Config;
use crate::hf::family::When::{self, Always, If, Never};
use crate::hf::family::{Family, Head, Keys, N_LAYER, Name, set_divided_head_dim};
use crate::hf::layout::Change::{Flatten, Same, Stack};
use crate::hf::names::{ATTENTION, ENDS, GATED, MODEL, PRE_NORMS, ROTARY_BUFFERS};
use crate::hf::rope::{Rotary, WHOLE_HEADS};

const EXPERTS: &[Name] = &[
    ("layers.{}.mlp.gate", "blk.{}.ffn_gate_inp", Same),
    ("layers.{}.mlp.moe_statics.e_score_correction_bias", "blk.{}.exp_probs_b", Flatten),
    ("layers.{}.mlp.experts.{}.gate_proj", "blk.{}.ffn_gate_exps", Stack),
    ("layers.{}.mlp.experts.{}.up_proj", "blk.{}.ffn_up_exps", Stack),
    ("layers.{}.mlp.experts.{}.down_proj", "blk.{}.ffn_down_exps", Stack),
    ("layers.{}.mlp.shared_experts.gate_proj", "blk.{}.ffn_gate_shexp", Same),
    ("layers.{}.mlp.shared_experts.up_proj", "blk.{}.ffn_up_shexp", Same),
    ("layers.{}.mlp.shared_experts.down_proj", "blk.{}.ffn_down_shexp", Same),
];
const BIASES: &[(&str, When)] = &[
    ("*.e_score_correction_bias.bias", Always),
    ("*.experts.{}.gate_proj.bias", Never),
    ("*.experts.{}.up_proj.bias", Never),
    ("*.experts.{}.down_proj.bias", Never),
    ("*_proj.bias", If("use_bias", false)),
    ("*.bias", Never),
];

const DENSE: Family = Family {
    model_type: "ernie4_5",
    architecture: "ernie4_5",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, ATTENTION, GATED],
    ignored: ROTARY_BUFFERS,
    conditions: BIASES,
    head: Head::TiedByDefault,
    keys: dense,
};

/// Models without and with experts.
pub const FAMILIES: &[Family] = &[
    DENSE,
    Family {
        model_type: "ernie4_5_moe",
        architecture: "ernie4_5-moe",
        names: &[ENDS, PRE_NORMS, ATTENTION, GATED, EXPERTS],
        // Those that predict further tokens.
        ignored: &["*.rotary_emb.inv_freq", "mtp_*"],
        keys: mixture,
        ..DENSE
    },
];

/// The keys of both; `n_head_kv` is how many key/value heads there are where the configuration does not say.
fn shared(config: &Config<'_>, keys: &mut Keys, n_head_kv: u32) -> Result<()> {
    plain(config, keys)?;
    const HEADS: &str = "num_key_value_heads";
    if !config.has(HEADS) && !config.is_null(HEADS) {
        keys.set("attention.head_count_kv", n_head_kv);
    }
    Ok(())
}

fn rope(config: &Config<'_>, keys: &mut Keys, head_dim: Option<u32>) -> Result<()> {
    let rotary = Rotary { theta: 500_000.0, ..WHOLE_HEADS };
    let rope = match head_dim {
        Some(head_dim) => rotary.read_for(config, head_dim)?,
        None => rotary.read(config)?,
    };
    rope.write_base(keys);
    rope.write_scaling(keys)
}

fn dense(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    shared(config, keys, 2)?;
    const HEAD: &str = "head_dim";
    if config.has(HEAD) || config.is_null(HEAD) {
        return rope(config, keys, None);
    }
    keys.set("attention.key_length", 128u32);
    keys.set("attention.value_length", 128u32);
    rope(config, keys, Some(128))
}

fn mixture(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    shared(config, out, 4)?;
    set_divided_head_dim(config, out)?;
    let count = |keys: &[&str], default: u32| Ok::<_, Error>(config.optional_count(keys)?.unwrap_or(default));
    out.set("expert_count", count(&["moe_num_experts", "num_experts"], 64)?);
    out.set("expert_used_count", count(&["moe_k", "num_experts_per_tok"], 6)?);
    out.set("interleave_moe_layer_step", count(&["moe_layer_interval"], 1)?);
    out.set("leading_dense_block_count", config.u32(&["moe_layer_start_index"])?.unwrap_or(1));
    const END: &str = "moe_layer_end_index";
    let last = config.f64(&[END])?.unwrap_or(-1.0);
    if last != -1.0 && last < f64::from(config.count(N_LAYER)?) - 1.0 {
        return Err(config.unsupported(END, &last.to_string(), "-1 or the last layer"));
    }
    const LEAST: &str = "moe_norm_min";
    let least = config.f64(&[LEAST])?.unwrap_or(1e-12);
    if least != 1e-12 {
        return Err(config.unsupported(LEAST, &least.to_string(), "1e-12"));
    }
    let (width, n_shared) =
        (count(&["moe_intermediate_size"], 1536)?, config.u32(&["moe_num_shared_experts"])?.unwrap_or(2));
    out.set("expert_feed_forward_length", width);
    out.set("expert_shared_count", n_shared);
    let all = width.checked_mul(n_shared);
    let all =
        all.ok_or_else(|| config.unsupported("moe_num_shared_experts", &n_shared.to_string(), "less"))?;
    out.set("expert_shared_feed_forward_length", all);
    rope(config, out, None)
}
