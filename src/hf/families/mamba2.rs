//! Mamba-2: mixers and nothing else.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::hf::config::Config;
use crate::hf::family::When::{self, Always, If, Never};
use crate::hf::family::{Family, HIDDEN_SIZE, Head, Keys, N_LAYER, Name};
use crate::hf::layout::Change::{MinusExp, Same, Squeeze};

const NAMES: &[Name] = &[
    ("embeddings", "token_embd", Same),
    ("norm_f", "output_norm", Same),
    ("lm_head", "output", Same),
    ("layers.{}.norm", "blk.{}.attn_norm", Same),
    ("layers.{}.mixer.in_proj", "blk.{}.ssm_in", Same),
    ("layers.{}.mixer.conv1d", "blk.{}.ssm_conv1d", Squeeze),
    ("layers.{}.mixer.dt_bias", "blk.{}.ssm_dt", Same),
    ("layers.{}.mixer.A_log", "blk.{}.ssm_a", MinusExp),
    ("layers.{}.mixer.D", "blk.{}.ssm_d", Same),
    ("layers.{}.mixer.norm", "blk.{}.ssm_norm", Same),
    ("layers.{}.mixer.out_proj", "blk.{}.ssm_out", Same),
];
const BIASES: &[(&str, When)] = &[
    ("*.dt_bias.bias", Always),
    ("*.conv1d.bias", If("use_conv_bias", true)),
    ("*.in_proj.bias", If("use_bias", false)),
    ("*.out_proj.bias", If("use_bias", false)),
    ("*.bias", Never),
];

/// Mamba-2.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "mamba2",
    architecture: "mamba2",
    prefixes: &["backbone."],
    names: &[NAMES],
    ignored: &[],
    conditions: BIASES,
    head: Head::UntiedByDefault,
    keys,
}];

/// Positions that a model was trained on, which no configuration has: as many as llama.cpp's converter writes.
const N_CTX: u32 = 1 << 20;

fn keys(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    // `transformers` 5.24 computes with other weights where it is true.
    config.expect_bool("rescale_prenorm_residual", false)?;
    let n_embd = config.count(HIDDEN_SIZE)?;
    out.set("block_count", config.count(N_LAYER)?);
    out.set("context_length", N_CTX);
    out.set("embedding_length", n_embd);
    out.set("feed_forward_length", 0u32);
    out.set("attention.head_count", 0u32);
    out.set_some("vocab_size", config.u32(&["vocab_size"])?);
    let count = |key: &str, default: u32| Ok::<_, Error>(config.optional_count(&[key])?.unwrap_or(default));
    let (n_head, head_dim, expand) = (count("num_heads", 128)?, count("head_dim", 64)?, count("expand", 2)?);
    let inner = n_embd.checked_mul(expand);
    let inner = inner.ok_or_else(|| config.unsupported("expand", &expand.to_string(), "less"))?;
    if n_head.checked_mul(head_dim) != Some(inner) {
        let expected = format!("{inner}, as \"expand\" says, divided by {n_head}, as \"num_heads\" says");
        return Err(config.unsupported("head_dim", &head_dim.to_string(), &expected));
    }
    out.set("ssm.inner_size", inner);
    out.set("ssm.time_step_rank", n_head);
    out.set("ssm.group_count", count("n_groups", 8)?);
    out.set("ssm.state_size", count("state_size", 128)?);
    out.set("ssm.conv_kernel", count("conv_kernel", 4)?);
    out.set_f32(
        "attention.layer_norm_rms_epsilon",
        Some(config.f64(&["layer_norm_epsilon"])?.unwrap_or(1e-5)),
    );
    time_steps(config, out)
}

/// Bounds of time steps: the upper one has to be infinite.
pub fn time_steps(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    const LIMIT: &str = "time_step_limit";
    if let Some((lower, upper)) = config.bounds(LIMIT)? {
        if upper != f64::INFINITY || !(0.0..=f64::from(f32::MAX)).contains(&lower) {
            let found = format!("from {lower} to {upper}");
            return Err(config.unsupported(LIMIT, &found, "from 0 and more to Infinity"));
        }
        out.least_time_step = lower as f32;
    }
    Ok(())
}
