//! Converts a BERT encoder from a Hugging Face folder to a GGUF file in F16, laid out as llama.cpp's converter does it:
//! matrices in F16; norms, biases and the tables of positions and token types in F32.
//!
//!     cargo run --release --example bert_to_gguf -- FOLDER OUT.gguf
#![allow(clippy::print_stdout, reason = "a command-line tool reports to its user")]

use std::error::Error;
use std::path::Path;

use ember::gguf::writer::Writer;
use ember::gguf::{Gguf, TensorInfo, TensorType};
use half::f16;
use half::slice::HalfFloatSliceExt;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, out] = args.as_slice() else {
        return Err("usage: bert_to_gguf FOLDER OUT.gguf".into());
    };
    convert(Path::new(folder))?.write(Path::new(out))?;
    println!("{out}: written");
    Ok(())
}

/// The GGUF file of the model in `folder`.
pub fn convert(folder: &Path) -> Result<Writer, Box<dyn Error>> {
    let model = ember::hf::open(folder, true)?.gguf;
    let mut file = Writer::new();
    for (key, value) in model.metadata().iter() {
        file.set(key, value.clone());
    }
    file.set("general.name", &*folder.file_name().unwrap_or_default().to_string_lossy());
    file.set("general.file_type", 1u32); // mostly F16
    for tensor in model.tensors() {
        let (ty, data) = if becomes_f16(tensor) {
            (TensorType::F16, rounded(&model, tensor))
        } else {
            (tensor.ty, model.tensor_bytes(tensor).to_vec())
        };
        file.tensor(&tensor.name, ty, &tensor.dims, data);
    }
    Ok(file)
}

fn becomes_f16(tensor: &TensorInfo) -> bool {
    let is_table = ["position_embd.weight", "token_types.weight"].contains(&&*tensor.name);
    tensor.ty == TensorType::F32 && tensor.dims.len() == 2 && !is_table
}

/// The bytes of a float32 tensor as float16, to the nearest.
fn rounded(model: &Gguf, tensor: &TensorInfo) -> Vec<u8> {
    let bytes = model.tensor_bytes(tensor).chunks_exact(4);
    let floats: Vec<f32> = bytes.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let mut halves = vec![f16::ZERO; floats.len()];
    halves.convert_from_f32_slice(&floats);
    halves.iter().flat_map(|h| h.to_le_bytes()).collect()
}
