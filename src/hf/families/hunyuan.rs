//! Hunyuan: norms of every query and key head after the rotation, and in some models experts beside one that every token takes.
#![forbid(unsafe_code)]

use super::llama::plain;
use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, Name};
use crate::hf::layout::Change::{Same, Stack};
use crate::hf::names::{ATTENTION, ATTENTION_BIASES, ENDS, GATED, MODEL, PRE_NORMS, ROTARY_BUFFERS};
use crate::hf::rope::WHOLE_HEADS;

const NORMS: &[Name] = &[
    ("layers.{}.self_attn.query_layernorm", "blk.{}.attn_q_norm", Same),
    ("layers.{}.self_attn.key_layernorm", "blk.{}.attn_k_norm", Same),
];
const EXPERTS: &[Name] = &[
    ("layers.{}.mlp.gate.wg", "blk.{}.ffn_gate_inp", Same),
    ("layers.{}.mlp.shared_mlp.gate_proj", "blk.{}.ffn_gate_shexp", Same),
    ("layers.{}.mlp.shared_mlp.up_proj", "blk.{}.ffn_up_shexp", Same),
    ("layers.{}.mlp.shared_mlp.down_proj", "blk.{}.ffn_down_shexp", Same),
    ("layers.{}.mlp.experts.{}.gate_proj", "blk.{}.ffn_gate_exps", Stack),
    ("layers.{}.mlp.experts.{}.up_proj", "blk.{}.ffn_up_exps", Stack),
    ("layers.{}.mlp.experts.{}.down_proj", "blk.{}.ffn_down_exps", Stack),
];

const DENSE: Family = Family {
    model_type: "hunyuan_v1_dense",
    architecture: "hunyuan-dense",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, ATTENTION, NORMS, GATED],
    ignored: ROTARY_BUFFERS,
    conditions: ATTENTION_BIASES,
    head: Head::UntiedByDefault,
    keys,
};

/// Models without and with experts.
pub const FAMILIES: &[Family] = &[
    DENSE,
    Family {
        model_type: "hunyuan_v1_moe",
        architecture: "hunyuan-moe",
        names: &[ENDS, PRE_NORMS, ATTENTION, NORMS, EXPERTS],
        keys: mixture,
        ..DENSE
    },
];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    plain(config, keys)?;
    let rope = WHOLE_HEADS.read(config)?;
    let alpha = rope.object().positive(&["alpha"]);
    if rope.kind != "dynamic" {
        rope.write_base(keys);
        return rope.write_scaling(keys);
    }
    // Whatever the position: the base is another, and nothing else.
    let Some(alpha) = alpha? else { return Err(rope.unsupported("default, linear, dynamic with alpha")) };
    rope.write_base(keys);
    let dim = f64::from(rope.n_rot);
    let base = rope.theta * libm::pow(alpha, dim / (dim - 2.0));
    keys.replace_f32("rope.freq_base", base);
    Ok(())
}

fn mixture(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    keys(config, out)?;
    let width = config.count(&["intermediate_size"])?;
    out.set("expert_feed_forward_length", width);
    out.set("expert_shared_feed_forward_length", width);
    out.set("expert_shared_count", 1u32);
    out.set("expert_count", of_all_layers(config, &["num_experts", "num_local_experts"])?);
    out.set("expert_used_count", of_all_layers(config, &["moe_topk", "num_experts_per_tok"])?);
    Ok(())
}

/// A number, or a list of numbers of layers that are all the same; 1 where the configuration does not say.
fn of_all_layers(config: &Config<'_>, names: &[&str]) -> Result<u32> {
    let Some(key) = names.iter().find(|key| config.has(key)) else { return Ok(1) };
    let counts = config.counts(key)?.unwrap_or_default();
    match counts[..] {
        [first, ref rest @ ..] if first > 0 && rest.iter().all(|n| *n == first) => Ok(first),
        _ => Err(config.unsupported(
            key,
            &format!("{counts:?}"),
            "the same number of 1 and more for all layers",
        )),
    }
}
