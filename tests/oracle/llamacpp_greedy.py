"""Greedy continuations by llama.cpp of real quantized models, into tests/fixtures/greedy/{smollm2,gemma3}.json.

Raw completion without a chat template; llama.cpp with its default settings (f16 KV cache, the prompt in one
batch, then token by token). The files are quantized, so engines that round activations differently drift apart
by some hundredths, and a correct engine may take the other side of a near-tie. So each step carries the five
largest logits, and beside each the logit that the same history gets from the dequantized weights in float32
(PyTorch): the truth that both engines approximate.

The file, one entry per prompt:
    prompt, prompt_ids, ids (the generated tokens), text
    last     the 20 largest logits after the prompt: [[id, llama.cpp, float32], ...]
    steps    the 5 largest logits before each generated token, in the same form
beside near_ties (how many steps each of the comparisons below takes otherwise) and widest_tie (how far the token it
takes is below llama.cpp's, at most);
and for Gemma, under "long", one more such entry, whose prompt is in the file that `prompt_file` names: 2,000
tokens, four times the window of its local layers.

Printed beside it: the steps where float32, or llama.cpp without flash attention under either KV cache with the
whole text in one batch, would take another token.

    python llamacpp_greedy.py [smollm2] [gemma3]     (the models are looked for in $EMBER_MODELS)
"""

import argparse
import json
import os
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

import torch_gemma
import torch_llama
from llamacpp import LlamaCpp, relative_rms, top_gap

MODELS = Path(os.environ.get("EMBER_MODELS", Path.home() / ".cache" / "ember" / "models"))
OUTPUT = Path(__file__).resolve().parent.parent / "fixtures" / "greedy"
N_TOKENS, N_LONG = 128, 32
PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
    "Zoë’s café in Malmö opens at",
    "The difference between a virus and a bacterium is that",
    "Ingredients:\n- 2 eggs\n- 100 g flour\n",
    "SELECT name, COUNT(*) FROM orders",
    "今日はとても",
    "Q: Why is the sky blue?\nA:",
    "The old lighthouse keeper had not spoken to anyone in eleven years, and",
]
# Name of the output to model file, its loader in PyTorch, and the file of a long prompt.
SUBJECTS = {
    "smollm2": ("SmolLM2-135M-Instruct.Q4_1.gguf", torch_llama.from_gguf, None),
    "gemma3": ("gemma-3-270m.Q4_K_M.gguf", torch_gemma.from_gguf, "moby-dick.txt"),
}
VARIANTS = {"f16": dict(kv="f16", flash=False), "f32": dict(kv="f32", flash=False)}


class Subject:
    """One model file in llama.cpp, in variants of llama.cpp, and in PyTorch."""

    def __init__(self, path, load):
        open_it = lambda **options: LlamaCpp(path, n_ctx=2304, n_ubatch=512, **options)
        self.model = open_it()
        self.variants = {name: open_it(**options) for name, options in VARIANTS.items()}
        self.judge = load(path)

    def greedy(self, prompt_ids, n):
        """n generated ids, and the logits before each: [n, n_vocab]."""
        self.model.reset()
        rows, ids = [self.model.decode(prompt_ids, last=1)[0]], []
        while True:
            ids.append(int(rows[-1].argmax()))
            if self.model.is_eog(ids[-1]):
                raise SystemExit("the text ends early: choose another prompt")
            if len(ids) == n:
                return ids, np.stack(rows)
            rows.append(self.model.decode(ids[-1:])[0])

    def others(self, history, n):
        """What float32 and the variants make of the last n positions: name to [n, n_vocab]."""
        with torch.no_grad():
            found = {"float32": self.judge(torch.tensor([history]), logits_to_keep=n).logits[0].numpy()}
        for name, model in self.variants.items():
            model.reset()
            found[name] = model.decode(history, last=n)
        return found

    def entry(self, prompt, n):
        """One entry of the output file, and the steps that others take otherwise: {step: llama.cpp's gap}."""
        prompt_ids = self.model.tokenize(prompt)
        ids, found = self.greedy(prompt_ids, n)
        others = self.others(prompt_ids + ids[:-1], n)
        exact = others["float32"]
        text = b"".join(self.model.token_bytes(i) for i in ids).decode(errors="replace")
        below = {}
        for name, logits in others.items():
            for step in np.flatnonzero(logits.argmax(1) != found.argmax(1)):
                gap = round(float(found[step].max() - found[step, logits[step].argmax()]), 3)
                below.setdefault(int(step), {})[name] = gap
        errors = ", ".join(f"{name} {relative_rms(logits, found):.1e}" for name, logits in others.items())
        print(f"{prompt[:60]!r} ({len(prompt_ids)}): {text!r}\n  relative RMS distance: {errors}; smallest gap "
              f"{top_gap(found).min():.3f}; others choose otherwise, so far below llama.cpp's choice: {below}",
              flush=True)
        return dict(prompt_ids=prompt_ids, ids=ids, text=text, last=largest(found[0], exact[0], 20),
                    steps=[largest(f, e, 5) for f, e in zip(found, exact)]), below


def largest(found, exact, n):
    """The n largest of one row of logits, with the float32 logits of the same tokens."""
    order = np.argsort(-found, kind="stable")[:n]
    return [[int(i), round(float(found[i]), 3), round(float(exact[i]), 3)] for i in order]


def write(name):
    """Makes one output file."""
    file, load, long_prompt = SUBJECTS[name]
    subject = Subject(MODELS / file, load)
    entries, swaps = [], []
    for prompt in PROMPTS:
        entry, below = subject.entry(prompt, N_TOKENS)
        entries.append(dict(prompt=prompt) | entry)
        swaps += below.values()
    widest = max((gap for gaps in swaps for gap in gaps.values()), default=0)
    ties = {other: sum(other in gaps for gaps in swaps) for other in ("float32", *VARIANTS)}
    print(f"{name}: of {len(PROMPTS) * N_TOKENS} steps others take otherwise {ties}, any of them {len(swaps)}, "
          f"at most {widest} below")
    source = (f"{file}, llama-cpp-python {version('llama_cpp_python')}, defaults, 1 thread; "
              f"float32: torch {torch.__version__}, transformers {version('transformers')}")
    facts = dict(model=file, source=source, near_ties=ties, widest_tie=widest, prompts=entries)
    if long_prompt:
        entry, _ = subject.entry((OUTPUT / long_prompt).read_text(), N_LONG)
        facts["long"] = dict(prompt_file=long_prompt) | entry
    (OUTPUT / f"{name}.json").write_text(json.dumps(facts, separators=(",", ":"), ensure_ascii=False) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", choices=[[], *SUBJECTS], metavar="NAME", help=", ".join(SUBJECTS))
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.names or SUBJECTS:
        write(name)


if __name__ == "__main__":
    main()
