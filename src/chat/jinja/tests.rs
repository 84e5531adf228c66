//! Limits on hostile templates. The output of templates is compared with the Jinja2 package's in `tests/it/chat_templates.rs`.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use super::fault::{Budget, Kind};
use super::value::{List, Value};
use super::*;

/// Renders on a thread with little stack, like those of hosts.
fn render(source: &str) -> Res<String> {
    render_for(source, 30_000)
}

/// Renders with the budget for an input of `n_bytes`.
fn render_for(source: &str, n_bytes: usize) -> Res<String> {
    let source = source.to_owned();
    let run = move || {
        let variables = vec![("x".to_owned(), Value::from("text"))];
        Template::compile(&source)?.render(&variables, &Clock::at(0), Budget::for_input(n_bytes))
    };
    // WebAssembly has one thread, with that much stack.
    if cfg!(target_family = "wasm") {
        return run();
    }
    std::thread::Builder::new().stack_size(192 << 10).spawn(run).unwrap().join().unwrap()
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
    assert!(render("{{ '%*d' | format(999999999, 1) }}").is_err());
    assert!(render("{{ '{:999999999}'.format(1) }}").is_err());
    stopped(&looped("{% set ns.a = '%9999d%9999s%.9999d' | format(1, 2, 3) %}"));
    stopped(&looped("{% set ns.a = '{:9999}{:é^9999}{:.9999f}'.format(1, 'a', 2.5) %}"));
    stopped(&looped("{% set ns.a = '{!r}{!a}'.format(ns.a, ns.a ~ 'é') %}"));
    stopped(&looped("{% set ns.a = (ns.a ~ ' ') | urlencode %}"));
    stopped(&looped("{% set ns.a = ('\\t' ~ ns.a).expandtabs(100000) %}"));
    stopped(&looped("{% set ns.a = ns.a ~ (ns.a | truncate(100000, true, ns.a[:1000])) %}"));
    stopped(&looped("{% block b %}{{ x }}{% endblock %}"));
    stopped(&looped("{% set ns.a = '{0[a]}'.format({'a': x * 1000}) %}"));
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
    stopped("{% for i in range(1000000000) %}{% endfor %}");
    stopped("{{ range(-9223372036854775807, 9223372036854775807, 1) }}");
    stopped(&looped("{% set ns.a = (ns.a | list) + (ns.a | list) %}"));
    stopped(&looped("{% set ns.a = dict([[ns.a ~ i ~ j, 1]]) %}"));
    stopped(&looped("{% set ns.a = namespace(a=1) %}"));
    stopped(&looped("{% macro m() %}{% endmacro %}{% set ns.a = m %}"));
    stopped(&looped("{% set ns.a = range(10000) | batch(3) | list %}"));
    stopped(&looped("{% set ns.a = [1] | slice(100000) | list %}"));
    stopped(&looped("{% set ns.a = [1] | batch(1000000, 1) | list %}"));
    stopped(&looped("{% set ns.a = joiner(x) %}"));
    stopped(&looped("{% set ns.a = cycler(1, 2).next %}"));
    stopped(&looped("{% set ns.a = dict.fromkeys('abc', ns.a) %}"));
    stopped(&looped(
        "{% macro m() %}{{ varargs | length }}{{ kwargs | length }}{% endmacro %}{{ m(1, a=2) }}",
    ));
    stopped(
        "{% set ns = namespace(a=range(90000)) %}{% for i in range(9999) %}{% set ns.a = ns.a | sort %}{% endfor %}",
    );
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
    stopped(
        "{% macro m() %}{% if caller or 1 %}{% call m() %}{% endcall %}{% endif %}{% endmacro %}{{ m() }}",
    );
    stopped("{% block a %}{{ self.a() }}{% endblock %}");
    stopped(
        "{% block a %}{% for i in [1] %}{{ [self.a()] | map('upper') | list }}{% endfor %}{% endblock %}",
    );
    // Each way in which a macro can reach itself again.
    for body in [
        "{{ [m()] }}",
        "{{ {1: m()} }}",
        "{{ m().a }}",
        "{{ x[m()] }}",
        "{{ x[m():] }}",
        "{{ x(m()) }}",
        "{{ dict(*m()) }}",
        "{{ dict(**m()) }}",
        "{{ x | default(m()) }}",
        "{{ x | default(default_value=m()) }}",
        "{{ x is eq(m()) }}",
        "{{ not -m() }}",
        "{{ 1 + m() }}",
        "{{ 1 and m() }}",
        "{{ 1 < m() }}",
        "{{ 1 if m() else 2 }}",
        "{% if m() %}{% endif %}",
        "{% set a = m() %}",
        "{% set a | upper %}{% filter upper %}{{ m() }}{% endfilter %}{% endset %}",
        "{% with a = 1 %}{% with b = m() %}{% endwith %}{% endwith %}",
        "{% for i in m() %}{% endfor %}",
        "{% for i in [1] if m() %}{% endfor %}",
        "{% for i in [1] %}{{ m() }}{% endfor %}",
        "{% block a %}{{ m() }}{% endblock %}",
        "{% with %}{% block a scoped %}{{ m(*varargs) }}{{ kwargs }}{% endblock %}{% endwith %}",
        "{{ '{0}'.format(m()) }}",
        "{{ [m()] | sort }}",
        "{{ joiner(m())() }}{{ cycler(m()).next() }}",
        "{{ dict.fromkeys(m()) }}",
        "{{ m() | truncate(m()) }}",
    ] {
        stopped(&format!("{{% macro m() %}}{body}{{% endmacro %}}{{{{ m() }}}}"));
    }
    let nested = |open: &str, body: &str, close: &str, n: usize| {
        format!("{{% macro m() %}}{}{body}{}{{% endmacro %}}{{{{ m() }}}}", open.repeat(n), close.repeat(n))
    };
    stopped(&nested("{% for i in [1] %}", "{{ m() }}", "{% endfor %}", 28));
    stopped(&nested("{% if 1 %}", "{{ [[[m()]]] }}", "{% endif %}", 28));
    let tree = "{% set ns = namespace(a=1, b=1) %}{% for i in range(158) %}{% set ns.a = [ns.a] %}\
                {% set ns.b = [ns.b] %}{% endfor %}";
    assert_eq!(render(&format!("{tree}{{{{ ns.a == ns.b }}}}{{{{ ns.a < ns.b }}}}")).unwrap(), "TrueFalse");
    assert_eq!(render(&format!("{tree}{{{{ ns.a | tojson | length }}}}{{{{ ns.a }}}}")).unwrap().len(), 320);
    let maps = format!("{tree}{{{{ ns.a | map({}'string') | list }}}}", "'map', ".repeat(154));
    assert_eq!(render(&maps).unwrap_err().kind, Kind::Limit);
    // The deepest that are compiled.
    for (open, close) in
        [("(", ")"), ("[", "]"), ("x(", ")"), ("x[", "]"), ("1 | default(", ")"), ("{1: ", "}")]
    {
        let expression = format!("{}1{}", open.repeat(22), close.repeat(22));
        for (open, close) in [("{% if 0 %}", "{% endif %}"), ("{% for i in [] %}", "{% endfor %}")] {
            let source = format!("{}{{{{ {expression} }}}}{}", open.repeat(30), close.repeat(30));
            assert_eq!(render(&source).unwrap(), "", "{source}");
        }
    }
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
        ("{% autoescape false %}", "{% endautoescape %}"),
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

/// A template of so many rounds of something with long texts. A short conversation has a million steps.
fn rounds(n: usize, body: &str) -> String {
    let texts = "{% set s = '1' * 1000000 %}{% set w = ' ' * 1000000 %}{% set d = {'b': 1} %}";
    format!("{texts}{{% for i in range({n}) %}}{body}{{% endfor %}}")
}

#[track_caller]
fn stopped_when_short(source: &str) {
    let fault = render_for(source, 0).expect_err(&source[..source.len().min(200)]);
    assert_eq!(fault.kind, Kind::Limit, "{fault:?}");
}

#[test]
fn going_through_long_texts_is_paid_for() {
    for body in [
        "''.find(s)",
        "''.rfind(s)",
        "''.count(s)",
        "''.split(s)",
        "''.rsplit(s)",
        "''.partition(s)",
        "''.replace(s, '')",
        "''.startswith(s)",
        "s in ''",
        "s | length",
        "w | int",
        "w | float",
        "w | int(0, 16)",
        "s | truncate(3)",
        "s | indent",
        "d[s]",
        "d.get(s)",
        "s in d",
    ] {
        stopped_when_short(&rounds(100, &format!("{{% set a = {body} %}}")));
        render_for(&rounds(1, &format!("{{% set a = {body} %}}")), 0).unwrap();
    }
    stopped_when_short(&rounds(100, "{% set a = s.startswith((s,) * 2) or s.startswith(('x' ~ s,) * 2) %}"));
    stopped_when_short(&rounds(2, "{% set a = ''.strip(s) %}"));
    let affixes = "{% set t = ('1' * 999999 ~ '2',) * 100 %}";
    stopped_when_short(&rounds(1, &format!("{affixes}{{{{ s.startswith(t) }}}}")));
    stopped_when_short(&rounds(100, "{% set a = '%(a)s' * 10000 % {'a': ''} %}"));
    stopped_when_short(&rounds(100, "{% set a = ('{a}' * 10000).format(a='') %}"));
    stopped_when_short(&rounds(500, "{% set a = '%.9999f' % 1e308 %}"));
    stopped_when_short(&rounds(9000, "{% set a = 1e300 | round(300) %}"));
}

#[test]
fn looking_for_names_is_paid_for() {
    let names = |n: usize| (0..n).map(|i| format!("v{i}=1")).collect::<Vec<_>>();
    let sets: String = names(20_000).iter().map(|name| format!("{{% set {name} %}}")).collect();
    stopped_when_short(&sets);
    stopped_when_short(&format!("{{% with {} %}}{{% endwith %}}", names(20_000).join(",")));
    let some: String = names(1000).iter().map(|name| format!("{{% set {name} %}}")).collect();
    stopped_when_short(&format!(
        "{some}{{% for i in range(9000) %}}{{% set a = q %}}{{% set a = r %}}{{% endfor %}}"
    ));
    stopped_when_short(&format!(
        "{{{{ ('{{z}}' * 2000).format({}, z=1) | length }}}}",
        names(20_000).join(",")
    ));
    assert_eq!(render(&format!("{some}{{{{ v0 + v500 + v999 }}}}")).unwrap(), "3");
    assert_eq!(
        render(&format!("{{{{ '{{v7}}{{z}}'.format({}, z=2) }}}}", names(100).join(","))).unwrap(),
        "12"
    );
}

#[test]
fn what_is_not_there_has_a_short_name() {
    stopped("{% set s = 'a' * 1000000 %}{% set r = ([{}] * 9000) | map(attribute=s) | list %}");
    let message = |source: &str| render(source).unwrap_err().message;
    let source =
        format!("{{% set s = 'é' * 100000 %}}{{{{ [{}] | length }}}}", "{} | attr(s), ".repeat(2000));
    assert_eq!(render(&source).unwrap(), "2000");
    for object in ["{}", "x", "[1]", "namespace()"] {
        let text = message(&format!("{{% set s = 'é' * 100000 %}}{{{{ {object}[s].y }}}}"));
        assert!(text.chars().count() < 120 && text.contains('…') && text.ends_with("undefined"), "{text}");
    }
    assert!(message(&format!("{{{{ {}.y }}}}", "n".repeat(100_000))).len() < 120);
    assert_eq!(message("{{ {}.name.y }}"), "\"name\" of an object is undefined");
    assert_eq!(message("{{ name.y }}"), "\"name\" is undefined");
}

#[test]
fn parameters_are_paid_for_and_have_names_of_their_own() {
    let params = |n: usize| (0..n).map(|i| format!("a{i}")).collect::<Vec<_>>().join(",");
    for n in [10_000, 60_000] {
        let source = format!("{{% macro m({}) %}}{{{{ m() }}}}{{% endmacro %}}{{{{ m() }}}}", params(n));
        // Memory ends it, not the depth.
        let fault = render_for(&source, 0).unwrap_err();
        assert!(fault.kind == Kind::Limit && fault.message.contains("values"), "{fault:?}");
    }
    let source = format!("{{% macro m({}) %}}{{{{ a254 }}}}{{% endmacro %}}{{{{ m(a254=7) }}}}", params(255));
    assert_eq!(render(&source).unwrap(), "7");
    for twice in ["{% macro m(a, b, a) %}{% endmacro %}", "{% call(a, a=1) m() %}{% endcall %}"] {
        let fault = render(twice).unwrap_err();
        assert!(fault.kind == Kind::Syntax && fault.message.contains("twice"), "{fault:?}");
    }
    // Arguments and elements that wait while others are computed are charged too.
    let ones = "1,".repeat(20_000);
    for body in ["dict(*[ONES m()])", "dict(ONES m())", "[ONES m()]", "(ONES m())"] {
        let source =
            format!("{{% macro m() %}}{{{{ {body} }}}}{{% endmacro %}}{{{{ m() }}}}").replace("ONES", &ones);
        let fault = render_for(&source, 0).unwrap_err();
        assert!(fault.kind == Kind::Limit && fault.message.contains("values"), "{fault:?}");
    }
}

#[test]
fn many_characters_are_stripped_together() {
    let source = "{% set c = 'ũ' * 300000 ~ 'é' %}{{ ('é' * 300000 ~ 'x').strip(c) }}{{ 'aéaé'.rstrip('é') }}\
                  {{ ' a '.lstrip() }}{{ 'aba'.strip('') }}";
    assert_eq!(render(source).unwrap(), "xaéaa aba");
}

/// As Python has them.
#[test]
fn numbers_are_compared_and_converted_exactly() {
    let numbers = "9007199254740992.0,9007199254740991,9007199254740995,9007199254740992.0,9007199254740994,9007199254740991,\
        9007199254740992,9007199254740989,9007199254740992.0,9007199254740993,9007199254740993,9007199254740994,\
        9007199254740992.0,9007199254740989,9007199254740992.0,9007199254740992.0,9007199254740994,9007199254740992,\
        9007199254740995,9007199254740993,9007199254740992.0";
    let sorted = render(&format!("{{{{ [{numbers}] | sort }}}}")).unwrap();
    assert!(sorted.starts_with(
        "[9007199254740989, 9007199254740989, 9007199254740991, 9007199254740991, 90071992547409"
    ));
    assert!(sorted.ends_with("994, 9007199254740995, 9007199254740995]"), "{sorted}");
    for (expression, wanted) in [
        ("9007199254740993 == 9007199254740992.0", "False"),
        ("9007199254740993 > 9007199254740992.0", "True"),
        ("9007199254740992 == 9007199254740992.0", "True"),
        ("9007199254740991.0 < 9007199254740993", "True"),
        ("3 < 3.5 and -3 > -3.5 and 3.5 > 3 and 4 > 3.5 and -4 < -3.5", "True"),
        ("10 ** 30 < 1e300 and 10 ** 30 > -1e300 and 1e308 * 10 > 10 ** 30", "True"),
        ("1 == 1.0 and true == 1.0 and 0 == -0.0", "True"),
        ("{1: 'a'}[1.0]", "a"),
        ("(1e308 * 10 - 1e308 * 10) == 1 or (1e308 * 10 - 1e308 * 10) < 1", "False"),
        ("1e30 | int", "1000000000000000019884624838656"),
        ("'1e3' | int", "1000"),
        ("'%d' % 2.9", "2"),
        ("'nan' | int(7)", "7"),
        ("'x' | int(8)", "8"),
        (
            "[150 | round(-2), 250 | round(-2), -150 | round(-2), 5 | round(-40), -5 | round(3)]",
            "[200, 200, -200, 0, -5]",
        ),
        ("(170141183460469231731687303715884105727) | round(0)", "170141183460469231731687303715884105727"),
        ("'%.0f %.0e %g %g %G' % (0.5, 12345.0, 1e16, 123456789.0, 1e-5)", "0 1e+04 1e+16 1.23457e+08 1E-05"),
        (
            "'{:e} {:+.1f} {:g} {:,} {:_} {:010.2f}'.format(0.0, 2.25, 100000.0, 1234.5, 1234567, -3.14159)",
            "0.000000e+00 +2.2 100000 1,234.5 1_234_567 -000003.14",
        ),
        ("2 ** -1", "0.5"),
        ("'a b c'.split(' ', 18446744073709551615)", "['a', 'b', 'c']"),
        ("'a b c'.rsplit(' ', 18446744073709551615)", "['a', 'b', 'c']"),
        ("'a b c'.split(' ', 1)", "['a', 'b c']"),
        ("'a b c'.rsplit(none, 1)", "['a b', 'c']"),
    ] {
        assert_eq!(render(&format!("{{{{ {expression} }}}}")).unwrap(), wanted, "{expression}");
    }
    for (expression, word) in [
        ("1e300 | int", "large"),
        ("'1e300' | int", "large"),
        ("('9' * 40) | int", "large"),
        ("('f' * 40) | int(0, 16)", "large"),
        ("'%d' % 1e300", "large"),
        ("170141183460469231731687303715884105727 | round(-1)", "large"),
        ("(1e308 * 10) | int", "integer"),
        ("'%d' % (1e308 * 10)", "large"),
        ("0 ** -1", "zero"),
        ("0.0 ** -1", "zero"),
    ] {
        let fault = render(&format!("{{{{ {expression} }}}}")).unwrap_err();
        assert!(fault.kind == Kind::Failed && fault.message.contains(word), "{expression}: {fault:?}");
    }
}

/// As Python has them: operators of all precedences in one expression.
#[test]
fn operators_bind_as_in_jinja2() {
    for (expression, wanted) in [
        ("1 + 2 * 3 - 4 // 2", "5"),
        ("2 * 3 ~ 4 * 1", "64"),
        ("1 ~ 2 * 3", "16"),
        ("10 - 3 - 2", "5"),
        ("2 ** 3 ** 2", "64"),
        ("-2 ** 2", "4"),
        ("1 < 2 < 3", "True"),
        ("3 > 2 > 2", "False"),
        ("1 < 3 == 3 != 4", "True"),
        ("(1 < 2) == true", "True"),
        ("not 1 == 2", "True"),
        ("not not 1 == 1 and not 0", "True"),
        ("1 or 0 and 0", "1"),
        ("0 and 1 or 2", "2"),
        ("not 0 and 1 or 0", "1"),
        ("1 in [1] and 2 not in [1] and not 3 in [1]", "True"),
        ("not 'a' in 'abc' or 'x' ~ 'y' == 'xy'", "True"),
        ("1 + 1 in [2] == false", "False"),
        ("-1 | abs + 1", "2"),
        ("1 if 0 or 1 and not 0 else 2", "1"),
    ] {
        assert_eq!(render(&format!("{{{{ {expression} }}}}")).unwrap(), wanted, "{expression}");
    }
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

/// Any part of a template is compiled or refused, and never panics.
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
