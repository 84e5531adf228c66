//! StableLM: layer norms, partial rotary positions; in the larger model norms of each head of q and k, and attention
//! and feed-forward side by side.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, Name, head_dim, sizes};
use crate::hf::layout::Change::Stack;
use crate::hf::names::{ATTENTION, ENDS, GATED, MODEL, PRE_NORMS, ROTARY_BUFFERS};
use crate::hf::rope;

const HEAD_NORMS: &[Name] = &[
    ("layers.{}.self_attn.q_layernorm.norms.{}", "blk.{}.attn_q_norm", Stack),
    ("layers.{}.self_attn.k_layernorm.norms.{}", "blk.{}.attn_k_norm", Stack),
];

/// StableLM.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "stablelm",
    architecture: "stablelm",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, ATTENTION, HEAD_NORMS, GATED],
    ignored: ROTARY_BUFFERS,
    head: Head::UntiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    sizes(config, keys)?;
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    keys.set_f32("attention.layer_norm_epsilon", Some(config.require_f64(&["layer_norm_eps", "norm_eps"])?));
    keys.set("use_parallel_residual", config.bool("use_parallel_residual")?.unwrap_or(false));
    let n_rot = rope::partial_factor(config, 0.25)? * f64::from(head_dim(config)?);
    keys.set("rope.dimension_count", n_rot as u32);
    rope::write(config, keys)
}
