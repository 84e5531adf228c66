//! BERT: an encoder with learned positions and norms after attention and feed-forward. RoBERTa, CamemBERT and XLM-R are the same
//! with other first positions, DistilBERT without token types. Jina Embeddings 2 call themselves BERT too.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, N_CTX, Name, plain_sizes};
use crate::hf::layout::Change::{Same, SkipRows};

const TABLES: &[Name] = &[
    ("embeddings.word_embeddings", "token_embd", Same),
    ("embeddings.token_type_embeddings", "token_types", Same),
    ("embeddings.LayerNorm", "token_embd_norm", Same),
];
const LAYERS: &[Name] = &[
    ("encoder.layer.{}.attention.self.query", "blk.{}.attn_q", Same),
    ("encoder.layer.{}.attention.self.key", "blk.{}.attn_k", Same),
    ("encoder.layer.{}.attention.self.value", "blk.{}.attn_v", Same),
    ("encoder.layer.{}.attention.output.dense", "blk.{}.attn_output", Same),
    ("encoder.layer.{}.attention.output.LayerNorm", "blk.{}.attn_output_norm", Same),
    ("encoder.layer.{}.intermediate.dense", "blk.{}.ffn_up", Same),
    ("encoder.layer.{}.output.dense", "blk.{}.ffn_down", Same),
    ("encoder.layer.{}.output.LayerNorm", "blk.{}.layer_output_norm", Same),
];
const POSITIONS: &[Name] = &[("embeddings.position_embeddings", "position_embd", Same)];
/// Positions of texts begin after that of padding.
const LATER_POSITIONS: &[Name] = &[("embeddings.position_embeddings", "position_embd", SkipRows)];
/// What Jina Embeddings 2 have beside that: the names of the first models, and of the one for code.
const JINA: &[Name] = &[
    ("encoder.layer.{}.attention.self.layer_norm_q", "blk.{}.attn_q_norm", Same),
    ("encoder.layer.{}.attention.self.layer_norm_k", "blk.{}.attn_k_norm", Same),
    ("encoder.layer.{}.layer_norm_1", "blk.{}.attn_norm_2", Same),
    ("encoder.layer.{}.mlp.gated_layers", "blk.{}.ffn_up", Same),
    ("encoder.layer.{}.mlp.wo", "blk.{}.ffn_down", Same),
    ("encoder.layer.{}.mlp.layernorm", "blk.{}.layer_output_norm", Same),
    ("encoder.layer.{}.mlp.up_gated_layer", "blk.{}.ffn_up", Same),
    ("encoder.layer.{}.mlp.down_layer", "blk.{}.ffn_down", Same),
    ("encoder.layer.{}.layer_norm_2", "blk.{}.layer_output_norm", Same),
];
const DISTILLED: &[Name] = &[
    ("embeddings.word_embeddings", "token_embd", Same),
    ("embeddings.LayerNorm", "token_embd_norm", Same),
    ("transformer.layer.{}.attention.q_lin", "blk.{}.attn_q", Same),
    ("transformer.layer.{}.attention.k_lin", "blk.{}.attn_k", Same),
    ("transformer.layer.{}.attention.v_lin", "blk.{}.attn_v", Same),
    ("transformer.layer.{}.attention.out_lin", "blk.{}.attn_output", Same),
    ("transformer.layer.{}.sa_layer_norm", "blk.{}.attn_output_norm", Same),
    ("transformer.layer.{}.ffn.lin1", "blk.{}.ffn_up", Same),
    ("transformer.layer.{}.ffn.lin2", "blk.{}.ffn_down", Same),
    ("transformer.layer.{}.output_layer_norm", "blk.{}.layer_output_norm", Same),
];

/// The heads of the training tasks are not part of embeddings.
const BERT: Family = Family {
    model_type: "bert",
    architecture: "bert",
    prefixes: &["bert."],
    names: &[TABLES, LAYERS, POSITIONS, JINA],
    ignored: &["embeddings.position_ids", "pooler.*", "cls.*"],
    conditions: &[],
    head: Head::None,
    keys,
};
const ROBERTA: Family = Family {
    model_type: "roberta",
    prefixes: &["roberta."],
    names: &[TABLES, LAYERS, LATER_POSITIONS],
    ignored: &["embeddings.position_ids", "embeddings.token_type_ids", "pooler.*", "lm_head.*"],
    keys: roberta,
    ..BERT
};

/// BERT and what became of it.
pub const FAMILIES: &[Family] = &[
    BERT,
    ROBERTA,
    Family { model_type: "xlm-roberta", ..ROBERTA },
    Family { model_type: "camembert", ..ROBERTA },
    Family {
        model_type: "distilbert",
        prefixes: &["distilbert."],
        names: &[DISTILLED, POSITIONS],
        ignored: &["embeddings.position_ids", "vocab_transform.*", "vocab_layer_norm.*", "vocab_projector.*"],
        keys: distilbert,
        ..BERT
    },
];

fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    const POSITION_TYPE: &str = "position_embedding_type";
    if config.str(&[POSITION_TYPE])? == Some("alibi") {
        keys.switch("jina-bert-v2");
        config.expect_str(&["feed_forward_type"], &["geglu", "original"])?;
    } else {
        config.expect_str(&[POSITION_TYPE], &["absolute"])?;
    }
    plain(config, keys)
}

/// What all have but DistilBERT.
fn plain(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["gelu"])?;
    config.expect_bool("is_decoder", false)?;
    plain_sizes(config, keys)?;
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    keys.set_f32("attention.layer_norm_epsilon", Some(config.f64(&["layer_norm_eps"])?.unwrap_or(1e-12)));
    keys.set("attention.causal", false);
    set_token_types(config, keys)
}

fn roberta(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["position_embedding_type"], &["absolute"])?;
    if let Some(found) = config.shown("lora_adaptations") {
        return Err(config.unsupported("lora_adaptations", &found, "none"));
    }
    const PAD: &str = "pad_token_id";
    if config.is_null(PAD) {
        return Err(config.unsupported(PAD, "null", "a number, after which positions begin"));
    }
    plain(config, keys)?;
    skip_positions(config, keys, config.u32(&[PAD])?.unwrap_or(1))
}

/// Lets positions begin after that of the token `pad`.
pub fn skip_positions(config: &Config<'_>, keys: &mut Keys, pad: u32) -> Result<()> {
    let (n_positions, skipped) = (config.count(N_CTX)?, pad.saturating_add(1));
    if n_positions <= skipped {
        return Err(Error::Format(format!(
            "{} is {n_positions}, but positions begin at {skipped}",
            N_CTX.iter().find_map(|key| config.place(key)).unwrap_or_default()
        )));
    }
    keys.skipped_positions = skipped as usize;
    keys.at_most("context_length", n_positions - skipped);
    Ok(())
}

fn distilbert(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["activation"], &["gelu"])?;
    keys.set("block_count", config.count(&["n_layers", "num_hidden_layers"])?);
    keys.set("context_length", config.count(N_CTX)?);
    keys.set("embedding_length", config.count(&["dim", "hidden_size"])?);
    keys.set("attention.head_count", config.count(&["n_heads", "num_attention_heads"])?);
    keys.set("feed_forward_length", config.count(&["hidden_dim"])?);
    keys.set_some("vocab_size", config.u32(&["vocab_size"])?);
    keys.set_f32("attention.layer_norm_epsilon", Some(1e-12));
    keys.set("attention.causal", false);
    Ok(())
}

/// How many token types there are.
pub fn set_token_types(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    let n = config.u32(&["type_vocab_size"])?.unwrap_or(2);
    keys.entries.push(("tokenizer.ggml.token_type_count".into(), n.into()));
    Ok(())
}
