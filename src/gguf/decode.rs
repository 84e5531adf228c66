//! Bytes to metadata and tensor directory. Every value is checked before it is used.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::Reading;
use super::bytes::FileBytes;
use super::cursor::Cursor;
use super::index::NameIndex;
use super::metadata::Metadata;
use super::tensor::{Dims, MAX_DIMS, TensorInfo, TensorType};
use super::value::{Array, GgufString, StringArray, Value, ValueType};
use crate::error::{Error, Result, quoted};
use crate::memory::{Charge, append, collected, copied_text, with_capacity};

/// The most keys in a file, arrays inside arrays in a file, and tensors in a file: far above any model's. They keep the memory
/// that a hostile file can claim within tens of megabytes above its own size.
const MAX_KEYS: usize = 65_536;
const MAX_INNER_ARRAYS: usize = 65_536;
pub(super) const MAX_TENSORS: usize = 262_144;
/// How deep arrays may nest: 1 is an array of numbers.
const MAX_NESTING: usize = 4;
/// The longest key, by the specification, and the longest tensor name: four times the specification's 64.
pub(super) const MAX_KEY_BYTES: usize = 65_535;
pub(super) const MAX_NAME_BYTES: usize = 255;
/// The fewest bytes that a key with its value, and a tensor's entry, take in a file.
const MIN_KEY_VALUE_BYTES: usize = 8 + 1 + 4 + 1;
const MIN_TENSOR_BYTES: usize = 8 + 1 + 4 + 8 + 4 + 8;

/// Alignment of the tensor data in a file that does not say, in bytes.
pub(super) const DEFAULT_ALIGNMENT: usize = 32;
/// The key of the alignment.
pub(super) const ALIGNMENT_KEY: &str = "general.alignment";

/// The name of an array in errors about memory.
const ARRAY: &str = "an array of the metadata";

/// The contents of a file.
pub(super) struct Contents {
    pub version: u32,
    pub metadata: Metadata,
    pub tensors: Vec<TensorInfo>,
    pub tensor_index: NameIndex,
    /// The charges for the metadata.
    pub charges: Vec<Charge>,
}

/// Bytes that the arrays of a file's metadata may have without being counted: several times those of any model.
const UNCOUNTED_BYTES: usize = 32 << 20;
/// Elements of an array between two checks for cancelling.
const ELEMENTS: usize = 1 << 14;

/// Reads and checks all of a file except the tensors' elements. Metadata beyond [`UNCOUNTED_BYTES`] is charged to the memory of
/// `reading`, whose `step` may end it.
pub(super) fn decode(file: &Arc<FileBytes>, reading: &Reading<'_>) -> Result<Contents> {
    let cursor = Cursor::new(file);
    let (inner_arrays_left, uncounted, charges) = (MAX_INNER_ARRAYS, UNCOUNTED_BYTES, Vec::new());
    let mut decoder = Decoder { file, reading, cursor, inner_arrays_left, uncounted, charges };
    let version = decoder.magic_and_version()?;
    let n_tensors = decoder.cursor.count(MIN_TENSOR_BYTES, "tensors")?;
    let n_keys = decoder.cursor.count(MIN_KEY_VALUE_BYTES, "metadata keys")?;
    at_most(MAX_TENSORS, n_tensors, "tensors")?;
    at_most(MAX_KEYS, n_keys, "metadata keys")?;
    let metadata = decoder.metadata(n_keys)?;
    let alignment = alignment(&metadata)?;
    let tensors = decoder.tensors(n_tensors, alignment)?;
    let tensor_index = index(&tensors)?;
    Ok(Contents { version, metadata, tensors, tensor_index, charges: decoder.charges })
}

/// The names of `tensors`, which must be unique.
pub(super) fn index(tensors: &[TensorInfo]) -> Result<NameIndex> {
    NameIndex::new(tensors.len(), |i| &tensors[i].name).map_err(|i| {
        let name = &tensors[i].name;
        Error::Format(format!("the tensor name {name:?} appears more than once"))
    })
}

/// The checked alignment of the tensor data: a power of two from 8 to 65536.
pub(super) fn alignment(metadata: &Metadata) -> Result<usize> {
    match metadata.u32(ALIGNMENT_KEY)? {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(n) if n.is_power_of_two() && (8..=65_536).contains(&n) => Ok(n as usize),
        Some(n) => Err(Error::Format(format!(
            "the key {ALIGNMENT_KEY:?} is {n}, expected a power of two from 8 to 65536"
        ))),
    }
}

pub(super) fn at_most(max: usize, n: usize, what: &str) -> Result<()> {
    match n > max {
        true => Err(Error::Unsupported(format!("the file has {n} {what}, Ember reads at most {max}"))),
        false => Ok(()),
    }
}

struct Decoder<'a> {
    file: &'a Arc<FileBytes>,
    reading: &'a Reading<'a>,
    cursor: Cursor<'a>,
    inner_arrays_left: usize,
    /// Bytes that are still free of charge.
    uncounted: usize,
    charges: Vec<Charge>,
}

impl<'a> Decoder<'a> {
    fn magic_and_version(&mut self) -> Result<u32> {
        let magic = self.cursor.take(4, "the magic")?;
        if magic != b"GGUF" {
            let found = quoted(magic);
            return Err(Error::Format(format!(
                "the magic is {found}, expected \"GGUF\": this is not a GGUF file"
            )));
        }
        let version = self.cursor.u32("the version")?;
        match version {
            2 | 3 => Ok(version),
            0 => Err(Error::Format("the GGUF version is 0, which does not exist".into())),
            1 => Err(Error::Unsupported("this is GGUF version 1, Ember reads versions 2 and 3".into())),
            v if v.swap_bytes() < 0x1_0000 => Err(Error::Unsupported(format!(
                "this is a big-endian GGUF file (version {}), Ember reads little-endian files",
                v.swap_bytes()
            ))),
            v => Err(Error::Unsupported(format!("this is GGUF version {v}, Ember reads versions 2 and 3"))),
        }
    }

    /// A key or a tensor's name (`what`): UTF-8 of 1 to `max` bytes.
    fn name(&mut self, what: &str, max: usize) -> Result<&'a str> {
        let name = self.cursor.string(what)?;
        check_len(name.len(), max).map_err(|why| Error::Format(format!("{what} {why}")))?;
        std::str::from_utf8(name).map_err(|_| Error::Format(format!("{what} {} is not UTF-8", quoted(name))))
    }

    fn metadata(&mut self, n: usize) -> Result<Metadata> {
        let mut entries = with_capacity(n, "the metadata keys")?;
        for i in 0..n {
            self.look(i)?;
            let key =
                self.name("the key", MAX_KEY_BYTES).map_err(|e| e.within(&format!("metadata key {i}")))?;
            let value =
                self.any_value().map_err(|e| e.within(&format!("the key {}", quoted(key.as_bytes()))))?;
            entries.push((copied_text(key, "the metadata keys")?.into(), value));
        }
        Metadata::new(entries)
    }

    fn value_type(&mut self, what: &str) -> Result<ValueType> {
        let id = self.cursor.u32(what)?;
        ValueType::from_id(id)
            .ok_or_else(|| Error::Format(format!("{what} is {id}, which is none of the value types 0 to 12")))
    }

    fn any_value(&mut self) -> Result<Value> {
        let ty = self.value_type("the value's type")?;
        let what = "the value";
        let c = &mut self.cursor;
        Ok(match ty {
            ValueType::U8 => Value::U8(u8::from_le_bytes(c.array(what)?)),
            ValueType::I8 => Value::I8(i8::from_le_bytes(c.array(what)?)),
            ValueType::U16 => Value::U16(u16::from_le_bytes(c.array(what)?)),
            ValueType::I16 => Value::I16(i16::from_le_bytes(c.array(what)?)),
            ValueType::U32 => Value::U32(u32::from_le_bytes(c.array(what)?)),
            ValueType::I32 => Value::I32(i32::from_le_bytes(c.array(what)?)),
            ValueType::F32 => Value::F32(f32::from_le_bytes(c.array(what)?)),
            ValueType::U64 => Value::U64(u64::from_le_bytes(c.array(what)?)),
            ValueType::I64 => Value::I64(i64::from_le_bytes(c.array(what)?)),
            ValueType::F64 => Value::F64(f64::from_le_bytes(c.array(what)?)),
            ValueType::Bool => Value::Bool(boolean(c.array::<1>(what)?[0])?),
            ValueType::String => {
                let len = c.string(what)?.len();
                let end = c.position();
                Value::String(GgufString::new(Arc::clone(self.file), end - len..end))
            }
            ValueType::Array => Value::Array(self.any_array(1)?),
        })
    }

    fn any_array(&mut self, depth: usize) -> Result<Array> {
        let ty = self.value_type("the array's element type")?;
        let n = self.cursor.count(ty.min_bytes(), "array elements")?;
        Ok(match ty {
            ValueType::U8 => Array::U8(self.numbers(n, u8::from_le_bytes)?),
            ValueType::I8 => Array::I8(self.numbers(n, i8::from_le_bytes)?),
            ValueType::U16 => Array::U16(self.numbers(n, u16::from_le_bytes)?),
            ValueType::I16 => Array::I16(self.numbers(n, i16::from_le_bytes)?),
            ValueType::U32 => Array::U32(self.numbers(n, u32::from_le_bytes)?),
            ValueType::I32 => Array::I32(self.numbers(n, i32::from_le_bytes)?),
            ValueType::F32 => Array::F32(self.numbers(n, f32::from_le_bytes)?),
            ValueType::U64 => Array::U64(self.numbers(n, u64::from_le_bytes)?),
            ValueType::I64 => Array::I64(self.numbers(n, i64::from_le_bytes)?),
            ValueType::F64 => Array::F64(self.numbers(n, f64::from_le_bytes)?),
            ValueType::Bool => {
                let bytes = self.cursor.take(n, "the array")?;
                self.pay(n)?;
                let mut bools = with_capacity(n, ARRAY)?;
                for (i, &byte) in bytes.iter().enumerate() {
                    self.look(i)?;
                    bools.push(boolean(byte)?);
                }
                Array::Bool(bools)
            }
            ValueType::String => Array::String(self.strings(n)?),
            ValueType::Array => Array::Array(self.arrays(n, depth)?),
        })
    }

    /// `n` numbers of `N` bytes each.
    fn numbers<T, const N: usize>(&mut self, n: usize, from_le_bytes: fn([u8; N]) -> T) -> Result<Vec<T>> {
        // No overflow: `count` has checked that n elements of this size fit the file.
        let (chunks, _) = self.cursor.take(n * N, "the array")?.as_chunks::<N>();
        self.pay(n * size_of::<T>())?;
        let mut numbers = with_capacity(n, ARRAY)?;
        for chunks in chunks.chunks(ELEMENTS) {
            self.look(0)?;
            numbers.extend(chunks.iter().map(|&c| from_le_bytes(c)));
        }
        Ok(numbers)
    }

    /// Checks for cancelling at some elements `i`.
    fn look(&self, i: usize) -> Result<()> {
        if i.is_multiple_of(ELEMENTS) { (self.reading.step)() } else { Ok(()) }
    }

    /// Charges the memory for an array of `n_bytes`, as far as all arrays exceed what is free of charge.
    fn pay(&mut self, n_bytes: usize) -> Result<()> {
        let rest = n_bytes.saturating_sub(self.uncounted);
        self.uncounted = self.uncounted.saturating_sub(n_bytes);
        if rest > 0 {
            let charge = self.reading.memory.charge(rest as u64, ARRAY)?;
            append(&mut self.charges, charge, ARRAY)?;
        }
        Ok(())
    }

    fn strings(&mut self, n: usize) -> Result<StringArray> {
        let base = self.cursor.position();
        self.pay(n.saturating_mul(size_of::<u32>()))?;
        let mut ends = with_capacity(n, ARRAY)?;
        for i in 0..n {
            self.look(i)?;
            self.cursor.string("a string of the array")?;
            let too_long = |_| Error::Unsupported("the strings of the array take 4 GiB or more".into());
            ends.push(u32::try_from(self.cursor.position() - base).map_err(too_long)?);
        }
        Ok(StringArray::new(Arc::clone(self.file), base, ends))
    }

    /// The elements of an array of arrays that is itself `depth` deep.
    fn arrays(&mut self, n: usize, depth: usize) -> Result<Vec<Array>> {
        if depth == MAX_NESTING {
            return Err(Error::Unsupported(format!(
                "arrays are nested deeper than {MAX_NESTING}, the most Ember reads"
            )));
        }
        self.inner_arrays_left = self.inner_arrays_left.checked_sub(n).ok_or_else(|| {
            Error::Unsupported(format!("there are more than {MAX_INNER_ARRAYS} arrays inside arrays"))
        })?;
        collected(n, ARRAY, (0..n).map(|_| self.any_array(depth + 1)))
    }

    fn tensors(&mut self, n: usize, alignment: usize) -> Result<Vec<TensorInfo>> {
        let mut tensors = with_capacity(n, "the tensor directory")?;
        for i in 0..n {
            self.look(i)?;
            let name = self.name("the name", MAX_NAME_BYTES).map_err(|e| e.within(&format!("tensor {i}")))?;
            let tensor = self.tensor(name, alignment)?;
            tensors.push(tensor);
        }
        place(&mut tensors, self.cursor.position().next_multiple_of(alignment), self.file.len())?;
        Ok(tensors)
    }

    /// The rest of a tensor's entry. Its `offset` still counts from the start of the tensor data.
    fn tensor(&mut self, name: &str, alignment: usize) -> Result<TensorInfo> {
        let located = |e: Error| e.within(&format!("the tensor {name:?}"));
        let wrong = |why: String| Error::Format(format!("the tensor {name:?} {why}"));
        let too_large = |what: &str, n: u64| wrong(format!("has {what} {n}, too large for this machine"));

        let n_dims = self.cursor.u32("the number of dimensions").map_err(located)?;
        if !(1..=MAX_DIMS as u32).contains(&n_dims) {
            return Err(wrong(format!("has {n_dims} dimensions, expected 1 to {MAX_DIMS}")));
        }
        let mut sizes = [0; MAX_DIMS];
        let sizes = &mut sizes[..n_dims as usize];
        for size in sizes.iter_mut() {
            let n = self.cursor.u64("a dimension").map_err(located)?;
            *size = usize::try_from(n).map_err(|_| too_large("a dimension of size", n))?;
        }
        let dims = Dims::new(sizes)
            .ok_or_else(|| wrong(format!("has the shape {sizes:?}, expected sizes of at least 1")))?;

        let ty = TensorType(self.cursor.u32("the type").map_err(located)?);
        ty.check().map_err(|why| Error::Unsupported(format!("the tensor {name:?} {why}")))?;
        let n_bytes = dims.n_bytes(ty).map_err(wrong)?;

        let offset = self.cursor.u64("the offset").map_err(located)?;
        if !offset.is_multiple_of(alignment as u64) {
            return Err(wrong(format!(
                "has its data at offset {offset}, expected a multiple of {alignment}"
            )));
        }
        let offset = usize::try_from(offset).map_err(|_| too_large("its data at offset", offset))?;
        Ok(TensorInfo { name: name.to_owned(), ty, dims, file: 0, offset, n_bytes })
    }
}

/// Refuses a length of a key or tensor name that is 0 or too large: the rest of a sentence that begins with the name.
pub(super) fn check_len(len: usize, max: usize) -> std::result::Result<(), String> {
    match (1..=max).contains(&len) {
        true => Ok(()),
        false => Err(format!("has {len} bytes, expected 1 to {max}")),
    }
}

fn boolean(byte: u8) -> Result<bool> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        b => Err(Error::Format(format!("a bool is {b}, expected 0 or 1"))),
    }
}

/// Converts offsets that count from `data_start` into offsets from the file's start, and checks that every tensor's data lies
/// inside the file and that no two overlap.
fn place(tensors: &mut [TensorInfo], data_start: usize, file_len: usize) -> Result<()> {
    for t in tensors.iter_mut() {
        let begin = data_start.checked_add(t.offset);
        match begin.and_then(|b| b.checked_add(t.n_bytes)) {
            Some(end) if end <= file_len => t.offset = end - t.n_bytes,
            _ => {
                let (name, n_bytes, offset) = (&t.name, t.n_bytes, t.offset);
                return Err(Error::Format(format!(
                    "the tensor {name:?} has {n_bytes} bytes of data at offset {offset} after byte {data_start}, but \
                     the file ends at byte {file_len}: it is cut short or damaged"
                )));
            }
        }
    }
    let mut by_offset: Vec<&TensorInfo> = tensors.iter().collect();
    by_offset.sort_unstable_by_key(|t| t.offset);
    match by_offset.windows(2).find(|pair| pair[0].offset + pair[0].n_bytes > pair[1].offset) {
        Some(pair) => Err(Error::Format(format!(
            "the data of the tensors {:?} and {:?} overlap at byte {}",
            pair[0].name, pair[1].name, pair[1].offset
        ))),
        None => Ok(()),
    }
}
