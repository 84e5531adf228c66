//! TQ2_0: 256 values of two bits and a scale, meant for -1, 0 and 1; value `i` is `d * (q[i] - 1)`.
//! <https://github.com/ggml-org/llama.cpp/pull/8151>
#![forbid(unsafe_code)]

use super::bits::unpack2;
use super::blocks::{Groups, dot_row, unpack_row};
use super::f16::scale;
use super::pack::{Blocks, RUN, Rows, Scale, Transpose, pack_blocks, put_planes};
use super::packed::{Codes, Packing, Scales, Values};
use super::{Dot, Format, FormatInfo, Q8Block};
use bytemuck::{Pod, Zeroable};

/// Values per block.
pub const LEN: usize = 256;
/// Bytes per block.
pub const BYTES: usize = 66;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::TQ2_0,
    tensor_type: 35,
    name: "TQ2_0",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: None,
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U2,
        values: Values::Minus(1),
        scales: Scales::Strip,
        pack: pack_group,
    }),
};

/// One block as it lies in a row.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Packed {
    /// Bits `2j` of byte `32h + i` are value `128h + 32j + i`.
    q: [u8; 64],
    /// The scale `d`, a binary16.
    d: [u8; 2],
}

const _: () = assert!(size_of::<Packed>() == BYTES);

#[inline]
fn unpack(packed: &Packed) -> Groups<8, 32> {
    let q = unpack2(&packed.q).map(|run| run.map(|q| q - 1));
    Groups { d: scale(packed.d), scales: [1; 8], q }
}

/// Expands a row.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    unpack_row(src, dst, |packed, values| unpack(packed).dequantize(values));
}

/// `Σ d·x.d · Σ q·x.q` over the blocks.
pub fn dot(row: &[u8], x: &[Q8Block]) -> f32 {
    dot_row(row, x, |packed, x| unpack(packed).dot(x))
}

/// See [`Packing::pack`].
fn pack_group(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    let codes = |blocks: &Blocks<'_>, out: &mut [u8]| {
        let mut runs = [[0; 2 * RUN]; 2];
        blocks.words(0, runs.as_flattened_mut());
        for (g, piece) in out.chunks_exact_mut(Codes::U2.bytes()).enumerate() {
            put_planes(&runs[g / 4], g % 4 * 2, piece);
        }
    };
    pack_blocks(rows, transpose, (Codes::U2, Scales::Strip), out, codes, |packed: &Packed| {
        [Scale { d: packed.d, ..Scale::ZERO }; LEN / 32]
    });
}
