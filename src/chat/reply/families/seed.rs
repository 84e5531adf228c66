//! Seed-OSS: as Qwen3-Coder, in `<seed:tool_call>` and without line breaks around values.
#![forbid(unsafe_code)]

use super::super::grammar::{Shape, Strings, Tags};
use super::super::read::tagged::{Tagged, TaggedReader};
use super::{Calls, qwen_coder};

const SPEC: Tagged = Tagged { close: "</seed:tool_call>", is_padded: false, ..qwen_coder::SPEC };

pub(in super::super) static CALLS: Calls = Calls {
    name: "seed",
    signs: |text| text.contains("<seed:tool_call>"),
    opens: &["<seed:tool_call>"],
    is_bare: false,
    has_channels: false,
    silent: &[],
    shape: Shape::Tagged(Tags {
        open: "<seed:tool_call>\n",
        close: "\n</seed:tool_call>",
        calls: None,
        before: "<function=",
        named: ">\n",
        behind: "</function>",
        key: "<parameter=",
        value: ">",
        end: "</parameter>\n",
        comma: "",
        strings: Strings::Raw,
    }),
    reader: |_| Box::new(TaggedReader::new(SPEC, false)),
};
