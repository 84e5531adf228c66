//! A binary of its own: it has the process's allocator, which counts, and its panic hook.
//!
//! Damaged model files end in an error sentence or in a model that runs: never in a panic, a hang, or memory beyond
//! the file's size and 64 MB. Every case loads the file, tokenizes, makes a context, decodes and samples.
#![allow(clippy::print_stdout, reason = "the figures are part of what the test shows")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use common::{bundled_model, fixture};
use ember::context::{Context, ContextOptions, Tokens};
use ember::error::{Error, Result};
use ember::model::LoadedModel;
use ember::sampler::{Sampler, Stage};

/// The system's allocator, which counts what each thread holds and the most it has held. `realloc` is made of the
/// other calls, so that the old and the new memory count together.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn count(bytes: isize) {
    LIVE.set(LIVE.get() + bytes);
    PEAK.set(PEAK.get().max(LIVE.get()));
}

// SAFETY: all calls go to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is the one that this call asks for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is the one that this call asks for.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise is the one that this call asks for.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Memory a case may take beyond the file's size.
const SLACK: usize = 64 << 20;
/// Time after which a case counts as hanging: some thousand times what it needs.
const HANG: Duration = Duration::from_secs(20);
/// The name of the files in errors.
const NAME: &str = "damaged.gguf";

/// One damaged file.
enum Damage {
    /// The file's first bytes only.
    Cut(usize),
    /// Other bytes at a place.
    Patch { at: usize, bytes: Vec<u8>, what: String },
}

impl Damage {
    fn name(&self) -> String {
        match self {
            Damage::Cut(len) => format!("cut to {len} bytes"),
            Damage::Patch { at, bytes, what } => format!("{what} at byte {at}: {bytes:02x?}"),
        }
    }

    /// Hands the damaged bytes to `f` and repairs them.
    fn apply<T>(&self, file: &mut [u8], f: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Damage::Cut(len) => f(&file[..*len]),
            Damage::Patch { at, bytes, .. } => {
                let place = *at..*at + bytes.len();
                let before = file[place.clone()].to_vec();
                file[place.clone()].copy_from_slice(bytes);
                let outcome = f(file);
                file[place].copy_from_slice(&before);
                outcome
            }
        }
    }
}

/// Uses a file as a program does.
fn use_model(bytes: &[u8], options: &ContextOptions) -> Result<()> {
    let model = LoadedModel::from_bytes(bytes, NAME);
    if let Err(e) = &model {
        assert!(e.message().starts_with("damaged.gguf: "), "the sentence does not name the file: {e}");
    }
    let model = Arc::new(model?);
    let n_vocab = model.info().n_vocab as u32;
    let mut ids = vec![1 % n_vocab, 2 % n_vocab, n_vocab - 1];
    if let Ok(tokenizer) = model.tokenizer() {
        let text = tokenizer.encode("Once upon a time: é😀\n 12 <|endoftext|>", true, true)?;
        tokenizer.decode(&text, true)?;
        ids.extend(text.iter().take(4));
        (0..n_vocab).try_for_each(|id| tokenizer.token_bytes(id).map(drop))?;
    }
    let mut context = Context::new(&model, options)?;
    context.decode(Tokens::next(&ids))?;
    let mut sampler = Sampler::new(1);
    sampler.push(Stage::Temperature(0.8))?;
    let next = sampler.sample(context.end_logits(0)?)?;
    context.decode(Tokens::next(&[next]))
}

/// Whether the uses of a file of `len` bytes by `f` succeed, and the most bytes allocated meanwhile; or the defect that the file
/// caused.
fn judge(len: usize, f: impl FnOnce() -> Result<()>) -> std::result::Result<(bool, usize), String> {
    let before = LIVE.get();
    PEAK.set(before);
    let outcome = catch_unwind(AssertUnwindSafe(f));
    let peak = (PEAK.get() - before) as usize;
    match outcome {
        Err(_) => Err(LAST_PANIC.take().unwrap_or_else(|| "a panic".into())),
        Ok(Err(Error::Internal(m))) => Err(format!("an internal error: {m}")),
        Ok(Err(e)) if e.message().is_empty() => Err("an error without a sentence".into()),
        Ok(_) if peak > len + SLACK => Err(format!("{peak} bytes allocated for a file of {len}")),
        Ok(outcome) => Ok((outcome.is_ok(), peak)),
    }
}

/// Has panics leave their message and place in `LAST_PANIC`.
fn record_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            before(info);
            LAST_PANIC.set(Some(info.to_string()));
        }));
    });
}

/// Runs all cases on all cores and fails with those that went wrong.
fn check(title: &str, file: &[u8], options: &ContextOptions, cases: &[Damage]) {
    record_panics();
    let start = Instant::now();
    let n_workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    let (next, ran, peak) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let (failures, done) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let under_way: Vec<Mutex<Option<(Instant, String)>>> = (0..n_workers).map(|_| Mutex::new(None)).collect();
    let work = |worker: &Mutex<Option<(Instant, String)>>| {
        let mut file = file.to_vec();
        while let Some(case) = cases.get(next.fetch_add(1, SeqCst)) {
            *worker.lock().expect("not poisoned") = Some((Instant::now(), case.name()));
            match case.apply(&mut file, |bytes| judge(bytes.len(), || use_model(bytes, options))) {
                Ok((is_model, bytes)) => {
                    ran.fetch_add(usize::from(is_model), SeqCst);
                    peak.fetch_max(bytes, SeqCst);
                }
                Err(why) => failures.lock().expect("not poisoned").push(format!("{}: {why}", case.name())),
            }
        }
        *worker.lock().expect("not poisoned") = None;
    };
    std::thread::scope(|scope| {
        scope.spawn(|| watch(title, &under_way, &done));
        let workers: Vec<_> = under_way.iter().map(|w| scope.spawn(move || work(w))).collect();
        let outcomes: Vec<_> = workers.into_iter().map(|w| w.join()).collect();
        done.store(true, SeqCst);
        assert!(outcomes.iter().all(|o| o.is_ok()), "{title}: a worker stopped");
    });
    let (n, ran, peak) = (cases.len(), ran.into_inner(), peak.into_inner());
    println!(
        "{title}: {n} cases, {} refused, {ran} ran, peak {:.1} MB for a file of {:.1} MB, {:.1} s",
        n - ran,
        peak as f64 / 1e6,
        file.len() as f64 / 1e6,
        start.elapsed().as_secs_f64()
    );
    let failures = failures.into_inner().expect("not poisoned");
    assert!(
        failures.is_empty(),
        "{title}: {} of {n} cases: {:#?}",
        failures.len(),
        &failures[..failures.len().min(20)]
    );
}

/// Ends the process when a case hangs: nothing else can stop its thread.
fn watch(title: &str, under_way: &[Mutex<Option<(Instant, String)>>], done: &AtomicBool) {
    while !done.load(SeqCst) {
        std::thread::sleep(Duration::from_millis(20));
        for case in under_way {
            if let Some((start, case)) = &*case.lock().expect("not poisoned")
                && start.elapsed() > HANG
            {
                // Writes past the test harness, which would capture the line.
                let _ = writeln!(std::io::stderr().lock(), "{title}: {case} hangs");
                std::process::exit(101);
            }
        }
    }
}

/// A number of the file: where it lies, how wide it is, what it says.
struct Field {
    at: usize,
    width: usize,
    what: String,
}

/// A file's layout, found without Ember's reader. The file must be sound.
#[derive(Default)]
struct Layouts {
    /// Every number but those inside arrays.
    fields: Vec<Field>,
    /// Where something begins or ends.
    boundaries: Vec<usize>,
    /// Where the metadata and the tensors' entries end.
    end: usize,
}

struct Walker<'a> {
    file: &'a [u8],
    at: usize,
    found: Layouts,
}

impl Walker<'_> {
    fn number(&mut self, width: usize, what: &str) -> usize {
        self.found.fields.push(Field { at: self.at, width, what: what.into() });
        self.skip_number(width)
    }

    fn skip_number(&mut self, width: usize) -> usize {
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(&self.file[self.at..self.at + width]);
        self.skip(width);
        u64::from_le_bytes(bytes) as usize
    }

    fn skip(&mut self, n: usize) {
        self.at += n;
        self.found.boundaries.push(self.at);
    }

    fn string(&mut self, what: &str) -> String {
        let len = self.number(8, &format!("length of {what}"));
        let text = String::from_utf8_lossy(&self.file[self.at..self.at + len]).into_owned();
        self.skip(len);
        text
    }

    fn value(&mut self, ty: usize, key: &str) {
        match ty {
            8 => drop(self.string(&format!("the value of {key}"))),
            9 => {
                let element = self.number(4, &format!("element type of {key}"));
                match (element, self.number(8, &format!("length of {key}"))) {
                    (8, n) => (0..n).for_each(|_| {
                        let len = self.skip_number(8);
                        self.skip(len);
                    }),
                    (element, n) => self.skip(n * width(element)),
                }
            }
            ty => _ = self.number(width(ty), key),
        }
    }
}

/// Bytes of a number of metadata type `ty`.
fn width(ty: usize) -> usize {
    match ty {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        10..=12 => 8,
        _ => panic!("no number has type {ty}"),
    }
}

fn layout(file: &[u8]) -> Layouts {
    let mut w = Walker { file, at: 0, found: Layouts::default() };
    w.found.boundaries.push(0);
    w.number(4, "magic");
    w.number(4, "version");
    let (n_tensors, n_keys) = (w.number(8, "number of tensors"), w.number(8, "number of keys"));
    for _ in 0..n_keys {
        let key = w.string("a key");
        let ty = w.number(4, &format!("type of {key}"));
        w.value(ty, &key);
    }
    let mut offsets = Vec::new();
    for _ in 0..n_tensors {
        let name = w.string("a tensor's name");
        let n_dims = w.number(4, &format!("number of dimensions of {name}"));
        (0..n_dims).for_each(|i| _ = w.number(8, &format!("dimension {i} of {name}")));
        w.number(4, &format!("type of {name}"));
        offsets.push(w.number(8, &format!("offset of {name}")));
    }
    w.found.end = w.at;
    let data = w.at.next_multiple_of(32);
    w.found.boundaries.extend(offsets.iter().map(|offset| data + offset));
    w.found
}

/// SplitMix64 (Steele, Lea, Flood 2014): the same cases in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// A small context.
fn small() -> ContextOptions {
    ContextOptions { n_ctx: 64, n_batch: 8, n_threads: 1, ..ContextOptions::default() }
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The bundled model, and a llama, whose keys are others.
fn models() -> [(&'static str, Vec<u8>); 2] {
    [("bundled", read(&bundled_model())), ("llama", read(&fixture("models/llama-tied-f32.gguf")))]
}

fn flips(file: &[u8], end: usize, n: usize) -> Vec<Damage> {
    let mut random = Random(2);
    let flip = |_| {
        let (at, mask) = (random.below(end), 1 + random.below(255) as u8);
        Damage::Patch { at, bytes: vec![file[at] ^ mask], what: "a flip".into() }
    };
    (0..n).map(flip).collect()
}

#[test]
fn the_judge_is_not_blind() {
    record_panics();
    let refused = |f: &dyn Fn() -> Result<()>, why: &str| {
        let verdict = judge(1000, f).expect_err("a verdict of guilty");
        assert!(verdict.contains(why), "{verdict}");
    };
    refused(&|| panic!("an index out of range"), "an index out of range");
    refused(&|| Err(Error::Internal("a defect".into())), "a defect");
    refused(&|| Err(Error::Format(String::new())), "without a sentence");
    let take = |n: usize| {
        drop(std::hint::black_box(Vec::<u8>::with_capacity(n)));
        Ok(())
    };
    refused(&|| take(SLACK + 1001), "bytes allocated");
    assert!(judge(1000, || take(SLACK + 1000)).is_ok());
}

#[test]
fn the_undamaged_models_run() {
    for (name, file) in models() {
        for options in [small(), ContextOptions::default()] {
            let outcome = judge(file.len(), || use_model(&file, &options));
            assert!(
                matches!(outcome, Ok((true, _))),
                "{name}: {outcome:?}, {:?}",
                use_model(&file, &options)
            );
        }
    }
}

#[test]
fn files_that_end_too_soon() {
    for (name, file) in models() {
        let mut cuts = layout(&file).boundaries;
        cuts.retain(|&len| len < file.len());
        let mut random = Random(1);
        cuts.extend((0..1000).map(|_| random.below(file.len())));
        cuts.push(file.len() - 1);
        let cases: Vec<Damage> = cuts.into_iter().map(Damage::Cut).collect();
        check(&format!("{name}, cut"), &file, &small(), &cases);
    }
}

/// With the default options, so that a length the file claims meets the default context.
#[test]
fn numbers_that_are_zero_or_as_large_as_can_be() {
    for (name, file) in models() {
        let fields = layout(&file).fields;
        let values = |f: &Field| {
            let largest_signed = [vec![0xff; f.width - 1], vec![0x7f]].concat();
            let one = [vec![1], vec![0; f.width - 1]].concat();
            // In four bytes 2²⁴, the largest dimension that is taken.
            let large = [vec![0; f.width - 1], vec![1]].concat();
            [vec![0; f.width], vec![0xff; f.width], largest_signed, one, large]
        };
        let case = |f: &Field, bytes| Damage::Patch { at: f.at, bytes, what: f.what.clone() };
        let cases: Vec<Damage> = fields.iter().flat_map(|f| values(f).map(|bytes| case(f, bytes))).collect();
        check(&format!("{name}, numbers"), &file, &ContextOptions::default(), &cases);
    }
}

#[test]
fn ten_thousand_flipped_bytes() {
    let [(_, bundled), (_, llama)] = models();
    let end = layout(&bundled).end;
    check("bundled, flips", &bundled, &small(), &flips(&bundled, end, 10_000));
    let end = layout(&llama).end;
    check("llama, flips", &llama, &small(), &flips(&llama, end, 10_000));
    check("llama, flips, default options", &llama, &ContextOptions::default(), &flips(&llama, end, 500));
}
