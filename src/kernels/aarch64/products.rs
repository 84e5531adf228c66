//! Products with packed weights: the loop over the pieces of a group, which every level compiles for its instructions. Integer
//! sums are exact, and the code after them is shared. So a product has the same bits on every level and for any number of
//! vectors.
#![forbid(unsafe_code)]

/// The packed products of a level: its table, and a module for each format.
///
/// The level brings `Vectors<N>`, the activations of one piece of `N` vectors; `arrange`, which makes them from the vectors'
/// blocks; and `dots::<N, FIRST, QUADS, MAX>(w, vectors)`, the sums of products over `QUADS` quads from `FIRST` on with codes of
/// at most `MAX` in magnitude. `one` is the level whose tile multiplies a single vector.
macro_rules! packed_products {
    ($features:literal, one: $one:ident) => {
        use crate::kernels::PackedProduct;
        use crate::kernels::aarch64::group::*;
        use crate::quant::packed::{Codes, Group, ROWS, Scales};
        use crate::quant::{FORMAT_COUNT, Format, Q8Block};

        /// The products of this level, by format.
        pub const TABLE: [Option<PackedProduct>; FORMAT_COUNT] = {
            let mut table: [Option<PackedProduct>; FORMAT_COUNT] = [None; FORMAT_COUNT];
            table[Format::Q4_0 as usize] = Some(q4_0::product);
            table[Format::Q4_1 as usize] = Some(q4_1::product);
            table[Format::Q5_0 as usize] = Some(q5_0::product);
            table[Format::Q5_1 as usize] = Some(q5_1::product);
            table[Format::Q8_0 as usize] = Some(q8_0::product);
            table[Format::Q2_K as usize] = Some(q2_k::product);
            table[Format::Q3_K as usize] = Some(q3_k::product);
            table[Format::Q4_K as usize] = Some(q4_k::product);
            table[Format::Q5_K as usize] = Some(q5_k::product);
            table[Format::Q6_K as usize] = Some(q6_k::product);
            table[Format::IQ4_NL as usize] = Some(iq4_nl::product);
            table[Format::IQ4_XS as usize] = Some(iq4_xs::product);
            table[Format::MXFP4 as usize] = Some(mxfp4::product);
            table[Format::NVFP4 as usize] = Some(nvfp4::product);
            table[Format::IQ1_S as usize] = Some(eighths::product);
            table[Format::IQ1_M as usize] = Some(eighths::product);
            table[Format::IQ2_XXS as usize] = Some(eighths::product);
            table[Format::IQ2_XS as usize] = Some(eighths::product);
            table[Format::IQ2_S as usize] = Some(eighths::product);
            table[Format::IQ3_XXS as usize] = Some(quarters::product);
            table[Format::IQ3_S as usize] = Some(wholes::product);
            table[Format::TQ1_0 as usize] = Some(wholes::product);
            table[Format::TQ2_0 as usize] = Some(tq2_0::product);
            table[Format::Q1_0 as usize] = Some(q1_0::product);
            table[Format::Q2_0 as usize] = Some(q2_0::product);
            table
        };

        /// The sums over a piece.
        #[inline]
        #[target_feature(enable = $features)]
        fn whole<const N: usize, const MAX: i32>(w: &Values, x: &Vectors<'_, N>) -> [int32x4_t; N] {
            dots::<N, 0, 8, MAX>(w, x)
        }

        /// The sums over each half of a piece.
        #[inline]
        #[target_feature(enable = $features)]
        fn halves<const N: usize, const MAX: i32>(w: &Values, x: &Vectors<'_, N>) -> [[int32x4_t; 2]; N] {
            let (low, high) = (dots::<N, 0, 4, MAX>(w, x), dots::<N, 4, 4, MAX>(w, x));
            std::array::from_fn(|t| [low[t], high[t]])
        }

        product!($features, $one, q4_0, U4, F16, four_bits::<8>, f16_scales, whole 8, add_scaled);
        product!($features, $one, q4_1, U4, F16Min, four_bits::<0>, f16_minima, whole 15, add_with_minima);
        product!($features, $one, q5_0, U5, F16, five_bits_centred, f16_scales, whole 16, add_scaled);
        product!($features, $one, q5_1, U5, F16Min, five_bits, f16_minima, whole 31, add_with_minima);
        product!($features, $one, q8_0, U8, F16, eight_bits_centred, f16_scales, whole 128, add_scaled);
        product!($features, $one, q2_k, U2, HalvesMin, two_bits, half_minima, halves 3, add_halves_with_minima);
        product!($features, $one, q3_k, U4, Halves, four_bits::<4>, half_scales, halves 4, add_halves);
        product!($features, $one, q4_k, U4, Super, four_bits::<0>, super_minima, whole 15, add_with_minima);
        product!($features, $one, q5_k, U5, Super, five_bits, super_minima, whole 31, add_with_minima);
        product!($features, $one, q6_k, U6, Halves, six_bits_centred, half_scales, halves 32, add_halves);
        product!($features, $one, iq4_nl, U4, F16, iq4, f16_scales, whole 127, add_scaled);
        product!($features, $one, iq4_xs, U4, Halves, iq4, half_scales, halves 127, add_halves);
        product!($features, $one, tq2_0, U2, Strip, two_bits_less_one, strip_scales, whole 2, add_scaled);
        product!($features, $one, q2_0, U2, Pairs, two_bits_less_one, pair_scales, whole 2, add_scaled);
        product!($features, $one, q1_0, U1, Fours, signs, four_scales, whole 1, add_scaled);
        product!($features, $one, nvfp4, U4, HalvesE4m3, e2m1, e4m3_scales, halves 12, add_float_halves);
        product!($features, $one, wholes, U8, Halves, eight_bits_centred, half_scales, halves 128, add_halves);
        product!($features, $one, quarters, U8, Halves, eight_bits_centred, quarter_scales, halves 128, add_halves);
        product!($features, $one, eighths, U8, Halves, eight_bits_centred, eighth_scales, halves 128, add_halves);
        product!($features, $one, mxfp4, U4, Bf16, e2m1, bf16_scales, whole 12, add_scaled);
    };
}

/// The product of one format: how codes and scales are packed and read, the sums of which codes it takes, and how it adds these
/// up.
macro_rules! product {
    (
        $features:literal, $one:ident, $name:ident, $codes:ident, $scales:ident, $read:expr, $read_scales:ident,
        $sums:ident $max:literal, $add:ident
    ) => {
        pub mod $name {
            use super::*;
            use crate::kernels::aarch64::$one::packed::$name::tile as one;

            const QUADS: usize = Codes::$codes.bytes() / 64;

            /// The product of this format.
            pub fn product(group: &Group<'_>, x: &[Q8Block], out: &mut [f32]) {
                let parts = Parts::of(group, Scales::$scales);
                let n = group.n_pieces;
                let (mut x, mut out) = (x, out);
                while !out.is_empty() && n > 0 {
                    let tokens = match out.len() / ROWS {
                        8.. => 8,
                        4.. => 4,
                        2.. => 2,
                        _ => 1,
                    };
                    let (x_now, x_rest) = x.split_at(tokens * n);
                    let (out_now, out_rest) = out.split_at_mut(tokens * ROWS);
                    // SAFETY: this function is reached through the table of this level only, which is handed out
                    // on machines that have its instructions and those of the levels below.
                    unsafe {
                        match tokens {
                            8 => tile::<2, 4>(&parts, n, x_now, out_now),
                            4 => tile::<1, 4>(&parts, n, x_now, out_now),
                            2 => tile::<1, 2>(&parts, n, x_now, out_now),
                            _ => one::<1, 1>(&parts, n, x_now, out_now),
                        }
                    }
                    (x, out) = (x_rest, out_rest);
                }
                out.fill(0.0);
            }

            /// `M` times `N` vectors, which share the codes of a piece while these are in registers.
            #[target_feature(enable = $features)]
            pub fn tile<const M: usize, const N: usize>(
                parts: &Parts<'_, QUADS>,
                n: usize,
                x: &[Q8Block],
                out: &mut [f32],
            ) {
                let x: [&[Q8Block]; N] = std::array::from_fn(|t| &x[t * M * n..(t + 1) * M * n]);
                let mut acc = [[[vdupq_n_f32(0.0); 4]; M]; N];
                for (i, piece) in parts.codes.iter().enumerate() {
                    let mut blocks = [[&x[0][i]; N]; M];
                    for (t, x) in x.iter().enumerate() {
                        for m in 0..M {
                            blocks[m][t] = &x[m * n + i];
                        }
                    }
                    let mut vectors = [arrange(&blocks[0]); M];
                    for m in 1..M {
                        vectors[m] = arrange(&blocks[m]);
                    }
                    for g in 0..4 {
                        let (w, s) = ($read(piece, g), $read_scales(parts, i, g));
                        for m in 0..M {
                            let sums = $sums::<N, $max>(&w, &vectors[m]);
                            for t in 0..N {
                                acc[t][m][g] = $add(acc[t][m][g], s, blocks[m][t], sums[t]);
                            }
                        }
                    }
                }
                for (acc, out) in acc.as_flattened().iter().zip(out.as_chunks_mut::<ROWS>().0) {
                    for (acc, out) in acc.iter().zip(out.as_chunks_mut::<4>().0) {
                        // SAFETY: `out` has space for 4 numbers.
                        unsafe { vst1q_f32(out.as_mut_ptr(), *acc) };
                    }
                }
            }
        }
    };
}
