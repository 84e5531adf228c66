//! The logits are the same however tokens are cut into calls, batches and threads.

use crate::common;

use std::sync::Arc;

use common::{all_logits, context, fixture, ids, load, read_json, relative_rms};
use ember::backend::KvType;
use ember::context::{BackendKind, Context, ContextOptions, Tokens};
use ember::error::Error;
use ember::model::LoadedModel;

const MODELS: [&str; 7] = [
    "gpt2-tied",
    "gpt2-quant-q4_1",
    "llama-tied-f32",
    "llama3-untied-biased",
    "llama-tied-bf16",
    "llama-tied-q4_0",
    "quant-q4_k",
];

fn each(f: impl Fn(&str, &Arc<LoadedModel>, &[u32])) {
    for name in MODELS {
        let model = load(&fixture(&format!("models/{name}.gguf")));
        f(name, &model, &ids(&read_json(&fixture(&format!("models/{name}.json")))["tokens"]));
    }
}

fn f32_kv() -> ContextOptions {
    ContextOptions {
        k_type: Some(KvType::F32),
        v_type: Some(KvType::F32),
        n_threads: 2,
        ..ContextOptions::default()
    }
}

/// Decodes `tokens` in calls of `n` and returns the logits of all positions.
fn in_calls_of(context: &mut Context, tokens: &[u32], n: usize) -> Vec<f32> {
    tokens.chunks(n).flat_map(|part| all_logits(context, part)).collect()
}

/// The largest difference, relative to the largest logit.
fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let largest = b.iter().fold(0.0f32, |m, x| m.max(x.abs()));
    a.iter().zip(b).fold(0.0f32, |m, (x, y)| m.max((x - y).abs())) / largest
}

#[test]
fn one_batch_micro_batches_and_single_tokens_agree() {
    each(|name, model, tokens| {
        for backend in [BackendKind::Auto, BackendKind::Scalar] {
            let options = ContextOptions { backend, ..f32_kv() };
            let whole = all_logits(&mut context(model, &options), tokens);
            let micro = ContextOptions { n_batch: 7, ..options.clone() };
            let micro = all_logits(&mut context(model, &micro), tokens);
            assert!(difference(&micro, &whole) <= 1e-5, "{name}: {}", difference(&micro, &whole));
            for n in [1, 7] {
                let parts = in_calls_of(&mut context(model, &options), tokens, n);
                assert!(difference(&parts, &whole) <= 1e-5, "{name}, {n}: {}", difference(&parts, &whole));
            }
        }
    });
}

/// The default types: those that x86-64 processors are fastest with, where heads allow them.
#[test]
fn keys_and_values_are_whole_numbers_on_x86_64_by_default() {
    for head_dim in [8, 40, 100, 4096] {
        assert_eq!(KvType::usual(head_dim), KvType::F16, "{head_dim}");
    }
    let kv_type = if cfg!(target_arch = "x86_64") { KvType::I16 } else { KvType::F16 };
    each(|name, model, tokens| {
        assert_eq!(KvType::usual(model.info().head_dim), kv_type, "{name}");
        let chosen =
            ContextOptions { k_type: Some(kv_type), v_type: Some(kv_type), ..ContextOptions::default() };
        let [mut usual, mut chosen] = [ContextOptions::default(), chosen].map(|o| context(model, &o));
        assert!(all_logits(&mut usual, tokens) == all_logits(&mut chosen, tokens), "{name}");
    });
}

/// Options with an f16 cache, and those with an i16 and a q8_0 cache where the model's heads can be cut for one.
fn rounding(model: &LoadedModel) -> Vec<ContextOptions> {
    let kv_types = [(KvType::F16, 1), (KvType::I16, 16), (KvType::Q8_0, 32)];
    let fitting = kv_types.into_iter().filter(|&(_, piece)| model.info().head_dim.is_multiple_of(piece));
    fitting
        .map(|(t, _)| ContextOptions { k_type: Some(t), v_type: Some(t), ..ContextOptions::default() })
        .collect()
}

/// With a cache that rounds, the arithmetic of a row does not depend on the number of other rows.
#[test]
fn with_default_options_the_bits_are_the_same_however_calls_are_cut() {
    each(|name, model, tokens| {
        for options in rounding(model) {
            let whole = all_logits(&mut context(model, &options), tokens);
            let micro = ContextOptions { n_batch: 7, ..options.clone() };
            assert!(all_logits(&mut context(model, &micro), tokens) == whole, "{name}: micro-batches of 7");
            for n in [1, 7] {
                let parts = in_calls_of(&mut context(model, &options), tokens, n);
                assert!(parts == whole, "{name}: calls of {n}, {:?}", options.k_type);
            }
        }
    });
}

#[test]
fn the_same_bits_for_any_number_of_threads() {
    each(|name, model, tokens| {
        for options in rounding(model) {
            let run = |n_threads, n| {
                in_calls_of(&mut context(model, &ContextOptions { n_threads, ..options.clone() }), tokens, n)
            };
            for n in [1, 7, tokens.len()] {
                let one = run(1, n);
                assert!(
                    run(2, n) == one && run(7, n) == one,
                    "{name}: threads change the result of calls of {n}"
                );
            }
        }
    });
}

#[test]
fn a_rewind_and_the_same_tokens_give_the_same_bits() {
    each(|name, model, tokens| {
        let mut context = context(model, &ContextOptions::default());
        let (head, tail) = tokens.split_at(13);
        all_logits(&mut context, head);
        let first = all_logits(&mut context, tail);
        context.rewind(0, 40).expect("long enough");
        context.rewind(0, 13).expect("long enough");
        assert!(matches!(context.end_logits(0), Err(Error::NotFound(_))));
        assert!(all_logits(&mut context, tail) == first, "{name}: other bits after a rewind");
        context.rewind(0, 0).expect("long enough");
        assert_eq!(context.n_past(0).expect("a sequence"), 0);
        all_logits(&mut context, head);
        assert!(all_logits(&mut context, tail) == first, "{name}: other bits after an empty start");
        assert!(matches!(context.rewind(0, tokens.len() + 1), Err(Error::InvalidArgument(_))));
        assert!(matches!(context.rewind(1, 0), Err(Error::InvalidArgument(_))));
    });
}

#[test]
fn a_rounded_cache_is_close_to_f32() {
    each(|name, model, tokens| {
        let exact = all_logits(&mut context(model, &f32_kv()), tokens);
        for options in rounding(model) {
            let options = ContextOptions { n_threads: 2, ..options };
            let error = relative_rms(&all_logits(&mut context(model, &options), tokens), &exact);
            // int8 activations turn the rounding of the cache into flips of their last bit.
            let tolerance =
                if name.contains("q4") || options.k_type == Some(KvType::Q8_0) { 2e-2 } else { 2e-3 };
            assert!(error > 0.0 && error <= tolerance, "{name}, {:?}: {error:.2e}", options.k_type);
        }
    });
}

#[test]
fn sequences_do_not_see_each_other() {
    each(|name, model, tokens| {
        let (a, b) = (&tokens[..30], &tokens[10..40]);
        let alone = [a, b].map(|t| all_logits(&mut context(model, &f32_kv()), t));
        let mut both = context(model, &ContextOptions { n_seq: 2, n_batch: 9, ..f32_kv() });
        let ids: Vec<u32> = a.iter().zip(b).flat_map(|(&x, &y)| [x, y]).collect();
        let seqs: Vec<u32> = (0..60).map(|i| i % 2).collect();
        let positions: Vec<u32> = (0..60).map(|i| i / 2).collect();
        let tokens =
            Tokens { ids: &ids, positions: Some(&positions), seqs: Some(&seqs), outputs: Some(&[true; 60]) };
        both.decode(tokens).expect("free pages");
        for (s, alone) in alone.iter().enumerate() {
            let rows = (0..30).flat_map(|i| both.logits(2 * i + s).expect("asked for").to_vec());
            let rows: Vec<f32> = rows.collect();
            assert!(difference(&rows, alone) <= 1e-5, "{name}, sequence {s}: {}", difference(&rows, alone));
        }
        assert_eq!((both.n_past(0), both.n_past(1)), (Ok(30), Ok(30)));
    });
}

#[test]
fn a_full_context_is_an_error_that_changes_nothing() {
    each(|name, model, tokens| {
        let options = ContextOptions { n_ctx: 33, ..f32_kv() };
        let mut full = context(model, &options);
        all_logits(&mut full, &tokens[..31]);
        assert!(matches!(full.decode(Tokens::next(&tokens[..3])), Err(Error::ContextFull(_))), "{name}");
        assert_eq!(full.n_past(0), Ok(31));
        let after = in_calls_of(&mut full, &tokens[31..33], 1);
        assert!(matches!(full.decode(Tokens::next(&tokens[..1])), Err(Error::ContextFull(_))));
        let mut fresh = context(model, &options);
        all_logits(&mut fresh, &tokens[..31]);
        assert!(in_calls_of(&mut fresh, &tokens[31..33], 1) == after, "{name}: the failed call left traces");
    });
}

#[test]
fn calls_that_contradict_themselves_are_refused() {
    let model = load(&fixture("models/llama-tied-f32.gguf"));
    let mut context = context(&model, &f32_kv());
    let tokens = Tokens::next(&[1, 2, 3]);
    let refused = |context: &mut Context, tokens: Tokens<'_>, culprit: &str| match context.decode(tokens) {
        Err(Error::InvalidArgument(m)) => assert!(m.contains(culprit), "{m}"),
        other => panic!("{other:?} instead of a refusal that names {culprit}"),
    };
    refused(&mut context, Tokens::next(&[]), "no token");
    refused(&mut context, Tokens::next(&[1, 97]), "token 1 of the batch is 97");
    refused(&mut context, Tokens { positions: Some(&[0, 2, 3]), ..tokens }, "position 2");
    refused(&mut context, Tokens { positions: Some(&[0]), ..tokens }, "1 positions for 3 tokens");
    refused(&mut context, Tokens { seqs: Some(&[0, 0, 1]), ..tokens }, "sequence 1 does not exist");
    refused(&mut context, Tokens { outputs: Some(&[true]), ..tokens }, "1 output flags for 3 tokens");
    assert_eq!(context.n_past(0), Ok(0));
    context.decode(Tokens { outputs: Some(&[false, true, false]), ..tokens }).expect("free pages");
    assert!(context.logits(1).is_ok());
    assert!(matches!(context.logits(0), Err(Error::NotFound(_))));
    assert!(matches!(context.logits(7), Err(Error::NotFound(_))));
}

#[test]
fn a_context_has_the_threads_that_there_can_be() {
    let model = load(&fixture("models/llama-tied-f32.gguf"));
    let context = context(&model, &ContextOptions { n_threads: 3, ..f32_kv() });
    let expected = if cfg!(target_family = "wasm") { 1 } else { 3 };
    assert_eq!(context.options().n_threads, expected);
}

#[test]
fn options_that_contradict_the_model_are_refused() {
    let gpt2 = load(&fixture("models/gpt2-tied.gguf"));
    let refused = |options: ContextOptions, culprit: &str| match Context::new(&gpt2, &options).err() {
        Some(Error::InvalidArgument(m)) => assert!(m.contains(culprit), "{m}"),
        other => panic!("{other:?} instead of a refusal that names {culprit}"),
    };
    refused(ContextOptions { n_ctx: 65, ..f32_kv() }, "learned positions for 64");
    refused(ContextOptions { n_seq: 0, ..f32_kv() }, "n_seq");
    refused(ContextOptions { n_threads: 100_000, ..f32_kv() }, "n_threads");
    let llama = load(&fixture("models/llama-tied-f32.gguf"));
    let huge = ContextOptions { n_ctx: i32::MAX as usize, n_seq: 4096, ..f32_kv() };
    assert!(matches!(Context::new(&llama, &huge).err(), Some(Error::NoMemory(_))));
}
