//! DeepSeek V3, R1 and its distilled models: a name, and JSON in a block of code; and V3.1: a name and JSON.
#![forbid(unsafe_code)]

use super::super::grammar::Shape;
use super::super::read::named::{Named, NamedReader, Part};
use super::Calls;

const OPEN: &str = "<｜tool▁calls▁begin｜>";
const CALL: &str = "<｜tool▁call▁begin｜>";

/// Both: what stands before the separator is the kind of the tool ("function") in the one and the name in the other.
const SPEC: Named = Named {
    item: CALL,
    close: "<｜tool▁calls▁end｜>",
    parts: &[
        Part::Space,
        Part::Maybe("function<｜tool▁sep｜>"),
        Part::Name(&["<｜tool▁sep｜>", "\n"]),
        Part::Space,
        Part::Maybe("```json"),
        Part::Arguments,
        Part::End("```"),
        Part::End("<｜tool▁call▁end｜>"),
    ],
};

pub(in super::super) static CALLS: Calls = Calls {
    name: "deepseek",
    signs: |text| text.contains(CALL),
    opens: &[OPEN, CALL],
    is_bare: false,
    has_channels: false,
    silent: &[],
    shape: Shape::Unknown,
    reader: |mark| Box::new(NamedReader::new(SPEC, mark == Some(1))),
};
