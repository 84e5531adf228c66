//! Every error of a Hugging Face folder is a sentence that begins with the folder's path and names the file, the key or the
//! tensor; nothing panics.
#![cfg(feature = "hf")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::path::Path;

use common::{TempFolder, fixture};
use ember::error::ember_status::{self, *};
use ember::hf;
use ember::model::{LoadOptions, LoadedModel};

const CONFIG: &str = r#"{"model_type": "llama", "hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 1,
    "num_attention_heads": 2, "max_position_embeddings": 8, "rms_norm_eps": 1e-5, "tie_word_embeddings": true}"#;

/// The tensors of a llama of one layer and three tokens: name and shape.
const TENSORS: [(&str, &[usize]); 11] = [
    ("model.embed_tokens.weight", &[3, 4]),
    ("model.norm.weight", &[4]),
    ("model.layers.0.input_layernorm.weight", &[4]),
    ("model.layers.0.post_attention_layernorm.weight", &[4]),
    ("model.layers.0.self_attn.q_proj.weight", &[4, 4]),
    ("model.layers.0.self_attn.k_proj.weight", &[4, 4]),
    ("model.layers.0.self_attn.v_proj.weight", &[4, 4]),
    ("model.layers.0.self_attn.o_proj.weight", &[4, 4]),
    ("model.layers.0.mlp.gate_proj.weight", &[4, 4]),
    ("model.layers.0.mlp.up_proj.weight", &[4, 4]),
    ("model.layers.0.mlp.down_proj.weight", &[4, 4]),
];

/// A safetensors file: its header as it is given, and `n_data` bytes.
fn safetensors(header: &str, n_data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + n_data, 0);
    bytes
}

/// The header of F32 tensors one after another, and the bytes they take.
fn header(tensors: &[(&str, &[usize])]) -> (String, usize) {
    let mut at = 0;
    let mut entries = vec!["\"__metadata__\":{\"format\":\"pt\"}".to_owned()];
    for (name, shape) in tensors {
        let end = at + 4 * shape.iter().product::<usize>();
        entries.push(format!(
            "\"{name}\":{{\"dtype\":\"F32\",\"shape\":{shape:?},\"data_offsets\":[{at},{end}]}}"
        ));
        at = end;
    }
    (format!("{{{}}}", entries.join(",")), at)
}

fn weights(tensors: &[(&str, &[usize])]) -> Vec<u8> {
    let (header, n_data) = header(tensors);
    safetensors(&header, n_data)
}

/// The sound folder.
fn folder(name: &str) -> TempFolder {
    let folder = TempFolder::new(&format!("hf-hostile-{name}"));
    folder.write("config.json", CONFIG);
    folder.write("model.safetensors", weights(&TENSORS));
    folder
}

/// The folder is refused by a sentence that begins with its path.
#[track_caller]
fn refused(folder: &TempFolder, status: ember_status, sentence: &str) {
    let e = LoadedModel::open(&folder.0, &LoadOptions::default()).map(|_| ()).unwrap_err();
    assert_eq!(e.message().strip_prefix(&format!("{}: ", folder.0.display())), Some(sentence), "{e}");
    assert_eq!(e.status(), status);
}

/// A name that the JSON library uses itself is an ordinary name.
#[test]
fn a_text_in_the_config_is_not_read_as_json() {
    let folder = folder("raw-value");
    let raw = "\"x\": {\"$serde_json::private::RawValue\": \"not JSON\"}";
    folder.write("config.json", CONFIG.replacen('{', &format!("{{{raw}, "), 1));
    folder.write("generation_config.json", format!("{{{raw}}}"));
    assert!(LoadedModel::open(&folder.0, &LoadOptions::default()).is_ok());
    folder.write("config.json", "{\"$serde_json::private::RawValue\": \"{}\"}");
    refused(&folder, EMBER_E_FORMAT, "config.json: the key \"model_type\" is missing");
    folder.write("config.json", CONFIG);
    let mut tensors = TENSORS;
    tensors[0].0 = "a";
    let (header, n_data) = header(&tensors);
    let header = header.replacen("\"F32\"", &format!("\"F31\", {raw}"), 1);
    folder.write("model.safetensors", safetensors(&header, n_data));
    refused(
        &folder,
        EMBER_E_FORMAT,
        "model.safetensors: the tensor \"a\" has the type \"F31\", which safetensors does not know",
    );
}

#[test]
fn the_sound_folder_loads() {
    let folder = folder("sound");
    let model = LoadedModel::open(&folder.0, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((model.info().n_vocab, model.info().n_embd, model.info().head_dim), (3, 4, 2));
}

#[test]
fn missing_files_are_named() {
    let folder = TempFolder::new("hf-hostile-missing");
    refused(&folder, EMBER_E_IO, "this directory has no config.json: it is no Hugging Face model");
    folder.write("config.json", CONFIG);
    refused(&folder, EMBER_E_IO, "the folder has neither model.safetensors nor model.safetensors.index.json");
    folder.write("pytorch_model.bin", "pickle");
    refused(
        &folder,
        EMBER_E_UNSUPPORTED,
        "the folder has pytorch_model.bin but no model.safetensors: PyTorch pickles are not read; save the model as \
         safetensors",
    );
    folder.write("model.safetensors", "");
    refused(&folder, EMBER_E_FORMAT, "model.safetensors: the file is empty");
}

#[test]
fn wrong_configurations_are_named() {
    let folder = folder("config");
    let config = |from: &str, to: &str| {
        assert!(CONFIG.contains(from), "{from}");
        folder.write("config.json", CONFIG.replacen(from, to, 1));
    };
    let format = |sentence: &str| refused(&folder, EMBER_E_FORMAT, sentence);

    folder.write("config.json", "[1]");
    format("config.json: the file is not a JSON object");
    folder.write("config.json", "{\"model_type\": ");
    format("config.json: the file is not JSON: EOF while parsing a value at line 1 column 15");
    folder.write("config.json", "[".repeat(100_000));
    format(
        "config.json: the file is not JSON: values are nested more than 100 levels deep at line 1 column 101",
    );
    folder.write("config.json", b"{\"model_type\": \"\xff\"}");
    assert!(hf::open(&folder.0, true).unwrap_err().message().contains("config.json: the file is not JSON"));

    config("\"llama\"", "null");
    format("config.json: the key \"model_type\" is missing");
    config("\"llama\"", "7");
    format("config.json: the key \"model_type\" is 7, expected a string");
    config("\"hidden_size\": 4", "\"other\": 4");
    format("config.json: the key \"hidden_size\" or \"n_embd\" is missing");
    for (value, shown) in [
        ("\"4\"", "\"4\""),
        ("-4", "-4"),
        ("4.5", "4.5"),
        ("4294967296", "4294967296"),
        ("[4]", "an array"),
        ("{}", "an object"),
        ("true", "true"),
    ] {
        config("\"hidden_size\": 4", &format!("\"hidden_size\": {value}"));
        format(&format!(
            "config.json: the key \"hidden_size\" is {shown}, expected an integer from 0 to 4294967295"
        ));
    }
    config("\"hidden_size\": 4", "\"hidden_size\": 0");
    format("config.json: the key \"hidden_size\" is 0, expected at least 1");
    config("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 4000000000");
    format("the key \"num_hidden_layers\" of config.json is 4000000000, expected 1 to 16777216");
    config("\"num_attention_heads\": 2", "\"num_attention_heads\": 0");
    format("config.json: the key \"num_attention_heads\" is 0, expected at least 1");
    config("\"num_attention_heads\": 2", "\"num_attention_heads\": 3, \"head_dim\": 2");
    format(
        "the tensor \"model.layers.0.self_attn.k_proj.weight\" has the shape [4, 4], whose first size is no multiple of 6",
    );
    config("1e-5", "\"small\"");
    format("config.json: the key \"rms_norm_eps\" is \"small\", expected a number");
    config("1e-5", "1e999");
    format("config.json: the file is not JSON: number out of range at line 2 column 81");
    config("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": 1");
    format("config.json: the key \"tie_word_embeddings\" is 1, expected true or false");
    config("\"hidden_size\": 4", "\"hidden_size\": 4, \"rope_scaling\": 4");
    format("config.json: the key \"rope_scaling\" is 4, expected an object");
    config(
        "\"hidden_size\": 4",
        "\"hidden_size\": 4, \"rope_scaling\": {\"type\": \"linear\", \"factor\": \"2\"}",
    );
    format("config.json: the key \"rope_scaling.factor\" is \"2\", expected a number");
    config("\"hidden_size\": 4", "\"hidden_size\": 4, \"text_config\": 1");
    format("config.json: the key \"text_config\" is 1, expected an object");
    config("\"hidden_size\": 4", "\"hidden_size\": 4, \"eos_token_id\": [1, -1]");
    format("config.json: the key \"eos_token_id\" is an array, expected a token id or an array of token ids");
}

#[test]
fn unknown_variations_are_named() {
    let folder = folder("variations");
    let config = |from: &str, to: &str| {
        assert!(CONFIG.contains(from), "{from}");
        folder.write("config.json", CONFIG.replacen(from, to, 1));
    };
    let unsupported = |sentence: &str| refused(&folder, EMBER_E_UNSUPPORTED, sentence);
    config("\"llama\"", "\"opt\"");
    let known: Vec<&str> = hf::known().collect();
    assert!(known.contains(&"gemma3_text"));
    let known = known.join(", ");
    unsupported(&format!("config.json: the model type \"opt\" is not supported; known are: {known}"));
    config("\"llama\"", "\"llama\", \"quantization_config\": {\"quant_method\": \"awq\"}");
    unsupported(
        "config.json: the key \"quantization_config\" says that the weights are quantized by \"awq\"; supported are folders \
         in F32, F16 and BF16, and GGUF files in every format",
    );
    config("\"llama\"", "\"llama\", \"hidden_act\": \"relu\"");
    unsupported(
        "config.json: the key \"hidden_act\" is \"relu\", which is not supported; supported is: silu, swish",
    );
    config("\"llama\"", "\"llama\", \"rope_scaling\": {\"type\": \"dynamic\"}");
    unsupported(
        "config.json: the key \"rope_scaling.type\" is \"dynamic\", which is not supported; supported is: \
         default, linear, llama3, yarn",
    );
    config(
        "\"llama\"",
        "\"llama\", \"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 0, \"low_freq_factor\": 1, \
         \"high_freq_factor\": 4}",
    );
    unsupported(
        "config.json: the key \"rope_parameters.factor\" is 0, which is not supported; supported is: positive \
         numbers, \"high_freq_factor\" above \"low_freq_factor\"",
    );
}

#[test]
fn wrong_tensors_are_named() {
    let folder = folder("tensors");
    let mut tensors = TENSORS.to_vec();
    tensors.push(("model.layers.0.self_attn.sinks", &[2]));
    folder.write("model.safetensors", weights(&tensors));
    refused(
        &folder,
        EMBER_E_UNSUPPORTED,
        "the tensor \"model.layers.0.self_attn.sinks\" is not part of a model of the type \"llama\" as this version knows it",
    );
    tensors.pop();
    tensors.push(("model.layers.00.mlp.up_proj.weight", &[4, 4]));
    folder.write("model.safetensors", weights(&tensors));
    refused(
        &folder,
        EMBER_E_UNSUPPORTED,
        "the tensor \"model.layers.00.mlp.up_proj.weight\" is not part of a model of the type \"llama\" as this version \
         knows it",
    );
    tensors.pop();
    tensors.push(("layers.0.mlp.up_proj.weight", &[4, 4]));
    folder.write("model.safetensors", weights(&tensors));
    refused(
        &folder,
        EMBER_E_FORMAT,
        "the tensors \"layers.0.mlp.up_proj.weight\" and \"model.layers.0.mlp.up_proj.weight\" mean the same",
    );
    tensors.pop();
    tensors.push(("model.layers.1.mlp.up_proj.weight", &[4, 4]));
    folder.write("model.safetensors", weights(&tensors));
    refused(
        &folder,
        EMBER_E_FORMAT,
        "the tensor \"model.layers.1.mlp.up_proj.weight\" is of layer 1, but the key \"num_hidden_layers\" of config.json is 1",
    );
    tensors.pop();
    for (shape, shown) in [(&[4, 0][..], "[4, 0]"), (&[], "[]"), (&[1, 2, 1, 2, 4], "[1, 2, 1, 2, 4]")] {
        tensors[9].1 = shape;
        folder.write("model.safetensors", weights(&tensors));
        let sentence =
            format!("the tensor \"model.layers.0.mlp.up_proj.weight\" has the impossible shape {shown}");
        refused(&folder, EMBER_E_FORMAT, &sentence);
    }
    tensors[9].1 = &[2, 2, 4];
    folder.write("model.safetensors", weights(&tensors));
    refused(
        &folder,
        EMBER_E_FORMAT,
        "the tensor \"model.layers.0.mlp.up_proj.weight\" has shape [2, 2, 4], expected [4, 4]",
    );
    tensors.remove(9);
    folder.write("model.safetensors", weights(&tensors));
    refused(&folder, EMBER_E_FORMAT, "the tensor \"model.layers.0.mlp.up_proj.weight\" is missing");
}

#[test]
fn wrong_headers_are_named() {
    let folder = folder("headers");
    let (good, n_data) = header(&TENSORS);
    let check = |bytes: Vec<u8>, sentence: &str| {
        folder.write("model.safetensors", bytes);
        refused(&folder, EMBER_E_FORMAT, &format!("model.safetensors: {sentence}"));
    };
    let changed = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        safetensors(&good.replacen(from, to, 1), n_data)
    };
    check(vec![1, 2, 3], "the safetensors header is malformed: header too small");
    let whole = safetensors(&good, n_data);
    for len in [8, 9, 8 + good.len() - 1] {
        let sentence = format!(
            "the safetensors header claims {} bytes, but only {} are left in the file",
            good.len(),
            len - 8
        );
        check(whole[..len].to_vec(), &sentence);
    }
    for n in [u64::MAX, 1 << 62, 200_000_000] {
        let mut bytes = whole.clone();
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        let sentence = format!(
            "the safetensors header claims {n} bytes, but only {} are left in the file",
            whole.len() - 8
        );
        check(bytes, &sentence);
    }
    let short = format!("the tensors take {n_data} bytes, but the file holds {} bytes of data", n_data + 1);
    check(safetensors(&good, n_data + 1), &short);
    let last = "model.layers.0.mlp.down_proj.weight";
    let sentence = format!(
        "the tensor \"{last}\" has its data up to byte {n_data}, but the file holds {} bytes of data",
        n_data - 1
    );
    check(whole[..whole.len() - 1].to_vec(), &sentence);
    check(
        changed("\"data_offsets\":[0,48]", "\"data_offsets\":[48,96]"),
        "the tensor \"model.norm.weight\" has its data at byte 48, after a gap; expected byte 0",
    );
    check(
        changed("\"data_offsets\":[48,64]", "\"data_offsets\":[32,48]"),
        "the tensor \"model.norm.weight\" has its data at byte 32, which overlaps another's; expected byte 48",
    );
    check(
        changed("\"data_offsets\":[0,48]", "\"data_offsets\":[48,0]"),
        "the tensor \"model.embed_tokens.weight\" has the data offsets 48 to 0, which do not fit its type and the \
         shape [3, 4]",
    );
    check(
        changed("\"shape\":[3, 4]", "\"shape\":[3, 5]"),
        "the tensor \"model.embed_tokens.weight\" has the data offsets 0 to 48, which do not fit its type and the \
         shape [3, 5]",
    );
    check(
        changed("\"shape\":[3, 4]", "\"shape\":[4294967296, 4294967296, 4294967296]"),
        "the tensor \"model.embed_tokens.weight\" has the data offsets 0 to 48, which do not fit its type and the \
         shape [4294967296, 4294967296, 4294967296]",
    );
    check(
        changed("\"shape\":[3, 4]", "\"shape\":[3, -4]"),
        "the tensor \"model.embed_tokens.weight\" has the shape [3,-4], expected an array of sizes",
    );
    check(
        changed("\"dtype\":\"F32\"", "\"dtype\":\"F33\""),
        "the tensor \"model.embed_tokens.weight\" has the type \"F33\", which safetensors does not know",
    );
    check(
        changed("[0,48]", "[0]"),
        "the tensor \"model.embed_tokens.weight\" has the data offsets [0], expected two numbers",
    );
    // A tensor is named in a long header too.
    let notes = format!("{{\"__metadata__\":{{\"a\":\"{}\"}},", "x".repeat(2 << 20));
    check(
        safetensors(
            &good.replacen("[48,64]", "[32,48]", 1).replacen(
                "{\"__metadata__\":{\"format\":\"pt\"},",
                &notes,
                1,
            ),
            n_data,
        ),
        "the tensor \"model.norm.weight\" has its data at byte 32, which overlaps another's; expected byte 48",
    );
    folder.write("model.safetensors", safetensors("{\"a\": ", 0));
    let e = hf::open(&folder.0, true).unwrap_err();
    assert!(e.message().contains("model.safetensors: the safetensors header is malformed: "), "{e}");

    folder.write("model.safetensors", changed("\"dtype\":\"F32\"", "\"dtype\":\"I32\""));
    refused(
        &folder,
        EMBER_E_UNSUPPORTED,
        "the tensor \"model.embed_tokens.weight\" is of type I32, which is not supported; supported are: F32, F16, BF16",
    );
    // The same name twice: the bytes of one of them are unaccounted for.
    let twice = good.replacen("model.norm.weight", "model.embed_tokens.weight", 1);
    folder.write("model.safetensors", safetensors(&twice, n_data));
    let e = hf::open(&folder.0, true).unwrap_err();
    assert!(e.message().contains("has its data at byte"), "{e}");
}

#[test]
fn random_damage_never_panics() {
    let folder = folder("random");
    let files = [("config.json", CONFIG.as_bytes().to_vec()), ("model.safetensors", weights(&TENSORS))];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    for (name, bytes) in &files {
        let n_text = bytes.iter().position(|b| *b == 0).filter(|n| *n > 8).unwrap_or(bytes.len()).min(1700);
        for _ in 0..1500 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + random() % 3 {
                damaged[random() % n_text] = [b'"', b'0', b'9', b'-', b'[', b'}', b',', 0xff][random() % 8];
            }
            folder.write(name, damaged);
            if let Err(e) =
                LoadedModel::open(&folder.0, &LoadOptions { use_mmap: false, ..LoadOptions::default() })
            {
                assert!(e.message().starts_with(&folder.0.display().to_string()), "{e}");
                assert_ne!(e.status(), EMBER_E_INTERNAL, "{e}");
            }
        }
        folder.write(name, bytes);
    }
}

/// A folder of two shards with `index` as its index.
fn sharded(name: &str, index: &str) -> TempFolder {
    let folder = TempFolder::new(&format!("hf-hostile-{name}"));
    folder.write("config.json", CONFIG);
    folder.write("a.safetensors", weights(&TENSORS[..5]));
    folder.write("b.safetensors", weights(&TENSORS[5..]));
    folder.write("model.safetensors.index.json", index);
    folder
}

fn index(file_of: impl Fn(usize) -> String) -> String {
    let entries: Vec<String> =
        TENSORS.iter().enumerate().map(|(i, (name, _))| format!("\"{name}\": \"{}\"", file_of(i))).collect();
    format!("{{\"metadata\": {{}}, \"weight_map\": {{{}}}}}", entries.join(", "))
}

#[test]
fn an_index_is_not_believed() {
    const INDEX: &str = "model.safetensors.index.json";
    let shard = |i: usize| if i < 5 { "a.safetensors".to_owned() } else { "b.safetensors".to_owned() };
    let good = sharded("index-good", &index(shard));
    assert!(LoadedModel::open(&good.0, &LoadOptions::default()).is_ok());

    for outside in ["../x.safetensors", "/etc/passwd", "sub/x.safetensors", "..", ".", "", "./a.safetensors"]
    {
        let folder = sharded("index-outside", &index(|i| if i == 7 { outside.into() } else { shard(i) }));
        let sentence = format!(
            "{INDEX}: the key \"weight_map\" puts the tensor \"{}\" into {outside:?}, expected the name of a file in the \
             folder",
            TENSORS[7].0
        );
        refused(&folder, EMBER_E_FORMAT, &sentence);
    }
    let folder = sharded("index-none", "{\"weight_map\": {}}");
    refused(&folder, EMBER_E_FORMAT, &format!("{INDEX}: the key \"weight_map\" lists no files"));
    let folder = sharded("index-type", "{\"weight_map\": {\"a\": 1}}");
    let sentence = format!("{INDEX}: the key \"weight_map\" is an object, expected an object of strings");
    refused(&folder, EMBER_E_FORMAT, &sentence);
    let folder = sharded("index-absent", "{}");
    refused(&folder, EMBER_E_FORMAT, &format!("{INDEX}: the key \"weight_map\" is missing"));
    let folder = sharded("index-other", &index(|i| shard(if i == 0 { 10 } else { i })));
    let sentence =
        format!("{INDEX}: the tensor \"{}\" is in a.safetensors, not in b.safetensors", TENSORS[0].0);
    refused(&folder, EMBER_E_FORMAT, &sentence);

    let folder = sharded("index-missing", &index(shard));
    folder.write("b.safetensors", weights(&TENSORS[6..]));
    let sentence = format!("b.safetensors: the tensor \"{}\" is missing, which {INDEX} lists", TENSORS[5].0);
    refused(&folder, EMBER_E_FORMAT, &sentence);
    folder.write("b.safetensors", weights(&TENSORS[4..]));
    let sentence = format!("b.safetensors: the tensor \"{}\" is also in a.safetensors", TENSORS[4].0);
    refused(&folder, EMBER_E_FORMAT, &sentence);
    std::fs::remove_file(folder.0.join("b.safetensors")).unwrap();
    refused(&folder, EMBER_E_IO, "b.safetensors: the file does not exist");
}

#[test]
fn experts_must_be_all_there() {
    let folder = TempFolder::new("hf-hostile-experts");
    for entry in std::fs::read_dir(fixture("hf/llama-moe-4-2")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.0.join(path.file_name().unwrap())).unwrap();
    }
    let sound = std::fs::read(folder.0.join("model.safetensors")).unwrap();
    let renamed = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len());
        let at = sound.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
        let mut bytes = sound.clone();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        folder.write("model.safetensors", bytes);
    };
    renamed("layers.1.block_sparse_moe.experts.2.w1", "layers.1.block_sparse_moe.experts.7.w1");
    refused(
        &folder,
        EMBER_E_FORMAT,
        "the tensor \"model.layers.1.block_sparse_moe.experts.3.w1.weight\" is there, but the one of the same kind with \
         the number 2 is missing",
    );
    renamed("layers.0.block_sparse_moe.experts.3.w2", "layers.0.block_sparse_moe.experts.3.w1");
    let e = hf::open(&folder.0, true).unwrap_err();
    assert!(e.message().contains("experts.3.w1"), "{e}");
}

#[test]
fn a_folder_that_is_no_folder_is_refused() {
    let e = hf::open(Path::new("/nonexistent/model"), true).unwrap_err();
    assert_eq!(e.status(), EMBER_E_IO);
    assert!(e.message().starts_with("/nonexistent/model: "), "{e}");
}
