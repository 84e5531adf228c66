"""Compares two files of golden results: everything must be equal, but numbers with a fraction to within 0.1."""

import json
import sys

TOLERANCE = 0.1


def compare(want, got, place: str) -> None:
    if isinstance(want, dict) and isinstance(got, dict) and want.keys() == got.keys():
        for key, value in want.items():
            compare(value, got[key], f"{place}.{key}")
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for i, value in enumerate(want):
            compare(value, got[i], f"{place}[{i}]")
    elif isinstance(want, float) and isinstance(got, float):
        if not abs(want - got) <= TOLERANCE:
            sys.exit(f"{place}: {want} there, {got} here")
    elif want != got:
        sys.exit(f"{place}: {want!r} there, {got!r} here")


with open(sys.argv[1], encoding="utf-8") as there, open(sys.argv[2], encoding="utf-8") as here:
    compare(json.load(there), json.load(here), "")
