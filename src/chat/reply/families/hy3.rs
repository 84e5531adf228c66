//! Hunyuan 3: as GLM, with marks of its own and a section around the calls.
#![forbid(unsafe_code)]

use super::super::read::tagged::{Tagged, TaggedReader};
use super::super::shape::{Each, Form, Piece, Shape, Values};
use super::Calls;

const SPEC: Tagged = Tagged {
    call: "<tool_call:opensource>",
    name_end: &["<tool_sep:opensource>"],
    name_rest: "",
    key: "<arg_key:opensource>",
    key_end: &["</arg_key:opensource>"],
    value: "<arg_value:opensource>",
    value_end: "</arg_value:opensource>",
    call_end: "</tool_call:opensource>",
    close: "</tool_calls:opensource>",
    is_padded: false,
    is_typed: false,
    has_cdata: false,
};

pub(in super::super) static CALLS: Calls = Calls {
    name: "hunyuan-3",
    signs: |text| text.contains("<tool_sep:opensource>"),
    opens: &["<tool_calls:opensource>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "<tool_calls:opensource>\n",
        close: "</tool_calls:opensource>",
        between: Some(""),
        ways: &[&[
            Piece::Mark("<tool_call:opensource>"),
            Piece::Name,
            Piece::Mark("<tool_sep:opensource>\n"),
            Piece::Each(Each {
                key: "<arg_key:opensource>",
                value: "</arg_key:opensource>~<arg_value:opensource>",
                end: "</arg_value:opensource>\n",
                comma: "",
                values: Values::Raw(
                    &["<arg_key:opensource>", "</tool_call:opensource>", "</tool_calls:opensource>"],
                    None,
                ),
            }),
            Piece::Mark("</tool_call:opensource>\n"),
        ]],
    }),
    reader: |_| Box::new(TaggedReader::new(SPEC, false)),
};
