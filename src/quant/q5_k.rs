//! Q5_K: 256 values of five bits in eight groups with a scale and a minimum of six bits each; value `i` of
//! group `g` is `d * scale[g] * q[i] - dmin * min[g]`. <https://github.com/ggml-org/llama.cpp/pull/1684>
#![forbid(unsafe_code)]

use std::mem::offset_of;

use super::bits::{pack1, pack4, unpack1, unpack4};
use super::blocks::{OffsetGroups, dot_row, pack_row, unpack_row};
use super::f16::{scale, scale_bytes};
use super::pack::{
    Blocks, RUN, Rows, Scale, Transpose, pack_blocks, put_fifth_bits_of_bytes, put_nibbles_of_runs,
};
use super::packed::{Codes, Packing, Scales, Values};
use super::q4_k::{pack_scales, unpack_scales};
use super::search::{Ranges, fit_with_minima};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 256;
/// Bytes per block.
pub const BYTES: usize = 176;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::Q5_K,
    tensor_type: 13,
    name: "Q5_K",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: Some(quantize),
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U5,
        values: Values::Minus(0),
        scales: Scales::Super,
        pack: pack_group,
    }),
};

/// One block as it lies in a row.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Packed {
    /// The unit of the scales, a binary16.
    d: [u8; 2],
    /// The unit of the minima, a binary16.
    dmin: [u8; 2],
    /// Scales and minima, as in Q4_K.
    scales: [u8; 12],
    /// The upper bit of the values: bit `g` of byte `i` is that of value `32g + i`.
    high: [u8; 32],
    /// Their lower four bits: nibble `j` (0 the lower) of byte `32h + i` is that of value `64h + 32j + i`.
    low: [u8; 128],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

const RANGES: Ranges = Ranges { scale: (0, 63), q: (0, 31) };

#[inline]
fn unpack(packed: &Packed) -> OffsetGroups<8, 32> {
    let (scales, mins) = unpack_scales(&packed.scales);
    let mut q = unpack4(&packed.low);
    for (run, high) in q.iter_mut().zip(unpack1(&packed.high)) {
        for (q, high) in run.iter_mut().zip(high) {
            *q |= high << 4;
        }
    }
    OffsetGroups { d: scale(packed.d), dmin: scale(packed.dmin), scales, mins, q }
}

fn pack(block: &OffsetGroups<8, 32>) -> Packed {
    Packed {
        d: scale_bytes(block.d),
        dmin: scale_bytes(block.dmin),
        scales: pack_scales(&block.scales, &block.mins),
        high: pack1(&block.q.map(|run| run.map(|q| q >> 4))),
        low: pack4(&block.q),
    }
}

/// Expands a row.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    unpack_row(src, dst, |packed, values| unpack(packed).dequantize(values));
}

/// Packs values as [`search`](mod@super::search) finds best.
pub fn quantize(src: &[f32], dst: &mut [u8]) {
    pack_row(src, dst, |values| pack(&fit_with_minima(values, &RANGES)));
}

/// `Σ d·x.d · Σ scale · Σ q·x.q` over the blocks, less `Σ dmin · min · x.sum`.
pub fn dot(row: &[u8], x: &[Q8Block]) -> f32 {
    dot_row(row, x, |packed, x| unpack(packed).dot(x))
}

/// See [`Packing::pack`].
fn pack_group(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    let kind = (Codes::U5, Scales::Super);
    let codes = |blocks: &Blocks<'_>, out: &mut [u8]| {
        put_nibbles_of_runs(blocks, offset_of!(Packed, low), Codes::U5.bytes(), out);
        let mut high = [0; 2 * RUN];
        blocks.words(offset_of!(Packed, high), &mut high);
        for (g, piece) in out.chunks_exact_mut(Codes::U5.bytes()).enumerate() {
            put_fifth_bits_of_bytes(&high, g, &mut piece[Codes::U4.bytes()..]);
        }
    };
    pack_blocks(rows, transpose, kind, out, codes, |packed: &Packed| {
        let (scales, mins) = unpack_scales(&packed.scales);
        std::array::from_fn::<_, 8, _>(|g| Scale { d: packed.d, m: packed.dmin, bytes: [scales[g], mins[g]] })
    });
}
