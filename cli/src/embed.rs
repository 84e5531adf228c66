//! `ember embed`: vectors of texts, a line of JSON each.
#![forbid(unsafe_code)]

use std::io::{BufRead, IsTerminal};

use serde_json::json;

use crate::failure::{Failure, Result};
use crate::library::{Context, ContextOptions, EmbedOptions, Model};
use crate::{ffi, interrupt, models, output};

/// Lines of standard input that are embedded in one call.
const BATCH: usize = 64;

#[derive(clap::Args)]
pub struct EmbedArgs {
    /// GGUF file, Hugging Face folder, or OWNER/NAME that `ember pull` fetched
    model: String,

    /// Texts; without any each line of standard input is one
    texts: Vec<String>,

    /// Numbers of a vector that are kept, for models that were trained for it; 0: all
    #[arg(long, value_name = "N", default_value_t = 0)]
    dimensions: usize,

    /// The model's prompt of this name goes before each text
    #[arg(long, value_name = "NAME")]
    prompt: Option<String>,

    /// Which hidden states make a vector [default: as the model says]
    #[arg(long, value_name = "KIND")]
    pooling: Option<Pooling>,

    /// Whether vectors are scaled to length 1 [default: as the model says]
    #[arg(long, value_name = "BOOL")]
    normalize: Option<bool>,

    /// Cuts texts that are too long, which are refused otherwise
    #[arg(long)]
    truncate: bool,

    /// Threads; 0: one for each core
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    threads: u32,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Pooling {
    Mean,
    Cls,
    Last,
}

pub fn run(args: &EmbedArgs) -> Result<()> {
    let input = std::io::stdin();
    if args.texts.is_empty() && input.is_terminal() {
        return Err(Failure::Usage("texts are needed, as arguments or as lines of standard input".into()));
    }
    let path = models::find(&args.model)?;
    let options = options(args)?;
    let (mut context, _) = interrupt::during(|| {
        let model = Model::load(&path, interrupt::token()?)?;
        // Vectors are compared with those of other programs: nothing is rounded that need not be.
        Context::new(&model, &ContextOptions::new(0, args.threads)?.exact()?, interrupt::token()?)
    })?;
    let mut first = 0;
    let mut batch = |texts: &[String]| {
        write(&mut context, texts, first, &options)?;
        first += texts.len();
        Ok(())
    };
    if !args.texts.is_empty() {
        return args.texts.chunks(BATCH).try_for_each(batch);
    }
    let mut texts = Vec::new();
    for line in input.lock().lines() {
        texts.push(line.map_err(|e| Failure::of("standard input", &e))?);
        if texts.len() == BATCH {
            batch(&std::mem::take(&mut texts))?;
        }
    }
    if texts.is_empty() { Ok(()) } else { batch(&texts) }
}

fn options(args: &EmbedArgs) -> Result<EmbedOptions> {
    let mut options = EmbedOptions::new()?;
    options.truncate(args.truncate)?;
    options.dimensions(args.dimensions)?;
    if let Some(pooling) = args.pooling {
        options.pooling(match pooling {
            Pooling::Mean => ffi::EMBER_POOLING_MEAN,
            Pooling::Cls => ffi::EMBER_POOLING_CLS,
            Pooling::Last => ffi::EMBER_POOLING_LAST,
        })?;
    }
    if let Some(normalize) = args.normalize {
        options.normalize(normalize)?;
    }
    if let Some(prompt) = &args.prompt {
        options.prompt(prompt)?;
    }
    Ok(options)
}

/// Writes the vectors of texts, of which the first has the number `first`.
fn write(context: &mut Context, texts: &[String], first: usize, options: &EmbedOptions) -> Result<()> {
    let (numbers, _) =
        interrupt::during(|| context.embed(texts, options)).map_err(|failure| match failure {
            // The library counts within one call.
            Failure::Said(sentence) if first > 0 => {
                Failure::Said(format!("in the texts from number {first} on: {sentence}"))
            }
            failure => failure,
        })?;
    for (i, vector) in numbers.chunks(numbers.len() / texts.len()).enumerate() {
        output::line(format_args!("{}", json!({ "index": first + i, "embedding": vector })))?;
    }
    Ok(())
}
