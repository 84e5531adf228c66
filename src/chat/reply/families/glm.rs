//! GLM 4.5 to 4.7, Ling 3, Laguna, Spark:
//! `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`, once for each call.
#![forbid(unsafe_code)]

use super::super::read::tagged::{Tagged, TaggedReader};
use super::super::shape::{Each, Form, Piece, Shape, Values};
use super::Calls;

const SPEC: Tagged = Tagged {
    call: "",
    name_end: &["\n", "<arg_key>", "</tool_call>"],
    name_rest: "",
    key: "<arg_key>",
    key_end: &["</arg_key>"],
    value: "<arg_value>",
    value_end: "</arg_value>",
    call_end: "",
    close: "</tool_call>",
    is_padded: false,
    is_typed: false,
    has_cdata: false,
};

pub(in super::super) static CALLS: Calls = Calls {
    name: "glm",
    signs: |text| text.contains("<arg_key>"),
    opens: &["<tool_call>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "<tool_call>",
        close: "</tool_call>",
        between: None,
        ways: &[&[
            Piece::Mark(""),
            Piece::Name,
            Piece::Mark("~~"),
            Piece::Each(Each {
                key: "<arg_key>",
                value: "</arg_key>~<arg_value>",
                end: "</arg_value>~",
                comma: "",
                values: Values::Raw(&["<arg_key>", "</tool_call>"], None),
            }),
            Piece::Mark(""),
        ]],
    }),
    reader: |_| Box::new(TaggedReader::new(SPEC, true)),
};
