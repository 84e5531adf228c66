//! Llama 3.1, 3.2 and 3.3: `{"name": …, "parameters": {…}}` as the whole reply, or after `<|python_tag|>`.
#![forbid(unsafe_code)]

use super::super::read::objects::{List, ObjectReader, Objects};
use super::super::shape::{Form, PARAMETERS, Shape};
use super::Calls;

const BARE: Objects = Objects { close: "", list: List::Never, is_bare: true, is_keyed: false };
const MARKED: Objects = Objects { close: "", list: List::Never, is_bare: false, is_keyed: false };

pub(in super::super) static CALLS: Calls = Calls {
    name: "llama3",
    signs: |text| {
        let is_json = |key: &str| text.contains(&format!("\"name\": \"get_weather\", \"{key}\""));
        is_json("parameters")
            || is_json("arguments")
            || text.contains("<|python_tag|>") && text.contains("\"parameters\"")
    },
    opens: &["<|python_tag|>"],
    is_bare: true,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form { open: "", close: "", between: None, ways: PARAMETERS }),
    reader: |mark| Box::new(ObjectReader::new(if mark.is_some() { MARKED } else { BARE })),
};
