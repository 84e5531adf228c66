//! The header of a safetensors file: JSON that says of each tensor what it is and where it lies.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fmt;

use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::config::MEMORY_PER_BYTE;
use crate::error::{Error, Result, shortened, sizes};
use crate::gguf::json::tree;
use crate::gguf::quoted;
use crate::memory::expect_memory;

/// Bytes of the header's length, with which a file begins.
const N_LEN: usize = 8;
/// The most bytes of a header: a hundred thousand tensors take about as many.
const MAX_BYTES: usize = 16 << 20;
/// The most bytes of memory that a byte of it becomes.
const HEADER_MEMORY_PER_BYTE: usize = 32;
/// The most bytes of a header that is looked at again to say what in it is no tensor.
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
    expect_memory(header.len() * HEADER_MEMORY_PER_BYTE, "the safetensors header")?;
    let tensors = parse(header).map_err(|e| {
        let e = malformed(SafeTensorError::InvalidHeaderDeserialization(e));
        Error::Format(blame(header).unwrap_or_else(|| shortened(e)))
    })?;
    match contradiction(&tensors, data.len()) {
        Some(sentence) => Err(Error::Format(sentence)),
        None => match Metadata::new(None, tensors) {
            Ok(metadata) => Ok((N_LEN + header.len(), metadata)),
            Err(e) => Err(Error::Format(shortened(malformed(e)))),
        },
    }
}

/// The tensors in the order of their data. The crate would read the header into a tree first, of fifty times its size.
fn parse(header: &[u8]) -> serde_json::Result<Vec<(String, TensorInfo)>> {
    let mut json = serde_json::Deserializer::from_slice(header);
    let tensors = json.deserialize_map(Reader).and_then(|tensors| json.end().map(|()| tensors))?;
    let mut tensors: Vec<_> = tensors.into_iter().collect();
    tensors.sort_unstable_by(|(left, a), (right, b)| (a.data_offsets, left).cmp(&(b.data_offsets, right)));
    Ok(tensors)
}

/// What `tensors`, in the order of their data, say against each other and the `n_data` bytes of the file: a sentence that names one.
fn contradiction(tensors: &[(String, TensorInfo)], n_data: usize) -> Option<String> {
    let wrong =
        |name: &String, what: &str| Some(format!("the tensor {} has {what}", quoted(name.as_bytes())));
    for (name, TensorInfo { dtype, shape, data_offsets: (begin, end) }) in tensors {
        let n_bits = shape.iter().try_fold(dtype.bitsize(), |n, &d| n.checked_mul(d));
        if n_bits.is_none() || end.checked_sub(*begin).and_then(|len| len.checked_mul(8)) != n_bits {
            let shape = sizes(shape);
            let what =
                format!("the data offsets {begin} to {end}, which do not fit its type and the shape {shape}");
            return wrong(name, &what);
        }
        if *end > n_data {
            let what = format!("its data up to byte {end}, but the file holds {n_data} bytes of data");
            return wrong(name, &what);
        }
    }
    let mut next = 0;
    for (name, info) in tensors {
        let (begin, end) = info.data_offsets;
        if begin != next {
            let what = if begin < next { "which overlaps another's" } else { "after a gap" };
            return wrong(name, &format!("its data at byte {begin}, {what}; expected byte {next}"));
        }
        next = end;
    }
    match next == n_data {
        true => None,
        false => Some(format!("the tensors take {next} bytes, but the file holds {n_data} bytes of data")),
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

/// Which tensor of a header that is JSON is not described as tensors are, in a sentence; nothing for a header that is longer
/// than what can be looked at as JSON.
fn blame(header: &[u8]) -> Option<String> {
    if header.len() > MAX_BLAMED_BYTES || expect_memory(header.len() * MEMORY_PER_BYTE, "its JSON").is_err() {
        return None;
    }
    let Ok(Value::Object(header)) = tree(header) else { return None };
    let numbers = |v: &Value| v.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>();
    header.iter().filter(|(name, _)| *name != NOTES).find_map(|(name, info)| {
        let [dtype, shape, range] = ["dtype", "shape", "data_offsets"].map(|key| &info[key]);
        let what = if !dtype.as_str().is_some_and(is_dtype) {
            format!("the type {}, which safetensors does not know", short(dtype))
        } else if numbers(shape).is_none() {
            format!("the shape {}, expected an array of sizes", short(shape))
        } else if numbers(range).is_none_or(|range| range.len() != 2) {
            format!("the data offsets {}, expected two numbers", short(range))
        } else {
            return None;
        };
        Some(format!("the tensor {} has {what}", quoted(name.as_bytes())))
    })
}

/// Whether headers call a type so.
fn is_dtype(name: &str) -> bool {
    serde_json::from_value::<Dtype>(Value::from(name)).is_ok()
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
