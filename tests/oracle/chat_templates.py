"""Writes tests/fixtures/chat: what the `transformers` package makes of conversations with the chat templates of many models.

    scripts/fetch-model.sh tokenizers; scripts/fetch-model.sh templates
    python tests/oracle/chat_templates.py

Needs transformers (without PyTorch) and jinja2. The templates belong to their models and are not part of this repository:
they are read from the cache where `make models` puts them, which checks their sums.

snippets.json holds small templates that show one thing of the language each, and their texts (null where they fail).
conversations.json holds the conversations, and one file per template the texts: for each case a line
[conversation, add_generation_prompt, n, rest], where the text is the first n code points of the text before it and then
`rest`, or [conversation, add_generation_prompt, null, error] where the template fails.
"""

import datetime
import json
import os
import pathlib

from transformers.utils import chat_template_utils

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/fixtures/chat"
CACHE = pathlib.Path(os.environ.get("EMBER_MODELS", pathlib.Path.home() / ".cache/ember/models"))
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
NOW = datetime.datetime(2024, 12, 31, 12, 30, 45)


class Clock(datetime.datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz=None):
        return NOW


def tool(name, description, properties, required):
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


WEATHER = tool(
    "get_weather",
    "The weather at a place, \"now\" & later <today>.",
    {
        "city": {"type": "string", "description": "Name of the city, such as Zürich"},
        "days": {"type": "integer", "default": 3},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
    },
    ["city"],
)
SEARCH = tool(
    "search",
    "Finds pages.",
    {
        "words": {"type": "array", "items": {"type": "string"}, "description": "What to look for"},
        "filter": {"type": "object", "properties": {"site": {"type": "string"}, "safe": {"type": "boolean"}}},
        "limit": {"type": ["integer", "null"]},
    },
    ["words", "filter"],
)


def call(name, arguments, number="call00001"):
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


def said(role, content, **more):
    return {"role": role, "content": content, **more}


ODD = " Größe: 3,5 µm — “quoted” 'it''s' \"x\" \\n\t日本語 العربية 👩‍👩‍👧 <|im_end|> {{ x }} {% y %}\r\nsecond line  \n"
SYSTEM = said("system", "You are a helpful assistant.")
HELLO = said("user", "Hello, who are you?")
ASK = said("user", "What is the weather in Zürich?")
CALLS = said("assistant", "", tool_calls=[call("get_weather", {"city": "Zürich", "days": 2, "exact": True, "at": None})])
RESULT = said("tool", '{"temperature": 21.5}', name="get_weather", tool_call_id="call00001")

# name: (messages, tools, variables)
CONVERSATIONS = {
    "user": ([HELLO], None, None),
    "system": ([SYSTEM, HELLO], None, None),
    "turns": ([HELLO, said("assistant", "I am a model."), said("user", "Good.")], None, None),
    "system_turns": ([SYSTEM, HELLO, said("assistant", "I am a model."), said("user", "Good."),
                      said("assistant", "Is it?")], None, None),
    "odd_text": ([said("system", ODD), said("user", ODD), said("assistant", ODD), said("user", ODD)], None, None),
    "empty": ([said("user", ""), said("assistant", ""), said("user", " ")], None, None),
    "nothing": ([], None, None),
    "two_users": ([HELLO, HELLO], None, None),
    "assistant_first": ([said("assistant", "Hi."), HELLO], None, None),
    "developer": ([said("developer", "Be brief."), HELLO], None, None),
    "stranger": ([HELLO, said("stranger", "Who is there?")], None, None),
    "parts": ([said("system", [{"type": "text", "text": "Be kind."}]),
               said("user", [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}])], None, None),
    "null_content": ([HELLO, said("assistant", None)], None, None),
    "thoughts": ([HELLO, said("assistant", "I am a model.", reasoning_content="Who am I?\nA model."),
                  said("user", "Good.")], None, None),
    "thoughts_in_text": ([HELLO, said("assistant", "<think>\nWho am I?\n</think>\n\nI am a model."),
                          said("user", "Good."), said("assistant", "<think>So?</think>Yes.")], None, None),
    "thinking_off": ([SYSTEM, HELLO], None, {"enable_thinking": False, "thinking": False}),
    "thinking_on": ([HELLO], None, {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}),
    "tools": ([HELLO], [WEATHER, SEARCH], None),
    "tools_system": ([SYSTEM, ASK], [WEATHER], None),
    "tool_call": ([SYSTEM, ASK, CALLS], [WEATHER], None),
    "tool_result": ([SYSTEM, ASK, CALLS, RESULT], [WEATHER, SEARCH], None),
    "tool_answer": ([ASK, CALLS, RESULT, said("assistant", "It is 21.5 °C."), said("user", "Thanks.")], [WEATHER], None),
    "tool_call_text": ([ASK, said("assistant", "Let me see.", tool_calls=[call("get_weather", '{"city": "Zürich"}')]),
                        RESULT], [WEATHER], None),
    "tool_call_null": ([ASK, {**CALLS, "content": None}, RESULT], [WEATHER], None),
    "two_calls": ([ASK, said("assistant", "", reasoning_content="Both.", tool_calls=[
        call("get_weather", {"city": "Bern"}, "call00001"),
        call("search", {"words": ["a", "b"], "filter": {"site": "x.org", "safe": False}, "limit": 1.5e-7}, "call00002")]),
        RESULT, said("tool", "nothing found", name="search", tool_call_id="call00002")], [WEATHER, SEARCH], None),
    "calls_without_tools": ([ASK, CALLS, RESULT], None, None),
}


# Templates that show one thing each, all with the same variables.
SNIPPETS = r"""
{{ [1, 2.5, 'a', None, True, {'k': (1,)}, (), 'it\'s', "q\"q", 'both\'"', 'tab\t\n\\ \x7f é'] }}
{{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1.0 }} {{ 3.14e-10 }} {{ 1e300 * 1e10 }} {{ 123456789.125 }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7 / 2 }} {{ 6 / 3 }}
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ -2 ** 2 }} {{ 'a' ~ 1 ~ none ~ 2.0 }} {{ 'ab' * 3 }} {{ [1] * 2 + [3] }} {{ 3 * 'x' }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ True == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ none == undefined_thing }}
{{ 'a' in 'abc' }} {{ 1 in [1] }} {{ 'k' in d }} {{ 'z' not in d }} {{ not true or true and false }} {{ 1 if false }}|{{ 1 if false else 2 }}
{{ d.k }} {{ d['k'] }} {{ d.missing }} {{ d.list[0] }} {{ d.list[-1] }} {{ d.list[9] }} {{ d.list.0 }} {{ none.x }} {{ none['x'] }} {{ 'abc'[1] }}
{{ missing.x }}
{{ missing['x'] }}
{{ missing + 1 }}
{{ missing() }}
{{ 'a' + 1 }}
{{ none + 'a' }}
{{ 'x' in none }}
{{ missing in 'abc' }}
{{ 'x' in missing }} {{ missing }}|{{ missing | length }} {{ missing is defined }} {{ missing == missing2 }} {{ missing | list }} {{ missing ~ 'a' }}
{{ missing | tojson }}
{{ 'abcdef'[1:4] }} {{ 'abcdef'[::-1] }} {{ 'abcdef'[-3:] }} {{ 'abcdef'[4:1:-2] }} {{ [1, 2, 3, 4][1::2] }} {{ 'abc'[5:] }} {{ (1, 2, 3)[:2] }} {{ none[1:] }}
{{ '  x y  ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ '  x'.lstrip() }}|{{ 'x  '.rstrip() }}|{{ 'abcba'.strip('ab') }}|{{ none | trim }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.rsplit(' ', 1) }} {{ 'a b c '.split(none, 1) }} {{ ''.split() }} {{ ''.split(',') }}
{{ 'a\nb\r\nc'.splitlines() }} {{ 'a\nb\n'.splitlines(true) }} {{ 'k=v=w'.partition('=') }} {{ 'k=v=w'.rpartition('=') }} {{ 'k'.partition('=') }}
{{ 'hello World'.title() }} {{ "they're bill's" | title }} {{ 'hELLO'.capitalize() }} {{ 'hELLO w' | capitalize }} {{ 'aB'.swapcase() }} {{ 'ß'.upper() }} {{ 'İ'.lower() }}
{{ 'aaa'.replace('a', 'b') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'aaa' | replace('a', 'bb', 1) }} {{ 123 | replace(2, 'x') }} {{ 'ab'.replace('', '-') }}
{{ 'abcabc'.find('c') }} {{ 'abcabc'.rfind('c') }} {{ 'abc'.find('z') }} {{ 'éab'.index('b') }} {{ 'abcabc'.count('bc') }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.endswith('c') }}
{{ 'abc'.index('z') }}
{{ '-'.join(['a', 'b']) }} {{ [1, none, 'x'] | join('-') }} {{ d.objects | join(', ', attribute='n') }} {{ 'abc' | join('.') }}
{{ '-'.join([1]) }}
{{ '7'.zfill(3) }} {{ '-7'.zfill(4) }} {{ 'a'.center(4, '*') }} {{ 'ab'.center(5) }}| {{ 'a'.ljust(3) }}| {{ 'a'.rjust(3, '.') }} {{ 'pre-x'.removeprefix('pre-') }} {{ 'x.py'.removesuffix('.py') }}
{{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'A'.isupper() }} {{ ' '.isspace() }} {{ ''.isdigit() }} {{ 'Ab Cd'.istitle() }} {{ 'é'.isascii() }}
{{ '%s is %d, %.2f %r %5s|%-5s|%05d %x %%' % ('a', 3, 1.255, 'q', 'b', 'c', 42, 255) }} {{ '%s' % 'x' }} {{ '%(a)s' % {'a': 1} }}
{{ '%s' % ('a', 'b') }}
{{ '%d' % 'a' }}
{{ '{} {1}'.format('a', 'b') }}
{{ '{} {} {{}}'.format('a', 1) }} {{ '{n} {0}'.format('a', n='b') }} {{ '%s-%s' | format('a', 2) }}
{{ d | tojson }} {{ d | tojson(indent=2) }} {{ [] | tojson(indent=4) }} {{ {} | tojson(indent=1) }} {{ 'é<&>\'"\u2028\x01' | tojson }} {{ 'é😀' | tojson(ensure_ascii=true) }}
{{ d | tojson(separators=(',', ':')) }} {{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }} {{ 1e16 | tojson }} {{ (1, 2) | tojson }}
{{ d.keys() | list }} {{ d.values() | list | length }} {{ d.items() | list | first }} {{ d.get('k') }} {{ d.get('z') }} {{ d.get('z', 7) }} {% for k, v in d.items() %}{{ k }};{% endfor %}
{{ d.list | first }} {{ d.list | last }} {{ [] | first }}|{{ 'abc' | last }} {{ d.list | reverse | list }} {{ 'abc' | reverse }} {{ d.list | sum }} {{ d.list | max }} {{ d.list | min }} {{ [] | max }}
{{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A'] | sort(case_sensitive=true) }} {{ [3, 1] | sort(reverse=true) }} {{ d.objects | sort(attribute='n') | map(attribute='n') | list }}
{{ [1, 'a'] | sort }}
{{ ['a', 'A', 'b'] | unique | list }} {{ d.objects | map(attribute='n') | list }} {{ d.objects | map(attribute='zz', default='-') | list }} {{ ['a'] | map('upper') | list }} {{ [1, 2, 3] | map('string') | join }}
{{ [1, 2, 3] | select('odd') | list }} {{ [0, 1, ''] | select | list }} {{ [1, 2] | reject('equalto', 1) | list }} {{ d.objects | selectattr('n', 'gt', 1) | map(attribute='n') | list }} {{ d.objects | rejectattr('zz', 'defined') | list | length }}
{{ d.objects | selectattr('n') | length }}
{{ [1] | map('nonsense') | list }}
{{ d | dictsort }} {{ {'b': 1, 'A': 2} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(by='value', reverse=true) }} {{ d | items | list | length }} {{ d.objects | groupby('n') | list | length }}
{{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3] | batch(2, 'x') | list }} {{ [1, 2, 3, 4, 5] | slice(2) | list }} {{ [1, 2, 3] | slice(2, 'x') | list }}
{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent(2, blank=true) }}|{{ 'a\nb' | indent('>') }}
{{ 2.567 | round(2) }} {{ 2.5 | round }} {{ 3.5 | round }} {{ 2.1 | round(method='ceil') }} {{ -2.5 | abs }} {{ '12' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ '3.9' | int }} {{ 'ff' | int(base=16) }} {{ '2.5' | float }} {{ 3 | float }} {{ true | int }}
{{ none | default('x') }} {{ missing | default('x') }} {{ '' | default('x', true) }} {{ missing | d }}| {{ 'a b-c' | wordcount }} {{ "<a href='x'>&" | e }} {{ 'x' | center(5) }}| {{ [1, 2] | string }} {{ 'abc' | list }} {{ d | list }}
{{ 1 is number }} {{ true is number }} {{ true is integer }} {{ 1.0 is float }} {{ 'a' is string }} {{ 'a' is iterable }} {{ 'a' is sequence }} {{ d is mapping }} {{ d is sequence }} {{ d is iterable }} {{ none is none }} {{ 1 is iterable }} {{ missing is iterable }} {{ missing is sequence }} {{ missing is none }}
{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 1 is eq 1 }} {{ 2 is gt(1) }} {{ 'a' is in ['a'] }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 'a' is lower }} {{ 'A' is upper }} {{ none is sameas none }} {{ range is callable }} {{ not 1 is number }} {{ 1 is not number }} {{ 'trim' is filter }} {{ true is boolean }}
{{ range(5) | list }} {{ range(2, 5) | list }} {{ range(5, 0, -2) | list }} {{ range(3) | length }} {{ dict(a=1, b='x') }} {{ dict({'a': 1}, b=2).b }} {{ range(0) | list }}
{{ range(1000000) | list | length }}
{% for i in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }} {% endfor %}
{% for i in [1, 2, 3, 4] if i is even %}{{ i }}/{{ loop.length }} {% else %}none{% endfor %}{% for i in [] %}x{% else %}empty{% endfor %}{% for i in missing %}x{% else %}void{% endfor %}
{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for a, b in [(1, 2), [3, 4]] %}{{ a }}-{{ b }} {% endfor %}{% for (a, (b, c)) in [(1, (2, 3))] %}{{ a + b + c }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}
{% for n in tree recursive %}{{ n.name }}{% if n.kids %}({{ loop(n.kids) }}){% endif %}{{ loop.depth }}{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}{{ x }} {% if true %}{% set x = 9 %}{% endif %}{{ x }}
{% set ns = namespace(a=1, b=[]) %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }} {{ ns.missing }}| {% set ns.c = 'new' %}{{ ns.c }} {{ ns['a'] }}
{% set d.k = 1 %}
{% set x, y = 1, 2 %}{{ x }}{{ y }} {% set z %}block {{ x }}{% endset %}{{ z }} {% set u | upper | trim %} ab {% endset %}{{ u }}
{% with a = 1, b = 2 %}{{ a + b }}{% set c = 3 %}{% endwith %}{{ a }}{{ c }}|{% filter upper %}shout {{ 1 }}{% endfilter %}{% generation %}gen{% endgeneration %}
{% macro m(a, b=2, c=a) %}[{{ a }},{{ b }},{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=5, a=4) }}{{ m() }}{{ m(*[7, 8]) }}{{ m(**{'a': 9}) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}
{% macro outer() %}<{{ caller('x') }}>{% endmacro %}{% call(v) outer() %}called {{ v }}{% endcall %}
{% macro f(n) %}{% if n %}{{ n }},{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(4) }}{% set g = f %}{{ g(2) }}{{ f(3) | length }}
{% set later = 1 %}{% macro see() %}{{ later }}{% endmacro %}{% set later = 2 %}{{ see() }}{% for i in [5] %}{% set later = i %}{{ see() }}{% endfor %}
{{ raise_exception('stop: ' ~ 1) }}
{{ d.list.append(1) }}
{{ d.update({'a': 1}) }}
{{ strftime_now('%d %b %Y, %Y-%m-%d %H:%M:%S %A %B %j %I %p %y %a %%') }}
{# comment #}x{#- strip -#}  y  {%- if true %} a {% endif -%}  z {{- 'q' -}} w
{% raw %}{{ not }} {% this %}{% endraw %} {%- raw -%}  a {{ b }}  {%- endraw %}|
  {% if true %}  indented{% endif %}  |  {%+ if true %}kept{% endif +%}  {{ '}}' }} {{ "%}" }} {{ {'a': {'b': 1}}.a.b }}
{{ 'adj' 'acent' }} {{ "\u00e9\x41\101\q" }} {{ 1_000 }} {{ 0x1F }} {{ ('a',) }} {{ (1, 2) == (1, 2) }} {{ [1] == (1,) }} {{ '' }}{{ "" ~ '' }}|
{{ d.objects[0]['n'] }} {{ d.objects[-1].n }} {{ (d.objects | first).n }} {{ {'items': 3}['items'] }} {{ {'a b': 1}['a b'] }} {{ d | length }} {{ 'a' if d.k else 'b' }} {{ -3 | abs }} {{ 3 | string + 'x' }}
{{ nosuchfilter | nosuch }}
{% if false %}{{ 1 | nosuch }}{% endif %}fine
{{ 1 // 0 }}
{{ [1, 2] | first | upper }} {{ 'a' | upper | lower | length }} {{ 5 | length }}
{{ 10 | float / 4 }} {{ 'x' ~ [1, 'a'] ~ d.list }} {{ true ~ false }} {{ [true, none] | join(',') }} {{ 'yes' if 'a' is string and 1 is not none else 'no' }}
{% for c in 'héy' %}{{ c }}.{% endfor %}{% for k in d %}{{ k }} {% endfor %}{{ loop }}
{% include 'x' %}
{% if %}x{% endif %}
{{ 'unfinished
{% for x in %}{% endfor %}
{% endfor %}
{{ a b }}
{{ (1 }}
{% set true = 1 %}
""".strip().split("\n")
SNIPPET_VARIABLES = {
    "d": {"k": "v", "list": [1, 2, 3], "objects": [{"n": 2}, {"n": 1}, {"n": 2}], "é": 1.5},
    "tree": [{"name": "a", "kids": [{"name": "b", "kids": [{"name": "c"}]}, {"name": "d"}]}],
}


def templates():
    """Names and texts."""
    for folder in sorted((CACHE / "tokenizers").iterdir()):
        found = json.loads((folder / "tokenizer_config.json").read_text()).get("chat_template")
        if isinstance(found, str):
            yield f"tokenizers/{folder.name}", found
        for named in found if isinstance(found, list) else []:
            yield f"tokenizers/{folder.name}/{named['name']}", named["template"]
    for file in sorted((CACHE / "templates").glob("*.jinja")):
        yield f"templates/{file.stem}", file.read_bytes().decode()


def render(text, conversation, add_generation_prompt):
    """The text, or the error."""
    messages, tools, variables = conversation
    try:
        rendered, _ = chat_template_utils.render_jinja_template(
            [messages], tools=tools, chat_template=text, add_generation_prompt=add_generation_prompt,
            **{**TOKENS, **(variables or {})})
        return rendered[0], None
    except Exception as error:  # whatever a template may raise
        return None, f"{type(error).__name__}: {error}"[:160]


def main():
    chat_template_utils.datetime = Clock
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.json"):
        old.unlink()
    dump = lambda x: json.dumps(x, ensure_ascii=False)
    lines = [f"{dump(name)}: {dump({'messages': m, 'tools': t, 'variables': v})}"
             for name, (m, t, v) in CONVERSATIONS.items()]
    (OUT / "conversations.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    lines = []
    for snippet in SNIPPETS:
        text, error = render(snippet, ([], None, SNIPPET_VARIABLES), False)
        lines.append(dump([snippet, text, error]))
    head = f'"variables": {dump(SNIPPET_VARIABLES)}, "snippets": [\n'
    (OUT / "snippets.json").write_text("{" + head + ",\n".join(lines) + "\n]}\n")
    seen = set()
    for name, text in templates():
        if text in seen:
            continue
        seen.add(text)
        before, cases = "", []
        for conversation, content in CONVERSATIONS.items():
            for prompt in (False, True):
                rendered, error = render(text, content, prompt)
                if error is not None:
                    cases.append(dump([conversation, prompt, None, error]))
                    continue
                n = len(os.path.commonprefix([before, rendered]))
                cases.append(dump([conversation, prompt, n, rendered[n:]]))
                before = rendered
        head = f'"template": {dump(name)}'
        file = OUT / (name.replace("/", "-") + ".json")
        file.write_text("{" + head + ', "cases": [\n' + ",\n".join(cases) + "\n]}\n")


if __name__ == "__main__":
    main()
