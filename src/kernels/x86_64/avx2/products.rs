//! Products with packed weights, eight rows at a time, one in each 32-bit lane: the loops, which every level with registers
//! of 256 bits compiles for its instructions. The codes of a piece stay in eight registers while they are multiplied with one
//! vector of activations after another, whose quads are broadcast to all lanes. Integer sums are exact.
#![forbid(unsafe_code)]

/// The packed products of a level: its table, and a module for each format, but for those with codes of eight bits, `q8_0`,
/// `iq4_nl` and `iq4_xs`, which the level adds.
///
/// The level brings `sum::<SUMS>(codes, x)`, the sums over a piece, and `scaled_sum::<SUMS>(codes, scales, x)`, those over its
/// halves times their scales, which stand in both halves of each lane. `SUMS` products of pairs fit 16 bits. Its `run` calls
/// what was compiled for its instructions.
macro_rules! packed_products {
    ($features:literal) => {
        use crate::kernels::PackedProduct;
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
            table
        };

        scaled!($features, q4_0, Codes::U4, nibbles, 8, 8, Scales::F16, load_f16);
        scaled!($features, q5_0, Codes::U5, five_bits, 4, 16, Scales::F16, load_f16);
        scaled!($features, mxfp4, Codes::U4, e2m1, 4, 12, Scales::Bf16, load_bf16);
        offset!($features, q4_1, Codes::U4, nibbles, 8);
        offset!($features, q5_1, Codes::U5, five_bits, 4);
        super_blocks!($features, q4_k, Codes::U4, nibbles, 8);
        super_blocks!($features, q5_k, Codes::U5, five_bits, 4);
        half_offsets!($features, q2_k, Codes::U2, two_bits, 4);
        halves!($features, q3_k, Codes::U4, nibbles, 4, 4);
        halves!($features, q6_k, Codes::U6, six_bits, 2, 32);
    };
}

/// One module per format: what is read of a half's piece `i`, and what that adds for each vector, in one or more steps.
macro_rules! product {
    (
        $features:literal, $name:ident, $codes:expr, $scales:expr,
        |$parts:ident, $i:ident, $h:ident| $load:expr,
        |$piece:ident, $s:ident| { $($w:ident = $read:expr => |$acc:ident, $x:ident| $add:expr;)+ }
    ) => {
        mod $name {
            use super::*;

            /// The product of this format.
            pub fn product(group: &Group<'_>, x: &[Q8Block], out: &mut [f32]) {
                let (parts, n) = (Parts::of(group, $codes, $scales), group.n_pieces);
                let add: AddPieces = match out.len() {
                    ROWS => add_pieces::<true>,
                    _ => add_pieces::<false>,
                };
                run(add, &parts, n, x, out);
            }

            /// Adds up the products of all pieces; the sums of a `SINGLE` vector stay in registers.
            #[target_feature(enable = $features)]
            fn add_pieces<const SINGLE: bool>($parts: &Parts<'_>, n: usize, x: &[Q8Block], out: &mut [f32]) {
                let out = out.as_chunks_mut::<LANES>().0;
                if !SINGLE {
                    out.fill([0.0; LANES]);
                }
                let mut single = [_mm256_setzero_ps(); 2];
                for $i in 0..n {
                    $parts.prefetch($i, $codes.bytes() + $scales.bytes_with_units(), SINGLE);
                    let piece = &$parts.codes[$i * $codes.bytes()..][..$codes.bytes()];
                    for $h in 0..2 {
                        let ($piece, $s) = ((piece, $h), $load);
                        $({
                            let $w = $read;
                            if SINGLE {
                                let ($x, $acc) = (&x[$i], single[$h]);
                                single[$h] = $add;
                            } else {
                                for (x, out) in x.chunks_exact(n).zip(out.as_chunks_mut::<2>().0) {
                                    let ($x, out) = (&x[$i], &mut out[$h]);
                                    let $acc = load_f32(out);
                                    store_f32(out, $add);
                                }
                            }
                        })+
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
    ($features:literal, $name:ident, $codes:expr, $read:expr, $sums:literal, $offset:expr, $kind:expr, $scale:expr) => {
        product!(
            $features,
            $name,
            $codes,
            $kind,
            |parts, i, h| {
                let d = $scale(&parts.scales[i * 32 + 16 * h..]);
                (d, _mm256_mul_ps(d, _mm256_set1_ps(-($offset as f32))))
            },
            |piece, s| {
                w = $read(piece.0, piece.1) => |acc, x| add_with_minimum(acc, s, sum::<$sums>(&w, x), x);
            }
        );
    };
}

/// As [`scaled`] with codes of eight bits, of which the low nibbles are multiplied first.
macro_rules! scaled_wide {
    ($features:literal, $name:ident, $codes:expr, $low:expr, $high:expr, $offset:expr) => {
        product!(
            $features,
            $name,
            $codes,
            Scales::F16,
            |parts, i, h| {
                let d = load_f16(&parts.scales[i * 32 + 16 * h..]);
                (d, _mm256_mul_ps(d, _mm256_set1_ps(-($offset as f32))))
            },
            |piece, s| {
                w = $low(piece.0, piece.1) =>
                    |acc, x| add_with_minimum(acc, s, sum::<8>(&w, x), x);
                w = $high(piece.0, piece.1) =>
                    |acc, x| add_sum(acc, s.0, _mm256_slli_epi32::<4>(sum::<8>(&w, x)), x);
            }
        );
    };
}

/// A format with a scale and a minimum per piece: `d * x.d * Σ code·x + m * x.sum`.
macro_rules! offset {
    ($features:literal, $name:ident, $codes:expr, $read:expr, $sums:literal) => {
        product!(
            $features,
            $name,
            $codes,
            Scales::F16Min,
            |parts, i, h| {
                let scales = &parts.scales[i * 64 + 16 * h..];
                (load_f16(scales), load_f16(&scales[32..]))
            },
            |piece, s| {
                w = $read(piece.0, piece.1) => |acc, x| add_with_minimum(acc, s, sum::<$sums>(&w, x), x);
            }
        );
    };
}

/// A format with a scale and a minimum per piece in units of eight pieces.
macro_rules! super_blocks {
    ($features:literal, $name:ident, $codes:expr, $read:expr, $sums:literal) => {
        product!(
            $features,
            $name,
            $codes,
            Scales::Super,
            |parts, i, h| {
                let (units, scales) = (&parts.units[i / 8 * 64 + 16 * h..], &parts.scales[i * 32 + 8 * h..]);
                let m = _mm256_mul_ps(load_f16(&units[32..]), load_u8(&scales[16..]));
                (_mm256_mul_ps(load_f16(units), load_u8(scales)), _mm256_sub_ps(_mm256_setzero_ps(), m))
            },
            |piece, s| {
                w = $read(piece.0, piece.1) => |acc, x| add_with_minimum(acc, s, sum::<$sums>(&w, x), x);
            }
        );
    };
}

/// A format with a signed scale per half piece in units of eight pieces.
macro_rules! halves {
    ($features:literal, $name:ident, $codes:expr, $read:expr, $sums:literal, $offset:expr) => {
        product!(
            $features,
            $name,
            $codes,
            Scales::Halves,
            |parts, i, h| half_scales(parts, i, h, $offset as f32),
            |piece, s| {
                w = $read(piece.0, piece.1) =>
                    |acc, x| add_halves(acc, s.0, scaled_sum::<$sums>(&w, s.1, x), x, s.2);
            }
        );
    };
}

/// As [`halves`] with codes of eight bits.
macro_rules! halves_wide {
    ($features:literal, $name:ident, $codes:expr, $low:expr, $high:expr, $offset:expr) => {
        product!(
            $features,
            $name,
            $codes,
            Scales::Halves,
            |parts, i, h| half_scales(parts, i, h, $offset as f32),
            |piece, s| {
                w = $low(piece.0, piece.1) =>
                    |acc, x| add_halves(acc, s.0, scaled_sum::<4>(&w, s.1, x), x, s.2);
                w = $high(piece.0, piece.1) =>
                    |acc, x| add_sum(acc, s.0, _mm256_slli_epi32::<4>(scaled_sum::<4>(&w, s.1, x)), x);
            }
        );
    };
}

/// A format with a scale and a minimum of four bits per half piece in units of eight pieces.
macro_rules! half_offsets {
    ($features:literal, $name:ident, $codes:expr, $read:expr, $sums:literal) => {
        product!(
            $features,
            $name,
            $codes,
            Scales::HalvesMin,
            |parts, i, h| half_minima(parts, i, h),
            |piece, s| {
                w = $read(piece.0, piece.1) =>
                    |acc, x| add_halves(acc, s.0, scaled_sum::<$sums>(&w, s.1, x), x, s.2);
            }
        );
    };
}
