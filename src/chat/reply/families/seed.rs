//! Seed-OSS: as Qwen3-Coder, in `<seed:tool_call>` and without line breaks around values.
#![forbid(unsafe_code)]

use super::super::read::tagged::{Tagged, TaggedReader};
use super::super::shape::{Each, Form, Piece, Shape, Values};
use super::{Calls, qwen_coder};

const SPEC: Tagged = Tagged { close: "</seed:tool_call>", is_padded: false, ..qwen_coder::SPEC };

pub(in super::super) static CALLS: Calls = Calls {
    name: "seed",
    signs: |text| text.contains("<seed:tool_call>"),
    opens: &["<seed:tool_call>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "<seed:tool_call>\n",
        close: "\n</seed:tool_call>",
        between: None,
        ways: &[&[
            Piece::Mark("<function="),
            Piece::Name,
            Piece::Mark(">\n"),
            Piece::Each(Each {
                key: "<parameter=",
                value: ">",
                end: "</parameter>\n",
                comma: "",
                values: Values::Raw(&["<parameter=", "</function>", "</seed:tool_call>"], None),
            }),
            Piece::Mark("</function>"),
        ]],
    }),
    reader: |_| Box::new(TaggedReader::new(SPEC, false)),
};
