//! Grammars for calls: the parser reads what they allow.
#![cfg(feature = "chat")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use ember::chat::reply::{
    Control, GrammarParts, MOST_CALLS, ReplyFormat, ToolChoice, ToolGrammar, ToolUse, Tools,
};
use ember::error::Error;

const TOOLS: &str = r#"[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":
{"a":{"type":"string"},"n":{"type":"integer"},"e":{"enum":["x","y"]}},"required":["a"],"additionalProperties":false}}},
{"type":"function","function":{"name":"g"}}]"#;

fn format(marks: &str) -> ReplyFormat {
    let source = format!("{{% if false %}}{{% raw %}}{marks}{{% endraw %}}{{% endif %}}");
    ReplyFormat::of_template(&source).unwrap()
}

fn made(
    marks: &str,
    tools: &Tools,
    choice: &ToolChoice,
    parallel: bool,
    token: &str,
) -> Result<Option<ToolGrammar>, Error> {
    let controls = |text: &str| {
        let at = text.find(token).filter(|_| !token.is_empty());
        at.map(|at| Control { at: at..at + token.len(), id: 7, is_end: false }).into_iter().collect()
    };
    let schema = |text: &str| Ok(serde_json::from_str(text).unwrap());
    let parts = GrammarParts { controls: &controls, schema: &schema, expression: &|_| None };
    let asked = ToolUse { tools, choice, parallel, in_thought: false };
    format(marks).tool_grammar(asked, &parts)
}

fn grammar(marks: &str, choice: &ToolChoice, parallel: bool) -> ToolGrammar {
    made(marks, &Tools::parse(TOOLS).unwrap(), choice, parallel, "").unwrap().unwrap()
}

#[test]
fn the_text_of_a_grammar() {
    let hermes = grammar("<tool_call>", &ToolChoice::Required, true);
    assert!(hermes.triggers.is_empty() && hermes.most_parts == 0);
    let want = r#"start: "<tool_call>" /[ \n]{0,8}/ rest (/\s{0,8}/ "<tool_call>" /[ \n]{0,8}/ rest){0,31}
arguments_0: %json {"type":"object","properties":{"a":{"type":"string"},"n":{"type":"integer"},"e":{"enum":["x","y"]}},"required":["a"],"additionalProperties":false}
call_1: "{\"name\":" /[ \n]{0,8}/ "\"f\"" "," /[ \n]{0,8}/ "\"arguments\":" /[ \n]{0,8}/ arguments_0 "}"
arguments_2: %json {"type":"object","properties":{},"additionalProperties":false}
call_3: "{\"name\":" /[ \n]{0,8}/ "\"g\"" "," /[ \n]{0,8}/ "\"arguments\":" /[ \n]{0,8}/ arguments_2 "}"
call: call_1 | call_3
rest: call /[ \n]{0,8}/ "</tool_call>"
"#;
    assert_eq!(hermes.lark, want.replace("\\\\", "\\"), "{}", hermes.lark);
    // Where a call may be made, each is a part after its mark; what else the parser takes for one does not come.
    let coder = grammar("<function=<parameter=", &ToolChoice::Auto, true);
    assert_eq!((coder.triggers, coder.most_parts), (vec!["<tool_call>".to_owned()], MOST_CALLS));
    assert_eq!(coder.never, ["<function="]);
    assert!(coder.lark.starts_with("start: \"\\n\" rest\n"), "{}", coder.lark);
    assert_eq!(grammar("<tool_call>", &ToolChoice::Auto, false).most_parts, 1);
    let named = grammar("[TOOL_CALLS] [ARGS]", &ToolChoice::Named("g".into()), false);
    assert!(named.triggers.is_empty() && named.lark.starts_with("start: \"[TOOL_CALLS]\" rest\n"));
    assert!(named.lark.contains(": \"g\" \"[ARGS]\" arguments_0\n"), "{}", named.lark);
    let tools = Tools::parse(TOOLS).unwrap();
    let lfm2 = made("<|tool_call_start|>", &tools, &ToolChoice::Required, true, "<|tool_call_start|>");
    let lfm2 = lfm2.unwrap().unwrap();
    assert!(
        lfm2.lark.starts_with("start: <[7]> \"[\" call (\", \" call){0,31} \"]<|tool_call_end|>\"\n"),
        "{}",
        lfm2.lark
    );
    let harmony = grammar("<|channel|>commentary<|message|>", &ToolChoice::Auto, true);
    // Whole replies follow it, so that no header names a tool in another way.
    assert!(harmony.triggers.is_empty() && harmony.lark.starts_with("start: reply | ("), "{}", harmony.lark);
}

#[test]
fn choices_that_cannot_be_kept_are_refused() {
    let tools = Tools::parse(TOOLS).unwrap();
    let ask = |marks: &str, tools: &Tools, choice: ToolChoice| made(marks, tools, &choice, true, "");
    assert_eq!(ask("<tool_call>", &tools, ToolChoice::None), Ok(None));
    assert_eq!(ask("<tool_call>", &Tools::default(), ToolChoice::Auto), Ok(None));
    assert_eq!(ask("<|python_tag|> \"parameters\"", &tools, ToolChoice::Auto), Ok(None));
    let words = |result: Result<Option<ToolGrammar>, Error>| result.unwrap_err().message().to_owned();
    assert!(words(ask("<tool_call>", &tools, ToolChoice::Named("h".into()))).contains("\"h\""));
    assert!(words(ask("<tool_call>", &Tools::default(), ToolChoice::Required)).contains("no tools"));
    assert!(words(ask("none", &tools, ToolChoice::Required)).contains("no grammar"));
}

/// What a form that is no JSON cannot be held to is refused by its name, and so are names that it cannot spell.
#[test]
fn schemas_that_a_form_cannot_be_held_to_are_refused_by_name() {
    let tool = |parameters: &str| {
        Tools::parse(&format!(r#"[{{"name": "f", "parameters": {{"type": "object", {parameters}}}}}]"#))
            .unwrap()
    };
    for (marks, parameters, word) in [
        ("<arg_key>", r#""properties": {"a": {"type": "string", "pattern": "a|^b"}}"#, "\"pattern\""),
        ("<arg_key>", r#""properties": {"a": {"type": "string", "format": "iri"}}"#, "\"iri\""),
        ("<arg_key>", r#""properties": {"a": {"type": "string", "not": {}}}"#, "\"not\""),
        ("<arg_key>", r#""properties": {"a b": {"type": "string"}}"#, "\"a b\""),
        ("<arg_key>", r#""properties": {"a": {}}, "anyOf": [{}]"#, "\"anyOf\""),
        ("<arg_key>", r#""properties": {"a": {}}, "required": ["b"]"#, "\"b\""),
        (
            "<start_function_call>",
            r#""properties": {"a": {"type": "array", "uniqueItems": true}}"#,
            "\"uniqueItems\"",
        ),
        (
            "<start_function_call>",
            r#""properties": {"a": {"patternProperties": {"x": {}}}}"#,
            "\"patternProperties\"",
        ),
        (
            "<start_function_call>",
            r#""properties": {"a": {"allOf": [{"type": "integer"}, {"minimum": 1}]}}"#,
            "\"allOf\"",
        ),
        (
            "<start_function_call>",
            r#""properties": {"a": {"oneOf": [{"type": "integer"}, {"minimum": 1}]}}"#,
            "\"oneOf\"",
        ),
        ("<start_function_call>", r#""properties": {"a": {"const": "x<escape>"}}"#, "enum"),
    ] {
        for choice in [ToolChoice::Auto, ToolChoice::Required] {
            let error = made(marks, &tool(parameters), &choice, true, "").unwrap_err();
            assert!(matches!(error, Error::Unsupported(_)), "{parameters}: {error}");
            assert!(error.message().contains(word), "{parameters}: {error}");
        }
    }
    let named = Tools::parse(r#"[{"name": "a b"}]"#).unwrap();
    let error = made("[TOOL_CALLS][ARGS]", &named, &ToolChoice::Auto, true, "").unwrap_err();
    assert!(error.message().contains("\"a b\""), "{error}");
    // JSON spells them all.
    assert!(made("<tool_call>", &named, &ToolChoice::Auto, true, "").is_ok());
}
