//! gpt-oss: messages in channels. `<|channel|>commentary to=functions.name<|message|>{…}<|call|>` is a call.
#![forbid(unsafe_code)]

use super::super::grammar::Shape;
use super::super::read::objects::{List, ObjectReader, Objects};
use super::Calls;

const UNUSED: Objects = Objects { close: "", list: List::Never, is_bare: false };

pub(in super::super) static CALLS: Calls = Calls {
    name: "harmony",
    signs: |text| text.contains("<|channel|>") && text.contains("<|message|>") && text.contains("commentary"),
    opens: &[],
    is_bare: false,
    has_channels: true,
    silent: &[],
    shape: Shape::Unknown,
    reader: |_| Box::new(ObjectReader::new(UNUSED)),
};
