//! From text to text through an encoder and its decoder, as `transformers` goes (`tests/oracle/t5_text.py`): a folder with its tokenizer, the
//! file that llama.cpp's converter made of it, and T5's own vocabulary.
#![cfg(feature = "hf")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::path::PathBuf;
use std::sync::Arc;

use common::{
    TempFolder, all_logits, context, fixture, greedy, ids, load, read_f32s, read_json, real_model,
    relative_rms, safetensors,
};
use ember::backend::KvType;
use ember::constrain::Progress;
use ember::context::{BackendKind, Context, ContextOptions};
use ember::generate::{EventKind, FinishReason, GenerateOptions, Generator};
use ember::model::LoadedModel;
use ember::sampler::{Sampler, Stage};
use serde_json::Value;

fn folder() -> PathBuf {
    fixture("t5/folder")
}

fn converted() -> PathBuf {
    fixture("t5/converted.gguf")
}

fn exact(model: &Arc<LoadedModel>) -> Context {
    let (k_type, v_type) = (Some(KvType::F32), Some(KvType::F32));
    context(model, &ContextOptions { n_ctx: 160, k_type, v_type, n_threads: 2, ..ContextOptions::default() })
}

struct Got {
    ids: Vec<u32>,
    text: String,
    finish: FinishReason,
    progress: Option<Progress>,
}

fn generated(context: &mut Context, sampler: &mut Sampler, text: &str, o: &GenerateOptions) -> Got {
    let mut generator = Generator::new(context, text, o).unwrap_or_else(|e| panic!("{e}"));
    let (mut ids, mut text) = (Vec::new(), String::new());
    let finish = loop {
        let event = generator.next(context, sampler).unwrap_or_else(|e| panic!("{e}"));
        text.push_str(event.text);
        match event.kind {
            EventKind::Token(token) => ids.push(token.id),
            EventKind::End(finish) => break finish,
            EventKind::Echo => {}
        }
    };
    Got { ids, text, finish, progress: generator.usage().progress }
}

/// What `transformers` makes of each text, but those for which `differs`.
fn check(model: &Arc<LoadedModel>, cases: &Value, differs: impl Fn(&str) -> bool) -> usize {
    let cases = cases.as_array().unwrap().iter().filter(|case| !differs(case["text"].as_str().unwrap()));
    cases
        .map(|case| {
            let text = case["text"].as_str().unwrap();
            let tokens = model.tokenizer().unwrap().encode(text, true, true).unwrap();
            assert_eq!(tokens, ids(&case["tokens"]), "{text:?}");
            let answer = ids(&case["answer"]);
            let o = GenerateOptions { max_tokens: 24, parse_special: true, ..GenerateOptions::default() };
            let got = generated(&mut exact(model), &mut greedy(), text, &o);
            let finish = match case["ended"].as_bool().unwrap() {
                true => FinishReason::EndOfGeneration,
                false => FinishReason::MaxTokens,
            };
            assert_eq!((&got.ids, got.finish), (&answer, finish), "{text:?}");
            assert_eq!(got.text, case["answered"].as_str().unwrap(), "{text:?}");
        })
        .count()
}

#[test]
fn a_folder_answers_texts_as_transformers_does() {
    let expected = read_json(&fixture("t5/expected.json"));
    assert_eq!(check(&load(&folder()), &expected["cases"], |_| false), 7);
}

/// The converter leaves out the names of T5's further tokens, which are not in SentencePiece's file. Texts that write them differ.
#[test]
fn the_converters_file_answers_texts_as_the_folder_does() {
    let expected = read_json(&fixture("t5/expected.json"));
    assert_eq!(check(&load(&converted()), &expected["cases"], |text| text.contains("<extra_id")), 6);
}

#[test]
fn the_converters_file_gives_the_logits_of_the_folder() {
    let expected = read_f32s(&fixture("t5/logits.f32"));
    let case = &read_json(&fixture("t5/expected.json"))["cases"][0];
    let tokens = [ids(&case["tokens"]), vec![0], ids(&case["answer"])].concat();
    for path in [folder(), converted()] {
        let model = load(&path);
        for backend in [BackendKind::Auto, BackendKind::Scalar] {
            let (k_type, v_type) = (Some(KvType::F32), Some(KvType::F32));
            let o = ContextOptions { n_ctx: 160, k_type, v_type, backend, ..ContextOptions::default() };
            let found = all_logits(&mut context(&model, &o), &tokens);
            let width = model.info().n_vocab;
            for (i, (found, expected)) in found.chunks(width).zip(expected.chunks(width)).enumerate() {
                let error = relative_rms(found, expected);
                assert!(error <= 1e-4, "{}, {backend:?}, position {i}: {error:e}", path.display());
            }
        }
    }
}

/// The numbers of `formula` of the script.
fn formula(seed: u64, n: usize, scale: f32) -> Vec<f32> {
    let number = |i: u64| {
        let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(i));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        ((z >> 40) as f32 / (1 << 23) as f32 - 1.0) * scale
    };
    (1..=n as u64).map(number).collect()
}

/// Names and shapes of the parameters of the model with T5's own vocabulary, in the order of their names.
fn parameters(config: &Value) -> Vec<(String, Vec<usize>)> {
    let n = |key: &str| config[key].as_u64().unwrap() as usize;
    let (n_embd, n_ff, n_all) = (n("d_model"), n("d_ff"), n("num_heads") * n("d_kv"));
    let mut out = vec![
        ("shared.weight".to_owned(), vec![n("vocab_size"), n_embd]),
        ("lm_head.weight".to_owned(), vec![n("vocab_size"), n_embd]),
    ];
    for (part, n_layer, blocks) in [
        ("encoder", n("num_layers"), &["SelfAttention"][..]),
        ("decoder", n("num_decoder_layers"), &["SelfAttention", "EncDecAttention"]),
    ] {
        out.push((format!("{part}.final_layer_norm.weight"), vec![n_embd]));
        for layer in 0..n_layer {
            let mut add = |name: String, shape: &[usize]| {
                out.push((format!("{part}.block.{layer}.layer.{name}.weight"), shape.to_vec()));
            };
            for (i, block) in blocks.iter().enumerate() {
                for matrix in ["q", "k", "v"] {
                    add(format!("{i}.{block}.{matrix}"), &[n_all, n_embd]);
                }
                add(format!("{i}.{block}.o"), &[n_embd, n_all]);
                add(format!("{i}.layer_norm"), &[n_embd]);
            }
            if layer == 0 {
                let shape = [n("relative_attention_num_buckets"), n("num_heads")];
                add("0.SelfAttention.relative_attention_bias".to_owned(), &shape);
            }
            let last = blocks.len();
            add(format!("{last}.DenseReluDense.wi"), &[n_ff, n_embd]);
            add(format!("{last}.DenseReluDense.wo"), &[n_embd, n_ff]);
            add(format!("{last}.layer_norm"), &[n_embd]);
        }
    }
    out.sort();
    out
}

#[test]
fn t5s_own_vocabulary_goes_from_text_to_text() {
    let facts = read_json(&fixture("t5_real.json"));
    let folder = TempFolder::new("t5-real");
    std::fs::copy(real_model("t5/tokenizer.json"), folder.0.join("tokenizer.json")).unwrap();
    for name in ["config", "tokenizer_config"] {
        folder.write(&format!("{name}.json"), facts[name].to_string());
    }
    let parameters = parameters(&facts["config"]);
    let tensors = parameters.iter().enumerate().map(|(seed, (name, shape))| {
        let n = shape.iter().product();
        let values = match &name[..] {
            _ if shape.len() == 1 => vec![1.0; n],
            _ if name.contains("relative") => formula(seed as u64, n, 4.0),
            "shared.weight" => formula(seed as u64, n, 2.0),
            _ => formula(seed as u64, n, 0.5),
        };
        (&name[..], &shape[..], values)
    });
    let tensors: Vec<_> = tensors.collect();
    let tensors: Vec<_> = tensors.iter().map(|(name, shape, values)| (*name, *shape, &values[..])).collect();
    folder.write("model.safetensors", safetensors(&tensors));
    let model = load(&folder.0);
    assert_eq!(check(&model, &facts["cases"], |_| false), 7);
    // It has no token for some of the characters that JSON needs.
    #[cfg(feature = "constraints")]
    {
        use ember::constrain::{Constraint, ConstraintOptions, Grammar};
        let options = ConstraintOptions::default();
        let error =
            Constraint::new(model.vocabulary().unwrap(), Grammar::JsonObject, &options).err().unwrap();
        assert!(
            error.message().starts_with("the vocabulary has no token for the byte 0x3c \"<\""),
            "{error}"
        );
    }
}

/// A text ends before a stop string, which may be of several tokens; what is before it is the text without it.
#[test]
fn stop_strings_end_answers() {
    let expected = read_json(&fixture("t5/expected.json"));
    let case = &expected["cases"][0];
    let whole = case["answered"].as_str().unwrap();
    let stop = &whole[10..20];
    let before = &whole[..whole.find(stop).unwrap()];
    for path in [folder(), converted()] {
        let model = load(&path);
        let o =
            GenerateOptions { max_tokens: 24, stops: vec![stop.to_owned()], ..GenerateOptions::default() };
        let got = generated(&mut exact(&model), &mut greedy(), case["text"].as_str().unwrap(), &o);
        assert_eq!((got.text.as_str(), got.finish), (before, FinishReason::StopString));
    }
}

/// What is drawn is drawn again from the same seed, for any number of threads; a greedy answer is the likeliest.
#[test]
fn drawn_answers_repeat_with_their_seed() {
    let model = load(&folder());
    let o = GenerateOptions { max_tokens: 30, logprobs: true, ..GenerateOptions::default() };
    let draw = |seed: u64, n_threads: usize| {
        let mut sampler = Sampler::new(seed);
        for stage in [Stage::TopK(40), Stage::TopP(0.95), Stage::Temperature(1.2)] {
            sampler.push(stage).unwrap();
        }
        let mut context =
            context(&model, &ContextOptions { n_ctx: 160, n_threads, ..ContextOptions::default() });
        generated(&mut context, &mut sampler, "Call me Ishmael.", &o).ids
    };
    let drawn: Vec<Vec<u32>> = (0..8).map(|seed| draw(seed, 1)).collect();
    assert!(drawn.iter().enumerate().all(|(seed, ids)| draw(seed as u64, 3) == *ids));
    assert!((1..8).all(|i| drawn[i] != drawn[0]), "{drawn:?}");
}

#[cfg(feature = "constraints")]
#[test]
fn answers_follow_a_json_schema() {
    use ember::constrain::{Constraint, ConstraintOptions, Grammar};
    const SCHEMA: &str = r#"{"type": "object", "properties": {"sea": {"enum": ["calm", "rough"]}, "sails": {"type": "integer",
        "minimum": 0, "maximum": 99}}, "required": ["sea", "sails"], "additionalProperties": false}"#;
    for (seed, path) in [folder(), converted()].into_iter().cycle().take(10).enumerate() {
        let model = load(&path);
        let grammar = Grammar::JsonSchema(SCHEMA);
        let constraint =
            Constraint::new(model.vocabulary().unwrap(), grammar, &ConstraintOptions::default()).unwrap();
        let mut sampler = Sampler::new(seed as u64);
        sampler.push(Stage::Temperature(1.5)).unwrap();
        let o = GenerateOptions {
            max_tokens: 100,
            constraint: Some(constraint.clone()),
            ..GenerateOptions::default()
        };
        let got = generated(&mut exact(&model), &mut sampler, "How is the sea?", &o);
        assert_eq!(got.progress, Some(Progress::Complete), "{}", got.text);
        let value: Value = serde_json::from_str(&got.text).unwrap_or_else(|e| panic!("{}: {e}", got.text));
        assert!(value["sea"] == "calm" || value["sea"] == "rough", "{}", got.text);
        assert!(
            value["sails"].as_u64().unwrap() <= 99 && value.as_object().unwrap().len() == 2,
            "{}",
            got.text
        );
    }
}
