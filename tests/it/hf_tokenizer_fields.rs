//! Every field of `tokenizer_config.json`, absent, null and changed, alone and with others, and the files beside it, as
//! `tests/oracle/tokenizer_fields.py` drove them through `AutoTokenizer`: the same tokens, or a refusal that names the field.
//! `docs/tokenizer-fields.md` holds what became of each field; `EMBER_BLESS=1` writes it anew.
#![cfg(feature = "hf")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use common::{fixture, ids, read_json};
use ember::tokenizer::{Tokenizer, TokenizerFiles};
use serde_json::{Map, Value};

const FAMILIES: [&str; 9] =
    ["backend", "bert", "gemma", "gpt2", "gpt_neox", "llama", "qwen2", "t5", "xlm_roberta"];
/// The field of cases that change several.
const SEVERAL: &str = "several";

/// What a family's folder with a case's changes gives: the tokens of all texts, without and with those that frame a text.
fn tokens(family: &Value, set: &Value, remove: &Value, case: &Value) -> Result<Vec<Vec<u32>>, String> {
    let mut config = family["config"].as_object().unwrap().clone();
    config.extend(set.as_object().unwrap().clone());
    for key in remove.as_array().unwrap() {
        config.remove(key.as_str().unwrap());
    }
    let mut tokenizer = family["tokenizer"].as_object().unwrap().clone();
    tokenizer.extend(case.get("tokenizer").and_then(Value::as_object).cloned().unwrap_or_default());
    let [config, tokenizer] = [config, tokenizer].map(|file| Value::from(file).to_string());
    let beside = |name: &str| case["files"].get(name).map(Value::to_string);
    let (map, added) = (beside("special_tokens_map.json"), beside("added_tokens.json"));
    let files = TokenizerFiles {
        tokenizer: tokenizer.as_bytes(),
        config: Some(config.as_bytes()),
        special_tokens_map: map.as_ref().map(String::as_bytes),
        added_tokens: added.as_ref().map(String::as_bytes),
        model_type: family["model_type"].as_str(),
    };
    let made = Tokenizer::from_files_under(&files, &|| Ok(())).map_err(|e| e.to_string())?;
    let texts = family["texts"].as_array().unwrap();
    let both = [false, true].into_iter().flat_map(|special| texts.iter().map(move |text| (special, text)));
    both.map(|(special, text)| made.encode(text.as_str().unwrap(), special, true).map_err(|e| e.to_string()))
        .collect()
}

/// The reference's tokens.
fn expected(family: &Value, index: u64) -> Vec<Vec<u32>> {
    let result = family["results"][index as usize].as_array().unwrap();
    result.iter().flat_map(|all| all.as_array().unwrap().iter().map(ids)).collect()
}

/// What Ember does about a field: (other results, the same, refused) by the number of cases.
fn treatment((other, same, refused): (usize, usize, usize)) -> &'static str {
    match (other, same, refused) {
        (0, 0, _) => "refused",
        (0, _, 0) => "no effect",
        (0, ..) => "no effect, or refused",
        (_, _, 0) => "honoured",
        _ => "honoured, or refused",
    }
}

#[test]
fn fields_give_the_reference_tokens_or_a_refusal_that_names_them() {
    let mut wrong = Vec::new();
    let mut fields: BTreeMap<(String, &'static str), BTreeSet<&str>> = BTreeMap::new();
    let mut total = [0; 4];
    for name in FAMILIES {
        let family = read_json(&fixture(&format!("tokenizer/fields/{name}.json")));
        let base = tokens(
            &family,
            &Map::new().into(),
            &Vec::<Value>::new().into(),
            &serde_json::json!({"files": {}}),
        );
        assert_eq!(base.unwrap(), expected(&family, 0), "{name}");
        let mut outcomes: BTreeMap<&str, (usize, usize, usize)> = BTreeMap::new();
        for case in family["cases"].as_array().unwrap() {
            let field = case["field"].as_str().unwrap();
            let found = tokens(&family, &case["set"], &case["remove"], case);
            let entry = outcomes.entry(field).or_default();
            match (case["expect"].as_u64(), found) {
                (Some(index), Ok(found)) => match found == expected(&family, index) {
                    true => {
                        total[0] += 1;
                        *(if index == 0 { &mut entry.1 } else { &mut entry.0 }) += 1;
                    }
                    false => {
                        let texts = family["texts"].as_array().unwrap();
                        let all = expected(&family, index);
                        let i = (0..all.len()).find(|&i| all[i] != found[i]).unwrap();
                        let text = &texts[i % texts.len()];
                        let case =
                            format!("{} {} {} {}", case["field"], case["set"], case["remove"], case["files"]);
                        wrong.push(format!(
                            "{name} {text}: {:?}, expected {:?}: {case:.300}",
                            found[i], all[i]
                        ));
                    }
                },
                (Some(_), Err(sentence)) => {
                    let names = case["set"].as_object().unwrap().keys().map(String::as_str);
                    let names = names.chain([field.rsplit(": ").next().unwrap()]);
                    match names.into_iter().any(|name| sentence.contains(name)) {
                        true => {
                            total[1] += 1;
                            entry.2 += 1;
                        }
                        false => {
                            wrong.push(format!("{name} is refused without a name: {sentence} {case:.300}"))
                        }
                    }
                }
                (None, Err(_)) => total[2] += 1,
                // A null means the same as an absent key, an object is a token, and a field without effect may have any value.
                (None, Ok(found)) => {
                    let may = |value: &Value| value.is_null() || value.is_object();
                    let may = case["set"].as_object().unwrap().values().any(may)
                        || family["config"].as_object().unwrap().values().any(Value::is_null)
                        || found == expected(&family, 0);
                    assert!(may, "{name} loads {case}");
                    total[3] += 1;
                }
            }
        }
        for (field, counts) in outcomes.into_iter().filter(|(field, _)| *field != SEVERAL) {
            fields.entry((field.to_owned(), treatment(counts))).or_default().insert(name);
        }
    }
    println!(
        "{} right, {} refused by name, {} where both fail, {} lenient",
        total[0], total[1], total[2], total[3]
    );
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
    assert!(total[0] > 1400 && total[1] < 60, "{total:?}");
    let page = page(&fields, total);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tokenizer-fields.md");
    if std::env::var_os("EMBER_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let same = std::fs::read_to_string(&path).is_ok_and(|found| found == page);
    assert!(same, "docs/tokenizer-fields.md is not what the experiment gives");
}

/// The page about all fields.
fn page(
    fields: &BTreeMap<(String, &'static str), BTreeSet<&str>>,
    [right, refused, fail, lenient]: [usize; 4],
) -> String {
    let mut rows = String::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for ((field, treatment), families) in fields {
        *counts.entry(treatment).or_default() += families.len();
        let families = families.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        writeln!(rows, "| `{field}` | {treatment} | {families} |").unwrap();
    }
    let n = |treatment: &str| counts.get(treatment).copied().unwrap_or(0);
    format!(
        "# Fields of `tokenizer_config.json`\n\n\
         This page lists each field that the tokenizer classes of `transformers` take, and says what Ember does about it. \
         `AutoTokenizer`\ntakes some folders' `tokenizer.json` as it is (`backend`); for the other families here the class builds all \
         that is around the\nvocabulary from the fields. `tests/it/hf_tokenizer_fields.rs` writes this page (`EMBER_BLESS=1`) from \
         experiments;\n`tests/oracle/tokenizer_fields.py` drove every field through `AutoTokenizer`. The test fails where Ember gives \
         other tokens, and\n`make test-fields` fails where a class has a field that is not here.\n\n\
         | treatment | fields | meaning |\n|---|---|---|\n\
         | honoured | {} | every value gives the tokens of `AutoTokenizer` |\n\
         | honoured, or refused | {} | some values do; Ember refuses the others, and the error names the field |\n\
         | refused | {} | Ember refuses every other value, and the error names the field |\n\
         | no effect | {} | no value changes the tokens of a text |\n\
         | no effect, or refused | {} | no value changes the tokens, and Ember refuses some |\n\n\
         Of {} folders Ember gives the reference's tokens in {right} and refuses {refused} by name. In {fail} `AutoTokenizer` fails and \
         Ember refuses.\nIn {lenient} `AutoTokenizer` fails and Ember loads the folder: a `null` counts as an absent key, an object with a token's text is \
         a token, and Ember\ndoes not look at fields without effect. `clean_up_tokenization_spaces` changes decoded text in `transformers`; Ember gives the text that \
         the tokens spell.\n`add_bos_token` and `add_eos_token` have no effect beside a `tokenizer.json`: its post-processor frames a \
         text.\n\n\
         | field | treatment | families |\n|---|---|---|\n{rows}",
        n("honoured"),
        n("honoured, or refused"),
        n("refused"),
        n("no effect"),
        n("no effect, or refused"),
        right + refused + fail + lenient,
    )
}
