"""Writes a GGUF file that calls tools: tool_model.py SMOLLM2 OUT.

It is SmolLM2-135M-Instruct with the chat template tools.jinja beside this file. Nothing else of it changes.
"""

import pathlib
import struct
import sys

KEY = b"tokenizer.chat_template"
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


def u64(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<Q", data, at)[0])


def end_of_value(data: bytes, at: int, kind: int) -> int:
    if kind == STRING:
        return at + 8 + u64(data, at)
    if kind != ARRAY:
        return at + SIZES[kind]
    element, n = struct.unpack_from("<IQ", data, at)
    at += 12
    if element != STRING:
        return at + n * SIZES[element]
    for _ in range(n):
        at = end_of_value(data, at, STRING)
    return at


def main(source: str, out: str) -> None:
    data = pathlib.Path(source).read_bytes()
    template = pathlib.Path(__file__).with_name("tools.jinja").read_bytes()
    n_tensors, n_keys = struct.unpack_from("<QQ", data, 8)
    at, header = 24, data[:24]
    found = False
    for _ in range(n_keys):
        start, n = at, u64(data, at)
        key = data[at + 8 : at + 8 + n]
        kind = struct.unpack_from("<I", data, at + 8 + n)[0]
        at = end_of_value(data, at + 12 + n, kind)
        if key == KEY:
            found = True
            header += data[start : start + 12 + n] + struct.pack("<Q", len(template)) + template
        else:
            header += data[start:at]
    if not found:
        sys.exit(f"{source} has no chat template")
    start = at
    for _ in range(n_tensors):
        at += 8 + u64(data, at)
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 4 + 8
    header += data[start:at]
    padding = bytes(-len(header) % 32)
    pathlib.Path(out).write_bytes(header + padding + data[(at + 31) // 32 * 32 :])


main(*sys.argv[1:])
