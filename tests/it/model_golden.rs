//! Whole models against PyTorch: the tiny seeded models of `tests/fixtures/models`, whose expected logits,
//! or hidden states where they are encoders, `transformers` computed in float32 on the (dequantized) weights; see
//! `tests/oracle/make_fixtures.py`. And quantized ones beside llama.cpp, in their distance from float32.
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]

use crate::common;

use std::sync::Arc;

use common::parts::Parts;
use common::{
    all_hidden, all_logits, argmax, context, fixture, ids, load, read_f32s, read_json, relative_rms,
};
use ember::backend::KvType;
use ember::context::{BackendKind, ContextOptions};
use ember::gguf::Gguf;
use ember::kernels::{Kernels, Wide};
use ember::model::{LoadOptions, LoadedModel, Pack};
use ember::quant::{Dot, Format};

/// Largest relative RMS error where activations stay f32: files in F32, F16, BF16 and the formats whose dot product
/// dequantizes a row.
const TOLERANCE_FLOAT: f64 = 1e-4;
/// The same where F16 and BF16 weights are multiplied as 16-bit integers, as most instruction sets do with those that are
/// packed: several times less than llama.cpp's error, which is 5e-4 to 7e-3 (see below).
const TOLERANCE_WIDE: f64 = 3e-4;
/// The same where activations are rounded to 8 bits, as a multiple of llama.cpp's error over many prompts. It is there for
/// sanity alone: the error of one prompt is a matter of chance (a standard deviation of 10 % on the narrow files), and
/// the comparison that counts is the one over many prompts below.
const SANITY: f64 = 1.5;

struct Case {
    name: String,
    tokens: Vec<u32>,
    /// `[tokens, width]`.
    expected: Vec<f32>,
    width: usize,
    /// Whether the expected numbers are hidden states.
    hidden: bool,
    /// The formats of the file's tensors, each once.
    formats: Vec<Format>,
}

impl Case {
    fn load(&self) -> Arc<LoadedModel> {
        load(&fixture(&format!("models/{}.gguf", self.name)))
    }

    /// The file with all its tensors in F32.
    fn load_dequantized(&self) -> Arc<LoadedModel> {
        let bytes = Parts::of(&self.name).dequantized().bytes();
        Arc::new(LoadedModel::from_bytes(&bytes, &self.name).unwrap_or_else(|e| panic!("{e}")))
    }

    /// Whether it is not in F32.
    fn is_quantized(&self) -> bool {
        self.formats.iter().any(|&format| format != Format::F32)
    }

    /// Whether activations are rounded to 8 bits.
    fn rounds_activations(&self) -> bool {
        self.formats.iter().any(|format| matches!(format.info().dot, Dot::Q8(_)))
    }

    /// Whether activations are rounded to 16 bits on `backend` of this machine.
    fn is_wide(&self, backend: BackendKind) -> bool {
        let wide = wide();
        let is_wide = |&format: &Format| wide.is_some_and(|wide| wide.packing(format).is_some());
        backend == BackendKind::Auto && self.formats.iter().any(is_wide)
    }

    /// What the model gives for every token of the prompt.
    fn run(&self, model: &Arc<LoadedModel>, backend: BackendKind, n_threads: usize) -> Vec<f32> {
        self.run_on(&self.tokens, model, backend, n_threads)
    }

    /// What the model gives for every one of `tokens`.
    fn run_on(
        &self,
        tokens: &[u32],
        model: &Arc<LoadedModel>,
        backend: BackendKind,
        n_threads: usize,
    ) -> Vec<f32> {
        // A context as long as the prompt: LongRoPE's factors depend on it, and PyTorch chooses them by the prompt.
        let n_ctx = tokens.len();
        let (k_type, v_type) = (Some(KvType::F32), Some(KvType::F32));
        let options =
            ContextOptions { n_ctx, k_type, v_type, backend, n_threads, ..ContextOptions::default() };
        let mut context = context(model, &options);
        match self.hidden {
            true => all_hidden(&mut context, tokens),
            false => all_logits(&mut context, tokens),
        }
    }
}

fn cases() -> Vec<Case> {
    let dir = fixture("models");
    let mut names: Vec<String> = std::fs::read_dir(&dir)
        .expect("fixtures")
        .filter_map(|e| {
            e.expect("entry").file_name().into_string().ok()?.strip_suffix(".gguf").map(str::to_owned)
        })
        .collect();
    names.sort();
    assert!(names.len() >= 15, "every fixture is there");
    let case = |name: String| {
        let json = read_json(&dir.join(format!("{name}.json")));
        let hidden = json["output"] == "hidden";
        let (numbers, width) = if hidden { ("embd", "n_embd") } else { ("logits", "n_vocab") };
        let expected = read_f32s(&dir.join(format!("{name}.{numbers}.f32")));
        let width = json[width].as_u64().expect("the width of a row") as usize;
        let tokens = ids(&json["tokens"]);
        let n_text = json["n_text"].as_u64().unwrap_or(0) as usize;
        assert_eq!(expected.len(), (tokens.len() - n_text) * width);
        let mut formats = Vec::new();
        for tensor in Gguf::open(&dir.join(format!("{name}.gguf"))).expect("a fixture").tensors() {
            let format = Format::from_tensor_type(tensor.ty).expect("a format that Ember runs");
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
        Case { name, tokens, expected, width, hidden, formats }
    };
    names.into_iter().map(case).collect()
}

/// What `tests/oracle/format_errors.py` recorded of llama.cpp on the files that are not in F32.
struct LlamaCpp {
    /// The remainders by the size of the vocabulary are the tokens.
    prompts: Vec<Vec<u32>>,
    /// By name and settings.
    errors: serde_json::Value,
}

impl LlamaCpp {
    fn read() -> LlamaCpp {
        let mut json = read_json(&fixture("models/llamacpp_errors.json"));
        let prompts = json["prompts"].as_array().expect("prompts").iter().map(ids).collect();
        LlamaCpp { prompts, errors: json["errors"].take() }
    }

    /// The relative RMS error over the file's prompts in llama.cpp's default settings.
    fn error(&self, name: &str) -> f64 {
        self.errors[name]["repack"].as_f64().unwrap_or_else(|| panic!("no error of llama.cpp on {name}"))
    }

    /// The tokens of the file's prompts.
    fn prompts(&self, case: &Case) -> Vec<Vec<u32>> {
        let n = self.errors[&case.name]["n_prompts"].as_u64().expect("a number of prompts") as usize;
        let n_vocab = case.width as u32;
        self.prompts[..n].iter().map(|p| p.iter().map(|x| x % n_vocab).collect()).collect()
    }
}

/// How the level in force multiplies with F16 and BF16 weights, if not in f32.
fn wide() -> Option<&'static Wide> {
    Kernels::for_model(None).expect("a level").wide
}

/// The definition, and the fast kernels of this machine.
const BACKENDS: [BackendKind; 2] = [BackendKind::Scalar, BackendKind::Auto];

#[test]
fn models_agree_with_pytorch_at_every_position() {
    let llama_cpp = LlamaCpp::read();
    for (case, backend) in cases().iter().flat_map(|case| BACKENDS.map(|b| (case, b))) {
        let found = case.run(&case.load(), backend, 1);
        let error = relative_rms(&found, &case.expected);
        let tolerance = match case.rounds_activations() {
            true => SANITY * llama_cpp.error(&case.name),
            false if case.is_wide(backend) => TOLERANCE_WIDE,
            false => TOLERANCE_FLOAT,
        };
        println!("{:24} {backend:?}: relative RMS error {error:.3e} (at most {tolerance:.3e})", case.name);
        assert!(error <= tolerance, "{}: {error:.3e}", case.name);
        let rows = found.chunks(case.width).zip(case.expected.chunks(case.width));
        for (i, (row, expected)) in rows.enumerate() {
            let (got, want) = (argmax(row), argmax(expected));
            let scale = expected.iter().map(|x| x.abs()).fold(0.0, f32::max);
            let gap = expected[want] - expected[got];
            assert!(
                gap <= 4.0 * tolerance as f32 * scale,
                "{}, position {i}: {got} instead of {want}",
                case.name
            );
        }
    }
}

/// Largest relative RMS difference in float32 between Ember and PyTorch, and between Ember's backends.
const FLOAT_ORDER: f64 = 5e-6;

/// The error is the relative RMS one over all logits of many prompts: its ratio to llama.cpp's has a standard deviation
/// of up to 6 % from prompt to prompt, which leaves less than 1 % over all of them. It is that against Ember's own
/// float32 numbers of the dequantized file, which have to be PyTorch's on the recorded prompt. Where activations stay f32
/// the error is less than a thousandth of llama.cpp's, where they are rounded to 16 bits a seventh at most, and one prompt shows it.
#[test]
fn quantized_files_are_no_further_from_float32_than_llama_cpp() {
    let llama_cpp = LlamaCpp::read();
    let cases: Vec<Case> = cases().into_iter().filter(Case::is_quantized).collect();
    let recorded = llama_cpp.errors.as_object().expect("errors by name").keys();
    assert!(
        recorded.eq(cases.iter().map(|case| &case.name)),
        "every quantized file is recorded, and no other"
    );
    for case in &cases {
        let exact = case.load_dequantized();
        let error = relative_rms(&case.run(&exact, BackendKind::Auto, 1), &case.expected);
        assert!(error <= FLOAT_ORDER, "{} in F32 and PyTorch: {error:.2e}", case.name);

        let mut prompts = llama_cpp.prompts(case);
        if !case.rounds_activations() {
            prompts.truncate(1);
        }
        let run = |model: &Arc<LoadedModel>, backend: BackendKind| -> Vec<f32> {
            prompts.iter().flat_map(|tokens| case.run_on(tokens, model, backend, 1)).collect()
        };
        let (expected, model) = (run(&exact, BackendKind::Auto), case.load());
        for backend in BACKENDS {
            let error = relative_rms(&run(&model, backend), &expected);
            let most = llama_cpp.error(&case.name);
            println!(
                "{:16} {backend:?}: {error:.2e}, {:.3} of llama.cpp's {most:.2e}",
                case.name,
                error / most
            );
            assert!(error <= most, "{}, {backend:?}: {error:.3e}, llama.cpp {most:.3e}", case.name);
        }
    }
}

/// Largest relative RMS difference between the threaded backend and the scalar one on quantized files: their sums run
/// in different orders, and the last bit of one may round an activation of the next layer to another of its 255 steps.
const ROUNDINGS: f64 = 2e-2;

#[test]
fn threads_agree_with_scalar_and_with_each_other_bit_by_bit() {
    for case in cases() {
        let model = case.load();
        let scalar = case.run(&model, BackendKind::Scalar, 1);
        let one = case.run(&model, BackendKind::Auto, 1);
        let tolerance = match case.rounds_activations() {
            true => ROUNDINGS,
            false if case.is_wide(BackendKind::Auto) => TOLERANCE_WIDE,
            false => FLOAT_ORDER,
        };
        let error = relative_rms(&one, &scalar);
        assert!(error <= tolerance, "{}: threaded against scalar {error:.2e}", case.name);
        for n_threads in [2, 7] {
            let many = case.run(&model, BackendKind::Auto, n_threads);
            assert!(many == one, "{}: {n_threads} threads and 1 differ", case.name);
        }
    }
}

#[test]
fn numbers_of_16_bits_that_are_not_packed_are_multiplied_as_f32() {
    let numbers: Vec<Case> = cases().into_iter().filter(|case| case.is_wide(BackendKind::Auto)).collect();
    assert!(numbers.len() >= 4 || wide().is_none(), "files in F16 and BF16");
    for case in numbers {
        let options = LoadOptions { pack: Pack::Never, ..LoadOptions::default() };
        let path = fixture(&format!("models/{}.gguf", case.name));
        let model = Arc::new(LoadedModel::open(&path, &options).unwrap_or_else(|e| panic!("{e}")));
        let [scalar, auto] = BACKENDS.map(|backend| case.run(&model, backend, 1));
        for (found, other) in [(&auto, &case.expected), (&auto, &scalar)] {
            let error = relative_rms(found, other);
            assert!(error <= FLOAT_ORDER, "{}: {error:.2e}", case.name);
        }
    }
}
