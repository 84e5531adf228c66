//! Errors of Hugging Face folders use the folder's names: tensors by their names and shapes in the safetensors files, keys by
//! those of `config.json`. Each case changes a sound folder.
#![cfg(feature = "hf")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use common::{TempFolder, fixture, read_json};
use ember::gguf::Value;
use ember::hf;
use ember::model::{LoadOptions, LoadedModel};
use serde_json::{Map, Value as Json, json};

/// A fixture's `config.json` and safetensors header, the latter over zeros.
struct Folder {
    folder: TempFolder,
    config: Map<String, Json>,
    header: Map<String, Json>,
}

impl Folder {
    fn of(name: &str) -> Folder {
        let bytes = std::fs::read(fixture(&format!("hf/{name}/model.safetensors"))).unwrap();
        let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let Json::Object(header) = serde_json::from_slice(&bytes[8..8 + n]).unwrap() else { unreachable!() };
        let Json::Object(config) = read_json(&fixture(&format!("hf/{name}/config.json"))) else {
            unreachable!()
        };
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let folder = TempFolder::new(&format!("hf-errors-{}", COUNT.fetch_add(1, SeqCst)));
        Folder { folder, config, header }
    }

    fn dims(&self, tensor: &str) -> Vec<usize> {
        let shape = self.header[tensor]["shape"].as_array().unwrap();
        shape.iter().map(|d| d.as_u64().unwrap() as usize).collect()
    }

    fn set(mut self, key: &str, value: Json) -> Folder {
        self.config.insert(key.into(), value);
        self
    }

    /// Sets a key of the rotary positions.
    fn rope(mut self, key: &str, value: Json) -> Folder {
        self.config["rope_parameters"].as_object_mut().unwrap().insert(key.into(), value);
        self
    }

    fn of_type(mut self, tensor: &str, dtype: &str) -> Folder {
        self.header[tensor]["dtype"] = json!(dtype);
        self
    }

    fn without(mut self, tensor: &str) -> Folder {
        self.header.remove(tensor).unwrap();
        self
    }

    fn shape(mut self, tensor: &str, shape: &[usize]) -> Folder {
        self.header[tensor]["shape"] = json!(shape);
        self
    }

    /// Another tensor, like one that is there.
    fn with(mut self, tensor: &str, like: &str) -> Folder {
        let info = self.header[like].clone();
        self.header.insert(tensor.into(), info);
        self
    }

    fn open(mut self, options: &LoadOptions) -> Option<String> {
        let mut at = 0;
        for (name, info) in &mut self.header {
            if name != "__metadata__" {
                let n: u64 = info["shape"].as_array().unwrap().iter().map(|d| d.as_u64().unwrap()).product();
                let size = match info["dtype"].as_str() {
                    Some("F32") => 4,
                    Some("U8") => 1,
                    _ => 2,
                };
                let end = at + n * size;
                info["data_offsets"] = json!([at, end]);
                at = end;
            }
        }
        let header = Json::from(self.header).to_string();
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.resize(bytes.len() + at as usize, 0);
        self.folder.write("config.json", Json::from(self.config).to_string());
        self.folder.write("model.safetensors", bytes);
        let error = LoadedModel::open(&self.folder.0, options).err()?;
        Some(error.message().strip_prefix(&format!("{}: ", self.folder.0.display())).unwrap().to_owned())
    }

    #[track_caller]
    fn refused(self, sentence: &str) {
        assert_eq!(self.open(&LoadOptions::default()).as_deref(), Some(sentence));
    }
}

#[test]
fn tensors() {
    let llama = || Folder::of("llama-yarn");
    assert_eq!(llama().open(&LoadOptions::default()), None);
    let (up, value) = ("model.layers.1.mlp.up_proj.weight", "model.layers.0.self_attn.v_proj.weight");
    llama().without(up).refused(&format!("the tensor {up:?} is missing"));
    llama()
        .without("model.embed_tokens.weight")
        .refused("the tensor \"model.embed_tokens.weight\" is missing");
    let [n_ff, n_embd] = llama().dims(up)[..] else { unreachable!() };
    llama()
        .shape(up, &[n_embd, n_ff])
        .refused(&format!("the tensor {up:?} has shape [{n_embd}, {n_ff}], expected [{n_ff}, {n_embd}]"));
    let sentence = format!("the tensor {value:?} has shape [3, 5, 7], expected {:?}", llama().dims(value));
    llama().shape(value, &[3, 5, 7]).refused(&sentence);
    llama()
        .shape(value, &[1, 1, 1, 2, 3])
        .refused(&format!("the tensor {value:?} has the impossible shape [1, 1, 1, 2, 3]"));
    let far = "model.layers.9.mlp.up_proj.weight";
    llama().with(far, up).refused(&format!(
        "the tensor {far:?} is of layer 9, but the key \"num_hidden_layers\" of config.json is 2"
    ));
    llama()
        .with("norm.weight", "model.norm.weight")
        .refused("the tensors \"model.norm.weight\" and \"norm.weight\" mean the same");

    // Codes and scales of MXFP4.
    let packed = || Folder::of("gpt-oss-mxfp4");
    let part = |part: &str| format!("model.layers.0.mlp.experts.{part}");
    let (codes, scales) = (part("down_proj_blocks"), part("down_proj_scales"));
    packed()
        .without(&scales)
        .refused(&format!("the tensor {codes:?} is there, but the one with its scales is missing"));
    packed()
        .without(&codes)
        .refused(&format!("the tensor {scales:?} is there, but the one with its codes is missing"));
    packed()
        .without(&codes)
        .without(&scales)
        .refused(&format!("the tensor {:?} is missing", part("down_proj")));
    let [n, n_out, n_blocks, _] = packed().dims(&codes)[..] else { unreachable!() };
    packed().shape(&scales, &[n, n_out, n_blocks + 1]).refused(&format!(
        "the tensor {scales:?} has the shape [{n}, {n_out}, {}], expected [{n}, {n_out}, {n_blocks}]",
        n_blocks + 1
    ));
    packed().shape(&codes, &[n, n_out, n_blocks, 8]).refused(&format!(
        "the tensor {codes:?} has the shape [{n}, {n_out}, {n_blocks}, 8], expected four dimensions, the last of 16"
    ));
    packed()
        .of_type(&codes, "F16")
        .refused(&format!("the tensor {codes:?} is of type F16, which is not supported; supported is: U8"));
    let router = "model.layers.0.mlp.router.weight";
    packed().of_type(router, "U8").refused(&format!(
        "the tensor {router:?} is of type U8, which is not supported; supported are: F32, F16, BF16"
    ));
    let bias = part("down_proj_bias");
    packed()
        .shape(&bias, &[n, n_out + 1])
        .refused(&format!("the tensor {bias:?} has shape [{n}, {}], expected [{n}, {n_out}]", n_out + 1));
    let quantized = "config.json: the key \"quantization_config\" says that the weights are quantized";
    let supported = "supported are folders in F32, F16 and BF16";
    llama()
        .set("quantization_config", json!({"quant_method": "mxfp4"}))
        .refused(&format!("{quantized} by \"mxfp4\"; {supported}, and GGUF files in every format"));
    llama()
        .set("quantization_config", json!({}))
        .refused(&format!("{quantized}; {supported}, and GGUF files in every format"));
    packed().set("quantization_config", json!({"quant_method": "fp8"})).refused(&format!(
        "{quantized} by \"fp8\"; {supported}, with experts in MXFP4 too, and GGUF files in every format"
    ));

    // Stored the other way round, without the prefix of the others, and in stacks.
    let gpt2 = || Folder::of("gpt2-untied");
    let matrix = "transformer.h.0.mlp.c_fc.weight";
    let [n_in, n_out] = gpt2().dims(matrix)[..] else { unreachable!() };
    gpt2().shape(matrix, &[n_in, n_out + 1]).refused(&format!(
        "the tensor {matrix:?} has shape [{n_in}, {}], expected [{n_in}, {n_out}]",
        n_out + 1
    ));
    gpt2().without(matrix).refused(&format!("the tensor {matrix:?} is missing"));
    let head = "lm_head.weight";
    let sentence = format!("the tensor {head:?} has shape [1, 1], expected {:?}", gpt2().dims(head));
    gpt2().shape(head, &[1, 1]).refused(&sentence);
    let moe = Folder::of("llama-moe-4-2").set("num_local_experts", json!(5));
    let (n_ff, n_embd) = (&moe.config["intermediate_size"], &moe.config["hidden_size"]);
    let sentence = format!(
        "the tensor \"model.layers.0.block_sparse_moe.gate.weight\" has shape [4, {n_embd}], expected [5, {n_embd}]"
    );
    let stacked = format!(
        "the tensor \"model.layers.0.block_sparse_moe.experts.*.w1.weight\" has shape [4, {n_ff}, {n_embd}], expected \
         [5, {n_ff}, {n_embd}]"
    );
    let n_embd = n_embd.as_u64().unwrap() as usize;
    moe.refused(&sentence);
    Folder::of("llama-moe-4-2")
        .set("num_local_experts", json!(5))
        .shape("model.layers.0.block_sparse_moe.gate.weight", &[5, n_embd])
        .refused(&stacked);
}

#[test]
fn keys() {
    let llama = || Folder::of("llama-yarn");
    let counts = ["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"];
    for key in counts.into_iter().chain(["num_key_value_heads", "max_position_embeddings", "head_dim"]) {
        llama()
            .set(key, json!(0))
            .refused(&format!("config.json: the key {key:?} is 0, expected at least 1"));
    }
    let too_many = |key: &str| format!("the key {key:?} of config.json is 16777217, expected 1 to 16777216");
    llama().set("num_hidden_layers", json!(16_777_217)).refused(&too_many("num_hidden_layers"));
    llama().set("max_position_embeddings", json!(16_777_217)).refused(&too_many("max_position_embeddings"));
    for (value, sentence) in [
        (json!(0), "the key \"rms_norm_eps\" of config.json is 0, expected a finite number above 0"),
        (
            json!(2f64.powi(-200)),
            "config.json: the key \"rms_norm_eps\" is 6.223015277861142e-61, expected a number that 32 bits can hold",
        ),
        (
            json!(1e39),
            "config.json: the key \"rms_norm_eps\" is 1e+39, expected a number that 32 bits can hold",
        ),
    ] {
        llama().set("rms_norm_eps", value).refused(sentence);
    }
    llama().rope("rope_theta", json!(-1)).refused(
        "the key \"rope_parameters.rope_theta\" of config.json is -1, expected a finite number above 0",
    );
    llama().rope("attention_factor", json!(-1)).refused(
        "config.json: the key \"rope_parameters.attention_factor\" is -1, expected a number above 0",
    );
    llama().rope("mscale", json!(1)).rope("mscale_all_dim", json!(-100)).refused(
        "config.json: the key \"rope_parameters.mscale_all_dim\" is -100, which is not supported; supported is: a number that \
         gives a factor above 0 beside \"mscale\"",
    );
    llama().rope("beta_fast", json!(-2)).refused(
        "the key \"rope_parameters.beta_fast\" of config.json is -2, expected a finite number above 0",
    );
    llama()
        .set("rope_parameters", json!({"rope_type": "linear", "factor": 0}))
        .refused("the key \"rope_parameters.factor\" of config.json is 0, expected a finite number above 0");
    let mut old = llama().set("rope_theta", json!(-3));
    old.config.remove("rope_parameters");
    old.refused("the key \"rope_theta\" of config.json is -3, expected a finite number above 0");
    Folder::of("llama-moe-4-2").set("num_experts_per_tok", json!(5)).refused(
        "\"num_experts_per_tok\" of config.json is 5, but there are 4 experts (\"num_local_experts\" of config.json)",
    );
    // Lists that the configuration does not have are made for as many layers as a model may have.
    let lfm2 = || {
        let mut folder = Folder::of("lfm2").set("num_hidden_layers", json!(4_000_000_000u32));
        folder.config.remove("layer_types");
        folder
    };
    lfm2().set("full_attn_idxs", json!([1])).refused(
        "config.json: the key \"num_hidden_layers\" is 4000000000, beside \"full_attn_idxs\", which is not supported; \
         supported is: 65536 at most",
    );
    lfm2().refused(&too_many("num_hidden_layers").replace("16777217", "4000000000"));
    Folder::of("gemma2")
        .set("layer_types", json!(["full_attention"]))
        .refused("\"layer_types\" of config.json has 1 entries for 3 layers");
}

/// What every family writes has its name in `config.json`, if it was there.
#[test]
fn every_key_has_a_name() {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(fixture("hf")).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            continue;
        }
        let gguf = hf::open(&path, true).unwrap().gguf;
        let nameless: Vec<&str> = gguf.metadata().iter().map(|(key, _)| key).collect();
        let nameless = nameless.into_iter().filter(|key| gguf.call_key(key) == format!("{key:?}"));
        // The windows stand for a null.
        let own = [
            "general.architecture",
            "tokenizer.ggml.token_type_count",
            "phi3.attention.sliding_window",
            "phimoe.attention.sliding_window",
            "exaone4.attention.sliding_window",
        ];
        // The architecture or the model's class implies these.
        let implied = |key: &str| {
            [".attention.causal", ".pooling_type", ".expert_gating_func"].iter().any(|end| key.ends_with(end))
        };
        // The classes of these models have these numbers as constants, without fields.
        let of_class = |key: &str| match key {
            "bert.attention.layer_norm_epsilon" => path.ends_with("distilbert"),
            "t5.context_length" | "t5encoder.context_length" | "hunyuan-moe.expert_shared_count" => true,
            "mamba.context_length" | "mamba.attention.head_count" | "mamba.ssm.dt_b_c_rms" => true,
            "mamba2.context_length" | "mamba2.feed_forward_length" => true,
            "bloom.feed_forward_length" | "bloom.attention.head_count_kv" => true,
            // They are tensors in the folder.
            "xielu.alpha_p" | "xielu.alpha_n" | "xielu.beta" | "xielu.eps" => true,
            _ => false,
        };
        let others = nameless.filter(|key| !own.contains(key) && !implied(key) && !of_class(key));
        all.extend(others.map(|key| format!("{}: {key}", path.display())));
    }
    assert!(all.is_empty(), "keys without a name: {all:#?}");
}

/// More rows than tokens are padding, fewer are not enough.
#[test]
fn vocabularies() {
    let rows = |folder: &Folder| folder.header["model.embed_tokens.weight"]["shape"][0].as_u64().unwrap();
    let folder = Folder::of("llama-yarn");
    let n = rows(&folder);
    folder.set("vocab_size", json!(n + 1)).refused(&format!(
        "the key \"vocab_size\" of config.json is {}, but the tensor \"model.embed_tokens.weight\" has {n} rows",
        n + 1
    ));
    assert_eq!(Folder::of("llama-yarn").set("vocab_size", json!(n - 1)).open(&LoadOptions::default()), None);
}

/// Options of the host have the name that the host used.
#[test]
fn keys_of_the_host() {
    let options = LoadOptions {
        metadata: vec![("llama.context_length".into(), Value::from(0u32))],
        ..LoadOptions::default()
    };
    let sentence = Folder::of("llama-yarn").open(&options);
    assert_eq!(sentence.as_deref(), Some("the key \"llama.context_length\" is 0, expected 1 to 16777216"));
}

/// A folder of a kind that Ember does not know is described as a file of such a kind is, with the reason.
#[test]
fn folders_of_unknown_kinds_are_described() {
    use ember::model::inspect;

    for (key, value, architecture) in [
        ("model_type", Json::from("toy"), "toy"),
        ("quantization_config", serde_json::json!({"quant_method": "awq"}), "llama"),
    ] {
        let folder = Folder::of("llama-yarn").set(key, value);
        let path = folder.folder.0.clone();
        folder.folder.write("config.json", Json::from(folder.config.clone()).to_string());
        std::fs::copy(fixture("hf/llama-yarn/model.safetensors"), path.join("model.safetensors")).unwrap();
        let refusal = LoadedModel::open(&path, &LoadOptions::default()).err().unwrap();
        let json: Json = serde_json::from_str(&inspect(&path).unwrap()).unwrap();
        let expected = serde_json::json!({
            "path": path.display().to_string(), "architecture": architecture, "tokenizer": null, "chat_template": false,
            "supported": false, "reason": refusal.message(),
        });
        assert_eq!(json, expected);
    }
}

/// A file that does not load is neither called supported nor measured.
#[test]
fn small_files_beside_the_tokenizer_are_looked_at_without_loading() {
    use ember::context::{ContextOptions, estimate};
    use ember::model::inspect;

    const TOKENIZER: &str = r#"{"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}"#;
    let options = (LoadOptions::default(), ContextOptions { n_ctx: 32, ..ContextOptions::default() });
    let (config, template) = ("tokenizer_config.json", "chat_template.jinja");
    for (name, bytes, sentence) in [
        (config, &b"{}"[..], None),
        (template, b"{{ 1 }}", None),
        (template, b"\xff", Some("chat_template.jinja is not UTF-8")),
        (template, b"", Some("chat_template.jinja: the file is empty")),
        (config, b"", Some("tokenizer_config.json: the file is empty")),
        (config, b"{]", Some("tokenizer.json: the tokenizer_config.json cannot be read: ")),
        (
            config,
            b"{\"do_lower_case\":1}",
            Some("tokenizer.json: the tokenizer_config.json cannot be read: "),
        ),
        (
            config,
            b"{\"split_special_tokens\":true}",
            Some("tokenizer.json: the tokenizer_config.json: the key \"split_special_tokens\" is true"),
        ),
        (
            "special_tokens_map.json",
            b"{]",
            Some("tokenizer.json: the special_tokens_map.json cannot be read: "),
        ),
        ("added_tokens.json", b"[]", Some("tokenizer.json: the added_tokens.json cannot be read: ")),
    ] {
        let llama = Folder::of("llama-yarn");
        let path = llama.folder.0.clone();
        llama.folder.write("tokenizer.json", TOKENIZER);
        llama.folder.write(name, bytes);
        llama.folder.write("config.json", Json::from(llama.config.clone()).to_string());
        std::fs::copy(fixture("hf/llama-yarn/model.safetensors"), path.join("model.safetensors")).unwrap();
        let loaded = LoadedModel::open(&path, &options.0).err();
        assert_eq!(estimate(&path, &options.0, &options.1).err(), loaded);
        let json: Json = serde_json::from_str(&inspect(&path).unwrap()).unwrap();
        assert_eq!(json["supported"], loaded.is_none());
        assert_eq!(json["reason"].as_str(), loaded.as_ref().map(|e| e.message()));
        let found =
            loaded.as_ref().map(|e| e.message().strip_prefix(&format!("{}: ", path.display())).unwrap());
        assert!(found.unwrap_or_default().starts_with(sentence.unwrap_or_default()), "{found:?}");
        assert_eq!(found.is_some(), sentence.is_some());
    }
    // Nobody reads the config where there is no tokenizer.
    let llama = Folder::of("llama-yarn");
    llama.folder.write(config, "{]");
    assert_eq!(llama.open(&options.0), None);
}

/// Llama 3.1's factors are those of the elements that are rotated, as transformers has it: `dim = head_dim *
/// partial_rotary_factor`.
#[test]
fn factors_of_heads_that_are_turned_in_part() {
    let neox = Folder::of("gptneox-sequential");
    let path = neox.folder.0.clone();
    let scaled = [
        ("rope_type", json!("llama3")),
        ("factor", json!(8)),
        ("low_freq_factor", json!(1)),
        ("high_freq_factor", json!(4)),
        ("original_max_position_embeddings", json!(256)),
    ];
    let neox = scaled.into_iter().fold(neox, |neox, (key, value)| neox.rope(key, value));
    let Folder { folder, config, .. } = neox;
    folder.write("config.json", Json::from(config).to_string());
    std::fs::copy(fixture("hf/gptneox-sequential/model.safetensors"), path.join("model.safetensors"))
        .unwrap();
    let gguf = hf::open(&path, true).unwrap().gguf;
    let factors = gguf.tensor_bytes(gguf.tensor("rope_freqs.weight").unwrap());
    let factors: Vec<f32> = factors.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect();
    // Wavelengths of 6, 135 and 2916 tokens: as they are up to 64, and an eighth from 256 on.
    assert_eq!(factors, [1.0, 2.597_944, 8.0]);
    LoadedModel::open(&path, &LoadOptions::default()).unwrap();
}

#[test]
fn long_names_and_shapes_are_cut() {
    let long = format!("model.{}.weight", "é".repeat(10_000));
    let short = |folder: Folder| {
        let sentence = folder.open(&LoadOptions::default()).unwrap();
        assert!(sentence.len() < 1000, "{} bytes: {sentence:.300}", sentence.len());
        sentence
    };
    let query = "model.layers.0.self_attn.q_proj.weight";
    let many = [1; 5000];
    let up = "model.layers.1.mlp.up_proj.weight";
    let sentence = short(Folder::of("llama-yarn").shape(up, &many));
    assert_eq!(sentence, format!("the tensor {up:?} has the impossible shape of 5000 dimensions"));
    let sentence = short(Folder::of("llama-yarn").shape(query, &many));
    let expected =
        format!("the tensor {query:?} has the shape of 5000 dimensions, whose first size is no multiple of ");
    assert!(sentence.starts_with(&expected), "{sentence}");
    let sentence = short(Folder::of("gpt2-untied").shape("transformer.h.0.mlp.c_fc.weight", &many));
    assert!(sentence.ends_with("has the shape of 5000 dimensions, expected two dimensions"), "{sentence}");
    let expert = "model.layers.0.block_sparse_moe.experts.1.w1.weight";
    let sentence = short(Folder::of("llama-moe-4-2").shape(expert, &many));
    assert!(sentence.contains(" is F32 of the shape of 5000 dimensions, but "), "{sentence}");
    short(Folder::of("llama-yarn").with(&long, up));
    // The name of a file in an index, which is as long as it likes.
    let llama = Folder::of("llama-yarn");
    llama.folder.write("config.json", Json::from(llama.config.clone()).to_string());
    let shard = format!("{}.safetensors", "x".repeat(10_000));
    let index = json!({ "weight_map": { up: shard } });
    llama.folder.write("model.safetensors.index.json", index.to_string());
    let e = LoadedModel::open(&llama.folder.0, &LoadOptions::default()).err().unwrap();
    assert!(e.message().len() < 1500 && e.message().contains("xxx…xxx"), "{:.300}", e.message());
}
