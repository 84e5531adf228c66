//! Generated text that follows a constraint: with every kind, after triggers, in engines, with drafts, cloned and reset; and
//! what is refused.
#![cfg(feature = "constraints")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::sync::{Arc, OnceLock};

use common::{bundled_model, context, load};
use ember::constrain::{Constraint, ConstraintOptions, Grammar, Limits, Mask, Progress, Trigger};
use ember::context::{Context, ContextOptions};
use ember::error::Error;
use ember::generate::{EventKind, FinishReason, GenerateOptions, Generator, Lookup, Usage};
use ember::model::LoadedModel;
use ember::sampler::{Sampler, Stage};
use regex::Regex;
use serde_json::Value;

const PERSON: &str = r#"{
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 2}
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": false
}"#;

fn model() -> &'static Arc<LoadedModel> {
    static MODEL: OnceLock<Arc<LoadedModel>> = OnceLock::new();
    MODEL.get_or_init(|| load(&bundled_model()))
}

fn new_context() -> Context {
    context(model(), &ContextOptions { n_ctx: 256, n_seq: 2, n_threads: 2, ..ContextOptions::default() })
}

fn made(grammar: Grammar<'_>, options: &ConstraintOptions) -> Constraint {
    let made = Constraint::new(model().vocabulary().unwrap(), grammar, options);
    made.unwrap_or_else(|e| panic!("{grammar:?}: {e}"))
}

fn plain(grammar: Grammar<'_>) -> Constraint {
    made(grammar, &ConstraintOptions::default())
}

fn refused(grammar: Grammar<'_>, options: &ConstraintOptions) -> Error {
    let made = Constraint::new(model().vocabulary().unwrap(), grammar, options);
    made.err().unwrap_or_else(|| panic!("{grammar:?} is refused"))
}

fn hot(seed: u64) -> Sampler {
    let mut sampler = Sampler::new(seed);
    sampler.push(Stage::Temperature(1.5)).unwrap();
    sampler
}

fn options(constraint: &Constraint) -> GenerateOptions {
    GenerateOptions { max_tokens: 150, constraint: Some(constraint.clone()), ..GenerateOptions::default() }
}

/// The result of a generation.
#[derive(Debug, PartialEq)]
struct Text {
    text: String,
    ids: Vec<u32>,
    logprobs: Vec<Option<u32>>,
    usage: Usage,
}

impl Text {
    fn reason(&self) -> FinishReason {
        self.usage.finish.unwrap()
    }

    /// The same without numbers that differ from run to run, and without the counts of fast-forwarding.
    fn reported(self) -> (String, Vec<u32>, Vec<Option<u32>>, Option<Progress>) {
        (self.text, self.ids, self.logprobs, self.usage.progress)
    }
}

fn generate(context: &mut Context, sampler: &mut Sampler, prompt: &str, options: &GenerateOptions) -> Text {
    let mut generator = Generator::new(context, prompt, options).unwrap();
    let (mut text, mut ids, mut logprobs) = (String::new(), Vec::new(), Vec::new());
    loop {
        let event = generator.next(context, sampler).unwrap();
        text.push_str(event.text);
        match event.kind {
            EventKind::Token(token) => {
                ids.push(token.id);
                logprobs.push(token.logprob.map(f32::to_bits));
            }
            EventKind::End(_) => break,
            EventKind::Echo => {}
        }
    }
    Text { text, ids, logprobs, usage: generator.usage() }
}

fn check_person(text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let object = value.as_object().unwrap();
    assert_eq!(object.len(), 3, "{text}");
    assert!(object["name"].as_str().unwrap().chars().count() <= 12, "{text}");
    assert!((0..=150).contains(&object["age"].as_i64().unwrap()), "{text}");
    let tags = object["tags"].as_array().unwrap();
    assert!(tags.len() <= 2 && tags.iter().all(|tag| tag == "red" || tag == "green"), "{text}");
}

#[test]
fn json_follows_its_schema_as_an_option_and_as_a_stage() {
    let person = plain(Grammar::JsonSchema(PERSON));
    let mut n_complete = 0;
    for seed in 0..20 {
        let mut context = new_context();
        let got = generate(&mut context, &mut hot(seed), "Once upon a time", &options(&person));
        match got.usage.progress {
            Some(Progress::Complete) => {
                check_person(&got.text);
                n_complete += 1;
            }
            progress => {
                assert_eq!((got.reason(), progress), (FinishReason::MaxTokens, Some(Progress::Unfinished)))
            }
        }
        // It does the same as the first stage.
        let mut sampler = Sampler::new(seed);
        sampler.push(Stage::Constraint(person.clone())).unwrap();
        sampler.push(Stage::Temperature(1.5)).unwrap();
        let unconstrained = GenerateOptions { constraint: None, ..options(&person) };
        let staged = generate(&mut new_context(), &mut sampler, "Once upon a time", &unconstrained);
        assert_eq!(staged.reported(), got.reported());
    }
    assert!(n_complete >= 10, "{n_complete} of 20");
}

#[test]
fn every_kind_gives_what_it_says() {
    let number = Regex::new(r"\A[0-9]{3}-[a-f]{2,4}\z").unwrap();
    let choices = ["yes", "no", "no way", "vielleicht"];
    let lark = "start: greeting \" \" name\ngreeting: \"hello\" | \"good day\"\nname: /[A-Z][a-z]{1,6}/";
    let greeted = Regex::new(r"\A(hello|good day) [A-Z][a-z]{1,6}\z").unwrap();
    for seed in 0..10 {
        let one = |grammar: Grammar<'_>| {
            let got = generate(&mut new_context(), &mut hot(seed), "The sea", &options(&plain(grammar)));
            assert_eq!(got.usage.progress, Some(Progress::Complete), "{grammar:?}: {got:?}");
            assert_eq!(got.reason(), FinishReason::EndOfGeneration);
            got.text
        };
        assert!(number.is_match(&one(Grammar::Regex(r"\d{3}-[a-f]{2,4}".replace(r"\d", "[0-9]").as_str()))));
        assert!(number.is_match(&one(Grammar::Regex("^[0-9]{3}-[a-f]{2,4}$"))));
        assert!(choices.contains(&one(Grammar::Choices(&choices)).as_str()));
        assert!(greeted.is_match(&one(Grammar::Lark(lark))));
    }
    let object = options(&plain(Grammar::JsonObject));
    let got = generate(&mut new_context(), &mut hot(3), "The sea", &object);
    assert!(got.text.starts_with('{'), "{got:?}");
}

#[test]
fn the_greedy_choice_is_the_largest_logit_that_is_allowed() {
    let person = plain(Grammar::JsonSchema(PERSON));
    let mut greedy = Sampler::new(0);
    greedy.push(Stage::Greedy).unwrap();
    let got = generate(&mut new_context(), &mut greedy, "Once upon a time", &options(&person));
    // The same, step by step, from the masks alone.
    let mut context = new_context();
    let mut run = person.start();
    let mut ids = model().tokenizer().unwrap().encode("Once upon a time", true, false).unwrap();
    let mut chosen = Vec::new();
    loop {
        context.decode(ember::context::Tokens::next(&ids)).unwrap();
        let logits = context.end_logits(0).unwrap();
        let Mask::Allow(words) = run.mask().unwrap() else { panic!("it holds from the beginning") };
        let is_allowed = |id: usize| words.get(id / 32).is_some_and(|word| word >> (id % 32) & 1 == 1);
        let allowed = (0..logits.len()).filter(|&id| is_allowed(id));
        let best = allowed.reduce(|a, b| if logits[b] > logits[a] { b } else { a }).unwrap() as u32;
        if model().tokenizer().unwrap().is_eog(best) || chosen.len() == 150 {
            break;
        }
        run.accept(best);
        chosen.push(best);
        ids = vec![best];
    }
    assert_eq!(got.ids, chosen);
}

#[test]
fn forced_tokens_run_together_and_change_nothing() {
    // Keys of one word each, in a fixed order: most tokens are forced.
    let schema = r#"{"type":"object","properties":{"identification_number":{"type":"integer","maximum":99,"minimum":10},
        "temperature_of_the_sea":{"enum":["cold","warm"]}},"required":["identification_number","temperature_of_the_sea"],
        "additionalProperties":false}"#;
    let tight = ConstraintOptions { whitespace: 0, ..ConstraintOptions::default() };
    let constraint = made(Grammar::JsonSchema(schema), &tight);
    for seed in 0..5 {
        let with_logprobs = GenerateOptions { logprobs: true, n_top: 2, ..options(&constraint) };
        let got = generate(&mut new_context(), &mut hot(seed), "The sea", &with_logprobs);
        assert_eq!(got.usage.progress, Some(Progress::Complete), "{got:?}");
        assert!(got.usage.n_forced * 2 > got.usage.n_generated, "{got:?}");
        // Step by step, without tokens that lie ready: another call that decodes discards them.
        let mut context = new_context();
        let mut sampler = hot(seed);
        let mut generator = Generator::new(&context, "The sea", &with_logprobs).unwrap();
        let (mut ids, mut logprobs) = (Vec::new(), Vec::new());
        while let EventKind::Echo | EventKind::Token(_) = {
            let event = generator.next(&mut context, &mut sampler).unwrap();
            if let EventKind::Token(token) = event.kind {
                ids.push(token.id);
                logprobs.push(token.logprob.map(f32::to_bits));
            }
            event.kind
        } {
            let other = ember::context::Tokens { seqs: Some(&[1]), ..ember::context::Tokens::next(&[300]) };
            context.decode(other).unwrap();
            context.rewind(1, 0).unwrap();
        }
        assert_eq!((got.ids, got.logprobs), (ids, logprobs));
    }
}

#[test]
fn drafts_and_constraints_go_together() {
    let lines = plain(Grammar::Regex("(the old man and the sea, ){5}"));
    let mut sampler = hot(1);
    let got = generate(&mut new_context(), &mut sampler, "The old man and the sea,", &options(&lines));
    assert_eq!(got.text, "the old man and the sea, ".repeat(5));
    let words = plain(Grammar::Regex("((red|green|blue) ){20}"));
    let lookup = Some(Lookup { n_draft: 6, ngram: 3 });
    for seed in 0..5 {
        let without =
            generate(&mut new_context(), &mut hot(seed), "red green blue red green blue", &options(&words));
        let drafting = GenerateOptions { lookup, ..options(&words) };
        let with = generate(&mut new_context(), &mut hot(seed), "red green blue red green blue", &drafting);
        assert_eq!(with.reported(), without.reported());
    }
}

#[test]
fn an_engine_gives_what_a_generation_gives_alone() {
    use ember::engine::{Engine, EngineOptions, Sink};
    use ember::generate::Prompt;
    use std::time::Duration;
    let tight = ConstraintOptions { whitespace: 0, ..ConstraintOptions::default() };
    let person = made(Grammar::JsonSchema(PERSON), &tight);
    let context = ContextOptions { n_ctx: 256, n_threads: 2, ..ContextOptions::default() };
    let engine =
        Engine::new(model(), &EngineOptions { context, n_parallel: 4, ..EngineOptions::default() }).unwrap();
    let wishes: Vec<GenerateOptions> = (0..8)
        .map(|i| match i % 4 {
            0 => options(&person),
            1 => GenerateOptions { logprobs: true, ..options(&person) },
            2 => GenerateOptions { stops: vec!["age".into()], ..options(&person) },
            _ => GenerateOptions { constraint: None, max_tokens: 20, ..options(&person) },
        })
        .collect();
    let mut n_forced = 0;
    let requests: Vec<_> = (0..)
        .zip(&wishes)
        .map(|(seed, wish)| engine.submit(Prompt::Text("Once"), wish, hot(seed), Sink::Pull).unwrap())
        .collect();
    for ((seed, wish), request) in (0..).zip(&wishes).zip(&requests) {
        let (mut text, mut ids, mut logprobs) = (String::new(), Vec::new(), Vec::new());
        loop {
            let event = request.next(Duration::MAX).unwrap().unwrap();
            text.push_str(event.event().text);
            match event.event().kind {
                EventKind::Token(token) => {
                    ids.push(token.id);
                    logprobs.push(token.logprob.map(f32::to_bits));
                }
                EventKind::End(_) => break,
                EventKind::Echo => {}
            }
        }
        let usage = request.usage().unwrap();
        n_forced += usage.n_forced;
        let alone = generate(&mut new_context(), &mut hot(seed), "Once", wish);
        assert_eq!((usage.finish, usage.n_generated), (alone.usage.finish, alone.usage.n_generated));
        assert_eq!((text, ids, logprobs, usage.progress), alone.reported(), "request {seed}");
    }
    assert!(n_forced > 20, "{n_forced} tokens were not waited for");
    // Fewer batches than tokens of the longest request: forced tokens need no batches of their own.
    let metrics = engine.metrics().unwrap();
    assert!(metrics.n_failed == 0 && metrics.n_generated > 0);
}

#[test]
fn a_trigger_is_found_however_it_is_cut_and_what_follows_it_counts() {
    let tokenizer = model().tokenizer().unwrap();
    let call = |trigger: &str| ConstraintOptions {
        triggers: vec![Trigger::Text(trigger.into())],
        repeat: true,
        whitespace: 0,
        ..ConstraintOptions::default()
    };
    let schema =
        Grammar::JsonSchema(r#"{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}"#);
    // Any way to cut the text into tokens that the vocabulary has.
    let text = "I will say <call>{\"x\":7} and <call>{\"x\":-3}!";
    let constraint = made(schema, &call("<call>"));
    for longest in 1..8 {
        let mut run = constraint.start();
        let (mut at, mut seen) = (0, Vec::new());
        while at < text.len() {
            let piece = (1..=longest).rev().find_map(|n| {
                let piece = text.as_bytes().get(at..at + n)?;
                (0..tokenizer.n_vocab() as u32)
                    .find(|&id| !tokenizer.is_hidden(id) && tokenizer.token_bytes(id).unwrap() == piece)
            });
            let id = piece.unwrap();
            assert!(is_allowed(&mut run, id), "{longest}: {:?}", &text[at..]);
            run.accept(id);
            at += tokenizer.token_bytes(id).unwrap().len();
            seen.push(run.progress());
        }
        assert_eq!(seen.last(), Some(&Progress::Waiting));
        assert!(seen.contains(&Progress::Unfinished), "{seen:?}");
    }
    // A token that completes the trigger and continues with text that the grammar forbids is not allowed.
    let mut run = made(schema, &call("wo")).start();
    let word = |text: &str| {
        let bytes = text.as_bytes();
        (0..tokenizer.n_vocab() as u32).find(|&id| tokenizer.token_bytes(id).unwrap() == bytes).unwrap()
    };
    assert!(!is_allowed(&mut run, word(" would")) && is_allowed(&mut run, word(" the")));
    run.accept(word(" w"));
    let o_more: Vec<u32> = (0..tokenizer.n_vocab() as u32)
        .filter(|&id| {
            tokenizer.token_bytes(id).unwrap().starts_with(b"o")
                && tokenizer.token_bytes(id).unwrap().len() > 1
        })
        .collect();
    assert!(!o_more.is_empty() && o_more.iter().all(|&id| !is_allowed(&mut run, id)));
    run.accept(word("o"));
    assert_eq!(run.progress(), Progress::Unfinished);
    assert!(is_allowed(&mut run, word("{")) && !is_allowed(&mut run, word("a")));
    // After a token.
    let after_token =
        ConstraintOptions { triggers: vec![Trigger::Token(word(" sea"))], ..ConstraintOptions::default() };
    let mut run = made(Grammar::Choices(&["!"]), &after_token).start();
    run.accept(word(" the"));
    assert_eq!(run.progress(), Progress::Waiting);
    run.accept(word(" sea"));
    assert!(is_allowed(&mut run, word("!")) && !is_allowed(&mut run, word(" the")));
    run.accept(word("!"));
    assert_eq!(run.progress(), Progress::Complete);
    assert!(!is_allowed(&mut run, word("!")) && is_allowed(&mut run, tokenizer.eos().unwrap()));
}

fn is_allowed(run: &mut ember::constrain::Run, id: u32) -> bool {
    match run.mask().unwrap() {
        Mask::Free => true,
        Mask::Deny(ids) => ids.binary_search(&id).is_err(),
        Mask::Allow(words) => words[id as usize / 32] >> (id % 32) & 1 == 1,
    }
}

#[test]
fn a_text_that_waits_ends_without_the_constraint_and_says_so() {
    let lazy = ConstraintOptions {
        triggers: vec![Trigger::Text("</think>".into())],
        ..ConstraintOptions::default()
    };
    let constraint = made(Grammar::JsonSchema(PERSON), &lazy);
    let free = GenerateOptions { max_tokens: 20, constraint: None, ..GenerateOptions::default() };
    let waits = GenerateOptions { constraint: Some(constraint), ..free.clone() };
    let got = generate(&mut new_context(), &mut hot(5), "Once upon a time", &waits);
    assert_eq!(got.usage.progress, Some(Progress::Waiting));
    let plain = generate(&mut new_context(), &mut hot(5), "Once upon a time", &free);
    assert_eq!((got.ids, got.text), (plain.ids, plain.text));
    assert_eq!(plain.usage.progress, None);
}

#[test]
fn clones_go_on_apart_and_a_reset_begins_anew() {
    let person = plain(Grammar::JsonSchema(PERSON));
    let mut sampler = Sampler::new(3);
    sampler.push(Stage::Constraint(person.clone())).unwrap();
    sampler.push(Stage::Temperature(1.5)).unwrap();
    let n_vocab = model().info().n_vocab;
    let logits: Vec<f32> = (0..n_vocab).map(|i| (i as f32 * 0.37).sin() * 3.0).collect();
    let step = |sampler: &mut Sampler| {
        let id = sampler.sample(&logits).unwrap();
        sampler.accept(id);
        id
    };
    // The constraint ignores the prompt.
    [300, 301, 302].iter().for_each(|&id| sampler.accept(id));
    let first: Vec<u32> = (0..12).map(|_| step(&mut sampler)).collect();
    let mut copy = sampler.try_clone().unwrap();
    let on: Vec<u32> = (0..12).map(|_| step(&mut sampler)).collect();
    let copied: Vec<u32> = (0..12).map(|_| step(&mut copy)).collect();
    assert_eq!(on, copied);
    sampler.reset();
    let again: Vec<u32> = (0..12).map(|_| step(&mut sampler)).collect();
    assert_eq!(again, first);
    // It ignores another prompt too.
    copy.accept(300);
    assert_eq!(copy.runs()[0].progress(), Progress::Unfinished);
    assert!(copy.runs()[0].is_fresh() && !sampler.runs()[0].is_fresh());
    assert!(!sampler.is_greedy());
    let mut greedy = Sampler::new(0);
    greedy.push(Stage::Constraint(person)).unwrap();
    greedy.push(Stage::Greedy).unwrap();
    assert!(!greedy.is_greedy());
    // A token that the constraint forbids is reported with the next choice.
    greedy.accept_generated(300);
    let error = greedy.sample(&logits).unwrap_err().to_string();
    assert!(error.contains("token 300") && error.contains("does not allow"), "{error}");
    greedy.reset();
    assert!(greedy.sample(&logits).is_ok());
}

#[test]
fn a_generation_goes_on_where_the_last_one_was_cut() {
    let word = plain(Grammar::Regex("[a-z]{30}"));
    let mut sampler = Sampler::new(1);
    sampler.push(Stage::Constraint(word)).unwrap();
    let some = GenerateOptions { max_tokens: 3, ..GenerateOptions::default() };
    let mut context = new_context();
    let mut text = generate(&mut context, &mut sampler, "The sea", &some);
    assert_eq!(text.usage.progress, Some(Progress::Unfinished));
    let rest = GenerateOptions { max_tokens: 60, ..GenerateOptions::default() };
    text.text += &generate(&mut context, &mut sampler, "", &rest).text;
    assert_eq!(text.text.len(), 30);
    // After a prompt it begins anew.
    let more = generate(&mut context, &mut sampler, " and", &rest);
    assert_eq!((more.text.len(), more.usage.progress), (30, Some(Progress::Complete)));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let usual = ConstraintOptions::default();
    let unsupported = [
        (r#"{"type":"array","uniqueItems":true}"#, "uniqueItems"),
        (r#"{"not":{"type":"string"}}"#, "not"),
        (r#"{"if":{"type":"string"},"then":{"minLength":2}}"#, "if"),
        (r#"{"type":"string","format":"int-or-so"}"#, "int-or-so"),
        (r#"{"oneOf":[{"type":"string"},{"type":"string","minLength":2}]}"#, "oneOf"),
        (r#"{"x-guidance":{"lenient":true}}"#, "x-guidance"),
    ];
    for (schema, word) in unsupported {
        let error = refused(Grammar::JsonSchema(schema), &usual);
        assert!(
            matches!(error, Error::Unsupported(_)) && error.message().contains(word),
            "{schema}: {error}"
        );
    }
    let invalid = [
        ("{", "JSON"),
        ("7", "object"),
        ("false", "false"),
        (r#"{"type":"integer","minimum":5,"maximum":4}"#, "met"),
        (r##"{"$ref":"#/$defs/none"}"##, "none"),
        (r#"{"$ref":"https://example.com/schema.json"}"#, "example.com"),
        (r##"{"type":"object","properties":{"x":{"$ref":"#"}},"required":["x"]}"##, "met"),
        (r#"{"type":"string","pattern":"("}"#, "refused"),
        (r#"{"enum":[]}"#, "met"),
    ];
    for (schema, word) in invalid {
        let error = refused(Grammar::JsonSchema(schema), &usual);
        assert!(
            error.message().contains(word) && error.message().starts_with("the JSON schema"),
            "{schema}: {error}"
        );
    }
    for (grammar, word) in [
        (Grammar::Regex("a("), "regular expression"),
        (Grammar::Regex("(?=a)b"), "regular expression"),
        (Grammar::Regex(""), "empty"),
        (Grammar::Lark("start: other"), "other"),
        (Grammar::Lark("start: \"a\" start"), "met"),
        (Grammar::Lark(""), "grammar"),
        (Grammar::Choices(&[]), "empty"),
        (Grammar::Choices(&["a", ""]), "empty"),
    ] {
        let error = refused(grammar, &usual);
        assert!(error.message().contains(word), "{grammar:?}: {error}");
    }
    let trigger =
        |trigger: Trigger| ConstraintOptions { triggers: vec![trigger], ..ConstraintOptions::default() };
    for (options, word) in [
        (trigger(Trigger::Text(String::new())), "empty"),
        (trigger(Trigger::Text("x".repeat(300))), "256"),
        (trigger(Trigger::Token(u32::MAX)), "does not exist"),
        (trigger(Trigger::Token(model().tokenizer().unwrap().eos().unwrap())), "ends a text"),
        (ConstraintOptions { repeat: true, ..ConstraintOptions::default() }, "trigger"),
        (ConstraintOptions { whitespace: 300, ..ConstraintOptions::default() }, "256"),
    ] {
        let error = refused(Grammar::JsonObject, &options);
        assert!(error.message().contains(word), "{error}");
    }
    let context = new_context();
    let options = GenerateOptions { ignore_eog: true, ..options(&plain(Grammar::JsonObject)) };
    let error = Generator::new(&context, "x", &options).err().unwrap();
    assert!(error.message().contains("ignore_eog"), "{error}");
}

#[test]
fn limits_hold() {
    let limited = |limits: Limits| ConstraintOptions { limits, ..ConstraintOptions::default() };
    let key = |i: usize| format!(r#""key{i}":{{"type":"string","pattern":"^[a-z]{{2,{}}}$"}}"#, 3 + i % 9);
    let keys: Vec<String> = (0..100).map(key).collect();
    let many = format!(r#"{{"type":"object","properties":{{{}}}}}"#, keys.join(","));
    for (limits, word) in [
        (Limits { source: 100, ..Limits::default() }, "source"),
        (Limits { grammar: 10, ..Limits::default() }, "grammar size"),
        (Limits { compile: 100, ..Limits::default() }, "initial lexer"),
    ] {
        let error = refused(Grammar::JsonSchema(&many), &limited(limits));
        assert!(error.message().contains(word), "{error}");
    }
    // Those of masks are reached on the way.
    let wide = Grammar::Regex("((red|green|blue|[a-z]{3,9}) ){1,30}x");
    for (limits, grammar, text) in [
        (Limits { mask: 1, ..Limits::default() }, wide, "red green blue nothing "),
        (Limits { items: 1, ..Limits::default() }, Grammar::JsonObject, "{\"a\":[1,{\"b\":2},[3]]"),
        (Limits { states: 3, ..Limits::default() }, wide, "red green blue nothing "),
    ] {
        let options = limited(limits);
        let outcome = Constraint::new(model().vocabulary().unwrap(), grammar, &options).and_then(|made| {
            let mut run = made.start();
            for byte in text.bytes() {
                run.mask()?;
                let tokenizer = model().tokenizer().unwrap();
                let is_it =
                    |id: &u32| !tokenizer.is_hidden(*id) && tokenizer.token_bytes(*id).unwrap() == [byte];
                run.accept((0..tokenizer.n_vocab() as u32).find(is_it).unwrap());
            }
            run.mask().map(drop)
        });
        let error = outcome.err().unwrap_or_else(|| panic!("{limits:?} is reached"));
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    }
    let made = Constraint::new(
        model().vocabulary().unwrap(),
        Grammar::JsonSchema(&many),
        &limited(Limits::default()),
    );
    assert!(made.is_ok(), "{made:?}");
}

/// No trigger comes after the constraint has begun as often as it may. Texts that are kept away never come while it waits. Where
/// it has to begin, no text ends before it.
#[test]
fn triggers_are_bounded_kept_away_and_awaited() {
    let tokenizer = model().tokenizer().unwrap();
    let ids = |text: &str| tokenizer.encode(text, false, true).unwrap();
    let text = |run: &mut ember::constrain::Run, text: &str| ids(text).iter().for_each(|&id| run.accept(id));
    let is_denied = |run: &mut ember::constrain::Run, id: u32| match run.mask().unwrap() {
        Mask::Free => false,
        Mask::Deny(denied) => denied.contains(&id),
        Mask::Allow(words) => words.get(id as usize / 32).is_none_or(|word| word >> (id % 32) & 1 == 0),
    };
    let options = ConstraintOptions {
        triggers: vec![Trigger::Text("##".into())],
        never: vec!["%%".into()],
        most_parts: 2,
        repeat: true,
        ..ConstraintOptions::default()
    };
    let hash = ids("#")[0];
    let percent = ids("%")[0];
    let mut run = made(Grammar::Choices(&["yes"]), &options).start();
    run.accept(hash);
    run.accept(hash);
    assert_eq!(run.progress(), Progress::Unfinished);
    text(&mut run, "yes");
    assert_eq!(run.progress(), Progress::Waiting);
    run.accept(percent);
    assert!(is_denied(&mut run, percent) && !is_denied(&mut run, hash));
    run.accept(hash);
    run.accept(hash);
    text(&mut run, "yes");
    // Twice is enough.
    run.accept(hash);
    assert!(is_denied(&mut run, hash) && !is_denied(&mut run, percent));
    let mut copy = run.clone();
    assert!(is_denied(&mut copy, hash));
    run.reset();
    run.accept(hash);
    run.accept(hash);
    assert_eq!(run.progress(), Progress::Unfinished);
    let end = (0..tokenizer.n_vocab() as u32).find(|&id| tokenizer.is_eog(id)).unwrap();
    assert!(!is_denied(&mut made(Grammar::Choices(&["yes"]), &options).start(), end));
    let awaited = ConstraintOptions { must_begin: true, ..options.clone() };
    let mut run = made(Grammar::Choices(&["yes"]), &awaited).start();
    assert!(is_denied(&mut run, end) && !is_denied(&mut run, percent));
    run.accept(percent);
    assert!(is_denied(&mut run, end) && is_denied(&mut run, percent));
    run.accept(hash);
    run.accept(hash);
    text(&mut run, "yes");
    assert_eq!(run.progress(), Progress::Waiting);
    assert!(!is_denied(&mut run, end));
    let refuse = |options: ConstraintOptions| refused(Grammar::Choices(&["yes"]), &options).to_string();
    assert!(
        refuse(ConstraintOptions { never: vec![String::new()], ..options.clone() }).contains("may not come")
    );
    assert!(
        refuse(ConstraintOptions { triggers: Vec::new(), repeat: false, ..options }).contains("never waits")
    );
}
