//! Q4_1: 32 values of 4 bits, a scale and a minimum; value `i` is `d * q[i] + m`.
#![forbid(unsafe_code)]

use super::activation::{dot_i8, reciprocal};
use super::f16::{scale, scale_bytes};
use super::pack::{Blocks, Rows, Scale, Transpose, pack_blocks};
use super::packed::{Codes, Packing, Scales, Values};
use super::q4_0::{pack_nibbles, truncate, unpack_nibbles};
use super::{Dot, Format, FormatInfo, Q8Block};

/// Values per block.
pub const LEN: usize = 32;
/// Bytes per block: the scale `d` and the minimum `m` (binary16), then 16 bytes; byte `i` holds value `i` in its low
/// nibble and value `i + 16` in its high nibble.
pub const BYTES: usize = 2 + 2 + LEN / 2;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::Q4_1,
    tensor_type: 3,
    name: "Q4_1",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: Some(quantize),
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U4,
        values: Values::Minus(0),
        scales: Scales::F16Min,
        pack: pack_group,
    }),
};

/// One block, unpacked.
struct Block {
    d: f32,
    m: f32,
    /// The values in units of `d` above `m`, in 0..=15.
    q: [i8; LEN],
}

impl Block {
    #[inline]
    fn read(bytes: &[u8; BYTES]) -> Block {
        let [d0, d1, m0, m1, nibbles @ ..] = bytes;
        Block { d: scale([*d0, *d1]), m: scale([*m0, *m1]), q: unpack_nibbles(nibbles) }
    }

    fn write(&self, bytes: &mut [u8; BYTES]) {
        let [d0, d1, m0, m1, nibbles @ ..] = bytes;
        [*d0, *d1] = scale_bytes(self.d);
        [*m0, *m1] = scale_bytes(self.m);
        *nibbles = pack_nibbles(&self.q);
    }
}

/// Expands a row.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    debug_assert_eq!(src.len() * LEN, dst.len() * BYTES, "row bytes and number of values do not agree");
    for (bytes, values) in src.as_chunks::<BYTES>().0.iter().zip(dst.as_chunks_mut::<LEN>().0) {
        let block = Block::read(bytes);
        for (value, q) in values.iter_mut().zip(block.q) {
            *value = block.d * f32::from(q) + block.m;
        }
    }
}

/// Packs values: 16 equal steps from the smallest to the largest value.
pub fn quantize(src: &[f32], dst: &mut [u8]) {
    debug_assert_eq!(dst.len() * LEN, src.len() * BYTES, "row bytes and number of values do not agree");
    for (values, bytes) in src.as_chunks::<LEN>().0.iter().zip(dst.as_chunks_mut::<BYTES>().0) {
        let m = values.iter().fold(f32::INFINITY, |m, &x| m.min(x));
        let max = values.iter().fold(f32::NEG_INFINITY, |m, &x| m.max(x));
        let d = (max - m) / 15.0;
        let inverse = reciprocal(d);
        Block { d, m, q: values.map(|x| truncate((x - m) * inverse + 0.5, 15)) }.write(bytes);
    }
}

/// `Σ d·x.d · Σ q·x.q` over the blocks, plus `Σ m·x.sum`.
pub fn dot(row: &[u8], x: &[Q8Block]) -> f32 {
    debug_assert_eq!(row.len(), x.len() * BYTES, "the row and the activations differ in length");
    let (mut products, mut offsets) = (0.0, 0.0);
    for (bytes, x) in row.as_chunks::<BYTES>().0.iter().zip(x) {
        let block = Block::read(bytes);
        products += block.d * x.d * dot_i8(&block.q, &x.qs) as f32;
        offsets += block.m * x.sum;
    }
    products + offsets
}

/// See [`Packing::pack`].
fn pack_group(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    let kind = (Codes::U4, Scales::F16Min);
    let codes = |blocks: &Blocks<'_>, out: &mut [u8]| blocks.words(4, out);
    pack_blocks(rows, transpose, kind, out, codes, |&[d0, d1, m0, m1, ..]: &[u8; BYTES]| {
        [Scale { d: [d0, d1], m: [m0, m1], ..Scale::ZERO }]
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_by_hand() {
        let mut values = [-2.0; LEN];
        values[0] = 13.0;
        values[16] = 0.4;
        let mut row = [0; BYTES];
        quantize(&values, &mut row);
        assert_eq!(row[..6], [0x00, 0x3c, 0x00, 0xc0, 0x2f, 0x00], "d = 1, m = -2; values 0 and 16");
        dequantize(&row, &mut values);
        assert_eq!((values[0], values[16], values[2]), (13.0, 0.0, -2.0));
        let x = Q8Block::new(0.5, [4; LEN]);
        assert_eq!(dot(&row, &[x]), 0.5 * 4.0 * 17.0 - 2.0 * 64.0);
    }
}
