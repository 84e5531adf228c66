//! JSON text as values, with the members of an object in their order.
#![forbid(unsafe_code)]

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::jinja::fault::Budget;
use super::jinja::value::{Dict, List, Value};
use crate::error::{Error, Result};

/// Reads `text`, which `what` names in errors.
pub(super) fn parse(text: &str, what: &str, budget: &mut Budget) -> Result<Value> {
    if let Some(number) = large_integer(text) {
        return Err(Error::InvalidArgument(format!(
            "{what} has the integer {number:.40}, which is too large"
        )));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Seed(budget).deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    value.map_err(|e| Error::InvalidArgument(format!("{what} cannot be read as JSON: {e}")))
}

/// The first integer of a JSON text that has no exact value here: the reader would make it a float.
fn large_integer(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let (mut at, mut quoted) = (0, false);
    while let Some(byte) = bytes.get(at) {
        let mut n = 1;
        match byte {
            b'"' => quoted = !quoted,
            b'\\' if quoted => n = 2,
            b'-' | b'0'..=b'9' if !quoted => {
                let is_part = |b: &&u8| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                n = bytes[at..].iter().take_while(is_part).count();
                let number = &text[at..at + n];
                let digits = number.strip_prefix('-').unwrap_or(number);
                let is_integer = digits.len() > 18 && digits.bytes().all(|b| b.is_ascii_digit());
                if is_integer && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                    return Some(number);
                }
            }
            _ => {}
        }
        at += n;
    }
    None
}

struct Seed<'b>(&'b mut Budget);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> std::result::Result<Value, E> {
        Ok(Value::None)
    }

    fn visit_bool<E>(self, b: bool) -> std::result::Result<Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> std::result::Result<Value, E> {
        Ok(Value::Int(n.into()))
    }

    fn visit_u64<E>(self, n: u64) -> std::result::Result<Value, E> {
        Ok(Value::Int(n.into()))
    }

    fn visit_f64<E>(self, x: f64) -> std::result::Result<Value, E> {
        Ok(Value::Float(x))
    }

    fn visit_str<E>(self, text: &str) -> std::result::Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(Seed(self.0))? {
            items.push(item);
        }
        List::new(items, self.0).map(Value::List).map_err(|fault| A::Error::custom(fault.message))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            entries.push((Value::from(key), map.next_value_seed(Seed(self.0))?));
        }
        Dict::new(entries, self.0).map(Value::Dict).map_err(|fault| A::Error::custom(fault.message))
    }
}
