//! DeepSeek V3.2 and V4: as MiniMax M2, with marks of their own and with the type of each value.
#![forbid(unsafe_code)]

use super::super::grammar::Shape;
use super::super::read::tagged::{Tagged, TaggedReader};
use super::Calls;

const SPEC: Tagged = Tagged {
    call: "<｜DSML｜invoke name=\"",
    name_end: &["\">"],
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

pub(in super::super) static CALLS: Calls = Calls {
    name: "deepseek-dsml",
    signs: |text| text.contains("<｜DSML｜") || text.contains("｜DSML｜"),
    opens: &["<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"],
    is_bare: false,
    has_channels: false,
    silent: &[],
    shape: Shape::Unknown,
    reader: |mark| Box::new(TaggedReader::new(if mark == Some(1) { SPEC_V4 } else { SPEC }, false)),
};
