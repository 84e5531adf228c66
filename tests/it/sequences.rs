//! Sequences that share pages, are cut, copied, saved and restored, against separate contexts: the same bits after any order of
//! steps.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]

use crate::common;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use common::parts::Parts;
use common::{bits, fixture, load_fixture, state};
use ember::backend::KvType;
use ember::context::{Context, ContextOptions, Tokens};
use ember::error::Error;
use ember::generate::{GenerateOptions, generate};
use ember::model::{LoadOptions, LoadedModel};
use ember::sampler::{Sampler, Stage};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

const N_SEQ: u32 = 5;
const N_CTX: usize = 80;
/// The same for a model with a window.
const LONG: usize = 300;
/// Models whose layers keep other state, and how long their sequences are.
const KINDS: [(&str, usize); 6] = [
    ("deepseek2-lite", N_CTX),
    ("deepseek2-groups", N_CTX),
    ("gemma4-keys", LONG),
    ("gemma4-shared", LONG),
    ("gemma3n", LONG),
    ("gpt-oss", LONG),
];
/// Tokens that can always be taken back from a sequence that gives pages back after its window.
const SPARE: usize = 32;

fn model() -> Arc<LoadedModel> {
    let path = fixture("models/llama-tied-f16.gguf");
    Arc::new(LoadedModel::open(&path, &LoadOptions::default()).unwrap())
}

/// The same with a window in every layer.
fn windowed() -> Arc<LoadedModel> {
    let parts = Parts::of("llama-tied-f16").key("llama.attention.sliding_window", 40u32);
    Arc::new(LoadedModel::from_bytes(&parts.bytes(), "windowed.gguf").unwrap())
}

/// Layers with a window, and layers that see everything.
fn mixed() -> Arc<LoadedModel> {
    let parts = Parts::of("gemma3").key("gemma3.attention.sliding_window", 40u32);
    Arc::new(LoadedModel::from_bytes(&parts.bytes(), "mixed.gguf").unwrap())
}

/// Whether layers have a window.
fn is_windowed(model: &LoadedModel) -> bool {
    model.info().windows.iter().any(Option::is_some)
}

fn options(kv_type: KvType) -> ContextOptions {
    ContextOptions {
        n_ctx: N_CTX,
        n_seq: N_SEQ as usize,
        n_threads: 1,
        k_type: Some(kv_type),
        v_type: Some(kv_type),
        ..ContextOptions::default()
    }
}

/// The history of a sequence's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Token(u32),
    /// Tokens were forgotten after the first ones: how many stayed, how many went.
    Shift(usize, usize),
    /// All tokens after the first ones were forgotten after a shift.
    Rewind(usize),
}

/// The life of one sequence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Text {
    ids: Vec<u32>,
    steps: Vec<Step>,
    /// How long it was at most since it was empty, as far as that tells what its sequence may have given back.
    longest: usize,
}

impl Text {
    /// A text that was never shifted.
    fn plain(ids: &[u32]) -> Text {
        let steps = ids.iter().map(|&id| Step::Token(id)).collect();
        Text { ids: ids.to_vec(), steps, longest: ids.len() }
    }

    fn push(&mut self, id: u32) {
        self.ids.push(id);
        self.steps.push(Step::Token(id));
        self.longest = self.longest.max(self.ids.len());
    }

    /// Whether its first `n` tokens must be a sequence that can go on.
    fn can_cut(&self, n: usize) -> bool {
        n == 0 || self.longest <= n + SPARE
    }

    fn clear(&mut self) {
        *self = Text::default();
    }

    /// Its first `n` tokens.
    fn first(&self, n: usize) -> Text {
        let shifted = self.steps.iter().any(|step| matches!(step, Step::Shift(..)));
        let first = match shifted && n > 0 {
            true if n == self.ids.len() => self.clone(),
            true => {
                let steps = self.steps.iter().copied().chain([Step::Rewind(n)]).collect();
                Text { ids: self.ids[..n].to_vec(), steps, longest: n }
            }
            false => Text::plain(&self.ids[..n]),
        };
        Text { longest: if n == 0 { 0 } else { self.longest }, ..first }
    }

    fn shift(&mut self, keep: usize, drop: usize) {
        if keep + drop == self.ids.len() {
            *self = self.first(keep);
        } else if drop > 0 {
            self.ids.drain(keep..keep + drop);
            self.steps.push(Step::Shift(keep, drop));
            self.longest = self.longest.saturating_sub(drop).max(self.ids.len() + SPARE);
        }
    }
}

/// What a context gave after texts, and one of its own that says what is right.
struct Oracle {
    context: Context,
    claims: Vec<(Vec<Step>, Vec<u32>, String)>,
}

impl Oracle {
    fn new(model: &Arc<LoadedModel>, kv_type: KvType) -> Oracle {
        let n_ctx = if is_windowed(model) { LONG } else { N_CTX };
        let options = ContextOptions { n_ctx, n_seq: 1, keep_all_positions: true, ..options(kv_type) };
        Oracle { context: Context::new(model, &options).unwrap(), claims: Vec::new() }
    }

    /// `logits` are said to be those after `text`.
    fn claim(&mut self, text: &Text, logits: &[f32], at: &str) {
        self.claims.push((text.steps.clone(), bits(logits), at.to_owned()));
    }

    /// Goes through the steps of each text that begins no other text. The logits of a token are those of the time when it ran,
    /// whatever was forgotten since then.
    fn check(&mut self) {
        self.claims.sort();
        self.claims.dedup_by(|a, b| (&a.0, &a.1) == (&b.0, &b.1));
        let mut longest: &[Step] = &[];
        // After each number of steps of it.
        let mut expected: Vec<Option<Vec<u32>>> = Vec::new();
        // After a text come all that begin with it.
        for (steps, logits, at) in self.claims.iter().rev() {
            if !longest.starts_with(steps) {
                longest = steps;
                expected = after_each(&mut self.context, steps);
            }
            assert!(expected[steps.len() - 1].as_ref() == Some(logits), "{at}");
        }
        self.claims.clear();
    }
}

/// The logits at the end of the sequence after each of `steps`, if it is not empty.
fn after_each(context: &mut Context, steps: &[Step]) -> Vec<Option<Vec<u32>>> {
    context.rewind(0, 0).unwrap();
    let (mut logits, mut found) = (Vec::new(), Vec::new());
    for part in steps.chunk_by(|a, b| matches!((a, b), (Step::Token(_), Step::Token(_)))) {
        match part[0] {
            Step::Shift(keep, drop) => {
                context.shift(0, keep, drop).unwrap();
                logits.drain(keep..keep + drop);
                found.push(logits.last().cloned());
            }
            Step::Rewind(n) => {
                context.rewind(0, n).unwrap();
                logits.truncate(n);
                found.push(logits.last().cloned());
            }
            Step::Token(_) => {
                let id = |step: &Step| if let Step::Token(id) = step { Some(*id) } else { None };
                let ids: Vec<u32> = part.iter().filter_map(id).collect();
                let all = vec![true; ids.len()];
                context.decode(Tokens { outputs: Some(&all), ..Tokens::next(&ids) }).unwrap();
                let of = |i: usize| bits(context.logits(i).unwrap());
                logits.extend((0..ids.len()).map(of));
                found.extend((0..ids.len()).map(|i| Some(of(i))));
            }
        }
    }
    found
}

/// A random life of a context, given by `seed`.
fn live(model: &Arc<LoadedModel>, oracle: &mut Oracle, options: &ContextOptions, seed: u64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (n_vocab, n_ctx) = (model.info().n_vocab as u32, options.n_ctx);
    let is_windowed = is_windowed(model);
    let mut context = Context::new(model, options).unwrap();
    let mut texts = vec![Text::default(); N_SEQ as usize];
    let mut saved = Vec::new();
    for step in 0..30 {
        let at = format!("seed {seed}, step {step}");
        let seq = random.random_range(0..N_SEQ);
        match random.random_range(0..14) {
            0..6 => {
                // Some tokens of some sequences, mixed; few different ones, so that texts are often the same.
                let n = random.random_range(1..n_ctx / 2);
                let mut seqs: Vec<u32> = (0..n).map(|_| random.random_range(0..N_SEQ)).collect();
                if random.random_bool(0.5) {
                    seqs.fill(seq);
                }
                let ids: Vec<u32> = (0..n).map(|_| random.random_range(0..3) * 7 % n_vocab).collect();
                let outputs: Vec<bool> = (0..n).map(|i| !seqs[i + 1..].contains(&seqs[i])).collect();
                let tokens =
                    Tokens { ids: &ids, seqs: Some(&seqs), outputs: Some(&outputs), positions: None };
                let mut grown = texts.clone();
                seqs.iter().zip(&ids).for_each(|(&seq, &id)| grown[seq as usize].push(id));
                match context.decode(tokens) {
                    Ok(()) => {
                        texts = grown;
                        for i in (0..n).filter(|&i| outputs[i]) {
                            let text = &texts[seqs[i] as usize];
                            oracle.claim(text, context.logits(i).unwrap(), &at);
                        }
                    }
                    Err(Error::ContextFull(_)) => {
                        let too_long = grown.iter().any(|text| text.ids.len() > n_ctx);
                        assert!(too_long || options.kv_limit.is_some(), "{at}");
                        context.rewind(seq, 0).unwrap();
                        texts[seq as usize].clear();
                    }
                    Err(other) => panic!("{at}: {other}"),
                }
            }
            6 | 7 => {
                let to = random.random_range(0..N_SEQ);
                let n = random.random_range(0..=texts[seq as usize].ids.len());
                let outcome = context.copy_sequence(seq, to, n);
                let can_cut = texts[seq as usize].can_cut(n);
                assert!(seq != to || outcome.is_err(), "{at}");
                if outcome.is_ok() {
                    texts[to as usize] = texts[seq as usize].first(n);
                } else {
                    assert!(seq == to || (is_windowed && !can_cut), "{at}: {outcome:?}");
                }
            }
            8 => {
                let n = random.random_range(0..=texts[seq as usize].ids.len());
                match context.rewind(seq, n) {
                    Ok(()) => texts[seq as usize] = texts[seq as usize].first(n),
                    Err(error) => assert!(is_windowed && !texts[seq as usize].can_cut(n), "{at}: {error}"),
                }
            }
            9 if random.random_bool(0.2) => {
                context.keep_sequence(seq).unwrap();
                for other in (0..N_SEQ).filter(|&other| other != seq) {
                    texts[other as usize].clear();
                }
            }
            10 => {
                let which = random.random_bool(0.5).then_some(seq);
                let of = match which {
                    Some(seq) => vec![texts[seq as usize].clone()],
                    None => texts.clone(),
                };
                saved.push((state(&context, which), which, of));
            }
            11 if random.random_bool(0.5) => {
                // A text that begins as some sequence's.
                let of = &texts[random.random_range(0..N_SEQ) as usize].ids;
                let mut ids = of[..random.random_range(0..=of.len())].to_vec();
                ids.extend((0..random.random_range(0..5)).map(|_| random.random_range(0..n_vocab)));
                let most = random.random_range(0..=ids.len());
                let own = texts[seq as usize].ids.iter().zip(&ids).take_while(|(a, b)| a == b).count();
                let len = context.reuse_prefix(seq, &ids, most).unwrap();
                let (own, can_cut) = (own.min(most), texts[seq as usize].can_cut(own.min(most)));
                let is_gone = is_windowed && !can_cut && len < own;
                assert!(len <= most && (len >= own || is_gone), "{at}");
                assert!(options.keep_prefixes || len == own || len == 0, "{at}");
                texts[seq as usize] = match len > own || is_gone {
                    true => Text { longest: len + SPARE, ..Text::plain(&ids[..len]) },
                    false => texts[seq as usize].first(len),
                };
            }
            11 if !saved.is_empty() => {
                let (bytes, which, of): &(Vec<u8>, Option<u32>, Vec<Text>) =
                    &saved[random.random_range(0..saved.len())];
                match context.load_state(which.map(|_| seq), bytes) {
                    Ok(()) if which.is_some() => texts[seq as usize] = of[0].clone(),
                    Ok(()) => texts = of.clone(),
                    Err(Error::ContextFull(_)) => assert!(options.kv_limit.is_some(), "{at}"),
                    Err(other) => panic!("{at}: {other}"),
                }
            }
            12 => {
                let len = texts[seq as usize].ids.len();
                let keep = random.random_range(0..=len);
                let drop = random.random_range(0..=len - keep);
                match context.shift(seq, keep, drop) {
                    Ok(()) => texts[seq as usize].shift(keep, drop),
                    Err(Error::InvalidArgument(_)) => {
                        assert!(is_windowed && keep > 0 && texts[seq as usize].longest > 40, "{at}");
                    }
                    Err(Error::ContextFull(_)) => {
                        let n_groups = model.info().windows.len();
                        assert!(context.kv_pages().1 < n_groups * n_ctx.div_ceil(32), "{at}");
                    }
                    Err(other) => panic!("{at}: {other}"),
                }
            }
            13 => {
                // Tokens that are run ahead, of which some come.
                let ids: Vec<u32> = (0..9).map(|_| random.random_range(0..3) * 7 % n_vocab).collect();
                match context.decode_ahead(seq, ids[0], &ids[1..], None) {
                    Ok(()) => {
                        texts[seq as usize].push(ids[0]);
                        let n_taken = random.random_range(1..9);
                        for &id in &ids[1..n_taken] {
                            assert!(context.advance(seq, id), "{at}");
                            texts[seq as usize].push(id);
                            oracle.claim(&texts[seq as usize], context.end_logits(seq).unwrap(), &at);
                        }
                        let other = ids[n_taken] + 1;
                        assert!(!context.advance(seq, other), "{at}");
                        assert!(!context.advance((seq + 1) % N_SEQ, ids[n_taken]), "{at}");
                    }
                    Err(Error::ContextFull(_)) => {
                        let too_long = texts[seq as usize].ids.len() + ids.len() > n_ctx;
                        assert!(too_long || options.kv_limit.is_some(), "{at}");
                    }
                    Err(other) => panic!("{at}: {other}"),
                }
            }
            _ => {}
        }
        for (seq, text) in (0..).zip(&texts) {
            assert_eq!(context.tokens(seq).unwrap(), text.ids, "{at}");
            if let Ok(logits) = context.end_logits(seq) {
                oracle.claim(text, logits, &at);
            }
        }
    }
    oracle.check();
    // No page was lost.
    for seq in 0..N_SEQ {
        context.rewind(seq, 0).unwrap();
    }
    let ids = vec![1; n_ctx];
    for seq in 0..if options.kv_limit.is_some() { 1 } else { N_SEQ } {
        let seqs = vec![seq; n_ctx];
        context.decode(Tokens { seqs: Some(&seqs), ..Tokens::next(&ids) }).unwrap();
    }
}

/// `n` lives, with each kind of cache that the model takes.
fn lives(name: &str, model: &Arc<LoadedModel>, n_ctx: usize, n: u64) {
    let start = Instant::now();
    let takes = |kv_type: &KvType| common::kv_layers(model).iter().all(|heads| heads.takes(*kv_type));
    let kv_types: Vec<KvType> = [KvType::F16, KvType::Q8_0, KvType::I16].into_iter().filter(takes).collect();
    for &kv_type in &kv_types {
        let mut oracle = Oracle::new(model, kv_type);
        let all = ContextOptions { n_ctx, n_batch: 64, ..options(kv_type) };
        let bytes = Context::new(model, &all).unwrap().memory().0;
        // The second has pages for two sequences at full length.
        let few = ContextOptions { kv_limit: Some(bytes * 2 / u64::from(N_SEQ)), ..all.clone() };
        for seed in 0..n.div_ceil(kv_types.len() as u64) {
            let options = if seed % 2 == 0 { &all } else { &few };
            live(
                model,
                &mut oracle,
                &ContextOptions { keep_prefixes: seed % 3 > 0, ..options.clone() },
                seed,
            );
        }
    }
    println!("{name:16} {n} lives, caches {kv_types:?}, {:.1} s", start.elapsed().as_secs_f64());
}

#[test]
fn shared_pages_give_the_bits_of_contexts_that_share_nothing() {
    lives("plain", &model(), N_CTX, 1200);
}

#[test]
fn pages_given_back_before_windows_change_no_bits() {
    lives("windows", &windowed(), LONG, 600);
}

#[test]
fn layers_with_and_without_a_window_share_sequences_and_no_pages() {
    assert_eq!(mixed().info().windows.len(), 2);
    lives("some windows", &mixed(), LONG, 600);
}

/// Latent vectors in place of keys and values, layers that read those of others, sinks, heads of two lengths, several streams.
#[test]
fn every_kind_of_layer_shares_pages() {
    for (name, n_ctx) in KINDS {
        lives(name, &load_fixture(name), n_ctx, 60);
    }
}

/// `EMBER_LIVES_OF` says which kind of layers, by the name that is printed: all without it.
///
/// `cargo test --release --test it -- --ignored --nocapture sequences::`
#[test]
#[ignore = "takes minutes"]
fn shared_pages_give_the_bits_of_contexts_that_share_nothing_at_length() {
    let only = std::env::var("EMBER_LIVES_OF").ok();
    let lives = |name: &str, model: &Arc<LoadedModel>, n_ctx: usize| {
        if only.as_deref().is_none_or(|only| only == name) {
            lives(name, model, n_ctx, 10_000);
        }
    };
    lives("plain", &model(), N_CTX);
    lives("windows", &windowed(), LONG);
    lives("some windows", &mixed(), LONG);
    KINDS.iter().for_each(|(name, n_ctx)| lives(name, &load_fixture(name), *n_ctx));
}

#[test]
fn prefixes_are_kept_and_given_up_when_their_pages_are_needed() {
    let model = model();
    let page = Context::new(&model, &options(KvType::F16)).unwrap().memory().0 / 15;
    let few =
        ContextOptions { kv_limit: Some(6 * page + page / 2), keep_prefixes: true, ..options(KvType::F16) };
    let mut context = Context::new(&model, &few).unwrap();
    let system: Vec<u32> = (0..70).map(|i| i % 11).collect();
    context.decode(Tokens::next(&system)).unwrap();
    context.rewind(0, 0).unwrap();
    assert_eq!(context.kv_pages(), (6, 6));
    // Whole pages of 32 tokens; one token at least is left to run.
    assert_eq!(context.reuse_prefix(3, &system, 69).unwrap(), 64);
    assert_eq!(context.kv_pages(), (6, 4));
    assert_eq!(context.reuse_prefix(2, &system[..64], 63).unwrap(), 32);
    assert_eq!(context.kv_pages(), (6, 4), "both have the first page");
    assert_eq!(context.reuse_prefix(1, &[7; 40], 39).unwrap(), 0);
    // Another text takes four pages that nobody has; what sequence 3 has stays.
    context.rewind(2, 0).unwrap();
    for seq in [0, 1] {
        let seqs = vec![seq; 64];
        context.decode(Tokens { seqs: Some(&seqs), ..Tokens::next(&[seq + 50; 64]) }).unwrap();
    }
    assert!(matches!(
        context.decode(Tokens { seqs: Some(&[2]), ..Tokens::next(&[1]) }),
        Err(Error::ContextFull(_))
    ));
    context.keep_sequence(0).unwrap();
    assert_eq!(context.reuse_prefix(4, &system, 70).unwrap(), 64);
    context.rewind(4, 0).unwrap();
    // The oldest goes first: of 4 free pages of two texts the one that was of use last stays.
    let seqs = vec![1; 64];
    context.decode(Tokens { seqs: Some(&seqs), ..Tokens::next(&[90; 64]) }).unwrap();
    assert_eq!(context.reuse_prefix(4, &[51; 64], 64).unwrap(), 0);
    assert_eq!(context.reuse_prefix(4, &system, 70).unwrap(), 64);
}

#[test]
fn damaged_states_are_refused_and_change_nothing() {
    let model = model();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
    let mut context = Context::new(&model, &options(KvType::F16)).unwrap();
    context.decode(Tokens::next(&[1, 2, 3, 4, 5])).unwrap();
    context.copy_sequence(0, 1, 3).unwrap();
    context.decode(Tokens { seqs: Some(&[1, 1]), ..Tokens::next(&[8, 9]) }).unwrap();
    let (one, all) = (state(&context, Some(1)), state(&context, None));
    let before = bits(context.end_logits(1).unwrap());
    for i in 0..10_000 {
        let (seq, good) = if i % 2 == 0 { (Some(1), &one) } else { (None, &all) };
        let mut bad = good.clone();
        if random.random_bool(0.5) {
            bad.truncate(random.random_range(0..bad.len()));
        } else {
            let at = random.random_range(0..bad.len());
            bad[at] ^= random.random_range(1..=255u8);
        }
        let error = context.load_state(seq, &bad).unwrap_err();
        assert!(matches!(error, Error::Format(_) | Error::Unsupported(_)), "{error}");
    }
    assert_eq!(context.tokens(0).unwrap(), [1, 2, 3, 4, 5]);
    assert_eq!(context.tokens(1).unwrap(), [1, 2, 3, 8, 9]);
    assert!(bits(context.end_logits(1).unwrap()) == before);
    context.load_state(Some(4), &one).unwrap();
    assert!(bits(context.end_logits(4).unwrap()) == before);
}

#[test]
fn states_that_do_not_fit_say_why() {
    let model = model();
    let other = LoadedModel::open(&fixture("models/llama-tied-f32.gguf"), &LoadOptions::default()).unwrap();
    let encoder = LoadedModel::open(&fixture("models/bert.gguf"), &LoadOptions::default()).unwrap();
    let new = |model: &Arc<LoadedModel>, options: &ContextOptions| Context::new(model, options).unwrap();
    let mut context = new(&model, &options(KvType::F16));
    context.decode(Tokens::next(&[1; 40])).unwrap();
    let (one, all) = (state(&context, Some(0)), state(&context, None));
    let refused = |context: &mut Context, seq, state: &[u8], words: &[&str]| {
        let error = context.load_state(seq, state).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    refused(&mut context, Some(0), &all, &["5 sequences"]);
    refused(&mut context, Some(9), &one, &["sequence 9"]);
    refused(&mut context, Some(0), b"GGUF and so on and so forth", &["no state"]);
    refused(&mut context, Some(0), &[], &["short"]);
    refused(
        &mut new(&Arc::new(other), &options(KvType::F16)),
        Some(0),
        &one,
        &["another model", "llama-tied-f32"],
    );
    refused(&mut new(&model, &options(KvType::F32)), Some(0), &one, &["k_type is f16", "context's f32"]);
    let short = ContextOptions { n_ctx: 32, ..options(KvType::F16) };
    refused(&mut new(&model, &short), Some(0), &one, &["40 tokens", "n_ctx 32"]);
    let few = ContextOptions { n_seq: 2, ..options(KvType::F16) };
    refused(&mut new(&model, &few), None, &all, &["5 sequences", "the context has 2"]);
    let page = context.memory().0 / 15;
    let tight = ContextOptions { kv_limit: Some(page + page / 2), ..options(KvType::F16) };
    refused(&mut new(&model, &tight), Some(3), &one, &["2 pages", "has 1 free:"]);
    let encoder = new(&Arc::new(encoder), &ContextOptions::default());
    assert!(matches!(encoder.state_len(None), Err(Error::Unsupported(_))));
    assert!(matches!(context.state_len(Some(5)), Err(Error::InvalidArgument(_))));
}

#[test]
fn copies_go_on_from_the_logits_of_what_was_copied() {
    let model = model();
    let mut context = Context::new(&model, &options(KvType::F16)).unwrap();
    let ids: Vec<u32> = (1..20).collect();
    let wants: Vec<bool> = (0..19).map(|i| i == 9 || i == 18).collect();
    context.decode(Tokens { outputs: Some(&wants), ..Tokens::next(&ids) }).unwrap();
    let (end, tenth) = (bits(context.logits(18).unwrap()), bits(context.logits(9).unwrap()));
    context.copy_sequence(0, 1, 19).unwrap();
    context.copy_sequence(1, 2, 10).unwrap();
    assert!(context.end_logits(2).is_err(), "only the end's were shared");
    context.copy_sequence(0, 2, 10).unwrap();
    context.copy_sequence(0, 3, 11).unwrap();
    assert!(bits(context.end_logits(1).unwrap()) == end && bits(context.end_logits(2).unwrap()) == tenth);
    assert!(context.end_logits(3).is_err(), "that token asked for none");
    // A state has them too, and one of the whole context for each sequence.
    assert_eq!(state(&context, Some(1)), state(&context, Some(0)));
    let mut other = Context::new(&model, &options(KvType::F16)).unwrap();
    other.load_state(None, &state(&context, None)).unwrap();
    assert!(bits(other.end_logits(1).unwrap()) == end && bits(other.end_logits(2).unwrap()) == tenth);
    // An empty prompt goes on, and gives what the original gives.
    let mut went_on = Vec::new();
    for seq in [1, 0] {
        let mut greedy = Sampler::new(0);
        greedy.push(Stage::Greedy).unwrap();
        let o = GenerateOptions { max_tokens: 5, seq, ignore_eog: true, ..GenerateOptions::default() };
        let mut fresh = Context::new(&model, &options(KvType::F16)).unwrap();
        fresh.load_state(None, &state(&context, None)).unwrap();
        generate(&mut fresh, &mut greedy, &[][..], &o, |_| ControlFlow::Continue(())).unwrap();
        went_on.push(fresh.tokens(seq).unwrap().to_vec());
    }
    assert!(went_on[0] == went_on[1] && went_on[0].len() == 24);
    // A sequence that is copied to has no longer what it had, and what is shifted keeps its own.
    context.copy_sequence(3, 1, 11).unwrap();
    assert!(context.end_logits(1).is_err());
    context.copy_sequence(0, 1, 19).unwrap();
    context.shift(1, 2, 4).unwrap();
    assert!(bits(context.end_logits(1).unwrap()) == end && bits(context.end_logits(0).unwrap()) == end);
    context.keep_sequence(1).unwrap();
    assert!(context.end_logits(0).is_err() && bits(context.end_logits(1).unwrap()) == end);
    context.rewind(1, 15).unwrap();
    assert!(context.end_logits(1).is_err());
}

#[test]
fn logits_that_are_not_there_say_why() {
    let model = model();
    let mut context = Context::new(&model, &options(KvType::F16)).unwrap();
    let why = |context: &Context, i: usize| match context.logits(i) {
        Err(Error::NotFound(message)) => message,
        other => panic!("{:?}", other.map(<[f32]>::len)),
    };
    assert!(why(&context, 0).contains("nothing was decoded yet"));
    context.decode(Tokens::next(&[1, 2, 3])).unwrap();
    assert!(why(&context, 0).contains("token 0") && why(&context, 0).contains("did not ask"));
    assert!(why(&context, 3).contains("token 3") && why(&context, 3).contains("had 3 tokens"));
    let state = state(&context, Some(0));
    context.rewind(0, 2).unwrap();
    assert!(why(&context, 2).contains("took them away"));
    context.load_state(Some(1), &state).unwrap();
    assert!(context.logits(0).is_ok() && why(&context, 1).contains("the state that was loaded has 1"));
    let cancelled = ember::cancel::CancelToken::new();
    cancelled.cancel();
    assert!(context.decode_under(Tokens::next(&[4]), Some(&cancelled)).is_err());
    assert!(why(&context, 0).contains("the last decode failed"));
}
