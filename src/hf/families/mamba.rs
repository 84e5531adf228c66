//! Mamba and FalconMamba: mixers and nothing else.
#![forbid(unsafe_code)]

use crate::error::Result;
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
    ("layers.{}.mixer.x_proj", "blk.{}.ssm_x", Same),
    ("layers.{}.mixer.dt_proj", "blk.{}.ssm_dt", Same),
    ("layers.{}.mixer.A_log", "blk.{}.ssm_a", MinusExp),
    ("layers.{}.mixer.D", "blk.{}.ssm_d", Same),
    ("layers.{}.mixer.out_proj", "blk.{}.ssm_out", Same),
];

const BIASES: &[(&str, When)] = &[
    ("*.dt_proj.bias", Always),
    ("*.conv1d.bias", If("use_conv_bias", true)),
    ("*.in_proj.bias", If("use_bias", false)),
    ("*.out_proj.bias", If("use_bias", false)),
    ("*.bias", Never),
];

const fn family(model_type: &'static str, keys: fn(&Config<'_>, &mut Keys) -> Result<()>) -> Family {
    Family {
        model_type,
        architecture: "mamba",
        prefixes: &["backbone."],
        names: &[NAMES],
        ignored: &[],
        conditions: BIASES,
        head: Head::TiedByDefault,
        keys,
    }
}

/// Mamba, and FalconMamba, which has norms within mixers.
pub const FAMILIES: &[Family] = &[family("mamba", plain), family("falcon_mamba", with_norms)];

fn plain(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    out.set("ssm.dt_b_c_rms", false);
    keys(config, out)
}

fn with_norms(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    out.set("ssm.dt_b_c_rms", true);
    out.mixer_epsilon = Some(config.positive(&["mixer_rms_eps"])?.unwrap_or(1e-6) as f32);
    keys(config, out)
}

/// Positions that a model was trained on, which no configuration has: as many as llama.cpp's converter writes.
const N_CTX: u32 = 1 << 20;

fn keys(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    let n_embd = config.count(HIDDEN_SIZE)?;
    out.set("block_count", config.count(N_LAYER)?);
    out.set("context_length", N_CTX);
    out.set("embedding_length", n_embd);
    out.set("feed_forward_length", 0u32);
    out.set("attention.head_count", 0u32);
    out.set_some("vocab_size", config.u32(&["vocab_size"])?);
    // `transformers` 5.24 computes with other weights where it is true.
    config.expect_bool("rescale_prenorm_residual", false)?;
    let count = |key: &str, default: u32| {
        Ok::<_, crate::error::Error>(config.optional_count(&[key])?.unwrap_or(default))
    };
    let inner = match config.optional_count(&["intermediate_size"])? {
        Some(inner) => inner,
        None => {
            let expand = count("expand", 2)?;
            let inner = n_embd.checked_mul(expand);
            inner.ok_or_else(|| config.unsupported("expand", &expand.to_string(), "less"))?
        }
    };
    out.set("ssm.inner_size", inner);
    out.set("ssm.state_size", count("state_size", 16)?);
    out.set("ssm.conv_kernel", count("conv_kernel", 4)?);
    const RANK: &str = "time_step_rank";
    let rank = match config.shown(RANK).as_deref() {
        None | Some("\"auto\"") => n_embd.div_ceil(16),
        Some(_) => config.count(&[RANK])?,
    };
    out.set("ssm.time_step_rank", rank);
    let eps = config.f64(&["layer_norm_epsilon"])?.unwrap_or(1e-5);
    out.set_f32("attention.layer_norm_rms_epsilon", Some(eps));
    Ok(())
}
