//! T5, mT5 and UMT5: their encoders.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::gguf::quoted;
use crate::hf::config::Config;
use crate::hf::family::When::Never;
use crate::hf::family::{Family, Head, Keys, N_CTX, Name, TANH_GELU};
use crate::hf::layout::Change::Same;

const NAMES: &[Name] = &[
    ("shared", "token_embd", Same),
    ("encoder.embed_tokens", "token_embd", Same),
    ("encoder.block.{}.layer.0.layer_norm", "enc.blk.{}.attn_norm", Same),
    ("encoder.block.{}.layer.0.SelfAttention.q", "enc.blk.{}.attn_q", Same),
    ("encoder.block.{}.layer.0.SelfAttention.k", "enc.blk.{}.attn_k", Same),
    ("encoder.block.{}.layer.0.SelfAttention.v", "enc.blk.{}.attn_v", Same),
    ("encoder.block.{}.layer.0.SelfAttention.o", "enc.blk.{}.attn_o", Same),
    ("encoder.block.{}.layer.0.SelfAttention.relative_attention_bias", "enc.blk.{}.attn_rel_b", Same),
    ("encoder.block.{}.layer.1.layer_norm", "enc.blk.{}.ffn_norm", Same),
    ("encoder.block.{}.layer.1.DenseReluDense.wo", "enc.blk.{}.ffn_down", Same),
    ("encoder.final_layer_norm", "enc.output_norm", Same),
];
/// Feed-forward without gates.
const PLAIN: &[Name] = &[("encoder.block.{}.layer.1.DenseReluDense.wi", "enc.blk.{}.ffn_up", Same)];
/// And with them.
const GATES: &[Name] = &[
    ("encoder.block.{}.layer.1.DenseReluDense.wi_0", "enc.blk.{}.ffn_gate", Same),
    ("encoder.block.{}.layer.1.DenseReluDense.wi_1", "enc.blk.{}.ffn_up", Same),
];

const T5: Family = Family {
    model_type: "t5",
    architecture: "t5encoder",
    prefixes: &[""],
    names: &[NAMES, PLAIN, GATES],
    // What the class of the encoder leaves out.
    ignored: &["decoder.*", "lm_head.*"],
    conditions: &[("*.bias", Never)],
    head: Head::None,
    keys,
};

/// T5 and its heirs.
pub const FAMILIES: &[Family] = &[
    T5,
    Family { model_type: "mt5", keys: gated, ..T5 },
    Family { model_type: "umt5", keys: of_each_layer, ..T5 },
];

/// The forms of feed-forward blocks.
const RELU: &str = "relu";
const GATED_GELU: &str = "gated-gelu";

/// T5, where the first layer's bias is that of all.
fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    sizes(config, keys, RELU)
}

/// mT5, the same with gates.
fn gated(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    sizes(config, keys, GATED_GELU)
}

/// UMT5, where each layer has a bias of its own.
fn of_each_layer(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    sizes(config, keys, GATED_GELU)?;
    let layers = 0..keys.count("block_count").unwrap_or(0);
    keys.required.extend(layers.map(|i| format!("enc.blk.{i}.attn_rel_b.weight")));
    Ok(())
}

/// What all have; `form` is that of feed-forward where the configuration does not say.
fn sizes(config: &Config<'_>, keys: &mut Keys, form: &'static str) -> Result<()> {
    const CLASSES: &str = "architectures";
    const ENCODER: &str =
        "an encoder by itself (\"T5EncoderModel\", \"MT5EncoderModel\", \"UMT5EncoderModel\")";
    let classes = config.strs(CLASSES)?.unwrap_or_default();
    match classes.first() {
        Some(class) if class.ends_with("T5EncoderModel") => {}
        Some(class) => return Err(config.unsupported(CLASSES, &quoted(class.as_bytes()), ENCODER)),
        None => return Err(config.unsupported(CLASSES, "absent", ENCODER)),
    }
    config.expect_bool("is_decoder", false)?;
    let is_gated = set_form(config, keys, form)?;
    keys.set("block_count", config.count(&["num_layers", "num_hidden_layers"])?);
    keys.set("context_length", config.optional_count(N_CTX)?.unwrap_or(512));
    keys.set("embedding_length", config.count(&["d_model", "hidden_size"])?);
    keys.set("feed_forward_length", config.count(&["d_ff"])?);
    keys.set("attention.head_count", config.count(&["num_heads", "num_attention_heads"])?);
    let head_dim = config.count(&["d_kv", "head_dim"])?;
    keys.set("attention.key_length", head_dim);
    keys.set("attention.value_length", head_dim);
    keys.set_some("vocab_size", config.u32(&["vocab_size"])?);
    let eps = config.f64(&["layer_norm_epsilon"])?.unwrap_or(1e-6);
    keys.set_f32("attention.layer_norm_rms_epsilon", Some(eps));
    keys.set_f32("attention.layer_norm_epsilon", Some(eps));
    let n_buckets = config.u32(&["relative_attention_num_buckets"])?.unwrap_or(32);
    keys.set("attention.relative_buckets_count", n_buckets);
    keys.set_some("attention.relative_max_distance", config.u32(&["relative_attention_max_distance"])?);
    let layers = 0..keys.count("block_count").unwrap_or(0);
    if is_gated {
        keys.required.extend(layers.map(|i| format!("enc.blk.{i}.ffn_gate.weight")));
    }
    // Some folders have it under either name, or both.
    keys.shadowed.push(("shared.weight", "encoder.embed_tokens.weight"));
    Ok(())
}

/// Writes the activation of feed-forward, and gives whether that has gates.
fn set_form(config: &Config<'_>, keys: &mut Keys, default: &'static str) -> Result<bool> {
    const FORM: &str = "feed_forward_proj";
    const ACTIVATION: &str = "dense_act_fn";
    const GATED: &str = "is_gated_act";
    let form = config.str(&[FORM])?.unwrap_or(default);
    let (name, is_gated) = match form.strip_prefix("gated-") {
        Some("gelu") => ("gelu_new", true),
        Some(name) => (name, true),
        None => (form, false),
    };
    // Where the class has written what it made of that, this is what counts.
    let (key, name) = config.str(&[ACTIVATION])?.map_or((FORM, name), |name| (ACTIVATION, name));
    let (gate_key, is_gated) = match config.bool(GATED)? {
        Some(is_gated) => (GATED, is_gated),
        None => (FORM, is_gated && !config.is_null(GATED)),
    };
    let activation = match name {
        "relu" | "gelu" | "silu" => name,
        "swish" => "silu",
        tanh if TANH_GELU.contains(&tanh) => "gelu_pytorch_tanh",
        other => {
            let known = "relu, gelu, gelu_new, silu, and gates of these";
            return Err(config.unsupported(key, &quoted(other.as_bytes()), known));
        }
    };
    keys.set("hidden_activation", activation);
    keys.absent.extend(match is_gated {
        true => vec![("*.wi.weight", gate_key)],
        false => vec![("*.wi_0.weight", gate_key), ("*.wi_1.weight", gate_key)],
    });
    Ok(is_gated)
}
