//! The safetensors files of a folder: one, or several that an index lists.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use safetensors::tensor::Dtype;

use super::index::{self, INDEX, Index};
use super::{Folder, header};
use crate::error::{Error, Result, shortened};
use crate::gguf::{FileBytes, TensorType, quoted};

const SINGLE: &str = "model.safetensors";

/// A tensor of a safetensors file: its range is checked.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Its name in the file.
    pub name: String,
    /// F32, F16 or BF16; I8 stands for bytes.
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

    /// The tensor itself, if it holds numbers or, of one that becomes MXFP4, bytes.
    ///
    /// # Errors
    /// `Unsupported` for the other.
    pub fn expect(&self, bytes: bool) -> Result<&Stored> {
        match (self.ty == TensorType::I8, bytes) {
            (true, false) => Err(unsupported(&self.name, "U8")),
            (false, true) => Err(Error::Unsupported(format!(
                "the tensor {} is of type {}, which is not supported; supported is: U8",
                quoted(self.name.as_bytes()),
                self.ty
            ))),
            _ => Ok(self),
        }
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
    let index = match (folder.has(SINGLE), folder.has(INDEX)) {
        (true, _) => None,
        (false, true) => Some(folder.read(INDEX, index::MAX_BYTES)?),
        (false, false) => return Err(nothing(folder)),
    };
    let Index { files: names, listed } = match &index {
        None => Index { files: vec![SINGLE.to_owned()], listed: Vec::new() },
        Some(bytes) => index::parse(bytes)?,
    };
    let mut weights = Weights { files: Vec::new(), tensors: BTreeMap::new() };
    let mut holder: HashMap<String, usize> = HashMap::new();
    for (file, name) in names.iter().enumerate() {
        let bytes = Arc::new(folder.load(name)?);
        for (key, entry) in tensors(&bytes, file).map_err(|e| e.within(&shortened(name)))? {
            if let Some(&other) = holder.get(&key) {
                let (key, name, other) = (quoted(key.as_bytes()), shortened(name), shortened(&names[other]));
                return Err(Error::Format(format!("{name}: the tensor {key} is also in {other}")));
            }
            holder.insert(key.clone(), file);
            weights.tensors.insert(key, entry);
        }
        weights.files.push(bytes);
    }
    for (tensor, name) in &listed {
        match holder.get(&**tensor) {
            Some(&file) if names[file] == *name => {}
            Some(&file) => {
                let (name, other) = (shortened(name), shortened(&names[file]));
                return Err(Error::Format(format!(
                    "{INDEX}: the tensor {} is in {other}, not in {name}",
                    quoted(tensor.as_bytes())
                )));
            }
            None => {
                return Err(Error::Format(format!(
                    "{}: the tensor {} is missing, which {INDEX} lists",
                    shortened(name),
                    quoted(tensor.as_bytes())
                )));
            }
        }
    }
    Ok(weights)
}

/// The tensors of the file of a module in the folder `prefix` of `folder`, their names after it. The file joins those of `all`.
pub fn single(folder: &Folder<'_>, prefix: &str, all: &mut Weights) -> Result<BTreeMap<String, Entry>> {
    let name = format!("{prefix}{SINGLE}");
    if !folder.has(&name) && folder.has(&format!("{prefix}pytorch_model.bin")) {
        return Err(Error::Unsupported(format!(
            "the folder has {prefix}pytorch_model.bin but no {name}: PyTorch pickles are not read; save the model as safetensors"
        )));
    }
    let bytes = Arc::new(folder.load(&name)?);
    let found = tensors(&bytes, all.files.len()).map_err(|e| e.within(&shortened(&name)))?;
    all.files.push(bytes);
    let renamed = |(key, entry): (String, Entry)| {
        let key = format!("{prefix}{key}");
        let entry = entry.map(|stored| Stored { name: key.clone(), ..stored });
        (key, entry)
    };
    Ok(found.into_iter().map(renamed).collect())
}

fn unsupported(name: &str, found: &str) -> Error {
    Error::Unsupported(format!(
        "the tensor {} is of type {found}, which is not supported; supported are: F32, F16, BF16",
        quoted(name.as_bytes())
    ))
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

/// The tensors of one file, number `file` of the folder.
fn tensors(bytes: &Arc<FileBytes>, file: usize) -> Result<Vec<(String, Entry)>> {
    let (start, metadata) = header::read(bytes)?;
    let mut found = Vec::new();
    for name in metadata.offset_keys() {
        let Some(info) = metadata.info(&name) else { continue };
        let (begin, end) = info.data_offsets;
        let ty = match info.dtype {
            Dtype::F32 => Ok(TensorType::F32),
            Dtype::F16 => Ok(TensorType::F16),
            Dtype::BF16 => Ok(TensorType::BF16),
            Dtype::U8 => Ok(TensorType::I8),
            other => Err(unsupported(&name, &other.to_string())),
        };
        // That the range is inside the file and as long as the shape says was checked.
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
