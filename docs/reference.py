"""Prepares include/ember.h for doxygen: reference.py HEADER writes it to standard output with the comment at its top as that of
the file, and without the lines of `=` around the titles of sections. The header has the groups itself."""

import re
import sys


def main(path: str) -> None:
    text = open(path, encoding="utf-8").read()
    text = text.replace("/*\n", "/** @file\n", 1)
    print(re.sub(r"^/\* =+\n \* (.*)\n \* =+ \*/\n", r"/* \1 */\n\n\n", text, flags=re.MULTILINE), end="")


main(sys.argv[1])
