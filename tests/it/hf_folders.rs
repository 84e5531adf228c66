//! Hugging Face folders that `transformers` wrote (`tests/oracle/hf_folders.py`): the same keys and tensors as the GGUF
//! file of the same model, bit by bit, and PyTorch's numbers.
#![cfg(feature = "hf")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]

use crate::common;

use std::path::{Path, PathBuf};

use common::{
    TempFolder, all_hidden, all_logits, context, fixture, ids, load, read_f32s, read_json, relative_rms,
};
use ember::backend::KvType;
use ember::context::{BackendKind, ContextOptions};
use ember::gguf::{Array, Gguf, TensorType, Value};
use ember::hf;
use ember::model::{LoadOptions, LoadedModel};

const TOLERANCE: f64 = 1e-4;

/// What a file says that `config.json` does not, and a factor that a folder gives as `rope.scaling.attn_factor`.
const NOTES: [&str; 7] = [
    "general.name",
    "general.file_type",
    "tokenizer.ggml.model",
    "pooling_type",
    "rope.scaling.yarn_log_multiplier",
    "rope.dimension_sections",
    "n_deepstack_layers",
];
/// Tensors that are computed from the configuration, each in its own way.
const COMPUTED: [&str; 3] = ["rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"];

fn folders() -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(fixture("hf")).expect("fixtures").map(|e| e.unwrap().path());
    let mut folders: Vec<_> = entries
        .filter(|path| path.is_dir())
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), path))
        .collect();
    folders.sort();
    assert!(folders.len() >= 24, "every fixture is there");
    folders
}

/// Tensors that a file has in another order or number than a folder: those of delta nets, whose value heads are in groups
/// in a folder and take turns in a file; those that are joint in a folder and apart in a file; and those of another shape.
fn is_rearranged(folder: &str, tensor: &str) -> bool {
    let parts: &[&str] = match folder {
        "qwen35moe-7-3" | "qwen3next-7-3" => &["attn_qkv", "attn_gate", "ssm_"],
        "granitemoe-7-3" | "granitemoe-5-2" => &["ffn_gate_", "ffn_up_"],
        "granitehybrid" => &["ffn_gate_", "ffn_up_", "ssm_a", "ssm_d", "ssm_norm"],
        "granitehybrid-dense" => &["ffn_gate", "ffn_up", "ffn_down", "ssm_a", "ssm_d", "ssm_norm"],
        "nemotron-h" | "mamba2" => &["ssm_a", "ssm_d", "ssm_norm"],
        "falcon-h1" | "falcon-h1-norm" => &["ssm_a", "ssm_d", "ssm_norm", "ffn_norm"],
        "gpt-oss" | "qwen3vlmoe-7-3" | "llama4" => &["ffn_gate_exps", "ffn_up_exps", "ffn_gate_up_exps"],
        _ => &[],
    };
    parts.iter().any(|part| tensor.contains(part))
}

/// The GGUF file of the same model.
fn twin(name: &str) -> Option<Gguf> {
    let path = fixture(&format!("models/{name}.gguf"));
    path.exists().then(|| Gguf::open(&path).unwrap())
}

fn f32s(gguf: &Gguf, name: &str) -> Vec<f32> {
    let t = gguf.tensor(name).unwrap();
    assert_eq!(t.ty, TensorType::F32);
    gguf.tensor_bytes(t).chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// Whether both are lists of numbers that differ in their last bits, as two ways to compute quantiles do.
fn are_close(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(Value::Array(Array::F32(a))), Some(Value::Array(Array::F32(b)))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || (a - b).abs() < 1e-6)
        }
        _ => false,
    }
}

#[test]
fn a_folder_is_the_gguf_file_of_its_model() {
    let mut n_compared = 0;
    for (name, path) in folders() {
        let Some(expected) = twin(&name) else { continue };
        let found = hf::open(&path, true).unwrap_or_else(|e| panic!("{e}")).gguf;
        for (key, value) in
            expected.metadata().iter().filter(|(key, _)| !NOTES.iter().any(|n| key.ends_with(n)))
        {
            let absent = key.ends_with("rope.scaling.type") && *value == Value::from("none");
            let expected = if absent { None } else { Some(value) };
            let found = found.metadata().get(key);
            assert!(
                found == expected || are_close(found, expected),
                "{name}: {key}: {found:?}, not {expected:?}"
            );
        }
        let names = |gguf: &Gguf| {
            let mut names: Vec<String> = gguf.tensors().iter().map(|t| t.name.clone()).collect();
            names.retain(|tensor| !is_rearranged(&name, tensor));
            names.sort();
            names
        };
        assert_eq!(names(&found), names(&expected), "{name}");
        for t in expected.tensors().iter().filter(|t| !is_rearranged(&name, &t.name)) {
            let other = found.tensor(&t.name).unwrap();
            assert_eq!((other.ty, &*other.dims), (t.ty, &*t.dims), "{name}: {}", t.name);
            if COMPUTED.contains(&t.name.as_str()) {
                let error = relative_rms(&f32s(&found, &t.name), &f32s(&expected, &t.name));
                assert!(error < 1e-6, "{name}: {} {error:.1e}", t.name);
            } else {
                let same = found.tensor_bytes(other) == expected.tensor_bytes(t);
                assert!(same, "{name}: the elements of {} differ", t.name);
            }
        }
        n_compared += 1;
    }
    assert!(n_compared >= 20);
}

/// The folder's prompt and what PyTorch makes of it, logits or (of an encoder) hidden states: the GGUF twin's, or its own.
fn expected_numbers(name: &str) -> (Vec<u32>, Vec<f32>) {
    let dir = if twin(name).is_some() { "models" } else { "hf" };
    let json = read_json(&fixture(&format!("{dir}/{name}.json")));
    let numbers = if json["output"] == "hidden" { "embd" } else { "logits" };
    (ids(&json["tokens"]), read_f32s(&fixture(&format!("{dir}/{name}.{numbers}.f32"))))
}

/// What Ember makes of it: as many numbers as `expected`.
fn numbers(path: &Path, tokens: &[u32], expected: &[f32]) -> Vec<f32> {
    let model = load(path);
    let (n_ctx, k_type, v_type) = (tokens.len(), Some(KvType::F32), Some(KvType::F32));
    let options =
        ContextOptions { n_ctx, k_type, v_type, backend: BackendKind::Scalar, ..ContextOptions::default() };
    let mut context = context(&model, &options);
    match model.info().has_logits && expected.len().is_multiple_of(model.info().n_vocab) {
        true => all_logits(&mut context, tokens),
        false => all_hidden(&mut context, tokens),
    }
}

#[test]
fn a_folder_gives_pytorchs_numbers() {
    for (name, path) in folders() {
        let (tokens, expected) = expected_numbers(&name);
        let error = relative_rms(&numbers(&path, &tokens, &expected), &expected);
        // What is multiplied with weights of four bits is rounded to eight.
        let most = if name.ends_with("mxfp4") { 3e-2 } else { TOLERANCE };
        println!("{name:24} relative RMS error {error:.2e} (at most {most:.0e})");
        assert!(error <= most, "{name}: {error:.3e}");
    }
}

/// Codes and scales, number by number as the format is defined: two neighbours share a byte, and even outputs are gates.
#[test]
fn codes_and_scales_are_the_numbers_of_mxfp4() {
    const CODES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let path = fixture("hf/gpt-oss-mxfp4");
    let bytes = std::fs::read(path.join("model.safetensors")).unwrap();
    let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + n]).unwrap();
    let stored = |name: &str| {
        let place = ids(&header[format!("model.layers.1.mlp.experts.{name}")]["data_offsets"]);
        &bytes[8 + n + place[0] as usize..8 + n + place[1] as usize]
    };
    let gguf = hf::open(&path, true).unwrap().gguf;
    for (name, evens_first) in [("gate_up", true), ("down", false)] {
        let t = gguf.tensor(&format!("blk.1.ffn_{name}_exps.weight")).unwrap();
        let [n_in, n_out, n_expert] = t.dims[..] else { unreachable!() };
        assert_eq!(t.ty, TensorType::MXFP4);
        let format = ember::quant::Format::from_tensor_type(t.ty).unwrap().info();
        let mut found = vec![0.0; n_in * n_out * n_expert];
        (format.dequantize)(gguf.tensor_bytes(t), &mut found);
        let codes = stored(&format!("{name}_proj_blocks"));
        let scales = stored(&format!("{name}_proj_scales"));
        for (row, found) in found.chunks_exact(n_in).enumerate() {
            let (expert, out) = (row / n_out, row % n_out);
            let out = match evens_first {
                true => 2 * (out % (n_out / 2)) + out / (n_out / 2),
                false => out,
            };
            let first = (expert * n_out + out) * n_in;
            for (i, &found) in (first..).zip(found) {
                let code = codes[i / 2] >> (i % 2 * 4) & 15;
                let sign = if code & 8 == 0 { 1.0 } else { -1.0 };
                let expected =
                    sign * CODES[usize::from(code & 7)] * 2f32.powi(i32::from(scales[i / 32]) - 127);
                assert_eq!(found, expected, "{name}, row {row}");
            }
        }
    }
}

#[test]
fn mapped_and_read_folders_are_the_same() {
    for (name, path) in folders() {
        let [mapped, read] = [true, false].map(|use_mmap| hf::open(&path, use_mmap).unwrap().gguf);
        assert_eq!(mapped.tensors(), read.tensors(), "{name}");
        assert!(mapped.tensors().iter().all(|t| mapped.tensor_bytes(t) == read.tensor_bytes(t)), "{name}");
        let files = std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path());
        let weights = files.filter(|p| p.extension().is_some_and(|e| e == "safetensors"));
        let size: u64 = weights.map(|p| p.metadata().unwrap().len()).sum();
        assert_eq!((mapped.file_size(), mapped.name()), (size, path.to_str().unwrap()), "{name}");
    }
}

/// A copy of a fixture with changed files.
struct Copy(TempFolder);

impl Copy {
    fn of(name: &str, label: &str) -> Copy {
        let folder = TempFolder::new(&format!("hf-{label}"));
        for entry in std::fs::read_dir(fixture(&format!("hf/{name}"))).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, folder.0.join(path.file_name().unwrap())).unwrap();
        }
        Copy(folder)
    }

    fn path(&self) -> &Path {
        &self.0.0
    }

    /// Changes `config.json`.
    fn config(&self, change: impl Fn(&mut serde_json::Map<String, serde_json::Value>)) {
        let mut config = read_json(&self.path().join("config.json"));
        change(config.as_object_mut().unwrap());
        self.0.write("config.json", config.to_string());
    }

    /// Changes `model.safetensors`: its header, and how many bytes too far the data lie.
    fn weights(&self, shift: usize, change: impl Fn(String) -> String) {
        let bytes = std::fs::read(self.path().join("model.safetensors")).unwrap();
        let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let mut header = change(String::from_utf8(bytes[8..8 + n].to_vec()).unwrap()).trim_end().to_owned();
        header.push_str(&" ".repeat((8 - header.len() % 8) % 8 + shift));
        let mut changed = (header.len() as u64).to_le_bytes().to_vec();
        changed.extend(header.as_bytes());
        changed.extend(&bytes[8 + n..]);
        self.0.write("model.safetensors", changed);
    }
}

#[test]
fn configurations_of_transformers_4_mean_the_same() {
    let rope = |config: &mut serde_json::Map<String, serde_json::Value>| {
        let mut rope = config.remove("rope_parameters").unwrap();
        let rope = rope.as_object_mut().unwrap();
        let (theta, part) = match config["model_type"] == "gpt_neox" {
            true => ("rotary_emb_base", "rotary_pct"),
            false => ("rope_theta", "partial_rotary_factor"),
        };
        config.insert(theta.into(), rope.remove("rope_theta").unwrap());
        rope.remove("partial_rotary_factor").map(|f| config.insert(part.into(), f));
        if rope["rope_type"] != "default" {
            let kind = rope.remove("rope_type").unwrap();
            rope.insert("type".into(), kind);
            config.insert("rope_scaling".into(), rope.clone().into());
        }
    };
    for name in ["llama-yarn", "qwen2-tied", "gptneox-sequential", "phi3-longrope-short"] {
        let copy = Copy::of(name, &format!("v4-{name}"));
        copy.config(rope);
        let [old, new] =
            [copy.path().to_owned(), fixture(&format!("hf/{name}"))].map(|p| hf::open(&p, true).unwrap());
        let keys = |gguf: &Gguf| -> Vec<(String, Value)> {
            gguf.metadata().iter().map(|(k, v)| (k.to_owned(), v.clone())).collect()
        };
        assert_eq!(keys(&old.gguf), keys(&new.gguf), "{name}");
    }
}

#[test]
fn the_names_of_nomics_own_configuration_are_known() {
    let copy = Copy::of("nomic-bert", "nomic-names");
    copy.config(|config| {
        for (own, name) in [
            ("n_embd", "hidden_size"),
            ("n_head", "num_attention_heads"),
            ("n_inner", "intermediate_size"),
            ("n_layer", "num_hidden_layers"),
            ("n_positions", "max_position_embeddings"),
            ("layer_norm_epsilon", "layer_norm_eps"),
            ("activation_function", "hidden_act"),
        ] {
            let value = config.remove(name).unwrap();
            config.insert(own.into(), value);
        }
        config.remove("rope_parameters");
        config.remove("head_dim");
        config.insert("rotary_emb_base".into(), 1000.into());
        config.insert("activation_function".into(), "swiglu".into());
        config.insert("max_trained_positions".into(), 48.into());
    });
    let [own, plain] =
        [copy.path().to_owned(), fixture("hf/nomic-bert")].map(|path| hf::open(&path, true).unwrap().gguf);
    assert_eq!(own.metadata().u32("nomic-bert.context_length"), Ok(Some(48)));
    for (key, value) in own.metadata().iter().filter(|(key, _)| !key.ends_with("context_length")) {
        assert_eq!(plain.metadata().get(key), Some(value), "{key}");
    }
    assert_eq!(own.tensors(), plain.tensors());
}

#[test]
fn the_text_part_of_a_multimodal_model_is_read() {
    let expected = twin("gemma3").unwrap();
    for prefix in ["language_model.model.", "model.language_model."] {
        let copy = Copy::of("gemma3", "multimodal");
        copy.weights(0, |header| header.replace("\"model.", &format!("\"{prefix}")));
        copy.config(|config| {
            let mut text = std::mem::take(config);
            for key in ["max_position_embeddings", "rms_norm_eps"] {
                text.remove(key);
            }
            config.insert("model_type".into(), "gemma3".into());
            config.insert("text_config".into(), text.into());
        });
        let found = hf::open(copy.path(), true).unwrap().gguf;
        assert_eq!(found.tensors().len(), expected.tensors().len());
        for t in expected.tensors() {
            let other = found.tensor(&t.name).unwrap();
            assert!(found.tensor_bytes(other) == expected.tensor_bytes(t), "{}", t.name);
        }
        // What the first configurations leave out.
        assert_eq!(found.metadata().u32("gemma3.context_length"), Ok(Some(131_072)));
        assert_eq!(found.metadata().f32("gemma3.attention.layer_norm_rms_epsilon"), Ok(Some(1e-6)));
    }
}

#[test]
fn data_at_odd_addresses_gives_the_same_logits() {
    for name in ["gpt2-untied", "qwen2-bf16"] {
        let (tokens, expected) = expected_numbers(name);
        for shift in [1, 2, 3] {
            let copy = Copy::of(name, &format!("odd-{shift}-{name}"));
            copy.weights(shift, |header| header);
            let error = relative_rms(&numbers(copy.path(), &tokens, &expected), &expected);
            assert!(error <= TOLERANCE, "{name} shifted by {shift}: {error:.3e}");
        }
    }
}

#[test]
fn what_the_computation_does_not_need_is_ignored() {
    // Of no elements, so that the data stay as they are, and of a type that is no weight's.
    for (name, extra) in [
        ("gpt2-untied", "transformer.h.0.attn.bias"),
        ("qwen2-bf16", "model.layers.1.self_attn.rotary_emb.inv_freq"),
        ("bert", "pooler.dense.weight"),
        ("bert", "cls.predictions.bias"),
    ] {
        let copy = Copy::of(name, "ignored");
        copy.weights(0, |header| {
            header.replacen(
                '{',
                &format!("{{\"{extra}\":{{\"dtype\":\"BOOL\",\"shape\":[0],\"data_offsets\":[0,0]}},"),
                1,
            )
        });
        let plain = hf::open(&fixture(&format!("hf/{name}")), true).unwrap().gguf;
        assert_eq!(hf::open(copy.path(), true).unwrap().gguf.tensors().len(), plain.tensors().len());
    }
}

#[test]
fn layers_that_predict_further_tokens_are_left_alone() {
    const PARTS: [&str; 8] = [
        "eh_proj.weight",
        "enorm.weight",
        "hnorm.weight",
        "shared_head.norm.weight",
        "shared_head.head.weight",
        "embed_tokens.weight",
        "self_attn.q_a_proj.weight",
        "mlp.experts.0.gate_proj.weight",
    ];
    for name in ["deepseek2-v3", "deepseek2-sigmoid"] {
        let plain = hf::open(&fixture(&format!("hf/{name}")), true).unwrap().gguf;
        let with = |layer: usize, n_next: u32| {
            let copy = Copy::of(name, "next");
            copy.config(|config| _ = config.insert("num_nextn_predict_layers".into(), n_next.into()));
            let more = PARTS.map(|part| {
                let entry = "{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}";
                format!("\"model.layers.{layer}.{part}\":{entry},")
            });
            copy.weights(0, |header| header.replacen('{', &format!("{{{}", more.concat()), 1));
            hf::open(copy.path(), true).map(|folder| folder.gguf)
        };
        let found = with(3, 1).unwrap();
        // But for where they lie, since the header is longer.
        let of = |gguf: &Gguf| -> Vec<_> {
            gguf.tensors().iter().map(|t| (t.name.clone(), t.ty, t.dims)).collect()
        };
        assert_eq!(of(&found), of(&plain), "{name}");
        assert!(found.metadata().iter().eq(plain.metadata().iter()), "{name}");
        for (layer, n_next) in [(3, 0), (4, 1)] {
            let e = with(layer, n_next).unwrap_err();
            assert!(e.message().contains(&format!("\"model.layers.{layer}.")), "{name}: {e}");
        }
    }
}

/// `transformers` takes experts as they were published, with the inputs first, and with the outputs first.
#[test]
fn joint_experts_lie_either_way() {
    let name = "qwen3vlmoe-7-3";
    let published = hf::open(&fixture(&format!("hf/{name}")), true).unwrap().gguf;
    let copy = Copy::of(name, "either");
    let path = copy.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + n]).unwrap();
    let mut n_turned = 0;
    for (tensor, entry) in header.as_object_mut().unwrap() {
        if !tensor.ends_with("experts.gate_up_proj") && !tensor.ends_with("experts.down_proj") {
            continue;
        }
        let [_, n_in, n_out] = ids(&entry["shape"])[..] else { unreachable!() };
        let place = ids(&entry["data_offsets"]);
        let data = &mut bytes[8 + n + place[0] as usize..8 + n + place[1] as usize];
        let (n_in, n_out) = (n_in as usize, n_out as usize);
        for expert in data.chunks_exact_mut(4 * n_in * n_out) {
            let transposed: Vec<u8> = (0..n_out * n_in)
                .flat_map(|i| expert[4 * (i % n_in * n_out + i / n_in)..][..4].to_vec())
                .collect();
            expert.copy_from_slice(&transposed);
        }
        entry["shape"].as_array_mut().unwrap().swap(1, 2);
        n_turned += 1;
    }
    assert_eq!(n_turned, 4);
    std::fs::write(&path, bytes).unwrap();
    copy.weights(0, |_| header.to_string());
    let found = hf::open(copy.path(), true).unwrap().gguf;
    assert_eq!(found.tensors().len(), published.tensors().len());
    for t in published.tensors() {
        let other = found.tensor(&t.name).unwrap();
        assert_eq!(other.dims, t.dims, "{}", t.name);
        assert!(found.tensor_bytes(other) == published.tensor_bytes(t), "{}", t.name);
    }
    // Neither way: the sentence has the shape as the folder has it.
    let copy = Copy::of(name, "neither");
    copy.config(|config| {
        let text = config["text_config"].as_object_mut().unwrap();
        text.insert("moe_intermediate_size".into(), 19.into());
    });
    let e = LoadedModel::open(copy.path(), &LoadOptions::default()).err().unwrap();
    let named = ["experts.gate_up_proj", "[7, 48, 40], expected [7, 48, 38]"];
    assert!(named.iter().all(|part| e.message().contains(part)), "{e}");
}

#[test]
fn the_tokens_that_end_a_generation_are_read() {
    let copy = Copy::of("llama-yarn", "end");
    let end = || hf::open(copy.path(), true).unwrap().end_tokens;
    copy.0.write("generation_config.json", "{\"eos_token_id\": [7, 9]}");
    assert_eq!(end(), [7, 9]);
    copy.0.write("generation_config.json", "{\"eos_token_id\": null}");
    assert!(end().is_empty());
    copy.config(|config| _ = config.insert("eos_token_id".into(), 5.into()));
    assert_eq!(end(), [5]);
    // As Python writes numbers that JSON does not have.
    copy.0
        .write("generation_config.json", "{\"a\": [NaN, -Infinity, \"\\\"Infinity\"], \"eos_token_id\": 8}");
    assert_eq!(end(), [8]);
    // Whatever is wrong with the file, the model loads.
    for wrong in [
        "",
        "{\"eos_token_id\": [7, 9],}",
        "[7]",
        "{\"eos_token_id\": \"7\"}",
        "{\"eos_token_id\": -1}",
        "\0",
    ] {
        copy.0.write("generation_config.json", wrong);
        assert_eq!(end(), [5], "{wrong}");
    }
    std::fs::remove_file(copy.path().join("generation_config.json")).unwrap();
    assert_eq!(end(), [5]);
    copy.config(|config| _ = config.insert("rms_norm_eps".into(), f64::NAN.into()));
    let config = std::fs::read_to_string(copy.path().join("config.json")).unwrap();
    for number in ["NaN", "-Infinity"] {
        copy.0.write(
            "config.json",
            config.replacen("\"rms_norm_eps\":null", &format!("\"rms_norm_eps\": {number}"), 1),
        );
        let e = hf::open(copy.path(), true).unwrap_err();
        let sentence = format!("the key \"rms_norm_eps\" is \"{number}\", expected a number");
        assert!(e.message().ends_with(&sentence), "{e}");
    }
}

#[test]
fn sentence_transformers_say_how_to_pool() {
    let copy = Copy::of("bert", "pooling");
    let pooling = || hf::open(copy.path(), true).map(|f| f.gguf.metadata().u32("bert.pooling_type").unwrap());
    assert_eq!(pooling(), Ok(None));
    let module = |i: usize, kind: &str, path: &str| {
        format!(
            "{{\"idx\": {i}, \"name\": \"{i}\", \"path\": \"{path}\", \"type\": \"sentence_transformers.models.{kind}\"}}"
        )
    };
    let modules = |more: &str| {
        let [first, second] = [module(0, "Transformer", ""), module(1, "Pooling", "1_Pooling")];
        copy.0.write("modules.json", format!("[{first}, {second}{more}]"));
    };
    modules("");
    std::fs::create_dir_all(copy.path().join("1_Pooling")).unwrap();
    copy.0.write(
        "1_Pooling/config.json",
        "{\"pooling_mode_mean_tokens\": true, \"pooling_mode_cls_token\": false}",
    );
    assert_eq!(pooling(), Ok(Some(1)));
    copy.0.write("1_Pooling/config.json", "{\"pooling_mode_cls_token\": true}");
    assert_eq!(pooling(), Ok(Some(2)));
    copy.0.write("1_Pooling/config.json", "{\"pooling_mode\": \"lasttoken\"}");
    assert_eq!(pooling(), Ok(Some(3)));
    copy.0.write("1_Pooling/config.json", "{\"pooling_mode_max_tokens\": true}");
    let sentence =
        "1_Pooling/config.json: the key \"pooling_mode_max_tokens\" is true, which is not supported";
    assert!(pooling().unwrap_err().message().contains(sentence));
    // Paths lead nowhere else.
    for path in ["../1_Pooling", "/tmp", "1_Pooling/../..", "C:\\\\x"] {
        modules(&format!(", {}", module(2, "Normalize", path)));
        let sentence = "modules.json: the module \"2\" has the path";
        assert!(pooling().unwrap_err().message().contains(sentence), "{path}");
    }
    copy.0.write("modules.json", "[]");
    assert!(pooling().unwrap_err().message().contains("modules.json: the file lists no modules"));
    copy.0.write("modules.json", "{}");
    assert!(pooling().unwrap_err().message().contains("modules.json: the file is not a JSON array"));
}
