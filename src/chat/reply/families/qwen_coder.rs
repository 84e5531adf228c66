//! Qwen3-Coder and Qwen 3.5, Nemotron 3, StepFun:
//! `<tool_call><function=name><parameter=key>…</parameter></function></tool_call>`, once for each call.
#![forbid(unsafe_code)]

use super::super::grammar::{Shape, Strings, Tags};
use super::super::read::tagged::{Tagged, TaggedReader};
use super::Calls;

pub(super) const SPEC: Tagged = Tagged {
    call: "<function=",
    name_end: &[">"],
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
    // Models forget the first of the two at times.
    opens: &["<tool_call>", "<function="],
    is_bare: false,
    has_channels: false,
    silent: &[],
    shape: Shape::Tagged(Tags {
        open: "<tool_call>\n",
        close: "\n</tool_call>",
        calls: None,
        before: "<function=",
        named: ">\n",
        behind: "</function>",
        key: "<parameter=",
        value: ">\n",
        end: "\n</parameter>\n",
        comma: "",
        strings: Strings::Raw,
    }),
    reader: |mark| Box::new(TaggedReader::new(SPEC, mark == Some(1))),
};
