//! A file's typed keys and values.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use super::index::NameIndex;
use super::value::{Array, StringArray, Value, with_article};
use crate::error::{Error, Result, quoted};
use crate::memory::collected;

/// A file's keys and values, in the file's order.
///
/// The typed getters give `Ok(None)` when the key is absent and `Err(Format)`, naming the key, the expected and the
/// found type, when its value is of another type or does not fit. Integers are taken from any integer type whose
/// value fits, floats from `f32` and `f64`.
#[derive(Debug)]
pub struct Metadata {
    entries: Vec<(Box<str>, Value)>,
    index: NameIndex,
}

impl Metadata {
    /// The entries, whose keys must be unique.
    pub(super) fn new(entries: Vec<(Box<str>, Value)>) -> Result<Metadata> {
        let index = NameIndex::new(entries.len(), |i| &entries[i].0).map_err(|i| {
            let key = quoted(entries[i].0.as_bytes());
            Error::Format(format!("the metadata key {key} appears more than once"))
        })?;
        Ok(Metadata { entries, index })
    }

    /// Sets keys, existing and new ones.
    pub(super) fn set(&mut self, entries: &[(Box<str>, Value)]) -> Result<()> {
        let mut all = std::mem::take(&mut self.entries);
        for (key, value) in entries {
            match all.iter_mut().find(|(known, _)| known == key) {
                Some((_, slot)) => *slot = value.clone(),
                None => all.push((key.clone(), value.clone())),
            }
        }
        *self = Metadata::new(all)?;
        Ok(())
    }

    /// How many keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keys and values in the file's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (&**key, value))
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.index.find(key, |i| &self.entries[i].0).map(|i| &self.entries[i].1)
    }

    /// The array of `key`, or the error.
    fn array(&self, key: &str, expected: &str) -> Result<Option<&Array>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(a)) => Ok(Some(a)),
            Some(v) => Err(mismatch(key, v, expected)),
        }
    }

    /// A bool.
    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(v)) => Ok(Some(*v)),
            Some(v) => Err(mismatch(key, v, "a bool")),
        }
    }

    /// A string, which must be UTF-8.
    pub fn str(&self, key: &str) -> Result<Option<&str>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(s)) => match s.as_str() {
                Some(text) => Ok(Some(text)),
                None => Err(Error::Format(format!(
                    "the key {} is {s:?}, which is not UTF-8",
                    quoted(key.as_bytes())
                ))),
            },
            Some(v) => Err(mismatch(key, v, "a string")),
        }
    }

    /// An array of strings.
    pub fn strings(&self, key: &str) -> Result<Option<&StringArray>> {
        const EXPECTED: &str = "an array of strings";
        match self.array(key, EXPECTED)? {
            None => Ok(None),
            Some(Array::String(strings)) => Ok(Some(strings)),
            Some(other) => Err(mismatch_array(key, other, EXPECTED)),
        }
    }

    /// A float.
    pub fn f64(&self, key: &str) -> Result<Option<f64>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::F32(v)) => Ok(Some(f64::from(*v))),
            Some(Value::F64(v)) => Ok(Some(*v)),
            Some(v) => Err(mismatch(key, v, "an f64")),
        }
    }

    /// A float, rounded to the nearest `f32` when the file has an `f64`.
    pub fn f32(&self, key: &str) -> Result<Option<f32>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::F32(v)) => Ok(Some(*v)),
            Some(Value::F64(v)) => narrow(*v).map(Some).ok_or_else(|| misfit(key, v, "f32")),
            Some(v) => Err(mismatch(key, v, "an f32")),
        }
    }

    /// An array of floats, rounded to the nearest `f32` when the file has `f64`.
    pub fn f32s(&self, key: &str) -> Result<Option<Cow<'_, [f32]>>> {
        const EXPECTED: &str = "an array of f32s";
        match self.array(key, EXPECTED)? {
            None => Ok(None),
            Some(Array::F32(v)) => Ok(Some(Cow::Borrowed(v))),
            Some(Array::F64(v)) => {
                let narrowed = v.iter().map(|&x| narrow(x).ok_or_else(|| misfit(key, x, "f32")));
                Ok(Some(Cow::Owned(collected(v.len(), &named(key), narrowed)?)))
            }
            Some(other) => Err(mismatch_array(key, other, EXPECTED)),
        }
    }

    /// An integer of any type that `T` can hold.
    fn integer<T: TryFrom<i128>>(&self, key: &str, type_name: &str) -> Result<Option<T>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let n = value.integer().ok_or_else(|| mismatch(key, value, &with_article(type_name)))?;
        T::try_from(n).map(Some).map_err(|_| misfit(key, n, type_name))
    }

    /// An array of integers of any type that `T` can hold; `same` gives the elements that need no conversion.
    fn integers<T: TryFrom<i128> + Clone>(
        &self,
        key: &str,
        type_name: &str,
        same: fn(&Array) -> Option<&[T]>,
    ) -> Result<Option<Cow<'_, [T]>>> {
        let expected = format!("an array of {type_name}s");
        let Some(array) = self.array(key, &expected)? else {
            return Ok(None);
        };
        if let Some(elements) = same(array) {
            return Ok(Some(Cow::Borrowed(elements)));
        }
        let integers = array.integers().ok_or_else(|| mismatch_array(key, array, &expected))?;
        let converted = integers.map(|n| T::try_from(n).map_err(|_| misfit(key, n, type_name)));
        Ok(Some(Cow::Owned(collected(array.len(), &named(key), converted)?)))
    }

    /// An unsigned integer of at most 32 bits.
    pub fn u32(&self, key: &str) -> Result<Option<u32>> {
        self.integer(key, "u32")
    }

    /// An unsigned integer of at most 64 bits.
    pub fn u64(&self, key: &str) -> Result<Option<u64>> {
        self.integer(key, "u64")
    }

    /// A signed integer of at most 64 bits.
    pub fn i64(&self, key: &str) -> Result<Option<i64>> {
        self.integer(key, "i64")
    }

    /// An array of signed integers of at most 32 bits.
    pub fn i32s(&self, key: &str) -> Result<Option<Cow<'_, [i32]>>> {
        self.integers(key, "i32", |a| if let Array::I32(v) = a { Some(v) } else { None })
    }

    /// An array of unsigned integers of at most 32 bits.
    pub fn u32s(&self, key: &str) -> Result<Option<Cow<'_, [u32]>>> {
        self.integers(key, "u32", |a| if let Array::U32(v) = a { Some(v) } else { None })
    }
}

/// The same getters for required keys: absence is an error too.
macro_rules! require {
    ($($require:ident = $get:ident -> $ty:ty;)*) => {
        impl Metadata {
            $(
                #[doc = concat!("As [`Metadata::", stringify!($get), "`], but an absent key is `Err(Format)`.")]
                pub fn $require(&self, key: &str) -> Result<$ty> {
                    self.$get(key)?.ok_or_else(|| {
                        Error::Format(format!("the required key {key:?} is missing"))
                    })
                }
            )*
        }
    };
}

require! {
    require_u32 = u32 -> u32;
    require_u64 = u64 -> u64;
    require_f32 = f32 -> f32;
    require_bool = bool -> bool;
    require_str = str -> &str;
    require_strings = strings -> &StringArray;
    require_f32s = f32s -> Cow<'_, [f32]>;
    require_i32s = i32s -> Cow<'_, [i32]>;
    require_u32s = u32s -> Cow<'_, [u32]>;
}

/// `v` as the nearest `f32`; `None` when a finite value would become infinite.
fn narrow(v: f64) -> Option<f32> {
    let narrowed = v as f32;
    (narrowed.is_finite() || !v.is_finite()).then_some(narrowed)
}

/// The array of `key`, for an error sentence.
fn named(key: &str) -> String {
    format!("the array {}", quoted(key.as_bytes()))
}

fn mismatch(key: &str, found: &Value, expected: &str) -> Error {
    let (key, found) = (quoted(key.as_bytes()), found.describe());
    Error::Format(format!("the key {key} is {found}, expected {expected}"))
}

fn mismatch_array(key: &str, found: &Array, expected: &str) -> Error {
    let found = found.element_type();
    Error::Format(format!("the key {key:?} is an array of {found}s, expected {expected}"))
}

fn misfit(key: &str, value: impl std::fmt::Display, type_name: &str) -> Error {
    Error::Format(format!(
        "the key {key:?} has the value {value}, which does not fit {}",
        with_article(type_name)
    ))
}
