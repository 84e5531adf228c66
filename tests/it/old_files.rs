//! Files of earlier converters: a tensor for each expert, keys and values of latent attention in one tensor, keys in a file of
//! their own. They give the numbers of newer files, and every error of theirs has a sentence.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::sync::Arc;

use common::parts::Parts;
use common::{TempFolder, all_logits, context, fixture, ids, load, read_f32s, read_json, relative_rms};
use ember::backend::KvType;
use ember::context::ContextOptions;
use ember::gguf::writer::Writer;
use ember::gguf::{Gguf, TensorType};
use ember::model::LoadedModel;

/// The fixture's prompt, and PyTorch's logits.
fn expected(name: &str) -> (Vec<u32>, Vec<f32>) {
    let tokens = ids(&read_json(&fixture(&format!("models/{name}.json")))["tokens"]);
    (tokens, read_f32s(&fixture(&format!("models/{name}.logits.f32"))))
}

fn logits(model: &Arc<LoadedModel>, tokens: &[u32]) -> Vec<f32> {
    let (k_type, v_type) = (Some(KvType::F32), Some(KvType::F32));
    let options = ContextOptions { n_ctx: tokens.len(), k_type, v_type, ..ContextOptions::default() };
    all_logits(&mut context(model, &options), tokens)
}

fn from_bytes(bytes: &[u8]) -> Arc<LoadedModel> {
    Arc::new(LoadedModel::from_bytes(bytes, "old.gguf").unwrap_or_else(|e| panic!("{e}")))
}

#[track_caller]
fn refused(parts: Parts, sentence: &str) {
    let message = LoadedModel::from_bytes(&parts.bytes(), "old.gguf").map(drop).unwrap_err();
    assert!(message.message().contains(sentence), "{}", message.message());
}

const MIXTURE: &str = "llama-moe-4-2";

/// The mixture with a tensor of each expert.
fn apart() -> Parts {
    let mut parts = Parts::of(MIXTURE);
    let joint: Vec<_> = parts.tensors.extract_if(.., |t| t.0.contains("_exps.weight")).collect();
    for (name, ty, dims, data) in joint {
        let [n_cols, n_rows, n] = dims[..] else { unreachable!() };
        let stem = name.strip_suffix("_exps.weight").unwrap();
        for (i, data) in data.chunks_exact(data.len() / n).enumerate() {
            parts.tensors.push((format!("{stem}.{i}.weight"), ty, vec![n_cols, n_rows], data.to_vec()));
        }
    }
    parts
}

#[test]
fn experts_apart_are_experts_in_one() {
    let (tokens, numbers) = expected(MIXTURE);
    let found = logits(&from_bytes(&apart().bytes()), &tokens);
    assert!(relative_rms(&found, &numbers) < 1e-5);
    assert_eq!(found, logits(&load(&fixture(&format!("models/{MIXTURE}.gguf"))), &tokens));
}

#[test]
fn damaged_experts_are_named() {
    const NAME: &str = "blk.1.ffn_up.2.weight";
    refused(apart().without_tensor(NAME), "the tensor \"blk.1.ffn_up.2.weight\" is missing");
    refused(
        apart().tensor(NAME, TensorType::F32, &[24, 31]),
        "the tensor \"blk.1.ffn_up.2.weight\" has shape [24, 31], expected [24, 32]",
    );
    refused(
        apart().tensor(NAME, TensorType::F16, &[24, 32]),
        "the tensor \"blk.1.ffn_up.2.weight\" is of type F16, but that of expert 0 is of type F32",
    );
    refused(
        apart().tensor("blk.1.ffn_up.4.weight", TensorType::F32, &[24, 32]),
        "the tensor \"blk.1.ffn_up.4.weight\" is not part of the architecture \"llama\"",
    );
    refused(apart().key("llama.expert_count", 5u32), "the tensor \"blk.0.ffn_gate_inp.weight\" has shape");
}

const LATENT: &str = "deepseek2-groups";

/// The model with `attn_kv_b`, and the keys of files that have it.
fn joint_latent() -> Parts {
    let parts = Parts::of(LATENT);
    let count = |parts: &Parts, name: &str| {
        let key = format!("deepseek2.{name}");
        let value = parts.keys.iter().find(|(k, _)| *k == key).unwrap().1.clone();
        match value {
            ember::gguf::Value::U32(n) => n as usize,
            other => panic!("{key}: {other:?}"),
        }
    };
    let [n_head, k_dim, v_dim] =
        ["attention.head_count", "attention.key_length_mla", "attention.value_length_mla"]
            .map(|name| count(&parts, name));
    let numbers = |name: &str| -> Vec<f32> {
        let tensor = parts.tensors.iter().find(|t| t.0 == name).unwrap();
        tensor.3.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    let [latent, rope] = ["attention.kv_lora_rank", "rope.dimension_count"].map(|name| count(&parts, name));
    let nope = k_dim - rope;
    let mut made = Vec::new();
    for i in 0..count(&parts, "block_count") {
        let [k, v] = ["k_b", "v_b"].map(|part| numbers(&format!("blk.{i}.attn_{part}.weight")));
        let mut joint = Vec::new();
        for head in 0..n_head {
            let key = &k[head * latent * nope..][..latent * nope];
            joint.extend((0..nope).flat_map(|row| (0..latent).map(move |column| key[column * nope + row])));
            joint.extend_from_slice(&v[head * v_dim * latent..][..v_dim * latent]);
        }
        made.push((i, joint));
    }
    let mut parts = parts
        .without_key("deepseek2.attention.key_length_mla")
        .without_key("deepseek2.attention.value_length_mla")
        .key("deepseek2.attention.key_length", k_dim as u32)
        .key("deepseek2.attention.value_length", v_dim as u32)
        .key("deepseek2.attention.head_count_kv", n_head as u32);
    for (i, joint) in made {
        for part in ["k_b", "v_b"] {
            parts = parts.without_tensor(&format!("blk.{i}.attn_{part}.weight"));
        }
        parts = parts.f32s(&format!("blk.{i}.attn_kv_b.weight"), &[latent, n_head * (nope + v_dim)], &joint);
    }
    parts
}

#[test]
fn keys_and_values_in_one_are_keys_and_values_apart() {
    let (tokens, numbers) = expected(LATENT);
    let found = logits(&from_bytes(&joint_latent().bytes()), &tokens);
    let error = relative_rms(&found, &numbers);
    assert!(error < 1e-5, "{error:.1e}");
    refused(
        joint_latent().tensor("blk.1.attn_kv_b.weight", TensorType::F32, &[32, 99]),
        "the tensor \"blk.1.attn_kv_b.weight\" is F32 of shape [32, 99], expected [",
    );
}

/// As `gguf-split --no-tensor-first-split` leaves it: the first file has the keys, and no tensor.
#[test]
fn the_first_file_may_have_no_tensors() {
    let whole = Gguf::open(&fixture(&format!("models/{MIXTURE}.gguf"))).unwrap();
    let folder = TempFolder::new("no-tensor-first");
    let mut first = None;
    for no in 0..2u16 {
        let mut writer = Writer::new();
        if no == 0 {
            whole.metadata().iter().for_each(|(key, value)| _ = writer.set(key, value.clone()));
        }
        writer.set("split.no", no).set("split.count", 2u16);
        writer.set("split.tensors.count", whole.tensors().len() as i32);
        for t in whole.tensors().iter().filter(|_| no == 1) {
            writer.tensor(&t.name, t.ty, &t.dims, whole.tensor_bytes(t).to_vec());
        }
        let path = folder.write(&format!("m-{:05}-of-00002.gguf", no + 1), writer.to_bytes().unwrap());
        first.get_or_insert(path);
    }
    let (tokens, numbers) = expected(MIXTURE);
    assert!(relative_rms(&logits(&load(&first.unwrap()), &tokens), &numbers) < 1e-5);
}

/// A file with keys alone is a valid file, but no model.
#[test]
fn a_file_without_tensors_is_no_model() {
    let mut parts = Parts::of(MIXTURE);
    parts.tensors.clear();
    let bytes = parts.bytes();
    let file = Gguf::from_bytes(&bytes, "keys.gguf").unwrap();
    assert_eq!(file.metadata().str("general.architecture"), Ok(Some("llama")));
    assert!(file.tensors().is_empty());
    let error = LoadedModel::from_bytes(&bytes, "keys.gguf").map(drop).unwrap_err();
    assert_eq!(error.message(), "keys.gguf: the tensor \"token_embd.weight\" is missing");
}
