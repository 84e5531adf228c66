"""Ember's error next to llama.cpp's on quantized fixtures over many prompts, where the tests have one.

The float32 numbers are Ember's own of the dequantized file, which the F32 fixtures hold to PyTorch within 2e-6.

    make examples && python format_noise.py gpt2-quant-q4_1 llama-tied-q4_1 …
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
from llamacpp import LlamaCpp

ROOT = Path(__file__).resolve().parents[2]
N_PROMPTS, N_TOKENS = 40, 48


def expand(source, target):
    """Writes the file again with its weights in float32."""
    reader = gguf.GGUFReader(source)
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


def ember(path, tokens, out):
    """Ember's logits of every position."""
    command = [ROOT / "build/bin/logits", path, out, *map(str, tokens)]
    subprocess.run(command, check=True, capture_output=True)
    return np.fromfile(out, "<f4").reshape(len(tokens), -1)


def main():
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        exact, out = Path(folder) / "exact.gguf", Path(folder) / "out.f32"
        for name in sys.argv[1:]:
            source = ROOT / f"tests/fixtures/models/{name}.gguf"
            expand(source, exact)
            peer, errors = LlamaCpp(source), []
            for _ in range(N_PROMPTS):
                tokens = [int(t) for t in rng.integers(0, peer.n_vocab, N_TOKENS)]
                peer.reset()
                reference = ember(exact, tokens, out)
                found = ember(source, tokens, out), np.asarray(peer.decode(tokens))
                errors.append([np.sum((f - reference) ** 2) for f in found])
            ours, theirs = np.array(errors).T
            ratio = np.sqrt(ours / theirs)
            print(f"{name}: {np.sqrt(ours.sum() / theirs.sum()):.3f} of llama.cpp's error, one prompt "
                  f"{ratio.mean():.3f} ± {ratio.std():.3f}")


if __name__ == "__main__":
    main()
