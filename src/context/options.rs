//! The options of a context.
#![forbid(unsafe_code)]

#[cfg(doc)]
use super::Context;
use crate::backend::KvType;
use crate::error::{Error, Result};
use crate::model::LoadedModel;
use crate::threads::{self, CpuSet};

/// Default and largest number of positions taken without being asked for.
const DEFAULT_N_CTX: usize = 4096;
/// Default number of rows in a micro-batch.
const DEFAULT_N_BATCH: usize = 256;
/// Snapshots of recurrent states for each sequence, where the caller does not say.
const SNAPSHOTS_OF_SEQ: usize = 8;
/// The most of these.
const MOST_DEFAULT_SNAPSHOTS: usize = 64;
/// Most snapshots of recurrent states in a context.
pub const MAX_SNAPSHOTS: usize = 1 << 16;
/// Tokens between two snapshots within a prompt, where the caller does not say.
const DEFAULT_SNAPSHOT_DISTANCE: usize = 256;
/// Most sequences of one context.
pub const MAX_SEQ: usize = 4096;
/// Most rows of a micro-batch.
pub const MAX_BATCH: usize = 1 << 16;
/// Most positions of a sequence.
pub const MAX_CTX: usize = i32::MAX as usize;

/// Which implementation of the operations a context runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendKind {
    /// The fastest there is: all threads.
    Auto,
    /// The plain scalar definition, on the caller's thread alone: the reference to compare with.
    Scalar,
}

/// The options of a context. Zero means "choose for me" where stated.
#[derive(Debug, Clone)]
pub struct ContextOptions {
    /// Positions per sequence; 0: the model's training length, 4096 at most.
    pub n_ctx: usize,
    /// Sequences (numbered from 0).
    pub n_seq: usize,
    /// Rows that run through the model at a time; longer batches are cut. 0: 256. An encoder must see a text in one micro-batch:
    /// for it 0 is `n_ctx` if that is more (65,536 at most). Never more than `n_ctx` times `n_seq`.
    pub n_batch: usize,
    /// Threads, the caller's included; 0: one for each performance core that the process may use, within its affinity mask
    /// and cgroup quota. Ignored by the scalar backend.
    pub n_threads: usize,
    /// The CPUs that the context's own threads run on, each of which the process may use; `None`: the system chooses. The
    /// caller's thread is never bound.
    pub worker_cpus: Option<CpuSet>,
    /// The type of keys in the KV cache; `None`: [`KvType::usual`]. An encoder's cache, which holds one layer at a time, is
    /// always f32.
    pub k_type: Option<KvType>,
    /// The type of values, likewise.
    pub v_type: Option<KvType>,
    /// Implementation.
    pub backend: BackendKind,
    /// The most bytes that the large buffers of the context may have; `None`: as many as the model's limit leaves.
    pub memory_limit: Option<u64>,
    /// The most bytes of the KV cache. `None`: as many as all sequences need at full length, or, where they give back what no
    /// window reaches, at one time. With less they share what there is.
    pub kv_limit: Option<u64>,
    /// Keep whole pages of the KV cache when no sequence has them any more, until the pages are needed. [`Context::reuse_prefix`]
    /// finds them for texts with the same beginning.
    pub keep_prefixes: bool,
    /// Keep all positions of a sequence where every layer of the model has a window. By default a growing sequence gives back
    /// pages that no future token sees. It cannot be cut where the window would reach them ([`Context::rewind`]).
    pub keep_all_positions: bool,
    /// In models with recurrent layers, the number of states that sequences may return to. They are kept at the ends of prompts
    /// and of answers and within prompts, until their slots are needed. `None`: 8 for each sequence, but no more than 64.
    pub n_snapshots: Option<usize>,
    /// Tokens between two snapshots within a prompt, rounded up to whole pages. 0: 256.
    pub snapshot_distance: usize,
}

impl Default for ContextOptions {
    fn default() -> Self {
        ContextOptions {
            n_ctx: 0,
            n_seq: 1,
            n_batch: 0,
            n_threads: 0,
            worker_cpus: None,
            k_type: None,
            v_type: None,
            backend: BackendKind::Auto,
            memory_limit: None,
            kv_limit: None,
            keep_prefixes: false,
            keep_all_positions: false,
            n_snapshots: None,
            snapshot_distance: 0,
        }
    }
}

impl ContextOptions {
    /// The options with every 0 replaced, checked against the model.
    pub(super) fn resolve(&self, model: &LoadedModel) -> Result<ContextOptions> {
        let info = model.info();
        let mut o = self.clone();
        if o.n_ctx == 0 {
            o.n_ctx = info.n_ctx_train.min(DEFAULT_N_CTX);
        }
        if let Some(max) = info.n_ctx_max
            && o.n_ctx > max
        {
            return Err(Error::InvalidArgument(format!(
                "n_ctx is {}, but the model \"{}\" has learned positions for {max} only",
                o.n_ctx,
                model.name()
            )));
        }
        if o.keep_prefixes {
            model.require_one_part(
                "pages of one text are of no use to another that begins alike (keep_prefixes)",
            )?;
        }
        if o.n_ctx > MAX_CTX {
            return Err(Error::InvalidArgument(format!("n_ctx must be at most {MAX_CTX}, got {}", o.n_ctx)));
        }
        if o.n_seq == 0 || o.n_seq > MAX_SEQ {
            return Err(Error::InvalidArgument(format!("n_seq must be 1 to {MAX_SEQ}, got {}", o.n_seq)));
        }
        if o.n_batch == 0 {
            o.n_batch = if info.causal && info.decoder_start.is_none() {
                DEFAULT_N_BATCH
            } else {
                o.n_ctx.clamp(DEFAULT_N_BATCH, MAX_BATCH)
            };
        }
        if o.n_batch > MAX_BATCH {
            return Err(Error::InvalidArgument(format!(
                "n_batch must be at most {MAX_BATCH}, got {}",
                o.n_batch
            )));
        }
        o.n_batch = o.n_batch.min(o.n_ctx.saturating_mul(o.n_seq));
        if let Some(cpus) = &o.worker_cpus {
            cpus.check_usable().map_err(|e| e.within("worker_cpus"))?;
        }
        if o.n_threads == 0 {
            o.n_threads = threads::default_threads(o.worker_cpus.as_ref());
        }
        o.n_threads = threads::possible(o.n_threads);
        let n_snapshots = o.n_snapshots.unwrap_or((SNAPSHOTS_OF_SEQ * o.n_seq).min(MOST_DEFAULT_SNAPSHOTS));
        if n_snapshots > MAX_SNAPSHOTS {
            return Err(Error::InvalidArgument(format!(
                "n_snapshots must be at most {MAX_SNAPSHOTS}, got {n_snapshots}"
            )));
        }
        o.n_snapshots = Some(if info.is_recurrent() { n_snapshots } else { 0 });
        if o.snapshot_distance == 0 {
            o.snapshot_distance = DEFAULT_SNAPSHOT_DISTANCE;
        }
        Ok(o)
    }
}
