//! A binary of its own: it has the process's allocator, which fails on request.
//!
//! Every allocation fails in its turn, alone and with all that follow: calls end with EMBER_E_NOMEM or with the right result,
//! nothing leaks, and the next call works. The allocator is the one that the C library has, over one that fails on request.
#![cfg(not(target_family = "wasm"))]
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]

#[path = "../fuzz/src/tiny.rs"]
mod tiny;

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst};

use ember::capi::{self, ember_context, ember_model};
use ember::error::ember_status::{self, *};
use ember::memory::Reserve;

/// The system's allocator, which counts allocated bytes and fails on request, on all threads.
struct Failing;

static ARMED: AtomicBool = AtomicBool::new(false);
/// Allocations until the one that fails, and whether those after it do.
static LEFT: AtomicUsize = AtomicUsize::new(0);
static FOR_GOOD: AtomicBool = AtomicBool::new(false);
static HIT: AtomicBool = AtomicBool::new(false);
/// Bytes that were not freed yet.
static LIVING: AtomicI64 = AtomicI64::new(0);

fn fails() -> bool {
    if !ARMED.load(SeqCst) {
        return false;
    }
    let now = LEFT.try_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err();
    let fails = now && (FOR_GOOD.load(SeqCst) || !HIT.load(SeqCst));
    HIT.fetch_or(fails, SeqCst);
    fails
}

// SAFETY: the calls go to the system's allocator or give NULL, as an allocator may; `realloc` and `alloc_zeroed` are made
// of them.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails() {
            return null_mut();
        }
        LIVING.fetch_add(layout.size() as i64, SeqCst);
        // SAFETY: the caller's promise is the one that this call asks for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVING.fetch_sub(layout.size() as i64, SeqCst);
        // SAFETY: the caller's promise is the one that this call asks for.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Reserve<Failing> = Reserve::new(Failing);

/// Which allocation fails.
#[derive(Debug, Clone, Copy)]
struct Fault {
    at: usize,
    for_good: bool,
}

/// Runs `call` with a fault; returns whether the fault was reached.
fn faulty<T>(fault: Option<Fault>, call: impl FnOnce() -> T) -> (T, bool) {
    let Some(Fault { at, for_good }) = fault else { return (call(), false) };
    LEFT.store(at, SeqCst);
    FOR_GOOD.store(for_good, SeqCst);
    HIT.store(false, SeqCst);
    ARMED.store(true, SeqCst);
    let result = call();
    ARMED.store(false, SeqCst);
    (result, HIT.load(SeqCst))
}

/// The outcome of a run: the status of the call that had the fault, whether it was reached, and a number that distinguishes
/// results.
type Outcome = (ember_status, bool, u64);

/// Runs `run`, which frees all that it allocates, with every fault, or with every `stride`th. It may fail with EMBER_E_NOMEM
/// alone, and must if `makes` something that stays.
fn every_fault(what: &str, stride: usize, makes: bool, mut run: impl FnMut(Option<Fault>) -> Outcome) {
    // Objects that are made once and kept: caches, and the data of a thread.
    run(None);
    let (status, _, right) = run(None);
    assert_eq!(status, EMBER_OK, "{what}");
    let mut n_faults = [0; 2];
    for for_good in [false, true] {
        for at in (0..).step_by(stride) {
            let fault = Fault { at, for_good };
            let living = LIVING.load(SeqCst);
            let (status, hit, result) = run(Some(fault));
            if !hit {
                assert!(status == EMBER_OK && result == right, "{what}: {status:?}");
                break;
            }
            n_faults[usize::from(for_good)] += 1;
            match status {
                EMBER_E_NOMEM => {}
                EMBER_OK if !makes => assert_eq!(result, right, "{what}, {fault:?}"),
                _ => panic!("{what}: {status:?}, {fault:?}"),
            }
            // A thread that only begins now frees what it was made with.
            let now = LIVING.load(SeqCst);
            assert!(now <= living, "{what}: {} bytes are left, {fault:?}", now - living);
            assert_eq!(ALLOCATOR.used(), 0, "{what}: the reserve is not whole, {fault:?}");
        }
        let (status, _, result) = run(None);
        assert!(status == EMBER_OK && result == right, "{what}: {status:?} afterwards");
    }
    println!("{what}: {n_faults:?} faults");
}

/// Calls a C function without a place for an error.
macro_rules! c {
    ($function:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: handles that live, and arrays of the lengths that go with them.
        unsafe { capi::$function($($arg,)* null_mut()) }
    };
}

/// Frees a handle.
macro_rules! free {
    ($function:ident($handle:expr)) => {
        // SAFETY: made by Ember, and used no more; NULL is fine.
        unsafe { capi::$function($handle) }
    };
}

fn load(file: &[u8], fault: Option<Fault>) -> (ember_status, bool, *mut ember_model) {
    let mut model = null_mut();
    let (status, hit) =
        faulty(fault, || c!(ember_model_load_buffer(file.as_ptr(), file.len(), null(), &mut model)));
    assert_eq!(status == EMBER_OK, !model.is_null());
    (status, hit, model)
}

fn context(model: *mut ember_model, fault: Option<Fault>) -> (ember_status, bool, *mut ember_context) {
    let (mut options, mut context) = (null_mut(), null_mut());
    assert_eq!(c!(ember_context_options_new(&mut options)), EMBER_OK);
    assert_eq!(c!(ember_context_options_set_n_ctx(options, 64)), EMBER_OK);
    assert_eq!(c!(ember_context_options_set_n_seq(options, 2)), EMBER_OK);
    assert_eq!(c!(ember_context_options_set_n_threads(options, 2)), EMBER_OK);
    let (status, hit) = faulty(fault, || c!(ember_context_new(model, options, &mut context)));
    free!(ember_context_options_free(options));
    assert_eq!(status == EMBER_OK, !context.is_null());
    (status, hit, context)
}

/// A sum in which the order counts.
fn digest<T: Copy>(values: &[T], bits: impl Fn(T) -> u64) -> u64 {
    values.iter().fold(7, |sum: u64, &x| sum.wrapping_mul(0x100_0000_01b3).wrapping_add(bits(x)))
}

const PROMPT: [u32; 5] = [1, 3, 4, 9, 5];

fn decode(context: *mut ember_context) -> ember_status {
    let wants = [1u8; PROMPT.len()];
    c!(ember_context_decode(context, PROMPT.as_ptr(), null(), null(), wants.as_ptr(), PROMPT.len()))
}

/// The logits of all of the prompt.
fn logits(context: *mut ember_context, n_vocab: usize) -> u64 {
    let one = |i: usize| {
        let mut logits = null();
        assert_eq!(c!(ember_context_logits(context, i, &mut logits)), EMBER_OK);
        // SAFETY: so many logits, which stay until the next call.
        digest(unsafe { std::slice::from_raw_parts(logits, n_vocab) }, |x| x.to_bits().into())
    };
    digest(&[0, 1, 2, 3, 4], one)
}

/// Decodes in a context of its own; after a failure once more, in the same.
fn run_decode(model: *mut ember_model, n_vocab: usize, fault: Option<Fault>) -> Outcome {
    let (_, _, context) = context(model, None);
    let (status, hit) = faulty(fault, || decode(context));
    let mut n_past = 0;
    assert_eq!(c!(ember_context_n_past(context, 0, &mut n_past)), EMBER_OK);
    if status != EMBER_OK {
        assert_eq!(n_past, 0, "on any error the sequences are as before");
        assert_eq!(decode(context), EMBER_OK);
    }
    let result = logits(context, n_vocab);
    free!(ember_context_free(context));
    (status, hit, result)
}

/// Adds the tokens of events up; allocates nothing.
unsafe extern "C" fn add_up(event: *const capi::ember_event, sum: *mut c_void) -> i32 {
    // SAFETY: valid during the call.
    let event = unsafe { &*event };
    // SAFETY: the user data is a number of the caller's.
    let sum = unsafe { &mut *sum.cast::<u64>() };
    *sum = sum.wrapping_mul(31).wrapping_add(u64::from(event.token)).wrapping_add(event.text_len as u64);
    0
}

/// Makes a constraint: one of some texts, after a trigger or from the beginning on.
fn run_constraint(model: *mut ember_model, fault: Option<Fault>) -> Outcome {
    let (mut options, mut constraint) = (null_mut(), null_mut());
    assert_eq!(c!(ember_constraint_options_new(&mut options)), EMBER_OK);
    assert_eq!(c!(ember_constraint_options_add_trigger_text(options, c"a".as_ptr(), 1)), EMBER_OK);
    let texts = [c"ab cd".as_ptr(), c"abcd".as_ptr()];
    let (status, hit) = faulty(fault, || {
        c!(ember_constraint_new_choices(model, texts.as_ptr(), null(), 2, options, &mut constraint))
    });
    assert_eq!(status == EMBER_OK, !constraint.is_null());
    free!(ember_constraint_free(constraint));
    free!(ember_constraint_options_free(options));
    (status, hit, 0)
}

/// Generates under a constraint, in a context of its own.
fn run_constrained(model: *mut ember_model, fault: Option<Fault>) -> Outcome {
    let (_, _, context) = context(model, None);
    let (mut options, mut constraint) = (null_mut(), null_mut());
    let texts = [c"ab cd".as_ptr(), c"abcd".as_ptr(), c"d".as_ptr()];
    assert_eq!(
        c!(ember_constraint_new_choices(model, texts.as_ptr(), null(), 3, null(), &mut constraint)),
        EMBER_OK
    );
    assert_eq!(c!(ember_generate_options_new(&mut options)), EMBER_OK);
    assert_eq!(c!(ember_generate_options_set_constraint(options, constraint)), EMBER_OK);
    free!(ember_constraint_free(constraint));
    let generate = |fault| {
        let mut sum = 0u64;
        let data = (&raw mut sum).cast();
        let (status, hit) = faulty(fault, || {
            let (text, callback) = (c"a ab".as_ptr(), Some(add_up as _));
            c!(ember_generate(context, text, 4, options, null_mut(), callback, data, null_mut()))
        });
        (status, hit, sum)
    };
    let mut outcome = generate(fault);
    if outcome.0 != EMBER_OK {
        assert_eq!(c!(ember_context_rewind(context, 0, 0)), EMBER_OK);
        let (status, _, sum) = generate(None);
        assert_eq!(status, EMBER_OK);
        outcome.2 = sum;
    }
    free!(ember_generate_options_free(options));
    free!(ember_context_free(context));
    outcome
}

/// Generates with stop strings, log-probabilities and a chain of stages; after a failure once more, in the same context.
fn run_generate(model: *mut ember_model, fault: Option<Fault>) -> Outcome {
    let (_, _, context) = context(model, None);
    let (mut options, mut sampler) = (null_mut(), null_mut());
    assert_eq!(c!(ember_generate_options_new(&mut options)), EMBER_OK);
    assert_eq!(c!(ember_generate_options_set_max_tokens(options, 6)), EMBER_OK);
    assert_eq!(c!(ember_generate_options_set_ignore_eog(options, true)), EMBER_OK);
    assert_eq!(c!(ember_generate_options_add_stop(options, c"zz".as_ptr(), 2)), EMBER_OK);
    assert_eq!(c!(ember_generate_options_set_n_top(options, 3)), EMBER_OK);
    let mut generate = |fault| {
        assert_eq!(c!(ember_sampler_new(7, &mut sampler)), EMBER_OK);
        assert_eq!(c!(ember_sampler_add_penalties(sampler, 16, 1.1, 0.0, 0.0)), EMBER_OK);
        assert_eq!(c!(ember_sampler_add_top_k(sampler, 5)), EMBER_OK);
        assert_eq!(c!(ember_sampler_add_temperature(sampler, 0.9)), EMBER_OK);
        let mut sum = 0u64;
        let data = (&raw mut sum).cast();
        let (status, hit) = faulty(fault, || {
            let (text, callback) = (c"a ab".as_ptr(), Some(add_up as _));
            c!(ember_generate(context, text, 4, options, sampler, callback, data, null_mut()))
        });
        free!(ember_sampler_free(sampler));
        (status, hit, sum)
    };
    let mut outcome = generate(fault);
    if outcome.0 != EMBER_OK {
        assert_eq!(c!(ember_context_rewind(context, 0, 0)), EMBER_OK);
        let (status, _, sum) = generate(None);
        assert_eq!(status, EMBER_OK);
        outcome.2 = sum;
    }
    free!(ember_generate_options_free(options));
    free!(ember_context_free(context));
    outcome
}

/// Two completions, and the better of them. A step that fails can be tried again.
fn run_completions(model: *mut ember_model, fault: Option<Fault>) -> Outcome {
    let (_, _, context) = context(model, None);
    let (mut options, mut sampler) = (null_mut(), null_mut());
    assert_eq!(c!(ember_generate_options_new(&mut options)), EMBER_OK);
    assert_eq!(c!(ember_generate_options_set_max_tokens(options, 5)), EMBER_OK);
    assert_eq!(c!(ember_generate_options_set_n_top(options, 3)), EMBER_OK);
    assert_eq!(c!(ember_generate_options_set_echo(options, true)), EMBER_OK);
    assert_eq!(c!(ember_sampler_new(7, &mut sampler)), EMBER_OK);
    assert_eq!(c!(ember_sampler_add_penalties(sampler, 16, 1.1, 0.0, 0.0)), EMBER_OK);
    assert_eq!(c!(ember_sampler_add_temperature(sampler, 1.5)), EMBER_OK);
    let (mut completions, mut sum) = (null_mut(), 0u64);
    let take_all = |completions, sum: &mut u64| {
        // SAFETY: a struct of numbers and pointers.
        let mut event: capi::ember_event = unsafe { std::mem::zeroed() };
        let (mut index, mut order, mut n) = (0, [9u32; 2], 0);
        event.struct_size = size_of::<capi::ember_event>();
        loop {
            match c!(ember_completions_next(completions, &mut event, &mut index)) {
                EMBER_OK if event.kind == 3 => break,
                EMBER_OK => *sum = digest(&[*sum, u64::from(event.token), u64::from(index)], |x| x),
                status => return status,
            }
        }
        let status = c!(ember_completions_rank(completions, order.as_mut_ptr(), 2, &mut n));
        if status == EMBER_OK {
            *sum = digest(&[*sum, u64::from(order[0]), u64::from(order[1])], |x| x);
        }
        status
    };
    let make = |completions: &mut _| {
        c!(ember_completions_new(context, c"a ab".as_ptr(), 4, 2, options, sampler, completions))
    };
    let (status, hit) = faulty(fault, || match make(&mut completions) {
        EMBER_OK => take_all(completions, &mut sum),
        status => status,
    });
    if status != EMBER_OK {
        assert!(!completions.is_null() || make(&mut completions) == EMBER_OK);
        assert_eq!(take_all(completions, &mut sum), EMBER_OK);
    }
    free!(ember_completions_free(completions));
    free!(ember_sampler_free(sampler));
    free!(ember_generate_options_free(options));
    free!(ember_context_free(context));
    (status, hit, sum)
}

/// Saves a state, and loads it into another context.
fn run_state(model: *mut ember_model, n_vocab: usize, fault: Option<Fault>) -> Outcome {
    let ((_, _, from), (_, _, to)) = (context(model, None), context(model, None));
    assert_eq!(decode(from), EMBER_OK);
    let mut n = 0;
    let _ = c!(ember_context_state_save(from, 0, null_mut(), 0, &mut n));
    let mut state = vec![0; n];
    let (status, hit) = faulty(fault, || {
        match c!(ember_context_state_save(from, 0, state.as_mut_ptr(), state.len(), &mut n)) {
            EMBER_OK => c!(ember_context_state_load(to, 1, state.as_ptr(), state.len())),
            status => status,
        }
    });
    let mut n_past = 0;
    assert_eq!(c!(ember_context_n_past(to, 1, &mut n_past)), EMBER_OK);
    assert_eq!(n_past as usize, if status == EMBER_OK { PROMPT.len() } else { 0 });
    let result = digest(&state, u64::from);
    assert_eq!(logits(from, n_vocab), logits(from, n_vocab));
    free!(ember_context_free(from));
    free!(ember_context_free(to));
    (status, hit, if status == EMBER_OK { result } else { 0 })
}

/// A reply that is read: a thought, text, a call in pieces and a broken one.
fn run_reply(model: *mut ember_model, fault: Option<Fault>) -> Outcome {
    let (mut options, mut parser) = (null_mut(), null_mut());
    let template = c"{# <tool_call> <think> </think> #}".as_ptr();
    let tools = c"[{\"name\": \"f\"}, {\"name\": \"g\"}]".as_ptr();
    let pieces = [
        c"<think>So.</think>Yes: <tool_call>{\"name\": \"f\", \"argu",
        c"ments\": {\"a\": [1, \"b\"]}}</tool_call> <tool_call>x",
    ];
    let mut n_events = 0;
    let (statuses, hit) = faulty(fault, || {
        let mut next = |parser| {
            // SAFETY: all fields may be zero.
            let mut event: capi::ember_chat_event = unsafe { std::mem::zeroed() };
            loop {
                event.struct_size = std::mem::size_of_val(&event);
                let status = c!(ember_chat_parser_next(parser, &mut event));
                if status != EMBER_OK || event.kind == 0 {
                    break status;
                }
                n_events += 1;
            }
        };
        [
            c!(ember_chat_options_new(&mut options)),
            c!(ember_chat_options_set_template(options, template, usize::MAX)),
            c!(ember_chat_options_set_tools(options, tools, usize::MAX)),
            c!(ember_chat_parser_new(model, options, null(), 0, &mut parser)),
            c!(ember_chat_parser_push(parser, pieces[0].as_ptr(), usize::MAX)),
            next(parser),
            c!(ember_chat_parser_push(parser, pieces[1].as_ptr(), usize::MAX)),
            c!(ember_chat_parser_finish(parser, 1)),
            next(parser),
        ]
    });
    free!(ember_chat_parser_free(parser));
    free!(ember_chat_options_free(options));
    let status = statuses.into_iter().find(|s| *s != EMBER_OK).unwrap_or(EMBER_OK);
    (status, hit, n_events)
}

/// Adds the events of a reply up; allocates nothing.
unsafe extern "C" fn add_reply_up(event: *const capi::ember_chat_event, sum: *mut c_void) -> i32 {
    // SAFETY: valid during the call.
    let event = unsafe { &*event };
    // SAFETY: the user data is a number of the caller's.
    let sum = unsafe { &mut *sum.cast::<u64>() };
    *sum = sum.wrapping_mul(31).wrapping_add(event.kind as u64).wrapping_add(event.text_len as u64);
    0
}

/// A conversation: made, sent to until turns have to go, saved, loaded and forked. After a failure it goes on.
fn run_conversation(model: *mut ember_model, fault: Option<Fault>) -> Outcome {
    let (_, _, context) = context(model, None);
    let (mut chat, mut generate) = (null_mut(), null_mut());
    let template =
        c"{% for m in messages %}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}a {% endif %}";
    assert_eq!(c!(ember_chat_options_new(&mut chat)), EMBER_OK);
    assert_eq!(c!(ember_chat_options_set_template(chat, template.as_ptr(), usize::MAX)), EMBER_OK);
    assert_eq!(c!(ember_generate_options_new(&mut generate)), EMBER_OK);
    assert_eq!(c!(ember_generate_options_set_max_tokens(generate, 3)), EMBER_OK);
    let (mut talk, mut loaded, mut fork) = (null_mut(), null_mut(), null_mut());
    let (mut saved, mut messages, mut n, mut n_saved) = (vec![0u8; 1 << 14], vec![0u8; 1 << 14], 0, 0);
    let mut sum = 0u64;
    let data = (&raw mut sum).cast();
    let event = Some(add_reply_up as _);
    let (status, hit) = faulty(fault, || {
        let (chat, generate) = (chat.cast_const(), generate.cast_const());
        let mut status = c!(ember_conversation_new(context, c"ab".as_ptr(), 2, chat, generate, &mut talk));
        for text in [c"a b", c"b", c"a b a b a b a b a b a b a b"] {
            if status == EMBER_OK {
                let (text, none) = (text.as_ptr(), null_mut());
                status = c!(ember_conversation_send(talk, text, usize::MAX, none, event, data, null_mut()));
            }
        }
        if status == EMBER_OK {
            status = c!(ember_conversation_save(talk, saved.as_mut_ptr(), saved.len(), &mut n_saved));
        }
        if status == EMBER_OK {
            let saved = saved.as_ptr();
            status = c!(ember_conversation_load(context, saved, n_saved, chat, generate, &mut loaded));
        }
        if status == EMBER_OK {
            status = c!(ember_conversation_fork(talk, 1, &mut fork));
        }
        if status == EMBER_OK {
            let none = null_mut();
            status = c!(ember_conversation_send(fork, c"a".as_ptr(), 1, none, event, data, null_mut()));
        }
        if status == EMBER_OK {
            status = c!(ember_conversation_messages(fork, messages.as_mut_ptr(), messages.len(), &mut n));
        }
        status
    });
    let result = sum.wrapping_add(digest(&messages[..n], u64::from)).wrapping_add(n_saved as u64);
    // A user's message stays where the reply to it failed; there is no turn to take back where none came so far.
    if status != EMBER_OK && !talk.is_null() {
        assert_eq!(c!(ember_conversation_abandon(talk)), EMBER_OK);
        let none = null_mut();
        assert_eq!(
            c!(ember_conversation_send(talk, c"b".as_ptr(), 1, none, event, data, null_mut())),
            EMBER_OK
        );
        assert_eq!(
            c!(ember_conversation_save(talk, saved.as_mut_ptr(), saved.len(), &mut n_saved)),
            EMBER_OK
        );
    }
    free!(ember_conversation_free(fork));
    free!(ember_conversation_free(loaded));
    free!(ember_conversation_free(talk));
    free!(ember_generate_options_free(generate));
    free!(ember_chat_options_free(chat));
    free!(ember_context_free(context));
    (status, hit, if status == EMBER_OK { result } else { 0 })
}

/// Tokens of a text, a conversation's text, embeddings and scores: the functions that return numbers or text.
fn run_texts(model: *mut ember_model, fault: Option<Fault>) -> Outcome {
    let (_, _, context) = context(model, None);
    let messages = br#"[{"role":"user","content":"ab"}]"#;
    let (mut ids, mut text) = ([0u32; 64], [0u8; 256]);
    let (mut vectors, mut scores) =
        ([0f32; 512], [capi::ember_token_score { token: 0, logprob: 0.0, rank: 0 }; 64]);
    let (statuses, hit) = faulty(fault, || {
        let (mut n_ids, mut n_text, mut n) = (0, 0, 0);
        let (from, prompt) = (c"a b abcd".as_ptr(), PROMPT.as_ptr());
        let lengths = [2usize, 3];
        [
            c!(ember_model_tokenize(model, from, 8, true, true, ids.as_mut_ptr(), 64, &mut n_ids)),
            match c!(ember_chat_apply_template(
                model,
                messages.as_ptr().cast(),
                messages.len(),
                null(),
                text.as_mut_ptr(),
                256,
                &mut n_text
            )) {
                EMBER_E_UNSUPPORTED => EMBER_OK, // the bundled model has no template
                status => status,
            },
            c!(ember_embed_tokens(
                context,
                prompt,
                5,
                lengths.as_ptr(),
                2,
                null(),
                vectors.as_mut_ptr(),
                512,
                &mut n
            )),
            c!(ember_score_tokens(
                context,
                prompt,
                5,
                1,
                null(),
                scores.as_mut_ptr(),
                64,
                &mut n,
                null_mut()
            )),
        ]
    });
    free!(ember_context_free(context));
    let status = statuses.into_iter().find(|&status| status != EMBER_OK).unwrap_or(EMBER_OK);
    let sums = [
        digest(&ids, u64::from),
        digest(&text, u64::from),
        digest(&vectors, |x| x.to_bits().into()),
        digest(&scores, |score| u64::from(score.rank) << 32 | u64::from(score.logprob.to_bits())),
    ];
    (status, hit, digest(&sums, |sum| sum))
}

/// Runs all of that with one model. Loading has most of the allocations, so only every `stride`th of them fails.
fn every_fault_of(name: &str, file: &[u8], stride: usize) {
    every_fault(&format!("{name}: load"), stride, true, |fault| {
        let (status, hit, model) = load(file, fault);
        free!(ember_model_release(model));
        (status, hit, 0)
    });
    let (_, _, model) = load(file, None);
    let mut info = capi::ember_model_info {
        struct_size: size_of::<capi::ember_model_info>(),
        // SAFETY: a struct of numbers.
        ..unsafe { std::mem::zeroed() }
    };
    assert_eq!(c!(ember_model_info_get(model, &mut info)), EMBER_OK);
    let n_vocab = info.n_vocab as usize;
    every_fault(&format!("{name}: new context"), 1, true, |fault| {
        let (status, hit, context) = context(model, fault);
        free!(ember_context_free(context));
        (status, hit, 0)
    });
    every_fault(&format!("{name}: decode"), 1, false, |fault| run_decode(model, n_vocab, fault));
    every_fault(&format!("{name}: generate"), 1, false, |fault| run_generate(model, fault));
    every_fault(&format!("{name}: completions"), 1, false, |fault| run_completions(model, fault));
    every_fault(&format!("{name}: constraint"), 3, true, |fault| run_constraint(model, fault));
    every_fault(&format!("{name}: constrained"), 3, false, |fault| run_constrained(model, fault));
    every_fault(&format!("{name}: state"), 1, false, |fault| run_state(model, n_vocab, fault));
    every_fault(&format!("{name}: texts"), 1, false, |fault| run_texts(model, fault));
    every_fault(&format!("{name}: reply"), 199, false, |fault| run_reply(model, fault));
    every_fault(&format!("{name}: conversation"), 10 + stride / 5, false, |fault| {
        run_conversation(model, fault)
    });
    free!(ember_model_release(model));
}

/// A tokenizer of its own, a prompt for a gap, and a sampler with the stages that allocate; of a file whose keys name the marks.
fn every_fault_of_tokenizers(file: &[u8], stride: usize) {
    every_fault("tokenizer: load", stride, true, |fault| {
        let mut tokenizer = null_mut();
        let (status, hit) =
            faulty(fault, || c!(ember_tokenizer_load_buffer(file.as_ptr(), file.len(), &mut tokenizer)));
        free!(ember_tokenizer_release(tokenizer));
        (status, hit, 0)
    });
    let (mut options, mut model) = (null_mut(), null_mut());
    assert_eq!(c!(ember_model_options_new(&mut options)), EMBER_OK);
    for (key, token) in [("fim_pre", 5), ("fim_suf", 6), ("fim_mid", 7), ("fim_sep", 8)] {
        let key = format!("tokenizer.ggml.{key}_token_id");
        let (key, len) = (key.as_ptr().cast(), key.len());
        assert_eq!(c!(ember_model_options_set_meta_i64(options, key, len, token)), EMBER_OK);
    }
    let key = "general.sampling.temp";
    assert_eq!(c!(ember_model_options_set_meta_f64(options, key.as_ptr().cast(), key.len(), 0.5)), EMBER_OK);
    assert_eq!(c!(ember_model_load_buffer(file.as_ptr(), file.len(), options, &mut model)), EMBER_OK);
    free!(ember_model_options_free(options));
    every_fault("tokenizer: a gap", 1, false, |fault| {
        let (mut tokenizer, mut fim, mut ids, mut n) = (null_mut(), null_mut(), [0u32; 64], 0);
        let text = c"the sea".as_ptr();
        let (status, hit) = faulty(fault, || {
            let statuses = [
                c!(ember_model_tokenizer(model, &mut tokenizer)),
                c!(ember_fim_options_new(&mut fim)),
                c!(ember_fim_options_set_file(fim, text, 7)),
                c!(ember_fim_options_add_file(fim, text, 7, text, 7)),
                c!(ember_tokenizer_fim_prompt(
                    tokenizer,
                    text,
                    7,
                    text,
                    7,
                    fim,
                    ids.as_mut_ptr(),
                    64,
                    &mut n
                )),
            ];
            // The first failure counts: later calls fail because their arguments could not be made.
            statuses.into_iter().find(|&status| status != EMBER_OK).unwrap_or(EMBER_OK)
        });
        free!(ember_fim_options_free(fim));
        free!(ember_tokenizer_release(tokenizer));
        (status, hit, if status == EMBER_OK { digest(&ids, u64::from) } else { 0 })
    });
    every_fault("sampler: proposed", 1, true, |fault| {
        let mut sampler = null_mut();
        let (status, hit) = faulty(fault, || match c!(ember_model_sampler(model, 1, &mut sampler)) {
            EMBER_OK => c!(ember_sampler_add_infill(sampler, model)),
            status => status,
        });
        free!(ember_sampler_free(sampler));
        (status, hit, 0)
    });
    let logits: Vec<f32> = (0..300).map(|i| (i * 37 % 101) as f32 / 9.0).collect();
    every_fault("sampler: stages", 1, false, |fault| {
        let (mut sampler, mut tokens) = (null_mut(), [0u32; 3]);
        assert_eq!(c!(ember_sampler_new(3, &mut sampler)), EMBER_OK);
        assert_eq!(c!(ember_sampler_add_top_n_sigma(sampler, 2.0)), EMBER_OK);
        assert_eq!(c!(ember_sampler_add_infill(sampler, model)), EMBER_OK);
        assert_eq!(c!(ember_sampler_add_adaptive_p(sampler, 0.3, 0.5)), EMBER_OK);
        let (status, hit) = faulty(fault, || {
            for token in &mut tokens {
                let status = c!(ember_sampler_sample(sampler, logits.as_ptr(), logits.len(), token));
                if status != EMBER_OK {
                    return status;
                }
            }
            EMBER_OK
        });
        free!(ember_sampler_free(sampler));
        (status, hit, if status == EMBER_OK { digest(&tokens, u64::from) } else { 0 })
    });
    free!(ember_model_release(model));
}

/// Scores of texts and of pairs.
fn every_fault_of_scores(file: &[u8]) {
    let (_, _, model) = load(file, None);
    let (_, _, context) = context(model, None);
    every_fault("rank: scores", 1, false, |fault| {
        let (mut scores, mut n) = ([0f32; 4], 0);
        let texts = [c"the cat".as_ptr(), c"a fish".as_ptr()];
        let (query, lengths) = (c"who".as_ptr(), [7usize, 6]);
        let (from, lengths) = (texts.as_ptr(), lengths.as_ptr());
        let (status, hit) = faulty(fault, || {
            let status =
                c!(ember_classify(context, from, lengths, 2, null(), scores.as_mut_ptr(), 2, &mut n));
            if status != EMBER_OK {
                return status;
            }
            let tail = scores[2..].as_mut_ptr();
            c!(ember_rerank(context, query, 3, from, lengths, 2, null(), tail, 2, &mut n))
        });
        (status, hit, if status == EMBER_OK { digest(&scores, |x| x.to_bits().into()) } else { 0 })
    });
    free!(ember_context_free(context));
    free!(ember_model_release(model));
}

/// A host's allocator, whose user data is the number of blocks that it gives before it has no more.
unsafe extern "C" fn allocate(size: usize, alignment: usize, left: *mut c_void) -> *mut c_void {
    // SAFETY: the test's counter.
    let left = unsafe { &*left.cast::<AtomicUsize>() };
    if left.try_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err() {
        return null_mut();
    }
    let layout = Layout::from_size_align(size, alignment).expect("a size and a power of two");
    // SAFETY: Ember asks for no empty block.
    unsafe { std::alloc::alloc_zeroed(layout) }.cast()
}

unsafe extern "C" fn deallocate(block: *mut c_void, size: usize, alignment: usize, _: *mut c_void) {
    let layout = Layout::from_size_align(size, alignment).expect("what it was allocated with");
    // SAFETY: given by `allocate` for the same numbers.
    unsafe { std::alloc::dealloc(block.cast(), layout) };
}

/// The host's allocator fails at each of its calls, from loading to the end of a generation.
fn every_block_of_the_host(file: &[u8]) {
    let mut statuses = Vec::new();
    for n_blocks in 0.. {
        let living = LIVING.load(SeqCst);
        let left = AtomicUsize::new(n_blocks);
        let (mut options, mut model, mut made) = (null_mut(), null_mut(), null_mut());
        assert_eq!(c!(ember_model_options_new(&mut options)), EMBER_OK);
        let data = (&raw const left).cast_mut().cast();
        let status = c!(ember_model_options_set_allocator(options, Some(allocate), Some(deallocate), data));
        assert_eq!(status, EMBER_OK);
        let mut status = c!(ember_model_load_buffer(file.as_ptr(), file.len(), options, &mut model));
        if status == EMBER_OK {
            (status, _, made) = context(model, None);
        }
        if status == EMBER_OK {
            status = decode(made);
        }
        // More blocks make the same calls work.
        if status == EMBER_E_NOMEM && !made.is_null() {
            left.store(1000, SeqCst);
            assert_eq!(decode(made), EMBER_OK);
        }
        free!(ember_context_free(made));
        free!(ember_model_release(model));
        free!(ember_model_options_free(options));
        if statuses.len() > 3 {
            assert!(LIVING.load(SeqCst) <= living + 256, "{n_blocks} blocks: bytes are left");
        }
        statuses.push(status);
        if status == EMBER_OK {
            break;
        }
        assert_eq!(status, EMBER_E_NOMEM, "{n_blocks} blocks");
    }
    println!("the host's allocator: {} faults", statuses.len() - 1);
    assert!(statuses.len() > 5, "large buffers come from the host");
}

/// Bytes of an argument that is larger than the reserve.
const LARGE: usize = 36 << 20;

/// Calls with large arguments end with a status, not the process, when the system has no memory at all.
fn every_large_argument(file: &[u8]) {
    let (_, _, model) = load(file, None);
    let (_, _, context) = context(model, None);
    // A context whose n_ctx allows a generation of that length.
    let (mut long, mut long_options) = (null_mut(), null_mut());
    assert_eq!(c!(ember_context_options_new(&mut long_options)), EMBER_OK);
    assert_eq!(c!(ember_context_options_set_n_ctx(long_options, LARGE as u32 / 4)), EMBER_OK);
    assert_eq!(c!(ember_context_options_set_kv_limit(long_options, 1 << 20)), EMBER_OK);
    assert_eq!(c!(ember_context_options_set_n_threads(long_options, 1)), EMBER_OK);
    let (_, _, tiny) = load(&tiny::llama(), None);
    assert_eq!(c!(ember_context_new(tiny, long_options, &mut long)), EMBER_OK);
    let (mut generation, mut sampler, mut chat, mut loading) =
        (null_mut(), null_mut(), null_mut(), null_mut());
    assert_eq!(c!(ember_generate_options_new(&mut generation)), EMBER_OK);
    assert_eq!(c!(ember_generate_options_set_max_tokens(generation, u32::MAX)), EMBER_OK);
    assert_eq!(c!(ember_sampler_new(1, &mut sampler)), EMBER_OK);
    assert_eq!(c!(ember_chat_options_new(&mut chat)), EMBER_OK);
    assert_eq!(c!(ember_model_options_new(&mut loading)), EMBER_OK);
    let mut n = 0;
    let token = (0..500).find(|&token| {
        let _ = c!(ember_model_token_bytes(model, token, null_mut(), 0, &mut n));
        n >= 4
    });
    let n_tokens = LARGE / 4;
    let (tokens, token) = (vec![token.expect("a token of four bytes"); n_tokens], PROMPT.as_ptr());
    let lengths: Vec<usize> = (0..LARGE / 16).map(|i| usize::from(i == 0)).collect();
    let (text, logits) = (vec![b'a'; LARGE], vec![0f32; n_tokens]);
    let (ids, text): (_, *const std::ffi::c_char) = (tokens.as_ptr(), text.as_ptr().cast());
    let (mut number, mut generator, mut other, mut chosen) = (0u64, null_mut(), null_mut(), 0);
    let (o, event, none) = (generation, Some(add_up as _), null_mut());
    let data = (&raw mut number).cast();
    // Made once and kept: the data that a thread needs to tokenize.
    let made = c!(ember_score(context, text, 1, text, 9, null(), null_mut(), 0, null_mut(), null_mut()));
    assert_eq!(made, EMBER_OK);
    let check = |what: &str, expected: ember_status, call: &mut dyn FnMut() -> ember_status| {
        let living = LIVING.load(SeqCst);
        let (status, _) = faulty(Some(Fault { at: 0, for_good: true }), call);
        assert_eq!(status, expected, "{what}");
        assert_eq!((LIVING.load(SeqCst), ALLOCATOR.used()), (living, 0), "{what}");
    };
    check("generate_tokens", EMBER_E_CONTEXT_FULL, &mut || {
        c!(ember_generate_tokens(context, ids, n_tokens, o, none, event, data, null_mut()))
    });
    check("generator_new_tokens", EMBER_E_NOMEM, &mut || {
        c!(ember_generator_new_tokens(context, ids, n_tokens, o, none, &mut generator))
    });
    check("generate", EMBER_E_NOMEM, &mut || {
        c!(ember_generate_tokens(long, token, 1, o, none, event, data, null_mut()))
    });
    check("score_tokens", EMBER_E_NOMEM, &mut || {
        c!(ember_score_tokens(context, ids, n_tokens, 5, null(), null_mut(), 0, null_mut(), null_mut()))
    });
    check("score", EMBER_E_NOMEM, &mut || {
        c!(ember_score(context, text, 1, text, LARGE, null(), null_mut(), 0, null_mut(), null_mut()))
    });
    check("embed_tokens", EMBER_E_NOMEM, &mut || {
        let n_texts = lengths.len();
        c!(ember_embed_tokens(context, token, 1, lengths.as_ptr(), n_texts, null(), null_mut(), 0, &mut n))
    });
    check("detokenize", EMBER_E_NOMEM, &mut || {
        c!(ember_model_detokenize(model, ids, n_tokens, true, null_mut(), 0, &mut n))
    });
    check("sample", EMBER_E_NOMEM, &mut || {
        c!(ember_sampler_sample(sampler, logits.as_ptr(), n_tokens, &mut chosen))
    });
    check("add_dry", EMBER_E_NOMEM, &mut || {
        c!(ember_sampler_add_dry(sampler, model, 1.0, 1.0, 2, 64, &text, &LARGE, 1))
    });
    check("add_penalties", EMBER_E_NOMEM, &mut || {
        c!(ember_sampler_add_penalties(sampler, 1 << 20, 1.1, 0.0, 0.0))
    });
    check("add_dry, with a long memory", EMBER_E_NOMEM, &mut || {
        c!(ember_sampler_add_dry(sampler, model, 1.0, 1.0, 2, 1 << 20, null(), null(), 0))
    });
    assert_eq!(c!(ember_sampler_add_penalties(sampler, 1 << 20, 1.1, 0.0, 0.0)), EMBER_OK);
    let mut copy = null_mut();
    check("clone", EMBER_E_NOMEM, &mut || c!(ember_sampler_clone(sampler, &mut copy)));
    let (distinct, mut listed): (Vec<u32>, _) = ((0..n_tokens as u32).collect(), null_mut());
    assert_eq!(c!(ember_sampler_new(1, &mut listed)), EMBER_OK);
    assert_eq!(c!(ember_sampler_add_allow(listed, distinct.as_ptr(), n_tokens)), EMBER_OK);
    check("clone, of a long list", EMBER_E_NOMEM, &mut || c!(ember_sampler_clone(listed, &mut copy)));
    check("add_greedy, to a long list", EMBER_E_NOMEM, &mut || c!(ember_sampler_add_greedy(listed)));
    assert!(copy.is_null());
    free!(ember_sampler_free(listed));
    check("template", EMBER_E_NOMEM, &mut || c!(ember_chat_options_set_template(chat, text, LARGE)));
    check("tools", EMBER_E_NOMEM, &mut || c!(ember_chat_options_set_tools(chat, text, LARGE)));
    check("variables", EMBER_E_NOMEM, &mut || c!(ember_chat_options_set_variables(chat, text, LARGE)));
    check("name", EMBER_E_NOMEM, &mut || c!(ember_chat_options_set_template_name(chat, text, LARGE)));
    check("chat_template", EMBER_E_UNSUPPORTED, &mut || {
        c!(ember_model_chat_template(model, text, LARGE, null_mut(), 0, &mut n))
    });
    check("key", EMBER_E_NOT_FOUND, &mut || c!(ember_model_meta_u64(model, text, LARGE, &mut number)));
    check("meta_string", EMBER_E_NOMEM, &mut || {
        c!(ember_model_options_set_meta_string(loading, text, 1, text, LARGE))
    });
    check("meta_i64", EMBER_E_NOMEM, &mut || c!(ember_model_options_set_meta_i64(loading, text, LARGE, 1)));
    check("isa", EMBER_E_INVALID_ARGUMENT, &mut || c!(ember_model_options_set_isa(loading, text, LARGE)));
    check("path of a model", EMBER_E_INVALID_ARGUMENT, &mut || {
        c!(ember_model_load(text, LARGE, null(), &mut other))
    });
    check("path of a state", EMBER_E_INVALID_ARGUMENT, &mut || {
        c!(ember_context_state_save_file(context, 0, text, LARGE))
    });
    assert!(generator.is_null() && other.is_null());
    // An option that was set while there was memory is copied where it is used.
    assert_eq!(c!(ember_chat_options_set_template(chat, text, LARGE)), EMBER_OK);
    check("options of chats", EMBER_E_NOMEM, &mut || {
        c!(ember_chat_apply_template(model, text, 1, chat, null_mut(), 0, &mut n))
    });
    assert_eq!(c!(ember_generate_options_add_stop(o, text, LARGE)), EMBER_OK);
    check("stops", EMBER_E_NOMEM, &mut || {
        c!(ember_generate(context, text, 1, o, none, event, data, null_mut()))
    });
    assert_eq!(c!(ember_model_options_set_meta_string(loading, text, 1, text, LARGE)), EMBER_OK);
    check("options of loading", EMBER_E_NOMEM, &mut || c!(ember_model_load(text, 1, loading, &mut other)));
    free!(ember_model_options_free(loading));
    free!(ember_chat_options_free(chat));
    free!(ember_sampler_free(sampler));
    free!(ember_generate_options_free(generation));
    free!(ember_context_free(long));
    free!(ember_model_release(tiny));
    free!(ember_context_options_free(long_options));
    free!(ember_context_free(context));
    free!(ember_model_release(model));
}

fn bundled() -> Vec<u8> {
    std::fs::read(common::bundled_model()).expect("the bundled model")
}

/// A model that scores texts.
fn ranking() -> Vec<u8> {
    std::fs::read(common::fixture("rank/bert-rerank.gguf")).expect("a fixture")
}

/// One test, so that no other one allocates meanwhile.
#[test]
fn every_allocation_may_fail() {
    every_block_of_the_host(&tiny::llama());
    every_large_argument(&bundled());
    every_fault_of("tiny", &tiny::llama(), 11);
    every_fault_of("bundled", &bundled(), 499);
    every_fault_of_tokenizers(&bundled(), 499);
    every_fault_of_scores(&ranking());
}

/// Takes some minutes: `make alloc-failure`.
#[test]
#[ignore = "the same with every allocation of loading, of which there are thousands"]
fn every_allocation_of_loading_may_fail() {
    every_fault_of("tiny", &tiny::llama(), 1);
    every_fault_of("bundled", &bundled(), 1);
}
