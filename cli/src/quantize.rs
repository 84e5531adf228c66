//! `ember quantize`: a model file again, with its matrices in another number format.

use std::path::{Path, PathBuf};

use ember_formats::cancel::cancelled;
use ember_formats::error::Error;
use ember_formats::gguf::Gguf;
use ember_formats::quantize::Quantized;
use ember_formats::quantize::mixture::Target;
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::{Failure, Result};
use crate::{interrupt, models, output};

#[derive(clap::Args)]
pub struct QuantizeArgs {
    /// GGUF file, or the first of several, best in F32, F16 or BF16
    input: String,

    /// The GGUF file to write
    output: PathBuf,

    /// Q4_K_M, a mixture, or one format for all matrices: Q8_0, Q6_K, Q5_K, Q4_K, Q3_K, Q2_K, Q5_1, Q5_0, Q4_1, Q4_0, BF16, F16, F32
    format: String,

    /// Replaces a file that is there
    #[arg(short, long)]
    force: bool,

    /// Takes matrices too that are quantized already, and lose twice
    #[arg(long)]
    allow_requantize: bool,
}

pub fn run(args: &QuantizeArgs) -> Result<()> {
    let target = Target::parse(&args.format.to_uppercase()).map_err(|e| Failure::Usage(e.to_string()))?;
    let input = models::find(&args.input)?;
    if input.is_dir() {
        return Err(Failure::said(format!("{}: it is a folder; quantize reads GGUF files", input.display())));
    }
    if args.output.exists() && !args.force {
        return Err(Failure::said(format!(
            "{}: it is there already; --force replaces it",
            args.output.display()
        )));
    }
    // The old file stays whole until the new one is, and the input may be the output.
    let new = args.output.with_extension("gguf.incomplete");
    let done = write(&input, &new, target, args.allow_requantize).and_then(|done| {
        std::fs::rename(&new, &args.output).map_err(|e| Failure::of(args.output.display(), &e)).map(|()| done)
    });
    let (before, after) = done.inspect_err(|_| drop(std::fs::remove_file(&new)))?;
    let (before, after) = (output::size(before), output::size(after));
    output::line(format_args!(
        "{}: {}, from {before} to {after}",
        args.output.display(),
        args.format.to_uppercase()
    ))
}

/// The sizes of both files.
fn write(input: &Path, new: &Path, target: Target, again: bool) -> Result<(u64, u64)> {
    let said = |e: Error| Failure::said(e.to_string());
    let file = Gguf::open(input).map_err(said)?;
    let quantized = Quantized::new(&file, target).map_err(said)?;
    if let Some(tensor) = quantized.quantized_before().filter(|_| !again) {
        return Err(Failure::said(format!(
            "{}: the tensor {:?} is {} already, and would lose twice; take a file in F16, BF16 or F32, or give --allow-requantize",
            input.display(),
            tensor.name,
            tensor.ty
        )));
    }
    let token = interrupt::token()?;
    let bar = ProgressBar::new(file.tensors().len() as u64);
    let form = "{bar:30} {pos} of {len} tensors, {eta} left";
    bar.set_style(ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar()));
    let give = |i| {
        bar.set_position(i as u64);
        if token.is_cancelled() { Err(cancelled()) } else { quantized.data(i) }
    };
    let written = || quantized.header().and_then(|header| header.write_with(new, give));
    interrupt::during(|| {
        written().map_err(|e| if matches!(e, Error::Cancelled(_)) { Failure::Interrupted } else { said(e) })
    })?;
    bar.finish_and_clear();
    let size = std::fs::metadata(new).map_err(|e| Failure::of(new.display(), &e))?.len();
    Ok((file.file_size(), size))
}
