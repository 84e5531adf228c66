//! `generation_config.json`: how the model's authors would choose tokens, as `generate` of `transformers` reads it.
#![forbid(unsafe_code)]

use super::config::{Config, ConfigFile};
use super::{Folder, GENERATION_CONFIG};
use crate::error::Result;
use crate::gguf::Sampling;

/// Fields that say how tokens are drawn, in the order in which `generate` applies them, with what it takes where they are absent.
/// Without sampling they have no effect.
const DRAWING: [(&str, f64); 5] =
    [("temperature", 1.0), ("top_k", 50.0), ("top_p", 1.0), ("min_p", 0.0), ("typical_p", 1.0)];

/// Fields that the choice of a token does not depend on: lengths, ends, caches, outputs, and what only other strategies read.
const OTHERS: [&str; 38] = [
    "max_length",
    "max_new_tokens",
    "early_stopping",
    "max_time",
    "use_cache",
    "cache_implementation",
    "cache_config",
    "max_cache_len",
    "return_legacy_cache",
    "length_penalty",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "output_logits",
    "return_dict_in_generate",
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "decoder_start_token_id",
    "is_assistant",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "assistant_confidence_threshold",
    "prompt_lookup_num_tokens",
    "max_matching_ngram_size",
    "assistant_early_exit",
    "assistant_lookbehind",
    "target_lookbehind",
    "compile_config",
    "disable_compile",
    "prefill_chunk_size",
    "low_memory",
    "transformers_version",
    "_from_model_config",
    "chat_format",
    "max_window_size",
    "trust_remote_code",
];

/// The proposal of the folder, if it has one.
pub(super) fn read(folder: &Folder<'_>) -> Option<Result<Sampling>> {
    let read = || sampling(&ConfigFile::read(folder, GENERATION_CONFIG)?.config());
    folder.has(GENERATION_CONFIG).then(read)
}

fn sampling(config: &Config<'_>) -> Result<Sampling> {
    let mut out = Sampling::default();
    let draws = config.bool("do_sample")?.unwrap_or(false);
    if let Some(penalty) = config.f64(&["repetition_penalty"])?.filter(|&penalty| penalty != 1.0) {
        out.stages.push(("repetition_penalty", penalty));
    }
    out.suppressed = config.tokens("suppress_tokens")?;
    for (name, default) in DRAWING {
        let value = config.f64(&[name])?;
        match draws {
            true => out.stages.push((name, value.unwrap_or(default))),
            false => out.ignored.extend(value.filter(|&value| value != default).map(|_| name.into())),
        }
    }
    if !draws {
        out.stages.push(("temperature", 0.0));
    }
    let known = |key: &str| {
        OTHERS.contains(&key)
            || DRAWING.iter().any(|(name, _)| *name == key)
            || ["do_sample", "repetition_penalty", "suppress_tokens"].contains(&key)
    };
    // Absent and neutral values change nothing.
    let acts = |key: &str| {
        let neutral = match key {
            "num_beams" | "num_beam_groups" | "guidance_scale" | "encoder_repetition_penalty" => "1",
            _ => "0",
        };
        config.shown(key).is_some_and(|shown| shown != "false" && shown.trim_end_matches(".0") != neutral)
    };
    out.ignored.extend(config.keys().filter(|key| !known(key) && acts(key)).map(Box::from));
    Ok(out)
}
