//! Vectors of one head in the blocks of the KV store; [`KvBlock`] says where their elements lie.
#![forbid(unsafe_code)]

use std::ops::Range;

use bytemuck::cast_slice_mut;
use half::f16;

use super::Part;
use super::kv::KvLayer;
use crate::backend::KvType;
use crate::kernels::attention::{HALF, PAGE_LEN, SCALED};
use crate::kernels::{Kernels, KvBlock};

/// Clears what a block holds of some tokens.
pub(super) fn clear(layer: &KvLayer, part: Part, tokens: Range<usize>, block: &mut [u8]) {
    let dim = layer.dim(part);
    let (width, scale_width) = match layer.kv_type(part) {
        KvType::F32 => (4, 0),
        KvType::F16 => (2, 0),
        KvType::Q8_0 => (1, 2),
        KvType::I16 => (2, 4),
    };
    let (codes, scales) = block.split_at_mut(PAGE_LEN * dim * width);
    let part_of = |width: usize| tokens.start * width..tokens.end * width;
    let columns = |bytes: &mut [u8], width: usize| {
        bytes.chunks_exact_mut(PAGE_LEN * width).for_each(|column| column[part_of(width)].fill(0));
    };
    match (part, layer.kv_type(part)) {
        (Part::K, KvType::I16) => columns(codes, 2 * width),
        (Part::K, _) => columns(codes, width),
        (Part::V, KvType::I16) => {
            for slot in tokens.clone() {
                let pairs = codes[slot % HALF * 4 * dim..][..4 * dim].as_chunks_mut::<4>().0;
                pairs.iter_mut().for_each(|pair| pair[slot / HALF * 2..][..2].fill(0));
            }
        }
        (Part::V, _) => codes[part_of(dim * width)].fill(0),
    }
    if scale_width > 0 {
        columns(scales, scale_width);
    }
}

/// Most elements that are converted at a time; a multiple of [`SCALED`].
const CONVERTED: usize = 64;

/// Writes one head's vector to its block; [`KvBlock`](crate::kernels::KvBlock) says where elements lie.
pub fn put(kernels: &Kernels, layer: &KvLayer, part: Part, slot: u32, x: &[f32], block: &mut [u8]) {
    let slot = slot as usize % PAGE_LEN;
    match layer.kv_type(part) {
        KvType::F32 => spread(cast_slice_mut(block), part, slot, x, |x, out: &mut [f32]| {
            out.copy_from_slice(x);
        }),
        KvType::F16 => spread(cast_slice_mut(block), part, slot, x, kernels.narrow_f16),
        KvType::Q8_0 => {
            let (codes, scales) = block.split_at_mut(PAGE_LEN * x.len());
            let mut scales = cast_slice_mut::<_, f16>(scales).chunks_exact_mut(PAGE_LEN);
            spread(cast_slice_mut(codes), part, slot, x, |x, out| {
                for (x, out) in x.chunks(CONVERTED).zip(out.chunks_mut(CONVERTED)) {
                    let mut some = [f16::ZERO; CONVERTED / SCALED];
                    let some = &mut some[..x.len() / SCALED];
                    (kernels.narrow_q8_0)(x, out, some);
                    some.iter().zip(&mut scales).for_each(|(x, scales)| scales[slot] = *x);
                }
            });
        }
        KvType::I16 => {
            let (codes, units) = block.split_at_mut(PAGE_LEN * x.len() * 2);
            let unit = (kernels.unit_i16)(x);
            cast_slice_mut::<_, f32>(units)[slot] = unit;
            put_pairs(kernels, part, slot, (x, unit), cast_slice_mut(codes));
        }
    }
}

/// Rounds one head's vector to multiples of `unit` and puts these into place.
fn put_pairs(kernels: &Kernels, part: Part, slot: usize, (x, unit): (&[f32], f32), codes: &mut [i16]) {
    let (dim, mut buffer) = (x.len(), [0; CONVERTED]);
    for (i, x) in x.chunks(CONVERTED).enumerate() {
        let buffer = &mut buffer[..x.len()];
        (kernels.narrow_i16)(x, unit, buffer);
        match part {
            Part::K => {
                let columns = codes[i * CONVERTED * PAGE_LEN..].as_chunks_mut::<{ 2 * PAGE_LEN }>().0;
                for (column, pair) in columns.iter_mut().zip(buffer.as_chunks::<2>().0) {
                    column[2 * slot..2 * slot + 2].copy_from_slice(pair);
                }
            }
            Part::V => {
                // Each value lies beside the value of the token half a page before or after.
                let pairs = codes[(slot % HALF * dim + i * CONVERTED) * 2..].as_chunks_mut::<2>().0;
                pairs.iter_mut().zip(buffer).for_each(|(pair, code)| pair[slot / HALF] = *code);
            }
        }
    }
}

/// Reads one head's vector from its block. [`put`] writes the same bits when it gets these numbers again.
pub fn take(layer: &KvLayer, part: Part, slot: u32, block: &[u8], x: &mut [f32]) {
    let (slot, dim) = (slot as usize % PAGE_LEN, layer.dim(part));
    let at = |i: usize| match part {
        Part::K => i * PAGE_LEN + slot,
        Part::V => slot * dim + i,
    };
    let x = x.iter_mut().enumerate();
    match layer.kv_type(part).block(block, dim) {
        KvBlock::F32(values) => x.for_each(|(i, x)| *x = values[at(i)]),
        KvBlock::F16(values) => x.for_each(|(i, x)| *x = values[at(i)].to_f32()),
        KvBlock::Q8_0(codes, scales) => x.for_each(|(i, x)| {
            *x = f32::from(codes[at(i)]) * scales[i / SCALED * PAGE_LEN + slot].to_f32();
        }),
        KvBlock::I16(codes, units) => x.for_each(|(i, x)| {
            let at = match part {
                Part::K => (i / 2 * PAGE_LEN + slot) * 2 + i % 2,
                Part::V => (slot % HALF * dim + i) * 2 + slot / HALF,
            };
            *x = f32::from(codes[at]) * units[slot];
        }),
    }
}

/// Converts a vector in ascending chunks and writes them to their places.
fn spread<T: Copy + Default>(
    block: &mut [T],
    part: Part,
    slot: usize,
    x: &[f32],
    mut convert: impl FnMut(&[f32], &mut [T]),
) {
    match part {
        Part::V => convert(x, &mut block[slot * x.len()..(slot + 1) * x.len()]),
        Part::K => {
            let mut buffer = [T::default(); CONVERTED];
            for (columns, x) in block.chunks_mut(CONVERTED * PAGE_LEN).zip(x.chunks(CONVERTED)) {
                convert(x, &mut buffer[..x.len()]);
                for (column, &x) in columns.chunks_exact_mut(PAGE_LEN).zip(&buffer) {
                    column[slot] = x;
                }
            }
        }
    }
}
