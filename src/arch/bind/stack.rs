//! Weights that older files store differently: Mixtral's experts as separate tensors, and the key and value matrices of latent
//! attention as one tensor.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::Binder;
use crate::backend::{Backend, WeightRole, WeightSource};
use crate::error::{Error, Result};
use crate::gguf::{FileBytes, quoted};
use crate::memory::Memory;
use crate::quant::Format;

/// The matrices `stem.0.weight` to `stem.{n-1}.weight`, each of the shape `dims`, copied one below the other.
pub fn experts<B: Backend>(
    file: &mut Binder<'_, B>,
    stem: &str,
    n: usize,
    dims: [usize; 2],
) -> Result<B::Weight> {
    let mut found: Option<(Format, Vec<u8>)> = None;
    for i in 0..n {
        let name = format!("{stem}.{i}.weight");
        let t = file.find(&name)?;
        if t.dims[..] != dims {
            let called = file.gguf.call_tensor(&name);
            return Err(Error::Format(format!(
                "the tensor {called} has shape {:?}, expected {dims:?}",
                t.dims
            )));
        }
        let Some(format) = Format::from_tensor_type(t.ty) else {
            let called = file.gguf.call_tensor(&name);
            return Err(Error::Unsupported(format!(
                "the tensor {called} is of type {}, which is not supported",
                t.ty.name()
            )));
        };
        let bytes = file.gguf.tensor_bytes(t);
        let (first, all) = match &mut found {
            Some(found) => found,
            None => {
                let mut all = Vec::new();
                let n_bytes = bytes.len().checked_mul(n).filter(|&n| all.try_reserve_exact(n).is_ok());
                n_bytes.ok_or_else(|| {
                    Error::NoMemory(format!("no memory for {n} experts of {} bytes", bytes.len()))
                })?;
                found.insert((format, all))
            }
        };
        if *first != format {
            return Err(Error::Unsupported(format!(
                "the tensor {} is of type {}, but that of expert 0 is of type {}: experts of different types are not supported",
                file.gguf.call_tensor(&name),
                format.info().name,
                first.info().name
            )));
        }
        all.extend_from_slice(bytes);
        file.used.insert(&t.name);
    }
    let Some((format, bytes)) = found else {
        return Err(Error::Format(format!("the experts {} are none", quoted(stem.as_bytes()))));
    };
    let source = Arc::new(FileBytes::copy(&bytes, &Memory::default())?);
    file.backend.upload(&WeightSource {
        name: stem,
        file: &source,
        offset: 0,
        format,
        n_rows: n * dims[1],
        n_cols: dims[0],
        role: WeightRole::Matrix,
    })
}

impl<B: Backend> Binder<'_, B> {
    /// The key matrices and the value matrices of the latent vector, from the tensor `name` with both: for each of `n_head` heads
    /// `nope` rows for its key and `v` rows for its value, of `latent` columns. The first are returned transposed, `[latent,
    /// nope]` for each head.
    pub fn split_kv(
        &mut self,
        name: &str,
        (n_head, nope, v, latent): (usize, usize, usize, usize),
    ) -> Result<(B::Weight, B::Weight)> {
        let t = self.find(name)?;
        let dims = [latent, n_head * (nope + v)];
        let format = Format::from_tensor_type(t.ty).filter(|_| t.dims[..] == dims).ok_or_else(|| {
            Error::Format(format!(
                "the tensor {} is {} of shape {:?}, expected {dims:?} in a format that is supported",
                self.gguf.call_tensor(name),
                t.ty.name(),
                t.dims
            ))
        })?;
        self.used.insert(&t.name);
        let no_memory = || Error::NoMemory(format!("no memory for the numbers of the tensor {name:?}"));
        let mut whole = Vec::new();
        whole.try_reserve_exact(dims[0] * dims[1]).map_err(|_| no_memory())?;
        whole.resize(dims[0] * dims[1], 0.0f32);
        (format.info().dequantize)(self.gguf.tensor_bytes(t), &mut whole);
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        keys.try_reserve_exact(n_head * nope * latent * 4).map_err(|_| no_memory())?;
        values.try_reserve_exact(n_head * v * latent * 4).map_err(|_| no_memory())?;
        for head in whole.chunks_exact((nope + v) * latent) {
            let (key, value) = head.split_at(nope * latent);
            for column in 0..latent {
                keys.extend(key.iter().skip(column).step_by(latent).flat_map(|x| x.to_le_bytes()));
            }
            values.extend(value.iter().flat_map(|x| x.to_le_bytes()));
        }
        let mut upload = |bytes: &[u8], n_rows: usize, n_cols: usize| {
            self.backend.upload(&WeightSource {
                name,
                file: &Arc::new(FileBytes::copy(bytes, &Memory::default())?),
                offset: 0,
                format: Format::F32,
                n_rows,
                n_cols,
                role: WeightRole::Matrix,
            })
        };
        Ok((upload(&keys, n_head * latent, nope)?, upload(&values, n_head * v, latent)?))
    }
}
