//! MiniMax M3: `<tool_call><invoke name="name"><key>value</key></invoke></tool_call>` with a mark before every tag; lists and objects are
//! tags too.
#![forbid(unsafe_code)]

use super::super::read::nested::{Nested, NestedReader};
use super::super::shape::{Each, Form, Piece, Shape, Values};
use super::Calls;

const SPEC: Nested = Nested {
    mark: "]<]minimax[>[",
    call: "<invoke name=\"",
    name_end: "\">",
    call_end: "</invoke>",
    close: "</tool_call>",
};

pub(in super::super) static CALLS: Calls = Calls {
    name: "minimax-m3",
    signs: |text| text.contains("]<]minimax[>["),
    opens: &["]<]minimax[>[<tool_call>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "]<]minimax[>[<tool_call>\n",
        close: "]<]minimax[>[</tool_call>",
        between: Some(""),
        ways: &[&[
            Piece::Mark("]<]minimax[>[<invoke name=\""),
            Piece::Name,
            Piece::Mark("\">"),
            Piece::Each(Each {
                key: "]<]minimax[>[<",
                value: ">",
                end: "",
                comma: "",
                values: Values::Nested("]<]minimax[>["),
            }),
            Piece::Mark("]<]minimax[>[</invoke>\n"),
        ]],
    }),
    reader: |_| Box::new(NestedReader::new(SPEC)),
};
