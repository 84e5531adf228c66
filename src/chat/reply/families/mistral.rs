//! Mistral since v11: `[TOOL_CALLS]name[ARGS]{…}`, with `[CALL_ID]id` between them in some, once for each call.
#![forbid(unsafe_code)]

use super::super::read::named::{Named, NamedReader, Part};
use super::super::shape::{Form, Piece, Shape};
use super::Calls;

const SPEC: Named = Named {
    item: "",
    close: "",
    parts: &[Part::Name(&["[ARGS]", "[CALL_ID]"]), Part::Id("[CALL_ID]", "[ARGS]"), Part::Arguments],
};

pub(in super::super) static CALLS: Calls = Calls {
    name: "mistral",
    signs: |text| text.contains("[TOOL_CALLS]") && text.contains("[ARGS]"),
    opens: &["[TOOL_CALLS]"],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form {
        open: "[TOOL_CALLS]",
        close: "",
        between: None,
        ways: &[
            &[Piece::Name, Piece::Mark("[ARGS]"), Piece::Arguments],
            &[Piece::Name, Piece::Mark("[CALL_ID]"), Piece::Id, Piece::Mark("[ARGS]"), Piece::Arguments],
        ],
    }),
    reader: |_| Box::new(NamedReader::new(SPEC, true)),
};
