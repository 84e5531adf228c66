//! A model of a few kilobytes in contexts of several threads, an engine and a host's own memory: whole ways through Ember that
//! are short enough for Miri, which looks at every access of memory on them.
#![cfg(not(target_family = "wasm"))]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

#[path = "../../fuzz/src/tiny.rs"]
#[allow(dead_code, reason = "the fuzzers want text too")]
mod tiny;

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use ember::backend::KvType;
use ember::capi;
use ember::context::{Context, ContextOptions, Tokens};
use ember::engine::{Engine, EngineOptions, Sink};
use ember::error::ember_status::EMBER_OK;
use ember::generate::{EventKind, GenerateOptions, Prompt, generate};
use ember::model::LoadedModel;
use ember::sampler::{Sampler, Stage};

fn model() -> Arc<LoadedModel> {
    Arc::new(LoadedModel::from_bytes(&tiny::without_tokenizer(), "tiny").unwrap())
}

fn options(n_threads: usize, kv_type: KvType) -> ContextOptions {
    ContextOptions {
        n_ctx: 64,
        n_seq: 2,
        n_threads,
        k_type: Some(kv_type),
        v_type: Some(kv_type),
        ..Default::default()
    }
}

fn sampler() -> Sampler {
    let mut sampler = Sampler::new(3);
    sampler.push(Stage::Temperature(0.8)).unwrap();
    sampler
}

#[test]
fn three_threads_give_what_one_gives() {
    let model = model();
    // Q8_0 is for heads of 32 numbers and more; these have four.
    for kv_type in [KvType::F16, KvType::F32] {
        let [one, three] = [1, 3].map(|n_threads| {
            let mut context = Context::new(&model, &options(n_threads, kv_type)).unwrap();
            context.decode(Tokens::next(&[0, 3, 8, 11, 9, 4, 13])).unwrap();
            context.copy_sequence(0, 1, 5).unwrap();
            let both = Tokens { seqs: Some(&[0, 1]), ..Tokens::next(&[5, 6]) };
            context.decode(both).unwrap();
            let mut state = Vec::new();
            let keep = &mut |bytes: &[u8]| {
                state.extend_from_slice(bytes);
                Ok(())
            };
            context.save_state(None, keep).unwrap();
            context.rewind(0, 2).unwrap();
            context.shift(1, 1, 2).unwrap();
            context.load_state(None, &state).unwrap();
            context.decode(Tokens::next(&[7])).unwrap();
            context.logits(0).unwrap().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        });
        assert_eq!(one, three);
    }
}

#[test]
fn requests_together_give_what_each_gives_alone() {
    let model = model();
    let options = |n_threads| options(n_threads, KvType::F16);
    let settings = GenerateOptions { max_tokens: 6, ignore_eog: true, ..GenerateOptions::default() };
    let prompts: [&[u32]; 3] = [&[8], &[8, 10], &[3, 7, 4]];
    let alone = prompts.map(|prompt| {
        let mut context = Context::new(&model, &options(1)).unwrap();
        let mut ids = Vec::new();
        generate(&mut context, &mut sampler(), Prompt::Tokens(prompt), &settings, |event| {
            if let EventKind::Token(token) = event.kind {
                ids.push(token.id);
            }
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        ids
    });
    for thread in [false, true] {
        let settings_of_engine =
            EngineOptions { n_parallel: 2, context: options(2), thread, ..EngineOptions::default() };
        let engine = Engine::new(&model, &settings_of_engine).unwrap();
        let submit =
            |prompt| engine.submit(Prompt::Tokens(prompt), &settings, sampler(), Sink::Pull).unwrap();
        let requests = prompts.map(submit);
        for (request, alone) in requests.iter().zip(&alone) {
            let mut ids = Vec::new();
            while let Some(event) = request.next(Duration::MAX).unwrap() {
                match event.event().kind {
                    EventKind::Token(token) => ids.push(token.id),
                    EventKind::End(_) => break,
                    EventKind::Echo => {}
                }
            }
            assert_eq!(&ids, alone);
        }
    }
}

/// What a host lends: bytes of its own, freed when they are given back.
struct Lent {
    bytes: Vec<u8>,
    n_released: Arc<AtomicUsize>,
}

unsafe extern "C" fn release(lent: *mut c_void) {
    // SAFETY: what was lent is a `Lent` in a Box; this is called once.
    let lent = unsafe { Box::from_raw(lent.cast::<Lent>()) };
    lent.n_released.fetch_add(1, SeqCst);
}

/// Where their address is no multiple of four, the bytes are copied and given back before the call returns.
#[test]
fn bytes_that_were_lent_are_given_back_once() {
    for shift in [0, 1] {
        let n_released = Arc::new(AtomicUsize::new(0));
        let file = tiny::without_tokenizer();
        let mut bytes = vec![0; shift];
        bytes.extend_from_slice(&file);
        let lent = Box::into_raw(Box::new(Lent { bytes, n_released: Arc::clone(&n_released) }));
        // SAFETY: just made; the address is within the bytes.
        let data = unsafe { (*lent).bytes.as_ptr() }.wrapping_add(shift);
        let mut model = null_mut();
        // SAFETY: the bytes stay until they are released; the place is that of a handle.
        let status = unsafe {
            capi::ember_model_load_borrowed(
                data,
                file.len(),
                Some(release),
                lent.cast(),
                null(),
                &mut model,
                null_mut(),
            )
        };
        assert_eq!(status, EMBER_OK);
        let mut context = null_mut();
        // SAFETY: the model lives; the place is that of a handle.
        let status = unsafe { capi::ember_context_new(model, null(), &mut context, null_mut()) };
        assert_eq!(status, EMBER_OK);
        // SAFETY: it lives and is used no more, here and below.
        unsafe { capi::ember_model_release(model) };
        // SAFETY: as above.
        unsafe { capi::ember_context_free(context) };
        assert_eq!(n_released.load(SeqCst), 1);
    }
}
