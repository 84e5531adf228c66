//! DeepSeek V2 and V3, and GLM-4.7-Flash: latent attention, and experts but for the first layers.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::hf::config::Config;
use crate::hf::family::When::{self, Always, If, Never};
use crate::hf::family::{Family, Head, Keys, N_HEAD, N_LAYER, Name, layer_kinds, plain_sizes, rms_norm_eps};
use crate::hf::layout::Change::{KeysValues, Same, Stack};
use crate::hf::names::{ENDS, GATED, MODEL, PRE_NORMS, ROTARY_BUFFERS};
use crate::hf::rope::{PART, Rotary, WHOLE_HEADS};

const NAMES: &[Name] = &[
    ("layers.{}.self_attn.q_proj", "blk.{}.attn_q", Same),
    ("layers.{}.self_attn.q_a_proj", "blk.{}.attn_q_a", Same),
    ("layers.{}.self_attn.q_a_layernorm", "blk.{}.attn_q_a_norm", Same),
    ("layers.{}.self_attn.q_b_proj", "blk.{}.attn_q_b", Same),
    ("layers.{}.self_attn.kv_a_proj_with_mqa", "blk.{}.attn_kv_a_mqa", Same),
    ("layers.{}.self_attn.kv_a_layernorm", "blk.{}.attn_kv_a_norm", Same),
    // What it becomes, and the two that it is cut into.
    ("layers.{}.self_attn.kv_b_proj", "blk.{}.attn_kv_b", KeysValues),
    ("layers.{}.self_attn.kv_b_proj", "blk.{}.attn_k_b", KeysValues),
    ("layers.{}.self_attn.kv_b_proj", "blk.{}.attn_v_b", KeysValues),
    ("layers.{}.self_attn.o_proj", "blk.{}.attn_output", Same),
];

/// Experts whose shares are sigmoids, with a bias where they are chosen, beside some that every token takes.
pub const SIGMOID_EXPERTS: &[Name] = &[
    ("layers.{}.mlp.gate", "blk.{}.ffn_gate_inp", Same),
    ("layers.{}.mlp.gate.e_score_correction_bias", "blk.{}.exp_probs_b", Same),
    ("layers.{}.mlp.experts.{}.gate_proj", "blk.{}.ffn_gate_exps", Stack),
    ("layers.{}.mlp.experts.{}.up_proj", "blk.{}.ffn_up_exps", Stack),
    ("layers.{}.mlp.experts.{}.down_proj", "blk.{}.ffn_down_exps", Stack),
    ("layers.{}.mlp.shared_experts.gate_proj", "blk.{}.ffn_gate_shexp", Same),
    ("layers.{}.mlp.shared_experts.up_proj", "blk.{}.ffn_up_shexp", Same),
    ("layers.{}.mlp.shared_experts.down_proj", "blk.{}.ffn_down_shexp", Same),
];

/// Biases of latent attention.
pub const LATENT_BIASES: When = If("attention_bias", false);
const BIASES: &[(&str, When)] = &[
    ("*.e_score_correction_bias.bias", Always),
    ("*.q_a_proj.bias", LATENT_BIASES),
    ("*.kv_a_proj_with_mqa.bias", LATENT_BIASES),
    ("*.o_proj.bias", LATENT_BIASES),
    ("*.bias", Never),
];

const DEEPSEEK_V2: Family = Family {
    model_type: "deepseek_v2",
    architecture: "deepseek2",
    prefixes: MODEL,
    names: &[ENDS, PRE_NORMS, NAMES, SIGMOID_EXPERTS, GATED],
    ignored: ROTARY_BUFFERS,
    conditions: BIASES,
    head: Head::UntiedByDefault,
    keys: deepseek,
};

/// DeepSeek V2 and V3, and GLM-4.7-Flash.
pub const FAMILIES: &[Family] = &[
    DEEPSEEK_V2,
    Family { model_type: "deepseek_v3", keys: deepseek_v3, ..DEEPSEEK_V2 },
    Family { model_type: "glm4_moe_lite", keys: glm, ..DEEPSEEK_V2 },
];

/// What a class has where the configuration does not say.
struct Defaults {
    q_rank: u32,
    nope: u32,
    value: u32,
    n_expert: u32,
    n_shared: u32,
    n_used: Option<u32>,
    width: u32,
    scale: f64,
    rope: Rotary,
}

fn deepseek(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    let defaults = Defaults {
        q_rank: 1536,
        nope: 128,
        value: 128,
        n_expert: 64,
        n_shared: 2,
        n_used: None,
        width: 1407,
        scale: 1.0,
        rope: WHOLE_HEADS,
    };
    shared(config, out, &defaults)?;
    config.expect_str(&["scoring_func"], &["softmax"])?;
    if config.bool("mlp_bias")? == Some(true) {
        return Err(config.unsupported("mlp_bias", "true", "false"));
    }
    let n_dense = config.u32(&["first_k_dense_replace"])?.unwrap_or(0);
    out.set("leading_dense_block_count", n_dense.min(config.count(N_LAYER)?));
    out.set("expert_gating_func", 1u32);
    const METHOD: &str = "topk_method";
    match config.str(&[METHOD])? {
        None if config.is_null(METHOD) => Err(config.unsupported(METHOD, "null", "greedy")),
        None | Some("greedy") => Ok(()),
        _ => {
            config.expect_str(&[METHOD], &["greedy", "group_limited_greedy"])?;
            out.set("expert_group_count", config.count(&["n_group"])?);
            out.set("expert_group_used_count", config.count(&["topk_group"])?);
            Ok(())
        }
    }
}

fn deepseek_v3(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    let defaults = Defaults {
        q_rank: 1536,
        nope: 128,
        value: 128,
        n_expert: 256,
        n_shared: 1,
        n_used: None,
        width: 2048,
        scale: 2.5,
        rope: WHOLE_HEADS,
    };
    shared(config, out, &defaults)?;
    const DENSE: &str = "first_k_dense_replace";
    let n_dense = config.u32(&[DENSE])?.unwrap_or(3);
    out.set("leading_dense_block_count", n_dense.min(config.count(N_LAYER)?));
    const NORM: &str = "norm_topk_prob";
    out.set("expert_weights_norm", config.bool(NORM)?.unwrap_or(!config.is_null(NORM)));
    sigmoids(config, out, (8, 4))?;
    out.n_next = config.u32(&["num_nextn_predict_layers", "num_mtp_layers"])?.unwrap_or(1) as usize;
    Ok(())
}

/// Shares that are sigmoids, of experts in groups; `groups`: how many there are and are used where the configuration does not say.
fn sigmoids(config: &Config<'_>, out: &mut Keys, groups: (u32, u32)) -> Result<()> {
    const ADJACENT: &str = "rope_interleave";
    config.expect_bool(ADJACENT, true)?;
    if config.is_null(ADJACENT) {
        return Err(config.unsupported(ADJACENT, "null", "true"));
    }
    out.set("expert_gating_func", 2u32);
    let group = |key: &str, default| Ok::<_, Error>(config.optional_count(&[key])?.unwrap_or(default));
    out.set("expert_group_count", group("n_group", groups.0)?);
    out.set("expert_group_used_count", group("topk_group", groups.1)?);
    Ok(())
}

fn glm(config: &Config<'_>, out: &mut Keys) -> Result<()> {
    let defaults = Defaults {
        q_rank: 768,
        nope: 192,
        value: 256,
        n_expert: 64,
        n_shared: 1,
        n_used: Some(4),
        width: 1536,
        scale: 1.8,
        rope: WHOLE_HEADS.part(1.0),
    };
    shared(config, out, &defaults)?;
    const LAYERS: &str = "mlp_layer_types";
    let n_layer = config.count(N_LAYER)?;
    let n_dense = match layer_kinds(config, LAYERS, None, &[("dense", false), ("sparse", true)])? {
        None => 1,
        Some(sparse) if sparse.len() < n_layer as usize => {
            let (place, n) = (config.place(LAYERS).unwrap_or_default(), sparse.len());
            return Err(Error::Format(format!("{place} has {n} entries for {n_layer} layers")));
        }
        Some(sparse) => {
            let sparse = &sparse[..n_layer as usize];
            let n_dense = sparse.iter().take_while(|sparse| !**sparse).count();
            if sparse[n_dense..].contains(&false) {
                return Err(config.unsupported(LAYERS, "dense after sparse", "dense before sparse"));
            }
            n_dense as u32
        }
    };
    out.set("leading_dense_block_count", n_dense.min(n_layer));
    out.set("expert_weights_norm", config.bool("norm_topk_prob")?.unwrap_or(true));
    sigmoids(config, out, (1, 1))?;
    // Layers after the others predict further tokens.
    out.n_next = config.u32(&["num_nextn_predict_layers"])?.unwrap_or(0) as usize;
    Ok(())
}

/// The keys of both.
fn shared(config: &Config<'_>, out: &mut Keys, defaults: &Defaults) -> Result<()> {
    config.expect_str(&["hidden_act"], &["silu", "swish"])?;
    plain_sizes(config, out)?;
    rms_norm_eps(config, out)?;
    let n_head = config.count(N_HEAD)?;
    const HEADS: &str = "num_key_value_heads";
    if let Some(found) = config.optional_count(&[HEADS])?.filter(|found| *found != n_head) {
        return Err(config.unsupported(HEADS, &found.to_string(), &format!("{n_head}, as all heads")));
    }
    out.set("attention.head_count_kv", 1u32);
    out.set("feed_forward_length", config.count(&["intermediate_size"])?);
    let count = |key: &str, default: u32| Ok::<_, Error>(config.optional_count(&[key])?.unwrap_or(default));
    const QUERIES: &str = "q_lora_rank";
    if !config.is_null(QUERIES) {
        out.set("attention.q_lora_rank", count(QUERIES, defaults.q_rank)?);
    }
    let (latent, rotary) = (count("kv_lora_rank", 512)?, count("qk_rope_head_dim", 64)?);
    let (nope, value) = (count("qk_nope_head_dim", defaults.nope)?, count("v_head_dim", defaults.value)?);
    let sum = |a: u32, b: u32| {
        a.checked_add(b).ok_or_else(|| config.unsupported("qk_rope_head_dim", &rotary.to_string(), "less"))
    };
    out.set("attention.kv_lora_rank", latent);
    out.set("attention.key_length", sum(latent, rotary)?);
    out.set("attention.value_length", latent);
    out.set("attention.key_length_mla", sum(nope, rotary)?);
    out.set("attention.value_length_mla", value);
    out.set("expert_count", count("n_routed_experts", defaults.n_expert)?);
    let n_used = config.optional_count(&["num_experts_per_tok"])?.or(defaults.n_used);
    out.set("expert_used_count", n_used.ok_or_else(|| config.missing(&["num_experts_per_tok"]))?);
    out.set("expert_shared_count", count("n_shared_experts", defaults.n_shared)?);
    out.set("expert_feed_forward_length", count("moe_intermediate_size", defaults.width)?);
    let scale = config.positive(&["routed_scaling_factor"])?.unwrap_or(defaults.scale);
    out.set_f32("expert_weights_scale", Some(scale));
    out.heads_of_latent = Some((n_head as usize, nope as usize, value as usize));
    let rope = defaults.rope.read_for(config, rotary)?;
    if rope.n_rot != rotary {
        let found = format!("{} of {rotary} elements", rope.n_rot);
        return Err(config.unsupported(PART, &found, "all that \"qk_rope_head_dim\" says"));
    }
    rope.write_base(out);
    rope.write_scaling(out)?;
    let plain = 1.0 / f64::from(sum(nope, rotary)?).sqrt();
    out.set_f32("attention.scale", Some(plain * rope.on_scores()?));
    Ok(())
}
