//! T5 with its decoder: properties that the fixtures' numbers do not show, and refusals of such models.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::sync::Arc;

use common::parts::Parts;
use common::{bits, context, fixture, ids, load, read_f32s, read_json, relative_rms, state};
use ember::backend::KvType;
use ember::context::{BackendKind, Context, ContextOptions, EmbedOptions, Tokens};
use ember::conversation::{Conversation, ConversationOptions};
use ember::engine::{Engine, EngineOptions};
use ember::error::ember_status::{self, *};
use ember::generate::score::{ScoreOptions, Scoring};
use ember::generate::{Completions, DraftModel, EventKind, GenerateOptions, Lookup, Prompt, Shift, generate};
use ember::model::LoadedModel;
use ember::sampler::{Sampler, Stage};

const NAMES: [&str; 3] = ["t5", "t5-gated", "t5-each"];
const START: &str = "t5.decoder_start_token_id";

struct Case {
    model: Arc<LoadedModel>,
    text: Vec<u32>,
    /// From the token on that answers begin with.
    answer: Vec<u32>,
    greedy: Vec<u32>,
    logits: Vec<f32>,
}

fn case(name: &str) -> Case {
    let path = |end: &str| fixture(&format!("models/{name}.{end}"));
    let json = read_json(&path("json"));
    let mut text = ids(&json["tokens"]);
    let answer = text.split_off(json["n_text"].as_u64().unwrap() as usize);
    let logits = read_f32s(&path("logits.f32"));
    Case { model: load(&path("gguf")), text, answer, greedy: ids(&json["greedy"]), logits }
}

fn options() -> ContextOptions {
    ContextOptions { n_ctx: 160, ..ContextOptions::default() }
}

fn exact(backend: BackendKind) -> ContextOptions {
    let (k_type, v_type) = (Some(KvType::F32), Some(KvType::F32));
    ContextOptions { k_type, v_type, backend, ..options() }
}

fn decode(context: &mut Context, seq: u32, ids: &[u32], wants: bool) -> ember::error::Result<()> {
    let (seqs, outputs) = (vec![seq; ids.len()], vec![wants; ids.len()]);
    context.decode(Tokens { ids, positions: None, seqs: Some(&seqs), outputs: Some(&outputs) })
}

/// The logits after each token of `answer` in `seq`, which runs in calls of these lengths.
fn answered(context: &mut Context, seq: u32, answer: &[u32], len: usize) -> Vec<f32> {
    let mut logits = Vec::new();
    for ids in answer.chunks(len) {
        decode(context, seq, ids, true).unwrap();
        (0..ids.len()).for_each(|i| logits.extend_from_slice(context.logits(i).unwrap()));
    }
    logits
}

fn greedy() -> Sampler {
    let mut sampler = Sampler::new(1);
    sampler.push(Stage::Greedy).unwrap();
    sampler
}

fn generated(context: &mut Context, prompt: &[u32], o: &GenerateOptions) -> Vec<u32> {
    let mut found = Vec::new();
    generate(context, &mut greedy(), prompt, o, |event| {
        if let EventKind::Token(token) = &event.kind {
            found.push(token.id);
        }
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    found
}

#[track_caller]
fn refused<T>(outcome: ember::error::Result<T>, status: ember_status, culprit: &str) {
    let error = outcome.err().expect("an error");
    assert!(error.status() == status && error.message().contains(culprit), "{error:?}");
}

#[test]
fn logits_are_those_of_pytorch_token_by_token_and_in_pieces() {
    for name in NAMES {
        let Case { model, text, answer, logits, .. } = case(name);
        for backend in [BackendKind::Auto, BackendKind::Scalar] {
            for len in [1, 7, answer.len()] {
                let mut context = context(&model, &exact(backend));
                decode(&mut context, 0, &text, false).unwrap();
                let found = answered(&mut context, 0, &answer, len);
                let width = logits.len() / answer.len();
                for (found, expected) in found.chunks(width).zip(logits.chunks(width)) {
                    let error = relative_rms(found, expected);
                    assert!(error <= 1e-4, "{name}, {backend:?}, {len} at a time: {error:e}");
                }
            }
        }
    }
}

#[test]
fn bits_do_not_hang_on_threads_or_on_how_calls_are_cut() {
    let Case { model, text, answer, .. } = case("t5-gated");
    let mut first = None;
    for n_threads in [1, 2, 7] {
        for len in [1, 5, answer.len()] {
            let mut context = context(&model, &ContextOptions { n_threads, n_batch: 80, ..options() });
            decode(&mut context, 0, &text, false).unwrap();
            let found = bits(&answered(&mut context, 0, &answer, len));
            assert!(*first.get_or_insert_with(|| found.clone()) == found, "{n_threads} threads, {len}");
        }
    }
}

#[test]
fn generation_is_the_greedy_search_of_transformers() {
    for name in NAMES {
        let Case { model, text, greedy, .. } = case(name);
        let o = GenerateOptions { max_tokens: greedy.len(), ..GenerateOptions::default() };
        let mut context = context(&model, &exact(BackendKind::Auto));
        assert_eq!(generated(&mut context, &text, &o), greedy, "{name}");
        // Drafts from the text change nothing; nor does a text that is there already.
        let lookup = Some(Lookup { n_draft: 4, ngram: 2 });
        let again = GenerateOptions { reuse_prefix: true, lookup, ..o.clone() };
        assert_eq!(generated(&mut context, &text, &again), greedy, "{name}");
        // The prompt may have the token that answers begin with.
        let begun = [&text[..], &[0], &greedy[..3]].concat();
        let rest = GenerateOptions { reuse_prefix: true, max_tokens: 10, ..o };
        assert_eq!(generated(&mut context, &begun, &rest), greedy[3..13], "{name}");
        // Another text that begins alike shares nothing.
        let shorter = &text[..70];
        let found = generated(&mut context, shorter, &rest);
        let mut fresh = common::context(&model, &exact(BackendKind::Auto));
        assert_eq!(found, generated(&mut fresh, shorter, &rest), "{name}");
    }
}

#[test]
fn sequences_are_apart_and_copies_and_saved_states_go_on() {
    let Case { model, text, answer, .. } = case("t5-each");
    let o = ContextOptions { n_seq: 3, n_ctx: 160, ..ContextOptions::default() };
    let mut alone = context(&model, &o);
    decode(&mut alone, 0, &text, false).unwrap();
    let expected = bits(&answered(&mut alone, 0, &answer, 1));
    // Two texts and an answer's beginning in one call, and answers side by side.
    let mut c = context(&model, &o);
    let other = &text[..40];
    let all = [&text[..], other, &answer[..1], &answer[..1]].concat();
    let seqs = [vec![0; text.len()], vec![1; 40], vec![0, 1]].concat();
    let outputs: Vec<bool> = (0..all.len()).map(|i| i >= text.len() + 40).collect();
    c.decode(Tokens { ids: &all, positions: None, seqs: Some(&seqs), outputs: Some(&outputs) }).unwrap();
    c.copy_sequence(0, 2, text.len() + 1).unwrap();
    let width = c.logits(all.len() - 1).unwrap().len();
    let found = answered(&mut c, 2, &answer[1..], 1);
    assert!(bits(&found) == expected[width..]);
    decode(&mut c, 1, &answer[1..20], false).unwrap();
    let saved = state(&c, Some(0));
    let mut restored = context(&model, &o);
    restored.load_state(Some(1), &saved).unwrap();
    assert!(bits(&answered(&mut restored, 1, &answer[1..], 3)) == expected[width..]);
    c.rewind(0, text.len() + 1).unwrap();
    assert!(bits(&answered(&mut c, 0, &answer[1..], 4)) == expected[width..]);
    c.rewind(0, text.len()).unwrap();
    assert!(bits(&answered(&mut c, 0, &answer, 4)) == expected);
}

#[test]
fn answers_are_drawn_side_by_side_and_scored() {
    let Case { model, text, answer, greedy: expected, logits } = case("t5");
    let o = GenerateOptions { max_tokens: 12, logprobs: true, ..GenerateOptions::default() };
    let mut c = context(&model, &ContextOptions { n_seq: 2, ..exact(BackendKind::Auto) });
    let mut all = Completions::new(&c, Prompt::Tokens(&text), &o, &greedy(), 2).unwrap();
    let mut found = [Vec::new(), Vec::new()];
    while let Some((i, event)) = all.next(&mut c).unwrap() {
        if let EventKind::Token(token) = &event.kind {
            found[i].push(token.id);
        }
    }
    assert_eq!(found, [expected[..12].to_vec(), expected[..12].to_vec()]);
    let whole = [&text[..], &answer[..]].concat();
    let n_prompt = text.len() + 1;
    let score =
        Scoring::of_tokens(&c, &whole, n_prompt, &ScoreOptions::default()).unwrap().run(&mut c).unwrap();
    let width = logits.len() / answer.len();
    for (i, (token, row)) in score.tokens.iter().zip(logits.chunks(width)).enumerate() {
        let sum: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
        let expected = f64::from(row[answer[i + 1] as usize]) - sum.ln();
        assert!((f64::from(token.logprob) - expected).abs() < 1e-3, "{i}: {} {expected}", token.logprob);
    }
    assert_eq!(score.tokens.len(), answer.len() - 1);
}

#[test]
fn what_cannot_hold_is_refused_by_name() {
    let Case { model, text, .. } = case("t5");
    let mut c = context(&model, &options());
    refused(decode(&mut c, 0, &text, true), EMBER_E_INVALID_ARGUMENT, "asks for logits");
    refused(decode(&mut c, 0, &[0, 5], false), EMBER_E_INVALID_ARGUMENT, "no text");
    decode(&mut c, 0, &text, false).unwrap();
    refused(decode(&mut c, 0, &text[..5], false), EMBER_E_INVALID_ARGUMENT, "as a whole");
    refused(c.rewind(0, 10), EMBER_E_INVALID_ARGUMENT, "as a whole");
    decode(&mut c, 0, &[0, 5, 6], false).unwrap();
    refused(c.rewind(0, 74), EMBER_E_INVALID_ARGUMENT, "as a whole");
    refused(c.shift(0, 76, 1), EMBER_E_UNSUPPORTED, "an encoder with a decoder");
    refused(c.embed(&[&text], &EmbedOptions::default()), EMBER_E_UNSUPPORTED, "t5encoder");
    c.rewind(0, 0).unwrap();
    let mut narrow = context(&model, &ContextOptions { n_batch: 64, ..options() });
    refused(decode(&mut narrow, 0, &text, false), EMBER_E_INVALID_ARGUMENT, "n_batch");
    let mut two = context(&model, &ContextOptions { n_seq: 2, ..options() });
    let (ids, seqs, outputs) = ([5, 6, 7], [0, 1, 0], [false; 3]);
    let mixed = Tokens { ids: &ids, positions: None, seqs: Some(&seqs), outputs: Some(&outputs) };
    refused(two.decode(mixed), EMBER_E_INVALID_ARGUMENT, "in one piece");
    refused(Engine::new(&model, &EngineOptions::default()), EMBER_E_UNSUPPORTED, "an engine");
    refused(Conversation::new(&model, ConversationOptions::default()), EMBER_E_UNSUPPORTED, "conversations");
    let kept = ContextOptions { keep_prefixes: true, ..options() };
    refused(Context::new(&model, &kept), EMBER_E_UNSUPPORTED, "keep_prefixes");
    let shift = GenerateOptions { shift: Some(Shift { keep: 1, drop: 1 }), ..GenerateOptions::default() };
    let run = |o: &GenerateOptions, c: &mut Context| {
        generate(c, &mut greedy(), &text[..], o, |_| std::ops::ControlFlow::Continue(())).map(drop)
    };
    refused(run(&shift, &mut c), EMBER_E_UNSUPPORTED, "an encoder with a decoder");
    let lender = Arc::new(parking_lot::Mutex::new(context(&model, &options())));
    let draft = Some(DraftModel { context: lender, seq: 0, n_draft: 4 });
    let drafted = GenerateOptions { draft, ..GenerateOptions::default() };
    refused(run(&drafted, &mut c), EMBER_E_UNSUPPORTED, "draft");
}

#[test]
fn damaged_files_are_refused_with_a_sentence() {
    let refused = |parts: Parts, status, culprit: &str| {
        refused(LoadedModel::from_bytes(&parts.bytes(), "t5.gguf"), status, culprit);
    };
    let parts = || Parts::of("t5");
    refused(parts().without_key(START), EMBER_E_FORMAT, START);
    refused(parts().key(START, 101u32), EMBER_E_FORMAT, START);
    refused(parts().key(START, "0"), EMBER_E_FORMAT, START);
    refused(parts().key(START, -1i32), EMBER_E_FORMAT, START);
    refused(parts().key("t5.decoder_block_count", 3u32), EMBER_E_FORMAT, "dec.blk.2.");
    refused(parts().key("t5.decoder_block_count", 1u32), EMBER_E_UNSUPPORTED, "dec.blk.1.");
    refused(parts().key("t5.decoder_block_count", 0u32), EMBER_E_FORMAT, "decoder_block_count");
    refused(parts().key("t5.attention.head_count_kv", 1u32), EMBER_E_UNSUPPORTED, "head_count_kv");
    for tensor in ["attn_rel_b", "cross_attn_k", "cross_attn_norm", "ffn_up"] {
        let name = format!("dec.blk.0.{tensor}.weight");
        refused(parts().without_tensor(&name), EMBER_E_FORMAT, &name);
    }
    refused(parts().without_tensor("dec.output_norm.weight"), EMBER_E_FORMAT, "dec.output_norm.weight");
    let other = parts().f32s("dec.blk.1.cross_attn_v.weight", &[24, 20], &[0.5; 480]);
    refused(other, EMBER_E_FORMAT, "dec.blk.1.cross_attn_v.weight");
}
