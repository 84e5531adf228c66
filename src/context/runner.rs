//! One object-safe trait over a model, a backend, its workspace and KV cache.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::{BackendKind, ContextOptions};
use crate::arch::{Model, ModelInfo};
use crate::backend::cpu::CpuBackend;
use crate::backend::threaded::{F32Products, ThreadedBackend};
use crate::backend::{Backend, KvHeads, KvPages, KvShape, KvType, StateShape, StateStore};
use crate::cache::PAGE_LEN;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::model::LoadedModel;
use crate::nn::head::Output;
use crate::nn::workspace::{SequenceLimits, Workspace};
use crate::nn::{Batch, Cache, Shift};
use crate::threads::{FloatEnv, ThreadPool};

/// The operations that a context needs from a model on a backend.
pub trait Runner: Send {
    /// See [`Model::forward`].
    fn forward(&mut self, batch: &Batch<'_>, out: Output<'_>) -> Result<()>;
    /// See [`Model::shift`].
    fn shift(&mut self, shift: &Shift<'_>) -> Result<()>;
    /// The types of keys and of values.
    fn kv_types(&self) -> (KvType, KvType);
    /// The pages of a group of layers.
    fn pages(&self, group: usize) -> &dyn KvPages;
    /// As [`Runner::pages`], to be written.
    fn pages_mut(&mut self, group: usize) -> &mut dyn KvPages;
    /// The recurrent states.
    fn states(&self) -> &dyn StateStore;
    /// As [`Runner::states`], to be written.
    fn states_mut(&mut self) -> &mut dyn StateStore;
}

/// A backend's decisions about the KV caches of contexts: the types, and how many bytes they take.
#[derive(Clone, Copy)]
pub struct KvRules {
    usual_type: fn(&[KvHeads], usize) -> KvType,
    bytes: fn(&KvShape) -> Option<(usize, usize)>,
}

impl KvRules {
    /// The rules of `B`.
    pub fn of<B: Backend>() -> KvRules {
        KvRules { usual_type: B::Kv::usual_type, bytes: B::Kv::bytes }
    }

    /// The rules of the backend that a context's options ask for.
    pub fn of_kind(kind: BackendKind) -> KvRules {
        match kind {
            BackendKind::Auto => KvRules::of::<ThreadedBackend>(),
            BackendKind::Scalar => KvRules::of::<CpuBackend>(),
        }
    }

    /// The shapes of a context's KV cache, which has `n_pages` pages of each group of layers.
    fn shapes(&self, info: &ModelInfo, o: &ContextOptions, n_pages: &[usize]) -> Vec<KvShape> {
        let groups: Vec<_> = (0..info.windows.len()).map(|group| info.kv_layers(group)).collect();
        let usual = (self.usual_type)(&groups.concat(), info.head_dim);
        let rounded = |kv_type: Option<KvType>| match info.causal {
            true => kv_type.unwrap_or(usual),
            false => KvType::F32,
        };
        // Values that are parts of keys have their type.
        let are_parts = groups.iter().flatten().any(|heads| heads.dims.v_at.is_some());
        let [for_k, for_v] = if are_parts { [o.v_type, o.k_type] } else { [None; 2] };
        let (k_type, v_type) = (rounded(o.k_type.or(for_k)), rounded(o.v_type.or(for_v)));
        let shape = |(layers, &n_pages)| KvShape { layers, n_pages, k_type, v_type };
        groups.into_iter().zip(n_pages).map(shape).collect()
    }

    /// How many pages of each group fit `limit` bytes: equally many positions of each, up to `most`. `InvalidArgument` where no
    /// page fits.
    pub fn pages_within(
        &self,
        limit: u64,
        most: &[usize],
        info: &ModelInfo,
        o: &ContextOptions,
    ) -> Result<Vec<usize>> {
        let pages = |n: usize| most.iter().map(|&most| n.min(most)).collect::<Vec<_>>();
        let fits = |n: usize| {
            let shapes = self.shapes(info, o, &pages(n));
            let bytes = |shape: &KvShape| (self.bytes)(shape).map(|(bytes, _)| bytes as u64);
            let sum = shapes.iter().try_fold(0u64, |sum, shape| sum.checked_add(bytes(shape)?));
            sum.is_some_and(|n| n <= limit)
        };
        let (mut fitting, mut more) = (0, most.iter().max().map_or(0, |most| most + 1));
        while fitting + 1 < more {
            let n = fitting + (more - fitting) / 2;
            if fits(n) { fitting = n } else { more = n }
        }
        let page_bytes = |shape: &KvShape| (self.bytes)(shape).map_or(0, |(_, page)| page);
        match fitting {
            0 => Err(Error::InvalidArgument(format!(
                "kv_limit is {limit} bytes, but a page of {PAGE_LEN} tokens has {}",
                self.shapes(info, o, &pages(1)).iter().map(page_bytes).sum::<usize>()
            ))),
            n => Ok(pages(n)),
        }
    }
}

struct RunnerOn<B: Backend> {
    /// The model's name, for errors that blame its file.
    name: Box<str>,
    model: Arc<dyn Model<B>>,
    backend: B,
    workspace: Workspace<B>,
    cache: Cache<B>,
    kv_types: (KvType, KvType),
}

impl<B: Backend> RunnerOn<B> {
    /// The runner, and how many bytes of `memory` the caches of sequences take.
    fn new(
        name: &str,
        model: Arc<dyn Model<B>>,
        mut backend: B,
        o: &ContextOptions,
        (n_pages, n_slots): (&[usize], usize),
        memory: &Memory,
    ) -> Result<(Self, u64)> {
        let shapes = KvRules::of::<B>().shapes(model.info(), o, n_pages);
        let sequences = SequenceLimits { n_ctx: o.n_ctx, n_seq: o.n_seq, n_groups: n_pages.len() };
        let workspace = Workspace::new(&mut backend, model.workspace_shape(o.n_batch), sequences)?;
        let before = memory.used();
        let kv = shapes.iter().map(|shape| backend.alloc_kv(shape)).collect::<Result<_>>()?;
        let states = backend.alloc_states(&StateShape { lens: model.info().state_lens(), n_slots })?;
        let cache = Cache { kv, states };
        let kv_types =
            shapes.first().map_or((KvType::F16, KvType::F16), |shape| (shape.k_type, shape.v_type));
        let name = name.into();
        Ok((RunnerOn { name, model, backend, workspace, cache, kv_types }, memory.used() - before))
    }
}

impl<B: Backend> Runner for RunnerOn<B> {
    fn forward(&mut self, batch: &Batch<'_>, out: Output<'_>) -> Result<()> {
        self.backend.begin(&batch.pass())?;
        let RunnerOn { backend, workspace, cache, .. } = self;
        let outcome = FloatEnv::OURS.run(|| self.model.forward(backend, workspace, cache, batch, out));
        outcome.map_err(|e| if let Error::Io(_) = e { e.within(&self.name) } else { e })
    }

    fn shift(&mut self, shift: &Shift<'_>) -> Result<()> {
        let RunnerOn { backend, cache, .. } = self;
        FloatEnv::OURS.run(|| self.model.shift(backend, cache, shift))
    }

    fn kv_types(&self) -> (KvType, KvType) {
        self.kv_types
    }

    fn pages(&self, group: usize) -> &dyn KvPages {
        &self.cache.kv[group]
    }

    fn pages_mut(&mut self, group: usize) -> &mut dyn KvPages {
        &mut self.cache.kv[group]
    }

    fn states(&self) -> &dyn StateStore {
        &self.cache.states
    }

    fn states_mut(&mut self) -> &mut dyn StateStore {
        &mut self.cache.states
    }
}

/// The runner that `options` ask for, and how many bytes its KV cache takes. Only this function knows which backends there are.
/// `sizes` are the numbers of pages of each group of layers, and of slots for recurrent states; `memory` is the context's own.
pub fn make(
    model: &LoadedModel,
    options: &ContextOptions,
    sizes: (&[usize], usize),
    memory: &Memory,
) -> Result<(Box<dyn Runner>, u64)> {
    match options.backend {
        BackendKind::Auto => {
            // Blocked products change the last bits. A cache that rounds would make those changes as large as its own error, 1e-4
            // of a logit in f16: the same tokens would give other logits when they are cut into other calls.
            let f32_products = match (options.k_type, options.v_type) {
                (Some(KvType::F32), Some(KvType::F32)) => F32Products::Blocked,
                _ => F32Products::Dots,
            };
            let pool = ThreadPool::new(options.n_threads, options.worker_cpus.as_ref())?;
            let backend = ThreadedBackend::new(model.kernels(), pool, f32_products, memory.clone())?;
            let (runner, kv) =
                RunnerOn::new(model.gguf().name(), model.threaded(), backend, options, sizes, memory)?;
            Ok((Box::new(runner), kv))
        }
        BackendKind::Scalar => {
            make_on(model, options, sizes, memory, |memory| Ok(CpuBackend::new(memory.clone())))
        }
    }
}

/// A runner on a backend that `backend` makes over some memory. Weights are bound over the model's memory, unless another context
/// has bound them; the rest uses the context's own.
pub fn make_on<B: Backend>(
    model: &LoadedModel,
    options: &ContextOptions,
    sizes: (&[usize], usize),
    memory: &Memory,
    backend: impl Fn(&Memory) -> Result<B>,
) -> Result<(Box<dyn Runner>, u64)> {
    let (bound, own) = (model.on(&backend)?, backend(memory)?);
    let (runner, kv) = RunnerOn::new(model.gguf().name(), bound, own, options, sizes, memory)?;
    Ok((Box::new(runner), kv))
}
