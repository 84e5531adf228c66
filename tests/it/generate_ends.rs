//! Why generations end where several reasons come together, and the state after them.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use common::{bundled_model, context, exactly, greedy, load};
use ember::cancel::CancelToken;
use ember::context::{Context, ContextOptions, Tokens};
use ember::engine::{Engine, EngineOptions, Sink};
use ember::error::Error;
use ember::generate::{Event, EventKind, FinishReason, GenerateOptions, Generator, Prompt, Usage, generate};
use ember::kernels::attention::PAGE_LEN;
use ember::model::LoadedModel;
use ember::sampler::{Custom, Sampler, Stage};

const PROMPT: &str = "The sea was calm, and the moon";

fn one_thread() -> ContextOptions {
    ContextOptions { n_ctx: 256, n_threads: 1, ..ContextOptions::default() }
}

/// The texts of the tokens and how it went; `at_token` is called with the number of each token, from 1 on.
fn run(c: &mut Context, prompt: &str, o: &GenerateOptions, at_token: impl Fn(usize)) -> (Vec<String>, Usage) {
    let mut texts = Vec::new();
    let usage = generate(c, &mut greedy(), prompt, o, |event| {
        if let EventKind::Token(token) = event.kind {
            texts.push(String::from_utf8(token.bytes.to_vec()).unwrap());
            at_token(texts.len());
        }
        ControlFlow::Continue(())
    });
    (texts, usage.unwrap())
}

/// The same in an engine of `model`.
fn run_in_engine(
    model: &Arc<LoadedModel>,
    o: &GenerateOptions,
    at_token: impl Fn(usize) + Send + 'static,
) -> Usage {
    let engine =
        Engine::new(model, &EngineOptions { context: one_thread(), ..EngineOptions::default() }).unwrap();
    let mut n = 0;
    let sink = Sink::Callback(Box::new(move |event: &Event<'_>| {
        if let EventKind::Token(_) = event.kind {
            n += 1;
            at_token(n);
        }
        ControlFlow::Continue(())
    }));
    let request = engine.submit(Prompt::Text(PROMPT), o, greedy(), sink).unwrap();
    while engine.step(Duration::ZERO).unwrap() {}
    request.usage().expect("this process")
}

#[test]
fn what_comes_after_the_last_token_is_no_reason() {
    let model = load(&bundled_model());
    let mut c = context(&model, &one_thread());
    let (alone, usage) = run(&mut c, PROMPT, &exactly(4), |_| {});
    let n_prompt = usage.n_prompt;
    let by_stop = GenerateOptions { stops: vec![alone[3].clone()], ..exactly(20) };
    for (o, reason) in [(exactly(4), FinishReason::MaxTokens), (by_stop, FinishReason::StopString)] {
        let cancel = CancelToken::new();
        let cancelled = GenerateOptions { cancel: Some(cancel.clone()), ..o.clone() };
        let late = GenerateOptions { time_limit: Some(Duration::from_millis(300)), ..o.clone() };
        let wait = |n| {
            if n == 4 {
                std::thread::sleep(Duration::from_millis(350))
            }
        };

        c.rewind(0, 0).unwrap();
        let (texts, usage) = run(&mut c, PROMPT, &late, wait);
        assert_eq!((usage.finish, texts.len()), (Some(reason), 4));
        assert_eq!(c.n_past(0), Ok(n_prompt + 4), "the sequence holds what was reported");
        c.rewind(0, 0).unwrap();
        let (texts, usage) = run(&mut c, PROMPT, &cancelled, |n| {
            if n == 4 {
                cancel.cancel()
            }
        });
        assert_eq!((usage.finish, texts.len()), (Some(FinishReason::Cancelled), 4));
        assert_eq!(c.n_past(0), Ok(n_prompt + 3), "that tells that the last token is not in the sequence");

        cancel.reset();
        assert_eq!(run_in_engine(&model, &late, wait).finish, Some(reason));
        let usage = run_in_engine(&model, &cancelled, move |n| {
            if n == 4 {
                cancel.cancel()
            }
        });
        assert_eq!((usage.finish, usage.n_generated), (Some(reason), 4));
    }
}

#[test]
fn after_a_time_limit_the_text_goes_on_where_it_ended() {
    let model = load(&bundled_model());
    let mut c = context(&model, &one_thread());
    let (whole, _) = run(&mut c, PROMPT, &exactly(8), |_| {});
    c.rewind(0, 0).unwrap();
    let o = GenerateOptions { time_limit: Some(Duration::from_millis(300)), ..exactly(20) };
    let (first, usage) = run(&mut c, PROMPT, &o, |n| {
        if n == 3 {
            std::thread::sleep(Duration::from_millis(350))
        }
    });
    assert_eq!((usage.finish, first.len()), (Some(FinishReason::TimeLimit), 3));
    let (rest, _) = run(&mut c, "", &exactly(5), |_| {});
    assert_eq!([first, rest].concat(), whole);
}

/// The last token needs a page, and none is free. The request still ends with all its tokens, since nobody continues an engine's
/// sequence.
#[test]
fn a_full_cache_after_the_last_token_ends_no_request() {
    let model = load(&bundled_model());
    let page = context(&model, &ContextOptions { n_ctx: PAGE_LEN, ..one_thread() }).memory().0;
    let small = ContextOptions { kv_limit: Some(page), ..one_thread() };
    let ids = vec![300u32; PAGE_LEN];
    let mut c = context(&model, &small);
    assert_eq!(c.kv_pages().0, 1);
    let outcome =
        generate(&mut c, &mut greedy(), Prompt::Tokens(&ids), &exactly(1), |_| ControlFlow::Continue(()));
    assert!(matches!(outcome, Err(Error::ContextFull(_))), "the last token cannot be in the sequence");
    let options_of_engine = EngineOptions { context: small, n_parallel: 1, ..EngineOptions::default() };
    let engine = Engine::new(&model, &options_of_engine).unwrap();
    let request = engine.submit(Prompt::Tokens(&ids), &exactly(1), greedy(), Sink::Pull).unwrap();
    while engine.step(Duration::ZERO).unwrap() {}
    assert_eq!(request.usage().expect("this process").finish, Some(FinishReason::MaxTokens));
    // A generation whose text is not complete ends with a full context as ever.
    let request = engine.submit(Prompt::Tokens(&ids), &exactly(2), greedy(), Sink::Pull).unwrap();
    while engine.step(Duration::ZERO).unwrap() {}
    assert_eq!(request.usage().expect("this process").finish, Some(FinishReason::ContextFull));
}

/// A choice that failed can be tried again, whatever ran in between.
#[test]
fn a_failed_choice_is_tried_again_after_other_work() {
    let model = load(&bundled_model());
    let mut c = context(&model, &ContextOptions { n_seq: 2, ..one_thread() });
    let (whole, _) = run(&mut c, PROMPT, &exactly(4), |_| {});
    c.rewind(0, 0).unwrap();
    let mut refusing = Sampler::new(0);
    let refuse = Custom::new(|_, _| Err(Error::InvalidArgument("not yet".into())));
    refusing.push(Stage::Custom(refuse)).unwrap();
    let mut generator = Generator::new(&c, PROMPT, &exactly(4)).unwrap();
    let mut texts = Vec::new();
    while texts.len() < 4 {
        assert!(generator.next(&mut c, &mut refusing).is_err());
        c.decode(Tokens { seqs: Some(&[1]), ..Tokens::next(&[300]) }).unwrap();
        let event = generator.next(&mut c, &mut greedy()).unwrap();
        let EventKind::Token(token) = event.kind else { panic!("{event:?}") };
        texts.push(String::from_utf8(token.bytes.to_vec()).unwrap());
    }
    assert_eq!(texts, whole);
}

/// Half a character at the end becomes U+FFFD, which may be what a text shall stop at.
#[test]
fn the_end_of_the_text_may_complete_a_stop_string() {
    let model = load(&bundled_model());
    let mut c = context(&model, &one_thread());
    let half = (0..).find(|&id| model.tokenizer().unwrap().token_bytes(id) == Ok(&[0xe2][..])).unwrap();
    let mut only = Sampler::new(0);
    only.push(Stage::Allow(vec![half])).unwrap();
    let o = GenerateOptions { stops: vec!["\u{fffd}".into()], ..exactly(1) };
    let mut text = String::new();
    let usage = generate(&mut c, &mut only, PROMPT, &o, |event| {
        text.push_str(event.text);
        ControlFlow::Continue(())
    });
    assert_eq!((text.as_str(), usage.unwrap().finish), ("", Some(FinishReason::StopString)));
}
