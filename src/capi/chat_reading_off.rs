//! What stands in for `chat_reading` in a build without chat templates: nothing can be made.
#![forbid(unsafe_code)]

use super::chat_options::ChatOptions;
use crate::error::{Error, Result};
use crate::model::LoadedModel;

/// The type of an `ember_chat_parser` handle. This build makes none.
pub struct Reading(std::convert::Infallible);

/// What an event has.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parts<'e> {
    pub kind: i32,
    pub index: usize,
    pub text: &'e str,
    pub name: &'e str,
    pub id: &'e str,
    pub reason: &'e str,
}

/// What is known of a format.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known<'f> {
    pub name: &'f str,
    pub thinking_open: &'f str,
    pub thinking_close: &'f str,
    pub thinking_variable: &'f str,
    pub thinking_on: &'f str,
    pub thinking_off: &'f str,
}

impl Reading {
    pub fn new(_: &LoadedModel, _: ChatOptions, _: &str) -> Result<Reading> {
        Err(Error::Unsupported(
            "this build of Ember was made without chat templates (the feature \"chat\")".into(),
        ))
    }

    pub fn push(&mut self, _: &str) -> Result<()> {
        match self.0 {}
    }

    pub fn finish(&mut self, _: bool) {
        match self.0 {}
    }

    pub fn is_thinking(&self) -> bool {
        match self.0 {}
    }

    pub fn next(&mut self) -> Parts<'_> {
        match self.0 {}
    }

    pub fn known(&self) -> Known<'_> {
        match self.0 {}
    }
}
