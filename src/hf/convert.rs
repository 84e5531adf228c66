//! A family's configuration and tensors to the parts of the GGUF model that they are.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Folder;
use super::config::Config;
use super::family::{Family, Head, Keys};
use super::layout::{self, Change, Heads, Laid, Tensor};
use super::names::{self, Meaning};
use super::origin::Names;
use super::weights::{Stored, Weights};
use crate::error::{Error, Result, sizes};
use crate::gguf::{Dims, FileBytes, Origin, Parts, Reading, TensorInfo, TensorType, quoted};

/// The parts of the model called `name` that `config` and `weights` describe, and what they are called there.
pub fn convert(
    name: &str,
    folder: &Folder<'_>,
    family: &'static Family,
    config: &Config<'_>,
    weights: Weights,
) -> Result<(Parts, Names)> {
    let mut keys = Keys::new(family.architecture);
    (family.keys)(config, &mut keys)?;
    if family.head == Head::None {
        super::families::pooling(folder, &mut keys)?;
    }
    let n_head = keys.count("attention.head_count");
    let n_head_kv = keys.count("attention.head_count_kv").or(n_head);
    let heads = Heads { n_head: n_head.unwrap_or(0), n_head_kv: n_head_kv.unwrap_or(0) };
    let Weights { files, tensors: stored } = weights;
    let mut draft = Draft {
        file_size: files.iter().map(|f| f.len() as u64).sum(),
        files,
        tensors: Vec::new(),
        heads,
        stacks: BTreeMap::new(),
        origins: BTreeMap::new(),
        reading: folder.reading,
    };
    let mut origin = Names::new(family, config, &keys, stored.keys());
    let has_own_head = has_own_head(family, config)?;
    let mut found_head = false;
    for (name, entry) in &stored {
        let meaning = names::meaning(family, name).ok_or_else(|| unknown(name, family))?;
        let Meaning::Tensor { name: gguf, change, part } = meaning else { continue };
        if gguf == OUTPUT && !has_own_head {
            continue;
        }
        found_head |= gguf == OUTPUT;
        origin.learn(&gguf, name, change);
        draft.add(gguf, change, part, entry.as_ref().map_err(Clone::clone)?)?;
    }
    if has_own_head && !found_head {
        let sentence = "the tensor of the output projection (\"lm_head.weight\") is missing, but config.json does not tie it \
                        to the token embedding";
        return Err(Error::Format(sentence.into()));
    }
    draft.add_stacks()?;
    check_vocabulary(&draft.tensors, config, &keys, &origin)?;
    for (name, values) in std::mem::take(&mut keys.vectors) {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let data = Laid::Owned(FileBytes::copy(&bytes, folder.reading.memory)?);
        draft.place(name, name, Tensor { ty: TensorType::F32, shape: vec![values.len()], data })?;
    }
    let Draft { file_size, files, tensors, .. } = draft;
    Ok((Parts { name: name.to_owned(), metadata: keys.entries, tensors, files, file_size }, origin))
}

/// Refuses an embedding of fewer tokens than there are. More are padding.
fn check_vocabulary(tensors: &[TensorInfo], config: &Config<'_>, keys: &Keys, origin: &Names) -> Result<()> {
    const EMBEDDING: &str = "token_embd.weight";
    const KEY: &str = "vocab_size";
    let n_rows = tensors.iter().find(|t| t.name == EMBEDDING).and_then(|t| t.dims.get(1));
    match (keys.count(KEY), n_rows) {
        (Some(n_vocab), Some(&n_rows)) if n_vocab > n_rows => Err(Error::Format(format!(
            "the key {} is {n_vocab}, but the tensor {:?} has {n_rows} rows",
            config.place(KEY).unwrap_or_default(),
            origin.tensor(EMBEDDING).unwrap_or_default()
        ))),
        _ => Ok(()),
    }
}

const OUTPUT: &str = "output.weight";

/// Whether the model has an output projection of its own.
fn has_own_head(family: &Family, config: &Config<'_>) -> Result<bool> {
    let tied = config.bool("tie_word_embeddings")?;
    Ok(match family.head {
        Head::None | Head::Tied => false,
        Head::TiedByDefault => tied == Some(false),
        Head::UntiedByDefault => tied != Some(true),
    })
}

fn unknown(name: &str, family: &Family) -> Error {
    Error::Unsupported(format!(
        "the tensor {} is not part of a model of the type {:?} as this version knows it",
        quoted(name.as_bytes()),
        family.model_type
    ))
}

/// The model in the making.
struct Draft<'a> {
    files: Vec<Arc<FileBytes>>,
    file_size: u64,
    tensors: Vec<TensorInfo>,
    heads: Heads,
    /// The parts of stacked tensors by GGUF name and number.
    stacks: BTreeMap<String, BTreeMap<usize, &'a Stored>>,
    /// What each tensor is in the folder.
    origins: BTreeMap<String, &'a str>,
    reading: &'a Reading<'a>,
}

impl<'a> Draft<'a> {
    /// Adds a tensor under its GGUF name, or puts it aside for its stack.
    fn add(&mut self, gguf: String, change: Change, part: usize, stored: &'a Stored) -> Result<()> {
        if change == Change::Stack {
            match self.stacks.entry(gguf).or_default().insert(part, stored) {
                None => return Ok(()),
                Some(other) => return Err(twice(&other.name, &stored.name)),
            }
        }
        let tensor = layout::apply(change, stored, self.heads, self.reading.memory)?;
        self.place(&gguf, &stored.name, tensor)?;
        match self.origins.insert(gguf, &stored.name) {
            None => Ok(()),
            Some(other) => Err(twice(other, &stored.name)),
        }
    }

    /// Joins what was put aside.
    fn add_stacks(&mut self) -> Result<()> {
        for (gguf, parts) in std::mem::take(&mut self.stacks) {
            if let Some((expected, (_, stored))) = parts.iter().enumerate().find(|(i, (part, _))| i != *part)
            {
                return Err(Error::Format(format!(
                    "the tensor {} is there, but the one of the same kind with the number {expected} is missing",
                    quoted(stored.name.as_bytes())
                )));
            }
            let parts: Vec<&Stored> = parts.into_values().collect();
            let tensor = layout::stack(&parts, self.reading.memory)?;
            self.place(&gguf, parts.first().map_or("", |part| &part.name), tensor)?;
        }
        Ok(())
    }

    /// Adds a tensor that is `stored` in the folder.
    fn place(&mut self, name: &str, stored: &str, tensor: Tensor<'_>) -> Result<()> {
        (self.reading.step)()?;
        let (file, offset) = match tensor.data {
            Laid::InPlace(stored) => (stored.file, stored.offset),
            Laid::Owned(data) => {
                self.files.push(Arc::new(data));
                (self.files.len() - 1, 0)
            }
        };
        let dims: Vec<usize> = tensor.shape.iter().rev().copied().collect();
        if Dims::new(&dims).is_none() {
            return Err(Error::Format(format!(
                "the tensor {} has the impossible shape {}",
                quoted(stored.as_bytes()),
                sizes(&tensor.shape)
            )));
        }
        self.tensors.push(TensorInfo::new(name, tensor.ty, &dims, file, offset)?);
        Ok(())
    }
}

fn twice(one: &str, other: &str) -> Error {
    let [one, other] = [one, other].map(|name| quoted(name.as_bytes()));
    Error::Format(format!("the tensors {one} and {other} mean the same"))
}
