use super::*;
use crate::quant::FORMATS;
use crate::quant::pack::Rows;
use crate::quant::packed::Group;
use crate::quant::tests::sample_row;

#[test]
fn dots() {
    for (kernels, n) in tables().flat_map(|k| LENGTHS.map(|n| (k, n))) {
        let (a, b) = (noise(n, 1), noise(n, 2));
        let products: Vec<f64> = a.iter().zip(&b).map(|(&a, &b)| f64::from(a) * f64::from(b)).collect();
        let magnitude: f64 = products.iter().map(|p| p.abs()).sum();
        assert_close((kernels.dot_f32)(&a, &b), products.iter().sum(), 3e-7 * magnitude, &format!("n = {n}"));
    }
}

#[test]
fn tiles_of_dots_have_the_same_bits_as_single_ones() {
    for (kernels, n) in tables().flat_map(|k| [1, 8, 31, 64, 100, 256].map(|n| (k, n))) {
        for (n_rows, n_vectors) in [(1, 1), (4, 3), (9, 5), (3, 8), (17, 2), (8, 1)] {
            let (rows, x) = (noise(n_rows * n, 1), noise(n_vectors * n, 2));
            let mut out = vec![f32::NAN; n_rows * n_vectors];
            (kernels.dots_f32)(&rows, &x, n, &mut out);
            for (t, x) in x.chunks(n).enumerate() {
                for (r, row) in rows.chunks(n).enumerate() {
                    assert_eq!(out[t * n_rows + r].to_bits(), (kernels.dot_f32)(row, x).to_bits());
                }
            }
        }
        (kernels.dots_f32)(&[], &[], n, &mut []);
    }
}

#[test]
fn half_precision_is_widened_and_narrowed_exactly() {
    for (kernels, n) in tables().flat_map(|k| LENGTHS.map(|n| (k, n))) {
        // Every size of number, odd addresses, and at the start what is not finite, subnormal or a tie.
        let mut x = noise(n, 7);
        x.iter_mut().enumerate().for_each(|(i, x)| *x *= 2f32.powi(i as i32 % 50 - 30));
        let odd = [f32::INFINITY, -0.0, 65520.0, 65519.9, 1.000_488_3, 1.001_464_8, 5.96e-8, 2.9e-8];
        x.iter_mut().zip(odd).for_each(|(x, odd)| *x = odd);
        let mut narrow = vec![f16::ZERO; n];
        (kernels.narrow_f16)(&x, &mut narrow);
        assert_eq!(narrow, halves(&x));
        for format in [crate::quant::Format::F16, crate::quant::Format::BF16] {
            let mut row = vec![0; 2 * n + 1];
            (format.info().quantize.unwrap())(&x, &mut row[1..]);
            let (mut got, mut expected) = (vec![0.0; n], vec![0.0; n]);
            (kernels.expand[format as usize])(&row[1..], &mut got);
            (format.info().dequantize)(&row[1..], &mut expected);
            assert_eq!(got, expected);
        }
    }
}

#[test]
fn the_scalar_sum_order_is_the_documented_one() {
    let (a, b) = (noise(1000, 1), noise(1000, 2));
    let mut lanes = [0.0f32; 16];
    for i in 0..1000 {
        lanes[i % 16] += a[i] * b[i];
    }
    for width in [8, 4, 2, 1] {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
    }
    assert_eq!((scalar::SCALAR.dot_f32)(&a, &b).to_bits(), lanes[0].to_bits());
}

#[test]
fn packed_dots_agree_with_each_formats_definition() {
    for (kernels, info) in tables().flat_map(|k| FORMATS.iter().map(move |info| (k, info))) {
        let (Dot::Q8(dot), Dot::Q8(definition)) = (kernels.dot[info.format as usize], info.dot) else {
            assert!(matches!(info.dot, Dot::F32), "{}", info.name);
            continue;
        };
        for n in [0, 32, 64, 96, 256, 288, 4096].map(|n: usize| n.next_multiple_of(info.block_len)) {
            let row = sample_row(info, n, 3);
            let mut x = vec![Q8Block::ZERO; n / Q8Block::LEN];
            (kernels.quantize_activations)(&noise(n, 4), &mut x);
            let magnitude: f32 = x.iter().map(|b| b.d * 127.0 * 32.0).sum();
            let (got, expected) = (dot(&row, &x), definition(&row, &x));
            assert!((got - expected).abs() <= 1e-6 * magnitude, "{} n = {n}: {got} {expected}", info.name);
        }
    }
}

#[test]
fn activation_blocks_have_the_same_bits_on_every_level() {
    for (kernels, n) in tables().flat_map(|k| [0, 32, 512, 4096, 4096 + 96].map(|n| (k, n))) {
        let mut x = noise(n, 5);
        // Halves, which are rounded away from zero, and no sign of what is zero.
        x.iter_mut().skip(1024).take(512).for_each(|x| *x = (*x * 254.0).round() / 2.0);
        for (i, odd) in [f32::NAN, f32::INFINITY, 1e-42, -0.0, 1e38].into_iter().enumerate() {
            // Blocks of different sizes, one of zeros, and some with numbers that are not.
            x.iter_mut().skip(64 * i).take(32).for_each(|x| *x *= [1e-40, 0.0, 1e30, 1e3, 1e-3][i]);
            x.iter_mut().skip(64 * i + 37).take(1).for_each(|x| *x = odd);
        }
        let (mut got, mut expected) = (vec![Q8Block::ZERO; n / 32], vec![Q8Block::ZERO; n / 32]);
        (kernels.quantize_activations)(&x, &mut got);
        crate::quant::quantize_activations(&x, &mut expected);
        let bits = |blocks: &[Q8Block]| bytemuck::cast_slice::<Q8Block, u8>(blocks).to_vec();
        assert_eq!(bits(&got), bits(&expected), "{}", kernels.isa.name());
    }
}

#[test]
fn packed_products_agree_with_each_formats_definition() {
    for (kernels, info) in tables().flat_map(|k| FORMATS.iter().map(move |info| (k, info))) {
        let (Some(product), Some(packing)) =
            (kernels.packed_product(info.format), kernels.packing(info.format))
        else {
            continue;
        };
        let Dot::Q8(definition) = info.dot else { panic!("{} has no integer product", info.name) };
        let shapes =
            [(32, 16, 1), (64, 3, 9), (288, 16, 2), (4096, 16, 13), (512, 1, 0), (96, 15, 16), (544, 16, 37)];
        for (n_cols, n_rows, n_tokens) in shapes {
            let n_cols = usize::next_multiple_of(n_cols, info.block_len);
            let rows = sample_row(info, n_rows * n_cols, 3);
            let row_bytes = rows.len() / n_rows;
            let mut bytes = vec![0xAA; packing.group_bytes(n_cols)];
            kernels.pack(info.format, &Rows { bytes: &rows, row_bytes }, &mut bytes);
            let n_pieces = n_cols / 32;
            let mut x = vec![Q8Block::ZERO; n_tokens * n_pieces];
            let mut activations = noise(n_tokens * n_cols, 4);
            if n_tokens > 2 {
                // The largest sums, those of the opposite sign, and a block whose scale is infinite.
                activations[..n_cols].fill(1.0);
                activations[n_cols..2 * n_cols].fill(-1.0);
                activations[3 * n_cols - 1] = f32::INFINITY;
            }
            (kernels.quantize_activations)(&activations, &mut x);
            let mut out = vec![f32::NAN; n_tokens * 16];
            let group = Group::alone(info.format, &bytes, n_pieces);
            product(&group, &x, &mut out);
            let mut expanded = vec![0.0; n_cols];
            for (t, x) in x.chunks(n_pieces).enumerate() {
                for r in 0..16 {
                    let row = rows.chunks(row_bytes).nth(r);
                    (info.dequantize)(row.unwrap_or(&vec![0; row_bytes]), &mut expanded);
                    // Activations are at most 1.
                    let magnitude: f32 = expanded.iter().map(|w| w.abs()).sum();
                    let expected = row.map_or(0.0, |row| definition(row, x));
                    let got = out[t * 16 + r];
                    let agree = match expected.is_nan() {
                        true => got.is_nan(),
                        false => (got - expected).abs() <= 3e-6 * magnitude,
                    };
                    let infinite = x.iter().any(|block| block.d.is_infinite());
                    assert!(
                        agree || infinite && row.is_none(),
                        "{} {n_rows}x{n_cols}, row {r}, vector {t}: {got} {expected}",
                        info.name
                    );
                }
            }
        }
    }
}

#[test]
fn rows_are_packed_to_the_same_bytes_on_every_level() {
    for (kernels, info) in tables().flat_map(|k| FORMATS.iter().map(move |info| (k, info))) {
        let (Some(pack), Some(packing)) = (kernels.pack[info.format as usize], info.packing) else {
            continue;
        };
        // Every pattern of bits: units that are no numbers too.
        for (n_blocks, n_rows) in [(1, 16), (9, 16), (2, 15), (3, 1), (1, 0), (40, 16)] {
            let n_cols = n_blocks * info.block_len;
            let row_bytes = info.format.row_bytes(n_cols);
            let mut state = 5u64;
            let mut byte = || {
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                (state >> 56) as u8
            };
            let rows: Vec<u8> = (0..n_rows * row_bytes).map(|_| byte()).collect();
            let rows = Rows { bytes: &rows, row_bytes };
            let [mut got, mut expected] = [0xAA; 2].map(|byte| vec![byte; packing.group_bytes(n_cols)]);
            pack(&rows, kernels.transpose, &mut got);
            (packing.pack)(&rows, crate::quant::pack::transpose, &mut expected);
            let differs = got.iter().zip(&expected).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{}, {n_rows} rows of {n_blocks} blocks", info.name);
        }
    }
}

#[test]
fn rows_in_place_give_the_bits_of_packed_rows() {
    for (kernels, info) in tables().flat_map(|k| FORMATS.iter().map(move |info| (k, info))) {
        let (Some(in_place), Some(product)) =
            (kernels.rows[info.format as usize], kernels.packed_product(info.format))
        else {
            continue;
        };
        let packing = kernels.packing(info.format).expect("a packed product has a packing");
        for (n_blocks, n_rows) in [(1, 16), (3, 16), (2, 9), (2, 1)] {
            let n_cols = n_blocks * info.block_len;
            let rows = sample_row(info, n_rows * n_cols, 11);
            let rows = Rows { bytes: &rows, row_bytes: info.format.row_bytes(n_cols) };
            let mut bytes = vec![0; packing.group_bytes(n_cols)];
            kernels.pack(info.format, &rows, &mut bytes);
            let mut x = vec![Q8Block::ZERO; n_cols / 32];
            (kernels.quantize_activations)(&noise(n_cols, 12), &mut x);
            let (mut got, mut expected) = ([f32::NAN; 16], [f32::NAN; 16]);
            in_place(&rows, &x, &mut got);
            product(&Group::alone(info.format, &bytes, n_cols / 32), &x, &mut expected);
            let bits = |out: [f32; 16]| out.map(f32::to_bits);
            assert_eq!(bits(got), bits(expected), "{} {n_rows}x{n_cols}, {}", info.name, kernels.isa.name());
        }
    }
}

#[test]
fn packed_products_have_the_same_bits_for_any_number_of_vectors() {
    for (kernels, info) in tables().flat_map(|k| FORMATS.iter().map(move |info| (k, info))) {
        let (Some(product), Some(packing)) =
            (kernels.packed_product(info.format), kernels.packing(info.format))
        else {
            continue;
        };
        for n_cols in [32, 64, 96, 160, 1280].map(|n: usize| n.next_multiple_of(info.block_len)) {
            let (n_pieces, n_tokens) = (n_cols / 32, 50);
            let rows = sample_row(info, 16 * n_cols, 7);
            let mut bytes = vec![0; packing.group_bytes(n_cols)];
            let row_bytes = rows.len() / 16;
            kernels.pack(info.format, &Rows { bytes: &rows, row_bytes }, &mut bytes);
            let group = Group::alone(info.format, &bytes, n_pieces);
            let mut x = vec![Q8Block::ZERO; n_tokens * n_pieces];
            (kernels.quantize_activations)(&noise(n_tokens * n_cols, 8), &mut x);
            let mut single = vec![f32::NAN; n_tokens * 16];
            for (x, out) in x.chunks(n_pieces).zip(single.chunks_mut(16)) {
                product(&group, x, out);
            }
            for n in [2, 7, 8, 15, 16, 17, 31, 32, 48, 50] {
                let mut out = vec![f32::NAN; n * 16];
                product(&group, &x[..n * n_pieces], &mut out);
                let equal = out.iter().zip(&single).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(equal, "{} {n_cols} columns, {n} vectors", info.name);
            }
        }
    }
}

#[test]
fn pairs_of_groups_give_the_bits_of_the_groups() {
    let mut n_pairs = 0;
    for (kernels, info) in tables().flat_map(|k| FORMATS.iter().map(move |info| (k, info))) {
        let format = info.format as usize;
        let (Some(pair), Some(product), Some(packing)) =
            (kernels.pairs[format], kernels.packed[format], info.packing)
        else {
            assert!(kernels.pairs[format].is_none(), "{}: a pair of what is not packed", info.name);
            continue;
        };
        n_pairs += 1;
        for n_cols in [32, 96, 288, 1280].map(|n: usize| n.next_multiple_of(info.block_len)) {
            let n_pieces = n_cols / 32;
            let rows = sample_row(info, 32 * n_cols, 9);
            let row_bytes = rows.len() / 32;
            let packed = [0, 1].map(|g| {
                let mut bytes = vec![0; packing.group_bytes(n_cols)];
                let rows = Rows { bytes: &rows[g * 16 * row_bytes..][..16 * row_bytes], row_bytes };
                (packing.pack)(&rows, kernels.transpose, &mut bytes);
                bytes
            });
            let [low, high] = packed.each_ref().map(|bytes| Group::alone(info.format, bytes, n_pieces));
            for n in [0, 1, 4, 5, 6, 7, 13, 24, 64, 95] {
                let mut x = vec![Q8Block::ZERO; n * n_pieces];
                (kernels.quantize_activations)(&noise(n * n_cols, 10), &mut x);
                let [mut single, mut double] =
                    [0, 1].map(|_| [vec![f32::NAN; n * 16], vec![f32::NAN; n * 16]]);
                product(&low, &x, &mut single[0]);
                product(&high, &x, &mut single[1]);
                pair([&low, &high], &x, double.each_mut().map(|out| &mut out[..]));
                let bits = |out: &[Vec<f32>; 2]| out.concat().iter().map(|y| y.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&single), bits(&double), "{} {n_cols} columns, {n} vectors", info.name);
            }
        }
    }
    assert_eq!(n_pairs > 0, Isa::supported().any(|isa| isa == Isa::Avx512), "{n_pairs} products with pairs");
}

#[test]
fn packed_numbers_agree_with_the_expanded_rows() {
    for (kernels, info) in tables().flat_map(|k| FORMATS.iter().map(move |info| (k, info))) {
        let (Some(product), Some(packing)) = (kernels.packed_numbers(info.format), info.packing) else {
            continue;
        };
        for (n_cols, n_rows) in [(32, 16), (64, 3), (288, 96), (4096, 80), (96, 1), (544, 40)] {
            let all = sample_row(info, n_rows * n_cols, 3);
            let row_bytes = all.len() / n_rows;
            let rows: Vec<&[u8]> = all.chunks(row_bytes).collect();
            let group_bytes = packing.group_bytes(n_cols);
            let mut bytes = vec![0xAAu8; rows.len().div_ceil(16) * group_bytes + 64];
            let aligned = bytes.as_ptr().align_offset(64);
            let groups = &mut bytes[aligned..aligned + rows.len().div_ceil(16) * group_bytes];
            for (bytes, group) in all.chunks(16 * row_bytes).zip(groups.chunks_exact_mut(group_bytes)) {
                (packing.pack)(&Rows { bytes, row_bytes }, kernels.transpose, group);
            }
            let x = noise(50 * n_cols, 4);
            let mut single = vec![vec![f32::NAN; n_rows]; 50];
            let mut expanded = vec![0.0; n_cols];
            for (x, out) in x.chunks(n_cols).zip(&mut single) {
                product(groups, x, n_cols, out);
                for (row, out) in rows.iter().zip(out) {
                    (info.dequantize)(row, &mut expanded);
                    let exact: f64 = expanded.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                    let magnitude: f32 = expanded.iter().zip(x).map(|(w, x)| (w * x).abs()).sum();
                    assert!((*out - exact as f32).abs() <= 1e-5 * magnitude, "{}: {out} {exact}", info.name);
                }
            }
            for n in [0, 2, 3, 4, 5, 6, 7, 11, 12, 13, 25, 50] {
                for (g, group) in groups.chunks_exact(group_bytes).enumerate() {
                    let mut out = vec![f32::NAN; n * 16];
                    product(group, &x[..n * n_cols], n_cols, &mut out);
                    for (single, out) in single.iter().zip(out.chunks(16)) {
                        let rows = &single[16 * g..n_rows.min(16 * g + 16)];
                        let equal = rows.iter().zip(out).all(|(a, b)| a.to_bits() == b.to_bits());
                        assert!(equal, "{} {n_rows}x{n_cols}, {n} vectors", info.name);
                    }
                }
                // All groups in one call, and those but the last.
                for n_groups in [n_rows.div_ceil(16), n_rows.div_ceil(16) - 1] {
                    if n < 2 || n_groups == 0 {
                        continue;
                    }
                    let mut out = vec![f32::NAN; n_groups * n * 16];
                    product(&groups[..n_groups * group_bytes], &x[..n * n_cols], n_cols, &mut out);
                    for (g, out) in out.chunks(n * 16).enumerate() {
                        for (single, out) in single.iter().zip(out.chunks(16)) {
                            let rows = &single[16 * g..n_rows.min(16 * g + 16)];
                            let equal = rows.iter().zip(out).all(|(a, b)| a.to_bits() == b.to_bits());
                            assert!(equal, "{} {n_rows}x{n_cols}, {n} vectors, group {g}", info.name);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn words_of_rows_come_to_lie_side_by_side() {
    // Whole groups and parts of one, rows with words left over, from odd bytes on, up to and beyond the end of a row.
    for (kernels, n_rows, row_bytes) in tables()
        .flat_map(|k| [(16, 34), (16, 210), (5, 34), (16, 16), (1, 7), (0, 0)].map(|(n, b)| (k, n, b)))
    {
        let bytes: Vec<u8> = (0..n_rows * row_bytes).map(|i| (i * 7 + i / 251) as u8).collect();
        let rows = Rows { bytes: &bytes, row_bytes };
        for (at, n_words) in
            [(0, 0), (0, 1), (0, 4), (2, 8), (1, 5), (3, 7), (18, 4), (19, 4), (50, 40), (300, 4)]
        {
            let mut got = vec![0xAA; 64 * n_words];
            (kernels.transpose)(&rows, at, &mut got);
            for (i, byte) in got.into_iter().enumerate() {
                let (j, r, k) = (i / 64, i % 64 / 4, i % 4);
                let column = at + 4 * j;
                let there = r < n_rows && column + 4 <= row_bytes;
                let expected = if there { bytes[r * row_bytes + column + k] } else { 0 };
                assert_eq!(byte, expected, "{} {n_rows}x{row_bytes} word {j} of row {r}", kernels.isa.name());
            }
        }
    }
}

/// Every format has integer products on each level that has vectors.
#[test]
fn every_format_of_codes_has_integer_products_on_every_level() {
    use Format::*;
    let numbers = [F32, F16, BF16, F64, I8, I16, I32, I64];
    for (kernels, info) in tables().flat_map(|k| FORMATS.iter().map(move |info| (k, info))) {
        let has = matches!(kernels.dot[info.format as usize], Dot::Q8(_))
            && (kernels.isa == Isa::Scalar || kernels.packed[info.format as usize].is_some());
        assert_eq!(has, !numbers.contains(&info.format), "{}, {}", info.name, kernels.isa.name());
    }
}
