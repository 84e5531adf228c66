//! Embeddings: pooling against PyTorch's hidden states, many texts in one call, and refusals. An embedding changes nothing else
//! in a context.

use crate::common;

use std::sync::Arc;

use common::parts::Parts;
use common::{
    all_hidden, all_logits, bundled_model, context, fixture, ids, load, load_fixture, read_f32s, read_json,
    relative_rms,
};
use ember::backend::KvType;
use ember::context::{BackendKind, Context, ContextOptions, EmbedOptions, Tokens};
use ember::error::{Error, Result};
use ember::generate::{GenerateOptions, generate};
use ember::gguf::Gguf;
use ember::model::LoadedModel;
use ember::nn::pooling::Pooling;
use ember::sampler::Sampler;

const POOLINGS: [Pooling; 4] = [Pooling::None, Pooling::Mean, Pooling::Cls, Pooling::Last];
/// Two encoders, a causal model, and one whose weights are multiplied with int8 activations.
const MODELS: [&str; 4] = ["bert", "nomic-bert", "llama-tied-f32", "gpt2-quant-q8_0"];

fn tokens(name: &str) -> Vec<u32> {
    ids(&read_json(&fixture(&format!("models/{name}.json")))["tokens"])
}

/// Texts of many lengths, some longer than a page of the cache, one a single token.
fn texts(tokens: &[u32]) -> Vec<&[u32]> {
    [7, 33, 1, 48, 32, 12, 12, 5, 40, 3].iter().map(|&n| &tokens[..n.min(tokens.len())]).collect()
}

fn f32_kv() -> ContextOptions {
    ContextOptions {
        k_type: Some(KvType::F32),
        v_type: Some(KvType::F32),
        backend: BackendKind::Scalar,
        ..ContextOptions::default()
    }
}

fn raw(pooling: Pooling) -> EmbedOptions {
    EmbedOptions { pooling: Some(pooling), normalize: Some(false), ..EmbedOptions::default() }
}

/// The rows of a text, pooled in f64.
fn pooled(rows: &[f32], n_embd: usize, pooling: Pooling) -> Vec<f32> {
    let n = rows.len() / n_embd;
    match pooling {
        Pooling::None => rows.to_vec(),
        Pooling::Cls => rows[..n_embd].to_vec(),
        Pooling::Last => rows[(n - 1) * n_embd..].to_vec(),
        Pooling::Mean => {
            let sum = |j: usize| (0..n).map(|i| f64::from(rows[i * n_embd + j])).sum::<f64>();
            (0..n_embd).map(|j| (sum(j) / n as f64) as f32).collect()
        }
    }
}

fn length(row: &[f32]) -> f64 {
    row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn pooled_vectors_agree_with_pytorch() {
    for name in ["bert", "nomic-bert"] {
        let expected = read_f32s(&fixture(&format!("models/{name}.embd.f32")));
        let (model, tokens) = (load_fixture(name), tokens(name));
        let n_embd = model.info().n_embd;
        for pooling in POOLINGS {
            let expected = pooled(&expected, n_embd, pooling);
            let mut context = context(&model, &f32_kv());
            let found = context.embed(&[&tokens], &raw(pooling)).expect("an embedding");
            assert!(relative_rms(&found, &expected) <= 1e-4, "{name}, {pooling:?}");
            // A unit vector has the same direction.
            let unit = EmbedOptions { normalize: Some(true), ..raw(pooling) };
            let found = context.embed(&[&tokens], &unit).expect("an embedding");
            for (row, expected) in found.chunks(n_embd).zip(expected.chunks(n_embd)) {
                let expected: Vec<f32> = expected.iter().map(|x| x / length(expected) as f32).collect();
                assert!((length(row) - 1.0).abs() < 1e-6 && relative_rms(row, &expected) <= 1e-4);
            }
        }
        // The default is what the file says: the mean, at length 1.
        let mut context = context(&model, &f32_kv());
        let unit = EmbedOptions { normalize: Some(true), ..raw(Pooling::Mean) };
        let by_default = context.embed(&[&tokens], &EmbedOptions::default());
        assert_eq!(model.info().pooling, Some(Pooling::Mean));
        assert_eq!(by_default, context.embed(&[&tokens], &unit));
        let rows = EmbedOptions { pooling: Some(Pooling::None), ..EmbedOptions::default() };
        assert_eq!(context.embed(&[&tokens], &rows), context.embed(&[&tokens], &raw(Pooling::None)));
    }
}

/// The hidden states of a model whose head is its token embedding give its logits, which PyTorch proves elsewhere.
#[test]
fn hidden_states_of_a_causal_model_give_its_logits() {
    let name = "llama-tied-f32";
    let (model, tokens) = (load_fixture(name), tokens(name));
    let n_embd = model.info().n_embd;
    let file = Gguf::open(&fixture(&format!("models/{name}.gguf"))).expect("a fixture");
    let bytes = file.tensor_bytes(file.tensor("token_embd.weight").expect("the embedding"));
    let table: Vec<f32> =
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let hidden = all_hidden(&mut context(&model, &f32_kv()), &tokens);
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let logits: Vec<f32> = hidden
        .chunks(n_embd)
        .flat_map(|row| table.chunks(n_embd).map(move |token| dot(row, token) as f32))
        .collect();
    let expected = read_f32s(&fixture(&format!("models/{name}.logits.f32")));
    assert!(relative_rms(&logits, &expected) <= 1e-4);
    assert_eq!((model.info().causal, model.info().pooling), (true, None));
    let mut context = context(&model, &f32_kv());
    let mean = EmbedOptions { normalize: Some(true), ..raw(Pooling::Mean) };
    assert_eq!(context.embed(&[&tokens], &EmbedOptions::default()), context.embed(&[&tokens], &mean));
}

#[test]
fn texts_embedded_together_have_the_bits_of_texts_embedded_alone() {
    for name in MODELS {
        let (model, tokens) = (load_fixture(name), tokens(name));
        let texts = texts(&tokens);
        for pooling in POOLINGS {
            let one_by_one: Vec<f32> = texts
                .iter()
                .flat_map(|text| {
                    let mut context = context(&model, &ContextOptions::default());
                    context.embed(&[text], &raw(pooling)).expect("an embedding")
                })
                .collect();
            // One sequence leaves pages for few texts at a time, some for all; a causal model's texts may be cut.
            for (n_seq, n_batch, n_threads) in [(1, 0, 1), (4, 0, 2), (16, 512, 7), (2, 50, 1), (2, 9, 2)] {
                if n_batch == 9 && !model.info().causal {
                    continue;
                }
                let options = ContextOptions { n_seq, n_batch, n_threads, ..ContextOptions::default() };
                let mut context = context(&model, &options);
                for _ in 0..2 {
                    let together = context.embed(&texts, &raw(pooling)).expect("embeddings");
                    assert!(together == one_by_one, "{name}, {pooling:?}, n_seq {n_seq}, n_batch {n_batch}");
                }
            }
        }
        let mut context = context(&model, &ContextOptions::default());
        assert_eq!(context.embed(&[], &EmbedOptions::default()), Ok(Vec::new()));
    }
}

#[test]
fn sequences_and_logits_stay_as_they_are() {
    let name = "llama-tied-f32";
    let (model, tokens) = (load_fixture(name), tokens(name));
    let mut context = context(&model, &ContextOptions { n_ctx: 96, ..ContextOptions::default() });
    let mut undisturbed = self::context(&model, &ContextOptions { n_ctx: 96, ..ContextOptions::default() });
    let (head, tail) = tokens.split_at(20);
    for c in [&mut context, &mut undisturbed] {
        c.decode(Tokens::next(head)).expect("free pages");
    }
    let logits = context.end_logits(0).expect("asked for").to_vec();
    // Of three pages one is taken.
    context.embed(&[&tokens[..40], &tokens[..3]], &EmbedOptions::default()).expect("embeddings");
    assert_eq!(context.n_past(0), Ok(20));
    assert!(context.end_logits(0).expect("still there") == logits);
    assert!(all_logits(&mut context, tail) == all_logits(&mut undisturbed, tail));

    // 48 tokens take two pages; one is left.
    let full = context.embed(&[&tokens[..33]], &EmbedOptions::default());
    let message = full.expect_err("no free pages").message().to_owned();
    assert!(message.contains("text 0 has 33 tokens") && message.contains("space for 32"), "{message}");
    context.embed(&[&tokens[..32]], &EmbedOptions::default()).expect("free pages");
    context.rewind(0, 0).expect("a sequence");
    context.embed(&[&tokens[..48]], &EmbedOptions::default()).expect("free pages");
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T>, is_kind: fn(&Error) -> bool, culprits: &[&str]) {
    let error = outcome.expect_err("a refusal");
    assert!(is_kind(&error), "{error:?}");
    for culprit in culprits {
        assert!(error.message().contains(culprit), "no {culprit:?} in: {}", error.message());
    }
}

#[test]
fn texts_that_cannot_be_embedded_are_named() {
    let invalid = |e: &Error| matches!(e, Error::InvalidArgument(_));
    let full = |e: &Error| matches!(e, Error::ContextFull(_));
    for name in MODELS {
        let (model, tokens) = (load_fixture(name), tokens(name));
        let n_vocab = model.info().n_vocab;
        let options = ContextOptions { n_ctx: 20, ..ContextOptions::default() };
        let mut c = context(&model, &options);
        let plain = EmbedOptions::default();
        refused(c.embed(&[&[1, 2], &[]], &plain), invalid, &["text 1 is empty"]);
        let wrong = [3, n_vocab as u32];
        refused(
            c.embed(&[&[1], &wrong], &plain),
            invalid,
            &["token 1 of text 1", &format!("has {n_vocab} tokens")],
        );
        let long = &tokens[..21];
        refused(c.embed(&[&[1], &[2], long], &plain), full, &["text 2 has 21 tokens", "20 (n_ctx)"]);
        let truncate = EmbedOptions { truncate: true, ..plain };
        assert_eq!(c.embed(&[long], &truncate), c.embed(&[&tokens[..20]], &plain), "{name}");
        let rows = EmbedOptions { pooling: Some(Pooling::None), ..truncate };
        assert_eq!(c.embedding_len(&[long, &[1]], &rows), Ok(21 * model.info().n_embd));
        assert_eq!(c.embedding_len(&[long, &[1]], &truncate), Ok(2 * model.info().n_embd));
        refused(c.tokenize_texts(&["a"], &plain), |e| matches!(e, Error::Unsupported(_)), &["tokenizer"]);
    }
    let mut c = context(&load_fixture("bert"), &ContextOptions { n_batch: 8, ..ContextOptions::default() });
    refused(c.embed(&[&[1; 9]], &EmbedOptions::default()), full, &["text 0 has 9 tokens", "8 (n_batch)"]);
}

/// Nobody finds a NaN in a database of vectors.
#[test]
fn vectors_that_are_not_finite_are_refused() {
    for x in [f32::NAN, f32::INFINITY] {
        let mut parts = Parts::of("llama-tied-f32");
        let table = parts.tensors.iter_mut().find(|t| t.0 == "token_embd.weight").expect("the embedding");
        let (row, bad) = (table.2[0] * 4, 5);
        table.3[bad * row..bad * row + 4].copy_from_slice(&x.to_le_bytes());
        let model = LoadedModel::from_bytes(&parts.bytes(), "bad").expect("a model");
        let mut c = context(&Arc::new(model), &ContextOptions::default());
        let (fine, wrong) = ([1, 2, 3], [1, bad as u32, 2]);
        for pooling in POOLINGS {
            for normalize in [Some(false), Some(true)] {
                let options = EmbedOptions { pooling: Some(pooling), normalize, ..EmbedOptions::default() };
                let before = c.embed(&[&fine], &options).expect("finite numbers");
                let outcome = c.embed(&[&fine, &fine, &wrong], &options);
                // The first token does not see the one after it.
                if pooling == Pooling::Cls {
                    assert_eq!(outcome.map(|v| v.len()), Ok(3 * before.len()));
                    continue;
                }
                refused(outcome, |e| matches!(e, Error::InvalidArgument(_)), &["number 0", "text 2", "NaN"]);
                assert_eq!(c.embed(&[&fine], &options), Ok(before));
            }
        }
    }
}

#[test]
fn encoders_have_no_logits() {
    for name in ["bert", "nomic-bert"] {
        let model = load_fixture(name);
        let unsupported = |e: &Error| matches!(e, Error::Unsupported(_));
        let culprits = [name, "encoder", "embeddings"];
        let mut c: Context = context(&model, &ContextOptions::default());
        assert_eq!((c.options().n_ctx, c.options().n_batch), (64, 64));
        refused(c.decode(Tokens::next(&[1, 2])), unsupported, &culprits);
        refused(c.logits(0).map(<[f32]>::len), unsupported, &culprits);
        let outcome = generate(&mut c, &mut Sampler::new(1), "a", &GenerateOptions::default(), |_| {
            std::ops::ControlFlow::Continue(())
        });
        refused(outcome, unsupported, &culprits);
        assert_eq!(c.n_past(0), Ok(0));
    }
}

/// A decoder whose file has no output projection, as embedders are saved.
#[cfg(feature = "hf")]
#[test]
fn a_decoder_without_a_head_gives_the_embeddings_of_the_whole_and_no_logits() {
    let folder = common::TempFolder::new("headless");
    for file in ["config.json", "model.safetensors"] {
        let bytes = std::fs::read(common::fixture(&format!("hf/qwen3-tied/{file}"))).expect("a fixture");
        folder.write(file, bytes);
    }
    let whole = load(&folder.0);
    let config = std::fs::read_to_string(folder.0.join("config.json")).expect("just written");
    assert!(config.contains("\"tie_word_embeddings\": true"));
    folder.write(
        "config.json",
        config.replace("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false"),
    );
    let headless = load(&folder.0);
    assert!(whole.info().has_logits && headless.info().causal && !headless.info().has_logits);
    let [expected, found] = [&whole, &headless].map(|model| {
        let mut c = context(model, &ContextOptions::default());
        c.embed(&[&[5, 6, 7, 8]], &EmbedOptions::default()).expect("embeddings")
    });
    assert_eq!(found, expected);
    let unsupported = |e: &Error| matches!(e, Error::Unsupported(_));
    let culprits = ["output projection", "embeddings"];
    let mut c = context(&headless, &ContextOptions::default());
    refused(c.decode(Tokens::next(&[1, 2])), unsupported, &culprits);
    refused(c.logits(0).map(<[f32]>::len), unsupported, &culprits);
    assert_eq!(c.n_past(0), Ok(0));
}

/// A context with so many pages of 32 tokens.
fn with_pages(model: &Arc<LoadedModel>, n_pages: u64) -> Context {
    let options = ContextOptions { n_ctx: 128, n_seq: 2, ..ContextOptions::default() };
    let whole = context(model, &options);
    let page_bytes = whole.memory().0 / whole.kv_pages().0 as u64;
    let c = context(model, &ContextOptions { kv_limit: Some(n_pages * page_bytes), ..options });
    assert_eq!(c.kv_pages().0 as u64, n_pages);
    c
}

#[test]
fn texts_are_cut_to_the_free_pages() {
    let model = load_fixture("llama-tied-f32");
    let mut c = with_pages(&model, 2);
    let text: Vec<u32> = (0..200).map(|i| 3 + i % 50).collect();
    let full = |e: &Error| matches!(e, Error::ContextFull(_));
    let (plain, truncate) =
        (EmbedOptions::default(), EmbedOptions { truncate: true, ..EmbedOptions::default() });
    let rows = EmbedOptions { pooling: Some(Pooling::None), ..truncate };
    // No sequence is to blame.
    for n in [100, 200] {
        let culprits = [&format!("text 1 has {n} tokens"), "holds 64 (kv_limit)"];
        refused(c.embed(&[&[5], &text[..n]], &plain), full, &culprits);
    }
    let cut = c.embed(&[&text[..64]], &plain).expect("free pages");
    for n in [64, 100, 200] {
        assert_eq!(c.embed(&[&text[..n]], &truncate).as_ref(), Ok(&cut), "{n}");
        assert_eq!(c.embedding_len(&[&text[..n], &[7]], &rows), Ok(65 * model.info().n_embd));
    }
    let together = c.embed(&[&text[..20], &text, &text[..100]], &truncate).expect("one after the other");
    assert!(together[model.info().n_embd..] == [&cut[..], &cut[..]].concat());
    // A sequence takes a page, then both.
    c.decode(Tokens::next(&[1; 8])).expect("free pages");
    assert_eq!(c.embed(&[&text], &truncate), c.embed(&[&text[..32]], &plain));
    refused(c.embed(&[&text], &plain), full, &["text 0 has 200 tokens", "space for 32: rewind"]);
    c.decode(Tokens::next(&[1; 30])).expect("free pages");
    refused(c.embed(&[&text], &truncate), full, &["text 0 has 200 tokens", "space for 0: rewind"]);
}

#[test]
fn texts_without_a_free_page_keep_their_tokens() {
    let model = load(&bundled_model());
    let mut c = with_pages(&model, 1);
    let truncate = EmbedOptions { truncate: true, ..EmbedOptions::default() };
    let text = "The sea was calm, and the moon was calm. ".repeat(5);
    let cut = c.tokenize_texts(&[&text], &truncate).expect("tokens");
    assert_eq!(cut[0].len(), 32);
    c.embed(&[&cut[0][..], &[5; 50]], &truncate).expect("free pages, one after the other");
    assert_eq!(c.timings().n_embed, 64, "what was cut off was not run");
    c.decode(Tokens::next(&[1])).expect("free pages");
    let whole = c.tokenize_texts(&[&text], &truncate).expect("tokens");
    let full = |e: &Error| matches!(e, Error::ContextFull(_));
    refused(c.embed(&[&whole[0]], &truncate), full, &["text 0 has", "space for 0: rewind"]);
}
