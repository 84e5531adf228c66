//! T5, mT5 and UMT5: an encoder with its decoder, or the encoder by itself.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::gguf::quoted;
use crate::hf::config::Config;
use crate::hf::family::When::{self, First, Never};
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
const DECODER: &[Name] = &[
    ("decoder.embed_tokens", "token_embd", Same),
    ("decoder.block.{}.layer.0.layer_norm", "dec.blk.{}.attn_norm", Same),
    ("decoder.block.{}.layer.0.SelfAttention.q", "dec.blk.{}.attn_q", Same),
    ("decoder.block.{}.layer.0.SelfAttention.k", "dec.blk.{}.attn_k", Same),
    ("decoder.block.{}.layer.0.SelfAttention.v", "dec.blk.{}.attn_v", Same),
    ("decoder.block.{}.layer.0.SelfAttention.o", "dec.blk.{}.attn_o", Same),
    ("decoder.block.{}.layer.0.SelfAttention.relative_attention_bias", "dec.blk.{}.attn_rel_b", Same),
    ("decoder.block.{}.layer.1.layer_norm", "dec.blk.{}.cross_attn_norm", Same),
    ("decoder.block.{}.layer.1.EncDecAttention.q", "dec.blk.{}.cross_attn_q", Same),
    ("decoder.block.{}.layer.1.EncDecAttention.k", "dec.blk.{}.cross_attn_k", Same),
    ("decoder.block.{}.layer.1.EncDecAttention.v", "dec.blk.{}.cross_attn_v", Same),
    ("decoder.block.{}.layer.1.EncDecAttention.o", "dec.blk.{}.cross_attn_o", Same),
    ("decoder.block.{}.layer.2.layer_norm", "dec.blk.{}.ffn_norm", Same),
    ("decoder.block.{}.layer.2.DenseReluDense.wo", "dec.blk.{}.ffn_down", Same),
    ("decoder.final_layer_norm", "dec.output_norm", Same),
    ("lm_head", "output", Same),
];
/// Feed-forward without gates.
const PLAIN: &[Name] = &[
    ("encoder.block.{}.layer.1.DenseReluDense.wi", "enc.blk.{}.ffn_up", Same),
    ("decoder.block.{}.layer.2.DenseReluDense.wi", "dec.blk.{}.ffn_up", Same),
];
/// And with them.
const GATES: &[Name] = &[
    ("encoder.block.{}.layer.1.DenseReluDense.wi_0", "enc.blk.{}.ffn_gate", Same),
    ("encoder.block.{}.layer.1.DenseReluDense.wi_1", "enc.blk.{}.ffn_up", Same),
    ("decoder.block.{}.layer.2.DenseReluDense.wi_0", "dec.blk.{}.ffn_gate", Same),
    ("decoder.block.{}.layer.2.DenseReluDense.wi_1", "dec.blk.{}.ffn_up", Same),
];
/// The token embedding, which a folder may have under each of these names.
const SHARED: &str = "shared.weight";
const OF_ENCODER: &str = "encoder.embed_tokens.weight";
const OF_DECODER: &str = "decoder.embed_tokens.weight";

const NO_BIASES: (&str, When) = ("*.bias", Never);

const T5: Family = Family {
    model_type: "t5",
    architecture: "t5encoder",
    prefixes: &[""],
    names: &[NAMES, DECODER, PLAIN, GATES],
    // The first checkpoints have one, which no class reads.
    ignored: &["*.EncDecAttention.relative_attention_bias.weight"],
    conditions: &[NO_BIASES, ("*.relative_attention_bias.weight", First)],
    head: Head::Tied,
    keys: t5,
};

/// T5 and its heirs.
pub const FAMILIES: &[Family] = &[
    T5,
    Family { model_type: "mt5", keys: mt5, ..T5 },
    Family { model_type: "umt5", conditions: &[NO_BIASES], keys: umt5, ..T5 },
];

/// What the model types differ in.
struct Kind {
    /// The form of feed-forward where the configuration does not say.
    form: &'static str,
    /// Whether each layer has a bias of its own, and not the first one's.
    own_biases: bool,
    /// Whether its class scales logits where the configuration says so.
    scales: bool,
}

const GATED_GELU: &str = "gated-gelu";

fn t5(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    fill(config, keys, &Kind { form: "relu", own_biases: false, scales: true })
}

fn mt5(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    fill(config, keys, &Kind { form: GATED_GELU, own_biases: false, scales: false })
}

fn umt5(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    fill(config, keys, &Kind { form: GATED_GELU, own_biases: true, scales: true })
}

const CLASSES: &str = "architectures";

/// Writes the keys of a model of the kind.
fn fill(config: &Config<'_>, keys: &mut Keys, kind: &Kind) -> Result<()> {
    const N_ENCODER: &[&str] = &["num_layers", "num_hidden_layers"];
    let has_decoder = has_decoder(config)?;
    if has_decoder {
        keys.switch("t5");
        keys.copies.extend([(OF_ENCODER, SHARED), (OF_DECODER, SHARED), (OF_DECODER, OF_ENCODER)]);
        keys.begins_answers = true;
    } else {
        config.expect_bool("is_decoder", false)?;
        keys.has_no_head = true;
        keys.absent.extend([("decoder.*", CLASSES), ("lm_head.*", CLASSES)]);
        keys.shadowed.push((SHARED, OF_ENCODER));
    }
    let is_gated = set_form(config, keys, kind.form)?;
    let n_encoder = n_layer(config, N_ENCODER)?.ok_or_else(|| config.missing(N_ENCODER))?;
    keys.set("block_count", n_encoder);
    keys.set("context_length", config.optional_count(N_CTX)?.unwrap_or(512));
    let n_embd = config.count(&["d_model", "hidden_size"])?;
    keys.set("embedding_length", n_embd);
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
    let mut parts = vec![("enc", n_encoder)];
    if has_decoder {
        let n_decoder = n_layer(config, &["num_decoder_layers"])?.unwrap_or(n_encoder);
        keys.set("decoder_block_count", n_decoder);
        parts.push(("dec", n_decoder));
        let scale = if kind.scales && scales(config)? { f64::from(n_embd).powf(-0.5) } else { 1.0 };
        keys.set_f32("logit_scale", Some(scale));
    }
    for (part, n_layer) in parts {
        for (tensor, _) in
            [("ffn_gate", is_gated), ("attn_rel_b", kind.own_biases)].iter().filter(|(_, is)| *is)
        {
            keys.required.extend((0..n_layer).map(|i| format!("{part}.blk.{i}.{tensor}.weight")));
        }
    }
    Ok(())
}

/// Whether the class is an encoder with its decoder, and not the encoder by itself.
fn has_decoder(config: &Config<'_>) -> Result<bool> {
    const KNOWN: &str = "an encoder with its decoder (\"T5ForConditionalGeneration\", \"MT5ForConditionalGeneration\", \
         \"UMT5ForConditionalGeneration\"), or by itself (\"T5EncoderModel\", \"MT5EncoderModel\", \"UMT5EncoderModel\")";
    let classes = config.strs(CLASSES)?.unwrap_or_default();
    match classes.first() {
        // The second is what the first class was called before.
        Some(class) if class.ends_with("T5ForConditionalGeneration") || *class == "T5WithLMHeadModel" => {
            Ok(true)
        }
        Some(class) if class.ends_with("T5EncoderModel") => Ok(false),
        Some(class) => Err(config.unsupported(CLASSES, &quoted(class.as_bytes()), KNOWN)),
        None => Err(config.unsupported(CLASSES, "absent", KNOWN)),
    }
}

/// The number of layers under the first of `names` that is there.
fn n_layer(config: &Config<'_>, names: &[&str]) -> Result<Option<u32>> {
    /// For each of them a few tensors are looked for: far more than any model's.
    const MOST_LAYERS: u32 = 1 << 16;
    let n_layer = config.optional_count(names)?;
    match n_layer.filter(|n_layer| *n_layer > MOST_LAYERS) {
        None => Ok(n_layer),
        Some(found) => {
            let name = names.iter().find(|name| config.has(name)).copied().unwrap_or_default();
            Err(config.unsupported(name, &found.to_string(), &format!("{MOST_LAYERS} at most")))
        }
    }
}

/// Whether logits are scaled. Where the class has written what it made of the other field, this is what counts.
fn scales(config: &Config<'_>) -> Result<bool> {
    const OWN: &str = "scale_decoder_outputs";
    Ok(match config.bool(OWN)? {
        Some(scales) => scales,
        None => !config.is_null(OWN) && config.bool("tie_word_embeddings")? != Some(false),
    })
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
