//! A binary of its own: it has the process's logger.
//!
//! What Ember does about every key that llama.cpp reads, in every architecture, found by experiment: Ember reads a key if it
//! misses it when its value has a wrong type. `docs/gguf-keys.md` must say the same; `EMBER_BLESS=1` writes it anew.
#![cfg(feature = "hf")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::fixture;
use ember::arch::{Rule, Unasked};
use ember::gguf::writer::Writer;
use ember::gguf::{Gguf, StringArray, Value};
use ember::model::{LoadOptions, LoadedModel};
use ember::tokenizer::Tokenizer;

/// What was logged, line by line.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Tests that look at it run one after the other.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Log;

impl log::Log for Log {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }
    fn log(&self, record: &log::Record<'_>) {
        if record.level() <= log::Level::Warn {
            LINES.lock().unwrap().push(record.args().to_string());
        }
    }
    fn flush(&self) {}
}

/// The result of `run`, and its warnings.
fn heard<T>(run: impl FnOnce() -> T) -> (T, Vec<String>) {
    let _ = log::set_logger(&Log);
    log::set_max_level(log::LevelFilter::Warn);
    LINES.lock().unwrap().clear();
    let result = run();
    (result, std::mem::take(&mut *LINES.lock().unwrap()))
}

/// The file with keys added, changed or left out.
fn with(file: &Gguf, keys: &BTreeMap<String, Option<Value>>) -> Vec<u8> {
    let mut writer = Writer::new();
    for (key, value) in file.metadata().iter().filter(|(key, _)| !keys.contains_key(*key)) {
        writer.set(key, value.clone());
    }
    for (key, value) in keys {
        if let Some(value) = value {
            writer.set(key, value.clone());
        }
    }
    for t in file.tensors() {
        writer.tensor(&t.name, t.ty, &t.dims, file.tensor_bytes(t).to_vec());
    }
    writer.to_bytes().unwrap()
}

/// Loads the file with these keys: the error's sentence, and the warnings.
fn load(file: &Gguf, keys: &BTreeMap<String, Option<Value>>) -> (Option<String>, Vec<String>) {
    let bytes = with(file, keys);
    let (model, lines) = heard(|| LoadedModel::from_bytes(&bytes, "keys.gguf"));
    (model.err().map(|e| e.message().to_owned()), lines)
}

fn one(key: &str, value: Value) -> BTreeMap<String, Option<Value>> {
    BTreeMap::from([(key.to_owned(), Some(value))])
}

/// A value of a wrong type.
fn wrong(key: &str) -> Value {
    if key.ends_with(".rope.scaling.type") { Value::Bool(true) } else { Value::from("?") }
}

/// Models of each architecture.
fn models() -> BTreeMap<String, Vec<Gguf>> {
    let mut models: BTreeMap<String, Vec<Gguf>> = BTreeMap::new();
    let dir = std::fs::read_dir(fixture("models")).unwrap();
    let mut paths: Vec<_> = dir.map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "gguf"));
    paths.retain(|p| !p.file_stem().unwrap().to_str().unwrap().contains("quant-"));
    paths.sort();
    for path in paths {
        let file = Gguf::open(&path).unwrap();
        let arch = file.metadata().require_str("general.architecture").unwrap().to_owned();
        if ember::arch::known().any(|known| known == arch) {
            models.entry(arch).or_default().push(file);
        }
    }
    assert_eq!(models.len(), ember::arch::known().count());
    models
}

/// Keys of `file`'s architecture that are read when `also` is set, too.
fn read_keys(file: &Gguf, arch: &str, also: &BTreeMap<String, Option<Value>>) -> BTreeSet<&'static str> {
    let name = |key: &str| key.replace("{arch}", arch);
    let all = || ember::arch::keys().iter().map(|(key, _)| *key).filter(|key| key.starts_with("{arch}."));
    let mut read = BTreeSet::new();
    loop {
        let mut keys = also.clone();
        for key in all().filter(|key| !read.contains(key) && !also.contains_key(&name(key))) {
            keys.insert(name(key), Some(wrong(key)));
        }
        let Some(message) = load(file, &keys).0 else { return read };
        let missed = all().find(|key| !read.contains(key) && message.contains(&format!("\"{}\"", name(key))));
        read.insert(missed.unwrap_or_else(|| panic!("{arch}: {message}")));
    }
}

/// A key, architectures, and a value for which they refuse the file.
type Refusal = (&'static str, &'static [&'static str], fn() -> Value);

/// Architectures whose tokens see the whole text.
const ENCODERS: &[&str] = &[
    "bert",
    "eurobert",
    "gemma-embedding",
    "jina-bert-v2",
    "jina-bert-v3",
    "modern-bert",
    "mpnet",
    "nomic-bert",
    "nomic-bert-moe",
    "t5encoder",
];

/// Keys that an architecture reads only to refuse the file.
const REFUSED_BY: [Refusal; 5] = [
    ("{arch}.rope.freq_base_swa", &["gemma2", "gpt-oss"], || Value::F32(77.0)),
    ("{arch}.deepstack_mapping", &["granite", "granite_swa", "granitemoe", "granitehybrid"], || {
        vec![0i32].into()
    }),
    ("{arch}.attention.clamp_kqv", &["mpt", "olmoe"], || Value::F32(8.0)),
    ("{arch}.attention.causal", ENCODERS, || Value::Bool(true)),
    ("{arch}.attention.causal", &["llama"], || Value::Bool(false)),
];

/// Keys that an architecture honours although others refuse them.
const HONOURED_BY: [(&str, &str); 8] = [
    ("bailingmoe2", "{arch}.expert_group_count"),
    ("dots1", "{arch}.expert_group_count"),
    ("glm4moe", "{arch}.expert_group_count"),
    ("spark2_5", "{arch}.rope.dimension_count_swa"),
    ("deepseek2", "{arch}.expert_group_count"),
    ("gemma4", "{arch}.attention.key_length_swa"),
    ("gemma4", "{arch}.attention.value_length_swa"),
    ("gemma4", "{arch}.rope.dimension_count_swa"),
];

/// Whether `arch` reads `key` only to refuse it.
fn is_refused_by(arch: &str, key: &str) -> bool {
    REFUSED_BY.iter().any(|(k, archs, _)| *k == key && archs.contains(&arch))
}

/// A value for which a key of the table is refused.
fn asking(rule: Rule) -> Value {
    match rule {
        Rule::Above(n) => Value::U32(n as u32 + 1),
        Rule::False => Value::Bool(false),
        Rule::OtherWidth | Rule::OtherHead | Rule::OtherRotary => Value::U32(7),
    }
}

#[test]
fn every_key_of_an_architecture_is_honoured_or_accounted_for() {
    let _turn = turn();
    let mut honoured: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (arch, files) in models() {
        let name = |key: &str| key.replace("{arch}", &arch);
        let mut read = BTreeSet::new();
        for file in &files {
            let (error, lines) = load(file, &BTreeMap::new());
            assert!(error.is_none() && lines.is_empty(), "{}: {error:?} {lines:?}", file.name());
            read.extend(read_keys(file, &arch, &BTreeMap::new()));
        }
        let yarn = [("rope.scaling.type", Value::from("yarn")), ("rope.scaling.factor", Value::F32(2.0))];
        let window = [("attention.sliding_window", Value::U32(8))];
        for set in [&yarn[..], &window[..]] {
            let set: BTreeMap<_, _> =
                set.iter().map(|(key, v)| (format!("{arch}.{key}"), Some(v.clone()))).collect();
            if load(&files[0], &set).0.is_none() {
                read.extend(read_keys(&files[0], &arch, &set));
            }
        }
        for (key, unasked) in ember::arch::keys().iter().filter(|(key, _)| key.starts_with("{arch}.")) {
            let what = format!("{arch}: {key}");
            for (_, _, value) in REFUSED_BY.iter().filter(|(k, archs, _)| k == key && archs.contains(&&*arch))
            {
                let message = load(&files[0], &one(&name(key), value())).0;
                assert!(
                    message.is_some_and(|m| m.contains(&name(key)) && m.contains("not supported")),
                    "{what}"
                );
            }
            if is_refused_by(&arch, key) {
                assert!(read.contains(key), "{what} goes unnoticed");
                continue;
            }
            match unasked {
                Unasked::Refused(..) if HONOURED_BY.contains(&(&arch, key)) && read.contains(key) => {
                    honoured.entry(key).or_default().push(arch.clone());
                }
                Unasked::Refused(rule, sentence) => {
                    assert!(read.contains(key), "{what} goes unnoticed");
                    let message = load(&files[0], &one(&name(key), asking(*rule))).0;
                    let refused = message.as_deref().is_some_and(|m| m.contains(sentence));
                    assert!(refused && message.unwrap().contains(&name(key)), "{what}");
                }
                _ if read.contains(key) => honoured.entry(key).or_default().push(arch.clone()),
                Unasked::Elsewhere(_) => panic!("{what} is read by nobody"),
                Unasked::Nothing(_) | Unasked::Warned => {
                    let (error, lines) = load(&files[0], &one(&name(key), wrong(key)));
                    assert!(error.is_none(), "{what}: {error:?}");
                    let warned = lines.len() == 1 && lines[0].contains(&format!("\"{}\"", name(key)));
                    assert_eq!(warned, matches!(unasked, Unasked::Warned), "{what}: {lines:?}");
                    assert!(warned || lines.is_empty(), "{what}: {lines:?}");
                }
            }
        }
    }
    let n_all = honoured.values().filter(|archs| archs.len() == ember::arch::known().count()).count();
    assert!(n_all >= 8 && honoured.len() > 35, "{n_all} {}", honoured.len());
    let page = page(&honoured);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/gguf-keys.md");
    if std::env::var_os("EMBER_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap() == page,
        "docs/gguf-keys.md is not what the experiment gives"
    );
}

/// The page about all keys.
fn page(honoured: &BTreeMap<&str, Vec<String>>) -> String {
    let n_archs = ember::arch::known().count();
    let mut counts = [0; 4];
    let mut rows = String::new();
    for (key, unasked) in ember::arch::keys() {
        let by = match honoured.get(key) {
            Some(archs) if archs.len() == n_archs => "all".to_owned(),
            Some(archs) => archs.join(", "),
            None => String::new(),
        };
        let (kind, otherwise) = match unasked {
            Unasked::Elsewhere(what) => (0, format!("honoured: {what}")),
            _ if by == "all" => (0, String::new()),
            Unasked::Nothing(why) => (1, format!("no effect on results: {why}")),
            Unasked::Warned => (2, "ignored, with a warning".to_owned()),
            Unasked::Refused(rule, what) => (3, format!("refused {}: {what}", when(*rule))),
        };
        let by_name = REFUSED_BY.iter().filter(|(k, _, _)| k == key).flat_map(|(_, archs, _)| archs.iter());
        let by_name = by_name.copied().collect::<Vec<_>>().join(", ");
        let otherwise = match by_name.is_empty() || matches!(unasked, Unasked::Refused(..)) {
            true => otherwise,
            false => format!("{otherwise}; refused by {by_name}"),
        };
        counts[if by.is_empty() { kind } else { 0 }] += 1;
        writeln!(rows, "| `{key}` | {by} | {otherwise} |").unwrap();
    }
    let [n_honoured, n_nothing, n_warned, n_refused] = counts;
    format!(
        "# Keys of GGUF files\n\n\
         This page lists each key that llama.cpp reads, and says what Ember does about it. `tests/gguf_keys.rs` writes this page (`EMBER_BLESS=1`) from \
         experiments with\nevery architecture, and fails where it says anything else; `tests/oracle/gguf_keys.py` fails where \
         llama.cpp has a key that is\nnot here. `{{arch}}` stands for the name of the architecture.\n\n\
         - *Honoured by* names the architectures that read the key. In files of others the last column holds.\n\
         - *Ignored, with a warning*: models of other architectures have a use for the key. One warning names all such keys of a \
         file.\n\
         - *Refused*: the key would change results, and the file is refused by its name.\n\
         - Keys `{{arch}}.…` and `tokenizer.ggml.…` that are not here are ignored, with one warning that names them.\n\n\
         The table has {} keys. At least one architecture honours {n_honoured} of them. {n_nothing} have no effect on results, \
         Ember warns of\n{n_warned}, and it refuses {n_refused}.\n\n\
         | key | honoured by | otherwise |\n|---|---|---|\n{rows}",
        ember::arch::keys().len(),
    )
}

/// When a rule refuses a file.
fn when(rule: Rule) -> String {
    match rule {
        Rule::Above(n) => format!("above {n}"),
        Rule::False => "when false, by encoders when true".into(),
        Rule::OtherWidth => "unless it is `{arch}.embedding_length`".into(),
        Rule::OtherHead => "unless it is the length of a head".into(),
        Rule::OtherRotary => "unless it is `{arch}.rope.dimension_count`".into(),
    }
}

#[test]
fn keys_that_nobody_knows_are_named_in_one_short_warning() {
    let _turn = turn();
    for (arch, files) in models() {
        let file = &files[0];
        let key = format!("{arch}.no_such_key");
        let (error, lines) = load(file, &one(&key, Value::U32(1)));
        assert!(error.is_none() && lines.len() == 1 && lines[0].contains(&format!("\"{key}\"")), "{lines:?}");
        // Keys that nobody defines.
        for key in ["general.no_such_key", "other.no_such_key", &format!("{arch}x.y"), &arch] {
            let (error, lines) = load(file, &one(key, Value::U32(1)));
            assert!(error.is_none() && lines.is_empty(), "{key}: {error:?} {lines:?}");
        }
        let many =
            (0..300).map(|i| (format!("{arch}.{i}{}", "é".repeat(2000)), Some(Value::U32(1)))).collect();
        let (error, lines) = load(file, &many);
        assert!(error.is_none() && lines.len() == 1, "{error:?}");
        assert!(lines[0].len() < 2000 && lines[0].ends_with(" and 292 more"), "{}", lines[0]);
    }
}

#[test]
fn values_that_ask_for_what_is_there_are_not_refused() {
    let _turn = turn();
    for (arch, files) in models() {
        let meta = files[0].metadata();
        let number = |name: &str| meta.u32(&format!("{arch}.{name}")).unwrap();
        let n_embd = number("embedding_length").unwrap();
        let heads = number("attention.head_count").unwrap();
        // Without attention there is one of no length to speak of.
        let head =
            n_embd.checked_div(heads).map_or(1, |usual| number("attention.key_length").unwrap_or(usual));
        let rotary = number("rope.dimension_count").unwrap_or(head);
        let of = |name: &str, other: u32| number(name).unwrap_or(other);
        for (name, value) in [
            ("embedding_length_out", n_embd),
            ("attention.key_length_swa", of("attention.key_length_swa", head)),
            ("attention.value_length_swa", of("attention.value_length_swa", head)),
            ("rope.dimension_count_swa", of("rope.dimension_count_swa", rotary)),
            ("nextn_predict_layers", 0),
            ("expert_group_count", 1),
        ] {
            let (error, lines) = load(&files[0], &one(&format!("{arch}.{name}"), Value::U32(value)));
            assert!(error.is_none() && lines.is_empty(), "{arch}.{name}: {error:?} {lines:?}");
        }
    }
    let gemma2 = &models()["gemma2"][0];
    let base = gemma2.metadata().f32("gemma2.rope.freq_base").unwrap().unwrap_or(10_000.0);
    let error = load(gemma2, &one("gemma2.rope.freq_base_swa", Value::F32(base + 1.0))).0.unwrap();
    assert!(error.contains("\"gemma2.rope.freq_base_swa\""), "{error}");
}

/// A small vocabulary of each kind.
fn vocabulary(kind: &str) -> BTreeMap<String, Value> {
    let mut keys = BTreeMap::new();
    let mut set = |key: &str, value: Value| drop(keys.insert(format!("tokenizer.ggml.{key}"), value));
    set("model", Value::from(kind));
    set("tokens", StringArray::copy(&["<unk>", "<a>", "<b>", "a"]).unwrap().into());
    set("token_type", vec![2i32, 3, 3, 1].into());
    set("scores", vec![0f32; 4].into());
    set("merges", StringArray::copy(&[] as &[&str]).unwrap().into());
    if kind == "gpt2" {
        set("pre", Value::from("gpt-2"));
    }
    set("unknown_token_id", Value::U32(0));
    set("eos_token_id", Value::U32(1));
    keys
}

fn tokenizer(keys: &BTreeMap<String, Value>) -> Result<Tokenizer, String> {
    let mut writer = Writer::new();
    for (key, value) in keys {
        writer.set(key, value.clone());
    }
    let file = Gguf::from_bytes(&writer.to_bytes().unwrap(), "keys.gguf").unwrap();
    Tokenizer::from_gguf(file.metadata()).map_err(|e| e.message().to_owned())
}

#[test]
fn every_key_of_a_tokenizer_is_honoured_or_accounted_for() {
    let _turn = turn();
    let kinds = ["gpt2", "llama", "t5", "bert"];
    for kind in kinds {
        let (built, lines) = heard(|| tokenizer(&vocabulary(kind)));
        assert!(built.is_ok() && lines.is_empty(), "{kind}: {:?} {lines:?}", built.err());
    }
    let mut n = 0;
    for (key, unasked) in ember::arch::keys().iter().filter(|(key, _)| key.starts_with("tokenizer.")) {
        if *key == "tokenizer.ggml.token_type_count" {
            continue; // A model's: see the test of its tensor.
        }
        n += 1;
        let attempts = kinds.map(|kind| {
            let mut keys = vocabulary(kind);
            keys.insert((*key).to_owned(), Value::F32(0.5));
            heard(|| tokenizer(&keys).err())
        });
        let missed =
            attempts.iter().any(|(e, _)| e.as_ref().is_some_and(|e| e.contains(&format!("\"{key}\""))));
        let warned =
            attempts.iter().all(|(_, lines)| lines.len() == 1 && lines[0].contains(&format!("\"{key}\"")));
        match unasked {
            Unasked::Elsewhere(_) => assert!(missed, "{key}: {attempts:?}"),
            Unasked::Nothing(_) => assert!(
                attempts.iter().all(|(error, lines)| error.is_none() && lines.is_empty()),
                "{key}: {attempts:?}"
            ),
            Unasked::Warned => assert!(warned && !missed, "{key}: {attempts:?}"),
            Unasked::Refused(..) => panic!("{key}"),
        }
    }
    assert!(n > 30);
    for key in ["tokenizer.ggml.no_such_key", "tokenizer.ggml.tokens.more"] {
        let mut keys = vocabulary("gpt2");
        keys.insert(key.into(), Value::U32(0));
        let (built, lines) = heard(|| tokenizer(&keys));
        assert!(built.is_ok() && lines.len() == 1 && lines[0].contains(&format!("\"{key}\"")), "{lines:?}");
    }
}

#[test]
fn tokens_that_code_models_end_files_with_are_named_by_keys() {
    let _turn = turn();
    for name in ["fim_pad", "fim_rep", "fim_sep"] {
        let mut keys = vocabulary("gpt2");
        assert!(!tokenizer(&keys).unwrap().is_eog(2));
        keys.insert(format!("tokenizer.ggml.{name}_token_id"), Value::U32(2));
        assert!(tokenizer(&keys).unwrap().is_eog(2), "{name}");
    }
}

#[test]
fn keys_of_the_file_itself_are_read() {
    let _turn = turn();
    let file = &models()["llama"][0];
    for (key, also) in [
        ("general.architecture", None),
        ("split.count", None),
        ("split.no", Some("split.count")),
        ("split.tensors.count", Some("split.count")),
    ] {
        let mut keys = one(key, Value::F32(0.5));
        if let Some(also) = also {
            keys.insert(also.to_owned(), Some(Value::U32(2)));
            keys.entry("split.no".into()).or_insert(Some(Value::U32(0)));
        }
        let bytes = with(file, &keys);
        let error = LoadedModel::from_bytes(&bytes, "keys.gguf").err();
        let message = error.unwrap_or_else(|| panic!("{key} goes unnoticed")).message().to_owned();
        assert!(message.contains(&format!("\"{key}\"")), "{key}: {message}");
    }
    for (key, unasked) in ember::arch::keys() {
        if key.starts_with("general.") && !matches!(unasked, Unasked::Elsewhere(_)) {
            let (error, lines) = load(file, &one(key, Value::F32(0.5)));
            assert!(error.is_none() && lines.is_empty(), "{key}: {error:?} {lines:?}");
        }
    }
}

/// A folder's keys get names that are known.
#[test]
fn folders_are_not_warned_of() {
    let _turn = turn();
    let mut n = 0;
    for folder in std::fs::read_dir(fixture("hf")).unwrap() {
        let folder = folder.unwrap().path();
        if !folder.join("config.json").exists() {
            continue;
        }
        n += 1;
        let (model, lines) = heard(|| LoadedModel::open(&folder, &LoadOptions::default()));
        let lines: Vec<_> = lines.iter().filter(|line| line.contains("these keys")).collect();
        assert!(model.is_ok() && lines.is_empty(), "{}: {:?} {lines:?}", folder.display(), model.err());
    }
    assert!(n > 15, "{n}");
}
