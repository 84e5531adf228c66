//! What happens to texts before they are tokens: `sentence_bert_config.json`, `config_sentence_transformers.json`, and the
//! length that `tokenizer_config.json` names.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::gguf::quoted;
use crate::hf::config::{Config, ConfigFile};
use crate::hf::family::N_CTX;
use crate::hf::{Folder, TOKENIZER_CONFIG};

/// The names of the configuration of a `Transformer`: the first file that has keys counts.
const TRANSFORMER: [&str; 7] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];
/// The configuration of the whole.
const MODEL: &str = "config_sentence_transformers.json";
/// The length, in arguments for the tokenizer and in `tokenizer_config.json`.
const MAX_LENGTH: &str = "model_max_length";

/// What happens to texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    /// Longer ones are cut to so many tokens, as this field says.
    pub most_tokens: Option<(u32, &'static str)>,
    /// What each begins with.
    pub prompt: String,
    /// What the caller may have them begin with instead, by names.
    pub prompts: Vec<(Box<str>, Box<str>)>,
    /// Whether the tokens of such a prompt are pooled too.
    pub pools_prompt: bool,
}

impl Texts {
    /// Refuses a prompt whose tokens are not to be pooled, as the configuration `file` of the Pooling says.
    pub fn expect_no_prompt(&self, file: &str) -> Result<()> {
        match self.prompt.is_empty() {
            true => {
                log::warn!(
                    "{file}: a prompt before a text is pooled with it, though \"include_prompt\" is false"
                );
                Ok(())
            }
            false => Err(Error::Unsupported(format!(
                "{file}: the key \"include_prompt\" is false, which is not supported beside the \
                 \"default_prompt_name\" of {MODEL}; supported is: true"
            ))),
        }
    }
}

/// What the files of `folder`, whose model has the configuration `config`, say of texts.
pub fn read(folder: &Folder<'_>, config: &Config<'_>) -> Result<Texts> {
    let mut transformer = ConfigFile::optional(folder, TRANSFORMER[0])?;
    for name in &TRANSFORMER[1..] {
        if transformer.config().is_empty() {
            transformer = ConfigFile::optional(folder, name)?;
        }
    }
    let transformer = transformer.config();
    check_transformer(&transformer)?;
    let model = ConfigFile::optional(folder, MODEL)?;
    let model = model.config();
    model.expect_str(&["model_type"], &["SentenceTransformer"])?;
    if model.is_null("model_type") {
        // The package then leaves out the modules that are listed.
        return Err(model.unsupported("model_type", "null", "SentenceTransformer"));
    }
    if let Some(found) = model.shown("truncate_dim") {
        return Err(model.unsupported("truncate_dim", &found, "null"));
    }
    // BERT's tokenizer has all in lower case already, unless its own configuration says otherwise.
    let is_bert = matches!(config.str(&["model_type"])?, Some("bert" | "nomic_bert"));
    let tokenizer = ConfigFile::optional(folder, TOKENIZER_CONFIG).ok();
    let is_lower = tokenizer.is_some_and(|file| {
        let class = file.config().str(&["tokenizer_class"]).ok().flatten().unwrap_or("BertTokenizer");
        let lower = file.config().bool("do_lower_case").ok().flatten();
        class.trim_end_matches("Fast") == "BertTokenizer" && lower != Some(false)
    });
    if !(is_bert && is_lower) {
        transformer.expect_bool("do_lower_case", false)?;
    }
    Ok(Texts {
        most_tokens: most_tokens(folder, config, &transformer)?,
        prompt: prompt(&model)?,
        prompts: prompts(&model)?,
        pools_prompt: true,
    })
}

/// Arguments of a model that change no number, or only round them.
const MODEL_ARGUMENTS: &[&str] =
    &["attn_implementation", "device_map", "dtype", "torch_dtype", "trust_remote_code", "use_safetensors"];
/// Arguments of a configuration that change nothing.
const CONFIG_ARGUMENTS: &[&str] = &["trust_remote_code", "use_cache"];
/// Arguments of a tokenizer that change no tokens, and the length, which is read elsewhere.
const TOKENIZER_ARGUMENTS: &[&str] = &[MAX_LENGTH, "padding_side", "trust_remote_code", "use_fast"];

/// Refuses what changes vectors and is not honoured in the configuration of a `Transformer`.
fn check_transformer(config: &Config<'_>) -> Result<()> {
    config.expect_str(&["transformer_task"], &["feature-extraction"])?;
    config.expect_str(&["module_output_name"], &["token_embeddings"])?;
    const TOKENIZER: &str = "tokenizer_name_or_path";
    if let Some(found) = config.shown(TOKENIZER) {
        return Err(config.unsupported(TOKENIZER, &found, "the tokenizer of the folder"));
    }
    const EXPANSION: &str = "query_expansion";
    if let Some(found) = config.shown(EXPANSION) {
        return Err(config.unsupported(EXPANSION, &found, "null"));
    }
    for key in ["query_length", "document_length"] {
        if let Some(n) = config.u32(&[key])? {
            log::warn!(
                "a text that is a {} is cut to {n} tokens by its author: cut it before",
                key.trim_end_matches("_length")
            );
        }
    }
    if let Some(modalities) = config.object(&["modality_config"])? {
        let text = modalities.object(&["text"])?.ok_or_else(|| modalities.missing(&["text"]))?;
        text.expect_str(&["method"], &["forward"])?;
        text.expect_str(&["method_output_name"], &["last_hidden_state"])?;
    }
    if let Some(processing) = config.object(&["processing_kwargs"])? {
        for key in ["common", "text"] {
            if processing.object(&[key])?.is_some_and(|arguments| !arguments.is_empty()) {
                return Err(processing.unsupported(key, "there", "{}"));
            }
        }
    }
    for (names, allowed) in [
        (["model_kwargs", "model_args"], MODEL_ARGUMENTS),
        (["config_kwargs", "config_args"], CONFIG_ARGUMENTS),
        (["processor_kwargs", "tokenizer_args"], TOKENIZER_ARGUMENTS),
    ] {
        for name in names {
            let Some(arguments) = config.object(&[name])? else { continue };
            for key in arguments.keys().filter(|key| !allowed.contains(key)) {
                if let Some(found) = arguments.shown(key) {
                    return Err(arguments.unsupported(key, &found, "none"));
                }
            }
        }
    }
    Ok(())
}

/// How many tokens of a text count: as an argument or `max_seq_length` says, or else the tokenizer, but not more than
/// there are positions. With it the field that says so.
fn most_tokens(
    folder: &Folder<'_>,
    config: &Config<'_>,
    transformer: &Config<'_>,
) -> Result<Option<(u32, &'static str)>> {
    const SEQUENCE_LENGTH: &str = "max_seq_length";
    for name in ["processor_kwargs", "tokenizer_args"] {
        let arguments = transformer.object(&[name])?;
        if let Some(n) = arguments.map(|a| a.optional_count(&[MAX_LENGTH])).transpose()?.flatten() {
            return Ok(Some((n, MAX_LENGTH)));
        }
    }
    if let Some(n) = transformer.optional_count(&[SEQUENCE_LENGTH])? {
        return Ok(Some((n, SEQUENCE_LENGTH)));
    }
    // Tokenizers without a length have 1e30 there. What is wrong with the file is reported by who reads all of it.
    let tokenizer = ConfigFile::optional(folder, TOKENIZER_CONFIG).ok();
    let of_tokenizer =
        tokenizer.and_then(|file| file.config().u32(&[MAX_LENGTH]).ok().flatten()).filter(|&n| n > 0);
    let positions = config.u32(N_CTX)?;
    let of_tokenizer = of_tokenizer.map(|n| (n, MAX_LENGTH));
    let positions = positions.zip(N_CTX.first().copied());
    Ok(of_tokenizer.into_iter().chain(positions).min_by_key(|&(n, _)| n))
}

/// The prompts by their names, but those that are null. The package knows two empty ones that every model has.
fn prompts(model: &Config<'_>) -> Result<Vec<(Box<str>, Box<str>)>> {
    let mut found: Vec<(Box<str>, Box<str>)> = Vec::new();
    if let Some(prompts) = model.object(&["prompts"])? {
        for name in prompts.keys() {
            if let Some(prompt) = prompts.str(&[name])? {
                found.push((name.into(), prompt.into()));
            }
        }
    }
    for name in ["query", "document"] {
        if !found.iter().any(|(known, _)| **known == *name) {
            found.push((name.into(), Box::default()));
        }
    }
    Ok(found)
}

/// What texts begin with where the caller says nothing.
fn prompt(model: &Config<'_>) -> Result<String> {
    const NAME: &str = "default_prompt_name";
    let prompts = model.object(&["prompts"])?;
    let Some(name) = model.str(&[NAME])? else { return Ok(String::new()) };
    let found = prompts.as_ref().map(|prompts| prompts.str(&[name])).transpose()?.flatten();
    match found {
        Some(prompt) => {
            if !prompt.is_empty() {
                log::warn!("{MODEL}: each text gets the prompt {} before it", quoted(prompt.as_bytes()));
            }
            Ok(prompt.to_owned())
        }
        None if ["query", "document"].contains(&name) || prompts.is_some_and(|p| p.is_null(name)) => {
            Ok(String::new())
        }
        None => Err(Error::Format(format!(
            "{MODEL}: the key {NAME:?} is {}, but \"prompts\" has no such prompt",
            quoted(name.as_bytes())
        ))),
    }
}
