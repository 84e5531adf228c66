"""Writes tests/fixtures/chat: what the `transformers` package makes of conversations with the chat templates of many models.

    scripts/fetch-model.sh tokenizers; scripts/fetch-model.sh templates
    python tests/oracle/chat_templates.py
    python tests/oracle/chat_templates.py snippets   # snippets.json alone, which needs no models

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
import sys

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
{{ 'ff' | int(base=16) }}
{{ '0xff' | int(base=16) }} {{ '0xFF' | int(base=0) }} {{ '0b101' | int(base=2) }} {{ '0o17' | int(base=8) }} {{ '0b101' | int(0, 0) }} {{ '0o17' | int(0, 0) }} {{ '0xff' | int }} {{ '0b1' | int(9) }}
{{ undefined_x | int }}
{{ undefined_x | int(3) }}
{{ undefined_x | float }}
{{ undefined_x | float(3) }}
{{ none | int }} {{ none | float }} {{ none | int(3) }} {{ [] | int }} {{ {} | float(2) }} {{ true | float }} {{ 2.9 | int }} {{ -2.9 | int }} {{ 'nan' | int(3) }} {{ 'inf' | int(3) }} {{ '1e3' | int }} {{ '1e3' | float }} {{ 'nan' | float }} {{ 'inf' | float }} {{ '-Infinity' | float }} {{ '1_0.5' | float }} {{ ' 1.5 ' | float }} {{ '.5' | float }} {{ '5.' | float }} {{ '1e400' | float }} {{ 'x' | float('d') }} {{ 'x' | int('d') }} {{ 'infinity' | float }} {{ '+nan' | float }} {{ 'e5' | float(1) }} {{ '٣.٥' | float }}
{{ '12.5' | int(0, 16) }} {{ '1e3' | int(0, 16) }} {{ '12' | int('x', 1) }} {{ '12' | int(0, '8') }}
{{ '12' | int(0, 8.0) }}
{{ d | int }} {{ range | int }} {{ joiner | int }}
{% set j = joiner(', ') %}{% for i in [1, 2, 3] %}{{ j() }}{{ i }}{% endfor %}
{% set j = joiner() %}{{ j() }}a{{ j() }}b{{ j() }}c {{ j.used }} {{ j.sep }}
{% set j = joiner(sep='-') %}{{ j() }}{{ j() }}{{ j is callable }} {{ j is defined }}
{% set j = joiner(1) %}{{ j() }}{{ j() }}{{ j() + 1 }}
{% set c = cycler('a', 'b', 'c') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}{{ c.pos }}{{ c.items }}
{% set c = cycler(*[1, 2]) %}{% for i in range(5) %}{{ c.next() }}{% endfor %}
{{ cycler() }}
{% set c = cycler(1) %}{{ c() }}
{% set c = cycler(1) %}{{ c.next(1) }}
{{ joiner(1, 2) }}
{% set c = cycler(1, 2) %}{% set n = c.next %}{{ n() }}{{ n() }}{{ n() }} {{ c is callable }} {{ c is iterable }} {{ c is mapping }} {{ c.nope }}|
{{ 'hello world this is long text' | truncate(15) }}|{{ 'hello world this' | truncate(9, true) }}|{{ 'hello world' | truncate(9) }}|{{ 'hello world' | truncate(5, false, '', 0) }}|{{ 'foo bar baz qux' | truncate(11, False, '...', 0) }}|{{ 'foo bar baz qux' | truncate(9, True) }}|{{ 'foo bar baz qux' | truncate(11, leeway=0, end='>') }}
{{ 'x' | truncate }} {{ ('ab ' * 100) | truncate }} {{ ('ab ' * 100) | truncate(killwords=true) | length }} {{ 'ééééééééé ééé' | truncate(5, leeway=0) }}
{{ 'abcdef' | truncate(2) }}
{{ 'abcdef' | truncate(2, end='') }}
{{ 123456 | truncate(4, leeway=0) }}
{{ none | truncate(4, leeway=0) }}
{{ missing | truncate(4, leeway=0) }}|
{{ 'abc' | truncate(5, leeway=-1) }}
{{ 'abcdefghijkl' | truncate(5, true, '..', 2) }}
{% block a %}x{{ d.k }}{% endblock %}|{{ self.a() }}
{% block a %}x{% endblock a %}
{% block a %}x{% endblock b %}
{% block a %}1{% endblock %}{% block a %}2{% endblock %}
{% set v = 1 %}{% block a %}{{ v }}{% endblock %}
{% for i in [1, 2] %}{% block a %}[{{ i }}]{% endblock %}{% endfor %}
{% for i in [1, 2] %}{% block a scoped %}[{{ i }}]{% endblock %}{% endfor %}
{% for i in [1, 2] %}{% block a scoped %}[{{ i }}{{ loop.index }}]{% endblock %}{% endfor %}
{% block a required %}{% endblock %}
{% block a required %}x{% endblock %}
{% block a %}{% block b %}in{% endblock %}{% endblock %}{{ self.b() }}{{ self.a() }}
{% block a %}{{ super() }}{% endblock %}
{{ self.nothing() }}
{{ self.nothing }}|
{% block a %}{% set q = 1 %}{{ q }}{% endblock %}{{ q }}
{% set v = 1 %}{% block a %}{{ v }}{% set v = 2 %}{{ v }}{% endblock %}{{ v }}
{% if true %}{% block a %}x{% endblock %}{% endif %}{% if false %}{% block b %}y{% endblock %}{% endif %}{{ self.b() }}
{% macro m() %}{% block a %}x{{ v }}{% endblock %}{% endmacro %}{% set v = 3 %}{{ m() }}{{ self.a() }}
{% macro m(p) %}{{ self.a() }}{{ p }}{% endmacro %}{% block a %}x{% endblock %}{{ m(4) }}
{% block a %}{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}{% endblock %}
{% for i in [1] %}{% block a %}{% break %}{% endblock %}{% endfor %}
{% block a.b %}x{% endblock %}
{% block a-b %}x{% endblock %}
{% block %}x{% endblock %}
{% block self %}x{% endblock %}{{ self.self() }}
{% macro m() %}M{% endmacro %}{% block a %}{{ m() }}{% endblock %}
{% block a %}{% macro m() %}M{% endmacro %}{{ m() }}{% endblock %}{{ m }}|
{{ self.a() | upper }}{% block a %}q{% endblock %}{% set s = self.a() %}{{ s ~ '!' }}
{% with x = 5 %}{% block a %}{{ x }}{% endblock %}{% endwith %}
{% with x = 5 %}{% block a scoped %}{{ x }}{% endblock %}{% endwith %}
{% set x = 1 %}{% if true %}{% set x = 2 %}{% block a %}{{ x }}{% endblock %}{% endif %}
{% autoescape false %}<{% endautoescape %}
{% do d %}
{% extends 'x' %}
{% import 'x' as y %}
{% from 'x' import y %}
{% include 'x' ignore missing %}|
{% include ['x', 'y'] ignore missing with context %}|
{% include 'x' ignore missing without context %}|
{% trans %}x{% endtrans %}
{% debug %}
{{ 13 | filesizeformat }} {{ 1 | filesizeformat }} {{ 1000 | filesizeformat }} {{ 123456789 | filesizeformat }} {{ 1024 | filesizeformat(true) }} {{ '5000' | filesizeformat }} {{ 1e30 | filesizeformat }} {{ 0 | filesizeformat }} {{ 999.9 | filesizeformat }} {{ 1500000 | filesizeformat(binary=true) }}
{{ 'x' | filesizeformat }}
{{ 'a b/c?d=é&' | urlencode }} {{ {'a b': 'c/d', 'e': 1} | urlencode }} {{ [('a', 1), ('b', 'x y')] | urlencode }} {{ 5 | urlencode }} {{ none | urlencode }} {{ 'a+b~c_d-e.f' | urlencode }}
{{ {'a b': 1} | xmlattr }}
{{ 'a' | nonsense }}
{% if false %}{{ 'a' is nonsense }}{% endif %}x
{{ 'a' is nonsense }}
{% if false %}{{ ['a'] | map('nonsense') | list }}{% endif %}x
{{ ['a'] | select('nonsense') | list }}
{{ missing is callable }} {{ joiner is callable }} {{ range is callable }} {{ 'a' is callable }} {{ d.get is callable }} {{ d is callable }}
{{ missing is odd }}
{{ missing is sequence }} {{ missing is iterable }} {{ missing is mapping }} {{ missing is string }} {{ missing is number }} {{ missing is lower }} {{ missing is upper }} {{ '' is lower }} {{ '1' is upper }} {{ missing is sameas missing }} {{ missing is eq missing }}
{{ 2.0 is even }} {{ 3.0 is odd }} {{ 9.0 is divisibleby 3 }} {{ 2.5 is even }} {{ true is odd }}
{{ 'a' is even }}
{{ 1 is divisibleby 0 }}
{{ 1 is sameas 1 }} {{ 'a' is sameas 'a' }} {{ [] is sameas [] }} {{ d is sameas d }} {{ true is sameas true }} {{ 1 is sameas true }} {{ 1.0 is sameas 1 }}
{{ 1 is in [1, 2] }} {{ 'a' is in 'abc' }} {{ 'a' is in {'a': 1} }} {{ 1 is in missing }}
{{ 1 is in 5 }}
{{ 1 is integer }} {{ true is integer }} {{ 1.5 is float }} {{ true is float }} {{ true is number }} {{ 'a' is boolean }} {{ 0 is false }} {{ 1 is ge 1 }} {{ 1 is le 0 }} {{ 1 is greaterthan 0 }} {{ 1 is lessthan 0 }} {{ 1 is lt 2 }} {{ 1 is ne 2 }}
{{ -5 | abs }} {{ true | abs }} {{ -1.5 | abs }}
{{ 'x' | abs }}
{{ d | attr('k') }}|{{ d | attr('items') is callable }} {{ 'x' | attr('upper') is callable }} {{ missing | attr('x') }}|
{{ none | attr('x') }}|
{{ [1, 2, 3] | batch(2, none) | list }} {{ [] | batch(3) | list }} {{ 'abc' | batch(2) | list }} {{ [1, 2, 3] | batch(linecount=2) | list }} {{ [1] | batch(3, fill_with=0) | list }}
{{ [1, 2, 3, 4] | slice(slices=3) | list }} {{ [1] | slice(3, none) | list }} {{ [] | slice(2) | list }}
{{ [1, 2] | slice(0) | list }}
{{ 'abc def' | capitalize }} {{ 5 | capitalize }} {{ none | capitalize }} {{ missing | capitalize }}|
{{ 'a' | center(width=5) }}| {{ 'ab' | center(5) }}| {{ 'abc' | center }}|
{{ missing | default }}|{{ none | default('x', boolean=true) }} {{ 0 | d(5, true) }} {{ missing.x | default('y') }}
{{ missing | default(default_value='z') }} {{ d.nope | d('q') }} {{ false | default('a') }}
{{ {'b': 2, 'a': 1} | dictsort(reverse=true) }} {{ {'b': 1, 'a': 2} | dictsort(false, 'value') }} {{ {'b': 1, 'A': 2} | dictsort(true) }}
{{ {'b': 1} | dictsort(by='nope') }}
{{ {1: 'x', 'a': 2} | dictsort }}
{{ {2: 'x', 1: 2} | dictsort }} {{ {'a': [2], 'b': [1]} | dictsort(by='value') }}
{{ [] | first is undefined }} {{ missing | first }}|{{ 'abc' | first }} {{ d | first }} {{ [] | last }}|
{{ 5 | first }}
{{ missing | last }}|
{{ (range(3) | map('string')) | last }}
{{ d | last }} {{ range(3) | last }} {{ d.items() | last }}
{{ '%s' | format }}
{{ '%s %s' | format(1, 2) }} {{ '%(a)s' | format(a=5) }} {{ '%5.1f|%-5d|%+d|%e|%g|%c|%o|%X|%#x|% d' | format(1.25, 3, 4, 12345.678, 0.0001, 'x', 8, 255, 255, 5) }}
{{ '%s' | format(1, a=2) }}
{{ '%*d' | format(5, 3) }}
{{ d.objects | groupby('n') }} {% for n, items in d.objects | groupby('n') %}{{ n }}:{{ items | length }};{% endfor %}{% for g in d.objects | groupby('n') %}{{ g.grouper }}={{ g.list | length }} {% endfor %}
{{ [{'a': 'X'}, {'a': 'x'}, {'a': 'y'}] | groupby('a') }} {{ [{'a': 'X'}, {'a': 'x'}] | groupby('a', case_sensitive=true) }} {{ [{}, {'a': 1}] | groupby('a', default=0) }}
{{ [[1, 2], [1, 3]] | groupby(0) }}
{{ 'a\nb' | indent(first=true) }}|{{ '\n' | indent(2) }}|{{ 'a\n' | indent(2, blank=true) }}|{{ '' | indent(2, true) }}|{{ 'a\r\nb' | indent(2) }}|{{ 5 | indent }}
{{ missing | indent }}
{{ missing | items | list }} {{ d | items | first }}
{{ [1] | items | list }}
{{ [1, 2] | join }} {{ [1, 2] | join(d='+') }} {{ d | join(',') }} {{ missing | join }}|{{ d.objects | join('-', 'n') }} {{ [[1, 2]] | join(',', attribute=0) }} {{ [1, 2] | join(0) }} {{ [1, 2] | join(none) }}
{{ 5 | join }}
{{ none | length }}
{{ (range(3) | map('string')) | length }}
{{ missing | list }} {{ {'a': 1} | list }} {{ (1, 2) | list }}
{{ 5 | list }}
{{ 'ÀÉ' | lower }} {{ 5 | upper }} {{ none | lower }} {{ missing | upper }}|
{{ d.objects | map('attr', 'n') | list }} {{ d.objects | map(attribute='n', default=5) | list }} {{ [[1, 2], [3]] | map('first') | list }} {{ [[1, 2], [3]] | map(attribute=0) | list }} {{ ['a,b'] | map('replace', ',', '-') | list }} {{ [1.567] | map('round', 1) | list }} {{ ['x'] | map('int', default=3) | list }} {{ missing | map('x') | list }} {{ none | map('upper') | list }}
{{ [1] | map | list }}
{{ [1] | map(nope=1) | list }}
{{ d.objects | map('n') | list }}
{{ [3, 1, 2] | max }} {{ ['b', 'A'] | max }} {{ ['b', 'A'] | min(case_sensitive=true) }} {{ d.objects | max(attribute='n') }} {{ [] | min }}|{{ 'hello' | max }} {{ d | max }}
{{ [1, 'a'] | max }}
{{ 5 | max }}
{{ [1, 2, 3] | reject('odd') | list }} {{ [0, 1] | reject | list }} {{ d.objects | rejectattr('n', 'eq', 2) | list }} {{ d.objects | rejectattr('zz') | list | length }} {{ [1, 5] | select('gt', 3) | list }} {{ [1, 5] | select('>', 3) | list }} {{ ['a', 1] | select('string') | list }} {{ [1, 2] | select('in', [2]) | list }} {{ d.objects | selectattr('n', 'in', [1]) | list }} {{ [{'a': {'b': 1}}] | selectattr('a.b') | list }} {{ [[0], [1]] | selectattr(0) | list }}
{{ d.objects | selectattr | list }}
{{ [1] | select(1) | list }}
{{ [{'a': 1}] | selectattr('a.b.c') | list }}
{{ [{'a': 1}, {}] | map(attribute='a.b') | list }}
{{ 'aXbX' | replace('X', '-') }} {{ 5 | replace('5', 6) }} {{ missing | replace('a', 'b') }}|{{ 'aaa' | replace('a', 'b', count=1) }} {{ 'aaa' | replace('a', 'b', 0) }} {{ 'aaa' | replace('a', 'b', -1) }} {{ 'aaa' | replace(old='a', new='c') }} {{ none | replace('o', '0') }}
{{ 'aaa' | replace('a') }}
{{ 'abc' | reverse }} {{ [1, 2] | reverse | list }} {{ d | reverse | list }} {{ (1, 2) | reverse | list }} {{ missing | reverse | list }}
{{ 5 | reverse }}
{{ 42.55 | round(1) }} {{ 42.55 | round(1, 'floor') }} {{ 42.55 | round(1, 'ceil') }} {{ 42 | round }} {{ 1234 | round(-2) }} {{ 1250.0 | round(-2) }} {{ 2.5 | round(0) }} {{ true | round }} {{ 42 | round(1) }} {{ -2.5 | round }} {{ 2.5 | round(method='floor') }} {{ 5 | round(0, 'ceil') }} {{ 1e20 | round }} {{ 42.55 | round(precision=1) }} {{ 1350 | round(-2) }} {{ 7 | round(-1, 'floor') }} {{ 2.675 | round(2) }} {{ 0.5 | round }} {{ -0.4 | round }}
{{ 5 | round(method='x') }}
{{ 'x' | round }}
{{ 'x' | safe }} {{ 5 | safe }} {{ missing | safe }}|{{ none | safe }}
{{ ['b', 'a'] | sort(reverse=True) }} {{ d | sort }} {{ 'hello' | sort }} {{ d.objects | sort(attribute='n', reverse=true) | map(attribute='n') | list }} {{ [{'a': 1, 'b': 2}, {'a': 1, 'b': 1}] | sort(attribute='a,b') }} {{ [[2, 1], [1, 2]] | sort }} {{ [(2, 'a'), (1, 'b')] | sort }} {{ [true, false] | sort }} {{ [] | sort }} {{ ['B', 'a', 'C'] | sort(false, true) }} {{ [[2, 1], [1, 2]] | sort(attribute=1) }} {{ [none] | sort }}
{{ [none, 1] | sort }}
{{ [{}, {'a': 1}] | sort(attribute='a') }}
{{ [['b'], ['A']] | sort }} {{ [['b'], ['A']] | max }}
{{ 5 | string ~ 'x' }} {{ none | string }} {{ missing | string }}| {{ [1] | string | length }} {{ 1.0 | string }} {{ true | string }}
{{ ['a', 'b'] | sum }}
{{ ['a', 'b'] | sum(start='') }}
{{ 'hello wORLD foo-bar (x) [y] it\'s 2nd' | title }} {{ 5 | title }} {{ none | title }} {{ missing | title }}|
{{ '  x ' | trim }}| {{ 'xxa' | trim(chars='x') }} {{ 5 | trim }} {{ missing | trim }}| {{ 'x' | trim(none) }}
{{ [1, 1.0, true, 'a', 'A'] | unique | list }} {{ ['a', 'A'] | unique(case_sensitive=true) | list }} {{ d.objects | unique(attribute='n') | list }} {{ ['b', 'a', 'b'] | unique | join }} {{ [[1], [1]] | map('join') | unique | list }}
{{ [[1], [1]] | unique | list }}
{{ 'a b-c_d é1' | wordcount }} {{ '' | wordcount }} {{ 5 | wordcount }} {{ missing | wordcount }}
{{ range(1, 10, 3) | list }} {{ range(3)[1] }} {{ range(3)[-1] }} {{ range(3) }} {{ range(5)[1:3] | list }} {{ 2 in range(3) }} {{ range(0) == range(0) }} {{ range(2) == [0, 1] }} {{ range(3) | join }} {{ range(3) is sequence }}
{{ range(3) | tojson }}
{{ range(1.5) }}
{{ range() }}
{{ range(3) + [1] }}
{{ dict(a=1) }} {{ dict([('a', 1)]) }} {{ dict({'a': 1}, a=2) }} {{ dict() }} {{ dict(d).k }} {{ dict([(1, 2)]) }} {{ dict({1: 2}) }} {{ dict.fromkeys(['a', 'b'], 0) }} {{ dict.fromkeys('ab') }}
{{ dict(5) }}
{{ namespace(a=1).a }} {{ namespace({'a': 2}).a }} {{ namespace(a=1)['a'] }} {{ namespace([('x', 1)]).x }}
{{ namespace(_a=1) }}
{% set ns = namespace() %}{% set ns._a = 1 %}
{% for i in [1, 2, 3] %}{{ loop.changed(i // 2) }}{{ loop.cycle('x', 'y', 'z') }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.nope }}{% endfor %}
{% for i in [1, 2] %}{% for j in [1] %}{{ loop.index }}{{ loop.first }}{% endfor %}{{ loop.index }}{% endfor %}
{% for x in [[1, [2]], 3] recursive %}{% if x is iterable %}<{{ loop(x) }}>{% else %}{{ x }}@{{ loop.depth0 }}{% endif %}{% endfor %}
{% macro m(a, b='x') %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, 4) }}{{ m(1, c=5) }} {{ m.name }} {{ m.arguments }} {{ m.catch_varargs }} {{ m.catch_kwargs }} {{ m.caller }}
{% macro m() %}{{ caller() if caller else 'none' }}{% endmacro %}{{ m() }}{% call m() %}C{% endcall %} {{ m.name }}
{% macro m(a, a2=a) %}{{ a2 }}{% endmacro %}{{ m(5) }}
{% macro m(a) %}{{ kwargs }}{% endmacro %}{{ m(1, z=2) }}
{% macro m(*a) %}{% endmacro %}
{% call m() %}{% endcall %}
{% macro m(x) %}[{{ caller(x, y=2) }}]{% endmacro %}{% call(a, y=1) m(5) %}{{ a }}{{ y }}{% endcall %}
{% set a = b = 1 %}
{% set a, b = [1, 2] %}{{ a }}{{ b }}{% set (c, d2) = (3, 4) %}{{ c }}{{ d2 }}
{% set x = 1, 2 %}{{ x }}{% set x %}{% endset %}[{{ x }}]
{% set x | upper | replace('A', 'b') %}aa{% endset %}{{ x }}
{% set ns = namespace(a=1) %}{% set ns.a, y = 5, 6 %}{{ ns.a }}{{ y }}
{% set ns = namespace(a=1) %}{% set ns.a %}blk{% endset %}{{ ns.a }}
{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a }}|{% with a=1, b=a %}{{ b }}|{% endwith %}
{% filter upper | trim %} x {% endfilter %}{% filter replace('a', 'b') %}aa{% endfilter %}{% filter truncate(3, true, '', 0) %}abcdef{% endfilter %}
{% if 1 %}a{% elif 2 %}b{% else %}c{% endif %}{% if not missing %}n{% endif %}{% if [] or {} or '' or 0 or none %}x{% else %}e{% endif %}
{% raw %}{{ x }}{% endraw %}{%- raw -%} q {%- endraw -%}
# for i in x
{{ [x for x in [1]] }}
{{ {**d} }}
{{ [*[1]] }}
{{ 'a' 'b' }} {{ "a" ~ 'b' }} {{ 'a'.upper() }} {{ 'a'|upper() }} {{ ('a')|upper }} {{ 1.5e3 }} {{ 1_0 }} {{ 0b11 }} {{ 0o17 }} {{ 0xff }} {{ 1e2 }} {{ -1 }} {{ +1 }} {{ --1 }}
{{ 1 and 2 }} {{ 0 or 'x' }} {{ not 1 }} {{ not none and 1 }} {{ 1 in [1] and 2 not in [1] }} {{ 1 if 2 > 1 > 0 else 0 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 5 // 2 * 2 }} {{ 5 % 3 }} {{ 'a' < 'b' == true }} {{ (1, 2)[0] }} {{ 7 // 2.0 }} {{ 1 / 2 }} {{ 2 ** 0.5 }} {{ 10 ** 20 }} {{ true + 1 }}
{{ 'abc'.find('b', 1) }} {{ 'abcb'.find('b', 2) }} {{ 'abc'.startswith('b', 1) }} {{ 'abcabc'.count('a', 1) }} {{ 'abc'.endswith('b', 0, 2) }} {{ 'abcb'.index('b', 2) }} {{ 'abcb'.rfind('b', 0, 3) }}
{{ 'a\tb'.expandtabs(4) }}
{{ 'a-b'.split('-', maxsplit=1) }} {{ 'a'.join('bc') }} {{ 'abc'.strip('a').rstrip('c') }} {{ 'AbC'.swapcase() }} {{ 'x'.zfill(3) }} {{ '+1'.zfill(4) }} {{ 'x'.ljust(3, '.') }}
{{ '{:>5}|{:.2f}|{!r}|{0}'.format('a', 1.5, 'b') }}
{{ '{:05d} {:,} {:x} {:%} {:e} {:<4}| {:^5}| {:+d}'.format(42, 1234567, 255, 0.25, 1234.5, 'a', 'b', 3) }}
{{ '{a[0]}'.format(a=[1]) }}
{{ d.items() | list }} {{ d.keys() }}
{{ d.values() }}
{{ d.items() }}
{{ {'a': 1}.items() }} {{ {'a': 1}.keys() }} {{ {'a': 1}.values() }} {{ {'a': 1}.keys() | list }} {{ 'a' in {'a': 1}.keys() }} {{ {'a': 1}.items() | length }}
{{ {'a': 1}.keys()[0] }}|
{{ {'a': 1}.items() | tojson }}
{{ d.pop('k') }}
{{ d.setdefault('k', 1) }}
{{ d.copy() | length }} {{ [1].copy() }} {{ [1, 2, 1].count(1) }} {{ [1, 2].index(2) }} {{ (1, 2).index(2) }} {{ (1, 1).count(1) }}
{{ d.get('k', default=1) }}
{{ d.fromkeys(['a']) }}
{{ (1.5).is_integer() }} {{ (2.0).is_integer() }}
{{ 'abc'.__class__ }}|
{{ d.__class__ }}|
{{ d._x }}|{{ missing._x }}
{{ [1, 2].__len__() }}
{{ "%r" | format('a') }} {{ '%s' % none }} {{ '%s' % [1, 'a'] }} {{ '%s' % true }} {{ '%d' % true }} {{ '%.3s' % 'abcdef' }} {{ '%5s' % 'é' }} {{ '%%' % () }} {{ '%i' % 3.9 }} {{ '%+d' % 5 }} {{ '%g' % 1.5 }} {{ '%e' % 1.5 }} {{ '%X' % 255 }} {{ '%o' % 8 }} {{ '%c' % 'x' }} {{ '%c' % 65 }} {{ '%#x' % 255 }} {{ '% d' % 5 }} {{ '%x' % -255 }} {{ '%05.1f' % 2.25 }} {{ '%G' % 1e-10 }} {{ '%E' % 1.5 }} {{ '%F' % 1.5 }} {{ '%u' % 5 }} {{ '%a' % 'é' }}
{{ {'a': 1} == {'a': 1.0} }} {{ [1] < [2] }} {{ (1,) + (2,) }} {{ 'a' * 0 }} {{ [] + [] }} {{ 1 == '1' }} {{ none == false }} {{ 1 != 1.0 }} {{ 'b' > 'a' }} {{ missing == none }} {{ missing != 1 }}
{{ [1] < 2 }}
{{ {} < {} }}
{{ {[1]: 2} }}
{{ loop is defined }} {{ self is defined }} {{ caller is defined }} {{ varargs is defined }} {{ super is defined }}
{{ range.__name__ }}|
{{ strftime_now('%Y', 1) }}
{{ strftime_now() }}
{{ raise_exception() }}
{{ raise_exception('a', 'b') }}
{{ true.x }}|{{ 5.x }}
{{ 'é' | tojson(ensure_ascii=True) }} {{ d | tojson(true) }} {{ {'b': [1, {'c': 2}]} | tojson(indent='--') }} {{ {'a': 1} | tojson(indent=0) }} {{ 1.0 | tojson }} {{ [] | tojson }} {{ 'a/b' | tojson }} {{ {'a': none} | tojson(none, none, [';', '=']) }} {{ '<' | tojson }}
{{ {'a': missing} | tojson }}
{{ d | tojson(cls=1) }}
{% generation %}{% set gg = 1 %}{{ gg }}{% endgeneration %}{{ gg }}
{% filter upper %}{% for i in [1] %}{{ i }}a{% endfor %}{% endfilter %}
{% set x = 'a' %}{% filter upper %}{% set x = 'b' %}{{ x }}{% endfilter %}{{ x }}
{% for k, v in d | dictsort %}{{ k }}={{ v }};{% endfor %}{% for k, v in {'a': 1} | items %}{{ k }}{{ v }}{% endfor %}
{% for i in 5 %}{% endfor %}
{% for i in none %}{% endfor %}
{% for i in [1, 2, 3] | reverse %}{{ i }}{{ loop.length }}{{ loop.last }}{% endfor %}
{%- for i in [3, 4] -%} {{ i }} {%- endfor -%} x
{{ 3.0 }} {{ 3.10 }} {{ 1e-7 }} {{ 1.5e300 }} {{ 100000000000000000000 }} {{ 1.0e22 }} {{ 0.1 + 0.2 }} {{ 1e16 | int }} {{ 7.0 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }}
{{ 'abc' | list | join('-') | upper | replace('-', '') | first }}
{{ missing.foo is defined }}
{{ d.missing.foo is defined }}
{{ d['missing'] is defined }} {{ d.missing is none }} {{ d.missing is not defined }}
{{ not missing }} {{ missing or 'x' }} {{ missing and 'x' }}| {{ missing == '' }} {{ missing in [missing] }}
{{ -missing }}
{{ missing < 1 }}
{{ missing ~ missing }}| {{ missing | string | length }} {{ [missing] }} {{ {'a': missing} }} {{ (missing,) }}
{{ missing[0] }}
{{ missing[1:] }}
{{ missing * 2 }}
{{ missing % 2 }}
{{ missing | abs }}
{{ missing | round }}
{{ missing | wordwrap }}
{{ missing | dictsort }}
{{ missing | filesizeformat }}
{{ missing | xmlattr }}
{{ '12' | int(0, 8) }} {{ '0b1' | int(7, 16) }} {{ '12' | int(7, 37) }} {{ '12' | int(7, none) }} {{ '12' | int(7, 10.0) }}
{{ 'a\nb' | indent(first=true) }}|{{ '\n' | indent(2) }}|{{ 'a\n' | indent(2, blank=true) }}|{{ '' | indent(2, true) }}|{{ 'a\r\nb' | indent(2) }}
{{ 'ß'.casefold() }} {{ 'x'.isidentifier() }} {{ '1x'.isidentifier() }} {{ 'a_1'.isidentifier() }} {{ 'x'.isprintable() }} {{ '²'.isdigit() }} {{ '²'.isdecimal() }} {{ '½'.isnumeric() }} {{ '½'.isdigit() }} {{ '٣'.isdecimal() }}
{{ '%-5s|%5s|%05d|%-05d|%+05d|% d|%5.1f' % ('ab', 'ab', 42, 42, 42, 42, 3.14159) }} {{ '%.3d %5.2s|' % (7, 'abc') }} {{ '%#o %#X' % (8, 255) }} {{ '%s %s' % ('é', none) }}
{{ '{:>8.3f}|{:<8}|{:^9}|{:*^9}|{:=+8}|{:08.2f}|{:5}|{:5}|'.format(3.14159, 'ab', 'mid', 'mid', 42, -3.5, 7, true) }} {{ '{0!r:>6}|{n!s:<4}|'.format('a', n=none) }} {{ '{:b} {:o} {:#x} {:c}'.format(5, 8, 255, 65) if missing else 'c' }}
{{ '{:d}'.format(1.5) }}
{{ '{:d}'.format('a') }}
{{ '{:>5}'.format(none) }}
{{ '{:z}'.format('a') }}
{{ '{0.k} {0[list][1]} {d[é]}'.format(d, d=d) }}
{{ '{x}'.format(y=1) }}
{{ '{:x}'.format('a') }}
{% macro m() %}{{ caller }}{% endmacro %}{% macro n() %}{{ m() }}{{ caller() }}{% endmacro %}{% call n() %}c{% endcall %}
{% macro m() %}x{% endmacro %}{% call m() %}c{% endcall %}
{% macro m(a) %}{{ varargs }}{% endmacro %}{{ m(1) }}{{ m(*[1, 2, 3]) }}
{% macro m(**k) %}{% endmacro %}
{% macro outer() %}{% macro inner() %}{{ varargs }}{% endmacro %}{{ inner(1) }}{% endmacro %}{{ outer() }} {{ outer.catch_varargs }}
{% block a %}{% block a %}{% endblock %}{% endblock %}
{% if false %}{% block a required %}{% endblock %}{% endif %}ok
{% block a required scoped %}{% endblock %}
{% for i in [1, 2] %}{% block a scoped required %}{% endblock %}{% endfor %}
{% set ns = namespace(v=0) %}{% block a %}{% set ns.v = ns.v + 1 %}{{ ns.v }}{% endblock %}{{ self.a() }}{{ ns.v }}
{% for i in [1, 2] %}{% set w = i %}{% block a scoped %}{% set w = 9 %}{{ w }}{% endblock %}{{ w }}{% endfor %}
{{ [self.a(), self.b] | length }}{% block a %}{% endblock %}
{{ {'a': 1}.items() == {'a': 1}.items() }} {{ range(3) == range(3) }} {{ range(1, 4) == [1, 2, 3] }} {{ range(0, 6, 2) }} {{ range(3) | first }} {{ range(3) | length }} {{ range(3) | reverse | list }} {{ range(3) | sum }} {{ {'a': 1}.keys() | first }} {{ {'a': 1}.values() | join }} {{ {'a': 1}.keys() is sequence }} {{ {'a': 1}.keys() is iterable }} {{ {'b': 1, 'a': 2}.keys() | sort }}
{{ [range(2), {'a': 1}.keys()] }}
{{ {'a': 1}.keys()[:1] }}|
{{ {'a': 1}.keys() + ['b'] }}
{{ range(2) * 2 }}
{{ [(1, 'b'), (1, 'a')] | sort }} {{ [[1], [0, 5]] | max }} {{ [1.5, 1, true] | sort }} {{ ['b', 'B', 'a'] | sort }} {{ [3, 1, 2] | sort(true) }}
{{ [1, none] | sort }}
{{ [{}, {}] | sort }}
{{ ['a', 1] | min }}
{{ [1, 2] | truncate(1) }} {{ 'abc' % [1] }} {{ 'abc' % {} }} {{ -3 % 1.5 }} {{ 3 % -1.5 }} {{ 'é-ß'.title() }} {{ 'ßa'.capitalize() }} {{ 'ß ß' | title }} {{ (-8) ** 3 }} {{ 4 ** 0.5 }}
{{ [1] is filter }}
{{ {} is test }}
{{ 'abc' % 1 }}
{{ range(300) | truncate(3) }}
{{ '%.2x|%7.3o|%-6.2X|%+.0c|%5c|' % (42, 8, 10, 'x', 65) }} {{ '{:b}|{:#o}|{:+x}|{:<6,}|{:.3}|{:.1%}' .format(5, 8, 10, 1234, 'abcdef', 0.256) }} {{ 'abc'.find('', 5) }} {{ ''.count('', 1) }} {{ 'abc'.startswith('', 4) }}
{{ '{:,x}'.format(10) }}
{{ '{:.2d}'.format(10) }}
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


def write_snippets():
    dump = lambda x: json.dumps(x, ensure_ascii=False)
    lines = []
    for snippet in SNIPPETS:
        text, error = render(snippet, ([], None, SNIPPET_VARIABLES), False)
        lines.append(dump([snippet, text, error]))
    head = f'"variables": {dump(SNIPPET_VARIABLES)}, "snippets": [\n'
    (OUT / "snippets.json").write_text("{" + head + ",\n".join(lines) + "\n]}\n")


def main():
    chat_template_utils.datetime = Clock
    if sys.argv[1:] == ["snippets"]:
        return write_snippets()
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.json"):
        old.unlink()
    dump = lambda x: json.dumps(x, ensure_ascii=False)
    lines = [f"{dump(name)}: {dump({'messages': m, 'tools': t, 'variables': v})}"
             for name, (m, t, v) in CONVERSATIONS.items()]
    (OUT / "conversations.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    write_snippets()
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
