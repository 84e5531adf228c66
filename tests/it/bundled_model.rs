//! The model the project trained itself, against PyTorch: `transformers` ran the file's dequantized weights in float32
//! (`examples/models/reference.py`). This is the proof of GPT-2 on real weights.

use crate::common;

use std::ops::ControlFlow;
use std::sync::Arc;

use common::{all_logits, argmax, bundled_model, context, fixture, ids, load, read_json, relative_rms};
use ember::backend::KvType;
use ember::context::{ContextOptions, Tokens};
use ember::generate::{Event, FinishReason, GenerateOptions, generate};
use ember::gguf::writer::Writer;
use ember::gguf::{Gguf, TensorInfo, TensorType};
use ember::model::{LoadOptions, LoadedModel, Pack};
use ember::quant::Format;
use ember::sampler::{Sampler, Stage};
use serde_json::Value;

fn reference() -> Value {
    read_json(&fixture("bundled/reference.json"))
}

/// The file, to be written again with changes.
fn copy(tensor: impl Fn(&Gguf, &mut Writer, &TensorInfo)) -> Writer {
    let file = Gguf::open(&bundled_model()).expect("the bundled model");
    let mut writer = Writer::new();
    for (key, value) in file.metadata().iter() {
        writer.set(key, value.clone());
    }
    file.tensors().iter().for_each(|t| tensor(&file, &mut writer, t));
    writer
}

fn load_copy(writer: &Writer) -> Arc<LoadedModel> {
    let bytes = writer.to_bytes().expect("a file");
    Arc::new(LoadedModel::from_bytes(&bytes, "copy").expect("a model"))
}

/// The same model with its weights expanded to F32.
fn expanded() -> Arc<LoadedModel> {
    load_copy(&copy(|file, writer, t| {
        let format = Format::from_tensor_type(t.ty).expect("a known format");
        let mut values = vec![0.0f32; t.dims.iter().product()];
        (format.info().dequantize)(file.tensor_bytes(t), &mut values);
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        writer.tensor(&t.name, TensorType(Format::F32.info().tensor_type), &t.dims, bytes);
    }))
}

fn options() -> ContextOptions {
    ContextOptions { k_type: Some(KvType::F32), v_type: Some(KvType::F32), ..ContextOptions::default() }
}

#[test]
fn the_file_is_small_and_q8_0() {
    let size = std::fs::metadata(bundled_model()).expect("the bundled model").len();
    assert!(size <= 4_000_000, "{size} bytes");
    let model = load(&bundled_model());
    assert_eq!(model.info().architecture, "gpt2");
    let embd = model.gguf().tensor("token_embd.weight").expect("an embedding");
    assert_eq!(embd.ty.name(), "Q8_0");
}

#[test]
fn its_tokens_are_those_of_its_tokenizer() {
    let model = load(&bundled_model());
    let tokenizer = model.tokenizer().expect("a tokenizer");
    let reference = reference();
    for case in reference["tokenizer"].as_array().expect("cases") {
        let text = case["text"].as_str().expect("text");
        let got = tokenizer.encode(text, true, false).expect("tokens");
        assert_eq!(got, ids(&case["ids"]), "{text:?}");
        assert_eq!(tokenizer.decode(&got, false).expect("bytes"), text.as_bytes());
    }
}

#[test]
fn its_expanded_weights_continue_as_pytorch_does() {
    let model = expanded();
    let tokenizer = model.tokenizer().expect("a tokenizer");
    for case in reference()["cases"].as_array().expect("cases") {
        let prompt = case["prompt"].as_str().expect("a prompt");
        let prompt_ids = tokenizer.encode(prompt, true, false).expect("tokens");
        assert_eq!(prompt_ids, ids(&case["ids"]), "{prompt:?}");
        let mut context = context(&model, &options());
        context.decode(Tokens::next(&prompt_ids)).expect("free pages");
        for entry in case["top10"].as_array().expect("logits") {
            let id = entry["id"].as_u64().expect("an id") as usize;
            let expected = entry["logit"].as_f64().expect("a logit");
            let got = f64::from(context.end_logits(0).expect("asked for")[id]);
            assert!((got - expected).abs() <= 1e-4 * expected.abs().max(1.0), "{prompt:?}, {id}: {got}");
        }
        for (i, expected) in ids(&case["greedy_ids"]).into_iter().enumerate() {
            let got = argmax(context.end_logits(0).expect("asked for")) as u32;
            assert_eq!(got, expected, "{prompt:?}, token {i}");
            context.decode(Tokens::next(&[got])).expect("free pages");
        }
    }
}

#[test]
fn generated_text_is_pytorchs() {
    let model = expanded();
    for case in reference()["cases"].as_array().expect("cases") {
        let prompt = case["prompt"].as_str().expect("a prompt");
        let mut greedy = Sampler::new(0);
        greedy.push(Stage::Greedy).expect("valid");
        let options = GenerateOptions { max_tokens: 48, ignore_eog: true, ..GenerateOptions::default() };
        let mut text = String::new();
        let outcome =
            generate(&mut context(&model, &self::options()), &mut greedy, prompt, &options, |event| {
                text.push_str(event.text);
                ControlFlow::Continue(())
            });
        assert_eq!(outcome.expect("text").n_generated, 48);
        assert_eq!(text, case["greedy_text"].as_str().expect("text"), "{prompt:?}");
    }
}

#[test]
fn its_packed_weights_are_close_to_its_expanded_ones() {
    let (packed, expanded) = (load(&bundled_model()), expanded());
    for case in reference()["cases"].as_array().expect("cases") {
        let tokens = [ids(&case["ids"]), ids(&case["greedy_ids"])].concat();
        let exact = all_logits(&mut context(&expanded, &options()), &tokens);
        let got = all_logits(&mut context(&packed, &options()), &tokens);
        let error = relative_rms(&got, &exact);
        assert!(error <= 3.5e-2, "{}: {error:.2e}", case["prompt"]);
    }
}

#[test]
fn weights_in_the_files_order_give_the_same_bits() {
    let never = LoadOptions { pack: Pack::Never, ..LoadOptions::default() };
    let in_place = Arc::new(LoadedModel::open(&bundled_model(), &never).expect("a model"));
    let tokens = ids(&reference()["cases"][0]["ids"]);
    let [packed, in_place] =
        [load(&bundled_model()), in_place].map(|model| all_logits(&mut context(&model, &options()), &tokens));
    assert!(packed.iter().zip(&in_place).all(|(a, b)| a.to_bits() == b.to_bits()));
}

#[test]
fn a_file_that_wants_eos_after_texts_gets_none_after_a_prompt() {
    let mut writer = copy(|file, writer, t| {
        writer.tensor(&t.name, t.ty, &t.dims, file.tensor_bytes(t).to_vec());
    });
    writer.set("tokenizer.ggml.add_eos_token", true);
    let wants_eos = load_copy(&writer);
    let tokenizer = wants_eos.tokenizer().expect("a tokenizer");
    assert_eq!(tokenizer.encode("x", true, false).expect("tokens").last().copied(), tokenizer.eos());
    let texts = [load(&bundled_model()), wants_eos].map(|model| {
        let mut greedy = Sampler::new(0);
        greedy.push(Stage::Greedy).expect("valid");
        let options = GenerateOptions { max_tokens: 12, ..GenerateOptions::default() };
        let mut text = String::new();
        let on_event = |event: &Event<'_>| {
            text.push_str(event.text);
            ControlFlow::Continue(())
        };
        let prompt = "The sea was calm, and the moon";
        let outcome =
            generate(&mut context(&model, &self::options()), &mut greedy, prompt, &options, on_event);
        let outcome = outcome.expect("text");
        assert_eq!((outcome.n_generated, outcome.finish), (12, Some(FinishReason::MaxTokens)));
        (text, outcome.n_prompt)
    });
    assert_eq!(texts[0], texts[1]);
    assert!(!texts[0].0.is_empty());
}
