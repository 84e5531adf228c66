"""Greedy continuations of SmolLM2-135M-Instruct by llama.cpp, into tests/fixtures/greedy/smollm2.json.

Raw completion without a chat template; llama.cpp with its default settings (f16 KV cache, the prompt in one
batch, then token by token). The file is quantized, so engines that round activations differently drift apart
by some hundredths, and a correct engine may take the other side of a near-tie. So each step carries the five
largest logits, and beside each the logit that the same history gets from the dequantized weights in float32
(PyTorch): the truth that both engines approximate.

The file, one entry per prompt:
    prompt, prompt_ids, ids (the generated tokens), text
    last     the 20 largest logits after the prompt: [[id, llama.cpp, float32], ...]
    steps    the 5 largest logits before each generated token, in the same form

    python llamacpp_greedy.py [OUTPUT.json]     (the model is looked for in $EMBER_MODELS)
"""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

import torch_llama
from llamacpp import LlamaCpp, relative_rms, top_gap

MODELS = Path(os.environ.get("EMBER_MODELS", Path.home() / ".cache" / "ember" / "models"))
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "fixtures" / "greedy" / "smollm2.json"
N_TOKENS = 64
PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
    "The three most important things about photosynthesis are:\n1.",
    "Zoë’s café in Malmö opens at",
]


def greedy(model, prompt_ids):
    """Generated ids, and the logits before each: [N_TOKENS, n_vocab]."""
    model.reset()
    rows, ids = [model.decode(prompt_ids)[-1]], []
    while True:
        ids.append(int(rows[-1].argmax()))
        if model.is_eog(ids[-1]):
            raise SystemExit("the text ends early: choose another prompt")
        if len(ids) == N_TOKENS:
            return ids, np.stack(rows)
        rows.append(model.decode(ids[-1:])[-1])


def largest(found, exact, n):
    """The n largest of one row of logits, with the float32 logits of the same tokens."""
    order = np.argsort(-found, kind="stable")[:n]
    return [[int(i), round(float(found[i]), 4), round(float(exact[i]), 4)] for i in order]


def main():
    torch.set_num_threads(1)
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_OUTPUT
    model = LlamaCpp(MODELS / MODEL, n_ctx=512)
    judge = torch_llama.from_gguf(MODELS / MODEL)
    entries = []
    for prompt in PROMPTS:
        prompt_ids = model.tokenize(prompt)
        ids, found = greedy(model, prompt_ids)
        with torch.no_grad():
            exact = judge(torch.tensor([prompt_ids + ids[:-1]])).logits[0, -N_TOKENS:].numpy()
        text = b"".join(model.token_bytes(i) for i in ids).decode()
        entries.append(dict(prompt=prompt, prompt_ids=prompt_ids, ids=ids, text=text,
                            last=largest(found[0], exact[0], 20),
                            steps=[largest(f, e, 5) for f, e in zip(found, exact)]))
        gaps = top_gap(found)
        others = [(i, round(float(gaps[i]), 3)) for i in range(N_TOKENS) if exact[i].argmax() != ids[i]]
        print(f"{prompt!r}: {text!r}\n  from float32 {relative_rms(found, exact):.1e}, "
              f"smallest gap {gaps.min():.3f}, steps that float32 takes otherwise, with llama.cpp's gap: {others}")
    source = (f"{MODEL}, llama-cpp-python {version('llama_cpp_python')}, defaults, 1 thread; "
              f"float32: torch {torch.__version__}, transformers {version('transformers')}")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(dict(model=MODEL, source=source, prompts=entries), separators=(",", ":"),
                                 ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
