"""Takes the blocks of the README and of other pages apart: readme.py FOLDER PAGE…

Blocks of C without a main function become parts of programs, FOLDER/NAME.c, each with a model and a context. Of blocks of
commands, those that run what was built go to FOLDER/commands, a script. What takes hours, fetches gigabytes or installs
things is held to the sources instead: targets and variables to the Makefile, options of Python programs to what they read, a
test of cargo's to its file. Of the pages of the bindings only the commands are taken. A command of a kind that is not known ends this with an error, so that nobody adds one that is
not looked at.
"""

import pathlib
import re
import shlex
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Where the pages' own names stand for something.
NAMES = {"/path/to/your.gguf": "tales.gguf", "your.gguf": "tales.gguf", "MODEL.gguf": "tales.gguf", "-n 100": "-n 10"}
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROGRAM = """#include <stdio.h>
#include <stdlib.h>

#include "ember.h"

%(prelude)s
int main(void)
{
    ember_error *err = NULL;
    ember_model *model = NULL;
    ember_context *context = NULL;
    if (ember_model_load("%(model)s", EMBER_NUL_TERMINATED, NULL, &model, &err) != EMBER_OK ||
        ember_context_new(model, NULL, &context, &err) != EMBER_OK)
        exit(1);
    {
%(block)s
        %(show)s
    }
    int failed = err != NULL;
    if (failed)
        fprintf(stderr, "%%s\\n", ember_error_message(err));
    ember_error_free(err);
    ember_context_free(context);
    ember_model_release(model);
    return failed;
}
"""
# What ends a program with the error's sentence, for blocks that use it.
PRELUDE = re.search(
    r"^```c prelude\n(.*?)^```$", (ROOT / "docs/guides/errors.md").read_text(encoding="utf-8"), re.M | re.S
).group(1)
# The functions that blocks of C show, what is special first: the model that they are for, and what tells that they did it.
PARTS = {
    "ember_chat_options_set_tools": ("tools.gguf", "ember_conversation_free(chat);\n        ember_chat_options_free(options);"),
    "ember_conversation_new": ("chat.gguf", "ember_conversation_free(conversation);"),
    "ember_embed": ("minilm", 'printf("%zu %.4f\\n", n, (double)vectors[0]);'),
}


def refuse(page: str, what: str, why: str) -> None:
    sys.exit(f"{page}: {why}: {what}")


def make(page: str, words: list[str]) -> None:
    for word in words:
        name, _, value = word.partition("=")
        known = rf"\b{name}\b" if value else rf"^{re.escape(word)}:"
        if not re.search(known, MAKEFILE, re.MULTILINE):
            refuse(page, word, "the Makefile does not know this")


def python(page: str, words: list[str]) -> None:
    program = ROOT / words[0] if (ROOT / words[0]).exists() else (ROOT / page).parent / words[0]
    source = program.read_text(encoding="utf-8")
    for word in words[1:]:
        if word.startswith("--") and f'"{word}"' not in source:
            refuse(page, word, f"{words[0]} has no such option")


def cargo(page: str, words: list[str]) -> None:
    if words == ["check"] or words[:2] == ["cinstall", "--release"]:
        return
    if words[:2] == ["test", "--lib"] and (ROOT / f"src/{words[2]}").is_dir():
        return
    if words[:3] == ["test", "--test", "it"]:
        # One file of the tests in one binary, named by a filter: `-- FILE::`.
        files = [word.partition("::")[0] for word in words[3:] if "::" in word]
        found = bool(files) and all((ROOT / f"tests/it/{file}.rs").exists() for file in files)
    else:
        found = words[:2] == ["test", "--test"] and (ROOT / f"tests/{words[2]}.rs").exists()
    if not found:
        refuse(page, " ".join(words), "there is no such test")


def go(page: str, words: list[str]) -> None:
    name = words[words.index("-bench") + 1]
    if not any(f"func Benchmark{name}" in path.read_text(encoding="utf-8") for path in (ROOT / "bindings/go").glob("*_test.go")):
        refuse(page, name, "there is no such benchmark")


def swift(page: str, words: list[str]) -> None:
    # bindings/swift/test.sh runs the programs.
    if not any(f"/{word}\"" in (ROOT / "bindings/swift/test.sh").read_text(encoding="utf-8") for word in words):
        refuse(page, " ".join(words), "there is no such program")


def ember(page: str, words: list[str]) -> None:
    # cli/tests/test_pull.py runs the lines of the README and of docs/command-line.md.
    source = ROOT / f"cli/src/{words[0]}.rs"
    known = source.read_text(encoding="utf-8") + (ROOT / "cli/src/text.rs").read_text(encoding="utf-8") if source.exists() else ""
    for word in words:
        if not known or (word.startswith("--") and f" {word[2:].replace('-', '_')}: " not in known):
            refuse(page, word, "the program has no such command or option")


def command(page: str, line: str) -> str | None:
    """A line for the script, or None when it was looked at here."""
    words = shlex.split(line, comments=True)
    while words and (words[0] == "nice" or words[0] == "-n" or words[0].isdigit()):
        words = words[1:]
    if words and re.fullmatch(r"\w+=\S+", words[0]) and "$(" not in words[0]:
        words = words[1:]  # a variable
    kinds = {"make": make, "python": python, "cargo": cargo, "go": go, "swift": swift, "ember": ember}
    match words:
        case []:
            return None
        case [first, *rest] if first in kinds:
            kinds[first](page, rest)
            return None
        # What is installed is the reader's; the lines with a compiler are run by tests/packaging/install.sh.
        case ["scripts/setup.sh", "check" | "install"] | ["apt-get", "install", *_] | ["pip", "install", *_] | ["python3", "-m", "pip", "install", *_]:
            return None
        case ["cc", "-Iinclude", "examples/c/hello.c", *_] | ["cc", "program.c", "$(pkg-config", *_]:
            return None
        # `make test-chats` runs that with the packages of `make lib`.
        case ["tests/packages/run.sh", "build/packages"]:
            return None
        # bindings/pages.sh compiles and runs that program so.
        case ["javac", "-d", "classes", "bindings/java/ember/*.java", "Chat.java"]:
            return None
        case ["java", "--enable-native-access=ALL-UNNAMED", "-Dember.library=build/lib/libember.so", "-cp", "classes", "Chat", _]:
            return None
        # bindings/dotnet/test.sh compiles and runs that program so.
        case ["bindings/dotnet/compile.sh", "Ember.dll"] | ["mcs", "-r:Ember.dll", "Chat.cs"]:
            return None
        case ["EMBER_LIBRARY=build/lib/libember.so", "mono", "Chat.exe", _] | ["mono", "Chat.exe", _]:
            return None
        # bindings/cpp/tests/run.sh compiles that program so.
        case ["c++", "-std=c++17", "-Iinclude", "-Ibindings/cpp", "hello.cpp", *_]:
            return None
        case ["cc", "-I../../include", "bench/stream.c", *_]:
            return "(cd bindings/go && " + re.sub(r"model\.gguf \d+ \d+", "../../tales.gguf 4 1", line) + ")"
        case [first, *_] if first.startswith(("build/bin/", "model=$(scripts/")) or first == "printf":
            for name, ours in NAMES.items():
                line = line.replace(name, ours)
            return line
    refuse(page, line, "nobody runs commands like this")


def main(folder: str, pages: list[str]) -> None:
    script = []
    for page in pages:
        text = (ROOT / page).read_text(encoding="utf-8")
        for language, name, block in re.findall(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            if language == "sh":
                lines = block.replace("\\\n", " ").splitlines()
                script += [ours for line in lines if (ours := command(page, line))]
            elif page.startswith("bindings/"):
                continue
            elif page.startswith("docs/guides/") and name != "part":
                continue  # tests/capi/guide.sh runs it
            elif page == "README.md" and language == "python":
                continue  # bindings/python/tests/test_docs.py runs it
            elif page == "README.md" and "int main(" in block:
                (pathlib.Path(folder) / "readme_program.c").write_text(block, encoding="utf-8")
            elif language == "c" and "int main(" not in block:
                parts = [part for part in PARTS if f"{part}(" in block]
                if not parts:
                    refuse(page, block, "this part of a program is for no model that is known")
                if parts[0] == "ember_chat_options_set_tools" and block.count("\n") >= 20:
                    refuse(page, block, "the streamed chat with a tool has 20 lines or more")
                model, show = PARTS[parts[0]]
                prelude = PRELUDE if "must(" in block else ""
                program = PROGRAM % {"model": model, "block": block, "show": show, "prelude": prelude}
                (pathlib.Path(folder) / f"{parts[0]}.c").write_text(program, encoding="utf-8")
            elif language != "c":
                refuse(page, block, f"a block of {language or 'no language'}")
    (pathlib.Path(folder) / "commands").write_text("\n".join(script) + "\n", encoding="utf-8")


main(sys.argv[1], sys.argv[2:])
