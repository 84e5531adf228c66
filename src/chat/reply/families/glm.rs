//! GLM 4.5 to 4.7, Ling 3, Laguna, Spark:
//! `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`, once for each call.
#![forbid(unsafe_code)]

use super::super::grammar::{Shape, Strings, Tags};
use super::super::read::tagged::{Tagged, TaggedReader};
use super::Calls;

const SPEC: Tagged = Tagged {
    call: "",
    name_end: &["\n", "<arg_key>", "</tool_call>"],
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
    silent: &[],
    shape: Shape::Tagged(Tags {
        open: "<tool_call>",
        close: "</tool_call>",
        calls: None,
        before: "",
        named: "~",
        behind: "",
        key: "<arg_key>",
        value: "</arg_key>~<arg_value>",
        end: "</arg_value>~",
        comma: "",
        strings: Strings::Raw,
    }),
    reader: |_| Box::new(TaggedReader::new(SPEC, true)),
};
