"""Writes tests/fixtures/fim.json: the fill-in-the-middle tokens that llama.cpp finds in its vocabulary files, and the tokens of
texts around a gap.

    python tests/oracle/fim_golden.py FOLDER

Needs llama-cpp-python; FOLDER has the files ggml-vocab-*.gguf of llama.cpp's source.
"""

import ctypes
import json
import pathlib
import sys

import llama_cpp as lib

OUT = pathlib.Path(__file__).resolve().parents[1] / "fixtures/fim.json"
PREFIX = "def add(a, b):\n    return "
SUFFIX = "\n\nprint(add(1, 2))\n"
NAMES = ["fim_pre", "fim_suf", "fim_mid", "fim_rep", "fim_sep"]


def main():
    lib.llama_log_set(ctypes.cast(None, lib.llama_log_callback), None)
    parameters = lib.llama_model_default_params()
    parameters.vocab_only = True
    out = {}
    for path in sorted(pathlib.Path(sys.argv[1]).glob("ggml-vocab-*.gguf")):
        model = lib.llama_model_load_from_file(str(path).encode(), parameters)
        if not model:
            continue
        vocab = lib.llama_model_get_vocab(model)

        def tokens(text):
            ids = (lib.llama_token * 500)()
            n = lib.llama_tokenize(vocab, text.encode(), len(text.encode()), ids, 500, False, False)
            return list(ids[:n])

        found = {name: getattr(lib, f"llama_vocab_{name}")(vocab) for name in NAMES}
        out[path.stem.removeprefix("ggml-vocab-")] = {
            "marks": {name: None if id == -1 else id for name, id in found.items()},
            "bos": lib.llama_vocab_bos(vocab) if lib.llama_vocab_get_add_bos(vocab) else None,
            "prefix": tokens(PREFIX),
            "suffix": tokens(SUFFIX),
            "name": tokens("main.py\n"),
            "repository": tokens("calculator\n"),
        }
        lib.llama_model_free(model)
    OUT.write_text(json.dumps({"prefix": PREFIX, "suffix": SUFFIX, "vocabularies": out}, indent=1) + "\n")


if __name__ == "__main__":
    main()
