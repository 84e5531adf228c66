//! Kimi K2: `<|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>` in a section.
#![forbid(unsafe_code)]

use super::super::read::named::{Named, NamedReader, Part};
use super::super::shape::{Form, Piece, Shape};
use super::Calls;

const SPEC: Named = Named {
    item: "<|tool_call_begin|>",
    close: "<|tool_calls_section_end|>",
    parts: &[
        Part::IdWithName("<|tool_call_argument_begin|>"),
        Part::Arguments,
        Part::End("<|tool_call_end|>"),
    ],
};

pub(in super::super) static CALLS: Calls = Calls {
    name: "kimi",
    signs: |text| text.contains("<|tool_call_argument_begin|>"),
    opens: &["<|tool_calls_section_begin|>", "<|tool_call_begin|>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "<|tool_calls_section_begin|>",
        close: "<|tool_calls_section_end|>",
        between: Some(""),
        ways: &[&[
            Piece::Mark("<|tool_call_begin|>functions."),
            Piece::Name,
            Piece::Mark(":№<|tool_call_argument_begin|>"),
            Piece::Arguments,
            Piece::Mark("<|tool_call_end|>"),
        ]],
    }),
    reader: |mark| Box::new(NamedReader::new(SPEC, mark == Some(1))),
};
