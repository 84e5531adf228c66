"""Writes tests/fixtures/dry.json: what llama.cpp's DRY sampler takes off which tokens' logits.

    python tests/oracle/dry_golden.py

Needs llama-cpp-python. The vocabulary is the bundled model's. A case has the sampler's parameters, the breakers, the tokens
that were accepted, and [[token, penalty], …].
"""

import ctypes
import json
import pathlib
import random

import llama_cpp as lib

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples/models/ember-tales.gguf"
OUT = ROOT / "tests/fixtures/dry.json"
TEXTS = [
    "the cat sat on the mat. the cat sat on the",
    "a b a b a b a b a",
    'he said: "yes" and she said: "yes" and he said',
    "one\ntwo\nthree\none\ntwo\n",
    "once upon a time there was a girl. once upon a time there was a",
    "no words twice here",
    "mmmmmmmmmmmmmmmmmmmm",
]
BREAKERS = [["\n", ":", '"', "*"], [], ["the"], ["cat s", "upon a t"], ["aid: ", " "]]
PARAMETERS = [[0.8, 1.75, 2, 64], [1.5, 1.0, 1, 1000], [0.3, 3.0, 4, 20], [5.0, 1.2, 0, 12]]


def main():
    lib.llama_log_set(ctypes.cast(None, lib.llama_log_callback), None)
    parameters = lib.llama_model_default_params()
    parameters.vocab_only = True
    model = lib.llama_model_load_from_file(str(MODEL).encode(), parameters)
    vocab = lib.llama_model_get_vocab(model)
    n_vocab = lib.llama_vocab_n_tokens(vocab)
    rng = random.Random(3)

    def tokenize(text):
        out = (lib.llama_token * 500)()
        n = lib.llama_tokenize(vocab, text.encode(), len(text.encode()), out, 500, False, False)
        return list(out[:n])

    accepted = [tokenize(text) for text in TEXTS]
    # Few different tokens, so that there are many repeats.
    accepted += [[rng.choice(accepted[0][:k]) for _ in range(40)] for k in (2, 3, 4)]
    cases = []
    for tokens in accepted:
        for breakers in BREAKERS:
            for values in PARAMETERS:
                texts = (ctypes.c_char_p * max(1, len(breakers)))(*[b.encode() for b in breakers])
                texts = ctypes.cast(texts, ctypes.POINTER(ctypes.c_char_p))
                sampler = lib.llama_sampler_init_dry(vocab, *values, texts, len(breakers))
                for token in tokens:
                    lib.llama_sampler_accept(sampler, token)
                data = (lib.llama_token_data * n_vocab)()
                for i in range(n_vocab):
                    data[i] = lib.llama_token_data(i, 0.0, 0.0)
                array = lib.llama_token_data_array(data, n_vocab, -1, False)
                lib.llama_sampler_apply(sampler, ctypes.byref(array))
                lib.llama_sampler_free(sampler)
                penalties = [[data[i].id, float(f"{-data[i].logit:.7g}")] for i in range(n_vocab) if data[i].logit]
                case = {"parameters": values, "breakers": breakers, "accepted": tokens, "penalties": sorted(penalties)}
                cases.append(json.dumps(case))
    OUT.write_text("[\n" + ",\n".join(cases) + "\n]\n")


if __name__ == "__main__":
    main()
