//! The token that the answers of a model with an encoder and a decoder begin with, and what else `generation_config.json` says
//! before `config.json` does.
#![forbid(unsafe_code)]

use super::config::{Config, ConfigFile};
use super::family::Keys;
use super::{Folder, GENERATION_CONFIG};
use crate::error::{Error, Result};
use crate::gguf::quoted;

/// GGUF's key.
const KEY: &str = "decoder_start_token_id";
/// What the two files call it: the first that is there counts. What a class has by itself does not.
const NAMES: [&str; 2] = ["decoder_start_token_id", "bos_token_id"];

/// Writes the key if the model has such a token. The key, and what it is called in the folder if it is there.
///
/// # Errors
/// `Format` where nothing says which token it is.
pub fn read(
    folder: &Folder<'_>,
    config: &Config<'_>,
    keys: &mut Keys,
) -> Result<(&'static str, Option<String>)> {
    if !keys.begins_answers {
        return Ok((KEY, None));
    }
    let found = match of_generation(folder, &NAMES, of_file)? {
        Some(found) => Some(found),
        None => of_file(config)?,
    };
    let Some((token, called)) = found else { return Err(config.missing(&NAMES)) };
    keys.set(KEY, token);
    Ok((KEY, called))
}

/// The token that a file names, and what it is called there.
fn of_file(config: &Config<'_>) -> Result<Option<(u32, Option<String>)>> {
    for name in NAMES {
        if let Some(token) = config.u32(&[name])? {
            return Ok(Some((token, config.place(name))));
        }
    }
    Ok(None)
}

/// What `get` finds in `generation_config.json`, if the folder has one. What is wrong with the file is no reason to refuse the model: its
/// `keys` are left out then.
pub fn of_generation<T>(
    folder: &Folder<'_>,
    keys: &[&str],
    get: impl Fn(&Config<'_>) -> Result<Option<T>>,
) -> Result<Option<T>> {
    if !folder.has(GENERATION_CONFIG) {
        return Ok(None);
    }
    match ConfigFile::read(folder, GENERATION_CONFIG).and_then(|file| get(&file.config())) {
        Err(e @ (Error::NoMemory(_) | Error::Cancelled(_))) => Err(e),
        Err(e) => {
            let keys: Vec<String> = keys.iter().map(|key| quoted(key.as_bytes())).collect();
            let keys = keys.join(" and ");
            log::warn!("{}: its {keys} is left out, and that of config.json is used", e.message());
            Ok(None)
        }
        found => found,
    }
}
