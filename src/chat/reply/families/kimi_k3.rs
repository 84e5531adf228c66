//! Kimi K3: `<|open|>call tool="name" index="1"<|sep|>` with `<|open|>argument key="key" type="string"<|sep|>value<|close|>argument<|sep|>`.
#![forbid(unsafe_code)]

use super::super::read::tagged::{Tagged, TaggedReader};
use super::super::shape::{Each, Form, Piece, Shape, Values};
use super::Calls;

const SPEC: Tagged = Tagged {
    call: "<|open|>call tool=\"",
    name_end: &["\""],
    name_rest: "<|sep|>",
    key: "<|open|>argument key=\"",
    key_end: &[
        "\" type=\"string\"<|sep|>",
        "\" type=\"number\"<|sep|>",
        "\" type=\"boolean\"<|sep|>",
        "\" type=\"array\"<|sep|>",
        "\" type=\"object\"<|sep|>",
        "\" type=\"null\"<|sep|>",
    ],
    value: "",
    value_end: "<|close|>argument<|sep|>",
    call_end: "<|close|>call<|sep|>",
    close: "<|close|>tools<|sep|>",
    is_padded: false,
    is_typed: true,
    has_cdata: false,
};

pub(in super::super) static CALLS: Calls = Calls {
    name: "kimi-k3",
    signs: |text| text.contains("<|open|>call tool="),
    opens: &["<|open|>tools<|sep|>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[
        "<|open|>response<|sep|>",
        "<|close|>response<|sep|>",
        "<|close|>message<|sep|>",
        "<|end_of_msg|>",
    ],
    shape: Shape::Calls(Form {
        open: "<|open|>tools<|sep|>",
        close: "<|close|>tools<|sep|>",
        between: Some(""),
        ways: &[&[
            Piece::Mark("<|open|>call tool=\""),
            Piece::Name,
            Piece::Mark("\" index=\"№\"<|sep|>"),
            Piece::Each(Each {
                key: "<|open|>argument key=\"",
                value: "",
                end: "<|close|>argument<|sep|>",
                comma: "",
                values: Values::Typed(
                    &["<|open|>argument key=\"", "<|close|>call<|sep|>", "<|close|>tools<|sep|>"],
                    &[
                        (Some("string"), "\" type=\"string\"<|sep|>"),
                        (Some("number"), "\" type=\"number\"<|sep|>"),
                        (Some("boolean"), "\" type=\"boolean\"<|sep|>"),
                        (Some("array"), "\" type=\"array\"<|sep|>"),
                        (Some("object"), "\" type=\"object\"<|sep|>"),
                        (Some("null"), "\" type=\"null\"<|sep|>"),
                    ],
                ),
            }),
            Piece::Mark("<|close|>call<|sep|>"),
        ]],
    }),
    reader: |_| Box::new(TaggedReader::new(SPEC, false)),
};
