//! Folders of `sentence-transformers`, with every field of their files changed and their modules in other orders, as
//! `tests/oracle/sentence_fields.py` drove them: the same vectors, or a refusal that names the module or the field.
//! `docs/sentence-fields.md` holds what became of each; `EMBER_BLESS=1` writes it anew.
#![cfg(feature = "hf")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]

mod common;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use common::{TempFolder, fixture, read_f32s, read_json, relative_rms};
use ember::backend::KvType;
use ember::context::{BackendKind, Context, ContextOptions, EmbedOptions, LoadOptions, LoadedModel};
use serde_json::Value;

const FAMILIES: [&str; 4] = ["bert", "gemma3", "llama", "qwen3"];
const TOLERANCE: f64 = 1e-4;
/// Modules, and fields that no case changes, since the folder is refused for the module that has them.
const OTHERS: &[(&str, &str)] = &[
    ("Normalize", "honoured"),
    ("Pooling", "honoured; refused where it is missing or stands elsewhere"),
    ("Transformer", "honoured; refused where it is missing or stands elsewhere"),
    ("activation_function", "refused: `Dense` is"),
    ("bias", "refused: `Dense` is"),
    ("document_length", "warned of: the caller cuts texts"),
    ("in_features", "refused: `Dense` is"),
    ("modality_config", "refused, unless it is the hidden states of texts"),
    ("module_input_name", "refused, unless it is the vector of a text"),
    ("module_output_name", "refused, unless it is the vector of a text"),
    ("out_features", "refused: `Dense` is"),
    ("processing_kwargs", "refused, unless it is empty"),
    ("query_expansion", "refused, unless it is null"),
    ("query_length", "warned of: the caller cuts texts"),
    ("transformer_task", "refused, unless it is `feature-extraction`"),
    ("unpad_inputs", "no effect"),
    ("use_residual", "refused: `Dense` is"),
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
    let keys =
        case["files"].as_object().unwrap().values().filter_map(Value::as_object).flat_map(|file| file.keys());
    sentence.contains(field)
        || keys.filter(|key| *key != "prompts").any(|key| sentence.contains(&format!("\"{key}\"")))
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
            let (rows, behind) = rest.split_at(n);
            results.push(rows);
            rest = behind;
        }
        assert!(rest.is_empty());
        for case in family["cases"].as_array().unwrap() {
            let folder = TempFolder::new(&format!("sentence-{name}"));
            let base = fixture(&format!("hf/{}", family["base"].as_str().unwrap()));
            for file in ["config.json", "model.safetensors"] {
                folder.write(file, std::fs::read(base.join(file)).unwrap());
            }
            folder.write("tokenizer.json", family["tokenizer"].to_string());
            folder.write("tokenizer_config.json", r#"{"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "unk_token": "[UNK]"}"#);
            for (file, content) in case["files"].as_object().unwrap() {
                if file == "architectures" {
                    let mut config = read_json(&base.join("config.json"));
                    config["architectures"] = content.clone();
                    folder.write("config.json", config.to_string());
                    continue;
                }
                std::fs::create_dir_all(folder.0.join(file).parent().unwrap()).unwrap();
                folder.write(file, content.to_string());
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
    for (field, counts) in fields {
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
         `config_sentence_transformers.json`. It says what Ember does about each. `tests/hf_sentence.rs` writes this page \
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
