//! Functionary 3.1: `<function=name>{…}</function>`, once for each call.
#![forbid(unsafe_code)]

use super::super::read::named::{Named, NamedReader, Part};
use super::super::shape::{Form, Piece, Shape};
use super::Calls;

const SPEC: Named =
    Named { item: "", close: "", parts: &[Part::Name(&[">"]), Part::Arguments, Part::End("</function>")] };

pub(in super::super) static CALLS: Calls = Calls {
    name: "functionary",
    signs: |text| text.contains("<function=") && !text.contains("<parameter="),
    opens: &["<function="],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "<function=",
        close: "</function>",
        between: None,
        ways: &[&[Piece::Name, Piece::Mark(">"), Piece::Arguments]],
    }),
    reader: |_| Box::new(NamedReader::new(SPEC, true)),
};
