"""Makes the tiny seeded models of tests/fixtures/models and the numbers that they must give.

Each case is a random `transformers` model in float32, written as GGUF under llama.cpp's conventions, next to
NAME.logits.f32 (little-endian float32, one row of n_vocab logits per prompt token, PyTorch with eager
attention) and NAME.json (the prompt's tokens, n_vocab and where the numbers come from). Encoders have
NAME.embd.f32 instead: one row of n_embd last hidden states per token. A quantized case stores its weight
matrices in that format, and its logits are those of the dequantized weights in float32. The cases are in the
package `fixtures`.

    python make_fixtures.py [--out FOLDER] [NAME ...]     (all cases, or those whose name begins so)
"""

import argparse
from pathlib import Path

import torch

from fixtures.cases import CASES, DIRECT
from fixtures.core import DEFAULT_OUTPUT, make_case


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUTPUT, help="folder to write to (%(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        if not args.names or any(case.name.startswith(name) for name in args.names):
            for kind in case.types:
                make_case(case, kind, args.out)
    for case in DIRECT:
        if not args.names or any(case.name.startswith(name) for name in args.names):
            case.make(args.out)


if __name__ == "__main__":
    main()
