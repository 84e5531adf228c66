//! Hermes and its successors: Qwen 2.5 and 3, SmolLM3, Granite 4, Bielik, MiMo. `<tool_call>{"name": …, "arguments":
//! {…}}</tool_call>`, once for each call.
#![forbid(unsafe_code)]

use super::super::read::objects::{List, ObjectReader, Objects};
use super::super::shape::{Form, OBJECT, Shape};
use super::Calls;

const SPEC: Objects = Objects { close: "</tool_call>", list: List::Either, is_bare: false, is_keyed: false };

pub(in super::super) static CALLS: Calls = Calls {
    name: "hermes",
    signs: |text| text.contains("<tool_call>") || text.contains("<tool_call"),
    opens: &["<tool_call>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "<tool_call>␣", close: "␣</tool_call>", between: None, ways: OBJECT
    }),
    reader: |_| Box::new(ObjectReader::new(SPEC)),
};
