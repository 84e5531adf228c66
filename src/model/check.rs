//! Checks every number of a model before it is used.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::cancel::Progress;
use crate::error::{Error, Result};
use crate::gguf::{Gguf, TensorInfo};
use crate::quant::Format;
use crate::threads::{self, ThreadPool};

/// Elements of a task; a multiple of the block length of every format.
const TASK_LEN: usize = 1 << 15;
/// Tasks between two checks for cancelling.
const BATCH: usize = 256;

/// Refuses a file with a number that is not finite. Tensors of formats that Ember does not know are skipped: binding one fails.
/// `step` is called now and then, and its error ends the check.
pub(super) fn check_tensors(gguf: &Gguf, progress: &Progress, step: &dyn Fn() -> Result<()>) -> Result<()> {
    let mut pool = ThreadPool::new(threads::default_threads(None), None)?;
    let known = |t: &TensorInfo| Format::from_tensor_type(t.ty).is_some();
    progress.expect(gguf.tensors().iter().filter(|t| known(t)).map(|t| t.n_bytes as u64).sum());
    for tensor in gguf.tensors() {
        if let Some(format) = Format::from_tensor_type(tensor.ty) {
            check(gguf, tensor, format, &mut pool, progress, step)?;
        }
    }
    pool.rest();
    Ok(())
}

fn check(
    gguf: &Gguf,
    tensor: &TensorInfo,
    format: Format,
    pool: &mut ThreadPool,
    progress: &Progress,
    step: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let info = format.info();
    let task_bytes = TASK_LEN / info.block_len * info.block_bytes;
    let bytes = gguf.tensor_bytes(tensor);
    for (batch, bytes) in bytes.chunks(BATCH * task_bytes).enumerate() {
        let first_bad = AtomicUsize::new(usize::MAX);
        pool.run(bytes.len().div_ceil(task_bytes), &|_, task| {
            let bytes = &bytes[task * task_bytes..];
            let bytes = &bytes[..bytes.len().min(task_bytes)];
            let mut numbers = vec![0.0; bytes.len() / info.block_bytes * info.block_len];
            (info.dequantize)(bytes, &mut numbers);
            if let Some(at) = numbers.iter().position(|x| !x.is_finite()) {
                first_bad.fetch_min((batch * BATCH + task) * TASK_LEN + at, SeqCst);
            }
        });
        progress.add(bytes.len() as u64);
        match first_bad.into_inner() {
            usize::MAX => step()?,
            at => {
                return Err(Error::Format(format!(
                    "the tensor {} ({}, shape {:?}) has a number at element {at} that is not finite",
                    gguf.call_tensor(&tensor.name),
                    info.name,
                    gguf.call_shape(&tensor.name, &tensor.dims)
                )));
            }
        }
    }
    Ok(())
}
