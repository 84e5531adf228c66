//! Writes a GGUF file again with its matrices in another number format.
//!
//! `cargo run --release --example quantize -- IN.gguf OUT.gguf FORMAT`
//!
//! FORMAT is a format that Ember can write (`Q4_0`, `Q8_0`, `Q4_K`, `F16`, …) or the mixture `Q4_K_M`. Vectors, norms
//! and routers stay as they are. A file that is quantized already loses twice: good enough to measure speed.
#![allow(clippy::print_stdout, reason = "a command-line tool reports to its user")]

pub mod mixture;

use std::error::Error;
use std::path::Path;

use ember::gguf::writer::Writer;
use ember::gguf::{Gguf, TensorInfo, TensorType};
use ember::quant::{Format, FormatInfo};
use mixture::Target;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [input, output, format] = args.as_slice() else {
        return Err("usage: quantize IN.gguf OUT.gguf FORMAT".into());
    };
    let file = Gguf::open(Path::new(input))?;
    quantize(&file, Target::parse(format)?)?.write(Path::new(output))?;
    println!("{output}: {} tensors, {format}", file.tensors().len());
    Ok(())
}

/// The file again, with other matrices.
pub fn quantize(file: &Gguf, target: Target) -> Result<Writer, Box<dyn Error>> {
    let architecture = file.metadata().require_str("general.architecture")?;
    let n_layer = file.metadata().require_u32(&format!("{architecture}.block_count"))? as usize;
    let tied = file.tensor("output.weight").is_none();
    let mut out = Writer::new();
    for (key, value) in file.metadata().iter() {
        // A split file becomes one; the keys that describe its parts are written anew.
        if !key.starts_with("split.") && !["general.file_type", "general.alignment"].contains(&key) {
            out.set(key, value.clone());
        }
    }
    out.set("general.file_type", target.file_type());
    for tensor in file.tensors() {
        let format = target.format_of(&tensor.name, tensor.dims[0], n_layer, tied);
        let kept = !mixture::is_quantized(&tensor.name, tensor.dims.len());
        let (ty, data) = match kept || format.info().tensor_type == tensor.ty.0 {
            true => (tensor.ty, file.tensor_bytes(tensor).to_vec()),
            false => (TensorType(format.info().tensor_type), convert(file, tensor, format)?),
        };
        out.tensor(&tensor.name, ty, &tensor.dims, data);
    }
    Ok(out)
}

/// The tensor's values in `format`.
fn convert(file: &Gguf, tensor: &TensorInfo, format: Format) -> Result<Vec<u8>, Box<dyn Error>> {
    let from = Format::from_tensor_type(tensor.ty).ok_or_else(|| {
        format!("the tensor {:?} has the type {}, which Ember cannot read", tensor.name, tensor.ty)
    })?;
    let FormatInfo { dequantize, .. } = from.info();
    let (row_len, bytes) = (tensor.dims[0], file.tensor_bytes(tensor));
    let row_bytes = from.row_bytes(row_len);
    Ok(mixture::make_rows(format, bytes.len() / row_bytes, row_len, |i, values| {
        dequantize(&bytes[i * row_bytes..][..row_bytes], values);
    }))
}
