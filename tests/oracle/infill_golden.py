"""Writes tests/fixtures/infill.json: which candidates llama.cpp's infill sampler leaves, and their probabilities.

    python tests/oracle/infill_golden.py

Needs llama-cpp-python. The vocabulary is the bundled model's. A case is {"logits": [[token, logit], …], "left": [[token,
probability], …]}: tokens that are not named have a logit of -inf.
"""

import ctypes
import json
import pathlib
import random

import llama_cpp as lib

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples/models/ember-tales.gguf"
OUT = ROOT / "tests/fixtures/infill.json"


def main():
    lib.llama_log_set(ctypes.cast(None, lib.llama_log_callback), None)
    parameters = lib.llama_model_default_params()
    parameters.vocab_only = True
    model = lib.llama_model_load_from_file(str(MODEL).encode(), parameters)
    vocab = lib.llama_model_get_vocab(model)
    n_vocab = lib.llama_vocab_n_tokens(vocab)
    rng = random.Random(11)
    ends = [i for i in range(n_vocab) if lib.llama_vocab_is_eog(vocab, i)]
    pieces = {}
    for i in range(n_vocab):
        buffer = (ctypes.c_char * 64)()
        n = lib.llama_token_to_piece(vocab, i, buffer, 64, 0, False)
        pieces.setdefault(bytes(buffer[: max(n, 0)])[:2], []).append(i)
    families = sorted((ids for start, ids in pieces.items() if start and len(ids) > 3), key=len, reverse=True)[:60]
    sampler = lib.llama_sampler_init_infill(vocab)
    cases = []
    for case in range(240):
        ids = set()
        # Words that begin alike, so that many merge.
        for family in rng.sample(families, rng.choice([1, 2, 3])):
            ids.update(rng.sample(family, min(len(family), rng.choice([2, 4, 8]))))
        ids.update(rng.sample(range(n_vocab), rng.choice([0, 2])))
        ids.update(rng.sample(ends, 1) if case % 3 == 0 else [])
        scale = rng.choice([0.3, 1.0, 3.0])
        logits = {i: ctypes.c_float(rng.gauss(0, scale)).value for i in sorted(ids)}
        if case % 3 == 0:
            for end in ends:
                if end in logits:
                    logits[end] = ctypes.c_float(rng.uniform(-12, 1)).value
        data = (lib.llama_token_data * len(logits))(*[lib.llama_token_data(i, x, 0.0) for i, x in logits.items()])
        array = lib.llama_token_data_array(data, len(logits), -1, False)
        lib.llama_sampler_apply(sampler, ctypes.byref(array))
        left = sorted([array.data[i].id, float(f"{array.data[i].p:.7g}")] for i in range(array.size))
        if len(left) == 1:
            left[0][1] = 1.0
        cases.append(json.dumps({"logits": sorted(map(list, logits.items())), "left": left}))
    OUT.write_text("[\n" + ",\n".join(cases) + "\n]\n")


if __name__ == "__main__":
    main()
