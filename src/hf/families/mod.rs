//! The families of models, one file each, and the list of them.
#![forbid(unsafe_code)]

mod bert;
mod gemma;
mod gpt2;
mod gptneox;
mod granite;
mod llama;
mod nomic_bert;
mod olmo2;
mod phi;
mod qwen;
mod smollm3;
mod stablelm;
mod starcoder2;

pub use bert::pooling;

use super::config::Config;
use super::family::Family;
use crate::error::{Error, Result};
use crate::gguf::quoted;

/// Every family.
pub fn all() -> impl Iterator<Item = &'static Family> {
    const FAMILIES: [&[Family]; 13] = [
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
        nomic_bert::FAMILIES,
    ];
    FAMILIES.into_iter().flatten()
}

/// The family of `config`, and the part of it that describes the language model: `text_config` where there is one.
pub fn find<'a>(config: &Config<'a>) -> Result<(&'static Family, Config<'a>)> {
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
    let text = config.object(&["text_config"])?;
    Ok((family, text.unwrap_or_else(|| config.clone())))
}
