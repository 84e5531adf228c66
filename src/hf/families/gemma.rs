//! Gemma, Gemma 2 (soft caps, every other layer local) and the language model of Gemma 3 (five local layers, then a
//! global one). Their norms multiply by one plus the weight, and the output projection is the token embedding.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, HIDDEN_SIZE, Head, Keys, N_HEAD, Name, TANH_GELU, WINDOW, windowed_layers};
use crate::hf::layout::Change::{PlusOne, Same};
use crate::hf::names::{ATTENTION, ATTENTION_BIASES, GATED, MODEL, ROTARY_BUFFERS};
use crate::hf::rope::{self, WHOLE_HEADS};

const ENDS: &[Name] =
    &[("embed_tokens", "token_embd", Same), ("norm", "output_norm", PlusOne), ("lm_head", "output", Same)];
const TWO_NORMS: &[Name] = &[
    ("layers.{}.input_layernorm", "blk.{}.attn_norm", PlusOne),
    ("layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", PlusOne),
];
const FOUR_NORMS: &[Name] = &[
    ("layers.{}.input_layernorm", "blk.{}.attn_norm", PlusOne),
    ("layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", PlusOne),
    ("layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm", PlusOne),
    ("layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm", PlusOne),
];
const QK_NORMS: &[Name] = &[
    ("layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", PlusOne),
    ("layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", PlusOne),
];

/// The three generations; Gemma 3 also inside its multimodal wrapper, of which the text part is read.
pub const FAMILIES: &[Family] = &[
    Family {
        model_type: "gemma",
        architecture: "gemma",
        prefixes: MODEL,
        names: &[ENDS, TWO_NORMS, ATTENTION, GATED],
        ignored: ROTARY_BUFFERS,
        conditions: ATTENTION_BIASES,
        head: Head::TiedByDefault,
        keys: first,
    },
    Family {
        model_type: "gemma2",
        architecture: "gemma2",
        prefixes: MODEL,
        names: &[ENDS, FOUR_NORMS, ATTENTION, GATED],
        ignored: ROTARY_BUFFERS,
        conditions: ATTENTION_BIASES,
        head: Head::TiedByDefault,
        keys: second,
    },
    Family {
        model_type: "gemma3_text",
        architecture: "gemma3",
        prefixes: MODEL,
        names: &[ENDS, FOUR_NORMS, ATTENTION, QK_NORMS, GATED],
        ignored: ROTARY_BUFFERS,
        conditions: ATTENTION_BIASES,
        head: Head::TiedByDefault,
        keys: third,
    },
    Family {
        model_type: "gemma3",
        architecture: "gemma3",
        prefixes: &["language_model.model.", "model.language_model.", "language_model.", "model."],
        names: &[ENDS, FOUR_NORMS, ATTENTION, QK_NORMS, GATED],
        ignored: &["vision_tower.*", "multi_modal_projector.*", "*.rotary_emb.inv_freq"],
        conditions: ATTENTION_BIASES,
        head: Head::TiedByDefault,
        keys: wrapped,
    },
];

/// What the first Gemma 3 configurations leave out.
struct Defaults {
    n_ctx: Option<u32>,
    n_head: Option<u32>,
    n_head_kv: Option<u32>,
    head_dim: Option<u32>,
    rms_norm_eps: Option<f64>,
}

const NO_DEFAULTS: Defaults =
    Defaults { n_ctx: None, n_head: None, n_head_kv: None, head_dim: None, rms_norm_eps: None };
const GEMMA3_DEFAULTS: Defaults = Defaults {
    n_ctx: Some(131_072),
    n_head: Some(8),
    n_head_kv: Some(4),
    head_dim: Some(256),
    rms_norm_eps: Some(1e-6),
};

fn sizes(config: &Config<'_>, keys: &mut Keys, defaults: &Defaults) -> Result<()> {
    let required = |names: &[&str], default: Option<u32>| match config.optional_count(names)?.or(default) {
        Some(n) => Ok(n),
        None => Err(config.missing(names)),
    };
    keys.set("block_count", config.count(&["num_hidden_layers"])?);
    keys.set("context_length", required(&["max_position_embeddings"], defaults.n_ctx)?);
    keys.set("embedding_length", config.count(HIDDEN_SIZE)?);
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    keys.set("attention.head_count", required(N_HEAD, defaults.n_head)?);
    let n_head_kv = config.optional_count(&["num_key_value_heads"])?.or(defaults.n_head_kv);
    keys.set_some("attention.head_count_kv", n_head_kv);
    let head_dim = required(&["head_dim"], defaults.head_dim)?;
    keys.set("attention.key_length", head_dim);
    keys.set("attention.value_length", head_dim);
    keys.set_some("vocab_size", config.u32(&["vocab_size"])?);
    let eps = config.f64(&["rms_norm_eps"])?.or(defaults.rms_norm_eps);
    keys.set_f32(
        "attention.layer_norm_rms_epsilon",
        Some(eps.ok_or_else(|| config.missing(&["rms_norm_eps"]))?),
    );
    Ok(())
}

fn first(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    // "gelu" is an error of the first release: the model was made with tanh, and its class takes that.
    const GELU: &[&str] = &["gelu", "gelu_pytorch_tanh", "gelu_new", "gelu_fast"];
    config.expect_str(&["hidden_activation", "hidden_act"], GELU)?;
    config.expect_bool(BOTH_WAYS, false)?;
    sizes(config, keys, &NO_DEFAULTS)?;
    WHOLE_HEADS.write(config, keys)
}

fn second(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_activation"], TANH_GELU)?;
    config.expect_bool(BOTH_WAYS, false)?;
    sizes(config, keys, &NO_DEFAULTS)?;
    set_score_scale(config, keys, 46)?;
    set_local_layers(config, keys, 2, &[])?;
    // 0 stands for none, as null does here; an absent key means the caps of the published models.
    for (name, default) in [("attn_logit_softcapping", 50.0), ("final_logit_softcapping", 30.0)] {
        let absent = if config.is_null(name) { 0.0 } else { default };
        keys.set_f32(name, Some(config.f64(&[name])?.unwrap_or(absent)));
    }
    keys.set(WINDOW, config.count(&["sliding_window"])?);
    WHOLE_HEADS.write(config, keys)
}

/// Whether every token sees the whole text.
const BOTH_WAYS: &str = "use_bidirectional_attention";

/// Gemma 3, or where tokens see the whole text EmbeddingGemma.
fn third(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    if config.bool(BOTH_WAYS)? == Some(true) {
        let classes = config.strs("architectures")?.unwrap_or_default();
        if classes.first().is_none_or(|class| *class != "Gemma3TextModel") {
            return Err(config.unsupported(
                BOTH_WAYS,
                "true",
                "false in another class than \"Gemma3TextModel\"",
            ));
        }
        keys.switch("gemma-embedding");
        keys.set("attention.causal", false);
    }
    config.expect_str(&["hidden_activation"], TANH_GELU)?;
    sizes(config, keys, &GEMMA3_DEFAULTS)?;
    set_score_scale(config, keys, 62)?;
    set_local_layers(config, keys, 6, &["sliding_window_pattern"])?;
    if let Some(cap) = config.f64(&["attn_logit_softcapping"])? {
        return Err(config.unsupported("attn_logit_softcapping", &cap.to_string(), "null"));
    }
    keys.set_f32("final_logit_softcapping", config.f64(&["final_logit_softcapping"])?);
    keys.set(WINDOW, config.count(&["sliding_window"])?);
    let head_dim = keys.count("attention.key_length").unwrap_or(0) as u32;
    rope::write_by_kind(config, keys, rope::GEMMA3_BASES, head_dim)
}

/// The class of the wrapper has no soft cap of the logits, whatever the part about text says.
fn wrapped(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    const KEY: &str = "final_logit_softcapping";
    config.expect_bool(BOTH_WAYS, false)?;
    match config.f64(&[KEY])? {
        Some(cap) => Err(config.unsupported(KEY, &cap.to_string(), "null in this model type")),
        None => third(config, keys),
    }
}

/// Scores are scaled by the root of the head's size, or in the largest model, which has `n_layer` layers, by that of the
/// width per head: no key says so. Anything else has a key.
fn set_score_scale(config: &Config<'_>, keys: &mut Keys, n_layer: u32) -> Result<()> {
    const KEY: &str = "query_pre_attn_scalar";
    let scale = config.f64(&[KEY])?.unwrap_or(256.0);
    let implied = match keys.count("block_count") == Some(n_layer as usize) {
        true => keys
            .count("embedding_length")
            .zip(keys.count("attention.head_count"))
            .and_then(|(n, d)| n.checked_div(d)),
        false => keys.count("attention.key_length"),
    };
    if scale <= 0.0 {
        return Err(config.unsupported(KEY, &scale.to_string(), "a number above 0"));
    }
    if implied.is_none_or(|implied| implied as f64 != scale) {
        keys.set_f32("attention.scale", Some(1.0 / scale.sqrt()));
    }
    Ok(())
}

/// Of `period` layers, all but the last one are local: no key says so. Anything else has a key. Where the configuration does
/// not list the layers, `pattern` names the key of another period.
fn set_local_layers(config: &Config<'_>, keys: &mut Keys, period: u32, pattern: &[&str]) -> Result<()> {
    const NAME: &str = "attention.sliding_window_pattern";
    let Some(local) = windowed_layers(config, keys.count("block_count"))? else {
        let own = config.u32(pattern)?;
        keys.set_some(NAME, own.filter(|own| *own != period));
        return Ok(());
    };
    if local.iter().enumerate().any(|(i, local)| *local == (i + 1).is_multiple_of(period as usize)) {
        keys.set(NAME, local);
    }
    Ok(())
}
