//! The skin: `extern "C"` functions, one file per noun. Each body is exactly one `guard…(…)` call, which catches
//! panics and turns errors into a status; a test reads these files and fails on any other form.
//!
//! Rules every export keeps (they stand at the top of the header too): handles are checked by a tag, NULL is an
//! error sentence and never a crash, outputs are written only on success, and `err` receives an owned error.

#![allow(
    clippy::missing_safety_doc,
    reason = "what a caller must keep is stated once for all functions at the top of the header"
)]

mod args;
mod cancel;
mod chat;
mod chat_options;
mod chat_parser;
#[cfg(feature = "chat")]
mod chat_reading;
#[cfg(not(feature = "chat"))]
mod chat_reading_off;
mod classify;
mod completions;
mod constraint;
mod context;
mod context_options;
mod conversation;
mod conversation_options;
mod embed;
mod engine;
mod engine_options;
mod error;
mod fim;
mod generate;
mod generate_drafts;
mod generate_options;
mod generator;
mod guard;
mod handle;
mod log;
mod memory;
mod meta;
mod model;
mod model_options;
mod request;
mod sampler;
mod sampler_model;
mod sampler_stages;
mod score;
mod state;
#[cfg(feature = "chat")]
mod talk;
#[cfg(not(feature = "chat"))]
mod talk_off;
mod text;
mod timings;
mod tokenizer;
mod version;

pub use cancel::*;
pub use chat::*;
pub use chat_options::*;
pub use chat_parser::*;
pub use classify::*;
pub use completions::*;
pub use constraint::*;
pub use context::*;
pub use context_options::*;
pub use conversation::*;
pub use conversation_options::*;
pub use embed::*;
pub use engine::*;
pub use engine_options::*;
pub use error::*;
pub use fim::*;
pub use generate::*;
pub use generate_drafts::*;
pub use generate_options::*;
pub use generator::*;
pub use log::*;
pub use memory::*;
pub use meta::*;
pub use model::*;
pub use model_options::*;
pub use request::*;
pub use sampler::*;
pub use sampler_model::*;
pub use sampler_stages::*;
pub use score::*;
pub use state::*;
pub use text::*;
pub use timings::*;
pub use tokenizer::*;
pub use version::*;
