//! `ember bench`: how fast a model runs prompts and generates.
#![forbid(unsafe_code)]

use std::time::Instant;

use serde_json::{Value, json};

use crate::failure::{Failure, Result};
use crate::library::{Context, ContextOptions, EmbedOptions, Model, version};
use crate::{interrupt, models, output};

#[derive(clap::Args)]
pub struct BenchArgs {
    /// GGUF file, Hugging Face folder, or OWNER/NAME that `ember pull` fetched
    model: String,

    /// Tokens of the prompt; 0: no prompt is timed
    #[arg(short = 'p', long, value_name = "N", default_value_t = 512)]
    n_prompt: u32,

    /// Tokens to generate; 0: none are timed
    #[arg(short = 'n', long, value_name = "N", default_value_t = 128)]
    n_gen: u32,

    /// How many times each is timed, after a run that is not
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,

    /// Threads; 0: one for each core
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    threads: u32,

    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Tokens in a second, of each repetition, in ascending order.
struct Measured {
    test: &'static str,
    n_tokens: u32,
    rates: Vec<f64>,
}

impl Measured {
    fn median(&self) -> f64 {
        let n = self.rates.len();
        (self.rates[(n - 1) / 2] + self.rates[n / 2]) / 2.0
    }
}

pub fn run(args: &BenchArgs) -> Result<()> {
    if args.n_prompt == 0 && args.n_gen == 0 {
        return Err(Failure::Usage("with -p 0 and -n 0 there is nothing to time".into()));
    }
    let path = models::find(&args.model)?;
    let ((model, context, measured), interrupted) = interrupt::during(|| {
        let model = Model::load(&path, interrupt::token()?)?;
        let info = model.info()?;
        let n_ctx = args.n_prompt.max(args.n_gen);
        let mut context =
            Context::new(&model, &ContextOptions::new(n_ctx, args.threads)?, interrupt::token()?)?;
        let tokens = tokens(info.n_vocab, n_ctx);
        let mut measured = Vec::new();
        let prompt = &tokens[..args.n_prompt as usize];
        if info.causal == 0 {
            if prompt.is_empty() {
                return Err(Failure::said(
                    "the model is an encoder, which generates nothing; -p N times a text",
                ));
            }
            let options = EmbedOptions::new()?;
            measured.push(time(args, "embed", args.n_prompt, || {
                context.embed_tokens(prompt, &options).map(|_| ())
            })?);
        } else {
            if !prompt.is_empty() {
                measured.push(time(args, "prompt", args.n_prompt, || {
                    context.clear()?;
                    context.decode(prompt)
                })?);
            }
            if args.n_gen > 0 {
                let generated = &tokens[..args.n_gen as usize];
                measured.push(time(args, "generate", args.n_gen, || {
                    context.clear()?;
                    generated.chunks(1).try_for_each(|token| context.decode(token))
                })?);
            }
        }
        Ok((model, context, measured))
    })?;
    if interrupted {
        return Err(Failure::Interrupted);
    }
    let (info, n_threads) = (model.info()?, context.info()?.n_threads);
    if args.json {
        let results: Vec<Value> = measured.iter().map(|m| json!({
            "test": m.test, "n_tokens": m.n_tokens, "repetitions": m.rates.len(), "tokens_per_second": m.median(),
            "min": m.rates.first(), "max": m.rates.last(),
        })).collect();
        return output::line(format_args!(
            "{}",
            json!({
                "model": path.to_string_lossy(), "file_size": info.file_size, "n_params": info.n_params, "isa": model.isa(),
                "n_threads": n_threads, "version": version().0, "results": results,
            })
        ));
    }
    output::line(format_args!("{}", path.display()))?;
    output::line(format_args!(
        "{}, {:.1} M parameters, {}, {n_threads} threads, Ember {}",
        output::size(info.file_size),
        info.n_params as f64 / 1e6,
        model.isa(),
        version().0
    ))?;
    output::line(format_args!(
        "\n{:<10} {:>7}  {:>12}  {:>10}  {:>10}",
        "test", "tokens", "tokens/s", "least", "most"
    ))?;
    for m in &measured {
        let (least, most) = (m.rates[0], m.rates[m.rates.len() - 1]);
        output::line(format_args!(
            "{:<10} {:>7}  {:>12.1}  {least:>10.1}  {most:>10.1}",
            m.test,
            m.n_tokens,
            m.median()
        ))?;
    }
    output::line(format_args!("\ntokens/s is the median of {}.", args.repetitions))
}

/// Tokens that are the same each time, of the whole vocabulary.
fn tokens(n_vocab: u32, n: u32) -> Vec<u32> {
    let mut state = 1u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(n_vocab.max(1))) as u32
    };
    (0..n).map(next).collect()
}

/// Times `work`, which runs `n_tokens`.
fn time(
    args: &BenchArgs,
    test: &'static str,
    n_tokens: u32,
    mut work: impl FnMut() -> Result<()>,
) -> Result<Measured> {
    work()?;
    let mut rates = Vec::new();
    for _ in 0..args.repetitions {
        let start = Instant::now();
        work()?;
        rates.push(f64::from(n_tokens) / start.elapsed().as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    Ok(Measured { test, n_tokens, rates })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_two() {
        let of = |rates: &[f64]| Measured { test: "", n_tokens: 1, rates: rates.to_vec() }.median();
        assert_eq!([of(&[3.0]), of(&[1.0, 2.0]), of(&[1.0, 2.0, 9.0])], [3.0, 1.5, 2.0]);
    }

    #[test]
    fn tokens_are_those_of_the_vocabulary() {
        assert!(tokens(10, 1000).iter().all(|&token| token < 10));
        assert_eq!(tokens(1000, 5), tokens(1000, 5));
    }
}
