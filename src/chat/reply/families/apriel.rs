//! Apriel and MiniMax M1: `<tool_calls>` around a list of calls, or around calls one after the other.
#![forbid(unsafe_code)]

use super::super::read::objects::{List, ObjectReader, Objects};
use super::super::shape::{Form, OBJECT, Shape};
use super::Calls;

const SPEC: Objects = Objects { close: "</tool_calls>", list: List::Either, is_bare: false, is_keyed: false };

pub(in super::super) static CALLS: Calls = Calls {
    name: "apriel",
    signs: |text| text.contains("<tool_calls>"),
    opens: &["<tool_calls>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "<tool_calls>[",
        close: "]</tool_calls>",
        between: Some(",␣"),
        ways: OBJECT,
    }),
    reader: |_| Box::new(ObjectReader::new(SPEC)),
};

/// MiniMax M1: a call in each line.
pub(in super::super) static CALLS_M1: Calls = Calls {
    signs: |text| text.contains("<tool_calls>\n{"),
    shape: Shape::Calls(Form {
        open: "<tool_calls>\n",
        close: "\n</tool_calls>",
        between: Some("\n"),
        ways: OBJECT,
    }),
    ..CALLS
};
