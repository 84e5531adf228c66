//! Changes to a well-formed model that a few bytes of input describe, so that a short input reaches far after the checks
//! that any bytes fail: the wrong number in one key, a tensor of another type or shape, numbers that are none.

use arbitrary::{Result, Unstructured};
use ember::gguf::writer::Writer;
use ember::gguf::{Array, Gguf, StringArray, TensorType, Value};

/// Numbers at which sizes, counts and indices go wrong.
pub const NUMBERS: [i64; 32] = [
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    12,
    16,
    31,
    32,
    33,
    48,
    63,
    64,
    65,
    100,
    127,
    128,
    255,
    256,
    257,
    4096,
    65_535,
    65_536,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    -1,
    i64::MIN,
    i64::MAX,
];

/// Numbers that no weight has.
const FLOATS: [f32; 8] =
    [0.0, -0.0, 1e30, -1e-40, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE];

/// Most elements of a tensor whose shape was changed, so that it takes little memory.
const MOST_ELEMENTS: usize = 1 << 16;

/// A model file in parts.
pub struct Parts {
    keys: Vec<(String, Value)>,
    tensors: Vec<(String, TensorType, Vec<usize>, Vec<u8>)>,
}

impl Parts {
    /// The parts of a well-formed file.
    pub fn of(bytes: &[u8]) -> Parts {
        let file = Gguf::from_bytes(bytes, "base").unwrap_or_else(|e| panic!("{e}"));
        let tensor = |t: &ember::gguf::TensorInfo| {
            (t.name.clone(), t.ty, t.dims.to_vec(), file.tensor_bytes(t).to_vec())
        };
        Parts {
            keys: file.metadata().iter().map(|(key, value)| (key.to_owned(), value.clone())).collect(),
            tensors: file.tensors().iter().map(tensor).collect(),
        }
    }

    /// Makes the changes that `u` describes, until `u` ends.
    pub fn edit(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        while !u.is_empty() {
            match u.int_in_range(0..=9u8)? {
                0..=2 => self.edit_key(u)?,
                3 => {
                    let at = u.choose_index(self.keys.len().max(1))?;
                    if at < self.keys.len() {
                        self.keys.remove(at);
                    }
                }
                4 => {
                    let at = u.choose_index(self.tensors.len().max(1))?;
                    if at < self.tensors.len() {
                        self.tensors.remove(at);
                    }
                }
                5 => {
                    let (a, b) = (
                        u.choose_index(self.tensors.len().max(1))?,
                        u.choose_index(self.tensors.len().max(1))?,
                    );
                    if a != b {
                        let name = self.tensors[a].0.clone();
                        self.tensors[a].0 = std::mem::replace(&mut self.tensors[b].0, name);
                    }
                }
                6 => self.edit_shape(u)?,
                _ => self.edit_data(u)?,
            }
        }
        Ok(())
    }

    fn edit_key(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let at = u.choose_index(self.keys.len())?;
        let value = &mut self.keys[at].1;
        *value = match (u.int_in_range(0..=7u8)?, &*value) {
            (0..=3, Value::Array(Array::String(strings))) => strings_edited(strings, u)?,
            (0..=3, Value::Array(Array::I32(numbers))) => {
                let mut numbers = numbers.clone();
                let n = numbers.len().max(1);
                let at = u.choose_index(n)?;
                match numbers.get_mut(at) {
                    Some(number) => *number = *u.choose(&NUMBERS)? as i32,
                    None => numbers.push(7),
                }
                numbers.into()
            }
            (0..=3, Value::F32(_)) => (*u.choose(&FLOATS)?).into(),
            (4, _) => (*u.choose(&FLOATS)?).into(),
            (5, _) => u.arbitrary::<&str>()?.into(),
            (6, _) => vec![*u.choose(&NUMBERS)? as i32; u.int_in_range(0..=3usize)?].into(),
            (7, _) => u.arbitrary::<bool>()?.into(),
            _ => {
                let number = *u.choose(&NUMBERS)?;
                u32::try_from(number).map_or(Value::from(number), Value::from)
            }
        };
        Ok(())
    }

    /// Another type, another dimension, one dimension less or one more; as much data as that needs.
    fn edit_shape(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        if self.tensors.is_empty() {
            return Ok(());
        }
        let at = u.choose_index(self.tensors.len())?;
        let (_, ty, dims, data) = &mut self.tensors[at];
        match u.int_in_range(0..=3u8)? {
            0 => {
                let all: Vec<TensorType> = TensorType::all().collect();
                *ty = *u.choose(&all)?;
            }
            1 => drop(dims.pop()),
            2 => dims.push(u.int_in_range(1..=3usize)?),
            _ if dims.is_empty() => {}
            _ => {
                let at = u.choose_index(dims.len())?;
                dims[at] = usize::try_from(*u.choose(&NUMBERS)?).unwrap_or(0);
            }
        }
        let n = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).filter(|&n| n <= MOST_ELEMENTS);
        if let Some(n) = n {
            data.resize(n / ty.block_len() * ty.block_bytes(), 0x3c);
        }
        Ok(())
    }

    /// A NaN or an infinity in one element, or other bytes.
    fn edit_data(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        if self.tensors.is_empty() {
            return Ok(());
        }
        let at = u.choose_index(self.tensors.len())?;
        let data = &mut self.tensors[at].3;
        let bytes: [u8; 4] = if u.arbitrary()? { u.choose(&FLOATS)?.to_le_bytes() } else { u.arbitrary()? };
        let place = (usize::from(u.arbitrary::<u16>()?) * 4).min(data.len().saturating_sub(4));
        if let Some(to) = data.get_mut(place..place + 4) {
            to.copy_from_slice(&bytes);
        }
        Ok(())
    }

    /// The file; `None` when there is no such file.
    pub fn bytes(self) -> Option<Vec<u8>> {
        let mut writer = Writer::new();
        for (key, value) in self.keys {
            writer.set(&key, value);
        }
        for (name, ty, dims, data) in self.tensors {
            writer.tensor(&name, ty, &dims, data);
        }
        writer.to_bytes().ok()
    }
}

/// One string less, another string, or one more.
fn strings_edited(strings: &StringArray, u: &mut Unstructured<'_>) -> Result<Value> {
    let mut all: Vec<Vec<u8>> = strings.iter().map(<[u8]>::to_vec).collect();
    let n = all.len().max(1);
    let at = u.choose_index(n)?;
    let text = u.arbitrary::<&[u8]>()?;
    match u.int_in_range(0..=3u8)? {
        0 if at < all.len() => drop(all.remove(at)),
        1 => all.push(text.to_vec()),
        2 if at < all.len() => all.swap(at, 0),
        _ if at < all.len() => all[at] = text.to_vec(),
        _ => {}
    }
    Ok(StringArray::copy(&all).map(Value::from).unwrap_or_else(|_| 0u32.into()))
}
