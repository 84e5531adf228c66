//! Nemotron Nano v2: `<TOOLCALL>[{"name": …, "arguments": {…}}, …]</TOOLCALL>`.
#![forbid(unsafe_code)]

use super::super::grammar::Shape;
use super::super::read::objects::{List, ObjectReader, Objects};
use super::Calls;

const SPEC: Objects = Objects { close: "</TOOLCALL>", list: List::Either, is_bare: false };

pub(in super::super) static CALLS: Calls = Calls {
    name: "nemotron",
    signs: |text| text.contains("<TOOLCALL>"),
    opens: &["<TOOLCALL>"],
    is_bare: false,
    has_channels: false,
    silent: &[],
    shape: Shape::Objects {
        open: "<TOOLCALL>[",
        close: "]</TOOLCALL>",
        is_list: true,
        arguments: "arguments",
    },
    reader: |_| Box::new(ObjectReader::new(SPEC)),
};
