//! Every error of a model file has its own sentence, which begins with the file's name and names the culprit.

use crate::common;

use std::path::{Path, PathBuf};

use common::parts::Parts;
use ember::error::ember_status::{self, *};
use ember::gguf::{StringArray, TensorType, Value};
use ember::model::{LoadOptions, LoadedModel};

const NAME: &str = "models/wrong.gguf";

impl Parts {
    fn tokens(self, n: usize) -> Parts {
        let tokens: Vec<String> = (0..n).map(|i| format!("t{i}")).collect();
        self.key("tokenizer.ggml.tokens", StringArray::copy(&tokens).expect("short"))
    }

    /// Loading gives `status` and a sentence with all of `culprits`.
    #[track_caller]
    fn refused(self, status: ember_status, culprits: &[&str]) {
        check(LoadedModel::from_bytes(&self.bytes(), NAME).err(), NAME, status, culprits);
    }
}

#[track_caller]
fn check(error: Option<ember::error::Error>, name: &str, status: ember_status, culprits: &[&str]) {
    let Some(error) = error else { panic!("the file loads; expected an error that names {culprits:?}") };
    let message = error.message();
    assert!(message.starts_with(&format!("{name}: ")), "{message}");
    assert_eq!(message.matches(name).count(), 1, "the file is named once: {message}");
    assert_eq!(error.status(), status, "{message}");
    for culprit in culprits {
        assert!(message.contains(culprit), "no {culprit:?} in: {message}");
    }
}

fn llama() -> Parts {
    Parts::of("llama-tied-f32")
}

fn gpt2() -> Parts {
    Parts::of("gpt2-tied")
}

fn loads(parts: Parts) {
    let outcome = LoadedModel::from_bytes(&parts.bytes(), NAME);
    assert!(outcome.is_ok(), "{:?}", outcome.err());
}

#[test]
fn taken_apart_and_put_together_they_load() {
    loads(llama());
    loads(gpt2());
    loads(llama().without_key("tokenizer.ggml.model"));
}

#[test]
fn files_that_are_no_model() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("model_errors");
    std::fs::create_dir_all(&dir).expect("a folder for test files");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(dir.join(name), bytes).expect("a test file");
        dir.join(name)
    };
    let whole = llama().bytes();
    let refused = |path: &Path, status, culprits: &[&str]| {
        for use_mmap in [true, false] {
            let error = LoadedModel::open(path, &LoadOptions { use_mmap, ..LoadOptions::default() }).err();
            check(error, path.to_str().expect("UTF-8"), status, culprits);
        }
    };
    refused(&dir.join("missing.gguf"), EMBER_E_IO, &["does not exist"]);
    refused(&dir, EMBER_E_IO, &["directory"]);
    refused(&write("empty.gguf", b""), EMBER_E_FORMAT, &["empty"]);
    refused(
        &write("zip.gguf", b"PK\x03\x04 and so on, for more than a header"),
        EMBER_E_FORMAT,
        &["magic", "PK", "GGUF"],
    );
    refused(&write("short.gguf", &whole[..whole.len() - 1]), EMBER_E_FORMAT, &["tensor", "file"]);
}

#[test]
fn architectures_and_number_formats_beyond_this_version() {
    llama()
        .key("general.architecture", "mambo")
        .refused(EMBER_E_UNSUPPORTED, &["\"mambo\"", "gpt2, ", "llama, "]);
    llama()
        .without_key("general.architecture")
        .refused(EMBER_E_FORMAT, &["\"general.architecture\" is missing"]);
    llama()
        .tensor("blk.1.ffn_down.weight", TensorType::Q8_1, &[96, 64])
        .refused(EMBER_E_UNSUPPORTED, &["\"blk.1.ffn_down.weight\"", "Q8_1", "Q8_0"]);
    llama()
        .key("llama.rope.scaling.type", "dynamic")
        .refused(EMBER_E_UNSUPPORTED, &["\"dynamic\"", "llama.rope.scaling.type", "yarn"]);
    llama()
        .key("llama.attention.value_length", 8u32)
        .refused(EMBER_E_UNSUPPORTED, &["length 8", "length 16"]);
}

#[test]
fn experts_that_do_not_fit() {
    let mixtral = || Parts::of("llama-moe-8-2");
    loads(mixtral());
    mixtral()
        .key("llama.expert_used_count", 9u32)
        .refused(EMBER_E_FORMAT, &["\"llama.expert_used_count\" is 9", "8 experts", "llama.expert_count"]);
    mixtral().key("llama.expert_used_count", 0u32).refused(EMBER_E_FORMAT, &["llama.expert_used_count"]);
    mixtral()
        .without_key("llama.expert_used_count")
        .refused(EMBER_E_FORMAT, &["\"llama.expert_used_count\" is missing"]);
    // With another number of experts the router's shape is wrong; without any the layers' tensors are.
    mixtral().key("llama.expert_count", 7u32).refused(EMBER_E_FORMAT, &["ffn_gate_inp.weight", "[24, 7]"]);
    mixtral().key("llama.expert_count", 0u32).refused(EMBER_E_FORMAT, &["blk.0.ffn_up.weight"]);
    mixtral()
        .without_tensor("blk.1.ffn_up_exps.weight")
        .refused(EMBER_E_FORMAT, &["\"blk.1.ffn_up_exps.weight\" is missing"]);
    let shared = || Parts::of("qwen2moe-60-4");
    loads(shared());
    shared().key("qwen2moe.expert_count", 0u32).refused(EMBER_E_FORMAT, &["\"qwen2moe.expert_count\""]);
    shared()
        .without_tensor("blk.0.ffn_gate_inp_shexp.weight")
        .refused(EMBER_E_FORMAT, &["\"blk.0.ffn_gate_inp_shexp.weight\" is missing"]);
    shared()
        .key("qwen2moe.expert_shared_feed_forward_length", 12u32)
        .refused(EMBER_E_FORMAT, &["blk.0.ffn_gate_shexp.weight", "12"]);
}

#[test]
fn windows_and_rotations_that_do_not_fit() {
    let gemma = || Parts::of("gemma3");
    let list = |n: usize| Value::Array(ember::gguf::Array::Bool(vec![true; n]));
    gemma()
        .key("gemma3.attention.sliding_window_pattern", list(2))
        .refused(EMBER_E_FORMAT, &["gemma3.attention.sliding_window_pattern", "2 entries"]);
    gemma()
        .key("gemma3.attention.sliding_window_pattern", "LLLG")
        .refused(EMBER_E_FORMAT, &["gemma3.attention.sliding_window_pattern"]);
    let phi = || Parts::of("phi3-longrope-long");
    phi()
        .without_tensor("rope_factors_short.weight")
        .refused(EMBER_E_FORMAT, &["\"rope_factors_short.weight\" is missing"]);
    phi()
        .tensor("rope_factors_long.weight", TensorType::F32, &[5])
        .refused(EMBER_E_FORMAT, &["\"rope_factors_long.weight\"", "[5]"]);
    let n_pairs = Parts::of("phi3-longrope-long")
        .tensors
        .iter()
        .find(|t| t.0 == "rope_factors_long.weight")
        .map(|t| t.2[0])
        .expect("the tensor");
    // Division by a factor of 0.
    phi()
        .tensor("rope_factors_long.weight", TensorType::F32, &[n_pairs])
        .refused(EMBER_E_FORMAT, &["rope frequency of pair 0 is not finite"]);
    // OLMo 3 is OLMo 2 with windows.
    loads(Parts::of("olmo2").key("olmo2.attention.sliding_window", 8u32));
    Parts::of("olmo2")
        .key("olmo2.attention.sliding_window", "8")
        .refused(EMBER_E_FORMAT, &["olmo2.attention.sliding_window"]);
}

#[test]
fn tensors_that_do_not_fit() {
    llama()
        .without_tensor("blk.1.attn_q.weight")
        .refused(EMBER_E_FORMAT, &["\"blk.1.attn_q.weight\" is missing"]);
    llama()
        .without_tensor("token_embd.weight")
        .refused(EMBER_E_FORMAT, &["\"token_embd.weight\" is missing"]);
    let f32 = TensorType::F32;
    llama()
        .tensor("output_norm.weight", f32, &[32])
        .refused(EMBER_E_FORMAT, &["\"output_norm.weight\"", "[32]", "[64]"]);
    llama()
        .tensor("blk.0.attn_k.weight", f32, &[32, 64])
        .refused(EMBER_E_FORMAT, &["\"blk.0.attn_k.weight\"", "[32, 64]", "[64, 32]"]);
    llama()
        .tensor("blk.0.attn_q.bias", f32, &[63])
        .refused(EMBER_E_FORMAT, &["\"blk.0.attn_q.bias\"", "[63]", "[64]"]);
    llama()
        .tensor("token_embd.weight", f32, &[64])
        .refused(EMBER_E_FORMAT, &["\"token_embd.weight\"", "[64]"]);
    llama()
        .tensor("output.weight", f32, &[64, 96])
        .refused(EMBER_E_FORMAT, &["\"output.weight\"", "[64, 96]", "[64, 97]"]);
    llama()
        .tensor("blk.0.attn_q_norm.weight", f32, &[16])
        .refused(EMBER_E_UNSUPPORTED, &["\"blk.0.attn_q_norm.weight\"", "\"llama\""]);
    llama()
        .tensor("blk.2.attn_norm.weight", f32, &[64])
        .refused(EMBER_E_UNSUPPORTED, &["\"blk.2.attn_norm.weight\""]);
    llama()
        .tensor("rope_freqs.weight", f32, &[9])
        .refused(EMBER_E_FORMAT, &["\"rope_freqs.weight\"", "[9]", "[8]"]);
    // Zeros: a division by them.
    llama().tensor("rope_freqs.weight", f32, &[8]).refused(EMBER_E_FORMAT, &["rope frequency of pair 0"]);
    for (factor, shown) in [
        (0.0, "is 0.0"),
        (f32::INFINITY, "is inf"),
        (f32::NAN, "is NaN"),
        (-2.0, "is -2.0"),
        (1e-45, "is 1e-45"),
    ] {
        let mut factors = [1.0; 8];
        factors[3] = factor;
        let what = ["pair 3", "element 3 of the tensor \"rope_freqs.weight\"", shown];
        llama().f32s("rope_freqs.weight", &[8], &factors).refused(EMBER_E_FORMAT, &what);
    }
    for key in ["llama.rope.freq_base", "llama.rope.scaling.factor", "llama.rope.scale_linear"] {
        let what = ["rope frequency of pair", key, "too small"];
        llama().key(key, 1e-45f32).refused(EMBER_E_FORMAT, &what);
    }
    gpt2()
        .key("gpt2.context_length", 32u32)
        .refused(EMBER_E_FORMAT, &["\"position_embd.weight\"", "[48, 64]", "[48, 32]"]);
}

#[test]
fn hyper_parameters_that_contradict_each_other() {
    llama()
        .key("llama.attention.head_count_kv", 3u32)
        .refused(EMBER_E_FORMAT, &["head count 4", "head count 3"]);
    llama()
        .key("llama.attention.head_count", 5u32)
        .without_key("llama.attention.head_count_kv")
        .refused(EMBER_E_FORMAT, &["embedding length 64", "head count 5"]);
    for n in [7u32, 18] {
        llama()
            .key("llama.rope.dimension_count", n)
            .refused(EMBER_E_FORMAT, &["llama.rope.dimension_count", &n.to_string(), "16"]);
    }
    // No memory is taken for the frequencies of heads that the file does not have.
    llama()
        .without_key("llama.rope.dimension_count")
        .key("llama.attention.key_length", 1u32 << 17)
        .refused(EMBER_E_FORMAT, &["131072", "llama.rope.dimension_count", "65536"]);
    llama().key("llama.block_count", 1u32).refused(EMBER_E_UNSUPPORTED, &["\"blk.1."]);
    llama().key("llama.block_count", 3u32).refused(EMBER_E_FORMAT, &["\"blk.2.", "is missing"]);
    gpt2()
        .key("gpt2.attention.head_count_kv", 1u32)
        .refused(EMBER_E_FORMAT, &["3 heads", "1 key/value heads"]);
}

#[test]
fn numbers_out_of_range() {
    let dims = [
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "rope.dimension_count",
    ];
    for key in dims.map(|d| format!("llama.{d}")) {
        llama().key(&key, 0u32).refused(EMBER_E_FORMAT, &[&key, "is 0"]);
        llama().key(&key, u32::MAX).refused(EMBER_E_FORMAT, &[&key, "4294967295"]);
        llama().key(&key, u64::MAX).refused(EMBER_E_FORMAT, &[&key, "18446744073709551615"]);
        llama().key(&key, -1i32).refused(EMBER_E_FORMAT, &[&key, "-1"]);
        llama().key(&key, "many").refused(EMBER_E_FORMAT, &[&key, "string"]);
        if !key.ends_with("context_length") {
            // As large as a dimension may be, which contradicts the tensors.
            let error = LoadedModel::from_bytes(&llama().key(&key, 1u32 << 24).bytes(), NAME).err();
            check(error, NAME, EMBER_E_FORMAT, &[]);
        }
    }
    for key in ["block_count", "context_length", "embedding_length", "attention.head_count"] {
        let key = format!("llama.{key}");
        llama().without_key(&key).refused(EMBER_E_FORMAT, &[&key, "missing"]);
    }
    for key in ["llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base"] {
        for (value, text) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (0.0, "0"), (-1.0, "-1")] {
            llama().key(key, value).refused(EMBER_E_FORMAT, &[key, text]);
        }
    }
    let scaled = llama().key("llama.rope.scaling.type", "linear");
    scaled.key("llama.rope.scaling.factor", 0.0f32).refused(EMBER_E_FORMAT, &["llama.rope.scaling.factor"]);
    let eps = "gpt2.attention.layer_norm_epsilon";
    gpt2().key(eps, f32::NAN).refused(EMBER_E_FORMAT, &[eps, "NaN"]);
}

#[test]
fn vocabularies_that_do_not_fit() {
    llama()
        .tokens(3)
        .refused(EMBER_E_FORMAT, &["tokenizer.ggml.tokens", "3 entries", "token_embd.weight", "97 rows"]);
    llama()
        .tokens(97)
        .key("tokenizer.ggml.model", "plamo9")
        .refused(EMBER_E_UNSUPPORTED, &["\"plamo9\"", "tokenizer.ggml.model"]);
    llama()
        .key("tokenizer.ggml.model", "gpt2")
        .refused(EMBER_E_FORMAT, &["tokenizer.ggml.tokens", "missing"]);
    llama().key("tokenizer.ggml.model", 1u32).refused(EMBER_E_FORMAT, &["tokenizer.ggml.model", "string"]);
    llama()
        .tokens(97)
        .key("tokenizer.ggml.model", "gpt2")
        .key("tokenizer.ggml.pre", "martian")
        .refused(EMBER_E_UNSUPPORTED, &["martian"]);
}

/// A file that does not load is neither called supported nor measured.
#[cfg(any(feature = "chat", feature = "hf"))]
#[test]
fn tokenizers_that_cannot_be_built_are_reported_without_loading() {
    use ember::context::{ContextOptions, estimate};
    use ember::model::inspect;

    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("refused-{}.gguf", ember::threads::process()));
    let options = (LoadOptions::default(), ContextOptions { n_ctx: 32, ..ContextOptions::default() });
    let refusal = |parts: Parts| {
        std::fs::write(&path, parts.bytes()).expect("a file");
        let loaded = LoadedModel::open(&path, &options.0).err();
        assert_eq!(estimate(&path, &options.0, &options.1).err(), loaded);
        let json: serde_json::Value = serde_json::from_str(&inspect(&path).expect("a header")).expect("JSON");
        assert_eq!(json["supported"], loaded.is_none());
        assert_eq!(json["reason"].as_str(), loaded.as_ref().map(|e| e.message()));
        loaded
    };
    let of = |kind: &str| llama().tokens(97).key("tokenizer.ggml.model", kind);
    let bpe = || of("gpt2").key("tokenizer.ggml.pre", "gpt-2");
    let none: [&str; 0] = [];
    let empty = || StringArray::copy(&none).expect("short");
    assert_eq!(refusal(bpe().key("tokenizer.ggml.merges", empty())), None);
    assert_eq!(refusal(llama()), None);
    for (parts, culprit) in [
        (bpe().key("tokenizer.ggml.pre", "nonsense"), "\"nonsense\""),
        (of("plamo9"), "\"plamo9\""),
        (bpe(), "tokenizer.ggml.merges"),
        (of("llama"), "tokenizer.ggml.scores"),
        (of("t5").key("tokenizer.ggml.scores", vec![0f32; 96]), "96 elements"),
        (of("bert").key("tokenizer.ggml.token_type", vec![1i32; 98]), "98 elements"),
        (of("llama").key("tokenizer.ggml.scores", vec![f32::NAN; 97]), "score of token 0"),
        (of("bert").key("tokenizer.ggml.add_eos_token", true), "tokenizer.ggml.eos_token_id"),
        (of("bert").without_key("tokenizer.ggml.tokens"), "tokenizer.ggml.tokens"),
        (of("bert").key("tokenizer.ggml.bos_token_id", "one"), "tokenizer.ggml.bos_token_id"),
        (of("bert").key("tokenizer.chat_template", 1u32), "tokenizer.chat_template"),
    ] {
        let error = refusal(parts).unwrap_or_else(|| panic!("it loads: {culprit}"));
        assert!(error.message().contains(culprit), "{error}");
    }
    std::fs::remove_file(&path).expect("it was written");
}

/// A sentence quotes no more of a text than one can read.
#[test]
fn long_texts_of_a_file_are_cut_in_sentences() {
    let long = "\u{1}".repeat(1 << 20);
    let merges = |line: String| {
        let keys = llama().tokens(97).key("tokenizer.ggml.model", "gpt2").key("tokenizer.ggml.pre", "gpt-2");
        keys.key("tokenizer.ggml.merges", StringArray::copy(&[line]).expect("short"))
    };
    for (parts, culprit) in [
        (llama().tokens(97).key("tokenizer.ggml.model", long.as_str()), "tokenizer.ggml.model"),
        (
            llama().tokens(97).key("tokenizer.ggml.model", "gpt2").key("tokenizer.ggml.pre", long.as_str()),
            "tokenizer.ggml.pre",
        ),
        (merges(long.clone()), "merge 0"),
        (merges(format!("t1 {long}")), "is not a token"),
        (llama().key("llama.rope.scaling.type", long.as_str()), "llama.rope.scaling.type"),
        (llama().key("general.architecture", long.as_str()), "the architecture"),
    ] {
        let error = LoadedModel::from_bytes(&parts.bytes(), NAME).err().expect("it is refused");
        let message = error.message();
        assert!(message.contains(culprit) && message.len() < 2500, "{} bytes: {message:.200}", message.len());
    }
}

#[test]
fn encoders_that_contradict_themselves() {
    let bert = || Parts::of("bert");
    let f32 = TensorType::F32;
    loads(bert());
    let count = "tokenizer.ggml.token_type_count";
    bert().key(count, 3u32).refused(EMBER_E_FORMAT, &["\"token_types.weight\"", "[36, 2]", "[36, 3]"]);
    bert().key(count, 0u32).refused(EMBER_E_FORMAT, &[count, "is 0"]);
    bert().key(count, u32::MAX).refused(EMBER_E_FORMAT, &[count, "4294967295"]);
    bert().key(count, "two").refused(EMBER_E_FORMAT, &[count, "string"]);
    loads(bert().without_key(count));
    let types = |dims: &[usize]| bert().without_key(count).tensor("token_types.weight", f32, dims);
    types(&[36]).refused(EMBER_E_FORMAT, &["\"token_types.weight\"", "[36]", "[36, 1]"]);
    types(&[35, 2]).refused(EMBER_E_FORMAT, &["\"token_types.weight\"", "[35, 2]", "[36, 2]"]);
    bert()
        .tensor("position_embd.weight", f32, &[36, 32])
        .refused(EMBER_E_FORMAT, &["\"position_embd.weight\"", "[36, 32]", "[36, 64]"]);
    bert()
        .without_tensor("position_embd.weight")
        .refused(EMBER_E_FORMAT, &["\"position_embd.weight\" is missing"]);
    bert()
        .without_tensor("blk.1.layer_output_norm.weight")
        .refused(EMBER_E_FORMAT, &["\"blk.1.layer_output_norm.weight\" is missing"]);
    bert()
        .tensor("cls.weight", f32, &[36, 36])
        .refused(EMBER_E_UNSUPPORTED, &["\"cls.weight\"", "cls.output.weight"]);
    let head = || bert().tensor("cls.output.weight", f32, &[36, 2]);
    loads(head().key("bert.pooling_type", 4u32));
    loads(head());
    loads(head().tensor("cls.weight", f32, &[36, 36]).tensor("cls.bias", f32, &[36]).tensor(
        "cls.output.bias",
        f32,
        &[2],
    ));
    bert()
        .tensor("cls.output.weight", f32, &[35, 2])
        .refused(EMBER_E_FORMAT, &["cls.output.weight", "[35, 2]", "[36, 2]"]);
    head().tensor("cls.weight", f32, &[36, 35]).refused(EMBER_E_FORMAT, &["cls.weight", "[36, 36]"]);
    head().tensor("cls.output.bias", f32, &[3]).refused(EMBER_E_FORMAT, &["cls.output.bias", "[3]"]);
    let labels = "bert.classifier.output_labels";
    head()
        .key(labels, StringArray::copy(&["a"]).expect("short"))
        .refused(EMBER_E_FORMAT, &[labels, "1", "2"]);
    head()
        .key("bert.classifier.pooling_type", 1u32)
        .refused(EMBER_E_UNSUPPORTED, &["bert.classifier.pooling_type"]);
    bert()
        .key("bert.attention.causal", true)
        .refused(EMBER_E_UNSUPPORTED, &["bert.attention.causal", "causal"]);
    bert().key("bert.attention.causal", 0u32).refused(EMBER_E_FORMAT, &["bert.attention.causal", "bool"]);
    let eps = "bert.attention.layer_norm_epsilon";
    bert().without_key(eps).refused(EMBER_E_FORMAT, &[eps, "missing"]);
    // Every architecture may say how its embeddings are pooled.
    for (parts, key) in [(bert as fn() -> Parts, "bert.pooling_type"), (llama, "llama.pooling_type")] {
        parts().key(key, 4u32).refused(EMBER_E_FORMAT, &[key, "cls.output.weight"]);
        for n in [5u32, u32::MAX] {
            parts().key(key, n).refused(EMBER_E_FORMAT, &[key, &n.to_string(), "mean"]);
        }
        parts().key(key, "mean").refused(EMBER_E_FORMAT, &[key, "string"]);
        (0..4u32).for_each(|n| loads(parts().key(key, n)));
        loads(parts().without_key(key));
    }
    let nomic = || Parts::of("nomic-bert");
    loads(nomic());
    nomic()
        .key("nomic-bert.rope.dimension_count", 14u32)
        .refused(EMBER_E_FORMAT, &["nomic-bert.rope.dimension_count", "14", "12"]);
    nomic()
        .tensor("blk.0.attn_qkv.weight", f32, &[36, 100])
        .refused(EMBER_E_FORMAT, &["\"blk.0.attn_qkv.weight\"", "[36, 100]", "[36, 108]"]);
    nomic()
        .tensor("position_embd.weight", f32, &[36, 64])
        .refused(EMBER_E_UNSUPPORTED, &["\"position_embd.weight\"", "\"nomic-bert\""]);
}
