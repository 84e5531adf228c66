//! A tokenizer without a model: from a GGUF file, whose tensors are not read, or from a `tokenizer.json`.
#![forbid(unsafe_code)]

use std::path::Path;

use crate::error::{Error, Result};
use crate::gguf::Gguf;
#[cfg(feature = "hf")]
use crate::hf::{self, Beside, TokenizerFolder};
use crate::tokenizer::Tokenizer;
#[cfg(feature = "hf")]
use crate::tokenizer::TokenizerFiles;

/// The first bytes of GGUF files.
const MAGIC: &[u8] = b"GGUF";

/// The tokenizer at `path`: a GGUF file, also one with a vocabulary alone; a folder with a `tokenizer.json` and the files beside
/// it; or a file with such JSON, which is read alone if it has another name.
///
/// # Errors
/// `Io`, `Format`, `Unsupported`, `NoMemory`; every sentence begins with the path.
pub fn open_tokenizer(path: &Path) -> Result<Tokenizer> {
    let name = path.display().to_string();
    let within = |e: Error| e.within(&name);
    if path.is_dir() {
        return folder(path).map(|tokenizer| tokenizer.called(&name)).map_err(within);
    }
    if is_json(path) {
        return json(path).map(|tokenizer| tokenizer.called(&name)).map_err(within);
    }
    let gguf = Gguf::open(path)?;
    of_gguf(&gguf)
}

/// The tokenizer in `bytes`, which errors call `name`: a GGUF file, or a `tokenizer.json` alone.
///
/// # Errors
/// As [`open_tokenizer`].
pub fn tokenizer_from_bytes(bytes: &[u8], name: &str) -> Result<Tokenizer> {
    let begins = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    match begins {
        Some(b'{') if !bytes.starts_with(MAGIC) => {
            json_alone(bytes).map(|tokenizer| tokenizer.called(name)).map_err(|e| e.within(name))
        }
        _ => of_gguf(&Gguf::from_bytes(bytes, name)?),
    }
}

fn of_gguf(gguf: &Gguf) -> Result<Tokenizer> {
    let read = || match gguf.metadata().str("tokenizer.ggml.model")? {
        None | Some("none" | "no_vocab") => {
            Err(Error::Unsupported("the file has no tokenizer (\"tokenizer.ggml.model\")".into()))
        }
        Some(_) => Ok(Tokenizer::from_gguf(gguf.metadata())?.called(gguf.name())),
    };
    read().map_err(|e| e.within(gguf.name()))
}

/// Whether the file's name says that it is JSON.
fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"))
}

#[cfg(not(feature = "hf"))]
mod off {
    use super::*;

    fn refused<T>() -> Result<T> {
        let sentence = "a tokenizer.json needs the feature \"hf\", which this build of Ember is without";
        Err(Error::Unsupported(sentence.into()))
    }

    pub fn folder(_: &Path) -> Result<Tokenizer> {
        refused()
    }

    pub fn json(_: &Path) -> Result<Tokenizer> {
        refused()
    }

    pub fn json_alone(_: &[u8]) -> Result<Tokenizer> {
        refused()
    }
}

#[cfg(not(feature = "hf"))]
use off::{folder, json, json_alone};

/// A folder's tokenizer from the bytes that were read.
///
/// # Errors
/// As [`Tokenizer::from_files_under`].
#[cfg(feature = "hf")]
pub(super) fn of_folder(
    json: &[u8],
    beside: Beside,
    model_type: Option<&str>,
    end_tokens: &[u32],
    step: &dyn Fn() -> Result<()>,
) -> Result<Tokenizer> {
    let files = TokenizerFiles {
        tokenizer: json,
        config: beside.tokenizer_config.as_deref(),
        special_tokens_map: beside.special_tokens_map.as_deref(),
        added_tokens: beside.added_tokens.as_deref(),
        model_type,
    };
    let mut tokenizer = Tokenizer::from_files_under(&files, step).map_err(|e| e.within("tokenizer.json"))?;
    tokenizer.add_ends(end_tokens);
    tokenizer.set_chat_templates(beside.chat_templates);
    Ok(tokenizer)
}

#[cfg(feature = "hf")]
fn folder(path: &Path) -> Result<Tokenizer> {
    let TokenizerFolder { json, beside, model_type, end_tokens } = hf::tokenizer_files(path)?;
    of_folder(&json, beside, model_type.as_deref(), &end_tokens, &|| Ok(()))
}

#[cfg(feature = "hf")]
fn json(path: &Path) -> Result<Tokenizer> {
    use crate::gguf::{FileBytes, Reading};
    let is_of_folder = path.file_name().is_some_and(|name| name == "tokenizer.json");
    match path.parent().filter(|_| is_of_folder && path.is_file()) {
        Some(parent) if parent.as_os_str().is_empty() => folder(Path::new(".")),
        Some(parent) => folder(parent),
        None => json_alone(&FileBytes::read(path, &Reading::default())?),
    }
}

#[cfg(feature = "hf")]
fn json_alone(bytes: &[u8]) -> Result<Tokenizer> {
    Tokenizer::from_json(bytes, None)
}
