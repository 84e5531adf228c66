//! GPT-2 (Radford et al. 2019): learned positions, pre-norm blocks with layer norm and biases, GELU in its tanh form.
#![forbid(unsafe_code)]

use super::bind::Binder;
use super::{ModelInfo, parts};
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::kernels::GeluForm;
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mixer::Mixer;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let mut info = file.info()?;
    info.n_ctx_max = Some(info.n_ctx_train);
    let eps = file.positive("attention.layer_norm_epsilon")?;
    let n_embd = info.n_embd;
    if info.n_head_kv != info.n_head || info.n_head * info.head_dim != n_embd {
        return Err(Error::Format(format!(
            "gpt2 needs as many key/value heads as heads and heads that fill the embedding; found {} heads, {} \
             key/value heads of length {} for an embedding of {n_embd}",
            info.n_head, info.n_head_kv, info.head_dim
        )));
    }
    let attention = parts::causal(&info, None);
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        let name = |part: &str| format!("blk.{i}.{part}");
        layers.push(DecoderLayer {
            attn_norm: Some(file.layer_norm(&name("attn_norm"), n_embd, eps)?),
            mixer: Mixer::Attention { kind: 0, block: file.attention(i, &info)? },
            post_attn_norm: None,
            ffn_input: FfnInput::Norm(file.layer_norm(&name("ffn_norm"), n_embd, eps)?),
            ffn: file.gelu_mlp(i, &info, GeluForm::Tanh)?,
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.layer_norm("output_norm", info.n_embd, eps)?;
    let decoder = Decoder {
        position_embd: Some(file.table("position_embd.weight", info.n_ctx_train, n_embd)?),
        ..file.decoder(&info, vec![attention], layers, norm)?
    };
    Ok((info, decoder))
}
