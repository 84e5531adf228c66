//! Helpers of several integration tests.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod parts;
pub mod windows;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ember::backend::KvHeads;
use ember::context::{Context, ContextOptions, EmbedOptions, Tokens};
use ember::generate::GenerateOptions;
use ember::model::{LoadOptions, LoadedModel};
use ember::nn::pooling::Pooling;
use ember::sampler::{Sampler, Stage};

/// A file of `tests/fixtures`.
pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// The model the project trained itself.
pub fn bundled_model() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/models/ember-tales.gguf")
}

/// A downloaded model, a file or a folder; the test fails with advice when it is not there.
pub fn real_model(file: &str) -> PathBuf {
    let dir = std::env::var_os("EMBER_MODELS").map(PathBuf::from).unwrap_or_else(|| {
        PathBuf::from(std::env::var_os("HOME").expect("HOME is set")).join(".cache/ember/models")
    });
    let path = dir.join(file);
    assert!(path.exists(), "{} is missing: run `make models` first", path.display());
    path
}

/// Loads a model or panics with its error sentence.
pub fn load(path: &std::path::Path) -> Arc<LoadedModel> {
    match LoadedModel::open(path, &LoadOptions::default()) {
        Ok(model) => Arc::new(model),
        Err(e) => panic!("{e}"),
    }
}

/// A model of `tests/fixtures/models`.
pub fn load_fixture(name: &str) -> Arc<LoadedModel> {
    load(&fixture(&format!("models/{name}.gguf")))
}

/// A sampler that takes the likeliest token.
pub fn greedy() -> Sampler {
    let mut sampler = Sampler::new(0);
    sampler.push(Stage::Greedy).expect("a stage");
    sampler
}

/// Options for a text of exactly so many tokens.
pub fn exactly(max_tokens: usize) -> GenerateOptions {
    GenerateOptions { max_tokens, ignore_eog: true, ..GenerateOptions::default() }
}

/// The keys and values that layers of all groups keep.
pub fn kv_layers(model: &LoadedModel) -> Vec<KvHeads> {
    (0..model.info().windows.len()).flat_map(|group| model.info().kv_layers(group)).collect()
}

/// A context or a panic with the error sentence.
pub fn context(model: &Arc<LoadedModel>, options: &ContextOptions) -> Context {
    Context::new(model, options).unwrap_or_else(|e| panic!("{e}"))
}

/// Decodes `ids` in one call and returns the logits of every position that has any, `[ids.len(), n_vocab]`. In an encoder-decoder
/// model these are the decoder's.
pub fn all_logits(context: &mut Context, ids: &[u32]) -> Vec<f32> {
    let start = context.model().info().decoder_start;
    let from =
        start.map_or(0, |start| ids.iter().position(|&id| id == start).expect("the answer's beginning"));
    let wants: Vec<bool> = (0..ids.len()).map(|i| i >= from).collect();
    let tokens = Tokens { outputs: Some(&wants), ..Tokens::next(ids) };
    context.decode(tokens).unwrap_or_else(|e| panic!("{e}"));
    (from..ids.len()).flat_map(|i| context.logits(i).expect("asked for").to_vec()).collect()
}

/// The bits of logits, for tests that they are the same.
pub fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

/// The saved state of a sequence, or of all.
pub fn state(context: &Context, seq: Option<u32>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let write = &mut |part: &[u8]| {
        bytes.extend_from_slice(part);
        Ok(())
    };
    context.save_state(seq, write).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(context.state_len(seq).map_err(|e| e.to_string()), Ok(bytes.len() as u64));
    assert!(bytes.len() as u64 <= context.most_state_len());
    bytes
}

/// The last hidden state of every token of a text, `[ids.len(), n_embd]`.
pub fn all_hidden(context: &mut Context, ids: &[u32]) -> Vec<f32> {
    let options = EmbedOptions { pooling: Some(Pooling::None), ..EmbedOptions::default() };
    context.embed(&[ids], &options).unwrap_or_else(|e| panic!("{e}"))
}

/// `‖a - b‖ / ‖b‖`.
pub fn relative_rms(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let sum = |f: &dyn Fn(usize) -> f64| (0..a.len()).map(f).sum::<f64>();
    let error = sum(&|i| (f64::from(a[i]) - f64::from(b[i])).powi(2));
    (error / sum(&|i| f64::from(b[i]).powi(2))).sqrt()
}

/// The index of the largest value, the first of equals.
pub fn argmax(x: &[f32]) -> usize {
    (0..x.len()).rev().max_by(|&i, &j| x[i].total_cmp(&x[j])).expect("not empty")
}

/// Little-endian f32 values of a file.
pub fn read_f32s(path: &std::path::Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// A JSON file.
pub fn read_json(path: &std::path::Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A JSON array of token ids.
pub fn ids(value: &serde_json::Value) -> Vec<u32> {
    value.as_array().expect("an array").iter().map(|v| v.as_u64().expect("an id") as u32).collect()
}

/// A `tokenizer.json` of byte-level BPE without merges: a token for each byte, and those that are added, from number 256 on.
pub fn byte_level(added: Vec<serde_json::Value>) -> String {
    // The alphabet of byte-level BPE: printable bytes stand for themselves, the others for characters from 256 on.
    let is_printable = |b: u32| matches!(b, 33..=126 | 161..=172 | 174..=255);
    let hidden: Vec<u32> = (0..256).filter(|&b| !is_printable(b)).collect();
    let char_of = |b: u32| match hidden.iter().position(|&h| h == b) {
        Some(i) => char::from_u32(256 + i as u32).expect("a character"),
        None => char::from_u32(b).expect("a character"),
    };
    let vocab: serde_json::Map<String, serde_json::Value> =
        (0..256).map(|b| (char_of(b).to_string(), b.into())).collect();
    serde_json::json!({
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    })
    .to_string()
}

/// A fresh folder for temporary files, removed when it is dropped.
pub struct TempFolder(pub PathBuf);

impl TempFolder {
    pub fn new(name: &str) -> TempFolder {
        // Tests of one process may choose the same name.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let unique = format!("{name}-{}-{}", ember::threads::process(), COUNT.fetch_add(1, Relaxed));
        // Not the system's folder: WebAssembly has none.
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        TempFolder(path)
    }

    /// Writes a file into it and returns its path.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        path
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        // A folder that cannot be removed is left to the system.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The bytes of a safetensors file of F32 tensors.
#[allow(dead_code, reason = "not every test has such files")]
pub fn safetensors(tensors: &[(&str, &[usize], &[f32])]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::<u8>::new());
    for (name, shape, values) in tensors {
        let begin = data.len();
        data.extend(values.iter().flat_map(|x| x.to_le_bytes()));
        let entry = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()]});
        header.insert((*name).to_owned(), entry);
    }
    let header = serde_json::Value::from(header).to_string();
    let header = format!("{header}{}", " ".repeat((8 - header.len() % 8) % 8));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}
