//! Folders of T5, mT5 and UMT5 with their decoders: which token answers begin with, greedy answers, and what is wrong with a folder.
#![cfg(feature = "hf")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::sync::Arc;

use common::{
    TempFolder, all_logits, context, fixture, greedy, ids, load, read_f32s, read_json, relative_rms,
};
use ember::backend::KvType;
use ember::context::{BackendKind, ContextOptions};
use ember::error::{Error, ember_status::*};
use ember::generate::{EventKind, GenerateOptions, generate};
use ember::model::{LoadOptions, LoadedModel};
use serde_json::{Map, Value, json};

const NAMES: [&str; 3] = ["t5", "t5-gated", "t5-each"];
const START: &str = "decoder_start_token_id";

/// A copy of a fixture: its configuration, and its tensors' header and data.
struct Folder {
    folder: TempFolder,
    config: Map<String, Value>,
    header: Map<String, Value>,
    data: Vec<u8>,
}

impl Folder {
    fn of(name: &str) -> Folder {
        let path = fixture(&format!("hf/{name}"));
        let bytes = std::fs::read(path.join("model.safetensors")).unwrap();
        let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: Map<String, Value> = serde_json::from_slice(&bytes[8..8 + n]).unwrap();
        let config = read_json(&path.join("config.json")).as_object().unwrap().clone();
        let folder = TempFolder::new("t5-folders");
        Folder { folder, config, header, data: bytes[8 + n..].to_vec() }
    }

    fn tensors(&self) -> Vec<String> {
        self.header.keys().filter(|name| *name != "__metadata__").cloned().collect()
    }

    fn set(mut self, key: &str, value: Value) -> Folder {
        self.config.insert(key.into(), value);
        self
    }

    fn absent(mut self, key: &str) -> Folder {
        self.config.remove(key);
        self
    }

    fn file(self, name: &str, text: impl AsRef<[u8]>) -> Folder {
        self.folder.write(name, text);
        self
    }

    /// Writes the header, and of each tensor as many bytes as it takes, which are those that it had where these are enough.
    fn open(&self) -> Result<Arc<LoadedModel>, Error> {
        let (mut header, mut data) = (self.header.clone(), Vec::new());
        for (_, entry) in header.iter_mut().filter(|(name, _)| *name != "__metadata__") {
            let place = ids(&entry["data_offsets"]);
            let n_bytes = ids(&entry["shape"]).iter().product::<u32>() as usize * 4;
            let mut own = self.data[place[0] as usize..place[1] as usize].to_vec();
            own.resize(n_bytes, 0);
            entry["data_offsets"] = json!([data.len(), data.len() + n_bytes]);
            data.extend(own);
        }
        let header = Value::from(header).to_string();
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
        self.folder.write("config.json", Value::from(self.config.clone()).to_string());
        self.folder.write("model.safetensors", bytes);
        LoadedModel::open(&self.folder.0, &LoadOptions::default()).map(Arc::new)
    }

    fn start(&self) -> Option<u32> {
        self.open().unwrap_or_else(|e| panic!("{e}")).info().decoder_start
    }

    /// The sentence of the refusal, which begins with the folder's path.
    #[track_caller]
    fn sentence(&self) -> String {
        let error = self.open().err().expect("an error");
        assert!([EMBER_E_FORMAT, EMBER_E_UNSUPPORTED].contains(&error.status()), "{error:?}");
        let path = format!("{}: ", self.folder.0.display());
        error.message().strip_prefix(&path).unwrap_or_else(|| panic!("{error}")).to_owned()
    }

    #[track_caller]
    fn refused(&self, culprit: &str) {
        let sentence = self.sentence();
        assert!(sentence.contains(culprit), "{sentence}, not {culprit}");
    }
}

#[test]
fn greedy_answers_are_those_of_transformers() {
    for name in NAMES {
        let facts = read_json(&fixture(&format!("models/{name}.json")));
        let expected = ids(&facts["greedy"]);
        let text = &ids(&facts["tokens"])[..facts["n_text"].as_u64().unwrap() as usize];
        for backend in [BackendKind::Auto, BackendKind::Scalar] {
            let (k_type, v_type) = (Some(KvType::F32), Some(KvType::F32));
            let o = ContextOptions { n_ctx: 160, k_type, v_type, backend, ..ContextOptions::default() };
            let mut context = context(&load(&fixture(&format!("hf/{name}"))), &o);
            let o = GenerateOptions { max_tokens: expected.len(), ..GenerateOptions::default() };
            let mut found = Vec::new();
            generate(&mut context, &mut greedy(), text, &o, |event| {
                if let EventKind::Token(token) = &event.kind {
                    found.push(token.id);
                }
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
            assert_eq!(found, expected, "{name}, {backend:?}");
        }
    }
}

/// Each position, not only all of them together.
#[test]
fn logits_are_those_of_pytorch_at_each_position() {
    for name in NAMES {
        let facts = read_json(&fixture(&format!("models/{name}.json")));
        let expected = read_f32s(&fixture(&format!("models/{name}.logits.f32")));
        let model = load(&fixture(&format!("hf/{name}")));
        let (k_type, v_type) = (Some(KvType::F32), Some(KvType::F32));
        for backend in [BackendKind::Auto, BackendKind::Scalar] {
            let o = ContextOptions { n_ctx: 160, k_type, v_type, backend, ..ContextOptions::default() };
            let found = all_logits(&mut context(&model, &o), &ids(&facts["tokens"]));
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.chunks(101).zip(expected.chunks(101)) {
                let error = relative_rms(found, expected);
                assert!(error <= 1e-4, "{name}, {backend:?}: {error:e}");
            }
        }
    }
}

/// As `generate` of `transformers` takes it: `generation_config.json` before `config.json`, and in each the token that texts begin with where
/// that of answers is absent.
#[test]
fn answers_begin_with_the_token_that_the_folder_says() {
    const GENERATION: &str = "generation_config.json";
    let folder = || Folder::of("t5").set(START, json!(7));
    assert_eq!(folder().start(), Some(7));
    assert_eq!(folder().set("bos_token_id", json!(9)).start(), Some(7));
    assert_eq!(folder().set(START, json!(null)).set("bos_token_id", json!(9)).start(), Some(9));
    assert_eq!(
        folder().file(GENERATION, r#"{"decoder_start_token_id": 11, "bos_token_id": 12}"#).start(),
        Some(11)
    );
    assert_eq!(folder().file(GENERATION, r#"{"bos_token_id": 12}"#).start(), Some(12));
    assert_eq!(folder().file(GENERATION, r#"{"eos_token_id": 1}"#).start(), Some(7));
    // What is wrong with that file is no reason to refuse the model.
    for broken in ["{", "[]", r#"{"decoder_start_token_id": "x"}"#, r#"{"decoder_start_token_id": -1}"#] {
        assert_eq!(folder().file(GENERATION, broken).start(), Some(7), "{broken}");
    }
    for name in NAMES {
        let folder = Folder::of(name).absent(START);
        folder.refused("config.json: the key \"decoder_start_token_id\" or \"bos_token_id\" is missing");
    }
    for (value, found) in
        [(json!("x"), "\"x\""), (json!(-1), "-1"), (json!([0]), "an array"), (json!(0.5), "0.5")]
    {
        folder()
            .set(START, value)
            .refused(&format!("the key \"decoder_start_token_id\" is {found}, expected"));
    }
    folder()
        .set(START, json!(101))
        .refused("\"decoder_start_token_id\" of config.json is 101, but the vocabulary has 101");
    let of_file = folder().file(GENERATION, r#"{"decoder_start_token_id": 4000000000}"#);
    of_file.refused("\"decoder_start_token_id\" of generation_config.json is 4000000000, but the vocabulary");
}

#[test]
fn the_class_of_the_first_checkpoints_is_known() {
    let old = Folder::of("t5").set("architectures", json!(["T5WithLMHeadModel"]));
    assert_eq!(old.start(), Some(0));
    for name in NAMES {
        for classes in [json!(["T5Model"]), json!(["T5ForQuestionAnswering"]), json!([]), json!(null)] {
            Folder::of(name).set("architectures", classes).refused("\"architectures\" is");
        }
        Folder::of(name)
            .set("architectures", json!("T5"))
            .refused("\"architectures\" is \"T5\", expected an array");
    }
}

/// The encoder of a folder with both parts, by the class of the encoder: the same vectors as those of the encoder's own folder would be.
#[test]
fn a_class_of_the_encoder_leaves_the_decoder_alone() {
    let folder = Folder::of("t5-gated").set("architectures", json!(["MT5EncoderModel"]));
    let model = folder.open().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((&*model.info().architecture, model.info().decoder_start), ("t5encoder", None));
    assert!(model.require_logits().is_err());
}

/// No tensor may be absent, of another shape or of another type; each sentence has its name.
#[test]
fn tensors_that_do_not_fit_are_named() {
    for name in NAMES {
        assert_eq!(Folder::of(name).start(), Some(0));
        for tensor in Folder::of(name).tensors() {
            // Absent, the output projection is the token embedding.
            let mut folder = Folder::of(name);
            folder.header.remove(&tensor);
            match &*tensor {
                "lm_head.weight" => assert_eq!(folder.start(), Some(0)),
                _ => folder.refused(&tensor),
            }
            let shape = ids(&Folder::of(name).header[&tensor]["shape"]);
            let grown: Vec<u32> = shape.iter().map(|n| n + 1).collect();
            let others = [grown, [&shape[..], &[1]].concat(), shape[1..].to_vec(), vec![0], vec![1; 5]];
            // A vector may have a further axis of 1.
            let means_the_same = |other: &[u32]| shape.len() == 1 && *other == [shape[0], 1];
            for other in others.into_iter().filter(|other| !means_the_same(other)) {
                let mut folder = Folder::of(name);
                folder.header[&tensor]["shape"] = json!(other);
                assert!(folder.open().is_err(), "{tensor} of {other:?} loads");
                let sentence = folder.sentence();
                // More rows of the embedding are no error of it: another tensor does not have them.
                let named = sentence.contains(&*tensor)
                    || (tensor == "shared.weight" && sentence.contains("encoder."));
                assert!(
                    named
                        || (tensor.ends_with("relative_attention_bias.weight") && sentence.contains("bias")),
                    "{sentence}, {tensor} {other:?}"
                );
            }
            let mut folder = Folder::of(name);
            folder.header[&tensor]["dtype"] = json!("I32");
            folder.refused(&tensor);
        }
        for other in ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"] {
            let mut folder = Folder::of(name);
            let entry = folder.header["shared.weight"].clone();
            folder.header.insert(other.into(), entry.clone());
            assert_eq!(folder.start(), Some(0));
            // One row further on.
            let place = ids(&entry["data_offsets"]);
            folder.header[other]["data_offsets"] = json!([place[0] - 96, place[1] - 96]);
            folder.refused(&format!("the tensors \"{other}\" and \"shared.weight\" differ"));
        }
        let like = "decoder.final_layer_norm.weight";
        for unknown in [
            "decoder.block.0.layer.3.layer_norm.weight",
            "cross.weight",
            "encoder.block.0.layer.1.EncDecAttention.q.weight",
        ] {
            let mut folder = Folder::of(name);
            let entry = folder.header[like].clone();
            folder.header.insert(unknown.into(), entry);
            folder.refused(unknown);
        }
        let mut folder = Folder::of(name);
        let entry = folder.header[like].clone();
        folder.header.insert("decoder.block.9.layer.1.layer_norm.weight".into(), entry);
        folder.refused("is of layer 9, but the key \"num_decoder_layers\" of config.json is");
    }
}

/// Sizes that are absent, of another type, zero, off by one or huge: a sentence with the field, or with the tensor that does not fit.
#[test]
fn sizes_that_do_not_fit_are_named() {
    const SIZES: [&str; 7] = [
        "d_model",
        "d_ff",
        "d_kv",
        "num_heads",
        "num_layers",
        "num_decoder_layers",
        "relative_attention_num_buckets",
    ];
    let wrong = [json!("x"), json!([1]), json!({}), json!(-1), json!(1.5), json!(true), json!(1u64 << 40)];
    for name in NAMES {
        for key in SIZES {
            let now = Folder::of(name).config[key].as_u64().unwrap();
            for value in &wrong {
                Folder::of(name).set(key, value.clone()).refused(&format!("the key \"{key}\" is "));
            }
            for value in [0, now - 1, now + 1, 65_535, 65_537, 1 << 24, u64::from(u32::MAX)] {
                let sentence = Folder::of(name).set(key, json!(value)).sentence();
                assert!(sentence.contains(key) || sentence.contains("coder."), "{key} {value}: {sentence}");
            }
            if !["num_decoder_layers", "relative_attention_num_buckets"].contains(&key) {
                Folder::of(name).absent(key).refused(&format!("\"{key}\""));
            }
        }
        for (key, values) in [
            ("relative_attention_max_distance", &[json!(70_000), json!("x"), json!(-1)][..]),
            ("layer_norm_epsilon", &[json!(-1), json!("x"), json!(1e300)]),
            ("vocab_size", &[json!(102), json!(u32::MAX), json!("x"), json!(-1)]),
            ("tie_word_embeddings", &[json!("x"), json!(1)]),
            ("feed_forward_proj", &[json!(1), json!(true), json!([])]),
            ("dense_act_fn", &[json!("tanh"), json!(1), json!("gated-gelu")]),
            ("is_gated_act", &[json!("x"), json!(1)]),
            ("n_positions", &[json!(0), json!("x"), json!(-1), json!(1u64 << 40)]),
        ] {
            for value in values {
                Folder::of(name).set(key, value.clone()).refused(key);
            }
        }
    }
    for name in NAMES {
        let none = Folder::of(name).set("relative_attention_max_distance", json!(0));
        none.refused("the key \"relative_attention_max_distance\" of config.json is 0");
        let few = Folder::of(name).set("relative_attention_max_distance", json!(1));
        few.refused("more buckets of distances than \"relative_attention_max_distance\"");
        few.refused("has distances (\"relative_attention_num_buckets\"");
    }
    for name in ["t5", "t5-each"] {
        for value in [json!("x"), json!(1), json!([])] {
            Folder::of(name).set("scale_decoder_outputs", value).refused("\"scale_decoder_outputs\" is");
        }
    }
    // Encoders by themselves, for which nothing is listed layer by layer either.
    for name in ["t5encoder", "t5encoder-gated", "t5encoder-each"] {
        Folder::of(name).set("num_layers", json!(u32::MAX)).refused("the key \"num_layers\" is 4294967295");
    }
}
