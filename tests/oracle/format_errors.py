"""Records how far llama.cpp is from float32 on every quantized fixture: tests/fixtures/models/llamacpp_errors.json.

The error is the relative root-mean-square one, over all logits of the prompt, against PyTorch in float32 on the
dequantized weights. llama.cpp runs with its default settings (f16 KV cache, flash attention as it chooses, the
prompt in one batch) on one thread: once with weights rearranged for the CPU ("repack", its default: AMX tiles or
interleaved rows where the CPU and the format allow) and once without ("plain": a dot product per weight row); and
as plain, but with an f32 KV cache and without flash attention, which rounds to f16 under either cache
("plain_f32_kv"): there hardly anything but the rounding of activations is left.

    python format_errors.py [OUTPUT.json]
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import llama_cpp
import numpy as np

from check_fixtures import expected
from fixtures.core import DEFAULT_OUTPUT
from llamacpp import LlamaCpp, relative_rms

SETTINGS = {"repack": dict(), "plain": dict(repack=False), "plain_f32_kv": dict(repack=False, kv="f32", flash=False)}


def cpu():
    """The processor, and what llama.cpp uses of it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    name = next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), "unknown")
    features = llama_cpp.llama_print_system_info().decode()
    return f"{name}; {features.strip().strip('|').strip()}"


def errors(path):
    """llama.cpp's error on one file under each of SETTINGS."""
    facts = json.loads(path.with_suffix(".json").read_text())
    truth, found = expected(path, facts), {}
    for name, options in SETTINGS.items():
        model = LlamaCpp(path, **options)
        found[name] = float(f"{relative_rms(model.decode(facts['tokens']), truth):.4e}")
        model.close()
    return found


def main():
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_OUTPUT / "llamacpp_errors.json"
    table = {}
    for path in sorted(DEFAULT_OUTPUT.glob("*.gguf")):
        if not json.loads(path.with_suffix(".json").read_text())["source"].endswith("matrices F32"):
            table[path.stem] = errors(path)
            print(f"{path.stem:20} " + "  ".join(f"{name} {error:.2e}" for name, error in table[path.stem].items()))
    version_of = f"llama-cpp-python {version('llama_cpp_python')}"
    facts = dict(llamacpp=version_of, settings="defaults, 1 thread, prompt in one batch", cpu=cpu(), errors=table)
    output.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
