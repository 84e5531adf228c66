//! Caches that keep prefixes give up their pages wherever a sequence needs them, and states say what their keys depend on.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use common::{fixture, load};
use ember::context::{Context, ContextOptions, Tokens};
use ember::error::Error;

fn options(n_ctx: usize, n_seq: usize) -> ContextOptions {
    ContextOptions { n_ctx, n_seq, n_threads: 1, keep_prefixes: true, ..ContextOptions::default() }
}

fn logits(c: &Context) -> Vec<u32> {
    c.end_logits(0).unwrap().iter().map(|l| l.to_bits()).collect()
}

/// A sequence that goes on in the midst of a page which is kept, where no page is free for a copy.
#[test]
fn a_kept_page_is_written_to_where_none_is_free() {
    let model = load(&fixture("models/llama-tied-f16.gguf"));
    let ids: Vec<u32> = (0..96).map(|i| i * 7 % 90).collect();
    for n_seq in 1..3 {
        for (first, cut) in [(33, 20), (96, 20), (96, 40), (64, 1)] {
            let mut c = Context::new(&model, &options(96, n_seq)).unwrap();
            for seq in 0..n_seq as u32 {
                let seqs = vec![seq; first];
                let other: Vec<u32> = ids[..first].iter().map(|id| (id + seq) % 90).collect();
                c.decode(Tokens { seqs: Some(&seqs), ..Tokens::next(&other) }).unwrap();
            }
            c.rewind(0, cut).unwrap();
            let rest = vec![3u32; 96 - cut];
            c.decode(Tokens::next(&rest)).unwrap();
            assert_eq!(c.n_past(0), Ok(96));
            let mut plain =
                Context::new(&model, &ContextOptions { keep_prefixes: false, ..options(96, 1) }).unwrap();
            plain.decode(Tokens::next(&[&ids[..cut], &rest[..]].concat())).unwrap();
            assert_eq!(logits(&c), logits(&plain));
            // The other sequence has what it had, and what is kept is what it says.
            if n_seq == 2 {
                assert_eq!(c.n_past(1), Ok(first));
                let again: Vec<u32> = ids[..first].iter().map(|id| (id + 1) % 90).collect();
                let n = c.reuse_prefix(0, &again, first - 1).unwrap();
                c.decode(Tokens::next(&again[n..])).unwrap();
                let mut plain = Context::new(&model, &options(96, 1)).unwrap();
                plain.decode(Tokens::next(&again)).unwrap();
                assert_eq!(logits(&c), logits(&plain));
            }
        }
    }
}

fn saved(c: &Context, seq: Option<u32>) -> Vec<u8> {
    let mut state = Vec::new();
    c.save_state(seq, &mut |bytes| {
        state.extend_from_slice(bytes);
        Ok(())
    })
    .unwrap();
    state
}

/// Sequences: numbers of pages and tokens.
type Sequences<'a> = &'a [(&'a [u32], &'a [u32])];

/// A state with a checksum that fits: the head of one of `c`, sequences with these pages and tokens, and pages of zeros.
fn state_of(c: &Context, whole: bool, sequences: Sequences<'_>) -> Vec<u8> {
    let empty = saved(c, Some(0));
    let n_head = 8 + 4 + 16 + 6 * 4;
    let mut state = empty[..n_head].to_vec();
    let mut push = |number: u32| state.extend_from_slice(&number.to_le_bytes());
    let n_pages = sequences.iter().flat_map(|s| s.0).max().map_or(0, |&page| page + 1);
    push(sequences.len() as u32 | u32::from(whole) << 31);
    push(n_pages);
    for (pages, ids) in sequences {
        [ids.len() as u32, 0, u32::MAX, 0]
            .into_iter()
            .chain(pages.iter().chain(*ids).copied())
            .for_each(&mut push);
    }
    // What a page takes is the difference that one makes.
    let mut other = Context::new(c.model(), c.options()).unwrap();
    other.decode(Tokens { outputs: Some(&[false]), ..Tokens::next(&[1]) }).unwrap();
    let page_bytes = saved(&other, Some(0)).len() - empty.len() - 2 * 4;
    state.resize(state.len() + n_pages as usize * page_bytes, 0);
    let sum = xxhash_rust::xxh3::xxh3_128(&state).to_le_bytes();
    state.extend_from_slice(&sum);
    state
}

/// Forged states, whose pages stand where no sequence has them. The cache would count pages as free that are in use.
#[test]
fn pages_of_a_state_stand_at_one_place() {
    let model = load(&fixture("models/llama-tied-f16.gguf"));
    let (a, b, mut c) = ([1u32; 96], [2u32; 96], [1u32; 96]);
    c[64..].fill(3);
    let wrong: [(bool, Sequences<'_>); 6] = [
        (false, &[(&[0, 1, 1], &a)]),
        (false, &[(&[0, 0], &a[..64])]),
        (false, &[(&[0, 0], &a[..33])]),
        (true, &[(&[0, 1], &a[..64]), (&[1, 0], &a[..64])]),
        (true, &[(&[0], &a[..32]), (&[0], &b[..32])]),
        (true, &[(&[0, 1, 2], &a), (&[0, 1, 2], &c)]),
    ];
    let right: [(bool, Sequences<'_>); 4] = [
        (false, &[(&[1, 0, 2], &a)]),
        (true, &[(&[0, 1, 2], &a), (&[0, 1, 3], &c)]),
        (true, &[(&[0, 1, 2], &a), (&[0, 1, 2], &a[..70])]),
        // Not as a context would have it: the second page, but another first one.
        (true, &[(&[0, 1], &a[..64]), (&[2, 1], &a[..64])]),
    ];
    for keep_prefixes in [true, false] {
        let options = ContextOptions { keep_prefixes, ..options(128, 2) };
        for (whole, sequences) in wrong {
            let mut context = Context::new(&model, &options).unwrap();
            let state = state_of(&context, whole, sequences);
            context.decode(Tokens::next(&[5, 6])).unwrap();
            match context.load_state((!whole).then_some(0), &state) {
                Err(Error::Format(m)) => assert!(m.contains("a page at two places"), "{m}"),
                other => panic!("{sequences:?}: {other:?}"),
            }
            assert_eq!(context.tokens(0).unwrap(), [5, 6]);
        }
        for (whole, sequences) in right {
            let mut context = Context::new(&model, &options).unwrap();
            let state = state_of(&context, whole, sequences);
            for _ in 0..10 {
                context.load_state((!whole).then_some(0), &state).unwrap();
                for (seq, (_, ids)) in (0..).zip(sequences) {
                    assert_eq!(context.tokens(seq).unwrap(), *ids);
                }
                context.rewind(0, 0).unwrap();
                // Only the pages of the other sequence are missing.
                let fresh = vec![7; 128];
                context.decode(Tokens::next(&fresh)).unwrap();
                context.rewind(1, 0).unwrap();
                let seqs = vec![1; 128];
                context.decode(Tokens { seqs: Some(&seqs), ..Tokens::next(&fresh) }).unwrap();
            }
        }
    }
}

/// A state of one sequence has the tokens of that sequence, and nothing of others.
#[test]
fn no_other_sequence_begins_with_pages_of_a_state() {
    let model = load(&fixture("models/llama-tied-f16.gguf"));
    let text: Vec<u32> = (0..80).map(|i| i * 7 % 90).collect();
    let mut truth = Context::new(&model, &options(128, 2)).unwrap();
    truth.decode(Tokens::next(&text)).unwrap();
    let good = saved(&truth, Some(0));

    let mut c = Context::new(&model, &options(128, 2)).unwrap();
    let lie = state_of(&c, false, &[(&[0, 1], &text[..64])]);
    c.load_state(Some(1), &lie).unwrap();
    assert_eq!(c.reuse_prefix(0, &text, 79), Ok(0));
    // Nor where it went on, was copied, or saved again.
    c.copy_sequence(1, 0, 64).unwrap();
    c.decode(Tokens::next(&[3; 64])).unwrap();
    let again = saved(&c, Some(0));
    c.load_state(Some(1), &again).unwrap();
    c.rewind(0, 0).unwrap();
    assert_eq!(c.reuse_prefix(0, &text, 79), Ok(0));
    c.rewind(1, 0).unwrap();
    c.decode(Tokens::next(&text)).unwrap();
    assert_eq!(logits(&c), logits(&truth));

    // Pages that the cache has already take the place of the state's, lies or not, and then it is as if it had decoded them.
    let n_free = c.kv_pages().1;
    for state in [&lie, &good] {
        c.load_state(Some(1), state).unwrap();
        assert!(c.kv_pages().1 + 1 >= n_free, "the first pages are shared");
    }
    assert_eq!(c.reuse_prefix(1, &text, 79), Ok(79));
    let seqs = [1];
    c.decode(Tokens { seqs: Some(&seqs), ..Tokens::next(&text[79..]) }).unwrap();
    let bits: Vec<u32> = c.end_logits(1).unwrap().iter().map(|l| l.to_bits()).collect();
    assert_eq!(bits, logits(&truth));

    // A state of a whole context replaces all of it, and its texts are begun with.
    let whole = saved(&truth, None);
    let mut fresh = Context::new(&model, &options(128, 2)).unwrap();
    fresh.load_state(None, &whole).unwrap();
    assert_eq!(fresh.reuse_prefix(1, &text, 79), Ok(64));
}

/// A state of a model with a window, of whose first pages the cache has the texts but the state no longer the keys.
#[test]
fn a_state_holds_no_page_that_it_has_not() {
    let model = load(&fixture("models/phi3-window.gguf"));
    let text: Vec<u32> = (0..192).map(|i| i * 7 % 50 + 1).collect();
    let o = ContextOptions { n_batch: 16, ..options(256, 4) };
    let decode = |c: &mut Context, seq: u32, ids: &[u32]| {
        let seqs = vec![seq; ids.len()];
        c.decode(Tokens { seqs: Some(&seqs), ..Tokens::next(ids) })
    };
    let mut truth = Context::new(&model, &ContextOptions { keep_prefixes: false, ..o.clone() }).unwrap();
    text.chunks(16).for_each(|ids| decode(&mut truth, 0, ids).unwrap());
    let state = saved(&truth, Some(0));
    let (n_pages, n_free) = truth.kv_pages();
    let page = truth.memory().0 / n_pages as u64;
    let few = ContextOptions { kv_limit: Some(page * (n_pages - n_free + 2) as u64), ..o };
    for begins_alike in [false, true] {
        let mut c = Context::new(&model, &few).unwrap();
        let first: Vec<u32> =
            (0..64).map(|i| if begins_alike { text[i] } else { 3 + i as u32 % 40 }).collect();
        first.chunks(16).for_each(|ids| decode(&mut c, 1, ids).unwrap());
        c.rewind(1, 0).unwrap();
        c.load_state(Some(0), &state).unwrap();
        // The two pages left are for other sequences, whatever was kept.
        let other: Vec<u32> = (0..48).map(|i| i * 11 % 60 + 2).collect();
        decode(&mut c, 2, &other).unwrap();
        c.rewind(2, 20).unwrap();
        decode(&mut c, 3, &[8]).unwrap();
        decode(&mut c, 2, &[7]).unwrap();
        c.rewind(2, 0).unwrap();
        decode(&mut c, 0, &[6]).unwrap();
        decode(&mut truth, 0, &[6]).unwrap();
        assert_eq!(logits(&c), logits(&truth));
        truth.load_state(Some(0), &state).unwrap();
    }
}

/// LongRoPE rotates keys differently in long contexts, so keys of short ones would be wrong there.
#[test]
fn a_state_does_not_go_from_a_short_context_into_a_long_one() {
    let model = load(&fixture("models/phi3-longrope-short.gguf"));
    let mut contexts = [256, 257, 300].map(|n_ctx| Context::new(&model, &options(n_ctx, 1)).unwrap());
    for c in &mut contexts {
        c.decode(Tokens::next(&[1, 2, 3])).unwrap();
    }
    for seq in [Some(0), None] {
        let [short, long, longer] = &mut contexts;
        let (of_short, of_long) = (saved(short, seq), saved(long, seq));
        for (state, c, what) in [(&of_short, &mut *long, "fewer"), (&of_long, short, "more")] {
            match c.load_state(seq, state) {
                Err(Error::InvalidArgument(m)) => assert!(m.contains(what), "{m}"),
                other => panic!("{other:?}"),
            }
            c.load_state(seq, &saved(c, seq)).unwrap();
        }
        longer.load_state(seq, &of_long).unwrap();
        assert_eq!(logits(longer), logits(long));
    }
}
