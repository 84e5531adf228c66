//! What no template may do, however hostile. What templates write is compared with the Jinja2 package's in
//! `tests/chat_templates.rs`.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use super::fault::{Budget, Kind};
use super::value::{List, Value};
use super::*;

/// Renders on a thread with little stack, as hosts have them.
fn render(source: &str) -> Res<String> {
    let source = source.to_owned();
    let run = move || {
        let variables = vec![("x".to_owned(), Value::from("text"))];
        Template::compile(&source)?.render(&variables, &Clock::at(0), Budget::for_input(30_000))
    };
    // WebAssembly has one thread, with that much stack.
    if cfg!(target_family = "wasm") {
        return run();
    }
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap()
}

#[track_caller]
fn stopped(source: &str) {
    let fault = render(source).unwrap_err();
    assert_eq!(fault.kind, Kind::Limit, "{fault:?}");
    assert!(fault.line.is_some());
}

/// In a loop of as many rounds as one may have, with a namespace to collect in.
fn looped(body: &str) -> String {
    format!(
        "{{% set ns = namespace(a=x, b=x) %}}{{% for i in range(100000) %}}{{% for j in range(100) %}}{body}\
         {{% endfor %}}{{% endfor %}}"
    )
}

#[test]
fn text_cannot_grow_beyond_the_budget() {
    stopped(&looped("{% set ns.a = ns.a ~ ns.a %}"));
    stopped(&looped("{% set ns.a = ns.a + ns.a %}"));
    stopped(&looped("{% set ns.a = ns.a * 1000 %}"));
    stopped(&looped("{% set ns.a = ns.a | replace('t', ns.a) %}"));
    stopped(&looped("{% set ns.a = ns.a.replace('t', ns.a) %}"));
    stopped(&looped("{% set ns.a = ns.a.join(ns.a) %}"));
    stopped(&looped("{% set ns.a = ns.a | join(ns.a) %}"));
    stopped(&looped("{% set ns.a = ns.a | tojson %}"));
    stopped(&looped("{% set ns.a = [ns.a] | string %}"));
    stopped(&looped("{% set ns.a = ns.a | e %}{% set ns.a = ns.a ~ '&' %}"));
    stopped(&looped("{% set ns.a = '%s%s' | format(ns.a, ns.a) %}"));
    stopped(&looped("{% set ns.a = '{}{}'.format(ns.a, ns.a) %}"));
    stopped(&looped("{% set ns.a = ns.a | indent(1000000) %}"));
    stopped(&looped("{% set t %}{{ ns.a }}{{ ns.a }}{% endset %}{% set ns.a = t %}"));
    stopped(&looped("some more text"));
    stopped(&looped("{% set ns.a = ns.a.upper() %}"));
    stopped("{{ 'a' * 10000000000000000000 }}");
    stopped("{{ 'a'.center(10000000000000000000) }}");
    stopped("{{ '' | indent(10000000000000000000) }}{{ 'a' | center(1000000000) }}");
    stopped("{{ [1] * 10000000000000000000 }}");
    assert!(render("{{ '%999999999d' | format(1) }}").is_err());
}

#[test]
fn the_allowance_is_ample_for_messages_and_small_without() {
    let pairs = "{% for a in x %}{% for b in x %}{% if a == b %}{{ b }}{% endif %}{% endfor %}{% endfor %}";
    let render = |n: i128, bytes: usize| {
        let mut budget = Budget::for_input(bytes);
        let x = Value::List(List::new((0..n).map(Value::Int).collect(), &mut budget)?);
        Template::compile(pairs)?.render(&[("x".to_owned(), x)], &Clock::at(0), budget)
    };
    for n in [1, 10, 100, 300, 1000] {
        let all: String = (0..n).map(|i| i.to_string()).collect();
        assert_eq!(render(n, 30 * n as usize).unwrap(), all, "{n} messages of thirty bytes");
    }
    assert_eq!(render(1000, 0).unwrap_err().kind, Kind::Limit);
}

#[test]
fn lists_and_objects_cannot_grow_beyond_the_budget() {
    stopped(&looped("{% set ns.a = (ns.a | list) + (ns.a | list) %}"));
    stopped(&looped("{% set ns.a = dict([[ns.a ~ i ~ j, 1]]) %}"));
    stopped(&looped("{% set ns.a = namespace(a=1) %}"));
    stopped(&looped("{% macro m() %}{% endmacro %}{% set ns.a = m %}"));
    stopped(&looped("{% set ns.a = range(10000) | batch(3) | list %}"));
    stopped(&looped("{% set ns.a = [1] | slice(100000) | list %}"));
    stopped(&looped("{% set ns.a = [1] | batch(1000000, 1) | list %}"));
}

#[test]
fn values_that_share_their_parts_are_paid_for_by_part() {
    let tree = "{% set ns = namespace(a=1, b=1) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}\
                {% set ns.b = [ns.b, ns.b] %}{% endfor %}";
    for end in [
        "{{ ns.a == ns.b }}",
        "{{ ns.a }}",
        "{{ ns.a | tojson }}",
        "{{ ns.a < ns.b }}",
        "{{ ns.a in [ns.b] }}",
    ] {
        stopped(&format!("{tree}{end}"));
    }
}

#[test]
fn nothing_is_deeper_than_the_stack() {
    stopped(&looped("{% set ns.a = [ns.a] %}"));
    stopped(&looped("{% set ns.a = {'a': ns.a} %}"));
    stopped(&looped("{% set ns.a = (ns.a,) %}"));
    stopped("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
    stopped("{% macro m(a=m2()) %}{% endmacro %}{% macro m2() %}{{ m() }}{% endmacro %}{{ m() }}");
    stopped("{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}");
    stopped("{% macro m() %}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}");
    stopped(
        "{% set ns = namespace(a=1) %}{% macro m() %}{% set t %}{{ ns.a() }}{% endset %}{% endmacro %}\
             {% set ns.a = m %}{{ m() }}",
    );
    let n = 20_000;
    let deep =
        |open: &str, close: &str| render(&format!("{}1{}", open.repeat(n), close.repeat(n))).unwrap_err();
    for (open, close) in [
        ("{% if 1 %}", "{% endif %}"),
        ("{% for i in x %}", "{% endfor %}"),
        ("{% set x %}", "{% endset %}"),
        ("{% macro m() %}", "{% endmacro %}"),
    ] {
        assert_eq!(deep(open, close).kind, Kind::Syntax);
    }
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("{1:", "}"),
        ("x[", "]"),
        ("x(", ")"),
        ("-", ""),
        ("not ", ""),
        ("1 + ", ""),
        ("1 ~ ", ""),
        ("1 if 1 else ", ""),
        ("", " | list"),
        ("", ".a"),
        ("", "()"),
        ("", " is string"),
        ("1 == 1 and ", ""),
    ] {
        let source = format!("{{{{ {}1{} }}}}", open.repeat(n), close.repeat(n));
        assert_eq!(render(&source).unwrap_err().kind, Kind::Syntax, "{open}…{close}");
    }
    assert!(render(&format!("{{% for {}a{} in x %}}{{% endfor %}}", "(".repeat(n), ")".repeat(n))).is_err());
    assert!(render(&format!("{{% set {}a{} = x %}}", "(".repeat(n), ")".repeat(n))).is_err());
}

#[test]
fn a_namespace_may_hold_itself() {
    assert!(render("{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns.a }}").is_err());
    assert_eq!(render("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns.a.a.a == ns }}").unwrap(), "True");
}

#[test]
fn loops_and_macros_that_are_over_are_noticed() {
    let late =
        "{% set ns = namespace() %}{% for i in [1] %}{% set ns.l = loop %}{% endfor %}{{ ns.l.index }}";
    assert!(render(late).unwrap_err().message.contains("ended"));
    let macro_of_a_loop = "{% set ns = namespace() %}{% for i in [1] %}{% macro m() %}{{ i }}{% endmacro %}\
                           {% set ns.m = m %}{% endfor %}{{ ns.m() }}";
    assert_eq!(render(macro_of_a_loop).unwrap(), "");
}

#[test]
fn faults_say_where() {
    let fault = render("\n\n{{ 1 +\n}}").unwrap_err();
    assert_eq!((fault.line, fault.kind), (Some(4), Kind::Syntax));
    let fault = render("a\n{% if true %}\n{{ y.z }}{% endif %}").unwrap_err();
    assert_eq!((fault.line, fault.kind, &*fault.message), (Some(3), Kind::Failed, "\"y\" is undefined"));
    let fault = render("{{ raise_exception('no ' + x) }}").unwrap_err();
    assert_eq!((fault.kind, &*fault.message), (Kind::Raised, "no text"));
    assert_eq!(render(&" ".repeat((1 << 20) + 1)).unwrap_err().kind, Kind::Limit);
}

/// Any piece of a template is compiled or refused, and never a panic.
#[test]
fn pieces_of_templates_do_no_harm() {
    let source = "{%- set ns = namespace(a='ä\\u00e4') -%}{# é #}{% for k, v in {'a': [1, 2.5]}.items() if k is string \
        %}{{- loop.index ~ v[::-1] | tojson(indent=2) -}}{% else %}{% raw %}{{ x }}{% endraw %}{% endfor %}{% macro m(a, \
        b='c') %}{{ caller() }}{% endmacro %}{% call m(1) %}{{ ns.a|replace('ä', \"o\") % (1,) }}{% endcall %}";
    let bounds: Vec<usize> = (0..=source.len()).filter(|&i| source.is_char_boundary(i)).collect();
    for &start in bounds.iter().step_by(3) {
        for &end in bounds.iter().filter(|&&end| end > start).step_by(2) {
            if let Ok(template) = Template::compile(&source[start..end]) {
                let _ = template.render(&[], &Clock::at(0), Budget::for_input(0));
            }
        }
    }
}
