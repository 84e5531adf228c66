//! Qwen3-Coder and Qwen 3.5, Nemotron 3, StepFun:
//! `<tool_call><function=name><parameter=key>…</parameter></function></tool_call>`, once for each call.
#![forbid(unsafe_code)]

use super::super::read::tagged::{Tagged, TaggedReader};
use super::super::shape::{Each, Form, Piece, Shape, Values};
use super::Calls;

pub(super) const SPEC: Tagged = Tagged {
    call: "<function=",
    name_end: &[">"],
    name_rest: "",
    key: "<parameter=",
    key_end: &[">"],
    value: "",
    value_end: "</parameter>",
    call_end: "</function>",
    close: "</tool_call>",
    is_padded: true,
    is_typed: false,
    has_cdata: false,
};

pub(in super::super) static CALLS: Calls = Calls {
    name: "qwen-coder",
    signs: |text| text.contains("<function=") && text.contains("<parameter="),
    // Models sometimes omit the first of the two.
    opens: &["<tool_call>", "<function="],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "<tool_call>\n",
        close: "\n</tool_call>",
        between: None,
        ways: &[&[
            Piece::Mark("<function="),
            Piece::Name,
            Piece::Mark(">\n"),
            Piece::Each(Each {
                key: "<parameter=",
                value: ">\n",
                end: "\n</parameter>\n",
                comma: "",
                values: Values::Raw(&["<parameter=", "</function>", "</tool_call>"], None),
            }),
            Piece::Mark("</function>"),
        ]],
    }),
    reader: |mark| Box::new(TaggedReader::new(SPEC, mark == Some(1))),
};
