//! Gemma 3n: a residual stream of several vectors, per-layer embeddings, layers that share keys and values, sparse hidden layers.
#![forbid(unsafe_code)]

use super::gemma4::OTHER_PARTS;
use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::When::{self, If, Never};
use crate::hf::family::{
    Family, Head, Keys, N_LAYER, Name, TANH_GELU, WINDOW, plain_sizes, rms_norm_eps, windowed_layers,
};
use crate::hf::layout::Change::{Same, Stack};
use crate::hf::names::{ATTENTION, ENDS, GATED, MODEL, QK_NORMS, ROTARY_BUFFERS, WRAPPED};
use crate::hf::rope;

const NAMES: &[Name] = &[
    ("embed_tokens_per_layer", "per_layer_token_embd", Same),
    ("per_layer_model_projection", "per_layer_model_proj", Same),
    ("per_layer_projection_norm", "per_layer_proj_norm", Same),
    ("altup_projections.{}", "altup_proj", Stack),
    ("altup_unembed_projections.{}", "altup_unembd_proj", Stack),
    ("layers.{}.input_layernorm", "blk.{}.attn_norm", Same),
    ("layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", Same),
    ("layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm", Same),
    ("layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm", Same),
    ("layers.{}.altup.modality_router", "blk.{}.altup_router", Same),
    ("layers.{}.altup.router_norm", "blk.{}.altup_router_norm", Same),
    ("layers.{}.altup.prediction_coefs", "blk.{}.altup_predict_coef", Same),
    ("layers.{}.altup.correction_coefs", "blk.{}.altup_correct_coef", Same),
    ("layers.{}.altup.correct_output_scale", "blk.{}.altup_correct_scale", Same),
    ("layers.{}.laurel.linear_left", "blk.{}.laurel_l", Same),
    ("layers.{}.laurel.linear_right", "blk.{}.laurel_r", Same),
    ("layers.{}.laurel.post_laurel_norm", "blk.{}.laurel_post_norm", Same),
    ("layers.{}.per_layer_input_gate", "blk.{}.inp_gate", Same),
    ("layers.{}.per_layer_projection", "blk.{}.proj", Same),
    ("layers.{}.post_per_layer_input_norm", "blk.{}.post_norm", Same),
];

const CONDITIONS: &[(&str, When)] = &[
    ("*.altup.correct_output_scale.weight", If("altup_correct_scale", true)),
    ("*.gate_proj.bias", Never),
    ("*.up_proj.bias", Never),
    ("*.down_proj.bias", Never),
    ("*_proj.bias", If("attention_bias", false)),
    ("*.bias", Never),
];

const TEXT: Family = Family {
    model_type: "gemma3n_text",
    architecture: "gemma3n",
    prefixes: MODEL,
    names: &[ENDS, NAMES, ATTENTION, QK_NORMS, GATED],
    ignored: ROTARY_BUFFERS,
    conditions: CONDITIONS,
    head: Head::TiedByDefault,
    keys,
};

/// Gemma 3n, by itself and inside the model that sees and hears.
pub const FAMILIES: &[Family] =
    &[TEXT, Family { model_type: "gemma3n", prefixes: WRAPPED, ignored: OTHER_PARTS, ..TEXT }];

/// Layers after which the pattern of windows repeats where the configuration does not list them.
const PERIOD: usize = 5;

fn keys(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_activation"], TANH_GELU)?;
    plain_sizes(config, out)?;
    let head_dim = config.optional_count(&["head_dim"])?.unwrap_or(256);
    out.set("attention.key_length", head_dim);
    out.set("attention.value_length", head_dim);
    out.set("attention.head_count_kv", config.optional_count(&["num_key_value_heads"])?.unwrap_or(2));
    rms_norm_eps(config, out)?;
    let n_layer = config.count(N_LAYER)? as usize;
    set_widths(config, out, n_layer)?;
    const MOST_LAYERS: usize = 1 << 16;
    if n_layer > MOST_LAYERS {
        return Err(config.unsupported(N_LAYER[0], &n_layer.to_string(), &format!("{MOST_LAYERS} at most")));
    }
    let listed = windowed_layers(config, Some(n_layer))?;
    let windowed = listed.unwrap_or_else(|| (0..n_layer).map(|i| !(i + 1).is_multiple_of(PERIOD)).collect());
    out.set("attention.sliding_window_pattern", windowed);
    out.set(WINDOW, config.optional_count(&["sliding_window"])?.unwrap_or(512));
    out.set("attention.shared_kv_layers", config.u32(&["num_kv_shared_layers"])?.unwrap_or(15));
    let cap = config.f64(&["final_logit_softcapping"])?;
    out.set_f32("final_logit_softcapping", Some(cap.unwrap_or(30.0)));
    out.set("embedding_length_per_layer_input", config.u32(&["hidden_size_per_layer_input"])?.unwrap_or(256));
    out.set("altup.num_inputs", config.optional_count(&["altup_num_inputs"])?.unwrap_or(4));
    out.set("altup.active_idx", config.u32(&["altup_active_idx"])?.unwrap_or(0));
    set_sparsity(config, out, n_layer)?;
    if let Some(scaling) = config.object(&["rope_scaling"])?.filter(|scaling| scaling.is_null("rope_theta")) {
        return Err(scaling.unsupported("rope_theta", "null", "a number"));
    }
    rope::write_by_kind(config, out, rope::GEMMA3_BASES, head_dim)
}

/// Feed-forward blocks: of one width, or a list with that of each layer.
fn set_widths(config: &Config<'_>, out: &mut Keys, n_layer: usize) -> Result<()> {
    const WIDTH: &str = "intermediate_size";
    let widths = config.counts(WIDTH)?.unwrap_or_else(|| vec![16_384]);
    if widths.len() != 1 && widths.len() != n_layer {
        let found = format!("a list of {}", widths.len());
        return Err(config.unsupported(WIDTH, &found, &format!("one of {n_layer}, as layers")));
    }
    match (
        &widths[..],
        widths.iter().map(|&n| i32::try_from(n)).collect::<std::result::Result<Vec<i32>, _>>(),
    ) {
        ([one], _) => out.set("feed_forward_length", *one),
        (_, Ok(list)) => out.set("feed_forward_length", list),
        (_, Err(_)) => {
            return Err(config.unsupported(WIDTH, "a list with more", &format!("{} at most", i32::MAX)));
        }
    }
    Ok(())
}

/// How far above the mean, in standard deviations, the elements of hidden layers have to lie of which a share is set to 0.
fn set_sparsity(config: &Config<'_>, out: &mut Keys, n_layer: usize) -> Result<()> {
    const PATTERN: &str = "activation_sparsity_pattern";
    const SPARSE: (usize, f64) = (10, 0.95);
    let absent = || {
        let n_sparse = if n_layer > SPARSE.0 { SPARSE.0 } else { 0 };
        (0..n_layer).map(|i| if i < n_sparse { SPARSE.1 } else { 0.0 }).collect()
    };
    let shares = config.f64s(PATTERN)?.unwrap_or_else(absent);
    if shares.len() != n_layer {
        let found = format!("a list of {}", shares.len());
        return Err(config.unsupported(PATTERN, &found, &format!("one of {n_layer}, as layers")));
    }
    if let Some(share) = shares.iter().find(|share| !(0.0..1.0).contains(*share)) {
        return Err(config.unsupported(PATTERN, &share.to_string(), "shares of at least 0 and below 1"));
    }
    let factors: Vec<f32> = shares.iter().map(|&share| quantile(share) as f32).collect();
    out.set("activation_sparsity_scale", factors);
    Ok(())
}

/// The number below which a standard normal variable lies with probability `p`.
fn quantile(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let (mut low, mut high) = (-40.0f64, 40.0f64);
    // Halved until there is no number between.
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return middle;
        }
        match 0.5 * libm::erfc(-middle * std::f64::consts::FRAC_1_SQRT_2) < p {
            true => low = middle,
            false => high = middle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::quantile;

    /// Values of a table of the normal distribution.
    #[test]
    fn quantiles_are_those_of_the_normal_distribution() {
        for (p, z) in
            [(0.5, 0.0), (0.95, 1.644_853_626_951), (0.1, -1.281_551_565_545), (0.999, 3.090_232_306_168)]
        {
            assert!((quantile(p) - z).abs() < 1e-11, "{p}");
        }
        assert_eq!(quantile(0.0), f64::NEG_INFINITY);
    }
}
