//! Models with recurrent layers: a sequence always continues as if its tokens had been run once, one after another. A replay runs
//! the tokens after the nearest snapshot, and no more.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]

use crate::common;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use common::{TempFolder, bits, load_fixture, state};
use ember::context::{BackendKind, Context, ContextOptions, Tokens};
use ember::error::Error;
use ember::generate::{EventKind, GenerateOptions, Lookup, Prompt, Usage, generate};
use ember::model::LoadedModel;
use ember::sampler::{Sampler, Stage};

/// Short convolutions, gated delta nets, scans of Mamba and Mamba-2, RWKV-7: with layers of attention between them, with attention
/// beside them in each layer, and with no layer that has keys and values.
const MODELS: [&str; 11] = [
    "lfm2",
    "lfm2-long",
    "lfm2moe-7-3",
    "qwen35",
    "qwen3next-old",
    "granitehybrid",
    "nemotron-h-moe",
    "falcon-h1",
    "mamba-norms",
    "mamba2",
    "rwkv7",
];
/// The smallest vocabulary among them.
const N_VOCAB: u32 = 89;

/// A small generator, the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % n as u64) as usize
    }

    fn tokens(&mut self, n: usize) -> Vec<u32> {
        // Few different ones, so that texts begin alike.
        (0..n).map(|_| self.below(3) as u32 + 7).collect()
    }
}

fn options(n_threads: usize) -> ContextOptions {
    ContextOptions { n_ctx: 256, n_batch: 16, n_threads, ..ContextOptions::default() }
}

fn decode(context: &mut Context, seq: u32, ids: &[u32]) -> Vec<u32> {
    let seqs = vec![seq; ids.len()];
    let tokens = Tokens { ids, positions: None, seqs: Some(&seqs), outputs: None };
    context.decode(tokens).unwrap_or_else(|e| panic!("{e}"));
    bits(context.end_logits(seq).unwrap())
}

/// What the model gives after a text, run from its beginning in one call.
struct Truth {
    model: Arc<LoadedModel>,
    known: HashMap<Vec<u32>, Vec<u32>>,
}

impl Truth {
    fn of(&mut self, ids: &[u32]) -> &[u32] {
        let model = &self.model;
        self.known.entry(ids.to_vec()).or_insert_with(|| {
            let mut context = Context::new(model, &ContextOptions { n_batch: 256, ..options(1) }).unwrap();
            decode(&mut context, 0, ids)
        })
    }
}

#[test]
fn the_same_bits_for_any_threads_and_however_a_text_is_cut() {
    for name in MODELS {
        let model = load_fixture(name);
        let ids: Vec<u32> = (0..90).map(|i| i * 37 % N_VOCAB).collect();
        let mut truth = Truth { model: Arc::clone(&model), known: HashMap::new() };
        for n_threads in [1, 2, 7] {
            for n_batch in [1, 5, 32, 64] {
                for cut in [1, 3, 31, 32, 33, 90] {
                    let options = ContextOptions { n_batch, ..options(n_threads) };
                    let mut context = Context::new(&model, &options).unwrap();
                    let mut logits = Vec::new();
                    ids.chunks(cut).for_each(|ids| logits = decode(&mut context, 0, ids));
                    assert!(logits == truth.of(&ids), "{name}, {n_threads} threads, {n_batch}, cut {cut}");
                }
            }
        }
    }
}

#[test]
fn several_sequences_of_one_call_do_not_disturb_each_other() {
    let model = load_fixture("lfm2");
    let mut truth = Truth { model: Arc::clone(&model), known: HashMap::new() };
    let mut context = Context::new(&model, &ContextOptions { n_seq: 3, ..options(2) }).unwrap();
    let mut texts = [vec![], vec![], vec![]];
    let mut random = Random(5);
    for _ in 0..40 {
        let n = 1 + random.below(30);
        // Rows of the sequences in any order, so that one has several runs.
        let seqs: Vec<u32> = (0..n).map(|_| random.below(3) as u32).collect();
        let ids = random.tokens(n);
        if (0..3).any(|seq| texts[seq].len() + n > 200) {
            break;
        }
        seqs.iter().zip(&ids).for_each(|(&seq, &id)| texts[seq as usize].push(id));
        let outputs = vec![true; n];
        let tokens = Tokens { ids: &ids, positions: None, seqs: Some(&seqs), outputs: Some(&outputs) };
        context.decode(tokens).unwrap();
        for seq in 0..3u32 {
            if seqs.contains(&seq) {
                assert!(bits(context.end_logits(seq).unwrap()) == truth.of(&texts[seq as usize]), "{seq}");
            }
        }
    }
}

/// What a context gave after texts.
#[derive(Default)]
struct Claims(Vec<(Vec<u32>, Vec<u32>, String)>);

impl Claims {
    fn add(&mut self, ids: &[u32], logits: Vec<u32>, what: String) {
        self.0.push((ids.to_vec(), logits, what));
    }

    /// Compares the results with those of a fresh context, which runs each text that begins no other one in one call.
    fn check(mut self, model: &Arc<LoadedModel>) {
        self.0.sort();
        let mut context = Context::new(model, &ContextOptions { n_batch: 256, ..options(1) }).unwrap();
        let mut longest: &[u32] = &[];
        // After a text come all that begin with it.
        for (ids, logits, what) in self.0.iter().rev() {
            if !longest.starts_with(ids) {
                longest = ids;
                context.rewind(0, 0).unwrap();
                let outputs = vec![true; ids.len()];
                context.decode(Tokens { outputs: Some(&outputs), ..Tokens::next(ids) }).unwrap();
            }
            assert!(*logits == bits(context.logits(ids.len() - 1).unwrap()), "{what}");
        }
    }
}

/// Bytes that hold half as many pages as four sequences of 160 tokens want.
fn half_the_pages(model: &Arc<LoadedModel>) -> Option<u64> {
    let of = |n_ctx: usize| {
        let context = Context::new(model, &ContextOptions { n_seq: 4, n_ctx, ..options(1) }).unwrap();
        (context.memory().0, context.kv_pages().0 as u64)
    };
    let ((bytes, n_pages), (more_bytes, more_pages)) = (of(160), of(320));
    (more_bytes - bytes).checked_div(more_pages - n_pages).map(|page| page * n_pages / 2)
}

/// Whether a step was made. A step for which the cache has too few free pages changes nothing.
fn made(outcome: Result<(), Error>, kv_limit: Option<u64>, what: &str) -> bool {
    match outcome {
        Ok(()) => true,
        Err(Error::ContextFull(_)) if kv_limit.is_some() => false,
        Err(error) => panic!("{what}: {error}"),
    }
}

/// A state, the sequence that it is of unless it is all, and the texts that it holds.
type Saved = (Vec<u8>, Option<u32>, Vec<Vec<u32>>);

/// One random history of a context with four sequences, some of which hold tokens that lie ready.
fn history(model: &Arc<LoadedModel>, kv_limit: Option<u64>, seed: u64, n_steps: usize) {
    let mut random = Random(seed);
    let options = ContextOptions {
        n_seq: 4,
        n_ctx: 160,
        keep_prefixes: random.below(2) == 0,
        n_snapshots: Some([0, 1, 3, 40][random.below(4)]),
        snapshot_distance: [32, 64, 0][random.below(3)],
        kv_limit: kv_limit.filter(|_| random.below(2) == 0),
        ..options(1 + random.below(2))
    };
    let mut context = Context::new(model, &options).unwrap();
    let mut texts: Vec<Vec<u32>> = vec![Vec::new(); 4];
    let mut saved: Option<Saved> = None;
    let mut claims = Claims::default();
    for step in 0..n_steps {
        let seq = random.below(4);
        let what = format!("seed {seed}, step {step}, sequence {seq}");
        match random.below(8) {
            0 => {
                let n = random.below(texts[seq].len() + 1);
                context.rewind(seq as u32, n).unwrap();
                texts[seq].truncate(n);
            }
            1 => {
                let to = (seq + 1 + random.below(3)) % 4;
                let n = random.below(texts[seq].len() + 1);
                context.copy_sequence(seq as u32, to as u32, n).unwrap();
                texts[to] = texts[seq][..n].to_vec();
            }
            2 => {
                let n = 1 + random.below(100);
                let ids = random.tokens(n);
                let n = context.reuse_prefix(seq as u32, &ids, ids.len() - 1).unwrap();
                assert_eq!(context.tokens(seq as u32).unwrap(), &ids[..n], "{what}");
                texts[seq] = ids[..n].to_vec();
            }
            3 => {
                let which = (random.below(2) == 0).then_some(seq as u32);
                let of = which.map_or(texts.clone(), |_| vec![texts[seq].clone()]);
                saved = Some((state(&context, which), which, of));
            }
            4 => {
                if let Some((bytes, which, of)) = &saved {
                    let outcome = context.load_state(which.map(|_| seq as u32), bytes);
                    match made(outcome, options.kv_limit, &what) {
                        true if which.is_some() => texts[seq] = of[0].clone(),
                        true => texts = of.clone(),
                        false => {}
                    }
                }
            }
            5 if texts[seq].len() < 130 => {
                // Draft tokens, of which some are accepted.
                let ids = random.tokens(8);
                let outcome = context.decode_ahead(seq as u32, ids[0], &ids[1..], None);
                if made(outcome, options.kv_limit, &what) {
                    texts[seq].push(ids[0]);
                    let replayed = context.timings().n_replay;
                    for &id in ids[1..].iter().take(random.below(8)) {
                        if !context.advance(seq as u32, id) {
                            break;
                        }
                        texts[seq].push(id);
                    }
                    let next = random.below(3) as u32 + 7;
                    let (ids, seqs) = ([next], [seq as u32]);
                    let tokens = Tokens { seqs: Some(&seqs), ..Tokens::next(&ids) };
                    if made(context.decode(tokens), options.kv_limit, &what) {
                        texts[seq].push(next);
                        let logits = bits(context.end_logits(seq as u32).unwrap());
                        claims.add(&texts[seq], logits, format!("{what}: after drafts"));
                        assert_eq!(
                            context.timings().n_replay,
                            replayed,
                            "{what}: a refused draft costs nothing"
                        );
                    }
                }
            }
            _ => {}
        }
        let n = 1 + random.below(40);
        let ids = random.tokens(n);
        let seqs = vec![seq as u32; n];
        let is_short = texts[seq].len() < 120;
        let outcome = is_short.then(|| context.decode(Tokens { seqs: Some(&seqs), ..Tokens::next(&ids) }));
        if outcome.is_some_and(|outcome| made(outcome, options.kv_limit, &what)) {
            texts[seq].extend_from_slice(&ids);
            claims.add(&texts[seq], bits(context.end_logits(seq as u32).unwrap()), what);
        } else {
            context.rewind(seq as u32, 0).unwrap();
            texts[seq].clear();
        }
        for (seq, text) in (0..).zip(&texts) {
            assert_eq!(context.tokens(seq).unwrap(), text, "seed {seed}, step {step}");
        }
    }
    claims.check(model);
}

/// `EMBER_HISTORIES` says how many for each model, and `EMBER_HISTORIES_OF` of which one; 10,000 take some minutes.
#[test]
fn random_histories_give_what_a_run_from_the_beginning_gives() {
    let n = std::env::var("EMBER_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    let only = std::env::var("EMBER_HISTORIES_OF").ok();
    for name in MODELS.into_iter().filter(|name| only.as_deref().is_none_or(|only| only == *name)) {
        let (model, start) = (load_fixture(name), Instant::now());
        let kv_limit = half_the_pages(&model);
        (0..n).for_each(|seed| history(&model, kv_limit, seed, 12));
        println!("{name:16} {n} histories, {:.1} s", start.elapsed().as_secs_f64());
    }
}

/// Tokens that lay ready and were not chosen free their places for the next ones.
#[test]
fn every_step_can_draft_as_many_tokens_as_there_are_snapshots() {
    let model = load_fixture("lfm2");
    let mut context = Context::new(&model, &ContextOptions { n_snapshots: Some(4), ..options(1) }).unwrap();
    decode(&mut context, 0, &[1, 2, 3]);
    for step in 0..5 {
        context.decode_ahead(0, 5, &[6, 7, 8, 9, 10, 11], None).unwrap();
        let n_taken = [6, 7, 8, 9, 10].iter().take_while(|&&id| context.advance(0, id)).count();
        assert_eq!(n_taken, 4, "step {step}");
        // The next token is not the draft.
        context.decode_ahead(0, 20, &[21, 22, 23], None).unwrap();
    }
    assert_eq!(context.timings().n_replay, 0);
}

#[test]
fn a_second_turn_costs_its_own_tokens_and_a_changed_one_those_after_the_snapshot() {
    let model = load_fixture("lfm2");
    let mut context = Context::new(&model, &options(1)).unwrap();
    let ids: Vec<u32> = (0..200).map(|i| i * 31 % N_VOCAB).collect();
    decode(&mut context, 0, &ids[..100]);
    // The answer.
    ids[100..110].iter().for_each(|&id| drop(decode(&mut context, 0, &[id])));
    // The next turn begins with all of that.
    assert_eq!(context.reuse_prefix(0, &ids[..150], 149).unwrap(), 110);
    decode(&mut context, 0, &ids[110..150]);
    assert_eq!(context.timings().n_replay, 0);
    // Another answer to the first prompt: it ended at 100.
    context.rewind(0, 100).unwrap();
    decode(&mut context, 0, &[1]);
    assert_eq!(context.timings().n_replay, 0);
    // Within the prompt it is run again from its beginning, for there was no snapshot every 256 tokens.
    context.rewind(0, 40).unwrap();
    decode(&mut context, 0, &[1]);
    assert_eq!(context.timings().n_replay, 40);
    // With closer ones from there on.
    let mut context = Context::new(&model, &ContextOptions { snapshot_distance: 32, ..options(1) }).unwrap();
    decode(&mut context, 0, &ids[..100]);
    context.rewind(0, 70).unwrap();
    let other = decode(&mut context, 0, &[1]);
    assert_eq!(context.timings().n_replay, 6, "from 64 on");
    let mut truth = Truth { model, known: HashMap::new() };
    assert!(other == truth.of(&[&ids[..70], &[1]].concat()));
}

/// A context whose sequence 0 had a prompt of 100 tokens and an answer of 20, and all of these.
fn after_a_turn(model: &Arc<LoadedModel>, options: &ContextOptions) -> (Context, Vec<u32>) {
    let mut context = Context::new(model, options).unwrap();
    let ids: Vec<u32> = (0..120).map(|i| i * 29 % N_VOCAB).collect();
    decode(&mut context, 0, &ids[..100]);
    ids[100..].iter().for_each(|&id| drop(decode(&mut context, 0, &[id])));
    (context, ids)
}

/// Snapshots are part of a state: from the end of the prompt on, and from each 32 tokens within it.
#[test]
fn a_loaded_state_can_be_rewound_without_running_all_again() {
    let options = ContextOptions { snapshot_distance: 32, n_seq: 2, ..options(1) };
    for name in MODELS {
        let model = load_fixture(name);
        let mut truth = Truth { model: Arc::clone(&model), known: HashMap::new() };
        let (context, ids) = after_a_turn(&model, &options);
        for (which, n_snapshots) in [(None, None), (Some(0), None), (Some(0), Some(2))] {
            let saved = state(&context, which);
            for (n, n_replay) in [(105, 5), (100, 0), (99, 3), (70, 6), (63, 31), (20, 20)] {
                let mut other =
                    Context::new(&model, &ContextOptions { n_snapshots, ..options.clone() }).unwrap();
                other.load_state(which, &saved).unwrap();
                other.rewind(0, n).unwrap();
                let logits = decode(&mut other, 0, &[3]);
                assert!(logits == truth.of(&[&ids[..n], &[3]].concat()), "{name}, {n}");
                // Where few snapshots fit, the last ones stay.
                match n_snapshots {
                    None => assert_eq!(other.timings().n_replay, n_replay, "{name}, {n}"),
                    Some(_) => assert!(other.timings().n_replay >= n_replay, "{name}, {n}"),
                }
            }
        }
    }
}

/// Copies share snapshots, and a state has them for each.
#[test]
fn a_state_file_of_copies_is_no_longer_than_a_context_takes() {
    let options = ContextOptions { snapshot_distance: 32, n_seq: 6, n_snapshots: Some(6), ..options(1) };
    let folder = TempFolder::new("recurrent-state");
    let path = folder.0.join("state");
    for name in MODELS {
        let model = load_fixture(name);
        let (mut context, ids) = after_a_turn(&model, &options);
        (1..6).for_each(|to| context.copy_sequence(0, to, 110).unwrap());
        context.save_state_file(None, &path).unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() <= context.most_state_len(), "{name}");
        let mut other = Context::new(&model, &options).unwrap();
        other.load_state_file(None, &path).unwrap_or_else(|e| panic!("{name}: {e}"));
        (1..6).for_each(|seq| assert_eq!(other.tokens(seq).unwrap(), &ids[..110], "{name}"));
        assert!(decode(&mut other, 5, &[3]) == decode(&mut context, 5, &[3]), "{name}");
    }
}

#[test]
fn damaged_snapshots_are_refused_and_change_nothing() {
    let model = load_fixture("lfm2");
    let options = ContextOptions { snapshot_distance: 32, ..options(1) };
    let (mut context, ids) = after_a_turn(&model, &options);
    let saved = state(&context, Some(0));
    let at = [32, 64, 96, 100, 120];
    let list = |numbers: &[u32]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let whole = list(&[&[at.len() as u32], &at[..]].concat());
    let places: Vec<usize> =
        (0..saved.len() - whole.len()).filter(|&i| saved[i..].starts_with(&whole)).collect();
    let [place] = places[..] else { panic!("{places:?}") };
    let before = bits(context.end_logits(0).unwrap());
    let mut refused = |i: usize, number: u32| {
        let mut bad = saved.clone();
        bad[place + 4 * i..][..4].copy_from_slice(&number.to_le_bytes());
        let n = bad.len() - 16;
        let sum = xxhash_rust::xxh3::xxh3_128(&bad[..n]);
        bad[n..].copy_from_slice(&sum.to_le_bytes());
        let e = context.load_state(Some(0), &bad).unwrap_err();
        assert!(matches!(e, Error::Format(_)) && e.to_string().contains("the state is damaged"), "{e}");
        e.to_string()
    };
    // Too many, too few, of no token, twice, in another order, after the end.
    for (i, number) in [(0, 6), (0, 4), (0, u32::MAX), (1, 0), (2, 32), (3, 200), (5, 121), (5, u32::MAX)] {
        refused(i, number);
    }
    assert!(refused(2, 97).contains("recurrent states of no token"));
    assert!(bits(context.end_logits(0).unwrap()) == before && context.tokens(0).unwrap() == ids);
    context.load_state(Some(0), &saved).unwrap();
    context.rewind(0, 97).unwrap();
    decode(&mut context, 0, &[3]);
    assert_eq!(context.timings().n_replay, 1, "from 96 on");
}

#[test]
fn forgetting_tokens_in_the_midst_is_refused_by_name() {
    let model = load_fixture("lfm2");
    let mut context = Context::new(&model, &options(1)).unwrap();
    decode(&mut context, 0, &[1, 2, 3, 4]);
    let error = context.shift(0, 1, 2).unwrap_err();
    assert!(
        matches!(error, Error::Unsupported(_)) && error.to_string().contains("recurrent layers"),
        "{error}"
    );
}

#[test]
fn texts_longer_than_a_micro_batch_are_embedded_as_a_whole() {
    for name in MODELS {
        let model = load_fixture(name);
        let texts: Vec<Vec<u32>> =
            [3, 70, 1, 40, 90].map(|n| (0..n).map(|i| i * 13 % N_VOCAB).collect()).to_vec();
        let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let embed = |n_batch: usize, n_threads: usize, backend: BackendKind| {
            let options = ContextOptions { n_batch, backend, ..options(n_threads) };
            let mut context = Context::new(&model, &options).unwrap();
            bits(&context.embed(&texts, &Default::default()).unwrap())
        };
        let whole = embed(256, 1, BackendKind::Auto);
        for (n_batch, n_threads) in [(7, 1), (16, 2), (64, 7)] {
            assert!(embed(n_batch, n_threads, BackendKind::Auto) == whole, "{name}, {n_batch}");
        }
        assert!(embed(7, 1, BackendKind::Scalar) == embed(256, 1, BackendKind::Scalar), "{name}");
    }
}

/// Greedy answers to several prompts, without drafts and with those from the text itself.
#[test]
fn generations_give_the_same_with_drafts() {
    let model = load_fixture("lfm2");
    let prompts: Vec<Vec<u32>> = (3..7).map(|n| (0..n * 9).map(|i| i * n % 11).collect()).collect();
    let sampler = || {
        let mut sampler = Sampler::new(0);
        sampler.push(Stage::Greedy).unwrap();
        sampler
    };
    let run = |lookup: Option<Lookup>| {
        let mut context = Context::new(&model, &options(2)).unwrap();
        let mut usage = Usage::default();
        let answer = |prompt: &Vec<u32>| {
            let options =
                GenerateOptions { max_tokens: 60, lookup, reuse_prefix: true, ..GenerateOptions::default() };
            let mut tokens = Vec::new();
            let used = generate(&mut context, &mut sampler(), Prompt::Tokens(prompt), &options, |event| {
                if let EventKind::Token(token) = event.kind {
                    tokens.push(token.id);
                }
                ControlFlow::Continue(())
            });
            usage.n_accepted += used.unwrap().n_accepted;
            tokens
        };
        (prompts.iter().map(answer).collect::<Vec<_>>(), usage.n_accepted, context.timings().n_replay)
    };
    let (plain, _, _) = run(None);
    let (drafted, n_accepted, n_replay) = run(Some(Lookup { n_draft: 5, ngram: 1 }));
    assert_eq!(plain, drafted);
    assert!(n_accepted > 0, "some drafts are accepted");
    assert_eq!(n_replay, 0, "and those that do not cost nothing");
}
