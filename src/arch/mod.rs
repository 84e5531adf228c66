//! Architectures: one file each, written purely against [`Backend`], and the registry that picks one.
//!
//! A model is built once from a file: hyper-parameters are validated, every weight is bound to a field with its exact shape, and
//! a missing, misshapen or left-over tensor is refused by name. Afterwards the model is immutable, and `forward` cannot fail
//! because of the file.
#![forbid(unsafe_code)]

use crate::backend::cpu::CpuBackend;
use crate::backend::{Backend, KvHeads};
use crate::error::{Error, Result};
use crate::gguf::{Gguf, quoted};
use crate::nn::head::Output;
use crate::nn::pooling::Pooling;
use crate::nn::workspace::{Workspace, WorkspaceShape};
use crate::nn::{Batch, Cache, Keeps, Shift};

mod bind;
mod decoder;
mod encoder;
mod encoder_decoder;
mod keys;
mod keys_table;
mod parts;
mod relative;
mod rope;

mod apertus;
mod arcee;
mod bert;
mod bitnet;
mod bloom;
mod cohere;
mod deepseek2;
pub mod dense;
mod ernie4_5;
mod eurobert;
mod exaone4;
mod falcon;
mod falcon_h1;
mod gemma;
mod gemma2;
mod gemma3;
mod gemma3n;
mod gemma4;
mod glm4;
mod glm4_moe;
mod gpt2;
mod gpt_oss;
mod gptj;
mod gptneox;
mod granite;
mod granite_swa;
pub mod head;
mod hunyuan;
mod jina_bert_v2;
mod jina_bert_v3;
mod lfm2;
mod llama;
mod llama4;
mod mamba;
mod mamba2;
mod minicpm;
mod minicpm3;
mod modern_bert;
mod mpnet;
mod nemotron_h;
mod nomic_bert;
mod olmo2;
mod olmoe;
mod phi2;
mod phi3;
mod phimoe;
mod qwen2;
mod qwen2moe;
mod qwen3;
mod qwen3moe;
mod qwen3next;
mod rwkv7;
mod seed_oss;
mod smallthinker;
mod smollm3;
mod spark2_5;
mod stablelm;
mod starcoder2;
mod t5;
mod usual;

/// The properties of a model that other layers need.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// `general.architecture`.
    pub architecture: String,
    /// Rows of the token embedding: the number of logits per position.
    pub n_vocab: usize,
    /// Positions the model was trained on.
    pub n_ctx_train: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Layers.
    pub n_layer: usize,
    /// Query heads.
    pub n_head: usize,
    /// Key/value heads.
    pub n_head_kv: usize,
    /// Length of a head's vector.
    pub head_dim: usize,
    /// Width of the feed-forward block, where layers have one and not experts.
    pub n_ff: usize,
    /// The numbers of a mixture of experts.
    pub experts: Option<ExpertInfo>,
    /// Whether a norm's weights multiply keys after their rotation, so that no key can be re-rotated.
    pub norms_rotated_keys: bool,
    /// Longest context the weights allow at all, when they set a limit (learned positions do).
    pub n_ctx_max: Option<usize>,
    /// Number of weights in the file.
    pub n_params: u64,
    /// Whether a token sees only those before it; otherwise the model is an encoder.
    pub causal: bool,
    /// The token that begins an answer, where an encoder reads the tokens before it and a decoder follows.
    pub decoder_start: Option<u32>,
    /// Whether there are logits: not in an encoder, nor in a decoder without an output projection.
    pub has_logits: bool,
    /// How the model's embeddings are pooled, when the file says so.
    pub pooling: Option<Pooling>,
    /// Whether the file says that the model scores texts, and neither embeds nor continues them.
    pub ranks: bool,
    /// For each group of layers how many positions a token sees, its own included; `None`: all before it.
    pub windows: Vec<Option<usize>>,
    /// What layers keep of a sequence, first to last; an encoder's share one store.
    pub keeps: Vec<Keeps>,
    /// Width of the buffers of recurrent layers, and the number of their heads.
    pub mix_width: (usize, usize),
    /// Width of the further buffers of a recurrence that unlearns.
    pub time_mix_width: usize,
    /// The widest queries and keys or values of a token, and the longest vector of a head.
    pub attention_width: (usize, usize, usize),
    /// Whether layers have attention with an output gate.
    pub is_gated: bool,
    /// Width of the buffers of latent attention, and its heads.
    pub latent_width: (usize, usize),
    /// Length of a token's per-layer embedding in each layer.
    pub n_embd_per_layer: usize,
    /// Vectors that make the residual stream; 0: it is a single vector.
    pub n_streams: usize,
}

impl ModelInfo {
    /// The keys and values that the layers of a group keep.
    pub fn kv_layers(&self, group: usize) -> Vec<KvHeads> {
        let heads = self.keeps.iter().filter_map(|keeps| match keeps {
            Keeps::Kv(heads, place) if place.group == group => Some(*heads),
            _ => None,
        });
        heads.collect()
    }

    /// Elements of each recurrent state.
    pub fn state_lens(&self) -> Vec<usize> {
        let lens = self.keeps.iter().filter_map(|keeps| match keeps {
            Keeps::States { conv, scan, .. } => Some([*conv, *scan]),
            Keeps::Kv(..) | Keeps::Shared(_) | Keeps::Nothing => None,
        });
        lens.flatten().collect()
    }

    /// Whether layers keep a recurrent state.
    pub fn is_recurrent(&self) -> bool {
        self.keeps.iter().any(|keeps| matches!(keeps, Keeps::States { .. }))
    }

    /// The sentence that refuses logits of a model without them.
    pub fn no_logits(&self) -> String {
        match self.causal {
            true if self.ranks => {
                "the model scores texts (its \"pooling_type\" is 4): it gives no logits of tokens".into()
            }
            true => "the model has no output projection: it gives embeddings and no logits".into(),
            false => format!(
                "the architecture \"{}\" is an encoder, which gives embeddings and no logits",
                self.architecture
            ),
        }
    }
}

impl ModelInfo {
    /// The sentence that refuses moving tokens, for models that cannot.
    pub fn no_shift(&self) -> Option<String> {
        match self.n_ctx_max {
            _ if !self.causal => Some(self.no_logits()),
            _ if self.decoder_start.is_some() => Some(format!(
                "the architecture \"{}\" is an encoder with a decoder, whose answer hangs on the whole text that the encoder read: no \
                 tokens of it can be forgotten",
                self.architecture
            )),
            _ if self.is_recurrent() => Some(format!(
                "the architecture \"{}\" has recurrent layers, whose state cannot forget tokens in the midst of a sequence",
                self.architecture
            )),
            _ if self.norms_rotated_keys => Some(format!(
                "the architecture \"{}\" multiplies keys with the weights of a norm after their rotation: what was computed at \
                 one position cannot be moved to another",
                self.architecture
            )),
            Some(_) => Some(format!(
                "the architecture \"{}\" has learned positions, which are added to tokens before all layers: what was \
                 computed at one position cannot be moved to another",
                self.architecture
            )),
            None => None,
        }
    }
}

/// The numbers of a mixture of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpertInfo {
    /// Experts in a layer.
    pub n_expert: usize,
    /// Experts of a token; at most `n_expert`.
    pub n_used: usize,
    /// Width of an expert's hidden layer.
    pub n_ff: usize,
    /// Width of the hidden layer of the expert that all tokens take, 0 where the architecture has none.
    pub n_ff_shared: usize,
    /// Layers before the first with experts: they have one feed-forward block of width [`ModelInfo::n_ff`].
    pub n_dense: usize,
    /// Whether gate and values of experts are one matrix, in some layer.
    pub joint: bool,
}

/// A model bound to the weights of one backend. Immutable; shared by all contexts.
pub trait Model<B: Backend>: Send + Sync {
    /// Its dimensions.
    fn info(&self) -> &ModelInfo;
    /// In contexts of more positions than this number, if there is one, keys are different.
    fn n_ctx_short(&self) -> Option<usize> {
        None
    }
    /// Runs a batch: appends its keys and values to `kv` and writes `out` for the rows in `batch.outputs`. `Cancelled` when
    /// `batch.watch` ended it; then the keys and values of some layers have been written.
    fn forward(
        &self,
        backend: &mut B,
        ws: &mut Workspace<B>,
        cache: &mut Cache<B>,
        batch: &Batch<'_>,
        out: Output<'_>,
    ) -> Result<()>;

    /// Moves keys and values, as if their tokens had been run at earlier positions. `Unsupported` where [`ModelInfo::no_shift`]
    /// gives a reason.
    fn shift(&self, backend: &mut B, cache: &mut Cache<B>, shift: &Shift<'_>) -> Result<()>;

    /// The workspace shape for batches of up to `n_tokens` rows.
    fn workspace_shape(&self, n_tokens: usize) -> WorkspaceShape {
        let info = self.info();
        let experts = info.experts.unwrap_or(ExpertInfo {
            n_expert: 0,
            n_used: 0,
            n_ff: 0,
            n_ff_shared: 0,
            n_dense: 0,
            joint: false,
        });
        WorkspaceShape {
            n_tokens,
            n_embd: info.n_embd,
            n_q: info.attention_width.0,
            n_kv: info.attention_width.1,
            head_dim: info.attention_width.2,
            n_head: info.n_head,
            n_mix: info.mix_width.0,
            n_mix_head: info.mix_width.1,
            n_time_mix: info.time_mix_width,
            n_q_gate: if info.is_gated { 2 * info.n_head * info.head_dim } else { 0 },
            n_gate_up: if experts.joint { experts.n_used * 2 * experts.n_ff } else { 0 },
            n_ff: match info.experts {
                Some(_) => {
                    let dense = if experts.n_dense > 0 { info.n_ff } else { 0 };
                    (experts.n_used * experts.n_ff).max(experts.n_ff_shared).max(dense)
                }
                None => info.n_ff,
            },
            n_latent: info.latent_width,
            n_per_layer: info.n_embd_per_layer * info.n_layer,
            n_streams: info.n_streams,
            n_expert: experts.n_expert,
            n_expert_used: experts.n_used,
            n_vocab: if info.has_logits { info.n_vocab } else { 0 },
        }
    }
}

/// Binds one architecture's weights.
type Bind<B> = fn(&mut bind::Binder<'_, B>) -> Result<Box<dyn Model<B>>>;

/// The architectures, by their names in files.
fn registry<B: Backend>() -> Vec<(&'static str, Bind<B>)> {
    vec![
        ("apertus", |file| apertus::bind(file).map(decoder::boxed)),
        ("arcee", |file| arcee::bind(file).map(decoder::boxed)),
        ("baichuan", |file| llama::bind_baichuan(file).map(decoder::boxed)),
        ("bailingmoe2", |file| glm4_moe::bind_usual(file).map(decoder::boxed)),
        ("bert", |file| bert::bind(file).map(encoder::boxed)),
        ("bitnet", |file| bitnet::bind(file).map(decoder::boxed)),
        ("bloom", |file| bloom::bind(file).map(decoder::boxed)),
        ("cohere2", |file| cohere::bind2(file).map(decoder::boxed)),
        ("command-r", |file| cohere::bind(file).map(decoder::boxed)),
        ("deepseek2", |file| deepseek2::bind(file).map(decoder::boxed)),
        ("dots1", |file| glm4_moe::bind_usual(file).map(decoder::boxed)),
        ("ernie4_5", |file| ernie4_5::bind(file).map(decoder::boxed)),
        ("ernie4_5-moe", |file| ernie4_5::bind_moe(file).map(decoder::boxed)),
        ("exaone4", |file| exaone4::bind(file).map(decoder::boxed)),
        ("falcon", |file| falcon::bind(file).map(decoder::boxed)),
        ("falcon-h1", |file| falcon_h1::bind(file).map(decoder::boxed)),
        ("eurobert", |file| eurobert::bind(file).map(encoder::boxed_before)),
        ("gemma", |file| gemma::bind(file).map(decoder::boxed)),
        ("gemma2", |file| gemma2::bind(file).map(decoder::boxed)),
        ("gemma3", |file| gemma3::bind(file).map(decoder::boxed)),
        ("gemma3n", |file| gemma3n::bind(file).map(decoder::boxed)),
        ("gemma4", |file| gemma4::bind(file).map(decoder::boxed)),
        ("glm4", |file| glm4::bind(file).map(decoder::boxed)),
        ("glm4moe", |file| glm4_moe::bind(file).map(decoder::boxed)),
        ("gemma-embedding", |file| gemma3::bind_embedding(file).map(encoder::boxed_before)),
        ("gpt2", |file| gpt2::bind(file).map(decoder::boxed)),
        ("gpt-oss", |file| gpt_oss::bind(file).map(decoder::boxed)),
        ("gptj", |file| gptj::bind(file).map(decoder::boxed)),
        ("gptneox", |file| gptneox::bind(file).map(decoder::boxed)),
        ("granite", |file| granite::bind(file).map(decoder::boxed)),
        ("granite_swa", |file| granite_swa::bind(file).map(decoder::boxed)),
        ("granitehybrid", |file| granite::bind_hybrid(file).map(decoder::boxed)),
        ("granitemoe", |file| granite::bind_moe(file).map(decoder::boxed)),
        ("hunyuan-dense", |file| hunyuan::bind(file).map(decoder::boxed)),
        ("hunyuan-moe", |file| hunyuan::bind_moe(file).map(decoder::boxed)),
        ("internlm2", |file| llama::bind(file).map(decoder::boxed)),
        ("jina-bert-v2", |file| jina_bert_v2::bind(file).map(encoder::boxed)),
        ("jina-bert-v3", |file| jina_bert_v3::bind(file).map(encoder::boxed)),
        ("lfm2", |file| lfm2::bind(file).map(decoder::boxed)),
        ("lfm2moe", |file| lfm2::bind_moe(file).map(decoder::boxed)),
        ("lfm3", |file| lfm2::bind_3(file).map(decoder::boxed)),
        ("llama", |file| llama::bind(file).map(decoder::boxed)),
        ("llama4", |file| llama4::bind(file).map(decoder::boxed)),
        ("mamba", |file| mamba::bind(file).map(decoder::boxed)),
        ("mamba2", |file| mamba2::bind(file).map(decoder::boxed)),
        ("minicpm3", |file| minicpm3::bind(file).map(decoder::boxed)),
        ("minicpm", |file| minicpm::bind(file).map(decoder::boxed)),
        ("mistral3", |file| llama::bind_mistral3(file).map(decoder::boxed)),
        ("mpt", |file| bloom::bind_mpt(file).map(decoder::boxed)),
        ("modern-bert", |file| modern_bert::bind(file).map(encoder::boxed_before)),
        ("mpnet", |file| mpnet::bind(file).map(encoder::boxed)),
        ("nemotron_h", |file| nemotron_h::bind(file).map(decoder::boxed)),
        ("nemotron_h_moe", |file| nemotron_h::bind(file).map(decoder::boxed)),
        ("nomic-bert", |file| nomic_bert::bind(file).map(encoder::boxed)),
        ("nomic-bert-moe", |file| nomic_bert::bind_moe(file).map(encoder::boxed)),
        ("olmo2", |file| olmo2::bind(file).map(decoder::boxed)),
        ("olmoe", |file| olmoe::bind(file).map(decoder::boxed)),
        ("phi2", |file| phi2::bind(file).map(decoder::boxed)),
        ("phi3", |file| phi3::bind(file).map(decoder::boxed)),
        ("phimoe", |file| phimoe::bind(file).map(decoder::boxed)),
        ("qwen2", |file| qwen2::bind(file).map(decoder::boxed)),
        ("qwen2moe", |file| qwen2moe::bind(file).map(decoder::boxed)),
        ("qwen2vl", |file| qwen2::bind_vl(file).map(decoder::boxed)),
        ("qwen3", |file| qwen3::bind(file).map(decoder::boxed)),
        ("qwen35", |file| qwen3next::bind_dense(file).map(decoder::boxed)),
        ("qwen35moe", |file| qwen3next::bind_moe(file).map(decoder::boxed)),
        ("qwen3moe", |file| qwen3moe::bind(file).map(decoder::boxed)),
        ("qwen3next", |file| qwen3next::bind(file).map(decoder::boxed)),
        ("qwen3vl", |file| qwen3::bind_vl(file).map(decoder::boxed)),
        ("qwen3vlmoe", |file| qwen3moe::bind_vl(file).map(decoder::boxed)),
        ("refact", |file| bloom::bind_refact(file).map(decoder::boxed)),
        ("rwkv7", |file| rwkv7::bind(file).map(decoder::boxed)),
        ("seed_oss", |file| seed_oss::bind(file).map(decoder::boxed)),
        ("smallthinker", |file| smallthinker::bind(file).map(decoder::boxed)),
        ("smollm3", |file| smollm3::bind(file).map(decoder::boxed)),
        ("spark2_5", |file| spark2_5::bind(file).map(decoder::boxed)),
        ("stablelm", |file| stablelm::bind(file).map(decoder::boxed)),
        ("starcoder2", |file| starcoder2::bind(file).map(decoder::boxed)),
        ("t5", |file| t5::bind(file).map(encoder_decoder::boxed)),
        ("t5encoder", |file| t5::bind_encoder(file).map(encoder::boxed_before)),
    ]
}

pub use keys::{Rule, Unasked};

/// The keys of GGUF files that llama.cpp reads, `{arch}` for the name of the architecture, and what happens to each where an
/// architecture does not ask for it.
pub fn keys() -> &'static [(&'static str, Unasked)] {
    keys_table::KEYS
}

/// Names of the architectures [`build`] knows.
pub fn known() -> impl Iterator<Item = &'static str> {
    registry::<CpuBackend>().into_iter().map(|(name, _)| name)
}

/// Builds the model that `gguf` describes on `backend`.
///
/// Errors: `Unsupported` for an unknown architecture or number format, `Format` for missing, misshapen or
/// contradicting keys and tensors; each sentence names the culprit.
pub fn build<B: Backend>(gguf: &Gguf, backend: &mut B) -> Result<Box<dyn Model<B>>> {
    build_and(gguf, backend, keys::Notes::warn)
}

/// As [`build`], for a file of which the same model was built before: does not warn about its keys again.
pub fn build_again<B: Backend>(gguf: &Gguf, backend: &mut B) -> Result<Box<dyn Model<B>>> {
    build_and(gguf, backend, drop)
}

fn build_and<B: Backend>(gguf: &Gguf, backend: &mut B, say: fn(keys::Notes)) -> Result<Box<dyn Model<B>>> {
    let name = gguf.metadata().require_str("general.architecture")?;
    let Some((_, bind)) = registry::<B>().into_iter().find(|(known, _)| *known == name) else {
        let mut sorted: Vec<&str> = known().collect();
        sorted.sort_unstable();
        return Err(Error::Unsupported(format!(
            "the architecture {} is not supported; known are: {}",
            quoted(name.as_bytes()),
            sorted.join(", ")
        )));
    };
    let mut binder = bind::Binder::new(gguf, backend, name);
    let model = bind(&mut binder)?;
    binder.leave_head();
    let notes = keys::check(gguf, model.info(), &binder.asked())?;
    binder.finish(model.info().n_layer)?;
    backend.finish()?;
    say(notes);
    Ok(model)
}
