"""How many bytes and multiplications a token costs at least, read from the header of a GGUF file."""

import struct
from dataclasses import dataclass
from math import prod

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


@dataclass
class Sizes:
    """What a token reads and multiplies."""

    weight_bytes: int  # of all matrices that a token is multiplied with, the output's included
    weight_macs: int   # of the same without the output's, which runs for the last token of a prompt only
    kv_bytes: int      # of keys and values in f16, for each token that is in the context
    windowed: bool     # some layers look at the last tokens only: kv_bytes is too much then


class Reader:
    def __init__(self, file):
        self.file = file

    def number(self, code: str):
        return struct.unpack("<" + code, self.file.read(struct.calcsize("<" + code)))[0]

    def string(self) -> str:
        return self.file.read(self.number("Q")).decode(errors="replace")

    def value(self, kind: int):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            element, n = self.number("I"), self.number("Q")
            return [self.value(element) for _ in range(n)]
        return self.number(SCALARS[kind])


def read_sizes(path: str) -> Sizes:
    """The sizes of the model in the (single) file at `path`."""
    with open(path, "rb") as file:
        reader = Reader(file)
        if file.read(4) != b"GGUF":
            raise SystemExit(f"{path} is no GGUF file")
        reader.number("I")
        n_tensors, n_keys = reader.number("Q"), reader.number("Q")
        keys = {}
        for _ in range(n_keys):
            key = reader.string()
            keys[key] = reader.value(reader.number("I"))
        tensors = []
        for _ in range(n_tensors):
            name = reader.string()
            dims = [reader.number("Q") for _ in range(reader.number("I"))]
            reader.number("I")
            tensors.append((reader.number("Q"), name, dims))
        align = keys.get("general.alignment", 32)
        data = (file.tell() + align - 1) // align * align
        end = file.seek(0, 2)
    tensors.sort()
    ends = [offset for offset, _, _ in tensors[1:]] + [end - data]
    tied = all(name != "output.weight" for _, name, _ in tensors)
    weight_bytes = weight_macs = 0
    for (offset, name, dims), next_offset in zip(tensors, ends):
        embedding = name == "token_embd.weight"
        if len(dims) < 2 or (embedding and not tied):
            continue
        weight_bytes += next_offset - offset
        weight_macs += 0 if embedding or name == "output.weight" else prod(dims)
    arch = keys["general.architecture"]
    n_head = keys[f"{arch}.attention.head_count"]
    n_kv = keys.get(f"{arch}.attention.head_count_kv", n_head)
    head_dim = keys.get(f"{arch}.attention.key_length", keys[f"{arch}.embedding_length"] // n_head)
    return Sizes(weight_bytes, weight_macs, 2 * 2 * keys[f"{arch}.block_count"] * n_kv * head_dim,
                 f"{arch}.attention.sliding_window" in keys)
