//! JSON text as values, with the members of an object in their order.
#![forbid(unsafe_code)]

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::jinja::fault::Budget;
use super::jinja::value::{Dict, List, Value};
use crate::error::{Error, Result};

/// Reads `text`, which `what` names in errors.
pub(super) fn parse(text: &str, what: &str, budget: &mut Budget) -> Result<Value> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Seed(budget).deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    value.map_err(|e| Error::InvalidArgument(format!("{what} cannot be read as JSON: {e}")))
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
