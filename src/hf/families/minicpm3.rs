//! MiniCPM3: latent attention as of DeepSeek V2, whose rotated pairs are halves, and factors on embedding, residual branches and logits.
#![forbid(unsafe_code)]

use super::deepseek::LATENT_BIASES;
use super::phi::long_rope;
use crate::error::{Error, Result};
use crate::hf::config::Config;
use crate::hf::family::When::{self, If, Never};
use crate::hf::family::{Family, HIDDEN_SIZE, Head, Keys, N_HEAD, N_LAYER, Name, plain_sizes};
use crate::hf::layout::Change::Same;
use crate::hf::names::{ENDS, GATED, MODEL, PRE_NORMS, ROTARY_BUFFERS};
use crate::hf::rope::WHOLE_HEADS;

const NAMES: &[Name] = &[
    ("layers.{}.self_attn.q_proj", "blk.{}.attn_q", Same),
    ("layers.{}.self_attn.q_a_proj", "blk.{}.attn_q_a", Same),
    ("layers.{}.self_attn.q_a_layernorm", "blk.{}.attn_q_a_norm", Same),
    ("layers.{}.self_attn.q_b_proj", "blk.{}.attn_q_b", Same),
    ("layers.{}.self_attn.kv_a_proj_with_mqa", "blk.{}.attn_kv_a_mqa", Same),
    ("layers.{}.self_attn.kv_a_layernorm", "blk.{}.attn_kv_a_norm", Same),
    ("layers.{}.self_attn.kv_b_proj", "blk.{}.attn_kv_b", Same),
    ("layers.{}.self_attn.o_proj", "blk.{}.attn_output", Same),
];
const BIASES: &[(&str, When)] = &[
    ("*.q_a_proj.bias", LATENT_BIASES),
    ("*.kv_a_proj_with_mqa.bias", LATENT_BIASES),
    ("*.o_proj.bias", LATENT_BIASES),
    ("*.gate_proj.bias", If("mlp_bias", false)),
    ("*.up_proj.bias", If("mlp_bias", false)),
    ("*.down_proj.bias", If("mlp_bias", false)),
    ("*.bias", Never),
];

/// MiniCPM3.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "minicpm3",
    architecture: "minicpm3",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, NAMES, GATED],
    ignored: ROTARY_BUFFERS,
    conditions: BIASES,
    head: Head::TiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    plain_sizes(config, out)?;
    let (n_head, n_embd) = (config.count(N_HEAD)?, config.count(HIDDEN_SIZE)?);
    const HEADS: &str = "num_key_value_heads";
    let n_head_kv = match config.optional_count(&[HEADS])? {
        None if config.is_null(HEADS) => n_head,
        found => found.unwrap_or(40),
    };
    if n_head_kv != n_head {
        return Err(config.unsupported(HEADS, &n_head_kv.to_string(), &format!("{n_head}, as all heads")));
    }
    out.set("attention.head_count_kv", n_head);
    out.set("feed_forward_length", config.count(&["intermediate_size"])?);
    let eps = config.f64(&["rms_norm_eps"])?.unwrap_or(1e-5);
    out.set_f32("attention.layer_norm_rms_epsilon", Some(eps));
    let count = |key: &str, default: u32| Ok::<_, Error>(config.optional_count(&[key])?.unwrap_or(default));
    const QUERIES: &str = "q_lora_rank";
    if !config.is_null(QUERIES) {
        out.set("attention.q_lora_rank", count(QUERIES, 768)?);
    }
    out.set("attention.kv_lora_rank", count("kv_lora_rank", 256)?);
    let (nope, rotary) = (count("qk_nope_head_dim", 64)?, count("qk_rope_head_dim", 32)?);
    let length = nope.checked_add(rotary);
    let length = length.ok_or_else(|| config.unsupported("qk_rope_head_dim", &rotary.to_string(), "less"))?;
    out.set("attention.key_length", length);
    out.set("attention.value_length", count("v_head_dim", n_embd / n_head)?);
    factors(config, out)?;
    let rope = WHOLE_HEADS.read_for(config, rotary)?;
    rope.write_base(out);
    out.set_f32("attention.scale", Some(rope.on_scores()? / f64::from(length).sqrt()));
    if rope.kind != "longrope" {
        return rope.write_scaling(out);
    }
    let (n_ctx, n_ctx_orig) = (config.count(&["max_position_embeddings"])?, rope.n_ctx_orig()?);
    out.set("rope.scaling.original_context_length", n_ctx_orig);
    long_rope(rope.object(), f64::from(n_ctx), f64::from(n_ctx_orig), rotary as usize, out)
}

/// Factors on embedding, residual branches and logits.
fn factors(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    let (n_layer, n_embd) = (f64::from(config.count(N_LAYER)?), f64::from(config.count(HIDDEN_SIZE)?));
    out.set_f32("embedding_scale", Some(config.positive(&["scale_emb"])?.unwrap_or(12.0)));
    const DEPTH: &str = "scale_depth";
    let depth = match config.positive(&[DEPTH])? {
        None if config.is_null(DEPTH) => n_layer.sqrt(),
        depth => depth.unwrap_or(1.4),
    };
    out.set_f32("residual_scale", Some(depth / n_layer.sqrt()));
    const BASE: &str = "dim_model_base";
    let base = match config.optional_count(&[BASE])? {
        None if config.is_null(BASE) => n_embd,
        base => f64::from(base.unwrap_or(256)),
    };
    out.set_f32("logit_scale", Some(n_embd / base));
    Ok(())
}
