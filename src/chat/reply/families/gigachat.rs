//! GigaChat 3.1: `<|function_call|>{"name": …, "arguments": {…}}`, and 3.0, where the call is a message with the role `function call`.
#![forbid(unsafe_code)]

use super::super::read::objects::{List, ObjectReader, Objects};
use super::super::shape::{Form, OBJECT, Shape};
use super::Calls;

const SPEC: Objects = Objects { close: "", list: List::Never, is_bare: false, is_keyed: false };
const OPEN: &str = "<|function_call|>";
const OPEN_3: &str = "<|message_sep|>\n\nfunction call<|role_sep|>\n";

pub(in super::super) static CALLS: Calls = Calls {
    name: "gigachat-3.1",
    signs: |text| text.contains(OPEN),
    opens: &[OPEN],
    is_bare: false,
    has_channels: false,
    is_begun: false,
    silent: &[],
    shape: Shape::Calls(Form { open: OPEN, close: "", between: None, ways: OBJECT }),
    reader: |_| Box::new(ObjectReader::new(SPEC)),
};

pub(in super::super) static CALLS_3: Calls = Calls {
    name: "gigachat-3",
    signs: |text| text.contains("function call<|role_sep|>"),
    opens: &[OPEN_3],
    shape: Shape::Calls(Form { open: OPEN_3, close: "", between: None, ways: OBJECT }),
    ..CALLS
};
