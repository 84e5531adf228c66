//! Values that are parts of their keys ([`HeadDims::v_at`](crate::kernels::HeadDims::v_at)): copied into the layout of values.
#![forbid(unsafe_code)]

use half::f16;

use super::{Element, Simd};
use crate::kernels::attention::{HALF, PAGE_LEN, SCALED};
use crate::kernels::{HeadDims, KvBlock};

/// Components that are copied at a time.
const COLUMNS: usize = 4;

/// The values in `keys`, copied to `block`, as numbers or as integers with the keys' units.
#[inline(always)]
pub fn values_of<'a, S: Simd>(
    simd: S,
    dims: HeadDims,
    keys: KvBlock<'a>,
    block: &'a mut [f32],
) -> KvBlock<'a> {
    let at = dims.v_at.unwrap_or(0);
    match keys {
        KvBlock::F32(k) => KvBlock::F32(numbers::<S, f32>(simd, (at, dims.v), (k, &[]), block)),
        KvBlock::F16(k) => KvBlock::F32(numbers::<S, f16>(simd, (at, dims.v), (k, &[]), block)),
        KvBlock::Q8_0(k, scales) => KvBlock::F32(numbers::<S, i8>(simd, (at, dims.v), (k, scales), block)),
        KvBlock::I16(k, units) => KvBlock::I16(pairs((at, dims.v), k, block), units),
    }
}

/// Components `at..at + dim` of all tokens, `[token][dim]`.
#[inline(always)]
fn numbers<'a, S: Simd, E: Element>(
    simd: S,
    (at, dim): (usize, usize),
    (keys, scales): (&[E], &[f16]),
    block: &'a mut [f32],
) -> &'a [f32] {
    let block = &mut block[..PAGE_LEN * dim];
    let columns = &keys.as_chunks::<PAGE_LEN>().0[at..at + dim];
    for (first, columns) in columns.chunks(COLUMNS).enumerate().map(|(i, columns)| (i * COLUMNS, columns)) {
        let mut wide = [[0.0; PAGE_LEN]; COLUMNS];
        for (i, (wide, column)) in wide.iter_mut().zip(columns).enumerate() {
            for token in (0..PAGE_LEN).step_by(S::LANES) {
                let mut x = E::load(simd, &column[token..]);
                if !scales.is_empty() {
                    let scales = &scales[(at + first + i) / SCALED * PAGE_LEN + token..];
                    x = simd.mul(x, simd.load_f16(scales));
                }
                simd.store(x, &mut wide[token..]);
            }
        }
        match columns.len() {
            COLUMNS => {
                for (token, row) in block.chunks_exact_mut(dim).enumerate() {
                    row[first..first + COLUMNS].copy_from_slice(&wide.map(|column| column[token]));
                }
            }
            n => {
                for (token, row) in block.chunks_exact_mut(dim).enumerate() {
                    row[first..first + n].iter_mut().zip(&wide).for_each(|(to, from)| *to = from[token]);
                }
            }
        }
    }
    block
}

/// Components `at..at + dim` of all tokens, two tokens that are half a page apart side by side: `[HALF][dim][2]`.
#[inline(always)]
fn pairs<'a>((at, dim): (usize, usize), keys: &[i16], block: &'a mut [f32]) -> &'a [i16] {
    let codes: &mut [[i16; 2]] = bytemuck::cast_slice_mut(&mut block[..HALF * dim]);
    // Pairs of components of all tokens.
    let columns = &keys.as_chunks::<2>().0.as_chunks::<PAGE_LEN>().0[at / 2..(at + dim) / 2];
    for (i, columns) in columns.as_chunks::<{ COLUMNS / 2 }>().0.iter().enumerate() {
        for (token, row) in codes.chunks_exact_mut(dim).enumerate() {
            let row = &mut row[i * COLUMNS..(i + 1) * COLUMNS];
            for (column, to) in columns.iter().zip(row.as_chunks_mut::<2>().0) {
                let (early, late) = (column[token], column[token + HALF]);
                *to = [[early[0], late[0]], [early[1], late[1]]];
            }
        }
    }
    bytemuck::cast_slice(codes)
}
