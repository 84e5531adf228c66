//! What stands in for `talk` in a build without chat templates: no conversation can be made.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::chat_options::ChatOptions;
use super::chat_reading_off::Parts;
use super::context::ContextState;
use super::handle::Exclusive;
use crate::error::{Error, Result};
use crate::generate::{FinishReason, GenerateOptions, Usage};
use crate::sampler::Sampler;

/// The type of an `ember_conversation` handle. This build makes none.
pub struct Talk(std::convert::Infallible);

/// See `conversation::TurnUsage`.
#[derive(Debug, Clone, Copy, Default)]
pub struct TurnUsage {
    pub generation: Usage,
    pub n_thinking: usize,
    pub n_dropped_turns: usize,
    pub n_forgotten: usize,
}

/// See `conversation::WhenFull`.
#[derive(Debug, Clone, Copy)]
pub enum WhenFull {
    DropOldest,
    DropOldestAndFirst,
    Refuse,
}

/// See `conversation::OnFull`.
pub type OnFull = Box<dyn FnMut(usize, usize, usize) -> usize + Send>;

fn unsupported<T>() -> Result<T> {
    Err(Error::Unsupported(
        "this build of Ember was made without chat templates (the feature \"chat\")".into(),
    ))
}

impl Talk {
    pub fn new(
        _: &Arc<Exclusive<ContextState>>,
        _: Option<String>,
        _: ChatOptions,
        _: GenerateOptions,
    ) -> Result<Talk> {
        unsupported()
    }

    pub fn load(
        _: &Arc<Exclusive<ContextState>>,
        _: &[u8],
        _: ChatOptions,
        _: GenerateOptions,
    ) -> Result<Talk> {
        unsupported()
    }

    pub fn save(&self) -> Result<Vec<u8>> {
        match self.0 {}
    }

    pub fn fork(&self, _: u32) -> Result<Talk> {
        match self.0 {}
    }

    pub fn add(&mut self, _: &str) -> Result<()> {
        match self.0 {}
    }

    pub fn begin(&mut self, _: Option<&str>, _: Arc<Exclusive<Sampler>>) -> Result<()> {
        match self.0 {}
    }

    pub fn next(&mut self) -> Result<(Parts<'_>, Option<FinishReason>)> {
        match self.0 {}
    }

    pub fn is_under_way(&self) -> bool {
        match self.0 {}
    }

    pub fn abandon(&mut self) {
        match self.0 {}
    }

    pub fn undo(&mut self) -> Result<()> {
        match self.0 {}
    }

    pub fn messages(&self) -> String {
        match self.0 {}
    }

    pub fn usage(&self) -> TurnUsage {
        match self.0 {}
    }

    pub fn set_thinking_budget(&mut self, _: Option<usize>) -> Result<()> {
        match self.0 {}
    }

    pub fn set_tool_choice(&mut self, _: &str) -> Result<()> {
        match self.0 {}
    }

    pub fn set_when_full(&mut self, _: WhenFull, _: Option<usize>) {
        match self.0 {}
    }

    pub fn set_on_full(&mut self, _: Option<OnFull>) {
        match self.0 {}
    }
}
