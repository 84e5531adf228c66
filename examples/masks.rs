//! How long the masks of a constraint take: JSON schemas on a real vocabulary, along texts that are drawn at random under them.
//!
//! `make bench-masks` runs it. Times are those of this thread's processor, so that other programs count little.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ember::constrain::{Constraint, ConstraintOptions, Grammar, Mask, Run, Vocabulary};
use ember::error::{Error, Result};
use ember::gguf::Gguf;
use ember::tokenizer::Tokenizer;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

const USAGE: &str = "\
Usage: masks VOCABULARY.gguf SCHEMAS.json [TEXTS [SLOWEST]]

SCHEMAS.json is an object of JSON schemas, or one that has it as \"schemas\". TEXTS texts (5) of at most 200 tokens are drawn under each.
SLOWEST masks (0) are shown with their schema and the text before them.";

/// Most tokens of a text.
const MOST_TOKENS: usize = 200;

/// Processor time of this thread; where there is no such clock, wall time.
fn now() -> Duration {
    #[cfg(unix)]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a clock that there is, and a place for the time.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    #[cfg(not(unix))]
    {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed()
    }
}

/// A mask that was made.
struct Made<'s> {
    took: Duration,
    schema: &'s str,
    before: String,
}

/// The tokens that may be next.
fn allowed(run: &mut Run) -> Result<Vec<u32>> {
    Ok(match run.mask()? {
        Mask::Allow(words) => {
            let bits = (0u32..)
                .zip(words)
                .flat_map(|(at, word)| (0..32).map(move |bit| (at * 32 + bit, word >> bit & 1)));
            bits.filter(|(_, bit)| *bit == 1).map(|(id, _)| id).collect()
        }
        Mask::Free | Mask::Deny(_) => Vec::new(),
    })
}

/// A token as a model would choose it: characters that end something are more likely than others.
fn draw(allowed: &[u32], random: &mut Xoshiro256PlusPlus) -> Option<u32> {
    let short: Vec<u32> = allowed.iter().copied().filter(|&id| id < 256).collect();
    let some = if random.random_bool(0.5) && !short.is_empty() { &short } else { allowed };
    (!some.is_empty()).then(|| some[random.random_range(0..some.len())])
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    println!("{what:<10} {:>8} {:>10.1} {:>10.1} {:>10.1}", times.len(), at(0.5), at(0.99), at(1.0));
}

fn measure(arguments: &[String]) -> Result<()> {
    let usage = || Error::InvalidArgument(USAGE.into());
    let [vocabulary, schemas, numbers @ ..] = arguments else { return Err(usage()) };
    let number = |at: usize, default: usize| match numbers.get(at) {
        Some(text) => text.parse().map_err(|_| usage()),
        None => Ok(default),
    };
    let (n_texts, n_slowest) = (number(0, 5)?, number(1, 0)?);
    let file = Gguf::open(vocabulary.as_ref())?;
    let tokenizer = Arc::new(Tokenizer::from_gguf(file.metadata())?);
    let vocabulary = Arc::new(Vocabulary::new(&tokenizer)?);
    let text =
        std::fs::read_to_string(schemas).map_err(|e| Error::InvalidArgument(format!("{schemas}: {e}")))?;
    let read: Value = serde_json::from_str(&text).map_err(|e| Error::Format(format!("{schemas}: {e}")))?;
    let all = read.get("schemas").unwrap_or(&read).as_object().ok_or_else(usage)?;
    let (mut begun, mut accepted, mut masks) = (Vec::new(), Vec::new(), Vec::new());
    for (seed, (name, schema)) in (0..).zip(all) {
        let (schema, options) = (schema.to_string(), ConstraintOptions::default());
        let constraint = match Constraint::new(&vocabulary, Grammar::JsonSchema(&schema), &options) {
            Ok(constraint) => constraint,
            Err(error) => {
                println!("{name} is left out: {error}");
                continue;
            }
        };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..n_texts {
            let begin = now();
            let mut run = constraint.start();
            begun.push(now() - begin);
            let mut before = String::new();
            for _ in 0..MOST_TOKENS {
                let begin = now();
                run.mask()?;
                masks.push(Made { took: now() - begin, schema: name, before: before.clone() });
                let Some(id) = draw(&allowed(&mut run)?, &mut random) else { break };
                if vocabulary.is_end(id) {
                    break;
                }
                before.push_str(&String::from_utf8_lossy(tokenizer.token_bytes(id)?));
                let begin = now();
                run.accept(id);
                accepted.push(now() - begin);
            }
        }
    }
    println!("{} schemas, {n_texts} texts each, a vocabulary of {} tokens", all.len(), vocabulary.len());
    println!("{:<10} {:>8} {:>10} {:>10} {:>10}", "", "times", "median us", "99 % us", "most us");
    show("masks", masks.iter().map(|mask| mask.took).collect());
    show("accepting", accepted);
    show("beginning", begun);
    masks.sort_unstable_by_key(|mask| std::cmp::Reverse(mask.took));
    for mask in masks.iter().take(n_slowest) {
        println!("{:>8.1} us {}: {:?}", mask.took.as_secs_f64() * 1e6, mask.schema, mask.before);
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match measure(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
