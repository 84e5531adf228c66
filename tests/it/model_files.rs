//! The examples that write model files: what they write is read back, computed with, and compared with llama.cpp's choice
//! of formats.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;
#[allow(dead_code, reason = "the example's main is not called")]
#[path = "../../examples/quantize.rs"]
mod quantize;
#[allow(dead_code, reason = "the example's main is not called")]
#[path = "../../examples/synthetic.rs"]
mod synthetic;

use common::{TempFolder, argmax, context, fixture, ids, load, real_model, relative_rms};
use ember::context::{ContextOptions, Tokens};
use ember::gguf::{Gguf, TensorInfo};
use ember::quant::Format;
use synthetic::Shape;

fn values(file: &Gguf, tensor: &TensorInfo) -> Vec<f32> {
    let mut out = vec![0.0; tensor.dims.iter().product()];
    (Format::from_tensor_type(tensor.ty).unwrap().info().dequantize)(file.tensor_bytes(tensor), &mut out);
    out
}

#[test]
fn quantized_files_keep_what_they_say() {
    let (original, original_path) = {
        let path = fixture("models/llama3-untied-biased.gguf");
        (Gguf::open(&path).unwrap(), path)
    };
    // Rows of 64 values do not divide into blocks of 256: Q4_K_M becomes Q5_0 and Q8_0; rows of 48 stay F16.
    for (name, most) in [("F16", 1e-3), ("Q8_0", 1e-2), ("Q4_0", 0.12), ("Q4_K_M", 0.06)] {
        let target = quantize::mixture::Target::parse(name).unwrap();
        let quantized = quantize::Quantized::new(&original, target).unwrap();
        let bytes = quantized.header().unwrap().to_bytes_with(|i| quantized.data(i)).unwrap();
        let file = Gguf::from_bytes(&bytes, name).unwrap();
        assert_eq!(file.metadata().require_u32("general.file_type").unwrap(), target.file_type());
        assert_eq!(file.tensors().len(), original.tensors().len());
        for (new, old) in file.tensors().iter().zip(original.tensors()) {
            assert_eq!((&new.name, new.dims), (&old.name, old.dims));
            if old.dims.len() == 1 {
                assert_eq!(file.tensor_bytes(new), original.tensor_bytes(old), "{}", new.name);
                continue;
            }
            assert_ne!(new.ty, old.ty, "{}", new.name);
            let error = relative_rms(&values(&file, new), &values(&original, old));
            assert!(error < most, "{name}: {} is off by {error}", new.name);
        }
        let folder = TempFolder::new(&format!("quantized-{name}"));
        let reference = common::read_json(&original_path.with_extension("json"));
        let tokens = ids(&reference["tokens"]);
        let model = load(&folder.write("model.gguf", bytes));
        let found = common::all_logits(&mut context(&model, &ContextOptions::default()), &tokens);
        let expected = common::read_f32s(&original_path.with_extension("logits.f32"));
        let error = relative_rms(&found, &expected);
        assert!(error < 3.0 * most, "{name}: logits are off by {error}");
    }
}

/// Gemma 3 270M in Q4_K_M was written by llama.cpp's own quantizer.
#[test]
fn the_mixture_is_that_of_llama_cpp() {
    let file = Gguf::open(&real_model("gemma-3-270m.Q4_K_M.gguf")).unwrap();
    let n_layer = file.metadata().require_u32("gemma3.block_count").unwrap() as usize;
    let mut n_matrices = 0;
    for tensor in file.tensors() {
        assert_eq!(quantize::mixture::is_quantized(&tensor.name, tensor.dims.len()), tensor.dims.len() > 1);
        if tensor.dims.len() > 1 {
            let format =
                quantize::mixture::Target::Q4KM.format_of(&tensor.name, tensor.dims[0], n_layer, true);
            assert_eq!(format.info().tensor_type, tensor.ty.0, "{} is {}", tensor.name, tensor.ty);
            n_matrices += 1;
        }
    }
    assert_eq!(n_matrices, 1 + 7 * n_layer);
}

#[test]
fn random_models_run() {
    let shape = Shape {
        n_embd: 256,
        n_layer: 3,
        n_head: 4,
        n_head_kv: 2,
        n_ff: 512,
        n_expert: 0,
        n_expert_used: 0,
        n_vocab: 300,
        n_ctx: 64,
    };
    for name in ["F32", "Q4_0", "Q4_K_M", "Q6_K", "Q8_0", "IQ1_M", "IQ2_XXS", "IQ3_S", "TQ1_0", "Q2_0"] {
        let target = synthetic::parse(name).unwrap();
        let bytes = synthetic::make(&shape, target).unwrap().to_bytes().unwrap();
        assert_eq!(bytes, synthetic::make(&shape, target).unwrap().to_bytes().unwrap(), "the same twice");
        let file = Gguf::from_bytes(&bytes, name).unwrap();
        let embeddings = file.tensor("token_embd.weight").unwrap();
        let x = values(&file, embeddings);
        let deviation = (x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32).sqrt();
        assert!((0.019..0.021).contains(&deviation), "{name}: a deviation of {deviation}");
        let mut rows: Vec<_> = file.tensor_bytes(embeddings).chunks(embeddings.n_bytes / 300).collect();
        rows.sort_unstable();
        rows.dedup();
        assert!(rows.len() > 280, "{name}: {} different rows of 300", rows.len());

        let folder = TempFolder::new(&format!("synthetic-{name}"));
        let model = load(&folder.write("model.gguf", bytes));
        let tokenizer = model.tokenizer().unwrap();
        assert_eq!(tokenizer.encode("ab", true, false).unwrap(), [1, 3 + 97, 3 + 98]);
        let mut context = context(&model, &ContextOptions::default());
        context.decode(Tokens::next(&[1, 2, 3])).unwrap();
        let logits = context.end_logits(0).unwrap();
        assert!(logits.iter().all(|x| x.is_finite()) && argmax(logits) < 300);
    }
}

#[test]
fn impossible_wishes_are_refused() {
    for name in ["", "q4_0", "IQ2_XS", "Q4_K_S"] {
        let sentence = quantize::mixture::Target::parse(name).unwrap_err().to_string();
        assert!(sentence.contains("Q4_K_M") && sentence.contains(&format!("{name:?}")), "{sentence}");
    }
    let target = synthetic::mixture::Target::parse("Q4_0").unwrap();
    let good = Shape { n_vocab: 300, n_layer: 1, ..Shape::LLAMA_1B };
    for bad in [
        Shape { n_embd: 100, ..good },
        Shape { n_head: 0, ..good },
        Shape { n_head_kv: 5, ..good },
        Shape { n_vocab: 258, ..good },
        Shape { n_layer: 0, ..good },
    ] {
        assert!(synthetic::make(&bad, target).is_err(), "{bad:?}");
    }
}
