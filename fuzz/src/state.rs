//! Any bytes are loaded whole as the state of a context, or not at all. On an error the context goes on as if nothing had been,
//! bit by bit; otherwise it can be used and saved again.
//!
//! The first byte of the input chooses: whether the rest is a state or changes a real one, which sequence it is for, and what is
//! repaired before it is loaded (the beginning up to the fingerprint of the model, the checksum). Without a repair no input would
//! pass these checks. The second byte names one of the models below, and says whether the third sequence begins as the second
//! does.

use std::sync::{Arc, OnceLock};

use arbitrary::{Result, Unstructured};
use ember::backend::KvType;
use ember::context::{BackendKind, Context, ContextOptions, Tokens};
use ember::model::LoadedModel;
use xxhash_rust::xxh3::xxh3_128;

/// Bytes before the shape of the cache (magic, version, fingerprint), and bytes of the checksum.
const N_HEAD: usize = 8 + 4 + 16;
const N_SUM: usize = 16;
const N_SEQ: u32 = 3;

/// Models whose layers keep more or other state than keys and values of all positions: recurrent states, windows, latent vectors.
const OTHERS: [&[u8]; 7] = [
    include_bytes!("../../tests/fixtures/models/lfm2.gguf"),
    include_bytes!("../../tests/fixtures/models/qwen35.gguf"),
    include_bytes!("../../tests/fixtures/models/gemma3.gguf"),
    include_bytes!("../../tests/fixtures/models/deepseek2-lite.gguf"),
    include_bytes!("../../tests/fixtures/models/falcon-h1.gguf"),
    include_bytes!("../../tests/fixtures/models/mamba2.gguf"),
    include_bytes!("../../tests/fixtures/models/gemma4-shared.gguf"),
];

/// The tiny model for 0, or one of the others, each loaded once.
fn model(which: usize) -> &'static Arc<LoadedModel> {
    static MODELS: [OnceLock<Arc<LoadedModel>>; 1 + OTHERS.len()] =
        [const { OnceLock::new() }; 1 + OTHERS.len()];
    let file = || if which == 0 { super::tiny::llama() } else { OTHERS[which - 1].to_vec() };
    let load = || LoadedModel::from_bytes(&file(), "tiny").unwrap_or_else(|e| panic!("{e}"));
    MODELS[which].get_or_init(|| Arc::new(load()))
}

/// A context with something in its sequences: the first two share a page. The third is empty or, `nested`, the beginning of the
/// second, whose beginning is the first one's.
fn context(which: usize, kv_type: KvType, keep_prefixes: bool, nested: bool) -> Context {
    let options = ContextOptions {
        n_ctx: 80,
        n_seq: N_SEQ as usize,
        n_batch: 16,
        n_threads: 1,
        backend: BackendKind::Scalar,
        k_type: Some(kv_type),
        v_type: Some(kv_type),
        keep_prefixes,
        kv_limit: (which == 0).then(|| 6 * 32 * 2 * 4 * if kv_type == KvType::F32 { 4 } else { 2 }),
        // So that states have snapshots of recurrent layers.
        snapshot_distance: 32,
        ..ContextOptions::default()
    };
    let mut context = Context::new(model(which), &options).unwrap_or_else(|e| panic!("{e}"));
    let ids: Vec<u32> = (0..40).map(|i| 3 + i % 13).collect();
    context.decode(Tokens::next(&ids)).expect("free pages");
    context.copy_sequence(0, 1, 35).expect("long enough");
    let tokens = Tokens { seqs: Some(&[1, 1]), ..Tokens::next(&[5, 6]) };
    context.decode(tokens).expect("free pages");
    if nested {
        context.copy_sequence(1, 2, 37).expect("all of it");
    }
    context
}

/// The state of a context, as far as its caller can see it.
fn look(context: &mut Context) -> Vec<(Vec<u32>, Option<Vec<u32>>)> {
    let bits = |logits: &[f32]| logits.iter().map(|x| x.to_bits()).collect();
    (0..N_SEQ)
        .map(|seq| {
            let tokens = context.tokens(seq).expect("a sequence").to_vec();
            (tokens, context.end_logits(seq).ok().map(bits))
        })
        .collect()
}

/// The logits after one more token of each sequence; nothing where no page is free.
fn go_on(context: &mut Context) -> Vec<Option<Vec<u32>>> {
    (0..N_SEQ)
        .map(|seq| {
            let tokens = Tokens { seqs: Some(&[seq]), ..Tokens::next(&[4]) };
            context.decode(tokens).ok()?;
            Some(context.logits(0).expect("asked for").iter().map(|x| x.to_bits()).collect())
        })
        .collect()
}

fn saved(context: &Context, seq: Option<u32>) -> Vec<u8> {
    let mut state = Vec::new();
    let write = &mut |bytes: &[u8]| {
        state.extend_from_slice(bytes);
        Ok(())
    };
    context.save_state(seq, write).expect("a decoder");
    assert_eq!(state.len() as u64, context.state_len(seq).expect("a decoder"));
    state
}

/// Changes numbers of a state, cuts it, and lengthens it.
fn edit(state: &mut Vec<u8>, u: &mut Unstructured<'_>) -> Result<()> {
    while !u.is_empty() {
        let at = usize::from(u.arbitrary::<u16>()?) * 4 % state.len().max(1);
        match u.int_in_range(0..=7u8)? {
            0 => state.truncate(at),
            1 => drop(state.splice(at..at, [0; 4])),
            2 => drop(state.drain(at..state.len().min(at + 4))),
            3 => state.extend_from_slice(u.arbitrary()?),
            4 => {
                if let Some(byte) = state.get_mut(at) {
                    *byte = u.arbitrary()?;
                }
            }
            _ => {
                let number = *u.choose(&super::edit::NUMBERS)? as u32;
                if let Some(to) = state.get_mut(at..at + 4) {
                    to.copy_from_slice(&number.to_le_bytes());
                }
            }
        }
    }
    Ok(())
}

/// Loads the state, checks what the context holds then, and uses it.
pub fn run(bytes: &[u8]) {
    let [flags, which, state @ ..] = bytes else { return };
    let (flags, nested, which) = (*flags, which & 128 != 0, usize::from(which & 127) % (1 + OTHERS.len()));
    let seq = [None, Some(0), Some(1), Some(2)][usize::from(flags & 3)];
    let kv_type = if flags & 4 == 0 { KvType::F16 } else { KvType::F32 };
    let keep_prefixes = flags & 32 != 0;
    let [mut context, mut twin] = [(); 2].map(|()| context(which, kv_type, keep_prefixes, nested));
    let mut state = match flags & 128 {
        0 => state.to_vec(),
        _ => {
            let mut u = Unstructured::new(state);
            let from = [seq, None, Some(0), Some(1)][u.int_in_range(0..=3usize).unwrap_or(0)];
            let mut state = saved(&context, from);
            // Too little input ends the changes, which is fine.
            let _ = edit(&mut state, &mut u);
            state
        }
    };
    if flags & 8 != 0 && state.len() >= N_HEAD {
        state[..N_HEAD].copy_from_slice(&saved(&context, seq)[..N_HEAD]);
    }
    if flags & 16 != 0 && state.len() >= N_SUM {
        let n_body = state.len() - N_SUM;
        let sum = xxh3_128(&state[..n_body]).to_le_bytes();
        state[n_body..].copy_from_slice(&sum);
    }
    let by_callback = flags & 64 != 0;
    let loaded = if by_callback {
        let mut rest = &state[..];
        context.load_state_from(seq, &mut |buffer| {
            let n = rest.len().min(buffer.len()).min(100);
            buffer[..n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
            Ok(n)
        })
    } else {
        context.load_state(seq, &state)
    };
    match loaded {
        Err(e) => {
            assert!(!e.message().is_empty());
            assert_eq!(look(&mut context), look(&mut twin), "{e}");
            assert_eq!(context.kv_pages(), twin.kv_pages(), "{e}");
            assert_eq!(go_on(&mut context), go_on(&mut twin), "{e}");
        }
        Ok(()) => {
            let before = look(&mut context);
            let again = saved(&context, seq);
            context.load_state(seq, &again).expect("its own state");
            assert_eq!(look(&mut context), before);
            assert_eq!(saved(&context, seq), again);
            go_on(&mut context);
        }
    }
    for seq in 0..N_SEQ {
        context.rewind(seq, 0).expect("a sequence");
    }
    if !keep_prefixes {
        let (n_pages, n_free) = context.kv_pages();
        assert_eq!(n_pages, n_free, "pages of no sequence");
    }
    context.decode(Tokens::next(&[3; 33])).expect("free pages");
}
