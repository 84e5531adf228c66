//! Small models with windows, and contexts over them with few pages.

use std::sync::Arc;

use ember::context::{Context, ContextOptions, Tokens};
use ember::model::LoadedModel;

pub use super::bits;
use super::context;
use super::parts::Parts;

pub const PAGE: usize = 32;
pub const WINDOW: usize = 70;
pub const N_BATCH: usize = 48;
/// The window, 32 tokens that can be taken back, and the rest of the pages in which these begin and end.
pub const MOST_HELD: usize = (WINDOW + 32 + 2 * (PAGE - 1)) / PAGE;
/// Pages that a call of any length needs as well: the window after a micro-batch, and the micro-batch.
pub const MOST_IN_CALL: usize = (WINDOW + 2 * PAGE) / PAGE + 2;

/// A fixture whose layers see the last [`WINDOW`] positions.
pub fn windowed(name: &str) -> Arc<LoadedModel> {
    let parts = Parts::of(name).key("llama.attention.sliding_window", WINDOW as u32);
    Arc::new(LoadedModel::from_bytes(&parts.bytes(), name).unwrap_or_else(|e| panic!("{e}")))
}

pub fn model() -> Arc<LoadedModel> {
    windowed("llama-tied-f16")
}

pub fn options(n_ctx: usize) -> ContextOptions {
    ContextOptions { n_ctx, n_batch: N_BATCH, n_threads: 1, ..ContextOptions::default() }
}

/// The same options without a window: the context that all others are compared with.
pub fn whole(options: &ContextOptions) -> ContextOptions {
    ContextOptions { keep_all_positions: true, kv_limit: None, ..options.clone() }
}

/// Options with a cache of so many pages.
pub fn pages(model: &Arc<LoadedModel>, n: usize, options: &ContextOptions) -> ContextOptions {
    let page = ContextOptions { n_ctx: PAGE, n_seq: 1, kv_limit: None, ..options.clone() };
    ContextOptions { kv_limit: Some(context(model, &page).memory().0 * n as u64), ..options.clone() }
}

/// How many pages sequences have.
pub fn n_held(context: &Context) -> usize {
    let (n, n_free) = context.kv_pages();
    n - n_free
}

pub fn text(model: &LoadedModel, n: usize) -> Vec<u32> {
    let n_vocab = model.info().n_vocab as u32;
    (0..n as u32).map(|i| (i * i + 7 * i + i / 5) % n_vocab).collect()
}

/// Runs `ids` at the end of `seq` in one call; the bits of the logits after each.
pub fn run(context: &mut Context, seq: u32, ids: &[u32]) -> Vec<Vec<u32>> {
    let (seqs, outputs) = (vec![seq; ids.len()], vec![true; ids.len()]);
    let tokens = Tokens { ids, positions: None, seqs: Some(&seqs), outputs: Some(&outputs) };
    context.decode(tokens).unwrap_or_else(|e| panic!("{e}"));
    (0..ids.len()).map(|i| bits(context.logits(i).expect("asked for"))).collect()
}
