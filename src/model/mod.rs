//! A model file opened, checked and bound once, and shared by its contexts; and the options of loading.
#![forbid(unsafe_code)]

mod chat_template;
mod check;
mod fingerprint;
mod inspect;
mod load;
mod loaded;
mod tokenizer;

pub use crate::backend::threaded::Pack;
pub use inspect::inspect;
pub use load::{LoadOptions, ProgressCallback};
pub use loaded::LoadedModel;
pub use tokenizer::{open_tokenizer, tokenizer_from_bytes};
