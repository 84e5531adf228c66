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
        assert_eq!(unpack2(&pack2(&runs(2))), runs(2));
        assert_eq!(unpack4(&pack4(&runs(4))), runs(4));
    }
}
