//! Loading a model: the options, and the steps.
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::check;
use crate::arch::dense::Dense;
use crate::arch::head::TextHead;
use crate::arch::{self, Model};
use crate::backend::host::Loading;
use crate::backend::threaded::{F32Products, Pack, ThreadedBackend};
use crate::cancel::{CancelToken, Progress, Watch};
use crate::error::{Error, Result};
use crate::gguf::{FileBytes, Gguf, Reading, Value};
#[cfg(feature = "hf")]
use crate::hf::{self, HfFolder};
use crate::kernels::{Isa, Kernels};
use crate::memory::reserve::{self, Mark};
use crate::memory::{Memory, MemoryOptions};
use crate::threads::{self, ThreadPool};
use crate::tokenizer::Tokenizer;
#[cfg(feature = "hf")]
use crate::tokenizer::TokenizerFiles;

/// The options of loading.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Map the files (the default) instead of reading them into memory. A mapped file must not be changed or shortened while the
    /// model lives: the operating system may end the process on the next access. Packed matrices are safe, since they are not
    /// read again. So are rows of tables, which are read each time and end calls with `Io`. Mapped files stay open.
    pub use_mmap: bool,
    /// Use no instruction set above this one; `None`: the best that the machine can run. A name in the environment variable
    /// [`ISA_VARIABLE`](crate::kernels::ISA_VARIABLE) lowers the level of every model.
    pub isa: Option<Isa>,
    /// Which matrices are packed for the machine's vector instructions. Packing takes as long as copying the matrices, and as
    /// much memory as they have in the file. A mapped file takes no memory of its own. A file that was read, or came as bytes,
    /// keeps its memory, so the model then takes twice its size. Unpacked matrices lie in the mapping, which all processes share,
    /// and are packed anew, a few rows at a time, for each product.
    pub pack: Pack,
    /// Ends the loading early, with `Cancelled`: checked for every tensor, every half megabyte that is packed and every few
    /// thousand tokens and merges of the vocabulary.
    pub cancel: Option<CancelToken>,
    /// Lock the weights into memory.
    pub lock: bool,
    /// Check every number of every tensor and refuse a file in which one is not finite.
    pub check_tensors: bool,
    /// Keys that are set as if the file had these values.
    pub metadata: Vec<(Box<str>, Value)>,
    /// The source of large buffers of the model and of its contexts, and how many bytes they may have together.
    pub memory: MemoryOptions,
    /// Called now and then with the progress of loading.
    pub progress: Option<ProgressCallback>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            use_mmap: true,
            isa: None,
            pack: Pack::Auto,
            cancel: None,
            lock: false,
            check_tensors: false,
            metadata: Vec::new(),
            memory: MemoryOptions::default(),
            progress: None,
        }
    }
}

/// Called on the loading thread with the share that is done, from 0 to 1, never less than before; false ends the loading with
/// `Cancelled`.
#[derive(Clone)]
pub struct ProgressCallback(pub Arc<dyn Fn(f32) -> bool + Send + Sync>);

impl fmt::Debug for ProgressCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a callback")
    }
}

/// The results of loading.
pub(super) struct Parts {
    pub gguf: Arc<Gguf>,
    pub tokenizer: Option<Tokenizer>,
    pub kernels: &'static Kernels,
    pub threaded: Arc<dyn Model<ThreadedBackend>>,
    pub head: Option<TextHead>,
    pub dense: Option<Dense>,
    pub memory: Memory,
}

/// The source of a model.
pub(super) enum Origin<'a> {
    /// A GGUF file or a Hugging Face folder.
    Path(&'a Path),
    /// A range of an open file: the offset and the number of bytes; `None`: up to its end.
    File(&'a str, File, u64, Option<u64>),
    /// Bytes, to be copied.
    Bytes(&'a str, &'a [u8]),
    /// Bytes that stay as they are until the owner is dropped.
    Borrowed(&'a str, &'static [u8], Arc<dyn std::any::Any + Send + Sync>),
}

impl Origin<'_> {
    /// The name that error sentences begin with.
    fn name(&self) -> String {
        match self {
            Origin::Path(path) => path.display().to_string(),
            Origin::File(name, ..) | Origin::Bytes(name, _) | Origin::Borrowed(name, ..) => {
                (*name).to_owned()
            }
        }
    }
}

/// A model being loaded.
pub(super) struct Load<'a> {
    options: &'a LoadOptions,
    memory: Memory,
    /// When it began.
    mark: Mark,
    /// Set when the progress callback ends the loading.
    stop: CancelToken,
    /// The number of phases; the current one; its progress; and the largest progress that was reported.
    n_phases: usize,
    phase: Cell<usize>,
    progress: RefCell<Progress>,
    reported: Cell<f32>,
}

impl<'a> Load<'a> {
    pub fn new(options: &'a LoadOptions) -> Load<'a> {
        Load {
            options,
            memory: Memory::new(options.memory.clone()),
            mark: reserve::mark(),
            stop: CancelToken::new(),
            n_phases: 1 + usize::from(!options.use_mmap) + usize::from(options.check_tensors),
            phase: Cell::new(0),
            progress: RefCell::default(),
            reported: Cell::new(0.0),
        }
    }

    /// Loads all of it.
    pub fn run(self, origin: Origin<'_>) -> Result<Parts> {
        let name = origin.name();
        let report = |share| self.report(share).map_err(|e| e.within(&name));
        let parts =
            report(0.0).and_then(|()| self.load(origin)).and_then(|parts| report(1.0).map(|()| parts));
        match parts {
            Err(Error::Cancelled(_)) if self.stop.is_cancelled() => {
                Err(Error::Cancelled("the progress callback ended the loading".into()).within(&name))
            }
            other => other,
        }
    }

    fn load(&self, origin: Origin<'_>) -> Result<Parts> {
        let step = || self.step();
        let progress = self.progress.borrow().clone();
        let reading = Reading { memory: &self.memory, progress, step: &step };
        let use_mmap = self.options.use_mmap;
        let gguf = match origin {
            Origin::Path(path) if path.is_dir() => return self.folder(path, &reading),
            Origin::Path(path) => Gguf::open_with(path, use_mmap, &reading)?,
            Origin::File(name, file, offset, len) => {
                let bytes = || FileBytes::part_of(file, offset, len, use_mmap, &reading);
                Gguf::load(name, &reading, bytes)?
            }
            Origin::Bytes(name, bytes) => {
                Gguf::load(name, &reading, || FileBytes::copy(bytes, &self.memory))?
            }
            Origin::Borrowed(name, bytes, owner) => {
                Gguf::load(name, &reading, || FileBytes::borrowed(bytes, owner, &self.memory))?
            }
        };
        let tokenizer = |gguf: &Gguf| match has_tokenizer(gguf)? {
            false => Ok(None),
            true => Tokenizer::from_gguf_under(gguf.metadata(), &step).map(Some),
        };
        self.build(gguf, tokenizer)
    }

    #[cfg(not(feature = "hf"))]
    fn folder(&self, path: &Path, _: &Reading<'_>) -> Result<Parts> {
        Err(Error::Unsupported(format!(
            "{}: this is a folder, and Hugging Face's need the feature \"hf\", which this build of Ember is without",
            path.display()
        )))
    }

    #[cfg(feature = "hf")]
    fn folder(&self, path: &Path, reading: &Reading<'_>) -> Result<Parts> {
        let folder = hf::open_with(path, self.options.use_mmap, reading)?;
        let HfFolder { gguf, tokenizer_json, beside, model_type, end_tokens } = folder;
        let tokenizer = |_: &Gguf| {
            let Some(json) = &tokenizer_json else { return Ok(None) };
            super::tokenizer::of_folder(json, beside, Some(model_type), &end_tokens, &|| self.step())
                .map(Some)
        };
        self.build(gguf, tokenizer)
    }

    /// Builds the tokenizer on the caller's thread, since that may log, while other threads bind and pack the weights.
    fn build(
        &self,
        mut gguf: Gguf,
        tokenizer: impl FnOnce(&Gguf) -> Result<Option<Tokenizer>>,
    ) -> Result<Parts> {
        let name = gguf.name().to_owned();
        let within = |e: Error| e.within(&name);
        gguf.set_metadata(&self.options.metadata)?;
        let gguf = Arc::new(gguf);
        let kernels = Kernels::for_model(self.options.isa).map_err(within)?;
        if !self.options.use_mmap {
            self.next_phase();
        }
        if self.options.check_tensors {
            check::check_tensors(&gguf, &self.progress.borrow().clone(), &|| self.step()).map_err(within)?;
            self.next_phase();
        }
        self.step().map_err(within)?;
        let binding = Binding {
            kernels,
            pack: self.options.pack,
            loading: Loading {
                cancel: [self.options.cancel.clone(), Some(self.stop.clone())],
                progress: self.progress.borrow().clone(),
                lock: self.options.lock,
            },
            memory: self.memory.clone(),
        };
        let file = Arc::clone(&gguf);
        // The error that ends the loading here reaches the packing by the token.
        let tick = || drop(self.step());
        let tick: Option<&dyn Fn()> = self.options.progress.as_ref().map(|_| &tick as &dyn Fn());
        let (tokenizer, threaded) = threads::both(|| tokenizer(&gguf), move || binding.run(&file), tick);
        let (tokenizer, threaded) = (tokenizer.map_err(within)?, threaded.map_err(within)?);
        let tokenizer = tokenizer.map(|tokenizer| tokenizer.called(gguf.name()));
        let head = TextHead::bind(&gguf, threaded.info()).map_err(within)?;
        let dense = Dense::bind(&gguf, threaded.info()).map_err(within)?;
        self.step().map_err(within)?;
        gguf.release_metadata();
        Ok(Parts { gguf, tokenizer, kernels, threaded, head, dense, memory: self.memory.clone() })
    }

    fn next_phase(&self) {
        self.phase.set(self.phase.get() + 1);
        self.progress.replace(Progress::default());
    }

    /// Reports the progress; returns whether loading goes on.
    fn step(&self) -> Result<()> {
        reserve::check(self.mark)?;
        let within = self.progress.borrow().share();
        // Reports 1 only when nothing can fail any more.
        self.report(((self.phase.get() as f32 + within) / self.n_phases as f32).min(0.999))
    }

    fn report(&self, share: f32) -> Result<()> {
        Watch::new(self.options.cancel.as_ref(), Some(&self.stop)).check()?;
        let share = share.max(self.reported.get());
        self.reported.set(share);
        if self.options.progress.as_ref().is_some_and(|callback| !(callback.0)(share)) {
            self.stop.cancel();
        }
        Watch::new(Some(&self.stop), None).check()
    }
}

/// The backend that binds the weights; all cores pack them.
struct Binding {
    kernels: &'static Kernels,
    pack: Pack,
    loading: Loading,
    memory: Memory,
}

impl Binding {
    fn run(self, gguf: &Gguf) -> Result<Arc<dyn Model<ThreadedBackend>>> {
        let pool = ThreadPool::new(threads::default_threads(None), None)?;
        let mut backend = ThreadedBackend::new(self.kernels, pool, F32Products::Dots, self.memory)?;
        backend.set_pack(self.pack);
        backend.set_loading(self.loading);
        arch::build(gguf, &mut backend).map(Arc::from)
    }
}

/// Whether a GGUF file describes a tokenizer.
fn has_tokenizer(gguf: &Gguf) -> Result<bool> {
    Ok(!matches!(gguf.metadata().str("tokenizer.ggml.model")?, None | Some("none" | "no_vocab")))
}

/// The weights at `path` bound to memory that is only counted, with the bytes that reading and copying would take. There is no
/// tokenizer, though its keys in a GGUF file and the small files of a folder are checked. The files are mapped, and little of
/// them is read.
pub(super) fn measure(path: &Path, options: &LoadOptions) -> Result<Parts> {
    let options = LoadOptions {
        check_tensors: false,
        lock: false,
        progress: None,
        memory: MemoryOptions::default(),
        ..options.clone()
    };
    let load = Load::new(&options);
    let counting = counting();
    let step = || load.step();
    let reading = Reading { memory: &counting, progress: Progress::default(), step: &step };
    let mut gguf = open(path, options.use_mmap, &reading)?;
    let name = gguf.name().to_owned();
    let within = |e: Error| e.within(&name);
    gguf.set_metadata(&options.metadata)?;
    let kernels = Kernels::for_model(options.isa).map_err(within)?;
    let binding =
        Binding { kernels, pack: options.pack, loading: Loading::default(), memory: counting.clone() };
    let threaded = binding.run(&gguf).map_err(within)?;
    if !path.is_dir() {
        TextHead::bind(&gguf, threaded.info()).map_err(within)?;
        Dense::bind(&gguf, threaded.info()).map_err(within)?;
        if has_tokenizer(&gguf).map_err(within)? {
            Tokenizer::check_gguf(gguf.metadata()).map_err(within)?;
        }
    }
    #[cfg(feature = "hf")]
    if path.is_dir() {
        check_beside(path).map_err(within)?;
    }
    let gguf = Arc::new(gguf);
    Ok(Parts { gguf, tokenizer: None, kernels, threaded, head: None, dense: None, memory: counting })
}

/// Refuses a folder whose small files would fail the loading of its tokenizer.
#[cfg(feature = "hf")]
fn check_beside(path: &Path) -> Result<()> {
    let beside = hf::beside(path)?;
    let files = TokenizerFiles {
        config: beside.tokenizer_config.as_deref(),
        special_tokens_map: beside.special_tokens_map.as_deref(),
        added_tokens: beside.added_tokens.as_deref(),
        ..TokenizerFiles::default()
    };
    match hf::look_beside(path).0 {
        true => Tokenizer::check_files(&files).map_err(|e| e.within("tokenizer.json")),
        false => Ok(()),
    }
}

/// The keys and the directory of the file or folder at `path`; its memory is only counted.
pub(super) fn header(path: &Path) -> Result<Gguf> {
    open(path, true, &Reading { memory: &counting(), ..Reading::default() })
}

/// Memory that is only counted.
fn counting() -> Memory {
    Memory::new(MemoryOptions { measure: true, ..Default::default() })
}

fn open(path: &Path, use_mmap: bool, reading: &Reading<'_>) -> Result<Gguf> {
    #[cfg(feature = "hf")]
    if path.is_dir() {
        return Ok(hf::open_with(path, use_mmap, reading)?.gguf);
    }
    Gguf::open_with(path, use_mmap, reading)
}
