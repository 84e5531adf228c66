//! Models of several GGUF files: each of them opens the whole model, and every error among them has a sentence.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::path::{Path, PathBuf};

use common::{TempFolder, all_logits, context, fixture, ids, load, read_json};
use ember::backend::KvType;
use ember::context::ContextOptions;
use ember::error::ember_status::{self, *};
use ember::gguf::writer::Writer;
use ember::gguf::{Gguf, TensorInfo, TensorType, Value};

/// The three files of a model whose tensors `n` are at `names[n]`, with the keys of a split; `change` may spoil them.
fn parts(names: [&[&str]; 3], change: impl Fn(u32, &mut Vec<(&str, Value)>)) -> [Vec<u8>; 3] {
    let n_tensors: usize = names.iter().map(|n| n.len()).sum();
    [0, 1, 2].map(|no: u32| {
        let mut keys: Vec<(&str, Value)> = vec![
            ("split.no", (no as u16).into()),
            ("split.count", 3u16.into()),
            ("split.tensors.count", (n_tensors as i32).into()),
        ];
        if no == 0 {
            keys.push(("general.architecture", "llama".into()));
        }
        change(no, &mut keys);
        let mut writer = Writer::new();
        keys.into_iter().for_each(|(key, value)| _ = writer.set(key, value));
        for name in names[no as usize] {
            writer.tensor(name, TensorType::I8, &[2], vec![no as u8, name.len() as u8]);
        }
        writer.to_bytes().unwrap()
    })
}

const NAMES: [&[&str]; 3] = [&["a", "bb"], &[], &["ccc"]];

fn write(folder: &TempFolder, parts: &[Vec<u8>; 3]) -> [PathBuf; 3] {
    [0, 1, 2].map(|no| folder.write(&format!("m-0000{}-of-00003.gguf", no + 1), &parts[no]))
}

#[test]
fn any_part_opens_the_whole_model() {
    let folder = TempFolder::new("split-any");
    let paths = write(&folder, &parts(NAMES, |_, _| ()));
    for path in &paths {
        for file in [Gguf::open(path).unwrap(), Gguf::read(path).unwrap()] {
            assert_eq!(file.name(), path.to_str().unwrap());
            assert_eq!(file.metadata().str("general.architecture").unwrap(), Some("llama"));
            let found: Vec<(&str, usize, &[u8])> =
                file.tensors().iter().map(|t| (&*t.name, t.file, file.tensor_bytes(t))).collect();
            assert_eq!(found, [("a", 0, &[0, 1][..]), ("bb", 0, &[0, 2]), ("ccc", 2, &[2, 3])]);
            let size: u64 = paths.iter().map(|p| p.metadata().unwrap().len()).sum();
            assert_eq!(file.file_size(), size);
            assert_eq!(file.tensor("ccc").map(|t| t.file), Some(2));
        }
    }
}

#[test]
fn a_split_by_the_gguf_package_reads_as_it_meant() {
    let file = Gguf::open(&fixture("gguf/py_split-00002-of-00003.gguf")).unwrap();
    assert_eq!(file.metadata().require_u32("llama.block_count"), Ok(7));
    let names: Vec<&str> = file.tensors().iter().map(|t| &*t.name).collect();
    assert_eq!(names, ["ramp.0", "ramp.1", "ramp.2", "ramp.3", "ramp.4"]);
    for (i, t) in file.tensors().iter().enumerate() {
        let expected: Vec<u8> = (0..64).flat_map(|n| ((n - 31 + i as i32) as f32).to_le_bytes()).collect();
        assert_eq!(file.tensor_bytes(t), expected, "{}", t.name);
        assert_eq!(t.file, i / 2);
    }
}

/// The model at `path`, split: keys and the first tensors in the first file, and so on.
fn split(path: &Path, n_parts: usize, folder: &TempFolder) -> PathBuf {
    let whole = Gguf::open(path).unwrap();
    let per_part = whole.tensors().len().div_ceil(n_parts);
    let chunks: Vec<&[TensorInfo]> = whole.tensors().chunks(per_part).collect();
    assert_eq!(chunks.len(), n_parts);
    let mut first = None;
    for (no, tensors) in chunks.into_iter().enumerate() {
        let mut writer = Writer::new();
        if no == 0 {
            whole.metadata().iter().for_each(|(key, value)| _ = writer.set(key, value.clone()));
        }
        writer.set("split.no", no as u16).set("split.count", n_parts as u16);
        writer.set("split.tensors.count", whole.tensors().len() as i32);
        for t in tensors {
            writer.tensor(&t.name, t.ty, &t.dims, whole.tensor_bytes(t).to_vec());
        }
        let name = format!("whole-{:05}-of-{n_parts:05}.gguf", no + 1);
        let path = folder.write(&name, writer.to_bytes().unwrap());
        first.get_or_insert(path);
    }
    first.unwrap()
}

#[test]
fn a_split_model_gives_the_logits_of_the_whole() {
    let folder = TempFolder::new("split-logits");
    for name in ["llama-tied-f32", "gpt2-quant-q4_1"] {
        let path = fixture(&format!("models/{name}.gguf"));
        let (whole, parts) = (load(&path), load(&split(&path, 4, &folder)));
        assert_eq!(parts.info(), whole.info());
        for t in whole.gguf().tensors() {
            let part = parts.gguf().tensor(&t.name).unwrap();
            assert_eq!(parts.gguf().tensor_bytes(part), whole.gguf().tensor_bytes(t));
        }
        let tokens = ids(&read_json(&fixture(&format!("models/{name}.json")))["tokens"]);
        let options = ContextOptions {
            k_type: Some(KvType::F32),
            v_type: Some(KvType::F32),
            ..ContextOptions::default()
        };
        let [expected, found] = [whole, parts].map(|m| all_logits(&mut context(&m, &options), &tokens));
        assert_eq!(found, expected, "{name}");
    }
}

/// Opens part `opened` of the spoilt model: the sentence begins with the path of part `blamed`.
#[track_caller]
fn refused(
    name: &str,
    (opened, blamed): (usize, usize),
    change: impl Fn(u32, &mut Vec<(&str, Value)>),
    status: ember_status,
    sentence: &str,
) {
    let folder = TempFolder::new(name);
    let paths = write(&folder, &parts(NAMES, change));
    error(&paths[opened], &paths[blamed], status, sentence);
}

#[track_caller]
fn error(opened: &Path, blamed: &Path, status: ember_status, sentence: &str) {
    let e = Gguf::open(opened).map(|_| ()).unwrap_err();
    assert_eq!(e.message().strip_prefix(&format!("{}: ", blamed.display())), Some(sentence), "{e}");
    assert_eq!(e.status(), status);
}

#[test]
fn contradictions_are_named() {
    let set = |keys: &mut Vec<(&str, Value)>, key: &str, value: Value| {
        keys.iter_mut().find(|(k, _)| *k == key).unwrap().1 = value;
    };
    refused(
        "split-count",
        (0, 1),
        |no, keys| {
            if no == 1 {
                set(keys, "split.count", 4u16.into())
            }
        },
        EMBER_E_FORMAT,
        "part 2 of 3 of the model: the key \"split.count\" is 4, expected 3 as the name and the model's other files say",
    );
    refused(
        "split-no",
        (0, 2),
        |no, keys| {
            if no == 2 {
                set(keys, "split.no", 1u16.into())
            }
        },
        EMBER_E_FORMAT,
        "part 3 of 3 of the model: the key \"split.no\" is 1, expected 2 as the name and the model's other files say",
    );
    refused(
        "split-none",
        (0, 1),
        |no, keys| {
            if no == 1 {
                keys.clear()
            }
        },
        EMBER_E_FORMAT,
        "part 2 of 3 of the model: the key \"split.count\" is missing or less than 2, expected 3",
    );
    refused(
        "split-total",
        (0, 1),
        |no, keys| {
            if no == 1 {
                set(keys, "split.tensors.count", 9i32.into())
            }
        },
        EMBER_E_FORMAT,
        "part 2 of 3 of the model: the key \"split.tensors.count\" is 9, expected 3 as the name and the model's other \
         files say",
    );
    refused(
        "split-totals",
        (1, 1),
        |_, keys| set(keys, "split.tensors.count", 4i32.into()),
        EMBER_E_FORMAT,
        "the 3 parts of the model have 3 tensors, but the key \"split.tensors.count\" is 4",
    );
    refused(
        "split-large",
        (0, 0),
        |_, keys| set(keys, "split.no", 3u16.into()),
        EMBER_E_FORMAT,
        "the key \"split.no\" is 3, expected less than the 3 of \"split.count\"",
    );
    refused(
        "split-name",
        (2, 2),
        |_, keys| set(keys, "split.no", 0u16.into()),
        EMBER_E_FORMAT,
        "the file is part 1 of 3 by its key \"split.no\", so its name should end with \"-00001-of-00003.gguf\"",
    );
    refused(
        "split-absent",
        (0, 0),
        |_, keys| keys.retain(|k| k.0 != "split.no"),
        EMBER_E_FORMAT,
        "the required key \"split.no\" is missing",
    );
    refused(
        "split-negative",
        (0, 0),
        |_, keys| set(keys, "split.count", (-1i32).into()),
        EMBER_E_FORMAT,
        "the key \"split.count\" has the value -1, which does not fit a u32",
    );
    refused(
        "split-type",
        (0, 0),
        |_, keys| set(keys, "split.count", "3".into()),
        EMBER_E_FORMAT,
        "the key \"split.count\" is a string, expected a u32",
    );
}

#[test]
fn a_missing_part_is_named() {
    let folder = TempFolder::new("split-missing");
    let paths = write(&folder, &parts(NAMES, |_, _| ()));
    std::fs::remove_file(&paths[1]).unwrap();
    error(&paths[2], &paths[1], EMBER_E_IO, "part 2 of 3 of the model: the file does not exist");
    std::fs::create_dir(&paths[1]).unwrap();
    error(&paths[0], &paths[1], EMBER_E_IO, "part 2 of 3 of the model: this is a directory, expected a file");

    let many = parts(NAMES, |_, keys| keys[1].1 = u32::MAX.into());
    let first = folder.write("huge-00001-of-4294967295.gguf", &many[0]);
    let second = first.with_file_name("huge-00002-of-4294967295.gguf");
    error(&first, &second, EMBER_E_IO, "part 2 of 4294967295 of the model: the file does not exist");
}

#[test]
fn a_tensor_in_two_parts_is_named() {
    let folder = TempFolder::new("split-twice");
    let paths = write(&folder, &parts([&["a"], &["b"], &["a"]], |_, _| ()));
    error(&paths[0], &paths[0], EMBER_E_FORMAT, "the tensor name \"a\" appears more than once");
}

#[test]
fn a_damaged_part_is_named() {
    let folder = TempFolder::new("split-damaged");
    let mut spoilt = parts(NAMES, |_, _| ());
    spoilt[2].truncate(7);
    let paths = write(&folder, &spoilt);
    let sentence =
        "part 3 of 3 of the model: the version at byte 4 needs 4 bytes, but only 3 are left in the file";
    error(&paths[0], &paths[2], EMBER_E_FORMAT, sentence);
}

#[test]
fn a_part_without_its_neighbours_is_refused() {
    let e = Gguf::from_bytes(&parts(NAMES, |_, _| ())[1], "<buffer>").map(|_| ()).unwrap_err();
    assert_eq!(e.status(), EMBER_E_UNSUPPORTED);
    assert_eq!(
        e.message(),
        "<buffer>: this is part 2 of 3 of a split model, which can only be loaded by a file's path, with the other \
         parts next to it"
    );
}

#[test]
fn one_part_of_one_is_a_whole_model() {
    let mut writer = Writer::new();
    writer.set("split.no", 0u16).set("split.count", 1u16).tensor("a", TensorType::I8, &[1], vec![1]);
    assert_eq!(Gguf::from_bytes(&writer.to_bytes().unwrap(), "one").unwrap().tensors().len(), 1);
}
