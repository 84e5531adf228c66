//! Granite 3: `<|tool_call|>[{"name": …, "arguments": {…}}, …]`, with `<tool_call>` in some, and no mark behind it.
#![forbid(unsafe_code)]

use super::super::grammar::Shape;
use super::super::read::objects::{List, ObjectReader, Objects};
use super::Calls;

const SPEC: Objects = Objects { close: "", list: List::Always, is_bare: false };

pub(in super::super) static CALLS: Calls = Calls {
    name: "granite-3",
    signs: |text| text.contains("<|tool_call|>"),
    opens: &["<|tool_call|>", "<tool_call>"],
    is_bare: false,
    has_channels: false,
    silent: &[],
    shape: Shape::Objects { open: "<|tool_call|>[", close: "]", is_list: true, arguments: "arguments" },
    reader: |_| Box::new(ObjectReader::new(SPEC)),
};
