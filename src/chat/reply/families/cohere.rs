//! Command R7B and A: `<|START_ACTION|>[{"tool_call_id": …, "tool_name": …, "parameters": {…}}, …]<|END_ACTION|>`.
#![forbid(unsafe_code)]

use super::super::read::objects::{List, ObjectReader, Objects};
use super::super::shape::{Form, Piece, Shape};
use super::Calls;

const SPEC: Objects =
    Objects { close: "<|END_ACTION|>", list: List::Always, is_bare: false, is_keyed: false };

pub(in super::super) static CALLS: Calls = Calls {
    name: "cohere",
    signs: |text| text.contains("<|START_ACTION|>"),
    opens: &["<|START_ACTION|>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &["<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"],
    shape: Shape::Calls(Form {
        open: "<|START_ACTION|>[␣",
        close: "␣]<|END_ACTION|>",
        between: Some(",␣"),
        ways: &[&[
            Piece::Mark("{\"tool_call_id\":␣\"№\",␣\"tool_name\":␣"),
            Piece::QuotedName,
            Piece::Mark(",␣\"parameters\":␣"),
            Piece::Arguments,
            Piece::Mark("}"),
        ]],
    }),
    reader: |_| Box::new(ObjectReader::new(SPEC)),
};
