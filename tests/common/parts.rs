//! Model files taken apart, changed and put together again.

use ember::gguf::writer::Writer;
use ember::gguf::{Gguf, TensorType, Value};
use ember::quant::Format;

use super::fixture;

/// The parts of a model, for a test to change.
pub struct Parts {
    pub keys: Vec<(String, Value)>,
    pub tensors: Vec<(String, TensorType, Vec<usize>, Vec<u8>)>,
}

impl Parts {
    /// A file of `tests/fixtures/models`.
    pub fn of(name: &str) -> Parts {
        let file = Gguf::open(&fixture(&format!("models/{name}.gguf"))).expect("a fixture");
        let tensor = |t: &ember::gguf::TensorInfo| {
            (t.name.clone(), t.ty, t.dims.to_vec(), file.tensor_bytes(t).to_vec())
        };
        Parts {
            keys: file.metadata().iter().map(|(key, value)| (key.to_owned(), value.clone())).collect(),
            tensors: file.tensors().iter().map(tensor).collect(),
        }
    }

    pub fn without_key(mut self, key: &str) -> Parts {
        self.keys.retain(|(k, _)| k != key);
        self
    }

    pub fn key(self, key: &str, value: impl Into<Value>) -> Parts {
        let mut parts = self.without_key(key);
        parts.keys.push((key.into(), value.into()));
        parts
    }

    pub fn without_tensor(mut self, name: &str) -> Parts {
        self.tensors.retain(|t| t.0 != name);
        self
    }

    /// A tensor of zeros in place of the one of that name, if there is one.
    pub fn tensor(self, name: &str, ty: TensorType, dims: &[usize]) -> Parts {
        let n_bytes = dims.iter().product::<usize>() / ty.block_len() * ty.block_bytes();
        let mut parts = self.without_tensor(name);
        parts.tensors.push((name.into(), ty, dims.to_vec(), vec![0; n_bytes]));
        parts
    }

    /// A tensor in place of the one of that name, if there is one.
    pub fn f32s(self, name: &str, dims: &[usize], values: &[f32]) -> Parts {
        let mut parts = self.without_tensor(name);
        let data = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        parts.tensors.push((name.into(), TensorType::F32, dims.to_vec(), data));
        parts
    }

    /// Every tensor in F32, with the same values.
    pub fn dequantized(mut self) -> Parts {
        for (name, ty, dims, data) in &mut self.tensors {
            let format = Format::from_tensor_type(*ty).unwrap_or_else(|| panic!("{name} is {ty}"));
            let mut values = vec![0.0; dims.iter().product()];
            (format.info().dequantize)(data, &mut values);
            *ty = TensorType::F32;
            *data = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        }
        self
    }

    /// The file.
    pub fn bytes(self) -> Vec<u8> {
        let mut writer = Writer::new();
        for (key, value) in self.keys {
            writer.set(&key, value);
        }
        for (name, ty, dims, data) in self.tensors {
            writer.tensor(&name, ty, &dims, data);
        }
        writer.to_bytes().expect("a well-formed file")
    }
}
