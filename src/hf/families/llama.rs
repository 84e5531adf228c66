//! Llama, Mistral (which sees a window) and Mixtral (whose feed-forward is a mixture of experts).
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::hf::config::Config;
use crate::hf::family::{Family, Head, Keys, head_dim, rms_norm_sizes};
use crate::hf::layout::Change::{Same, Stack};
use crate::hf::names::{ENDS, GATED, INTERLEAVED_ATTENTION, MODEL, PRE_NORMS, ROTARY_BUFFERS};
use crate::hf::rope;

/// Llama and its relatives.
pub const FAMILIES: &[Family] = &[
    Family {
        model_type: "llama",
        architecture: "llama",
        prefixes: MODEL,
        names: &[ENDS, PRE_NORMS, INTERLEAVED_ATTENTION, GATED],
        ignored: ROTARY_BUFFERS,
        head: Head::UntiedByDefault,
        keys,
    },
    Family {
        model_type: "mistral",
        architecture: "llama",
        prefixes: MODEL,
        names: &[ENDS, PRE_NORMS, INTERLEAVED_ATTENTION, GATED],
        ignored: ROTARY_BUFFERS,
        head: Head::UntiedByDefault,
        keys: windowed,
    },
    Family {
        model_type: "mixtral",
        architecture: "llama",
        prefixes: MODEL,
        names: &[
            ENDS,
            PRE_NORMS,
            INTERLEAVED_ATTENTION,
            &[
                ("layers.{}.block_sparse_moe.gate", "blk.{}.ffn_gate_inp", Same),
                ("layers.{}.block_sparse_moe.experts.{}.w1", "blk.{}.ffn_gate_exps", Stack),
                ("layers.{}.block_sparse_moe.experts.{}.w2", "blk.{}.ffn_down_exps", Stack),
                ("layers.{}.block_sparse_moe.experts.{}.w3", "blk.{}.ffn_up_exps", Stack),
            ],
        ],
        ignored: ROTARY_BUFFERS,
        head: Head::UntiedByDefault,
        keys: mixture,
    },
];

/// The keys of a plain llama; other families that share its graph have them too.
pub fn keys(config: &Config<'_>, keys: &mut Keys) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    rms_norm_sizes(config, keys)?;
    keys.set("rope.dimension_count", head_dim(config)?);
    rope::write(config, keys)
}

fn windowed(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    keys(config, out)?;
    out.set_some("attention.sliding_window", config.u32(&["sliding_window"])?);
    Ok(())
}

fn mixture(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    windowed(config, out)?;
    out.set("expert_count", config.require_u32(&["num_local_experts"])?);
    out.set("expert_used_count", config.require_u32(&["num_experts_per_tok"])?);
    Ok(())
}
