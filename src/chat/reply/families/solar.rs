//! Solar Open: `<|tool_call:begin|>id<|tool_call:name|>name<|tool_call:args|>{…}<|tool_call:end|>` in a message of its own.
#![forbid(unsafe_code)]

use super::super::read::named::{Named, NamedReader, Part};
use super::super::shape::{Form, Piece, Shape};
use super::Calls;

const SPEC: Named = Named {
    item: "<|tool_call:begin|>",
    close: "<|calls|>",
    parts: &[
        Part::Id("", "<|tool_call:name|>"),
        Part::Name(&["<|tool_call:args|>"]),
        Part::Arguments,
        Part::End("<|tool_call:end|>"),
    ],
};

pub(in super::super) static CALLS: Calls = Calls {
    name: "solar",
    signs: |text| text.contains("<|tool_call:begin|>"),
    opens: &["<|tool_calls|>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &["<|begin|>assistant", "<|content|>", "<|end|>"],
    shape: Shape::Calls(Form {
        open: "<|tool_calls|>",
        close: "<|calls|>",
        between: Some(""),
        ways: &[&[
            Piece::Mark("<|tool_call:begin|>"),
            Piece::Id,
            Piece::Mark("<|tool_call:name|>"),
            Piece::Name,
            Piece::Mark("<|tool_call:args|>"),
            Piece::Arguments,
            Piece::Mark("<|tool_call:end|>"),
        ]],
    }),
    reader: |_| Box::new(NamedReader::new(SPEC, false)),
};
