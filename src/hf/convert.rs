//! A family's configuration and tensors to the parts of the GGUF model that they are.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Folder;
use super::classifier;
use super::config::Config;
use super::family::{self, Family, Keys, N_LAYER, When};
use super::layout::{self, Change, Heads, Laid, Tensor};
use super::names::{self, Meaning};
use super::numbers::Numbers;
use super::origin::Names;
use super::sampling;
use super::sentence::{Pooling, Sentence, dense};
use super::start;
use super::weights::{Stored, Weights};
use crate::error::{Error, Result, sizes};
use crate::gguf::{Dims, FileBytes, Further, Origin, Parts, Reading, TensorInfo, TensorType, quoted};

/// The parts of the model called `name` that `config` and `weights` describe, and what they are called there. `tied` says
/// whether the token embedding is the output projection where none is stored; `pooling` and `sentence`, how texts become
/// vectors.
pub fn convert(
    name: &str,
    folder: &Folder<'_>,
    family: &'static Family,
    config: &Config<'_>,
    tied: bool,
    (pooling, sentence): (Option<Pooling>, Option<&Sentence>),
    weights: Weights,
) -> Result<(Parts, Names)> {
    let mut keys = Keys::new(family.architecture);
    (family.keys)(config, &mut keys)?;
    let tied = tied && !keys.has_no_head;
    let start = start::read(folder, config, &mut keys)?;
    let classifier = classifier::read(config, &mut keys)?;
    keys.set_some("pooling_type", pooling.filter(|_| classifier.is_none()).map(|pooling| pooling as u32));
    let n_head = keys.count("attention.head_count");
    let n_head_kv = keys.head_count_kv().or(n_head);
    let heads = Heads {
        n_head: n_head.unwrap_or(0),
        n_head_kv: n_head_kv.unwrap_or(0),
        skipped: keys.skipped_positions,
        n_expert: keys.count("expert_count").unwrap_or(0),
        n_embd: keys.count("embedding_length").unwrap_or(0),
    };
    let Weights { files, tensors: stored } = weights;
    let mut draft = Draft {
        file_size: files.iter().map(|f| f.len() as u64).sum(),
        files,
        tensors: Vec::new(),
        heads,
        heads_of_latent: keys.heads_of_latent,
        stacks: BTreeMap::new(),
        packed: BTreeMap::new(),
        origins: BTreeMap::new(),
        scales: std::mem::take(&mut keys.scales),
        reading: folder.reading,
    };
    let mut origin = Names::new(family, config, &keys, stored.keys());
    origin.learn_key(&keys, start);
    let n_layer = keys.count("block_count");
    check_layer_types(config, &keys, n_layer)?;
    let mut left_out = LeftOut::default();
    let mut has_head = tied;
    let mut numbers = Numbers::default();
    for (name, entry) in &stored {
        if let Some(gguf) = sentence.and_then(|sentence| dense::name(&sentence.dense, name)) {
            origin.learn(&gguf, name, Change::Same);
            draft.add(gguf, Change::Same, 0, entry.as_ref().map_err(Clone::clone)?)?;
            continue;
        }
        if is_next(names::layer(family, name), n_layer, keys.n_next) {
            continue;
        }
        if let Some((_, key)) = keys.absent.iter().find(|(pattern, _)| names::fits(pattern, name)) {
            left_out.add(Some(key), name);
            continue;
        }
        if let Some((key, layer)) = Numbers::place(family, &keys, name) {
            check_layer(&format!("blk.{layer}.{key}"), name, config, &keys)?;
            numbers.take((key, layer), entry.as_ref().map_err(Clone::clone)?)?;
            continue;
        }
        let of_head = classifier.and_then(|_| classifier::meaning(name));
        let meaning =
            of_head.or_else(|| names::meaning(family, name)).ok_or_else(|| unknown(name, family))?;
        let Meaning::Tensor { name: gguf, change, part, when } = meaning else { continue };
        check_layer(&gguf, name, config, &keys)?;
        if keys.shadowed.iter().any(|(own, other)| own == name && stored.contains_key(*other)) {
            continue;
        }
        if let Some((_, of)) = keys.copies.iter().find(|(own, of)| own == name && stored.contains_key(*of)) {
            let of = stored[*of].as_ref().map_err(Clone::clone)?;
            expect_copy(entry.as_ref().map_err(Clone::clone)?, of)?;
            continue;
        }
        let when = match keys.unused.iter().find(|(unused, _)| *unused == gguf) {
            Some((_, key)) => When::Unless(key, false),
            None => when,
        };
        if !left_out.has(when, config, name)? {
            has_head |= gguf == OUTPUT;
            origin.learn(&gguf, name, change);
            draft.add(gguf, change, part, entry.as_ref().map_err(Clone::clone)?)?;
        }
    }
    left_out.warn(family);
    numbers.write(&mut keys, n_layer.unwrap_or(0), origin.prefix())?;
    draft.add_scaled_head(tied, &mut origin)?;
    if let Some(missing) = keys.required.iter().find(|name| !draft.tensors.iter().any(|t| t.name == **name)) {
        let called = origin.tensor(missing).unwrap_or_default();
        return Err(Error::Format(format!("the tensor {called:?} is missing")));
    }
    draft.check_head(tied, &origin)?;
    draft.add_stacks()?;
    draft.add_packed()?;
    check_vocabulary(&draft.tensors, config, &keys, &origin)?;
    for (name, values) in std::mem::take(&mut keys.vectors) {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let data = Laid::Owned(FileBytes::copy(&bytes, folder.reading.memory)?);
        draft.place(name, name, Tensor { ty: TensorType::F32, shape: vec![values.len()], data })?;
    }
    let Draft { file_size, files, tensors, .. } = draft;
    let name = name.to_owned();
    let further = Further {
        has_head,
        values_are_grouped: keys.values_are_grouped,
        least_time_step: keys.least_time_step,
        mixer_epsilon: keys.mixer_epsilon,
        normalizes: sentence.map(|sentence| sentence.normalizes),
        most_tokens: sentence.and_then(|sentence| sentence.texts.most_tokens),
        prompt: sentence.map_or_else(Box::default, |sentence| sentence.texts.prompt.as_str().into()),
        prompts: sentence.map_or_else(Vec::new, |sentence| sentence.texts.prompts.clone()),
        pools_prompt: sentence.is_none_or(|sentence| sentence.texts.pools_prompt),
        dense_tanh: sentence.map_or_else(Vec::new, |s| s.dense.iter().map(|dense| dense.tanh).collect()),
        sampling: sampling::read(folder),
        score_activation: classifier,
    };
    Ok((Parts { name, metadata: keys.entries, tensors, files, file_size, further }, origin))
}

/// Refuses an embedding of fewer tokens than there are. More are padding.
fn check_vocabulary(tensors: &[TensorInfo], config: &Config<'_>, keys: &Keys, origin: &Names) -> Result<()> {
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

const EMBEDDING: &str = "token_embd.weight";
const OUTPUT: &str = "output.weight";
const OUTPUT_BIAS: &str = "output.bias";
const DECODER_LAYERS: &str = "decoder_block_count";

/// The layer that a tensor is of, and the key that says how many of its kind there are.
fn layer_of(gguf: &str) -> Option<(usize, &'static str)> {
    let (gguf, key) = match gguf.strip_prefix("dec.") {
        Some(rest) => (rest, DECODER_LAYERS),
        None => (gguf.strip_prefix("enc.").unwrap_or(gguf), "block_count"),
    };
    Some((gguf.strip_prefix("blk.")?.split_once('.')?.0.parse().ok()?, key))
}

/// Whether `layer` is one of the `n_next` after the others.
fn is_next(layer: Option<usize>, n_layer: Option<usize>, n_next: usize) -> bool {
    let behind = layer.zip(n_layer).and_then(|(layer, n_layer)| layer.checked_sub(n_layer));
    behind.is_some_and(|behind| behind < n_next)
}

/// Refuses a tensor of a layer that the configuration does not have.
fn check_layer(gguf: &str, stored: &str, config: &Config<'_>, keys: &Keys) -> Result<()> {
    const OF_DECODER: &str = "num_decoder_layers";
    let Some((layer, key)) = layer_of(gguf) else { return Ok(()) };
    let Some(n_layer) = keys.count(key).filter(|n_layer| layer >= *n_layer) else { return Ok(()) };
    let mut names = N_LAYER.iter().chain(&["n_layers", "num_layers"]);
    let place = match config.place(OF_DECODER).filter(|_| key == DECODER_LAYERS) {
        Some(place) => place,
        None => names.find_map(|name| config.place(name)).unwrap_or_default(),
    };
    let absent = if key == DECODER_LAYERS && !config.has(OF_DECODER) {
        ", and \"num_decoder_layers\" is absent"
    } else {
        ""
    };
    Err(Error::Format(format!(
        "the tensor {} is of layer {layer}, but the key {place} is {n_layer}{absent}",
        quoted(stored.as_bytes())
    )))
}

/// Refuses a tensor that is not the same as another.
fn expect_copy(stored: &Stored, of: &Stored) -> Result<()> {
    if (stored.ty, &stored.shape, stored.bytes()) == (of.ty, &of.shape, of.bytes()) {
        return Ok(());
    }
    let [stored, of] = [stored, of].map(|tensor| quoted(tensor.name.as_bytes()));
    Err(Error::Unsupported(format!(
        "the tensors {stored} and {of} differ, which is not supported; supported is: one token embedding"
    )))
}

/// Refuses layers of another kind than the model has, and windows in a model without.
fn check_layer_types(config: &Config<'_>, keys: &Keys, n_layer: Option<usize>) -> Result<()> {
    let lists = ["attention.head_count_kv", "attention.recurrent_layers"];
    if keys.reads_layer_types || lists.iter().any(|name| keys.is_list(name)) {
        // The family has kinds of its own, and has read which layer is of which.
        return Ok(());
    }
    let windowed = family::windowed_layers(config, n_layer)?.unwrap_or_default();
    match keys.count(family::WINDOW) {
        None | Some(0) if windowed.contains(&true) => Err(config.unsupported(
            "layer_types",
            "\"sliding_attention\"",
            "full_attention in a model whose layers have no window",
        )),
        _ => Ok(()),
    }
}

/// Tensors that the configuration's class does not have: how many for each condition, and the first.
#[derive(Default)]
struct LeftOut<'a>(BTreeMap<Option<&'static str>, (usize, &'a str)>);

impl<'a> LeftOut<'a> {
    /// Whether the tensor `name`, which is there `when`, is left out.
    fn has(&mut self, when: When, config: &Config<'_>, name: &'a str) -> Result<bool> {
        let key = match when {
            When::Always => return Ok(false),
            // Names are taken apart into layers before.
            When::Never | When::First => None,
            When::If(key, default) if config.bool(key)?.unwrap_or(default) => return Ok(false),
            When::Unless(key, default) if !config.bool(key)?.unwrap_or(default) => return Ok(false),
            When::If(key, _) | When::Unless(key, _) => Some(key),
        };
        self.add(key, name);
        Ok(true)
    }

    /// Notes that the tensor `name` is left out, as the key says.
    fn add(&mut self, key: Option<&'static str>, name: &'a str) {
        self.0.entry(key).or_insert((0, name)).0 += 1;
    }

    fn warn(&self, family: &Family) {
        for (key, (n, name)) in &self.0 {
            let name = quoted(name.as_bytes());
            let more = if *n > 1 { format!(" and {} more", n - 1) } else { String::new() };
            let why = match key {
                Some(key) => format!("{key:?} of config.json says so"),
                None => format!("a model of the type {:?} has none", family.model_type),
            };
            log::warn!("the tensor {name}{more} has no effect: {why}");
        }
    }
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
    heads_of_latent: Option<(usize, usize, usize)>,
    /// The parts of stacked tensors by GGUF name and number.
    stacks: BTreeMap<String, BTreeMap<usize, &'a Stored>>,
    /// Codes and scales by GGUF name, and whether even outputs come first.
    packed: BTreeMap<String, (Option<&'a Stored>, Option<&'a Stored>, bool)>,
    /// What each tensor is in the folder.
    origins: BTreeMap<String, &'a Stored>,
    /// As [`Keys::scales`].
    scales: Vec<(&'static str, Vec<(usize, f32)>)>,
    reading: &'a Reading<'a>,
}

impl<'a> Draft<'a> {
    /// Adds a tensor under its GGUF name, or puts it aside for its stack.
    fn add(&mut self, gguf: String, change: Change, part: usize, stored: &'a Stored) -> Result<()> {
        let stored = stored.expect(change.is_of_mxfp4())?;
        if change.is_of_mxfp4() {
            let (codes, scales, evens_first) = self.packed.entry(gguf).or_default();
            *evens_first |= change == Change::CodesEvenFirst;
            let part = if change == Change::Scales { scales } else { codes };
            return match part.replace(stored) {
                None => Ok(()),
                Some(other) => Err(twice(&other.name, &stored.name)),
            };
        }
        if change == Change::Stack {
            match self.stacks.entry(gguf).or_default().insert(part, stored) {
                None => return Ok(()),
                Some(other) => return Err(twice(&other.name, &stored.name)),
            }
        }
        if let (Change::KeysValues, Some(heads)) = (change, self.heads_of_latent) {
            let both = layout::keys_and_values(stored, heads, self.reading.memory)?;
            for (part, tensor) in ["attn_k_b", "attn_v_b"].into_iter().zip(both) {
                self.place(&gguf.replace("attn_kv_b", part), &stored.name, tensor)?;
            }
            return Ok(());
        }
        let tensor = match self.factors(&gguf) {
            Some(factors) => layout::scaled(stored, factors, self.reading.memory)?,
            None => layout::apply(change, stored, self.heads, self.reading.memory)?,
        };
        self.place(&gguf, &stored.name, tensor)?;
        match self.origins.insert(gguf, stored) {
            None => Ok(()),
            Some(other) => Err(twice(&other.name, &stored.name)),
        }
    }

    /// What the rows of the tensor with this GGUF name are multiplied with.
    fn factors(&self, gguf: &str) -> Option<&[(usize, f32)]> {
        let own = gguf.strip_prefix("blk.").and_then(|rest| Some(rest.split_once('.')?.1)).unwrap_or(gguf);
        self.scales.iter().find(|(end, _)| *end == own).map(|(_, factors)| &factors[..])
    }

    /// Adds the token embedding as the output projection where it is, with other factors.
    fn add_scaled_head(&mut self, tied: bool, origin: &mut Names) -> Result<()> {
        if !tied || self.origins.contains_key(OUTPUT) || self.factors(OUTPUT) == self.factors(EMBEDDING) {
            return Ok(());
        }
        let Some(stored) = self.origins.get(EMBEDDING).copied() else { return Ok(()) };
        origin.learn(OUTPUT, &stored.name, Change::Same);
        self.add(OUTPUT.to_owned(), Change::Same, 0, stored)
    }

    /// Refuses the bias of an output projection that is not there, and drops one that is the token embedding once more,
    /// which serves where it is `tied`.
    fn check_head(&mut self, tied: bool, origin: &Names) -> Result<()> {
        let tensor = |name: &str| self.tensors.iter().find(|t| t.name == name);
        let bytes = |t: &TensorInfo| self.files[t.file].get(t.offset..t.offset + t.n_bytes);
        let (head, embedding) = (tensor(OUTPUT), tensor(EMBEDDING));
        if let (None, Some(bias)) = (head, tensor(OUTPUT_BIAS)) {
            let called = |name: &str| origin.tensor(name).unwrap_or_default();
            return Err(Error::Unsupported(format!(
                "the tensor {:?} is there, but not {:?}, which it belongs to",
                called(&bias.name),
                called(OUTPUT)
            )));
        }
        let is_alike = self.factors(OUTPUT) == self.factors(EMBEDDING);
        let is_copy = is_alike
            && head.zip(embedding).is_some_and(|(head, embedding)| {
                (head.ty, &head.dims) == (embedding.ty, &embedding.dims) && bytes(head) == bytes(embedding)
            });
        if tied && is_copy && tensor(OUTPUT_BIAS).is_none() {
            self.tensors.retain(|t| t.name != OUTPUT);
        }
        Ok(())
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

    /// Joins codes and scales.
    fn add_packed(&mut self) -> Result<()> {
        for (gguf, parts) in std::mem::take(&mut self.packed) {
            let (codes, scales, evens_first) = match parts {
                (Some(codes), Some(scales), evens_first) => (codes, scales, evens_first),
                (Some(alone), None, _) | (None, Some(alone), _) => {
                    let other = if parts.0.is_some() { "scales" } else { "codes" };
                    return Err(Error::Format(format!(
                        "the tensor {} is there, but the one with its {other} is missing",
                        quoted(alone.name.as_bytes())
                    )));
                }
                (None, None, _) => continue,
            };
            let tensor = layout::mxfp4(codes, scales, evens_first, self.reading.memory)?;
            self.place(&gguf, &codes.name, tensor)?;
            if let Some(other) = self.origins.insert(gguf, codes) {
                return Err(twice(&other.name, &codes.name));
            }
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
