//! Keys and tensors that published files of an architecture have or leave out, unlike the fixtures. Such files load, and give the
//! numbers of a file that has everything.

use crate::common;

use std::sync::Arc;

use common::parts::Parts;
use common::{all_hidden, all_logits, context};
use ember::context::ContextOptions;
use ember::error::ember_status;
use ember::gguf::{Array, Value};
use ember::model::LoadedModel;

const TOKENS: [u32; 24] = [5, 9, 2, 33, 7, 7, 1, 40, 12, 3, 3, 28, 19, 6, 8, 11, 2, 30, 4, 17, 25, 9, 14, 21];

fn load(parts: Parts) -> Arc<LoadedModel> {
    Arc::new(LoadedModel::from_bytes(&parts.bytes(), "variant.gguf").unwrap_or_else(|e| panic!("{e}")))
}

/// What the model makes of some tokens at every position.
fn outputs(parts: Parts) -> Vec<f32> {
    let model = load(parts);
    let mut context = context(&model, &ContextOptions { n_ctx: TOKENS.len(), ..ContextOptions::default() });
    let out = match model.info().causal {
        true => all_logits(&mut context, &TOKENS),
        false => all_hidden(&mut context, &TOKENS),
    };
    assert!(out.iter().all(|x| x.is_finite()));
    out
}

#[track_caller]
fn same(a: Parts, b: Parts) {
    assert!(outputs(a) == outputs(b), "the numbers differ");
}

#[track_caller]
fn different(a: Parts, b: Parts) {
    assert!(outputs(a) != outputs(b), "the numbers are the same");
}

#[track_caller]
fn refused(parts: Parts, status: ember_status, culprit: &str) {
    let error = LoadedModel::from_bytes(&parts.bytes(), "variant.gguf").err().expect("an error");
    assert!(error.status() == status && error.message().contains(culprit), "{error:?}");
}

fn list(numbers: &[u32]) -> Value {
    Value::Array(Array::U32(numbers.to_vec()))
}

/// Granite 4 files give their key/value heads layer by layer.
#[test]
fn numbers_of_layers_that_are_all_the_same() {
    let llama = || Parts::of("llama-tied-f32");
    for (key, n) in [("attention.head_count", 4), ("attention.head_count_kv", 2), ("feed_forward_length", 96)]
    {
        let key = format!("llama.{key}");
        same(llama().key(&key, list(&[n, n])), llama().key(&key, n));
        let signed = Value::Array(Array::I32(vec![n as i32; 2]));
        same(llama().key(&key, signed), llama());
        refused(llama().key(&key, list(&[n, n + n])), ember_status::EMBER_E_UNSUPPORTED, &key);
        refused(llama().key(&key, list(&[])), ember_status::EMBER_E_FORMAT, &key);
        let texts = Value::Array(Array::F32(vec![n as f32; 2]));
        refused(llama().key(&key, texts), ember_status::EMBER_E_FORMAT, &key);
        refused(llama().key(&key, list(&[0, 0])), ember_status::EMBER_E_FORMAT, &key);
    }
}

/// Granite 4 files say with a key whether there are rotary positions. Frequencies of next to nothing are none.
#[test]
fn granite_without_rotary_positions() {
    let key = "granite.rope.scaling.finetuned";
    let granite = || Parts::of("granite");
    same(granite().key(key, true), granite().without_key(key));
    different(granite().key(key, false), granite());
    let head_dim = load(granite()).info().head_dim;
    let still = granite().f32s("rope_freqs.weight", &[head_dim / 2], &vec![1e30; head_dim / 2]);
    same(granite().key(key, false), still);
}

/// DistilBERT has no segments.
#[test]
fn bert_without_token_types() {
    let name = "token_types.weight";
    let bert = || Parts::of("bert");
    let n_embd = load(bert()).info().n_embd;
    let count = "tokenizer.ggml.token_type_count";
    same(bert().without_tensor(name), bert().f32s(name, &[n_embd, 2], &vec![0.0; 2 * n_embd]));
    same(bert().without_tensor(name).key(count, 1u32), bert().without_tensor(name));
    different(bert().without_tensor(name), bert());
}

/// One matrix for queries, keys and values, and a bias for each.
#[test]
fn a_fused_matrix_with_separate_biases() {
    let mut parts = Parts::of("phi2-fused");
    let info = load(Parts::of("phi2-fused")).info().clone();
    let (n_q, n_kv) = (info.n_head * info.head_dim, info.n_head_kv * info.head_dim);
    for i in 0..info.n_layer {
        let fused = format!("blk.{i}.attn_qkv.bias");
        let at = parts.tensors.iter().position(|t| t.0 == fused).expect("a bias");
        let bytes = parts.tensors.remove(at).3;
        let values: Vec<f32> =
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        for (name, range) in [("q", 0..n_q), ("k", n_q..n_q + n_kv), ("v", n_q + n_kv..n_q + 2 * n_kv)] {
            let values = &values[range];
            parts = parts.f32s(&format!("blk.{i}.attn_{name}.bias"), &[values.len()], values);
        }
    }
    same(parts, Parts::of("phi2-fused"));
}

/// The first files of Qwen1.5-MoE say how wide a token's experts are together, and not how wide each is.
#[test]
fn qwen2moe_without_the_width_of_an_expert() {
    let parts = || Parts::of("qwen2moe-60-4");
    let experts = load(parts()).info().experts.expect("experts");
    let width = "qwen2moe.feed_forward_length";
    let together = (experts.n_used * experts.n_ff) as u32;
    same(parts().without_key("qwen2moe.expert_feed_forward_length").key(width, together), parts());
    // The width of a layer without experts is not used: no memory is taken for it.
    same(parts().key(width, 1u32 << 24), parts());
}

/// Keys about experts in a file of an architecture without any.
#[test]
fn experts_that_nobody_asks() {
    let qwen = || Parts::of("qwen2-tied");
    let many = |parts: Parts| {
        ["expert_count", "expert_used_count", "expert_feed_forward_length"]
            .iter()
            .fold(parts, |parts, key| parts.key(&format!("qwen2.{key}"), 1u32 << 24))
    };
    same(many(qwen()), qwen());
}

/// The caps of Gemma 2, which its first files left to the reader.
#[test]
fn gemma2_without_caps() {
    let (scores, logits) = ("gemma2.attn_logit_softcapping", "gemma2.final_logit_softcapping");
    let parts = || Parts::of("gemma2");
    let bare = || parts().without_key(scores).without_key(logits);
    same(bare(), parts().key(scores, 50.0f32).key(logits, 30.0f32));
    different(bare(), parts().key(scores, 0.0f32).key(logits, 0.0f32));
}

/// The rotary base of Gemma 3's global layers, as transformers has it.
#[test]
fn gemma3_without_a_rotary_base() {
    let key = "gemma3.rope.freq_base";
    let parts = || Parts::of("gemma3");
    same(parts().without_key(key), parts().key(key, 1e6f32));
    different(parts().without_key(key), parts().key(key, 1e4f32));
}

/// What llama.cpp's converter makes of NVFP4 checkpoints: matrices in units of a number beside them. Powers of two
/// change no digits.
#[test]
fn matrices_with_a_scale() {
    let names = ["attn_q", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
    let mut names: Vec<String> = names.iter().map(|name| format!("blk.1.{name}")).collect();
    names.push("output".to_owned());
    let mut scaled = Parts::of("llama3-untied-biased");
    for (i, name) in names.iter().enumerate() {
        let factor = [0.25f32, 8.0][i % 2];
        let weight = scaled.tensors.iter_mut().find(|t| t.0 == format!("{name}.weight")).expect("a matrix");
        for bytes in weight.3.as_chunks_mut::<4>().0 {
            *bytes = (f32::from_le_bytes(*bytes) / factor).to_le_bytes();
        }
        scaled = scaled.f32s(&format!("{name}.scale"), &[1], &[factor]);
        scaled = scaled.f32s(&format!("{name}.input_scale"), &[1], &[0.125]);
    }
    same(scaled, Parts::of("llama3-untied-biased"));
    let wrong = Parts::of("llama-tied-f32").f32s("blk.0.attn_q.scale", &[2], &[1.0; 2]);
    refused(wrong, ember_status::EMBER_E_FORMAT, "blk.0.attn_q.scale");
    // The experts of a mixture have a scale each, which is not done.
    let experts = Parts::of("llama-moe-4-2").f32s("blk.0.ffn_up_exps.scale", &[4], &[1.0; 4]);
    refused(experts, ember_status::EMBER_E_UNSUPPORTED, "blk.0.ffn_up_exps.scale");
}

/// A block that predicts a further token lies after the others and counts as one of them.
#[test]
fn blocks_that_predict_further_tokens() {
    let parts = || Parts::of("qwen35");
    let n_layer = load(parts()).info().n_layer;
    let with_block = |n_predict: u32| {
        let name = format!("blk.{n_layer}");
        parts()
            .key("qwen35.block_count", n_layer as u32 + 1)
            .key("qwen35.nextn_predict_layers", n_predict)
            .f32s(&format!("{name}.attn_norm.weight"), &[1], &[1.0])
            .f32s(&format!("{name}.nextn.eh_proj.weight"), &[2, 2], &[1.0; 4])
    };
    same(with_block(1), parts());
    assert_eq!(load(with_block(1)).info().n_layer, n_layer);
    for n in [0, 2, n_layer as u32 + 1, u32::MAX] {
        let error = LoadedModel::from_bytes(&with_block(n).bytes(), "variant.gguf").err();
        let message = error.unwrap_or_else(|| panic!("{n} blocks")).message().to_owned();
        let culprit = if n == 0 { format!("blk.{n_layer}.") } else { "variant.gguf: ".into() };
        assert!(message.contains(&culprit), "{n} blocks: {message}");
    }
}

/// Numbers that cannot be the sizes or the layers of delta nets.
#[test]
fn delta_nets_that_do_not_fit() {
    use ember_status::{EMBER_E_FORMAT, EMBER_E_UNSUPPORTED};
    let parts = || Parts::of("qwen35-list");
    let n_layer = load(parts()).info().n_layer;
    for (key, value, status) in [
        ("ssm.time_step_rank", 0, EMBER_E_FORMAT),
        ("ssm.time_step_rank", 5, EMBER_E_FORMAT),
        ("ssm.group_count", 0, EMBER_E_FORMAT),
        ("ssm.group_count", 2, EMBER_E_FORMAT),
        ("ssm.inner_size", 7, EMBER_E_FORMAT),
        ("ssm.state_size", 0, EMBER_E_FORMAT),
        ("ssm.state_size", u32::MAX, EMBER_E_FORMAT),
        ("ssm.conv_kernel", 0, EMBER_E_FORMAT),
        ("ssm.conv_kernel", u32::MAX, EMBER_E_FORMAT),
        ("ssm.conv_kernel", 7, EMBER_E_FORMAT),
        ("full_attention_interval", 0, EMBER_E_FORMAT),
    ] {
        let culprit = if value == 7 && key == "ssm.conv_kernel" { "ssm_conv1d" } else { key };
        refused(parts().key(&format!("qwen35.{key}"), value), status, culprit);
    }
    let key = "qwen35.attention.recurrent_layers";
    let layers = |list: Vec<bool>| parts().key(key, Value::Array(Array::Bool(list)));
    refused(layers(vec![true; n_layer - 1]), EMBER_E_FORMAT, key);
    refused(layers(vec![true; n_layer]), EMBER_E_UNSUPPORTED, key);
    refused(layers(vec![false; n_layer]), EMBER_E_FORMAT, "attn_q.weight");
    refused(parts().key(key, 1u32), EMBER_E_FORMAT, key);
    let key = "qwen35.rope.dimension_sections";
    same(parts().key(key, list(&[2, 1, 1, 0])), parts());
    refused(parts().key(key, list(&[2, 1, 0, 1])), EMBER_E_UNSUPPORTED, key);
    refused(parts().key(key, list(&[2, 1, 1])), EMBER_E_FORMAT, key);
    refused(parts().key(key, 4u32), EMBER_E_UNSUPPORTED, key);
    let tensor = |name: &str, dims: &[usize]| parts().f32s(name, dims, &vec![1.0; dims.iter().product()]);
    for name in ["blk.1.ssm_a", "blk.1.ssm_dt.bias", "blk.1.ssm_norm.weight", "blk.1.ssm_beta.weight"] {
        refused(tensor(name, &[5]), EMBER_E_FORMAT, name);
        refused(parts().without_tensor(name), EMBER_E_FORMAT, name);
    }
}

/// Sinks and biases of gpt-oss, and windows that its layers may have in another order.
#[test]
fn sinks_and_windows_that_do_not_fit() {
    use ember_status::{EMBER_E_FORMAT, EMBER_E_UNSUPPORTED};
    let parts = || Parts::of("gpt-oss");
    let sinks = "blk.1.attn_sinks.weight";
    refused(parts().without_tensor(sinks), EMBER_E_FORMAT, sinks);
    refused(parts().f32s(sinks, &[7], &[1.0; 7]), EMBER_E_FORMAT, sinks);
    different(parts().f32s(sinks, &[6], &[1.0, 2.0, 3.0, -9.0, 50.0, -50.0]), parts());
    let bias = "blk.0.ffn_up_exps.bias";
    refused(parts().f32s(bias, &[32, 4], &[1.0; 128]), EMBER_E_FORMAT, bias);
    different(parts().without_tensor(bias), parts());
    same(parts().f32s(bias, &[32, 5], &[0.0; 160]), parts().without_tensor(bias));
    let router = "blk.2.ffn_gate_inp.bias";
    refused(parts().f32s(router, &[6], &[1.0; 6]), EMBER_E_FORMAT, router);
    let key = "gpt-oss.attention.sliding_window_pattern";
    let windowed = |list: &[bool]| parts().key(key, Value::Array(Array::Bool(list.to_vec())));
    same(windowed(&[true, false, true]), parts());
    same(parts().key(key, 2u32), parts());
    different(windowed(&[false, true, true]), parts());
    refused(windowed(&[true, false]), EMBER_E_FORMAT, key);
    refused(
        parts().key("gpt-oss.rope.freq_base_swa", 300.0f32),
        EMBER_E_UNSUPPORTED,
        "gpt-oss.rope.freq_base_swa",
    );
    refused(parts().key("gpt-oss.expert_used_count", 6u32), EMBER_E_FORMAT, "gpt-oss.expert_used_count");
}

/// Scores that grow with the position, which files of Mistral Small 3.1 have not.
#[test]
fn scores_that_grow_or_not() {
    use ember_status::EMBER_E_FORMAT;
    let parts = || Parts::of("ministral3");
    let (factor, len) =
        ("mistral3.attention.temperature_scale", "mistral3.rope.scaling.original_context_length");
    same(parts().without_key(factor), parts().key(factor, 0.0f32));
    different(parts().without_key(factor), parts());
    for x in [f32::NAN, f32::INFINITY] {
        refused(parts().key(factor, x), EMBER_E_FORMAT, factor);
    }
    refused(parts().key(len, 0u32), EMBER_E_FORMAT, len);
    // Steps as long as the whole context: the first begins at 128.
    let whole = || parts().without_key("mistral3.rope.scaling.type").without_key(len);
    same(whole(), whole().without_key(factor));
    let multiplier = "mistral3.rope.scaling.yarn_log_multiplier";
    different(parts().key(multiplier, 0.5f32), parts());
    same(parts().without_key(multiplier), parts().key(multiplier, 0.0f32));
    refused(parts().key(multiplier, f32::NAN), EMBER_E_FORMAT, multiplier);
}

/// Sections of rotary positions that a text has no use for have to be three.
#[test]
fn sections_of_models_that_see() {
    use ember_status::{EMBER_E_FORMAT, EMBER_E_UNSUPPORTED};
    for name in ["qwen2vl", "qwen3vl"] {
        let parts = || Parts::of(name);
        let key = format!("{name}.rope.dimension_sections");
        same(parts().without_key(&key), parts());
        refused(parts().key(&key, list(&[2, 3, 3, 1])), EMBER_E_UNSUPPORTED, &key);
        refused(parts().key(&key, list(&[2, 3, 3])), EMBER_E_FORMAT, &key);
    }
    same(Parts::of("qwen3vl").without_key("qwen3vl.n_deepstack_layers"), Parts::of("qwen3vl"));
}

/// Numbers that cannot be the sizes of mixers of Mamba-2, or the kinds of layers.
#[test]
fn mixers_that_do_not_fit() {
    use ember_status::{EMBER_E_FORMAT, EMBER_E_UNSUPPORTED};
    for (name, arch) in [("granitehybrid", "granitehybrid"), ("nemotron-h", "nemotron_h")] {
        let parts = || Parts::of(name);
        for (key, value) in [
            ("time_step_rank", 0),
            ("time_step_rank", 5),
            ("group_count", 0),
            ("group_count", 4),
            ("inner_size", 7),
            ("state_size", 0),
            ("state_size", u32::MAX),
            ("conv_kernel", 0),
            ("conv_kernel", u32::MAX),
        ] {
            let key = format!("{arch}.ssm.{key}");
            refused(parts().key(&key, value), EMBER_E_FORMAT, &key);
        }
        for end in ["ssm_a", "ssm_d", "ssm_dt.bias", "ssm_norm.weight", "ssm_in.weight", "ssm_conv1d.weight"]
        {
            let tensor = format!("blk.0.{end}");
            refused(parts().f32s(&tensor, &[3], &[1.0; 3]), EMBER_E_FORMAT, &tensor);
            refused(parts().without_tensor(&tensor), EMBER_E_FORMAT, &tensor);
        }
        let heads = format!("{arch}.attention.head_count_kv");
        let n_layer = load(parts()).info().n_layer;
        refused(parts().key(&heads, list(&vec![0; n_layer])), EMBER_E_UNSUPPORTED, &heads);
        refused(parts().key(&heads, list(&vec![2; n_layer - 1])), EMBER_E_FORMAT, &heads);
    }
    // A row of heads and a column of them are the same.
    let parts = || Parts::of("granitehybrid");
    same(parts().f32s("blk.0.ssm_d", &[6], &[0.5; 6]), parts().f32s("blk.0.ssm_d", &[1, 6], &[0.5; 6]));
    let width = "nemotron_h.feed_forward_length";
    let parts = || Parts::of("nemotron-h");
    refused(parts().key(width, list(&[0, 56, 0, 40, 0, 0])), EMBER_E_UNSUPPORTED, width);
    refused(parts().key(width, list(&[0, 56, 0])), EMBER_E_FORMAT, width);
    let eps = "nemotron_h.attention.layer_norm_rms_epsilon";
    same(parts().without_key(eps).key("nemotron_h.attention.layer_norm_epsilon", 1e-5f32), parts());
    let experts = || Parts::of("nemotron-h-moe");
    let latent = "nemotron_h_moe.moe_latent_size";
    refused(experts().key(latent, 49u32), EMBER_E_UNSUPPORTED, latent);
    refused(experts().key(latent, 27u32), EMBER_E_FORMAT, "blk.1.ffn_latent_down.weight");
    refused(
        experts().key("nemotron_h_moe.expert_group_count", 2u32),
        EMBER_E_UNSUPPORTED,
        "expert_group_count",
    );
    let block = |n: u32| experts().key("nemotron_h_moe.nextn_predict_layers", n);
    same(block(0), experts());
    refused(block(6), EMBER_E_FORMAT, "nemotron_h_moe.nextn_predict_layers");
}

/// Layers of Gemma 4 that share keys and values, and what cannot be its heads and per-layer embeddings.
#[test]
fn shared_keys_and_per_layer_embeddings_that_do_not_fit() {
    use ember_status::{EMBER_E_FORMAT, EMBER_E_UNSUPPORTED};
    let parts = || Parts::of("gemma4-shared");
    let key = |name: &str| format!("gemma4.{name}");
    let shared = key("attention.shared_kv_layers");
    for n in [6, 7, u32::MAX] {
        refused(parts().key(&shared, n), EMBER_E_FORMAT, &shared);
    }
    // The first five layers read what the sixth would keep: there is none of its kind before.
    refused(parts().key(&shared, 5u32), EMBER_E_FORMAT, &shared);
    refused(parts().key(&shared, 1u32), EMBER_E_FORMAT, "blk.4.attn_k.weight");
    let heads = key("attention.head_count_kv");
    refused(parts().key(&heads, list(&[1, 1, 2, 1, 1, 1])), EMBER_E_UNSUPPORTED, &heads);
    refused(parts().key(&heads, list(&[1, 1, 1])), EMBER_E_FORMAT, &heads);
    refused(parts().key(&heads, 3u32), EMBER_E_FORMAT, "3");
    for name in ["attention.key_length_swa", "attention.key_length"] {
        refused(parts().key(&key(name), u32::MAX), EMBER_E_FORMAT, &key(name));
        refused(parts().key(&key(name), 0u32), EMBER_E_FORMAT, &key(name));
    }
    refused(parts().key(&key("attention.value_length_swa"), 8u32), EMBER_E_UNSUPPORTED, "value_length_swa");
    refused(parts().key(&key("rope.dimension_count"), 16u32), EMBER_E_UNSUPPORTED, "rope.dimension_count");
    refused(parts().key(&key("rope.dimension_count_swa"), 7u32), EMBER_E_FORMAT, "rope.dimension_count_swa");
    let per_layer = key("embedding_length_per_layer_input");
    refused(parts().key(&per_layer, u32::MAX), EMBER_E_FORMAT, &per_layer);
    refused(parts().key(&per_layer, 0u32), EMBER_E_UNSUPPORTED, "per_layer");
    for name in [
        "per_layer_token_embd.weight",
        "per_layer_proj_norm.weight",
        "blk.3.inp_gate.weight",
        "blk.3.proj.weight",
    ] {
        refused(parts().without_tensor(name), EMBER_E_FORMAT, name);
    }
    let scale = "blk.0.layer_output_scale.weight";
    refused(parts().f32s(scale, &[2], &[1.0; 2]), EMBER_E_FORMAT, scale);
    same(parts().f32s(scale, &[1], &[1.0]), parts().without_tensor(scale));
    different(parts().without_tensor(scale), parts());
    // Values of their own count where they are there.
    let keys = || Parts::of("gemma4-keys");
    different(keys().f32s("blk.2.attn_v.weight", &[48, 24], &[0.01; 48 * 24]), keys());
    let experts = || Parts::of("gemma4-experts");
    let scales = "blk.1.ffn_down_exps.scale";
    refused(experts().f32s(scales, &[5], &[1.0; 5]), EMBER_E_FORMAT, scales);
    same(experts().f32s(scales, &[6], &[1.0; 6]), experts().without_tensor(scales));
    refused(experts().without_tensor("blk.1.ffn_gate_inp.scale"), EMBER_E_FORMAT, "blk.1.ffn_gate_inp.scale");
}

/// Numbers that cannot be the streams, the layers of low rank and the sparse hidden layers of Gemma 3n.
#[test]
fn streams_and_sparse_layers_that_do_not_fit() {
    use ember_status::EMBER_E_FORMAT;
    let parts = || Parts::of("gemma3n");
    let key = |name: &str| format!("gemma3n.{name}");
    let streams = key("altup.num_inputs");
    for n in [0, 65, u32::MAX] {
        refused(parts().key(&streams, n), EMBER_E_FORMAT, &streams);
    }
    refused(parts().key(&streams, 3u32), EMBER_E_FORMAT, "altup_");
    refused(parts().key(&streams, 5u32), EMBER_E_FORMAT, "altup_");
    same(parts().without_key(&streams), parts());
    let active = key("altup.active_idx");
    for n in [4, u32::MAX] {
        refused(parts().key(&active, n), EMBER_E_FORMAT, &active);
    }
    different(parts().key(&active, 1u32), parts());
    same(parts().without_key(&active), parts());
    let sparse = key("activation_sparsity_scale");
    let factors = |factors: &[f32]| parts().key(&sparse, factors.to_vec());
    refused(factors(&[0.5; 5]), EMBER_E_FORMAT, &sparse);
    refused(factors(&[0.5; 7]), EMBER_E_FORMAT, &sparse);
    for bad in [f32::NAN, f32::INFINITY] {
        refused(factors(&[0.5, bad, 0.5, 0.5, 0.5, 0.5]), EMBER_E_FORMAT, &sparse);
    }
    refused(parts().key(&sparse, 1u32), EMBER_E_FORMAT, &sparse);
    different(factors(&[0.5; 6]), parts());
    same(factors(&[f32::NEG_INFINITY; 6]), parts().without_key(&sparse));
    let per_layer = key("embedding_length_per_layer_input");
    for n in [0, u32::MAX] {
        refused(parts().key(&per_layer, n), EMBER_E_FORMAT, "per_layer");
    }
    refused(parts().key(&per_layer, 11u32), EMBER_E_FORMAT, "inp_gate");
    refused(parts().key(&key("attention.shared_kv_layers"), 6u32), EMBER_E_FORMAT, "shared_kv_layers");
    for name in [
        "altup_proj.weight",
        "altup_unembd_proj.weight",
        "blk.2.altup_router.weight",
        "blk.0.laurel_l.weight",
        "blk.1.laurel_r.weight",
        "blk.3.inp_gate.weight",
    ] {
        refused(parts().without_tensor(name), EMBER_E_FORMAT, name);
    }
    refused(parts().f32s("blk.0.laurel_l.weight", &[48, 11], &[0.1; 48 * 11]), EMBER_E_FORMAT, "laurel_r");
    let gain = "blk.1.altup_correct_scale.weight";
    same(parts().f32s(gain, &[48], &[1.0; 48]), parts().without_tensor(gain));
    different(parts().without_tensor(gain), parts());
}

/// What cannot be the sizes of latent attention or the groups of experts, and what files of it leave out.
#[test]
fn latent_attention_that_does_not_fit() {
    use ember_status::{EMBER_E_FORMAT, EMBER_E_UNSUPPORTED};
    let parts = || Parts::of("deepseek2-groups");
    let key = |name: &str| format!("deepseek2.{name}");
    for (name, value) in [
        ("attention.kv_lora_rank", 0),
        ("attention.kv_lora_rank", u32::MAX),
        ("attention.key_length_mla", 8),
        ("attention.key_length_mla", u32::MAX),
        ("attention.value_length_mla", 0),
        ("attention.key_length", 41),
        ("attention.value_length", 31),
        ("attention.head_count_kv", 4),
        ("rope.dimension_count", 20),
        ("expert_shared_count", u32::MAX),
        ("expert_group_count", 3),
        ("expert_group_count", 65),
        ("expert_group_used_count", 0),
        ("expert_group_used_count", 5),
        ("expert_group_used_count", 1),
    ] {
        let name = key(name);
        let error = LoadedModel::from_bytes(&parts().key(&name, value).bytes(), "variant.gguf").err();
        let error = error.unwrap_or_else(|| panic!("{name} of {value}"));
        assert!(error.status() == EMBER_E_FORMAT && error.message().contains(&name), "{value}: {error:?}");
    }
    for name in
        ["attn_k_b", "attn_v_b", "attn_kv_a_mqa", "attn_kv_a_norm", "attn_q_a", "attn_q_a_norm", "attn_q_b"]
    {
        let tensor = format!("blk.1.{name}.weight");
        refused(parts().without_tensor(&tensor), EMBER_E_FORMAT, &tensor);
        refused(parts().f32s(&tensor, &[3], &[1.0; 3]), EMBER_E_FORMAT, &tensor);
    }
    let joint = "blk.0.attn_kv_b.weight";
    refused(parts().f32s(joint, &[32, 128], &[1.0; 32 * 128]), EMBER_E_UNSUPPORTED, "blk.0.attn_k_b.weight");
    // Layers whose queries are made of the input say nothing of a rank, or 0.
    let lite = || Parts::of("deepseek2-lite");
    same(lite().key(&key("attention.q_lora_rank"), 0u32), lite());
    refused(lite().key(&key("attention.q_lora_rank"), 28u32), EMBER_E_FORMAT, "attn_q_a.weight");
    let log = key("rope.scaling.yarn_log_multiplier");
    different(lite().without_key(&log), lite());
    refused(lite().key(&log, f32::NAN), EMBER_E_FORMAT, &log);
    // Shares are parts of a softmax where the file does not say.
    same(lite().without_key(&key("expert_gating_func")), lite());
    different(lite().key(&key("expert_gating_func"), 2u32), lite());
    refused(lite().key(&key("expert_gating_func"), 4u32), EMBER_E_UNSUPPORTED, &key("expert_gating_func"));
    // One group means the same as none.
    let one = parts().key(&key("expert_group_count"), 1u32);
    different(one, parts());
    // A block that predicts a further token.
    let with_block = parts()
        .key(&key("block_count"), 4u32)
        .key(&key("nextn_predict_layers"), 1u32)
        .f32s("blk.3.nextn.eh_proj.weight", &[2, 2], &[1.0; 4])
        .f32s("blk.3.attn_norm.weight", &[1], &[1.0]);
    same(with_block, parts());
}
