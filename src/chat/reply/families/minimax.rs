//! MiniMax M2: `<invoke name="name"><parameter name="key">value</parameter></invoke>` in `<minimax:tool_call>`.
#![forbid(unsafe_code)]

use super::super::read::tagged::{Tagged, TaggedReader};
use super::super::shape::{Each, Form, Piece, Shape, Values};
use super::Calls;

const SPEC: Tagged = Tagged {
    call: "<invoke name=\"",
    name_end: &["\">"],
    name_rest: "",
    key: "<parameter name=\"",
    key_end: &["\">"],
    value: "",
    value_end: "</parameter>",
    call_end: "</invoke>",
    close: "</minimax:tool_call>",
    is_padded: false,
    is_typed: false,
    has_cdata: false,
};

pub(in super::super) static CALLS: Calls = Calls {
    name: "minimax",
    signs: |text| text.contains("<minimax:tool_call>"),
    opens: &["<minimax:tool_call>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "<minimax:tool_call>\n",
        close: "</minimax:tool_call>",
        between: Some("~"),
        ways: &[&[
            Piece::Mark("<invoke name=\""),
            Piece::Name,
            Piece::Mark("\">\n"),
            Piece::Each(Each {
                key: "<parameter name=\"",
                value: "\">",
                end: "</parameter>\n",
                comma: "",
                values: Values::Raw(&["<parameter name=\"", "</invoke>", "</minimax:tool_call>"], None),
            }),
            Piece::Mark("</invoke>\n"),
        ]],
    }),
    reader: |_| Box::new(TaggedReader::new(SPEC, false)),
};
