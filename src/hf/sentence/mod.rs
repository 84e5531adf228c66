//! Folders of `sentence-transformers`: what `modules.json` lists makes vectors of the hidden states of texts.
//!
//! Every module is honoured, or the folder is refused by the module's name: a vector without one of them lies in another
//! space. The files that it names are hostile input as the folder is: their paths stay inside of it.
#![forbid(unsafe_code)]

pub mod dense;
mod texts;

use std::path::{Component, Path};

use super::Folder;
use super::config::{Config, ConfigFile, ListFile};
use crate::error::{Error, Result};
use crate::gguf::quoted;
pub use dense::Dense;
pub use texts::Texts;

const MODULES: &str = "modules.json";
/// The names of the width of hidden states.
const WIDTH: &[&str] = &["hidden_size", "n_embd", "dim", "d_model"];
/// The most modules: real folders have up to five.
const MOST_MODULES: usize = 32;
/// The most bytes of a module's path.
const MOST_PATH: usize = 255;

/// How texts become vectors.
#[derive(Debug)]
pub struct Sentence {
    /// How the hidden states of a text become one vector.
    pub pooling: Pooling,
    /// Layers that it goes through.
    pub dense: Vec<Dense>,
    /// Whether that vector is scaled to length 1.
    pub normalizes: bool,
    /// What happens to texts before.
    pub texts: Texts,
}

/// Which hidden states of a text make its vector, under the numbers of GGUF's pooling types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    Mean = 1,
    /// The first token's.
    Cls = 2,
    /// The last token's.
    LastToken = 3,
}

/// The names of the kinds of pooling: as a value of `pooling_mode`, and the older keys that are true or false.
const POOLINGS: [(&str, &str, Option<Pooling>); 6] = [
    ("cls", "pooling_mode_cls_token", Some(Pooling::Cls)),
    ("mean", "pooling_mode_mean_tokens", Some(Pooling::Mean)),
    ("lasttoken", "pooling_mode_lasttoken", Some(Pooling::LastToken)),
    ("max", "pooling_mode_max_tokens", None),
    ("mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", None),
    ("weightedmean", "pooling_mode_weightedmean_tokens", None),
];
const SUPPORTED: &str = "mean, cls, lasttoken";

/// The modules that Ember knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Transformer,
    Pooling,
    Dense,
    Normalize,
    Dropout,
}

const KINDS: [(&str, Kind); 5] = [
    ("Transformer", Kind::Transformer),
    ("Pooling", Kind::Pooling),
    ("Dense", Kind::Dense),
    ("Normalize", Kind::Normalize),
    ("Dropout", Kind::Dropout),
];

/// Where versions of the package have their modules.
const PACKAGES: [&str; 3] = [
    "sentence_transformers.models.",
    "sentence_transformers.base.modules.",
    "sentence_transformers.sentence_transformer.modules.",
];

/// The kind of the class `class`: its name after a package, or after a module of one.
fn kind(class: &str) -> Option<Kind> {
    let rest = PACKAGES.iter().find_map(|package| class.strip_prefix(package))?;
    let (module, name) = rest.rsplit_once('.').unwrap_or(("", rest));
    KINDS
        .into_iter()
        .find(|(known, _)| *known == name && (module.is_empty() || module.eq_ignore_ascii_case(name)))
        .map(|(_, kind)| kind)
}

/// A module of the list.
struct Module<'a> {
    name: &'a str,
    class: &'a str,
    path: &'a str,
    kind: Kind,
}

impl<'a> Module<'a> {
    fn new(entry: &Config<'a>) -> Result<Module<'a>> {
        let required = |key: &str| entry.str(&[key])?.ok_or_else(|| entry.missing(&[key]));
        let (name, class, path) = (required("name")?, required("type")?, required("path")?);
        let Some(kind) = kind(class) else {
            return Err(Error::Unsupported(format!(
                "{MODULES}: the module {} is of the type {}, which is not supported; supported are: {}",
                quoted(name.as_bytes()),
                quoted(class.as_bytes()),
                KINDS.map(|(name, _)| name).join(", ")
            )));
        };
        let stays = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        if !stays || path.len() > MOST_PATH || path.contains(['\\', ':', '\0']) {
            return Err(Error::Format(format!(
                "{MODULES}: the module {} has the path {}, expected that of a folder inside this one",
                quoted(name.as_bytes()),
                quoted(path.as_bytes())
            )));
        }
        Ok(Module { name, class, path, kind })
    }

    /// Its file `name`.
    fn file(&self, name: &str) -> String {
        match self.path {
            "" => name.to_owned(),
            path => format!("{}/{name}", path.trim_end_matches('/')),
        }
    }

    /// A refusal for `reason`.
    fn refused(&self, reason: &str) -> Error {
        Error::Unsupported(format!(
            "{MODULES}: the module {} of the type {} {reason}",
            quoted(self.name.as_bytes()),
            quoted(self.class.as_bytes())
        ))
    }
}

/// What `modules.json` of `folder`, whose model has the configuration `config`, says; `None` in a folder without.
///
/// # Errors
/// `Unsupported` for a module or a value that Ember does not know or that stands where it cannot be; `Format` for files
/// that are malformed or contradict each other; `Io`, `NoMemory`.
pub fn read(folder: &Folder<'_>, config: &Config<'_>) -> Result<Option<Sentence>> {
    if !folder.has(MODULES) {
        return Ok(None);
    }
    let list = ListFile::read(folder, MODULES)?;
    let entries = list.configs()?;
    if entries.len() > MOST_MODULES {
        return Err(Error::Unsupported(format!(
            "{MODULES}: the file lists {} modules, Ember takes at most {MOST_MODULES}",
            entries.len()
        )));
    }
    let modules = entries.iter().map(Module::new).collect::<Result<Vec<Module<'_>>>>()?;
    for (i, module) in modules.iter().enumerate() {
        if modules[..i].iter().any(|other| other.name == module.name) {
            return Err(module.refused("has the name of another, which it would replace"));
        }
    }
    let mut modules = modules.iter();
    let Some(transformer) = modules.next() else {
        return Err(Error::Unsupported(format!(
            "{MODULES}: the file lists no modules, expected a Transformer"
        )));
    };
    if transformer.kind != Kind::Transformer {
        return Err(transformer.refused("stands first, where a Transformer is expected"));
    }
    if !transformer.path.is_empty() {
        return Err(
            transformer.refused("is in a folder of its own; supported is one in the folder of modules.json")
        );
    }
    let n_embd = config.count(WIDTH)? as usize;
    let (mut pooling, mut layers, mut normalizes) = (None, Vec::new(), false);
    for module in modules {
        match (module.kind, &pooling) {
            (Kind::Transformer, _) | (Kind::Pooling, Some(_)) => {
                return Err(module.refused("is a second one of its kind"));
            }
            (Kind::Pooling, None) => pooling = Some(read_pooling(folder, module, n_embd)?),
            (Kind::Dense, Some(_)) if normalizes => return Err(module.refused("stands after a Normalize")),
            (Kind::Dense, Some(_)) => layers.push(dense::read(folder, module, &layers, n_embd)?),
            (Kind::Dense | Kind::Normalize | Kind::Dropout, None) => {
                return Err(module.refused("stands before the Pooling"));
            }
            (Kind::Normalize, Some(_)) => {
                expect_sentence(&ConfigFile::optional(folder, &module.file(CONFIG))?.config())?;
                normalizes = true;
            }
            (Kind::Dropout, Some(_)) => {}
        }
    }
    let Some(pooling) = pooling else {
        return Err(Error::Unsupported(format!(
            "{MODULES}: no module is a Pooling: what the Transformer gives are not vectors of texts"
        )));
    };
    let texts = texts::read(folder, config)?;
    let Pooled { pooling, include_prompt, file } = pooling;
    if !include_prompt {
        texts.expect_no_prompt(&file)?;
    }
    let texts = Texts { pools_prompt: include_prompt, ..texts };
    Ok(Some(Sentence { pooling, dense: layers, normalizes, texts }))
}

/// How the hidden states of a text become one vector, if `sentence` or the model's class says so. `sentence-transformers` takes
/// the last token's of a causal language model that has no list of modules.
pub fn pooling(sentence: Option<&Sentence>, config: &Config<'_>) -> Result<Option<Pooling>> {
    let classes = config.strs("architectures")?.unwrap_or_default();
    let is_causal = classes.first().is_some_and(|class| class.ends_with("ForCausalLM"));
    Ok(sentence.map(|sentence| sentence.pooling).or(is_causal.then_some(Pooling::LastToken)))
}

const CONFIG: &str = "config.json";

/// Refuses a module that takes, or writes, anything but the vector of a text.
fn expect_sentence(config: &Config<'_>) -> Result<()> {
    for key in ["module_input_name", "module_output_name"] {
        config.expect_str(&[key], &["sentence_embedding"])?;
    }
    Ok(())
}

/// What the configuration of a Pooling says.
struct Pooled {
    pooling: Pooling,
    include_prompt: bool,
    file: String,
}

fn read_pooling(folder: &Folder<'_>, module: &Module<'_>, n_embd: usize) -> Result<Pooled> {
    if module.path.is_empty() {
        return Err(module.refused("has no path, expected that of its folder"));
    }
    let name = module.file(CONFIG);
    let file = ConfigFile::read(folder, &name)?;
    let config = file.config();
    if let Some(n) = config.u32(&["embedding_dimension"])?.or(config.u32(&["word_embedding_dimension"])?)
        && n as usize != n_embd
    {
        log::warn!(
            "{name}: the vectors of tokens have {n} numbers there, but {n_embd} in config.json, which counts"
        );
    }
    let include_prompt = config.bool("include_prompt")?.unwrap_or(true);
    let pooling = if config.has(MODE) { named(&config)? } else { flagged(&config, &name)? };
    Ok(Pooled { pooling, include_prompt, file: name })
}

const MODE: &str = "pooling_mode";

/// What `pooling_mode` says: a name, or a list of one.
fn named(config: &Config<'_>) -> Result<Pooling> {
    let list =
        if config.shown(MODE).is_some_and(|shown| shown == "an array") { config.strs(MODE)? } else { None };
    let name = match list.as_deref() {
        None => config.str(&[MODE])?.unwrap_or_default(),
        Some([name]) => name,
        Some(several) => {
            let shown = quoted(several.join(", ").as_bytes());
            return Err(config.unsupported(MODE, &shown, "one kind of pooling"));
        }
    };
    let known = POOLINGS.iter().find(|(known, ..)| *known == name).and_then(|(.., pooling)| *pooling);
    known.ok_or_else(|| config.unsupported(MODE, &quoted(name.as_bytes()), SUPPORTED))
}

/// What the older keys say: the one that is true, and the mean where none is.
fn flagged(config: &Config<'_>, file: &str) -> Result<Pooling> {
    let mut chosen: Option<(&str, Option<Pooling>)> = None;
    for (_, key, pooling) in POOLINGS {
        if config.bool(key)? != Some(true) {
            continue;
        }
        if let Some((other, _)) = chosen.replace((key, pooling)) {
            return Err(Error::Unsupported(format!(
                "{file}: several kinds of pooling at once ({other:?} and {key:?}) are not supported"
            )));
        }
    }
    match chosen {
        None => Ok(Pooling::Mean),
        Some((_, Some(pooling))) => Ok(pooling),
        Some((key, None)) => Err(config.unsupported(key, "true", SUPPORTED)),
    }
}
