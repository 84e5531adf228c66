//! Command R7B and A: `<|START_ACTION|>[{"tool_call_id": …, "tool_name": …, "parameters": {…}}, …]<|END_ACTION|>`.
#![forbid(unsafe_code)]

use super::super::grammar::Shape;
use super::super::read::objects::{List, ObjectReader, Objects};
use super::Calls;

const SPEC: Objects = Objects { close: "<|END_ACTION|>", list: List::Always, is_bare: false };

pub(in super::super) static CALLS: Calls = Calls {
    name: "cohere",
    signs: |text| text.contains("<|START_ACTION|>"),
    opens: &["<|START_ACTION|>"],
    is_bare: false,
    has_channels: false,
    silent: &["<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"],
    shape: Shape::Unknown,
    reader: |_| Box::new(ObjectReader::new(SPEC)),
};
