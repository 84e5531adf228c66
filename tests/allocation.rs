//! A binary of its own: it has the process's allocator, which counts. It has no test harness, whose thread allocates when it likes.
//!
//! After the first decode at a given size, decoding and sampling allocate nothing, on any thread, nor do the steps of a
//! generator after its first; embedding allocates what it returns.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_char;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use common::{bundled_model, context, fixture, load};
use ember::arch::ModelInfo;
use ember::backend::{KvHeads, KvType};
use ember::capi;
use ember::context::{BackendKind, Context, ContextOptions, EmbedOptions, Tokens};
use ember::error::ember_status;
use ember::generate::{Completions, EventKind, GenerateOptions, Generator, Prompt};
use ember::nn::pooling::Pooling;
use ember::sampler::{Penalties, Sampler, Stage};

/// The system's allocator, counting the allocations of all threads while counting is on.
struct Counting;

static COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: both calls go to the system's allocator unchanged; `realloc` and `alloc_zeroed` are made of them.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTING.load(SeqCst) {
            ALLOCATIONS.fetch_add(1, SeqCst);
        }
        // SAFETY: the caller's promise is the one that this call asks for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the one that this call asks for.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often `f` allocates.
fn allocations(f: impl FnOnce()) -> usize {
    ALLOCATIONS.store(0, SeqCst);
    COUNTING.store(true, SeqCst);
    f();
    COUNTING.store(false, SeqCst);
    ALLOCATIONS.load(SeqCst)
}

/// Decodes that are counted: more than one page of the KV cache.
const N: usize = 64;
const N_CTX: usize = N + 1;

/// The positions of contexts: as many as a model was trained on, or [`N_CTX`].
fn positions(info: &ModelInfo) -> usize {
    N_CTX.min(info.n_ctx_train)
}

fn models() -> Vec<PathBuf> {
    let fixtures = [
        "lfm2",
        "qwen35",
        "granitehybrid",
        "nemotron-h-moe",
        "mamba-norms",
        "rwkv7",
        "gpt-oss",
        "gemma3n",
        "gemma4-shared",
        "gemma4-experts",
        "deepseek2-groups",
        "gpt2-quant-f16",
        "gpt2-untied",
        "t5",
        "t5-each",
        "llama-tied-f32",
        "llama-tied-q4_0",
        "llama-tied-q8_0",
    ];
    let mut models: Vec<PathBuf> = fixtures.iter().map(|m| fixture(&format!("models/{m}.gguf"))).collect();
    models.push(bundled_model());
    models
}

/// What keys and values can be rounded to in heads of these lengths.
fn kv_types(layers: &[KvHeads]) -> impl Iterator<Item = (KvType, KvType)> {
    let f16 = KvType::F16;
    let all = [(f16, f16), (KvType::F32, KvType::F32), (KvType::Q8_0, f16), (KvType::I16, KvType::I16)];
    all.into_iter().filter(|(k, v)| layers.iter().all(|heads| heads.takes(*k) && heads.takes(*v)))
}

fn samplers() -> [Sampler; 4] {
    let mut greedy = Sampler::new(0);
    greedy.push(Stage::Greedy).expect("valid");
    let chain = |stages: &[Stage]| {
        let mut chain = Sampler::new(1);
        stages.iter().for_each(|stage| chain.push(stage.clone()).expect("valid"));
        chain
    };
    let penalties = Penalties { last_n: 32, repeat: 1.1, frequency: 0.1, presence: 0.1 };
    [
        greedy,
        chain(&[Stage::TopK(20), Stage::TopP(0.9), Stage::Temperature(0.7)]),
        chain(&[Stage::Penalties(penalties), Stage::TopK(20), Stage::Temperature(2.0), Stage::MinP(0.1)]),
        chain(&[Stage::TopP(0.999), Stage::TypicalP(0.9)]),
    ]
}

/// What an encoder reads, if the model has one before its decoder.
const TEXT: [u32; 20] = [7; 20];

/// Has the encoder read it. The token that an answer begins with, or one that any text may begin with.
fn begin(context: &mut Context) -> u32 {
    match context.model().info().decoder_start {
        None => 1,
        Some(start) => {
            context.decode(Tokens { outputs: Some(&[false; 20]), ..Tokens::next(&TEXT) }).expect("room");
            start
        }
    }
}

fn step(context: &mut Context, sampler: &mut Sampler, token: u32) -> u32 {
    context.decode(Tokens::next(&[token])).expect("free pages");
    sampler.sample(context.end_logits(0).expect("asked for")).expect("finite")
}

fn check_rust(path: &std::path::Path) {
    let model = load(path);
    // Learned positions limit the fixtures to 64.
    let n = N.min(positions(model.info()) - 1);
    for backend in [BackendKind::Auto, BackendKind::Scalar] {
        for n_threads in [1, 2] {
            for (k_type, v_type) in kv_types(&common::kv_layers(&model)) {
                let options = ContextOptions {
                    n_ctx: n + 1 + model.info().decoder_start.map_or(0, |_| TEXT.len()),
                    backend,
                    n_threads,
                    k_type: Some(k_type),
                    v_type: Some(v_type),
                    ..ContextOptions::default()
                };
                let mut context = context(&model, &options);
                begin(&mut context);
                for mut sampler in samplers() {
                    // Rewinding, and an encoder reading another text of the same length. With keys and values in f32, rows of F32
                    // weights are multiplied by `matrixmultiply`, which allocates what it packs.
                    let mut token = 1;
                    let count = allocations(|| {
                        context.rewind(0, 0).expect("a sequence");
                        token = begin(&mut context);
                    });
                    if k_type != KvType::F32 || model.info().decoder_start.is_none() {
                        assert_eq!(count, 0, "{}: {options:?}, rewinding", path.display());
                    }
                    token = step(&mut context, &mut sampler, token);
                    let count = allocations(|| {
                        for _ in 0..n {
                            token = step(&mut context, &mut sampler, token);
                        }
                    });
                    assert_eq!(count, 0, "{}: {options:?}, {:?}", path.display(), sampler.stages());
                }
            }
        }
    }
}

/// Steps of a generator with all that its events can report.
fn check_generator(path: &std::path::Path) {
    let model = load(path);
    let n = N.min(positions(model.info()) - 2);
    let stops = match model.tokenizer() {
        Ok(_) => vec!["\u{fffd}no such text".to_owned(), "aaaaaaaaab".to_owned()],
        Err(_) => Vec::new(),
    };
    for mut sampler in samplers() {
        for n_top in [0, 8] {
            let mut context = context(&model, &ContextOptions { n_threads: 2, ..ContextOptions::default() });
            let options = GenerateOptions {
                max_tokens: n,
                ignore_eog: true,
                stops: stops.clone(),
                logprobs: n_top > 0,
                n_top,
                ..GenerateOptions::default()
            };
            let mut generator = Generator::new(&context, &[1u32, 2][..], &options).expect("a generator");
            generator.next(&mut context, &mut sampler).expect("an event");
            let mut ended = false;
            let count = allocations(|| {
                for _ in 0..n {
                    let event = generator.next(&mut context, &mut sampler).expect("an event");
                    ended = matches!(event.kind, EventKind::End(_));
                }
            });
            assert!(ended, "{n} tokens and the end");
            assert_eq!(count, 0, "{} with a generator, {n_top} tops", path.display());
        }
    }
}

/// Steps of three completions of one prompt.
fn check_completions(path: &std::path::Path) {
    let model = load(path);
    let n = N.min(positions(model.info()) - 2);
    for sampler in samplers() {
        let mut context =
            context(&model, &ContextOptions { n_threads: 2, n_seq: 3, ..ContextOptions::default() });
        let options =
            GenerateOptions { max_tokens: n, ignore_eog: true, logprobs: true, ..GenerateOptions::default() };
        let mut completions =
            Completions::new(&context, Prompt::Tokens(&[1, 2]), &options, &sampler, 3).expect("completions");
        for _ in 0..6 {
            completions.next(&mut context).expect("an event");
        }
        let mut n_events = 0;
        let count = allocations(|| {
            while completions.next(&mut context).expect("an event").is_some() {
                n_events += 1;
            }
        });
        assert_eq!(n_events, 3 * (n + 1) - 6, "all tokens and the ends of {}", path.display());
        assert_eq!(count, 0, "{} with completions, {:?}", path.display(), sampler.stages());
    }
}

/// The same through the C functions.
fn check_c(path: &std::path::Path) {
    let ok = |status: ember_status| assert_eq!(status, ember_status::EMBER_OK);
    let path = path.to_str().expect("UTF-8");
    let err = std::ptr::null_mut;
    let (mut model, mut context, mut sampler) =
        (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: every pointer is one the header asks for, here and in the blocks below.
    let status = unsafe {
        capi::ember_model_load(
            path.as_ptr().cast::<c_char>(),
            path.len(),
            std::ptr::null(),
            &mut model,
            err(),
        )
    };
    ok(status);
    // SAFETY: as above.
    ok(unsafe { capi::ember_context_new(model, std::ptr::null(), &mut context, err()) });
    // SAFETY: as above.
    ok(unsafe { capi::ember_sampler_new(7, &mut sampler, err()) });
    // SAFETY: as above.
    ok(unsafe { capi::ember_sampler_add_temperature(sampler, 0.8, err()) });
    let info = load(std::path::Path::new(path)).info().clone();
    let (n_vocab, n) = (info.n_vocab, N.min(positions(&info) - 1));
    let mut token = 1u32;
    if let Some(start) = info.decoder_start {
        // SAFETY: as above.
        let status = unsafe {
            let (null, n) = (std::ptr::null(), TEXT.len());
            capi::ember_context_decode(
                context,
                TEXT.as_ptr(),
                null,
                null,
                [0u8; 20].as_ptr(),
                n,
                std::ptr::null_mut(),
            )
        };
        ok(status);
        token = start;
    }
    let mut step = || {
        // SAFETY: as above.
        let status = unsafe {
            let null = std::ptr::null();
            capi::ember_context_decode(context, &token, null, null, &1u8, 1, std::ptr::null_mut())
        };
        ok(status);
        let mut logits = std::ptr::null();
        // SAFETY: as above.
        ok(unsafe { capi::ember_context_logits(context, 0, &mut logits, err()) });
        // SAFETY: as above; there are `n_vocab` logits.
        ok(unsafe { capi::ember_sampler_sample(sampler, logits, n_vocab, &mut token, err()) });
    };
    step();
    let count = allocations(|| (0..n).for_each(|_| step()));
    assert_eq!(count, 0, "{path} through the C functions");
    // SAFETY: as above.
    ok(unsafe { capi::ember_context_rewind(context, 0, 0, err()) });
    let mut generator = std::ptr::null_mut();
    let prompt = [1u32, 2];
    // SAFETY: as above.
    let status = unsafe {
        let (prompt, options) = (prompt.as_ptr(), std::ptr::null());
        capi::ember_generator_new_tokens(context, prompt, 2, options, sampler, &mut generator, err())
    };
    ok(status);
    // SAFETY: a struct of addresses and numbers, all of which may be zero.
    let mut event: capi::ember_event = unsafe { std::mem::zeroed() };
    event.struct_size = size_of::<capi::ember_event>();
    let mut next = || {
        // SAFETY: as above.
        ok(unsafe { capi::ember_generator_next(generator, &mut event, std::ptr::null_mut()) });
    };
    next();
    let count = allocations(|| (0..n - 2).for_each(|_| next()));
    assert_eq!(count, 0, "{path} with a generator through the C functions");
    // SAFETY: made above, used no more.
    unsafe { capi::ember_generator_free(generator) };
    // SAFETY: as above.
    unsafe { capi::ember_sampler_free(sampler) };
    // SAFETY: as above.
    unsafe { capi::ember_context_free(context) };
    // SAFETY: as above.
    unsafe { capi::ember_model_release(model) };
}

/// Embedding allocates its result.
fn check_embed(path: &std::path::Path) {
    let model = load(path);
    let mut context = context(&model, &ContextOptions { n_threads: 2, ..ContextOptions::default() });
    let texts: [&[u32]; 4] = [&[1; 40], &[2; 7], &[3; 1], &[4; 33]];
    for pooling in [Pooling::None, Pooling::Mean, Pooling::Last] {
        let options = EmbedOptions { pooling: Some(pooling), ..EmbedOptions::default() };
        let mut embed = || drop(context.embed(&texts, &options).expect("embeddings"));
        embed();
        assert_eq!(allocations(embed), 1, "{}, {pooling:?}", path.display());
    }
}

fn main() {
    assert!(allocations(|| drop(std::hint::black_box(vec![1u8]))) > 0, "the counter counts");
    for path in models() {
        check_rust(&path);
        check_generator(&path);
        check_completions(&path);
        check_c(&path);
        if load(&path).info().decoder_start.is_none() {
            check_embed(&path);
        }
    }
    for encoder in ["bert", "nomic-bert"] {
        check_embed(&fixture(&format!("models/{encoder}.gguf")));
    }
}
