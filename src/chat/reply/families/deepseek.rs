//! DeepSeek V3, R1 and its distilled models: a name, and JSON in a block of code; and V3.1: a name and JSON.
#![forbid(unsafe_code)]

use super::super::read::named::{Named, NamedReader, Part};
use super::super::shape::{Form, Piece, Shape};
use super::Calls;

const OPEN: &str = "<｜tool▁calls▁begin｜>";
const CALL: &str = "<｜tool▁call▁begin｜>";

/// Both: before the separator one has the kind of the tool ("function") and the other the name.
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
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "<｜tool▁calls▁begin｜>",
        close: "<｜tool▁calls▁end｜>",
        between: Some("~"),
        ways: &[
            &[
                Piece::Mark("<｜tool▁call▁begin｜>"),
                Piece::Name,
                Piece::Mark("<｜tool▁sep｜>"),
                Piece::Arguments,
                Piece::Mark("<｜tool▁call▁end｜>"),
            ],
            &[
                Piece::Mark("<｜tool▁call▁begin｜>function<｜tool▁sep｜>"),
                Piece::Name,
                Piece::Mark("\n```json\n"),
                Piece::Arguments,
                Piece::Mark("\n```<｜tool▁call▁end｜>"),
            ],
        ],
    }),
    reader: |mark| Box::new(NamedReader::new(SPEC, mark == Some(1))),
};
