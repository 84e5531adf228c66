"""Writes tests/fixtures/reply: replies as templates write them, and what llama.cpp's parsers make of them.

    scripts/fetch-model.sh tokenizers; scripts/fetch-model.sh templates
    python tests/oracle/reply_formats.py path/to/reply_parser

Needs transformers (without PyTorch), and the program that tests/oracle/reply_parser.cpp is. Each line of a file is a case
[name, variables, prompt, reply, llama]: the reply is what the template writes for the message of that name in messages.json
after the prompt, without the mark that ends a turn; llama is what llama.cpp reads in it, null where it fails
or ends the prompt otherwise.
"""

import json
import pathlib
import re
import subprocess
import sys

from chat_templates import CACHE, ROOT, TOKENS
from transformers.utils import chat_template_utils

OUT = ROOT / "tests/fixtures/reply"


def tool(name, properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return {"type": "function", "function": {"name": name, "description": "Does it.", "parameters": parameters}}


def described(**types):
    return {name: {"type": kind, "description": name} for name, kind in types.items()}


TOOLS = [
    tool("get_weather", described(city="string", days="integer", exact="boolean", wind="number")),
    tool("search", described(words="array", filter="object", note="string")),
    tool("now", {}),
]


def call(name, **arguments):
    return {"id": "", "type": "function", "function": {"name": name, "arguments": arguments}}


def said(text="", thinking=None, *calls):
    message = {"role": "assistant", "content": text}
    if thinking:
        message["reasoning_content"] = thinking
    if calls:
        for i, one in enumerate(calls):
            one["id"] = f"call{i:05}"
        message["tool_calls"] = list(calls)
    return message


MARKS = (
    "a </tool_call> b <tool_call> c </parameter> d </arg_value> e [ARGS] f </think> g <|end|> h [TOOL_CALLS] i </param> j "
    "<tool_call|> k <｜tool▁call▁end｜> l ]<|tool_call_end|> m </TOOLCALL> n <|/tool_call|> o"
)
MESSAGES = {
    "text": said("It is warm & bright."),
    "thought": said("It is warm.", "Who asks?\nSomebody."),
    "call": said("", None, call("get_weather", city="Zürich")),
    "text_call": said("Let me see.", None, call("get_weather", city="Bern", days=3)),
    "thought_call": said("", "It has to be looked up.", call("get_weather", city="Bern")),
    "thought_text_call": said("One moment.", "Look it up.", call("search", words=["a", "b"])),
    "two_calls": said("", None, call("get_weather", city="Bern"), call("search", words=["x"], note="y")),
    "three_calls": said("So:", None, call("now"), call("get_weather", city="Rome", days=1), call("now")),
    "nested": said("", None, call("search", words=["a", "b c", "日本"], filter={"site": "x.org", "more": {"deep": [1, {"k": []}]}})),
    "values": said("", None, call("get_weather", city="", days=-12, exact=True, wind=1.5)),
    "false": said("", None, call("get_weather", city="None", days=0, exact=False, wind=-0.25)),
    "strings": said("", None, call("search", words=["{", "}", "[x]", "k: v, w"], note='say "yes" \U0001f44d, ok (maybe) {no} = a,b')),
    "quotes": said("", None, call("search", words=["q"], note="it's \"one\" 'two' \\n three\ttab")),
    "lines": said("", None, call("search", words=["q"], note="first\n  second\n\nlast")),
    "numbers_in_strings": said("", None, call("get_weather", city="12"), call("search", words=["1"], note="true")),
    "marks": said("", None, call("search", words=["q"], note=MARKS)),
    "empty": said("", None, call("now")),
}

ENDS = re.compile(
    r"(\s*(<\|im_end\|>|<\|eot_id\|>|<\|eom_id\|>|</s>|<turn\|>|<\|tool_response>|<｜end▁of▁sentence｜>|<\|end_of_text\|>|"
    r"<end_of_turn>|<\|return\|>|<seed:eos>|<SPECIAL_12>|<\|role_end\|>|</assistant>|<\|END_OF_TURN_TOKEN\|>|\[e~\[|"
    r"<end_of_sentence>|<\|end\|>|<sep>|<\|assistant_end\|>|<\|message_sep\|>|<｜hy_eos:opensource｜>))*\s*$"
)
OPEN = re.compile(r"<think>|</think>|<seed:think>|<\|channel>|<\|START_THINKING\|>|\[THINK\]|<mm:think>")


def render(source, messages, prompt, variables):
    return chat_template_utils.render_jinja_template(
        [messages], chat_template=source, tools=TOOLS, add_generation_prompt=prompt, **TOKENS, **variables
    )[0][0]


def cases(source):
    """The name, the variables, the prompt and the reply of each message that the template can write."""
    prompts = []
    for variables in ({}, {"enable_thinking": False, "thinking": False}):
        user = [{"role": "user", "content": "Q"}]
        try:
            prompt = render(source, user, True, variables)
        except Exception:
            continue
        if prompt in prompts:
            continue
        prompts.append(prompt)
        for name, message in MESSAGES.items():
            if variables and name not in ("text", "text_call", "values"):
                continue
            whole = None
            for way in range(3):
                tried = json.loads(json.dumps(message))
                for one in tried.get("tool_calls", []) if way == 1 else []:
                    one["function"]["arguments"] = json.dumps(one["function"]["arguments"], ensure_ascii=False)
                if way == 2:
                    tried.pop("content")
                try:
                    whole = render(source, user + [tried], False, variables)
                except Exception:
                    continue
                called = [one["function"]["name"] for one in message.get("tool_calls", [])]
                if all(called in whole[len(prompt) // 2 :] for called in called):
                    break
            if whole is None:
                continue
            start = prompt
            if not whole.startswith(start):
                start = OPEN.split(prompt[len(prompt) - 60 :], maxsplit=1)
                start = prompt[: len(prompt) - 60] + start[0]
            if not whole.startswith(start):
                continue
            yield name, variables, start, ENDS.sub("", whole[len(start) :])


def main():
    OUT.mkdir(exist_ok=True)
    reader = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    (OUT / "messages.json").write_text(
        json.dumps({"tools": TOOLS, "messages": MESSAGES}, ensure_ascii=False, indent=1) + "\n"
    )
    for path in sorted((CACHE / "templates").glob("*.jinja")):
        if "command-r7b" in path.name:  # it begins the next turn after every message
            continue
        source = path.read_text()
        lines = []
        for name, variables, prompt, reply in cases(source):
            asked = {"template": source, "tools": TOOLS, "reply": reply, "enable_thinking": not variables}
            reader.stdin.write(json.dumps(asked) + "\n")
            reader.stdin.flush()
            got = json.loads(reader.stdout.readline())
            # llama.cpp may end the prompt otherwise, inside a thought say: then its reading is one of another reply.
            if "error" in got or not prompt.endswith(got.pop("prompt")):
                got = None
            lines.append([name, variables, prompt[-80:], reply, got])
        if lines:
            text = ",\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
            (OUT / f"{path.stem}.json").write_text(f'{{"template": "templates/{path.stem}", "cases": [\n{text}\n]}}\n')
            print(path.stem, len(lines), sum(line[4] is not None for line in lines), file=sys.stderr)


if __name__ == "__main__":
    main()
