//! Tests of the whole crate through its public names, in one binary: one module per file, one link for all. Tests that need a
//! process of their own stand beside this folder, and say in their first lines why.
//!
//! `cargo test --test it -- hf_folders::` runs one file. All tests run on the threads of one process: none may change what
//! belongs to the process.
#![allow(clippy::duplicate_mod, reason = "several files have a module of the examples' or the fuzzers'")]

#[path = "../common/mod.rs"]
mod common;

mod architecture;
mod bundled_model;
mod c_sources;
mod cancel;
mod chat_guard;
mod chat_templates;
mod choosing;
mod completions;
mod constraint_schemas;
mod constraints;
mod context_batching;
mod conversation;
mod cut_short;
mod embed_options;
mod embeddings;
mod engine;
mod engine_fair;
mod estimate;
mod fuzz_corpus;
mod generate;
mod generate_ends;
mod gguf_errors;
mod gguf_python;
mod gguf_split;
mod header;
mod hf_errors;
mod hf_fields;
mod hf_folders;
mod hf_hostile;
mod hf_sentence;
mod hf_tokenizer;
mod hf_tokenizer_fields;
mod imports;
mod isa;
mod kept_pages;
mod kernels_doc;
mod kv_memory;
mod large_files;
mod model_errors;
mod model_files;
mod model_golden;
mod model_keys;
mod model_variants;
mod models_doc;
mod old_files;
mod rank;
mod readme;
mod real_embedders;
mod real_embeddings;
mod real_models;
mod recurrent;
mod reply_broken;
mod reply_constrained;
mod reply_formats;
mod reply_grammar;
mod reply_harmony;
mod sampler_dry;
mod second_backend;
mod sequences;
mod shift;
mod speculate;
mod t5;
mod t5_decoder;
mod t5_folders;
mod t5_text;
mod tiny_model;
mod tokenizer_alone;
mod tokenizer_golden;
mod tokenizer_pre;
mod tokenizer_random;
mod tokenizer_vocabs;
mod windows;
mod windows_reuse;
