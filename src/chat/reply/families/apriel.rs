//! Apriel and MiniMax M1: `<tool_calls>` around a list of calls, or around calls one after the other.
#![forbid(unsafe_code)]

use super::super::grammar::Shape;
use super::super::read::objects::{List, ObjectReader, Objects};
use super::Calls;

const SPEC: Objects = Objects { close: "</tool_calls>", list: List::Either, is_bare: false };

pub(in super::super) static CALLS: Calls = Calls {
    name: "apriel",
    signs: |text| text.contains("<tool_calls>"),
    opens: &["<tool_calls>"],
    is_bare: false,
    has_channels: false,
    silent: &[],
    shape: Shape::Objects {
        open: "<tool_calls>[",
        close: "]</tool_calls>",
        is_list: true,
        arguments: "arguments",
    },
    reader: |_| Box::new(ObjectReader::new(SPEC)),
};
