//! ModernBERT, which is an encoder with norms before its blocks, two kinds of layers and one matrix for q, k and v.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::When::If;
use crate::hf::family::{
    Family, HIDDEN_SIZE, Head, Keys, N_HEAD, Name, TANH_GELU, WINDOW, plain_sizes, windowed_layers,
};
use crate::hf::layout::Change::Same;
use crate::hf::names::MODEL;
use crate::hf::rope::{self, Bases};

const NAMES: &[Name] = &[
    ("embeddings.tok_embeddings", "token_embd", Same),
    ("embeddings.norm", "token_embd_norm", Same),
    ("layers.{}.attn_norm", "blk.{}.attn_norm", Same),
    ("layers.{}.attn.Wqkv", "blk.{}.attn_qkv", Same),
    ("layers.{}.attn.Wo", "blk.{}.attn_output", Same),
    ("layers.{}.mlp_norm", "blk.{}.ffn_norm", Same),
    ("layers.{}.mlp.Wi", "blk.{}.ffn_up", Same),
    ("layers.{}.mlp.Wo", "blk.{}.ffn_down", Same),
    ("final_norm", "output_norm", Same),
];
const BASES: Bases = Bases {
    full: (&["global_rope_theta"], 160_000.0),
    sliding: (&["local_rope_theta"], 10_000.0),
    strict: true,
};

/// ModernBERT.
pub const FAMILIES: &[Family] = &[Family {
    model_type: "modernbert",
    architecture: "modern-bert",
    prefixes: MODEL,
    names: &[NAMES],
    // The head of the training task, and the norm of the first layer, which the class does not have.
    ignored: &["head.*", "decoder.*", "layers.0.attn_norm.*"],
    conditions: &[
        ("*.attn.Wqkv.bias", If("attention_bias", false)),
        ("*.attn.Wo.bias", If("attention_bias", false)),
        ("*.mlp.Wi.bias", If("mlp_bias", false)),
        ("*.mlp.Wo.bias", If("mlp_bias", false)),
        ("*norm.bias", If("norm_bias", false)),
    ],
    head: Head::None,
    keys,
}];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    const ACTIVATION: &str = "hidden_activation";
    let activation = match config.str(&[ACTIVATION])?.unwrap_or("gelu") {
        "swish" => "silu",
        tanh if TANH_GELU.contains(&tanh) => "gelu_pytorch_tanh",
        other => other,
    };
    config.expect_str(&[ACTIVATION], &["gelu", "silu", "swish", TANH_GELU[0], TANH_GELU[1], TANH_GELU[2]])?;
    let classes = config.strs("architectures")?.unwrap_or_default();
    if let Some(class) = classes.first().filter(|class| class.ends_with("ForSequenceClassification")) {
        return Err(config.unsupported(
            "architectures",
            &format!("{class:?}"),
            "the encoder or its training task",
        ));
    }
    plain_sizes(config, keys)?;
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    keys.set_f32("attention.layer_norm_epsilon", Some(config.f64(&["norm_eps"])?.unwrap_or(1e-5)));
    keys.set("attention.causal", false);
    keys.set(ACTIVATION, activation);
    // The class takes the half of a window as another name of it.
    let window = match config.optional_count(&["sliding_window"])? {
        Some(half) => half.saturating_mul(2),
        None => config.optional_count(&["local_attention"])?.unwrap_or(128),
    };
    keys.set(WINDOW, window);
    let n_layer = keys.count("block_count").unwrap_or(0);
    let windowed = match windowed_layers(config, Some(n_layer))? {
        Some(windowed) => windowed,
        None => {
            let period = config.optional_count(&["global_attn_every_n_layers"])?.unwrap_or(3) as usize;
            (0..n_layer).map(|i| i % period > 0).collect()
        }
    };
    keys.set("attention.sliding_window_pattern", windowed);
    let head_dim = config.count(HIDDEN_SIZE)? / config.count(N_HEAD)?;
    if let Some(other) = config.optional_count(&["head_dim"])?.filter(|other| *other != head_dim) {
        return Err(config.unsupported("head_dim", &other.to_string(), &head_dim.to_string()));
    }
    rope::write_by_kind(config, keys, BASES, head_dim)
}
