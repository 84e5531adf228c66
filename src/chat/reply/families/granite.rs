//! Granite 3: `<|tool_call|>[{"name": …, "arguments": {…}}, …]`, with `<tool_call>` in some, and no mark after it.
#![forbid(unsafe_code)]

use super::super::read::objects::{List, ObjectReader, Objects};
use super::super::shape::{Form, OBJECT, Shape};
use super::Calls;

const SPEC: Objects = Objects { close: "", list: List::Always, is_bare: false, is_keyed: false };

pub(in super::super) static CALLS: Calls = Calls {
    name: "granite-3",
    signs: |text| text.contains("<|tool_call|>"),
    opens: &["<|tool_call|>", "<tool_call>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form { open: "<|tool_call|>[", close: "]", between: Some(",␣"), ways: OBJECT }),
    reader: |_| Box::new(ObjectReader::new(SPEC)),
};
