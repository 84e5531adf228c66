//! Writes a model of random weights in the shape of Llama 3.2 1B, to measure speed with where no real file is at hand.
//!
//! `cargo run --release --example synthetic -- OUT.gguf FORMAT [KEY=VALUE ...]`
//!
//! FORMAT is any weight format of Ember (`Q4_0`, `IQ2_XXS`, `TQ2_0`, …) or the mixture `Q4_K_M`. The keys n_embd, n_layer, n_head, n_head_kv, n_ff, n_vocab and n_ctx change
//! the shape; n_embd and n_ff are multiples of 256. n_expert and n_expert_used make mixtures of experts of n_ff each. The same
//! arguments give the same file.
//!
//! Weights are normally distributed with a deviation of 0.02, about that of trained models, so that no number on the way
//! is extreme. Blocks of formats that Ember does not write are random bytes with a scale of that deviation. To be quick, 4096 pieces of 256 values are drawn and quantized for each format, and every row of every
//! matrix is put together from pieces chosen at random: rows differ, matrices are as large as real ones, but the model says
//! nothing. Its vocabulary is that of bytes, and unused tokens up to n_vocab.
#![allow(clippy::print_stdout, reason = "a command-line tool reports to its user")]

pub mod mixture;

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

use ember::gguf::writer::Writer;
use ember::gguf::{StringArray, TensorType};
use ember::quant::Format;
use mixture::Target;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// The GGUF type number of float32 tensors.
const F32: TensorType = TensorType(0);

/// Values of a piece: a whole number of blocks of every format.
const PIECE: usize = 256;

/// Pieces drawn for each format.
const POOL: usize = 4096;

/// The model's dimensions.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Width of the residual stream; a multiple of 256.
    pub n_embd: usize,
    /// Layers.
    pub n_layer: usize,
    /// Query heads.
    pub n_head: usize,
    /// Heads of keys and values.
    pub n_head_kv: usize,
    /// Width of the feed-forward block, or of one expert; a multiple of 256.
    pub n_ff: usize,
    /// Experts of a layer; 0 for a feed-forward block without experts.
    pub n_expert: usize,
    /// Experts that a token uses.
    pub n_expert_used: usize,
    /// Tokens; at least 259.
    pub n_vocab: usize,
    /// Positions the model claims to be trained on.
    pub n_ctx: usize,
}

impl Shape {
    /// Llama 3.2 1B.
    pub const LLAMA_1B: Shape = Shape {
        n_embd: 2048,
        n_layer: 16,
        n_head: 32,
        n_head_kv: 8,
        n_ff: 8192,
        n_expert: 0,
        n_expert_used: 0,
        n_vocab: 128_256,
        n_ctx: 131_072,
    };

    /// Applies `KEY=VALUE`.
    fn set(&mut self, argument: &str) -> Result<(), Box<dyn Error>> {
        let (key, value) =
            argument.split_once('=').ok_or_else(|| format!("{argument:?} is not KEY=VALUE"))?;
        let field = match key {
            "n_embd" => &mut self.n_embd,
            "n_layer" => &mut self.n_layer,
            "n_head" => &mut self.n_head,
            "n_head_kv" => &mut self.n_head_kv,
            "n_ff" => &mut self.n_ff,
            "n_expert" => &mut self.n_expert,
            "n_expert_used" => &mut self.n_expert_used,
            "n_vocab" => &mut self.n_vocab,
            "n_ctx" => &mut self.n_ctx,
            _ => return Err(format!("there is no key {key:?}").into()),
        };
        *field = value.parse().map_err(|_| format!("{argument:?} has no integer"))?;
        Ok(())
    }

    fn check(&self) -> Result<(), Box<dyn Error>> {
        let Shape { n_embd, n_layer, n_head, n_head_kv, n_ff, n_expert, n_expert_used, n_vocab, n_ctx } =
            *self;
        let fine = n_layer > 0
            && n_expert_used <= n_expert
            && (n_expert == 0) == (n_expert_used == 0)
            && n_ctx > 0
            && n_vocab >= 3 + 256
            && [n_embd, n_ff].iter().all(|n| *n > 0 && n.is_multiple_of(PIECE))
            && [(n_embd, n_head), (n_head, n_head_kv)].iter().all(|(n, of)| *of > 0 && n.is_multiple_of(*of))
            && (n_embd / n_head).is_multiple_of(2);
        if fine { Ok(()) } else { Err(format!("there is no such model: {self:?}").into()) }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [output, format, changes @ ..] = args.as_slice() else {
        return Err("usage: synthetic OUT.gguf FORMAT [KEY=VALUE ...]".into());
    };
    let target = parse(format)?;
    let mut shape = Shape::LLAMA_1B;
    for change in changes {
        shape.set(change)?;
    }
    make(&shape, target)?.write(Path::new(output))?;
    println!("{output}: {format}, {shape:?}");
    Ok(())
}

/// The target called `name`: the weight formats that Ember multiplies, those that it does not write among them.
///
/// # Errors
/// A sentence with the names there are.
pub fn parse(name: &str) -> Result<Target, Box<dyn Error>> {
    Target::parse_among(name, |info| info.quantize.is_some() || info.packing.is_some())
}

/// A model of that shape.
pub fn make(shape: &Shape, target: Target) -> Result<Writer, Box<dyn Error>> {
    shape.check()?;
    let mut file = Writer::new();
    set_keys(&mut file, shape, target);
    set_vocabulary(&mut file, shape.n_vocab)?;
    add_tensors(&mut file, shape, target);
    Ok(file)
}

fn set_keys(file: &mut Writer, shape: &Shape, target: Target) {
    let head_dim = shape.n_embd / shape.n_head;
    file.set("general.architecture", "llama");
    file.set("general.name", "random weights in the shape of Llama 3.2 1B");
    file.set("general.file_type", target.file_type());
    file.set("llama.context_length", shape.n_ctx as u32);
    file.set("llama.embedding_length", shape.n_embd as u32);
    file.set("llama.feed_forward_length", shape.n_ff as u32);
    file.set("llama.block_count", shape.n_layer as u32);
    if shape.n_expert > 0 {
        file.set("llama.expert_count", shape.n_expert as u32);
        file.set("llama.expert_used_count", shape.n_expert_used as u32);
    }
    file.set("llama.attention.head_count", shape.n_head as u32);
    file.set("llama.attention.head_count_kv", shape.n_head_kv as u32);
    file.set("llama.attention.layer_norm_rms_epsilon", 1e-5f32);
    file.set("llama.rope.dimension_count", head_dim as u32);
    file.set("llama.rope.freq_base", 500_000f32);
    file.set("llama.vocab_size", shape.n_vocab as u32);
}

/// A SentencePiece vocabulary: three control tokens, the 256 bytes, and tokens that are never used.
fn set_vocabulary(file: &mut Writer, n_vocab: usize) -> Result<(), Box<dyn Error>> {
    let entry = |id: usize| match id {
        0 => ("<unk>".to_owned(), 2i32),
        1 => ("<s>".to_owned(), 3),
        2 => ("</s>".to_owned(), 3),
        3..=258 => (format!("<0x{:02X}>", id - 3), 6),
        _ => (format!("<unused{id}>"), 5),
    };
    let (texts, types): (Vec<String>, Vec<i32>) = (0..n_vocab).map(entry).unzip();
    file.set("tokenizer.ggml.model", "llama");
    file.set("tokenizer.ggml.pre", "default");
    file.set("tokenizer.ggml.tokens", StringArray::copy(&texts)?);
    file.set("tokenizer.ggml.scores", vec![0f32; n_vocab]);
    file.set("tokenizer.ggml.token_type", types);
    file.set("tokenizer.ggml.unknown_token_id", 0u32);
    file.set("tokenizer.ggml.bos_token_id", 1u32);
    file.set("tokenizer.ggml.eos_token_id", 2u32);
    file.set("tokenizer.ggml.add_bos_token", true);
    file.set("tokenizer.ggml.add_space_prefix", false);
    Ok(())
}

/// All tensors. The output matrix is that of the token embeddings.
fn add_tensors(file: &mut Writer, shape: &Shape, target: Target) {
    let &Shape { n_embd, n_layer, n_head, n_head_kv, n_ff, n_expert, n_vocab, .. } = shape;
    let n_kv = n_embd / n_head * n_head_kv;
    let mut weights = Weights::new();
    let mut matrix = |file: &mut Writer, name: &str, dims: &[usize]| {
        let format = target.format_of(name, dims[0], n_layer, true);
        let data = weights.matrix(format, dims[0], dims[1..].iter().product());
        file.tensor(name, TensorType(format.info().tensor_type), dims, data);
    };
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    matrix(file, "token_embd.weight", &[n_embd, n_vocab]);
    for layer in 0..n_layer {
        norm(file, &format!("blk.{layer}.attn_norm.weight"), n_embd);
        norm(file, &format!("blk.{layer}.ffn_norm.weight"), n_embd);
        let attention = [("attn_q", n_embd), ("attn_k", n_kv), ("attn_v", n_kv), ("attn_output", n_embd)];
        for (kind, n_rows) in attention {
            matrix(file, &format!("blk.{layer}.{kind}.weight"), &[n_embd, n_rows]);
        }
        for (kind, row_len, n_rows) in
            [("ffn_gate", n_embd, n_ff), ("ffn_up", n_embd, n_ff), ("ffn_down", n_ff, n_embd)]
        {
            match n_expert {
                0 => matrix(file, &format!("blk.{layer}.{kind}.weight"), &[row_len, n_rows]),
                _ => matrix(file, &format!("blk.{layer}.{kind}_exps.weight"), &[row_len, n_rows, n_expert]),
            }
        }
        if n_expert > 0 {
            let scores = (0..n_embd * n_expert)
                .flat_map(|_| rng.random_range(-0.03f32..0.03).to_le_bytes())
                .collect::<Vec<u8>>();
            file.tensor(&format!("blk.{layer}.ffn_gate_inp.weight"), F32, &[n_embd, n_expert], scores);
        }
    }
    norm(file, "output_norm.weight", n_embd);
}

/// A norm whose weights are 1.
fn norm(file: &mut Writer, name: &str, n_embd: usize) {
    file.tensor(name, F32, &[n_embd], 1f32.to_le_bytes().repeat(n_embd));
}

/// Where random matrices come from.
struct Weights {
    rng: Xoshiro256PlusPlus,
    /// For each format [`POOL`] pieces, one after another.
    pools: HashMap<Format, Vec<u8>>,
}

impl Weights {
    fn new() -> Weights {
        Weights { rng: Xoshiro256PlusPlus::seed_from_u64(0), pools: HashMap::new() }
    }

    fn matrix(&mut self, format: Format, row_len: usize, n_rows: usize) -> Vec<u8> {
        let pool = self.pools.entry(format).or_insert_with(|| pool(format));
        let piece_bytes = format.row_bytes(PIECE);
        let mut data = Vec::with_capacity(n_rows * format.row_bytes(row_len));
        for _ in 0..n_rows * (row_len / PIECE) {
            let piece = self.rng.random_range(0..POOL);
            data.extend_from_slice(&pool[piece * piece_bytes..][..piece_bytes]);
        }
        data
    }
}

/// Pieces with a deviation of 0.02, normally distributed where the format can be written.
fn pool(format: Format) -> Vec<u8> {
    if format.info().quantize.is_none() {
        return random_pieces(format);
    }
    mixture::make_rows(format, POOL, PIECE, |i, values| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(i as u64);
        for value in values {
            // Twelve even draws add up to a nearly normal one of variance 1.
            let sum: f32 = (0..12).map(|_| rng.random_range(-0.5..0.5)).sum();
            *value = 0.02 * sum;
        }
    })
}

/// Pieces of random bytes whose scales give a deviation of 0.02.
fn random_pieces(format: Format) -> Vec<u8> {
    let info = format.info();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(0);
    let mut data = vec![0; POOL * format.row_bytes(PIECE)];
    rng.fill(&mut data[..]);
    let mut values = vec![0.0; POOL * PIECE];
    let mut deviation = |data: &[u8]| {
        (info.dequantize)(data, &mut values);
        (values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32).sqrt()
    };
    let set = |data: &mut [u8], scale: f32| {
        data.chunks_exact_mut(info.block_bytes).for_each(|block| set_scale(format, block, scale));
    };
    set(&mut data, 1.0);
    let one = deviation(&data);
    set(&mut data, 0.02 / one);
    data
}

/// Writes the scale of a block.
fn set_scale(format: Format, block: &mut [u8], scale: f32) {
    let info = format.info();
    let bytes = half::f16::from_f32(scale).to_le_bytes();
    match format {
        Format::IQ1_M => {
            // A nibble in the upper half of every other of its last eight bytes.
            for (i, word) in block[48..].chunks_exact_mut(2).enumerate() {
                word[1] = word[1] & 15 | (bytes[i / 2] >> (4 * (i % 2)) & 15) << 4;
            }
        }
        Format::TQ1_0 | Format::TQ2_0 => block[info.block_bytes - 2..].copy_from_slice(&bytes),
        // The nearest power of two.
        Format::MXFP4 => block[0] = (127.0 + scale.log2().round()) as u8,
        // Four bits of exponent with a bias of 7 and three of mantissa, as those of f32.
        Format::NVFP4 => block[..4].fill((((scale / 2f32.powi(120)).to_bits() + (1 << 19)) >> 20) as u8),
        _ => block[..2].copy_from_slice(&bytes),
    }
}
