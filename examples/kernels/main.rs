//! Measures the kernels of every instruction set that this machine has, next to the machine's peaks.
//!
//! `cargo run --release --example kernels -- [--peaks] [--isa NAME] [--format NAME] [--threads N]`
//!
//! `--peaks` prints the peaks alone, as lines of JSON, for one thread and for all. The other options choose among the
//! measurements. Each number is the best of several runs, so that what else the machine does counts little.
#![allow(clippy::print_stdout, reason = "a command-line tool reports to its user")]

mod attention;
mod peaks;
mod products;

use std::error::Error;

use ember::kernels::{ISAS, Isa, Kernels};

/// What the command line asks for.
struct Options {
    peaks: bool,
    isa: Option<Isa>,
    format: Option<String>,
    threads: Vec<usize>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = read_options()?;
    for &threads in &options.threads {
        let peaks = peaks::measure(threads);
        if options.peaks {
            for peak in &peaks {
                let (what, value) = (peak.what, peak.value);
                println!("{{\"what\": \"{what}\", \"threads\": {threads}, \"value\": {value:.3}}}");
            }
            continue;
        }
        println!("\n{threads} thread{}", if threads == 1 { "" } else { "s" });
        for peak in &peaks {
            println!("{:>12} {:8.1}", peak.what, peak.value);
        }
        for row in ISAS.iter().filter(|row| options.isa.is_none_or(|isa| isa == row.isa)) {
            // A level that the machine lacks is not what `select` gives.
            let kernels = Kernels::select(Some(row.isa));
            if kernels.isa == row.isa {
                products::measure(kernels, options.format.as_deref(), threads);
                attention::measure(kernels, threads);
            }
        }
    }
    Ok(())
}

fn read_options() -> Result<Options, Box<dyn Error>> {
    let cores = std::thread::available_parallelism()?.get();
    let threads = if cores == 1 { vec![1] } else { vec![1, cores] };
    let mut options = Options { peaks: false, isa: None, format: None, threads };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("the option {arg} needs a value after it"));
        match &*arg {
            "--peaks" => options.peaks = true,
            "--isa" => {
                let name = value()?;
                let isa = Isa::from_name(&name);
                options.isa = Some(isa.ok_or_else(|| format!("there is no instruction set {name:?}"))?);
            }
            "--format" => options.format = Some(value()?),
            "--threads" => options.threads = vec![value()?.parse::<usize>()?.max(1)],
            _ => return Err(format!("there is no option {arg:?}").into()),
        }
    }
    Ok(options)
}
