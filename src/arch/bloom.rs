//! BLOOM (BigScience 2022), MPT (MosaicML 2023) and Refact (2023): scores fall with the distance; there are no positions. BLOOM
//! has a norm of the embedding.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, parts, usual};
use crate::backend::Backend;
use crate::error::Result;
use crate::kernels::GeluForm;
use crate::nn::attention::QkNorm;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Activation;

/// Binds the weights of BLOOM.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
    let eps = file.positive("attention.layer_norm_epsilon")?;
    let embd_norm = file.layer_norm("token_embd_norm", info.n_embd, eps)?;
    let (info, decoder) = bind_with(file, info, GeluForm::Tanh, Some(parts::MAX_SLOPE))?;
    Ok((info, Decoder { embd_norm: Some(embd_norm), ..decoder }))
}

/// Binds the weights of MPT.
pub fn bind_mpt<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    file.refuse(
        "attention.clamp_kqv",
        file.optional_number("attention.clamp_kqv")?.is_some_and(|most| most != 0.0),
        "clamped queries, keys and values",
    )?;
    let most = match file.optional_number("attention.max_alibi_bias")? {
        None | Some(0.0) => None,
        Some(_) => file.optional_positive("attention.max_alibi_bias")?,
    };
    let mut info = file.info()?;
    let has_positions = file.has("position_embd.weight");
    if has_positions {
        info.n_ctx_max = Some(info.n_ctx_train);
    }
    let (info, mut decoder) = bind_with(file, info, GeluForm::Erf, most)?;
    if has_positions {
        decoder.position_embd = Some(file.table("position_embd.weight", info.n_ctx_train, info.n_embd)?);
    }
    Ok((info, decoder))
}

/// Binds the weights of Refact, whose norms are RMS norms and whose feed-forward is gated.
pub fn bind_refact<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info()?;
    let attention = parts::causal(&info, None);
    let decoder = usual::decoder(file, &info, vec![attention], "ffn_norm", |file, i| {
        let mut block = file.attention(i, &info)?;
        block.bias = Some(file.slopes(info.n_head, parts::MAX_SLOPE)?);
        let mixer = Mixer::Attention { kind: 0, block };
        Ok((mixer, file.gated_mlp(i, &info, Activation::Silu)?))
    })?;
    Ok((info, decoder))
}

fn bind_with<B: Backend>(
    file: &mut Binder<'_, B>,
    info: ModelInfo,
    form: GeluForm,
    most: Option<f32>,
) -> Result<(ModelInfo, Decoder<B>)> {
    let eps = file.positive("attention.layer_norm_epsilon")?;
    let attention = parts::causal(&info, None);
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        let name = |part: &str| format!("blk.{i}.{part}");
        let mut block = file.attention(i, &info)?;
        block.bias = most.map(|most| file.slopes(info.n_head, most)).transpose()?;
        if file.has(&name("attn_q_norm.weight")) {
            block.qk_norm = Some(QkNorm {
                q: file.layer_norm(&name("attn_q_norm"), info.n_head * info.head_dim, eps)?,
                k: Some(file.layer_norm(&name("attn_k_norm"), info.n_head_kv * info.head_dim, eps)?),
                per_head: false,
                after_rope: false,
            });
        }
        layers.push(DecoderLayer {
            attn_norm: Some(file.layer_norm(&name("attn_norm"), info.n_embd, eps)?),
            mixer: Mixer::Attention { kind: 0, block },
            post_attn_norm: None,
            ffn_input: FfnInput::Norm(file.layer_norm(&name("ffn_norm"), info.n_embd, eps)?),
            ffn: file.gelu_mlp(i, &info, form)?,
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.layer_norm("output_norm", info.n_embd, eps)?;
    let decoder = file.decoder(&info, vec![attention], layers, norm)?;
    Ok((info, decoder))
}
