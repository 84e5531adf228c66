//! A binary of its own: it has the process's allocator, which has no large blocks.
//!
//! The large keys of a file take memory in blocks of their size, and the system may lack such a block. Then the call ends in an
//! error, or works without the block where it can.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

use common::context;
use common::parts::Parts;
use ember::context::{ContextOptions, Tokens};
use ember::error::{Error, Result};
use ember::gguf::writer::Writer;
use ember::gguf::{Array, Gguf, StringArray, Value};
use ember::model::LoadedModel;
use ember::tokenizer::Tokenizer;
use xxhash_rust::xxh3::Xxh3;

/// The system's allocator, which has no blocks of more than so many bytes for a thread.
struct Small;

thread_local! {
    static LIMIT: Cell<usize> = const { Cell::new(usize::MAX) };
}

// SAFETY: the calls go to the system's allocator or give NULL, as an allocator may; `realloc` and `alloc_zeroed` are made
// of them.
unsafe impl GlobalAlloc for Small {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LIMIT.get() {
            return null_mut();
        }
        // SAFETY: the caller's promise is the one that this call asks for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the one that this call asks for.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Small = Small;

/// Runs `f` with blocks of `limit` bytes at most; one that is needed ends the test's process.
fn limited<T>(limit: usize, f: impl FnOnce() -> T) -> T {
    LIMIT.set(limit);
    let result = f();
    LIMIT.set(usize::MAX);
    result
}

#[track_caller]
fn no_memory<T>(result: Result<T>, culprit: &str) {
    match result {
        Err(Error::NoMemory(m)) => assert!(m.contains(culprit), "no {culprit:?} in: {m}"),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("there was memory for {culprit}"),
    }
}

const N: usize = 200_000;

/// Tokens `a`, `b`, `ab` and `n` others.
fn strings(n: usize) -> StringArray {
    let names = ["a", "b", "ab"].into_iter().map(str::to_owned).chain((0..n).map(|i| format!("t{i:07}")));
    StringArray::copy(&names.collect::<Vec<_>>()).unwrap()
}

#[test]
fn arrays_that_there_is_no_memory_for() {
    let arrays: Vec<Value> = vec![
        vec![7u8; 8 * N].into(),
        vec![7u64; N].into(),
        vec![1f32; 2 * N].into(),
        vec![true; 8 * N].into(),
        strings(N).into(),
    ];
    for array in arrays {
        let file = Writer::new().set("a.big.one", array).to_bytes().unwrap();
        no_memory(
            limited(100_000, || Gguf::from_bytes(&file, "big.gguf")),
            "big.gguf: the key \"a.big.one\"",
        );
        assert!(limited(8 * N + 100, || Gguf::from_bytes(&file, "big.gguf")).is_ok());
    }
    // A key that exists, read as another type.
    let mut writer = Writer::new();
    writer.set("f64s", vec![1f64; N]).set("i64s", vec![1i64; N]);
    let file = Gguf::from_bytes(&writer.to_bytes().unwrap(), "big.gguf").unwrap();
    no_memory(limited(100_000, || file.metadata().f32s("f64s").map(drop)), "\"f64s\"");
    no_memory(limited(100_000, || file.metadata().i32s("i64s").map(drop)), "\"i64s\"");
    assert!(limited(4 * N, || file.metadata().i32s("i64s").map(drop)).is_ok());
}

#[test]
fn vocabularies_that_there_is_no_memory_for() {
    let n = N / 4;
    let merges = StringArray::copy(&vec!["a b"; n]).unwrap();
    let kinds = ["gpt2", "gemma4", "llama", "bert", "t5"];
    for (kind, ty) in kinds.into_iter().flat_map(|kind| [(kind, 1i32), (kind, 3), (kind, 4)]) {
        let mut writer = Writer::new();
        writer.set("tokenizer.ggml.model", kind).set("tokenizer.ggml.tokens", strings(n));
        writer.set("tokenizer.ggml.token_type", vec![ty; n + 3]);
        writer.set("tokenizer.ggml.scores", vec![-1f32; n + 3]).set("tokenizer.ggml.merges", merges.clone());
        let file = Gguf::from_bytes(&writer.to_bytes().unwrap(), "big.gguf").unwrap();
        let mut n_refused = 0;
        for shift in 17..30 {
            match limited(1 << shift, || Tokenizer::from_gguf(file.metadata())) {
                Ok(tokenizer) => assert_eq!(tokenizer.n_vocab(), n + 3),
                Err(Error::NoMemory(_)) => n_refused += 1,
                Err(other) => panic!("{kind}, {ty}: {other}"),
            }
        }
        assert!((3..13).contains(&n_refused), "{kind}, {ty}: {n_refused}");
    }
}

/// A model with large keys that are none of the tokenizer's.
fn large() -> Parts {
    let wrong: Vec<u8> = b"ab\xffc'\"\n".repeat(4 * N);
    let parts =
        Parts::of("llama-tied-f32").key("a.numbers", vec![u64::MAX; N]).key("a.flags", vec![true; 8 * N]);
    parts
        .key("a.strings", StringArray::copy(&[&b"a"[..], &wrong]).unwrap())
        .key("a.text", "\u{1}".repeat(32 * N))
}

#[test]
fn states_are_saved_without_the_text_of_keys() {
    let model = Arc::new(LoadedModel::from_bytes(&large().bytes(), "large.gguf").unwrap());
    let mut context = context(&model, &ContextOptions { n_ctx: 64, ..ContextOptions::default() });
    context.decode(Tokens::next(&[1, 2, 3])).unwrap();
    let mut state = Vec::with_capacity(1 << 20);
    let mut write = |part: &[u8]| {
        state.extend_from_slice(part);
        Ok(())
    };
    limited(200_000, || context.save_state(Some(0), &mut write)).unwrap();
    // The digest of all that as one text; of long arrays it takes the bytes.
    let mut hash = Xxh3::new();
    for (key, value) in model.gguf().metadata().iter().filter(|(key, _)| !key.starts_with("tokenizer.")) {
        let bytes = match value {
            Value::Array(Array::U64(v)) if key == "a.numbers" => {
                v.iter().flat_map(|x| x.to_ne_bytes()).collect()
            }
            Value::Array(Array::Bool(v)) if key == "a.flags" => v.iter().map(|&x| u8::from(x)).collect(),
            Value::Array(Array::String(v)) if key == "a.strings" => v.encoded().to_vec(),
            _ => {
                hash.update(format!("{key}={value:?};").as_bytes());
                continue;
            }
        };
        let Value::Array(array) = value else { unreachable!() };
        hash.update(format!("{key}={}[{}]", array.element_type(), array.len()).as_bytes());
        hash.update(&bytes);
    }
    for tensor in model.gguf().tensors() {
        hash.update(format!("{}:{:?}:{:?};", tensor.name, tensor.ty, &tensor.dims[..]).as_bytes());
        let bytes = model.gguf().tensor_bytes(tensor);
        hash.update(&bytes[..bytes.len().min(1024)]);
        hash.update(&bytes[bytes.len().saturating_sub(1024)..]);
    }
    assert_eq!(state[12..28], hash.digest128().to_le_bytes());
}

#[cfg(any(feature = "chat", feature = "hf"))]
#[test]
fn descriptions_tell_of_long_texts_what_they_are() {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("large-{}.gguf", ember::threads::process()));
    std::fs::write(&path, large().key("general.name", "x".repeat(N)).bytes()).unwrap();
    let json = limited(4 << 20, || ember::model::inspect(&path)).unwrap();
    std::fs::remove_file(&path).unwrap();
    let object: serde_json::Value = serde_json::from_str(&json).unwrap();
    let keys = &object["metadata"];
    assert_eq!(keys["a.text"], serde_json::json!({ "type": "string", "length": 32 * N }));
    assert_eq!(keys["a.strings"][0], "a");
    assert_eq!(keys["a.strings"][1], serde_json::json!({ "type": "string", "length": 28 * N }));
    assert_eq!(keys["a.numbers"]["length"], N);
    assert!(object["name"].is_null() && object["architecture"] == "llama" && object["supported"] == true);
}
