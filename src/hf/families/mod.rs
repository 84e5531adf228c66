//! The families of models, one file each, and the list of them.
#![forbid(unsafe_code)]

mod bert;
mod gemma;
mod gpt2;
mod gptneox;
mod granite;
mod lfm2;
mod llama;
mod nomic_bert;
mod olmo2;
mod phi;
mod qwen;
mod smollm3;
mod stablelm;
mod starcoder2;

use super::config::Config;
use super::family::{Family, Head};
use crate::error::{Error, Result};
use crate::gguf::quoted;

/// Every family.
pub fn all() -> impl Iterator<Item = &'static Family> {
    const FAMILIES: [&[Family]; 14] = [
        llama::FAMILIES,
        qwen::FAMILIES,
        gemma::FAMILIES,
        gpt2::FAMILIES,
        bert::FAMILIES,
        phi::FAMILIES,
        gptneox::FAMILIES,
        starcoder2::FAMILIES,
        stablelm::FAMILIES,
        olmo2::FAMILIES,
        smollm3::FAMILIES,
        granite::FAMILIES,
        lfm2::FAMILIES,
        nomic_bert::FAMILIES,
    ];
    FAMILIES.into_iter().flatten()
}

/// Whether the token embedding is the output projection where none is stored.
pub fn ties(family: &Family, config: &Config<'_>) -> Result<bool> {
    let tied = config.bool("tie_word_embeddings")?;
    Ok(match family.head {
        Head::None => false,
        Head::TiedByDefault => tied != Some(false),
        Head::UntiedByDefault => tied == Some(true),
    })
}

/// The family of `config`.
pub fn find(config: &Config<'_>) -> Result<&'static Family> {
    const KEY: &str = "model_type";
    let model_type = config.str(&[KEY])?.ok_or_else(|| config.missing(&[KEY]))?;
    let Some(family) = all().find(|family| family.model_type == model_type) else {
        let known: Vec<&str> = all().map(|family| family.model_type).collect();
        return Err(Error::Unsupported(format!(
            "config.json: the model type {} is not supported; known are: {}",
            quoted(model_type.as_bytes()),
            known.join(", ")
        )));
    };
    const QUANTIZATION: &str = "quantization_config";
    if config.has(QUANTIZATION) {
        return Err(config.unsupported(QUANTIZATION, "there", "weights in F32, F16 and BF16"));
    }
    Ok(family)
}
