//! Converts a llama2.c checkpoint (version 0, float32) and its `tokenizer.bin` to a GGUF file.
//!
//! `cargo run --release --example llama2c_to_gguf -- CHECKPOINT.bin TOKENIZER.bin OUT.gguf`
//!
//! The checkpoint begins with seven 32-bit integers, then come the tensors of all layers, each kind together
//! (<https://github.com/karpathy/llama2.c>, `export.py`). Query and key weights are stored for rotary pairs of
//! adjacent elements, as the architecture `llama` wants them, so nothing is permuted.
#![allow(clippy::print_stdout, reason = "a command-line tool reports to its user")]

use std::error::Error;
use std::path::Path;

use ember::gguf::writer::Writer;
use ember::gguf::{StringArray, TensorType};

/// The GGUF type number of float32 tensors.
const F32: TensorType = TensorType(0);

/// How SentencePiece writes a space; `tokenizer.bin` has plain spaces instead.
const SPACE: &str = "\u{2581}";

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [checkpoint, tokenizer, out] = args.as_slice() else {
        return Err("usage: llama2c_to_gguf CHECKPOINT.bin TOKENIZER.bin OUT.gguf".into());
    };
    let checkpoint_bytes = std::fs::read(checkpoint)?;
    let tokenizer_bytes = std::fs::read(tokenizer)?;
    let name = Path::new(checkpoint).file_stem().unwrap_or_default().to_string_lossy();

    let mut file = Writer::new();
    file.set("general.architecture", "llama");
    file.set("general.name", &*name);
    file.set("general.file_type", 0u32);
    let config = write_model(&mut file, Input::new(&checkpoint_bytes, checkpoint))?;
    write_vocabulary(&mut file, Input::new(&tokenizer_bytes, tokenizer), config.n_vocab)?;
    file.write(Path::new(out))?;
    println!("{out}: {config:?}");
    Ok(())
}

/// The header of a checkpoint.
#[derive(Debug)]
struct Config {
    n_embd: usize,
    n_ff: usize,
    n_layer: usize,
    n_head: usize,
    n_head_kv: usize,
    n_vocab: usize,
    n_ctx: usize,
    /// The output projection is the token embedding.
    tied: bool,
}

impl Config {
    fn read(input: &mut Input<'_>) -> Result<Config, Box<dyn Error>> {
        let mut field = [0i32; 7];
        for value in &mut field {
            *value = i32::from_le_bytes(input.array()?);
        }
        let size = |v: i32| usize::try_from(v).map_err(|_| "the header has a negative size");
        Ok(Config {
            n_embd: size(field[0])?,
            n_ff: size(field[1])?,
            n_layer: size(field[2])?,
            n_head: size(field[3])?.max(1),
            n_head_kv: size(field[4])?,
            n_vocab: field[5].unsigned_abs() as usize, // negative: the output projection has weights of its own
            n_ctx: size(field[6])?,
            tied: field[5] > 0,
        })
    }
}

/// Writes the hyper-parameters and all tensors.
fn write_model(file: &mut Writer, mut input: Input<'_>) -> Result<Config, Box<dyn Error>> {
    let config = Config::read(&mut input)?;
    let Config { n_embd, n_ff, n_layer, n_head, n_head_kv, n_vocab, n_ctx, tied } = config;
    let head_dim = n_embd / n_head;
    let n_kv = n_head_kv * head_dim;

    file.set("llama.context_length", n_ctx as u32);
    file.set("llama.embedding_length", n_embd as u32);
    file.set("llama.feed_forward_length", n_ff as u32);
    file.set("llama.block_count", n_layer as u32);
    file.set("llama.attention.head_count", n_head as u32);
    file.set("llama.attention.head_count_kv", n_head_kv as u32);
    file.set("llama.attention.layer_norm_rms_epsilon", 1e-5f32);
    file.set("llama.rope.dimension_count", head_dim as u32);
    file.set("llama.rope.freq_base", 10_000f32);
    file.set("llama.vocab_size", n_vocab as u32);

    file.tensor("token_embd.weight", F32, &[n_embd, n_vocab], input.f32s(n_embd * n_vocab)?);
    // One entry for each kind of tensor, in the checkpoint's order; dims[0] is the length of a row.
    let kinds: [(&str, &[usize]); 9] = [
        ("attn_norm", &[n_embd]),
        ("attn_q", &[n_embd, n_embd]),
        ("attn_k", &[n_embd, n_kv]),
        ("attn_v", &[n_embd, n_kv]),
        ("attn_output", &[n_embd, n_embd]),
        ("ffn_norm", &[n_embd]),
        ("ffn_gate", &[n_embd, n_ff]),
        ("ffn_down", &[n_ff, n_embd]),
        ("ffn_up", &[n_embd, n_ff]),
    ];
    for (kind, dims) in kinds {
        for layer in 0..n_layer {
            let data = input.f32s(dims.iter().product())?;
            file.tensor(&format!("blk.{layer}.{kind}.weight"), F32, dims, data);
        }
    }
    file.tensor("output_norm.weight", F32, &[n_embd], input.f32s(n_embd)?);
    input.f32s(n_ctx * head_dim)?; // tables of cosines and sines, which follow from the hyper-parameters
    if !tied {
        file.tensor("output.weight", F32, &[n_embd, n_vocab], input.f32s(n_embd * n_vocab)?);
    }
    match input.rest.len() {
        0 => Ok(config),
        n => Err(format!("{}: {n} bytes are left over after the last tensor", input.name).into()),
    }
}

/// Writes the vocabulary: `n_vocab` times a score, a length and a text, after the length of the longest.
fn write_vocabulary(file: &mut Writer, mut input: Input<'_>, n_vocab: usize) -> Result<(), Box<dyn Error>> {
    input.array::<4>()?; // the longest text's length
    let mut texts: Vec<Vec<u8>> = Vec::with_capacity(n_vocab);
    let mut scores = Vec::with_capacity(n_vocab);
    let mut types = Vec::with_capacity(n_vocab);
    for id in 0..n_vocab {
        scores.push(f32::from_le_bytes(input.array()?));
        let len = u32::from_le_bytes(input.array()?) as usize;
        let text = String::from_utf8(input.take(len)?.to_vec())?;
        let (text, ty) = match id {
            0 => (text, 2i32),                             // unknown
            1 | 2 => (text.trim().to_owned(), 3),          // control; written as "\n<s>\n"
            3..=258 => (format!("<0x{:02X}>", id - 3), 6), // byte; written as itself in some versions
            _ => (text.replace(' ', SPACE), 1),            // normal
        };
        texts.push(text.into_bytes());
        types.push(ty);
    }
    file.set("tokenizer.ggml.model", "llama");
    file.set("tokenizer.ggml.pre", "default");
    file.set("tokenizer.ggml.tokens", StringArray::copy(&texts)?);
    file.set("tokenizer.ggml.scores", scores);
    file.set("tokenizer.ggml.token_type", types);
    file.set("tokenizer.ggml.unknown_token_id", 0u32);
    file.set("tokenizer.ggml.bos_token_id", 1u32);
    file.set("tokenizer.ggml.eos_token_id", 2u32);
    file.set("tokenizer.ggml.add_bos_token", true);
    file.set("tokenizer.ggml.add_eos_token", false);
    Ok(())
}

/// What is left of a file.
struct Input<'a> {
    rest: &'a [u8],
    name: &'a str,
}

impl<'a> Input<'a> {
    fn new(rest: &'a [u8], name: &'a str) -> Input<'a> {
        Input { rest, name }
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Box<dyn Error>> {
        let (taken, rest) =
            self.rest.split_at_checked(n).ok_or_else(|| format!("{}: the file ends too early", self.name))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Box<dyn Error>> {
        Ok(self.take(N)?.try_into()?)
    }

    /// The bytes of `n` little-endian floats.
    fn f32s(&mut self, n: usize) -> Result<Vec<u8>, Box<dyn Error>> {
        Ok(self.take(n.saturating_mul(4))?.to_vec())
    }
}
