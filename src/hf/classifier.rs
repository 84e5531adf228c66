//! Classes that score texts (`…ForSequenceClassification`): their heads and what they call the outputs.
#![forbid(unsafe_code)]

use super::config::Config;
use super::family::{Keys, When};
use super::layout::Change;
use super::names::Meaning;
use crate::error::Result;
use crate::gguf::{Array, ScoreActivation, StringArray, Value};

const CLASS: &str = "ForSequenceClassification";
/// The tensors of heads, in GGUF's names: BERT's, which come after its pooler, RoBERTa's, and decoders'.
const TENSORS: [(&str, &str); 9] = [
    ("bert.pooler.dense.weight", "cls.weight"),
    ("bert.pooler.dense.bias", "cls.bias"),
    ("classifier.weight", "cls.output.weight"),
    ("classifier.bias", "cls.output.bias"),
    ("classifier.dense.weight", "cls.weight"),
    ("classifier.dense.bias", "cls.bias"),
    ("classifier.out_proj.weight", "cls.output.weight"),
    ("classifier.out_proj.bias", "cls.output.bias"),
    ("score.weight", "cls.output.weight"),
];

/// Writes the keys of a model that scores texts; what is done to its outputs, as the pipelines of `transformers` do. `None` for a model
/// of another class.
///
/// # Errors
/// `Format` for a value of the wrong type.
pub(super) fn read(config: &Config<'_>, keys: &mut Keys) -> Result<Option<ScoreActivation>> {
    let classes = config.strs("architectures")?.unwrap_or_default();
    if !classes.first().is_some_and(|class| class.ends_with(CLASS)) {
        return Ok(None);
    }
    keys.set("pooling_type", 4u32);
    let labels = labels(config)?;
    let n_labels = labels.len();
    if !labels.is_empty() {
        keys.set("classifier.output_labels", Value::Array(Array::String(StringArray::copy(&labels)?)));
    }
    Ok(Some(match config.str(&["problem_type"])? {
        Some("regression") => ScoreActivation::None,
        Some("multi_label_classification") => ScoreActivation::Sigmoid,
        None if n_labels == 1 => ScoreActivation::Sigmoid,
        Some("single_label_classification") if n_labels == 1 => ScoreActivation::Sigmoid,
        None | Some("single_label_classification") => ScoreActivation::Softmax,
        Some(other) => {
            let known = "regression, single_label_classification, multi_label_classification";
            return Err(config.unsupported("problem_type", &format!("{other:?}"), known));
        }
    }))
}

/// The labels by their numbers; `transformers` has two where the file names none.
fn labels(config: &Config<'_>) -> Result<Vec<String>> {
    let Some(names) = config.object(&["id2label"])? else {
        let n = config.u32(&["num_labels"])?.unwrap_or(2).min(1 << 16);
        return Ok((0..n).map(|i| format!("LABEL_{i}")).collect());
    };
    let mut labels: Vec<(u32, String)> = Vec::new();
    for key in names.keys() {
        let number =
            key.parse().map_err(|_| config.unsupported("id2label", &format!("{key:?}"), "numbers"))?;
        labels.push((number, names.str(&[key])?.unwrap_or_default().to_owned()));
    }
    labels.sort();
    Ok(labels.into_iter().map(|(_, label)| label).collect())
}

/// What becomes of a tensor of the head.
pub(super) fn meaning(name: &str) -> Option<Meaning> {
    let (_, gguf) = TENSORS.iter().find(|(stored, _)| *stored == name)?;
    Some(Meaning::Tensor { name: (*gguf).to_owned(), change: Change::Same, part: 0, when: When::Always })
}
