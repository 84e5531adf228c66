"""Makes tests/fixtures/dense-folder, the folder of the first BERT of tests/fixtures/dense.json, for the tests of the bindings.

    python dense_folder.py
"""

import json
import shutil
import struct
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "fixtures"
OUTPUT = ROOT / "dense-folder"


def formula(n, seed):
    """As in dense_golden.py."""
    return [((i * 37 + seed * 11) % 101 - 50) / 50 for i in range(n)]


def safetensors(tensors):
    """The bytes of a file: name, shape and numbers of each tensor."""
    header, data = {}, b""
    for name, shape, numbers in tensors:
        raw = struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = dict(dtype="F32", shape=shape, data_offsets=[len(data), len(data) + len(raw)])
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def vocabulary(n):
    """A tokenizer of words between spaces, as sentence_fields.py makes it: [UNK], [PAD], w2, w3 and so on; w1 is the last."""
    vocab = {"[UNK]": 0, "[PAD]": 1} | {f"w{i}": i for i in range(2, n - 1)} | {"w1": n - 1}
    model = dict(type="WordPiece", vocab=vocab, unk_token="[UNK]", continuing_subword_prefix="##", max_input_chars_per_word=100)
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    return dict(version="1.0", added_tokens=[], pre_tokenizer=dict(type="WhitespaceSplit"), model=model) | empty


def main():
    case = next(case for case in json.loads((ROOT / "dense.json").read_text())["cases"] if case["base"] == "bert")
    [(n_in, n_out, _, has_bias)] = case["dense"]
    assert has_bias
    base = ROOT / "hf" / case["base"]
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(base / name, OUTPUT)
    vocab_size = json.loads((base / "config.json").read_text())["vocab_size"]
    files = dict(case["files"])
    files["tokenizer.json"] = vocabulary(vocab_size)
    files["tokenizer_config.json"] = dict(tokenizer_class="PreTrainedTokenizerFast", unk_token="[UNK]")
    for name, content in files.items():
        (OUTPUT / name).parent.mkdir(exist_ok=True)
        (OUTPUT / name).write_text(json.dumps(content, separators=(",", ":")) + "\n")
    weight = [x / n_in**0.5 for x in formula(n_in * n_out, 0)]
    tensors = [("linear.weight", [n_out, n_in], weight), ("linear.bias", [n_out], formula(n_out, 7))]
    (OUTPUT / "2_Dense/model.safetensors").write_bytes(safetensors(tensors))


if __name__ == "__main__":
    main()
