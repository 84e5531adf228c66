"""Writes tests/fixtures/shift.json: logits after a text of which a part in the midst was forgotten, by llama.cpp.

    python tests/oracle/shift_golden.py

For each of some of the tiny models: `first` tokens of its prompt are run; of these `drop` after the first `keep` are taken
out (llama_memory_seq_rm) and those after them moved forward (llama_memory_seq_add, which re-rotates their keys); then the rest
of the prompt is run. `logits` are those after its last token, everything in float32.

YaRN and LongRoPE are not among them: llama.cpp stretches moved keys by their factor a second time (llama-kv-cache.cpp gives
the shift the factor that the keys have already), so they are not what a key at the new position is. The test with one layer
has both. Nor is SmolLM3, whose layers without rotation llama.cpp turns all the same.
"""

import json
from pathlib import Path

import llama_cpp as c

from llamacpp import LlamaCpp

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
# Rotary styles, parts of heads, linear scaling, factors, bases for each layer, norms of keys.
CASES = [
    "llama-tied-f32", "llama3-untied-biased", "llama-linear-rope-mha", "qwen2-tied", "qwen3-tied", "gemma3",
    "gptneox-parallel", "phi2", "stablelm-biased", "olmo2",
    "starcoder2",
]


def shifted(name):
    """One case."""
    case = json.loads((FIXTURES / f"models/{name}.json").read_text())
    tokens = case["tokens"]
    first, keep = len(tokens) - 4, 3
    drop = first // 3
    llama = LlamaCpp(FIXTURES / f"models/{name}.gguf", n_ctx=case.get("n_ctx", 256), kv="f32", flash=False)
    llama.decode(tokens[:first], last=1)
    memory = c.llama_get_memory(llama.ctx)
    assert c.llama_memory_can_shift(memory), name
    assert c.llama_memory_seq_rm(memory, 0, keep, keep + drop), name
    c.llama_memory_seq_add(memory, 0, keep + drop, -1, -drop)
    llama.n_past -= drop
    logits = llama.decode(tokens[first:], last=1)[0]
    llama.close()
    return {"name": name, "n_ctx": case.get("n_ctx", 256), "first": first, "keep": keep, "drop": drop,
            "logits": [round(float(x), 6) for x in logits]}


def main():
    cases = [shifted(name) for name in CASES]
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (FIXTURES / "shift.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
