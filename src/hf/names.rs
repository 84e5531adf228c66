//! Names of tensors that many families share, and how a tensor's name is taken apart.
#![forbid(unsafe_code)]

use super::family::When::{self, If, Never};
use super::family::{Family, Name};
use super::layout::Change::{self, InterleaveKey, InterleaveQuery, Same, Stack};

/// What most decoders' tensor names begin with.
pub const MODEL: &[&str] = &["model."];
/// What the names of the language model begin with inside a model that sees.
pub const WRAPPED: &[&str] = &["model.language_model.", "model."];
/// Buffers that older checkpoints keep.
pub const ROTARY_BUFFERS: &[&str] = &["*.rotary_emb.inv_freq"];
/// The same, and the part that sees.
pub const VISUAL: &[&str] = &["*.rotary_emb.inv_freq", "visual.*"];

/// Embedding, final norm, output projection.
pub const ENDS: &[Name] =
    &[("embed_tokens", "token_embd", Same), ("norm", "output_norm", Same), ("lm_head", "output", Same)];
/// The norms before attention and feed-forward.
pub const PRE_NORMS: &[Name] = &[
    ("layers.{}.input_layernorm", "blk.{}.attn_norm", Same),
    ("layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", Same),
];
/// Attention whose rotary pairs are halves apart.
pub const ATTENTION: &[Name] = &[
    ("layers.{}.self_attn.q_proj", "blk.{}.attn_q", Same),
    ("layers.{}.self_attn.k_proj", "blk.{}.attn_k", Same),
    ("layers.{}.self_attn.v_proj", "blk.{}.attn_v", Same),
    ("layers.{}.self_attn.o_proj", "blk.{}.attn_output", Same),
];
/// Attention whose rotary pairs GGUF has next to each other.
pub const INTERLEAVED_ATTENTION: &[Name] = &[
    ("layers.{}.self_attn.q_proj", "blk.{}.attn_q", InterleaveQuery),
    ("layers.{}.self_attn.k_proj", "blk.{}.attn_k", InterleaveKey),
    ("layers.{}.self_attn.v_proj", "blk.{}.attn_v", Same),
    ("layers.{}.self_attn.o_proj", "blk.{}.attn_output", Same),
];
/// Norms of queries and keys.
pub const QK_NORMS: &[Name] = &[
    ("layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", Same),
    ("layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", Same),
];
/// A gated feed-forward.
pub const GATED: &[Name] = &[
    ("layers.{}.mlp.gate_proj", "blk.{}.ffn_gate", Same),
    ("layers.{}.mlp.up_proj", "blk.{}.ffn_up", Same),
    ("layers.{}.mlp.down_proj", "blk.{}.ffn_down", Same),
];
/// Experts under Mixtral's names.
pub const MIXTRAL_EXPERTS: &[Name] = &[
    ("layers.{}.block_sparse_moe.gate", "blk.{}.ffn_gate_inp", Same),
    ("layers.{}.block_sparse_moe.experts.{}.w1", "blk.{}.ffn_gate_exps", Stack),
    ("layers.{}.block_sparse_moe.experts.{}.w2", "blk.{}.ffn_down_exps", Stack),
    ("layers.{}.block_sparse_moe.experts.{}.w3", "blk.{}.ffn_up_exps", Stack),
];

/// No biases.
pub const NO_BIASES: &[(&str, When)] = &[("*.bias", Never)];
/// Biases in the attention only, where the configuration says so.
pub const ATTENTION_BIASES: &[(&str, When)] = &[
    ("*.gate_proj.bias", Never),
    ("*.up_proj.bias", Never),
    ("*.down_proj.bias", Never),
    ("*_proj.bias", If("attention_bias", false)),
    ("*.bias", Never),
];
/// Biases in the attention and in the feed-forward, where the configuration says so.
pub const LLAMA_BIASES: &[(&str, When)] = &[
    ("*.gate_proj.bias", If("mlp_bias", false)),
    ("*.up_proj.bias", If("mlp_bias", false)),
    ("*.down_proj.bias", If("mlp_bias", false)),
    ("*_proj.bias", If("attention_bias", false)),
    ("*.bias", Never),
];

/// How the names of parameters end that have no `.weight` or `.bias` after their name, and what GGUF puts there.
pub const BARE: &[(&str, &str)] = &[
    ("expert_bias", ".bias"),
    ("dt_bias", ".bias"),
    ("correct_output_scale", ".weight"),
    ("A_log", ""),
    ("gate_up_proj", ".weight"),
    ("down_proj", ".weight"),
    ("up_proj", ".weight"),
    ("D", ""),
    ("e_score_correction_bias", ".bias"),
    ("gate_up_proj_bias", ".bias"),
    ("down_proj_bias", ".bias"),
    ("gate_up_proj_blocks", ".weight"),
    ("gate_up_proj_scales", ".weight"),
    ("down_proj_blocks", ".weight"),
    ("down_proj_scales", ".weight"),
    ("sinks", ".weight"),
    ("layer_scalar", ".weight"),
    ("scale", ".scale"),
    ("per_expert_scale", ".scale"),
    ("w1", ".weight"),
    ("w2", ".weight"),
];

/// What a family makes of a tensor.
#[derive(Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It becomes the tensor `name`, or number `part` of the stack of that name.
    Tensor {
        /// GGUF's name.
        name: String,
        /// What becomes of its elements.
        change: Change,
        /// The second number in its name, an expert's or a head's; the only one where its GGUF name has none.
        part: usize,
        /// When the model has it.
        when: When,
    },
    /// The computation does not need it.
    Ignored,
}

/// A tensor's name without its numbers, as the names of a family are written.
struct Pattern {
    numbers: [usize; 2],
    n_numbers: usize,
    /// With each number replaced.
    all: String,
    /// With the first one replaced: of T5 the second number says which block of a layer it is.
    first: String,
    suffix: &'static str,
}

impl Pattern {
    /// That of `rest`, a name without its prefix.
    fn of(rest: &str) -> Option<Pattern> {
        let (stem, suffix) = rest.rsplit_once('.')?;
        // The first BERT checkpoints have the names of the norms' authors.
        let (stem, suffix) = match suffix {
            "weight" | "gamma" => (stem, ".weight"),
            "bias" | "beta" => (stem, ".bias"),
            _ => (rest, BARE.iter().find(|(end, _)| *end == suffix)?.1),
        };
        let mut numbers = [0; 2];
        let mut n_numbers = 0;
        let parts = stem.split('.').map(|part| match number(part) {
            Some(n) if n_numbers < numbers.len() => {
                numbers[n_numbers] = n;
                n_numbers += 1;
                "{}"
            }
            _ => part,
        });
        let all = parts.collect::<Vec<_>>().join(".");
        let first = stem.split('.').find(|part| number(part).is_some()).unwrap_or_default();
        let first = stem.replacen(&format!(".{first}."), ".{}.", 1);
        Some(Pattern { numbers, n_numbers, all, first, suffix })
    }

    fn is(&self, (hf, ..): &Name) -> bool {
        *hf == self.all || *hf == self.first
    }
}

/// A tensor's name without what those of its family begin with.
pub fn without_prefix<'a>(family: &Family, name: &'a str) -> &'a str {
    family.prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

/// What `family` makes of the tensor `name`; `None` when it does not know it.
pub fn meaning(family: &Family, name: &str) -> Option<Meaning> {
    let rest = without_prefix(family, name);
    if family.ignored.iter().any(|pattern| fits(pattern, rest)) {
        return Some(Meaning::Ignored);
    }
    let found = Pattern::of(rest)?;
    let Pattern { numbers, n_numbers, suffix, .. } = found;
    let (_, gguf, change) = family.names.iter().flat_map(|names| names.iter()).find(|name| found.is(name))?;
    let part = if n_numbers < 2 && !gguf.contains("{}") { numbers[0] } else { numbers[1] };
    let name = format!("{}{suffix}", gguf.replace("{}", &numbers[0].to_string()));
    let whole = format!("{}{suffix}", found.all);
    let condition = family.conditions.iter().find(|(pattern, _)| fits(pattern, &whole));
    let when = match condition {
        None => When::Always,
        Some((_, When::First)) if numbers[0] == 0 => When::Always,
        Some((_, When::First)) => When::Never,
        Some((_, when)) => *when,
    };
    Some(Meaning::Tensor { name, change: *change, part, when })
}

/// The lists of `family`'s names, those first of which a folder with the tensors `stored` has one: several may have a name for
/// the same tensor.
pub fn lists<'a>(family: &Family, stored: impl Iterator<Item = &'a String>) -> Vec<&'static [Name]> {
    let (mut there, mut others) = (Vec::new(), family.names.to_vec());
    for name in stored {
        let Some(found) = Pattern::of(without_prefix(family, name)) else { continue };
        if let Some(i) = others.iter().position(|names| names.iter().any(|name| found.is(name))) {
            there.push(others.remove(i));
        }
    }
    there.sort_by_key(|names| family.names.iter().position(|other| std::ptr::eq(*other, *names)));
    there.extend(others);
    there
}

/// The layer that the tensor `name` is of, whether `family` knows it or not.
pub fn layer(family: &Family, name: &str) -> Option<usize> {
    let rest = family.prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    number(rest.strip_prefix("layers.")?.split_once('.')?.0)
}

/// Whether `name` is `pattern`, begins with it (`a.*`) or ends with it (`*.a`).
pub fn fits(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (_, Some(start)) => name.starts_with(start),
        _ => name == pattern,
    }
}

/// A number as such names have it: digits without a leading zero, few enough.
fn number(text: &str) -> Option<usize> {
    let n: u32 = text.parse().ok()?;
    (n.to_string() == text).then_some(n as usize)
}
