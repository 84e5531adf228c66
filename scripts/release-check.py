#!/usr/bin/env python3
"""Whether all that names Ember's version agrees, and the changelog is fit for a release.

    scripts/release-check.py

The version is that of Cargo.toml.
"""

import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "packages"))
from common import ROOT, version  # noqa: E402

# Where the version stands: the file, and an expression whose groups are the version, joined by points. All that it finds count.
PLACES = [
    ("Cargo.lock", r'name = "ember-inference"\nversion = "(.*)"'),
    ("cli/Cargo.toml", r'^version = "(.*)"'),
    ("cli/Cargo.lock", r'name = "ember-cli"\nversion = "(.*)"'),
    ("include/ember.h", r"#define EMBER_VERSION_MAJOR (\d+)\n(?s:.*?)#define EMBER_VERSION_MINOR (\d+)\n(?s:.*?)#define EMBER_VERSION_PATCH (\d+)\n"),
    ("include/ember.h", r'version of the library at run time, for example "(.*?)"'),
    ("bindings/python/pyproject.toml", r'^version = "(.*)"'),
    ("bindings/node/package.json", r'^  "version": "(.*)"'),
    ("bindings/node/library.mjs", r'The version of the library, "(.*?)"'),
    ("bindings/go/ember.go", r'Version is that of the library at run time, for example "(.*?)"'),
    ("bindings/java/ember/Library.java", r'The version, for example "(.*?)"'),
    ("bindings/dotnet/Ember/Library.cs", r'The version, for example "(.*?)"'),
    ("bindings/swift/Sources/Ember/EmberLibrary.swift", r'version of the library at run time, for example "(.*?)"'),
]
# Where its first two numbers stand.
SHORT = [("docs/install.md", r"find_package\(Ember (\S+) "), ("docs/c.md", r"find_package\(Ember (\S+) ")]
MOST_LINES = 40


def problems():
    mine = version()
    for expected, places in ((mine, PLACES), (mine.rsplit(".", 1)[0], SHORT)):
        for name, expression in places:
            found = [".".join(match.groups()) for match in re.finditer(expression, (ROOT / name).read_text(), re.M)]
            if not found:
                yield f"{name} names no version: nothing is like {expression}"
            yield from (f"{name} has version {other}, Cargo.toml {expected}" for other in found if other != expected)
    yield from changelog(mine)


def changelog(mine):
    text = (ROOT / "CHANGELOG.md").read_text()
    sections = re.findall(r"^## \[(.*?)\](.*)\n((?:(?!## ).*\n?)*)", text, re.M)
    if not sections or sections[0][0] != mine:
        yield f"CHANGELOG.md begins with {sections[0][0] if sections else 'nothing'}, Cargo.toml has version {mine}"
    for name, rest, body in sections:
        lines = body.strip().count("\n") + 1
        if lines > MOST_LINES:
            yield f"CHANGELOG.md has {lines} lines on {name}, of {MOST_LINES} at most"
        released = re.fullmatch(r" - \d{4}-\d\d-\d\d", rest)
        if not released and rest != " - not released":
            yield f'CHANGELOG.md: after [{name}] stands "{rest.strip()}", not "- YEAR-MONTH-DAY" or "- not released"'
        if (name != mine or released) and not (ROOT / f"tests/golden/ember-v{name}.h").is_file():
            yield f"there is no tests/golden/ember-v{name}.h; please copy include/ember.h of that release"


found = list(problems())
for problem in found:
    print(f"release-check: {problem}", file=sys.stderr)
if found:
    sys.exit(1)
print(f"release-check: all agree on {version()}")
