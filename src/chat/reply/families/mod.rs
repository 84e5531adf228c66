//! The forms of calls, one file each.
//!
//! A new one is a file with a [`Calls`] and a row of [`ALL`]. More specific rows stand before those whose signs they share.
#![forbid(unsafe_code)]

mod apertus;
mod apriel;
mod cohere;
mod deepseek;
mod deepseek_dsml;
mod function_gemma;
mod functionary;
mod functionary_32;
mod gemma4;
mod gigachat;
mod glm;
mod granite;
mod harmony;
mod hermes;
mod hy3;
mod kimi;
mod kimi_k3;
mod lfm2;
mod llama3;
mod minicpm5;
mod minimax;
mod minimax_m3;
mod mistral;
mod mistral_array;
mod nemotron;
mod phi4;
mod qwen_coder;
mod seed;
mod solar;

use super::read::Reader;
use super::shape::Shape;

/// A form of calls.
#[derive(Debug)]
pub(super) struct Calls {
    /// Its name.
    pub name: &'static str,
    /// Whether a text has this form: a reply with a call, or a template that writes or describes one.
    pub signs: fn(&str) -> bool,
    /// The marks that a call, or a section of calls, begins with.
    pub opens: &'static [&'static str],
    /// Whether a call may also be a whole reply without marks that begins with a brace.
    pub is_bare: bool,
    /// Whether replies are messages with headers.
    pub has_channels: bool,
    /// Whether prompts end with the first mark, so that a reply begins after it.
    pub is_begun: bool,
    /// Marks without a meaning, around answers.
    pub silent: &'static [&'static str],
    /// How calls are written, for a grammar.
    pub shape: Shape,
    /// Makes a reader of the text after the mark of that number.
    pub reader: fn(Option<usize>) -> Box<dyn Reader>,
}

impl Calls {
    /// The trigger of a grammar: the mark of calls.
    pub(super) fn trigger(&self) -> &'static str {
        self.opens.first().copied().unwrap_or_default()
    }
}

/// All forms.
pub(super) static ALL: [&Calls; 32] = [
    &harmony::CALLS,
    &deepseek_dsml::CALLS,
    &deepseek_dsml::CALLS_V4,
    &deepseek::CALLS,
    &kimi::CALLS,
    &kimi_k3::CALLS,
    &solar::CALLS,
    &apertus::CALLS,
    &gigachat::CALLS,
    &gigachat::CALLS_3,
    &hy3::CALLS,
    &functionary_32::CALLS,
    &mistral::CALLS,
    &mistral_array::CALLS,
    &gemma4::CALLS,
    &function_gemma::CALLS,
    &lfm2::CALLS,
    &minimax_m3::CALLS,
    &minimax::CALLS,
    &minicpm5::CALLS,
    &seed::CALLS,
    &qwen_coder::CALLS,
    &glm::CALLS,
    &nemotron::CALLS,
    &apriel::CALLS_M1,
    &apriel::CALLS,
    &cohere::CALLS,
    &phi4::CALLS,
    &granite::CALLS,
    &functionary::CALLS,
    &hermes::CALLS,
    &llama3::CALLS,
];
