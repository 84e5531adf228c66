//! The random numbers: xoshiro256++ (Blackman and Vigna, <https://prng.di.unimi.it/xoshiro256plusplus.c>), its four
//! words of state filled by SplitMix64 from the seed, as its authors advise.
#![forbid(unsafe_code)]

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng as _, SeedableRng as _};

/// The generator's state.
#[derive(Debug, Clone)]
pub(super) struct Rng(Xoshiro256PlusPlus);

impl Rng {
    pub(super) fn new(seed: u64) -> Rng {
        Rng(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// An integer in `0..n`, `n` above 0: the upper 64 bits of the 128-bit product of `n` and the generator's next
    /// 64 bits. No number is more than `n / 2⁶⁴` of its share more likely than another.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with an independent implementation of the authors' definition.
    #[test]
    fn first_numbers() {
        let first = |seed| {
            let mut rng = Rng::new(seed);
            [(); 4].map(|()| rng.0.next_u64())
        };
        assert_eq!(first(0), GOLDEN_0);
        assert_eq!(first(42), GOLDEN_42);
        assert_eq!(first(u64::MAX), GOLDEN_MAX);
    }

    #[test]
    fn below_stays_below() {
        let mut rng = Rng::new(1);
        for n in [1, 2, 3, 1000, 1 << 40, u64::MAX] {
            assert!((0..1000).all(|_| rng.below(n) < n), "{n}");
        }
        let mut rng = Rng::new(42);
        assert_eq!(rng.below(1000), ((u128::from(GOLDEN_42[0]) * 1000) >> 64) as u64);
    }
    const GOLDEN_0: [u64; 4] =
        [0x53175d61490b23df, 0x61da6f3dc380d507, 0x5c0fdf91ec9a7bfc, 0x02eebf8c3bbe5e1a];
    const GOLDEN_42: [u64; 4] =
        [0xd0764d4f4476689f, 0x519e4174576f3791, 0xfbe07cfb0c24ed8c, 0xb37d9f600cd835b8];
    const GOLDEN_MAX: [u64; 4] =
        [0x56ccf8ce948e27b2, 0xe68588432e5a5b90, 0xe3e9b5a48119ca8b, 0x460f19495532ae73];
}
