//! FunctionGemma: `<start_function_call>call:name{key:<escape>text<escape>,…}<end_function_call>`, once for each call.
#![forbid(unsafe_code)]

use super::super::read::braces::{BraceReader, Braces};
use super::super::shape::{Each, Form, Piece, Shape, Values};
use super::Calls;

const SPEC: Braces = Braces { before: "call:", close: "<end_function_call>", quote: "<escape>" };

pub(in super::super) static CALLS: Calls = Calls {
    name: "function-gemma",
    signs: |text| text.contains("<start_function_call>"),
    opens: &["<start_function_call>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "<start_function_call>",
        close: "<end_function_call>",
        between: None,
        ways: &[&[
            Piece::Mark("call:"),
            Piece::Name,
            Piece::Mark("{"),
            Piece::Each(Each {
                key: "",
                value: ":",
                end: "",
                comma: ",",
                values: Values::Braces("<escape>"),
            }),
            Piece::Mark("}"),
        ]],
    }),
    reader: |_| Box::new(BraceReader::new(SPEC)),
};
