//! BERT: an encoder with learned positions and norms behind attention and feed-forward.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, Name, plain_sizes};
use crate::hf::layout::Change::Same;

const NAMES: &[Name] = &[
    ("embeddings.word_embeddings", "token_embd", Same),
    ("embeddings.position_embeddings", "position_embd", Same),
    ("embeddings.token_type_embeddings", "token_types", Same),
    ("embeddings.LayerNorm", "token_embd_norm", Same),
    ("encoder.layer.{}.attention.self.query", "blk.{}.attn_q", Same),
    ("encoder.layer.{}.attention.self.key", "blk.{}.attn_k", Same),
    ("encoder.layer.{}.attention.self.value", "blk.{}.attn_v", Same),
    ("encoder.layer.{}.attention.output.dense", "blk.{}.attn_output", Same),
    ("encoder.layer.{}.attention.output.LayerNorm", "blk.{}.attn_output_norm", Same),
    ("encoder.layer.{}.intermediate.dense", "blk.{}.ffn_up", Same),
    ("encoder.layer.{}.output.dense", "blk.{}.ffn_down", Same),
    ("encoder.layer.{}.output.LayerNorm", "blk.{}.layer_output_norm", Same),
];

/// BERT.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "bert",
    architecture: "bert",
    prefixes: &["bert."],
    names: &[NAMES],
    // The heads of the training tasks are not part of embeddings.
    ignored: &["embeddings.position_ids", "pooler.*", "cls.*"],
    conditions: &[],
    head: Head::None,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["gelu"])?;
    config.expect_str(&["position_embedding_type"], &["absolute"])?;
    config.expect_bool("is_decoder", false)?;
    plain_sizes(config, keys)?;
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    keys.set_f32("attention.layer_norm_epsilon", Some(config.f64(&["layer_norm_eps"])?.unwrap_or(1e-12)));
    keys.set("attention.causal", false);
    set_token_types(config, keys)
}

/// How many token types there are.
pub fn set_token_types(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    let n = config.u32(&["type_vocab_size"])?.unwrap_or(2);
    keys.entries.push(("tokenizer.ggml.token_type_count".into(), n.into()));
    Ok(())
}
