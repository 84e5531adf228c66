//! What a GGUF name is called in the folder, for sentences about what does not fit.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use super::config::Config;
use super::family::{Family, Keys, N_CTX, Name};
use super::layout::Change;
use super::names::{self, BARE};
use crate::gguf::Origin;

/// Keys without their architecture, and what they are read from: the first that is there.
const SOURCES: &[(&str, &[&str])] = &[
    (
        "block_count",
        &[
            "num_hidden_layers",
            "n_layer",
            "n_layers",
            "num_layers",
            "layer_types",
            "layers_block_type",
            "hybrid_override_pattern",
        ],
    ),
    ("decoder_block_count", &["num_decoder_layers", "num_layers", "num_hidden_layers"]),
    ("context_length", N_CTX),
    ("context_length", &["max_seq_len", "seq_length"]),
    ("embedding_length", &["n_embed", "hidden_size", "n_embd", "dim", "d_model"]),
    (
        "feed_forward_length",
        &[
            "block_ff_dim",
            "intermediate_size_mlp",
            "intermediate_size",
            "n_inner",
            "hidden_dim",
            "d_ff",
            "expansion_ratio",
            "ffn_hidden_size",
        ],
    ),
    ("vocab_size", &["vocab_size"]),
    ("attention.head_count", &["num_attention_heads", "n_head", "n_heads", "num_heads"]),
    (
        "attention.head_count_kv",
        &["num_key_value_heads", "num_kv_heads", "layer_types", "full_attn_idxs", "layers_block_type"],
    ),
    (
        "attention.key_length",
        &["global_head_dim", "per_layer_config", "kv_lora_rank", "head_dim", "d_kv", "hidden_size"],
    ),
    (
        "attention.value_length",
        &["global_head_dim", "per_layer_config", "kv_lora_rank", "head_dim", "d_kv", "hidden_size"],
    ),
    ("attention.layer_norm_rms_epsilon", &["rms_norm_eps", "norm_eps", "layer_norm_epsilon"]),
    ("attention.layer_norm_epsilon", &["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"]),
    ("attention.scale", &["attention_multiplier", "query_pre_attn_scalar", "qk_nope_head_dim"]),
    ("attention.sliding_window", &["attention_chunk_size", "sliding_window", "local_attention"]),
    ("attention.key_length_swa", &["head_dim"]),
    ("attention.value_length_swa", &["head_dim"]),
    ("attention.shared_kv_layers", &["num_kv_shared_layers"]),
    ("embedding_length_per_layer_input", &["hidden_size_per_layer_input"]),
    ("altup.num_inputs", &["altup_num_inputs"]),
    ("altup.active_idx", &["altup_active_idx"]),
    ("activation_sparsity_scale", &["activation_sparsity_pattern"]),
    ("rope.dimension_count_swa", &["head_dim"]),
    ("attention.q_lora_rank", &["q_lora_rank"]),
    ("attention.kv_lora_rank", &["kv_lora_rank"]),
    ("attention.key_length_mla", &["qk_nope_head_dim"]),
    ("attention.value_length_mla", &["v_head_dim"]),
    ("expert_group_count", &["n_group"]),
    ("expert_group_used_count", &["topk_group"]),
    ("attention.temperature_scale", &["*.llama_4_scaling_beta", "attn_scale"]),
    ("attention.temperature_length", &["floor_scale"]),
    (
        "attention.sliding_window_pattern",
        &["layer_types", "sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"],
    ),
    ("attn_logit_softcapping", &["attn_logit_softcapping"]),
    ("final_logit_softcapping", &["final_logit_softcapping"]),
    ("embedding_scale", &["embedding_multiplier", "scale_emb"]),
    ("residual_scale", &["residual_multiplier", "scale_depth"]),
    ("logit_scale", &["logits_scaling", "logit_scale", "dim_model_base", "d_model"]),
    ("use_parallel_residual", &["use_parallel_residual"]),
    ("shortconv.l_cache", &["conv_L_cache"]),
    ("ssm.conv_kernel", &["linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel"]),
    ("ssm.state_size", &["linear_key_head_dim", "mamba_d_state", "ssm_state_size", "state_size"]),
    ("ssm.group_count", &["linear_num_key_heads", "mamba_n_groups", "n_groups"]),
    (
        "ssm.time_step_rank",
        &["linear_num_value_heads", "mamba_n_heads", "mamba_num_heads", "num_heads", "time_step_rank"],
    ),
    (
        "ssm.inner_size",
        &[
            "linear_value_head_dim",
            "linear_num_value_heads",
            "mamba_d_ssm",
            "mamba_expand",
            "mamba_n_heads",
            "mamba_head_dim",
            "intermediate_size",
            "expand",
        ],
    ),
    ("moe_latent_size", &["moe_latent_size"]),
    ("expert_shared_count", &["n_shared_experts", "moe_num_shared_experts", "num_shared_expert"]),
    ("rope.scaling.finetuned", &["position_embedding_type", "layer_types"]),
    ("attention.recurrent_layers", &["layer_types"]),
    ("full_attention_interval", &["full_attention_interval"]),
    ("expert_count", &["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"]),
    ("expert_used_count", &["num_experts_per_tok", "top_k_experts", "moe_top_k", "moe_topk", "moe_k"]),
    ("expert_feed_forward_length", &["moe_intermediate_size", "intermediate_size"]),
    (
        "expert_shared_feed_forward_length",
        &[
            "shared_expert_intermediate_size",
            "shared_intermediate_size",
            "moe_shared_expert_intermediate_size",
            "moe_intermediate_size",
            "intermediate_size",
        ],
    ),
    ("expert_weights_norm", &["norm_topk_prob"]),
    ("expert_weights_scale", &["routed_scaling_factor"]),
    (
        "leading_dense_block_count",
        &["num_dense_layers", "first_k_dense_replace", "mlp_layer_types", "moe_layer_start_index"],
    ),
    (
        "rope.dimension_count",
        &[
            "*.partial_rotary_factor",
            "partial_rotary_factor",
            "rotary_pct",
            "rotary_dim",
            "qk_rope_head_dim",
            "head_dim",
            "hidden_size",
            "n_embd",
        ],
    ),
    ("rope.freq_base", &["*.rope_theta", "rope_theta", "rotary_emb_base", "global_rope_theta"]),
    ("rope.freq_base_swa", &["rope_local_base_freq", "local_rope_theta", "*.rope_theta"]),
    ("hidden_activation", &["hidden_activation", "dense_act_fn", "feed_forward_proj"]),
    ("moe_every_n_layers", &["moe_every_n_layers"]),
    ("interleave_moe_layer_step", &["moe_layer_interval", "moe_layers", "interleave_moe_layer_step"]),
    ("attention.max_alibi_bias", &["attn_config.alibi_bias_max"]),
    ("attention.relative_buckets_count", &["relative_attention_num_buckets"]),
    ("attention.relative_max_distance", &["relative_attention_max_distance"]),
    ("rope.scaling.type", &["*.rope_type", "*.type"]),
    ("rope.scaling.factor", &["*.factor"]),
    (
        "rope.scaling.original_context_length",
        &[
            "*.original_max_position_embeddings",
            "original_max_position_embeddings",
            "max_position_embeddings",
        ],
    ),
    (
        "rope.scaling.attn_factor",
        &["*.attention_factor", "*.mscale", "*.factor", "original_max_position_embeddings"],
    ),
    ("rope.scaling.yarn_beta_fast", &["*.beta_fast"]),
    ("rope.scaling.yarn_beta_slow", &["*.beta_slow"]),
];
/// What a `*` above stands for: the objects of rotary positions, of all layers or of a kind.
const ROTARY: &[&str] = &[
    "rope_scaling",
    "rope_parameters.full_attention",
    "rope_parameters.sliding_attention",
    "rope_parameters",
];

/// The names of a folder.
#[derive(Debug)]
pub struct Names {
    /// The family's names, those in use first.
    lists: Vec<&'static [Name]>,
    /// What tensors' names begin with.
    prefix: &'static str,
    /// Keys, and what is said instead of them.
    keys: HashMap<Box<str>, String>,
    /// Tensors whose names are not the family's usual ones.
    unusual: HashMap<String, String>,
    /// Rows of the table of positions that are left out.
    skipped: usize,
}

impl Names {
    /// The names of what became `keys`, and of tensors in a folder that has those called `stored`.
    pub fn new<'a>(
        family: &'static Family,
        config: &Config<'_>,
        keys: &Keys,
        stored: impl Iterator<Item = &'a String> + Clone,
    ) -> Names {
        let lists = names::lists(family, stored.clone());
        let mut counts = vec![0; family.prefixes.len()];
        for name in stored {
            if let Some(i) = family.prefixes.iter().position(|prefix| name.starts_with(prefix)) {
                counts[i] += 1;
            }
        }
        let usual = (0..counts.len()).max_by_key(|&i| counts[i]).filter(|&i| counts[i] > 0);
        let prefix = usual.map_or("", |i| family.prefixes[i]);
        let said = keys.entries.iter().filter_map(|(key, _)| {
            let own = key.strip_prefix(keys.architecture())?.strip_prefix('.')?;
            Some((key.clone(), source(config, own)?))
        });
        let skipped = keys.skipped_positions;
        Names { lists, prefix, keys: said.collect(), unusual: HashMap::new(), skipped }
    }

    /// What tensors' names begin with.
    pub fn prefix(&self) -> &'static str {
        self.prefix
    }

    /// Learns that the tensor `gguf` is `stored` in the folder, or one of a stack of such.
    pub fn learn(&mut self, gguf: &str, stored: &str, change: Change) {
        if change != Change::Stack && self.tensor(gguf).is_none_or(|usual| usual != stored) {
            self.unusual.insert(gguf.to_owned(), stored.to_owned());
        }
    }

    /// Learns what a key of `keys` is called in the folder, if it was read from there.
    pub fn learn_key(&mut self, keys: &Keys, (key, called): (&str, Option<String>)) {
        if let Some(called) = called {
            self.keys.insert(format!("{}.{key}", keys.architecture()).into(), called);
        }
    }

    /// The name that the family's tensor has without its prefix, where a `*` stands for the number in a stack, and what
    /// becomes of it.
    fn usual(&self, gguf: &str) -> Option<(String, Change)> {
        let (stem, suffix) = match gguf.rsplit_once('.')? {
            (stem, "weight" | "bias" | "scale") => (stem, &gguf[stem.len()..]),
            _ => (gguf, ""),
        };
        self.lists.iter().flat_map(|names| names.iter()).find_map(|(own, pattern, change)| {
            let layer = match pattern.split_once("{}") {
                None => (stem == *pattern).then_some("*")?,
                Some((start, end)) => stem.strip_prefix(start)?.strip_suffix(end)?,
            };
            if layer != "*" && !layer.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            let name = own.replacen("{}", layer, 1).replacen("{}", "*", 1);
            // Of these only the tensors of all experts have no suffix; parts of a stack have one.
            let module = name.ends_with("_proj") && !name.contains(".experts.");
            let has_suffix = *change == Change::Stack || module;
            let end = name.rsplit('.').next().filter(|_| !has_suffix);
            match BARE.iter().find(|(bare, _)| end == Some(bare)) {
                None => Some((name + suffix, *change)),
                Some((_, put)) => (*put == suffix).then_some((name, *change)),
            }
        })
    }
}

impl Origin for Names {
    fn key(&self, key: &str) -> Option<String> {
        self.keys.get(key).cloned()
    }

    fn tensor(&self, name: &str) -> Option<String> {
        if let Some(stored) = self.unusual.get(name) {
            return Some(stored.clone());
        }
        let (own, _) = self.usual(name)?;
        // What most models call the output projection stands beside the rest.
        let prefix = if name.starts_with("output.") { "" } else { self.prefix };
        Some(format!("{prefix}{own}"))
    }

    fn shape(&self, name: &str, dims: &[usize]) -> Vec<usize> {
        let change = self.usual(name).map(|(_, change)| change);
        match (change, dims) {
            (Some(Change::Transpose), _) => dims.to_vec(),
            (
                Some(Change::TransposeEach | Change::TransposeUnless(_) | Change::TransposeEvenFirst),
                [n_in, n_out, n],
            ) => {
                vec![*n, *n_in, *n_out]
            }
            (Some(Change::Flatten), [n]) => vec![1, *n],
            (Some(Change::SkipRows), [n_cols, n]) => vec![n + self.skipped, *n_cols],
            (Some(Change::Squeeze), [len, n]) => vec![*n, 1, *len],
            _ => dims.iter().rev().copied().collect(),
        }
    }
}

/// What the key `own` was read from.
fn source(config: &Config<'_>, own: &str) -> Option<String> {
    let mut paths = SOURCES.iter().filter(|(key, _)| *key == own).flat_map(|(_, paths)| paths.iter());
    paths.find_map(|path| match path.strip_prefix("*.") {
        None => config.place(path),
        Some(rest) => ROTARY.iter().find_map(|rotary| config.place(&format!("{rotary}.{rest}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hf::names::{Meaning, meaning};

    /// Both ways through the names of every family.
    #[test]
    fn a_tensors_name_is_found_again() {
        for family in crate::hf::families::all() {
            for (own, _, change) in family.names.iter().flat_map(|names| names.iter()) {
                let stored = format!("{}{}.weight", family.prefixes[0], own.replace("{}", "7"));
                let Some(Meaning::Tensor { name, .. }) = meaning(family, &stored) else {
                    panic!("{}: {stored} has no meaning", family.model_type);
                };
                let prefix = family.prefixes[0];
                let lists = names::lists(family, std::iter::once(&stored));
                let mut names =
                    Names { lists, prefix, keys: HashMap::new(), unusual: HashMap::new(), skipped: 0 };
                names.learn(&name, &stored, *change);
                let found = names.tensor(&name).map(|found| found.replace('*', "7"));
                assert_eq!(found.as_deref(), Some(&*stored), "{}", family.model_type);
            }
        }
    }
}
