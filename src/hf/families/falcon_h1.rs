//! Falcon-H1: a mixer of Mamba-2 and attention side by side in each layer, and factors on most matrices.
#![forbid(unsafe_code)]

use super::mamba2::time_steps;
use crate::error::{Error, Result};
use crate::hf::config::Config;
use crate::hf::family::When::{self, Always, If, Never};
use crate::hf::family::{Family, HIDDEN_SIZE, Head, Keys, Name, rms_norm_sizes, set_divided_head_dim};
use crate::hf::layout::Change::{MinusExp, Same, Squeeze};
use crate::hf::names::{ATTENTION, MODEL, ROTARY_BUFFERS};
use crate::hf::rope::WHOLE_HEADS;

const NAMES: &[Name] = &[
    ("embed_tokens", "token_embd", Same),
    ("final_layernorm", "output_norm", Same),
    ("lm_head", "output", Same),
    ("layers.{}.input_layernorm", "blk.{}.attn_norm", Same),
    ("layers.{}.pre_ff_layernorm", "blk.{}.ffn_norm", Same),
    ("layers.{}.feed_forward.gate_proj", "blk.{}.ffn_gate", Same),
    ("layers.{}.feed_forward.up_proj", "blk.{}.ffn_up", Same),
    ("layers.{}.feed_forward.down_proj", "blk.{}.ffn_down", Same),
    ("layers.{}.mamba.in_proj", "blk.{}.ssm_in", Same),
    ("layers.{}.mamba.conv1d", "blk.{}.ssm_conv1d", Squeeze),
    ("layers.{}.mamba.dt_bias", "blk.{}.ssm_dt", Same),
    ("layers.{}.mamba.A_log", "blk.{}.ssm_a", MinusExp),
    ("layers.{}.mamba.D", "blk.{}.ssm_d", Same),
    ("layers.{}.mamba.norm", "blk.{}.ssm_norm", Same),
    ("layers.{}.mamba.out_proj", "blk.{}.ssm_out", Same),
];
const CONDITIONS: &[(&str, When)] = &[
    ("*.mamba.norm.weight", If("mamba_rms_norm", false)),
    ("*.dt_bias.bias", Always),
    ("*.conv1d.bias", If("mamba_conv_bias", true)),
    ("*.in_proj.bias", If("mamba_proj_bias", false)),
    ("*.out_proj.bias", If("projectors_bias", false)),
    ("*.gate_proj.bias", If("mlp_bias", false)),
    ("*.up_proj.bias", If("mlp_bias", false)),
    ("*.down_proj.bias", If("mlp_bias", false)),
    ("*_proj.bias", If("attention_bias", false)),
    ("*.bias", Never),
];

/// Falcon-H1.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "falcon_h1",
    architecture: "falcon-h1",
    prefixes: MODEL,
    names: &[NAMES, ATTENTION],
    ignored: ROTARY_BUFFERS,
    conditions: CONDITIONS,
    head: Head::UntiedByDefault,
    keys,
}];

fn keys(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    rms_norm_sizes(config, out)?;
    set_divided_head_dim(config, out)?;
    const HEADS: &str = "num_key_value_heads";
    if !config.has(HEADS) && !config.is_null(HEADS) {
        out.set("attention.head_count_kv", 8u32);
    }
    let count = |key: &str, default: u32| Ok::<_, Error>(config.optional_count(&[key])?.unwrap_or(default));
    const INNER: &str = "mamba_d_ssm";
    let inner = match config.is_null(INNER) {
        false => count(INNER, 1024)?,
        true => {
            let inner = count("mamba_expand", 2)?.checked_mul(config.count(HIDDEN_SIZE)?);
            inner.ok_or_else(|| config.unsupported("mamba_expand", "too large", "less"))?
        }
    };
    let n_head = count("mamba_n_heads", 128)?;
    const HEAD_DIM: &str = "mamba_d_head";
    // It is a number or "auto".
    let auto = config.shown(HEAD_DIM).is_none_or(|shown| shown == "\"auto\"");
    let head_dim = if auto { inner / n_head } else { config.count(&[HEAD_DIM])? };
    if head_dim.checked_mul(n_head) != Some(inner) {
        let expected = format!("{inner} divided by {n_head}, the number of heads");
        return Err(config.unsupported(HEAD_DIM, &head_dim.to_string(), &expected));
    }
    let (n_group, n_state) = (count("mamba_n_groups", 1)?, count("mamba_d_state", 256)?);
    out.set("ssm.inner_size", inner);
    out.set("ssm.time_step_rank", n_head);
    out.set("ssm.group_count", n_group);
    out.set("ssm.state_size", n_state);
    out.set("ssm.conv_kernel", count("mamba_d_conv", 4)?);
    if config.bool("mamba_rms_norm")? == Some(true) {
        const BEFORE: &str = "mamba_norm_before_gate";
        if config.bool(BEFORE)?.unwrap_or(!config.is_null(BEFORE)) {
            let found = config.shown(BEFORE).unwrap_or_else(|| "true by default".to_owned());
            return Err(config.unsupported(BEFORE, &found, "false beside \"mamba_rms_norm\""));
        }
        out.require_in_layers(&["ssm_norm.weight"]);
    }
    let of_groups = n_group.checked_mul(n_state);
    let of_groups =
        of_groups.ok_or_else(|| config.unsupported("mamba_d_state", &n_state.to_string(), "less"))?;
    const BIAS: &str = "mamba_conv_bias";
    if config.is_null(BIAS) {
        return Err(config.unsupported(BIAS, "null", "true, false"));
    }
    factors(config, out, [inner, inner, of_groups, of_groups, n_head])?;
    time_steps(config, out)?;
    WHOLE_HEADS.write(config, out)
}

/// The factors on tensors; `parts` are the rows of the parts of what goes into a mixer.
fn factors(config: &Config<'_>, out: &mut Keys, parts: [u32; 5]) -> Result<()> {
    let factor = |key: &str| Ok::<_, Error>(config.f64(&[key])?.unwrap_or(1.0));
    let list = |key: &str, n: usize| match config.f64s(key)? {
        None => Ok(vec![1.0; n]),
        Some(list) if list.len() == n && list.iter().all(|x| (*x as f32).is_finite()) => Ok(list),
        Some(list) => Err(config.unsupported(key, &format!("{list:?}"), &format!("{n} finite numbers"))),
    };
    let mlp = list("mlp_multipliers", 2)?;
    let (attn_in, attn_out) = (factor("attention_in_multiplier")?, factor("attention_out_multiplier")?);
    let (ssm_in, ssm_out) = (factor("ssm_in_multiplier")?, factor("ssm_out_multiplier")?);
    let on_keys = factor("key_multiplier")?;
    const ON_LOGITS: &str = "lm_head_multiplier";
    let on_logits = factor(ON_LOGITS)?;
    if on_logits == 0.0 {
        return Err(config.unsupported(ON_LOGITS, "0", "another number"));
    }
    for (tensor, factor) in [
        ("token_embd.weight", factor("embedding_multiplier")?),
        ("output.weight", on_logits),
        ("attn_q.weight", attn_in),
        ("attn_k.weight", on_keys * attn_in),
        ("attn_k.bias", on_keys),
        ("attn_v.weight", attn_in),
        ("attn_output.weight", attn_out),
        ("attn_output.bias", attn_out),
        ("ffn_gate.weight", mlp[0]),
        ("ffn_gate.bias", mlp[0]),
        ("ffn_down.weight", mlp[1]),
        ("ffn_down.bias", mlp[1]),
        ("ssm_out.weight", ssm_out),
        ("ssm_out.bias", ssm_out),
    ] {
        out.scale(tensor, vec![(usize::MAX, factor as f32)]);
    }
    let on_parts = list("ssm_multipliers", 5)?;
    let rows = |of_all: f32| {
        let of_part = |(n, factor): (&u32, &f64)| (*n as usize, *factor as f32 * of_all);
        parts.iter().zip(&on_parts).map(of_part).collect()
    };
    out.scale("ssm_in.weight", rows(ssm_in as f32));
    out.scale("ssm_in.bias", rows(1.0));
    Ok(())
}
