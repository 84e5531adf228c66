//! The parts of a reply.
#![forbid(unsafe_code)]

/// A piece of a reply, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// More of the answer.
    Text(String),
    /// More of the model's thought before the answer.
    Thinking(String),
    /// A call of a tool begins.
    CallBegin {
        /// Its place among the calls of the reply, from 0. A broken call keeps its place.
        index: usize,
        /// Its id: the model's own where the format has ids, otherwise one computed from the prompt and the place.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More of a call's arguments: JSON text, whatever the model's own format is.
    CallArguments {
        /// The call's place.
        index: usize,
        /// The text after that so far.
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
        /// All arguments: a JSON object, which is also the text of all deltas together.
        arguments: String,
    },
    /// What began as a call is not one. The text belongs to the answer, at the place of this event.
    CallBroken {
        /// The call's place; earlier events of the call are void.
        index: usize,
        /// The tool's name, if it came so far.
        name: Option<String>,
        /// The call's text as the model wrote it, marks included, up to where it broke.
        text: String,
        /// Why it is not a call: a sentence.
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
