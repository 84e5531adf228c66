//! The safetensors files of a folder: one, or several that an index lists.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::path::{Component, Path};
use std::sync::Arc;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, Metadata};
use serde_json::Value;

use super::Folder;
use super::config::Config;
use crate::error::{Error, Result};
use crate::gguf::{FileBytes, TensorType, quoted};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// Bytes of the header's length, with which a file begins.
const N_LEN: usize = 8;

/// A tensor of a safetensors file: its range is checked.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Its name in the file.
    pub name: String,
    /// F32, F16 or BF16.
    pub ty: TensorType,
    /// Shape, longest stride first.
    pub shape: Vec<usize>,
    /// Which of [`Weights::files`] it lies in.
    pub file: usize,
    /// Where its elements begin in that file.
    pub offset: usize,
    bytes: Arc<FileBytes>,
    n_bytes: usize,
}

impl Stored {
    /// The elements.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.offset..][..self.n_bytes]
    }

    /// Whether the elements lie at a multiple of their size, as safetensors does not promise.
    pub fn is_aligned(&self) -> bool {
        self.offset.is_multiple_of(self.ty.block_bytes())
    }
}

/// All tensors of a folder.
#[derive(Debug)]
pub struct Weights {
    /// In the order of their names, with the names of files that hold them.
    pub files: Vec<Arc<FileBytes>>,
    /// By name.
    pub tensors: BTreeMap<String, Entry>,
}

/// A tensor, or why it cannot be used: an error only if somebody wants it.
pub type Entry = std::result::Result<Stored, Error>;

/// Opens the folder's `model.safetensors`, or what its index lists.
pub fn open(folder: &Folder<'_>) -> Result<Weights> {
    let Index { files: names, listed } = match (folder.has(SINGLE), folder.has(INDEX)) {
        (true, _) => Index { files: vec![SINGLE.to_owned()], listed: Vec::new() },
        (false, true) => index(folder)?,
        (false, false) => return Err(nothing(folder)),
    };
    let mut weights = Weights { files: Vec::new(), tensors: BTreeMap::new() };
    let mut holder: HashMap<String, usize> = HashMap::new();
    for (file, name) in names.iter().enumerate() {
        let bytes = Arc::new(folder.load(name)?);
        for (key, entry) in header(&bytes, file).map_err(|e| e.within(name))? {
            if let Some(&other) = holder.get(&key) {
                let (key, other) = (quoted(key.as_bytes()), &names[other]);
                return Err(Error::Format(format!("{name}: the tensor {key} is also in {other}")));
            }
            holder.insert(key.clone(), file);
            weights.tensors.insert(key, entry);
        }
        weights.files.push(bytes);
    }
    for (tensor, name) in &listed {
        match holder.get(tensor) {
            Some(&file) if names[file] == *name => {}
            Some(&file) => {
                let other = &names[file];
                return Err(Error::Format(format!(
                    "{INDEX}: the tensor {} is in {other}, not in {name}",
                    quoted(tensor.as_bytes())
                )));
            }
            None => {
                return Err(Error::Format(format!(
                    "{name}: the tensor {} is missing, which {INDEX} lists",
                    quoted(tensor.as_bytes())
                )));
            }
        }
    }
    Ok(weights)
}

/// Why a folder without safetensors cannot be loaded.
fn nothing(folder: &Folder<'_>) -> Error {
    match ["pytorch_model.bin", "pytorch_model.bin.index.json"].iter().find(|file| folder.has(file)) {
        Some(file) => Error::Unsupported(format!(
            "the folder has {file} but no {SINGLE}: PyTorch pickles are not read; save the model as safetensors"
        )),
        None => Error::Io(format!("the folder has neither {SINGLE} nor {INDEX}")),
    }
}

/// What an index says.
struct Index {
    /// The files, in the order of their names.
    files: Vec<String>,
    /// Each tensor and the file that it says holds it.
    listed: Vec<(String, String)>,
}

/// Reads the folder's index.
fn index(folder: &Folder<'_>) -> Result<Index> {
    const KEY: &str = "weight_map";
    let index = Config::parse(INDEX, &folder.read(INDEX)?)?;
    let mut files = Vec::new();
    let mut listed = Vec::new();
    for (tensor, file) in index.strings(KEY)? {
        let mut parts = Path::new(file).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(name)), None) if name == file) {
            return Err(Error::Format(format!(
                "{INDEX}: the key {:?} puts the tensor {} into {}, expected the name of a file in the folder",
                KEY,
                quoted(tensor.as_bytes()),
                quoted(file.as_bytes())
            )));
        }
        files.push(file.to_owned());
        listed.push((tensor.to_owned(), file.to_owned()));
    }
    files.sort_unstable();
    files.dedup();
    if files.is_empty() {
        return Err(Error::Format(format!("{INDEX}: the key {KEY:?} lists no files")));
    }
    Ok(Index { files, listed })
}

/// The tensors of one file, number `file` of the folder.
fn header(bytes: &Arc<FileBytes>, file: usize) -> Result<Vec<(String, Entry)>> {
    let (n_header, metadata): (usize, Metadata) = SafeTensors::read_metadata(bytes).map_err(|e| {
        Error::Format(blame(bytes).unwrap_or_else(|| format!("the safetensors header is malformed: {e}")))
    })?;
    let start = N_LEN + n_header;
    let mut found = Vec::new();
    for name in metadata.offset_keys() {
        let Some(info) = metadata.info(&name) else { continue };
        let (begin, end) = info.data_offsets;
        let ty = match info.dtype {
            Dtype::F32 => Ok(TensorType::F32),
            Dtype::F16 => Ok(TensorType::F16),
            Dtype::BF16 => Ok(TensorType::BF16),
            other => Err(Error::Unsupported(format!(
                "the tensor {} is of type {other}, which is not supported; supported are: F32, F16, BF16",
                quoted(name.as_bytes())
            ))),
        };
        // The crate has checked that the range is inside the file and as long as the shape says.
        let entry = ty.map(|ty| Stored {
            name: name.clone(),
            ty,
            shape: info.shape.clone(),
            file,
            offset: start + begin,
            bytes: Arc::clone(bytes),
            n_bytes: end - begin,
        });
        found.push((name, entry));
    }
    Ok(found)
}

/// What is wrong with a file that the crate has refused, in a sentence that names the tensor: where the header is
/// JSON at least.
fn blame(bytes: &[u8]) -> Option<String> {
    let (len, rest) = bytes.split_first_chunk::<N_LEN>()?;
    let len = u64::from_le_bytes(*len);
    let parts = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
    let Some((header, data)) = parts else {
        return Some(format!(
            "the safetensors header claims {len} bytes, but only {} are left in the file",
            rest.len()
        ));
    };
    let Ok(Value::Object(header)) = serde_json::from_slice(header) else { return None };
    let mut ranges = Vec::new();
    for (name, info) in header.iter().filter(|(name, _)| *name != "__metadata__") {
        let name = quoted(name.as_bytes());
        let wrong = |what: &str| Some(format!("the tensor {name} has {what}"));
        let Some(size) = info["dtype"].as_str().and_then(dtype_bits) else {
            return wrong(&format!("the type {}, which safetensors does not know", short(&info["dtype"])));
        };
        let numbers = |v: &Value| v.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>();
        let Some(shape) = numbers(&info["shape"]) else {
            return wrong(&format!("the shape {}, expected an array of sizes", short(&info["shape"])));
        };
        let range = numbers(&info["data_offsets"]);
        let Some([begin, end]) = range.as_deref().and_then(|r| <[u64; 2]>::try_from(r).ok()) else {
            return wrong(&format!(
                "the data offsets {}, expected two numbers",
                short(&info["data_offsets"])
            ));
        };
        let n_bits = shape.iter().try_fold(size, |n, &d| n.checked_mul(d));
        match (end.checked_sub(begin), n_bits) {
            (Some(len), Some(n_bits)) if len.checked_mul(8) == Some(n_bits) => {}
            _ => {
                return wrong(&format!(
                    "the data offsets {begin} to {end}, which do not fit its type and the shape {shape:?}"
                ));
            }
        }
        if end > data.len() as u64 {
            return wrong(&format!(
                "its data up to byte {end}, but the file holds {} bytes of data",
                data.len()
            ));
        }
        ranges.push((begin, end, name));
    }
    ranges.sort_unstable();
    let mut next = 0;
    for (begin, end, name) in ranges {
        if begin != next {
            let what = if begin < next { "which overlaps another's" } else { "after a gap" };
            return Some(format!(
                "the tensor {name} has its data at byte {begin}, {what}; expected byte {next}"
            ));
        }
        next = end;
    }
    Some(format!("the tensors take {next} bytes, but the file holds {} bytes of data", data.len()))
}

/// Bits per element of a type, by its name in headers.
fn dtype_bits(name: &str) -> Option<u64> {
    let dtype: Dtype = serde_json::from_value(Value::from(name)).ok()?;
    Some(dtype.bitsize() as u64)
}

/// A JSON value for a sentence.
fn short(value: &Value) -> String {
    match value {
        Value::String(s) => quoted(s.as_bytes()),
        Value::Array(a) if a.len() > 8 => "of many elements".into(),
        other => {
            let text = other.to_string();
            text.chars().take(96).collect()
        }
    }
}
