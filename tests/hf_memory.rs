//! A binary of its own: it has the process's allocator, which counts.
//!
//! The files of a Hugging Face folder take memory in proportion to their size. Files that have a few kilobytes in real folders
//! have a bound: they take no more memory than was checked for before.
#![cfg(feature = "hf")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;
#[path = "common/counting.rs"]
mod counting;

use std::path::Path;

use common::{TempFolder, fixture};
use counting::most;
use ember::context::{ContextOptions, estimate};
use ember::error::ember_status::*;
use ember::hf;
use ember::model::{LoadOptions, LoadedModel, Pack, inspect};
use ember::tokenizer::Tokenizer;

/// A copy of a sound folder with this file.
fn folder(name: &str, bytes: &[u8]) -> TempFolder {
    let folder = TempFolder::new("hf-memory");
    for entry in std::fs::read_dir(fixture("hf/llama-yarn")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.0.join(path.file_name().unwrap())).unwrap();
    }
    if name.ends_with(".index.json") {
        std::fs::remove_file(folder.0.join("model.safetensors")).unwrap();
    }
    folder.write(name, bytes);
    folder
}

fn safetensors(header: &str) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()
}

fn open(path: &Path) -> Option<ember::error::Error> {
    hf::open(path, true).err()
}

/// JSON that takes much memory for its size.
fn costly() -> Vec<String> {
    let deep = |open: &str, close: &str| format!("{}0{}", open.repeat(100), close.repeat(100));
    let parts = [
        r#"{"":0}"#,
        r#"{"a":{},"b":{}}"#,
        "{}",
        "[]",
        "[[]]",
        "0",
        r#""""#,
        r#""a""#,
        &deep("[0,", "]"),
        &deep(r#"{"":"#, "}"),
    ];
    // Lists take most when they have grown for the last time just before their end.
    let many = |part: &str| vec![part; ((1 << 18) / part.len()).next_power_of_two() + 1].join(",");
    let mut all: Vec<String> = parts.iter().map(|part| format!(r#"{{"x":[{}]}}"#, many(part))).collect();
    let keys: Vec<String> = (0..33_000).map(|i| format!(r#""{i:x}":"""#)).collect();
    all.push(format!(r#"{{"x":{{{}}}}}"#, keys.join(",")));
    all.retain(|json| json.len() < 1 << 20);
    assert!(all.len() > 8);
    all
}

/// A llama whose queries and keys take 16 MB. Loading copies them one after another; an estimate and an inspection copy none.
fn looking_copies_nothing() {
    let (n_layer, n_embd) = (32, 256);
    let folder = TempFolder::new("hf-memory-look");
    let config = format!(
        r#"{{"model_type":"llama","hidden_size":{n_embd},"intermediate_size":4,"num_hidden_layers":{n_layer},
        "num_attention_heads":4,"max_position_embeddings":8,"rms_norm_eps":1e-5,"tie_word_embeddings":true}}"#
    );
    folder.write("config.json", config);
    let mut tensors =
        vec![("embed_tokens.weight".to_owned(), vec![3, n_embd]), ("norm.weight".to_owned(), vec![n_embd])];
    for i in 0..n_layer {
        for (name, shape) in [
            ("input_layernorm", vec![n_embd]),
            ("post_attention_layernorm", vec![n_embd]),
            ("self_attn.q_proj", vec![n_embd, n_embd]),
            ("self_attn.k_proj", vec![n_embd, n_embd]),
            ("self_attn.v_proj", vec![n_embd, n_embd]),
            ("self_attn.o_proj", vec![n_embd, n_embd]),
            ("mlp.gate_proj", vec![4, n_embd]),
            ("mlp.up_proj", vec![4, n_embd]),
            ("mlp.down_proj", vec![n_embd, 4]),
        ] {
            tensors.push((format!("layers.{i}.{name}.weight"), shape));
        }
    }
    let mut at = 0;
    let mut entries = Vec::new();
    for (name, shape) in tensors {
        let end = at + 4 * shape.iter().product::<usize>();
        entries.push(format!(
            r#""model.{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{at},{end}]}}"#
        ));
        at = end;
    }
    let mut file = safetensors(&format!("{{{}}}", entries.join(",")));
    file.resize(file.len() + at, 0);
    folder.write("model.safetensors", file);
    let options = LoadOptions { pack: Pack::Never, ..LoadOptions::default() };
    // The system allocates it, so the counter of this test does not count it.
    let copied = LoadedModel::open(&folder.0, &options).unwrap().weights_memory();
    assert!(copied > 16 << 20, "{copied} bytes");
    let looked = most(|| {
        let json = inspect(&folder.0).unwrap();
        assert!(json.contains(r#""supported":true"#), "{json}");
    });
    assert!(looked < 2 << 20, "{looked} bytes to look at a folder");
    for use_mmap in [true, false] {
        let options = LoadOptions { use_mmap, ..options.clone() };
        let said = most(|| _ = estimate(&folder.0, &options, &ContextOptions::default()).unwrap());
        assert!(said < 2 << 20, "{said} bytes for an estimate");
    }
}

/// One test, because others at the same time would be counted too.
#[test]
fn what_is_read_takes_no_more_than_is_looked_for() {
    const INDEX: &str = "model.safetensors.index.json";
    let check = |name: &str, bytes: &[u8], times: usize| {
        let folder = folder(name, bytes);
        let taken = most(|| drop(open(&folder.0)));
        // The memory of the rest of the folder, and of the file itself.
        let most = times * bytes.len() + bytes.len() + (1 << 18);
        assert!(taken <= most, "{name}: {taken} bytes, at most {most}: {:.60?}", bytes.escape_ascii());
    };
    for json in costly() {
        check("config.json", json.replacen('{', r#"{"model_type":"llama","#, 1).as_bytes(), 128);
        let inner = format!(r#"{{"model_type":"llama","text_config":{json}}}"#);
        check("config.json", inner.as_bytes(), 128);
        check("generation_config.json", json.as_bytes(), 128);
        check(INDEX, json.as_bytes(), 32);
        check(INDEX, json.replacen('x', "weight_map", 1).as_bytes(), 32);
        // If a refused file is short enough, a tree is made, so that the error can say what is wrong.
        check("model.safetensors", &safetensors(&json), 128);
        let long = format!("{json}{}", " ".repeat(1 << 20));
        check("model.safetensors", &safetensors(&long), 32);
        let shape = json.replacen(r#""x":"#, r#""x":{"dtype":"F32","data_offsets":[0,0],"shape":"#, 1) + "}";
        check("model.safetensors", &safetensors(&(shape + &" ".repeat(1 << 20))), 32);
    }
    let tensors = |n: usize| -> String {
        let entry = |i| format!(r#""{i:x}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#);
        format!("{{{}}}", (0..n).map(entry).collect::<Vec<_>>().join(","))
    };
    check("model.safetensors", &safetensors(&tensors((1 << 15) + 1)), 32);
    let listed: Vec<String> = (0..1 << 16).map(|i| format!(r#""{i:x}":"{i}""#)).collect();
    check(INDEX, format!(r#"{{"weight_map":{{{}}}}}"#, listed.join(",")).as_bytes(), 32);

    let tokenizer = br#"{"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}"#;
    for json in costly() {
        for key in ["x", "bos_token", "chat_template"] {
            let config = json.replacen('x', key, 1);
            let taken = most(|| drop(Tokenizer::from_json(tokenizer, Some(config.as_bytes()))));
            assert!(taken <= 8 * config.len() + (1 << 18), "{taken} bytes: {config:.60}");
        }
    }
    let named = vec![r#"{"name":"","template":""}"#; (1 << 14) + 1].join(",");
    let config = format!(r#"{{"chat_template":[{named}]}}"#);
    let taken =
        most(|| drop(Tokenizer::from_json(tokenizer, Some(config.as_bytes())).map_err(|e| panic!("{e}"))));
    assert!(taken <= 8 * config.len() + (1 << 18), "{taken} bytes: {config:.60}");

    looking_copies_nothing();

    // Values that no real folder has.
    let refused = |name: &str, bytes: &[u8], sentence: &str| {
        let folder = folder(name, bytes);
        let mut error = None;
        let taken = most(|| error = open(&folder.0));
        let error = error.unwrap();
        assert_eq!(
            error.message().strip_prefix(&format!("{}: {name}: ", folder.0.display())),
            Some(sentence)
        );
        assert_eq!(error.status(), EMBER_E_UNSUPPORTED);
        assert!(taken < 1 << 18, "{taken} bytes for {name}");
    };
    for (name, most) in [
        ("config.json", 1 << 20),
        (INDEX, 16 << 20),
        ("tokenizer_config.json", 16 << 20),
        ("chat_template.jinja", 16 << 20),
    ] {
        let sentence = format!("the file has {} bytes, Ember reads at most {most}", most + 1);
        refused(name, &vec![b' '; most + 1], &sentence);
    }
    let header = safetensors(&" ".repeat((16 << 20) + 1));
    let sentence = "the safetensors header has 16777217 bytes, Ember reads at most 16777216";
    refused("model.safetensors", &header, sentence);
}
