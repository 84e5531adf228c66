//! Hugging Face model folders: `config.json`, safetensors and `tokenizer.json`, read as the GGUF file that llama.cpp's
//! converter would make of them, so that the architectures need to know one set of names.
//!
//! [`open`] reads a folder as `save_pretrained` of the Python package `transformers` writes it. Tensors whose layout
//! is GGUF's stay where they lie in the mapped files; the few that GGUF lays out differently are copied. A folder is
//! hostile input like any model file. One file per family of models in `families`; a row of [`family::Family`] each.
//!
//! - `transformers` decides what a folder means. `tests/it/hf_fields.rs` drives every field of every class and writes `docs/folder-fields.md`.
//! - Tensors come before the configuration where both speak of the output projection. The configuration comes first where its class leaves a
//!   tensor out (`family::When`).
//! - Errors name keys and tensors as the author knows them (`gguf::Origin`).
//! - Copied tensors are GPT-2's matrices, rotary rows of llama, Gemma's norms, experts (which become one tensor), and data at odd addresses.
//! - `sentence` reads `modules.json`: the pooling becomes GGUF's key, and `gguf::Further` holds what no key says.
//! - `classifier` reads classes that score texts, `sampling` the proposal in `generation_config.json`.
#![forbid(unsafe_code)]

mod classifier;
mod config;
mod convert;
mod families;
mod family;
mod header;
mod index;
mod layout;
mod names;
mod numbers;
mod origin;
mod rope;
mod sampling;
mod sentence;
mod start;
mod weights;

use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::error::{Error, Result, shortened};
use crate::gguf::{FileBytes, Gguf, Reading};
use crate::memory::expect_memory;
use config::{Config, ConfigFile};
use start::of_generation;

const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const TEMPLATE: &str = "chat_template.jinja";
/// Templates with other names: `NAME.jinja`.
const TEMPLATES: &str = "additional_chat_templates";
const MAX_TEMPLATES: usize = 100;
const SPECIAL_TOKENS_MAP: &str = "special_tokens_map.json";
const ADDED_TOKENS: &str = "added_tokens.json";
const GENERATION_CONFIG: &str = "generation_config.json";
/// The most bytes of a `tokenizer_config.json` (real ones have up to a megabyte, of tokens that were added) and of a
/// template.
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// What a folder holds.
#[derive(Debug)]
pub struct HfFolder {
    /// Hyper-parameters and tensors under GGUF's names, without a tokenizer. Its name is the folder's path.
    pub gguf: Gguf,
    /// `tokenizer.json`, if it is there: not looked into.
    pub tokenizer_json: Option<FileBytes>,
    /// The small files beside it.
    pub beside: Beside,
    /// `model_type` of `config.json`.
    pub model_type: &'static str,
    /// The tokens that end a generation, as `generation_config.json` says, or else `config.json`.
    pub end_tokens: Vec<u32>,
}

/// The values of `model_type` in `config.json` that [`open`] knows.
pub fn known() -> impl Iterator<Item = &'static str> {
    families::all().map(|family| family.model_type)
}

/// `model_type` of the `config.json` in the folder at `path`, known or not.
pub fn model_type(path: &Path) -> Option<String> {
    let config =
        ConfigFile::read(&Folder { path, use_mmap: false, reading: &Reading::default() }, "config.json")
            .ok()?;
    config.config().str(&["model_type"]).ok()?.map(str::to_owned)
}

/// Whether the folder at `path` has a `tokenizer.json`, and whether it has a chat template: as far as that can be seen, since what
/// is wrong with either is reported by [`beside`] and [`open`].
pub fn look_beside(path: &Path) -> (bool, bool) {
    #[derive(Default, Deserialize)]
    struct Looked {
        #[serde(default)]
        chat_template: Option<IgnoredAny>,
    }
    let folder = Folder { path, use_mmap: false, reading: &Reading::default() };
    let config = folder.read(TOKENIZER_CONFIG, MAX_TEXT_BYTES).ok();
    let looked = config.and_then(|bytes| serde_json::from_slice::<Looked>(&bytes).ok()).unwrap_or_default();
    let has_template = folder.template_files().is_ok_and(|files| !files.is_empty());
    (path.join(TOKENIZER).is_file(), has_template || looked.chat_template.is_some())
}

/// Reads the folder at `path`. With `use_mmap`, safetensors files are mapped instead of read into memory; they must
/// then not be changed or shortened while the result lives, as with [`Gguf::open`].
///
/// # Errors
/// `Io` when a file is missing or unreadable; `Format` when one is malformed, contradicts itself or another, or lacks
/// a key or tensor; `Unsupported` for a `model_type`, a variation of a model or an element type that Ember does not
/// know, and for folders with PyTorch pickles only. Every sentence begins with the folder's path and names the file.
pub fn open(path: &Path, use_mmap: bool) -> Result<HfFolder> {
    open_with(path, use_mmap, &Reading::default())
}

/// As [`open`]; what has to be read or copied is as `reading` says, to which every tensor is reported. Where its memory only
/// measures, what would be copied is counted, and the tokenizer's files and the template are left where they are.
///
/// # Errors
/// As [`open`], `NoMemory`, and those of `reading`.
pub fn open_with(path: &Path, use_mmap: bool, reading: &Reading<'_>) -> Result<HfFolder> {
    let name = path.display().to_string();
    let read = || -> Result<_> {
        let folder = Folder { path, use_mmap, reading };
        if !folder.has("config.json") {
            return Err(Error::Io("this directory has no config.json: it is no Hugging Face model".into()));
        }
        let config = ConfigFile::read(&folder, "config.json")?;
        let (family, outer) = (families::find(&config.config())?, config.config());
        let config = outer.object(&["text_config"])?.unwrap_or_else(|| outer.clone());
        let tied = families::ties(family, &outer, &config)?;
        let sentence = sentence::read(&folder, &config)?;
        let pooling = sentence::pooling(sentence.as_ref(), &outer)?;
        let mut weights = weights::open(&folder)?;
        if let Some(sentence) = &sentence {
            sentence::dense::add(&folder, &sentence.dense, &mut weights)?;
        }
        let parts =
            convert::convert(&name, &folder, family, &config, tied, (pooling, sentence.as_ref()), weights)?;
        let (tokenizer, beside) = match reading.memory.measures() {
            true => (None, Beside::default()),
            false => (folder.optional(TOKENIZER, u64::MAX)?, folder.beside()?),
        };
        Ok((parts, tokenizer, beside, end_tokens(&folder, &config)?, family.model_type))
    };
    let (parts, tokenizer_json, beside, end_tokens, model_type) = read().map_err(|e| e.within(&name))?;
    let (parts, origin) = parts;
    let gguf = Gguf::from_parts(parts)?.made_from(Box::new(origin));
    Ok(HfFolder { gguf, tokenizer_json, beside, model_type, end_tokens })
}

/// The small files beside the tokenizer, each if it is there.
#[derive(Debug, Default)]
pub struct Beside {
    /// `tokenizer_config.json`: not looked into.
    pub tokenizer_config: Option<FileBytes>,
    /// `special_tokens_map.json`: not looked into.
    pub special_tokens_map: Option<FileBytes>,
    /// `added_tokens.json`: not looked into.
    pub added_tokens: Option<FileBytes>,
    /// Names and texts: `chat_template.jinja` is the one called `default`, those in `additional_chat_templates` have their
    /// files' names. They count more than the templates in `tokenizer_config.json`.
    pub chat_templates: Vec<(String, String)>,
}

/// The small files beside the tokenizer of the folder at `path`, which [`open_with`] leaves where they are when it measures.
///
/// # Errors
/// As [`open`], without the folder's path.
pub fn beside(path: &Path) -> Result<Beside> {
    Folder { path, use_mmap: false, reading: &Reading::default() }.beside()
}

/// What makes the tokenizer of a folder.
#[derive(Debug)]
pub struct TokenizerFolder {
    /// `tokenizer.json`: not looked into.
    pub json: FileBytes,
    /// The small files beside it.
    pub beside: Beside,
    /// `model_type` of `config.json`, if that is there.
    pub model_type: Option<String>,
    /// As [`HfFolder::end_tokens`].
    pub end_tokens: Vec<u32>,
}

/// The tokenizer's files of the folder at `path`, which need not hold a model.
///
/// # Errors
/// As [`open`]; `Io` for a folder without a `tokenizer.json`.
pub fn tokenizer_files(path: &Path) -> Result<TokenizerFolder> {
    let folder = Folder { path, use_mmap: false, reading: &Reading::default() };
    let json = folder.optional(TOKENIZER, u64::MAX)?;
    let json = json.ok_or_else(|| Error::Io("this directory has no tokenizer.json".into()))?;
    let config = ConfigFile::optional(&folder, "config.json")?;
    let outer = config.config();
    let inner = outer.object(&["text_config"])?.unwrap_or_else(|| outer.clone());
    let model_type = outer.str(&["model_type"])?.map(str::to_owned);
    Ok(TokenizerFolder {
        json,
        beside: folder.beside()?,
        model_type,
        end_tokens: end_tokens(&folder, &inner)?,
    })
}

/// The text of a template.
fn template(bytes: &[u8], file: &str) -> Result<String> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::Format(format!("{file} is not UTF-8")))?;
    expect_memory(text.len(), "a template of this length").map_err(|e| e.within(file))?;
    Ok(text.to_owned())
}

/// `eos_token_id` of `generation_config.json`, or of `config` where there is none: one token or a list.
fn end_tokens(folder: &Folder<'_>, config: &Config<'_>) -> Result<Vec<u32>> {
    const KEY: &str = "eos_token_id";
    let found = of_generation(folder, &[KEY], |generation| {
        generation.has(KEY).then(|| generation.tokens(KEY)).transpose()
    })?;
    found.map_or_else(|| config.tokens(KEY), Ok)
}

/// The folder and how its large files are opened.
struct Folder<'a> {
    path: &'a Path,
    use_mmap: bool,
    reading: &'a Reading<'a>,
}

impl Folder<'_> {
    fn has(&self, file: &str) -> bool {
        self.path.join(file).exists()
    }

    /// As [`Folder::read`], if the file is there.
    fn optional(&self, file: &str, most: u64) -> Result<Option<FileBytes>> {
        self.has(file).then(|| self.read(file, most)).transpose()
    }

    fn beside(&self) -> Result<Beside> {
        let tokenizer_config = self.optional(TOKENIZER_CONFIG, MAX_TEXT_BYTES)?;
        let special_tokens_map = self.optional(SPECIAL_TOKENS_MAP, MAX_TEXT_BYTES)?;
        let added_tokens = self.optional(ADDED_TOKENS, MAX_TEXT_BYTES)?;
        let mut chat_templates = Vec::new();
        for (name, file) in self.template_files()? {
            chat_templates.push((name, template(&self.read(&file, MAX_TEXT_BYTES)?, &file)?));
        }
        Ok(Beside { tokenizer_config, special_tokens_map, added_tokens, chat_templates })
    }

    /// The files of templates: names and paths in the folder.
    fn template_files(&self) -> Result<Vec<(String, String)>> {
        let mut out = Vec::new();
        if self.has(TEMPLATE) {
            out.push(("default".to_owned(), TEMPLATE.to_owned()));
        }
        let others = self.path.join(TEMPLATES);
        if !others.is_dir() {
            return Ok(out);
        }
        let unreadable = |e: std::io::Error| Error::Io(format!("{TEMPLATES}: {e}"));
        for entry in std::fs::read_dir(&others).map_err(unreadable)? {
            let file = entry.map_err(unreadable)?.file_name();
            let Some(name) = file.to_str().and_then(|file| file.strip_suffix(".jinja")) else { continue };
            if out.len() > MAX_TEMPLATES {
                return Err(Error::Unsupported(format!(
                    "{TEMPLATES} has more than {MAX_TEMPLATES} templates, the most Ember reads"
                )));
            }
            out.push((name.to_owned(), format!("{TEMPLATES}/{name}.jinja")));
        }
        out.sort();
        Ok(out)
    }

    /// A small file of at most so many bytes, read into memory.
    fn read(&self, file: &str, most: u64) -> Result<FileBytes> {
        let path = self.path.join(file);
        // Where there is nothing to be looked at, reading says why.
        let n_bytes = path.metadata().map_or(0, |found| found.len());
        if n_bytes > most {
            return Err(Error::Unsupported(format!(
                "{file}: the file has {n_bytes} bytes, Ember reads at most {most}"
            )));
        }
        let reading = Reading { step: self.reading.step, ..Reading::default() };
        FileBytes::read(&path, &reading).map_err(|e| e.within(file))
    }

    /// A file of weights, mapped or read as asked.
    fn load(&self, file: &str) -> Result<FileBytes> {
        let path = self.path.join(file);
        let loaded = match self.use_mmap {
            true => FileBytes::map(&path, self.reading),
            false => FileBytes::read(&path, self.reading),
        };
        let file = shortened(file);
        loaded.map(|bytes| bytes.called(&file)).map_err(|e| e.within(&file))
    }
}
