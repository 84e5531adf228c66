use super::*;
use crate::quant::FORMATS;
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
    for (kernels, n) in tables().flat_map(|k| [0, 32, 4096].map(|n| (k, n))) {
        let x = noise(n, 5);
        let (mut got, mut expected) = (vec![Q8Block::ZERO; n / 32], vec![Q8Block::ZERO; n / 32]);
        (kernels.quantize_activations)(&x, &mut got);
        crate::quant::quantize_activations(&x, &mut expected);
        assert_eq!(got, expected);
    }
}

#[test]
fn packed_products_agree_with_each_formats_definition() {
    for (kernels, info) in tables().flat_map(|k| FORMATS.iter().map(move |info| (k, info))) {
        let (Some(product), Some(packing)) = (kernels.packed[info.format as usize], info.packing) else {
            continue;
        };
        let Dot::Q8(definition) = info.dot else { panic!("{} has no integer product", info.name) };
        for (n_cols, n_rows, n_tokens) in [(32, 16, 1), (64, 3, 9), (288, 16, 2), (4096, 16, 13), (512, 1, 0)]
        {
            let n_cols: usize = n_cols;
            let n_cols = n_cols.next_multiple_of(info.block_len);
            let rows = sample_row(info, n_rows * n_cols, 3);
            let row_bytes = rows.len() / n_rows;
            let mut bytes = vec![0xAA; packing.group_bytes(n_cols)];
            packing.pack(info, rows.chunks(row_bytes), n_cols, &mut bytes);
            let n_pieces = n_cols / 32;
            let mut x = vec![Q8Block::ZERO; n_tokens * n_pieces];
            (kernels.quantize_activations)(&noise(n_tokens * n_cols, 4), &mut x);
            let mut out = vec![f32::NAN; n_tokens * 16];
            let group = Group { format: info.format, bytes: &bytes, n_pieces };
            product(&group, &x, &mut out);
            for (t, x) in x.chunks(n_pieces).enumerate() {
                let magnitude: f32 = x.iter().map(|b| b.d * 127.0 * 32.0).sum();
                for r in 0..16 {
                    let row = rows.chunks(row_bytes).nth(r);
                    let expected = row.map_or(0.0, |row| definition(row, x));
                    let got = out[t * 16 + r];
                    assert!(
                        (got - expected).abs() <= 1e-6 * magnitude,
                        "{} {n_rows}x{n_cols}, row {r}, vector {t}: {got} {expected}",
                        info.name
                    );
                }
            }
        }
    }
}
