"""Takes the guides apart: guide.py FOLDER PAGE…

Every block becomes files in FOLDER, NN-what, in the order of the pages:

    ```c NAME.c, ```cmake NAME     the file NAME as it stands
    ```c prelude                   goes before all blocks that are no programs of their own
    ```c, ```c chat                NN-run.c: a program; unless it has a main function, its static functions are put before
                                   one that has a `model` and a `context` (chat: of the chat model), the rest into it
    ```cpp                         NN-run.cpp: a program
    ```sh                          NN-run.sh: commands
    ```c part                      is for tests/capi/readme.sh, and so are commands that need what was built (build/bin)
    ```text                        NN-out: what the block before prints

Prints the names of what is to be run, in order.
"""

import pathlib
import re
import sys

INCLUDES = """#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ember.h"

"""
MAIN = """
int main(void)
{
    ember_error *first_err = NULL;
    ember_model *model = NULL;
    ember_context *context = NULL;
    must(ember_model_load("%s.gguf", EMBER_NUL_TERMINATED, NULL, &model, &first_err), &first_err);
    must(ember_context_new(model, NULL, &context, &first_err), &first_err);
    {
%s
    }
    ember_context_free(context);
    ember_model_release(model);
    return 0;
}
"""


def program(block: str, prelude: str, model: str) -> str:
    if "int main(" in block:
        return block
    functions = list(re.finditer(r"^static [^\n]*\n\{\n.*?^\}\n", block, re.MULTILINE | re.DOTALL))
    at = functions[-1].end() if functions else 0
    return INCLUDES + prelude + block[:at] + MAIN % (model, block[at:])


def main(folder: str, *guides: str) -> None:
    place, prelude, last = pathlib.Path(folder), "", ""
    blocks = []
    for guide in guides:
        text = pathlib.Path(guide).read_text(encoding="utf-8")
        blocks += [(guide, *block) for block in re.findall(r"^```(\w+) ?(\S*)\n(.*?)^```$", text, re.M | re.S)]
    for i, (guide, language, name, block) in enumerate(blocks):
        number = f"{i:02}"
        if language in ("c", "cmake") and "." in name:
            (place / name).write_text(block, encoding="utf-8")
            continue
        if (language, name) == ("c", "part") or language == "sh" and "build/bin/" in block:
            continue
        if (language, name) == ("c", "prelude"):
            prelude = block
            continue
        if language == "text":
            (place / f"{last}.out").write_text(block, encoding="utf-8")
            continue
        if language == "c" and name in ("", "chat"):
            block = program(block, prelude, name or "model")
        elif name or language not in ("cpp", "sh"):
            sys.exit(f"{guide}: what is a block of {language} {name}?")
        last = f"{number}-run.{language}"
        (place / last).write_text(block, encoding="utf-8")
        print(last)


main(*sys.argv[1:])
