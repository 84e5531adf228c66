//! Nomic's BERT: rotary positions, a gated feed-forward, fused q, k and v, no biases but those of the norms. The one with experts has
//! biases, and no gates.
#![forbid(unsafe_code)]

use super::bert::set_token_types;
use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, Name, plain_sizes, set_head_dim};
use crate::hf::layout::Change::{ByExpert, ByExpertTransposed, Same};
use crate::hf::rope::{Rotary, WHOLE_HEADS};

const NAMES: &[Name] = &[
    ("embeddings.word_embeddings", "token_embd", Same),
    ("embeddings.token_type_embeddings", "token_types", Same),
    ("emb_ln", "token_embd_norm", Same),
    ("encoder.layers.{}.attn.Wqkv", "blk.{}.attn_qkv", Same),
    ("encoder.layers.{}.attn.out_proj", "blk.{}.attn_output", Same),
    ("encoder.layers.{}.norm1", "blk.{}.attn_output_norm", Same),
    ("encoder.layers.{}.mlp.fc11", "blk.{}.ffn_up", Same),
    ("encoder.layers.{}.mlp.fc12", "blk.{}.ffn_gate", Same),
    ("encoder.layers.{}.mlp.fc2", "blk.{}.ffn_down", Same),
    ("encoder.layers.{}.norm2", "blk.{}.layer_output_norm", Same),
    ("encoder.layers.{}.mlp.fc1", "blk.{}.ffn_up", Same),
    ("encoder.layers.{}.mlp.router.layer", "blk.{}.ffn_gate_inp", Same),
    ("encoder.layers.{}.mlp.experts.mlp.w1", "blk.{}.ffn_up_exps", ByExpert),
    ("encoder.layers.{}.mlp.experts.mlp.w2", "blk.{}.ffn_down_exps", ByExpertTransposed),
    ("encoder.layers.{}.mlp.experts", "blk.{}.ffn_exps_out", Same),
];

/// nomic-embed-text.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "nomic_bert",
    architecture: "nomic-bert",
    prefixes: &["bert."],
    names: &[NAMES],
    ignored: &["pooler.*", "cls.*", "*.rotary_emb.inv_freq"],
    conditions: &[],
    head: Head::None,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    let period = config.u32(&["moe_every_n_layers"])?.filter(|period| *period > 0);
    let activations = if period.is_some() { &["gelu"][..] } else { &["swiglu", "silu"] };
    config.expect_str(&["activation_function", "hidden_act"], activations)?;
    if let Some(period) = period {
        keys.switch("nomic-bert-moe");
        config.expect_bool("expert_choice_router", false)?;
        config.expect_bool("moe_normalize_expert_weights", false)?;
        keys.set("moe_every_n_layers", period);
        keys.set("expert_count", config.count(&["num_experts", "num_local_experts"])?);
        keys.set("expert_used_count", config.count(&["moe_top_k"])?);
    } else {
        for key in ["qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"] {
            config.expect_bool(key, false)?;
        }
    }
    for (key, expected) in [
        ("prenorm", false),
        ("causal", false),
        ("rotary_emb_interleaved", false),
        ("parallel_block", false),
        ("use_rms_norm", false),
    ] {
        config.expect_bool(key, expected)?;
    }
    for key in ["rotary_emb_fraction", "rotary_scaling_factor"] {
        if let Some(found) = config.f64(&[key])?.filter(|found| *found != 1.0) {
            return Err(config.unsupported(key, &found.to_string(), "1"));
        }
    }
    plain_sizes(config, keys)?;
    set_head_dim(config, keys)?;
    // The published configurations name the positions that a rule for longer texts allows, which nothing here follows.
    if let Some(trained) = config.u32(&["max_trained_positions"])? {
        keys.at_most("context_length", trained);
    }
    keys.set("feed_forward_length", config.count(&["intermediate_size", "n_inner"])?);
    let eps = config.f64(&["layer_norm_eps", "layer_norm_epsilon"])?.unwrap_or(1e-12);
    keys.set_f32("attention.layer_norm_epsilon", Some(eps));
    keys.set("attention.causal", false);
    set_token_types(config, keys)?;
    // Of the model with experts the authors' class decides, which takes this key.
    let theta_key = if period.is_some() { "rotary_emb_base" } else { WHOLE_HEADS.theta_key };
    Rotary { theta: 1000.0, theta_key, ..WHOLE_HEADS }.write(config, keys)
}
