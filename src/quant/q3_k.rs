//! Q3_K: 256 values of three bits in sixteen groups with a scale of six bits each; value `i` of group `g` is
//! `d * (scale[g] - 32) * (q[i] - 4)`. <https://github.com/ggml-org/llama.cpp/pull/1684>
#![forbid(unsafe_code)]

use std::mem::offset_of;

use super::bits::{Runs, pack1, pack2, unpack1, unpack2};
use super::blocks::{Groups, dot_row, pack_row, unpack_row};
use super::f16::{scale, scale_bytes};
use super::pack::{Blocks, RUN, Rows, Scale, Transpose, combine, cut, pack_blocks, put_nibbles};
use super::packed::{Codes, Packing, Scales, Values};
use super::search::{Ranges, fit};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 256;
/// Bytes per block.
pub const BYTES: usize = 110;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::Q3_K,
    tensor_type: 11,
    name: "Q3_K",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: Some(quantize),
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U4,
        values: Values::Minus(4),
        scales: Scales::Halves,
        pack: pack_group,
    }),
};

/// One block as it lies in a row.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Packed {
    /// The upper bit of the values: bit `g` of byte `i` is that of value `32g + i`.
    high: [u8; 32],
    /// Their lower two bits: bits `2j` of byte `32h + i` are those of value `128h + 32j + i`.
    low: [u8; 64],
    /// The lower four bits of the scales; byte `i` holds those of scale `i`, then `i + 8`.
    scales_low: [u8; 8],
    /// Their upper two bits; byte `i` holds those of scale `i`, then `i + 4`, `i + 8` and `i + 12`.
    scales_high: [u8; 4],
    /// The unit of the scales, a binary16.
    d: [u8; 2],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

const RANGES: Ranges = Ranges { scale: (-32, 31), q: (-4, 3) };

#[inline]
fn scales(packed: &Packed) -> [i8; 16] {
    std::array::from_fn(|g| {
        let low = packed.scales_low[g % 8] >> (g / 8 * 4) & 15;
        let high = packed.scales_high[g % 4] >> (g / 4 * 2) & 3;
        (low | high << 4).cast_signed() - 32
    })
}

#[inline]
fn unpack(packed: &Packed) -> Groups<16, 16> {
    let mut q = unpack2(&packed.low);
    for (run, high) in q.iter_mut().zip(unpack1(&packed.high)) {
        for (q, high) in run.iter_mut().zip(high) {
            *q += 4 * high - 4;
        }
    }
    Groups { d: scale(packed.d), scales: scales(packed), q: bytemuck::cast(q) }
}

fn pack(block: &Groups<16, 16>) -> Packed {
    let q = bytemuck::cast::<_, Runs>(block.q).map(|run| run.map(|q| q + 4));
    let scales = block.scales.map(|scale| (scale + 32).cast_unsigned());
    Packed {
        high: pack1(&q.map(|run| run.map(|q| q >> 2))),
        low: pack2(&q),
        scales_low: std::array::from_fn(|i| scales[i] & 15 | scales[i + 8] << 4),
        scales_high: std::array::from_fn(|i| (0..4).fold(0, |b, j| b | (scales[i + 4 * j] >> 4) << (2 * j))),
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
    let kind = (Codes::U4, Scales::Halves);
    let codes = |blocks: &Blocks<'_>, out: &mut [u8]| {
        let (mut low, mut high) = ([[0; 2 * RUN]; 2], [0; 2 * RUN]);
        blocks.words(offset_of!(Packed, low), low.as_flattened_mut());
        blocks.words(offset_of!(Packed, high), &mut high);
        for (g, piece) in out.chunks_exact_mut(Codes::U4.bytes()).enumerate() {
            let mut codes = [0; 2 * RUN];
            combine(&low[g / 4], &high, &mut codes, |low, high| {
                cut(low, g % 4 * 2, 3) | cut(high, g, 1) << 2
            });
            put_nibbles(&codes, 0, piece);
        }
    };
    pack_blocks(rows, transpose, kind, out, codes, |packed: &Packed| {
        let scales = scales(packed);
        std::array::from_fn::<_, 8, _>(|g| Scale {
            d: packed.d,
            bytes: [scales[2 * g], scales[2 * g + 1]].map(i8::cast_unsigned),
            ..Scale::ZERO
        })
    });
}
