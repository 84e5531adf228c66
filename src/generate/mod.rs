//! From a prompt to text: tokenize, prefill, then sample and decode token by token, handing out whole code points.
#![forbid(unsafe_code)]

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::context::{Context, Tokens};
use crate::error::{Error, Result};
use crate::sampler::Sampler;

pub mod utf8;

use utf8::Utf8Assembler;

/// How to generate.
#[derive(Debug, Clone)]
pub struct GenerateOptions {
    /// Most tokens to generate.
    pub max_tokens: usize,
    /// Sequence of the context to continue.
    pub seq: u32,
    /// Whether the text of special tokens in the prompt stands for these tokens.
    pub parse_special: bool,
    /// Whether control tokens that the model generates appear in the text.
    pub render_special: bool,
    /// Go on after an end-of-generation token.
    pub ignore_eog: bool,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        GenerateOptions {
            max_tokens: 128,
            seq: 0,
            parse_special: false,
            render_special: false,
            ignore_eog: false,
        }
    }
}

/// Why generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// `max_tokens` were generated.
    MaxTokens,
    /// The model gave an end-of-generation token.
    EndOfGeneration,
    /// The callback asked to stop.
    Stopped,
    /// The context has no room for another token.
    ContextFull,
}

/// What a generation did.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Tokens of the prompt, BOS included.
    pub n_prompt: usize,
    /// Tokens generated, the end-of-generation token not counted.
    pub n_generated: usize,
    /// Why it ended.
    pub finish: FinishReason,
    /// Time spent on the prompt.
    pub prefill: Duration,
    /// Time spent on generated tokens, the callback's included.
    pub decode: Duration,
}

/// Continues sequence `options.seq` of `context` by `prompt` and generated tokens.
///
/// BOS is added as the file says when the sequence is empty, EOS never. `on_text` receives whole code points;
/// bytes that are no UTF-8 arrive as U+FFFD. Afterwards the sequence holds the prompt and the generated tokens but
/// for an end-of-generation token; an empty prompt continues right there.
///
/// Errors: `ContextFull` when the prompt does not fit (the sequence is unchanged); `InvalidArgument` when there is
/// nothing to continue; whatever tokenizing, decoding and sampling report.
pub fn generate(
    context: &mut Context,
    sampler: &mut Sampler,
    prompt: &str,
    options: &GenerateOptions,
    mut on_text: impl FnMut(&str) -> ControlFlow<()>,
) -> Result<Outcome> {
    let start = Instant::now();
    let model = context.model().clone();
    model.require_logits()?;
    let tokenizer = model.tokenizer()?;
    let is_start = context.n_past(options.seq)? == 0;
    let mut ids = tokenizer.encode(prompt, is_start, options.parse_special)?;
    if is_start && tokenizer.add_eos() {
        // Some files ask for EOS behind every text; behind a prompt it would end what is to be continued.
        ids.pop_if(|last| Some(*last) == tokenizer.eos());
    }
    let seq = [options.seq];
    if !ids.is_empty() {
        let seqs = vec![options.seq; ids.len()];
        context.decode(Tokens { seqs: Some(&seqs), ..Tokens::next(&ids) })?;
    } else if is_start {
        return Err(Error::InvalidArgument(
            "the prompt is empty and so is the sequence: nothing to continue".into(),
        ));
    } else if let Err(e) = context.end_logits(options.seq) {
        return Err(Error::InvalidArgument(format!("the prompt is empty, but {e}")));
    }
    let prefill = start.elapsed();

    let start = Instant::now();
    let mut text = Utf8Assembler::default();
    let mut n_generated = 0;
    let finish = loop {
        if n_generated == options.max_tokens {
            break FinishReason::MaxTokens;
        }
        if context.n_past(options.seq)? == context.options().n_ctx {
            break FinishReason::ContextFull;
        }
        let token = sampler.sample(context.end_logits(options.seq)?)?;
        if tokenizer.is_eog(token) && !options.ignore_eog {
            break FinishReason::EndOfGeneration;
        }
        n_generated += 1;
        let bytes = match tokenizer.is_hidden(token) && !options.render_special {
            true => &[],
            // Embeddings may have more rows than there are tokens, for the sake of even sizes; those have no text.
            false => tokenizer.token_bytes(token).unwrap_or(&[]),
        };
        let piece = text.push(bytes);
        let control = if piece.is_empty() { ControlFlow::Continue(()) } else { on_text(piece) };
        context.decode(Tokens { seqs: Some(&seq), ..Tokens::next(&[token]) })?;
        if control.is_break() {
            break FinishReason::Stopped;
        }
    };
    let rest = text.finish();
    if !rest.is_empty() && finish != FinishReason::Stopped {
        // Generation has ended, so there is nothing left to stop.
        let _ = on_text(rest);
    }
    Ok(Outcome { n_prompt: ids.len(), n_generated, finish, prefill, decode: start.elapsed() })
}
