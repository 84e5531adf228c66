//! MPNet: BERT with a bias of scores by distance, and without token types.
#![forbid(unsafe_code)]

use super::bert::skip_positions;
use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, Name, plain_sizes};
use crate::hf::layout::Change::{Same, SkipRows};

const NAMES: &[Name] = &[
    ("embeddings.word_embeddings", "token_embd", Same),
    ("embeddings.position_embeddings", "position_embd", SkipRows),
    ("embeddings.LayerNorm", "token_embd_norm", Same),
    ("encoder.relative_attention_bias", "attn_rel_b", Same),
    ("encoder.layer.{}.attention.attn.q", "blk.{}.attn_q", Same),
    ("encoder.layer.{}.attention.attn.k", "blk.{}.attn_k", Same),
    ("encoder.layer.{}.attention.attn.v", "blk.{}.attn_v", Same),
    ("encoder.layer.{}.attention.attn.o", "blk.{}.attn_output", Same),
    ("encoder.layer.{}.attention.LayerNorm", "blk.{}.attn_output_norm", Same),
    ("encoder.layer.{}.intermediate.dense", "blk.{}.ffn_up", Same),
    ("encoder.layer.{}.output.dense", "blk.{}.ffn_down", Same),
    ("encoder.layer.{}.output.LayerNorm", "blk.{}.layer_output_norm", Same),
];
/// The class takes this token for padding, whatever the configuration says.
const PAD: u32 = 1;

/// all-mpnet-base and others.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "mpnet",
    architecture: "mpnet",
    prefixes: &["mpnet."],
    names: &[NAMES],
    ignored: &["embeddings.position_ids", "pooler.*", "lm_head.*"],
    conditions: &[],
    head: Head::None,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["gelu"])?;
    plain_sizes(config, keys)?;
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    keys.set_f32("attention.layer_norm_epsilon", Some(config.f64(&["layer_norm_eps"])?.unwrap_or(1e-12)));
    let n_buckets = config.u32(&["relative_attention_num_buckets"])?.unwrap_or(32);
    keys.set("attention.relative_buckets_count", n_buckets);
    keys.set("attention.causal", false);
    skip_positions(config, keys, PAD)
}
