//! Metadata values: the thirteen types that a key can have, in memory that stays small for any file.
#![forbid(unsafe_code)]

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;

use super::bytes::FileBytes;
use crate::error::{Error, Result, quoted};

/// A metadata value's type by its number in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    /// The type with this number, if there is one.
    pub fn from_id(id: u32) -> Option<ValueType> {
        use ValueType::*;
        const BY_ID: [ValueType; 13] = [U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64];
        BY_ID.get(usize::try_from(id).ok()?).copied()
    }

    /// The name in error sentences: "u32", "string".
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 13] =
            ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"];
        NAMES[self as usize]
    }

    /// The fewest bytes that one value of this type takes in a file.
    pub(super) fn min_bytes(self) -> usize {
        use ValueType::*;
        match self {
            U8 | I8 | Bool => 1,
            U16 | I16 => 2,
            U32 | I32 | F32 => 4,
            U64 | I64 | F64 | String => 8,
            Array => 12,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A string of the file: bytes that are meant to be UTF-8, kept in place.
#[derive(Clone)]
pub struct GgufString {
    file: Arc<FileBytes>,
    range: Range<usize>,
}

impl GgufString {
    /// The string at `range` of `file`, which must be inside it.
    pub(super) fn new(file: Arc<FileBytes>, range: Range<usize>) -> GgufString {
        GgufString { file, range }
    }

    /// A string with bytes of its own, for a file to be written.
    pub fn copy(bytes: &[u8]) -> GgufString {
        GgufString { file: Arc::new(FileBytes::unaligned(bytes.to_vec())), range: 0..bytes.len() }
    }

    /// The bytes as they are in the file.
    pub fn as_bytes(&self) -> &[u8] {
        &self.file[self.range.clone()]
    }

    /// The text, or `None` when the bytes are not UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()).ok()
    }
}

impl PartialEq for GgufString {
    fn eq(&self, other: &GgufString) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl fmt::Debug for GgufString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(self.as_bytes()))
    }
}

/// An array of strings, kept in place in the file: four bytes of memory per string, not an allocation each.
#[derive(Clone)]
pub struct StringArray {
    file: Arc<FileBytes>,
    /// Where the array's strings begin in `file`: at the first one's length field.
    base: usize,
    /// `ends[i]` is where string `i` ends, counted from `base`. The eight-byte length field of each string begins where its
    /// predecessor ends.
    ends: Vec<u32>,
}

impl StringArray {
    /// The strings in `file` from `base` on, in the file's layout, that end at `ends` (relative to `base`).
    pub(super) fn new(file: Arc<FileBytes>, base: usize, ends: Vec<u32>) -> StringArray {
        StringArray { file, base, ends }
    }

    /// An array with bytes of its own, for a file to be written.
    ///
    /// # Errors
    /// `InvalidArgument` when the strings take 4 GiB or more.
    pub fn copy<S: AsRef<[u8]>>(strings: &[S]) -> Result<StringArray> {
        let mut blob = Vec::new();
        let mut ends = Vec::with_capacity(strings.len());
        for s in strings.iter().map(AsRef::as_ref) {
            blob.extend_from_slice(&(s.len() as u64).to_le_bytes());
            blob.extend_from_slice(s);
            let too_long = |_| Error::InvalidArgument("the strings of an array take 4 GiB or more".into());
            ends.push(u32::try_from(blob.len()).map_err(too_long)?);
        }
        Ok(StringArray { file: Arc::new(FileBytes::unaligned(blob)), base: 0, ends })
    }

    /// How many strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of string `i`, which may not be UTF-8; `None` when there are fewer strings.
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let end = self.base + *self.ends.get(i)? as usize;
        let previous = i.checked_sub(1).map_or(0, |p| self.ends[p] as usize);
        Some(&self.file[self.base + previous + 8..end])
    }

    /// The strings in order, as [`StringArray::get`] gives them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.get(i).unwrap_or_default())
    }

    /// The strings in the file's layout, each after its length.
    pub fn encoded(&self) -> &[u8] {
        let len = self.ends.last().map_or(0, |&end| end as usize);
        &self.file[self.base..self.base + len]
    }
}

impl PartialEq for StringArray {
    fn eq(&self, other: &StringArray) -> bool {
        self.encoded() == other.encoded()
    }
}

impl fmt::Debug for StringArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(Lossy)).finish()
    }
}

/// Bytes that are meant to be UTF-8, written as `{:?}` writes a text, with U+FFFD for other bytes; never copied as a whole.
struct Lossy<'a>(&'a [u8]);

impl fmt::Debug for Lossy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '\'' => f.write_char(c)?,
                    _ => c.escape_debug().try_for_each(|c| f.write_char(c))?,
                }
            }
            if !chunk.invalid().is_empty() {
                f.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        f.write_char('"')
    }
}

macro_rules! values {
    ($($variant:ident($ty:ty);)*) => {
        /// A metadata value.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "the names say all there is to say")]
        pub enum Value {
            $($variant($ty),)*
            Bool(bool),
            String(GgufString),
            Array(Array),
        }

        /// A metadata array: elements of one type.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "the names say all there is to say")]
        pub enum Array {
            $($variant(Vec<$ty>),)*
            Bool(Vec<bool>),
            String(StringArray),
            Array(Vec<Array>),
        }

        impl Value {
            /// The value's type.
            pub fn value_type(&self) -> ValueType {
                match self {
                    $(Value::$variant(_) => ValueType::$variant,)*
                    Value::Bool(_) => ValueType::Bool,
                    Value::String(_) => ValueType::String,
                    Value::Array(_) => ValueType::Array,
                }
            }
        }

        impl Array {
            /// The elements' type.
            pub fn element_type(&self) -> ValueType {
                match self {
                    $(Array::$variant(_) => ValueType::$variant,)*
                    Array::Bool(_) => ValueType::Bool,
                    Array::String(_) => ValueType::String,
                    Array::Array(_) => ValueType::Array,
                }
            }

            /// How many elements.
            pub fn len(&self) -> usize {
                match self {
                    $(Array::$variant(v) => v.len(),)*
                    Array::Bool(v) => v.len(),
                    Array::String(v) => v.len(),
                    Array::Array(v) => v.len(),
                }
            }
        }

        $(
            impl From<$ty> for Value {
                fn from(v: $ty) -> Value {
                    Value::$variant(v)
                }
            }
            impl From<Vec<$ty>> for Value {
                fn from(v: Vec<$ty>) -> Value {
                    Value::Array(Array::$variant(v))
                }
            }
        )*
    };
}

values! {
    U8(u8);
    I8(i8);
    U16(u16);
    I16(i16);
    U32(u32);
    I32(i32);
    F32(f32);
    U64(u64);
    I64(i64);
    F64(f64);
}

impl Array {
    /// The elements as integers, if they are of an integer type.
    pub fn integers(&self) -> Option<Box<dyn Iterator<Item = i128> + '_>> {
        fn wide<T: Copy + Into<i128>>(v: &[T]) -> Option<Box<dyn Iterator<Item = i128> + '_>> {
            Some(Box::new(v.iter().map(|&x| x.into())))
        }
        match self {
            Array::U8(v) => wide(v),
            Array::I8(v) => wide(v),
            Array::U16(v) => wide(v),
            Array::I16(v) => wide(v),
            Array::U32(v) => wide(v),
            Array::I32(v) => wide(v),
            Array::U64(v) => wide(v),
            Array::I64(v) => wide(v),
            _ => None,
        }
    }

    /// Element `i` as an integer, if it is of an integer type.
    pub fn integer(&self, i: usize) -> Option<i128> {
        fn at<T: Copy + Into<i128>>(v: &[T], i: usize) -> Option<i128> {
            v.get(i).map(|&x| x.into())
        }
        match self {
            Array::U8(v) => at(v, i),
            Array::I8(v) => at(v, i),
            Array::U16(v) => at(v, i),
            Array::I16(v) => at(v, i),
            Array::U32(v) => at(v, i),
            Array::I32(v) => at(v, i),
            Array::U64(v) => at(v, i),
            Array::I64(v) => at(v, i),
            _ => None,
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Value {
    /// The value as an integer, if it is of an integer type.
    pub fn integer(&self) -> Option<i128> {
        Some(match *self {
            Value::U8(v) => v.into(),
            Value::I8(v) => v.into(),
            Value::U16(v) => v.into(),
            Value::I16(v) => v.into(),
            Value::U32(v) => v.into(),
            Value::I32(v) => v.into(),
            Value::U64(v) => v.into(),
            Value::I64(v) => v.into(),
            _ => return None,
        })
    }

    /// The kind of value, for error sentences: "a u32", "an array of strings".
    pub(super) fn describe(&self) -> String {
        match self {
            Value::Array(a) => format!("an array of {}s", a.element_type()),
            v => with_article(v.value_type().name()),
        }
    }
}

/// A type's name with its article: "a u32", "an i32", "an f32", "an array".
pub(super) fn with_article(type_name: &str) -> String {
    let article = if type_name.starts_with(['a', 'f', 'i']) { "an" } else { "a" };
    format!("{article} {type_name}")
}

impl From<bool> for Value {
    fn from(v: bool) -> Value {
        Value::Bool(v)
    }
}

impl From<&str> for Value {
    fn from(v: &str) -> Value {
        Value::String(GgufString::copy(v.as_bytes()))
    }
}

impl From<String> for Value {
    fn from(v: String) -> Value {
        Value::from(v.as_str())
    }
}

impl From<Vec<bool>> for Value {
    fn from(v: Vec<bool>) -> Value {
        Value::Array(Array::Bool(v))
    }
}

impl From<StringArray> for Value {
    fn from(v: StringArray) -> Value {
        Value::Array(Array::String(v))
    }
}

impl From<Array> for Value {
    fn from(v: Array) -> Value {
        Value::Array(v)
    }
}
