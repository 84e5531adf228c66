//! A binary of its own: it has the process's allocator, which counts.
//!
//! Damaged and malicious GGUF files end in an error or in a file that reads, never in a panic or a large allocation.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use ember::error::Result;
use ember::gguf::writer::Writer;
use ember::gguf::{Array, Gguf, StringArray, TensorType, Value};

/// The system's allocator, which counts what each thread holds and the most it has held.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    LIVE.set(LIVE.get() + bytes);
    PEAK.set(PEAK.get().max(LIVE.get()));
}

// SAFETY: both calls go to the system's allocator unchanged; `realloc` and `alloc_zeroed` are made of them.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is the one that this call asks for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise is the one that this call asks for.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Parses `bytes`, reads every entry, and returns the result and the most bytes that were allocated meanwhile.
fn parse(bytes: &[u8]) -> (Result<()>, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = Gguf::from_bytes(bytes, "hostile").map(|file| look_at_everything(&file));
    if let Err(e) = &result {
        assert!(e.message().starts_with("hostile: "), "{e}");
    }
    (result, (PEAK.get() - before) as usize)
}

fn look_at_everything(file: &Gguf) {
    for (key, value) in file.metadata().iter() {
        assert!(file.metadata().get(key).is_some());
        match value {
            Value::String(s) => _ = black_box((s.as_bytes(), s.as_str())),
            Value::Array(Array::String(strings)) => strings.iter().for_each(|s| _ = black_box(s)),
            _ => {
                let m = file.metadata();
                _ = black_box((m.u32(key), m.i64(key), m.f32(key), m.bool(key)));
                _ = black_box((m.i32s(key).is_ok(), m.u32s(key).is_ok(), m.f32s(key).is_ok()));
            }
        }
    }
    for t in file.tensors() {
        assert_eq!(file.tensor(&t.name), Some(t));
        assert_eq!(black_box(file.tensor_bytes(t)).len(), t.n_bytes);
    }
}

/// A small file with a value of each kind, whose last byte is tensor data.
fn sample() -> Vec<u8> {
    let mut writer = Writer::new();
    writer
        .set("general.architecture", "llama")
        .set("general.alignment", 8u32)
        .set("n", 7u64)
        .set("yes", true);
    writer.set("tokens", StringArray::copy(&["<s>", "", "▁the", "a longer string"]).unwrap());
    writer
        .set("scores", vec![0.0f32, -1.0, -2.0])
        .set("bytes", vec![1u8, 2, 3])
        .set("flags", vec![true, false]);
    writer
        .set("nested", Array::Array(vec![Array::I32(vec![1, 2]), Array::Array(vec![Array::F64(vec![1.0])])]));
    writer.tensor("embedding", TensorType::Q8_0, &[32, 4], vec![3; 136]);
    writer.tensor("norm", TensorType::F32, &[4], vec![0; 16]);
    writer.to_bytes().unwrap()
}

/// No file of `len` bytes needs more memory than this: the file, and what its smallest entries become.
fn budget(len: usize) -> usize {
    9 * len + 4096
}

#[test]
fn every_prefix_is_refused() {
    let file = sample();
    assert!(parse(&file).0.is_ok());
    for len in 0..file.len() {
        assert!(parse(&file[..len]).0.is_err(), "the first {len} bytes");
    }
}

#[test]
fn every_field_at_its_extremes() {
    let file = sample();
    for at in 0..file.len() {
        for width in [1, 2, 4, 8].into_iter().filter(|w| at + w <= file.len()) {
            let mut patterns = vec![vec![0; width], vec![0xff; width]];
            let mut largest_signed = vec![0xff; width];
            largest_signed[width - 1] = 0x7f;
            patterns.push(largest_signed);
            for pattern in patterns {
                let mut damaged = file.clone();
                damaged[at..at + width].copy_from_slice(&pattern);
                let peak = parse(&damaged).1;
                assert!(peak <= budget(file.len()), "{peak} bytes allocated for {pattern:?} at {at}");
            }
        }
    }
}

#[test]
fn random_bit_flips() {
    let file = sample();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    for _ in 0..20_000 {
        let mut damaged = file.clone();
        for _ in 0..1 + random() % 3 {
            let at = random() % damaged.len();
            damaged[at] ^= 1 + (random() % 255) as u8;
        }
        let peak = parse(&damaged).1;
        assert!(peak <= budget(file.len()), "{peak} bytes allocated");
    }
}

#[test]
fn a_claim_of_2_to_the_40_elements_allocates_little() {
    const MANY: u64 = 1 << 40;
    let le32 = |v: u32| v.to_le_bytes().to_vec();
    let le64 = |v: u64| v.to_le_bytes().to_vec();
    let header = |n_tensors, n_keys| [b"GGUF".to_vec(), le32(3), le64(n_tensors), le64(n_keys)].concat();
    let key = || [header(0, 1), le64(1), b"k".to_vec()].concat();

    let mut files = vec![header(MANY, 0), header(0, MANY), [header(0, 1), le64(MANY)].concat()];
    files.push([key(), le32(8), le64(MANY)].concat());
    for element_type in 0..=12 {
        files.push([key(), le32(9), le32(element_type), le64(MANY)].concat());
        files.push([key(), le32(9), le32(9), le64(1), le32(element_type), le64(MANY)].concat());
    }
    for dims in [vec![MANY], vec![MANY, MANY], vec![MANY, 1 << 23, 4], vec![u64::MAX; 4]] {
        let dims: Vec<u8> = [le32(dims.len() as u32), dims.into_iter().flat_map(le64).collect()].concat();
        files.push([header(1, 0), le64(1), b"t".to_vec(), dims, le32(0), le64(0)].concat());
    }
    for mut file in files {
        file.resize(1024, 0);
        let (result, peak) = parse(&file);
        assert!(result.is_err());
        assert!(peak < 1 << 20, "{peak} bytes allocated for {:?}", result.unwrap_err());
    }
}

#[test]
fn the_largest_directories_take_little_memory_and_time() {
    const BOUND: Duration = Duration::from_secs(10);
    let started = Instant::now();

    let tokens: Vec<String> = (0..300_000).map(|i| format!("t{i}")).collect();
    let mut writer = Writer::new();
    writer.set("tokens", StringArray::copy(&tokens).unwrap());
    let file = writer.to_bytes().unwrap();
    let (result, peak) = parse(&file);
    assert_eq!(result, Ok(()));
    assert!(peak < file.len() + 4 * tokens.len() + 4096, "{peak} bytes for a vocabulary of {}", file.len());

    let mut writer = Writer::new();
    (0..65_536u32).for_each(|i| _ = writer.set(&format!("{i}"), 0u8));
    (0..200_000u32).for_each(|i| _ = writer.tensor(&format!("{i}"), TensorType::I8, &[1], vec![0]));
    let file = writer.to_bytes().unwrap();
    let (result, peak) = parse(&file);
    assert_eq!(result, Ok(()));
    assert!(peak < file.len() + (64 << 20), "{peak} bytes for a directory of {}", file.len());

    assert!(started.elapsed() < BOUND, "{:?}", started.elapsed());
}

#[test]
fn what_fuzzing_found_stays_fixed() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/gguf");
    let mut n_files = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let peak = parse(&bytes).1;
        assert!(peak <= budget(bytes.len()), "{peak} bytes allocated");
        n_files += 1;
    }
    assert!(n_files >= 5);
}
