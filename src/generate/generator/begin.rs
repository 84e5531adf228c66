//! The beginning of a generation.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Instant;

use super::{FinishReason, Generator, Phase, Usage, run};
use crate::cancel::Watch;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::generate::speculate::Drafter;
use crate::generate::text::TextAssembler;
use crate::generate::{GenerateOptions, Prompt, Shift, check_ids, check_length, constrained, encode};
use crate::memory::{copied, copied_text, expect_memory};
use crate::model::LoadedModel;

impl Generator {
    /// Prepares the continuation of sequence `options.seq` of `context` by `prompt`, which runs with the first step.
    ///
    /// An empty prompt continues right where the last decoding ended. With `reuse_prefix` the prompt is all that the sequence
    /// shall hold.
    ///
    /// Errors: `InvalidArgument` when there is nothing to continue, for a token or sequence out of range or an empty
    /// stop string, and for numbers of `shift`, `lookup` and `draft` that do not fit; `Unsupported` for an encoder, for text or
    /// stop strings without a tokenizer, and for `shift` with learned positions; `Busy` when the draft context is in use;
    /// `NoMemory`.
    pub fn new<'a>(
        context: &Context,
        prompt: impl Into<Prompt<'a>>,
        options: &GenerateOptions,
    ) -> Result<Generator> {
        let past = context.tokens(options.seq)?;
        let past = if options.reuse_prefix { &[] } else { past };
        let (n_ctx, watch) = (context.options().n_ctx, context.watch(options.cancel.as_ref()));
        let generator = Generator::continuing(context.model(), past, n_ctx, prompt.into(), options, watch)?;
        if let Some(Shift { keep, drop }) = options.shift {
            context.check_full_shift(keep, drop)?;
        }
        if generator.usage.n_prompt == 0
            && generator.usage.finish.is_none()
            && let Err(e) = context.end_logits(options.seq)
        {
            return Err(Error::InvalidArgument(format!("the prompt is empty, but {e}")));
        }
        Ok(generator)
    }

    /// As [`Generator::new`] with `reuse_prefix`, for any context of `n_ctx`: [`Generator::resume`] names it.
    pub fn anywhere(
        model: &Arc<LoadedModel>,
        n_ctx: usize,
        prompt: Prompt<'_>,
        options: &GenerateOptions,
    ) -> Result<Generator> {
        if options.shift.is_some() {
            return Err(Error::Unsupported("an engine's generations cannot forget tokens (shift)".into()));
        }
        if let Prompt::Tokens(ids) = prompt {
            check_length(ids.len(), n_ctx, "a request of this engine")?;
        }
        let options = GenerateOptions { reuse_prefix: true, lookup: None, draft: None, ..options.clone() };
        let watch = Watch::new(options.cancel.as_ref(), None);
        Generator::continuing(model, &[], n_ctx, prompt, &options, watch)
    }

    /// A generator for a sequence that holds `past`. If `watch` cancels the encoding of the prompt, the generator has ended.
    fn continuing(
        model: &Arc<LoadedModel>,
        past: &[u32],
        n_ctx: usize,
        prompt: Prompt<'_>,
        options: &GenerateOptions,
        watch: Watch<'_>,
    ) -> Result<Generator> {
        let model = Arc::clone(model);
        model.require_logits()?;
        run::check(options)?;
        run::check_shift(options, &model, n_ctx)?;
        let constrained = options.constraint.as_ref();
        let constrained = constrained.map(|c| constrained::begin(c, &model, options)).transpose()?;
        let is_start = past.is_empty();
        if !options.stops.is_empty() {
            model.tokenizer()?;
        }
        let ids = match prompt {
            Prompt::Text(text) => encode(&model, text, past, options.parse_special, watch),
            Prompt::Tokens(ids) => copied(ids, "the prompt's tokens"),
        };
        let is_cancelled = matches!(ids, Err(Error::Cancelled(_)));
        let mut ids = if is_cancelled { Vec::new() } else { ids? };
        let is_empty = ids.is_empty();
        check_ids(&model, &ids, ids.len())?;
        if is_empty && is_start && !is_cancelled {
            return Err(Error::InvalidArgument(match options.reuse_prefix {
                true => "the prompt is empty, and it is the whole text: nothing to continue".into(),
                false => "the prompt is empty and so is the sequence: nothing to continue".into(),
            }));
        }
        if let Some(start) = model.info().decoder_start
            && !is_cancelled
            && !past.iter().chain(&ids).any(|&id| id == start)
        {
            ids.push(start);
        }
        let echo = match prompt {
            _ if !options.echo || is_cancelled => String::new(),
            Prompt::Text(text) => copied_text(text, "the prompt's text")?,
            Prompt::Tokens(ids) => {
                let bytes = model.tokenizer()?.decode(ids, options.render_special)?;
                expect_memory(3 * bytes.len(), "the prompt's text")?;
                String::from_utf8_lossy(&bytes).into_owned()
            }
        };
        let n_left = n_ctx.saturating_add(1).saturating_sub(ids.len());
        let mut tokens = run::list_for(past.len() + ids.len(), options.max_tokens.min(n_left))?;
        tokens.extend_from_slice(past);
        tokens.extend_from_slice(&ids);
        let (lookup, draft, cancel) = (options.lookup, options.draft.clone(), options.cancel.clone());
        let mut generator = Generator {
            drafter: Drafter::new(lookup, draft, cancel, &model)?,
            has_tokenizer: model.tokenizer().is_ok(),
            model,
            phase: if echo.is_empty() { Phase::Prompt } else { Phase::Echo },
            echo,
            usage: Usage { n_prompt: ids.len(), ..Usage::default() },
            tokens,
            n_run: past.len(),
            deadline: options.time_limit.and_then(|limit| Instant::now().checked_add(limit)),
            text: TextAssembler::new(&options.stops, options.include_stop),
            tops: Vec::with_capacity(options.n_top),
            options: options.clone(),
            stopping: false,
            is_first: false,
            constrained,
            n_forced_ahead: 0,
        };
        if is_cancelled {
            generator.end(FinishReason::Cancelled);
        }
        Ok(generator)
    }
}
