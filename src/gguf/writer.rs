//! Makes GGUF files: for tests, fixtures and converters.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::decode::{MAX_KEY_BYTES, MAX_NAME_BYTES, alignment, check_len};
use super::index::NameIndex;
use super::metadata::Metadata;
use super::tensor::{Dims, TensorType};
use super::value::{Array, Value};
use crate::error::{Error, Result, sizes};

/// A GGUF file in the making: version 3, and data aligned to 32 bytes unless the key `general.alignment` says
/// otherwise. Nothing is checked before the file is made.
///
/// ```
/// use ember::gguf::{Gguf, TensorType, writer::Writer};
/// let mut writer = Writer::new();
/// writer.set("general.architecture", "llama").set("llama.block_count", 2u32);
/// writer.tensor("output_norm.weight", TensorType::F32, &[2], vec![0; 8]);
/// let file = Gguf::from_bytes(&writer.to_bytes()?, "example")?;
/// assert_eq!(file.metadata().require_u32("llama.block_count")?, 2);
/// # Ok::<(), ember::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Writer {
    version: u32,
    entries: Vec<(Box<str>, Value)>,
    tensors: Vec<Tensor>,
}

#[derive(Debug, Clone)]
struct Tensor {
    name: String,
    ty: TensorType,
    dims: Vec<usize>,
    /// `None`: it comes when the file is written.
    data: Option<Vec<u8>>,
}

impl Tensor {
    /// The bytes of its data. Refuses what no file can hold.
    fn n_bytes(&self) -> Result<usize> {
        let Tensor { name, ty, dims, .. } = self;
        check_len(name.len(), MAX_NAME_BYTES)
            .map_err(|why| Error::InvalidArgument(format!("a tensor name {why}")))?;
        let shape =
            Dims::new(dims).ok_or_else(|| self.wrong(format!("has the impossible shape {}", sizes(dims))))?;
        ty.check().map_err(|why| self.wrong(why))?;
        shape.n_bytes(*ty).map_err(|why| self.wrong(why))
    }

    fn check_data(&self, data: &[u8]) -> Result<()> {
        match (self.n_bytes()?, data.len()) {
            (expected, len) if expected == len => Ok(()),
            (expected, len) => Err(self.wrong(format!("has {len} bytes of data, expected {expected}"))),
        }
    }

    fn wrong(&self, why: String) -> Error {
        Error::InvalidArgument(format!("the tensor {:?} {why}", self.name))
    }
}

impl Default for Writer {
    fn default() -> Writer {
        Writer::new()
    }
}

impl Writer {
    /// A file without keys and tensors.
    pub fn new() -> Writer {
        Writer { version: 3, entries: Vec::new(), tensors: Vec::new() }
    }

    /// Sets the format version, 2 or 3; they differ in nothing else.
    pub fn version(&mut self, version: u32) -> &mut Writer {
        self.version = version;
        self
    }

    /// Adds a key after those already there.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) -> &mut Writer {
        self.entries.push((key.into(), value.into()));
        self
    }

    /// Adds a tensor after those already there. `dims` begins with the row length; `data` is in `ty`'s layout.
    pub fn tensor(&mut self, name: &str, ty: TensorType, dims: &[usize], data: Vec<u8>) -> &mut Writer {
        self.tensors.push(Tensor { name: name.into(), ty, dims: dims.into(), data: Some(data) });
        self
    }

    /// Adds a tensor as [`Writer::tensor`] does, whose data [`Writer::write_with`] asks for when it comes to it.
    pub fn tensor_later(&mut self, name: &str, ty: TensorType, dims: &[usize]) -> &mut Writer {
        self.tensors.push(Tensor { name: name.into(), ty, dims: dims.into(), data: None });
        self
    }

    /// The file's bytes.
    ///
    /// # Errors
    /// `InvalidArgument` for a version other than 2 and 3, an impossible alignment, a key or tensor name that is
    /// empty, too long or used twice, and a tensor whose data does not fit its type and shape, or is still to come.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.to_bytes_with(|i| Err(self.missing(i)))
    }

    /// As [`Writer::to_bytes`]; `give` makes the data of tensor number `i` where that is still to come.
    ///
    /// # Errors
    /// As [`Writer::to_bytes`], and those of `give`.
    pub fn to_bytes_with(&self, give: impl FnMut(usize) -> Result<Vec<u8>>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let failed = |e| Error::Internal(format!("writing to memory failed: {e}"));
        self.emit(self.check()?, &mut bytes, failed, give)?;
        Ok(bytes)
    }

    /// Writes the file, replacing what was at `path`.
    ///
    /// # Errors
    /// As [`Writer::to_bytes`], and `Io` when the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        self.write_with(path, |i| Err(self.missing(i)))
    }

    /// As [`Writer::write`]; `give` makes the data of tensor number `i` where that is still to come. One tensor is in memory at a time.
    ///
    /// # Errors
    /// As [`Writer::write`], and those of `give`.
    pub fn write_with(&self, path: &Path, give: impl FnMut(usize) -> Result<Vec<u8>>) -> Result<()> {
        let alignment = self.check()?;
        let failed = |e| Error::Io(format!("{}: the file cannot be written: {e}", path.display()));
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        self.emit(alignment, &mut out, failed, give)?;
        out.flush().map_err(failed)
    }

    fn missing(&self, i: usize) -> Error {
        self.tensors[i].wrong("has no data".into())
    }

    /// Checks everything and returns the alignment.
    fn check(&self) -> Result<usize> {
        let invalid = Error::InvalidArgument;
        if ![2, 3].contains(&self.version) {
            return Err(invalid(format!("the GGUF version is {}, expected 2 or 3", self.version)));
        }
        for (key, _) in &self.entries {
            check_len(key.len(), MAX_KEY_BYTES).map_err(|why| invalid(format!("a metadata key {why}")))?;
        }
        for tensor in &self.tensors {
            match &tensor.data {
                Some(data) => tensor.check_data(data)?,
                None => drop(tensor.n_bytes()?),
            }
        }
        NameIndex::new(self.tensors.len(), |i| &self.tensors[i].name).map_err(|i| {
            let name = &self.tensors[i].name;
            invalid(format!("the tensor name {name:?} appears more than once"))
        })?;
        let metadata = Metadata::new(self.entries.clone());
        metadata.and_then(|m| alignment(&m)).map_err(|e| invalid(e.message().to_owned()))
    }

    fn emit(
        &self,
        alignment: usize,
        out: &mut impl Write,
        failed: impl Fn(io::Error) -> Error,
        mut give: impl FnMut(usize) -> Result<Vec<u8>>,
    ) -> Result<()> {
        let mut head = Vec::new();
        head.extend(b"GGUF");
        head.extend(self.version.to_le_bytes());
        put_len(&mut head, self.tensors.len());
        put_len(&mut head, self.entries.len());
        for (key, value) in &self.entries {
            put_string(&mut head, key.as_bytes());
            put_value(&mut head, value);
        }
        let mut offset = 0;
        for tensor in &self.tensors {
            let Tensor { name, ty, dims, .. } = tensor;
            put_string(&mut head, name.as_bytes());
            head.extend((dims.len() as u32).to_le_bytes());
            dims.iter().for_each(|&d| put_len(&mut head, d));
            head.extend(ty.0.to_le_bytes());
            put_len(&mut head, offset);
            offset += tensor.n_bytes()?.next_multiple_of(alignment);
        }
        let mut put_padded = |bytes: &[u8]| {
            let padding = vec![0; bytes.len().next_multiple_of(alignment) - bytes.len()];
            out.write_all(bytes).and_then(|()| out.write_all(&padding)).map_err(&failed)
        };
        put_padded(&head)?;
        for (i, tensor) in self.tensors.iter().enumerate() {
            match &tensor.data {
                Some(data) => put_padded(data)?,
                None => {
                    let data = give(i)?;
                    tensor.check_data(&data)?;
                    put_padded(&data)?;
                }
            }
        }
        Ok(())
    }
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    out.extend((len as u64).to_le_bytes());
}

fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend(bytes);
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    out.extend((value.value_type() as u32).to_le_bytes());
    match value {
        Value::U8(v) => out.extend(v.to_le_bytes()),
        Value::I8(v) => out.extend(v.to_le_bytes()),
        Value::U16(v) => out.extend(v.to_le_bytes()),
        Value::I16(v) => out.extend(v.to_le_bytes()),
        Value::U32(v) => out.extend(v.to_le_bytes()),
        Value::I32(v) => out.extend(v.to_le_bytes()),
        Value::F32(v) => out.extend(v.to_le_bytes()),
        Value::U64(v) => out.extend(v.to_le_bytes()),
        Value::I64(v) => out.extend(v.to_le_bytes()),
        Value::F64(v) => out.extend(v.to_le_bytes()),
        Value::Bool(v) => out.push(u8::from(*v)),
        Value::String(s) => put_string(out, s.as_bytes()),
        Value::Array(a) => put_array(out, a),
    }
}

fn put_array(out: &mut Vec<u8>, array: &Array) {
    out.extend((array.element_type() as u32).to_le_bytes());
    put_len(out, array.len());
    match array {
        Array::U8(v) => out.extend(v),
        Array::I8(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::U16(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::I16(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::U32(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::I32(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::F32(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::U64(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::I64(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::F64(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::Bool(v) => out.extend(v.iter().map(|&b| u8::from(b))),
        Array::String(v) => out.extend(v.encoded()),
        Array::Array(v) => v.iter().for_each(|a| put_array(out, a)),
    }
}
