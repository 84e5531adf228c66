//! Models of several GGUF files, `NAME-00001-of-00003.gguf` and so on, as llama.cpp's `gguf-split` makes them: each
//! file has the keys `split.no` (from 0), `split.count` and `split.tensors.count`, and its own tensors; the first one
//! also has all keys of the model.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use super::bytes::FileBytes;
use super::decode::{self, MAX_TENSORS};
use super::{Gguf, Metadata, Reading, TensorInfo};
use crate::error::{Error, Result};

const NO_KEY: &str = "split.no";
const COUNT_KEY: &str = "split.count";
const N_TENSORS_KEY: &str = "split.tensors.count";

/// What one of several files says about itself.
struct Part {
    /// From 0.
    no: u32,
    /// How many files there are; at least 2.
    count: u32,
    /// How many tensors all files have together.
    n_tensors: Option<u32>,
}

impl Part {
    /// `None` for a whole model.
    fn of(metadata: &Metadata) -> Result<Option<Part>> {
        let count = match metadata.u32(COUNT_KEY)? {
            None | Some(0 | 1) => return Ok(None),
            Some(count) => count,
        };
        let no = metadata.require_u32(NO_KEY)?;
        if no >= count {
            return Err(Error::Format(format!(
                "the key {NO_KEY:?} is {no}, expected less than the {count} of {COUNT_KEY:?}"
            )));
        }
        Ok(Some(Part { no, count, n_tensors: metadata.u32(N_TENSORS_KEY)? }))
    }

    /// The end of the file's name.
    fn suffix(&self) -> String {
        format!("-{:05}-of-{:05}.gguf", self.no + 1, self.count)
    }

    /// "part 2 of 3", counted from 1.
    fn describe(&self) -> String {
        format!("part {} of {}", self.no + 1, self.count)
    }
}

/// Refuses one of several files where the others are unknown.
pub(super) fn refuse(gguf: &Gguf) -> Result<()> {
    match Part::of(&gguf.metadata)? {
        Some(part) => Err(Error::Unsupported(format!(
            "this is {} of a split model, which can only be loaded by a file's path, with the other parts next to it",
            part.describe()
        ))),
        None => Ok(()),
    }
}

/// Opens the file at `path`, and the others of its model when it is one of several.
pub(super) fn open(
    path: &Path,
    reading: &Reading<'_>,
    load: &dyn Fn(&Path) -> Result<FileBytes>,
) -> Result<Gguf> {
    let name = path.display().to_string();
    let within = |e: Error| e.within(&name);
    let opened = Gguf::named(name.clone(), reading, || load(path))?;
    let Some(own) = Part::of(&opened.metadata).map_err(within)? else {
        return Ok(opened);
    };
    let siblings = Siblings::of(path, &own).map_err(within)?;
    let mut opened = Some(opened);
    let mut parts = Vec::new();
    for no in 0..own.count {
        let part = Part { no, ..own };
        let gguf = match opened.take_if(|_| no == own.no) {
            Some(gguf) => gguf,
            None => {
                let path = siblings.path(&part);
                let name = format!("{}: {} of the model", path.display(), part.describe());
                let file = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
                Gguf::named(name, reading, || load(&path).map(|bytes| bytes.called(&file)))?
            }
        };
        let agreed = Part::of(&gguf.metadata).and_then(|found| agree(found, &part));
        agreed.map_err(|e| e.within(&gguf.name))?;
        parts.push(gguf);
    }
    join(parts, &own).map_err(within).map(|whole| Gguf { name: name.clone(), ..whole })
}

/// The model of all its files, with the keys of the first.
fn join(parts: Vec<Gguf>, part: &Part) -> Result<Gguf> {
    let n_tensors: usize = parts.iter().map(|p| p.tensors.len()).sum();
    decode::at_most(MAX_TENSORS, n_tensors, "tensors in all parts")?;
    if let Some(expected) = part.n_tensors.filter(|&n| n as usize != n_tensors) {
        return Err(Error::Format(format!(
            "the {} parts of the model have {n_tensors} tensors, but the key {N_TENSORS_KEY:?} is {expected}",
            part.count
        )));
    }
    let mut parts = parts.into_iter();
    let none = || Error::Internal("a split model has no parts".into());
    let mut whole = parts.next().ok_or_else(none)?;
    for mut part in parts {
        let file = whole.files.len();
        whole.files.append(&mut part.files);
        whole.file_size += part.file_size;
        whole.tensors.extend(part.tensors.into_iter().map(|t| TensorInfo { file, ..t }));
    }
    whole.tensor_index = decode::index(&whole.tensors)?;
    Ok(whole)
}

/// The common beginning of the files' names.
struct Siblings {
    folder: PathBuf,
    stem: String,
}

impl Siblings {
    fn of(path: &Path, part: &Part) -> Result<Siblings> {
        let name = path.file_name().and_then(|name| name.to_str());
        let stem = name.and_then(|name| name.strip_suffix(&part.suffix())).ok_or_else(|| {
            Error::Format(format!(
                "the file is {} by its key {NO_KEY:?}, so its name should end with {:?}",
                part.describe(),
                part.suffix()
            ))
        })?;
        Ok(Siblings { folder: path.with_file_name(""), stem: stem.to_owned() })
    }

    fn path(&self, part: &Part) -> PathBuf {
        self.folder.join(format!("{}{}", self.stem, part.suffix()))
    }
}

/// Compares what a file says about itself with its name and with the other files.
fn agree(found: Option<Part>, expected: &Part) -> Result<()> {
    let found = found.ok_or_else(|| {
        Error::Format(format!("the key {COUNT_KEY:?} is missing or less than 2, expected {}", expected.count))
    })?;
    let same = |key: &str, found: u32, expected: u32| match found == expected {
        true => Ok(()),
        false => Err(Error::Format(format!(
            "the key {key:?} is {found}, expected {expected} as the name and the model's other files say"
        ))),
    };
    same(COUNT_KEY, found.count, expected.count)?;
    same(NO_KEY, found.no, expected.no)?;
    match (found.n_tensors, expected.n_tensors) {
        (Some(found), Some(expected)) => same(N_TENSORS_KEY, found, expected),
        _ => Ok(()),
    }
}
