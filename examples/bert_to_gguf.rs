//! Converts a BERT encoder from a Hugging Face folder to a GGUF file in F16, laid out as llama.cpp's converter does it:
//! matrices in F16; norms, biases and the tables of positions and token types in F32.
//!
//!     cargo run --release --example bert_to_gguf -- FOLDER OUT.gguf
#![allow(clippy::print_stdout, reason = "a command-line tool reports to its user")]

use std::error::Error;
use std::path::Path;

use ember::gguf::writer::Writer;
use ember::gguf::{Gguf, StringArray, TensorInfo, TensorType};
use half::f16;
use half::slice::HalfFloatSliceExt;

/// Tokens with a role, and the key that names them.
const CONTROL: [(&str, &str); 5] = [
    ("[UNK]", "unknown"),
    ("[CLS]", "cls"),
    ("[SEP]", "seperator"), // the specification spells it so
    ("[PAD]", "padding"),
    ("[MASK]", "mask"),
];

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
    write_vocabulary(&mut file, &std::fs::read_to_string(folder.join("vocab.txt"))?)?;
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

/// Writes the vocabulary, a token a line. In GGUF tokens that begin a word have a mark and the others no `##`.
fn write_vocabulary(file: &mut Writer, vocabulary: &str) -> Result<(), Box<dyn Error>> {
    let tokens: Vec<&str> = vocabulary.lines().collect();
    let is_control = |token: &str| CONTROL.iter().any(|(name, _)| *name == token);
    let written = |token: &&str| match token.strip_prefix("##") {
        _ if is_control(token) => (*token).to_owned(),
        Some(rest) => rest.to_owned(),
        None => format!("\u{2581}{token}"),
    };
    file.set("tokenizer.ggml.model", "bert");
    file.set("tokenizer.ggml.pre", "bert-bge"); // the name that llama.cpp knows this vocabulary by
    file.set("tokenizer.ggml.tokens", StringArray::copy(&tokens.iter().map(written).collect::<Vec<_>>())?);
    let types = tokens.iter().map(|token| if is_control(token) { 3i32 } else { 1 });
    file.set("tokenizer.ggml.token_type", types.collect::<Vec<i32>>());
    for (name, key) in CONTROL {
        let id = tokens.iter().position(|token| *token == name);
        let id = id.ok_or_else(|| format!("vocab.txt has no {name}"))?;
        file.set(&format!("tokenizer.ggml.{key}_token_id"), id as u32);
    }
    Ok(())
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
