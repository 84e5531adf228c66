//! The generator: its text, log-probabilities and counts, the sequences it leaves, and its ways to end.

use crate::common;

use std::ops::ControlFlow;
use std::sync::Arc;

use common::{argmax, bundled_model, context, exactly, fixture, greedy, load};
use ember::cancel::CancelToken;
use ember::context::{Context, ContextOptions, Tokens};
use ember::error::Error;
use ember::generate::score::{ScoreOptions, Scoring};
use ember::generate::{
    EventKind, FinishReason, GenerateOptions, Generator, LogSoftmax, MAX_TOPS, Prompt, Usage, generate,
};
use ember::model::LoadedModel;
use ember::sampler::{Penalties, Sampler, Stage};

const PROMPT: &str = "The sea was calm, and the moon";

fn new_context(model: &Arc<LoadedModel>, n_seq: usize) -> Context {
    context(model, &ContextOptions { n_seq, n_threads: 2, n_batch: 16, ..ContextOptions::default() })
}

/// What a generation gave in all.
#[derive(Debug, Default, PartialEq)]
struct Got {
    text: String,
    bytes: Vec<u8>,
    ids: Vec<u32>,
    logprobs: Vec<Option<f32>>,
    tops: Vec<Vec<(u32, f32)>>,
    finish: Option<FinishReason>,
}

impl Got {
    fn take(&mut self, event: &ember::generate::Event<'_>) {
        assert!(self.finish.is_none(), "an event after the end");
        self.text.push_str(event.text);
        match event.kind {
            EventKind::Echo => assert!(self.ids.is_empty()),
            EventKind::Token(token) => {
                self.bytes.extend_from_slice(token.bytes);
                self.ids.push(token.id);
                self.logprobs.push(token.logprob);
                self.tops.push(token.tops.iter().map(|t| (t.id, t.logprob)).collect());
            }
            EventKind::End(reason) => self.finish = Some(reason),
        }
    }
}

/// Generates greedily through the push form.
fn push<'a>(c: &mut Context, prompt: impl Into<Prompt<'a>>, o: &GenerateOptions) -> (Got, Usage) {
    let mut got = Got::default();
    let usage = generate(c, &mut greedy(), prompt, o, |event| {
        got.take(event);
        ControlFlow::Continue(())
    });
    let usage = usage.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(usage.finish, got.finish);
    assert_eq!(usage.n_generated, got.ids.len());
    (got, usage)
}

/// Takes all events of a generator.
fn pull(generator: &mut Generator, c: &mut Context, sampler: &mut Sampler) -> Got {
    let mut got = Got::default();
    while got.finish.is_none() {
        got.take(&generator.next(c, sampler).unwrap_or_else(|e| panic!("{e}")));
    }
    let again = generator.next(c, sampler).expect("the end again");
    assert_eq!((again.text, again.kind), ("", EventKind::End(got.finish.expect("ended"))));
    got
}

#[test]
fn the_push_form_is_the_pull_form() {
    let model = load(&bundled_model());
    for o in [exactly(20), GenerateOptions { echo: true, logprobs: true, n_top: 3, ..exactly(20) }] {
        let mut c = new_context(&model, 1);
        let (pushed, usage) = push(&mut c, PROMPT, &o);
        let mut d = new_context(&model, 1);
        let mut generator = Generator::new(&d, PROMPT, &o).expect("a generator");
        assert_eq!(generator.usage().finish, None);
        let pulled = pull(&mut generator, &mut d, &mut greedy());
        assert_eq!(pulled, pushed);
        assert_eq!(c.tokens(0), d.tokens(0));
        assert_eq!(c.tokens(0).expect("a sequence")[usage.n_prompt..], pushed.ids);
        let text = String::from_utf8(pushed.bytes).expect("whole code points");
        assert_eq!(pushed.text, if o.echo { format!("{PROMPT}{text}") } else { text });
        let counts = Usage { prefill: usage.prefill, decode: usage.decode, ..generator.usage() };
        assert_eq!(counts, usage);
        assert!(!usage.prefill.is_zero() && !usage.decode.is_zero());
    }
}

#[test]
fn tokens_and_text_as_a_prompt_are_the_same() {
    let model = load(&bundled_model());
    let ids = model.tokenizer().expect("a tokenizer").encode(PROMPT, true, false).expect("tokens");
    let o = GenerateOptions { echo: true, ..exactly(12) };
    let (text, _) = push(&mut new_context(&model, 1), PROMPT, &o);
    let (tokens, usage) = push(&mut new_context(&model, 1), &ids[..], &o);
    assert_eq!((tokens, usage.n_prompt), (text, ids.len()));
    // Without a tokenizer there are tokens all the same.
    let plain = load(&fixture("models/gpt2-tied.gguf"));
    let (got, usage) = push(&mut context(&plain, &ContextOptions::default()), &[1u32, 2, 3][..], &exactly(5));
    assert_eq!((got.ids.len(), usage.n_prompt, got.text.as_str()), (5, 3, ""));
    let refused = |prompt: Prompt<'_>, o: &GenerateOptions, culprit: &str| {
        let c = context(&plain, &ContextOptions::default());
        let e = Generator::new(&c, prompt, o).err().expect("refused");
        assert!(e.message().contains(culprit), "{e}");
    };
    refused(Prompt::Text("a"), &exactly(1), "tokenizer");
    refused(Prompt::Tokens(&[1]), &GenerateOptions { stops: vec!["a".into()], ..exactly(1) }, "tokenizer");
    refused(Prompt::Tokens(&[1, 101]), &exactly(1), "token 1 of the prompt is 101");
    refused(Prompt::Tokens(&[1]), &GenerateOptions { stops: vec![String::new()], ..exactly(1) }, "empty");
    refused(Prompt::Tokens(&[1]), &GenerateOptions { n_top: MAX_TOPS + 1, ..exactly(1) }, "n_top");
    refused(Prompt::Tokens(&[1]), &GenerateOptions { seq: 1, ..exactly(1) }, "sequence 1");
    refused(Prompt::Tokens(&[]), &exactly(1), "nothing to continue");
}

#[test]
fn logprobs_are_those_of_the_contexts_logits() {
    let model = load(&bundled_model());
    let o = GenerateOptions { logprobs: true, n_top: 5, ..exactly(10) };
    let mut sampler = Sampler::new(3);
    sampler.push(Stage::Temperature(1.5)).expect("valid");
    let mut c = new_context(&model, 1);
    let mut generator = Generator::new(&c, PROMPT, &o).expect("a generator");
    let got = pull(&mut generator, &mut c, &mut sampler);
    assert!(got.ids.iter().zip(&got.tops).any(|(id, tops)| tops[0].0 != *id), "nothing unlikely was drawn");
    let all = c.tokens(0).expect("a sequence").to_vec();
    let n_prompt = generator.usage().n_prompt;
    let mut fresh = new_context(&model, 1);
    fresh.decode(Tokens::next(&all[..n_prompt])).expect("free pages");
    for (i, id) in got.ids.iter().enumerate() {
        let logits = fresh.end_logits(0).expect("asked for");
        let sum: f64 = logits.iter().map(|&l| f64::from(l).exp()).sum();
        let expected = |id: u32| f64::from(logits[id as usize]) - sum.ln();
        let got_logprob = f64::from(got.logprobs[i].expect("asked for"));
        assert!((got_logprob - expected(*id)).abs() <= 1e-5, "token {i}: {got_logprob}");
        assert_eq!(got.tops[i].len(), 5);
        assert_eq!(got.tops[i][0].0 as usize, argmax(logits));
        for pair in got.tops[i].windows(2) {
            assert!(pair[0].1 >= pair[1].1);
        }
        for &(id, logprob) in &got.tops[i] {
            assert!((f64::from(logprob) - expected(id)).abs() <= 1e-5);
        }
        let least = got.tops[i][4].1;
        let n_above = logits.iter().filter(|&&l| LogSoftmax::of(logits).logprob(l) > least).count();
        assert!(n_above <= 4, "{n_above} tokens are likelier than the fifth");
        fresh.decode(Tokens::next(&[*id])).expect("free pages");
    }
    let (without, _) = push(&mut new_context(&model, 1), PROMPT, &exactly(3));
    assert!(without.logprobs.iter().all(Option::is_none) && without.tops.iter().all(Vec::is_empty));
}

#[test]
fn a_stop_string_ends_the_text_before_it() {
    let model = load(&bundled_model());
    let (whole, _) = push(&mut new_context(&model, 1), PROMPT, &exactly(24));
    let text = &whole.text;
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    // Every stretch of the text of up to seven letters, which begins and ends in tokens as it happens.
    for (i, &(start, _)) in chars.iter().enumerate().step_by(3) {
        for len in [1, 4, 7] {
            let end = chars.get(i + len).map_or(text.len(), |c| c.0);
            let stop = &text[start..end];
            let first = text.find(stop).expect("it is there");
            for include_stop in [false, true] {
                let stops = vec![stop.to_owned(), "never to be seen".to_owned()];
                let o = GenerateOptions { stops, include_stop, ..exactly(24) };
                let mut c = new_context(&model, 1);
                let (got, usage) = push(&mut c, PROMPT, &o);
                let expected = &text[..first + if include_stop { stop.len() } else { 0 }];
                assert_eq!((got.text.as_str(), got.finish), (expected, Some(FinishReason::StopString)));
                // All tokens of the stop string are reported, and all are in the sequence.
                assert_eq!(got.ids, whole.ids[..got.ids.len()]);
                assert!(String::from_utf8_lossy(&got.bytes).contains(stop));
                assert_eq!(c.tokens(0).expect("a sequence")[usage.n_prompt..], got.ids);
            }
        }
        if i > 30 {
            break;
        }
    }
    // The beginning of a stop string that does not come is given out at the end.
    let stops = vec![format!("{}X", &text[text.len() - 5..])];
    let (got, _) = push(&mut new_context(&model, 1), PROMPT, &GenerateOptions { stops, ..exactly(24) });
    assert_eq!((&got.text, got.finish), (text, Some(FinishReason::MaxTokens)));
}

#[test]
fn an_empty_prompt_goes_on_and_a_longer_one_is_appended() {
    let model = load(&bundled_model());
    let mut c = new_context(&model, 1);
    let (whole, _) = push(&mut c, PROMPT, &exactly(12));
    let mut c = new_context(&model, 1);
    let (first, _) = push(&mut c, PROMPT, &exactly(5));
    let (second, usage) = push(&mut c, "", &exactly(7));
    assert_eq!(first.text + &second.text, whole.text);
    assert_eq!((usage.n_prompt, usage.n_reused), (0, 0));
    let before = c.n_past(0).expect("a sequence");
    let reuse = GenerateOptions { reuse_prefix: true, ..exactly(2) };
    let refused = Generator::new(&c, Prompt::Text(""), &reuse).err().expect("refused");
    assert!(refused.message().contains("it is the whole text"), "{refused}");
    let (_, usage) = push(&mut c, " and so", &exactly(2));
    assert_eq!(c.n_past(0), Ok(before + usage.n_prompt + 2));
}

#[test]
fn a_reused_prefix_changes_nothing_but_the_work() {
    let model = load(&bundled_model());
    let reuse = GenerateOptions { reuse_prefix: true, ..exactly(10) };
    let mut c = new_context(&model, 2);
    // Another sequence, so that pages do not lie in order.
    push(&mut c, "Once upon a time there was a keeper of a light", &GenerateOptions { seq: 1, ..exactly(3) });
    let (first, usage) = push(&mut c, PROMPT, &reuse);
    assert_eq!(usage.n_reused, 0);
    let n_first = usage.n_prompt;
    // The conversation goes on after what was generated.
    let longer = format!("{PROMPT}{} The boat", first.text);
    let (second, usage) = push(&mut c, &*longer, &reuse);
    let (fresh, fresh_usage) = push(&mut new_context(&model, 1), &*longer, &exactly(10));
    assert_eq!(second, fresh);
    assert_eq!((usage.n_prompt, fresh_usage.n_reused), (fresh_usage.n_prompt, 0));
    assert!(usage.n_reused >= n_first && usage.n_reused < usage.n_prompt, "{usage:?}");
    // The same prompt again runs its last token only. A shorter one and another one forget the tokens that do not belong to them.
    let (again, usage) = push(&mut c, &*longer, &reuse);
    assert_eq!((again, usage.n_reused), (fresh, usage.n_prompt - 1));
    for prompt in [PROMPT, "The sea was wild", "Nothing alike"] {
        let (got, usage) = push(&mut c, prompt, &reuse);
        let (fresh, fresh_usage) = push(&mut new_context(&model, 1), prompt, &exactly(10));
        assert_eq!((got, usage.n_prompt), (fresh, fresh_usage.n_prompt), "{prompt:?}");
        assert_eq!(c.n_past(0), Ok(usage.n_prompt + 10));
    }
    // A prompt that does not fit is refused before anything is forgotten.
    let small = ContextOptions { n_ctx: 16, ..ContextOptions::default() };
    let mut c = context(&model, &small);
    push(&mut c, PROMPT, &exactly(2));
    let kept = c.tokens(0).expect("a sequence").to_vec();
    let o = GenerateOptions { reuse_prefix: true, ..exactly(1) };
    let refused = generate(&mut c, &mut greedy(), &*longer, &o, |_| ControlFlow::Continue(()));
    assert!(matches!(refused, Err(Error::ContextFull(_))), "{refused:?}");
    assert_eq!(c.tokens(0), Ok(&kept[..]));
}

#[test]
fn penalties_see_all_of_a_reused_prompt() {
    let model = load(&bundled_model());
    let sampler = || {
        let mut sampler = Sampler::new(0);
        let penalties = Penalties { last_n: 64, repeat: 1.5, frequency: 0.2, presence: 0.1 };
        sampler.push(Stage::Penalties(penalties)).expect("a stage");
        sampler.push(Stage::Greedy).expect("a stage");
        sampler
    };
    let reuse = GenerateOptions { reuse_prefix: true, ..exactly(12) };
    let run = |c: &mut Context, sampler: &mut Sampler| {
        let mut text = String::new();
        let usage = generate(c, sampler, PROMPT, &reuse, |event| {
            text.push_str(event.text);
            ControlFlow::Continue(())
        });
        (text, usage.expect("no error").n_reused)
    };
    let mut c = new_context(&model, 1);
    let (fresh, _) = run(&mut c, &mut sampler());
    let mut used = sampler();
    let (again, n_reused) = run(&mut c, &mut used);
    assert!(n_reused > 0);
    assert_eq!(again, fresh, "what was in the cache");
    let (again, _) = run(&mut c, &mut used);
    assert_eq!(again, fresh, "what the sampler saw before is not of this text");
}

#[test]
fn the_context_gets_full_and_callers_stop() {
    let model = load(&bundled_model());
    let mut c = context(&model, &ContextOptions { n_ctx: 16, ..ContextOptions::default() });
    let (_, usage) = push(&mut c, PROMPT, &exactly(100));
    assert_eq!((usage.finish, c.n_past(0)), (Some(FinishReason::ContextFull), Ok(16)));
    assert_eq!(usage.n_prompt + usage.n_generated, 16);

    let mut c = new_context(&model, 1);
    let mut n = 0;
    let usage = generate(&mut c, &mut greedy(), PROMPT, &exactly(20), |event| {
        n += 1;
        assert!(matches!(event.kind, EventKind::Token(_)));
        if n == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let usage = usage.expect("no error");
    assert_eq!((usage.finish, usage.n_generated, n), (Some(FinishReason::Stopped), 3, 3));
    assert_eq!(c.n_past(0), Ok(usage.n_prompt + 3));
    // Stopped at the echo, it does not even run the prompt.
    let mut c = new_context(&model, 1);
    let o = GenerateOptions { echo: true, ..exactly(20) };
    let usage = generate(&mut c, &mut greedy(), PROMPT, &o, |_| ControlFlow::Break(())).expect("no error");
    assert_eq!((usage.finish, c.n_past(0)), (Some(FinishReason::Stopped), Ok(0)));
    let (none, usage) = push(&mut new_context(&model, 1), PROMPT, &exactly(0));
    assert_eq!((none.text.as_str(), usage.finish), ("", Some(FinishReason::MaxTokens)));
}

#[test]
fn generators_of_one_context_take_turns() {
    let model = load(&bundled_model());
    let prompts = [PROMPT, "Once upon a time", "The old lighthouse"];
    let alone = prompts.map(|prompt| push(&mut new_context(&model, 1), prompt, &exactly(9)).0);
    let mut c = new_context(&model, 3);
    let mut generators: Vec<Generator> = (0..)
        .zip(prompts)
        .map(|(seq, prompt)| {
            Generator::new(&c, prompt, &GenerateOptions { seq, ..exactly(9) }).expect("a generator")
        })
        .collect();
    let mut got = [Got::default(), Got::default(), Got::default()];
    while got.iter().any(|g| g.finish.is_none()) {
        for (generator, got) in generators.iter_mut().zip(&mut got) {
            got.take(&generator.next(&mut c, &mut greedy()).expect("an event"));
        }
    }
    assert_eq!(got, alone);
}

#[test]
fn a_sequence_that_others_changed_is_refused() {
    let model = load(&bundled_model());
    let mut c = new_context(&model, 2);
    let mut generator = Generator::new(&c, PROMPT, &exactly(9)).expect("a generator");
    generator.next(&mut c, &mut greedy()).expect("an event");
    let mine = c.tokens(0).expect("a sequence").to_vec();
    c.decode(Tokens { seqs: Some(&[1]), ..Tokens::next(&[400]) }).expect("free pages");
    generator.next(&mut c, &mut greedy()).expect("another sequence does not matter");
    c.decode(Tokens::next(&[400])).expect("free pages");
    let refused = generator.next(&mut c, &mut greedy()).map(|_| ());
    assert!(matches!(&refused, Err(Error::InvalidArgument(m)) if m.contains("sequence 0")), "{refused:?}");
    c.rewind(0, mine.len() + 1).expect("long enough");
    generator.next(&mut c, &mut greedy()).expect("as it was again");
    let other = load(&fixture("models/gpt2-tied.gguf"));
    let refused = generator.next(&mut context(&other, &ContextOptions::default()), &mut greedy()).map(|_| ());
    assert!(matches!(&refused, Err(Error::InvalidArgument(m)) if m.contains("another model")), "{refused:?}");
}

#[cfg(not(target_family = "wasm"))] // which has one thread
#[test]
fn a_cancelled_generation_ends_and_the_next_is_as_ever() {
    let model = load(&bundled_model());
    let long = PROMPT.repeat(8);
    let (expected, _) = push(&mut new_context(&model, 1), &*long, &exactly(30));
    let mut c = new_context(&model, 1);
    // Another thread cancels when it sees the `at`-th token; 0: before the beginning.
    for at in [0usize, 1, 2, 17, 30] {
        let token = CancelToken::new();
        let o = GenerateOptions { cancel: Some(token.clone()), ..exactly(30) };
        c.rewind(0, 0).expect("a sequence");
        let (seen, sees) = std::sync::mpsc::channel();
        let (done, is_done) = std::sync::mpsc::channel();
        let mut got = Got::default();
        let usage = std::thread::scope(|scope| {
            scope.spawn(move || {
                for n in sees {
                    if n == at {
                        token.cancel();
                    }
                    done.send(()).expect("the generating thread waits");
                }
            });
            let tell = |n: usize| {
                seen.send(n).expect("the other thread lives");
                is_done.recv().expect("the other thread lives");
            };
            tell(0);
            let usage = generate(&mut c, &mut greedy(), &*long, &o, |event| {
                got.take(event);
                if got.finish.is_none() {
                    tell(got.ids.len());
                }
                ControlFlow::Continue(())
            });
            drop(seen);
            usage.expect("no error")
        });
        assert_eq!((got.finish, usage.finish), (Some(FinishReason::Cancelled), got.finish));
        assert_eq!((got.ids.len(), usage.n_generated), (at, at));
        assert!(expected.text.starts_with(&got.text) && expected.ids.starts_with(&got.ids));
        let n_past = if at == 0 { 0 } else { usage.n_prompt + at - 1 };
        assert_eq!(c.n_past(0), Ok(n_past), "the last token is not in the sequence");
    }
    c.rewind(0, 0).expect("a sequence");
    assert_eq!(push(&mut c, &*long, &exactly(30)).0, expected);
    // The context's own token ends it too.
    let token = CancelToken::new();
    token.cancel();
    c.set_cancel_token(Some(token));
    assert_eq!(push(&mut c, " and", &exactly(30)).1.finish, Some(FinishReason::Cancelled));
}

#[test]
fn scores_are_the_log_softmax_of_each_place() {
    let model = load(&bundled_model());
    let o = ScoreOptions::default();
    let mut c = new_context(&model, 1);
    let (generated, usage) = push(&mut c, PROMPT, &GenerateOptions { logprobs: true, ..exactly(30) });
    let ids = c.tokens(0).expect("a sequence").to_vec();
    // The model's own text: the same log-probabilities, and greedy.
    let mut c = new_context(&model, 1);
    let scoring = Scoring::of_tokens(&c, &ids, usage.n_prompt, &o).expect("tokens");
    assert_eq!(scoring.n_scored(), 30);
    let score = scoring.run(&mut c).expect("free pages");
    assert!(score.is_greedy());
    assert_eq!((score.n_prompt, score.n_reused), (usage.n_prompt, 0));
    let logprobs: Vec<Option<f32>> = score.tokens.iter().map(|t| Some(t.logprob)).collect();
    assert_eq!(logprobs, generated.logprobs);
    let sum: f64 = generated.logprobs.iter().map(|l| f64::from(l.expect("asked for"))).sum();
    assert!((score.sum() - sum).abs() <= 1e-9);
    assert_eq!(c.tokens(0), Ok(&ids[..ids.len() - 1]));
    // Another continuation of the same prompt runs the prompt's last token only, and is less likely.
    let mut other = ids.clone();
    other[usage.n_prompt + 1] = 400;
    let less =
        Scoring::of_tokens(&c, &other, usage.n_prompt, &o).expect("tokens").run(&mut c).expect("free pages");
    assert_eq!(less.n_reused, usage.n_prompt - 1);
    assert!(less.sum() < score.sum() && !less.is_greedy() && less.tokens[1].rank > 0);
    assert_eq!(less.tokens[0], score.tokens[0]);
    let fresh = Scoring::of_tokens(&c, &other, usage.n_prompt, &o).expect("tokens");
    assert_eq!(fresh.run(&mut new_context(&model, 1)).expect("free pages").tokens, less.tokens);

    // As text: what is tokenized together is what counts.
    let tokenizer = model.tokenizer().expect("a tokenizer");
    let scoring = Scoring::of_text(&c, PROMPT, " was bright", &o).expect("text");
    let score = scoring.run(&mut c).expect("free pages");
    let whole = tokenizer.encode(&format!("{PROMPT} was bright"), true, false).expect("tokens");
    let scored: Vec<u32> = score.tokens.iter().map(|t| t.id).collect();
    assert_eq!(scored, whole[score.n_prompt..]);
}

#[test]
fn what_cannot_be_scored_is_refused() {
    let model = load(&bundled_model());
    let o = ScoreOptions::default();
    let mut c = context(&model, &ContextOptions { n_ctx: 16, ..ContextOptions::default() });
    push(&mut c, PROMPT, &exactly(2));
    let kept = c.tokens(0).expect("a sequence").to_vec();
    let refused = |outcome: Result<Scoring, Error>, culprit: &str| match outcome {
        Err(Error::InvalidArgument(m)) => assert!(m.contains(culprit), "{m}"),
        other => panic!("{other:?}"),
    };
    refused(Scoring::of_tokens(&c, &[1, 2], 2, &o), "no token to score");
    refused(Scoring::of_tokens(&c, &[1, 2], 0, &o), "no token");
    refused(Scoring::of_tokens(&c, &[1, u32::MAX, 1], 2, &o), "token 1 of the prompt is 4294967295");
    refused(Scoring::of_tokens(&c, &[1, 2, 3, u32::MAX], 3, &o), "token 0 of the continuation is 4294967295");
    refused(Scoring::of_tokens(&c, &[1, 2], 1, &ScoreOptions { seq: 1, ..o.clone() }), "sequence 1");
    refused(Scoring::of_text(&c, PROMPT, "", &o), "no token to score");
    let long = Scoring::of_tokens(&c, &[5; 18], 4, &o).expect("tokens").run(&mut c);
    assert!(
        matches!(&long, Err(Error::ContextFull(m)) if m.contains("continuation have 4 and 14 tokens")),
        "{long:?}"
    );
    assert_eq!(c.tokens(0), Ok(&kept[..]));
    assert_eq!(
        Scoring::of_tokens(&c, &[5; 17], 4, &o)
            .expect("tokens")
            .run(&mut c)
            .expect("free pages")
            .tokens
            .len(),
        13
    );
    let token = CancelToken::new();
    token.cancel();
    let o = ScoreOptions { cancel: Some(token), ..o };
    let cancelled = Scoring::of_tokens(&c, &[5; 9], 4, &o).expect("tokens").run(&mut c);
    assert!(matches!(cancelled, Err(Error::Cancelled(_))), "{cancelled:?}");
}
