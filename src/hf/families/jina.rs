//! Jina Embeddings 3 as `transformers` has it: BERT with rotary positions.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, Name, plain_sizes, set_head_dim};
use crate::hf::layout::Change::Same;
use crate::hf::rope::{Rotary, WHOLE_HEADS};

const NAMES: &[Name] = &[
    ("embeddings.word_embeddings", "token_embd", Same),
    ("embeddings.token_type_embeddings", "token_types", Same),
    ("emb_ln", "token_embd_norm", Same),
    ("encoder.layers.{}.mixer.Wqkv", "blk.{}.attn_qkv", Same),
    ("encoder.layers.{}.mixer.out_proj", "blk.{}.attn_output", Same),
    ("encoder.layers.{}.norm1", "blk.{}.attn_output_norm", Same),
    ("encoder.layers.{}.mlp.fc1", "blk.{}.ffn_up", Same),
    ("encoder.layers.{}.mlp.fc2", "blk.{}.ffn_down", Same),
    ("encoder.layers.{}.norm2", "blk.{}.layer_output_norm", Same),
];

/// Jina Embeddings 3.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "jina_embeddings_v3",
    architecture: "jina-bert-v3",
    prefixes: &["roberta."],
    names: &[NAMES],
    ignored: &["embeddings.position_ids", "pooler.*", "lm_head.*"],
    conditions: &[],
    head: Head::None,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["gelu"])?;
    plain_sizes(config, keys)?;
    set_head_dim(config, keys)?;
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    keys.set_f32("attention.layer_norm_epsilon", Some(config.f64(&["layer_norm_eps"])?.unwrap_or(1e-5)));
    keys.set("attention.causal", false);
    let n_types = config.u32(&["type_vocab_size"])?.unwrap_or(1);
    keys.entries.push(("tokenizer.ggml.token_type_count".into(), n_types.into()));
    Rotary { theta: 20_000.0, ..WHOLE_HEADS }.write(config, keys)
}
