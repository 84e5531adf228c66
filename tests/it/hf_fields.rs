//! Every field of the configuration classes of the supported model types, absent, null and changed, alone and beside what
//! contradicts it, as `tests/oracle/hf_fields.py` drove them through `transformers`: the same numbers, or a refusal that
//! names the field. `docs/folder-fields.md` holds what became of each field; `EMBER_BLESS=1` writes it anew.
//! `EMBER_MODEL_TYPES=llama,gemma` runs the cases of some model types, and leaves the page.
#![cfg(feature = "hf")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{TempFolder, fixture, ids, read_f32s, read_json, relative_rms};
use ember::backend::KvType;
use ember::context::{Context, ContextOptions, EmbedOptions, Tokens};
use ember::hf;
use ember::model::{LoadOptions, LoadedModel};
use ember::nn::pooling::Pooling;
use serde_json::{Map, Value};

const TOLERANCE: f64 = 1e-4;

/// The tensors of a safetensors file, all of F32: shapes and bytes.
#[derive(Clone)]
struct Tensors(BTreeMap<String, (Vec<usize>, Vec<u8>)>);

impl Tensors {
    fn read(path: &Path) -> Tensors {
        let bytes = std::fs::read(path).unwrap();
        let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: Map<String, Value> = serde_json::from_slice(&bytes[8..8 + n]).unwrap();
        let numbers = |value: &Value| ids(value).into_iter().map(|n| n as usize).collect::<Vec<_>>();
        let entries = header.iter().filter(|(name, _)| *name != "__metadata__").map(|(name, entry)| {
            assert_eq!(entry["dtype"], "F32");
            let place = numbers(&entry["data_offsets"]);
            (name.clone(), (numbers(&entry["shape"]), bytes[8 + n..][place[0]..place[1]].to_vec()))
        });
        Tensors(entries.collect())
    }

    fn write(&self, path: &Path) {
        let (mut header, mut data) = (Map::new(), Vec::<u8>::new());
        for (name, (shape, bytes)) in &self.0 {
            let offsets = [data.len(), data.len() + bytes.len()];
            let entry = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": offsets});
            header.insert(name.clone(), entry);
            data.extend(bytes);
        }
        let header = Value::from(header).to_string();
        let header = format!("{header}{}", " ".repeat((8 - header.len() % 8) % 8));
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        std::fs::write(path, bytes).unwrap();
    }

    fn renamed(self, from: &str, to: &str) -> Tensors {
        Tensors(self.0.into_iter().map(|(name, tensor)| (name.replacen(from, to, 1), tensor)).collect())
    }

    /// `change` of the oracle: tensors that are dropped, and such as are made of others.
    fn changed(&self, change: &Value) -> Tensors {
        let mut out = self.clone();
        for name in change["drop"].as_array().into_iter().flatten() {
            out.0.remove(name.as_str().unwrap());
        }
        for add in change["add"].as_array().into_iter().flatten() {
            let [name, source, how] = [0, 1, 2].map(|i| add[i].as_str().unwrap());
            let (shape, bytes) = self.0[source].clone();
            let rows = bytes.chunks_exact(bytes.len() / shape[0]);
            let made: (Vec<usize>, Vec<u8>) = match how {
                "same" => (shape, bytes.clone()),
                "reversed" => (shape, rows.rev().flatten().copied().collect()),
                "column" => (vec![shape[0]], rows.flat_map(|row| &row[..4]).copied().collect()),
                other => panic!("{other}"),
            };
            out.0.insert(name.to_owned(), made);
        }
        out
    }
}

/// What the oracle found out about a model type.
struct Driven {
    config: Map<String, Value>,
    tensors: Tensors,
    tokens: Vec<u32>,
    /// How many of them an encoder reads before its decoder has the rest; 0 in other models.
    n_text: usize,
    n_row: usize,
    cases: Vec<Value>,
    numbers: Vec<f32>,
}

impl Driven {
    fn read(model_type: &str) -> Driven {
        let facts = read_json(&fixture(&format!("hf_fields/{model_type}.json")));
        let base = fixture(&format!("hf/{}", facts["base"].as_str().unwrap()));
        let mut config = read_json(&base.join("config.json")).as_object().unwrap().clone();
        let mut tensors = Tensors::read(&base.join("model.safetensors"));
        config.extend(facts["set"].as_object().unwrap().clone());
        if let Some(wrapper) = facts.get("wrapper") {
            for key in ["architectures", "transformers_version", "tie_word_embeddings"] {
                config.remove(key);
            }
            let text = std::mem::replace(&mut config, wrapper.as_object().unwrap().clone());
            config.insert("text_config".into(), text.into());
            // One class keeps the whole language model, its head included, under a name of its own.
            let (from, to) = match model_type {
                "llama4" => ("", "language_model."),
                _ => ("model.", "model.language_model."),
            };
            tensors = tensors.renamed(from, to);
        }
        Driven {
            config,
            tensors,
            tokens: ids(&facts["tokens"]),
            n_text: facts["n_text"].as_u64().unwrap_or(0) as usize,
            n_row: facts["n_row"].as_u64().unwrap() as usize,
            cases: facts["cases"].as_array().unwrap().clone(),
            numbers: read_f32s(&fixture(&format!("hf_fields/{model_type}.f32"))),
        }
    }

    /// The two rows that the oracle found for the result `index`.
    fn rows(&self, index: u64) -> &[f32] {
        let n = 2 * self.n_row;
        &self.numbers[index as usize * n..(index as usize + 1) * n]
    }
}

/// The rows of a token in the middle and of the last, or the sentence of the refusal.
/// Of an encoder with its decoder, they are those of the answer, which begins with the token that the folder says.
fn two_rows(path: &Path, tokens: &[u32], n_text: usize) -> Result<Vec<f32>, String> {
    let sentence = |e: ember::error::Error| e.to_string();
    let model = Arc::new(LoadedModel::open(path, &LoadOptions::default()).map_err(sentence)?);
    let (n_ctx, k_type, v_type) = (tokens.len(), Some(KvType::F32), Some(KvType::F32));
    // One thread: most of the time would go into starting others.
    let options = ContextOptions { n_ctx, k_type, v_type, n_threads: 1, ..ContextOptions::default() };
    let mut context = Context::new(&model, &options).map_err(sentence)?;
    let places = [n_text + (tokens.len() - n_text) / 2, tokens.len() - 1];
    let mut tokens = tokens.to_vec();
    assert_eq!(model.info().decoder_start.is_some(), n_text > 0);
    if let Some(start) = model.info().decoder_start {
        tokens[n_text] = start;
    }
    let tokens = &tokens[..];
    if model.info().causal {
        let wants: Vec<bool> = (0..tokens.len()).map(|i| places.contains(&i)).collect();
        context.decode(Tokens { outputs: Some(&wants), ..Tokens::next(tokens) }).map_err(sentence)?;
        return places.iter().try_fold(Vec::new(), |mut rows, &i| {
            rows.extend(context.logits(i).map_err(sentence)?);
            Ok(rows)
        });
    }
    let options = EmbedOptions { pooling: Some(Pooling::None), ..EmbedOptions::default() };
    let all = context.embed(&[tokens], &options).map_err(sentence)?;
    let n = all.len() / tokens.len();
    Ok(places.iter().flat_map(|&i| all[i * n..(i + 1) * n].to_vec()).collect())
}

/// The names that a refusal may have: the field, and what is set with it, on every level.
fn culprits(case: &Value) -> Vec<String> {
    fn keys(value: &Value, out: &mut Vec<String>) {
        for (key, value) in value.as_object().into_iter().flatten() {
            out.push(key.rsplit('.').next().unwrap().to_owned());
            keys(value, out);
        }
    }
    let mut out = Vec::new();
    keys(&case["set"], &mut out);
    let field = case["field"].as_str().unwrap();
    if field == "num_attention_heads" {
        // It is one of the two numbers that give the size of a head.
        out.push("elements of a head".to_owned());
    }
    out.push(field.rsplit('.').next().unwrap().to_owned());
    out.extend(
        case["remove"]
            .as_array()
            .unwrap()
            .iter()
            .map(|key| key.as_str().unwrap().rsplit('.').next().unwrap().to_owned()),
    );
    for op in case["tensors"]["add"].as_array().into_iter().flatten() {
        out.push(op[0].as_str().unwrap().to_owned());
    }
    for op in case["tensors"]["drop"].as_array().into_iter().flatten() {
        out.push(op.as_str().unwrap().to_owned());
    }
    out
}

fn model_types() -> Vec<String> {
    let entries = std::fs::read_dir(fixture("hf_fields")).unwrap().map(|e| e.unwrap().path());
    let mut names: Vec<String> = entries
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// The model types, of some of which two classes are driven, with and without a decoder.
fn known(model_types: &[String]) -> BTreeSet<&str> {
    model_types.iter().map(|name| name.split('+').next().unwrap()).collect()
}

/// `value` without its nulls, at every depth.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            map.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), without_nulls(v))).collect()
        }
        other => other.clone(),
    }
}

/// A folder that becomes one case after the other.
struct Bench<'a> {
    driven: &'a Driven,
    folder: TempFolder,
}

impl Bench<'_> {
    /// What Ember makes of the unchanged folder with `set` and without `remove`, and with the case's tensors.
    fn run(&self, set: &Value, remove: &Value, tensors: Option<&Value>) -> Result<Vec<f32>, String> {
        let mut config = self.driven.config.clone();
        let removed = remove.as_array().unwrap().iter().map(|key| (key.as_str().unwrap(), None));
        let set = set.as_object().unwrap().iter().map(|(key, value)| (key.as_str(), Some(value)));
        for (key, value) in removed.chain(set) {
            // A dot leads into an object.
            let (object, key) = match key.split_once('.') {
                Some((object, key)) => (config[object].as_object_mut().unwrap(), key),
                None => (&mut config, key),
            };
            object.remove(key);
            object.extend(value.map(|value| (key.to_owned(), value.clone())));
        }
        self.folder.write("config.json", Value::from(config).to_string());
        let weights = self.folder.0.join("model.safetensors");
        if let Some(change) = tensors {
            self.driven.tensors.changed(change).write(&weights);
        } else if !weights.exists() {
            self.driven.tensors.write(&weights);
        }
        let found = two_rows(&self.folder.0, &self.driven.tokens, self.driven.n_text);
        if tensors.is_some() {
            std::fs::remove_file(&weights).unwrap();
        }
        found
    }
}

fn near(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && relative_rms(a, b) <= TOLERANCE
}

/// What became of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The reference's numbers.
    Right,
    /// A refusal that names the culprit, where the reference has numbers.
    Refused,
    /// A refusal where the reference fails, or makes up what is missing.
    BothFail,
    /// Numbers where the reference fails: for a reason of [`lenient`].
    Lenient,
}

/// Whether Ember may load a case on which `transformers` fails.
fn lenient(bench: &Bench<'_>, case: &Value, rows: &[f32], base: &[f32]) -> bool {
    let set = &case["set"];
    // A null means the same as an absent key.
    let stripped = without_nulls(set);
    let mut remove = case["remove"].as_array().unwrap().clone();
    let gone = set.as_object().unwrap().keys().filter(|key| stripped.get(*key).is_none());
    remove.extend(gone.map(|key| Value::from(key.as_str())));
    let as_absent = stripped != *set
        && bench.run(&stripped, &remove.into(), case.get("tensors")).is_ok_and(|absent| near(rows, &absent));
    // A field without an effect on any result may have a value of any type, whatever its class expects.
    let field = &case["field"];
    let of_field = bench.driven.cases.iter().filter(|other| other["field"] == *field);
    let unread = of_field.filter(|other| other["expect"].is_u64()).count() == 0 && near(rows, base);
    // Classes tell integers and floats apart; JSON has numbers.
    let checks_type = case["error"].as_str().is_some_and(|e| e.contains("FieldValidationError"));
    let is_number = set.as_object().unwrap().values().all(Value::is_number);
    as_absent || unread || (checks_type && is_number)
}

/// The field of cases that change several.
const SEVERAL: &str = "several";

/// Fields whose treatment the numbers do not show: the class, and what the page says.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("eos_token_id", "honoured", "honoured: a generation ends with it"),
    ("quantization_config", "refused", "refused where it is not null, but for the MXFP4 of gpt-oss"),
];

/// What Ember does about a field with these outcomes, each with whether the result differs from the unchanged folder's.
fn treatment(outcomes: &[(bool, Outcome)]) -> &'static str {
    let count = |differs: bool, which: Outcome| outcomes.iter().filter(|o| **o == (differs, which)).count();
    let refused = count(true, Outcome::Refused) + count(false, Outcome::Refused) > 0;
    match (count(true, Outcome::Right), count(true, Outcome::Refused), count(false, Outcome::Right)) {
        (0, 0, 0) => "tensors",
        (0, 0, _) if refused => "no effect, or refused",
        (0, 0, _) => "no effect",
        (0, ..) => "refused",
        _ if refused => "honoured, or refused",
        _ => "honoured",
    }
}

/// The page about all fields.
fn page(
    fields: &BTreeMap<(String, &'static str), BTreeSet<String>>,
    model_types: &[String],
    [right, refused, fail, lenient]: [usize; 4],
) -> String {
    let mut rows = String::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for ((field, treatment), types) in fields {
        let elsewhere = ELSEWHERE.iter().find(|(name, ..)| name == field);
        *counts.entry(elsewhere.map_or(*treatment, |(_, counted, _)| counted)).or_default() += types.len();
        let types = types.iter().map(|t| format!("`{t}`")).collect::<Vec<_>>().join(", ");
        let treatment = elsewhere.map_or(*treatment, |(.., what)| what);
        writeln!(rows, "| `{field}` | {treatment} | {types} |").unwrap();
    }
    let n = |treatment: &str| counts.get(treatment).copied().unwrap_or(0);
    let all: usize = counts.values().sum();
    format!(
        "# Fields of `config.json`\n\n\
         This page lists each field of the configuration classes of the {} model types, and says what Ember does about it.\n\
         `tests/it/hf_fields.rs` writes it (`EMBER_BLESS=1`) from experiments: `tests/oracle/hf_fields.py` drove every field through `transformers`, absent, \
         null, changed and\nbeside fields that contradict it. The test fails where Ember gives other numbers, and \
         `make test-fields` fails where a class of\n`transformers` has a field that is not here.\n\n\
         | treatment | fields | meaning |\n|---|---|---|\n\
         | honoured | {} | every value gives the numbers of `transformers` |\n\
         | honoured, or refused | {} | some values do; Ember refuses the others, and the error names the field |\n\
         | refused | {} | Ember refuses every value that changes the result, and the error names the field |\n\
         | no effect | {} | no value changes the result |\n\
         | no effect, or refused | {} | no value changes the result, and Ember refuses some |\n\
         | tensors | {} | the tensors decide it: any other value is an error in both |\n\n\
         The {all} fields were driven in {} cases. Ember gives the reference's numbers in {right} and refuses {refused} by \
         name. In {fail}\n`transformers` fails or makes tensors up, and Ember refuses. In {lenient} `transformers` fails and Ember \
         loads the folder: a `null` counts\nas an absent key, an integer stands for a float, and Ember does not look at fields \
         without effect.\n\n\
         A name with `+decoder` stands for the class with a decoder. The name without it stands for the class of the encoder then.\n\
         `falcon+two_norms` stands for the larger models of Falcon.\n\n\
         | field | treatment | model types |\n|---|---|---|\n{rows}",
        known(model_types).len(),
        n("honoured"),
        n("honoured, or refused"),
        n("refused"),
        n("no effect"),
        n("no effect, or refused"),
        n("tensors"),
        right + refused + fail + lenient,
    )
}

/// What became of the cases of a model type.
#[derive(Default)]
struct Results {
    outcomes: BTreeMap<String, Vec<(bool, Outcome)>>,
    total: [usize; 4],
    wrong: Vec<String>,
}

/// Runs the cases of a model type.
fn results(model_type: &str) -> Results {
    let driven = Driven::read(model_type);
    let bench = Bench { driven: &driven, folder: TempFolder::new(&format!("fields-{model_type}")) };
    let base = bench.run(&Map::new().into(), &Vec::<Value>::new().into(), None).unwrap();
    let mut results = Results::default();
    for case in &driven.cases {
        let found = bench.run(&case["set"], &case["remove"], case.get("tensors"));
        let expected = match &case["expect"] {
            Value::String(kind) if kind == "base" => Some(&*base),
            Value::String(_) => None,
            index => Some(driven.rows(index.as_u64().unwrap())),
        };
        let outcome = match (expected, found) {
            (Some(expected), Ok(rows)) if near(&rows, expected) => Ok(Outcome::Right),
            (Some(expected), Ok(rows)) => Err(format!("is off by {:.1e}", relative_rms(&rows, expected))),
            (Some(_), Err(sentence)) => {
                match culprits(case).iter().any(|name| sentence.contains(name.as_str())) {
                    true => Ok(Outcome::Refused),
                    false => Err(format!("is refused without a name: {sentence}")),
                }
            }
            (None, Err(_)) => Ok(Outcome::BothFail),
            (None, Ok(rows)) if lenient(&bench, case, &rows, &base) => Ok(Outcome::Lenient),
            (None, Ok(_)) => Err("loads".to_owned()),
        };
        match outcome {
            Ok(outcome) => {
                results.total[outcome as usize] += 1;
                let field = case["field"].as_str().unwrap().to_owned();
                results.outcomes.entry(field).or_default().push((case["expect"].is_u64(), outcome));
            }
            Err(why) => results.wrong.push(format!("{model_type} {why}: {case}")),
        }
    }
    println!("{model_type:12} {} cases, {} wrong", driven.cases.len(), results.wrong.len());
    results
}

/// [`results`] of several model types, on as many threads as there are processors.
fn all_results(model_types: &[String]) -> Vec<Results> {
    let next = AtomicUsize::new(0);
    let work = || {
        let taken = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let own = taken.map_while(|i| Some((i, model_types.get(i)?)));
        own.map(|(i, model_type)| (i, results(model_type))).collect::<Vec<_>>()
    };
    let n_threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut all: Vec<(usize, Results)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, results)| results).collect()
}

#[test]
fn fields_give_the_reference_numbers_or_a_refusal_that_names_them() {
    let mut model_types = model_types();
    assert!(known(&model_types) == hf::known().collect(), "every model type was driven");
    let some = std::env::var("EMBER_MODEL_TYPES").ok();
    if let Some(some) = &some {
        model_types.retain(|model_type| some.split(',').any(|name| name == model_type));
    }
    let mut wrong = Vec::new();
    let mut fields: BTreeMap<(String, &'static str), BTreeSet<String>> = BTreeMap::new();
    let mut total = [0; 4];
    for (model_type, results) in model_types.iter().zip(all_results(&model_types)) {
        for (field, outcomes) in results.outcomes.iter().filter(|(field, _)| *field != SEVERAL) {
            let types = fields.entry((field.clone(), treatment(outcomes))).or_default();
            types.insert(model_type.clone());
        }
        wrong.extend(results.wrong);
        (0..4).for_each(|i| total[i] += results.total[i]);
    }
    println!(
        "{} right, {} refused by name, {} where both fail, {} lenient",
        total[0], total[1], total[2], total[3]
    );
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
    assert!(total[0] > 4 * total[1] && total[0] > 100 * model_types.len() / 3, "{total:?}");
    if some.is_some() {
        return;
    }
    let page = page(&fields, &model_types, total);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/folder-fields.md");
    if std::env::var_os("EMBER_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let same = std::fs::read_to_string(&path).is_ok_and(|found| found == page);
    assert!(same, "docs/folder-fields.md is not what the experiment gives");
}
