//! Ember: CPU-first language-model inference for embedding in other programs.
//!
//! A host loads a model file, makes contexts over it and asks for text or logits. C programs and all other languages
//! use [`capi`] through `include/ember.h`; Rust programs may use the layers below it directly.
//!
//! The layers, lowest first; a module uses only modules above it, and a test checks that:
//!
//! - [`error`]: one error type; a variant is a C status, its text a sentence that names the culprit.
//! - [`cancel`]: the switch that ends a call from another thread or a signal handler.
//! - [`memory`]: large buffers: where they come from, how many bytes there may be.
//! - [`gguf`]: the model file: bounds-checked reading of hostile input, typed metadata, tensor directory, writer.
//! - [`hf`]: Hugging Face folders (`config.json`, safetensors), read as GGUF models.
//! - [`quant`]: number formats, one file each, in the registry [`quant::FORMATS`].
//! - [`kernels`]: single-threaded maths on slices, one table of functions per instruction set; the scalar one is the definition.
//! - [`threads`]: the only module that starts threads: a fixed pool that spins shortly, then parks.
//! - [`backend`]: the seam: the [`backend::Backend`] trait, its scalar definition and its threaded implementation.
//! - [`nn`]: blocks that architectures share, generic over the backend.
//! - [`arch`]: architectures, one file each, and the registry [`arch::build`].
//! - [`tokenizer`]: text to tokens and back, from the file's metadata or a `tokenizer.json`.
//! - `chat`: chat templates, the part of Jinja2 that they are written in (feature `chat`, on by default).
//! - [`constrain`]: text that follows a JSON schema, an expression, a grammar or choices (feature `constraints`, on by default).
//! - [`sampler`]: an ordered chain of stages that picks the next token.
//! - [`cache`]: the memory of sequences: the pages of each, what is shared and what is kept.
//! - [`model`]: a file opened, checked and bound once, shared by its contexts.
//! - [`context`]: token sequences over a model: batches, logits, embeddings, states.
//! - [`generate`]: from a prompt to text, in whole code points.
//! - [`conversation`]: messages in, events out; a history that is kept within the sequence's length.
//! - [`engine`]: many generations on one context: a queue, and one batch for all of them.
//! - [`capi`]: the C functions: argument checks, handles, the guard that catches every panic.
//!
//! # Example
//!
//! Loads a model and prints a continuation as it comes:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use ember::context::{Context, ContextOptions};
//! use ember::generate::{EventKind, GenerateOptions, Generator, Prompt};
//! use ember::model::{LoadOptions, LoadedModel};
//! use ember::sampler::{Sampler, Stage};
//!
//! fn main() -> ember::error::Result<()> {
//!     let model = Arc::new(LoadedModel::open("model.gguf".as_ref(), &LoadOptions::default())?);
//!     let mut context = Context::new(&model, &ContextOptions::default())?;
//!     let mut sampler = Sampler::new(1);
//!     sampler.push(Stage::TopP(0.9))?;
//!     let mut generator = Generator::new(&context, Prompt::Text("The sea was calm"), &GenerateOptions::default())?;
//!     loop {
//!         let event = generator.next(&mut context, &mut sampler)?;
//!         print!("{}", event.text);
//!         if let EventKind::End(_) = event.kind {
//!             return Ok(());
//!         }
//!     }
//! }
//! ```

#![cfg_attr(
    not(feature = "full"),
    allow(dead_code, reason = "what only a feature uses stands with the rest of its module")
)]

#[cfg(target_endian = "big")]
compile_error!(
    "Ember reads weights in place from little-endian files; big-endian machines are not supported"
);

/// The allocator of the C library: see [`memory::reserve`].
#[cfg(feature = "capi")]
#[global_allocator]
static ALLOCATOR: memory::Reserve<std::alloc::System> = memory::Reserve::new(std::alloc::System);

pub mod arch;
pub mod backend;
pub mod cache;
pub mod cancel;
pub mod capi;
#[cfg(feature = "chat")]
pub mod chat;
#[cfg_attr(not(feature = "constraints"), path = "constrain/off.rs")]
pub mod constrain;
pub mod context;
#[cfg(feature = "chat")]
pub mod conversation;
pub mod engine;
pub mod error;
pub mod generate;
pub mod gguf;
#[cfg(feature = "hf")]
pub mod hf;
pub mod kernels;
pub mod memory;
pub mod model;
pub mod nn;
pub mod quant;
pub mod sampler;
pub mod threads;
pub mod tokenizer;
