//! A binary of its own: it has the process's allocator, which counts.
//!
//! Reading a conversation takes no more memory than was checked for before, whatever its JSON looks like.
#![cfg(feature = "chat")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

#[path = "common/counting.rs"]
mod counting;

use counting::most;
use ember::chat::{ChatInput, ChatTemplate, memory_needed, template_memory};

/// One test, because others at the same time would be counted too.
#[test]
fn conversations_and_templates_take_no_more_memory_than_is_looked_for() {
    let template = ChatTemplate::parse("{{ messages | length }}").unwrap();
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(120), close.repeat(120));
    let parts = [
        r#"{"":0}"#.to_owned(),
        r#"{"a":[]}"#.to_owned(),
        r#"{"a":{},"b":{}}"#.to_owned(),
        r#"{"0":0,"1":0,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0}"#.to_owned(),
        "{}".to_owned(),
        "[]".to_owned(),
        "[0]".to_owned(),
        "[[]]".to_owned(),
        "0".to_owned(),
        r#""""#.to_owned(),
        r#""a""#.to_owned(),
        deep("[", "]"),
        format!("{}0{}", "[0,".repeat(120), "]".repeat(120)),
        format!("{}0{}", r#"{"":"#.repeat(120), "}".repeat(120)),
    ];
    // Lists take most when they have grown for the last time just before their end.
    let many = |part: &str| vec![part; ((1 << 19) / part.len()).next_power_of_two() + 1].join(",");
    let mut conversations: Vec<String> =
        parts.iter().map(|part| format!(r#"[{{"content":[{}]}}]"#, many(part))).collect();
    conversations.extend([
        format!("[{}]", many("{}")),
        format!("[{}]", many(r#"{"":0}"#)),
        format!("[{}]", many(r#"{"thinking":0}"#)),
        format!("[{}]", many(r#"{"reasoning":0,"a":0,"b":0,"c":0,"d":0,"e":0,"f":0}"#)),
    ]);
    let keys: Vec<String> = (0..100_000).map(|i| format!(r#""{i:x}":0"#)).collect();
    conversations.push(format!("[{{{}}}]", keys.join(",")));
    for json in &conversations {
        let taken = most(|| drop(template.render(json, &ChatInput::default()).unwrap()));
        assert!(
            taken <= memory_needed(json),
            "{taken} bytes, {} looked for: {:.60}",
            memory_needed(json),
            json
        );
    }
    // Ordinary messages have few separators, and need no more memory than a small machine has.
    let said = r#"{"role":"user","content":"Who wrote, in the end, the book that you told me of yesterday: was it him?"}"#;
    let json = format!("[{}]", many(said));
    assert!(memory_needed(&json) < 32 * json.len());
    for (before, part, after) in [
        ("{{ [", "1,", "] }}"),
        ("{{ [", "a,", "] }}"),
        ("{{ [", "'',", "] }}"),
        ("{{ [", "[],", "] }}"),
        ("{{ {", "1:1,", "} }}"),
        ("{{ [", "a.b,", "] }}"),
        ("{{ [", "a(),", "] }}"),
        ("{{ [", "a|b,", "] }}"),
        ("{{ [", "-1,", "] }}"),
        ("{{ 1", "<1", " }}"),
        ("{{ ", "not ", "1 }}"),
        ("{{ f(", "a=1,", ") }}"),
        ("", "{{1}}", ""),
        ("", "{{a}}x", ""),
        ("", "{%set a=1%}", ""),
        ("", "{%for a in a%}{%endfor%}", ""),
        ("", "{%if a%}{%endif%}", ""),
        ("", "{%macro a()%}{%endmacro%}", ""),
        ("{%if a%}", "{%elif a%}", "{%endif%}"),
        ("{%set ", "a,", "a=1%}"),
    ] {
        for n in [30_000, 32_760, 32_767, 32_769, 65_537] {
            let source = format!("{before}{}{after}", part.repeat(n));
            let taken = most(|| drop(ChatTemplate::parse(&source)));
            assert!(
                source.len() > 1 << 20 || taken <= template_memory(&source),
                "{taken} bytes: {source:.60}"
            );
        }
    }
}
