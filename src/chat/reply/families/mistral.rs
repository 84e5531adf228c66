//! Mistral since v11: `[TOOL_CALLS]name[ARGS]{…}`, with `[CALL_ID]id` between them in some, once for each call.
#![forbid(unsafe_code)]

use super::super::grammar::Shape;
use super::super::read::named::{Named, NamedReader, Part};
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
    silent: &[],
    shape: Shape::Named { open: "[TOOL_CALLS]", between: "[ARGS]", close: "" },
    reader: |_| Box::new(NamedReader::new(SPEC, true)),
};
