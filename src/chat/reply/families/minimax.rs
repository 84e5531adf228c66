//! MiniMax M2: `<invoke name="name"><parameter name="key">value</parameter></invoke>` in `<minimax:tool_call>`.
#![forbid(unsafe_code)]

use super::super::grammar::{Shape, Strings, Tags};
use super::super::read::tagged::{Tagged, TaggedReader};
use super::Calls;

const SPEC: Tagged = Tagged {
    call: "<invoke name=\"",
    name_end: &["\">"],
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
    silent: &[],
    shape: Shape::Tagged(Tags {
        open: "<minimax:tool_call>\n",
        close: "</minimax:tool_call>",
        calls: Some("~"),
        before: "<invoke name=\"",
        named: "\">\n",
        behind: "</invoke>\n",
        key: "<parameter name=\"",
        value: "\">",
        end: "</parameter>\n",
        comma: "",
        strings: Strings::Raw,
    }),
    reader: |_| Box::new(TaggedReader::new(SPEC, false)),
};
