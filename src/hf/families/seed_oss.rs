//! Seed-OSS: a llama with biases of queries, keys and values.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::When::{If, Never};
use crate::hf::family::{Family, HIDDEN_SIZE, Head, Keys, N_HEAD, Name, plain_sizes};
use crate::hf::layout::Change::Same;
use crate::hf::names::{ATTENTION, ENDS, GATED, MODEL, ROTARY_BUFFERS};
use crate::hf::rope::WHOLE_HEADS;

const NORMS: &[Name] = &[
    ("layers.{}.input_layernorm", "blk.{}.attn_norm", Same),
    ("layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", Same),
];

/// Seed-OSS.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "seed_oss",
    architecture: "seed_oss",
    prefixes: MODEL,
    names: &[ENDS, NORMS, ATTENTION, GATED],
    ignored: ROTARY_BUFFERS,
    conditions: &[
        ("*.gate_proj.bias", If("mlp_bias", false)),
        ("*.up_proj.bias", If("mlp_bias", false)),
        ("*.down_proj.bias", If("mlp_bias", false)),
        ("*.o_proj.bias", If("attention_out_bias", false)),
        ("*_proj.bias", If("attention_bias", true)),
        ("*.bias", Never),
    ],
    head: Head::UntiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    plain_sizes(config, keys)?;
    // Absent, the class has numbers of its own; null, they follow from others.
    const N_HEAD_KV: &str = "num_key_value_heads";
    let n_head_kv = match config.optional_count(&[N_HEAD_KV])? {
        None if config.is_null(N_HEAD_KV) => config.count(N_HEAD)?,
        n_head_kv => n_head_kv.unwrap_or(8),
    };
    keys.set("attention.head_count_kv", n_head_kv);
    const HEAD_DIM: &str = "head_dim";
    let head_dim = match config.optional_count(&[HEAD_DIM])? {
        None if config.is_null(HEAD_DIM) => config.count(HIDDEN_SIZE)? / config.count(N_HEAD)?,
        head_dim => head_dim.unwrap_or(128),
    };
    keys.set("attention.key_length", head_dim);
    keys.set("attention.value_length", head_dim);
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    keys.set_f32("attention.layer_norm_rms_epsilon", Some(config.f64(&["rms_norm_eps"])?.unwrap_or(1e-6)));
    let rope = WHOLE_HEADS.read_for(config, head_dim)?;
    rope.write_base(keys);
    rope.write_scaling(keys)
}
