//! Apertus: `<|tools_prefix|>[{"name": {…}}, …]<|tools_suffix|>`.
#![forbid(unsafe_code)]

use super::super::read::objects::{List, ObjectReader, Objects};
use super::super::shape::{Form, Piece, Shape};
use super::Calls;

const SPEC: Objects =
    Objects { close: "<|tools_suffix|>", list: List::Always, is_bare: false, is_keyed: true };

pub(in super::super) static CALLS: Calls = Calls {
    name: "apertus",
    signs: |text| text.contains("<|tools_prefix|>"),
    opens: &["<|tools_prefix|>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "<|tools_prefix|>[",
        close: "]<|tools_suffix|>",
        between: Some(",␣"),
        ways: &[&[
            Piece::Mark("{"),
            Piece::QuotedName,
            Piece::Mark(":␣"),
            Piece::Arguments,
            Piece::Mark("}"),
        ]],
    }),
    reader: |_| Box::new(ObjectReader::new(SPEC)),
};
