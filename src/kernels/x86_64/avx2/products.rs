//! Products with packed weights, eight rows at a time, one in each 32-bit lane: the loops, which every level with registers of
//! 256 bits compiles for its instructions. The codes of a piece stay in eight registers while they are multiplied with one vector
//! of activations after another, whose quads are broadcast to all lanes. Integer sums are exact.
#![forbid(unsafe_code)]

/// The packed products of a level: its table, and a module for each format, except those with codes of eight bits, `q8_0`,
/// `iq4_nl`, `iq4_xs`, `wholes`, `quarters` and `eighths`, which the level adds.
///
/// The level brings `sum::<SUMS>(codes, x)`, the sums over a piece; `scaled_sum::<SUMS>(codes, scales, x)`, those over its halves
/// times their scales, which stand in both halves of each lane; and `half_sums(codes, x)`, those over the halves. `SUMS` products
/// of pairs fit 16 bits. Its `run` calls the functions that were compiled for its instructions.
///
/// Its macro `many!` makes a format's `many(parts, n, x, out)`, which multiplies the first vectors, or none, and returns how
/// many. Its arguments say whether `pieces` have scales or `halves` of them, and `SUMS`; that vectors are multiplied `alone`; or
/// what the level's own formats need.
macro_rules! packed_products {
    ($features:literal) => {
        use crate::kernels::PackedProduct;
        use crate::kernels::frame::align_frame;
        use crate::kernels::x86_64::avx2::group::*;
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

        scaled!($features, q4_0, Codes::U4, nibbles, 8, 8, Scales::F16, load_f16);
        scaled!($features, q5_0, Codes::U5, five_bits, 4, 16, Scales::F16, load_f16);
        scaled!($features, mxfp4, Codes::U4, e2m1, 4, 12, Scales::Bf16, load_bf16);
        offset!($features, q4_1, Codes::U4, nibbles, 8);
        offset!($features, q5_1, Codes::U5, five_bits, 4);
        super_blocks!($features, q4_k, Codes::U4, nibbles, 8);
        super_blocks!($features, q5_k, Codes::U5, five_bits, 4);
        less_one!($features, tq2_0, Codes::U2, Scales::Strip, two_bits);
        less_one!($features, q2_0, Codes::U2, Scales::Pairs, two_bits);
        less_one!($features, q1_0, Codes::U1, Scales::Fours, one_bit_twice);
        product!(
            $features,
            nvfp4,
            Codes::U4,
            Scales::HalvesE4m3,
            e2m1,
            (alone),
            |parts, i, h| -> [__m256; 2] {
                let scales = &scales::<32>(parts, i)[8 * h..];
                [load_half_e4m3(scales), load_half_e4m3(&scales[16..])]
            },
            |w, s, x| float_halves(half_sums(&w, x), s, x),
            |acc, sum| _mm256_fmadd_ps(_mm256_castsi256_ps(sum), _mm256_set1_ps(x.d), acc)
        );
        half_offsets!($features, q2_k, Codes::U2, two_bits, 4);
        halves!($features, q3_k, Codes::U4, nibbles, 4, 4);
        halves!($features, q6_k, Codes::U6, six_bits, 2, 32);
    };
}

/// One module per format: how a half's piece `i` is read, its codes and the numbers beside them, the sum of each row with a
/// vector, and what that adds.
macro_rules! product {
    (
        $features:literal, $name:ident, $codes:expr, $scales:expr, $read:expr, $kind:tt,
        |$parts:ident, $i:ident, $h:ident| -> $line:ty $load:block,
        |$w:ident, $s:ident, $x:ident| $sum:expr,
        |$acc:ident, $total:ident| $add:expr
    ) => {
        mod $name {
            use super::*;

            const CODES: Codes = $codes;
            const SCALES: Scales = $scales;

            /// The numbers beside the codes of eight rows of a piece.
            type Line = $line;

            #[inline]
            #[target_feature(enable = $features)]
            fn line($parts: &Parts<'_>, $i: usize, $h: usize) -> Line {
                $load
            }

            #[allow(unused_variables, reason = "a sum may have the scales in it")]
            #[inline]
            #[target_feature(enable = $features)]
            fn add($acc: __m256, $s: Line, $total: __m256i, $x: &Q8Block) -> __m256 {
                $add
            }

            many!($kind, $read);

            /// The product of this format.
            pub fn product(group: &Group<'_>, x: &[Q8Block], out: &mut [f32]) {
                let (parts, n) = (Parts::of(group, CODES, SCALES), group.n_pieces);
                let n_many = many(&parts, n, x, out);
                let (x, out) = (&x[n_many * n..], &mut out[n_many * ROWS..]);
                let add: AddPieces = match out.len() {
                    0 => return,
                    ROWS => add_pieces::<true>,
                    _ => add_pieces::<false>,
                };
                run(add, &parts, n, x, out);
            }

            /// Adds up the products of all pieces; the sums of a `SINGLE` vector stay in registers.
            #[target_feature(enable = $features)]
            fn add_pieces<const SINGLE: bool>(parts: &Parts<'_>, n: usize, x: &[Q8Block], out: &mut [f32]) {
                align_frame();
                let out = out.as_chunks_mut::<LANES>().0;
                if !SINGLE {
                    out.fill([0.0; LANES]);
                }
                let mut single = [_mm256_setzero_ps(); 2];
                for (i, piece) in parts.codes.chunks_exact(CODES.bytes()).enumerate() {
                    parts.prefetch(i, CODES.bytes() + SCALES.bytes_with_units(), SINGLE);
                    for h in 0..2 {
                        let ($w, $s) = ($read(piece, h), line(parts, i, h));
                        if SINGLE {
                            let $x = &x[i];
                            single[h] = add(single[h], $s, $sum, $x);
                        } else {
                            for ($x, out) in x[i..].iter().step_by(n).zip(out.as_chunks_mut::<2>().0) {
                                let total = add(load_f32(&out[h]), $s, $sum, $x);
                                store_f32(&mut out[h], total);
                            }
                        }
                    }
                }
                if SINGLE {
                    out.iter_mut().zip(single).for_each(|(out, single)| store_f32(out, single));
                }
            }
        }
    };
}

/// A format with a scale per piece and no minimum: `d * x.d * Σ code·x - offset * d * x.sum`.
macro_rules! scaled {
    (
        $features:literal, $name:ident, $codes:expr, $read:expr, $sums:tt, $offset:expr, $scales:expr,
        $scale:expr
    ) => {
        product!(
            $features,
            $name,
            $codes,
            $scales,
            $read,
            (pieces $sums),
            |parts, i, h| -> (__m256, __m256) {
                let d = $scale(&scales::<32>(parts, i)[16 * h..]);
                (d, _mm256_mul_ps(d, _mm256_set1_ps(-($offset as f32))))
            },
            |w, s, x| sum::<$sums>(&w, x),
            |acc, sum| add_with_minimum(acc, s, sum, x)
        );
    };
}

/// A format with one scale for some pieces, and codes that are 1 too large.
macro_rules! less_one {
    ($features:literal, $name:ident, $codes:expr, $scales:expr, $read:expr) => {
        product!(
            $features,
            $name,
            $codes,
            $scales,
            $read,
            (pieces 8),
            |parts, i, h| -> (__m256, __m256) {
                let d = load_f16(&parts.units[i / SCALES.pieces_per_unit() * 32..][16 * h..]);
                (d, _mm256_sub_ps(_mm256_setzero_ps(), d))
            },
            |w, s, x| sum::<8>(&w, x),
            |acc, sum| add_with_minimum(acc, s, sum, x)
        );
    };
}

/// A format with a scale and a minimum per piece: `d * x.d * Σ code·x + m * x.sum`.
macro_rules! offset {
    ($features:literal, $name:ident, $codes:expr, $read:expr, $sums:tt) => {
        product!(
            $features,
            $name,
            $codes,
            Scales::F16Min,
            $read,
            (pieces $sums),
            |parts, i, h| -> (__m256, __m256) {
                let scales = &scales::<64>(parts, i)[16 * h..];
                (load_f16(scales), load_f16(&scales[32..]))
            },
            |w, s, x| sum::<$sums>(&w, x),
            |acc, sum| add_with_minimum(acc, s, sum, x)
        );
    };
}

/// A format with a scale and a minimum per piece in units of eight pieces.
macro_rules! super_blocks {
    ($features:literal, $name:ident, $codes:expr, $read:expr, $sums:tt) => {
        product!(
            $features,
            $name,
            $codes,
            Scales::Super,
            $read,
            (pieces $sums),
            |parts, i, h| -> (__m256, __m256) {
                let (units, scales) = (&units::<64>(parts, i)[16 * h..], &scales::<32>(parts, i)[8 * h..]);
                let d = _mm256_mul_ps(load_f16(units), load_u8(scales));
                (d, _mm256_mul_ps(load_f16(&units[32..]), load_u8(&scales[16..])))
            },
            |w, s, x| sum::<$sums>(&w, x),
            |acc, sum| add_less_minimum(acc, s, sum, x)
        );
    };
}

/// A format with a signed scale per half piece in units of eight pieces, of which `$factor` is taken.
macro_rules! halves {
    ($features:literal, $name:ident, $codes:expr, $read:expr, $sums:tt, $offset:expr) => {
        halves!($features, $name, $codes, $read, $sums, $offset, 1.0);
    };
    ($features:literal, $name:ident, $codes:expr, $read:expr, $sums:tt, $offset:expr, $factor:expr) => {
        product!(
            $features,
            $name,
            $codes,
            Scales::Halves,
            $read,
            (halves $sums),
            |parts, i, h| -> HalfLine { half_scales(parts, i, h, $offset as f32, $factor) },
            |w, s, x| scaled_sum::<$sums>(&w, s.1, x),
            |acc, sum| add_halves(acc, s.0, sum, x, s.2)
        );
    };
}

/// A format with a scale and a minimum of four bits per half piece in units of eight pieces.
macro_rules! half_offsets {
    ($features:literal, $name:ident, $codes:expr, $read:expr, $sums:tt) => {
        product!(
            $features,
            $name,
            $codes,
            Scales::HalvesMin,
            $read,
            (halves $sums),
            |parts, i, h| -> HalfLine { half_minima(parts, i, h) },
            |w, s, x| scaled_sum::<$sums>(&w, s.1, x),
            |acc, sum| add_halves(acc, s.0, sum, x, s.2)
        );
    };
}
