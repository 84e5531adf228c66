//! Writes a GGUF file again with its matrices in another number format.
//!
//! `cargo run --release --example quantize -- IN.gguf OUT.gguf FORMAT`
//!
//! FORMAT is a format that Ember can write (`Q4_0`, `Q8_0`, `Q4_K`, `F16`, …) or the mixture `Q4_K_M`. Vectors, norms
//! and routers stay as they are. A file that is quantized already loses twice: good enough to measure speed.
//! `ember quantize` is the same for users, and is made of this file.
#![allow(clippy::print_stdout, reason = "a command-line tool reports to its user")]

pub mod mixture;

use std::path::Path;

use ember::error::{Error, Result};
use ember::gguf::writer::Writer;
use ember::gguf::{Gguf, TensorInfo, TensorType};
use ember::quant::{Format, FormatInfo};
use mixture::Target;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [input, output, format] = args.as_slice() else {
        return Err("usage: quantize IN.gguf OUT.gguf FORMAT".into());
    };
    let file = Gguf::open(Path::new(input))?;
    let quantized = Quantized::new(&file, Target::parse(format)?)?;
    quantized.header()?.write_with(Path::new(output), |i| quantized.data(i))?;
    println!("{output}: {} tensors, {format}", file.tensors().len());
    Ok(())
}

/// A file with other matrices, which are made one by one.
pub struct Quantized<'a> {
    file: &'a Gguf,
    target: Target,
    /// Of each tensor; `None`: as it is.
    formats: Vec<Option<Format>>,
}

impl<'a> Quantized<'a> {
    /// Chooses the format of each tensor.
    pub fn new(file: &'a Gguf, target: Target) -> Result<Quantized<'a>> {
        let architecture = file.metadata().require_str("general.architecture")?;
        let n_layer = file.metadata().require_u32(&format!("{architecture}.block_count"))? as usize;
        let tied = file.tensor("output.weight").is_none();
        let choose = |tensor: &TensorInfo| {
            let format = target.format_of(&tensor.name, tensor.dims[0], n_layer, tied);
            let changes = mixture::is_quantized(&tensor.name, tensor.dims.len())
                && format.info().tensor_type != tensor.ty.0;
            changes.then_some(format)
        };
        Ok(Quantized { file, target, formats: file.tensors().iter().map(choose).collect() })
    }

    /// The first tensor that was quantized before and would be again.
    pub fn quantized_before(&self) -> Option<&TensorInfo> {
        let whole = [Format::F32, Format::F16, Format::BF16, Format::F64];
        let is_whole =
            |tensor: &TensorInfo| Format::from_tensor_type(tensor.ty).is_some_and(|f| whole.contains(&f));
        let changed = self.file.tensors().iter().zip(&self.formats).filter(|(_, format)| format.is_some());
        changed.map(|(tensor, _)| tensor).find(|tensor| !is_whole(tensor))
    }

    /// Keys and names. The data of each tensor is [`Quantized::data`].
    pub fn header(&self) -> Result<Writer> {
        let mut out = Writer::new();
        let ours = ["general.file_type", "general.alignment", "general.quantization_version"];
        for (key, value) in self.file.metadata().iter() {
            // A split file becomes one.
            if !key.starts_with("split.") && !ours.contains(&key) {
                out.set(key, value.clone());
            }
        }
        out.set("general.file_type", self.target.file_type()).set("general.quantization_version", 2u32);
        for (tensor, format) in self.file.tensors().iter().zip(&self.formats) {
            let ty = format.map_or(tensor.ty, |format| TensorType(format.info().tensor_type));
            out.tensor_later(&tensor.name, ty, &tensor.dims);
        }
        Ok(out)
    }

    /// The data of tensor number `i`.
    pub fn data(&self, i: usize) -> Result<Vec<u8>> {
        let tensor = &self.file.tensors()[i];
        match self.formats[i] {
            Some(format) => convert(self.file, tensor, format),
            None => Ok(self.file.tensor_bytes(tensor).to_vec()),
        }
    }
}

/// The tensor's values in `format`.
fn convert(file: &Gguf, tensor: &TensorInfo, format: Format) -> Result<Vec<u8>> {
    let from = Format::from_tensor_type(tensor.ty).ok_or_else(|| {
        let (name, ty) = (&tensor.name, tensor.ty);
        Error::Unsupported(format!("the tensor {name:?} has the type {ty}, which Ember cannot read"))
    })?;
    let FormatInfo { dequantize, .. } = from.info();
    let (row_len, bytes) = (tensor.dims[0], file.tensor_bytes(tensor));
    let row_bytes = from.row_bytes(row_len);
    Ok(mixture::make_rows(format, bytes.len() / row_bytes, row_len, |i, values| {
        dequantize(&bytes[i * row_bytes..][..row_bytes], values);
    }))
}
