//! What published files of an architecture have or leave out beside what the fixtures do: they load, and give the
//! numbers of the file that says the same in full.

mod common;

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
    // The width of a layer without experts matters to nobody: no memory is taken for it.
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
