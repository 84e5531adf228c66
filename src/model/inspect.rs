//! The header of a model as JSON.
#![forbid(unsafe_code)]

use std::path::Path;

use crate::error::{Error, Result};

/// A JSON object about the model at `path`: what kind it is, how large, all its keys, and whether it can be loaded.
///
/// Errors: those of reading the header; `Unsupported` in a build without JSON.
#[cfg(not(any(feature = "chat", feature = "hf")))]
pub fn inspect(_: &Path) -> Result<String> {
    let sentence = "inspecting gives JSON, which needs the feature \"chat\" or \"hf\", and this build of Ember is without both";
    Err(Error::Unsupported(sentence.into()))
}

#[cfg(any(feature = "chat", feature = "hf"))]
pub use with_json::inspect;

#[cfg(any(feature = "chat", feature = "hf"))]
mod with_json {
    use std::collections::BTreeMap;

    use serde_json::{Map, Value as Json, json};

    use super::*;
    use crate::arch::ModelInfo;
    use crate::gguf::{Array, Gguf, Value, ValueType};
    use crate::memory::expect_memory;
    use crate::model::load::{self, LoadOptions};
    use crate::model::loaded::LoadedModel;

    /// Arrays up to this length are written whole.
    const SHORT: usize = 16;
    /// So are strings up to this length, in bytes: chat templates have some ten thousand.
    const SHORT_TEXT: usize = 1 << 16;

    /// A JSON object about the model at `path`: what kind it is, how large, all its keys, and whether it can be loaded.
    ///
    /// Errors: those of reading the header; `InvalidArgument` for an environment variable EMBER_ISA that names no level.
    pub fn inspect(path: &Path) -> Result<String> {
        let gguf = match load::header(path) {
            #[cfg(feature = "hf")]
            Err(error @ Error::Unsupported(_)) if path.is_dir() => return refused_folder(path, &error),
            header => header?,
        };
        let n_bytes = gguf.metadata().iter().fold(0, |n: usize, (key, value)| {
            n.saturating_add(MEMORY_PER_BYTE * key.len()).saturating_add(memory_of(value))
        });
        expect_memory(n_bytes, "a description of so many keys").map_err(|e| e.within(gguf.name()))?;
        let mut object = header(&gguf);
        drop(gguf);
        #[cfg(feature = "hf")]
        if path.is_dir() {
            look_beside(path, &mut object);
        }
        match LoadedModel::measured(path, &LoadOptions::default()) {
            Ok(model) => {
                object.insert("supported".into(), true.into());
                object.insert("dimensions".into(), dimensions(model.info()));
            }
            // A wrong EMBER_ISA: the model is not to blame.
            Err(error @ Error::InvalidArgument(_)) => return Err(error),
            Err(error) => {
                object.insert("supported".into(), false.into());
                object.insert("reason".into(), error.to_string().into());
            }
        }
        written(&object)
    }

    fn written(object: &Map<String, Json>) -> Result<String> {
        serde_json::to_string(object)
            .map_err(|e| Error::Internal(format!("JSON that cannot be written: {e}")))
    }

    /// A folder that Ember cannot bring into the form of a GGUF file, whose keys and tensors would be described: its kind, and why.
    #[cfg(feature = "hf")]
    fn refused_folder(path: &Path, error: &Error) -> Result<String> {
        let mut object = Map::new();
        object.insert("path".into(), path.display().to_string().into());
        object.insert("architecture".into(), crate::hf::model_type(path).into());
        object.insert("tokenizer".into(), Json::Null);
        object.insert("chat_template".into(), false.into());
        look_beside(path, &mut object);
        object.insert("supported".into(), false.into());
        object.insert("reason".into(), error.message().into());
        written(&object)
    }

    /// Bytes of memory that describing may take for each byte of a text: its copy, up to six bytes of JSON, and as much again
    /// while the JSON grows.
    const MEMORY_PER_BYTE: usize = 24;
    /// The same for other values.
    const MEMORY_PER_VALUE: usize = 128;

    /// Bytes of memory that describing a value may take.
    fn memory_of(value: &Value) -> usize {
        match value {
            Value::String(s) => memory_of_text(s.as_bytes().len()),
            Value::Array(array) => memory_of_array(array),
            _ => MEMORY_PER_VALUE,
        }
    }

    fn memory_of_array(array: &Array) -> usize {
        match array {
            array if array.len() > SHORT => MEMORY_PER_VALUE,
            Array::String(list) => list.iter().map(|s| memory_of_text(s.len())).sum(),
            Array::Array(lists) => lists.iter().map(memory_of_array).sum(),
            _ => MEMORY_PER_VALUE * SHORT,
        }
    }

    fn memory_of_text(n_bytes: usize) -> usize {
        MEMORY_PER_VALUE + if n_bytes <= SHORT_TEXT { MEMORY_PER_BYTE * n_bytes } else { 0 }
    }

    /// The keys of a folder from its own files.
    #[cfg(feature = "hf")]
    fn look_beside(path: &Path, object: &mut Map<String, Json>) {
        let (tokenizer, template) = crate::hf::look_beside(path);
        if template {
            object.insert("chat_template".into(), true.into());
        }
        if tokenizer {
            object.insert("tokenizer".into(), "tokenizer.json".into());
        }
    }

    fn header(gguf: &Gguf) -> Map<String, Json> {
        let text = |key: &str| gguf.metadata().str(key).ok().flatten().filter(|t| t.len() <= SHORT_TEXT);
        let mut types = BTreeMap::<&str, (u64, u64)>::new();
        let mut n_params = 0u64;
        for tensor in gguf.tensors() {
            let (n, n_bytes) = types.entry(tensor.ty.name()).or_default();
            *n += 1;
            *n_bytes = n_bytes.saturating_add(tensor.n_bytes as u64);
            let elements = tensor.dims.iter().fold(1u64, |n, &d| n.saturating_mul(d as u64));
            n_params = n_params.saturating_add(elements);
        }
        let types = types
            .into_iter()
            .map(|(name, (n, bytes))| (name.to_owned(), json!({"tensors": n, "bytes": bytes})));
        let metadata = gguf.metadata().iter().map(|(key, value)| (key.to_owned(), describe(value)));
        let template = gguf.metadata().get("tokenizer.chat_template").is_some();
        let object = json!({
            "path": gguf.name(),
            "file_size": gguf.file_size(),
            "n_tensors": gguf.tensors().len(),
            "n_params": n_params,
            "architecture": text("general.architecture"),
            "name": text("general.name"),
            "tokenizer": text("tokenizer.ggml.model"),
            "chat_template": template,
            "types": types.collect::<Map<_, _>>(),
            "metadata": metadata.collect::<Map<_, _>>(),
        });
        match object {
            Json::Object(object) => object,
            _ => Map::new(),
        }
    }

    fn dimensions(info: &ModelInfo) -> Json {
        json!({
            "n_vocab": info.n_vocab,
            "n_ctx_train": info.n_ctx_train,
            "n_embd": info.n_embd,
            "n_layer": info.n_layer,
            "n_head": info.n_head,
            "n_head_kv": info.n_head_kv,
            "head_dim": info.head_dim,
            "n_ff": info.n_ff,
            "n_expert": info.experts.map_or(0, |e| e.n_expert),
            "n_expert_used": info.experts.map_or(0, |e| e.n_used),
            "causal": info.has_logits,
        })
    }

    /// A number that JSON does not have (NaN, infinity) is null; bytes that are not UTF-8 are U+FFFD.
    fn describe(value: &Value) -> Json {
        match value {
            Value::F32(x) => json!(x),
            Value::F64(x) => json!(x),
            Value::Bool(x) => json!(x),
            Value::String(s) => describe_text(s.as_bytes()),
            Value::Array(array) => describe_array(array),
            other => other.integer().map_or(Json::Null, integer),
        }
    }

    fn describe_text(text: &[u8]) -> Json {
        match text.len() {
            0..=SHORT_TEXT => String::from_utf8_lossy(text).into_owned().into(),
            n => json!({"type": ValueType::String.name(), "length": n}),
        }
    }

    fn integer(n: i128) -> Json {
        match (i64::try_from(n), u64::try_from(n)) {
            (Ok(n), _) => n.into(),
            (_, Ok(n)) => n.into(),
            _ => Json::Null,
        }
    }

    fn describe_array(array: &Array) -> Json {
        if array.len() > SHORT {
            return json!({"type": array.element_type().name(), "length": array.len()});
        }
        match array {
            Array::Bool(list) => json!(list),
            Array::F32(list) => json!(list),
            Array::F64(list) => json!(list),
            Array::String(list) => list.iter().map(describe_text).collect(),
            Array::Array(lists) => lists.iter().map(describe_array).collect(),
            other => match other.integers() {
                Some(integers) => integers.map(integer).collect(),
                None => Json::Null,
            },
        }
    }
}
