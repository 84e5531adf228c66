//! Mamba (Gu and Dao 2023): mixers only. FalconMamba has norms without weights in them.
#![forbid(unsafe_code)]

use super::ModelInfo;
use super::bind::Binder;
use super::mamba2::bind_mixers;
use crate::backend::{Backend, WeightRole};
use crate::error::{Error, Result};
use crate::nn::decoder::Decoder;
use crate::nn::mamba::{Mamba, SelectiveNorms, SelectiveShape};
use crate::nn::mixer::Mixer;

/// Binds the weights.
pub fn bind<B: Backend>(file: &mut Binder<'_, B>) -> Result<(ModelInfo, Decoder<B>)> {
    let (n_embd, shape) = (file.dim("embedding_length")?, shape(file)?);
    let eps = file.positive("attention.layer_norm_rms_epsilon")?;
    let has_norms = file.flag("ssm.dt_b_c_rms")?.unwrap_or(false);
    // GGUF files have one number for all norms.
    let inner_eps = file.mixer_epsilon().unwrap_or(eps);
    bind_mixers(file, |file, i| {
        Ok(Mixer::Mamba(mixer(file, i, n_embd, shape, has_norms.then_some(inner_eps))?))
    })
}

/// The sizes of a model's mixers.
fn shape<B: Backend>(file: &Binder<'_, B>) -> Result<SelectiveShape> {
    let (n_channels, state_len) = (file.dim("ssm.inner_size")?, file.dim("ssm.state_size")?);
    let (rank, conv_len) = (file.dim("ssm.time_step_rank")?, file.dim("ssm.conv_kernel")?);
    let sizes =
        [n_channels.checked_mul(state_len), n_channels.checked_mul(conv_len), n_channels.checked_mul(rank)];
    match sizes.iter().all(|n| n.is_some_and(|n| n <= u32::MAX as usize / 4)) {
        true => Ok(SelectiveShape { n_channels, state_len, rank, conv_len }),
        false => Err(Error::Format(format!(
            "{n_channels} channels with states of {state_len}, time steps of {rank} and convolutions of {conv_len} tokens ({} and \
             what belongs to it) are more than fit together",
            file.called("ssm.state_size")
        ))),
    }
}

/// The mixer of layer `i`; `eps` is that of its norms, where it has any.
fn mixer<B: Backend>(
    file: &mut Binder<'_, B>,
    i: usize,
    n_embd: usize,
    shape: SelectiveShape,
    eps: Option<f32>,
) -> Result<Mamba<B>> {
    let name = |part: &str| format!("blk.{i}.ssm_{part}");
    let SelectiveShape { n_channels: n, state_len, rank, conv_len } = shape;
    let mut step = file.linear(&name("dt"), n, rank)?;
    let step_bias = match step.bias.take() {
        Some(bias) => bias,
        None => file.vector(&name("dt.bias"), n)?,
    };
    let mut of_x =
        |first: usize, len: usize| file.linear_part(&name("x"), first..first + len, rank + 2 * state_len, n);
    let [low, key, query] = [of_x(0, rank)?, of_x(rank, state_len)?, of_x(rank + state_len, state_len)?];
    let norms = match eps {
        None => None,
        Some(eps) => Some(SelectiveNorms {
            step: file.ones(rank, eps)?,
            key: file.ones(state_len, eps)?,
            query: file.ones(state_len, eps)?,
        }),
    };
    Ok(Mamba {
        x: file.linear_part(&name("in"), 0..n, 2 * n, n_embd)?,
        z: file.linear_part(&name("in"), n..2 * n, 2 * n, n_embd)?,
        conv: file.bind(&name("conv1d.weight"), &[conv_len, n], 0..n, WeightRole::Vector)?,
        conv_bias: file.bias(&name("conv1d"), 0..n, n)?,
        low,
        key,
        query,
        norms,
        step,
        step_bias,
        a: file.bind(&name("a"), &[state_len, n], 0..n, WeightRole::Vector)?,
        skip: file.vector(&name("d"), n)?,
        output: file.linear(&name("out"), n_embd, n)?,
        shape,
    })
}
