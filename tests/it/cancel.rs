//! A cancel token ends loading, decoding and embedding from another thread, and leaves a context as it was.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use common::{all_logits, bundled_model, context, fixture, load};
use ember::backend::KvType;
use ember::cancel::CancelToken;
use ember::context::{BackendKind, ContextOptions, EmbedOptions, Tokens};
use ember::error::{Error, Result};
use ember::gguf::Gguf;
use ember::model::{LoadOptions, LoadedModel, Pack, ProgressCallback};
use ember::tokenizer::Tokenizer;

/// Calls `work` with a token that another thread cancels: before the call, and then at growing times after its start, until
/// the call is done before. Whether one is ended in the midst is the system's choice, what it leaves is not.
fn cancel_at_any_time(mut work: impl FnMut(&CancelToken) -> Result<()>, mut after: impl FnMut(bool)) {
    let token = CancelToken::new();
    std::thread::scope(|scope| scope.spawn(|| token.cancel()).join()).expect("no panic");
    assert!(matches!(work(&token), Err(Error::Cancelled(_))));
    after(true);
    for delay in (0..40).map(|i| 1u64 << (i / 2)) {
        let (token, begun) = (CancelToken::new(), AtomicBool::new(false));
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !begun.load(SeqCst) {
                    std::thread::yield_now();
                }
                std::thread::sleep(std::time::Duration::from_micros(delay));
                token.cancel();
            });
            begun.store(true, SeqCst);
            work(&token)
        });
        let cancelled = matches!(outcome, Err(Error::Cancelled(_)));
        assert!(cancelled || outcome.is_ok(), "{outcome:?}");
        after(cancelled);
        if !cancelled {
            return;
        }
    }
}

#[test]
fn a_cancelled_decode_changes_no_sequence() {
    let model = load(&bundled_model());
    let ids: Vec<u32> = (0..220).map(|i| 300 + i * 7 % 500).collect();
    for backend in [BackendKind::Auto, BackendKind::Scalar] {
        let options =
            ContextOptions { n_seq: 2, n_batch: 32, n_threads: 2, backend, ..ContextOptions::default() };
        let expected = all_logits(&mut context(&model, &options), &ids[..9]);
        let mut context = context(&model, &options);
        context.decode(Tokens { seqs: Some(&[1; 40]), ..Tokens::next(&ids[..40]) }).expect("free pages");
        context.decode(Tokens::next(&ids[..5])).expect("free pages");
        let n_long = if backend == BackendKind::Auto { ids.len() } else { 60 };
        let long = &ids[5..n_long];
        let context = std::cell::RefCell::new(context);
        cancel_at_any_time(
            |token| {
                let mut context = context.borrow_mut();
                context.set_cancel_token(Some(token.clone()));
                context.decode(Tokens::next(long))
            },
            |cancelled| {
                let mut context = context.borrow_mut();
                context.set_cancel_token(None);
                let len = if cancelled { 5 } else { n_long };
                assert_eq!((context.n_past(0), context.n_past(1)), (Ok(len), Ok(40)));
                assert_eq!(context.tokens(0), Ok(&ids[..len]));
                assert_eq!(context.tokens(1), Ok(&ids[..40]));
                context.rewind(0, 5).expect("long enough");
                let rest = all_logits(&mut context, &ids[5..9]);
                let n_vocab = model.info().n_vocab;
                assert!(rest == expected[5 * n_vocab..], "other logits after cancelling");
                context.rewind(0, 5).expect("long enough");
            },
        );
    }
}

#[test]
fn a_decode_ended_between_two_micro_batches_changes_nothing() {
    let model = load(&bundled_model());
    let options = ContextOptions { n_batch: 16, n_threads: 2, ..ContextOptions::default() };
    let ids: Vec<u32> = (0..60).map(|i| 300 + i * 7 % 500).collect();
    let expected = all_logits(&mut context(&model, &options), &ids);
    let mut context = context(&model, &options);
    context.decode(Tokens::next(&ids[..5])).expect("free pages");
    let (token, mut looks) = (CancelToken::new(), 0);
    let wants = [true; 55];
    let tokens = Tokens { outputs: Some(&wants), ..Tokens::next(&ids[5..]) };
    let outcome = context.decode_each(tokens, Some(&token), &mut |_, _| {
        looks += 1;
        if looks == 20 {
            token.cancel();
        }
    });
    assert!(matches!(outcome, Err(Error::Cancelled(_))), "{outcome:?}");
    assert_eq!((looks, context.tokens(0)), (32, Ok(&ids[..5])));
    let n_vocab = model.info().n_vocab;
    assert!(all_logits(&mut context, &ids[5..]) == expected[5 * n_vocab..], "other logits after cancelling");
}

#[test]
fn every_layer_looks_at_the_token() {
    let model = load(&bundled_model());
    let mut context = context(&model, &ContextOptions::default());
    let token = CancelToken::new();
    token.cancel();
    for n in [1, 33] {
        let ids = vec![7; n];
        let cancelled = |outcome: Result<()>| assert!(matches!(outcome, Err(Error::Cancelled(_))));
        cancelled(context.decode_under(Tokens::next(&ids), Some(&token)));
        let looks = AtomicUsize::new(0);
        cancelled(context.decode_each(Tokens::next(&ids), Some(&token), &mut |_, _| {
            looks.fetch_add(1, SeqCst);
        }));
        assert_eq!((looks.into_inner(), context.n_past(0)), (0, Ok(0)));
    }
    token.reset();
    context.decode_under(Tokens::next(&[7]), Some(&token)).expect("the token was reset");
}

#[test]
fn embedding_is_cancelled() {
    for path in [fixture("models/bert.gguf"), fixture("models/gpt2-tied.gguf")] {
        let model = load(&path);
        let mut context = context(&model, &ContextOptions::default());
        let texts: [&[u32]; 2] = [&[1, 2, 3], &[4; 20]];
        let expected = context.embed(&texts, &EmbedOptions::default()).expect("vectors");
        let token = CancelToken::new();
        context.set_cancel_token(Some(token.clone()));
        token.cancel();
        let outcome = context.embed(&texts, &EmbedOptions::default());
        assert!(matches!(outcome, Err(Error::Cancelled(_))), "{outcome:?}");
        token.reset();
        assert!(context.embed(&texts, &EmbedOptions::default()) == Ok(expected));
    }
}

#[test]
fn loading_is_cancelled() {
    let folder = fixture("hf/gpt2-untied");
    for path in [bundled_model(), folder] {
        for use_mmap in [true, false] {
            let load = |token: &CancelToken| {
                let cancel = Some(token.clone());
                let options = LoadOptions { use_mmap, cancel, pack: Pack::Always, ..LoadOptions::default() };
                LoadedModel::open(&path, &options).map(|_| ())
            };
            let token = CancelToken::new();
            load(&token).expect("a model");
            token.cancel();
            match load(&token) {
                Err(Error::Cancelled(m)) => assert!(m.starts_with(path.to_str().expect("UTF-8")), "{m}"),
                other => panic!("{other:?}"),
            }
            token.reset();
            load(&token).expect("a model");
            cancel_at_any_time(load, |_| ());
        }
    }
}

#[test]
fn a_load_ends_at_any_look_of_its_tokenizer() {
    let path = bundled_model();
    let gguf = Gguf::open(&path).expect("a model");
    let n_looks = std::cell::Cell::new(0);
    let step = || {
        n_looks.set(n_looks.get() + 1);
        Ok(())
    };
    Tokenizer::from_gguf_under(gguf.metadata(), &step).expect("a tokenizer");
    assert!(n_looks.get() >= 4, "{n_looks:?}");
    // The callback is asked twice before the tokenizer is built, and then at each of its looks.
    for last in 1..=2 + n_looks.get() {
        for by_token in [true, false] {
            let (token, calls) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
            let (cancel, counted) = (token.clone(), Arc::clone(&calls));
            let progress = ProgressCallback(Arc::new(move |_| {
                let is_last = counted.fetch_add(1, SeqCst) + 1 == last;
                if is_last && by_token {
                    cancel.cancel();
                }
                by_token || !is_last
            }));
            let options =
                LoadOptions { cancel: Some(token), progress: Some(progress), ..LoadOptions::default() };
            let outcome = LoadedModel::open(&path, &options).map(|_| ());
            assert!(matches!(outcome, Err(Error::Cancelled(_))), "{outcome:?}");
            assert_eq!(calls.load(SeqCst), last, "nothing is asked after it ended");
        }
    }
}

#[test]
fn logits_that_are_looked_at_are_those_that_are_kept() {
    let model = load(&fixture("models/llama-tied-f32.gguf"));
    let ids: Vec<u32> = (0..50).map(|i| i % 90).collect();
    for kv_type in [KvType::F16, KvType::F32] {
        let options = ContextOptions {
            n_batch: 20,
            k_type: Some(kv_type),
            v_type: Some(kv_type),
            ..ContextOptions::default()
        };
        let wants: Vec<bool> = (0..50).map(|i| i % 3 != 1).collect();
        let tokens = Tokens { outputs: Some(&wants), ..Tokens::next(&ids) };
        let mut kept = context(&model, &options);
        kept.decode(tokens).expect("free pages");
        let mut seen = Vec::new();
        let mut context = context(&model, &options);
        context
            .decode_each(tokens, None, &mut |i, logits| {
                assert!(kept.logits(i) == Ok(logits), "token {i}");
                seen.push(i);
            })
            .expect("free pages");
        assert_eq!(seen, (0..50).filter(|&i| wants[i]).collect::<Vec<_>>());
        assert!(matches!(context.end_logits(0), Err(Error::NotFound(_))));
        assert_eq!(context.n_past(0), Ok(50));
    }
}
