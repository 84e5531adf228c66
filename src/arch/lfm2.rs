//! LFM2 (Liquid AI 2025): short convolutions between gates in most layers, attention in the others, and in all a gated
//! feed-forward block or experts. LFM3 (2026) has windows with a base of their own, a gate of each head, and norms after the
//! blocks.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::parts::MoeStyle;
use super::{ModelInfo, parts, rope};
use crate::backend::{Backend, WeightRole};
use crate::error::Result;
use crate::kernels::RopeStyle;
use crate::nn::attention::AttentionParams;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;
use crate::nn::short_conv::ShortConv;

/// Binds the weights of a model without experts.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    bind_with(file, None, false)
}

/// Binds the weights of a model whose layers have experts, except the first few.
pub fn bind_moe<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let style = MoeStyle { sigmoid: Some(1e-6), ..MoeStyle::PLAIN };
    bind_with(file, Some(&style), false)
}

/// Binds the weights of LFM3.
pub fn bind_3<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    bind_with(file, None, true)
}

fn bind_with<B: Backend>(
    file: &mut Binder<'_, B>,
    experts: Option<&MoeStyle>,
    is_third: bool,
) -> Result<(ModelInfo, Decoder<B>)> {
    // Layers without key/value heads are convolutions.
    let n_head_kv = file.layer_counts("attention.head_count_kv")?;
    let mut info = file.info_of(Some(file.one_head_count(&n_head_kv)?))?;
    let mut n_dense = info.n_layer;
    if let Some(style) = experts {
        n_dense = n_dense.min(file.count("leading_dense_block_count")? as usize);
        info = file.with_experts(info, style)?;
        info.experts.iter_mut().for_each(|experts| experts.n_dense = n_dense);
    }
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let n_embd = info.n_embd;
    let rope = rope::params(file, info.head_dim, RopeStyle::Halved)?;
    let whole = parts::causal(&info, Some(rope));
    let (attention, windowed) = match is_third {
        false => (vec![AttentionParams { window: file.window()?, ..whole }], vec![false; info.n_layer]),
        true => {
            let rope = rope::local_params(file, info.head_dim, RopeStyle::Halved, rope::DEFAULT_FREQ_BASE)?;
            let local = AttentionParams { window: file.window()?, rope: Some(rope), ..whole.clone() };
            (vec![whole, local], file.windowed(info.n_layer, 1)?)
        }
    };
    let len = file.dim("shortconv.l_cache")?;
    let mut layers = Vec::new();
    for (i, &n_head_kv) in (0..info.n_layer).zip(&n_head_kv) {
        let name = |part: &str| format!("blk.{i}.{part}");
        let mixer = match n_head_kv {
            0 => Mixer::ShortConv(short_conv(file, i, n_embd, len)?),
            _ => {
                let mut block = file.attention(i, &info)?;
                block.qk_norm = Some(file.qk_head_norm(i, &info, eps)?);
                let gate = name("attn_gate");
                if is_third && file.has(&format!("{gate}.weight")) {
                    block.head_gate = Some(file.linear(&gate, info.n_head, n_embd)?);
                }
                Mixer::Attention { kind: usize::from(windowed[i]), block }
            }
        };
        let mut post = |part: &str| match is_third && file.has(&format!("{}.weight", name(part))) {
            true => file.rms_norm(&name(part), n_embd, eps).map(Some),
            false => Ok(None),
        };
        let (post_attn_norm, post_ffn_norm) = (post("post_attention_norm")?, post("post_ffw_norm")?);
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&name("attn_norm"), n_embd, eps)?),
            mixer,
            post_attn_norm,
            ffn_input: FfnInput::Norm(file.rms_norm(&name("ffn_norm"), n_embd, eps)?),
            ffn: match experts {
                Some(style) if i >= n_dense => file.moe(i, &info, style)?,
                _ => file.gated_mlp(i, &info, Activation::Silu)?,
            },
            post_ffn_norm,
            extra: None,
            beside: false,
        });
    }
    let norm = file.rms_norm("token_embd_norm", n_embd, eps)?;
    let decoder = file.decoder(&info, attention, layers, norm)?;
    Ok((info, decoder))
}

/// The convolution of layer `i`, which sees `len` tokens.
fn short_conv<B: Backend>(
    file: &mut Binder<'_, B>,
    i: usize,
    n_embd: usize,
    len: usize,
) -> Result<ShortConv<B>> {
    let name = |part: &str| format!("blk.{i}.shortconv.{part}");
    let mut part =
        |k: usize| file.linear_part(&name("in_proj"), k * n_embd..(k + 1) * n_embd, 3 * n_embd, n_embd);
    let (b, c, x) = (part(0)?, part(1)?, part(2)?);
    let conv = file.bind(&name("conv.weight"), &[len, n_embd], 0..n_embd, WeightRole::Vector)?;
    let conv_bias = file.bias(&name("conv"), 0..n_embd, n_embd)?;
    let output = file.linear(&name("out_proj"), n_embd, n_embd)?;
    Ok(ShortConv { b, c, x, conv, conv_bias, output, n_embd, len })
}
