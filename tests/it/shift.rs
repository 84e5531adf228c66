//! Tokens in the midst of a sequence are forgotten and those after them move: against llama.cpp, against running the rest
//! anew where that must give the same (with one layer, whose keys and values know nothing of other tokens), and what
//! happens to logits and pages.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::sync::Arc;

use common::parts::Parts;
use common::{context, fixture, ids, load, read_json, relative_rms};
use ember::backend::KvType;
use ember::context::{BackendKind, Context, ContextOptions, Tokens};
use ember::error::Error;
use ember::gguf::{Array, Value};
use ember::model::{LoadOptions, LoadedModel, Pack};

/// With all positions, since shifts here bring kept tokens into windows again.
fn options(kv_type: KvType) -> ContextOptions {
    ContextOptions {
        n_ctx: 256,
        n_threads: 1,
        k_type: Some(kv_type),
        v_type: Some(kv_type),
        keep_all_positions: true,
        ..ContextOptions::default()
    }
}

/// The logits after `rest`, which are run in `context`.
fn logits(context: &mut Context, rest: &[u32]) -> Vec<f32> {
    context.decode(Tokens::next(rest)).unwrap();
    context.end_logits(0).unwrap().to_vec()
}

#[test]
fn moved_tokens_are_what_llama_cpp_makes_of_them() {
    let cases = read_json(&fixture("shift.json"));
    for case in cases.as_array().unwrap() {
        let number = |key: &str| case[key].as_u64().unwrap() as usize;
        let name = case["name"].as_str().unwrap();
        let model = load(&fixture(&format!("models/{name}.gguf")));
        let tokens = ids(&read_json(&fixture(&format!("models/{name}.json")))["tokens"]);
        let expected: Vec<f32> =
            case["logits"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect();
        for (backend, n_threads) in [(BackendKind::Scalar, 1), (BackendKind::Auto, 1), (BackendKind::Auto, 3)]
        {
            let plain = options(KvType::F32);
            let options = ContextOptions { n_ctx: number("n_ctx"), backend, n_threads, ..plain };
            let mut context = context(&model, &options);
            let (first, rest) = tokens.split_at(number("first"));
            context.decode(Tokens::next(first)).unwrap();
            context.shift(0, number("keep"), number("drop")).unwrap();
            // llama.cpp takes GELU from a table of f16 values (see the README of the models).
            let has_gelu = ["gemma", "gptneox", "phi2", "starcoder2"].iter().any(|part| name.contains(part));
            let tolerance = if has_gelu { 2e-3 } else { 1e-5 };
            let error = relative_rms(&logits(&mut context, rest), &expected);
            assert!(error < tolerance, "{name}, {backend:?}: {error}");
            let mut still = context;
            still.rewind(0, 0).unwrap();
            still.decode(Tokens::next(first)).unwrap();
            let error = relative_rms(&logits(&mut still, rest), &expected);
            assert!(error > 10.0 * tolerance, "{name}: the shift makes no difference");
        }
    }
}

/// A model's first layer alone, whose F16 and BF16 weights are multiplied in f32: rounded activations would go on rounding otherwise
/// what differs in the last bit.
fn first_layer(name: &str, architecture: &str) -> Arc<LoadedModel> {
    let mut parts = Parts::of(name).key(&format!("{architecture}.block_count"), 1u32);
    // Lists of layers.
    let of_layers = |key: &str| {
        (key.starts_with(architecture) || key.starts_with("xielu.")) && !key.ends_with("sections")
    };
    for (_, value) in parts.keys.iter_mut().filter(|(key, _)| of_layers(key)) {
        match value {
            Value::Array(Array::F32(list)) => list.truncate(1),
            Value::Array(Array::I32(list)) => list.truncate(1),
            Value::Array(Array::Bool(list)) => list.truncate(1),
            _ => {}
        }
    }
    parts.tensors.retain(|(tensor, ..)| !tensor.starts_with("blk.") || tensor.starts_with("blk.0."));
    let options = LoadOptions { pack: Pack::Never, ..LoadOptions::default() };
    let model = LoadedModel::from_bytes_with(&parts.bytes(), name, &options);
    Arc::new(model.unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn with_one_layer_moved_tokens_are_those_that_are_run_anew() {
    let dir = std::fs::read_dir(fixture("models")).unwrap();
    let mut n = 0;
    for path in
        dir.map(|entry| entry.unwrap().path()).filter(|path| path.extension() == Some("gguf".as_ref()))
    {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let whole = load(&path);
        let architecture = whole.info().architecture.clone();
        // Formats are not what this is about, and per-layer embeddings are of all layers in one tensor.
        if ["gemma4-shared", "gemma3n", "gemma3n-three"].contains(&name)
            || name.contains("quant")
            || name.contains("-q4_")
            || name.contains("-q8_")
            || whole.require_shift().is_err()
        {
            continue;
        }
        let model = first_layer(name, &architecture);
        let tokens: Vec<u32> = (0..150).map(|i| (i * i + 7 * i) % model.info().n_vocab as u32).collect();
        for (kv_type, tolerance) in
            [(KvType::F32, 2e-5), (KvType::F16, 3e-3), (KvType::I16, 3e-3), (KvType::Q8_0, 5e-2)]
        {
            if !common::kv_layers(&model).iter().all(|heads| heads.takes(kv_type)) {
                continue;
            }
            for (keep, drop) in [(0, 1), (0, 50), (5, 32), (33, 7), (64, 64), (100, 45)] {
                let mut moved = context(&model, &options(kv_type));
                moved.decode(Tokens::next(&tokens[..149])).unwrap();
                moved.shift(0, keep, drop).unwrap();
                let mut anew = context(&model, &options(kv_type));
                let rest = [&tokens[..keep], &tokens[keep + drop..149]].concat();
                anew.decode(Tokens::next(&rest)).unwrap();
                assert_eq!(moved.tokens(0).unwrap(), rest);
                let (moved, anew) = (logits(&mut moved, &tokens[149..]), logits(&mut anew, &tokens[149..]));
                let error = relative_rms(&moved, &anew);
                assert!(error <= tolerance, "{name}, {kv_type:?}, {keep}, {drop}: {error}");
                n += 1;
            }
        }
    }
    assert!(n > 300, "{n}");
}

#[test]
fn what_cannot_move_says_why() {
    for (name, words) in [
        ("gpt2-tied", "learned positions"),
        ("bert", "encoder"),
        ("hunyuan-dense", "after their rotation"),
        ("hunyuan-moe", "after their rotation"),
    ] {
        let mut context =
            context(&load(&fixture(&format!("models/{name}.gguf"))), &ContextOptions::default());
        let error = context.shift(0, 0, 0).unwrap_err();
        assert!(matches!(&error, Error::Unsupported(text) if text.contains(words)), "{error}");
    }
    let mut context = context(&load(&fixture("models/llama-tied-f16.gguf")), &options(KvType::F16));
    context.decode(Tokens::next(&[1; 40])).unwrap();
    for (seq, keep, drop) in [(0, 0, 41), (0, 41, 0), (0, 39, 2), (0, usize::MAX, 2), (3, 0, 0)] {
        assert!(matches!(context.shift(seq, keep, drop), Err(Error::InvalidArgument(_))));
    }
    assert_eq!(context.tokens(0).unwrap(), [1; 40]);
}

#[test]
fn logits_after_the_last_token_stay_and_those_of_forgotten_ones_go() {
    let mut context = context(&load(&fixture("models/llama-tied-f16.gguf")), &options(KvType::F16));
    let wants = [true; 40];
    context.decode(Tokens { outputs: Some(&wants), ..Tokens::next(&[1; 40]) }).unwrap();
    let (last, tenth) = (context.end_logits(0).unwrap().to_vec(), context.logits(9).unwrap().to_vec());
    context.shift(0, 10, 20).unwrap();
    assert_eq!(context.n_past(0).unwrap(), 20);
    assert_eq!(context.end_logits(0).unwrap(), last);
    context.shift(0, 10, 10).unwrap();
    assert_eq!(context.end_logits(0).unwrap(), tenth, "it is the last token now");
    context.shift(0, 5, 5).unwrap();
    assert!(matches!(context.end_logits(0), Ok(_) | Err(Error::NotFound(_))));
}

#[test]
fn pages_of_others_are_copied_if_pages_are_free() {
    let model = load(&fixture("models/llama-tied-f16.gguf"));
    let page = context(&model, &ContextOptions { n_ctx: 32, ..options(KvType::F16) }).memory().0;
    let few = ContextOptions { n_ctx: 96, n_seq: 2, kv_limit: Some(5 * page), ..options(KvType::F16) };
    let mut context = context(&model, &few);
    let text: Vec<u32> = (0..96).map(|i| i % 13).collect();
    context.decode(Tokens::next(&text)).unwrap();
    context.copy_sequence(0, 1, 96).unwrap();
    assert_eq!(context.kv_pages(), (5, 2));
    // Three pages would be written to, and two are free.
    assert!(matches!(context.shift(1, 10, 20), Err(Error::ContextFull(_))));
    assert_eq!(context.tokens(1).unwrap(), text);
    assert_eq!(context.kv_pages(), (5, 2));
    // The first page stays the other's.
    context.shift(1, 40, 20).unwrap();
    assert_eq!(context.kv_pages(), (5, 0));
    assert_eq!(context.tokens(0).unwrap(), text);
    // Its own pages it writes to as they are.
    context.shift(1, 40, 20).unwrap();
    assert_eq!(context.tokens(1).unwrap(), [&text[..40], &text[80..]].concat());
}

#[test]
fn a_full_context_that_keeps_prefixes_can_shift() {
    let model = load(&fixture("models/llama-tied-f16.gguf"));
    let options = ContextOptions { n_ctx: 128, keep_prefixes: true, ..options(KvType::F16) };
    let mut context = context(&model, &options);
    let text: Vec<u32> = (0..128).map(|i| i % 13).collect();
    context.decode(Tokens::next(&text)).unwrap();
    assert_eq!(context.kv_pages(), (4, 0));
    context.shift(0, 32, 40).unwrap();
    let rest = [&text[..32], &text[72..]].concat();
    assert_eq!(context.tokens(0).unwrap(), rest);
    // The cache finds none of the moved tokens by their text.
    context.decode(Tokens::next(&text[..40])).unwrap();
    context.rewind(0, 0).unwrap();
    assert_eq!(context.reuse_prefix(0, &rest, 88).unwrap(), 32);
}
