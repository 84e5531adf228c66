//! Which format each matrix of a file gets, for the examples that write model files.
//!
//! A target is one format for every matrix, or `Q4_K_M`, the mixture of llama.cpp's quantizer
//! (<https://github.com/ggml-org/llama.cpp>, `src/llama-quant.cpp`) for models without experts.

use std::error::Error;

use ember::quant::{FORMATS, Format, FormatInfo};

/// What a file's matrices are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// One format.
    Every(Format),
    /// `Q4_K`; but `Q6_K` for the output, and for values and the second feed-forward matrix of every other layer or so.
    Q4KM,
}

impl Target {
    /// The target called `name`, as GGUF tools spell it.
    ///
    /// # Errors
    /// A sentence with the names there are.
    pub fn parse(name: &str) -> Result<Target, Box<dyn Error>> {
        Target::parse_among(name, |info| info.quantize.is_some())
    }

    /// As [`Target::parse`], among the formats for which `wanted` says yes.
    ///
    /// # Errors
    /// As [`Target::parse`].
    pub fn parse_among(name: &str, wanted: fn(&FormatInfo) -> bool) -> Result<Target, Box<dyn Error>> {
        let writable = || FORMATS.iter().filter(|info| wanted(info));
        if name == "Q4_K_M" {
            return Ok(Target::Q4KM);
        }
        let found = writable().find(|info| info.name == name).map(|info| Target::Every(info.format));
        found.ok_or_else(|| {
            let names: Vec<&str> = writable().map(|info| info.name).collect();
            format!("{name:?} is no format to write; known are {}, Q4_K_M", names.join(", ")).into()
        })
    }

    /// The format of the matrix called `name` with rows of `row_len` values, in a model of `n_layer` layers; `tied`: it
    /// has no output matrix but uses the token embeddings. Rows that do not divide into blocks get the format of 32
    /// values with about as many bits.
    pub fn format_of(self, name: &str, row_len: usize, n_layer: usize, tied: bool) -> Format {
        let format = match self {
            Target::Every(format) => format,
            Target::Q4KM => mixed(name, n_layer, tied),
        };
        let divides = |format: Format| row_len.is_multiple_of(format.info().block_len);
        let with_blocks_of_32 = match format {
            Format::Q2_K | Format::Q3_K => Format::Q4_0,
            Format::Q4_K => Format::Q5_0,
            Format::Q5_K => Format::Q5_1,
            _ => Format::Q8_0,
        };
        [format, with_blocks_of_32].into_iter().find(|&format| divides(format)).unwrap_or(Format::F16)
    }

    /// The number of `general.file_type`.
    pub fn file_type(self) -> u32 {
        match self {
            Target::Q4KM => 15,
            Target::Every(format) => match format {
                Format::F32 => 0,
                Format::F16 => 1,
                Format::Q4_0 => 2,
                Format::Q4_1 => 3,
                Format::Q8_0 => 7,
                Format::Q5_0 => 8,
                Format::Q5_1 => 9,
                Format::Q2_K => 10,
                Format::Q3_K => 11,
                Format::Q4_K => 14,
                Format::Q5_K => 16,
                Format::Q6_K => 18,
                Format::BF16 => 32,
                _ => 1024, // llama.cpp's estimate
            },
        }
    }
}

/// The mixture `Q4_K_M`.
fn mixed(name: &str, n_layer: usize, tied: bool) -> Format {
    let layer = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok()).unwrap_or(0);
    let eighth = n_layer / 8;
    let careful = layer < eighth || layer >= 7 * n_layer / 8 || (layer - eighth) % 3 == 2;
    let is = |kind: &str| name.split('.').any(|part| part == kind);
    match () {
        () if is("output") || (tied && is("token_embd")) => Format::Q6_K,
        () if (is("attn_v") || is("ffn_down")) && careful => Format::Q6_K,
        () if is("attn_qkv") => Format::Q5_K,
        () => Format::Q4_K,
    }
}

/// Whether a tensor is a matrix that llama.cpp's quantizer touches: no vector, no norm, no router, no table of positions, no
/// convolution, none of the small matrices of RWKV, Gemma 3n and indexers.
pub fn is_quantized(name: &str, n_dims: usize) -> bool {
    const KEPT: [&str; 26] = [
        "_norm.weight",
        "ffn_gate_inp.weight",
        "ffn_gate_tid2eid.weight",
        "altup",
        "laurel",
        "per_layer_model_proj",
        "position_embd.weight",
        "token_types.weight",
        "ssm_conv1d",
        "shortconv.conv.weight",
        "indexer.k_proj.weight",
        "indexer.q_proj.weight",
        "time_mix_first.weight",
        "time_mix_w0.weight",
        "time_mix_w1.weight",
        "time_mix_w2.weight",
        "time_mix_v0.weight",
        "time_mix_v1.weight",
        "time_mix_v2.weight",
        "time_mix_a0.weight",
        "time_mix_a1.weight",
        "time_mix_a2.weight",
        "time_mix_g",
        "time_mix_decay_w",
        "time_mix_lerp_fused.weight",
        "attn_rel_b.weight",
    ];
    n_dims > 1 && name.ends_with("weight") && !KEPT.iter().any(|kept| name.contains(kept))
}

/// Makes rows of `format` on all cores: `fill` writes the values of row number `i`, and they are packed.
///
/// # Panics
/// When `format` cannot be written.
pub fn make_rows(
    format: Format,
    n_rows: usize,
    row_len: usize,
    fill: impl Fn(usize, &mut [f32]) + Sync,
) -> Vec<u8> {
    let FormatInfo { quantize, name, .. } = format.info();
    let quantize = quantize.unwrap_or_else(|| panic!("{name} cannot be written"));
    let row_bytes = format.row_bytes(row_len);
    let mut data = vec![0; n_rows * row_bytes];
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let per_thread = n_rows.div_ceil(n_threads).max(1);
    std::thread::scope(|scope| {
        for (part, rows) in data.chunks_mut(per_thread * row_bytes).enumerate() {
            let fill = &fill;
            scope.spawn(move || {
                let mut values = vec![0.0; row_len];
                for (i, row) in rows.chunks_mut(row_bytes).enumerate() {
                    fill(part * per_thread + i, &mut values);
                    quantize(&values, row);
                }
            });
        }
    });
    data
}
