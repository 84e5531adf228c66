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
mod constraint;
mod context;
mod context_options;
mod embed;
mod engine;
mod engine_options;
mod error;
mod generate;
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
mod score;
mod state;
mod text;
mod timings;
mod version;

pub use cancel::*;
pub use chat::*;
pub use constraint::*;
pub use context::*;
pub use context_options::*;
pub use embed::*;
pub use engine::*;
pub use engine_options::*;
pub use error::*;
pub use generate::*;
pub use generate_options::*;
pub use generator::*;
pub use log::*;
pub use memory::*;
pub use meta::*;
pub use model::*;
pub use model_options::*;
pub use request::*;
pub use sampler::*;
pub use score::*;
pub use state::*;
pub use text::*;
pub use timings::*;
pub use version::*;
