//! What distinguishes a family of models: one row of data.
#![forbid(unsafe_code)]

use super::config::Config;
use super::layout::Change;
use crate::error::{Error, Result};
use crate::gguf::{Array, Value, quoted};

/// A tensor's name without `.weight` or `.bias` in the folder and in GGUF, where `{}` stands for the layer's number
/// (a second `{}` for an expert's or a head's), and what becomes of its elements.
pub type Name = (&'static str, &'static str, Change);

/// A family: a value of `model_type`, and how its folders are read.
#[derive(Debug)]
pub struct Family {
    /// `model_type` in `config.json`.
    pub model_type: &'static str,
    /// `general.architecture`.
    pub architecture: &'static str,
    /// What tensor names may begin with, before what `names` lists; the first that fits is taken off.
    pub prefixes: &'static [&'static str],
    /// The tensors.
    pub names: &'static [&'static [Name]],
    /// Names (after the prefix) of tensors that the computation does not need: whole, or with a `*` at one end.
    pub ignored: &'static [&'static str],
    /// Tensors that its class has only under a condition: patterns as in `ignored`, of names as in `names` with their
    /// suffix; the first that fits decides, and a tensor that none fits is there.
    pub conditions: &'static [(&'static str, When)],
    /// The output projection.
    pub head: Head,
    /// Writes the hyper-parameters.
    pub keys: fn(&Config<'_>, &mut Keys) -> Result<()>,
}

/// A family's output projection. One that is stored is what serves; else the token embedding does where
/// `tie_word_embeddings` is true, and there is none where it is false.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// It has none: an encoder.
    None,
    /// It is stored, whatever `tie_word_embeddings` says.
    Stored,
    /// An absent `tie_word_embeddings` means true.
    TiedByDefault,
    /// An absent `tie_word_embeddings` means false.
    UntiedByDefault,
    /// The same, and a `true` in the part about the language counts too.
    UntiedByBoth,
    /// The same, and the part about the language alone says it.
    UntiedInside,
    /// The token embedding serves where none is stored, whatever `tie_word_embeddings` says.
    Tied,
}

/// When a class has a tensor. `transformers` leaves out what a file has beyond that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// In every model.
    Always,
    /// In none.
    Never,
    /// In the first layer alone.
    First,
    /// Where this key is true, and its value where it is absent.
    If(&'static str, bool),
    /// Where this key is false, and its value where it is absent.
    Unless(&'static str, bool),
}

/// Most layers of which a list is made that the configuration does not have: far more than any model's.
pub const MOST_LAYERS: usize = 1 << 16;

/// The keys, and the tensors that no file holds, of the GGUF file in the making.
pub struct Keys {
    architecture: &'static str,
    /// Keys under their full names.
    pub entries: Vec<(Box<str>, Value)>,
    /// Name and elements of F32 vectors that are computed.
    pub vectors: Vec<(&'static str, Vec<f32>)>,
    /// Whether value heads that share a key head are neighbours.
    pub values_are_grouped: bool,
    /// The shortest time step of mixers of Mamba-2.
    pub least_time_step: f32,
    /// What norms within mixers of Mamba add under their root.
    pub mixer_epsilon: Option<f32>,
    /// Tensors, under their GGUF names, that the class does not have, and the key that says so.
    pub unused: Vec<(String, &'static str)>,
    /// Tensors as they are called in the folder, as in [`Family::conditions`], that the class does not have, and the key that says so.
    pub absent: Vec<(&'static str, &'static str)>,
    /// A tensor of the folder, and the one that takes its place where that is there, too.
    pub shadowed: Vec<(&'static str, &'static str)>,
    /// A tensor of the folder, and the one that it has to be a copy of where that is there, too.
    pub copies: Vec<(&'static str, &'static str)>,
    /// Whether the class has no output projection, though others of its family have one.
    pub has_no_head: bool,
    /// Whether answers begin with a token that the folder says, as those of an encoder with its decoder do.
    pub begins_answers: bool,
    /// Tensors that it has, where others do not and may go without.
    pub required: Vec<String>,
    /// Layers after the others, which predict further tokens.
    pub n_next: usize,
    /// Rows of the table of positions that no text has.
    pub skipped_positions: usize,
    /// Tensors of one element of each layer, and the keys under which GGUF has them as a list: the names without `layers.N.`.
    pub numbers: &'static [(&'static str, &'static str)],
    /// Tensors, by how their GGUF names end, of which rows are multiplied: how many, and with what, one part below the other.
    pub scales: Vec<(&'static str, Vec<(usize, f32)>)>,
    /// Whether the family has read what kind each layer is of.
    pub reads_layer_types: bool,
    /// Heads of latent attention, the part of their keys that is not rotated, and the length of their values.
    pub heads_of_latent: Option<(usize, usize, usize)>,
}

impl Keys {
    /// Nothing but the architecture.
    pub fn new(architecture: &'static str) -> Keys {
        let entries = vec![("general.architecture".into(), architecture.into())];
        Keys {
            architecture,
            entries,
            vectors: Vec::new(),
            values_are_grouped: false,
            least_time_step: 0.0,
            mixer_epsilon: None,
            unused: Vec::new(),
            absent: Vec::new(),
            shadowed: Vec::new(),
            copies: Vec::new(),
            has_no_head: false,
            begins_answers: false,
            required: Vec::new(),
            n_next: 0,
            skipped_positions: 0,
            numbers: &[],
            scales: Vec::new(),
            reads_layer_types: false,
            heads_of_latent: None,
        }
    }

    /// Makes it another architecture's, as the configuration says. No key of the old one was set yet.
    pub fn switch(&mut self, architecture: &'static str) {
        self.architecture = architecture;
        self.entries[0].1 = architecture.into();
    }

    /// The architecture.
    pub fn architecture(&self) -> &'static str {
        self.architecture
    }

    /// Sets the key `ARCH.name`.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.entries.push((format!("{}.{name}", self.architecture).into(), value.into()));
    }

    /// The count that `ARCH.name` was set to.
    pub fn count(&self, name: &str) -> Option<usize> {
        let key = format!("{}.{name}", self.architecture);
        match self.entries.iter().find(|(k, _)| **k == *key) {
            Some((_, Value::U32(n))) => Some(*n as usize),
            _ => None,
        }
    }

    /// The number of key/value heads, of those layers that have any.
    pub fn head_count_kv(&self) -> Option<usize> {
        const NAME: &str = "attention.head_count_kv";
        let key = format!("{}.{NAME}", self.architecture);
        match self.entries.iter().find(|(k, _)| **k == *key) {
            Some((_, Value::Array(Array::I32(heads)))) => heads.iter().max().and_then(|&n| n.try_into().ok()),
            _ => self.count(NAME),
        }
    }

    /// Whether `ARCH.name` was set to a list.
    pub fn is_list(&self, name: &str) -> bool {
        let key = format!("{}.{name}", self.architecture);
        self.entries.iter().any(|(k, value)| **k == *key && matches!(value, Value::Array(_)))
    }

    /// Lowers the count that `ARCH.name` was set to, if it is above `most`.
    pub fn at_most(&mut self, name: &str, most: u32) {
        let key = format!("{}.{name}", self.architecture);
        if let Some((_, Value::U32(n))) = self.entries.iter_mut().find(|(k, _)| **k == *key) {
            *n = most.min(*n);
        }
    }

    /// Sets the number of key/value heads layer by layer: 0 in those that have no attention.
    pub fn set_heads_by_layer(&mut self, n_head_kv: u32, attends: &[bool]) {
        // As GGUF's own package writes a list of integers.
        let heads = |&attends: &bool| if attends { n_head_kv.try_into().unwrap_or(i32::MAX) } else { 0 };
        self.set("attention.head_count_kv", attends.iter().map(heads).collect::<Vec<i32>>());
    }

    /// Makes norms of queries and keys required in every layer.
    pub fn require_qk_norms(&mut self) {
        self.require_in_layers(&["attn_q_norm.weight", "attn_k_norm.weight"]);
    }

    /// Makes tensors required in every layer.
    pub fn require_in_layers(&mut self, parts: &[&str]) {
        let layers = 0..self.count("block_count").unwrap_or(0).min(MOST_LAYERS);
        self.required.extend(layers.flat_map(|i| parts.iter().map(move |part| format!("blk.{i}.{part}"))));
    }

    /// Multiplies the rows of tensors whose GGUF names end so, unless all factors are 1.
    pub fn scale(&mut self, end: &'static str, parts: Vec<(usize, f32)>) {
        if parts.iter().any(|(_, factor)| *factor != 1.0) {
            self.scales.push((end, parts));
        }
    }

    /// Sets the key `ARCH.name` if there is a value.
    pub fn set_some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Sets the key `ARCH.name`, which was set before, to another number.
    pub fn replace_f32(&mut self, name: &str, value: f64) {
        let key = format!("{}.{name}", self.architecture);
        self.entries.retain(|(k, _)| **k != *key);
        self.set_f32(name, Some(value));
    }

    /// Sets the key `ARCH.name` to a number rounded to f32, if there is one.
    pub fn set_f32(&mut self, name: &str, value: Option<f64>) {
        self.set_some(name, value.map(|x| x as f32));
    }
}

/// The keys of the sizes that every family has, under the names that `transformers` and older configurations use.
pub fn plain_sizes(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    keys.set("block_count", config.count(N_LAYER)?);
    keys.set("context_length", config.count(N_CTX)?);
    keys.set("embedding_length", config.count(HIDDEN_SIZE)?);
    keys.set("attention.head_count", config.count(N_HEAD)?);
    keys.set_some("vocab_size", config.u32(&["vocab_size"])?);
    Ok(())
}

/// The same of families whose heads have a size of their own, and which may have fewer of keys and values.
pub fn sizes(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    plain_sizes(config, keys)?;
    keys.set_some("attention.head_count_kv", config.optional_count(&["num_key_value_heads"])?);
    set_head_dim(config, keys)
}

/// Writes the size of a head where it has one of its own.
pub fn set_head_dim(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    let head_dim = config.optional_count(&["head_dim"])?;
    keys.set_some("attention.key_length", head_dim);
    keys.set_some("attention.value_length", head_dim);
    Ok(())
}

/// The names of the number of layers.
pub const N_LAYER: &[&str] = &["num_hidden_layers", "n_layer"];
/// The names of the number of positions.
pub const N_CTX: &[&str] = &["max_position_embeddings", "n_positions", "n_ctx"];
/// The names of the width of the residual stream.
pub const HIDDEN_SIZE: &[&str] = &["hidden_size", "n_embd"];
/// The names of the number of heads.
pub const N_HEAD: &[&str] = &["num_attention_heads", "n_head"];

/// The number of positions that a layer sees, where it is a window.
pub const WINDOW: &str = "attention.sliding_window";

/// Writes the window of a model whose layers all have it.
pub fn set_window(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    keys.set_some(WINDOW, config.optional_count(&["sliding_window"])?);
    Ok(())
}

/// Which layers see a window, of a configuration that says so: one entry for each of the `n_layer` layers.
pub fn windowed_layers(config: &Config<'_>, n_layer: Option<usize>) -> Result<Option<Vec<bool>>> {
    layer_kinds(config, "layer_types", n_layer, &[("sliding_attention", true), ("full_attention", false)])
}

/// What each layer is that the list under `key` names, by the names in `kinds`; `n_layer` is how many there have to be, where that
/// is known. `None` without a list.
pub fn layer_kinds<T: Copy>(
    config: &Config<'_>,
    key: &str,
    n_layer: Option<usize>,
    kinds: &[(&str, T)],
) -> Result<Option<Vec<T>>> {
    let Some(types) = config.strs(key)? else { return Ok(None) };
    if let Some(n_layer) = n_layer.filter(|n_layer| types.len() != *n_layer) {
        let (place, n) = (config.place(key).unwrap_or_default(), types.len());
        return Err(Error::Format(format!("{place} has {n} entries for {n_layer} layers")));
    }
    let kind = |found: &&str| {
        let known = kinds.iter().find(|(name, _)| name == found).map(|(_, kind)| *kind);
        known.ok_or_else(|| {
            let names: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
            config.unsupported(key, &quoted(found.as_bytes()), &names.join(", "))
        })
    };
    types.iter().map(kind).collect::<Result<_>>().map(Some)
}

/// Writes which layers see a window. Where no list says so, it is all but the last of a period: the number under `pattern`, and
/// `period` without one.
pub fn set_windowed_layers(
    config: &Config<'_>,
    keys: &mut Keys,
    pattern: Option<&str>,
    period: u32,
) -> Result<()> {
    const NAME: &str = "attention.sliding_window_pattern";
    match (windowed_layers(config, keys.count("block_count"))?, pattern) {
        (Some(windowed), _) => keys.set(NAME, windowed),
        (None, Some(pattern)) if config.is_null(pattern) => {
            return Err(config.unsupported(pattern, "null", "a number beside no \"layer_types\""));
        }
        (None, Some(pattern)) => keys.set(NAME, config.optional_count(&[pattern])?.unwrap_or(period)),
        (None, None) => keys.set(NAME, period),
    }
    Ok(())
}

/// Writes the size of a head also where it has none of its own.
pub fn set_divided_head_dim(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    if !config.has("head_dim") {
        let head_dim = head_dim(config)?;
        keys.set("attention.key_length", head_dim);
        keys.set("attention.value_length", head_dim);
    }
    Ok(())
}

/// What activations by the hyperbolic tangent's approximation of GELU are called: the same function.
pub const TANH_GELU: &[&str] = &["gelu_pytorch_tanh", "gelu_new", "gelu_fast"];

/// The size of a head, from `head_dim` or by division.
pub fn head_dim(config: &Config<'_>) -> Result<u32> {
    match config.optional_count(&["head_dim"])? {
        Some(n) => Ok(n),
        None => Ok(config.count(HIDDEN_SIZE)? / config.count(N_HEAD)?),
    }
}

/// The number that RMS norms add under their root, under llama's name.
pub fn rms_norm_eps(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    keys.set_f32("attention.layer_norm_rms_epsilon", Some(config.require_f64(&["rms_norm_eps"])?));
    Ok(())
}

/// The keys of models whose feed-forward width and RMS norms are under llama's names.
pub fn rms_norm_sizes(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    sizes(config, keys)?;
    keys.set("feed_forward_length", config.count(&["intermediate_size"])?);
    keys.set_f32("attention.layer_norm_rms_epsilon", Some(config.require_f64(&["rms_norm_eps"])?));
    Ok(())
}
