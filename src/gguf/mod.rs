//! GGUF model files: typed metadata, a tensor directory, and the bytes of every tensor where they lie.
//!
//! [`Gguf`] opens a file of version 2 or 3, little-endian; [`writer::Writer`] makes one. A file is hostile input: each count,
//! length, offset and type is checked before it is used, and every defect ends in an error sentence that begins with the file's
//! name. The format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "mapping a file is unsafe, and asking the system about it")]
mod bytes;
mod cursor;
mod decode;
mod index;
#[cfg(any(feature = "constraints", feature = "hf"))]
pub(crate) mod json;
#[allow(unsafe_code, reason = "what the system says of a descriptor")]
mod mapped;
mod metadata;
mod origin;
mod parts;
mod split;
mod tensor;
mod value;
pub mod writer;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

pub use crate::error::quoted;
pub(crate) use crate::memory::{append, collected, copied_text, filled, with_capacity};
pub use bytes::FileBytes;
pub use metadata::Metadata;
pub use origin::Origin;
pub use parts::{Further, Parts, Sampling, ScoreActivation};
pub use tensor::{Dims, MAX_DIMS, TensorInfo, TensorType};
pub use value::{Array, GgufString, StringArray, Value, ValueType};

use crate::cancel::Progress;
use crate::error::{Error, Result};
use crate::memory::{Charge, Memory};
use index::NameIndex;

/// Options and progress of reading a file into memory.
#[derive(Clone)]
pub struct Reading<'a> {
    /// Where the memory is allocated.
    pub memory: &'a Memory,
    /// Counts what there is to read and what was read.
    pub progress: Progress,
    /// Called every half megabyte at least; its error ends the reading.
    pub step: &'a dyn Fn() -> Result<()>,
}

impl Default for Reading<'_> {
    /// Unlimited memory, and nothing ends it.
    fn default() -> Self {
        static UNLIMITED: Memory = Memory::UNLIMITED;
        Reading { memory: &UNLIMITED, progress: Progress::default(), step: &|| Ok(()) }
    }
}

/// An opened model, immutable and shareable between threads: a GGUF file, the files of a split one, or [`Parts`].
#[derive(Debug)]
pub struct Gguf {
    name: String,
    version: u32,
    /// The files that the tensors' `file` counts.
    files: Vec<Arc<FileBytes>>,
    file_size: u64,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    tensor_index: NameIndex,
    origin: Option<Box<dyn Origin>>,
    /// Keys that were set and are not the file's.
    set_keys: Vec<Box<str>>,
    further: Further,
    /// The charges for the metadata.
    _charges: Vec<Charge>,
}

impl Gguf {
    /// Maps the file at `path` into memory and reads its metadata and tensor directory. Pages of tensor data are
    /// loaded when first touched and shared with other processes that map the same file. A file that is one of several
    /// (`NAME-00001-of-00003.gguf`, any of them) brings the others, which lie next to it.
    ///
    /// The file must not be changed or shortened while it is open: touching a page that is gone ends the process with SIGBUS;
    /// [`FileBytes::read_at`] touches none. Use [`Gguf::read`] for a file that other programs may change.
    ///
    /// # Errors
    /// `Io` when the file is missing, not a regular file or not readable; `Format` when it is no GGUF file, is
    /// malformed or cut short, or contradicts the other files of the model; `Unsupported` for version 1, big-endian
    /// files and sizes beyond Ember's limits. Every sentence begins with the path of the file at fault.
    pub fn open(path: &Path) -> Result<Gguf> {
        Gguf::open_with(path, true, &Reading::default())
    }

    /// As [`Gguf::open`], but reads the whole file into memory of its own, so that later changes to the file do no harm.
    ///
    /// # Errors
    /// As [`Gguf::open`], and `NoMemory` when the file does not fit in memory.
    pub fn read(path: &Path) -> Result<Gguf> {
        Gguf::open_with(path, false, &Reading::default())
    }

    /// As [`Gguf::open`] or, unless `use_mmap`, as [`Gguf::read`], with the options of `reading`.
    ///
    /// # Errors
    /// As [`Gguf::read`], and those of `reading`.
    pub fn open_with(path: &Path, use_mmap: bool, reading: &Reading<'_>) -> Result<Gguf> {
        match use_mmap {
            true => split::open(path, reading, &|path| FileBytes::map(path, reading)),
            false => split::open(path, reading, &|path| FileBytes::read(path, reading)),
        }
    }

    /// A whole model from the bytes of `load`, whose keys are read with `reading`; `name` stands for the path in error sentences.
    ///
    /// # Errors
    /// As [`Gguf::read`], `Unsupported` for one file of several, and those of `reading`.
    pub fn load(name: &str, reading: &Reading<'_>, load: impl FnOnce() -> Result<FileBytes>) -> Result<Gguf> {
        let load = || match load()? {
            bytes if bytes.is_empty() => Err(Error::Format("the file is empty".into())),
            bytes => Ok(bytes),
        };
        let gguf = Gguf::named(name.to_owned(), reading, load)?;
        split::refuse(&gguf).map_err(|e| e.within(name))?;
        Ok(gguf)
    }

    /// Reads a file that is already in memory; the bytes are copied. `name` stands for the path in error sentences.
    ///
    /// # Errors
    /// As [`Gguf::load`].
    pub fn from_bytes(bytes: &[u8], name: &str) -> Result<Gguf> {
        Gguf::load(name, &Reading::default(), || FileBytes::copy(bytes, &Memory::default()))
    }

    /// Sets keys as if the file had these values.
    ///
    /// # Errors
    /// `Unsupported` for more keys than Ember reads.
    pub fn set_metadata(&mut self, entries: &[(Box<str>, Value)]) -> Result<()> {
        self.set_keys.extend(entries.iter().map(|(key, _)| key.clone()));
        self.metadata.set(entries).map_err(|e| e.within(&self.name))
    }

    /// One file, whole or one of several.
    fn named(name: String, reading: &Reading<'_>, load: impl FnOnce() -> Result<FileBytes>) -> Result<Gguf> {
        let contents = load().and_then(|bytes| {
            let bytes = Arc::new(bytes);
            let contents = decode::decode(&bytes, reading)?;
            Ok((bytes, contents))
        });
        let (bytes, contents) = contents.map_err(|e| e.within(&name))?;
        let decode::Contents { version, metadata, tensors, tensor_index, charges } = contents;
        let file_size = bytes.len() as u64;
        let (origin, set_keys) = (None, Vec::new());
        Ok(Gguf {
            name,
            version,
            files: vec![bytes],
            file_size,
            metadata,
            tensors,
            tensor_index,
            origin,
            set_keys,
            further: Further::default(),
            _charges: charges,
        })
    }

    /// The path, or the name given to [`Gguf::from_bytes`]: what an error sentence about this file begins with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The format version, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The properties without a key.
    pub fn further(&self) -> &Further {
        &self.further
    }

    /// Size of the model's files in bytes.
    pub fn file_size(&self) -> u64 {
        self.file_size
    }

    /// Keys and values.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The tensor directory, in the file's order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The entry of the tensor called `name`.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensor_index.find(name, |i| &self.tensors[i].name).map(|i| &self.tensors[i])
    }

    /// The whole file that holds the data of `tensor`, from whose start its offset counts.
    ///
    /// # Panics
    /// When `tensor` is another model's, which has more files.
    pub fn file_of(&self, tensor: &TensorInfo) -> &Arc<FileBytes> {
        &self.files[tensor.file]
    }

    /// Gives back the memory before the tensors of mapped files, which is read again when it is touched: a vocabulary can have
    /// megabytes that are not needed once the tokenizer is built.
    pub fn release_metadata(&self) {
        let mut ends: Vec<usize> = self.files.iter().map(|file| file.n_bytes()).collect();
        for tensor in &self.tensors {
            ends[tensor.file] = ends[tensor.file].min(tensor.offset);
        }
        for (file, end) in self.files.iter().zip(ends) {
            file.release(0..end);
        }
    }

    /// The elements of a tensor of this model, in its type's layout.
    ///
    /// # Panics
    /// When `tensor` is another, longer model's.
    pub fn tensor_bytes(&self, tensor: &TensorInfo) -> &[u8] {
        &self.file_of(tensor)[tensor.offset..][..tensor.n_bytes]
    }
}
