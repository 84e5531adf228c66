//! The sampler that a model's file proposes: the keys `general.sampling.*` of a GGUF file, read as llama.cpp's programs do, and the
//! `generation_config.json` of a folder, as `generate` of `transformers` does.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::infill;
use crate::error::{Error, Result, quoted, shortened};
use crate::gguf::{Metadata, Sampling, Value};
use crate::model::LoadedModel;
use crate::sampler::{Penalties, Sampler, Stage};

const PREFIX: &str = "general.sampling.";
const KNOWN: [&str; 12] = [
    "sequence",
    "top_k",
    "top_p",
    "min_p",
    "xtc_probability",
    "xtc_threshold",
    "temp",
    "penalty_last_n",
    "penalty_repeat",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
];
/// The order in which llama.cpp applies its stages where the file has none.
const SEQUENCE: &str = "penalties;top_k;top_p;min_p;xtc;temperature";
/// The most tokens that penalties look back at.
const MOST_BACK: usize = 1 << 20;
/// How many names a warning has.
const SHOWN: usize = 8;

/// What `model`'s file proposes.
///
/// # Errors
/// `NotFound` where it proposes nothing; `Format` for a value that is wrong; `Unsupported` for a proposal that Ember cannot follow.
pub fn proposed_sampler(model: &LoadedModel, seed: u64) -> Result<Sampler> {
    let meta = model.gguf().metadata();
    let has_keys = meta.iter().any(|(key, _)| key.starts_with(PREFIX));
    let stages = match &model.gguf().further().sampling {
        _ if has_keys => of_keys(model, meta),
        Some(sampling) => sampling.clone().and_then(|sampling| of_folder(model, sampling)),
        None => Err(Error::NotFound(
            "the file proposes no sampling: it has no keys \"general.sampling.*\", and there is no generation_config.json".into(),
        )),
    };
    let build = || -> Result<Sampler> {
        let mut sampler = Sampler::new(seed);
        for (name, stage) in stages? {
            sampler.push(stage).map_err(|e| match e {
                Error::InvalidArgument(sentence) => {
                    Error::Format(format!("the proposal of {name}: {sentence}"))
                }
                other => other,
            })?;
        }
        Ok(sampler)
    };
    build().map_err(|e| e.within(model.name()))
}

/// Names that are left out.
fn warn(model: &LoadedModel, what: &str, names: &[&str]) {
    if names.is_empty() {
        return;
    }
    let shown: Vec<String> =
        names.iter().take(SHOWN).map(|name| shortened(quoted(name.as_bytes()))).collect();
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    log::warn!("{}: {what}: {}{more}", model.name(), shown.join(", "));
}

/// A number of any type.
fn number(meta: &Metadata, name: &str) -> Result<Option<f64>> {
    let key = format!("{PREFIX}{name}");
    match meta.get(&key) {
        None => Ok(None),
        Some(Value::F32(x)) => Ok(Some(f64::from(*x))),
        Some(Value::F64(x)) => Ok(Some(*x)),
        Some(other) => other.integer().map(|n| Some(n as f64)).ok_or_else(|| {
            Error::Format(format!("the key {key:?} is of type {}, not a number", other.value_type().name()))
        }),
    }
}

/// How far penalties look back: all that a context can hold where there is no number.
fn look_back(model: &LoadedModel, n: Option<f64>) -> usize {
    match n {
        Some(n) if n >= 0.0 => (n as usize).min(MOST_BACK),
        _ => model.info().n_ctx_train.clamp(1, MOST_BACK),
    }
}

fn of_keys(model: &LoadedModel, meta: &Metadata) -> Result<Vec<(String, Stage)>> {
    let names = meta.iter().filter_map(|(key, _)| Some((key, key.strip_prefix(PREFIX)?)));
    let unknown: Vec<&str> = names.filter(|(_, name)| !KNOWN.contains(name)).map(|(key, _)| key).collect();
    warn(model, "these proposals for sampling are not known and ignored", &unknown);
    let value = |name: &str, default: f32| number(meta, name).map(|x| x.map_or(default, |x| x as f32));
    let temperature = number(meta, "temp")?.map(|t| Stage::Temperature((t as f32).max(0.0)));
    let (tau, eta) = (value("mirostat_tau", 5.0)?, value("mirostat_eta", 0.1)?);
    let mirostat = match number(meta, "mirostat")? {
        None | Some(0.0) => None,
        Some(1.0) => Some(Stage::Mirostat1 { tau, eta, m: 100 }),
        Some(2.0) => Some(Stage::Mirostat { tau, eta }),
        Some(other) => {
            return Err(Error::Format(format!(
                "the key \"{PREFIX}mirostat\" is {other}, expected 0, 1 or 2"
            )));
        }
    };
    if let Some(mirostat) = mirostat {
        let others = KNOWN.iter().filter(|name| !name.starts_with("mirostat") && **name != "temp");
        let others: Vec<&str> =
            others.filter(|name| meta.get(&format!("{PREFIX}{name}")).is_some()).copied().collect();
        warn(model, "beside Mirostat these proposals for sampling have no effect", &others);
        let stages = temperature.into_iter().chain([mirostat]);
        return Ok(stages.map(|stage| ("mirostat".into(), stage)).collect());
    }
    let sequence = meta.str(&format!("{PREFIX}sequence"))?.unwrap_or(SEQUENCE);
    let (mut stages, mut left_out) = (Vec::new(), Vec::new());
    for name in sequence.split(';').filter(|name| !name.is_empty()) {
        let stage = match &*name.to_ascii_lowercase().replace(['-', '_'], "") {
            "penalties" => value("penalty_repeat", 1.0)?.ne(&1.0).then_some(Stage::Penalties(Penalties {
                last_n: look_back(model, Some(number(meta, "penalty_last_n")?.unwrap_or(64.0))),
                repeat: value("penalty_repeat", 1.0)?,
                frequency: 0.0,
                presence: 0.0,
            })),
            "topk" => number(meta, "top_k")?.map(|k| Stage::TopK(k as usize)),
            "topp" | "nucleus" => number(meta, "top_p")?.map(|p| Stage::TopP(p as f32)),
            "minp" => number(meta, "min_p")?.map(|p| Stage::MinP(p as f32)),
            "xtc" => {
                let (probability, threshold) = (value("xtc_probability", 0.0)?, value("xtc_threshold", 0.1)?);
                (probability > 0.0).then_some(Stage::Xtc { probability, threshold })
            }
            "temperature" | "temp" => temperature.clone(),
            "infill" => Some(infill(Arc::clone(model.shared_tokenizer()?))?),
            _ => {
                // Those of llama.cpp's that have no keys do nothing unless a program sets them up.
                left_out.push(name);
                None
            }
        };
        stages.extend(stage.map(|stage| (name.to_owned(), stage)));
    }
    warn(
        model,
        "these stages of the proposed sequence have no numbers in the file and are left out",
        &left_out,
    );
    Ok(stages)
}

fn of_folder(model: &LoadedModel, sampling: Sampling) -> Result<Vec<(String, Stage)>> {
    let Sampling { stages: steps, suppressed, ignored } = sampling;
    let ignored: Vec<&str> = ignored.iter().map(|name| &**name).collect();
    warn(model, "these fields of generation_config.json have no effect on the sampler", &ignored);
    let mut stages = Vec::new();
    for (name, x) in steps {
        let stage = match name {
            "repetition_penalty" => Stage::Penalties(Penalties {
                last_n: look_back(model, None),
                repeat: x as f32,
                frequency: 0.0,
                presence: 0.0,
            }),
            "temperature" => Stage::Temperature(x as f32),
            "top_k" => Stage::TopK(x as usize),
            "top_p" => Stage::TopP(x as f32),
            "min_p" => Stage::MinP(x as f32),
            _ => Stage::TypicalP(x as f32),
        };
        let changes = !matches!(
            stage,
            Stage::Temperature(1.0) | Stage::TopP(1.0) | Stage::MinP(0.0) | Stage::TypicalP(1.0)
        );
        stages.extend(changes.then(|| (name.to_owned(), stage)));
    }
    if !suppressed.is_empty() {
        stages.insert(0, ("suppress_tokens".into(), Stage::Deny(suppressed)));
    }
    Ok(stages)
}
