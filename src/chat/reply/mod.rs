//! Replies as they stream: the answer, what the model thought before it, and the tools that it calls.
//!
//! What a reply looks like is the template's business: [`ReplyFormat::of_template`] renders conversations with a call and
//! takes the format that reads them back. [`ReplyParser`] then turns text, in whatever chunks it comes, into [`Event`]s.
//!
//! - What stands outside of thoughts and calls is the answer's text. White space beside a mark belongs to the mark, as the
//!   templates have it, and the rest is given as it is.
//! - Text that may begin a mark waits until that is decided, and no longer. So does white space.
//! - Arguments are JSON, whatever the format has, and always an object; what they are given in chunks is what they are at the
//!   end. Their schema is not looked at, but for the types that a format does not write down.
//! - A call that cannot be read comes back as text, with the reason. No text is lost, and what follows it is read on.
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
