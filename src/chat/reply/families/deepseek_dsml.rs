//! DeepSeek V3.2 and V4: as MiniMax M2, with marks of their own and with the type of each value.
#![forbid(unsafe_code)]

use super::super::read::tagged::{Tagged, TaggedReader};
use super::super::shape::{Each, Form, Piece, Shape, Values};
use super::Calls;

const SPEC: Tagged = Tagged {
    call: "<｜DSML｜invoke name=\"",
    name_end: &["\">"],
    name_rest: "",
    key: "<｜DSML｜parameter name=\"",
    key_end: &["\" string=\"true\">", "\" string=\"false\">"],
    value: "",
    value_end: "</｜DSML｜parameter>",
    call_end: "</｜DSML｜invoke>",
    close: "</｜DSML｜function_calls>",
    is_padded: false,
    is_typed: true,
    has_cdata: false,
};
const SPEC_V4: Tagged = Tagged { close: "</｜DSML｜tool_calls>", ..SPEC };

const WAYS: &[&[Piece]] = &[&[
    Piece::Mark("<｜DSML｜invoke name=\""),
    Piece::Name,
    Piece::Mark("\">\n~"),
    Piece::Each(Each {
        key: "<｜DSML｜parameter name=\"",
        value: "",
        end: "</｜DSML｜parameter>\n",
        comma: "",
        values: Values::Typed(
            &[
                "<｜DSML｜parameter name=\"",
                "</｜DSML｜invoke>",
                "</｜DSML｜function_calls>",
                "</｜DSML｜tool_calls>",
            ],
            &[(Some("string"), "\" string=\"true\">"), (None, "\" string=\"false\">")],
        ),
    }),
    Piece::Mark("</｜DSML｜invoke>\n"),
]];

/// V3.2.
pub(in super::super) static CALLS: Calls = Calls {
    name: "deepseek-dsml",
    signs: |text| text.contains("｜DSML｜") && !text.contains("tool_calls>"),
    opens: &["<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "<｜DSML｜function_calls>\n",
        close: "</｜DSML｜function_calls>",
        between: Some(""),
        ways: WAYS,
    }),
    reader: |mark| Box::new(TaggedReader::new(if mark == Some(1) { SPEC_V4 } else { SPEC }, false)),
};

/// V4.
pub(in super::super) static CALLS_V4: Calls = Calls {
    signs: |text| text.contains("｜DSML｜"),
    opens: &["<｜DSML｜tool_calls>", "<｜DSML｜function_calls>"],
    shape: Shape::Calls(Form {
        open: "<｜DSML｜tool_calls>\n",
        close: "</｜DSML｜tool_calls>",
        between: Some(""),
        ways: WAYS,
    }),
    reader: |mark| Box::new(TaggedReader::new(if mark == Some(1) { SPEC } else { SPEC_V4 }, false)),
    ..CALLS
};
