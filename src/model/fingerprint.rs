//! The fingerprint of a model.
#![forbid(unsafe_code)]

use std::fmt::{self, Write as _};

use xxhash_rust::xxh3::Xxh3;

use super::LoadedModel;
use crate::error::Result;
use crate::gguf::{Array, Value};

/// Bytes of a tensor that go into the fingerprint, from its beginning and from its end.
const SAMPLE_BYTES: usize = 1024;

/// A hash that distinguishes a model from others. It covers its keys, without the tokenizer's, and the names, shapes and some
/// bytes of its tensors. The errors are those of [`FileBytes::read_at`](crate::gguf::FileBytes::read_at).
pub(super) fn fingerprint(model: &LoadedModel) -> Result<u128> {
    let (mut hash, mut sample) = (TextHash(Xxh3::new()), [0; SAMPLE_BYTES]);
    let gguf = model.gguf();
    for (key, value) in gguf.metadata().iter().filter(|(key, _)| !key.starts_with("tokenizer.")) {
        match value {
            Value::Array(array) if is_long(array) => {
                hash.add(format_args!("{key}="));
                hash.add_long(array);
            }
            _ => hash.add(format_args!("{key}={value:?};")),
        }
    }
    for tensor in gguf.tensors() {
        hash.add(format_args!("{}:{:?}:{:?};", tensor.name, tensor.ty, &tensor.dims[..]));
        let (file, end) = (gguf.file_of(tensor), tensor.offset + tensor.n_bytes);
        let n = tensor.n_bytes.min(SAMPLE_BYTES);
        for start in [tensor.offset, end - n] {
            let sample = file.read_at(start..start + n, &mut sample);
            hash.0.update(sample.map_err(|e| e.within(gguf.name()))?);
        }
    }
    Ok(hash.0.digest128())
}

/// An array of at least this many elements is hashed by its bytes and not by its text, which takes a hundred times as long. No
/// known model has a longer one, except for its vocabulary.
const LONG: usize = 1 << 16;
/// The same for the texts of an array, in bytes.
const LONG_TEXT: usize = 1 << 20;

fn is_long(array: &Array) -> bool {
    array.len() > LONG
        || match array {
            Array::String(strings) => strings.encoded().len() > LONG_TEXT,
            Array::Array(arrays) => arrays.iter().any(is_long),
            _ => false,
        }
}

/// Hashes texts while they are written, so that no long text is in memory as a whole.
struct TextHash(Xxh3);

impl TextHash {
    /// An array's type, length and bytes.
    fn add_long(&mut self, array: &Array) {
        self.add(format_args!("{}[{}]", array.element_type(), array.len()));
        match array {
            Array::U8(v) => self.0.update(v),
            Array::I8(v) => self.0.update(bytemuck::cast_slice(v)),
            Array::U16(v) => self.0.update(bytemuck::cast_slice(v)),
            Array::I16(v) => self.0.update(bytemuck::cast_slice(v)),
            Array::U32(v) => self.0.update(bytemuck::cast_slice(v)),
            Array::I32(v) => self.0.update(bytemuck::cast_slice(v)),
            Array::F32(v) => self.0.update(bytemuck::cast_slice(v)),
            Array::U64(v) => self.0.update(bytemuck::cast_slice(v)),
            Array::I64(v) => self.0.update(bytemuck::cast_slice(v)),
            Array::F64(v) => self.0.update(bytemuck::cast_slice(v)),
            Array::Bool(v) => self.0.update(bytemuck::cast_slice(v)),
            Array::String(strings) => self.0.update(strings.encoded()),
            Array::Array(arrays) => arrays.iter().for_each(|array| self.add_long(array)),
        }
    }

    fn add(&mut self, text: fmt::Arguments<'_>) {
        // Hashing never fails.
        let _ = self.write_fmt(text);
    }
}

impl fmt::Write for TextHash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}
