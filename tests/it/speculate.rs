//! Generation with draft tokens gives the same as without: tokens, text, log-probabilities and sequences, with every sampler.
//! Where a sequence is full it can forget tokens and go on.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::sync::{Arc, Mutex as StdMutex};

use common::{argmax, bundled_model, context, fixture, greedy, load};
use ember::cancel::CancelToken;
use ember::context::{Context, ContextOptions, Tokens};
use ember::error::{Error, Result};
use ember::generate::{
    DraftModel, EventKind, FinishReason, GenerateOptions, Generator, Lender, Lookup, Prompt, Shift, Usage,
};
use ember::gguf::Gguf;
use ember::gguf::writer::Writer;
use ember::model::LoadedModel;
use ember::sampler::{Penalties, Sampler, Stage};

const N_CTX: usize = 256;

/// A draft model's context.
struct Lent(StdMutex<Context>);

impl Lender for Lent {
    fn lend(&self, f: &mut dyn FnMut(&mut Context) -> Result<()>) -> Result<()> {
        match self.0.try_lock() {
            Ok(mut context) => f(&mut context),
            Err(_) => Err(Error::Busy("the draft context is in use".into())),
        }
    }
}

fn lent(context: Context) -> Arc<Lent> {
    Arc::new(Lent(StdMutex::new(context)))
}

fn new_context(model: &Arc<LoadedModel>) -> Context {
    context(model, &ContextOptions { n_ctx: N_CTX, n_seq: 2, n_threads: 2, ..ContextOptions::default() })
}

/// The bundled model with its first layers only.
fn cut(n_layer: u32) -> Arc<LoadedModel> {
    let file = Gguf::open(&bundled_model()).unwrap();
    let mut writer = Writer::new();
    for (key, value) in file.metadata().iter() {
        match key.ends_with(".block_count") {
            true => writer.set(key, n_layer),
            false => writer.set(key, value.clone()),
        };
    }
    for t in file.tensors() {
        let layer = t.name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
        if layer.is_none_or(|layer| layer < n_layer) {
            writer.tensor(&t.name, t.ty, &t.dims, file.tensor_bytes(t).to_vec());
        }
    }
    Arc::new(LoadedModel::from_bytes(&writer.to_bytes().unwrap(), "draft.gguf").unwrap())
}

/// Fifty beginnings.
fn prompts() -> Vec<String> {
    let starts = [
        "The sea was calm, and the moon",
        "Once upon a time there was",
        "\"Come here,\" said",
        "In the morning",
        "The king had three sons. The king had",
        "One, two, three, four, one, two,",
        "At the end of the road",
        "She looked and looked and",
        "The fox said: ",
        "A",
    ];
    let ends = ["", " a little", " old, old", " and then the", " who was very"];
    starts.iter().flat_map(|start| ends.iter().map(move |end| format!("{start}{end}"))).collect()
}

fn drawn(seed: u64) -> Sampler {
    let mut sampler = Sampler::new(seed);
    let penalties = Penalties { last_n: 32, repeat: 1.1, frequency: 0.0, presence: 0.0 };
    for stage in [Stage::Penalties(penalties), Stage::TopK(20), Stage::Temperature(0.8)] {
        sampler.push(stage).unwrap();
    }
    sampler
}

/// What a generation reports: ids, log-probabilities as bits, and text.
type Reported = (Vec<(u32, Option<u32>)>, String, Option<FinishReason>);

/// All events of a generation; at each the sequence holds what it should.
fn run<'a>(
    context: &mut Context,
    prompt: impl Into<Prompt<'a>>,
    options: &GenerateOptions,
    mut sampler: Sampler,
) -> (Reported, Usage) {
    let mut generator = Generator::new(context, prompt, options).unwrap_or_else(|e| panic!("{e}"));
    let mut reported = Reported::default();
    let mut len = None;
    loop {
        let event = generator.next(context, &mut sampler).unwrap_or_else(|e| panic!("{e}"));
        reported.1.push_str(event.text);
        match event.kind {
            EventKind::Echo => {}
            EventKind::Token(token) => {
                reported.0.push((token.id, token.logprob.map(f32::to_bits)));
                let held = context.tokens(options.seq).unwrap();
                let before = *len.get_or_insert(held.len());
                if options.shift.is_none() {
                    assert_eq!(held.len(), before + reported.0.len() - 1);
                    let ids = reported.0[..reported.0.len() - 1].iter().map(|(id, _)| id);
                    assert!(held[before..].iter().eq(ids));
                }
            }
            EventKind::End(reason) => {
                reported.2 = Some(reason);
                return (reported, generator.usage());
            }
        }
    }
}

fn options(max_tokens: usize) -> GenerateOptions {
    GenerateOptions { max_tokens, reuse_prefix: true, logprobs: true, ..GenerateOptions::default() }
}

#[test]
fn drafts_change_nothing_but_the_work() {
    let model = load(&bundled_model());
    let plain = options(32);
    let mut c = new_context(&model);
    let smaller = lent(new_context(&cut(model.info().n_layer as u32 / 2)));
    let same = lent(new_context(&model));
    let lookup = Some(Lookup { n_draft: 8, ngram: 3 });
    let draft = |context: &Arc<Lent>| {
        Some(DraftModel { context: Arc::clone(context) as Arc<dyn Lender>, seq: 1, n_draft: 5 })
    };
    let kinds = [
        ("lookup", GenerateOptions { lookup, ..plain.clone() }),
        ("a smaller model", GenerateOptions { draft: draft(&smaller), ..plain.clone() }),
        ("the same model", GenerateOptions { draft: draft(&same), ..plain.clone() }),
        ("both", GenerateOptions { lookup, draft: draft(&smaller), ..plain.clone() }),
    ];
    let mut totals = [Usage::default(); 4];
    for (i, prompt) in prompts().iter().enumerate() {
        // All of them greedily, and some drawn.
        let samplers = [Some(greedy()), (i % 5 == 0).then(|| drawn(i as u64))];
        for sampler in samplers.into_iter().flatten() {
            let (expected, usage) = run(&mut c, &prompt[..], &plain, sampler.try_clone().unwrap());
            assert_eq!((usage.n_drafted, usage.n_accepted), (0, 0));
            for ((what, options), total) in kinds.iter().zip(&mut totals) {
                let (reported, usage) = run(&mut c, &prompt[..], options, sampler.try_clone().unwrap());
                assert!(reported == expected, "{what}, {prompt:?}:\n{}\n{}", reported.1, expected.1);
                assert!(usage.n_accepted <= usage.n_drafted && usage.n_accepted <= reported.0.len());
                total.n_drafted += usage.n_drafted;
                total.n_accepted += usage.n_accepted;
                total.n_generated += usage.n_generated;
            }
        }
    }
    for (usage, (what, _)) in totals.iter().zip(&kinds) {
        assert!(usage.n_accepted > usage.n_generated / 50, "{what}: {usage:?}");
    }
    let of_itself = &totals[2];
    assert!(of_itself.n_accepted > of_itself.n_generated / 3, "{of_itself:?}");
}

/// The exact distribution of three tokens and how often a generation with drafts draws each, over many seeds.
#[test]
fn draws_with_drafts_follow_the_models_distribution() {
    const N: usize = 6000;
    const TOP: usize = 3;
    let model = load(&fixture("models/llama-tied-f32.gguf"));
    let other = load(&fixture("models/llama-tied-q4_0.gguf"));
    let mut c = new_context(&model);
    let prompt: Vec<u32> = (0..40).map(|i| i % 7).collect();
    // The likeliest tokens and their probabilities after a text, as the sampler's chain makes them.
    let mut after = |rest: &[u32]| -> Vec<(u32, f64)> {
        c.rewind(0, 0).unwrap();
        c.decode(Tokens::next(&[&prompt, rest].concat())).unwrap();
        let logits = c.end_logits(0).unwrap();
        let mut order: Vec<u32> = (0..logits.len() as u32).collect();
        order.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b)));
        order.truncate(TOP);
        let weight = |id: u32| (f64::from(logits[id as usize]) / 1.5).exp();
        let sum: f64 = order.iter().map(|&id| weight(id)).sum();
        order.iter().map(|&id| (id, weight(id) / sum)).collect()
    };
    let mut expected = Vec::new();
    for (a, p) in after(&[]) {
        for (b, q) in after(&[a]) {
            expected.extend(after(&[a, b]).into_iter().map(|(c, r)| ([a, b, c], p * q * r)));
        }
    }
    let draft = DraftModel { context: lent(new_context(&other)), seq: 0, n_draft: 3 };
    let plain = GenerateOptions { max_tokens: 4, reuse_prefix: true, ..GenerateOptions::default() };
    let drafting = GenerateOptions {
        draft: Some(draft),
        lookup: Some(Lookup { n_draft: 2, ngram: 1 }),
        ..plain.clone()
    };
    let mut counts = vec![0u32; expected.len()];
    let (mut n_drafted, mut n_accepted) = (0, 0);
    let ids = |c: &mut Context, options: &GenerateOptions, seed: usize| {
        let mut sampler = Sampler::new(seed as u64);
        sampler.push(Stage::TopK(TOP)).unwrap();
        sampler.push(Stage::Temperature(1.5)).unwrap();
        let mut generator = Generator::new(c, &prompt[..], options).unwrap();
        let mut ids = Vec::new();
        while let EventKind::Token(token) = generator.next(c, &mut sampler).unwrap().kind {
            ids.push(token.id);
        }
        (ids, generator.usage())
    };
    let mut c = new_context(&model);
    for seed in 0..N {
        let (got, usage) = ids(&mut c, &drafting, seed);
        n_drafted += usage.n_drafted;
        n_accepted += usage.n_accepted;
        if seed % 50 == 0 {
            assert_eq!(got, ids(&mut c, &plain, seed).0);
        }
        counts[expected.iter().position(|(ids, _)| *ids == got[..3]).unwrap()] += 1;
    }
    assert!(n_accepted > N / 10 && n_drafted > n_accepted + N / 10, "{n_accepted} of {n_drafted}");
    let chi_square: f64 = expected
        .iter()
        .zip(&counts)
        .map(|((_, p), &n)| (f64::from(n) - p * N as f64).powi(2) / (p * N as f64))
        .sum();
    // 26 degrees of freedom: one fair draw in a thousand is above 54.
    assert!(expected.len() == 27 && chi_square < 54.0, "{chi_square}");
}

#[test]
fn generators_in_turns_and_other_calls_only_cost_the_drafts() {
    let model = load(&bundled_model());
    let mut c = new_context(&model);
    let prompt = "one two three one two three one two three one two";
    let plain = options(40);
    let drafting = GenerateOptions { lookup: Some(Lookup { n_draft: 8, ngram: 2 }), ..plain.clone() };
    let (expected, _) = run(&mut c, prompt, &plain, greedy());
    let ids: Vec<u32> = expected.0.iter().map(|(id, _)| *id).collect();
    let mut turns: Vec<_> = (0..2)
        .map(|seq| Generator::new(&c, prompt, &GenerateOptions { seq, ..drafting.clone() }).unwrap())
        .collect();
    let mut got = vec![Vec::new(); 2];
    for _ in 0..40 {
        for (generator, got) in turns.iter_mut().zip(&mut got) {
            if let EventKind::Token(token) = generator.next(&mut c, &mut greedy()).unwrap().kind {
                got.push(token.id);
            }
        }
    }
    assert_eq!(got, [&ids[..], &ids[..]]);
    // A state saved between two events, and an embedding meanwhile.
    let mut generator = Generator::new(&c, prompt, &drafting).unwrap();
    for &id in &ids[..20] {
        let EventKind::Token(token) = generator.next(&mut c, &mut greedy()).unwrap().kind else {
            panic!("ends")
        };
        assert_eq!(token.id, id);
        c.embed(&[&[1, 2, 3]], &Default::default()).unwrap();
        let mut state = Vec::new();
        c.save_state(Some(0), &mut |part| {
            state.extend_from_slice(part);
            Ok(())
        })
        .unwrap();
        assert_eq!(state.len() as u64, c.state_len(Some(0)).unwrap());
        let mut other = new_context(&model);
        other.load_state(Some(1), &state).unwrap();
        assert_eq!(other.tokens(1).unwrap(), c.tokens(0).unwrap());
        assert_eq!(other.end_logits(1).unwrap(), c.end_logits(0).unwrap());
    }
    assert!(generator.usage().n_accepted > 0);
    // A caller that leaves does not run the last event's token; a caller that stops does.
    let held = c.n_past(0).unwrap();
    generator.stop();
    assert_eq!(generator.next(&mut c, &mut greedy()).unwrap().kind, EventKind::End(FinishReason::Stopped));
    assert_eq!(c.n_past(0).unwrap(), held + 1);
    assert_eq!(&c.tokens(0).unwrap()[held..], &ids[19..20]);
}

#[test]
fn drafts_end_where_they_do_not_fit() {
    let model = load(&bundled_model());
    let prompt = "one two three one two three one two three one two";
    let tight = ContextOptions { n_ctx: 64, n_threads: 1, ..ContextOptions::default() };
    let page = context(&model, &ContextOptions { n_ctx: 32, ..tight.clone() }).memory().0;
    let plain = GenerateOptions { ignore_eog: true, ..options(1000) };
    let drafting = GenerateOptions { lookup: Some(Lookup { n_draft: 32, ngram: 2 }), ..plain.clone() };
    for keep_prefixes in [false, true] {
        for kv_limit in [None, Some(2 * page)] {
            let options = ContextOptions { kv_limit, keep_prefixes, ..tight.clone() };
            let (expected, _) = run(&mut context(&model, &options), prompt, &plain, greedy());
            let mut c = context(&model, &options);
            let (reported, usage) = run(&mut c, prompt, &drafting, greedy());
            assert!(reported == expected && reported.2 == Some(FinishReason::ContextFull));
            assert!(usage.n_accepted > 0);
            assert_eq!(c.n_past(0).unwrap(), 64);
        }
    }
    // A draft model with a shorter context ends before.
    let short = context(&model, &ContextOptions { n_ctx: 40, ..tight.clone() });
    let draft = Some(DraftModel { context: lent(short), seq: 0, n_draft: 4 });
    let (expected, _) = run(&mut context(&model, &tight), prompt, &plain, greedy());
    let (reported, usage) =
        run(&mut context(&model, &tight), prompt, &GenerateOptions { draft, ..plain.clone() }, greedy());
    assert!(reported == expected && usage.n_accepted > 0, "{usage:?}");
}

#[test]
fn a_full_sequence_forgets_and_goes_on() {
    let model = load(&fixture("models/llama-tied-f16.gguf"));
    let options = ContextOptions { n_ctx: 64, n_threads: 1, ..ContextOptions::default() };
    let shift = Shift { keep: 5, drop: 23 };
    let plain = GenerateOptions { max_tokens: 150, shift: Some(shift), ..GenerateOptions::default() };
    let prompt: Vec<u32> = (1..20).collect();
    let mut c = context(&model, &options);
    let (reported, usage) = run(&mut c, &prompt[..], &plain, greedy());
    assert_eq!((reported.2, reported.0.len()), (Some(FinishReason::MaxTokens), 150));
    assert!(usage.n_shifted > 0 && usage.n_shifted.is_multiple_of(23));
    // The same by hand.
    let mut by_hand = context(&model, &options);
    by_hand.decode(Tokens::next(&prompt)).unwrap();
    for &(id, _) in &reported.0 {
        assert_eq!(argmax(by_hand.end_logits(0).unwrap()), id as usize);
        if by_hand.n_past(0).unwrap() == 64 {
            by_hand.shift(0, 5, 23).unwrap();
        }
        by_hand.decode(Tokens::next(&[id])).unwrap();
    }
    assert_eq!(by_hand.tokens(0).unwrap(), c.tokens(0).unwrap());
    assert_eq!(by_hand.end_logits(0).unwrap(), c.end_logits(0).unwrap());
    // With drafts too.
    let drafting = GenerateOptions { lookup: Some(Lookup { n_draft: 8, ngram: 1 }), ..plain.clone() };
    let (drafted, usage) = run(&mut context(&model, &options), &prompt[..], &drafting, greedy());
    assert!(drafted == reported && usage.n_shifted > 0 && usage.n_drafted > 0);
    // A prompt that does not fit is an error all the same, and numbers must fit.
    let reuse = GenerateOptions { reuse_prefix: true, ..plain.clone() };
    let mut generator = Generator::new(&c, &[3; 65][..], &reuse).unwrap();
    assert!(matches!(generator.next(&mut c, &mut greedy()), Err(Error::ContextFull(_))));
    for (keep, drop) in [(0, 0), (0, 64), (41, 23), (usize::MAX, 1)] {
        let options = GenerateOptions { shift: Some(Shift { keep, drop }), ..plain.clone() };
        let error = Generator::new(&c, &prompt[..], &options).err().unwrap();
        assert!(matches!(error, Error::InvalidArgument(_)), "{keep}, {drop}: {error}");
    }
    let gpt2 = context(&load(&fixture("models/gpt2-tied.gguf")), &ContextOptions::default());
    let error = Generator::new(&gpt2, &[1, 2][..], &plain).err().unwrap();
    assert!(matches!(&error, Error::Unsupported(text) if text.contains("learned positions")), "{error}");
}

#[test]
fn a_context_that_cannot_draft_says_why() {
    let model = load(&bundled_model());
    let c = new_context(&model);
    let draft = |context: &Arc<Lent>, seq, n_draft| GenerateOptions {
        draft: Some(DraftModel { context: Arc::clone(context) as Arc<dyn Lender>, seq, n_draft }),
        ..options(9)
    };
    let refused = |options: &GenerateOptions, words: &str| {
        let error = Generator::new(&c, "A", options).err().unwrap();
        assert!(error.message().contains(words), "{error}");
    };
    let good = lent(new_context(&model));
    refused(&draft(&good, 0, 33), "n_draft must be 0 to 32, got 33");
    refused(&draft(&good, 2, 4), "the draft context: sequence 2");
    let tiny = lent(new_context(&load(&fixture("models/llama-tied-f32.gguf"))));
    refused(&draft(&tiny, 0, 4), "another vocabulary");
    let encoder = load(&fixture("models/bert.gguf"));
    refused(&draft(&lent(context(&encoder, &ContextOptions::default())), 0, 4), "the draft context: ");
    for lookup in
        [Lookup { n_draft: 33, ngram: 3 }, Lookup { n_draft: 3, ngram: 0 }, Lookup { n_draft: 3, ngram: 17 }]
    {
        refused(&GenerateOptions { lookup: Some(lookup), ..options(9) }, "must be");
    }
    let held = good.0.lock().unwrap();
    assert!(matches!(Generator::new(&c, "A", &draft(&good, 0, 4)), Err(Error::Busy(_))));
    drop(held);
    // Busy in the midst: the step can be tried again.
    let mut c = new_context(&model);
    let (expected, _) = run(&mut new_context(&model), "A", &options(9), greedy());
    let mut generator = Generator::new(&c, "A", &draft(&good, 0, 4)).unwrap();
    let mut got = Vec::new();
    loop {
        let held = good.0.lock().unwrap();
        if let Err(error) = generator.next(&mut c, &mut greedy()).map(|event| match event.kind {
            EventKind::Token(token) => got.push(token.id),
            _ => got.push(u32::MAX),
        }) {
            assert!(matches!(error, Error::Busy(_)));
            drop(held);
            if let EventKind::Token(token) = generator.next(&mut c, &mut greedy()).unwrap().kind {
                got.push(token.id);
            }
        }
        if got.last() == Some(&u32::MAX) {
            break;
        }
    }
    got.pop();
    assert!(got.iter().eq(expected.0.iter().map(|(id, _)| id)));
}

#[test]
fn a_draft_context_that_is_cancelled_only_costs_the_drafts() {
    let model = load(&bundled_model());
    let (expected, _) = run(&mut new_context(&model), "A", &options(9), greedy());
    let (own, general, of_context) = (CancelToken::new(), CancelToken::new(), CancelToken::new());
    let mut draft = new_context(&model);
    draft.set_cancel_token(Some(own.clone()));
    own.cancel();
    let draft: Arc<dyn Lender> = lent(draft);
    let drafting = GenerateOptions {
        draft: Some(DraftModel { context: draft, seq: 0, n_draft: 4 }),
        cancel: Some(general.clone()),
        ..options(9)
    };
    let mut c = new_context(&model);
    let (reported, usage) = run(&mut c, "A", &drafting, greedy());
    assert!(reported == expected && usage.n_drafted == 0, "{usage:?}");
    own.reset();
    let (reported, usage) = run(&mut c, "A", &drafting, greedy());
    assert!(reported == expected && usage.n_accepted > 0, "{usage:?}");
    // The generation's own token and its context's end it as ever.
    c.set_cancel_token(Some(of_context.clone()));
    for token in [&general, &of_context] {
        let mut generator = Generator::new(&c, "A", &drafting).unwrap();
        for _ in 0..2 {
            generator.next(&mut c, &mut greedy()).unwrap();
        }
        token.cancel();
        let mut last = generator.next(&mut c, &mut greedy()).unwrap().kind;
        // Accepted drafts lie ready.
        for _ in 0..4 {
            if !matches!(last, EventKind::End(_)) {
                last = generator.next(&mut c, &mut greedy()).unwrap().kind;
            }
        }
        assert_eq!(last, EventKind::End(FinishReason::Cancelled));
        token.reset();
    }
}
