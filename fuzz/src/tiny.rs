//! A model of a few kilobytes, made in memory, for targets that need one and do not test model files.

use ember::gguf::writer::Writer;
use ember::gguf::{StringArray, TensorType};

/// Length of its hidden state.
const N_EMBD: usize = 8;
/// Its tokens: byte-level BPE.
pub const TOKENS: [&str; 16] =
    ["<s>", "</s>", "<tool>", "a", "b", "c", "d", "Ġ", "ab", "Ġa", "cd", "abcd", "Ċ", "x", "y", "Ã"];

/// A template for conversations.
const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ '\\n' }}{% endfor %}\
{% if add_generation_prompt %}a{% endif %}";

/// A llama of one layer with two heads, one of keys and values, and 16 tokens. Its weights are random, the same every time.
pub fn llama() -> Vec<u8> {
    file(true)
}

/// The same without a tokenizer, since compiling its expressions takes most of the loading time.
#[allow(dead_code, reason = "tests/it/tiny_model.rs uses it")]
pub fn without_tokenizer() -> Vec<u8> {
    file(false)
}

fn file(has_tokenizer: bool) -> Vec<u8> {
    let mut writer = Writer::new();
    writer
        .set("general.architecture", "llama")
        .set("llama.context_length", 96u32)
        .set("llama.embedding_length", N_EMBD as u32)
        .set("llama.block_count", 1u32)
        .set("llama.feed_forward_length", N_EMBD as u32)
        .set("llama.attention.head_count", 2u32)
        .set("llama.attention.head_count_kv", 1u32)
        .set("llama.attention.layer_norm_rms_epsilon", 1e-5f32);
    if has_tokenizer {
        writer
            .set("tokenizer.ggml.model", "gpt2")
            .set("tokenizer.ggml.pre", "gpt-2")
            .set("tokenizer.ggml.tokens", StringArray::copy(&TOKENS).expect("short"))
            .set("tokenizer.ggml.token_type", vec![3i32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
            .set("tokenizer.ggml.merges", StringArray::copy(&["a b", "Ġ a", "c d", "ab cd"]).expect("short"))
            .set("tokenizer.ggml.bos_token_id", 0u32)
            .set("tokenizer.ggml.eos_token_id", 1u32)
            .set("tokenizer.chat_template", TEMPLATE);
    }
    let mut state = 0x9e37_79b9u32;
    let mut tensor = |name: &str, dims: &[usize]| {
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (((state >> 8) as f32) / (1 << 23) as f32 - 1.0).to_le_bytes()
        };
        let data = std::iter::repeat_with(next).take(dims.iter().product()).flatten().collect();
        writer.tensor(name, TensorType::F32, dims, data);
    };
    tensor("token_embd.weight", &[N_EMBD, TOKENS.len()]);
    tensor("output_norm.weight", &[N_EMBD]);
    for (name, dims) in [
        ("attn_norm", &[N_EMBD][..]),
        ("attn_q", &[N_EMBD, N_EMBD]),
        ("attn_k", &[N_EMBD, N_EMBD / 2]),
        ("attn_v", &[N_EMBD, N_EMBD / 2]),
        ("attn_output", &[N_EMBD, N_EMBD]),
        ("ffn_norm", &[N_EMBD]),
        ("ffn_gate", &[N_EMBD, N_EMBD]),
        ("ffn_up", &[N_EMBD, N_EMBD]),
        ("ffn_down", &[N_EMBD, N_EMBD]),
    ] {
        tensor(&format!("blk.0.{name}.weight"), dims);
    }
    writer.to_bytes().expect("a well-formed file")
}
