//! `config.json` and its kind: a JSON object whose values are taken by name and type, never believed.
#![forbid(unsafe_code)]

use std::fmt;

use serde_json::{Map, Value};

use super::Folder;
use crate::error::{Error, Result};
use crate::gguf::json::tree;
use crate::gguf::quoted;
use crate::memory::expect_memory;

/// The most bytes of such a file: real ones have some thousand.
const MAX_BYTES: u64 = 1 << 20;
/// The most bytes of memory that a byte of JSON becomes, as a [`Value`]: an object of one key is a node of a tree, whose
/// capacity is eleven.
pub const MEMORY_PER_BYTE: usize = 128;

/// A file that is a JSON object.
#[derive(Debug)]
pub struct ConfigFile {
    name: String,
    object: Map<String, Value>,
}

/// A file that is a JSON array of objects.
#[derive(Debug)]
pub struct ListFile {
    name: &'static str,
    list: Vec<Value>,
}

/// The JSON in the file `name` of `folder`.
fn value(folder: &Folder<'_>, name: &str) -> Result<Value> {
    let bytes = folder.read(name, MAX_BYTES)?;
    expect_memory(bytes.len() * MEMORY_PER_BYTE, "its JSON").map_err(|e| e.within(name))?;
    let value = tree(&bytes).or_else(|e| named_numbers(&bytes).map_or(Err(e), |bytes| tree(&bytes)));
    value.map_err(|e| Error::Format(format!("{name}: the file is not JSON: {e}")))
}

impl ConfigFile {
    /// Reads the file `name` of `folder`.
    ///
    /// # Errors
    /// `Io`; `Unsupported` for a file of more than a megabyte; `NoMemory`; `Format` for what is no JSON object.
    pub fn read(folder: &Folder<'_>, name: &str) -> Result<ConfigFile> {
        match value(folder, name)? {
            Value::Object(object) => Ok(ConfigFile { name: name.to_owned(), object }),
            _ => Err(Error::Format(format!("{name}: the file is not a JSON object"))),
        }
    }

    /// As [`ConfigFile::read`]; without keys where the file is not there.
    pub fn optional(folder: &Folder<'_>, name: &str) -> Result<ConfigFile> {
        match folder.has(name) {
            true => ConfigFile::read(folder, name),
            false => Ok(ConfigFile { name: name.to_owned(), object: Map::new() }),
        }
    }

    /// What it holds.
    pub fn config(&self) -> Config<'_> {
        Config { file: &self.name, path: String::new(), object: &self.object, over: None }
    }
}

impl ListFile {
    /// Reads the file `name` of `folder`.
    ///
    /// # Errors
    /// As [`ConfigFile::read`].
    pub fn read(folder: &Folder<'_>, name: &'static str) -> Result<ListFile> {
        match value(folder, name)? {
            Value::Array(list) => Ok(ListFile { name, list }),
            _ => Err(Error::Format(format!("{name}: the file is not a JSON array"))),
        }
    }

    /// The objects.
    ///
    /// # Errors
    /// `Format` for what is none.
    pub fn configs(&self) -> Result<Vec<Config<'_>>> {
        let configs = self.list.iter().enumerate().map(|(i, value)| match value {
            Value::Object(object) => {
                Ok(Config { file: self.name, path: format!("[{i}]."), object, over: None })
            }
            _ => Err(Error::Format(format!("{}: element {i} is not a JSON object", self.name))),
        });
        configs.collect()
    }
}

/// The file with `NaN`, `Infinity` and `-Infinity`, which Python writes as numbers, as strings; `None` where it has none.
fn named_numbers(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len());
    let (mut rest, mut in_string) = (bytes, false);
    while let [first, ..] = rest {
        let name = ["NaN", "Infinity", "-Infinity"]
            .iter()
            .find(|name| !in_string && rest.starts_with(name.as_bytes()));
        let n = match (name, first) {
            (Some(name), _) => {
                out.extend([b"\"", name.as_bytes(), b"\""].concat());
                rest = &rest[name.len()..];
                continue;
            }
            (None, b'\\') if in_string => 2.min(rest.len()),
            (None, b'"') => {
                in_string = !in_string;
                1
            }
            _ => 1,
        };
        out.extend(&rest[..n]);
        rest = &rest[n..];
    }
    (out.len() > bytes.len()).then_some(out)
}

/// A value in the words of sentences.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.to_string(),
        Value::String(s) => quoted(s.as_bytes()),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// A JSON object with the words that place it in error sentences. A `null` is as good as an absent key.
#[derive(Debug, Clone)]
pub struct Config<'a> {
    file: &'a str,
    /// What keys are prefixed with in sentences: "text_config." for an object inside the file.
    path: String,
    object: &'a Map<String, Value>,
    /// An object whose keys replace those of `object`, and its path.
    over: Option<(String, &'a Map<String, Value>)>,
}

impl<'a> Config<'a> {
    /// This object with every key of `over` replaced.
    pub fn under(&self, over: &Config<'a>) -> Config<'a> {
        Config { over: Some((over.path.clone(), over.object)), ..self.clone() }
    }

    /// The value of `key`, `null` included.
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.over.as_ref().and_then(|(_, over)| over.get(key)).or_else(|| self.object.get(key))
    }

    /// Its keys.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.object.keys().map(String::as_str)
    }

    /// Whether it has no keys.
    pub fn is_empty(&self) -> bool {
        self.object.is_empty()
    }

    /// Whether `key` is there and `null`, which in a few places means something else than an absent key.
    pub fn is_null(&self, key: &str) -> bool {
        self.get(key).is_some_and(Value::is_null)
    }

    /// An error about `key`.
    fn wrong(&self, key: &str, found: &Value, expected: impl fmt::Display) -> Error {
        let found = shown(found);
        Error::Format(format!("{}: the key {} is {found}, expected {expected}", self.file, self.quoted(key)))
    }

    fn quoted(&self, key: &str) -> String {
        let over = self.over.as_ref().filter(|(_, over)| over.contains_key(key));
        quoted(format!("{}{key}", over.map_or(&self.path, |(path, _)| path)).as_bytes())
    }

    /// The value of the first of `keys` that is there, and that key.
    fn find<'k>(&self, keys: &[&'k str]) -> Option<(&'k str, &'a Value)> {
        keys.iter().find_map(|key| match self.get(key) {
            None | Some(Value::Null) => None,
            Some(value) => Some((*key, value)),
        })
    }

    /// The value of the first of `keys` that is there, as `get` takes it.
    fn take<T>(
        &self,
        keys: &[&str],
        expected: &str,
        get: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        match self.find(keys) {
            None => Ok(None),
            Some((key, value)) => get(value).map(Some).ok_or_else(|| self.wrong(key, value, expected)),
        }
    }

    /// Whether `key` is there.
    pub fn has(&self, key: &str) -> bool {
        self.find(&[key]).is_some()
    }

    /// An integer of at most 32 bits under the first of `keys` that is there. Others that are there must agree with it.
    pub fn u32(&self, keys: &[&str]) -> Result<Option<u32>> {
        let found = self.find(keys);
        let other = keys
            .iter()
            .find_map(|key| self.find(&[key]).filter(|(_, value)| Some(*value) != found.map(|f| f.1)));
        if let (Some((key, value)), Some((other, contrary))) = (found, other) {
            let expected = format!("{value} as {} is", self.quoted(key));
            return Err(self.wrong(other, contrary, expected));
        }
        self.take(keys, "an integer from 0 to 4294967295", |v| v.as_u64()?.try_into().ok())
    }

    /// As [`Config::u32`]; required.
    pub fn require_u32(&self, keys: &[&str]) -> Result<u32> {
        self.u32(keys)?.ok_or_else(|| self.missing(keys))
    }

    /// A count that something is divided by or into: as [`Config::require_u32`], at least 1.
    pub fn count(&self, keys: &[&str]) -> Result<u32> {
        match self.require_u32(keys)? {
            0 => Err(self.wrong(self.find(keys).map_or("", |(key, _)| key), &0.into(), "at least 1")),
            n => Ok(n),
        }
    }

    /// As [`Config::count`], `None` when absent.
    pub fn optional_count(&self, keys: &[&str]) -> Result<Option<u32>> {
        self.find(keys).map(|_| self.count(keys)).transpose()
    }

    /// A number under the first of `keys` that is there, which can be written in 32 bits too.
    pub fn f64(&self, keys: &[&str]) -> Result<Option<f64>> {
        let fits = |x: &f64| (*x as f32).is_finite() && (*x == 0.0 || *x as f32 != 0.0);
        match self.take(keys, "a number", Value::as_f64)? {
            Some(x) if !fits(&x) => self.take(keys, "a number that 32 bits can hold", |_| None),
            other => Ok(other),
        }
    }

    /// As [`Config::f64`], above 0.
    pub fn positive(&self, keys: &[&str]) -> Result<Option<f64>> {
        match self.f64(keys)? {
            Some(x) if x <= 0.0 => self.take(keys, "a number above 0", |_| None),
            other => Ok(other),
        }
    }

    /// As [`Config::f64`]; required.
    pub fn require_f64(&self, keys: &[&str]) -> Result<f64> {
        self.f64(keys)?.ok_or_else(|| self.missing(keys))
    }

    /// A boolean under `key`.
    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        self.take(&[key], "true or false", Value::as_bool)
    }

    /// A string under the first of `keys` that is there.
    pub fn str(&self, keys: &[&str]) -> Result<Option<&'a str>> {
        self.take(keys, "a string", Value::as_str)
    }

    /// An array of numbers.
    pub fn f64s(&self, key: &str) -> Result<Option<Vec<f64>>> {
        self.take(&[key], "an array of numbers", |v| {
            v.as_array()?.iter().map(|x| x.as_f64().filter(|x| x.is_finite())).collect()
        })
    }

    /// An integer, or an array of them.
    pub fn counts(&self, key: &str) -> Result<Option<Vec<u32>>> {
        let count = |v: &Value| v.as_u64()?.try_into().ok();
        self.take(&[key], "an integer or an array of them", |v| match v {
            Value::Array(counts) => counts.iter().map(count).collect(),
            one => count(one).map(|count| vec![count]),
        })
    }

    /// An array of a lower and an upper bound, which may be infinite: as Python writes that, or as transformers does.
    pub fn bounds(&self, key: &str) -> Result<Option<(f64, f64)>> {
        let bound = |v: &Value| match v.get("__float__").unwrap_or(v).as_str() {
            Some("Infinity") => Some(f64::INFINITY),
            _ => v.as_f64(),
        };
        self.take(&[key], "an array of two numbers", |v| match &v.as_array()?[..] {
            [lower, upper] => Some((bound(lower)?, bound(upper)?)),
            _ => None,
        })
    }

    /// An array of strings.
    pub fn strs(&self, key: &str) -> Result<Option<Vec<&'a str>>> {
        self.take(&[key], "an array of strings", |v| v.as_array()?.iter().map(Value::as_str).collect())
    }

    /// One token id, or a list of them.
    pub fn tokens(&self, key: &str) -> Result<Vec<u32>> {
        let id = |v: &Value| v.as_u64()?.try_into().ok();
        let tokens = self.take(&[key], "a token id or an array of token ids", |v| match v {
            Value::Array(ids) => ids.iter().map(id).collect::<Option<Vec<u32>>>(),
            one => id(one).map(|id| vec![id]),
        })?;
        Ok(tokens.unwrap_or_default())
    }

    /// The object under the first of `keys` that is there.
    pub fn object(&self, keys: &[&str]) -> Result<Option<Config<'a>>> {
        let Some((key, value)) = self.find(keys) else { return Ok(None) };
        match value {
            Value::Object(object) => {
                Ok(Some(Config { file: self.file, path: format!("{}{key}.", self.path), object, over: None }))
            }
            other => Err(self.wrong(key, other, "an object")),
        }
    }

    /// What a value that is there is called in the midst of a sentence; dots lead into objects.
    pub fn place(&self, path: &str) -> Option<String> {
        let mut keys = path.split('.');
        let first = self.object.get(keys.next()?)?;
        let value = keys.try_fold(first, |value, key| value.as_object()?.get(key))?;
        (!value.is_null()).then(|| format!("{} of {}", self.quoted(path), self.file))
    }

    /// "The key … is missing".
    pub fn missing(&self, keys: &[&str]) -> Error {
        let keys: Vec<String> = keys.iter().map(|key| self.quoted(key)).collect();
        Error::Format(format!("{}: the key {} is missing", self.file, keys.join(" or ")))
    }

    /// Refuses the model when the first of `keys` that is there is none of the strings that `expected` lists.
    pub fn expect_str(&self, keys: &[&str], expected: &[&str]) -> Result<()> {
        match self.str(keys)? {
            Some(found) if !expected.contains(&found) => {
                let key = self.find(keys).map_or("", |(key, _)| key);
                Err(self.unsupported(key, &quoted(found.as_bytes()), &expected.join(", ")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses the model when the boolean `key` is there and not `expected`.
    pub fn expect_bool(&self, key: &str, expected: bool) -> Result<()> {
        match self.bool(key)? {
            Some(found) if found != expected => {
                Err(self.unsupported(key, &found.to_string(), &expected.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// A boolean, string, number or other value of `key` in the words of sentences; `None` when absent.
    pub fn shown(&self, key: &str) -> Option<String> {
        self.find(&[key]).map(|(_, value)| shown(value))
    }

    /// A value that another program understands and Ember does not.
    pub fn unsupported(&self, key: &str, found: &str, supported: &str) -> Error {
        Error::Unsupported(format!(
            "{}: the key {} is {found}, which is not supported; supported is: {supported}",
            self.file,
            self.quoted(key)
        ))
    }
}
