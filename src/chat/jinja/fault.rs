//! Errors of templates, and the budget of a rendering.
#![forbid(unsafe_code)]

use std::fmt;

use crate::error::shortened;

/// The result of a step of compiling or rendering.
pub(crate) type Res<T> = std::result::Result<T, Fault>;

/// Why a template cannot be compiled or rendered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    /// The template's own line, from 1 on, once it is known.
    pub(crate) line: Option<u32>,
    pub(crate) kind: Kind,
    /// The error without the line. Names in it, and other texts of the template, are cut when long.
    pub(crate) message: String,
}

/// The cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The text is not a template, or uses an unknown feature.
    Syntax,
    /// The template called `raise_exception`.
    Raised,
    /// Template and messages do not fit: an undefined value, a wrong type.
    Failed,
    /// More work or memory than a rendering may take.
    Limit,
}

impl Fault {
    pub(crate) fn syntax(line: u32, message: impl fmt::Display) -> Fault {
        Fault { line: Some(line), kind: Kind::Syntax, message: shortened(message) }
    }

    pub(crate) fn failed(message: impl fmt::Display) -> Fault {
        Fault { line: None, kind: Kind::Failed, message: shortened(message) }
    }

    pub(crate) fn raised(message: &str) -> Fault {
        Fault { line: None, kind: Kind::Raised, message: shortened(message) }
    }

    pub(crate) fn limit(message: impl Into<String>) -> Fault {
        Fault { line: None, kind: Kind::Limit, message: message.into() }
    }

    /// The same fault at `line`, unless it already has a line.
    pub(crate) fn at(mut self, line: u32) -> Fault {
        self.line.get_or_insert(line);
        self
    }
}

/// `Err` with [`Kind::Failed`].
pub(crate) fn fail<T>(message: impl fmt::Display) -> Res<T> {
    Err(Fault::failed(message))
}

/// What is left of the work and the memory that one rendering may take. All growth is charged before it happens, and nothing is
/// refunded, so that a rendering's memory stays below the initial budget.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    steps: u64,
    bytes: u64,
}

impl Budget {
    /// A budget for an input of `bytes` bytes. It is ample for templates that read all messages once for each message; there is
    /// one message in thirty bytes at most, up to a thousand. So little work is lost on a template that never ends.
    pub(crate) fn for_input(bytes: usize) -> Budget {
        let n = bytes as u64;
        let squared = n.saturating_mul(n);
        let steps = (squared / 100).saturating_add(1_000_000).min(10_000_000);
        let text = (squared / 4).saturating_add(8 << 20).min(64 << 20);
        Budget { steps: steps + n.saturating_mul(100), bytes: text + n.saturating_mul(256) }
    }

    /// Charges `n` steps: a visited node of the template or of a value, 16 bytes of text read, or 64 compared.
    pub(crate) fn steps(&mut self, n: usize) -> Res<()> {
        match self.steps.checked_sub(n as u64) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => Err(Fault::limit("it takes more steps than a template may")),
        }
    }

    /// Charges `n` bytes of text or of values.
    pub(crate) fn bytes(&mut self, n: usize) -> Res<()> {
        match self.bytes.checked_sub(n as u64) {
            Some(left) => {
                self.bytes = left;
                Ok(())
            }
            None => Err(Fault::limit("it makes more text and values than a template may")),
        }
    }

    /// Charges reading all of `text`: a search, counting its characters, parsing a number.
    pub(crate) fn scan(&mut self, text: &str) -> Res<()> {
        self.steps(text.len() / 16)
    }

    /// The place of `name` among `names`, charged: a step for 16 of them, and for 64 bytes compared.
    pub(crate) fn position<'n>(
        &mut self,
        mut names: impl Iterator<Item = &'n str>,
        name: &str,
    ) -> Res<Option<usize>> {
        let (mut looked_at, mut compared) = (0, 0);
        let found = names.position(|other| {
            looked_at += 1;
            other.len() == name.len() && {
                compared += name.len();
                other == name
            }
        });
        self.steps(looked_at / 16 + compared / 64)?;
        Ok(found)
    }

    /// Appends `text` to `out`, charged.
    pub(crate) fn push(&mut self, out: &mut String, text: &str) -> Res<()> {
        self.bytes(text.len())?;
        out.push_str(text);
        Ok(())
    }
}
