//! The dimensions that most architectures have, from a file's keys.
#![forbid(unsafe_code)]

use super::{Binder, MAX_DIM};
use crate::arch::ModelInfo;
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::nn::pooling::Pooled;

impl<B: Backend> Binder<'_, B> {
    /// The layers: `block_count` without the last ones that predict further tokens.
    pub fn n_layer(&self) -> Result<usize> {
        let (n_blocks, n_next) = (self.dim("block_count")?, self.count("nextn_predict_layers")? as usize);
        match n_blocks.checked_sub(n_next) {
            Some(n_layer) if n_layer > 0 => Ok(n_layer),
            _ => Err(Error::Format(format!(
                "{} is {n_next}, but there are {n_blocks} layers in all ({})",
                self.called("nextn_predict_layers"),
                self.called("block_count")
            ))),
        }
    }

    /// The dimensions common to most architectures, checked against each other and against the vocabulary.
    pub fn info(&self) -> Result<ModelInfo> {
        self.info_of(self.optional_dim("attention.head_count_kv")?)
    }

    /// As [`Binder::info`] for layers with `n_head_kv` key/value heads; `None`: as many as query heads.
    pub fn info_of(&self, n_head_kv: Option<usize>) -> Result<ModelInfo> {
        let n_ff = match self.has_key("expert_feed_forward_length") {
            true => self.optional_dim("feed_forward_length")?.unwrap_or(0),
            false => self.dim("feed_forward_length")?,
        };
        self.info_with(n_head_kv, n_ff)
    }

    /// As [`Binder::info_of`] for feed-forward blocks of width `n_ff`.
    pub fn info_with(&self, n_head_kv: Option<usize>, n_ff: usize) -> Result<ModelInfo> {
        let n_embd = self.dim("embedding_length")?;
        let n_head = self.dim("attention.head_count")?;
        let n_head_kv = n_head_kv.unwrap_or(n_head);
        if !n_head.is_multiple_of(n_head_kv) {
            return Err(Error::Format(format!(
                "the head count {n_head} is no multiple of the key/value head count {n_head_kv}"
            )));
        }
        let head_dim = match self.optional_dim("attention.key_length")? {
            Some(n) => n,
            None if n_embd.is_multiple_of(n_head) => n_embd / n_head,
            None => {
                return Err(Error::Format(format!(
                    "the embedding length {n_embd} is no multiple of the head count {n_head}"
                )));
            }
        };
        if n_head.checked_mul(head_dim).is_none_or(|n| n > MAX_DIM as usize) {
            return Err(Error::Format(format!(
                "{n_head} heads ({}) of length {head_dim} ({}) are more than {MAX_DIM} in all",
                self.called("attention.head_count"),
                self.called("attention.key_length")
            )));
        }
        let value_dim = self.optional_dim("attention.value_length")?.unwrap_or(head_dim);
        // In latent attention the value is a part of the key.
        let is_latent = self.meta().get(&format!("{}.attention.kv_lora_rank", self.architecture)).is_some();
        if value_dim != head_dim && !is_latent {
            return Err(Error::Unsupported(format!(
                "values of length {value_dim} beside keys of length {head_dim} are not supported"
            )));
        }
        self.info_of_heads((n_head, n_head_kv, head_dim), n_ff)
    }

    /// As [`Binder::info`] for models without attention.
    pub fn info_recurrent(&self) -> Result<ModelInfo> {
        for name in ["attention.head_count", "attention.head_count_kv", "feed_forward_length"] {
            self.refuse(name, self.count(name)? > 0, "attention and feed-forward beside the recurrence")?;
        }
        self.info_of_heads((1, 1, 1), 0)
    }

    /// As [`Binder::info`] for models without attention whose feed-forward blocks are `n_ff` wide.
    pub fn info_without_attention(&self, n_ff: usize) -> Result<ModelInfo> {
        for name in ["attention.head_count", "attention.head_count_kv"] {
            self.refuse(name, self.count(name)? > 0, "attention beside the recurrence")?;
        }
        self.info_of_heads((1, 1, 1), n_ff)
    }

    /// The dimensions for these numbers of heads and this length.
    fn info_of_heads(
        &self,
        (n_head, n_head_kv, head_dim): (usize, usize, usize),
        n_ff: usize,
    ) -> Result<ModelInfo> {
        let pooling = self.pooling()?;
        Ok(ModelInfo {
            architecture: self.architecture.to_owned(),
            n_vocab: self.n_vocab()?,
            n_ctx_train: self.dim("context_length")?,
            n_embd: self.dim("embedding_length")?,
            n_layer: self.n_layer()?,
            n_head,
            n_head_kv,
            head_dim,
            n_ff,
            experts: None,
            norms_rotated_keys: false,
            n_ctx_max: None,
            n_params: self.n_params(),
            causal: true,
            decoder_start: None,
            has_logits: self.gguf.further().has_head && pooling != Some(Pooled::Scores),
            pooling: pooling.and_then(Pooled::embeddings),
            ranks: pooling == Some(Pooled::Scores),
            windows: vec![None],
            keeps: Vec::new(),
            mix_width: (0, 0),
            time_mix_width: 0,
            attention_width: (n_head * head_dim, n_head_kv * head_dim, head_dim),
            is_gated: false,
            latent_width: (0, 0),
            n_embd_per_layer: 0,
            n_streams: 0,
        })
    }

    /// How embeddings are pooled, by `pooling_type`; `None` when absent.
    fn pooling(&self) -> Result<Option<Pooled>> {
        let key = self.key("pooling_type");
        self.meta().u32(&key)?.map(|number| Pooled::from_gguf(&key, number)).transpose()
    }

    /// The number of rows of `token_embd.weight`, which the vocabulary, when there is one, must agree with.
    fn n_vocab(&self) -> Result<usize> {
        let t = self.find("token_embd.weight")?;
        let n_vocab = if t.dims.len() == 2 { t.dims[1] } else { 1 };
        if let Some(tokens) = self.meta().strings("tokenizer.ggml.tokens")?
            && tokens.len() != n_vocab
        {
            return Err(Error::Format(format!(
                "\"tokenizer.ggml.tokens\" has {} entries but the tensor \"token_embd.weight\" has {n_vocab} rows",
                tokens.len()
            )));
        }
        Ok(n_vocab)
    }

    fn n_params(&self) -> u64 {
        self.gguf.tensors().iter().fold(0u64, |sum, t| {
            sum.saturating_add(t.dims.iter().fold(1u64, |n, &d| n.saturating_mul(d as u64)))
        })
    }

    /// The numbers `ARCH.name` of all blocks, with those that predict further tokens: a list or a single one.
    pub fn layer_counts(&self, name: &str) -> Result<Vec<u32>> {
        let n_blocks = self.dim("block_count")?;
        let counts = self.counts(name, n_blocks)?;
        Ok(if counts.len() == 1 { vec![counts[0]; n_blocks] } else { counts })
    }

    /// The number of key/value heads that all layers with attention have; others have 0 in `n_head_kv`.
    pub fn one_head_count(&self, n_head_kv: &[u32]) -> Result<usize> {
        let mut counts = n_head_kv.iter().filter(|&&n| n > 0);
        let called = || self.called("attention.head_count_kv");
        match counts.next() {
            None => {
                Err(Error::Unsupported(format!("models without attention ({}) are not supported", called())))
            }
            Some(first) if counts.any(|n| n != first) => Err(Error::Unsupported(format!(
                "layers with different numbers in {} are not supported",
                called()
            ))),
            Some(&first) => Ok(first as usize),
        }
    }

    /// Whether value heads that share a key head are neighbours. In GGUF files each is as many heads from the next as there are
    /// key heads.
    pub fn values_are_grouped(&self) -> bool {
        self.gguf.further().values_are_grouped
    }

    /// The shortest time step of mixers of Mamba-2; GGUF files do not have one.
    pub fn least_time_step(&self) -> f32 {
        self.gguf.further().least_time_step
    }

    /// The epsilon of norms within Mamba mixers; GGUF files do not have it.
    pub fn mixer_epsilon(&self) -> Option<f32> {
        self.gguf.further().mixer_epsilon
    }
}
