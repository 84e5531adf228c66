//! Any chat template on any conversation gives text or an error, in bounded time and memory.
//!
//! The input is a template, messages, tools and variables, with a NUL between them; what is missing has a default.

use ember::chat::{ChatInput, ChatTemplate};

const MESSAGES: &str = r#"[{"role":"system","content":"Be kind."},{"role":"user","content":"Hi é\n"},
{"role":"assistant","content":"Yes","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":{"x":[1,2.5,null]}}}]},
{"role":"tool","name":"f","content":"7"}]"#;

/// Compiles the template and renders the conversation.
pub fn run(bytes: &[u8]) {
    let [template, messages, tools, variables] = super::parts(bytes);
    let parts = (super::text(template), super::text(messages), super::text(tools), super::text(variables));
    let (Some(template), Some(messages), Some(tools), Some(variables)) = parts else { return };
    let template = match ChatTemplate::parse(template) {
        Ok(template) => template,
        Err(e) => return assert!(!e.message().is_empty()),
    };
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let messages = if messages.is_empty() { MESSAGES } else { messages };
    for add_generation_prompt in [false, true] {
        let input = ChatInput {
            tools: given(tools),
            variables: given(variables),
            add_generation_prompt,
            special_tokens: vec![("bos_token".into(), "<s>".into()), ("eos_token".into(), "</s>".into())],
            now: Some(1_735_648_245),
        };
        let first = template.render(messages, &input);
        // The clock is given, so nothing of it is left to chance.
        assert_eq!(first, template.render(messages, &input));
        if let Err(e) = first {
            assert!(!e.message().is_empty());
        }
    }
}
