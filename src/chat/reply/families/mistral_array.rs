//! Mistral with the tokenizers before v11: `[TOOL_CALLS][{"name": …, "arguments": {…}, "id": …}, …]`.
#![forbid(unsafe_code)]

use super::super::read::objects::{List, ObjectReader, Objects};
use super::super::shape::{Form, Piece, Shape};
use super::Calls;

const SPEC: Objects = Objects { close: "", list: List::Always, is_bare: false, is_keyed: false };

/// With or without an id.
const WITH_ID: &[&[Piece]] = &[
    &[
        Piece::Mark("{\"name\":␣"),
        Piece::QuotedName,
        Piece::Mark(",␣\"arguments\":␣"),
        Piece::Arguments,
        Piece::Mark("}"),
    ],
    &[
        Piece::Mark("{\"name\":␣"),
        Piece::QuotedName,
        Piece::Mark(",␣\"arguments\":␣"),
        Piece::Arguments,
        Piece::Mark(",␣\"id\":␣\""),
        Piece::Id,
        Piece::Mark("\"}"),
    ],
];

pub(in super::super) static CALLS: Calls = Calls {
    name: "mistral-array",
    signs: |text| text.contains("[TOOL_CALLS]"),
    opens: &["[TOOL_CALLS]"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form { open: "[TOOL_CALLS][", close: "]", between: Some(",␣"), ways: WITH_ID }),
    reader: |_| Box::new(ObjectReader::new(SPEC)),
};
