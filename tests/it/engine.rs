//! Requests that run together give the same results as alone; the queue, its order, its ends.

use crate::common;

use std::ops::ControlFlow;
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use common::{bundled_model, greedy, load};
use ember::cancel::CancelToken;
use ember::context::{Context, ContextOptions};
use ember::engine::{Engine, EngineOptions, OwnedEvent, Request, Sink};
use ember::error::Error;
use ember::generate::{Event, EventKind, FinishReason, GenerateOptions, Prompt, Usage, generate};
use ember::model::LoadedModel;
use ember::sampler::{Penalties, Sampler, Stage};

const FOREVER: Duration = Duration::MAX;
/// Whether there are threads.
const THREADS: bool = cfg!(not(target_family = "wasm"));

fn engine(model: &Arc<LoadedModel>, options: &EngineOptions) -> Engine {
    Engine::new(model, options).expect("an engine")
}

fn small(n_parallel: usize) -> EngineOptions {
    EngineOptions {
        n_parallel,
        context: ContextOptions { n_ctx: 256, ..Default::default() },
        ..Default::default()
    }
}

fn options(max_tokens: usize) -> GenerateOptions {
    GenerateOptions { max_tokens, ..GenerateOptions::default() }
}

/// What a generation gave: text, tokens, end.
#[derive(Debug, Default, PartialEq, Clone)]
struct Outcome {
    text: String,
    tokens: Vec<(u32, Option<f32>)>,
    finish: Option<FinishReason>,
}

impl Outcome {
    fn add(&mut self, event: &Event<'_>) {
        self.text.push_str(event.text);
        match event.kind {
            EventKind::Echo => {}
            EventKind::Token(token) => self.tokens.push((token.id, token.logprob)),
            EventKind::End(reason) => self.finish = Some(reason),
        }
    }
}

/// Conversations that ask for nothing but the token of the largest logit have numbers from here on.
const PLAIN: usize = 64;

/// One of many different conversations: prompt, options, sampler.
fn conversation(i: usize) -> (String, GenerateOptions, Sampler) {
    let subjects = ["sea", "lamp", "old dog", "girl", "boat", "wind", "keeper", "stone"];
    let begin = [
        "Once upon a time the",
        "The",
        "In the morning, as on every morning of that long year, the",
        "A small",
    ];
    let mut prompt = format!("{} {} ", begin[i % 4], subjects[i / 4 % 8]);
    (0..i % 7).for_each(|k| prompt.push_str(subjects[(i + k) % 8]));
    let mut o = options(3 + i % 40);
    o.echo = i.is_multiple_of(5);
    if i < PLAIN {
        o.logprobs = i.is_multiple_of(3);
        o.n_top = i % 4;
    }
    o.ignore_eog = i % 6 == 1;
    if i % 9 == 4 {
        o.stops = vec!["the".into(), ". ".into()];
    }
    let mut sampler = Sampler::new(i as u64);
    if i < PLAIN && i % 2 == 1 {
        sampler
            .push(Stage::Penalties(Penalties { last_n: 32, repeat: 1.1, frequency: 0.1, presence: 0.0 }))
            .expect("no error");
        sampler.push(Stage::TopK(40)).expect("no error");
        sampler.push(Stage::Temperature(0.8)).expect("no error");
    } else {
        sampler.push(Stage::Greedy).expect("no error");
    }
    (prompt, o, sampler)
}

/// What conversation `i` gives when it runs alone.
fn alone(model: &Arc<LoadedModel>, i: usize, n_ctx: usize) -> Outcome {
    let (prompt, o, mut sampler) = conversation(i);
    let options = ContextOptions { n_ctx, ..ContextOptions::default() };
    let mut context = Context::new(model, &options).expect("a context");
    let mut outcome = Outcome::default();
    generate(&mut context, &mut sampler, &*prompt, &o, |event| {
        outcome.add(event);
        ControlFlow::Continue(())
    })
    .expect("no error");
    outcome
}

fn drain(request: &Request) -> Outcome {
    let mut outcome = Outcome::default();
    while outcome.finish.is_none() {
        let event = request.next(FOREVER).expect("no error").expect("an event");
        outcome.add(&event.event());
    }
    outcome
}

fn submit(engine: &Engine, i: usize, sink: Sink) -> Request {
    let (prompt, o, sampler) = conversation(i);
    engine.submit(Prompt::Text(&prompt), &o, sampler, sink).expect("free pages")
}

#[test]
fn sixty_four_conversations_give_what_each_gives_alone() {
    let model = load(&bundled_model());
    let expected: Vec<Outcome> = (0..2 * PLAIN).map(|i| alone(&model, i, 256)).collect();
    let all = [(1, false), (5, false), (64, false), (8, THREADS)];
    let runs = all.map(|(n_parallel, thread)| (n_parallel, thread, 0)).into_iter();
    for (n_parallel, thread, first) in runs.chain([(1, false, PLAIN), (8, false, PLAIN), (64, false, PLAIN)])
    {
        let engine = engine(&model, &EngineOptions { thread, ..small(n_parallel) });
        let requests: Vec<Request> = (first..first + PLAIN).map(|i| submit(&engine, i, Sink::Pull)).collect();
        let expected = &expected[first..first + PLAIN];
        for (i, request) in requests.iter().enumerate() {
            assert_eq!(drain(request), expected[i], "conversation {}, {n_parallel} together", first + i);
            assert_eq!(request.usage().expect("this process").finish, expected[i].finish);
        }
        let m = engine.metrics().expect("this process");
        assert_eq!((m.n_submitted, m.n_finished, m.n_queued), (64, 64, 0));
        let n: usize = expected.iter().map(|outcome| outcome.tokens.len()).sum();
        assert_eq!(m.n_generated, n as u64);
    }
}

#[cfg(not(target_family = "wasm"))] // which has one thread
#[test]
fn the_metrics_count_a_request_before_its_last_event_comes() {
    let model = load(&bundled_model());
    let engine = engine(&model, &EngineOptions { thread: true, ..small(2) });
    for i in 0..200 {
        let request =
            engine.submit(Prompt::Text("A"), &options(1), greedy(), Sink::Pull).expect("free pages");
        drain(&request);
        let m = engine.metrics().expect("this process");
        assert_eq!((m.n_finished, m.n_active, m.n_generated), (i + 1, 0, i + 1), "request {i}");
    }
}

#[test]
fn the_usage_of_the_last_event_is_the_last() {
    let model = load(&bundled_model());
    let engine = engine(&model, &small(1));
    let request: Arc<OnceLock<Request>> = Arc::default();
    let at_the_end: Arc<OnceLock<Usage>> = Arc::default();
    let (its_request, its_usage) = (request.clone(), at_the_end.clone());
    let sink = Sink::Callback(Box::new(move |event| {
        if let (EventKind::End(_), Some(request)) = (event.kind, its_request.get()) {
            its_usage.set(request.usage().expect("this process")).expect("one end");
        }
        ControlFlow::Continue(())
    }));
    assert!(request.set(submit(&engine, 0, sink)).is_ok());
    while engine.step(Duration::ZERO).expect("a step") {}
    let usage = request.get().expect("the request").usage().expect("this process");
    assert!(usage.finish.is_some() && usage.decode > Duration::ZERO);
    assert_eq!(Some(&usage), at_the_end.get());
}

#[cfg(not(target_family = "wasm"))] // which has one thread
#[test]
fn threads_that_wait_for_their_requests_do_the_work() {
    let model = load(&bundled_model());
    let engine = Arc::new(engine(&model, &small(4)));
    let threads: Vec<_> = (0..8)
        .map(|t| {
            let (engine, model) = (Arc::clone(&engine), Arc::clone(&model));
            std::thread::spawn(move || {
                for i in (0..24).filter(|i| i % 8 == t) {
                    let request = submit(&engine, i, Sink::Pull);
                    assert_eq!(drain(&request), alone(&model, i, 256), "conversation {i}");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

#[test]
fn with_few_pages_requests_wait_and_are_run_again() {
    let model = load(&bundled_model());
    let one = Context::new(&model, &ContextOptions { n_ctx: 32, ..Default::default() }).expect("a context");
    let page = one.memory().0;
    for (share_prefixes, first) in [(false, 0), (true, 0), (false, PLAIN), (true, PLAIN)] {
        let mut o = EngineOptions { share_prefixes, ..small(8) };
        o.context.kv_limit = Some(6 * page);
        let engine = engine(&model, &o);
        let requests: Vec<Request> = (first..first + 24).map(|i| submit(&engine, i, Sink::Pull)).collect();
        for (i, request) in (first..).zip(&requests) {
            assert_eq!(drain(request), alone(&model, i, 256), "conversation {i}");
        }
        let m = engine.metrics().expect("this process");
        assert!(m.n_preempted > 0, "{m:?}");
        assert_eq!((m.n_pages, m.n_free_pages), (6, 6), "all pages are back");
    }
}

#[test]
fn one_that_is_alone_and_finds_no_free_page_ends() {
    let model = load(&bundled_model());
    let page = Context::new(&model, &ContextOptions { n_ctx: 32, ..Default::default() })
        .expect("no error")
        .memory()
        .0;
    let mut o = small(2);
    o.context.kv_limit = Some(2 * page);
    let engine = engine(&model, &o);
    let o = GenerateOptions { ignore_eog: true, ..options(1000) };
    let request = engine.submit(Prompt::Text("The sea"), &o, greedy(), Sink::Pull).expect("no error");
    let outcome = drain(&request);
    assert_eq!(outcome.finish, Some(FinishReason::ContextFull));
    assert_eq!(
        request.usage().expect("this process").n_prompt + outcome.tokens.len(),
        65,
        "two pages, and a token chosen after them"
    );
    // A prompt beyond the pages but within n_ctx ends likewise; one beyond n_ctx is refused.
    let long = vec![5; 100];
    let request = engine.submit(Prompt::Tokens(&long), &o, greedy(), Sink::Pull).expect("no error");
    assert_eq!(drain(&request).finish, Some(FinishReason::ContextFull));
    let refused = engine.submit(Prompt::Tokens(&vec![5; 257]), &o, greedy(), Sink::Pull);
    assert!(matches!(refused.err(), Some(Error::ContextFull(_))));
    let n = vec![5; 3];
    assert_eq!(
        drain(&engine.submit(Prompt::Tokens(&n), &options(4), greedy(), Sink::Pull).expect("no error"))
            .tokens
            .len(),
        4
    );
}

#[test]
fn a_common_prefix_is_computed_once() {
    let model = load(&bundled_model());
    let prefix: Vec<u32> = (0..170).map(|i| 10 + i * 7 % 300).collect();
    let prompt = |i: u32| [&prefix[..], &[20 + i, 30, 40 + i]].concat();
    let run = |share_prefixes: bool| {
        let engine = engine(&model, &EngineOptions { share_prefixes, ..small(8) });
        let requests: Vec<Request> = (0..8)
            .map(|i| {
                engine
                    .submit(Prompt::Tokens(&prompt(i)), &options(9), greedy(), Sink::Pull)
                    .expect("no error")
            })
            .collect();
        let outcomes: Vec<Outcome> = requests.iter().map(drain).collect();
        (outcomes, engine.metrics().expect("this process"))
    };
    let ((shared, with), (own, without)) = (run(true), run(false));
    assert_eq!(shared, own);
    assert_eq!((with.n_reused, without.n_reused), (7 * 160, 0), "five whole pages of seven requests");
    assert_eq!((with.n_prefilled, without.n_prefilled), (173 + 7 * 13, 8 * 173));
    assert!(with.cache_hit_rate() > 0.8 && with.tokens_per_s() > 0.0);
}

#[test]
fn the_queue_is_bounded_and_the_urgent_go_first() {
    let model = load(&bundled_model());
    let engine = engine(&model, &EngineOptions { max_queue: 3, ..small(1) });
    let (tell, hear) = mpsc::channel();
    let sink = |name: &'static str| {
        let tell = tell.clone();
        Sink::Callback(Box::new(move |event| {
            if let EventKind::End(_) = event.kind {
                let _ = tell.send(name);
            }
            ControlFlow::Continue(())
        }))
    };
    let submit = |name, priority| {
        let o = GenerateOptions { priority, ..options(4) };
        engine.submit(Prompt::Text("The sea"), &o, greedy(), sink(name))
    };
    let first = submit("first", 0).expect("no error");
    engine.step(Duration::ZERO).expect("no error");
    let requests = [
        submit("late", -1).expect("no error"),
        submit("second", 0).expect("no error"),
        submit("urgent", 5).expect("no error"),
    ];
    match submit("too many", 9) {
        Err(Error::QueueFull(m)) => assert!(m.contains('3'), "{m}"),
        other => panic!("{:?}", other.err()),
    }
    assert_eq!(engine.metrics().expect("this process").n_refused, 1);
    while engine.step(Duration::ZERO).expect("no error") {}
    assert_eq!(hear.try_iter().collect::<Vec<_>>(), ["first", "urgent", "second", "late"]);
    drop((first, requests));
    // Nobody waits for ever, however many urgent requests come.
    let late = submit("late", -1).expect("no error");
    let mut n_urgent = 0;
    while late.usage().expect("this process").finish.is_none() {
        let _urgent = submit("urgent", 5).expect("no error");
        n_urgent += 1;
        while engine.metrics().expect("this process").n_queued > 1 {
            engine.step(Duration::ZERO).expect("no error");
        }
        assert!(n_urgent < 100);
        while late.usage().expect("this process").finish.is_none()
            && engine.metrics().expect("this process").n_queued == 0
        {
            engine.step(Duration::ZERO).expect("no error");
        }
    }
    assert!(n_urgent > 10, "{n_urgent}");
}

#[test]
fn requests_are_cancelled_and_time_runs_out() {
    let model = load(&bundled_model());
    let engine = engine(&model, &small(2));
    let o = GenerateOptions { ignore_eog: true, ..options(100) };
    let submit = |o: &GenerateOptions| {
        engine.submit(Prompt::Text("The sea"), o, greedy(), Sink::Pull).expect("no error")
    };
    let token = CancelToken::new();
    let by_token = submit(&GenerateOptions { cancel: Some(token.clone()), ..o.clone() });
    let running = submit(&o);
    let waiting = submit(&o);
    let other = submit(&o);
    let late = submit(&GenerateOptions { time_limit: Some(Duration::from_nanos(1)), ..o.clone() });
    let dropped = submit(&o);
    (0..5).for_each(|_| assert!(engine.step(Duration::ZERO).expect("no error")));
    running.cancel();
    waiting.cancel();
    token.cancel();
    drop(dropped);
    let ends = |request: &Request| drain(request).finish.expect("no error");
    assert_eq!(ends(&late), FinishReason::TimeLimit);
    assert_eq!(late.usage().expect("this process").n_generated, 0);
    assert_eq!([&by_token, &running, &waiting].map(ends), [FinishReason::Cancelled; 3]);
    assert_eq!(
        (
            running.usage().expect("this process").n_generated,
            waiting.usage().expect("this process").n_generated
        ),
        (5, 0)
    );
    assert_eq!(ends(&other), FinishReason::MaxTokens);
    let m = engine.metrics().expect("this process");
    assert_eq!((m.n_cancelled, m.n_finished, m.n_failed), (5, 1, 0));
    assert_eq!(drain(&running).tokens, [], "the last event again");
}

#[test]
fn a_request_that_fails_is_the_only_one() {
    let model = load(&bundled_model());
    let engine = engine(&model, &small(4));
    let mut broken = Sampler::new(0);
    broken.push(Stage::Allow(vec![])).expect("no error");
    let good = submit(&engine, 2, Sink::Pull);
    let bad = engine
        .submit(Prompt::Text("The sea"), &options(9), broken.try_clone().expect("memory"), Sink::Pull)
        .expect("no error");
    let (tell, hear) = mpsc::channel();
    let sink = Sink::Callback(Box::new(move |event| {
        tell.send(matches!(event.kind, EventKind::End(FinishReason::Failed))).expect("somebody hears");
        ControlFlow::Continue(())
    }));
    let refused = engine.submit(Prompt::Text("The sea"), &options(9), broken, sink).expect("no error");
    assert_eq!(drain(&good), alone(&model, 2, 256));
    for _ in 0..2 {
        assert!(matches!(bad.next(FOREVER), Err(Error::InvalidArgument(_))));
    }
    assert_eq!(hear.try_iter().collect::<Vec<_>>(), [true]);
    assert_eq!(refused.error().expect("this process"), bad.error().expect("this process"));
    assert_eq!(engine.metrics().expect("this process").n_failed, 2);
}

#[test]
fn callbacks_may_stop_and_submit_but_not_step() {
    let model = load(&bundled_model());
    let engine = Arc::new(engine(&model, &small(2)));
    let (tell, hear) = mpsc::channel();
    let inner = Arc::downgrade(&engine);
    let mut n = 0;
    let sink = Sink::Callback(Box::new(move |_| {
        let engine = inner.upgrade().expect("an engine at work");
        n += 1;
        assert!(engine.is_within());
        assert!(matches!(engine.step(Duration::ZERO), Err(Error::Busy(_))));
        assert!(matches!(engine.close(), Err(Error::Busy(_))));
        let request =
            engine.submit(Prompt::Text("A boat"), &options(2), greedy(), Sink::Pull).expect("no error");
        assert!(matches!(request.next(FOREVER), Err(Error::Busy(_))));
        tell.send(request).expect("somebody hears");
        if n == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }));
    let request = engine.submit(Prompt::Text("The sea"), &options(50), greedy(), sink).expect("no error");
    while engine.step(Duration::ZERO).expect("no error") {}
    let usage: Usage = request.usage().expect("this process");
    assert_eq!((usage.finish, usage.n_generated), (Some(FinishReason::Stopped), 3));
    let inner: Vec<Request> = hear.try_iter().collect();
    assert_eq!(inner.len(), 3);
    assert!(inner.iter().all(|request| drain(request).finish == Some(FinishReason::MaxTokens)));
}

#[test]
fn an_engine_that_goes_ends_its_requests() {
    let model = load(&bundled_model());
    for thread in [false, THREADS] {
        let engine = engine(&model, &EngineOptions { thread, ..small(2) });
        let o = GenerateOptions { ignore_eog: true, ..options(240) };
        let requests: Vec<Request> = (0..5)
            .map(|_| engine.submit(Prompt::Text("The sea"), &o, greedy(), Sink::Pull).expect("no error"))
            .collect();
        let first = requests[0].next(FOREVER).expect("no error").expect("an event");
        assert!(matches!(OwnedEvent::event(&first).kind, EventKind::Token(_)));
        if thread {
            assert!(matches!(engine.step(Duration::ZERO), Err(Error::Busy(_))));
        }
        drop(engine);
        for request in &requests {
            let finish = drain(request).finish;
            assert!(matches!(finish, Some(FinishReason::Cancelled | FinishReason::MaxTokens)), "{finish:?}");
            assert!(request.next(Duration::ZERO).expect("no error").is_some(), "the end comes again");
        }
        assert!(requests[4].usage().expect("this process").finish == Some(FinishReason::Cancelled));
    }
}

#[test]
fn nothing_to_do_is_no_error() {
    let model = load(&bundled_model());
    let engine = engine(&model, &small(2));
    assert_eq!(engine.step(Duration::from_millis(1)), Ok(false));
    let request = submit(&engine, 1, Sink::Pull);
    assert_eq!(request.next(Duration::ZERO), Ok(None), "without patience it does no work");
    assert_eq!(engine.step(Duration::MAX), Ok(true));
    let wrong = EngineOptions { n_parallel: 0, ..EngineOptions::default() };
    match Engine::new(&model, &wrong) {
        Err(Error::InvalidArgument(m)) => assert!(m.contains("n_parallel"), "{m}"),
        other => panic!("{:?}", other.err()),
    }
}

#[cfg(target_family = "wasm")]
#[test]
fn the_only_thread_does_not_wait_for_others() {
    let model = load(&bundled_model());
    assert_eq!(engine(&model, &small(2)).step(FOREVER), Ok(false));
    match Engine::new(&model, &EngineOptions { thread: true, ..small(2) }) {
        Err(Error::Unsupported(m)) => assert!(m.contains("ember-engine"), "{m}"),
        other => panic!("{:?}", other.err()),
    }
}
