//! Q4_0: 32 values of 4 bits and a scale; value `i` is `d * (q[i] - 8)`.
#![forbid(unsafe_code)]

use super::activation::{dot_i8, reciprocal};
use super::f16::{scale, scale_bytes};
use super::pack::{Rows, Scale, Transpose, pack_blocks};
use super::packed::{Codes, Packing, Scales, Values};
use super::{Dot, Format, FormatInfo, Q8Block};

/// Values per block.
pub const LEN: usize = 32;
/// Bytes per block: the scale `d` (binary16), then 16 bytes; byte `i` holds value `i` in its low nibble and value
/// `i + 16` in its high nibble.
pub const BYTES: usize = 2 + LEN / 2;

/// This format's row of the registry.
pub(super) const INFO: FormatInfo = FormatInfo {
    format: Format::Q4_0,
    tensor_type: 2,
    name: "Q4_0",
    block_len: LEN,
    block_bytes: BYTES,
    dequantize,
    quantize: Some(quantize),
    dot: Dot::Q8(dot),
    packing: Some(Packing {
        codes: Codes::U4,
        values: Values::Minus(8),
        scales: Scales::F16,
        pack: pack_group,
    }),
};

/// One block, unpacked.
struct Block {
    d: f32,
    /// The values in units of `d`, in 0..=15, 8 standing for zero.
    q: [i8; LEN],
}

impl Block {
    #[inline]
    fn read(bytes: &[u8; BYTES]) -> Block {
        let [d0, d1, nibbles @ ..] = bytes;
        Block { d: scale([*d0, *d1]), q: unpack_nibbles(nibbles) }
    }

    fn write(&self, bytes: &mut [u8; BYTES]) {
        let [d0, d1, nibbles @ ..] = bytes;
        [*d0, *d1] = scale_bytes(self.d);
        *nibbles = pack_nibbles(&self.q);
    }

    /// The values in units of `d`, in -8..=7.
    #[inline]
    fn centred(&self) -> [i8; LEN] {
        let mut centred = self.q;
        for q in &mut centred {
            *q = q.wrapping_sub(8);
        }
        centred
    }
}

/// Low nibbles first, then high nibbles.
#[inline]
pub(super) fn unpack_nibbles(nibbles: &[u8; LEN / 2]) -> [i8; LEN] {
    let mut q = [0; LEN];
    let (low, high) = q.split_at_mut(LEN / 2);
    for ((low, high), byte) in low.iter_mut().zip(high).zip(nibbles) {
        *low = (byte & 15).cast_signed();
        *high = (byte >> 4).cast_signed();
    }
    q
}

/// The inverse of [`unpack_nibbles`].
pub(super) fn pack_nibbles(q: &[i8; LEN]) -> [u8; LEN / 2] {
    let mut nibbles = [0; LEN / 2];
    for (i, byte) in nibbles.iter_mut().enumerate() {
        *byte = (q[i] | q[i + LEN / 2] << 4).cast_unsigned();
    }
    nibbles
}

/// Cuts the fraction off and limits to `0..=most`; NaN and infinities give 0.
pub(super) fn truncate(x: f32, most: i8) -> i8 {
    if x.is_finite() { (x as i8).clamp(0, most) } else { 0 }
}

/// Expands a row.
pub fn dequantize(src: &[u8], dst: &mut [f32]) {
    debug_assert_eq!(src.len() * LEN, dst.len() * BYTES, "row bytes and number of values do not agree");
    for (bytes, values) in src.as_chunks::<BYTES>().0.iter().zip(dst.as_chunks_mut::<LEN>().0) {
        let block = Block::read(bytes);
        for (value, q) in values.iter_mut().zip(block.centred()) {
            *value = block.d * f32::from(q);
        }
    }
}

/// Packs values: `d` is the (first) value of largest magnitude divided by -8, so that this value is exact.
pub fn quantize(src: &[f32], dst: &mut [u8]) {
    debug_assert_eq!(dst.len() * LEN, src.len() * BYTES, "row bytes and number of values do not agree");
    for (values, bytes) in src.as_chunks::<LEN>().0.iter().zip(dst.as_chunks_mut::<BYTES>().0) {
        let largest = values.iter().fold(values[0], |a, &x| if x.abs() > a.abs() { x } else { a });
        let d = largest / -8.0;
        let inverse = reciprocal(d);
        Block { d, q: values.map(|x| truncate(x * inverse + 8.5, 15)) }.write(bytes);
    }
}

/// `Σ d·x.d · Σ (q - 8)·x.q` over the blocks.
pub fn dot(row: &[u8], x: &[Q8Block]) -> f32 {
    debug_assert_eq!(row.len(), x.len() * BYTES, "the row and the activations differ in length");
    let mut sum = 0.0;
    for (bytes, x) in row.as_chunks::<BYTES>().0.iter().zip(x) {
        let block = Block::read(bytes);
        sum += block.d * x.d * dot_i8(&block.centred(), &x.qs) as f32;
    }
    sum
}

/// See [`Packing::pack`].
fn pack_group(rows: &Rows<'_>, transpose: Transpose, out: &mut [u8]) {
    let kind = (Codes::U4, Scales::F16);
    pack_blocks(
        rows,
        transpose,
        kind,
        out,
        |blocks, out| blocks.words(2, out),
        |&[d0, d1, ..]: &[u8; BYTES]| [Scale { d: [d0, d1], ..Scale::ZERO }],
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_by_hand() {
        let mut values = [0.0; LEN];
        values[0] = -8.0;
        values[1] = 7.0;
        values[16] = 0.5;
        values[17] = -0.51;
        let mut row = [0; BYTES];
        quantize(&values, &mut row);
        assert_eq!(row[..4], [0x00, 0x3c, 0x90, 0x7f], "d = 1; values 0 and 16, 1 and 17");
        dequantize(&row, &mut values);
        assert_eq!((values[0], values[1], values[16], values[17], values[2]), (-8.0, 7.0, 1.0, -1.0, 0.0));
        let x = Q8Block::new(0.5, [4; LEN]);
        assert_eq!(dot(&row, &[x]), 0.5 * 4.0 * (-8.0 + 7.0 + 1.0 - 1.0));
    }

    #[test]
    fn nibbles_round_trip() {
        let q: [i8; LEN] = std::array::from_fn(|i| (i * 7 % 16) as i8);
        assert_eq!(unpack_nibbles(&pack_nibbles(&q)), q);
    }
}
