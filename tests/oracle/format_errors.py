"""Records how far llama.cpp is from float32 on every quantized fixture: tests/fixtures/models/llamacpp_errors.json.

The error is the relative root-mean-square one over all logits of many prompts of random tokens: on one prompt it is a
matter of chance by some percent, and the more so the narrower the model. Hence 64 prompts where rows are 64 wide and 16
where they are 256; the file says how many of the recorded ones each fixture has. They are recorded as numbers below
65,536, whose remainders by the size of the vocabulary are the tokens. The float32 numbers are Ember's own of the
dequantized file; the tests hold those to PyTorch on the prompt that make_fixtures.py recorded.

llama.cpp runs with its default settings (f16 KV cache, flash attention as it chooses, the prompt in one batch) on one
thread: once with weights rearranged for the CPU ("repack", its default: AMX tiles or interleaved rows where the CPU and
the format allow) and once without ("plain": a dot product per weight row); and as plain, but with an f32 KV cache and
without flash attention, which rounds to f16 under either cache ("plain_f32_kv"): there hardly anything but the rounding
of activations is left.

Printed are llama.cpp's error in its default settings, Ember's with an f32 KV cache as a fraction of it, for the scalar
definition and the kernels of this CPU, and how far that fraction is from prompt to prompt (standard deviation).

    make build/bin/logits && python format_errors.py [OUTPUT.json]
"""

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import gguf
import llama_cpp
import numpy as np

from llamacpp import LlamaCpp

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests/fixtures/models"
N_PROMPTS, N_TOKENS = 64, 48
WIDTH = 64  # of the models that need N_PROMPTS
SETTINGS = {"repack": dict(), "plain": dict(repack=False), "plain_f32_kv": dict(repack=False, kv="f32", flash=False)}
BACKENDS = {"definition": ["--scalar"], "fast": ["-t", "1"]}


def cpu():
    """The processor, and what llama.cpp uses of it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    name = next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), "unknown")
    features = llama_cpp.llama_print_system_info().decode()
    return f"{name}; {features.strip().strip('|').strip()}"


def expand(reader, target):
    """Writes the file again with its weights in float32."""
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            writer.add_key_value(key, field.contents(), field.types[0])
    for t in reader.tensors:
        writer.add_tensor(t.name, np.ascontiguousarray(gguf.dequantize(t.data, t.tensor_type).astype(np.float32)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def ember(path, prompts, options):
    """Ember's logits of every position of the prompts: [prompts, tokens, n_vocab]."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.f32"
        for tokens in prompts:
            command = [ROOT / "build/bin/logits", *options, path, out, *map(str, tokens)]
            subprocess.run(command, check=True, capture_output=True)
            found.append(np.fromfile(out, "<f4").reshape(len(tokens), -1))
    return np.stack(found)


def llamacpp(path, prompts, options):
    """llama.cpp's, in the same shape."""
    model, found = LlamaCpp(path, **options), []
    for tokens in prompts:
        model.reset()
        found.append(model.decode(tokens))
    model.close()
    return np.stack(found)


def errors(path, reader, numbers):
    """How many prompts, and the relative RMS error over all and over each, under all SETTINGS and BACKENDS."""
    width, n_vocab = next(t.shape.tolist() for t in reader.tensors if t.name == "token_embd.weight")
    prompts = (numbers[:N_PROMPTS * WIDTH // width] % n_vocab).tolist()
    with tempfile.TemporaryDirectory() as folder:
        exact = Path(folder) / "exact.gguf"
        expand(reader, exact)
        truth = ember(exact, prompts, BACKENDS["fast"]).astype(np.float64)
    squares, found = np.sum(truth ** 2, axis=(1, 2)), {}
    for run, table in [(llamacpp, SETTINGS), (ember, BACKENDS)]:
        for name, options in table.items():
            wrong = np.sum((run(path, prompts, options) - truth) ** 2, axis=(1, 2))
            found[name] = float(np.sqrt(wrong.sum() / squares.sum())), np.sqrt(wrong / squares)
    return len(prompts), found


def write(output, numbers, table):
    """The file, with a line for every prompt and every fixture."""
    facts = dict(llamacpp=f"llama-cpp-python {version('llama_cpp_python')}",
                 settings="defaults, 1 thread, each prompt in one batch", cpu=cpu())
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in facts.items()]
    rows = [f"  {json.dumps(row)}" for row in numbers.tolist()]
    lines.append(' "prompts": [\n' + ",\n".join(rows) + "\n ]")
    rows = [f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in table.items()]
    lines.append(' "errors": {\n' + ",\n".join(rows) + "\n }")
    output.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main():
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else FIXTURES / "llamacpp_errors.json"
    numbers, table = np.random.default_rng(1).integers(0, 1 << 16, (N_PROMPTS, N_TOKENS)), {}
    for path in sorted(FIXTURES.glob("*.gguf")):
        reader = gguf.GGUFReader(path)
        if all(t.tensor_type == gguf.GGMLQuantizationType.F32 for t in reader.tensors):
            continue
        n_prompts, found = errors(path, reader, numbers)
        table[path.stem] = dict(n_prompts=n_prompts, **{name: float(f"{found[name][0]:.4e}") for name in SETTINGS})
        total, each = found["repack"]
        fractions = [f"{name} {found[name][0]:.2e} = {found[name][0] / total:.3f} ± {np.std(found[name][1] / each):.3f}"
                     for name in BACKENDS]
        print(f"{path.stem:16} llama.cpp {total:.2e} ± {np.std(each):.1e}   " + "   ".join(fractions), flush=True)
    write(output, numbers, table)


if __name__ == "__main__":
    main()
