"""Compares Ember's logits with llama.cpp's on the same model file and tokens, for a human to read.

    python compare_logits.py MODEL.gguf ID ID ... [--ember build/bin/logits] [--kv f32]
    python compare_logits.py MODEL.gguf --text "The capital of France is"

Runs the command line tool `logits MODEL OUT.f32 ID ID ...`, which writes the float32 logits of every position
row by row, and prints the relative root-mean-square error, the correlation, and every position where the two
would choose another token, with how far apart llama.cpp's two candidates are.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from llamacpp import KV_TYPES, LlamaCpp, relative_rms, top_gap


def arguments():
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("ids", type=int, nargs="*", metavar="ID")
    parser.add_argument("--text", help="text whose tokens are used instead of IDs, tokenized by llama.cpp")
    parser.add_argument("--ember", type=Path, default=Path("build/bin/logits"), help="Ember's tool (%(default)s)")
    parser.add_argument("--kv", choices=KV_TYPES, default="f16", help="llama.cpp's KV cache (%(default)s)")
    parser.add_argument("--flash", action="store_true", help="let llama.cpp use flash attention")
    parser.add_argument("--threads", type=int, default=1, help="llama.cpp's threads (%(default)s)")
    args = parser.parse_args()
    if bool(args.ids) == (args.text is not None):
        parser.error("give either token ids or --text")
    return args


def ember_logits(tool, model, ids, n_vocab):
    """Runs Ember's tool; [len(ids), n_vocab]."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "ember.f32"
        subprocess.run([tool, model, out, *map(str, ids)], check=True)
        values = np.fromfile(out, "<f4")
    if values.size != len(ids) * n_vocab:
        sys.exit(f"{tool} wrote {values.size} numbers, {len(ids)} x {n_vocab} expected")
    return values.reshape(len(ids), n_vocab)


def report(ember, llamacpp, ids):
    """Prints the comparison, llama.cpp's logits as the expected ones."""
    n = len(ids)
    agree = ember.argmax(1) == llamacpp.argmax(1)
    each = [relative_rms(e, l) for e, l in zip(ember, llamacpp)]
    worst = int(np.argmax(each))
    print(f"positions              {n} of {ember.shape[1]} logits")
    print(f"relative RMS error     {relative_rms(ember, llamacpp):.3e} (worst position {worst}: {each[worst]:.3e})")
    print(f"correlation            {np.corrcoef(ember.ravel(), llamacpp.ravel())[0, 1]:.8f}")
    print(f"largest difference     {np.abs(ember - llamacpp).max():.4f}")
    print(f"same winner            {agree.sum()} of {n}")
    gaps = top_gap(llamacpp)
    for i in np.flatnonzero(~agree):
        ours, theirs = ember[i].argmax(), llamacpp[i].argmax()
        print(f"  position {i} after token {ids[i]}: Ember {ours}, llama.cpp {theirs}; llama.cpp has them "
              f"{llamacpp[i, theirs] - llamacpp[i, ours]:.4f} apart, Ember {ember[i, ours] - ember[i, theirs]:.4f} "
              f"(llama.cpp's top-2 gap {gaps[i]:.4f})")


def main():
    args = arguments()
    model = LlamaCpp(args.model, kv=args.kv, flash=None if args.flash else False, n_threads=args.threads,
                     n_ctx=max(256, len(args.ids), len((args.text or "").encode()) + 8))
    ids = args.ids or model.tokenize(args.text)
    llamacpp = model.decode(ids)
    model.close()
    if args.text:
        print("tokens                ", *ids)
    report(ember_logits(args.ember, args.model, ids, llamacpp.shape[1]), llamacpp, ids)


if __name__ == "__main__":
    main()
