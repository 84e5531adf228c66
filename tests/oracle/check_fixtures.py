"""Runs real llama.cpp over the fixtures of tests/fixtures/models and prints how far its logits are away.

An F32 case that is far off would mean that its file breaks llama.cpp's conventions. The quantized cases show
what an engine with 8-bit activations makes of them. The output is the table in that folder's README.

    python check_fixtures.py [FOLDER]
"""

import json
import sys
from pathlib import Path

import numpy as np

from llamacpp import LlamaCpp, relative_rms, top_gap
from make_fixtures import DEFAULT_OUTPUT


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_OUTPUT
    print("| case | tokens | llama.cpp, f16 KV | llama.cpp, f32 KV | token by token | other winners "
          "| largest gap of those |")
    print("|---|---|---|---|---|---|---|")
    for path in sorted(folder.glob("*.gguf")):
        facts = json.loads(path.with_suffix(".json").read_text())
        tokens = facts["tokens"]
        expected = np.fromfile(path.with_suffix(".logits.f32"), "<f4").reshape(len(tokens), facts["n_vocab"])
        errors = []
        for kv, single in [("f16", False), ("f32", False), ("f32", True)]:
            model = LlamaCpp(path, kv=kv, flash=False)
            parts = [[t] for t in tokens] if single else [tokens]
            found = np.concatenate([model.decode(part) for part in parts])
            model.close()
            errors.append(f"{relative_rms(found, expected):.1e}")
        differs = found.argmax(1) != expected.argmax(1)
        gap = f"{top_gap(expected)[differs].max():.4f}" if differs.any() else "–"
        print(f"| {path.stem} | {len(tokens)} | {' | '.join(errors)} | {differs.sum()} | {gap} |")


if __name__ == "__main__":
    main()
