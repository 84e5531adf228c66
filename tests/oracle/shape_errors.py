"""Prints how far Ember and llama.cpp are from float32 on quantized models of random weights in the shapes of real ones.

    make build/bin/logits && python shape_errors.py FILE.gguf ...

The files are those of bench/shapes.py, quantized. The error is the relative root-mean-square one over the logits of PROMPTS
prompts of 48 random tokens. In models with experts it is mostly that of positions where rounding has chosen another expert, which is
a matter of chance; hence the quartiles over all positions after it. Float32 is Ember's result on the dequantized file, as in format_errors.py. Both engines run with their
defaults on one thread, and llama.cpp also with an f32 KV cache, without flash attention and without rearranged weights.
"""

import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np

from format_errors import ember, expand, llamacpp

PROMPTS, N_TOKENS = 12, 48
SETTINGS = {"defaults": dict(n_ctx=512), "f32 KV, plain": dict(n_ctx=512, repack=False, kv="f32", flash=False)}


def error(found, truth):
    """Over all logits, and the quartiles of the positions."""
    wrong, squares = ((found - truth) ** 2).mean(-1), (truth ** 2).mean(-1)
    whole = np.sqrt(wrong.mean() / squares.mean())
    return " ".join(f"{e:.2e}" for e in [whole, *np.quantile(np.sqrt(wrong / squares), [0.25, 0.5, 0.75])])


def main():
    print(f"| file | Ember | {' | '.join(f'llama.cpp, {name}' for name in SETTINGS)} |\n|---|---|{'---|' * len(SETTINGS)}")
    for path in sys.argv[1:]:
        reader = gguf.GGUFReader(path)
        n_vocab = next(t.shape.tolist() for t in reader.tensors if t.name == "token_embd.weight")[1]
        prompts = np.random.default_rng(7).integers(3, n_vocab, (PROMPTS, N_TOKENS)).tolist()
        with tempfile.TemporaryDirectory(dir=Path(path).parent) as folder:
            whole = Path(folder) / "f32.gguf"
            expand(reader, whole)
            truth = ember(whole, prompts, ["-t", "2"])
        row = [error(ember(path, prompts, ["-t", "1"]), truth)]
        row += [error(llamacpp(path, prompts, options), truth) for options in SETTINGS.values()]
        print(f"| {Path(path).stem} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
