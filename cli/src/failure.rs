//! Why a command ends early.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io;

/// What ends a command, and with it the program.
#[derive(Debug)]
pub enum Failure {
    /// A sentence for standard error; exit code 1.
    Said(String),
    /// As a wrong option: a sentence; exit code 2.
    Usage(String),
    /// Ctrl-C; exit code 130, as shells have it.
    Interrupted,
    /// Nobody reads standard output any more; exit code 1 without a word.
    Unread,
}

pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub fn said(sentence: impl Into<String>) -> Failure {
        Failure::Said(sentence.into())
    }

    /// An error of the operating system's, with what it is about before it: a path, as a rule.
    pub fn of(about: impl Display, error: &io::Error) -> Failure {
        Failure::Said(format!("{about}: {error}"))
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Said(_) | Failure::Unread => 1,
            Failure::Usage(_) => 2,
            Failure::Interrupted => 130,
        }
    }
}
