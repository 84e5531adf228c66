//! Phi-2 (attention and feed-forward side by side), Phi-3 (fused matrices, long contexts by LongRoPE) and Phi-3.5-MoE.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::hf::config::Config;
use crate::hf::family::When::{self, Always, If, Never};
use crate::hf::family::{Family, Head, Keys, Name, TANH_GELU, WINDOW, rms_norm_sizes, sizes};
use crate::hf::layout::Change::Same;
use crate::hf::names::{ATTENTION, ENDS, MIXTRAL_EXPERTS, MODEL, NO_BIASES, PRE_NORMS, ROTARY_BUFFERS};
use crate::hf::rope::{Rotary, WHOLE_HEADS};

const PHI2: &[Name] = &[
    ("embed_tokens", "token_embd", Same),
    ("layers.{}.input_layernorm", "blk.{}.attn_norm", Same),
    ("layers.{}.self_attn.q_proj", "blk.{}.attn_q", Same),
    ("layers.{}.self_attn.k_proj", "blk.{}.attn_k", Same),
    ("layers.{}.self_attn.v_proj", "blk.{}.attn_v", Same),
    ("layers.{}.self_attn.dense", "blk.{}.attn_output", Same),
    ("layers.{}.mlp.fc1", "blk.{}.ffn_up", Same),
    ("layers.{}.mlp.fc2", "blk.{}.ffn_down", Same),
    ("final_layernorm", "output_norm", Same),
    ("lm_head", "output", Same),
];
const PHI3: &[Name] = &[
    ("layers.{}.self_attn.qkv_proj", "blk.{}.attn_qkv", Same),
    ("layers.{}.self_attn.o_proj", "blk.{}.attn_output", Same),
    ("layers.{}.mlp.gate_up_proj", "blk.{}.ffn_up", Same),
    ("layers.{}.mlp.down_proj", "blk.{}.ffn_down", Same),
];

const MOE_BIASES: &[(&str, When)] = &[
    ("*norm.bias", Always),
    ("*_proj.bias", If("attention_bias", false)),
    ("lm_head.bias", If("lm_head_bias", false)),
    ("*.bias", Never),
];

/// Phi-2, Phi-3 and Phi-3.5-MoE.
pub const FAMILIES: &[Family] = &[
    Family {
        model_type: "phi",
        architecture: "phi2",
        prefixes: MODEL,
        names: &[PHI2],
        ignored: ROTARY_BUFFERS,
        conditions: &[],
        head: Head::UntiedByDefault,
        keys: second,
    },
    Family {
        model_type: "phi3",
        architecture: "phi3",
        prefixes: MODEL,
        names: &[ENDS, PRE_NORMS, PHI3],
        ignored: ROTARY_BUFFERS,
        conditions: NO_BIASES,
        head: Head::UntiedByDefault,
        keys: third,
    },
    Family {
        model_type: "phimoe",
        architecture: "phimoe",
        prefixes: MODEL,
        names: &[ENDS, PRE_NORMS, ATTENTION, MIXTRAL_EXPERTS],
        ignored: ROTARY_BUFFERS,
        conditions: MOE_BIASES,
        head: Head::UntiedByDefault,
        keys: moe,
    },
];

fn second(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], TANH_GELU)?;
    config.expect_bool("qk_layernorm", false)?;
    sizes(config, keys)?;
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    keys.set_f32("attention.layer_norm_epsilon", Some(config.require_f64(&["layer_norm_eps"])?));
    WHOLE_HEADS.part(0.5).write(config, keys)
}

fn third(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    rms_norm_sizes(config, keys)?;
    keys.set(WINDOW, config.optional_count(&["sliding_window"])?.unwrap_or(0));
    let n_ctx = config.count(&["max_position_embeddings"])?;
    let n_ctx_orig = config.optional_count(&["original_max_position_embeddings"])?.unwrap_or(4096);
    keys.set("rope.scaling.original_context_length", n_ctx_orig);
    let rope = WHOLE_HEADS.part(1.0).read(config)?;
    rope.write_base(keys);
    match rope.kind {
        "default" => Ok(()),
        // The others are what earlier releases called it.
        "longrope" | "su" | "yarn" => {
            long_rope(rope.object(), f64::from(n_ctx), f64::from(n_ctx_orig), rope.n_rot as usize, keys)
        }
        _ => Err(rope.unsupported("default, longrope")),
    }
}

/// Beyond the original context the long factors hold, as in the code of the model's authors and in llama.cpp; `transformers` 5.24 forgets to
/// change them.
fn moe(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    const ORIGINAL: &str = "original_max_position_embeddings";
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    rms_norm_sizes(config, keys)?;
    keys.set(WINDOW, config.optional_count(&["sliding_window"])?.unwrap_or(0));
    keys.set("expert_count", config.count(&["num_local_experts"])?);
    // The class chooses two whatever the number of experts of a token is.
    keys.set("expert_used_count", 2u32);
    let jitter = config.f64(&["router_jitter_noise"])?.unwrap_or(0.01);
    if jitter != 0.01 {
        return Err(config.unsupported("router_jitter_noise", &jitter.to_string(), "0.01"));
    }
    let rope = Rotary { theta: 1e6, ..WHOLE_HEADS }.read(config)?;
    rope.write_base(keys);
    if rope.kind == "default" {
        return Ok(());
    }
    if !["longrope", "su"].contains(&rope.kind) {
        return Err(rope.unsupported("default, longrope"));
    }
    let object = rope.object();
    let n_ctx = config.count(&["max_position_embeddings"])?;
    let n_ctx_orig = match object.optional_count(&[ORIGINAL])? {
        Some(n) => n,
        None => config.count(&[ORIGINAL])?,
    };
    keys.set("rope.scaling.original_context_length", n_ctx_orig);
    long_factors(object, rope.n_rot as usize, keys)?;
    let [short, long] = ["short_mscale", "long_mscale"].map(|key| object.require_f64(&[key]));
    let (short, long) = (short?, long?);
    // Within the original context one of them holds, and beyond it the other.
    if short != long && n_ctx > n_ctx_orig {
        return Err(object.unsupported(
            "long_mscale",
            &long.to_string(),
            &format!("{short}, as of short_mscale"),
        ));
    }
    keys.set_f32("rope.scaling.attn_factor", Some(short));
    Ok(())
}

/// LongRoPE (Ding et al. 2024): a factor per pair for short and for long contexts, and one on the vectors.
pub fn long_rope(
    rope: &Config<'_>,
    n_ctx: f64,
    n_ctx_orig: f64,
    n_rot: usize,
    keys: &mut Keys,
) -> Result<()> {
    long_factors(rope, n_rot, keys)?;
    let ratio = match rope.f64(&["factor"])? {
        Some(factor) => factor,
        None => n_ctx / n_ctx_orig,
    };
    let implied = if ratio > 1.0 { (1.0 + libm::log(ratio) / libm::log(n_ctx_orig)).sqrt() } else { 1.0 };
    let factor = rope.f64(&["attention_factor"])?.unwrap_or(implied);
    keys.set_f32("rope.scaling.attn_factor", Some(factor));
    Ok(())
}

/// The factors per pair.
fn long_factors(rope: &Config<'_>, n_rot: usize, keys: &mut Keys) -> Result<()> {
    for (key, name) in
        [("long_factor", "rope_factors_long.weight"), ("short_factor", "rope_factors_short.weight")]
    {
        let factors = rope.f64s(key)?.ok_or_else(|| rope.missing(&[key]))?;
        if factors.len() != n_rot / 2 {
            return Err(Error::Format(format!(
                "config.json: {key:?} has {} elements, expected {} for {n_rot} rotated elements of a head",
                factors.len(),
                n_rot / 2
            )));
        }
        keys.vectors.push((name, factors.into_iter().map(|x| x as f32).collect()));
    }
    Ok(())
}
