//! Folders of `sentence-transformers`, with every field of their files changed and their modules in other orders, as
//! `tests/oracle/sentence_fields.py` drove them: the same vectors, or a refusal that names the module or the field.
//! `docs/sentence-fields.md` holds what became of each; `EMBER_BLESS=1` writes it anew.
#![cfg(feature = "hf")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]

use crate::common;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use common::{TempFolder, fixture, read_f32s, read_json, relative_rms, safetensors};
use ember::backend::KvType;
use ember::context::{BackendKind, Context, ContextOptions, EmbedOptions};
use ember::model::{LoadOptions, LoadedModel};
use serde_json::Value;

const FAMILIES: [&str; 4] = ["bert", "gemma3", "llama", "qwen3"];
const TOLERANCE: f64 = 1e-4;
/// What the tokenizer is.
const SETTINGS: &str =
    r#"{"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "unk_token": "[UNK]"}"#;
/// Modules, and fields that no case changes, since the folder is refused for the module that has them.
const OTHERS: &[(&str, &str)] = &[
    ("Normalize", "honoured"),
    ("Pooling", "honoured; refused where it is missing or stands elsewhere"),
    ("Transformer", "honoured; refused where it is missing or stands elsewhere"),
    ("activation_function", "honoured: the identity and the hyperbolic tangent; others are refused"),
    ("bias", "honoured"),
    ("dropout", "no effect"),
    ("in_features", "honoured; refused where it is not the width before"),
    ("out_features", "honoured"),
    ("prompts", "honoured: by their names (`ember_embed_options_set_prompt`)"),
    ("use_residual", "refused"),
];

/// `normalize`: as the folder says, or for folders without a list of modules, which Ember scales and the package does not.
fn vectors(folder: &Path, texts: &[&str], normalize: Option<bool>) -> Result<Vec<f32>, String> {
    let sentence = |e: ember::error::Error| e.to_string();
    let model = Arc::new(LoadedModel::open(folder, &LoadOptions::default()).map_err(sentence)?);
    let (k_type, v_type) = (Some(KvType::F32), Some(KvType::F32));
    let options =
        ContextOptions { k_type, v_type, backend: BackendKind::Scalar, ..ContextOptions::default() };
    let mut context = Context::new(&model, &options).map_err(sentence)?;
    let options = EmbedOptions { truncate: true, normalize, ..EmbedOptions::default() };
    let tokens = context.tokenize_texts(texts, &options).map_err(sentence)?;
    let tokens: Vec<&[u32]> = tokens.iter().map(Vec::as_slice).collect();
    context.embed(&tokens, &options).map_err(sentence)
}

/// The names that a refusal may have: the field, and the keys and values of the files.
fn names_it(sentence: &str, case: &Value) -> bool {
    let field = case["field"].as_str().unwrap();
    // One of those that were changed together.
    let is_one = || {
        let mut files = case["files"].as_object().unwrap().values().filter_map(Value::as_object);
        files.any(|file| file.keys().any(|key| sentence.contains(&format!("\"{key}\""))))
    };
    sentence.contains(field) || (field == "several" && is_one())
}

#[test]
fn folders_give_the_reference_vectors_or_a_refusal_that_names_the_culprit() {
    let mut wrong = Vec::new();
    let mut total = [0; 4];
    // Other vectors than the first case's, the same, refused.
    let mut fields: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    for name in FAMILIES {
        let family = read_json(&fixture(&format!("sentence/{name}.json")));
        let numbers = read_f32s(&fixture(&format!("sentence/{name}.f32")));
        let texts: Vec<&str> =
            family["texts"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
        let widths =
            family["widths"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize * texts.len());
        let mut results = Vec::new();
        let mut rest = &numbers[..];
        for n in widths {
            let (rows, tail) = rest.split_at(n);
            results.push(rows);
            rest = tail;
        }
        assert!(rest.is_empty());
        for case in family["cases"].as_array().unwrap() {
            let folder = TempFolder::new(&format!("sentence-{name}"));
            let base = fixture(&format!("hf/{}", family["base"].as_str().unwrap()));
            for file in ["config.json", "model.safetensors"] {
                folder.write(file, std::fs::read(base.join(file)).unwrap());
            }
            folder.write("tokenizer.json", family["tokenizer"].to_string());
            folder.write("tokenizer_config.json", SETTINGS);
            for (file, content) in case["files"].as_object().unwrap() {
                if file == "architectures" {
                    let mut config = read_json(&base.join("config.json"));
                    config["architectures"] = content.clone();
                    folder.write("config.json", config.to_string());
                    continue;
                }
                std::fs::create_dir_all(folder.0.join(file).parent().unwrap()).unwrap();
                folder.write(file, content.to_string());
                if file == "2_Dense/config.json" {
                    // As the oracle makes them.
                    let n_in = content["in_features"].as_u64().unwrap() as usize;
                    let (weight, bias) = (vec![0.1; 8 * n_in], vec![0.0; 8]);
                    let bytes =
                        safetensors(&[("linear.weight", &[8, n_in], &weight), ("linear.bias", &[8], &bias)]);
                    folder.write("2_Dense/model.safetensors", bytes);
                }
            }
            let normalize = case["files"].get("modules.json").is_none().then_some(false);
            let outcome = fields.entry(case["field"].as_str().unwrap().to_owned()).or_default();
            match (case["expect"].as_u64(), vectors(&folder.0, &texts, normalize)) {
                (Some(index), Ok(found)) => {
                    let expected = results[index as usize];
                    if found.len() == expected.len() && relative_rms(&found, expected) <= TOLERANCE {
                        total[0] += 1;
                        outcome[usize::from(index < 2)] += 1;
                    } else {
                        wrong.push(format!("{name} gives other vectors: {case}"));
                    }
                }
                (Some(_), Err(sentence)) if names_it(&sentence, case) => {
                    total[1] += 1;
                    outcome[2] += 1;
                }
                (Some(_), Err(sentence)) => {
                    wrong.push(format!("{name} is refused without a name: {sentence}: {case}"))
                }
                (None, Err(_)) => {
                    total[2] += 1;
                    outcome[2] += 1;
                }
                // The package wants a number of no effect there.
                (None, Ok(found))
                    if found.len() == results[1].len() && relative_rms(&found, results[1]) <= TOLERANCE =>
                {
                    total[3] += 1;
                }
                (None, Ok(_)) => wrong.push(format!("{name} loads {case}")),
            }
        }
    }
    println!(
        "{} right, {} refused by name, {} where both fail, {} lenient",
        total[0], total[1], total[2], total[3]
    );
    assert!(wrong.is_empty(), "{} cases:\n{:.4000}", wrong.len(), wrong.join("\n"));
    assert!(total[0] > 150, "{total:?}");
    let page = page(&fields, total);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/sentence-fields.md");
    if std::env::var_os("EMBER_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let same = std::fs::read_to_string(&path).is_ok_and(|found| found == page);
    assert!(same, "docs/sentence-fields.md is not what the experiment gives");
}

/// The page about all fields.
fn page(fields: &BTreeMap<String, [usize; 3]>, [right, refused, fail, lenient]: [usize; 4]) -> String {
    let mut rows: BTreeMap<&str, &str> = OTHERS.iter().copied().collect();
    for (field, counts) in fields.iter().filter(|(field, _)| *field != "several") {
        let treatment = match counts {
            [0, 0, _] => "refused",
            [0, _, 0] => "no effect",
            [0, ..] => "no effect, or refused",
            [_, _, 0] => "honoured",
            _ => "honoured, or refused",
        };
        rows.entry(field).or_insert(treatment);
    }
    let mut text = String::new();
    for (field, treatment) in rows {
        writeln!(text, "| `{field}` | {treatment} |").unwrap();
    }
    format!(
        "# Fields of `sentence-transformers` folders\n\n\
         This page lists the modules in `modules.json`, each field of their files, of `sentence_bert_config.json` and of\n\
         `config_sentence_transformers.json`. It says what Ember does about each. `tests/it/hf_sentence.rs` writes this page \
         (`EMBER_BLESS=1`) from experiments with\n`sentence-transformers` (`tests/oracle/sentence_fields.py`), and fails where Ember \
         gives other vectors.\n\n\
         Of {} folders Ember gives the reference's vectors in {right} and refuses {refused} by name. In {fail} both fail. In {lenient} only \
         the package fails,\nsince it wants a number that no vector depends on.\n\n\
         - *Honoured*: every value gives the package's vectors.\n\
         - *Refused*: the error names the module or the field.\n\
         - Embedding a text of more than `max_seq_length` tokens is an error, unless the caller lets Ember truncate it, as the package \
         does.\n\n\
         | module or field | treatment |\n|---|---|\n{text}",
        right + refused + fail + lenient,
    )
}

#[test]
fn a_text_that_is_too_long_is_refused_with_the_field_that_says_so() {
    let family = read_json(&fixture("sentence/bert.json"));
    let base = fixture(&format!("hf/{}", family["base"].as_str().unwrap()));
    let n_ctx = read_json(&base.join("config.json"))["max_position_embeddings"].as_u64().unwrap();
    let long = ["w1"; 5].join(" ");
    for (transformer, tokenizer, named) in [
        (r#"{"max_seq_length": 4}"#, "{}", Some("max_seq_length")),
        ("{}", r#"{"model_max_length": 4}"#, Some("model_max_length")),
        // The former comes first.
        (r#"{"max_seq_length": 4}"#, r#"{"model_max_length": 3}"#, Some("max_seq_length")),
        (r#"{"max_seq_length": 9}"#, r#"{"model_max_length": 3}"#, None),
    ] {
        let folder = TempFolder::new("sentence-long");
        for file in ["config.json", "model.safetensors"] {
            folder.write(file, std::fs::read(base.join(file)).unwrap());
        }
        folder.write("tokenizer.json", family["tokenizer"].to_string());
        let mut settings: Value = serde_json::from_str(SETTINGS).unwrap();
        settings
            .as_object_mut()
            .unwrap()
            .extend(serde_json::from_str::<serde_json::Map<_, _>>(tokenizer).unwrap());
        folder.write("tokenizer_config.json", settings.to_string());
        folder.write("sentence_bert_config.json", transformer);
        for (file, content) in family["cases"][0]["files"].as_object().unwrap() {
            std::fs::create_dir_all(folder.0.join(file).parent().unwrap()).unwrap();
            folder.write(file, content.to_string());
        }
        let model = Arc::new(LoadedModel::open(&folder.0, &LoadOptions::default()).unwrap());
        let mut context = Context::new(&model, &ContextOptions::default()).unwrap();
        let options = EmbedOptions::default();
        let tokens = context.tokenize_texts(&[&long], &options).unwrap();
        assert!(tokens[0].len() >= 5 && (tokens[0].len() as u64) < n_ctx, "nothing is cut");
        match (context.embed(&[&tokens[0]], &options), named) {
            (Err(e), Some(name)) => {
                let sentence = e.to_string();
                assert!(sentence.contains(name) && sentence.contains("may have 4"), "{sentence}");
            }
            (Ok(_), None) => {}
            (found, _) => panic!("{transformer} {tokenizer}: {:?}", found.map(|_| ())),
        }
    }
}
