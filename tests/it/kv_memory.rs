//! The memory of long contexts where layers with a window stand beside layers that see everything: the KV caches of models whose
//! layers have the keys, values and windows of real ones, and narrow weights.
//! `cargo test --test it -- --nocapture kv_memory::` prints the table of docs/guides/memory.md.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(clippy::print_stdout, reason = "it prints a table")]

use crate::common;

use std::sync::Arc;

use common::parts::Parts;
use common::{context, fixture, load};
use ember::context::ContextOptions;
use ember::gguf::TensorType;
use ember::model::LoadedModel;

/// The attention of a real model.
struct Shape {
    name: &'static str,
    /// The fixture that its layers are made of: its first has a window, and this one has none.
    base: (&'static str, &'static str, usize),
    n_layer: usize,
    n_head: usize,
    n_head_kv: usize,
    /// Length of heads in layers with a window, and in others.
    dims: (usize, usize),
    window: u32,
    /// Every so many layers one sees everything.
    every: usize,
    /// Layers at the end that have no keys and values of their own.
    n_shared: u32,
}

/// Such a model, of zeros.
fn stretched(shape: &Shape) -> Arc<LoadedModel> {
    let (base, architecture, global) = shape.base;
    let Parts { mut keys, tensors } = Parts::of(base);
    let has_window = |i: usize| !(i + 1).is_multiple_of(shape.every);
    let all = Parts { keys: Vec::new(), tensors: Vec::new() };
    let mut all =
        tensors.iter().filter(|t| !t.0.starts_with("blk.")).fold(all, |parts, (name, ty, dims, _)| {
            let per_layer = name.starts_with("per_layer_");
            let stretch = |&n: &usize| if per_layer && n == 72 { 12 * shape.n_layer } else { n };
            let dims: Vec<_> = match name.as_str() {
                "rope_freqs.weight" => vec![shape.dims.1 / 2],
                _ => dims.iter().map(stretch).collect(),
            };
            parts.f32s(name, &dims, &vec![1.0; dims.iter().product()]).check(*ty)
        });
    for i in 0..shape.n_layer {
        let (of, dim) = if has_window(i) { (0, shape.dims.0) } else { (global, shape.dims.1) };
        for (name, ty, dims, _) in &tensors {
            let Some(part) = name.strip_prefix(&format!("blk.{of}.")) else { continue };
            let mut dims = dims.clone();
            let kv = shape.n_head_kv * dim;
            match part {
                "attn_q.weight" => dims[1] = shape.n_head * dim,
                "attn_q.bias" => dims[0] = shape.n_head * dim,
                "attn_k.weight" | "attn_v.weight" => dims[1] = kv,
                "attn_k.bias" | "attn_v.bias" => dims[0] = kv,
                "attn_output.weight" => dims[0] = shape.n_head * dim,
                "attn_q_norm.weight" | "attn_k_norm.weight" => dims[0] = dim,
                "attn_sinks.weight" => dims[0] = shape.n_head,
                _ => {}
            }
            all = all.tensor(&format!("blk.{i}.{part}"), *ty, &dims);
        }
    }
    std::mem::swap(&mut all.keys, &mut keys);
    let key = |name: &str| format!("{architecture}.{name}");
    let (local, whole) = (shape.dims.0 as u32, shape.dims.1 as u32);
    all = all
        .key(&key("block_count"), shape.n_layer as u32)
        .key(&key("context_length"), 131_072u32)
        .key(&key("attention.head_count"), shape.n_head as u32)
        .key(&key("attention.head_count_kv"), shape.n_head_kv as u32)
        .key(&key("attention.sliding_window"), shape.window)
        .key(&key("attention.key_length"), whole)
        .key(&key("attention.value_length"), whole);
    if architecture == "gemma4" {
        let windowed: Vec<bool> = (0..shape.n_layer).map(has_window).collect();
        all = all
            .key(&key("attention.sliding_window_pattern"), windowed)
            .key(&key("attention.shared_kv_layers"), shape.n_shared)
            .key(&key("feed_forward_length"), 40u32)
            .key(&key("attention.key_length_swa"), local)
            .key(&key("attention.value_length_swa"), local)
            .key(&key("rope.dimension_count"), whole)
            .key(&key("rope.dimension_count_swa"), local);
    }
    let model = LoadedModel::from_bytes(&all.bytes(), shape.name);
    Arc::new(model.unwrap_or_else(|e| panic!("{e}")))
}

impl Parts {
    /// All other tensors of these models are F32.
    fn check(self, ty: TensorType) -> Parts {
        assert_eq!(ty, TensorType::F32);
        self
    }
}

#[test]
fn layers_with_a_window_take_what_their_window_needs() {
    let gemma3 = ("gemma3", "gemma3", 5);
    let shapes = [
        Shape {
            name: "Gemma 3 1B",
            base: gemma3,
            n_layer: 26,
            n_head: 4,
            n_head_kv: 1,
            dims: (256, 256),
            window: 512,
            every: 6,
            n_shared: 0,
        },
        Shape {
            name: "Gemma 3 4B",
            base: gemma3,
            n_layer: 34,
            n_head: 8,
            n_head_kv: 4,
            dims: (256, 256),
            window: 1024,
            every: 6,
            n_shared: 0,
        },
        Shape {
            name: "Gemma 4 E2B",
            base: ("gemma4-shared", "gemma4", 1),
            n_layer: 35,
            n_head: 8,
            n_head_kv: 1,
            dims: (256, 512),
            window: 512,
            every: 5,
            n_shared: 20,
        },
        Shape {
            name: "gpt-oss 20B",
            base: ("gpt-oss", "gpt-oss", 1),
            n_layer: 24,
            n_head: 64,
            n_head_kv: 8,
            dims: (64, 64),
            window: 128,
            every: 2,
            n_shared: 0,
        },
    ];
    println!("| layers of | all positions | Ember | share |");
    for (shape, most) in shapes.iter().zip([0.20, 0.22, 0.37, 0.52]) {
        let model = stretched(shape);
        assert_eq!(model.info().windows, [Some(shape.window as usize), None], "{}", shape.name);
        let options = ContextOptions { n_ctx: 32_768, n_threads: 1, ..ContextOptions::default() };
        let whole = ContextOptions { keep_all_positions: true, ..options.clone() };
        let [few, all] = [&options, &whole].map(|options| context(&model, options).memory().0);
        let share = few as f64 / all as f64;
        println!("| {} | {} MiB | {} MiB | {:.0} % |", shape.name, all >> 20, few >> 20, 100.0 * share);
        assert!(share < most, "{}: {share}", shape.name);
        // Layers that see everything need all of it.
        let n_whole = (0..shape.n_layer - shape.n_shared as usize)
            .filter(|i| (i + 1).is_multiple_of(shape.every))
            .count();
        assert_eq!(model.info().kv_layers(1).len(), n_whole, "{}", shape.name);
    }
}

/// Latent attention keeps one vector of a token in each layer, of which its value is a part.
#[test]
fn values_that_are_parts_of_keys_take_no_memory() {
    use ember::kernels::KvType;
    let model = load(&fixture("models/deepseek2-lite.gguf"));
    let info = model.info();
    let heads = info.kv_layers(0);
    let dims = heads[0].dims;
    assert!(dims.v > 0 && dims.v_at == Some(dims.k - dims.v) && heads.iter().all(|heads| heads.n == 1));
    let with = |k_type, v_type| {
        let options =
            ContextOptions { n_ctx: 1 << 16, n_threads: 1, k_type, v_type, ..ContextOptions::default() };
        ember::context::Context::new(&model, &options)
    };
    let f16 = with(Some(KvType::F16), None).unwrap();
    let bytes = (1 << 16) * heads.len() * dims.k * 2;
    let gaps = bytes / 20;
    let other = with(None, Some(KvType::F32)).unwrap().memory().0 as usize - f16.memory().0 as usize;
    assert!(other >= bytes && other < bytes + gaps, "f32 takes {other} bytes more, f16 {bytes} in all");
    let refused = with(Some(KvType::F16), Some(KvType::F32)).err().unwrap().to_string();
    assert!(refused.contains("v_type is f32, but the model's values are parts of its keys"), "{refused}");
}
