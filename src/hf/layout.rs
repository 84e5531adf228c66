//! Where GGUF lays a tensor's elements out differently than `transformers` does.
#![forbid(unsafe_code)]

use half::{bf16, f16};

use super::weights::Stored;
use crate::error::{Error, Result, quoted, sizes};
use crate::gguf::{FileBytes, TensorType};
use crate::memory::Memory;

/// What becomes of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Same,
    /// The rows of each query head, first halves then second halves of the rotary pairs, become adjacent pairs.
    InterleaveQuery,
    /// As `InterleaveQuery`, for key heads.
    InterleaveKey,
    /// `[n_in, n_out]` becomes `[n_out, n_in]`.
    Transpose,
    /// 1 is added, in F32: the model multiplies by one plus the weight.
    PlusOne,
    /// It is raised to a power of e and made negative, in F32: the model has the logarithm.
    MinusExp,
    /// Rows of q, k and v by head (of some q, a k and a v by group) become all of q, all of k, all of v.
    SplitHeads,
    /// A single row becomes a vector.
    Flatten,
    /// `[n, 1, len]` becomes `[n, len]`.
    Squeeze,
    /// The first rows, [`Heads::skipped`] of them, are left out.
    SkipRows,
    /// Rows of all experts, one below the other, become `[n_expert, n_out, n_in]`; see [`Heads::n_expert`].
    ByExpert,
    /// As `ByExpert`, of matrices that are stored as `[n_in, n_out]`.
    ByExpertTransposed,
    /// Tensors with consecutive numbers become one, along a new first dimension.
    Stack,
    /// `[n, n_in, n_out]` becomes `[n, n_out, n_in]`.
    TransposeEach,
    /// As `TransposeEach`, unless the size with this number is [`Heads::n_embd`]: then it is `[n, n_out, n_in]` already.
    TransposeUnless(usize),
    /// As `TransposeEach`, and of the outputs all with even numbers come first; a bias `[n, n_out]` likewise.
    TransposeEvenFirst,
    /// The codes of MXFP4, `[n, n_out, n_in / 32, 16]` bytes, which become one tensor `[n, n_out, n_in]` with [`Change::Scales`].
    Codes,
    /// As `Codes`, and of the outputs all with even numbers come first.
    CodesEvenFirst,
    /// The scales of MXFP4, `[n, n_out, n_in / 32]` bytes.
    Scales,
    /// What makes keys and values of heads of a latent vector becomes two tensors: see [`keys_and_values`].
    KeysValues,
}

impl Change {
    /// Whether it is of bytes that become MXFP4.
    pub fn is_of_mxfp4(self) -> bool {
        matches!(self, Change::Codes | Change::CodesEvenFirst | Change::Scales)
    }
}

/// The head counts that some changes need.
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    /// Query heads.
    pub n_head: usize,
    /// Key/value heads.
    pub n_head_kv: usize,
    /// Rows of the table of positions that no text has.
    pub skipped: usize,
    /// Experts.
    pub n_expert: usize,
    /// The width of the residual stream.
    pub n_embd: usize,
}

/// A tensor under its GGUF name: where its elements are.
pub enum Laid<'a> {
    /// As they are stored.
    InPlace(&'a Stored),
    /// In memory of their own.
    Owned(FileBytes),
}

/// A tensor as GGUF has it.
pub struct Tensor<'a> {
    /// Element type.
    pub ty: TensorType,
    /// Shape as `transformers` has it: the longest stride first.
    pub shape: Vec<usize>,
    /// The elements.
    pub data: Laid<'a>,
}

/// Applies `change` (not `Stack`) to one tensor.
pub fn apply<'a>(change: Change, tensor: &'a Stored, heads: Heads, memory: &Memory) -> Result<Tensor<'a>> {
    let (shape, bytes, size) = (tensor.shape.clone(), tensor.bytes(), tensor.ty.block_bytes());
    let n_rows = shape.first().copied().unwrap_or(0);
    let in_rows = |groups: usize| {
        n_rows.checked_rem(groups).filter(|rest| *rest == 0 && n_rows > 0).ok_or_else(|| {
            Error::Format(format!(
                "the tensor {} has the shape {}, whose first size is no multiple of {groups}",
                quoted(tensor.name.as_bytes()),
                sizes(&shape)
            ))
        })
    };
    let by_rows = |source: &dyn Fn(usize) -> usize| permute_rows(bytes, n_rows, source, memory);
    // A matrix that is stored transposed has a bias that has nothing to transpose.
    let change = if change == Change::Transpose && shape.len() == 1 { Change::Same } else { change };
    let (shape, data) = match change {
        Change::Same
        | Change::Stack
        | Change::Codes
        | Change::CodesEvenFirst
        | Change::Scales
        | Change::KeysValues => match tensor.is_aligned() {
            true => return Ok(Tensor { ty: tensor.ty, shape, data: Laid::InPlace(tensor) }),
            false => (shape, FileBytes::filled(bytes.len(), memory, |to| to.copy_from_slice(bytes))?),
        },
        Change::InterleaveQuery | Change::InterleaveKey => {
            let n_head = if change == Change::InterleaveKey { heads.n_head_kv } else { heads.n_head };
            in_rows(n_head.saturating_mul(2))?;
            let head_dim = n_rows / n_head;
            // Row (head, pair, half) comes from (head, half, pair).
            let source = |row: usize| {
                let (head, within) = (row / head_dim, row % head_dim);
                head * head_dim + within % 2 * (head_dim / 2) + within / 2
            };
            (shape.clone(), by_rows(&source)?)
        }
        Change::SplitHeads => {
            let n_group = heads.n_head_kv;
            in_rows(n_group.saturating_mul(2).saturating_add(heads.n_head))?;
            let head_dim = n_rows / (heads.n_head + 2 * n_group);
            let n_shared = heads.n_head / n_group.max(1);
            if n_shared * n_group != heads.n_head {
                let expected = format!("{} query heads in {n_group} groups", heads.n_head);
                return Err(misshapen(tensor, &expected));
            }
            // Queries come group by group, then the keys of all groups, then their values.
            let source = |row: usize| {
                let (head, i) = (row / head_dim, row % head_dim);
                let (group, place) = match head.checked_sub(heads.n_head) {
                    None => (head / n_shared, head % n_shared),
                    Some(other) => (other % n_group, n_shared + other / n_group),
                };
                (group * (n_shared + 2) + place) * head_dim + i
            };
            (shape.clone(), by_rows(&source)?)
        }
        Change::Transpose => match shape[..] {
            [n_in, n_out] => (vec![n_out, n_in], transpose(bytes, (n_in, n_out), size, memory)?),
            _ => return Err(misshapen(tensor, "two dimensions")),
        },
        Change::TransposeUnless(i) => {
            let is_laid = shape.len() == 3 && shape[i] == heads.n_embd;
            let change = if is_laid { Change::Same } else { Change::TransposeEach };
            return apply(change, tensor, heads, memory);
        }
        Change::TransposeEach | Change::TransposeEvenFirst => match shape[..] {
            [_, n_out] if change == Change::TransposeEvenFirst => {
                let of = |row: usize| even_first(row % n_out, n_out) + row / n_out * n_out;
                (shape.clone(), permute_rows(bytes, (bytes.len() / size).max(1), &of, memory)?)
            }
            [_, _] => return apply(Change::Same, tensor, heads, memory),
            [n, n_in, n_out] => {
                let data = FileBytes::filled(bytes.len(), memory, |to| {
                    let len = n_in * n_out * size;
                    for (to, from) in to.chunks_exact_mut(len.max(1)).zip(bytes.chunks_exact(len.max(1))) {
                        transpose_into(to, from, (n_in, n_out), size, |column| match change {
                            Change::TransposeEvenFirst => place_of(column, n_out),
                            _ => column,
                        });
                    }
                })?;
                (vec![n, n_out, n_in], data)
            }
            _ => return Err(misshapen(tensor, "three dimensions")),
        },
        Change::SkipRows => match shape[..] {
            [n, n_cols] if n > heads.skipped => {
                let rest = &bytes[heads.skipped * n_cols * size..];
                let data = FileBytes::filled(rest.len(), memory, |to| to.copy_from_slice(rest))?;
                (vec![n - heads.skipped, n_cols], data)
            }
            _ => {
                return Err(misshapen(tensor, &format!("two dimensions, the first above {}", heads.skipped)));
            }
        },
        Change::ByExpert | Change::ByExpertTransposed => match shape[..] {
            [n_rows, n_cols] => {
                let n = in_rows(heads.n_expert).map(|_| n_rows / heads.n_expert)?;
                if change == Change::ByExpert {
                    let same = apply(Change::Same, tensor, heads, memory)?;
                    return Ok(Tensor { shape: vec![heads.n_expert, n, n_cols], ..same });
                }
                let len = (n * n_cols * size).max(1);
                let data = FileBytes::filled(bytes.len(), memory, |to| {
                    for (to, from) in to.chunks_exact_mut(len).zip(bytes.chunks_exact(len)) {
                        transpose_into(to, from, (n, n_cols), size, |column| column);
                    }
                })?;
                (vec![heads.n_expert, n_cols, n], data)
            }
            _ => return Err(misshapen(tensor, "two dimensions")),
        },
        Change::Flatten => match shape[..] {
            [1, n] => return Ok(Tensor { shape: vec![n], ..apply(Change::Same, tensor, heads, memory)? }),
            _ => return Err(misshapen(tensor, "a single row")),
        },
        Change::Squeeze => match shape[..] {
            [n, 1, len] => {
                return Ok(Tensor { shape: vec![n, len], ..apply(Change::Same, tensor, heads, memory)? });
            }
            // The bias.
            [_] => return apply(Change::Same, tensor, heads, memory),
            _ => return Err(misshapen(tensor, "three dimensions, the second of 1")),
        },
        Change::PlusOne | Change::MinusExp => {
            let of = if change == Change::PlusOne {
                |x: f32| x + 1.0
            } else {
                |x: f32| -libm::exp(x.into()) as f32
            };
            let data = each(tensor, |_, x| of(x), memory)?;
            return Ok(Tensor { ty: TensorType::F32, shape, data: Laid::Owned(data) });
        }
    };
    Ok(Tensor { ty: tensor.ty, shape, data: Laid::Owned(data) })
}

/// A matrix of `nope + value` rows for each of `n_head` heads as what makes keys, of each head the other way round, and what makes
/// values.
pub fn keys_and_values(
    tensor: &Stored,
    (n_head, nope, value): (usize, usize, usize),
    memory: &Memory,
) -> Result<[Tensor<'static>; 2]> {
    let rows = nope.checked_add(value).and_then(|rows| rows.checked_mul(n_head));
    let [n_rows, n_cols] = tensor.shape[..] else { return Err(misshapen(tensor, "two dimensions")) };
    if rows != Some(n_rows) {
        let expected = format!("{n_head} heads of {nope} and {value} rows");
        return Err(misshapen(tensor, &expected));
    }
    let size = tensor.ty.block_bytes();
    let head_bytes = (nope + value) * n_cols * size;
    let heads = || tensor.bytes().chunks_exact(head_bytes.max(1));
    let (k_bytes, v_bytes) = (nope * n_cols * size, value * n_cols * size);
    let keys = FileBytes::filled(n_head * k_bytes, memory, |to| {
        for (to, head) in to.chunks_exact_mut(k_bytes.max(1)).zip(heads()) {
            transpose_into(to, &head[..k_bytes], (nope, n_cols), size, |column| column);
        }
    })?;
    let values = FileBytes::filled(n_head * v_bytes, memory, |to| {
        for (to, head) in to.chunks_exact_mut(v_bytes.max(1)).zip(heads()) {
            to.copy_from_slice(&head[k_bytes..]);
        }
    })?;
    let owned = |shape: Vec<usize>, data| Tensor { ty: tensor.ty, shape, data: Laid::Owned(data) };
    Ok([owned(vec![n_head, n_cols, nope], keys), owned(vec![n_head, value, n_cols], values)])
}

/// The number of the element that comes to `place` when of `n` all with even numbers come first.
fn even_first(place: usize, n: usize) -> usize {
    let n_even = n.div_ceil(2);
    if place < n_even { 2 * place } else { 2 * (place - n_even) + 1 }
}

/// Where element `i` comes to then.
fn place_of(i: usize, n: usize) -> usize {
    i / 2 + if i % 2 == 1 { n.div_ceil(2) } else { 0 }
}

/// Bytes of codes that a scale belongs to.
const CODES: usize = 16;

/// Codes and scales as one tensor of MXFP4. Of a block's codes two neighbours share a byte here, and in GGUF two that are half a
/// block apart.
pub fn mxfp4(codes: &Stored, scales: &Stored, evens_first: bool, memory: &Memory) -> Result<Tensor<'static>> {
    let [n, n_out, n_blocks, CODES] = codes.shape[..] else {
        return Err(misshapen(codes, &format!("four dimensions, the last of {CODES}")));
    };
    if scales.shape[..] != [n, n_out, n_blocks] {
        return Err(misshapen(scales, &sizes(&codes.shape[..3])));
    }
    let (from, scales) = (codes.bytes(), scales.bytes());
    let data = FileBytes::filled(from.len() + scales.len(), memory, |to| {
        for (i, to) in to.chunks_exact_mut(CODES + 1).enumerate() {
            let (row, block) = (i / n_blocks, i % n_blocks);
            let out = if evens_first { even_first(row % n_out, n_out) } else { row % n_out };
            let at = (row / n_out * n_out + out) * n_blocks + block;
            let code = |i: usize| from[at * CODES + i / 2] >> (i % 2 * 4) & 15;
            to[0] = scales[at];
            for (j, to) in to[1..].iter_mut().enumerate() {
                *to = code(j) | code(j + CODES) << 4;
            }
        }
    })?;
    let n_in = n_blocks * 2 * CODES;
    Ok(Tensor { ty: TensorType::MXFP4, shape: vec![n, n_out, n_in], data: Laid::Owned(data) })
}

/// Joins tensors of one type and shape along a new first dimension.
pub fn stack(parts: &[&Stored], memory: &Memory) -> Result<Tensor<'static>> {
    let first = parts.first().ok_or_else(|| Error::Internal("nothing to stack".into()))?;
    if let Some(other) = parts.iter().find(|p| p.shape != first.shape || p.ty != first.ty) {
        return Err(Error::Format(format!(
            "the tensor {} is {} of the shape {}, but {}, which belongs to it, is {} of the shape {}",
            quoted(other.name.as_bytes()),
            other.ty,
            sizes(&other.shape),
            quoted(first.name.as_bytes()),
            first.ty,
            sizes(&first.shape)
        )));
    }
    let mut shape = vec![parts.len()];
    shape.extend(&first.shape);
    // No overflow: the parts lie in memory next to each other's files.
    let n_bytes = first.bytes().len();
    let data = FileBytes::filled(parts.len() * n_bytes, memory, |to| {
        for (to, part) in to.chunks_exact_mut(n_bytes.max(1)).zip(parts) {
            to.copy_from_slice(part.bytes());
        }
    })?;
    Ok(Tensor { ty: first.ty, shape, data: Laid::Owned(data) })
}

fn misshapen(tensor: &Stored, expected: &str) -> Error {
    Error::Format(format!(
        "the tensor {} has the shape {}, expected {expected}",
        quoted(tensor.name.as_bytes()),
        sizes(&tensor.shape)
    ))
}

/// Row `i` of the result is row `source(i)` of the `n_rows` rows of `bytes`.
fn permute_rows(
    bytes: &[u8],
    n_rows: usize,
    source: &dyn Fn(usize) -> usize,
    memory: &Memory,
) -> Result<FileBytes> {
    let row_bytes = bytes.len() / n_rows;
    FileBytes::filled(bytes.len(), memory, |to| {
        for (i, row) in to.chunks_exact_mut(row_bytes.max(1)).enumerate() {
            row.copy_from_slice(&bytes[source(i) * row_bytes..][..row_bytes]);
        }
    })
}

/// Rows and columns that are moved at a time, so that both sides stay in the cache.
const TILE: usize = 32;

/// `[n_rows, n_cols]` elements of `size` bytes to `[n_cols, n_rows]`.
fn transpose(
    bytes: &[u8],
    (n_rows, n_cols): (usize, usize),
    size: usize,
    memory: &Memory,
) -> Result<FileBytes> {
    FileBytes::filled(bytes.len(), memory, |to| transpose_into(to, bytes, (n_rows, n_cols), size, |col| col))
}

/// As [`transpose`]; column `col` becomes row `place(col)`.
fn transpose_into(
    to: &mut [u8],
    bytes: &[u8],
    (n_rows, n_cols): (usize, usize),
    size: usize,
    place: impl Fn(usize) -> usize,
) {
    for row0 in (0..n_rows).step_by(TILE) {
        for col0 in (0..n_cols).step_by(TILE) {
            for row in row0..n_rows.min(row0 + TILE) {
                for col in col0..n_cols.min(col0 + TILE) {
                    let from = &bytes[(row * n_cols + col) * size..][..size];
                    to[(place(col) * n_rows + row) * size..][..size].copy_from_slice(from);
                }
            }
        }
    }
}

/// A tensor whose rows are multiplied with factors: `parts` are how many rows have which, one part below the other.
pub fn scaled(tensor: &Stored, parts: &[(usize, f32)], memory: &Memory) -> Result<Tensor<'static>> {
    let n_rows = tensor.shape.first().copied().unwrap_or(0);
    let mut factors = Vec::new();
    for &(n, factor) in parts {
        let n = n.min(n_rows - factors.len());
        factors.extend(std::iter::repeat_n(factor, n));
    }
    if factors.len() != n_rows || n_rows == 0 {
        let expected =
            format!("{} rows", parts.iter().map(|(n, _)| n).fold(0usize, |a, n| a.saturating_add(*n)));
        return Err(misshapen(tensor, &expected));
    }
    let n_cols = (tensor.bytes().len() / tensor.ty.block_bytes() / n_rows).max(1);
    let data = each(tensor, |i, x| x * factors[i / n_cols], memory)?;
    Ok(Tensor { ty: TensorType::F32, shape: tensor.shape.clone(), data: Laid::Owned(data) })
}

/// The single element of a tensor.
pub fn number(tensor: &Stored) -> Result<f32> {
    match tensor.shape.iter().product::<usize>() {
        1 => Ok(value(tensor.ty, tensor.bytes())),
        _ => Err(misshapen(tensor, "a single element")),
    }
}

/// The number that the bytes of one element are.
fn value(ty: TensorType, bytes: &[u8]) -> f32 {
    match (ty, bytes) {
        (TensorType::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
        (TensorType::BF16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f32(),
        (_, &[a, b]) => f16::from_le_bytes([a, b]).to_f32(),
        _ => f32::NAN,
    }
}

/// `of` the number of each element and of the element, as F32.
fn each(tensor: &Stored, of: impl Fn(usize, f32) -> f32, memory: &Memory) -> Result<FileBytes> {
    let bytes = tensor.bytes();
    let size = tensor.ty.block_bytes();
    FileBytes::filled(bytes.len() / size * 4, memory, |to| {
        for (i, (to, from)) in to.chunks_exact_mut(4).zip(bytes.chunks_exact(size)).enumerate() {
            to.copy_from_slice(&of(i, value(tensor.ty, from)).to_le_bytes());
        }
    })
}
