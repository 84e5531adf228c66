//! What is kept of sequences that gave pages back after their window: prefixes, states, generations and requests that go on
//! from it with the bits of sequences that are whole.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::parts::Parts;
use common::windows::{
    MOST_HELD, MOST_IN_CALL, PAGE, WINDOW, bits, model, n_held, options, pages, run, text, whole,
};
use common::{context, fixture, greedy, load, state};
use ember::context::{Context, ContextOptions, Tokens};
use ember::engine::{Engine, EngineOptions, Sink};
use ember::error::{Error, Result};
use ember::generate::{
    DraftModel, EventKind, GenerateOptions, Generator, Lender, Lookup, Prompt, Shift, Usage, generate,
};
use ember::model::LoadedModel;

#[test]
fn prefixes_are_found_by_their_last_pages() {
    let model = model();
    let plain = ContextOptions { n_seq: 2, keep_prefixes: true, ..options(1024) };
    let few = pages(&model, 14, &plain);
    let (mut few, mut all) = (context(&model, &few), context(&model, &whole(&plain)));
    let ids = text(&model, 640);
    let expected = run(&mut all, 0, &ids);
    for part in ids.chunks(40) {
        run(&mut few, 0, part);
    }
    few.rewind(0, 0).unwrap();
    assert_eq!(few.kv_pages(), (14, 14));
    // The end of the text is there, its middle with what stands before it, its beginning no more.
    for (n, found) in [(640, 639 / PAGE * PAGE), (500, 480), (300, 288), (100, 0)] {
        assert_eq!(few.reuse_prefix(1, &ids[..n], n - 1).unwrap(), found, "{n}");
        assert!(run(&mut few, 1, &ids[found..n])[..] == expected[found..n], "{n}");
        assert!(n_held(&few) <= MOST_HELD);
        few.rewind(1, 0).unwrap();
    }
    // The pages hold what was run again, and what sequences need stays.
    let n = few.reuse_prefix(0, &ids[..290], 289).unwrap();
    assert_eq!(n, 288);
    let other: Vec<u32> = ids.iter().rev().copied().collect();
    for part in other.chunks(30) {
        let seqs = vec![1; part.len()];
        few.decode(Tokens { seqs: Some(&seqs), ..Tokens::next(part) }).unwrap();
    }
    assert!(run(&mut few, 0, &ids[n..400]) == expected[n..400]);
    let n = few.reuse_prefix(0, &other, 639).unwrap();
    assert_eq!(n, 608);
    assert_eq!(few.tokens(0).unwrap(), &other[..608]);
    few.rewind(1, 0).unwrap();
    all.rewind(0, 0).unwrap();
    assert!(run(&mut few, 0, &other[608..]) == run(&mut all, 0, &other)[608..]);
    // Of a text in one call the pages that were not written to again are kept.
    few.keep_sequence(1).unwrap();
    let long: Vec<u32> = ids.iter().map(|id| (id ^ 32) & 63).collect();
    few.decode(Tokens::next(&long)).unwrap();
    assert_eq!(few.reuse_prefix(1, &long, 639).unwrap(), 608);
    assert_eq!(few.reuse_prefix(0, &long[..200], 199).unwrap(), 0);
    // With all positions, prefixes are whole.
    assert_eq!(all.reuse_prefix(1, &ids, 639).unwrap(), 608);
    all.rewind(1, 3).unwrap();
}

/// The next turn of a conversation often leaves a part of the last answer out (what a model thought): it costs what lies after
/// the prompt before, and not all of it again.
#[test]
fn the_end_of_a_prompt_is_gone_on_from_however_long_the_answer_was() {
    for model in [model(), load(&fixture("models/gemma3.gguf")), load(&fixture("models/gpt-oss.gguf"))] {
        let two = ContextOptions { n_seq: 2, ..options(1024) };
        let (mut few, mut all) = (context(&model, &two), context(&model, &whole(&two)));
        let ids = text(&model, 800);
        let (prompt, answer) = ids.split_at(333);
        let expected = run(&mut all, 0, prompt);
        assert!(run(&mut few, 0, prompt) == expected);
        for id in &answer[..300] {
            few.decode(Tokens::next(&[*id])).unwrap();
        }
        let other: Vec<u32> = prompt.iter().chain(ids.iter().rev().take(200)).copied().collect();
        // A copy of what was there goes on, too, and changes nothing.
        few.copy_sequence(0, 1, 333).unwrap();
        let expected = run(&mut all, 0, &other[333..]);
        assert!(run(&mut few, 1, &other[333..]) == expected, "{}", model.name());
        for turn in 0..3 {
            let n = match turn {
                0 => few.reuse_prefix(0, &other, other.len() - 1).unwrap(),
                _ => few.rewind(0, 333).map(|()| 333).unwrap(),
            };
            assert_eq!(n, 333, "{}, {turn}", model.name());
            // Token by token, so that the prompt's end stays the place to go back to.
            for (id, expected) in other[333..].iter().zip(&expected) {
                few.decode(Tokens::next(&[*id])).unwrap();
                assert!(bits(few.logits(0).unwrap()) == *expected, "{}, {turn}", model.name());
            }
        }
        few.rewind(0, 333).unwrap();
        assert!(run(&mut few, 0, &other[333..]) == expected);
        // Now another end is marked.
        assert!(few.rewind(0, 333).is_err());
        few.rewind(0, other.len()).unwrap();
        assert!(few.rewind(0, 5).is_err());
        // Kept pages cost other sequences nothing.
        few.rewind(1, 0).unwrap();
        few.rewind(0, 0).unwrap();
        assert_eq!(n_held(&few), 0);
    }
}

#[test]
fn marks_are_given_up_when_their_pages_are_needed() {
    let model = model();
    // A window and what a call needs, and nothing more.
    let few = pages(&model, MOST_HELD + MOST_IN_CALL, &options(1024));
    let (mut few, mut all) = (context(&model, &few), context(&model, &whole(&options(1024))));
    let ids = text(&model, 900);
    let expected = run(&mut all, 0, &ids);
    assert!(run(&mut few, 0, &ids[..200]) == expected[..200]);
    for (i, id) in ids[..500].iter().enumerate().skip(200) {
        few.decode(Tokens::next(&[*id])).unwrap();
        assert!(bits(few.logits(0).unwrap()) == expected[i]);
    }
    assert!(run(&mut few, 0, &ids[500..]) == expected[500..]);
    assert!(n_held(&few) <= MOST_HELD);
}

#[test]
fn states_hold_what_is_there() {
    let model = model();
    let two = ContextOptions { n_seq: 2, ..options(1024) };
    let ids = text(&model, 900);
    let (mut few, mut all) = (context(&model, &two), context(&model, &whole(&two)));
    let expected = run(&mut all, 0, &ids);
    run(&mut few, 0, &ids[..700]);
    all.rewind(0, 700).unwrap();
    let (short, long) = (state(&few, Some(0)), state(&all, Some(0)));
    assert!(short.len() * 3 < long.len(), "{}, {}", short.len(), long.len());
    // Each goes into each, and on with the same bits.
    for (keep_all_positions, keep_prefixes, state) in [false, true]
        .into_iter()
        .flat_map(|all| [false, true].map(|prefixes| (all, prefixes)))
        .flat_map(|(all, prefixes)| [&short, &long].map(|state| (all, prefixes, state)))
    {
        let options = ContextOptions { keep_all_positions, keep_prefixes, ..two.clone() };
        let mut to = context(&model, &options);
        to.load_state(Some(1), state).unwrap();
        assert_eq!(to.tokens(1).unwrap(), &ids[..700]);
        assert!(run(&mut to, 1, &ids[700..]) == expected[700..]);
        to.copy_sequence(1, 0, 880).unwrap();
        let is_whole = keep_all_positions && state == &long;
        assert_eq!(to.rewind(1, 100).is_ok(), is_whole);
        assert_eq!(n_held(&to) > 20, is_whole);
        assert!(run(&mut to, 0, &ids[880..]) == expected[880..]);
    }
    // It takes no more pages than the context keeps of it.
    let mut tight = context(&model, &pages(&model, MOST_HELD, &two));
    tight.load_state(Some(0), &long).unwrap();
    assert!(run(&mut tight, 0, &ids[700..701]) == expected[700..701]);
    let mut bytes = &long[..];
    let mut read = |buffer: &mut [u8]| {
        let n = bytes.len().min(buffer.len());
        buffer[..n].copy_from_slice(&bytes[..n]);
        bytes = &bytes[n..];
        Ok(n)
    };
    tight.load_state_from(Some(0), &mut read).unwrap();
    // A whole context, with a sequence that was moved to the midst of a page.
    few.copy_sequence(0, 1, 670).unwrap();
    few.shift(1, 0, 45).unwrap();
    let both = state(&few, None);
    let mut to = context(&model, &two);
    to.load_state(None, &both).unwrap();
    assert!(state(&to, None) == both);
    for seq in 0..2 {
        assert_eq!(to.tokens(seq).unwrap(), few.tokens(seq).unwrap());
        assert!(run(&mut to, seq, &ids[..90]) == run(&mut few, seq, &ids[..90]));
    }
    // Another kind of model has no such states.
    let plain = Parts::of("llama-tied-f16");
    let plain = Arc::new(LoadedModel::from_bytes(&plain.bytes(), "plain").unwrap());
    assert!(matches!(context(&plain, &two).load_state(Some(0), &short), Err(Error::InvalidArgument(_))));
}

/// Numbers of a state that somebody changed, with a checksum that fits: loaded whole or refused, and never a page that is not
/// there.
#[test]
fn states_that_lack_what_is_needed_are_refused() {
    let model = model();
    let mut few = context(&model, &options(1024));
    let ids = text(&model, 700);
    run(&mut few, 0, &ids);
    let good = state(&few, Some(0));
    // After magic, version, fingerprint, shape and counts: length, logits, moved, from.
    let at = 8 + 4 + 16 + 6 * 4 + 2 * 4;
    let number = |state: &[u8], i: usize| u32::from_le_bytes(*state[at + 4 * i..].first_chunk().unwrap());
    assert_eq!([number(&good, 0), number(&good, 1), number(&good, 2)], [700, 1, u32::MAX]);
    let from = number(&good, 3);
    assert!(from > 0 && from.is_multiple_of(32));
    let (mut n_loaded, mut n_refused) = (0, 0);
    for (i, values) in [
        (0, vec![0, 1, from, from + 1, 690, 699, 701, 1024, 1025, u32::MAX]),
        (2, vec![0, 1, from, 699, 700, 701]),
        (
            3,
            vec![
                0,
                1,
                from - 32,
                from - 1,
                from + 1,
                from + 31,
                from + 32,
                from + 64,
                699,
                700,
                701,
                u32::MAX,
            ],
        ),
    ] {
        for value in values {
            for keep_prefixes in [false, true] {
                let mut bad = good.clone();
                bad[at + 4 * i..at + 4 * i + 4].copy_from_slice(&value.to_le_bytes());
                let end = bad.len() - 16;
                let sum = xxhash_rust::xxh3::xxh3_128(&bad[..end]).to_le_bytes();
                bad[end..].copy_from_slice(&sum);
                let mut to = context(&model, &ContextOptions { keep_prefixes, ..options(1024) });
                run(&mut to, 0, &ids[..5]);
                match to.load_state(Some(0), &bad) {
                    Ok(()) => n_loaded += 1,
                    Err(error) => {
                        assert!(!matches!(error, Error::Internal(_)), "{error}");
                        assert_eq!(to.tokens(0).unwrap(), &ids[..5], "{i}, {value}");
                        n_refused += 1;
                    }
                }
                let _ = to.decode(Tokens::next(&ids[..100]));
                let n = to.n_past(0).unwrap();
                let _ = (to.shift(0, 3, n / 2), to.reuse_prefix(0, &ids, 700), to.rewind(0, 0));
                assert!(keep_prefixes || n_held(&to) == 0);
            }
        }
    }
    assert!(n_loaded > 4 && n_refused > 40, "{n_loaded}, {n_refused}");
}

/// The tokens of a generation.
fn generated(context: &mut Context, prompt: &[u32], options: &GenerateOptions) -> (Vec<u32>, Usage) {
    let mut generator = Generator::new(context, prompt, options).unwrap_or_else(|e| panic!("{e}"));
    let (mut ids, mut sampler) = (Vec::new(), greedy());
    while let EventKind::Token(token) = generator.next(context, &mut sampler).unwrap().kind {
        ids.push(token.id);
        assert!(context.kv_pages().0 - context.kv_pages().1 <= MOST_HELD + 2);
    }
    (ids, generator.usage())
}

/// A draft model's context.
struct Lent(Mutex<Context>);

impl Lender for Lent {
    fn lend(&self, f: &mut dyn FnMut(&mut Context) -> Result<()>) -> Result<()> {
        f(&mut self.0.lock().unwrap())
    }
}

#[test]
fn generations_go_on_with_drafts_and_shifts() {
    let model = model();
    let prompt = text(&model, 150);
    let few = || context(&model, &pages(&model, MOST_HELD + MOST_IN_CALL, &options(600)));
    let generate = |mut context: Context, options: &GenerateOptions| {
        let mut generator = Generator::new(&context, &prompt[..], options).unwrap();
        let (mut ids, mut sampler) = (Vec::new(), greedy());
        while let EventKind::Token(token) = generator.next(&mut context, &mut sampler).unwrap().kind {
            ids.push(token.id);
        }
        ids
    };
    let whole = || context(&model, &whole(&options(600)));
    let plain = GenerateOptions { max_tokens: 400, ..GenerateOptions::default() };
    let expected = generate(whole(), &plain);
    assert_eq!(expected.len(), 400);
    let lookup = Some(Lookup { n_draft: 32, ngram: 1 });
    let draft = || {
        let context: Arc<dyn Lender> = Arc::new(Lent(Mutex::new(few())));
        Some(DraftModel { context, seq: 0, n_draft: 32 })
    };
    for options in [
        plain.clone(),
        GenerateOptions { lookup, ..plain.clone() },
        GenerateOptions { draft: draft(), ..plain.clone() },
        GenerateOptions { lookup, draft: draft(), reuse_prefix: true, ..plain.clone() },
    ] {
        let (ids, usage) = generated(&mut few(), &prompt, &options);
        assert!(ids == expected, "{options:?}");
        assert!(usage.n_accepted > 0 || (options.lookup.is_none() && options.draft.is_none()), "{usage:?}");
    }
    // Full contexts go on.
    for shift in [Shift { keep: 0, drop: 500 }, Shift { keep: 20, drop: 400 }, Shift { keep: 0, drop: 77 }] {
        let options = GenerateOptions { max_tokens: 1500, shift: Some(shift), ..plain.clone() };
        let (ids, usage) = generated(&mut few(), &prompt, &options);
        assert!(ids == generate(whole(), &options), "{shift:?}");
        assert!(usage.n_shifted > 0);
    }
    let shift = Some(Shift { keep: 20, drop: 550 });
    let options = GenerateOptions { shift, ..plain };
    let error = Generator::new(&few(), &prompt[..], &options).err().unwrap();
    assert!(
        error.message().contains("at most 511 tokens") && matches!(error, Error::InvalidArgument(_)),
        "{error}"
    );
    assert!(Generator::new(&whole(), &prompt[..], &options).is_ok());
}

#[test]
fn an_engine_runs_long_requests_in_few_pages() {
    let model = model();
    let prompts: Vec<Vec<u32>> =
        [20, 290, 40, 470, 60, 650].map(|n| text(&model, n + n / 100)[n / 100..].to_vec()).into();
    let options = GenerateOptions { max_tokens: 300, ..GenerateOptions::default() };
    let alone = |prompt: &Vec<u32>| {
        let mut context = context(&model, &whole(&self::options(1024)));
        let mut generator = Generator::new(&context, &prompt[..], &options).unwrap();
        let (mut ids, mut sampler) = (Vec::new(), greedy());
        while let EventKind::Token(token) = generator.next(&mut context, &mut sampler).unwrap().kind {
            ids.push(token.id);
        }
        ids
    };
    let expected: Vec<Vec<u32>> = prompts.iter().map(alone).collect();
    let mut n_preempted = 0;
    for (n_pages, share_prefixes) in [(8, false), (8, true), (16, true), (40, true)] {
        let context = pages(&model, n_pages, &self::options(1024));
        let o = EngineOptions { context, n_parallel: 4, share_prefixes, ..EngineOptions::default() };
        let engine = Engine::new(&model, &o).unwrap();
        let requests: Vec<_> = prompts
            .iter()
            .map(|ids| engine.submit(Prompt::Tokens(ids), &options, greedy(), Sink::Pull).unwrap())
            .collect();
        for (request, expected) in requests.iter().zip(&expected) {
            let mut ids = Vec::new();
            loop {
                let event = request.next(Duration::MAX).unwrap().unwrap();
                match event.event().kind {
                    EventKind::Token(token) => ids.push(token.id),
                    EventKind::Echo => {}
                    EventKind::End(_) => break,
                }
            }
            assert!(&ids == expected, "{n_pages} pages");
        }
        let metrics = engine.metrics().expect("this process");
        assert_eq!((metrics.n_finished, metrics.n_pages), (6, n_pages));
        n_preempted += metrics.n_preempted;
    }
    assert!(n_preempted > 0);
}

/// As many pages as one call of any length needs, which goes round in them, are enough for the pieces of an engine's steps.
#[test]
fn an_engine_runs_in_as_few_pages_as_a_generation_alone() {
    let model = model();
    let prompt = text(&model, 700);
    let few = GenerateOptions { max_tokens: 20, ..GenerateOptions::default() };
    for n_batch in (64..320).step_by(12) {
        let ring = (WINDOW - 2 + n_batch).div_ceil(PAGE) + 1;
        let o = pages(&model, ring, &ContextOptions { n_batch, ..self::options(1024) });
        let mut alone = context(&model, &o);
        let (mut n, mut sampler) = (0, greedy());
        let usage = generate(&mut alone, &mut sampler, &prompt[..], &few, |_| {
            n += 1;
            ControlFlow::Continue(())
        });
        assert_eq!((usage.unwrap().n_generated, n), (20, 21), "{n_batch} rows");
        for n_others in [0, 3] {
            let o = EngineOptions {
                context: o.clone(),
                n_parallel: 4,
                share_prefixes: false,
                ..Default::default()
            };
            let engine = Engine::new(&model, &o).unwrap();
            let submit =
                |ids: &[u32]| engine.submit(Prompt::Tokens(ids), &few, greedy(), Sink::Pull).unwrap();
            let long = submit(&prompt);
            let others: Vec<_> = (0..n_others).map(|i| submit(&prompt[i..i + 20])).collect();
            while engine.step(Duration::ZERO).unwrap() {}
            for request in others.iter().chain([&long]) {
                let usage = request.usage().expect("this process");
                assert_eq!(usage.n_generated, 20, "{n_batch} rows, {n_others} others: {:?}", usage.finish);
            }
        }
    }
}
