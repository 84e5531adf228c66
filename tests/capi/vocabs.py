#!/usr/bin/env python3
"""The C program `tokenize` on llama.cpp's vocabulary files: the tokens of its test vectors.

    tests/capi/vocabs.py PROGRAM [TEXTS]

Takes so many texts of each vocabulary, evenly spread (6), or all (0). The files are those of `make models`.
"""

import os
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(os.environ.get("EMBER_MODELS") or pathlib.Path.home() / ".cache/ember/models") / "vocabs"


def main():
    program, most = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 6
    wrong = n_texts = 0
    files = sorted(FOLDER.glob("*.gguf.inp"))
    for inp in files:
        vocabulary = inp.with_suffix("")
        ids = [[int(id) for id in line.split()] for line in inp.with_suffix(".out").read_text().splitlines()]
        texts = inp.read_bytes().split(b"\n__ggml_vocab_test__\n")[: len(ids)]
        for i in range(0, len(texts), max(1, len(texts) // most) if most else 1):
            command = [program, str(vocabulary), "--no-bos", "--no-special"]
            done = subprocess.run(command, input=texts[i], stdout=subprocess.PIPE, check=True)
            n_texts += 1
            if [int(id) for id in done.stdout.split()] != ids[i]:
                wrong += 1
                print(f"{vocabulary.name}, text {i}: {done.stdout.decode().strip()}, not {ids[i]}")
    print(f"vocabs: {n_texts} texts of {len(files)} vocabularies, {wrong} wrong")
    if wrong or not files:
        sys.exit(1)


if __name__ == "__main__":
    main()
