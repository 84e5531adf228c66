//! Layers with a window give pages back as a sequence grows. The bits are those with all positions, however tokens are cut into
//! calls and whatever is done with sequences, in little more memory than a window takes.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use common::windows::{
    MOST_HELD, MOST_IN_CALL, N_BATCH, PAGE, WINDOW, bits, model, n_held, options, pages, run, text, whole,
    windowed,
};
use common::{context, fixture, load};
use ember::backend::KvType;
use ember::cancel::CancelToken;
use ember::context::{BackendKind, ContextOptions, EmbedOptions, Tokens};
use ember::error::{Error, Result};
use ember::nn::pooling::Pooling;

#[test]
fn long_texts_give_the_bits_they_give_with_all_positions() {
    let fixtures =
        ["phi3-window", "starcoder2-window"].map(|name| load(&fixture(&format!("models/{name}.gguf"))));
    let models = [model(), windowed("quant-q4_k")].into_iter().chain(fixtures);
    for (model, kv_type, backend, n_threads) in models.flat_map(|model| {
        let kv_types = [(KvType::F16, 1), (KvType::F32, 1), (KvType::Q8_0, 32), (KvType::I16, 16)];
        let head_dim = model.info().head_dim;
        let fast = kv_types.into_iter().filter(move |&(_, piece)| head_dim.is_multiple_of(piece));
        let fast = fast.map(|(t, _)| (t, BackendKind::Auto, 1));
        let others = [(KvType::F16, BackendKind::Auto, 3), (KvType::F16, BackendKind::Scalar, 1)];
        fast.chain(others).map(move |(t, backend, n)| (model.clone(), t, backend, n)).collect::<Vec<_>>()
    }) {
        let name = format!("{}, {kv_type:?}, {backend:?}, {n_threads} threads", model.name());
        let plain = ContextOptions {
            k_type: Some(kv_type),
            v_type: Some(kv_type),
            backend,
            n_threads,
            ..options(1300)
        };
        let few = pages(&model, MOST_HELD + N_BATCH / PAGE + 2, &plain);
        let (mut windowed, mut all) = (context(&model, &few), context(&model, &whole(&plain)));
        let ids = text(&model, 1200);
        let mut done = 0;
        for n in [1, 7, 33, 48, 2, 1, 17].into_iter().cycle() {
            let part = &ids[done..ids.len().min(done + n)];
            if part.is_empty() {
                break;
            }
            assert!(run(&mut windowed, 0, part) == run(&mut all, 0, part), "{name}: {done}");
            done += part.len();
            assert_eq!(windowed.tokens(0).unwrap(), &ids[..done]);
            assert!(n_held(&windowed) <= MOST_HELD, "{name}: {} at {done}", n_held(&windowed));
        }
        assert_eq!(n_held(&all), 1200usize.div_ceil(PAGE));
    }
}

#[test]
fn a_window_that_is_seen_through_is_another_model() {
    let ids = text(&model(), 200);
    let far = load(&fixture("models/llama-tied-f16.gguf"));
    let (mut a, mut b) = (context(&model(), &options(256)), context(&far, &options(256)));
    let (a, b) = (run(&mut a, 0, &ids), run(&mut b, 0, &ids));
    assert!(a[..WINDOW] == b[..WINDOW] && a[WINDOW..].iter().zip(&b[WINDOW..]).all(|(a, b)| a != b));
}

#[test]
fn one_call_of_any_length_runs_in_few_pages() {
    let model = model();
    let ids = text(&model, 2200);
    let mut all = context(&model, &whole(&options(2300)));
    let expected = run(&mut all, 0, &ids);
    for n_threads in [1, 3] {
        let plain = ContextOptions { n_threads, ..options(2300) };
        // From an empty sequence a window and a batch are enough, and after others as much again: they stay until it is certain.
        let mut small = context(&model, &pages(&model, MOST_IN_CALL, &plain));
        assert!(run(&mut small, 0, &ids[..1500]) == expected[..1500]);
        assert!(n_held(&small) <= MOST_HELD);
        let error = small.decode(Tokens::next(&ids[1500..])).unwrap_err();
        assert!(matches!(&error, Error::ContextFull(text) if text.contains("more pages")), "{error}");
        assert_eq!(small.tokens(0).unwrap(), &ids[..1500]);
        assert!(run(&mut small, 0, &ids[1500..1510]) == expected[1500..1510]);
        let mut enough = context(&model, &pages(&model, MOST_HELD + MOST_IN_CALL, &plain));
        assert!(run(&mut enough, 0, &ids[..1500]) == expected[..1500]);
        // A call that is ended in its midst leaves all as it was, even if its pages were written to again and again.
        let (stop, mut n_seen) = (CancelToken::new(), 0);
        let outputs = vec![true; 700];
        let outcome = enough.decode_each(
            Tokens { outputs: Some(&outputs), ..Tokens::next(&ids[1500..]) },
            Some(&stop),
            &mut |i, logits| {
                assert!(bits(logits) == expected[1500 + i]);
                n_seen += 1;
                if i == 500 {
                    stop.cancel();
                }
            },
        );
        assert!(matches!(outcome, Err(Error::Cancelled(_))) && n_seen > 500);
        assert_eq!(enough.tokens(0).unwrap(), &ids[..1500]);
        assert!(n_held(&enough) <= MOST_HELD);
        assert!(run(&mut enough, 0, &ids[1500..]) == expected[1500..]);
        enough.rewind(0, 0).unwrap();
        assert_eq!(n_held(&enough), 0);
    }
}

#[test]
fn contexts_take_what_their_windows_need() {
    let model = model();
    let three = ContextOptions { n_seq: 3, ..options(4096) };
    let (mut few, all) = (context(&model, &three), context(&model, &whole(&three)));
    assert_eq!(all.kv_pages().0, 3 * 4096 / PAGE);
    assert!(few.kv_pages().0 <= 3 * (MOST_HELD + MOST_IN_CALL + 2), "{:?}", few.kv_pages());
    let share = few.kv_pages().0 as u64 * all.memory().0 / all.kv_pages().0 as u64;
    assert!(few.memory().0.abs_diff(share) < 4096, "{}, {share}", few.memory().0);
    // Short ones take no more than they have positions.
    assert_eq!(context(&model, &options(100)).kv_pages().0, 4);
    // All sequences come to their full length, in one call and in many.
    let ids = text(&model, 4096);
    for seq in 0..3 {
        let seqs = vec![seq; 4096];
        few.decode(Tokens { seqs: Some(&seqs), ..Tokens::next(&ids) }).unwrap();
    }
    assert!(matches!(few.decode(Tokens::next(&[1])), Err(Error::ContextFull(_))));
    few.rewind(1, 4090).unwrap();
    for id in &ids[4090..] {
        few.decode(Tokens { seqs: Some(&[1]), ..Tokens::next(&[*id]) }).unwrap();
    }
}

#[test]
fn layers_that_see_everything_keep_all_and_others_give_back() {
    let models = ["gemma2", "gemma3", "gemma3n", "gemma4-keys", "gemma4-shared", "gpt-oss"];
    for name in models {
        let model = load(&fixture(&format!("models/{name}.gguf")));
        let longest = model.info().windows.iter().flatten().max().copied().unwrap_or(0);
        let most_held = (longest.max(PAGE + 1) + 32 + 2 * (PAGE - 1)) / PAGE;
        for (backend, n_threads) in [(BackendKind::Auto, 1), (BackendKind::Auto, 3), (BackendKind::Scalar, 1)]
        {
            let name = format!("{name}, {backend:?}, {n_threads} threads");
            let plain = ContextOptions { backend, n_threads, ..options(640) };
            let (mut few, mut all) = (context(&model, &plain), context(&model, &whole(&plain)));
            assert!(few.memory().0 < all.memory().0, "{name}");
            let ids = text(&model, 640);
            let mut done = 0;
            for n in [1, 7, 33, 48, 2, 150, 17].into_iter().cycle() {
                let part = &ids[done..ids.len().min(done + n)];
                if part.is_empty() {
                    break;
                }
                assert!(run(&mut few, 0, part) == run(&mut all, 0, part), "{name}: {done}");
                done += part.len();
                let n_whole = done.div_ceil(PAGE);
                assert!(n_held(&few) <= n_whole + most_held, "{name}: {} at {done}", n_held(&few));
                assert_eq!(n_held(&all), 2 * n_whole);
            }
            let error = few.rewind(0, 100).unwrap_err().to_string();
            assert!(error.contains("window") && error.contains("keep_all_positions"), "{error}");
            few.rewind(0, 620).unwrap();
            all.rewind(0, 100).unwrap();
            all.decode(Tokens::next(&ids[100..620])).unwrap();
            assert!(run(&mut few, 0, &ids[620..]) == run(&mut all, 0, &ids[620..]), "{name}");
        }
    }
}

#[test]
fn sequences_are_cut_where_a_window_is_left() {
    let model = model();
    let two = ContextOptions { n_seq: 2, ..options(1024) };
    let (mut few, mut all) = (context(&model, &two), context(&model, &whole(&two)));
    let ids = text(&model, 700);
    let expected = run(&mut all, 0, &ids);
    run(&mut few, 0, &ids);
    let refused = |outcome: Result<()>, words: &str| {
        let error = outcome.unwrap_err();
        let named = ["position", "given back", "keep_all_positions", words];
        let is_refused =
            matches!(&error, Error::InvalidArgument(text) if named.iter().all(|word| text.contains(word)));
        assert!(is_refused, "{error}");
        error.message().split(' ').filter_map(|word| word.parse::<usize>().ok()).next_back().unwrap()
    };
    let least = refused(few.rewind(0, 300), "sequence 0 of 700 tokens cannot be rewound to 300");
    assert!((669 - PAGE..669).contains(&least), "{least}");
    refused(few.rewind(0, 1), "rewound to 1");
    refused(few.copy_sequence(0, 1, least - 1), "the first");
    refused(few.rewind(0, least - 1), "rewound");
    assert_eq!(few.tokens(0).unwrap(), ids);
    assert_eq!(bits(few.end_logits(0).unwrap()), expected[699]);
    // As far as the sentence says, and all of it.
    few.copy_sequence(0, 1, least).unwrap();
    assert!(run(&mut few, 1, &ids[least..]) == expected[least..]);
    few.rewind(0, 668).unwrap();
    assert!(run(&mut few, 0, &ids[668..]) == expected[668..]);
    few.rewind(0, least).unwrap();
    assert!(run(&mut few, 0, &[&ids[least..], &[1; 200]].concat())[..700 - least] == expected[least..]);
    few.copy_sequence(0, 1, 0).unwrap();
    assert_eq!(few.n_past(1).unwrap(), 0);
    few.keep_sequence(1).unwrap();
    assert_eq!(n_held(&few), 0);
    assert!(run(&mut few, 0, &ids[..50]) == expected[..50]);
    few.rewind(0, 1).unwrap();
    // With all positions anything goes.
    all.rewind(0, 1).unwrap();
    assert!(run(&mut all, 0, &ids[1..]) == expected[1..]);
    // Reuse takes the tokens that can go on, and otherwise nothing.
    run(&mut few, 0, &ids[1..]);
    assert_eq!(few.reuse_prefix(0, &ids[..690], 690).unwrap(), 690);
    assert_eq!(few.reuse_prefix(0, &ids[..500], 500).unwrap(), 0);
    assert_eq!(few.n_past(0).unwrap(), 0);
}

#[test]
fn shifts_give_the_bits_they_give_with_all_positions() {
    let model = model();
    let ids = text(&model, 400);
    let (mut n_done, mut n_refused) = (0, 0);
    for (keep_prefixes, shared, len) in
        [(false, false, 400), (true, false, 390), (false, true, 395), (true, true, 384)]
    {
        let two = ContextOptions { n_seq: 2, keep_prefixes, ..options(512) };
        let (mut few, mut all) = (context(&model, &two), context(&model, &whole(&two)));
        for keep in [0, 1, 40, 64, 200, 330, len - 5] {
            for drop in [1, 32, 33, 100, 250, 320, 340, len] {
                if keep + drop > len {
                    continue;
                }
                let what = format!("{keep}, {drop} of {len}");
                for context in [&mut few, &mut all] {
                    context.rewind(0, 0).unwrap();
                    run(context, 0, &ids[..len]);
                    context.copy_sequence(0, 1, if shared { len } else { 0 }).unwrap();
                }
                let end = bits(few.end_logits(0).unwrap());
                let outcome = few.shift(0, keep, drop);
                // A shift is refused if it brings the kept tokens into the window again, and only then.
                let sees_kept = keep > 0 && len + 1 < WINDOW + drop + keep;
                assert_eq!(
                    outcome.is_err(),
                    sees_kept && keep < len - WINDOW - 32 - PAGE,
                    "{what}: {outcome:?}"
                );
                if let Err(error) = outcome {
                    assert!(
                        matches!(error, Error::InvalidArgument(_)) && error.message().contains("given back")
                    );
                    assert_eq!(
                        (few.tokens(0).unwrap(), bits(few.end_logits(0).unwrap())),
                        (&ids[..len], end)
                    );
                    all.rewind(0, len).unwrap();
                    n_refused += 1;
                } else {
                    all.shift(0, keep, drop).unwrap();
                    n_done += 1;
                }
                assert_eq!(few.tokens(0).unwrap(), all.tokens(0).unwrap(), "{what}");
                let rest = text(&model, 110);
                for part in [&rest[..1], &rest[1..40], &rest[40..]] {
                    assert!(run(&mut few, 0, part) == run(&mut all, 0, part), "{what}");
                }
                // What was moved is another text's no more, and the copy is as it was.
                if shared {
                    assert!(run(&mut few, 1, &rest) == run(&mut all, 1, &rest), "{what}");
                }
                if keep_prefixes {
                    let whole: Vec<u32> = few.tokens(0).unwrap().to_vec();
                    let n = few.reuse_prefix(1, &whole, whole.len()).unwrap();
                    few.decode(Tokens { seqs: Some(&[1]), ..Tokens::next(&[5]) }).unwrap();
                    let got = bits(few.end_logits(1).unwrap());
                    all.rewind(1, 0).unwrap();
                    let plain = run(&mut all, 1, &[&whole[..n], &[5]].concat());
                    assert!(got == plain[n], "{what}: {n}");
                    few.rewind(1, 0).unwrap();
                }
            }
        }
        few.keep_sequence(1).unwrap();
        few.rewind(1, 0).unwrap();
        assert_eq!(n_held(&few), 0);
    }
    assert!(n_done > 100 && n_refused > 10, "{n_done}, {n_refused}");
}

#[test]
fn long_texts_are_embedded_in_few_pages() {
    let model = model();
    let few = pages(&model, MOST_IN_CALL, &options(1024));
    let (mut few, mut all) = (context(&model, &few), context(&model, &whole(&options(1024))));
    let texts = [text(&model, 1000), text(&model, 3), text(&model, 40), text(&model, 700)];
    let texts: Vec<&[u32]> = texts.iter().map(|text| &text[..]).collect();
    for pooling in [Pooling::None, Pooling::Mean, Pooling::Last] {
        let options = EmbedOptions { pooling: Some(pooling), ..EmbedOptions::default() };
        let (got, expected) = (few.embed(&texts, &options).unwrap(), all.embed(&texts, &options).unwrap());
        assert!(bits(&got) == bits(&expected), "{pooling:?}");
        assert_eq!(n_held(&few), 0);
    }
    few.decode(Tokens::next(&[1; 40])).unwrap();
    assert!(matches!(few.embed(&texts, &EmbedOptions::default()), Err(Error::ContextFull(_))));
}
