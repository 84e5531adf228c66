//! A model file opened, checked and bound: what `ember_model` holds.
#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::Arc;

use crate::backend::threaded::{F32Products, Pack, ThreadedBackend};
use crate::cancel::{CancelToken, Watch};
use crate::error::{Error, Result};
use crate::gguf::Gguf;
#[cfg(feature = "hf")]
use crate::hf::{self, HfFolder};
use crate::kernels::{Isa, Kernels};
use crate::models::{self, Model, ModelInfo};
use crate::threads::{self, ThreadPool};
use crate::tokenizer::Tokenizer;

/// How to load a model.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Map the files (the default) instead of reading them into memory. A mapped file must not be changed or shortened
    /// while the model lives: the operating system may then end the process on the next access.
    pub use_mmap: bool,
    /// Use no instruction set above this one; `None`: the best that the machine can run. A name in the environment variable
    /// [`ISA_VARIABLE`](crate::kernels::ISA_VARIABLE) lowers the level of every model.
    pub isa: Option<Isa>,
    /// Which matrices are packed for the machine's vector instructions. Packing takes loading as long as copying them
    /// does and as much memory as they have in the file, which gives its own back when it is mapped; a file that was
    /// read, or came as bytes, keeps it, so that the model then takes twice its size. What is not packed lies in the
    /// mapping, is shared by all processes that map the file and is multiplied several times as slowly.
    pub pack: Pack,
    /// Ends the loading early, with `Cancelled`: looked at for every tensor and every half megabyte that is packed.
    pub cancel: Option<CancelToken>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions { use_mmap: true, isa: None, pack: Pack::Auto, cancel: None }
    }
}

/// Binds the weights; all cores pack them.
fn bind(
    gguf: &Gguf,
    kernels: &'static Kernels,
    pack: Pack,
    cancel: Option<CancelToken>,
) -> Result<Arc<dyn Model<ThreadedBackend>>> {
    let pool = ThreadPool::new(threads::default_threads(None), None)?;
    let mut backend = ThreadedBackend::new(kernels, pool, F32Products::Dots)?;
    backend.set_pack(pack);
    backend.set_cancel(cancel);
    models::build(gguf, &mut backend).map(Arc::from)
}

/// A model: immutable, shareable between threads and contexts.
pub struct LoadedModel {
    gguf: Arc<Gguf>,
    tokenizer: Option<Tokenizer>,
    /// What the weights are packed for; contexts compute with the same.
    kernels: &'static Kernels,
    threaded: Arc<dyn Model<ThreadedBackend>>,
}

impl LoadedModel {
    /// Loads the GGUF file, or the Hugging Face folder, at `path`. Every error sentence begins with the path.
    pub fn open(path: &Path, options: &LoadOptions) -> Result<LoadedModel> {
        let watch = Watch::new(options.cancel.as_ref(), None);
        if path.is_dir() {
            return LoadedModel::of_folder(path, watch, options);
        }
        let gguf = if options.use_mmap { Gguf::open(path)? } else { Gguf::read_under(path, watch)? };
        LoadedModel::of_file(gguf, options)
    }

    /// Loads GGUF bytes, of which a copy is kept; `name` stands for the path in error sentences.
    pub fn from_bytes(bytes: &[u8], name: &str) -> Result<LoadedModel> {
        LoadedModel::of_file(Gguf::from_bytes(bytes, name)?, &LoadOptions::default())
    }

    fn of_file(gguf: Gguf, options: &LoadOptions) -> Result<LoadedModel> {
        let tokenizer = |gguf: &Gguf| match gguf.metadata().str("tokenizer.ggml.model")? {
            None | Some("none" | "no_vocab") => Ok(None),
            Some(_) => Tokenizer::from_gguf(gguf.metadata()).map(Some),
        };
        LoadedModel::new(gguf, tokenizer, options)
    }

    #[cfg(not(feature = "hf"))]
    fn of_folder(path: &Path, _: Watch<'_>, _: &LoadOptions) -> Result<LoadedModel> {
        Err(Error::Unsupported(format!(
            "{}: this is a folder, and Hugging Face's need the feature \"hf\", which this build of Ember is without",
            path.display()
        )))
    }

    #[cfg(feature = "hf")]
    fn of_folder(path: &Path, watch: Watch<'_>, options: &LoadOptions) -> Result<LoadedModel> {
        let folder = hf::open_under(path, options.use_mmap, watch)?;
        let HfFolder { gguf, tokenizer_json, tokenizer_config, chat_template, end_tokens } = folder;
        let tokenizer = |_: &Gguf| {
            let Some(json) = &tokenizer_json else { return Ok(None) };
            let mut tokenizer = Tokenizer::from_json(json, tokenizer_config.as_deref())
                .map_err(|e| e.within("tokenizer.json"))?;
            tokenizer.add_ends(&end_tokens);
            if let Some(text) = chat_template {
                tokenizer.set_chat_template(text);
            }
            Ok(Some(tokenizer))
        };
        LoadedModel::new(gguf, tokenizer, options)
    }

    /// Builds the tokenizer on the caller's thread, since that may log, while others bind and pack the weights.
    fn new(
        gguf: Gguf,
        tokenizer: impl FnOnce(&Gguf) -> Result<Option<Tokenizer>>,
        options: &LoadOptions,
    ) -> Result<LoadedModel> {
        let gguf = Arc::new(gguf);
        let within = |e: Error| e.within(gguf.name());
        let kernels = Kernels::for_model(options.isa).map_err(within)?;
        let watch = Watch::new(options.cancel.as_ref(), None);
        watch.check().map_err(within)?;
        let (file, pack, cancel) = (Arc::clone(&gguf), options.pack, options.cancel.clone());
        let (tokenizer, threaded) =
            threads::both(|| tokenizer(&gguf), move || bind(&file, kernels, pack, cancel));
        let (tokenizer, threaded) = (tokenizer.map_err(within)?, threaded.map_err(within)?);
        watch.check().map_err(within)?;
        let n_vocab = threaded.info().n_vocab;
        if let Some(n) = tokenizer.as_ref().map(Tokenizer::n_vocab).filter(|&n| n > n_vocab) {
            // Some tokenizers know tokens of a larger sibling (Gemma 3's know that of images). Decoding one is refused.
            log::warn!("{}: the tokenizer has {n} tokens, the model {n_vocab} embeddings", gguf.name());
        }
        let model = LoadedModel { gguf, tokenizer, kernels, threaded };
        let info = model.info();
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
        self.tokenizer.as_ref().ok_or_else(|| {
            Error::Unsupported(format!(
                "{}: the model has no tokenizer (\"tokenizer.ggml.model\")",
                self.name()
            ))
        })
    }

    /// `Unsupported` for an encoder, which has embeddings only.
    pub fn require_logits(&self) -> Result<()> {
        match self.info().causal {
            true => Ok(()),
            false => Err(Error::Unsupported(format!("{}: {}", self.name(), self.info().no_logits()))),
        }
    }

    /// The instruction-set level that contexts compute with, all but those of the scalar backend.
    pub fn isa(&self) -> Isa {
        self.kernels.isa
    }

    /// The functions of that level.
    pub(super) fn kernels(&self) -> &'static Kernels {
        self.kernels
    }

    /// The weights as bound for the threaded backend.
    pub(super) fn threaded(&self) -> Arc<dyn Model<ThreadedBackend>> {
        Arc::clone(&self.threaded)
    }
}
