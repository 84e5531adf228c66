//! What a reply is made of.
#![forbid(unsafe_code)]

/// A piece of a reply, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// More of the answer.
    Text(String),
    /// More of what the model thinks before it answers.
    Thinking(String),
    /// A call of a tool begins.
    CallBegin {
        /// Its place among the calls of the reply, from 0. A call that breaks keeps its place.
        index: usize,
        /// Its id: the model's own where the format has ids, else one made from the prompt and the place.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More of a call's arguments: JSON text, whatever the model's own format is.
    CallArguments {
        /// The call's place.
        index: usize,
        /// What follows the text so far.
        delta: String,
    },
    /// A call is complete.
    CallDone {
        /// The call's place.
        index: usize,
        /// Its id.
        id: String,
        /// The tool's name.
        name: String,
        /// All arguments: a JSON object, which is also what the deltas make together.
        arguments: String,
    },
    /// What began as a call is none. The text belongs to the answer: it stands where this event stands.
    CallBroken {
        /// The call's place; what was said of it before is void.
        index: usize,
        /// The tool's name, if it came so far.
        name: Option<String>,
        /// The call's text as the model wrote it, marks included, up to where it broke.
        text: String,
        /// Why it is no call: a sentence.
        reason: String,
    },
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The model ended it.
    Stop,
    /// It was cut: by a limit, a full context, a cancel.
    Cut,
}
