//! Gemma 4: `<|tool_call>call:name{key:<|"|>text<|"|>,…}<tool_call|>`, once for each call.
#![forbid(unsafe_code)]

use super::super::read::braces::{BraceReader, Braces};
use super::super::shape::{Each, Form, Piece, Shape, Values};
use super::Calls;

const SPEC: Braces = Braces { before: "call:", close: "<tool_call|>", quote: "<|\"|>" };

pub(in super::super) static CALLS: Calls = Calls {
    name: "gemma-4",
    signs: |text| text.contains("<|tool_call>call:"),
    opens: &["<|tool_call>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "<|tool_call>",
        close: "<tool_call|>",
        between: None,
        ways: &[&[
            Piece::Mark("call:"),
            Piece::Name,
            Piece::Mark("{"),
            Piece::Each(Each { key: "", value: ":", end: "", comma: ",", values: Values::Braces("<|\"|>") }),
            Piece::Mark("}"),
        ]],
    }),
    reader: |_| Box::new(BraceReader::new(SPEC)),
};
