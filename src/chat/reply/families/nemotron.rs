//! Nemotron Nano v2: `<TOOLCALL>[{"name": …, "arguments": {…}}, …]</TOOLCALL>`.
#![forbid(unsafe_code)]

use super::super::read::objects::{List, ObjectReader, Objects};
use super::super::shape::{Form, OBJECT, Shape};
use super::Calls;

const SPEC: Objects = Objects { close: "</TOOLCALL>", list: List::Either, is_bare: false, is_keyed: false };

pub(in super::super) static CALLS: Calls = Calls {
    name: "nemotron",
    signs: |text| text.contains("<TOOLCALL>"),
    opens: &["<TOOLCALL>"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "<TOOLCALL>[",
        close: "]</TOOLCALL>",
        between: Some(",␣"),
        ways: OBJECT,
    }),
    reader: |_| Box::new(ObjectReader::new(SPEC)),
};
