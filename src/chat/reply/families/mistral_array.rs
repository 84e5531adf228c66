//! Mistral with the tokenizers before v11: `[TOOL_CALLS][{"name": …, "arguments": {…}, "id": …}, …]`.
#![forbid(unsafe_code)]

use super::super::grammar::Shape;
use super::super::read::objects::{List, ObjectReader, Objects};
use super::Calls;

const SPEC: Objects = Objects { close: "", list: List::Always, is_bare: false };

pub(in super::super) static CALLS: Calls = Calls {
    name: "mistral-array",
    signs: |text| text.contains("[TOOL_CALLS]"),
    opens: &["[TOOL_CALLS]"],
    is_bare: false,
    has_channels: false,
    silent: &[],
    shape: Shape::Objects { open: "[TOOL_CALLS][", close: "]", is_list: true, arguments: "arguments" },
    reader: |_| Box::new(ObjectReader::new(SPEC)),
};
