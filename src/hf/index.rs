//! The index of a folder whose weights are in several files: which file holds which tensor.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::path::{Component, Path};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::error::{Error, Result};
use crate::gguf::quoted;
use crate::memory::expect_memory;

/// The index's name.
pub const INDEX: &str = "model.safetensors.index.json";
/// The most bytes of an index: those of the largest models have a few million.
pub const MAX_BYTES: u64 = 16 << 20;
/// The most bytes of memory that a byte of it becomes.
const MEMORY_PER_BYTE: usize = 32;
/// The key that lists tensors.
const KEY: &str = "weight_map";

/// What an index says; tensors are borrowed from its bytes.
pub struct Index<'a> {
    /// The files, in the order of their names.
    pub files: Vec<String>,
    /// Each tensor, in the order of their names, and the file that it says holds it.
    pub listed: Vec<Listed<'a>>,
}

/// A tensor and the file that holds it.
pub type Listed<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Reads an index.
///
/// # Errors
/// `Format` for what is no such index, or names a file outside the folder; `NoMemory`.
pub fn parse(bytes: &[u8]) -> Result<Index<'_>> {
    expect_memory(bytes.len().saturating_mul(MEMORY_PER_BYTE), "its JSON").map_err(|e| e.within(INDEX))?;
    let place = Cell::new(Place::File);
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let listed = json.deserialize_map(FileReader(&place)).and_then(|found| json.end().map(|()| found));
    let wrong = |e: serde_json::Error| match (e.is_data(), place.get()) {
        (false, _) => format!("the file is not JSON: {e}"),
        (true, Place::File) => "the file is not a JSON object".to_owned(),
        (true, Place::Value) => format!("the key {KEY:?} is no object, expected an object of strings"),
        (true, Place::Entries) => format!("the key {KEY:?} is an object, expected an object of strings"),
    };
    let listed = listed.map_err(|e| Error::Format(format!("{INDEX}: {}", wrong(e))))?;
    let mut listed = listed.ok_or_else(|| Error::Format(format!("{INDEX}: the key {KEY:?} is missing")))?;
    listed.sort_unstable();
    for (tensor, file) in &listed {
        let mut parts = Path::new(&**file).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(name)), None) if name == &**file) {
            return Err(Error::Format(format!(
                "{INDEX}: the key {KEY:?} puts the tensor {} into {}, expected the name of a file in the folder",
                quoted(tensor.as_bytes()),
                quoted(file.as_bytes())
            )));
        }
    }
    let mut files: Vec<&str> = listed.iter().map(|(_, file)| &**file).collect();
    files.sort_unstable();
    files.dedup();
    match files.is_empty() {
        true => Err(Error::Format(format!("{INDEX}: the key {KEY:?} lists no files"))),
        false => Ok(Index { files: files.into_iter().map(str::to_owned).collect(), listed }),
    }
}

/// Where the reader is, to say what is not as it should be.
#[derive(Clone, Copy)]
enum Place {
    File,
    Value,
    Entries,
}

/// A string that stays where it is unless it has escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads the whole file, and keeps what its one key lists.
struct FileReader<'p>(&'p Cell<Place>);

impl<'de> Visitor<'de> for FileReader<'_> {
    type Value = Option<Vec<Listed<'de>>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut file: A) -> std::result::Result<Self::Value, A::Error> {
        let mut listed = None;
        while let Some(Text(key)) = file.next_key()? {
            if key == KEY {
                self.0.set(Place::Value);
                listed = file.next_value_seed(EntriesReader(self.0))?;
                self.0.set(Place::File);
            } else {
                file.next_value::<IgnoredAny>()?;
            }
        }
        Ok(listed)
    }
}

/// Reads the value of the key; `None` for null.
struct EntriesReader<'p>(&'p Cell<Place>);

impl<'de> DeserializeSeed<'de> for EntriesReader<'_> {
    type Value = Option<Vec<Listed<'de>>>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> std::result::Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for EntriesReader<'_> {
    type Value = Option<Vec<Listed<'de>>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_unit<E>(self) -> std::result::Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> std::result::Result<Self::Value, A::Error> {
        self.0.set(Place::Entries);
        let mut listed = Vec::new();
        while let Some((Text(tensor), Text(file))) = entries.next_entry()? {
            listed.push((tensor, file));
        }
        Ok(Some(listed))
    }
}
