//! Falcon: attention and feed-forward side by side, on one layer norm or, in the larger models, on one each; queries, keys and values lie
//! group by group in one matrix.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::hf::config::Config;
use crate::hf::family::When::{If, Never};
use crate::hf::family::{Family, Head, Keys, N_HEAD, N_LAYER, Name};
use crate::hf::layout::Change::{Same, SplitHeads};
use crate::hf::names::ROTARY_BUFFERS;
use crate::hf::rope::WHOLE_HEADS;

const NAMES: &[Name] = &[
    ("word_embeddings", "token_embd", Same),
    ("ln_f", "output_norm", Same),
    ("lm_head", "output", Same),
    ("h.{}.self_attention.query_key_value", "blk.{}.attn_qkv", SplitHeads),
    ("h.{}.self_attention.dense", "blk.{}.attn_output", Same),
    ("h.{}.mlp.dense_h_to_4h", "blk.{}.ffn_up", Same),
    ("h.{}.mlp.dense_4h_to_h", "blk.{}.ffn_down", Same),
];
const ONE_NORM: &[Name] = &[("h.{}.input_layernorm", "blk.{}.attn_norm", Same)];
const TWO_NORMS: &[Name] =
    &[("h.{}.ln_attn", "blk.{}.attn_norm_2", Same), ("h.{}.ln_mlp", "blk.{}.attn_norm", Same)];
const NORMS: &str = "num_ln_in_parallel_attn";

/// Falcon.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "falcon",
    architecture: "falcon",
    prefixes: &["transformer."],
    names: &[NAMES, ONE_NORM, TWO_NORMS],
    ignored: ROTARY_BUFFERS,
    conditions: &[
        ("*.query_key_value.bias", If("bias", false)),
        ("*.dense.bias", If("bias", false)),
        ("*.dense_h_to_4h.bias", If("bias", false)),
        ("*.dense_4h_to_h.bias", If("bias", false)),
        ("lm_head.bias", Never),
    ],
    head: Head::TiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["activation"], &["gelu"])?;
    config.expect_bool("alibi", false)?;
    const PARALLEL: &str = "parallel_attn";
    config.expect_bool(PARALLEL, true)?;
    if config.is_null(PARALLEL) {
        return Err(config.unsupported(PARALLEL, "null", "true"));
    }
    let count = |keys: &[&str], default: u32| Ok::<_, Error>(config.optional_count(keys)?.unwrap_or(default));
    let (n_embd, n_head) = (config.count(&["n_embed", "hidden_size"])?, config.count(N_HEAD)?);
    let n_layer = config.count(N_LAYER)?;
    keys.set("block_count", n_layer);
    keys.set("context_length", count(&["max_position_embeddings"], 2048)?);
    keys.set("embedding_length", n_embd);
    let width = match config.optional_count(&["ffn_hidden_size"])? {
        Some(width) => width,
        None => n_embd
            .checked_mul(4)
            .ok_or_else(|| config.unsupported("hidden_size", &n_embd.to_string(), "less"))?,
    };
    keys.set("feed_forward_length", width);
    keys.set("attention.head_count", n_head);
    keys.set_some("vocab_size", config.u32(&["vocab_size"])?);
    let eps = config.f64(&["layer_norm_epsilon"])?.unwrap_or(1e-5);
    keys.set_f32("attention.layer_norm_epsilon", Some(eps));
    let is_new = config.bool("new_decoder_architecture")?.unwrap_or(false);
    const HEADS: &str = "num_kv_heads";
    const ONE: &str = "multi_query";
    let n_head_kv = match is_new {
        true => count(&[HEADS], n_head)?,
        false if config.bool(ONE)?.unwrap_or(!config.is_null(ONE)) => 1,
        false => {
            let found = count(&[HEADS], n_head)?;
            if found != n_head {
                let expected = format!("{n_head}, as all heads, beside no \"{ONE}\"");
                return Err(config.unsupported(HEADS, &found.to_string(), &expected));
            }
            found
        }
    };
    keys.set("attention.head_count_kv", n_head_kv);
    norms(config, keys, is_new)?;
    let rope = WHOLE_HEADS.read_for(config, n_embd / n_head)?;
    rope.write_base(keys);
    rope.write_scaling(keys)
}

/// How many norms a layer has, and which.
fn norms(config: &Config<'_>, keys: &mut Keys, is_new: bool) -> Result<()> {
    let has_two = match (is_new, config.u32(&[NORMS])?) {
        (true, None | Some(2)) => true,
        (true, Some(1)) => false,
        (true, Some(found)) => return Err(config.unsupported(NORMS, &found.to_string(), "1, 2")),
        (false, Some(2)) => {
            return Err(config.unsupported(NORMS, "2", "1 beside no \"new_decoder_architecture\""));
        }
        (false, _) => false,
    };
    let absent: &[&str] = match has_two {
        true => &["*.input_layernorm.weight", "*.input_layernorm.bias"],
        false => &["*.ln_attn.weight", "*.ln_attn.bias", "*.ln_mlp.weight", "*.ln_mlp.bias"],
    };
    keys.absent.extend(absent.iter().map(|name| (*name, NORMS)));
    if has_two {
        keys.require_in_layers(&["attn_norm_2.weight", "attn_norm.weight"]);
    }
    Ok(())
}
