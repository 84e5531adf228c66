//! How super-blocks store 256 numbers of 1, 2 or 4 bits: as eight runs of 32 that lie beside each other in 32 bytes.
#![forbid(unsafe_code)]

/// 256 small numbers as eight runs of 32.
pub(super) type Runs = [[i8; 32]; 8];

/// Bit `g` of byte `i` is number `i` of run `g`.
#[inline]
pub(super) fn unpack1(bytes: &[u8; 32]) -> Runs {
    let mut runs = [[0; 32]; 8];
    for (g, run) in runs.iter_mut().enumerate() {
        for (q, byte) in run.iter_mut().zip(bytes) {
            *q = (byte >> g & 1).cast_signed();
        }
    }
    runs
}

/// The inverse of [`unpack1`]; takes the lowest bit of each number.
pub(super) fn pack1(runs: &Runs) -> [u8; 32] {
    std::array::from_fn(|i| (0..8).fold(0, |byte, g| byte | (runs[g][i].cast_unsigned() & 1) << g))
}

/// The bits `mask << shift` of each of sixteen bytes, shifted right: sixteen small numbers at once.
#[inline]
pub(super) fn cut(bytes: &[u8; 16], shift: usize, mask: u8) -> u128 {
    u128::from_le_bytes(*bytes) >> shift & u128::from_le_bytes([mask; 16])
}

/// The two halves of 32 bytes.
#[inline]
pub(super) fn halves(bytes: &[u8; 32]) -> [[u8; 16]; 2] {
    bytemuck::cast(*bytes)
}

/// The numbers of four bits of run `g` of [`unpack4`]: number `i` in the low, number `i + 16` in the high nibble of byte `i`.
#[inline]
pub(super) fn nibbles4(bytes: &[u8; 128], g: usize) -> [u8; 16] {
    let runs: &[[u8; 32]; 4] = bytemuck::cast_ref(bytes);
    join_nibbles(halves(&runs[g / 2]).map(|half| cut(&half, g % 2 * 4, 15)))
}

/// Sixteen bytes of sixteen numbers for the low and sixteen for the high nibbles.
#[inline]
pub(super) fn join_nibbles([low, high]: [u128; 2]) -> [u8; 16] {
    (low | high << 4).to_le_bytes()
}

/// Sixteen numbers of two bits: word `j` of four bytes goes to bits `2j..2j + 2` of the result's bytes.
#[inline]
pub(super) fn plane(numbers: u128) -> [u8; 4] {
    let pairs = numbers | numbers >> 30;
    ((pairs | pairs >> 60) as u32).to_le_bytes()
}

/// Bit `g` of byte `i` as bit `i`: run `g` of [`unpack1`], packed.
#[inline]
pub(super) fn gather1(bytes: &[u8; 32], g: usize) -> [u8; 4] {
    let eight = |bytes: &[u8; 8]| {
        let bits = u64::from_le_bytes(*bytes) >> g & 0x0101_0101_0101_0101;
        // The factor moves bit 8i to bit 56 + i, and nothing else up there.
        (bits.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
    };
    let (eights, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|k| eight(&eights[k]))
}

/// Two bits each: bits `2j` of byte `32h + i` are number `i` of run `4h + j`.
#[inline]
pub(super) fn unpack2(bytes: &[u8; 64]) -> Runs {
    let mut runs = [[0; 32]; 8];
    for (bytes, runs) in bytes.as_chunks::<32>().0.iter().zip(runs.as_chunks_mut::<4>().0) {
        for (j, run) in runs.iter_mut().enumerate() {
            for (q, byte) in run.iter_mut().zip(bytes) {
                *q = (byte >> (2 * j) & 3).cast_signed();
            }
        }
    }
    runs
}

/// The inverse of [`unpack2`]; takes the two lowest bits of each number.
pub(super) fn pack2(runs: &Runs) -> [u8; 64] {
    std::array::from_fn(|i| {
        (0..4).fold(0, |byte, j| byte | (runs[i / 32 * 4 + j][i % 32].cast_unsigned() & 3) << (2 * j))
    })
}

/// Four bits each: nibble `j` (0 the lower) of byte `32h + i` is number `i` of run `2h + j`.
#[inline]
pub(super) fn unpack4(bytes: &[u8; 128]) -> Runs {
    let mut runs = [[0; 32]; 8];
    for (bytes, [low, high]) in bytes.as_chunks::<32>().0.iter().zip(runs.as_chunks_mut::<2>().0) {
        for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
            *low = (byte & 15).cast_signed();
            *high = (byte >> 4).cast_signed();
        }
    }
    runs
}

/// The inverse of [`unpack4`]; takes the four lowest bits of each number.
pub(super) fn pack4(runs: &Runs) -> [u8; 128] {
    std::array::from_fn(|i| {
        let number = |j: usize| runs[i / 32 * 2 + j][i % 32].cast_unsigned() & 15;
        number(0) | number(1) << 4
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        let runs = |bits| -> Runs {
            std::array::from_fn(|g| {
                std::array::from_fn(|i| ((g * 5 + i * 3 + i / 7) % (1usize << bits)) as i8)
            })
        };
        assert_eq!(unpack1(&pack1(&runs(1))), runs(1));
        let bits = |run: &[i8; 32]| run.iter().rev().fold(0u32, |bits, &q| bits << 1 | q as u32);
        for (g, run) in runs(1).iter().enumerate() {
            assert_eq!(gather1(&pack1(&runs(1)), g), bits(run).to_le_bytes());
        }
        assert_eq!(unpack2(&pack2(&runs(2))), runs(2));
        assert_eq!(unpack4(&pack4(&runs(4))), runs(4));
        for (g, run) in runs(4).iter().enumerate() {
            let nibbles: [u8; 16] = std::array::from_fn(|i| (run[i] | run[i + 16] << 4).cast_unsigned());
            assert_eq!(nibbles4(&pack4(&runs(4)), g), nibbles);
        }
    }
}
