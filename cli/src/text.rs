//! What `run` and `chat` have in common: options of the context, of sampling and of the text's form.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::library::{Constraint, Context, ContextOptions, GenerateOptions, Model, Sampler};
use crate::{ffi, interrupt, models};

/// The sampling of llama.cpp's programs, for files that propose nothing.
const TEMPERATURE: f32 = 0.8;
const TOP_K: u32 = 40;
const TOP_P: f32 = 0.95;
const MIN_P: f32 = 0.05;
/// How many of the latest tokens `--repeat-penalty` looks at.
const REPEAT_LAST_N: u32 = 64;

#[derive(clap::Args)]
pub struct TextArgs {
    /// Most tokens to generate; -1: as many as the context holds [default: 256, in a chat 1024]
    #[arg(short = 'n', long = "n-predict", alias = "predict", value_name = "N", allow_negative_numbers = true,
        value_parser = clap::value_parser!(i64).range(-1..=u32::MAX as i64))]
    n_predict: Option<i64>,

    /// Tokens of context; 0: what the model was trained on, 4096 at most
    #[arg(short, long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=i32::MAX as i64))]
    ctx_size: u32,

    /// Threads; 0: one for each core
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    threads: u32,

    /// Temperature; 0 always takes the likeliest token [default: 0.8]
    #[arg(long, visible_alias = "temperature", value_name = "T", value_parser = number)]
    temp: Option<f32>,

    /// Chooses among the K likeliest tokens; 0: all [default: 40]
    #[arg(long, value_name = "K")]
    top_k: Option<u32>,

    /// Chooses among the likeliest tokens that make up P; 1: all [default: 0.95]
    #[arg(long, value_name = "P", value_parser = number)]
    top_p: Option<f32>,

    /// Leaves out tokens with less than P times the likeliest one's probability; 0: none [default: 0.05]
    #[arg(long, value_name = "P", value_parser = number)]
    min_p: Option<f32>,

    /// Makes the 64 latest tokens less likely; 1: not at all [default: 1]
    #[arg(long, value_name = "R", value_parser = number)]
    repeat_penalty: Option<f32>,

    /// The same seed gives the same text [default: random]
    #[arg(short, long, value_name = "S")]
    seed: Option<u64>,

    /// Ends before this text is generated; may be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,

    /// Generates JSON that follows the JSON schema in FILE
    #[arg(short, long, value_name = "FILE")]
    pub json_schema: Option<PathBuf>,

    /// Says on standard error how long it took, and the seed
    #[arg(short, long)]
    pub verbose: bool,
}

fn number(text: &str) -> std::result::Result<f32, String> {
    match text.parse::<f32>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err("it is no number".into()),
    }
}

/// What generates text from a model, which the context keeps.
pub struct Loaded {
    pub context: Context,
    pub sampler: Sampler,
    pub options: GenerateOptions,
}

impl TextArgs {
    /// Loads everything; `n_predict` is for those who give no -n.
    pub fn load(&self, model: &str, n_predict: i64) -> Result<Loaded> {
        let path = models::find(model)?;
        let token = interrupt::token()?;
        let (loaded, _) = interrupt::during(|| {
            let model = Model::load(&path, token)?;
            let sampler = self.sampler(&model)?;
            let mut options = GenerateOptions::new(self.max_tokens(n_predict), token)?;
            for stop in &self.stop {
                options.stop(stop)?;
            }
            if let Some(file) = &self.json_schema {
                options.constraint(&Constraint::json_schema(&model, &read_text(file)?)?)?;
            }
            let context = Context::new(&model, &ContextOptions::new(self.ctx_size, self.threads)?, token)?;
            Ok(Loaded { context, sampler, options })
        })?;
        Ok(loaded)
    }

    fn max_tokens(&self, otherwise: i64) -> u32 {
        u32::try_from(self.n_predict.unwrap_or(otherwise)).unwrap_or(u32::MAX)
    }

    /// The sampler that the model's file proposes. Options of sampling take its place: then what is not given has its default.
    fn sampler(&self, model: &Model) -> Result<Sampler> {
        let seed = self.seed.unwrap_or(ffi::EMBER_SEED_RANDOM);
        let options = [self.temp, self.top_p, self.min_p, self.repeat_penalty];
        if self.top_k.is_none()
            && options.iter().all(Option::is_none)
            && let Some(proposed) = Sampler::of_model(model, seed)?
        {
            return Ok(proposed);
        }
        let mut sampler = Sampler::new(seed)?;
        if let Some(repeat) = self.repeat_penalty {
            sampler.penalties(REPEAT_LAST_N, repeat)?;
        }
        sampler.top_k(self.top_k.unwrap_or(TOP_K))?;
        sampler.top_p(self.top_p.unwrap_or(TOP_P))?;
        sampler.min_p(self.min_p.unwrap_or(MIN_P))?;
        sampler.temperature(self.temp.unwrap_or(TEMPERATURE))?;
        Ok(sampler)
    }
}

/// A text file.
pub fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| Failure::of(path.display(), &e))
}

/// Tokens in a second.
pub fn per_second(n: u64, nanoseconds: u64) -> f64 {
    if nanoseconds == 0 { 0.0 } else { n as f64 * 1e9 / nanoseconds as f64 }
}
