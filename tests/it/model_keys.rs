//! Every hyper-parameter of every architecture, damaged in every way: the file is refused with a sentence that names
//! the key, or it loads and then runs; nothing panics.

use crate::common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use common::fixture;
use ember::context::{Context, ContextOptions, EmbedOptions, Tokens};
use ember::error::Error;
use ember::gguf::writer::Writer;
use ember::gguf::{Array, Gguf, Value};
use ember::model::LoadedModel;

const NAME: &str = "damaged.gguf";

/// The file with one key changed, or left out.
fn with(file: &Gguf, key: &str, value: Option<&Value>) -> Vec<u8> {
    let mut writer = Writer::new();
    for (k, v) in file.metadata().iter() {
        let kept = if k == key { value } else { Some(v) };
        if let Some(kept) = kept {
            writer.set(k, kept.clone());
        }
    }
    for t in file.tensors() {
        writer.tensor(&t.name, t.ty, &t.dims, file.tensor_bytes(t).to_vec());
    }
    writer.to_bytes().expect("a well-formed file")
}

/// Loads the file and, when that works, runs some tokens.
fn attempt(bytes: &[u8]) -> Result<(), Error> {
    let model = Arc::new(LoadedModel::from_bytes(bytes, NAME)?);
    let mut context = Context::new(&model, &ContextOptions { n_ctx: 40, ..ContextOptions::default() })?;
    let mut ids = [1; 40];
    if let Some(start) = model.info().decoder_start {
        // A text for the encoder, and an answer.
        ids[20] = start;
    }
    match model.info().causal {
        true => context.decode(Tokens::next(&ids)),
        false => context.embed(&[&[1; 40]], &EmbedOptions::default()).map(drop),
    }
}

/// `attempt`, with the sentence of an error that is no defect of Ember.
#[track_caller]
fn outcome(bytes: &[u8], what: &str) -> Option<String> {
    let result = catch_unwind(AssertUnwindSafe(|| attempt(bytes)));
    let error = result.unwrap_or_else(|_| panic!("{what}: a panic")).err()?;
    assert!(!matches!(error, Error::Internal(_)), "{what}: {error:?}");
    let message = error.message().to_owned();
    assert!(!message.trim().is_empty(), "{what}");
    Some(message)
}

/// Values of the type of `value` that no model should have, though some are harmless.
fn extremes(value: &Value) -> Vec<Value> {
    match value {
        Value::U32(_) => [0, 3, u32::MAX].map(Value::U32).to_vec(),
        Value::F32(_) => [0.0, -1.0, f32::NAN, f32::INFINITY, f32::MAX].map(Value::F32).to_vec(),
        Value::Bool(b) => vec![Value::Bool(!b)],
        Value::Array(Array::Bool(list)) => {
            vec![
                Value::Array(Array::Bool(vec![true])),
                Value::Array(Array::Bool(list.iter().map(|b| !b).collect())),
            ]
        }
        _ => vec![Value::from("")],
    }
}

/// Keys that a file may have and Ember does not need. Stablelm's says less than its tensors do, and is wrong in files of StableLM
/// 3B, whose configuration leaves it out. T5 files give the number for their RMS norms under another name, too.
fn is_unused(key: &str) -> bool {
    const UNUSED: [&str; 5] = [
        ".vocab_size",
        ".rope.scaling.finetuned",
        "stablelm.use_parallel_residual",
        "t5.attention.layer_norm_epsilon",
        "t5encoder.attention.layer_norm_epsilon",
    ];
    UNUSED.iter().any(|end| key.ends_with(end))
}

#[test]
fn damaged_hyper_parameters_are_refused_or_run() {
    let mut n_keys = 0;
    let dir = std::fs::read_dir(fixture("models")).expect("fixtures");
    let mut paths: Vec<_> = dir.map(|e| e.expect("entry").path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "gguf"));
    // One model of each format is enough.
    paths.retain(|p| p.file_stem().and_then(|n| n.to_str()).is_some_and(|n| !n.contains("quant-")));
    paths.sort();
    for path in paths {
        let file = Gguf::open(&path).expect("a fixture");
        let arch = file.metadata().require_str("general.architecture").expect("its name");
        if !ember::arch::known().any(|known| known == arch) {
            continue;
        }
        let prefix = format!("{arch}.");
        let keys = file.metadata().iter().filter(|(key, _)| key.starts_with(&prefix));
        for (key, value) in keys {
            n_keys += 1;
            let what = format!("{}: {key}", path.display());
            outcome(&with(&file, key, None), &format!("{what} left out"));
            for extreme in extremes(value) {
                outcome(&with(&file, key, Some(&extreme)), &format!("{what} = {extreme:?}"));
            }
            if !is_unused(key) {
                let wrong_type = match value {
                    Value::Bool(_) => Value::U32(1),
                    Value::String(_) => Value::Bool(true),
                    _ => Value::from("7"),
                };
                let message = outcome(&with(&file, key, Some(&wrong_type)), &what);
                let message = message.unwrap_or_else(|| panic!("{what}: {wrong_type:?} goes unnoticed"));
                assert!(message.starts_with(NAME) && message.contains(key), "{what}: {message}");
            }
        }
    }
    assert!(n_keys > 250, "only {n_keys} keys were tried");
}
