#!/usr/bin/env python3
"""Prints what a golden file has as lines of fields between tabs, for the tests of languages that read no JSON by themselves.

    lines.py dense   text, normalize, dimensions, numbers
    lines.py rank    model, labels, query, text, scores, score behind the query
"""

import json
import sys
from pathlib import Path

FIXTURES = Path(__file__).resolve().parent.parent / "tests/fixtures"


def dense():
    golden = json.loads((FIXTURES / "dense.json").read_text(encoding="utf-8"))
    for case in golden["cases"]:
        if case["base"] == "bert" and case["dense"]:
            for text, row in zip(golden["texts"], case["rows"], strict=True):
                yield text, str(case["normalize"]).lower(), case.get("dimensions", 0), " ".join(map(str, row))


def rank():
    golden = json.loads((FIXTURES / "rank/scores.json").read_text(encoding="utf-8"))
    for name in ("bert-rerank", "bert-labels"):
        want = golden["scores"][name]
        for i, text in enumerate(golden["texts"]):
            pair = want["pairs"][i] if name == "bert-rerank" else ""
            yield name, "|".join(want["labels"]), golden["query"], text, " ".join(map(str, want["texts"][i])), pair


for fields in {"dense": dense, "rank": rank}[sys.argv[1]]():
    print(*fields, sep="\t")
