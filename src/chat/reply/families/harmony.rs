//! gpt-oss: messages in channels. `<|channel|>commentary to=functions.name<|message|>{…}<|call|>` is a call.
#![forbid(unsafe_code)]

use super::super::read::objects::{List, ObjectReader, Objects};
use super::super::shape::Shape;
use super::Calls;

const UNUSED: Objects = Objects { close: "", list: List::Never, is_bare: false, is_keyed: false };

pub(in super::super) static CALLS: Calls = Calls {
    name: "harmony",
    signs: |text| text.contains("<|channel|>") && text.contains("<|message|>") && text.contains("commentary"),
    opens: &[],
    is_bare: false,
    has_channels: true,
    is_begun: false,
    silent: &[],
    shape: Shape::Channels,
    reader: |_| Box::new(ObjectReader::new(UNUSED)),
};
