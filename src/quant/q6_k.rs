//! Q6_K: 256 values of six bits in sixteen groups with a scale of eight bits each; value `i` of group `g` is
//! `d * scale[g] * (q[i] - 32)`. <https://github.com/ggml-org/llama.cpp/pull/1684>
#![forbid(unsafe_code)]

use std::mem::offset_of;

use super::bits::{Runs, pack2, pack4, unpack2, unpack4};
use super::blocks::{Groups, dot_row, pack_row, unpack_row};
use super::f16::{scale, scale_bytes};
use super::pack::{Blocks, RUN, Rows, Scale, Transpose, pack_blocks, put_nibbles, put_planes};
use super::packed::{Codes, Packing, Scales, Values};
use super::search::{Ranges, fit};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 256;
/// Bytes per block.
pub const BYTES: usize = 210;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::Q6_K,
    tensor_type: 14,
    name: "Q6_K",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: Some(quantize),
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U6,
        values: Values::Minus(32),
        scales: Scales::Halves,
        pack: pack_group,
    }),
};

/// One block as it lies in a row.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Packed {
    /// The lower four bits of the values: nibble `j` (0 the lower) of byte `64h + i` is that of value `128h +
    /// 64j + i`.
    low: [u8; 128],
    /// Their upper two bits: bits `2j` of byte `32h + i` are those of value `128h + 32j + i`.
    high: [u8; 64],
    /// The scales.
    scales: [i8; 16],
    /// The unit of the scales, a binary16.
    d: [u8; 2],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

const RANGES: Ranges = Ranges { scale: (-128, 127), q: (-32, 31) };

/// The order of runs of 32 whose nibbles lie as in [`unpack4`] when they are stored: nibbles of 64 bytes belong
/// together, so that the second and third of each four runs change places.
#[inline]
fn swapped([a, b, c, d, e, f, g, h]: Runs) -> Runs {
    [a, c, b, d, e, g, f, h]
}

#[inline]
fn unpack(packed: &Packed) -> Groups<16, 16> {
    let mut q = swapped(unpack4(&packed.low));
    for (run, high) in q.iter_mut().zip(unpack2(&packed.high)) {
        for (q, high) in run.iter_mut().zip(high) {
            *q = (*q | high << 4) - 32;
        }
    }
    Groups { d: scale(packed.d), scales: packed.scales, q: bytemuck::cast(q) }
}

fn pack(block: &Groups<16, 16>) -> Packed {
    let q = bytemuck::cast::<_, Runs>(block.q).map(|run| run.map(|q| q + 32));
    Packed {
        low: pack4(&swapped(q)),
        high: pack2(&q.map(|run| run.map(|q| q >> 4))),
        scales: block.scales,
        d: scale_bytes(block.d),
    }
}

/// Expands a row.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    unpack_row(src, dst, |packed, values| unpack(packed).dequantize(values));
}

/// Packs values as [`search`](mod@super::search) finds best.
pub fn quantize(src: &[f32], dst: &mut [u8]) {
    pack_row(src, dst, |values| pack(&fit(values, &RANGES)));
}

/// `Σ d·x.d · Σ scale · Σ q·x.q` over the blocks.
pub fn dot(row: &[u8], x: &[Q8Block]) -> f32 {
    dot_row(row, x, |packed, x| unpack(packed).dot(x))
}

/// See [`Packing::pack`].
fn pack_group(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    let kind = (Codes::U6, Scales::Halves);
    let codes = |blocks: &Blocks<'_>, out: &mut [u8]| {
        let mut runs = [[0; 2 * RUN]; 3];
        for (h, pieces) in out.chunks_exact_mut(4 * Codes::U6.bytes()).enumerate() {
            blocks.words(offset_of!(Packed, low) + 64 * h, runs[..2].as_flattened_mut());
            blocks.words(offset_of!(Packed, high) + 32 * h, &mut runs[2]);
            for (g, piece) in pieces.chunks_exact_mut(Codes::U6.bytes()).enumerate() {
                let (low, high) = piece.split_at_mut(Codes::U4.bytes());
                // The run's nibbles; see `swapped`.
                put_nibbles(&runs[g % 2], g / 2 * 4, low);
                put_planes(&runs[2], 2 * g, high);
            }
        }
    };
    pack_blocks(rows, transpose, kind, out, codes, |packed: &Packed| {
        let scales = packed.scales;
        std::array::from_fn::<_, 8, _>(|g| Scale {
            d: packed.d,
            bytes: [scales[2 * g], scales[2 * g + 1]].map(i8::cast_unsigned),
            ..Scale::ZERO
        })
    });
}
