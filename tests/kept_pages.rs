//! Caches that keep prefixes give their pages up wherever a sequence needs them, and states tell what their keys depend on.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

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

/// LongRoPE rotates keys otherwise in long contexts, where those of short ones would be wrong.
#[test]
fn a_state_does_not_go_from_a_short_context_into_a_long_one() {
    let model = load(&fixture("models/phi3-longrope-short.gguf"));
    let saved = |c: &Context, seq| {
        let mut state = Vec::new();
        c.save_state(seq, &mut |bytes| {
            state.extend_from_slice(bytes);
            Ok(())
        })
        .unwrap();
        state
    };
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
