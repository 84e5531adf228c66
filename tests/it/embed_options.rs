//! Dense modules, prompts by name and shorter vectors of `sentence-transformers` folders against that package
//! (`tests/oracle/dense_golden.py`), and what is refused.
#![cfg(feature = "hf")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::parts::Parts;
use common::{TempFolder, context, fixture, load, read_json, relative_rms, safetensors};
use ember::backend::KvType;
use ember::context::{ContextOptions, EmbedOptions};
use ember::error::ember_status::{EMBER_E_FORMAT, EMBER_E_INVALID_ARGUMENT, EMBER_E_UNSUPPORTED};
use ember::model::{LoadOptions, LoadedModel};
use ember::nn::pooling::Pooling;
use serde_json::{Value, json};

/// The names of the oracle.
fn formula(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| (((i * 37 + seed * 11) % 101) as f32 - 50.0) / 50.0).collect()
}

/// The folder of a case.
fn folder(case: &Value) -> TempFolder {
    static N: AtomicUsize = AtomicUsize::new(0);
    let folder = TempFolder::new(&format!("embed-options-{}", N.fetch_add(1, Ordering::Relaxed)));
    let base = fixture(&format!("hf/{}", case["base"].as_str().unwrap()));
    for file in ["config.json", "model.safetensors"] {
        folder.write(file, std::fs::read(base.join(file)).unwrap());
    }
    let n = read_json(&base.join("config.json"))["vocab_size"].as_u64().unwrap();
    let mut vocab: serde_json::Map<String, Value> = (2..n - 1).map(|i| (format!("w{i}"), i.into())).collect();
    vocab.extend([("[UNK]", 0), ("[PAD]", 1), ("w1", n - 1)].map(|(text, id)| (text.to_owned(), id.into())));
    let model = json!({"type": "WordPiece", "vocab": vocab, "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100});
    let tokenizer = json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null, "model": model});
    folder.write("tokenizer.json", tokenizer.to_string());
    folder.write(
        "tokenizer_config.json",
        r#"{"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}"#,
    );
    for (file, content) in case["files"].as_object().unwrap() {
        std::fs::create_dir_all(folder.0.join(file).parent().unwrap()).unwrap();
        folder.write(file, content.to_string());
    }
    for (i, dense) in case["dense"].as_array().unwrap().iter().enumerate() {
        let [n_in, n_out] = [0, 1].map(|at| dense[at].as_u64().unwrap() as usize);
        let root = (n_in as f64).sqrt() as f32;
        let weight: Vec<f32> = formula(n_in * n_out, i).iter().map(|x| x / root).collect();
        let bias = formula(n_out, 7 + i);
        let all: [(&str, &[usize], &[f32]); 2] =
            [("linear.weight", &[n_out, n_in], &weight), ("linear.bias", &[n_out], &bias)];
        let n = if dense[3] == true { 2 } else { 1 };
        folder.write(&format!("{}_Dense/model.safetensors", i + 2), safetensors(&all[..n]));
    }
    folder
}

fn cases() -> (Vec<String>, Vec<Value>) {
    let golden = read_json(&fixture("dense.json"));
    let texts = golden["texts"].as_array().unwrap().iter().map(|t| t.as_str().unwrap().to_owned()).collect();
    (texts, golden["cases"].as_array().unwrap().clone())
}

#[test]
fn vectors_are_those_of_sentence_transformers() {
    let (texts, cases) = cases();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    assert!(cases.len() >= 9);
    for case in &cases {
        let folder = folder(case);
        let model = load(&folder.0);
        let kv = Some(KvType::F32);
        let mut context =
            context(&model, &ContextOptions { k_type: kv, v_type: kv, ..ContextOptions::default() });
        let dimensions = case["dimensions"].as_u64().map(|n| n as usize);
        let options = EmbedOptions { dimensions, ..EmbedOptions::default() };
        let tokens = context.tokenize_prompted(&texts, &options, case["prompt"].as_str()).unwrap();
        let tokens: Vec<&[u32]> = tokens.iter().map(Vec::as_slice).collect();
        let found = context.embed(&tokens, &options).unwrap();
        assert_eq!(context.embedding_len(&tokens, &options).unwrap(), found.len());
        let rows = case["rows"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
        let expected: Vec<f32> = rows.map(|x| x.as_f64().unwrap() as f32).collect();
        assert_eq!(found.len(), expected.len(), "{case}");
        let error = relative_rms(&found, &expected);
        assert!(error < 1e-5, "{}: {error:.1e}", case["base"]);
        // Vectors of tokens are hidden states, whatever modules come after the pooling.
        let rows = EmbedOptions { pooling: Some(Pooling::None), ..EmbedOptions::default() };
        assert_eq!(context.embed(&tokens[..1], &rows).unwrap().len(), tokens[0].len() * model.info().n_embd);
    }
}

#[test]
fn names_and_lengths_that_do_not_exist_are_refused() {
    let (_, cases) = cases();
    let folder = folder(&cases[0]);
    let mut context = context(&load(&folder.0), &ContextOptions::default());
    let plain = EmbedOptions::default();
    let error = context.tokenize_prompted(&["w2"], &plain, Some("passage")).unwrap_err();
    assert_eq!(error.status(), EMBER_E_INVALID_ARGUMENT);
    for part in ["\"passage\"", "\"query\"", "\"document\"", "\"empty\""] {
        assert!(error.to_string().contains(part), "{error}");
    }
    for dimensions in [0, 25, usize::MAX] {
        let options = EmbedOptions { dimensions: Some(dimensions), ..plain };
        let error = context.embed(&[&[3, 4]], &options).unwrap_err();
        assert_eq!(error.status(), EMBER_E_INVALID_ARGUMENT);
        assert!(error.to_string().contains("1 to 24"), "{error}");
    }
    let gguf = common::context(&load(&fixture("models/bert.gguf")), &ContextOptions::default());
    // The folder has no tokenizer either: the error names it second.
    assert!(gguf.tokenize_prompted(&["w2"], &plain, Some("query")).is_err());
}

/// The error of a folder of the first case that `change` damages.
fn refused(change: impl Fn(&TempFolder)) -> String {
    let (_, cases) = cases();
    let folder = folder(&cases[0]);
    change(&folder);
    match LoadedModel::open(&folder.0, &LoadOptions::default()) {
        Err(e) => e.to_string(),
        Ok(_) => "it loads".to_owned(),
    }
}

#[test]
fn dense_modules_that_do_not_fit_are_refused_by_name() {
    let config = |change: Value| {
        let mut config = json!({"in_features": 24, "out_features": 40, "bias": false,
            "activation_function": "torch.nn.modules.linear.Identity"});
        config.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        config.to_string()
    };
    for (change, parts) in [
        (json!({"in_features": 23}), &["2_Dense/config.json", "in_features", "23"][..]),
        (json!({"out_features": 41}), &["3_Dense/config.json", "in_features", "41"]),
        (json!({"out_features": 0}), &["out_features"]),
        (json!({"in_features": null}), &["in_features"]),
        (json!({"bias": true}), &["2_Dense/linear.bias", "missing"]),
        (
            json!({"activation_function": "torch.nn.modules.activation.ReLU"}),
            &["activation_function", "ReLU"],
        ),
        (json!({"activation_function": null}), &["activation_function", "null"]),
        (json!({"use_residual": true}), &["use_residual"]),
        (json!({"module_input_name": "token_embeddings"}), &["module_input_name"]),
    ] {
        let error = refused(|folder| drop(folder.write("2_Dense/config.json", config(change.clone()))));
        assert!(parts.iter().all(|part| error.contains(part)), "{change}: {error}");
    }
    let weights =
        |bytes: Vec<u8>| refused(|folder| drop(folder.write("3_Dense/model.safetensors", bytes.clone())));
    let good = formula(24 * 40, 1);
    let other = safetensors(&[("linear.weight", &[24, 40], &good), ("residual.weight", &[1], &[1.0])]);
    let biased = safetensors(&[("linear.weight", &[24, 40], &good), ("linear.bias", &[24], &good[..24])]);
    let transposed = safetensors(&[("linear.weight", &[40, 24], &good)]);
    for (bytes, part) in [
        (Vec::new(), "3_Dense/model.safetensors"),
        (vec![0xff; 64], "3_Dense/model.safetensors"),
        (safetensors(&[]), "3_Dense/linear.weight"),
        (transposed, "3_Dense/linear.weight"),
        (other, "3_Dense/residual.weight"),
        (biased, "3_Dense/linear.bias"),
    ] {
        let error = weights(bytes);
        assert!(error.contains(part), "{part}: {error}");
    }
    let gone = refused(|folder| std::fs::remove_file(folder.0.join("2_Dense/model.safetensors")).unwrap());
    assert!(gone.contains("2_Dense/model.safetensors"), "{gone}");
    // Every place where the file can end.
    let whole = safetensors(&[("linear.weight", &[24, 40], &good)]);
    for n in (0..whole.len()).step_by(97) {
        assert!(weights(whole[..n].to_vec()).contains("3_Dense"), "{n} bytes");
    }
    let listed = |kinds: &[(&str, &str)]| {
        let modules: Vec<Value> = kinds
            .iter()
            .enumerate()
            .map(|(i, (kind, path))| {
                json!({"idx": i, "name": i.to_string(), "path": path,
                "type": format!("sentence_transformers.models.{kind}")})
            })
            .collect();
        refused(|folder| drop(folder.write("modules.json", Value::from(modules.clone()).to_string())))
    };
    let (first, pool) = (("Transformer", ""), ("Pooling", "1_Pooling"));
    let dense = |path| ("Dense", path);
    for (kinds, part) in [
        (&[first, dense("2_Dense"), pool][..], "stands before the Pooling"),
        (&[first, pool, ("Normalize", "n"), dense("2_Dense")], "stands after a Normalize"),
        (&[first, pool, dense("2_Dense"), dense("3_Dense"), dense("2_Dense")], "supported are two"),
        (&[first, pool, dense("")], "has no path"),
        (&[first, pool, dense("../2_Dense")], "inside this one"),
        (&[first, pool, dense("2_Dense"), dense("2_Dense")], "in_features"),
    ] {
        let error = listed(kinds);
        assert!(error.contains(part), "{kinds:?}: {error}");
    }
}

#[test]
fn dense_tensors_of_gguf_files_are_honoured_or_refused() {
    let model = |parts: Parts| LoadedModel::from_bytes(&parts.bytes(), "dense.gguf");
    let parts = || Parts::of("gemma-embedding");
    let (down, up) = (formula(24 * 40, 0), formula(24 * 40, 1));
    let both = || parts().f32s("dense_2.weight", &[24, 40], &down).f32s("dense_3.weight", &[40, 24], &up);
    let vector = |model: LoadedModel| {
        let mut context = context(&Arc::new(model), &ContextOptions::default());
        context.embed(&[&[3, 5, 7]], &EmbedOptions::default()).unwrap()
    };
    let (plain, changed) = (vector(model(parts()).unwrap()), model(both()).unwrap());
    assert_eq!(changed.n_embd_out(), 24);
    // What the layers make of the vector, computed here.
    let times = |matrix: &[f32], x: &[f32]| -> Vec<f32> {
        matrix.chunks(x.len()).map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum()).collect()
    };
    let mut expected = times(&up, &times(&down, &plain));
    ember::nn::pooling::normalize(&mut expected);
    assert!(relative_rms(&vector(changed), &expected) < 1e-4);
    let one = model(parts().f32s("dense_2.weight", &[24, 40], &down)).unwrap();
    assert_eq!((one.n_embd_out(), vector(one).len()), (40, 40));
    for (parts, status, name) in [
        (parts().f32s("dense_2.weight", &[40, 24], &down), EMBER_E_FORMAT, "dense_2.weight"),
        (parts().f32s("dense_3.weight", &[40, 24], &up), EMBER_E_FORMAT, "dense_3.weight"),
        (parts().f32s("dense_2.bias", &[40], &up[..40]), EMBER_E_FORMAT, "dense_2.bias"),
        (both().f32s("dense_2.bias", &[24], &up[..24]), EMBER_E_FORMAT, "dense_2.bias"),
        (both().without_key("gemma-embedding.pooling_type"), EMBER_E_UNSUPPORTED, "pooling_type"),
        (Parts::of("gemma3").f32s("dense_2.weight", &[24, 40], &down), EMBER_E_UNSUPPORTED, "dense_2.weight"),
    ] {
        let error = model(parts).err().unwrap();
        assert_eq!(error.status(), status, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}
