//! Q2_K: 256 values of two bits in sixteen groups with a scale and a minimum of four bits each; value `i` of
//! group `g` is `d * scale[g] * q[i] - dmin * min[g]`. <https://github.com/ggml-org/llama.cpp/pull/1684>
#![forbid(unsafe_code)]

use std::mem::offset_of;

use super::bits::{pack2, unpack2};
use super::blocks::{OffsetGroups, dot_row, pack_row, unpack_row};
use super::f16::{scale, scale_bytes};
use super::pack::{Blocks, RUN, Rows, Scale, Transpose, pack_blocks, put_planes};
use super::packed::{Codes, Packing, Scales, Values};
use super::search::{Ranges, fit_with_minima};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 256;
/// Bytes per block.
pub const BYTES: usize = 84;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::Q2_K,
    tensor_type: 10,
    name: "Q2_K",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: Some(quantize),
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U2,
        values: Values::Minus(0),
        scales: Scales::HalvesMin,
        pack: pack_group,
    }),
};

/// One block as it lies in a row.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Packed {
    /// The scale (low nibble) and the minimum (high nibble) of each group.
    groups: [u8; 16],
    /// Bits `2j` of byte `32h + i` are value `128h + 32j + i`.
    q: [u8; 64],
    /// The unit of the scales, a binary16.
    d: [u8; 2],
    /// The unit of the minima, a binary16.
    dmin: [u8; 2],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

const RANGES: Ranges = Ranges { scale: (0, 15), q: (0, 3) };

#[inline]
fn unpack(packed: &Packed) -> OffsetGroups<16, 16> {
    OffsetGroups {
        d: scale(packed.d),
        dmin: scale(packed.dmin),
        scales: packed.groups.map(|group| group & 15),
        mins: packed.groups.map(|group| group >> 4),
        q: bytemuck::cast(unpack2(&packed.q)),
    }
}

fn pack(block: &OffsetGroups<16, 16>) -> Packed {
    Packed {
        groups: std::array::from_fn(|g| block.scales[g] | block.mins[g] << 4),
        q: pack2(&bytemuck::cast(block.q)),
        d: scale_bytes(block.d),
        dmin: scale_bytes(block.dmin),
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

/// `Σ d·x.d · Σ scale · Σ q·x.q` over the blocks, less `Σ dmin · min · Σ x`.
pub fn dot(row: &[u8], x: &[Q8Block]) -> f32 {
    dot_row(row, x, |packed, x| unpack(packed).dot(x))
}

/// See [`Packing::pack`].
fn pack_group(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    let kind = (Codes::U2, Scales::HalvesMin);
    let codes = |blocks: &Blocks<'_>, out: &mut [u8]| {
        let mut runs = [[0; 2 * RUN]; 2];
        blocks.words(offset_of!(Packed, q), runs.as_flattened_mut());
        for (g, piece) in out.chunks_exact_mut(Codes::U2.bytes()).enumerate() {
            put_planes(&runs[g / 4], g % 4 * 2, piece);
        }
    };
    pack_blocks(rows, transpose, kind, out, codes, |packed: &Packed| {
        std::array::from_fn::<_, 8, _>(|g| Scale {
            d: packed.d,
            m: packed.dmin,
            bytes: [packed.groups[2 * g], packed.groups[2 * g + 1]],
        })
    });
}
