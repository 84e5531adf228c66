#!/usr/bin/env python3
"""Where the bytes of the library are: its sections, and its code by crate, by module of Ember, and in copies.

    scripts/bytes.py [LIBRARY]

LIBRARY has its symbols (default: build/lib/libember.so, which make lib builds). A generic function counts where it was written, so what
Ember has of the standard library's sorting counts as core's. A copy is a function whose name, without its types, another function has
too: one for each type that it was made for.
"""

import collections
import re
import subprocess
import sys

library = sys.argv[1] if len(sys.argv) > 1 else "build/lib/libember.so"


def table(title, sizes, most):
    """The largest, and the rest in one line."""
    total = sum(sizes.values())
    print(f"\n{title} ({total:,} bytes)")
    ordered = sorted(sizes.items(), key=lambda item: -item[1])
    for name, size in ordered[:most]:
        print(f"{size:12,}  {100 * size / total:5.1f} %  {name}")
    rest = sum(size for _, size in ordered[most:])
    if rest:
        print(f"{rest:12,}  {100 * rest / total:5.1f} %  {len(ordered) - most} others")


sections = {}
for line in subprocess.check_output(["readelf", "-SW", library], text=True).splitlines():
    found = re.match(r" *\[ *\d+\] (\.\S+) +(\S+) +\S+ +\S+ +(\S+) \S+ +(\w*A\w*) ", line)
    if found and found[2] != "NOBITS":
        sections[found[1]] = int(found[3], 16)
table("What is loaded, by section", sections, 8)

functions = collections.defaultdict(list)
for line in subprocess.check_output(["nm", "-SC", "--radix=d", "--defined-only", library], text=True).splitlines():
    found = re.match(r"\d+ (\d+) [tTwW] (.*)", line)
    if found:
        functions[found[2]].append(int(found[1]))
crates, modules, copies = collections.Counter(), collections.Counter(), collections.Counter()
for name, sizes in functions.items():
    first = re.search(r"[A-Za-z_]\w*", re.sub(r"\b(mut|const|dyn|impl)\b", "", name))
    crate = first[0] if first else "?"
    crates[crate if f"{crate}::" in name else "other"] += sum(sizes)
    inside = re.search(r"\bember::(\w+)(?:::(\w+))?", name)
    if inside and crate == "ember":
        modules["::".join(part for part in inside.groups() if part and part[0].islower())] += sum(sizes)
    if len(sizes) > 1:
        copies[crate if crate != "ember" or not inside else f"ember::{inside[1]}"] += sum(sizes) - max(sizes)
table("Code by crate", crates, 20)
table("Code of Ember by module", modules, 30)
table("Copies: what functions of one name take beyond the largest of them", copies, 12)
