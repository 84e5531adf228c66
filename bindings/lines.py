#!/usr/bin/env python3
"""Prints what a golden file has as lines of fields between tabs, for the tests of languages that read no JSON by themselves.

    lines.py dense   text, normalize, dimensions, numbers
    lines.py rank    model, labels, query, text, scores, score after the query

and of the results that all bindings share:

    lines.py generate    prompt, its tokens, most tokens, stop text, seed, stages (name=value), tokens, text, finish
    lines.py vectors     text, numbers
    lines.py score       prompt, continuation, tokens, log-probabilities, ranks, their sum, greedy
    lines.py shift       prompt's tokens, positions, most tokens, kept, dropped, tokens, finish, shifted
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


def shared():
    return json.loads((FIXTURES.parent / "golden/bindings.json").read_text(encoding="utf-8"))


def numbers(values):
    return " ".join(map(str, values))


def generate():
    for case in shared()["generate"]:
        assert len(case["stops"]) < 2
        sampler = case["sampler"] or {"seed": "", "stages": []}
        stages = " ".join(f"{one['stage']}={one['value']}" for one in sampler["stages"])
        yield (case["prompt"], numbers(case["prompt_tokens"]), case["max_tokens"], "".join(case["stops"]), sampler["seed"], stages,
               numbers(case["tokens"]), case["text"], case["finish"])


def vectors():
    golden = shared()["embeddings"]
    for text, vector in zip(golden["texts"], golden["vectors"], strict=True):
        yield text, numbers(vector)


def score():
    golden = shared()["score"]
    columns = [numbers(one[name] for one in golden["tokens"]) for name in ("token", "logprob", "rank")]
    yield golden["prompt"], golden["continuation"], *columns, golden["logprob"], str(golden["is_greedy"]).lower()


def shift():
    golden = shared()["shift"]
    yield (numbers(golden["prompt_tokens"]), golden["n_ctx"], golden["max_tokens"], golden["n_keep"], golden["n_drop"],
           numbers(golden["tokens"]), golden["finish"], golden["n_shifted"])


KINDS = {kind.__name__: kind for kind in (dense, rank, generate, vectors, score, shift)}
for fields in KINDS[sys.argv[1]]():
    line = "\t".join(map(str, fields))
    assert line.count("\t") == len(fields) - 1 and "\n" not in line, line
    print(line)
