//! BLOOM: scores fall with the distance, instead of positions; a norm of the embedding.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, N_HEAD, N_LAYER, Name};
use crate::hf::layout::Change::{Same, SplitHeads};

const NAMES: &[Name] = &[
    ("word_embeddings", "token_embd", Same),
    ("word_embeddings_layernorm", "token_embd_norm", Same),
    ("ln_f", "output_norm", Same),
    ("lm_head", "output", Same),
    ("h.{}.input_layernorm", "blk.{}.attn_norm", Same),
    ("h.{}.self_attention.query_key_value", "blk.{}.attn_qkv", SplitHeads),
    ("h.{}.self_attention.dense", "blk.{}.attn_output", Same),
    ("h.{}.post_attention_layernorm", "blk.{}.ffn_norm", Same),
    ("h.{}.mlp.dense_h_to_4h", "blk.{}.ffn_up", Same),
    ("h.{}.mlp.dense_4h_to_h", "blk.{}.ffn_down", Same),
];

/// BLOOM.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "bloom",
    architecture: "bloom",
    prefixes: &["transformer."],
    names: &[NAMES],
    ignored: &[],
    conditions: &[("lm_head.bias", crate::hf::family::When::Never)],
    head: Head::TiedByDefault,
    keys,
}];

/// Positions that models were trained on, where a configuration does not have its old key.
const N_CTX: u32 = 2048;

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_bool("apply_residual_connection_post_layernorm", false)?;
    // Both together leave biases out.
    const SLICES: &str = "pretraining_tp";
    let slices = config.u32(&[SLICES])?.unwrap_or(1);
    if config.bool("slow_but_exact")? == Some(true) && slices > 1 {
        return Err(config.unsupported(SLICES, &slices.to_string(), "1 beside \"slow_but_exact\""));
    }
    let (n_embd, n_head) = (config.count(&["n_embed", "hidden_size"])?, config.count(N_HEAD)?);
    keys.set("block_count", config.count(N_LAYER)?);
    keys.set("context_length", config.optional_count(&["seq_length"])?.unwrap_or(N_CTX));
    keys.set("embedding_length", n_embd);
    let width = n_embd.checked_mul(4);
    let width = width.ok_or_else(|| config.unsupported("hidden_size", &n_embd.to_string(), "less"))?;
    keys.set("feed_forward_length", width);
    keys.set("attention.head_count", n_head);
    keys.set("attention.head_count_kv", n_head);
    keys.set_some("vocab_size", config.u32(&["vocab_size"])?);
    let eps = config.f64(&["layer_norm_epsilon"])?.unwrap_or(1e-5);
    keys.set_f32("attention.layer_norm_epsilon", Some(eps));
    Ok(())
}
