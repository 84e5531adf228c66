//! Functionary 3.2: messages that begin with `>>>` and the name of a tool, or with `>>>all`. The prompt has the first `>>>`.
#![forbid(unsafe_code)]

use super::super::read::named::{Named, NamedReader, Part};
use super::super::shape::Shape;
use super::Calls;

const SPEC: Named =
    Named { item: "", close: "", parts: &[Part::Text("all\n"), Part::Name(&["\n"]), Part::Arguments] };

pub(in super::super) static CALLS: Calls = Calls {
    name: "functionary-3.2",
    signs: |text| text.contains(">>>all") || text.contains(">>>get_weather\n"),
    opens: &[">>>"],
    is_bare: false,
    has_channels: false,
    is_begun: true,
    silent: &[],
    shape: Shape::Recipients,
    reader: |_| Box::new(NamedReader::new(SPEC, true)),
};
