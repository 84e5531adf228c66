//! MiniCPM5: `<function name="name"><param name="key">value</param></function>`, once for each call.
#![forbid(unsafe_code)]

use super::super::read::tagged::{Tagged, TaggedReader};
use super::super::shape::{Each, Form, Piece, Shape, Values};
use super::Calls;

const SPEC: Tagged = Tagged {
    call: "<function name=\"",
    name_end: &["\">"],
    name_rest: "",
    key: "<param name=\"",
    key_end: &["\">"],
    value: "",
    value_end: "</param>",
    call_end: "</function>",
    close: "",
    is_padded: false,
    is_typed: false,
    has_cdata: true,
};

/// Strings that do not begin like a string wrapped as in XML.
const NOT_WRAPPED: &str = r"([^<](?s:.)*|<([^!](?s:.)*|!([^\[](?s:.)*)?)?)?";

pub(in super::super) static CALLS: Calls = Calls {
    name: "minicpm5",
    signs: |text| text.contains("<function name=\"") && text.contains("<param name=\""),
    opens: &["<function name=\""],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "<function name=\"",
        close: "",
        between: None,
        ways: &[&[
            Piece::Name,
            Piece::Mark("\">"),
            Piece::Each(Each {
                key: "<param name=\"",
                value: "\">",
                end: "</param>",
                comma: "",
                values: Values::Raw(&["<param name=\"", "</function>"], Some(NOT_WRAPPED)),
            }),
            Piece::Mark("</function>"),
        ]],
    }),
    reader: |_| Box::new(TaggedReader::new(SPEC, true)),
};
