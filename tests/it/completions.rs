//! Several completions of one prompt: each is what a generation alone gives, the prompt runs once, and the likeliest is found.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use common::{bundled_model, context, fixture, load};
use ember::cancel::CancelToken;
use ember::context::{Context, ContextOptions, Tokens};
use ember::error::Error;
use ember::generate::{
    Completions, EventKind, FinishReason, GenerateOptions, Prompt, Shift, Usage, generate,
};
use ember::model::LoadedModel;
use ember::sampler::{Sampler, Stage};

const PROMPT: &str = "The sea was calm, and the moon";

fn new_context(model: &Arc<LoadedModel>, n_seq: usize) -> Context {
    context(
        model,
        &ContextOptions { n_seq, n_ctx: 128, n_threads: 2, n_batch: 16, ..ContextOptions::default() },
    )
}

fn hot(seed: u64) -> Sampler {
    let mut sampler = Sampler::new(seed);
    sampler.push(Stage::Temperature(1.2)).unwrap();
    sampler
}

fn options(max_tokens: usize) -> GenerateOptions {
    GenerateOptions { max_tokens, logprobs: true, n_top: 2, ..GenerateOptions::default() }
}

/// What a completion gave.
#[derive(Debug, Default, PartialEq)]
struct Got {
    text: String,
    /// Tokens, and the bits of their log-probabilities.
    tokens: Vec<(u32, Option<u32>)>,
    finish: Option<FinishReason>,
}

impl Got {
    fn take(&mut self, event: &ember::generate::Event<'_>) {
        assert!(self.finish.is_none(), "an event after the end");
        self.text.push_str(event.text);
        match event.kind {
            EventKind::Echo => assert!(self.tokens.is_empty()),
            EventKind::Token(token) => self.tokens.push((token.id, token.logprob.map(f32::to_bits))),
            EventKind::End(reason) => self.finish = Some(reason),
        }
    }
}

/// What a generation alone gives, in a context of its own.
fn alone(model: &Arc<LoadedModel>, prompt: Prompt<'_>, o: &GenerateOptions, seed: u64) -> (Got, Usage) {
    let mut got = Got::default();
    let usage = generate(&mut new_context(model, 1), &mut hot(seed), prompt, o, |event| {
        got.take(event);
        ControlFlow::Continue(())
    });
    (got, usage.unwrap())
}

/// Takes all events; `between` may do something with the context before each.
fn all(completions: &mut Completions, c: &mut Context, mut between: impl FnMut(&mut Context)) -> Vec<Got> {
    let mut got: Vec<Got> = (0..completions.n()).map(|_| Got::default()).collect();
    loop {
        between(c);
        match completions.next(c).unwrap() {
            Some((i, event)) => got[i].take(&event),
            None => break,
        }
    }
    assert!(completions.next(c).unwrap().is_none(), "all have ended");
    for (i, got) in got.iter().enumerate() {
        assert_eq!(completions.text(i).unwrap(), got.text);
        assert_eq!(completions.usage(i).unwrap().finish, got.finish);
    }
    got
}

/// Ids that every model of the fixtures has.
fn ids() -> Vec<u32> {
    (0..21).map(|i| i * 7 % 90 + 5).collect()
}

#[test]
fn each_completion_is_what_a_generation_alone_gives() {
    let text = load(&bundled_model());
    let kinds = ["lfm2", "qwen35", "granitehybrid", "gemma3", "deepseek2-lite"];
    let mut models = vec![(text, Prompt::Text(PROMPT))];
    let ids = ids();
    models.extend(kinds.map(|name| (load(&fixture(&format!("models/{name}.gguf"))), Prompt::Tokens(&ids))));
    for (model, prompt) in &models {
        let mut c = new_context(model, 5);
        // What the sequences held before is of no account.
        let old: Vec<u32> = (1..9).collect();
        for seq in 0..5 {
            c.decode(Tokens { seqs: Some(&[seq; 8]), ..Tokens::next(&old) }).unwrap();
        }
        let before = c.timings().n_prefill;
        let mut completions = Completions::new(&c, *prompt, &options(20), &hot(11), 5).unwrap();
        let got = all(&mut completions, &mut c, |_| {});
        let mut different = std::collections::HashSet::new();
        for (i, got) in got.iter().enumerate() {
            let (wanted, usage) = alone(model, *prompt, &options(20), 11 + i as u64);
            assert_eq!(got, &wanted, "completion {i}");
            different.insert(got.tokens.clone());
            let mine = completions.usage(i).unwrap();
            assert_eq!((mine.n_prompt, mine.n_generated), (usage.n_prompt, usage.n_generated));
            assert_eq!(mine.n_reused, if i == 0 { 0 } else { mine.n_prompt });
            assert_eq!(mine.sum_logprob.to_bits(), usage.sum_logprob.to_bits());
            // The sequence holds it all.
            let held: Vec<u32> = got.tokens.iter().map(|t| t.0).collect();
            assert!(c.tokens(i as u32).unwrap().ends_with(&held), "completion {i}");
            assert_eq!(c.n_past(i as u32).unwrap(), mine.n_prompt + mine.n_generated);
        }
        assert!(different.len() > 1, "seeds differ");
        let n_prompt = completions.usage(0).unwrap().n_prompt as u64;
        assert_eq!(c.timings().n_prefill - before, n_prompt, "the prompt runs once");
    }
}

#[test]
fn the_likeliest_is_the_one_whose_tokens_are_likeliest_in_the_mean() {
    let model = load(&bundled_model());
    let mut c = new_context(&model, 6);
    let o = GenerateOptions { stops: vec![".".into()], ..options(30) };
    let mut completions = Completions::new(&c, Prompt::Text(PROMPT), &o, &hot(5), 6).unwrap();
    completions.next(&mut c).unwrap();
    assert!(
        matches!(completions.ranking(), Err(Error::InvalidArgument(e)) if e.contains("completion 0 has not ended"))
    );
    let mut sums = vec![(0.0, 0); 6];
    while let Some((i, event)) = completions.next(&mut c).unwrap() {
        if let EventKind::Token(token) = event.kind {
            sums[i].0 += f64::from(token.logprob.unwrap());
            sums[i].1 += 1;
        }
    }
    let ranking = completions.ranking().unwrap();
    let mut sorted = ranking.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
    for pair in ranking.windows(2) {
        let [a, b] = [pair[0], pair[1]].map(|i| completions.usage(i).unwrap().mean_logprob().unwrap());
        assert!(a >= b, "{ranking:?}");
    }
    for (i, (sum, n)) in sums.into_iter().enumerate().skip(1) {
        // All of its tokens were seen above; only an end-of-generation token has no event.
        let usage = completions.usage(i).unwrap();
        assert!(usage.n_logprobs - n <= usize::from(usage.finish == Some(FinishReason::EndOfGeneration)));
        assert!(usage.n_logprobs > n || (usage.sum_logprob - sum).abs() < 1e-9, "completion {i}");
    }
    let o = GenerateOptions { max_tokens: 2, ..GenerateOptions::default() };
    let mut unscored = Completions::new(&c, Prompt::Text(PROMPT), &o, &hot(5), 2).unwrap();
    all(&mut unscored, &mut c, |_| {});
    assert!(matches!(unscored.ranking(), Err(Error::InvalidArgument(e)) if e.contains("not asked for")));
    assert_eq!(unscored.usage(1).unwrap().mean_logprob(), None);
}

#[test]
fn other_work_between_events_changes_nothing() {
    let model = load(&bundled_model());
    let o = GenerateOptions { echo: true, ..options(12) };
    let mut quiet = new_context(&model, 5);
    let mut completions = Completions::new(&quiet, Prompt::Text(PROMPT), &o, &hot(3), 4).unwrap();
    let wanted = all(&mut completions, &mut quiet, |_| {});
    assert!(wanted.iter().all(|got| got.text.starts_with(PROMPT)));
    let mut busy = new_context(&model, 5);
    let mut completions = Completions::new(&busy, Prompt::Text(PROMPT), &o, &hot(3), 4).unwrap();
    let mut n = 0;
    let got = all(&mut completions, &mut busy, |c| {
        n += 1;
        if n % 3 == 0 {
            c.rewind(4, 0).unwrap();
            c.decode(Tokens { seqs: Some(&[4; 3]), ..Tokens::next(&[9, 8, 7]) }).unwrap();
        }
    });
    assert_eq!(got, wanted);
    // A sequence that others change is an error that names it.
    let mut completions = Completions::new(&busy, Prompt::Text(PROMPT), &options(12), &hot(3), 2).unwrap();
    for _ in 0..3 {
        completions.next(&mut busy).unwrap();
    }
    busy.rewind(1, 2).unwrap();
    let error = (0..4).find_map(|_| completions.next(&mut busy).err()).unwrap();
    assert!(error.to_string().contains("sequence 1 was changed"), "{error}");
}

#[test]
fn a_second_prompt_runs_only_what_is_new() {
    let model = load(&bundled_model());
    let mut c = new_context(&model, 3);
    let mut completions = Completions::new(&c, Prompt::Text(PROMPT), &options(8), &hot(3), 3).unwrap();
    let first = all(&mut completions, &mut c, |_| {});
    let longer = format!("{PROMPT}{} But", first[0].text);
    let mut completions = Completions::new(&c, Prompt::Text(&longer), &options(8), &hot(4), 3).unwrap();
    let second = all(&mut completions, &mut c, |_| {});
    let usage = completions.usage(0).unwrap();
    assert!(usage.n_reused >= 8 && usage.n_reused < usage.n_prompt, "{usage:?}");
    for (i, got) in second.iter().enumerate() {
        assert_eq!(got, &alone(&model, Prompt::Text(&longer), &options(8), 4 + i as u64).0);
    }
}

#[test]
fn completions_end_by_themselves_and_by_order() {
    let model = load(&bundled_model());
    let mut c = new_context(&model, 3);
    let cancel = CancelToken::new();
    let o = GenerateOptions { cancel: Some(cancel.clone()), ignore_eog: true, ..options(100) };
    let mut completions = Completions::new(&c, Prompt::Text(PROMPT), &o, &hot(3), 3).unwrap();
    for _ in 0..4 {
        completions.next(&mut c).unwrap();
    }
    cancel.cancel();
    let got = all_rest(&mut completions, &mut c);
    assert!(got.iter().all(|&finish| finish == FinishReason::Cancelled), "{got:?}");
    let o = GenerateOptions { time_limit: Some(Duration::ZERO), ..options(100) };
    let mut completions = Completions::new(&c, Prompt::Text(PROMPT), &o, &hot(3), 2).unwrap();
    assert!(all_rest(&mut completions, &mut c).iter().all(|&finish| finish == FinishReason::TimeLimit));
    // The context ends some of them.
    let o = GenerateOptions { ignore_eog: true, ..options(1000) };
    let mut completions = Completions::new(&c, Prompt::Text(PROMPT), &o, &hot(3), 2).unwrap();
    assert!(all_rest(&mut completions, &mut c).iter().all(|&finish| finish == FinishReason::ContextFull));
    assert_eq!((c.n_past(0).unwrap(), c.n_past(1).unwrap()), (128, 128));
}

fn all_rest(completions: &mut Completions, c: &mut Context) -> Vec<FinishReason> {
    while completions.next(c).unwrap().is_some() {}
    (0..completions.n()).map(|i| completions.usage(i).unwrap().finish.unwrap()).collect()
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let model = load(&bundled_model());
    let c = new_context(&model, 3);
    let refused = |o: &GenerateOptions, prompt: &str, n| {
        let made = Completions::new(&c, Prompt::Text(prompt), o, &hot(1), n);
        made.err().map(|e| e.to_string()).unwrap()
    };
    let wrong = [
        (refused(&options(1), PROMPT, 0), "0 completions"),
        (refused(&options(1), PROMPT, 4), "4 completions from sequence 0 on"),
        (refused(&GenerateOptions { seq: 2, ..options(1) }, PROMPT, 2), "2 completions from sequence 2 on"),
        (refused(&GenerateOptions { seq: 9, ..options(1) }, PROMPT, 1), "from sequence 9 on"),
        (
            refused(&GenerateOptions { shift: Some(Shift { keep: 1, drop: 1 }), ..options(1) }, PROMPT, 1),
            "shift",
        ),
        (refused(&GenerateOptions { n_top: 65, ..options(1) }, PROMPT, 1), "n_top"),
    ];
    for (found, wanted) in wrong {
        assert!(found.contains(wanted), "{found}");
    }
    let many = vec![5; 200];
    let made = Completions::new(&c, Prompt::Tokens(&many), &options(1), &hot(1), 2);
    assert!(matches!(made.err().unwrap(), Error::ContextFull(_)));
    let found = refused(&options(1), &PROMPT.repeat(40), 2);
    assert!(found.contains("a sequence of this context holds n_ctx 128"), "{found}");
    let completions = Completions::new(&c, Prompt::Text(PROMPT), &options(1), &hot(1), 2).unwrap();
    assert!(matches!(completions.usage(2), Err(Error::InvalidArgument(e)) if e.contains("no completion 2")));
}

#[cfg(feature = "constraints")]
#[test]
fn constraints_hold_in_each_and_forced_tokens_run_together() {
    use ember::constrain::{Constraint, ConstraintOptions, Grammar};
    let model = load(&bundled_model());
    let schema = r#"{"type": "object", "properties": {"a long name of a field": {"enum": ["red", "green", "blue"]}},
        "required": ["a long name of a field"], "additionalProperties": false}"#;
    let grammar = Grammar::JsonSchema(schema);
    let constraint =
        Constraint::new(model.vocabulary().unwrap(), grammar, &ConstraintOptions::default()).unwrap();
    let o = GenerateOptions { max_tokens: 80, constraint: Some(constraint), ..GenerateOptions::default() };
    let mut c = new_context(&model, 4);
    let mut completions = Completions::new(&c, Prompt::Text(PROMPT), &o, &hot(8), 4).unwrap();
    let got = all(&mut completions, &mut c, |_| {});
    let steps = c.timings().n_decode;
    for (i, got) in got.iter().enumerate() {
        let value: serde_json::Value = serde_json::from_str(&got.text).unwrap();
        assert!(["red", "green", "blue"].contains(&value["a long name of a field"].as_str().unwrap()));
        let (wanted, _) = alone(&model, Prompt::Text(PROMPT), &o, 8 + i as u64);
        assert_eq!(got, &wanted, "completion {i}");
        assert!(completions.usage(i).unwrap().n_forced > 5);
    }
    assert!(steps > 0);
}
