//! `ember inspect`: what a model file is, and whether it runs.
#![forbid(unsafe_code)]

use std::path::Path;

use serde_json::{Value, json};

use crate::failure::{Failure, Result};
use crate::library::{CancelToken, Model, inspect, memory};
use crate::{models, output};

/// Characters of a value that are printed without --json.
const SHORT: usize = 90;

#[derive(clap::Args)]
pub struct InspectArgs {
    /// GGUF file, Hugging Face folder, or OWNER/NAME that `ember pull` fetched
    model: String,

    /// Tokens of context of the memory estimate; 0: what the model was trained on, 4096 at most
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    ctx_size: u32,

    /// Prints the chat template, and nothing else
    #[arg(long, conflicts_with = "json")]
    template: bool,

    /// Prints JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &InspectArgs) -> Result<()> {
    let path = models::find(&args.model)?;
    if args.template {
        return output::print(&Model::load_unpacked(&path, &CancelToken::default())?.chat_template()?);
    }
    let text = inspect(&path)?;
    let mut about: Value =
        serde_json::from_str(&text).map_err(|e| Failure::said(format!("the library's JSON: {e}")))?;
    if about["supported"] == true {
        let m = memory(&path, args.ctx_size)?;
        let bytes = json!({ "file": m.file, "weights": m.weights, "kv": m.kv, "workspace": m.workspace });
        about["memory"] = bytes;
    }
    if args.json {
        return output::line(format_args!("{about}"));
    }
    describe(&path, &about, args.ctx_size)
}

fn tensors(n: &Value) -> String {
    format!("{n} tensor{}", if n.as_u64() == Some(1) { "" } else { "s" })
}

fn describe(path: &Path, about: &Value, n_ctx: u32) -> Result<()> {
    let row = |name: &str, value: String| output::line(format_args!("{name:<14} {value}"));
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let size = |value: &Value| output::size(number(value));
    row("path", path.display().to_string())?;
    for name in ["name", "architecture", "tokenizer"] {
        if let Some(text) = about[name].as_str() {
            row(name, output::shown(text))?;
        }
    }
    // A folder that Ember refuses is not read as far as its tensors.
    if about["n_tensors"].is_u64() {
        let n = tensors(&about["n_tensors"]);
        row(
            "size",
            format!("{}, {n}, {}", size(&about["file_size"]), parameters(number(&about["n_params"]))),
        )?;
    }
    for (name, sums) in about["types"].as_object().into_iter().flatten() {
        row("", format!("{name}: {}, {}", tensors(&sums["tensors"]), size(&sums["bytes"])))?;
    }
    let template = if about["chat_template"] == true { "yes (--template prints it)" } else { "none" };
    row("chat template", template.into())?;
    match about["reason"].as_str() {
        Some(reason) => row("supported", format!("no: {reason}"))?,
        None => row("supported", "yes".into())?,
    }
    let d = &about["dimensions"];
    if d.is_object() {
        let kind =
            if d["causal"] == true { "generates text" } else { "an encoder, for embeddings and scores" };
        row("kind", kind.into())?;
        row(
            "dimensions",
            format!(
                "{} layers of width {}, feed-forward {}, {} heads of {} ({} for keys and values)",
                d["n_layer"], d["n_embd"], d["n_ff"], d["n_head"], d["head_dim"], d["n_head_kv"]
            ),
        )?;
        if number(&d["n_expert"]) > 0 {
            row("experts", format!("{}, of which a token takes {}", d["n_expert"], d["n_expert_used"]))?;
        }
        row("vocabulary", format!("{} tokens", d["n_vocab"]))?;
        row("trained on", format!("{} positions", d["n_ctx_train"]))?;
    }
    let m = &about["memory"];
    if m.is_object() {
        let own = number(&m["weights"]) + number(&m["kv"]) + number(&m["workspace"]);
        let tokens = match n_ctx {
            0 => number(&d["n_ctx_train"]).min(4096),
            n => u64::from(n),
        };
        row(
            "memory",
            format!(
                "{} for a context of {tokens} tokens: weights {}, keys and values {}, workspace {}",
                output::size(own),
                size(&m["weights"]),
                size(&m["kv"]),
                size(&m["workspace"])
            ),
        )?;
    }
    output::line(format_args!("\nmetadata"))?;
    for (key, value) in about["metadata"].as_object().into_iter().flatten() {
        output::line(format_args!("  {} = {}", output::shown(key), short(value)))?;
    }
    Ok(())
}

fn parameters(n: u64) -> String {
    match n {
        0..1_000_000 => format!("{n} parameters"),
        1_000_000..1_000_000_000 => format!("{:.1} million parameters", n as f64 / 1e6),
        _ => format!("{:.2} billion parameters", n as f64 / 1e9),
    }
}

/// A value on one line.
fn short(value: &Value) -> String {
    let text = match value {
        Value::String(text) => output::shown(text),
        Value::Object(map) if map.contains_key("length") => {
            format!("({}, length {})", map["type"].as_str().unwrap_or("text"), map["length"])
        }
        other => other.to_string(),
    };
    match text.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_short_and_harmless() {
        assert_eq!(short(&json!("a\nb\u{1b}")), "a\\nb\\u{1b}");
        assert_eq!(short(&json!({"type": "string", "length": 49152})), "(string, length 49152)");
        assert_eq!(short(&json!([1, 2.5])), "[1,2.5]");
        assert!(short(&json!("ü".repeat(500))).ends_with("… (500 characters)"));
    }
}
