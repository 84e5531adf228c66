"""Runs real llama.cpp over the fixtures of tests/fixtures/models and prints how far its numbers are away.

An F32 case that is far off would mean that its file breaks llama.cpp's conventions. The quantized cases show
what an engine with 8-bit activations makes of them. The output is the table in that folder's README. Where
llama.cpp itself leaves the model's definition, DEVIATIONS says how, and only what it still computes is compared.

    python check_fixtures.py [--models FOLDER] [NAME ...]     (all, or those whose name begins so)
"""

import argparse
import json
from pathlib import Path

import numpy as np

from fixtures.core import DEFAULT_OUTPUT
from llamacpp import LlamaCpp, relative_rms, top_gap

# Name to (number of first positions that can be compared, why).
DEVIATIONS = {
    "llama-window": (8, "ignores the window of arch llama"),
    "phi3-window": (12, "ignores the window of arch phi3"),
    "starcoder2-window": (10, "ignores the window of arch starcoder2"),
}


def expected(path, facts):
    """What PyTorch gives, one row per token."""
    if facts.get("output") == "hidden":
        return np.fromfile(path.with_suffix(".embd.f32"), "<f4").reshape(len(facts["tokens"]), facts["n_embd"])
    return np.fromfile(path.with_suffix(".logits.f32"), "<f4").reshape(len(facts["tokens"]), facts["n_vocab"])


def logits(path, facts, kv, single):
    """llama.cpp's logits of the prompt, in one batch or token by token."""
    model = LlamaCpp(path, n_ctx=facts.get("n_ctx", 0), kv=kv, flash=False)
    tokens = facts["tokens"]
    found = np.concatenate([model.decode(part) for part in ([[t] for t in tokens] if single else [tokens])])
    model.close()
    return found


def row(path):
    """One line of the table."""
    facts = json.loads(path.with_suffix(".json").read_text())
    rows, why = DEVIATIONS.get(path.stem, (len(facts["tokens"]), ""))
    truth = expected(path, facts)[:rows]
    errors = []
    if facts.get("output") == "hidden":
        model = LlamaCpp(path, embeddings=True, flash=False)
        found = model.encode(facts["tokens"])[:rows]
        model.close()
        errors = ["–", f"{relative_rms(found, truth):.1e}", "–"]
    else:
        for kv, single in [("f16", False), ("f32", False), ("f32", True)]:
            found = logits(path, facts, kv, single)[:rows]
            errors.append(f"{relative_rms(found, truth):.1e}")
    differs = found.argmax(1) != truth.argmax(1)
    gap = f"{top_gap(truth)[differs].max():.4f}" if differs.any() else "–"
    note = f"first {rows}: llama.cpp {why}" if why else ""
    return f"| {path.stem} | {len(facts['tokens'])} | {' | '.join(errors)} | {differs.sum()} | {gap} | {note} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--models", type=Path, default=DEFAULT_OUTPUT, help="folder of the files (%(default)s)")
    args = parser.parse_args()
    print("| case | tokens | llama.cpp, f16 KV | llama.cpp, f32 KV | token by token | other winners "
          "| largest gap of those | compared |")
    print("|---|---|---|---|---|---|---|---|")
    for path in sorted(args.models.glob("*.gguf")):
        if not args.names or any(path.stem.startswith(name) for name in args.names):
            try:
                print(row(path), flush=True)
            except RuntimeError as error:
                print(f"| {path.stem} | – | – | – | – | – | – | {error} |", flush=True)


if __name__ == "__main__":
    main()
