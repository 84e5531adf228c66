//! Mixers of Mamba-2 under the names that architectures give their tensors (`blk.N.ssm_in`, `blk.N.ssm_conv1d`, …).
#![forbid(unsafe_code)]

use super::ModelInfo;
use super::bind::Binder;
use crate::backend::{Backend, WeightRole};
use crate::error::{Error, Result};
use crate::nn::decoder::{Decoder, DecoderLayer, FfnInput};
use crate::nn::mamba2::{Mamba2, MambaShape};
use crate::nn::mixer::Mixer;
use crate::nn::mlp::Mlp;
use crate::nn::norm::{NormKind, NormLayer};

/// Binds the weights of Mamba-2 (Dao and Gu 2024) by itself: mixers only.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let (n_embd, shape) = (file.dim("embedding_length")?, shape(file)?);
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    bind_mixers(file, |file, i| Ok(Mixer::Mamba2(mixer(file, i, n_embd, shape, eps)?)))
}

/// A decoder whose layers are mixers only.
pub fn bind_mixers<'a, B: Backend>(
    file: &mut Binder<'a, B>,
    mixer: impl Fn(&mut Binder<'a, B>, usize) -> Result<Mixer<B>>,
) -> Result<(ModelInfo, Decoder<B>)> {
    let info = file.info_recurrent()?;
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let n_embd = info.n_embd;
    let mut layers = Vec::new();
    for i in 0..info.n_layer {
        layers.push(DecoderLayer {
            attn_norm: Some(file.rms_norm(&format!("blk.{i}.attn_norm"), n_embd, eps)?),
            mixer: mixer(file, i)?,
            post_attn_norm: None,
            ffn_input: FfnInput::Shared,
            ffn: Mlp::None,
            post_ffn_norm: None,
            extra: None,
            beside: false,
        });
    }
    let norm = file.rms_norm("output_norm", n_embd, eps)?;
    let decoder = file.decoder(&info, Vec::new(), layers, norm)?;
    Ok((info, decoder))
}

/// The sizes of a model's mixers.
pub fn shape<B: Backend>(file: &Binder<'_, B>) -> Result<MambaShape> {
    let [n_head, n_group] = [file.dim("ssm.time_step_rank")?, file.dim("ssm.group_count")?];
    let n_values = file.dim("ssm.inner_size")?;
    file.divides("ssm.inner_size", "ssm.time_step_rank")?;
    file.divides("ssm.time_step_rank", "ssm.group_count")?;
    let (state_len, conv_len) = (file.dim("ssm.state_size")?, file.dim("ssm.conv_kernel")?);
    let head_dim = n_values / n_head;
    let sizes = [
        n_group.checked_mul(state_len).and_then(|n| n.checked_mul(2)?.checked_mul(conv_len)),
        n_values.checked_mul(state_len),
        n_values.checked_mul(conv_len),
    ];
    match sizes.iter().all(|n| n.is_some_and(|n| n <= u32::MAX as usize / 4)) {
        true => Ok(MambaShape { n_head, head_dim, n_group, state_len, conv_len }),
        false => Err(Error::Format(format!(
            "{n_values} values, {n_group} groups with states of {state_len} and convolutions of {conv_len} tokens ({} and \
             what belongs to it) are more than fit together",
            file.called("ssm.state_size")
        ))),
    }
}

/// The mixer of layer `i`.
pub fn mixer<B: Backend>(
    file: &mut Binder<'_, B>,
    i: usize,
    n_embd: usize,
    shape: MambaShape,
    eps: f32,
) -> Result<Mamba2<B>> {
    mixer_with(file, i, n_embd, shape, eps, true)
}

/// The same, perhaps without a norm.
pub fn mixer_with<B: Backend>(
    file: &mut Binder<'_, B>,
    i: usize,
    n_embd: usize,
    shape: MambaShape,
    eps: f32,
    has_norm: bool,
) -> Result<Mamba2<B>> {
    let name = |part: &str| format!("blk.{i}.ssm_{part}");
    let (n_values, n_channels, n_head) = (shape.n_values(), shape.n_channels(), shape.n_head);
    let n_rows = n_values + n_channels + n_head;
    let mut part = |first: usize, n: usize| file.linear_part(&name("in"), first..first + n, n_rows, n_embd);
    let z = part(0, n_values)?;
    let xbc = part(n_values, n_channels)?;
    let step = part(n_values + n_channels, n_head)?;
    let conv = &[shape.conv_len, n_channels];
    let norm = &[n_values / shape.n_group, shape.n_group];
    let norm = match shape.n_group {
        _ if !has_norm => None,
        1 => Some(file.vector(&name("norm.weight"), n_values)?),
        n => Some(file.bind(&name("norm.weight"), norm, 0..n, WeightRole::Vector)?),
    };
    Ok(Mamba2 {
        z,
        xbc,
        step,
        conv: file.bind(&name("conv1d.weight"), conv, 0..n_channels, WeightRole::Vector)?,
        conv_bias: file.bias(&name("conv1d"), 0..n_channels, n_channels)?,
        step_bias: file.vector(&name("dt.bias"), n_head)?,
        least_step: file.least_time_step(),
        a: file.vector(&name("a"), n_head)?,
        skip: file.vector(&name("d"), n_head)?,
        norm: norm.map(|weight| NormLayer { kind: NormKind::Rms, weight, bias: None, eps }),
        n_norm: shape.n_group,
        output: file.linear(&name("out"), n_embd, n_values)?,
        shape,
    })
}
