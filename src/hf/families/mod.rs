//! The families of models, one file each, and the list of them.
#![forbid(unsafe_code)]

mod apertus;
mod bert;
mod bitnet;
mod bloom;
mod cohere;
mod deepseek;
mod dots;
mod ernie;
mod eurobert;
mod exaone4;
mod falcon;
mod falcon_h1;
mod gemma;
mod gemma3n;
mod gemma4;
mod glm4;
mod gpt2;
mod gpt_oss;
mod gptj;
mod gptneox;
mod granite;
mod hunyuan;
mod jina;
mod lfm2;
mod llama;
mod llama4;
mod mamba;
mod mamba2;
mod minicpm3;
mod modern_bert;
mod mpnet;
mod mpt;
mod nemotron_h;
mod nomic_bert;
mod olmo2;
mod phi;
mod qwen;
mod qwen3next;
mod seed_oss;
mod smollm3;
mod stablelm;
mod starcoder2;
mod t5;

use super::config::Config;
use super::family::{Family, Head};
use crate::error::{Error, Result};
use crate::gguf::quoted;

/// Every family.
pub fn all() -> impl Iterator<Item = &'static Family> {
    const FAMILIES: [&[Family]; 43] = [
        llama::FAMILIES,
        qwen::FAMILIES,
        deepseek::FAMILIES,
        gemma::FAMILIES,
        gemma3n::FAMILIES,
        gemma4::FAMILIES,
        gpt2::FAMILIES,
        gpt_oss::FAMILIES,
        bert::FAMILIES,
        phi::FAMILIES,
        gptneox::FAMILIES,
        starcoder2::FAMILIES,
        stablelm::FAMILIES,
        olmo2::FAMILIES,
        seed_oss::FAMILIES,
        exaone4::FAMILIES,
        glm4::FAMILIES,
        mamba2::FAMILIES,
        bloom::FAMILIES,
        gptj::FAMILIES,
        falcon::FAMILIES,
        apertus::FAMILIES,
        falcon_h1::FAMILIES,
        minicpm3::FAMILIES,
        llama4::FAMILIES,
        bitnet::FAMILIES,
        smollm3::FAMILIES,
        granite::FAMILIES,
        lfm2::FAMILIES,
        qwen3next::FAMILIES,
        nemotron_h::FAMILIES,
        mamba::FAMILIES,
        cohere::FAMILIES,
        dots::FAMILIES,
        ernie::FAMILIES,
        hunyuan::FAMILIES,
        mpt::FAMILIES,
        nomic_bert::FAMILIES,
        modern_bert::FAMILIES,
        eurobert::FAMILIES,
        jina::FAMILIES,
        mpnet::FAMILIES,
        t5::FAMILIES,
    ];
    FAMILIES.into_iter().flatten()
}

/// Whether the token embedding is the output projection where none is stored; `language` is the part about the language model.
pub fn ties(family: &Family, outer: &Config<'_>, language: &Config<'_>) -> Result<bool> {
    const KEY: &str = "tie_word_embeddings";
    let tied = outer.bool(KEY)?;
    Ok(match family.head {
        Head::None | Head::Stored => false,
        Head::Tied => true,
        Head::TiedByDefault => tied != Some(false),
        Head::UntiedByDefault => tied == Some(true),
        Head::UntiedInside => language.bool(KEY)? == Some(true),
        Head::UntiedByBoth => tied == Some(true) || language.bool(KEY)? == Some(true),
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
    let packs = family.names.iter().any(|names| names.iter().any(|(.., change)| change.is_of_mxfp4()));
    let method = config.object(&[QUANTIZATION])?.map(|object| object.str(&["quant_method"])).transpose()?;
    if config.has(QUANTIZATION) && !(packs && method.flatten() == Some("mxfp4")) {
        let by = method.flatten().map_or(String::new(), |name| format!(" by {}", quoted(name.as_bytes())));
        let more = if packs { ", with experts in MXFP4 too" } else { "" };
        return Err(Error::Unsupported(format!(
            "config.json: the key \"{QUANTIZATION}\" says that the weights are quantized{by}; supported are folders in F32, F16 \
             and BF16{more}, and GGUF files in every format"
        )));
    }
    Ok(family)
}
