//! StableLM: layer norms, partial rotary positions; in the larger model norms of each head of q and k, and attention
//! and feed-forward side by side.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::When::{If, Never, Unless};
use crate::hf::family::{Family, Head, Keys, Name, sizes};
use crate::hf::layout::Change::Stack;
use crate::hf::names::{ATTENTION, ENDS, GATED, MODEL, PRE_NORMS, ROTARY_BUFFERS};
use crate::hf::rope::WHOLE_HEADS;

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
    conditions: &[
        ("*.q_proj.bias", If("use_qkv_bias", false)),
        ("*.k_proj.bias", If("use_qkv_bias", false)),
        ("*.v_proj.bias", If("use_qkv_bias", false)),
        ("*_proj.bias", Never),
        ("*.post_attention_layernorm.weight", Unless("use_parallel_residual", false)),
        ("*.post_attention_layernorm.bias", Unless("use_parallel_residual", false)),
        ("*layernorm.norms.{}.weight", If("qk_layernorm", false)),
        ("lm_head.bias", Never),
    ],
    head: Head::UntiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    sizes(config, keys)?;
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    keys.set_f32("attention.layer_norm_epsilon", Some(config.require_f64(&["layer_norm_eps", "norm_eps"])?));
    keys.set("use_parallel_residual", config.bool("use_parallel_residual")?.unwrap_or(false));
    WHOLE_HEADS.part(0.25).write(config, keys)
}
