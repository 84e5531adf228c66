//! What the fuzz targets do with their input, one module each. `tests/it/fuzz_corpus.rs` compiles the same files with the
//! stable compiler and replays the corpora, so that whatever fuzzing found is looked at by every `cargo test`.
//!
//! Each takes any bytes and panics when Ember does something that it must not do.

pub mod calls;
pub mod chat;
pub mod constraint;
pub mod conversation;
mod edit;
pub mod gguf;
pub mod model;
pub mod reply;
pub mod safetensors;
pub mod state;
mod tiny;
pub mod tokenizer;

/// A target: what it does with one input.
pub type Target = fn(&[u8]);

/// All targets by name; the corpus of each is in `corpus/NAME`.
pub const TARGETS: [(&str, Target); 10] = [
    ("calls", calls::run),
    ("chat", chat::run),
    ("constraint", constraint::run),
    ("conversation", conversation::run),
    ("gguf", gguf::run),
    ("model", model::run),
    ("reply", reply::run),
    ("safetensors", safetensors::run),
    ("state", state::run),
    ("tokenizer", tokenizer::run),
];

/// Bytes that separate the parts of an input: readable in a corpus file, and found in no JSON and no template.
const SEPARATOR: u8 = 0;

/// The parts of an input; missing ones are empty. The last has all remaining bytes.
fn parts<const N: usize>(bytes: &[u8]) -> [&[u8]; N] {
    let mut parts = bytes.splitn(N, |&b| b == SEPARATOR);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

/// The text that `bytes` are, or `None`.
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
