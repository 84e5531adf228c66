//! Which request is next where pages are few, what is counted, and when its owner sees its end.

use crate::common;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use common::{bundled_model, greedy, load};
use ember::cancel::CancelToken;
use ember::context::{Context, ContextOptions, estimate};
use ember::engine::{Engine, EngineOptions, Request, Sink};
use ember::error::Error;
use ember::generate::{EventKind, FinishReason, GenerateOptions, Prompt};
use ember::memory::MemoryOptions;
use ember::model::{LoadOptions, LoadedModel};
use ember::sampler::{Sampler, Stage};

/// An engine whose cache has `n_pages` pages.
fn engine(model: &Arc<LoadedModel>, n_pages: u64, n_parallel: usize) -> Engine {
    let one = Context::new(model, &ContextOptions { n_ctx: 32, ..Default::default() }).expect("a context");
    let page = one.memory().0;
    let context =
        ContextOptions { n_ctx: 512, n_batch: 32, kv_limit: Some(n_pages * page), ..Default::default() };
    let options = EngineOptions { n_parallel, context, ..EngineOptions::default() };
    Engine::new(model, &options).expect("an engine")
}

/// A prompt of `n` tokens that begins as no other does.
fn prompt(n: usize, seed: usize) -> Vec<u32> {
    (0..n).map(|i| 40 + ((seed * 31 + i) * 7919 % 900) as u32).collect()
}

fn options(max_tokens: usize, priority: i32) -> GenerateOptions {
    GenerateOptions { max_tokens, priority, ignore_eog: true, ..GenerateOptions::default() }
}

fn submit(engine: &Engine, prompt: &[u32], o: &GenerateOptions) -> Request {
    engine.submit(Prompt::Tokens(prompt), o, greedy(), Sink::Pull).expect("a free place in the queue")
}

fn step(engine: &Engine) -> bool {
    engine.step(Duration::ZERO).expect("a step")
}

fn has_ended(request: &Request) -> bool {
    request.usage().expect("this process").finish.is_some()
}

#[test]
fn a_long_prompt_of_low_priority_gets_through_where_pages_are_few() {
    let model = load(&bundled_model());
    let engine = engine(&model, 20, 12);
    let low = submit(&engine, &prompt(320, 0), &options(20, 0));
    let (mut others, mut n_others, mut n_steps) = (Vec::new(), 0, 0);
    while !has_ended(&low) {
        others.retain(|other| !has_ended(other));
        while others.len() < 24 {
            n_others += 1;
            others.push(submit(&engine, &prompt(31, n_others), &options(40, 5)));
        }
        step(&engine);
        n_steps += 1;
        assert!(
            n_steps < 4_000,
            "{n_others} others came meanwhile: {:?}",
            low.usage().expect("this process")
        );
    }
    assert_eq!(low.usage().expect("this process").finish, Some(FinishReason::MaxTokens));
    assert!(
        n_others > 32 && engine.metrics().expect("this process").n_preempted > 0,
        "{:?}",
        engine.metrics().expect("this process")
    );
}

#[test]
fn a_prompt_that_no_cache_holds_keeps_nobody_waiting() {
    let model = load(&bundled_model());
    let engine = engine(&model, 12, 4);
    let first = submit(&engine, &prompt(40, 1), &options(300, 0));
    step(&engine);
    let large = submit(&engine, &prompt(400, 2), &options(9, 9));
    let urgent = submit(&engine, &prompt(20, 3), &options(2, 5));
    step(&engine);
    assert_eq!(
        large.usage().expect("this process").finish,
        Some(FinishReason::ContextFull),
        "at once, without a token"
    );
    assert_eq!(
        (large.usage().expect("this process").n_generated, urgent.usage().expect("this process").n_generated),
        (0, 1)
    );
    assert!(!has_ended(&first));
}

/// Requests of low priority go one by one and not all together, however long they wait.
#[test]
fn urgent_ones_go_before_a_backlog_that_waited_long() {
    let model = load(&bundled_model());
    let engine = engine(&model, 40, 1);
    let low: Vec<Request> = (0..60).map(|i| submit(&engine, &prompt(5, i), &options(1, -100))).collect();
    let n_begun = || low.iter().filter(|low| has_ended(low)).count();
    let n_urgent = 4 * 33 - 2;
    for i in 0..n_urgent {
        let before = n_begun();
        let urgent = submit(&engine, &prompt(5, 100 + i), &options(1, 100));
        while !has_ended(&urgent) {
            step(&engine);
        }
        assert!(n_begun() - before <= 1, "{} others went before urgent request {i}", n_begun() - before);
    }
    assert_eq!(n_begun(), n_urgent / 32, "nobody waits for ever either");
    assert!(low[..n_urgent / 32].iter().all(has_ended), "the oldest first");
    while step(&engine) {}
    assert_eq!(n_begun(), low.len());
}

/// Two that were passed often enough do not go one right after the other.
#[test]
fn urgent_ones_go_between_two_that_waited_long() {
    let model = load(&bundled_model());
    let engine = engine(&model, 40, 1);
    let mut low = Vec::new();
    for i in 0..3 {
        low.push(submit(&engine, &prompt(5, i), &options(1, 0)));
        let urgent = submit(&engine, &prompt(5, 10 + i), &options(1, 9));
        while !has_ended(&urgent) {
            step(&engine);
        }
    }
    let urgent: Vec<Request> = (0..40).map(|i| submit(&engine, &prompt(5, 50 + i), &options(1, 9))).collect();
    while !urgent.iter().all(has_ended) {
        step(&engine);
    }
    assert_eq!(low.iter().map(has_ended).collect::<Vec<_>>(), [true, false, false]);
}

/// Each begins when its first token comes.
#[test]
fn one_that_waits_for_pages_goes_after_more_urgent_ones() {
    let model = load(&bundled_model());
    let engine = engine(&model, 12, 4);
    let (tell, hear) = mpsc::channel();
    let submit = |name: &'static str, n: usize, priority| {
        let (tell, mut first) = (tell.clone(), true);
        let sink = Sink::Callback(Box::new(move |event| {
            if matches!(event.kind, EventKind::Token(_)) && std::mem::take(&mut first) {
                let _ = tell.send(name);
            }
            ControlFlow::Continue(())
        }));
        let prompt = prompt(n, name.len());
        engine
            .submit(Prompt::Tokens(&prompt), &options(30, priority), greedy(), sink)
            .expect("a free place in the queue")
    };
    let _all = [submit("A", 250, 0)];
    step(&engine);
    let _low = submit("low", 200, -5);
    // The engine considers it, and finds no free pages.
    step(&engine);
    step(&engine);
    let _more = [submit("high", 200, 100), submit("usual", 200, 0)];
    while step(&engine) {}
    assert_eq!(hear.try_iter().collect::<Vec<_>>(), ["A", "high", "usual", "low"]);
}

#[test]
fn what_was_reused_and_what_was_run_is_the_prompt() {
    let model = load(&bundled_model());
    let engine = engine(&model, 40, 4);
    let text = "Once upon a time there was a keeper of a lamp by the sea, and every evening he went up the stairs \
                and lit it, and every morning he came down again and went to bed, until one day a boat came in.";
    let echo = GenerateOptions { echo: true, ..options(3, 0) };
    let mut before = engine.metrics().expect("this process");
    let mut run = |prompt: Prompt<'_>, o: &GenerateOptions| {
        let request = engine.submit(prompt, o, greedy(), Sink::Pull).expect("a free place in the queue");
        while step(&engine) {}
        let (usage, now) = (request.usage().expect("this process"), engine.metrics().expect("this process"));
        assert_eq!(now.n_prefilled - before.n_prefilled, (usage.n_prompt - usage.n_reused) as u64);
        assert_eq!(now.n_reused - before.n_reused, usage.n_reused as u64);
        before = now;
        (usage.n_prompt, usage.n_reused)
    };
    assert_eq!(run(Prompt::Text(text), &echo).1, 0);
    let (n_prompt, n_reused) = run(Prompt::Text(text), &echo);
    assert_eq!(n_reused, (n_prompt - 1) / 32 * 32, "whole pages, though the prompt is reported first");
    assert_eq!(run(Prompt::Tokens(&prompt(33, 1)), &options(3, 0)), (33, 0), "its last piece is one token");
    assert_eq!(run(Prompt::Tokens(&prompt(33, 1)), &options(3, 0)), (33, 32));
    assert_eq!(run(Prompt::Tokens(&[77]), &options(3, 0)), (1, 0));
}

/// Two that wait for the pages of a long one, which takes their common prompt out of the cache meanwhile.
#[test]
fn no_more_is_reused_than_the_prompt_however_often_it_begins() {
    let model = load(&bundled_model());
    let engine = engine(&model, 12, 4);
    let shared = prompt(100, 1);
    let keeper = submit(&engine, &shared, &options(1, 0));
    while step(&engine) {}
    let long = submit(&engine, &prompt(236, 2), &options(150, 5));
    while long.usage().expect("this process").n_generated < 2 {
        step(&engine);
    }
    let waiting = [(); 2].map(|()| submit(&engine, &shared, &options(30, 0)));
    while step(&engine) {}
    assert_eq!(
        (keeper.usage().expect("this process").n_reused, long.usage().expect("this process").finish),
        (0, Some(FinishReason::ContextFull))
    );
    for usage in waiting.map(|request| request.usage().expect("this process")) {
        assert_eq!((usage.n_prompt, usage.n_generated), (100, 30));
        assert!(usage.n_reused <= 96, "{usage:?}");
    }
    assert!(engine.metrics().expect("this process").n_preempted > 0);
}

/// The owner that gets the last event may free the data of the callback.
#[cfg(not(target_family = "wasm"))] // which has one thread
#[test]
fn the_end_is_not_reported_while_the_callback_runs() {
    let model = load(&bundled_model());
    let engine = Arc::new(engine(&model, 20, 2));
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let sink = Sink::Callback(Box::new(move |event| {
        if let EventKind::End(_) = event.kind {
            std::thread::sleep(Duration::from_millis(60));
            over.store(true, SeqCst);
        }
        ControlFlow::Continue(())
    }));
    let request = engine
        .submit(Prompt::Tokens(&[50, 60]), &options(2, 0), greedy(), sink)
        .expect("a free place in the queue");
    let pump = std::thread::spawn({
        let engine = Arc::clone(&engine);
        move || while step(&engine) {}
    });
    // Without patience the caller does no step itself.
    while request.next(Duration::ZERO).expect("no error").is_none() {
        std::thread::yield_now();
    }
    assert!(is_over.load(SeqCst));
    pump.join().expect("no panic");
}

/// A pump beside threads that wait for their requests, and do steps too, waits for its turn.
#[cfg(not(target_family = "wasm"))] // which has one thread
#[test]
fn a_pump_waits_for_the_steps_of_others() {
    let model = load(&bundled_model());
    let engine = Arc::new(engine(&model, 40, 4));
    let n_left = Arc::new(AtomicUsize::new(4));
    let pullers: Vec<_> = (0..4)
        .map(|seed| {
            let (engine, n_left) = (Arc::clone(&engine), Arc::clone(&n_left));
            std::thread::spawn(move || {
                for i in 0..6 {
                    let request = submit(&engine, &prompt(20, 10 * seed + i), &options(20, 0));
                    while !matches!(
                        request.next(Duration::MAX).expect("no error").expect("an event").event().kind,
                        EventKind::End(_)
                    ) {}
                }
                n_left.fetch_sub(1, SeqCst);
            })
        })
        .collect();
    while n_left.load(SeqCst) > 0 {
        engine.step(Duration::from_secs(5)).expect("never busy for so long");
    }
    pullers.into_iter().for_each(|thread| thread.join().expect("no panic"));
    // A caller that cannot wait gets the error that another thread waits.
    let inner = Arc::clone(&engine);
    let (tell, hear) = mpsc::channel();
    let sink = Sink::Callback(Box::new(move |_| {
        let engine = Arc::clone(&inner);
        let other = std::thread::spawn(move || engine.step(Duration::ZERO));
        let _ = tell.send(other.join().expect("no panic"));
        ControlFlow::Break(())
    }));
    let _request = engine.submit(Prompt::Tokens(&[5]), &options(1, 0), greedy(), sink).expect("free pages");
    while step(&engine) {}
    assert!(matches!(hear.recv().expect("an answer"), Err(Error::Busy(_))));
}

/// The threads that wait go on with the steps, one after the other, whichever thread leaves and why.
#[cfg(not(target_family = "wasm"))] // which has one thread
#[test]
fn somebody_goes_on_when_the_one_who_did_the_steps_leaves() {
    let model = load(&bundled_model());
    for round in 0..4 {
        let engine = Arc::new(engine(&model, 100, 3));
        let waiters: Vec<_> = (0..12)
            .map(|i| {
                let request = submit(&engine, &prompt(9, i), &options(1 + (i * 7 + round) % 40, 0));
                let patience = if i % 3 == 0 { Duration::from_micros(300) } else { Duration::MAX };
                std::thread::spawn(move || {
                    loop {
                        match request.next(patience).expect("no error") {
                            Some(event) if matches!(event.event().kind, EventKind::End(_)) => return,
                            Some(_) => {}
                            // It sleeps, and may leave its turn to another.
                            None => std::thread::sleep(Duration::from_micros(50)),
                        }
                    }
                })
            })
            .collect();
        for _ in 0..5 * round {
            // When all have ended a step would wait for a request that never comes.
            if engine.metrics().expect("this process").n_finished == 12 {
                break;
            }
            engine.step(Duration::from_secs(60)).expect("never busy for so long");
        }
        waiters.into_iter().for_each(|waiter| waiter.join().expect("no panic"));
        let m = engine.metrics().expect("this process");
        assert_eq!((m.n_finished, m.n_free_pages), (12, m.n_pages));
    }
}

/// How often the calling thread went to sleep.
#[cfg(target_os = "linux")]
fn n_sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|n| n.trim().parse().ok()).expect("a number")
}

#[cfg(target_os = "linux")]
#[test]
fn nobody_is_woken_by_the_steps_of_others() {
    let model = load(&bundled_model());
    let context = ContextOptions { n_ctx: 512, ..ContextOptions::default() };
    let o = EngineOptions { n_parallel: 1, thread: true, context, ..EngineOptions::default() };
    let engine = Engine::new(&model, &o).expect("an engine");
    let _long = submit(&engine, &prompt(9, 1), &options(480, 0));
    let waiting = submit(&engine, &prompt(9, 2), &options(1, 0));
    let before = n_sleeps();
    while !matches!(
        waiting.next(Duration::MAX).expect("no error").expect("an event").event().kind,
        EventKind::End(_)
    ) {}
    let n = n_sleeps() - before;
    assert!(engine.metrics().expect("this process").n_steps >= 480 && n < 50, "slept {n} times");
}

#[test]
fn a_request_that_stays_keeps_no_cache() {
    let context = ContextOptions { n_ctx: 512, ..ContextOptions::default() };
    let options_of_engine = EngineOptions { n_parallel: 8, context, ..EngineOptions::default() };
    let taken = {
        let model = load(&bundled_model());
        let context = ContextOptions { n_seq: 8, ..options_of_engine.context.clone() };
        Context::new(&model, &context).expect("a context").memory().0
    };
    // Memory for the model and one cache, not for two.
    let memory = MemoryOptions { limit: Some(taken * 7 / 4), ..MemoryOptions::default() };
    let model = LoadedModel::open(&bundled_model(), &LoadOptions { memory, ..LoadOptions::default() });
    let model = Arc::new(model.expect("a model"));
    let mut kept = Vec::new();
    for _ in 0..3 {
        let engine = Engine::new(&model, &options_of_engine).expect("the one before gave its memory back");
        assert!(matches!(Engine::new(&model, &options_of_engine), Err(Error::NoMemory(_))));
        kept.push(submit(&engine, &[50, 60], &options(3, 0)));
        while step(&engine) {}
    }
    assert!(kept.iter().all(|request| request.usage().expect("this process").n_generated == 3));
}

/// The metrics count the request no more when its owner gets the last event.
#[test]
fn pages_are_free_when_the_end_is_reported() {
    let model = load(&bundled_model());
    let engine = Arc::new(engine(&model, 4, 2));
    let (tell, hear) = mpsc::channel();
    let run = |n_prompt: usize, o: &GenerateOptions, sampler: Sampler| {
        let (inner, tell, before) =
            (Arc::downgrade(&engine), tell.clone(), engine.metrics().expect("this process").busy);
        let sink = Sink::Callback(Box::new(move |event| {
            if let EventKind::End(reason) = event.kind {
                let m = inner.upgrade().expect("an engine at work").metrics().expect("this process");
                let is_counted = m.busy > before;
                let _ = tell.send((reason, m.n_free_pages, m.n_active, is_counted));
            }
            ControlFlow::Continue(())
        }));
        engine.submit(Prompt::Tokens(&prompt(n_prompt, 1)), o, sampler, sink).expect("free pages")
    };
    let cancelled = CancelToken::new();
    let mut broken = Sampler::new(0);
    broken.push(Stage::Allow(vec![])).expect("a stage");
    let with_token = GenerateOptions { cancel: Some(cancelled.clone()), ..options(1000, 0) };
    let (few, many) = (options(1, 0), options(1000, 0));
    let cases = [
        (&few, greedy(), FinishReason::MaxTokens),
        (&many, greedy(), FinishReason::ContextFull),
        (&few, broken, FinishReason::Failed),
        (&with_token, greedy(), FinishReason::Cancelled),
    ];
    for (o, sampler, reason) in cases {
        let _request = run(20, o, sampler);
        for _ in 0..4 {
            step(&engine);
        }
        if reason == FinishReason::Cancelled {
            cancelled.cancel();
        }
        while step(&engine) {}
        assert_eq!(hear.try_iter().collect::<Vec<_>>(), [(reason, 4, 0, true)]);
    }
}

/// The token is cancelled while a step is under way, during which the prompt is reported.
#[test]
fn a_step_ends_when_all_that_it_is_for_are_cancelled() {
    let model = load(&bundled_model());
    for with_other in [false, true] {
        let engine = engine(&model, 40, 4);
        let token = CancelToken::new();
        let o = GenerateOptions { echo: true, cancel: Some(token.clone()), ..options(9, 0) };
        let sink = Sink::Callback(Box::new(move |event| {
            if event.kind == EventKind::Echo {
                token.cancel();
            }
            ControlFlow::Continue(())
        }));
        let request = engine.submit(Prompt::Tokens(&prompt(9, 1)), &o, greedy(), sink).expect("free pages");
        let other = with_other.then(|| submit(&engine, &prompt(9, 2), &options(3, 0)));
        assert!(step(&engine));
        let (m, n) = (engine.metrics().expect("this process"), u64::from(with_other));
        assert_eq!((m.n_steps, m.n_prefilled, m.n_generated), (n, 18 * n, 2 * n), "{with_other}");
        step(&engine);
        assert_eq!(request.usage().expect("this process").finish, Some(FinishReason::Cancelled));
        assert_eq!(
            request.usage().expect("this process").n_generated,
            usize::from(with_other),
            "the step went on for the other"
        );
        while step(&engine) {}
        assert!(other.is_none_or(|other| other.usage().expect("this process").n_generated == 3));
        // A step that was not completed blocks nothing.
        let again = submit(&engine, &prompt(9, 1), &options(3, 0));
        while step(&engine) {}
        assert_eq!(again.usage().expect("this process").n_generated, 3);
    }
}

/// The estimate of a context with as many sequences is enough for an engine, whatever its requests ask for.
#[test]
fn an_engine_takes_the_memory_for_all_its_logits_at_once() {
    let path = bundled_model();
    let model = load(&path);
    let context = ContextOptions { n_ctx: 128, n_seq: 12, ..ContextOptions::default() };
    let estimate = estimate(&path, &LoadOptions::default(), &context).expect("an estimate");
    let with = |limit: u64| {
        let context = ContextOptions { memory_limit: Some(limit), ..context.clone() };
        Engine::new(&model, &EngineOptions { n_parallel: 12, context, ..EngineOptions::default() })
    };
    let all = estimate.kv + estimate.workspace;
    assert!(matches!(with(all - 1), Err(Error::NoMemory(_))));
    let engine = with(all).expect("an engine");
    let requests: Vec<Request> = (0..24)
        .map(|i| submit(&engine, &prompt(3, i), &GenerateOptions { logprobs: i % 12 < 6, ..options(5, 0) }))
        .collect();
    while step(&engine) {}
    for request in &requests {
        assert_eq!((request.error(), request.usage().expect("this process").n_generated), (Ok(None), 5));
    }
    assert_eq!(engine.metrics().expect("this process").n_preempted, 0, "all ran together");
}
