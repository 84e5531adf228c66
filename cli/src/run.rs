//! `ember run`: continues a prompt.
#![forbid(unsafe_code)]

use std::io::{IsTerminal, Read};
use std::path::PathBuf;

use crate::failure::{Failure, Result};
use crate::library::{Generator, finish};
use crate::output;
use crate::text::{TextArgs, per_second, read_text};
use crate::{ffi, interrupt};

#[derive(clap::Args)]
pub struct RunArgs {
    /// GGUF file, Hugging Face folder, or OWNER/NAME that `ember pull` fetched
    model: String,

    /// Text to continue; without it the text comes from standard input
    #[arg(short, long, value_name = "TEXT", conflicts_with = "file")]
    prompt: Option<String>,

    /// File with the text to continue
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Prints the prompt too
    #[arg(long)]
    echo: bool,

    /// Takes the text of control tokens in the prompt for these tokens
    #[arg(long)]
    special: bool,

    #[command(flatten)]
    text: TextArgs,
}

pub fn run(args: &RunArgs) -> Result<()> {
    let prompt = match (&args.prompt, &args.file) {
        (Some(prompt), _) => prompt.clone(),
        (None, Some(file)) => without_line_end(&read_text(file)?),
        (None, None) => {
            without_line_end(&read_input("a prompt is needed: -p TEXT, -f FILE, or text on standard input")?)
        }
    };
    let mut loaded = args.text.load(&args.model, 256)?;
    loaded.options.parse_special(args.special)?;
    if args.echo {
        output::print(&prompt)?;
    }
    let mut ended_line = false;
    let (usage, interrupted) = interrupt::during(|| {
        let mut generator =
            Generator::new(&mut loaded.context, &prompt, &loaded.options, &mut loaded.sampler)?;
        loop {
            let (text, is_last) = generator.next()?;
            if !text.is_empty() {
                ended_line = text.ends_with('\n');
                output::print(text)?;
            }
            if is_last {
                return generator.usage();
            }
        }
    })?;
    if !ended_line {
        output::print("\n")?;
    }
    if args.text.verbose {
        let u = &usage;
        output::note(format_args!(
            "prompt {} tokens, {:.1} tokens/s | generated {} tokens, {:.1} tokens/s | {} | seed {}",
            u.n_prompt,
            per_second(u.n_prompt.into(), u.prefill_ns),
            u.n_generated,
            per_second(u.n_generated.into(), u.decode_ns),
            finish(u.finish_reason),
            loaded.sampler.seed()?,
        ));
    }
    if usage.progress == ffi::EMBER_CONSTRAINT_UNFINISHED && !interrupted {
        return Err(Failure::said(format!("the JSON is not complete: {}", finish(usage.finish_reason))));
    }
    if interrupted { Err(Failure::Interrupted) } else { Ok(()) }
}

/// All of standard input, unless a person would have to type it.
pub fn read_input(needed: &str) -> Result<String> {
    let mut input = std::io::stdin().lock();
    if input.is_terminal() {
        return Err(Failure::Usage(needed.into()));
    }
    let mut text = String::new();
    input.read_to_string(&mut text).map_err(|e| Failure::of("standard input", &e))?;
    Ok(text)
}

/// Files end with a line end, which is no part of the prompt.
fn without_line_end(text: &str) -> String {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text).to_owned()
}
