//! Binding a file's keys and tensors to a model's fields, with strict names, types and shapes.
#![forbid(unsafe_code)]

mod computed;
mod info;
mod stack;

use std::cell::{Ref, RefCell};
use std::collections::HashSet;
use std::ops::Range;

use super::{ModelInfo, dense, head};
use crate::backend::{Backend, WeightRole, WeightSource};
use crate::error::{Error, Result};
use crate::gguf::{Array, Gguf, Metadata, TensorInfo, Value};
use crate::memory::with_capacity;
use crate::nn::linear::Linear;
use crate::nn::norm::{NormKind, NormLayer};
use crate::quant::{FORMATS, Format};

/// Largest value taken for any dimension: far beyond real models, small enough that products stay in range.
const MAX_DIM: u32 = 1 << 24;

/// Hands tensors out by name and remembers which were used.
pub struct Binder<'a, B: Backend> {
    gguf: &'a Gguf,
    backend: &'a mut B,
    architecture: &'a str,
    used: HashSet<&'a str>,
    /// Keys that were asked for, also those that the file does not have.
    asked: RefCell<HashSet<String>>,
}

impl<'a, B: Backend> Binder<'a, B> {
    /// A binder over `gguf` for the architecture `architecture`.
    pub fn new(gguf: &'a Gguf, backend: &'a mut B, architecture: &'a str) -> Self {
        Binder { gguf, backend, architecture, used: HashSet::new(), asked: RefCell::default() }
    }

    fn meta(&self) -> &'a Metadata {
        self.gguf.metadata()
    }

    /// The full name of the key `ARCH.name`, which then counts as asked for.
    pub fn key(&self, name: &str) -> String {
        let key = format!("{}.{name}", self.architecture);
        self.asked.borrow_mut().insert(key.clone());
        key
    }

    /// The keys that were asked for.
    pub fn asked(&self) -> Ref<'_, HashSet<String>> {
        self.asked.borrow()
    }

    /// The key `ARCH.name` in a sentence.
    pub fn called(&self, name: &str) -> String {
        self.gguf.call_key(&format!("{}.{name}", self.architecture))
    }

    /// The integer key `ARCH.name`, between 1 and a sane cap; required. A list with a number for each layer counts as one number
    /// where all are equal.
    pub fn dim(&self, name: &str) -> Result<usize> {
        let value = self.optional_dim(name)?;
        value.ok_or_else(|| Error::Format(format!("the required key {} is missing", self.called(name))))
    }

    /// As [`Binder::dim`], `None` when absent.
    pub fn optional_dim(&self, name: &str) -> Result<Option<usize>> {
        let key = self.key(name);
        let value = match self.meta().get(&key) {
            Some(Value::Array(_)) => self.meta().u32s(&key)?.map(|list| same(&key, &list)).transpose()?,
            _ => self.meta().u32(&key)?,
        };
        value.map(|value| self.check_dim(&key, value)).transpose()
    }

    fn check_dim(&self, key: &str, value: u32) -> Result<usize> {
        match value {
            1..=MAX_DIM => Ok(value as usize),
            _ => {
                let key = self.gguf.call_key(key);
                Err(Error::Format(format!("the key {key} is {value}, expected 1 to {MAX_DIM}")))
            }
        }
    }

    /// The number `ARCH.name`; `None` when absent.
    pub fn optional_number(&self, name: &str) -> Result<Option<f32>> {
        self.meta().f32(&self.key(name))
    }

    /// As [`Binder::optional_number`], finite and above 0.
    pub fn optional_positive(&self, name: &str) -> Result<Option<f32>> {
        match self.optional_number(name)? {
            Some(x) if !(x.is_finite() && x > 0.0) => {
                let key = self.called(name);
                Err(Error::Format(format!("the key {key} is {x}, expected a finite number above 0")))
            }
            other => Ok(other),
        }
    }

    /// As [`Binder::optional_positive`]; required.
    pub fn positive(&self, name: &str) -> Result<f32> {
        self.optional_positive(name)?
            .ok_or_else(|| Error::Format(format!("the required key {} is missing", self.called(name))))
    }

    /// Refuses the file unless the dimension `name` is a multiple of the dimension `by`.
    pub fn divides(&self, name: &str, by: &str) -> Result<()> {
        let (n, divisor) = (self.dim(name)?, self.dim(by)?);
        match n.is_multiple_of(divisor) {
            true => Ok(()),
            false => Err(Error::Format(format!(
                "{} is {n}, no multiple of {divisor} ({})",
                self.called(name),
                self.called(by)
            ))),
        }
    }

    /// The number `ARCH.name`, 0 when absent.
    pub fn count(&self, name: &str) -> Result<u32> {
        Ok(self.meta().u32(&self.key(name))?.unwrap_or(0))
    }

    /// The numbers `ARCH.name` of `n_layer` layers, or a single one for all; required.
    pub fn counts(&self, name: &str, n_layer: usize) -> Result<Vec<u32>> {
        let key = self.key(name);
        let Some(Value::Array(_)) = self.meta().get(&key) else {
            return Ok(vec![self.dim(name)? as u32]);
        };
        match self.meta().u32s(&key)? {
            Some(list) if list.len() == n_layer => Ok(list.to_vec()),
            list => Err(Error::Format(format!(
                "{} has {} entries for {n_layer} layers",
                self.called(name),
                list.map_or(0, |list| list.len())
            ))),
        }
    }

    /// The f32 numbers `ARCH.name` of `n_layer` layers; `None` when absent.
    pub fn numbers(&self, name: &str, n_layer: usize) -> Result<Option<Vec<f32>>> {
        match self.meta().f32s(&self.key(name))? {
            None => Ok(None),
            Some(list) if list.len() == n_layer => Ok(Some(list.to_vec())),
            Some(list) => Err(Error::Format(format!(
                "{} has {} entries for {n_layer} layers",
                self.called(name),
                list.len()
            ))),
        }
    }

    /// The numbers of `n_layer` layers under the key `name`, which no architecture's name precedes: a list or a single one;
    /// required.
    pub fn plain_numbers(&self, name: &str, n_layer: usize) -> Result<Vec<f32>> {
        let list = match self.meta().get(name) {
            Some(Value::Array(_)) => self.meta().f32s(name)?.map(|list| list.to_vec()),
            _ => self.meta().f32(name)?.map(|x| vec![x; n_layer]),
        };
        match list {
            Some(list) if list.len() == n_layer && list.iter().all(|x| x.is_finite()) => Ok(list),
            Some(list) => Err(Error::Format(format!(
                "the key {name:?} has {} entries, expected a finite number for each of {n_layer} layers",
                list.len()
            ))),
            None => Err(Error::Format(format!("the required key {name:?} is missing"))),
        }
    }

    /// The boolean `ARCH.name`; `None` when absent.
    pub fn flag(&self, name: &str) -> Result<Option<bool>> {
        self.meta().bool(&self.key(name))
    }

    /// The list of booleans `ARCH.name`; `None` when it is absent or something else.
    pub fn bools(&self, name: &str) -> Option<&'a [bool]> {
        match self.meta().get(&self.key(name)) {
            Some(Value::Array(Array::Bool(list))) => Some(list),
            _ => None,
        }
    }

    /// Refuses the file when the key `ARCH.name` asks for `what`, which the architecture does not support.
    pub fn refuse(&self, name: &str, asked: bool, what: &str) -> Result<()> {
        match asked {
            true => Err(Error::Unsupported(format!("{what} ({}) are not supported", self.called(name)))),
            false => Ok(()),
        }
    }

    /// The string `ARCH.name`; `None` when absent.
    pub fn optional_str(&self, name: &str) -> Result<Option<&'a str>> {
        self.meta().str(&self.key(name))
    }

    fn find(&self, name: &str) -> Result<&'a TensorInfo> {
        let missing = || Error::Format(format!("the tensor {} is missing", self.gguf.call_tensor(name)));
        self.gguf.tensor(name).ok_or_else(missing)
    }

    /// Whether the file has the key `ARCH.name`.
    pub fn has_key(&self, name: &str) -> bool {
        self.meta().get(&self.key(name)).is_some()
    }

    /// The shape of a tensor, row length first; the tensor is required.
    pub fn dims(&self, name: &str) -> Result<&'a [usize]> {
        Ok(&self.find(name)?.dims)
    }

    /// Whether the file has a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.gguf.tensor(name).is_some()
    }

    /// Whether the file has a tensor of this name in some layer.
    pub fn has_any(&self, name: &str) -> bool {
        self.gguf.tensors().iter().any(|t| in_layer(&t.name).is_some_and(|(_, rest)| rest == name))
    }

    /// Binds elements `range` of the tensor (of its rows for a matrix, of its elements for a vector), after checking
    /// that the whole tensor has the shape `dims` (row length first, as in the file).
    pub fn bind(
        &mut self,
        name: &str,
        dims: &[usize],
        range: Range<usize>,
        role: WeightRole,
    ) -> Result<B::Weight> {
        let t = self.find(name)?;
        // A vector that is the same for each group may be stored as a single one.
        let several = role == WeightRole::Vector && dims.iter().all(|&dim| dim > 1);
        let joined = several && t.dims[..] == [dims.iter().product::<usize>()];
        if without_ones(&t.dims, dims.len()) != dims && !joined {
            let [found, expected] = [&t.dims[..], dims].map(|dims| self.gguf.call_shape(name, dims));
            return Err(Error::Format(format!(
                "the tensor {} has shape {found:?}, expected {expected:?}",
                self.gguf.call_tensor(name)
            )));
        }
        let format = Format::from_tensor_type(t.ty).ok_or_else(|| {
            let known: Vec<&str> = FORMATS.iter().map(|f| f.name).collect();
            Error::Unsupported(format!(
                "the tensor {} is of type {}, which is not supported; supported are: {}",
                self.gguf.call_tensor(name),
                t.ty.name(),
                known.join(", ")
            ))
        })?;
        self.used.insert(&t.name);
        let (n_rows, n_cols, first) = match dims {
            [n_cols, _, ..] => (range.len(), *n_cols, range.start * n_cols),
            _ => (1, range.len(), range.start),
        };
        let info = format.info();
        if !first.is_multiple_of(info.block_len) || !n_cols.is_multiple_of(info.block_len) {
            return Err(Error::Unsupported(format!(
                "elements {range:?} of the tensor {} do not begin and end with blocks of {} ({})",
                self.gguf.call_tensor(name),
                info.block_len,
                info.name
            )));
        }
        let offset = t.offset + first / info.block_len * info.block_bytes;
        self.backend.upload(&WeightSource {
            name,
            file: self.gguf.file_of(t),
            offset,
            format,
            n_rows,
            n_cols,
            role,
        })
    }

    /// The matrix `name` of `n_rows` rows (outputs) and `n_cols` columns (inputs).
    pub fn matrix(&mut self, name: &str, n_rows: usize, n_cols: usize) -> Result<B::Weight> {
        self.bind(name, &[n_cols, n_rows], 0..n_rows, WeightRole::Matrix)
    }

    /// As [`Binder::matrix`] for rows that are only looked up.
    pub fn table(&mut self, name: &str, n_rows: usize, n_cols: usize) -> Result<B::Weight> {
        self.bind(name, &[n_cols, n_rows], 0..n_rows, WeightRole::Table)
    }

    /// The token embedding, which is also the output projection when the model has a head but the file has no `output.weight`.
    pub fn token_embd(&mut self, info: &ModelInfo) -> Result<B::Weight> {
        let name = "token_embd.weight";
        match self.has("output.weight") || !info.has_logits {
            true => self.table(name, info.n_vocab, info.n_embd),
            false => self.matrix(name, info.n_vocab, info.n_embd),
        }
    }

    /// `n` matrices of `n_rows` rows and `n_cols` columns stored as one tensor: a matrix of `n * n_rows` rows. Early files have a
    /// tensor for each expert, `ffn_up.3.weight` and not `ffn_up_exps.weight`.
    pub fn matrices(&mut self, name: &str, n: usize, n_rows: usize, n_cols: usize) -> Result<B::Weight> {
        if let (false, Some(stem)) = (self.has(name), name.strip_suffix("_exps.weight"))
            && self.has(&format!("{stem}.0.weight"))
        {
            return stack::experts(self, stem, n, [n_cols, n_rows]);
        }
        self.bind(name, &[n_cols, n_rows, n], 0..n_rows.saturating_mul(n), WeightRole::Matrix)
    }

    /// The vector `name` of `n` elements, as a matrix of one row.
    pub fn row(&mut self, name: &str, n: usize) -> Result<B::Weight> {
        self.bind(name, &[n], 0..n, WeightRole::Matrix)
    }

    /// The vector `name` of `n` elements.
    pub fn vector(&mut self, name: &str, n: usize) -> Result<B::Weight> {
        self.bind(name, &[n], 0..n, WeightRole::Vector)
    }

    /// The first row of `token_types.weight`, which is added to all tokens of a single text; `None` in models without
    /// (DistilBERT). The table has as many rows as `tokenizer.ggml.token_type_count` says, if the file has that key.
    pub fn token_type(&mut self, n_embd: usize) -> Result<Option<B::Weight>> {
        let (name, key) = ("token_types.weight", "tokenizer.ggml.token_type_count");
        let n_types = self.meta().u32(key)?.map(|n| self.check_dim(key, n)).transpose()?;
        let Some(table) = self.gguf.tensor(name) else { return Ok(None) };
        let n_types = n_types.or(table.dims.get(1).copied()).unwrap_or(1);
        self.bind(name, &[n_embd, n_types], 0..1, WeightRole::Vector).map(Some)
    }

    /// The whole of that table, where it has a row for the second text of a pair.
    pub fn token_types(&mut self, n_embd: usize) -> Result<Option<B::Weight>> {
        let name = "token_types.weight";
        let n_types = self.gguf.tensor(name).and_then(|table| table.dims.get(1).copied()).unwrap_or(1);
        (n_types > 1).then(|| self.table(name, n_types, n_embd)).transpose()
    }

    /// Skips the tensors after the pooling, which are bound elsewhere: the head that scores texts, and dense modules.
    pub fn leave_head(&mut self) {
        let tensors = self.gguf.tensors().iter().map(|t| t.name.as_str());
        let is_left =
            |name: &&str| head::TENSORS.contains(name) || dense::TENSORS.as_flattened().contains(name);
        self.used.extend(tensors.filter(is_left));
    }

    /// The vector `name` of `n` elements as plain numbers; F32 only.
    pub fn f32s(&mut self, name: &str, n: usize) -> Result<Vec<f32>> {
        let t = self.find(name)?;
        if t.dims[..] != [n] || Format::from_tensor_type(t.ty) != Some(Format::F32) {
            let (found, ty) = (self.gguf.call_shape(name, &t.dims), t.ty.name());
            return Err(Error::Format(format!(
                "the tensor {} is {ty} of shape {found:?}, expected F32 of [{n}]",
                self.gguf.call_tensor(name)
            )));
        }
        self.used.insert(&t.name);
        let mut out = vec![0.0; n];
        (Format::F32.info().dequantize)(self.gguf.tensor_bytes(t), &mut out);
        Ok(out)
    }

    /// The numbers of the matrix `name` of `n_rows` rows and `n_cols` columns, row after row, in any format.
    pub fn f32_rows(&mut self, name: &str, n_rows: usize, n_cols: usize) -> Result<Vec<f32>> {
        let t = self.find(name)?;
        let format = Format::from_tensor_type(t.ty).map(Format::info);
        let format = format.filter(|format| n_cols.is_multiple_of(format.block_len));
        let (true, Some(format)) = (t.dims[..] == [n_cols, n_rows], format) else {
            let [found, expected] =
                [&t.dims[..], &[n_cols, n_rows]].map(|dims| self.gguf.call_shape(name, dims));
            return Err(Error::Format(format!(
                "the tensor {} is {} of shape {found:?}, expected numbers of shape {expected:?}",
                self.gguf.call_tensor(name),
                t.ty.name()
            )));
        };
        self.used.insert(&t.name);
        let mut out: Vec<f32> = with_capacity(n_rows * n_cols, "a table of numbers")?;
        out.resize(n_rows * n_cols, 0.0);
        (format.dequantize)(self.gguf.tensor_bytes(t), &mut out);
        Ok(out)
    }

    /// As [`Binder::f32s`], `None` when absent.
    pub fn optional_f32s(&mut self, name: &str, n: usize) -> Result<Option<Vec<f32>>> {
        self.has(name).then(|| self.f32s(name, n)).transpose()
    }

    /// The layer `name.weight` of `n_out` rows and `n_in` columns, with `name.scale` and `name.bias` where the file has them.
    /// `name.input_scale` is for programs that quantize activations to four bits.
    pub fn linear(&mut self, name: &str, n_out: usize, n_in: usize) -> Result<Linear<B>> {
        self.linear_part(name, 0..n_out, n_out, n_in)
    }

    /// Outputs `part` of the layer `name`, which has `n_out` outputs: one of several layers in one tensor.
    pub fn linear_part(
        &mut self,
        name: &str,
        part: Range<usize>,
        n_out: usize,
        n_in: usize,
    ) -> Result<Linear<B>> {
        let weight =
            self.bind(&format!("{name}.weight"), &[n_in, n_out], part.clone(), WeightRole::Matrix)?;
        let scale = self.optional_f32s(&format!("{name}.scale"), 1)?.map(|scale| (scale[0], part.len()));
        self.optional_f32s(&format!("{name}.input_scale"), 1)?;
        Ok(Linear { weight, scale, bias: self.bias(name, part, n_out)? })
    }

    /// Elements `part` of `name.bias`, which has `n_out`; `None` when the file does not have it.
    pub fn bias(&mut self, name: &str, part: Range<usize>, n_out: usize) -> Result<Option<B::Weight>> {
        let name = format!("{name}.bias");
        self.has(&name).then(|| self.bind(&name, &[n_out], part, WeightRole::Vector)).transpose()
    }

    /// The gain of an RMS norm over `n` elements, `name.weight`.
    pub fn rms_norm(&mut self, name: &str, n: usize, eps: f32) -> Result<NormLayer<B>> {
        let weight = self.vector(&format!("{name}.weight"), n)?;
        Ok(NormLayer { kind: NormKind::Rms, weight, bias: None, eps })
    }

    /// The gain and shift of a layer norm over `n` elements, `name.weight` and, where the file has it, `name.bias`.
    pub fn layer_norm(&mut self, name: &str, n: usize, eps: f32) -> Result<NormLayer<B>> {
        let weight = self.vector(&format!("{name}.weight"), n)?;
        let bias = format!("{name}.bias");
        let bias = self.has(&bias).then(|| self.vector(&bias, n)).transpose()?;
        Ok(NormLayer { kind: NormKind::Layer, weight, bias, eps })
    }

    /// Layer norms without a shift for each of `n_head` heads of length `head_dim`, `name.weight`.
    pub fn head_layer_norm(
        &mut self,
        name: &str,
        n_head: usize,
        head_dim: usize,
        eps: f32,
    ) -> Result<NormLayer<B>> {
        let name = format!("{name}.weight");
        let weight = self.bind(&name, &[head_dim, n_head], 0..n_head, WeightRole::Vector)?;
        Ok(NormLayer { kind: NormKind::Layer, weight, bias: None, eps })
    }

    /// Checks that every tensor of the file was used, since an unused one would be left out of the computation. Layers after the
    /// first `n_layer` that have a tensor for it predict further tokens, and do not count.
    pub fn finish(self, n_layer: usize) -> Result<()> {
        let n_blocks = self.dim("block_count")?;
        let blocks = self.gguf.tensors().iter().filter_map(|t| in_layer(&t.name));
        let next: HashSet<usize> =
            blocks.filter(|(_, part)| part.starts_with("nextn.")).map(|b| b.0).collect();
        let predicts = |t: &TensorInfo| {
            in_layer(&t.name).is_some_and(|(i, _)| (n_layer..n_blocks).contains(&i) && next.contains(&i))
        };
        match self.gguf.tensors().iter().find(|t| !self.used.contains(t.name.as_str()) && !predicts(t)) {
            Some(t) => Err(Error::Unsupported(format!(
                "the tensor {} is not part of the architecture \"{}\" as this version knows it",
                self.gguf.call_tensor(&t.name),
                self.architecture
            ))),
            None => Ok(()),
        }
    }
}

/// The layer that a tensor belongs to, and its name there.
fn in_layer(name: &str) -> Option<(usize, &str)> {
    let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    Some((layer.parse().ok()?, rest))
}

/// The number that all entries of a list for layers have.
fn same(key: &str, list: &[u32]) -> Result<u32> {
    match list {
        [first, rest @ ..] if rest.iter().all(|n| n == first) => Ok(*first),
        [] => Err(Error::Format(format!("the key \"{key}\" is an empty list"))),
        _ => Err(Error::Unsupported(format!(
            "the key \"{key}\" has different numbers for different layers, which is not supported"
        ))),
    }
}

/// A shape without dimensions of 1 beyond the first `n`: `[64, 1]` is a vector of 64 too. So is `[1, 64]`.
fn without_ones(dims: &[usize], n: usize) -> &[usize] {
    let extra = dims.iter().skip(n).rev().take_while(|&&d| d == 1).count();
    match &dims[..dims.len() - extra] {
        [1, rest @ ..] if n == 1 && rest.len() == 1 => rest,
        dims => dims,
    }
}
