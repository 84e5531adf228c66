//! Q8_0: 32 values of 8 bits and a scale; value `i` is `d * qs[i]`.
#![forbid(unsafe_code)]

use super::activation::{dot_i8, max_magnitude, reciprocal, round_to_i8};
use super::f16::{scale, scale_bytes};
use super::pack::{Blocks, Rows, Scale, Transpose, pack_blocks};
use super::packed::{Codes, Packing, Scales, Values};
use super::{Dot, Format, FormatInfo, Q8Block};

/// Values per block.
pub const LEN: usize = 32;
/// Bytes per block: the scale `d` (binary16), then one signed byte per value.
pub const BYTES: usize = 2 + LEN;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::Q8_0,
    tensor_type: 8,
    name: "Q8_0",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: Some(quantize),
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U8,
        values: Values::Minus(128),
        scales: Scales::F16,
        pack: pack_group,
    }),
};

/// One block, unpacked.
struct Block {
    d: f32,
    qs: [i8; LEN],
}

impl Block {
    #[inline]
    fn read(bytes: &[u8; BYTES]) -> Block {
        let [d0, d1, bytes @ ..] = bytes;
        let mut qs = [0; LEN];
        for (q, byte) in qs.iter_mut().zip(bytes) {
            *q = byte.cast_signed();
        }
        Block { d: scale([*d0, *d1]), qs }
    }

    fn write(&self, bytes: &mut [u8; BYTES]) {
        let [d0, d1, qs @ ..] = bytes;
        [*d0, *d1] = scale_bytes(self.d);
        *qs = self.qs.map(i8::cast_unsigned);
    }
}

/// Expands a row.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    debug_assert_eq!(src.len() * LEN, dst.len() * BYTES, "row bytes and number of values do not agree");
    for (bytes, values) in src.as_chunks::<BYTES>().0.iter().zip(dst.as_chunks_mut::<LEN>().0) {
        let block = Block::read(bytes);
        for (value, q) in values.iter_mut().zip(block.qs) {
            *value = f32::from(q) * block.d;
        }
    }
}

/// Packs values: `d` is the largest magnitude divided by 127, the values are rounded half away from zero with the
/// unrounded `d`.
pub fn quantize(src: &[f32], dst: &mut [u8]) {
    debug_assert_eq!(dst.len() * LEN, src.len() * BYTES, "row bytes and number of values do not agree");
    for (values, bytes) in src.as_chunks::<LEN>().0.iter().zip(dst.as_chunks_mut::<BYTES>().0) {
        let d = max_magnitude(values) / 127.0;
        let inverse = reciprocal(d);
        Block { d, qs: values.map(|x| round_to_i8(x * inverse)) }.write(bytes);
    }
}

/// `Σ d·x.d · Σ q·x.q` over the blocks.
pub fn dot(row: &[u8], x: &[Q8Block]) -> f32 {
    debug_assert_eq!(row.len(), x.len() * BYTES, "the row and the activations differ in length");
    let mut sum = 0.0;
    for (bytes, x) in row.as_chunks::<BYTES>().0.iter().zip(x) {
        let block = Block::read(bytes);
        sum += block.d * x.d * dot_i8(&block.qs, &x.qs) as f32;
    }
    sum
}

/// See [`Packing::pack`].
fn pack_group(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    let kind = (Codes::U8, Scales::F16);
    let codes = |blocks: &Blocks<'_>, out: &mut [u8]| {
        blocks.words(2, out);
        out.iter_mut().for_each(|code| *code ^= 0x80);
    };
    pack_blocks(rows, transpose, kind, out, codes, |&[d0, d1, ..]: &[u8; BYTES]| {
        [Scale { d: [d0, d1], ..Scale::ZERO }]
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_by_hand() {
        let mut values = [0.0; LEN];
        values[0] = 127.0;
        values[1] = -2.5;
        values[31] = 0.5;
        let mut row = [0; BYTES];
        quantize(&values, &mut row);
        assert_eq!(row[..4], [0x00, 0x3c, 127, 253], "d = 1, then 127 and -3");
        assert_eq!(row[BYTES - 1], 1);
        dequantize(&row, &mut values);
        assert_eq!((values[0], values[1], values[31]), (127.0, -3.0, 1.0));
        let x = Q8Block::new(0.5, [4; LEN]);
        assert_eq!(dot(&row, &[x]), 0.5 * 4.0 * (127.0 - 3.0 + 1.0));
    }
}
