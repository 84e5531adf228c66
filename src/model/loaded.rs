//! A model file opened, checked and bound: what `ember_model` holds.
#![forbid(unsafe_code)]

use std::any::Any;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::fingerprint::fingerprint;
use super::load::{self, Load, LoadOptions, Origin, Parts};
use crate::arch::dense::Dense;
use crate::arch::head::TextHead;
use crate::arch::{Model, ModelInfo};
use crate::backend::Backend;
use crate::backend::threaded::ThreadedBackend;
use crate::constrain::Vocabulary;
use crate::error::{Error, Result};
use crate::gguf::Gguf;
use crate::kernels::{Isa, Kernels};
use crate::memory::{Charge, Memory, MemoryOptions, expect_memory, reserve};
use crate::tokenizer::Tokenizer;

/// A model: immutable, shareable between threads and contexts.
pub struct LoadedModel {
    gguf: Arc<Gguf>,
    tokenizer: Option<Arc<Tokenizer>>,
    head: Option<TextHead>,
    dense: Option<Dense>,
    /// The kernels that the weights are packed for; contexts compute with the same.
    kernels: &'static Kernels,
    threaded: Arc<dyn Model<ThreadedBackend>>,
    /// The weights for other backends, each an `Arc<dyn Model<B>>`, and the memory charged for them.
    others: Mutex<Vec<(Box<dyn Any + Send + Sync>, Memory)>>,
    memory: Memory,
    /// The bytes of `memory` charged for the weights of `threaded`.
    weights_memory: u64,
    load_time: Duration,
    /// Computed when it is first asked for.
    fingerprint: OnceLock<u128>,
    /// Made when it is first asked for, and its charge to `memory`.
    vocabulary: OnceLock<(Arc<Vocabulary>, Charge)>,
}

impl LoadedModel {
    /// Loads the GGUF file, or the Hugging Face folder, at `path`. Every error sentence begins with the path.
    pub fn open(path: &Path, options: &LoadOptions) -> Result<LoadedModel> {
        LoadedModel::load(Origin::Path(path), options)
    }

    /// Loads a GGUF file that is `len` bytes of an open file from `offset` on, up to its end when `len` is `None`; `name`
    /// stands for the path in error sentences.
    pub fn of_file(
        file: File,
        name: &str,
        (offset, len): (u64, Option<u64>),
        options: &LoadOptions,
    ) -> Result<LoadedModel> {
        LoadedModel::load(Origin::File(name, file, offset, len), options)
    }

    /// Loads GGUF bytes, of which a copy is kept; `name` stands for the path in error sentences.
    pub fn from_bytes(bytes: &[u8], name: &str) -> Result<LoadedModel> {
        LoadedModel::from_bytes_with(bytes, name, &LoadOptions::default())
    }

    /// As [`LoadedModel::from_bytes`], with options.
    pub fn from_bytes_with(bytes: &[u8], name: &str, options: &LoadOptions) -> Result<LoadedModel> {
        LoadedModel::load(Origin::Bytes(name, bytes), options)
    }

    /// Loads GGUF bytes that stay as they are until `owner` is dropped, which happens when nothing uses them any more. They are
    /// copied where their address is no multiple of 4.
    pub fn from_borrowed(
        bytes: &'static [u8],
        owner: Arc<dyn Any + Send + Sync>,
        name: &str,
        options: &LoadOptions,
    ) -> Result<LoadedModel> {
        LoadedModel::load(Origin::Borrowed(name, bytes, owner), options)
    }

    fn load(origin: Origin<'_>, options: &LoadOptions) -> Result<LoadedModel> {
        let begin = Instant::now();
        let model = LoadedModel::new(Load::new(options).run(origin)?, begin);
        let info = model.info();
        if let Some(n) = model.tokenizer.as_ref().map(|t| t.n_vocab()).filter(|&n| n > info.n_vocab) {
            // Some tokenizers have tokens of a larger sibling (Gemma 3's have those of images). Decoding one is refused.
            log::warn!(
                "{}: the tokenizer has {n} tokens, the model {} embeddings",
                model.name(),
                info.n_vocab
            );
        }
        log::info!(
            "loaded {}: {}, {} layers, {} parameters, {} tokens, instruction set {}",
            model.name(),
            info.architecture,
            info.n_layer,
            info.n_params,
            info.n_vocab,
            model.isa().name()
        );
        Ok(model)
    }

    /// As [`LoadedModel::open`], without weights: its memory only counts. Contexts over it cannot be used, but say how much
    /// memory they would take.
    pub fn measured(path: &Path, options: &LoadOptions) -> Result<LoadedModel> {
        Ok(LoadedModel::new(load::measure(path, options)?, Instant::now()))
    }

    fn new(parts: Parts, begin: Instant) -> LoadedModel {
        let Parts { gguf, tokenizer, kernels, threaded, head, dense, memory } = parts;
        let (weights_memory, load_time) = (memory.used(), begin.elapsed());
        LoadedModel {
            gguf,
            tokenizer: tokenizer.map(Arc::new),
            head,
            dense,
            kernels,
            threaded,
            others: Mutex::default(),
            memory,
            weights_memory,
            load_time,
            fingerprint: OnceLock::new(),
            vocabulary: OnceLock::new(),
        }
    }

    /// The path or buffer name.
    pub fn name(&self) -> &str {
        self.gguf.name()
    }

    /// The file.
    pub fn gguf(&self) -> &Gguf {
        &self.gguf
    }

    /// Dimensions.
    pub fn info(&self) -> &ModelInfo {
        self.threaded.info()
    }

    /// The tokenizer; `Unsupported` for a file without one.
    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        self.shared_tokenizer().map(Arc::as_ref)
    }

    /// As [`LoadedModel::tokenizer`], for owners that outlive the model.
    pub fn shared_tokenizer(&self) -> Result<&Arc<Tokenizer>> {
        self.tokenizer.as_ref().ok_or_else(|| {
            Error::Unsupported(format!(
                "{}: the model has no tokenizer (\"tokenizer.ggml.model\")",
                self.name()
            ))
        })
    }

    /// The tokens in the form that constraints need. It is computed when it is first asked for, which takes some hundred
    /// milliseconds for large vocabularies, and counted in [`LoadedModel::memory`].
    ///
    /// Errors: `Unsupported` for a file without a tokenizer, for one without a token that ends a text, and without the feature
    /// `constraints`; `NoMemory`.
    pub fn vocabulary(&self) -> Result<&Arc<Vocabulary>> {
        if self.vocabulary.get().is_none() {
            let mark = reserve::mark();
            let vocabulary = Vocabulary::new(self.shared_tokenizer()?).map_err(|e| e.within(self.name()))?;
            let charge =
                self.memory.charge(vocabulary.size() as u64, "the tokens arranged for constraints")?;
            // A vocabulary that needed the reserve must not stay.
            reserve::check(mark)?;
            let _ = self.vocabulary.set((Arc::new(vocabulary), charge));
        }
        match self.vocabulary.get() {
            Some((vocabulary, _)) => Ok(vocabulary),
            None => Err(Error::Internal("the tokens arranged for constraints are not there".into())),
        }
    }

    /// The tokenizer, to encode a text of `n_bytes`. `NoMemory` when the system has too little for that.
    pub fn tokenizer_for(&self, n_bytes: usize) -> Result<&Tokenizer> {
        let tokenizer = self.tokenizer()?;
        expect_memory(
            n_bytes.saturating_mul(tokenizer.memory_per_byte()),
            "tokenizing a text of this length",
        )?;
        Ok(tokenizer)
    }

    /// `Unsupported` for a model that has embeddings only: an encoder, or a decoder without an output projection.
    pub fn require_logits(&self) -> Result<()> {
        match self.info().has_logits {
            true => Ok(()),
            false => Err(Error::Unsupported(format!("{}: {}", self.name(), self.info().no_logits()))),
        }
    }

    /// The head that scores texts, if the model has one.
    pub fn head(&self) -> Option<&TextHead> {
        self.head.as_ref()
    }

    /// The layers after the pooling, if the model has any.
    pub fn dense(&self) -> Option<&Dense> {
        self.dense.as_ref()
    }

    /// Numbers of a text's vector.
    pub fn n_embd_out(&self) -> usize {
        self.dense().map_or(self.info().n_embd, Dense::n_out)
    }

    /// As [`LoadedModel::head`]; `Unsupported` for a model without.
    pub fn require_head(&self) -> Result<&TextHead> {
        self.head().ok_or_else(|| {
            Error::Unsupported(format!(
                "{}: the model has no head that scores texts (\"cls.output.weight\"; of a folder a class \
                 \"…ForSequenceClassification\")",
                self.name()
            ))
        })
    }

    /// `Unsupported`, with this reason, for a model that is an encoder with a decoder.
    pub fn require_one_part(&self, reason: &str) -> Result<()> {
        match self.info().decoder_start {
            None => Ok(()),
            Some(_) => Err(Error::Unsupported(format!(
                "{}: the architecture \"{}\" is an encoder with a decoder: {reason}",
                self.name(),
                self.info().architecture
            ))),
        }
    }

    /// `Unsupported`, with the reason, for a model whose tokens cannot be moved to other positions.
    pub fn require_shift(&self) -> Result<()> {
        match self.info().no_shift() {
            None => Ok(()),
            Some(sentence) => Err(Error::Unsupported(format!("{}: {sentence}", self.name()))),
        }
    }

    /// The instruction-set level that contexts compute with, all but those of the scalar backend.
    pub fn isa(&self) -> Isa {
        self.kernels.isa
    }

    /// The functions of that level.
    pub fn kernels(&self) -> &'static Kernels {
        self.kernels
    }

    /// What the large buffers of the model and of its contexts come from.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Bytes of the large buffers that the weights are in, mapped files not counted.
    pub fn weights_memory(&self) -> u64 {
        self.weights_memory + self.others.lock().iter().map(|(_, memory)| memory.used()).sum::<u64>()
    }

    /// A number by which saved states know their model.
    pub fn fingerprint(&self) -> Result<u128> {
        match self.fingerprint.get() {
            Some(number) => Ok(*number),
            None => {
                let number = fingerprint(self)?;
                Ok(*self.fingerprint.get_or_init(|| number))
            }
        }
    }

    /// How long loading took.
    pub fn load_time(&self) -> Duration {
        self.load_time
    }

    /// The weights as bound for the threaded backend.
    pub fn threaded(&self) -> Arc<dyn Model<ThreadedBackend>> {
        Arc::clone(&self.threaded)
    }

    /// The weights as bound for the backend `B`. They are bound when they are first asked for, by what `make` makes over the
    /// model's memory; all who ask later share them.
    pub fn on<B: Backend>(&self, make: impl FnOnce(&Memory) -> Result<B>) -> Result<Arc<dyn Model<B>>> {
        let mut others = self.others.lock();
        if let Some(model) = others.iter().find_map(|(any, _)| any.downcast_ref::<Arc<dyn Model<B>>>()) {
            return Ok(Arc::clone(model));
        }
        let memory = self.memory.inner(MemoryOptions::default());
        let model: Arc<dyn Model<B>> = Arc::from(crate::arch::build_again(&self.gguf, &mut make(&memory)?)?);
        others.push((Box::new(Arc::clone(&model)), memory));
        Ok(model)
    }
}
