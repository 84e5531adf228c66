//! The head that scores texts: classifiers and rerankers have it instead of an output projection.
#![forbid(unsafe_code)]

use super::ModelInfo;
use crate::error::{Error, Result};
use crate::gguf::{Gguf, ScoreActivation, TensorInfo};
use crate::memory::with_capacity;
use crate::quant::Format;

const DENSE: &str = "cls.weight";
const DENSE_BIAS: &str = "cls.bias";
const OUT: &str = "cls.output.weight";
const OUT_BIAS: &str = "cls.output.bias";
/// Its tensors.
pub(super) const TENSORS: [&str; 4] = [DENSE, DENSE_BIAS, OUT, OUT_BIAS];

impl ScoreActivation {
    /// Applies it to the outputs for one text.
    pub fn apply(self, scores: &mut [f32]) {
        match self {
            ScoreActivation::None => {}
            ScoreActivation::Sigmoid => {
                scores.iter_mut().for_each(|x| *x = (1.0 / (1.0 + libm::exp(-f64::from(*x)))) as f32);
            }
            ScoreActivation::Softmax => {
                let max = scores.iter().fold(f32::NEG_INFINITY, |max, &x| max.max(x));
                let exp = |x: f32| libm::exp(f64::from(x) - f64::from(max));
                let total: f64 = scores.iter().map(|&x| exp(x)).sum();
                scores.iter_mut().for_each(|x| *x = (exp(*x) / total) as f32);
            }
        }
    }
}

/// The prompt of Qwen3-Reranker, for files that have none.
const QWEN3: &str = "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct \
    provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search \
    query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n\
    <|im_start|>assistant\n<think>\n\n</think>\n\n";

impl ModelInfo {
    /// The prompt to which rerankers of this architecture answer "yes" or "no", which the logits of these tokens score; `None`
    /// for others.
    pub fn reranker_prompt(&self) -> Option<&'static str> {
        (self.architecture == "qwen3").then_some(QWEN3)
    }
}

/// One layer: rows of weights, and a bias for each.
pub(super) struct Layer {
    pub(super) weight: Vec<f32>,
    pub(super) bias: Option<Vec<f32>>,
}

/// `a · b`. Eight sums, so that a machine adds several in parallel.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    let ((a, rest_a), (b, rest_b)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0f64; 8];
    for (a, b) in a.iter().zip(b) {
        for i in 0..8 {
            sums[i] += f64::from(a[i]) * f64::from(b[i]);
        }
    }
    let rest: f64 = rest_a.iter().zip(rest_b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
    sums.iter().sum::<f64>() + rest
}

impl Layer {
    pub(super) fn forward(&self, x: &[f32], out: &mut [f32]) {
        for (i, (row, out)) in self.weight.chunks_exact(x.len()).zip(out).enumerate() {
            let sum = dot(row, x);
            *out = (sum + self.bias.as_ref().map_or(0.0, |bias| f64::from(bias[i]))) as f32;
        }
    }
}

/// A head bound to its weights, which are few and stay in f32.
pub struct TextHead {
    /// `[n_embd, n_embd]`, followed by a hyperbolic tangent.
    dense: Option<Layer>,
    /// `[labels, n_embd]`.
    out: Layer,
    labels: Vec<String>,
    activation: ScoreActivation,
}

impl TextHead {
    /// The head of the model in `gguf`, if it has one.
    ///
    /// # Errors
    /// `Format` for tensors of other shapes, and for a file that says that it scores texts and has no head; `Unsupported` for heads
    /// of other kinds; `NoMemory`.
    pub fn bind(gguf: &Gguf, info: &ModelInfo) -> Result<Option<TextHead>> {
        let n_embd = info.n_embd;
        let (dense, out) = (gguf.tensor(DENSE), gguf.tensor(OUT));
        let Some(out) = out else {
            return match dense {
                None if !info.ranks => Ok(None),
                None => Err(Error::Format(format!(
                    "the key {} is 4 (rank), but the tensor {} is missing",
                    gguf.call_key(&format!("{}.pooling_type", info.architecture)),
                    gguf.call_tensor(OUT)
                ))),
                Some(_) => Err(Error::Unsupported(format!(
                    "the tensor {} without {} is a head of another kind, which is not supported",
                    gguf.call_tensor(DENSE),
                    gguf.call_tensor(OUT)
                ))),
            };
        };
        let key = format!("{}.classifier.pooling_type", info.architecture);
        if let Some(pooling) = gguf.metadata().u32(&key)?.filter(|&pooling| pooling != 2) {
            return Err(Error::Unsupported(format!(
                "the key {} is {pooling}, which is not supported; supported is: 2 (cls)",
                gguf.call_key(&key)
            )));
        }
        let n_labels = out.dims.get(1).copied().unwrap_or(1);
        let labels = labels(gguf, info, n_labels)?;
        let dense = match dense {
            None => None,
            Some(dense) => Some(Layer {
                weight: numbers(gguf, dense, &[n_embd, n_embd])?,
                bias: optional(gguf, DENSE_BIAS, &[n_embd])?,
            }),
        };
        let out = Layer {
            weight: numbers(gguf, out, &[n_embd, n_labels])?,
            bias: optional(gguf, OUT_BIAS, &[n_labels])?,
        };
        let usual = if n_labels == 1 { ScoreActivation::Sigmoid } else { ScoreActivation::Softmax };
        let activation = gguf.further().score_activation.unwrap_or(usual);
        Ok(Some(TextHead { dense, out, labels, activation }))
    }

    /// A head that gives the logits of some tokens, by their names.
    ///
    /// # Errors
    /// As [`TextHead::bind`].
    pub fn of_tokens(gguf: &Gguf, info: &ModelInfo, tokens: &[(u32, &str)]) -> Result<TextHead> {
        let table = gguf.tensor("output.weight").or_else(|| gguf.tensor("token_embd.weight"));
        let table =
            table.ok_or_else(|| Error::Format("the tensor \"token_embd.weight\" is missing".into()))?;
        let mut weight = with_capacity(tokens.len() * info.n_embd, "the head")?;
        for &(token, _) in tokens {
            weight.extend(rows(gguf, table, &[info.n_embd, info.n_vocab], token as usize, 1)?);
        }
        let labels = tokens.iter().map(|(_, name)| (*name).to_owned()).collect();
        let out = Layer { weight, bias: None };
        Ok(TextHead { dense: None, out, labels, activation: ScoreActivation::Softmax })
    }

    /// The names of the outputs; as many as there are.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The default activation of the outputs.
    pub fn activation(&self) -> ScoreActivation {
        self.activation
    }

    /// The outputs for a text's hidden state, without the activation.
    pub fn forward(&self, hidden: &[f32], out: &mut [f32]) -> Result<()> {
        let Some(dense) = &self.dense else {
            self.out.forward(hidden, out);
            return Ok(());
        };
        let mut inner: Vec<f32> = with_capacity(hidden.len(), "the head")?;
        inner.resize(hidden.len(), 0.0);
        dense.forward(hidden, &mut inner);
        inner.iter_mut().for_each(|x| *x = libm::tanh(f64::from(*x)) as f32);
        self.out.forward(&inner, out);
        Ok(())
    }
}

/// The labels that the file names, or those of `transformers` for outputs without names.
fn labels(gguf: &Gguf, info: &ModelInfo, n_labels: usize) -> Result<Vec<String>> {
    /// Real models have some hundred.
    const MOST: usize = 1 << 16;
    if n_labels > MOST {
        return Err(Error::Unsupported(format!("{n_labels} labels are more than {MOST}")));
    }
    let key = format!("{}.classifier.output_labels", info.architecture);
    let Some(names) = gguf.metadata().strings(&key)? else {
        return Ok((0..n_labels).map(|i| format!("LABEL_{i}")).collect());
    };
    if names.len() != n_labels {
        return Err(Error::Format(format!(
            "the key {} names {} labels, but the tensor {} has {n_labels} rows",
            gguf.call_key(&key),
            names.len(),
            gguf.call_tensor(OUT)
        )));
    }
    Ok(names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// All numbers of a tensor that must have this shape; a last dimension of 1 may be absent.
pub(super) fn numbers(gguf: &Gguf, tensor: &TensorInfo, dims: &[usize]) -> Result<Vec<f32>> {
    rows(gguf, tensor, dims, 0, dims.get(1).copied().unwrap_or(1))
}

/// Some rows of a tensor.
fn rows(gguf: &Gguf, tensor: &TensorInfo, dims: &[usize], first: usize, n: usize) -> Result<Vec<f32>> {
    let without = |dims: &[usize]| dims.iter().rposition(|&dim| dim != 1).map_or(0, |last| last + 1);
    if tensor.dims[..without(&tensor.dims)] != dims[..without(dims)] {
        let [found, expected] = [&tensor.dims[..], dims].map(|dims| gguf.call_shape(&tensor.name, dims));
        return Err(Error::Format(format!(
            "the tensor {} has shape {found:?}, expected {expected:?}",
            gguf.call_tensor(&tensor.name)
        )));
    }
    let format = Format::from_tensor_type(tensor.ty)
        .map(Format::info)
        .filter(|info| dims[0].is_multiple_of(info.block_len));
    let info = format.ok_or_else(|| {
        let (name, ty) = (gguf.call_tensor(&tensor.name), tensor.ty.name());
        Error::Unsupported(format!("the tensor {name} is of type {ty}, which is not supported for a head"))
    })?;
    let row_bytes = dims[0] / info.block_len * info.block_bytes;
    let bytes = gguf.tensor_bytes(tensor).get(first * row_bytes..(first + n) * row_bytes);
    let bytes = bytes.ok_or_else(|| Error::InvalidArgument(format!("there is no row {first}")))?;
    let mut out: Vec<f32> = with_capacity(n * dims[0], "the head that scores texts")?;
    out.resize(n * dims[0], 0.0);
    (info.dequantize)(bytes, &mut out);
    Ok(out)
}

pub(super) fn optional(gguf: &Gguf, name: &str, dims: &[usize]) -> Result<Option<Vec<f32>>> {
    gguf.tensor(name).map(|tensor| numbers(gguf, tensor, dims)).transpose()
}
