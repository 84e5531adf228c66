//! Ember: CPU-first language-model inference for embedding. See the layer paragraphs below.

pub mod error;
pub mod gguf;
pub mod kernels;
pub mod quant;
pub mod threads;
pub mod backend;
pub mod nn;
pub mod models;
pub mod tokenizer;
pub mod sampler;
pub mod context;
