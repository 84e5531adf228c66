//! The header of a safetensors file: JSON that says of each tensor what it is and where it lies.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fmt;

use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::config::ROOM_PER_BYTE;
use crate::error::{Error, Result};
use crate::gguf::quoted;
use crate::memory::expect_room;

/// Bytes of the header's length, with which a file begins.
const N_LEN: usize = 8;
/// The most bytes of a header: a hundred thousand tensors take about as many.
const MAX_BYTES: usize = 16 << 20;
/// The most bytes of memory that a byte of it becomes.
const HEADER_ROOM_PER_BYTE: usize = 32;
/// The most bytes of a header that is looked at again to say what is wrong with it.
const MAX_BLAMED_BYTES: usize = 1 << 20;

/// Where the data of the file begin, and its tensors: their ranges lie inside the file, without gaps and overlaps, and
/// are as long as type and shape say.
///
/// # Errors
/// `Format` for a header that is malformed or contradicts the file; `Unsupported` for one of more than 16 MB; `NoMemory`.
pub fn read(bytes: &[u8]) -> Result<(usize, Metadata)> {
    let malformed = |e| format!("the safetensors header is malformed: {e}");
    let Some((len, rest)) = bytes.split_first_chunk::<N_LEN>() else {
        return Err(Error::Format(malformed(SafeTensorError::HeaderTooSmall)));
    };
    let len = u64::from_le_bytes(*len);
    let parts = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
    let Some((header, data)) = parts else {
        return Err(Error::Format(format!(
            "the safetensors header claims {len} bytes, but only {} are left in the file",
            rest.len()
        )));
    };
    if header.len() > MAX_BYTES {
        return Err(Error::Unsupported(format!(
            "the safetensors header has {len} bytes, Ember reads at most {MAX_BYTES}"
        )));
    }
    expect_room(header.len() * HEADER_ROOM_PER_BYTE, "the safetensors header")?;
    match parse(header, data.len()) {
        Ok(metadata) => Ok((N_LEN + header.len(), metadata)),
        Err(e) => Err(Error::Format(blame(header, data).unwrap_or_else(|| malformed(e)))),
    }
}

/// The tensors, which the crate checks. It would read the header into a tree first, of fifty times its size.
fn parse(header: &[u8], n_data: usize) -> std::result::Result<Metadata, SafeTensorError> {
    let mut json = serde_json::Deserializer::from_slice(header);
    let tensors = json.deserialize_map(Reader).and_then(|tensors| json.end().map(|()| tensors));
    let mut tensors: Vec<_> =
        tensors.map_err(SafeTensorError::InvalidHeaderDeserialization)?.into_iter().collect();
    tensors.sort_unstable_by(|(left, a), (right, b)| (a.data_offsets, left).cmp(&(b.data_offsets, right)));
    let metadata = Metadata::new(None, tensors)?;
    match metadata.data_len() == n_data {
        true => Ok(metadata),
        false => Err(SafeTensorError::MetadataIncompleteBuffer),
    }
}

/// Reads tensors by name; the last one of several with one name.
struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = HashMap<String, TensorInfo>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut header: A) -> std::result::Result<Self::Value, A::Error> {
        let mut tensors = HashMap::new();
        while let Some(name) = header.next_key::<String>()? {
            if name == NOTES {
                header.next_value::<Option<HashMap<String, String>>>()?;
            } else {
                tensors.insert(name, header.next_value()?);
            }
        }
        Ok(tensors)
    }
}

/// The key that is no tensor's: strings by name.
const NOTES: &str = "__metadata__";

/// What is wrong with a header that was refused, in a sentence that names the tensor: where it is JSON at least, and
/// no longer than what can be looked at as such.
fn blame(header: &[u8], data: &[u8]) -> Option<String> {
    if header.len() > MAX_BLAMED_BYTES || expect_room(header.len() * ROOM_PER_BYTE, "its JSON").is_err() {
        return None;
    }
    let Ok(Value::Object(header)) = serde_json::from_slice(header) else { return None };
    let mut ranges = Vec::new();
    for (name, info) in header.iter().filter(|(name, _)| *name != NOTES) {
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
