//! LFM2: `<|tool_call_start|>[name(key=value), …]<|tool_call_end|>`, as in Python.
#![forbid(unsafe_code)]

use super::super::grammar::{Shape, Strings, Tags};
use super::super::read::python::PythonReader;
use super::Calls;

pub(in super::super) static CALLS: Calls = Calls {
    name: "lfm-2",
    signs: |text| text.contains("<|tool_call_start|>") || text.contains("<|tool_list_start|>"),
    opens: &["<|tool_call_start|>"],
    is_bare: false,
    has_channels: false,
    silent: &[],
    shape: Shape::Tagged(Tags {
        open: "<|tool_call_start|>[",
        close: "]<|tool_call_end|>",
        calls: Some(", "),
        before: "",
        named: "(",
        behind: ")",
        key: "",
        value: "=",
        end: "",
        comma: ", ",
        strings: Strings::Json,
    }),
    reader: |_| Box::new(PythonReader::new("<|tool_call_end|>")),
};
