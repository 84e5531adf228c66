//! Files of more than 4 GiB: a tensor beyond that is read at its place, mapped and not, and a model may lie after so many bytes of a file.
//! The files are mostly a hole, which takes no space on the disk; so the tests make them on systems that have holes.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use common::{TempFolder, all_logits, context, fixture, ids, read_f32s, read_json, relative_rms};
use ember::backend::KvType;
use ember::context::{ContextOptions, estimate};
use ember::error::Error;
use ember::gguf::Gguf;
use ember::memory::MemoryOptions;
use ember::model::{LoadOptions, LoadedModel, Pack};

/// More than 32 bits can count, and a multiple of every alignment.
const HOLE: u64 = (4 << 30) + 4096;
const NAME: &str = "llama-tied-f32";

/// The model, whose last tensor comes after a hole.
fn with_hole(folder: &TempFolder) -> PathBuf {
    let mut bytes = std::fs::read(fixture(&format!("models/{NAME}.gguf"))).unwrap();
    let whole = Gguf::from_bytes(&bytes, NAME).unwrap();
    let last = whole.tensors().iter().max_by_key(|t| t.offset).unwrap();
    // In the directory: the length of the name, the name, the number of dimensions, these, the type, the offset.
    let mut entry = (last.name.len() as u64).to_le_bytes().to_vec();
    entry.extend(last.name.as_bytes());
    let at = bytes.windows(entry.len()).position(|part| part == entry).unwrap() + entry.len();
    let at = at + 4 + 8 * last.dims.len() + 4;
    let place = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    bytes[at..at + 8].copy_from_slice(&(place + HOLE).to_le_bytes());
    let path = folder.0.join("hole.gguf");
    let file = File::create(&path).unwrap();
    file.write_all_at(&bytes[..last.offset], 0).unwrap();
    file.write_all_at(&bytes[last.offset..], last.offset as u64 + HOLE).unwrap();
    path
}

/// The model after a hole.
fn after_hole(folder: &TempFolder) -> PathBuf {
    let bytes = std::fs::read(fixture(&format!("models/{NAME}.gguf"))).unwrap();
    let path = folder.0.join("after.bin");
    File::create(&path).unwrap().write_all_at(&bytes, HOLE).unwrap();
    path
}

/// Whether the model gives PyTorch's logits.
fn check(model: LoadedModel) {
    let tokens = ids(&read_json(&fixture(&format!("models/{NAME}.json")))["tokens"]);
    let (k_type, v_type) = (Some(KvType::F32), Some(KvType::F32));
    let options = ContextOptions { n_ctx: tokens.len(), k_type, v_type, ..ContextOptions::default() };
    let found = all_logits(&mut context(&Arc::new(model), &options), &tokens);
    assert!(relative_rms(&found, &read_f32s(&fixture(&format!("models/{NAME}.logits.f32")))) < 1e-5);
}

#[cfg(target_pointer_width = "64")]
#[test]
fn a_tensor_beyond_4_gib_is_read_at_its_place() {
    let folder = TempFolder::new("hole");
    let path = with_hole(&folder);
    for pack in [Pack::Never, Pack::Always] {
        let model = LoadedModel::open(&path, &LoadOptions { pack, ..LoadOptions::default() }).unwrap();
        let last = model.gguf().tensors().iter().max_by_key(|t| t.offset).unwrap();
        assert!(last.offset as u64 > HOLE && model.gguf().file_size() > HOLE);
        // Read, and not through the mapping.
        let range = last.offset..last.offset + last.n_bytes;
        let mut buffer = vec![0; last.n_bytes];
        let read = model.gguf().file_of(last).read_at(range, &mut buffer).unwrap();
        assert_eq!(read, model.gguf().tensor_bytes(last));
        assert!(read.iter().any(|&byte| byte != 0));
        check(model);
    }
}

#[cfg(target_pointer_width = "64")]
#[test]
fn a_model_may_lie_beyond_4_gib_of_a_file() {
    let folder = TempFolder::new("after");
    let path = after_hole(&folder);
    for use_mmap in [true, false] {
        let options = LoadOptions { use_mmap, ..LoadOptions::default() };
        let file = File::open(&path).unwrap();
        check(LoadedModel::of_file(file, "part", (HOLE, None), &options).unwrap());
    }
}

/// What a file of this size takes that is read into memory is counted without it; a limit below it is kept.
#[cfg(target_pointer_width = "64")]
#[test]
fn more_than_4_gib_of_memory_are_counted() {
    let folder = TempFolder::new("counted");
    let path = with_hole(&folder);
    let memory = MemoryOptions { limit: Some(HOLE), ..MemoryOptions::default() };
    let options = LoadOptions { use_mmap: false, memory, ..LoadOptions::default() };
    let error = LoadedModel::open(&path, &options).err().unwrap();
    assert!(matches!(error, Error::NoMemory(_)), "{error}");
    let options = LoadOptions { use_mmap: false, ..LoadOptions::default() };
    let said = estimate(&path, &options, &ContextOptions { n_ctx: 32, ..ContextOptions::default() }).unwrap();
    assert_eq!(said.file, path.metadata().unwrap().len());
    assert!(said.weights >= said.file);
}

#[cfg(target_pointer_width = "64")]
#[test]
#[ignore = "takes more than 4 GiB of memory"]
fn a_tensor_beyond_4_gib_of_memory_is_read_at_its_place() {
    let folder = TempFolder::new("read");
    let options = LoadOptions { use_mmap: false, ..LoadOptions::default() };
    check(LoadedModel::open(&with_hole(&folder), &options).unwrap());
}

/// Where addresses have 32 bits, such a file is refused with a sentence, and a model after a hole is not.
#[cfg(not(target_pointer_width = "64"))]
#[test]
fn files_beyond_4_gib_are_refused_where_addresses_are_short() {
    let folder = TempFolder::new("short");
    let path = with_hole(&folder);
    for use_mmap in [true, false] {
        let options = LoadOptions { use_mmap, ..LoadOptions::default() };
        let error = LoadedModel::open(&path, &options).err().unwrap();
        assert!(matches!(error, Error::NoMemory(_)), "{error}");
        assert!(error.message().contains("more than this machine can address"), "{error}");
        let file = File::open(after_hole(&folder)).unwrap();
        check(LoadedModel::of_file(file, "part", (HOLE, None), &options).unwrap());
    }
}
