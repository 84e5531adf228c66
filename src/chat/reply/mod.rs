//! Replies as they stream: the answer, the model's thought before it, and its tool calls.
//!
//! The template determines the form of a reply: [`ReplyFormat::of_template`] renders conversations with a call and takes the
//! format that parses them. [`ReplyParser`] then makes [`Event`]s of text, in whatever chunks it comes.
//!
//! - Text outside of thoughts and calls is the answer. White space beside a mark belongs to the mark, as in the templates, and
//!   the rest is given as it is.
//! - Text that may begin a mark waits only until that is decided. So does white space.
//! - Arguments are JSON in every format, and always an object; their chunks together are the final arguments. Their schema is not
//!   checked, except for types that a format does not write down.
//! - A call that cannot be parsed comes back as text, with the reason. No text is lost, and parsing continues after it.
//! - Work is linear in the length of the reply. Nesting and the length of names are bounded.
#![forbid(unsafe_code)]

mod channels;
mod event;
mod families;
mod format;
mod grammar;
mod input;
mod lark;
mod notation;
mod parser;
mod probe;
mod read;
mod schema;
mod shape;
mod sink;
mod thinking;
mod tools;
mod walk;

pub use event::{End, Event};
pub use format::ReplyFormat;
pub use grammar::{MOST_CALLS, ToolGrammar, ToolUse};
pub use lark::{Control, GrammarParts};
pub use parser::{ReplyOptions, ReplyParser};
pub use thinking::{ThinkingMarks, ThinkingSwitch};
pub use tools::{Kinds, Parameter, Tool, ToolChoice, Tools};
