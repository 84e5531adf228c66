//! A binary of its own: it measures the memory of the process.
//!
//! How much memory a model takes: its size once, packed or not, shared by its contexts and freed when it is dropped.
#![cfg(target_os = "linux")]

mod common;

use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use common::{context, real_model};
use ember::context::{Context, ContextOptions, Tokens};
use ember::model::{LoadOptions, LoadedModel, Pack};

/// A line of `/proc/self/status`, in bytes: `VmRSS` now, `VmHWM` at most since [`forget_peak`].
fn status(key: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find(|l| l.starts_with(key)).expect("a known key");
    let kib: f64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
    kib * 1024.0
}

/// Bytes of the mapping of the file at `path` that are in memory.
fn mapped(path: &Path) -> f64 {
    let path = path.canonicalize().expect("a path");
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("procfs");
    let mut lines = maps.lines().skip_while(|line| !line.ends_with(path.to_str().expect("a text")));
    let resident = lines.find_map(|line| line.strip_prefix("Rss:")).expect("a mapping");
    resident.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") * 1024.0
}

fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak can be set back");
}

/// Has the system keep the file in pages as large as it makes them, which it does for a file that was just written or copied.
/// Linux maps a whole such page where a byte is read.
fn fetch_in_large_pages(path: &Path) {
    let mut file = std::fs::File::open(path).expect("the file");
    // SAFETY: advice about a file that is open.
    let refused = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(refused, 0, "the file can be fetched again");
    let mut part = vec![0; 1 << 20];
    while file.read(&mut part).expect("the file") > 0 {}
}

fn load(path: &Path, options: &LoadOptions) -> Arc<LoadedModel> {
    Arc::new(LoadedModel::open(path, options).unwrap_or_else(|e| panic!("{e}")))
}

fn contexts(model: &Arc<LoadedModel>) -> Vec<Context> {
    let options = ContextOptions { n_ctx: 64, n_batch: 8, n_threads: 2, ..ContextOptions::default() };
    let mut contexts: Vec<Context> = (0..3).map(|_| context(model, &options)).collect();
    for context in &mut contexts {
        let spread: Vec<u32> = (0..60).map(|i| i * 800).collect();
        context.decode(Tokens::next(&spread)).expect("free pages");
    }
    contexts
}

#[test]
fn a_model_takes_its_size_once_and_gives_it_back() {
    let path = real_model("SmolLM2-135M-Instruct.Q4_1.gguf");
    let size = std::fs::metadata(&path).expect("the file").len() as f64;
    fetch_in_large_pages(&path);
    // The first round takes the memory that the allocator and the pools keep for themselves.
    for round in 0..3 {
        for (use_mmap, pack) in [(true, Pack::Always), (true, Pack::Never), (false, Pack::Never)] {
            let what = format!("round {round}, use_mmap {use_mmap}, {pack:?}");
            forget_peak();
            let before = status("VmRSS");
            let grown = |key: &str| (status(key) - before) / size;
            let model = load(&path, &LoadOptions { use_mmap, pack, ..LoadOptions::default() });
            let (now, peak) = (grown("VmRSS"), grown("VmHWM"));
            assert!(peak < 1.25, "{what}: loading took {peak:.2} times the file's size");
            match (use_mmap, pack) {
                (true, Pack::Never) => assert!(now < 0.3, "{what}: {now:.2} without a use"),
                _ => assert!(now > 0.9, "{what}: {now:.2}, so that the weights are still elsewhere"),
            }
            let contexts = contexts(&model);
            let used = grown("VmRSS");
            assert!(used < 1.35, "{what}: {used:.2} with three contexts");
            if pack == Pack::Always {
                let in_file = mapped(&path);
                assert!(in_file < 1e6, "{what}: {in_file} bytes of the mapping, whose rows are read");
            }
            drop(model);
            assert!(grown("VmRSS") > used - 0.1, "{what}: the contexts keep the model alive");
            drop(contexts);
            let left = grown("VmRSS");
            assert!(left < 0.2, "{what}: {left:.2} left after all was dropped");
        }
    }
}
