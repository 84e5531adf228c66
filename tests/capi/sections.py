"""Reads the comments of include/ember.h: sections.py comments | examples

    comments   fails when a section lacks its overview or example, when the comment of a function or callback lacks a parameter, names one
               that does not exist or lacks @return, and when its parts are out of order or not in the header's words,
               or when it lets a parameter be NULL that test_misuse.c does not
    examples   prints a C program of the sections' examples, a function for each
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "include/ember.h").read_text(encoding="utf-8")
# What tests/capi/test_misuse.c calls with NULL and lets succeed: function and parameter.
MISUSE = (ROOT / "tests/capi/test_misuse.c").read_text(encoding="utf-8")
MAY_BE_NULL = set(re.findall(r'\{"(ember_\w+)", "(\w+)"\}', MISUSE.partition("MAY_BE_NULL[][2]")[2].partition("};")[0]))

PROLOGUE = """#include <stdio.h>
#include <string.h>

#include "ember.h"

static void print_line(int32_t level, const char *text, size_t len, void *user_data)
{
    (void)level, (void)user_data;
    fprintf(stderr, "%.*s\\n", (int)len, text);
}

static int32_t print_event(const ember_event *event, void *user_data)
{
    (void)user_data;
    fwrite(event->text, 1, event->text_len, stdout);
    return 0;
}

static int32_t print_reply(const ember_chat_event *event, void *user_data)
{
    (void)user_data;
    fwrite(event->text, 1, event->text_len, stdout);
    return 0;
}

"""
# Each example may set these or not.
FUNCTION = """static void example_%s(ember_model *model, ember_context *context, ember_generate_options *options, ember_sampler *sampler)
{
    ember_event event = {.struct_size = sizeof event};
    ember_error *err = NULL;
    ember_status status = EMBER_OK;
    size_t n = 0;
    (void)model, (void)context, (void)options, (void)sampler, (void)event, (void)err, (void)n;
    (void)print_line, (void)print_event, (void)print_reply;
%s
    (void)status;
}

"""

ERR = "receives an error that the caller frees, or NULL on EMBER_OK; may be NULL"
PARTS = ["- Ownership: ", "- Threads: ", "- Errors: "]


def sections() -> list[tuple[str, str, list[str]]]:
    """The group, the overview and the example's lines of each section."""
    found = []
    for comment in re.findall(r"^/\*\*\n \* @defgroup (.*?) \* @\{\n \*/\n", TEXT, re.MULTILINE | re.DOTALL):
        head, _, code = comment.partition(" * @code{.c}\n")
        group, overview = re.match(r"(\w+) [^\n]*\n(.*)", head, re.DOTALL).groups()
        lines = [line[3:] for line in code.partition(" * @endcode\n")[0].splitlines()]
        found.append((group, re.sub(r"\s*\n? \* ?", " ", overview).strip(), lines))
    return found


def functions() -> list[tuple[str, str, list[str], list[str]]]:
    """The name, the result, the parameters and the comment's lines of each function."""
    found = []
    pattern = r"^/\*\*((?:(?!\*/).)*?)\*/\n([a-z][\w ]*[ *])(ember_\w+)\(([^)]*)\);"
    for comment, result, name, parameters in re.findall(pattern, TEXT, re.MULTILINE | re.DOTALL):
        names = [] if parameters.strip() == "void" else [re.search(r"(\w+)$", one.strip())[1] for one in parameters.split(",")]
        lines = [re.sub(r"^ ?\*? ?", "", line) for line in comment.strip("\n").splitlines()]
        found.append((name, result.strip(), names, lines))
    return found


def callbacks() -> list[tuple[str, str, list[str], list[str]]]:
    """The same of each type of a callback."""
    found = []
    pattern = r"^/\*\*((?:(?!\*/).)*?)\*/\ntypedef (\w[\w *]*?) ?\(\*(ember_\w+)\)\(([^)]*)\);"
    for comment, result, name, parameters in re.findall(pattern, TEXT, re.MULTILINE | re.DOTALL):
        names = [re.search(r"(\w+)$", one.strip())[1] for one in parameters.split(",")]
        lines = [re.sub(r"^ ?\*? ?", "", line) for line in comment.strip("\n").splitlines()]
        found.append((name, result.strip(), names, lines))
    return found


def paragraphs(lines: list[str]) -> list[str]:
    """Lines with those after them that go on, as a list of texts."""
    texts, ended = [], True
    for line in lines:
        if not line.strip():
            ended = True
        elif ended or re.match(r"@|- ", line):
            texts.append(line.strip())
            ended = False
        else:
            texts[-1] += " " + line.strip()
    return texts


def judge(name: str, result: str, names: list[str], lines: list[str]) -> list[str]:
    bad, texts = [], paragraphs(lines)
    if not texts or texts[0].startswith(("@", "-")) or not re.search(r"[.:]$|[.] ", texts[0]):
        bad.append("begins with no sentence")
    documented = [re.match(r"@param (\w+) \S", text) for text in texts if text.startswith("@param")]
    if any(match is None for match in documented):
        return bad + ["has an @param without a name or a text"]
    given = [match[1] for match in documented]
    bad += [f"lacks @param {one}" for one in names if one not in given]
    bad += [f"names the parameter {one}, which does not exist" for one in given if one not in names]
    if not bad and given != names:
        bad.append("has its parameters in another order")
    returns = [text for text in texts if text.startswith("@return")]
    if (result != "void") != (len(returns) == 1):
        bad.append("returns nothing" if result == "void" else "lacks @return")
    bad += [f'does not say "{ERR}" of err' for text in texts if text.startswith("@param err ") and text != f"@param err {ERR}"]
    # What comes first: sentences, parameters, ownership, threads, errors, the result.
    order = ["@param", *PARTS, "@return"]
    places = [next((i for i, mark in enumerate(order) if text.startswith(mark)), -1) for text in texts]
    first = next((i for i, place in enumerate(places) if place >= 0), len(places))
    if places[first:] != sorted(places[first:]):
        bad.append("has its parts in another order than parameters, ownership, threads, errors, result")
    if not name.endswith("_callback") and not any(text.startswith("- Threads: ") for text in texts):
        bad.append('lacks "- Threads: "')
    return bad


def comments() -> int:
    bad = []
    found = sections()
    if len(found) != len(re.findall(r"^/\* =+$", TEXT, re.MULTILINE)) or not found:
        bad.append("a section's banner has no comment of its own")
    for group, overview, example in found:
        if not overview:
            bad.append(f"section {group} has no overview")
        if not example:
            bad.append(f"section {group} has no example")
    documented = functions()
    declared = re.findall(r"^[a-z][\w ]*[ *]ember_\w+\(", TEXT, re.MULTILINE)
    if len(declared) != len(documented):
        bad.append(f"{len(declared) - len(documented)} functions have no comment")
    types = callbacks()
    if len(types) != TEXT.count("_callback)("):
        bad.append("a type of a callback has no comment")
    for name, result, names, lines in documented + types:
        bad += [f"the comment of {name} {what}" for what in judge(name, result, names, lines)]
        # A length of 0, and what always may be NULL, are not in the list.
        for text in paragraphs(lines) if result == "ember_status" and "err" in names else []:
            one = re.match(r"@param (\w+) .*\bNULL\b", text)
            if one is None or one[1] in ("err", "user_data") or "may be NULL if" in text:
                continue
            if text.endswith("not NULL") == ((name, one[1]) in MAY_BE_NULL):
                bad.append(f"{name} says of {one[1]} what test_misuse.c does not: {text}")
    if bad:
        print("\n".join(bad), file=sys.stderr)
        return 1
    print(f"sections: {len(found)} sections and {len(documented) + len(types)} functions and callbacks have comments as they have to be")
    return 0


def examples() -> int:
    found = sections()
    print(PROLOGUE, end="")
    for group, _, lines in found:
        print(FUNCTION % (group, "\n".join(f"    {line}" for line in lines)), end="")
    calls = "".join(f"    example_{group}(NULL, NULL, NULL, NULL);\n" for group, _, _ in found)
    print(f"int main(void)\n{{\n{calls}    return 0;\n}}")
    return 0


sys.exit({"comments": comments, "examples": examples}[sys.argv[1]]())
