//! Any `config.json` and safetensors file are a model or are refused, and what loads runs.
//!
//! The input is `config.json`, then the safetensors file, with a NUL between them. An input that begins with a number
//! below that of `FOLDERS` is a real folder instead, and the rest changes it: values of keys, the header of the
//! safetensors file.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arbitrary::{Result, Unstructured};
use ember::model::LoadedModel;
use serde_json::{Map, Value};

use super::edit::NUMBERS;
use super::model;

macro_rules! folders {
    ($($name:literal),* $(,)?) => {
        [$((
            include_bytes!(concat!("../../tests/fixtures/hf/", $name, "/config.json")),
            include_bytes!(concat!("../../tests/fixtures/hf/", $name, "/model.safetensors")),
        )),*]
    };
}

/// `config.json` and `model.safetensors` of a model of each kind.
const FOLDERS: [(&[u8], &[u8]); 28] = folders![
    "bert",
    "gemma",
    "gemma2",
    "gemma3-f16",
    "gpt2-untied",
    "gptneox-sequential",
    "granite",
    "llama-moe-4-2",
    "llama-window",
    "llama-yarn",
    "nomic-bert",
    "olmo2",
    "phi2",
    "phi3-longrope-short",
    "qwen2-bf16",
    "qwen2moe-6-2",
    "qwen3moe-8-2",
    "smollm3",
    "stablelm-parallel-qknorm",
    "starcoder2-window",
    "deepseek2-sigmoid",
    "deepseek2-v3",
    "gemma4-experts",
    "gpt-oss-mxfp4",
    "granitehybrid",
    "lfm2moe-7-3",
    "nemotron-h-experts",
    "qwen3vlmoe-7-3",
];

/// Bytes of the header's length, with which a file begins.
const N_LEN: usize = 8;

/// Writes the folder and loads it.
pub fn run(bytes: &[u8]) {
    match bytes.split_first() {
        Some((&which, rest)) if usize::from(which) < FOLDERS.len() => {
            let (config, weights) = FOLDERS[usize::from(which)];
            let mut u = Unstructured::new(rest);
            let how = u.arbitrary().unwrap_or(0);
            let (config, weights) = edited(config, weights, &mut u);
            load(&config, &weights, how);
        }
        _ => {
            let [config, weights] = super::parts(bytes);
            load(config, weights, weights.len() as u8);
        }
    }
}

/// A folder of this process, which every input is written to anew.
fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("ember-fuzz-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for temporary files");
        folder
    })
}

fn load(config: &[u8], weights: &[u8], how: u8) {
    let folder = folder();
    fs::write(folder.join("config.json"), config).expect("space on the disk");
    fs::write(folder.join("model.safetensors"), weights).expect("space on the disk");
    match LoadedModel::open(folder, &model::options(how)) {
        Ok(model) => model::exercise(&Arc::new(model), how),
        Err(e) => assert!(e.message().starts_with(&folder.display().to_string()), "{e}"),
    }
}

/// The two files as `u` changes them.
fn edited(config: &[u8], weights: &[u8], u: &mut Unstructured<'_>) -> (Vec<u8>, Vec<u8>) {
    let object = |bytes: &[u8]| serde_json::from_slice::<Map<String, Value>>(bytes).expect("a fixture");
    let (len, rest) = weights.split_first_chunk::<N_LEN>().expect("a fixture");
    let (header, data) = rest.split_at(u64::from_le_bytes(*len) as usize);
    let (mut config, mut header, mut data) = (object(config), object(header), data.to_vec());
    // Too little input ends the changes, which is fine.
    let _ = edit(&mut config, &mut header, &mut data, u);
    let header = serde_json::to_vec(&header).expect("JSON");
    let weights = [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat();
    (serde_json::to_vec(&config).expect("JSON"), weights)
}

fn edit(
    config: &mut Map<String, Value>,
    header: &mut Map<String, Value>,
    data: &mut Vec<u8>,
    u: &mut Unstructured<'_>,
) -> Result<()> {
    while !u.is_empty() {
        match u.int_in_range(0..=7u8)? {
            0..=3 => change(config, u)?,
            4 => {
                // A tensor's type, shape or offsets.
                let at = u.choose_index(header.len().max(1))?;
                if let Some(Value::Object(tensor)) = header.values_mut().nth(at) {
                    change(tensor, u)?;
                }
            }
            5 => {
                let at = u.choose_index(header.len().max(1))?;
                if let Some(name) = header.keys().nth(at).cloned() {
                    header.remove(&name);
                }
            }
            6 => data.truncate(usize::from(u.arbitrary::<u16>()?)),
            _ => {
                let at = usize::from(u.arbitrary::<u16>()?) * 4;
                let bytes: [u8; 4] = u.arbitrary()?;
                if let Some(to) = data.get_mut(at..at + 4) {
                    to.copy_from_slice(&bytes);
                }
            }
        }
    }
    Ok(())
}

/// Removes a key or gives it another value.
fn change(object: &mut Map<String, Value>, u: &mut Unstructured<'_>) -> Result<()> {
    let at = u.choose_index(object.len().max(1))?;
    let Some(key) = object.keys().nth(at).cloned() else { return Ok(()) };
    let number = |u: &mut Unstructured<'_>| u.choose(&NUMBERS).map(|&n| Value::from(n));
    let value = match u.int_in_range(0..=8u8)? {
        0 => {
            object.remove(&key);
            return Ok(());
        }
        1..=3 => number(u)?,
        4 => Value::from(f64::from(u.arbitrary::<f32>()?)),
        5 => Value::from(u.arbitrary::<&str>()?),
        6 => Value::Array(vec![number(u)?, number(u)?]),
        7 => [Value::Null, Value::Bool(true), Value::Object(Map::new()), Value::Array(Vec::new())]
            [u.choose_index(4)?]
        .clone(),
        _ => {
            // The value of another key.
            let other = u.choose_index(object.len())?;
            object.values().nth(other).cloned().unwrap_or_default()
        }
    };
    object.insert(key, value);
    Ok(())
}
