//! MiniCPM5: `<function name="name"><param name="key">value</param></function>`, once for each call.
#![forbid(unsafe_code)]

use super::super::grammar::{Shape, Strings, Tags};
use super::super::read::tagged::{Tagged, TaggedReader};
use super::Calls;

const SPEC: Tagged = Tagged {
    call: "<function name=\"",
    name_end: &["\">"],
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

pub(in super::super) static CALLS: Calls = Calls {
    name: "minicpm5",
    signs: |text| text.contains("<function name=\"") && text.contains("<param name=\""),
    opens: &["<function name=\""],
    is_bare: false,
    has_channels: false,
    silent: &[],
    shape: Shape::Tagged(Tags {
        open: "<function name=\"",
        close: "",
        calls: None,
        before: "",
        named: "\">",
        behind: "</function>",
        key: "<param name=\"",
        value: "\">",
        end: "</param>",
        comma: "",
        strings: Strings::Raw,
    }),
    reader: |_| Box::new(TaggedReader::new(SPEC, true)),
};
