//! LFM2: `<|tool_call_start|>[name(key=value), …]<|tool_call_end|>`, as in Python.
#![forbid(unsafe_code)]

use super::super::read::python::PythonReader;
use super::super::shape::{Each, Form, Piece, Shape, Values};
use super::Calls;

pub(in super::super) static CALLS: Calls = Calls {
    name: "lfm-2",
    signs: |text| text.contains("<|tool_call_start|>") || text.contains("<|tool_list_start|>"),
    opens: &["<|tool_call_start|>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "<|tool_call_start|>[",
        close: "]<|tool_call_end|>",
        between: Some(", "),
        ways: &[&[
            Piece::Mark(""),
            Piece::Name,
            Piece::Mark("("),
            Piece::Each(Each { key: "", value: "=", end: "", comma: ", ", values: Values::Json }),
            Piece::Mark(")"),
        ]],
    }),
    reader: |_| Box::new(PythonReader::new("<|tool_call_end|>")),
};
