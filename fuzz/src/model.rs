//! A damaged model loads or is refused, and what loads runs: a few tokens are decoded, generated, scored and embedded.
//!
//! The first byte of the input names one of the models below, which the rest of it changes (`edit`); after the last of
//! them the rest is a file as it is.

use std::sync::Arc;

use arbitrary::Unstructured;
use ember::backend::KvType;
use ember::context::{BackendKind, Context, ContextOptions, EmbedOptions, ScoreOptions, Tokens};
use ember::generate::{EventKind, GenerateOptions, Generator, Prompt};
use ember::memory::MemoryOptions;
use ember::model::{LoadOptions, LoadedModel, Pack, tokenizer_from_bytes};
use ember::nn::pooling::Pooling;
use ember::sampler::{Sampler, Stage};

use super::{edit, tiny, tokenizer};

macro_rules! fixtures {
    ($($name:literal),* $(,)?) => {
        [$(include_bytes!(concat!("../../tests/fixtures/models/", $name, ".gguf"))),*]
    };
}

/// A model of each architecture and of some number formats, a few layers each.
const BASES: [&[u8]; 52] = fixtures![
    "bert",
    "gemma",
    "gemma2",
    "gemma3-linear",
    "gpt2-quant-q4_0",
    "gpt2-untied",
    "gptneox-parallel",
    "granite",
    "llama-linear-rope-mha",
    "llama-moe-4-2",
    "llama-tied-q4_1",
    "llama-tied-q8_0",
    "llama-window",
    "llama-yarn",
    "nomic-bert",
    "olmo2",
    "phi2",
    "phi2-fused",
    "phi3-longrope-short",
    "phi3-window",
    "quant-iq1_s",
    "quant-tq1_0",
    "qwen2-tied",
    "qwen3moe-8-2",
    "smollm3",
    "stablelm-parallel-qknorm",
    "starcoder2-window",
    "deepseek2-groups",
    "deepseek2-lite",
    "deepseek2-sigmoid",
    "gemma3",
    "gemma3n",
    "gemma4-experts",
    "gemma4-keys",
    "gemma4-shared",
    "gpt-oss",
    "granitehybrid",
    "granitemoe-7-3",
    "lfm2",
    "lfm2moe-7-3",
    "ministral3-stretched",
    "nemotron-h",
    "nemotron-h-moe",
    "qwen2vl",
    "qwen35",
    "qwen35moe-7-3",
    "qwen3next-old",
    "qwen3vl",
    "deepseek2-v3",
    "falcon-h1",
    "mamba2",
    "qwen3vlmoe-7-3",
];

/// The most that the large buffers of a model may take here. The models need less than a thousandth.
const MOST_BYTES: u64 = 64 << 20;

/// Makes the file and runs it.
pub fn run(bytes: &[u8]) {
    let Some((&which, rest)) = bytes.split_first() else { return };
    let base = match usize::from(which) {
        0 => tiny::llama(),
        n if n <= BASES.len() => BASES[n - 1].to_vec(),
        _ => return load(rest, which),
    };
    let mut parts = edit::Parts::of(&base);
    let mut u = Unstructured::new(rest);
    let how = u.arbitrary().unwrap_or(0);
    // Too little input ends the changes, which is fine.
    let _ = parts.edit(&mut u);
    if let Some(file) = parts.bytes() {
        load(&file, how);
    }
}

/// Options by the bits of a number.
pub fn options(how: u8) -> LoadOptions {
    LoadOptions {
        use_mmap: how & 1 == 0,
        pack: [Pack::Auto, Pack::Never, Pack::Always, Pack::Auto][usize::from(how >> 1 & 3)],
        check_tensors: how & 8 != 0,
        memory: MemoryOptions { limit: Some(MOST_BYTES), ..MemoryOptions::default() },
        ..LoadOptions::default()
    }
}

fn load(file: &[u8], how: u8) {
    let alone = tokenizer_from_bytes(file, "fuzz");
    match &alone {
        Ok(alone) => tokenizer::exercise(alone, "The 1st  <s>té".as_bytes()),
        Err(e) => assert!(e.message().starts_with("fuzz"), "{e}"),
    }
    match LoadedModel::from_bytes_with(file, "fuzz", &options(how)) {
        Ok(model) => {
            // The file gives the same tokenizer as the model, without reading the tensors.
            assert_eq!(model.tokenizer().is_ok(), alone.is_ok());
            exercise(&Arc::new(model), how);
        }
        Err(e) => assert!(e.message().starts_with("fuzz"), "{e}"),
    }
}

/// Uses every function of a model.
pub fn exercise(model: &Arc<LoadedModel>, how: u8) {
    if let Ok(tokenizer) = model.tokenizer() {
        tokenizer::exercise(tokenizer, "The 1st  <s>té".as_bytes());
    }
    let info = model.info();
    let kv_type = [KvType::F16, KvType::F32, KvType::Q8_0, KvType::I16][usize::from(how >> 4 & 3)];
    let options = ContextOptions {
        n_ctx: info.n_ctx_max.unwrap_or(40).clamp(1, 40),
        n_seq: 2,
        n_batch: 8,
        n_threads: 1 + usize::from(how >> 6 & 1),
        k_type: Some(kv_type),
        v_type: Some(kv_type),
        backend: if how & 128 == 0 { BackendKind::Auto } else { BackendKind::Scalar },
        ..ContextOptions::default()
    };
    let mut context = match Context::new(model, &options) {
        Ok(context) => context,
        Err(e) => return assert!(!e.message().is_empty()),
    };
    let n_vocab = info.n_vocab as u32;
    let ids: Vec<u32> = (0..11).map(|i| i * 5 % n_vocab).collect();
    let how_to_embed = EmbedOptions::default();
    let n_vectors = if how_to_embed.pooling(info) == Pooling::None { 5 + 6 } else { 2 };
    if let Ok(vectors) = context.embed(&[&ids[..5], &ids[3..9]], &how_to_embed) {
        assert_eq!(vectors.len(), n_vectors * info.n_embd);
    }
    let how_to_score = ScoreOptions { truncate: true, ..ScoreOptions::default() };
    let scored =
        (context.classify(&["a b"], &how_to_score), context.rerank("a", &["b", "a c"], &how_to_score));
    assert!(model.head().is_some() || (scored.0.is_err() && scored.1.is_err()));
    if !info.causal {
        return;
    }
    let wants = [true; 11];
    match context.decode(Tokens { outputs: Some(&wants), ..Tokens::next(&ids) }) {
        Ok(()) => assert_eq!(context.logits(10).map(<[f32]>::len), Ok(info.n_vocab)),
        Err(e) => return assert_eq!(context.n_past(0), Ok(0), "{e}"),
    }
    generate(&mut context, &ids[..3]);
}

fn generate(context: &mut Context, ids: &[u32]) {
    let mut sampler = Sampler::new(1);
    for stage in [Stage::TopK(20), Stage::TopP(0.9), Stage::Temperature(0.7)] {
        sampler.push(stage).expect("valid");
    }
    let has_text = context.model().tokenizer().is_ok();
    let prompt = if has_text { Prompt::Text("a b") } else { Prompt::Tokens(ids) };
    let stops = if has_text { vec!["zz".to_owned(), "the".to_owned()] } else { Vec::new() };
    let options = GenerateOptions {
        max_tokens: 4,
        seq: 1,
        stops,
        logprobs: true,
        n_top: 3,
        echo: true,
        ..Default::default()
    };
    // NaNs end a generation with an error, and so do tokens that the model does not have.
    let Ok(mut generator) = Generator::new(context, prompt, &options) else { return };
    for _ in 0..8 {
        match generator.next(context, &mut sampler) {
            Ok(event) if matches!(event.kind, EventKind::End(_)) => return,
            Ok(_) => {}
            Err(e) => return assert!(!e.message().is_empty()),
        }
    }
    panic!("four tokens, an echo and an end are six events");
}
