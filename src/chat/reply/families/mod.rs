//! The forms of calls, one file each.
//!
//! Adding one is a file with a [`Calls`] and a row of [`ALL`]. Rows that are more particular stand before those whose signs
//! they share.
#![forbid(unsafe_code)]

mod apriel;
mod cohere;
mod deepseek;
mod deepseek_dsml;
mod function_gemma;
mod functionary;
mod gemma4;
mod glm;
mod granite;
mod harmony;
mod hermes;
mod kimi;
mod lfm2;
mod llama3;
mod minicpm5;
mod minimax;
mod mistral;
mod mistral_array;
mod nemotron;
mod phi4;
mod qwen_coder;
mod seed;

use super::grammar::Shape;
use super::read::Reader;

/// A form of calls.
#[derive(Debug)]
pub(super) struct Calls {
    /// Its name.
    pub name: &'static str,
    /// Whether a text is one of this form: a reply with a call, or a template that writes or describes one.
    pub signs: fn(&str) -> bool,
    /// The marks that a call, or a section of calls, begins with.
    pub opens: &'static [&'static str],
    /// Whether a call may also be a whole reply without marks that begins with a brace.
    pub is_bare: bool,
    /// Whether replies are messages with headers.
    pub has_channels: bool,
    /// Marks that say nothing, around answers.
    pub silent: &'static [&'static str],
    /// How calls are written, for a grammar.
    pub shape: Shape,
    /// Makes a reader of what stands behind the mark of that number.
    pub reader: fn(Option<usize>) -> Box<dyn Reader>,
}

impl Calls {
    /// What a grammar begins behind: the mark of calls.
    pub(super) fn trigger(&self) -> &'static str {
        self.opens.first().copied().unwrap_or_default()
    }
}

/// All forms.
pub(super) static ALL: [&Calls; 22] = [
    &harmony::CALLS,
    &deepseek_dsml::CALLS,
    &deepseek::CALLS,
    &kimi::CALLS,
    &mistral::CALLS,
    &mistral_array::CALLS,
    &gemma4::CALLS,
    &function_gemma::CALLS,
    &lfm2::CALLS,
    &minimax::CALLS,
    &minicpm5::CALLS,
    &seed::CALLS,
    &qwen_coder::CALLS,
    &glm::CALLS,
    &nemotron::CALLS,
    &apriel::CALLS,
    &cohere::CALLS,
    &phi4::CALLS,
    &granite::CALLS,
    &functionary::CALLS,
    &hermes::CALLS,
    &llama3::CALLS,
];
