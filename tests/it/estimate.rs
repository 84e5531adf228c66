//! Loading takes what an estimate says, to the byte: of GGUF files, mapped and read, and of Hugging Face folders, some of whose
//! tensors are copied.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::fixture;
use ember::context::{Context, ContextOptions, estimate};
use ember::error::Error;
use ember::memory::MemoryOptions;
use ember::model::{LoadOptions, LoadedModel, Pack};

fn check(path: &Path) -> u64 {
    let name = path.display();
    let context_options = ContextOptions { n_ctx: 32, n_threads: 2, ..ContextOptions::default() };
    let mut most = 0;
    for pack in [Pack::Never, Pack::Auto, Pack::Always] {
        for use_mmap in [true, false] {
            let what = format!("{name}, {pack:?}, use_mmap {use_mmap}");
            let options = LoadOptions { pack, use_mmap, ..LoadOptions::default() };
            let said = estimate(path, &options, &context_options).unwrap_or_else(|e| panic!("{e}"));
            let load = |limit| {
                let memory = MemoryOptions { limit: Some(limit), ..MemoryOptions::default() };
                LoadedModel::open(path, &LoadOptions { memory, ..options.clone() })
            };
            let model = Arc::new(load(u64::MAX).unwrap_or_else(|e| panic!("{e}")));
            assert_eq!(
                (said.file, said.weights),
                (model.gguf().file_size(), model.weights_memory()),
                "{what}"
            );
            let context = Context::new(&model, &context_options).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!((said.kv, said.workspace), context.memory(), "{what}");
            assert!(use_mmap || said.weights >= said.file, "{what}");
            // This much memory is enough; less is not.
            load(said.weights).unwrap_or_else(|e| panic!("{what}: {e}"));
            if said.weights > 0 {
                let error = load(said.weights - 1).err().unwrap_or_else(|| panic!("{what}: less was enough"));
                assert!(matches!(error, Error::NoMemory(_)), "{what}: {error}");
            }
            most = most.max(said.weights);
        }
    }
    most
}

#[test]
fn of_files() {
    for name in ["llama-tied-q4_0", "gpt2-quant-f16", "quant-q6_k", "bert", "t5encoder", "t5"] {
        let path = fixture(&format!("models/{name}.gguf"));
        assert!(check(&path) > 0, "{name}");
    }
}

#[cfg(feature = "hf")]
#[test]
fn of_folders() {
    let entries = std::fs::read_dir(fixture("hf")).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    assert!(folders.len() >= 24, "every fixture is there");
    for path in &folders {
        assert!(check(path) > 0, "{}", path.display());
    }
    // Nearly all of these are copied, so they are in memory twice where the model is packed or read.
    for name in ["gpt2-untied", "llama-moe-4-2"] {
        let path = fixture(&format!("hf/{name}"));
        let options = LoadOptions { pack: Pack::Never, ..LoadOptions::default() };
        let said = estimate(&path, &options, &ContextOptions::default()).unwrap();
        assert!(said.weights > said.file / 2, "{name}: {said:?}");
    }
}
