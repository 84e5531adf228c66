//! JSON as a tree.
#![forbid(unsafe_code)]

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The prefix of `serde_json`'s private keys: with its feature `raw_value` an object of one such key is read as the JSON in a
/// text, by a parser that counts nesting anew.
const PRIVATE: &str = "$serde_json::private::";

/// Most levels of nesting: each takes stack, and `serde_json` would allow more than a call may take.
const MOST_NESTED: u32 = 100;

/// Reads JSON as a tree, at most [`MOST_NESTED`] levels deep. A text is always a text here, whatever [`Value`] would make of it.
/// Members under `serde_json`'s private keys are left out, so that later readers of the tree do not misread them.
///
/// # Errors
/// For text that is no JSON, or nested too deeply.
pub(crate) fn tree(json: &[u8]) -> serde_json::Result<Value> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let value = Reader(0).deserialize(&mut json)?;
    json.end().map(|()| value)
}

/// Reads a value at a depth of nesting.
#[derive(Clone, Copy)]
struct Reader(u32);

impl Reader {
    /// The reader of the values within.
    fn inner<E: serde::de::Error>(self) -> Result<Reader, E> {
        match self.0 < MOST_NESTED {
            true => Ok(Reader(self.0 + 1)),
            false => Err(E::custom(format_args!("values are nested more than {MOST_NESTED} levels deep"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Reader {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(b.into())
    }

    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(n.into())
    }

    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        Ok(n.into())
    }

    fn visit_f64<E>(self, x: f64) -> Result<Value, E> {
        Ok(x.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let (mut items, inner) = (Vec::new(), self.inner()?);
        while let Some(item) = list.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let (mut members, inner) = (Map::new(), self.inner()?);
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(inner)?;
            if !key.starts_with(PRIVATE) {
                members.insert(key, value);
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn trees_are_those_of_the_library() {
        for text in [
            r#"{"a": [1, -2, 3.5, 1e300, 18446744073709551615, true, false, null], "b": {"c": "\u00e9\"", "b": {}}}"#,
            r#"{"a": 1, "a": [2]}"#,
            "\"x\"",
            "[]",
            "-0.0",
        ] {
            assert_eq!(tree(text.as_bytes()).ok(), serde_json::from_str(text).ok(), "{text}");
            assert!(tree(text.as_bytes()).is_ok(), "{text}");
        }
        for text in ["", "{", "[1,]", "{} x", "\"\\q\"", "1e999"] {
            let (own, theirs) = (tree(text.as_bytes()), serde_json::from_str::<Value>(text));
            assert_eq!(own.err().map(|e| e.to_string()), theirs.err().map(|e| e.to_string()), "{text}");
            assert!(tree(text.as_bytes()).is_err(), "{text}");
        }
    }

    /// Texts that contain JSON stay texts, under any key and any spelling of it.
    #[test]
    fn no_text_is_read_as_json() {
        for key in ["$serde_json::private::RawValue", r"\u0024serde_json::private::RawValue"] {
            for text in ["[1]", "not JSON", "{"] {
                let inner = format!("{{\"{key}\": \"{text}\", \"a\": 1}}");
                let found = tree(format!("[{inner}, {inner}]").as_bytes()).ok();
                assert_eq!(found, Some(json!([{ "a": 1 }, { "a": 1 }])), "{inner}");
            }
            // Nesting inside them is not counted anew.
            let deep = format!("{}{{\"{key}\": 0}}{}", "[".repeat(127), "]".repeat(127));
            assert!(tree(deep.as_bytes()).is_err());
        }
    }
}
