"""Writes tests/fixtures/quant/: what the `gguf` package makes of numbers in every format it knows.

dequantize.txt holds a line per format: hashes of the values that blocks of bytes stand for (see `rows`), so that scales
of every size, NaN and infinity and every point of a grid occur in little space.
input.f32 holds 512 values; for the formats that both can quantize, NAME.bin holds the quantized bytes and NAME.f32 the
values those bytes stand for.
Q1_0 and Q2_0, which the package cannot dequantize, are what llama.cpp's library makes of them.
Needs: pip install gguf numpy llama-cpp-python. Run: python tests/oracle/quant_golden.py
"""
import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES
from gguf import GGMLQuantizationType as Type
from gguf import quants
from gguf.quants import dequantize, quantize

OUT = pathlib.Path(__file__).parent.parent / "fixtures" / "quant"
QUANTIZED = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")
PLAIN = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}
BY_GGML = {"Q1_0": (128, 18), "Q2_0": (64, 18)}
N_RANDOM = 1024     # blocks of random bytes
GROUP = 64          # blocks to a hash


def noise(n: int) -> bytes:
    """The upper bytes of a linear congruential generator's states."""
    state, out = 1, bytearray()
    for _ in range(n):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(state >> 24)
    return bytes(out)


def rows(block_bytes: int, random: bytes) -> np.ndarray:
    """256 blocks that repeat one byte each, then blocks of random bytes; `[n_blocks, block_bytes]`."""
    repeated = b"".join(bytes([i]) * block_bytes for i in range(256))
    both = repeated + random[: N_RANDOM * block_bytes]
    return np.frombuffer(both, np.uint8).reshape(-1, block_bytes)


def fnv(values: np.ndarray) -> int:
    """FNV-1a in 64 bits over the bit patterns, every NaN counted as 0x7fc00000."""
    bits = np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))
    h = 0xCBF29CE484222325
    for word in bits.ravel().tolist():
        h = ((h ^ word) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def by_ggml(name: str, blocks: np.ndarray) -> np.ndarray:
    import ctypes
    import llama_cpp
    folder = pathlib.Path(llama_cpp.__file__).parent / "lib"
    expand = getattr(ctypes.CDLL(str(folder / "libggml-base.so")), f"dequantize_row_{name.lower()}")
    values = np.empty((len(blocks), BY_GGML[name][0]), np.float32)
    blocks = np.ascontiguousarray(blocks)
    expand(ctypes.c_void_p(blocks.ctypes.data), ctypes.c_void_p(values.ctypes.data), ctypes.c_int64(values.size))
    return values


def values_of(name: str, blocks: np.ndarray) -> np.ndarray:
    if name in BY_GGML:
        return by_ggml(name, blocks)
    if name in PLAIN:
        return blocks.reshape(-1).view(PLAIN[name]).astype(np.float32).reshape(len(blocks), -1)
    return dequantize(blocks, Type[name])


def hashes() -> None:
    names = list(PLAIN) + [t.name for t in quants._type_traits] + list(BY_GGML)
    sizes = {name: (BY_GGML.get(name) or GGML_QUANT_SIZES[Type[name]])[1] for name in names}
    random = noise(N_RANDOM * max(sizes.values()))
    with open(OUT / "dequantize.txt", "w") as out:
        for name in names:
            with np.errstate(all="ignore"):
                values = values_of(name, rows(sizes[name], random))
            groups = values.reshape(-1, GROUP * values.shape[1])
            print(name, *(f"{fnv(group):016x}" for group in groups), file=out)


def vector() -> np.ndarray:
    rng = np.random.default_rng(20)
    blocks = [rng.normal(0, scale, 32) for scale in (1.0, 0.02, 3e-4, 40.0)]
    blocks += [rng.uniform(-1, 1, 32), rng.uniform(0.5, 1.5, 32), rng.integers(-20, 20, 32) / 2]
    blocks += [np.zeros(32), np.full(32, -0.0), np.full(32, 0.3), np.full(32, -1e-3)]
    blocks += [rng.normal(0, 1e-40, 32)]                          # all subnormal
    blocks += [rng.normal(0, 1, 32) * np.where(np.arange(32) % 3, 1e-39, 1)]   # subnormal among normal
    blocks += [rng.normal(0, 2e4, 32), rng.normal(0, 1e30, 32)]   # beyond binary16
    mixed = rng.normal(0, 1, 32)
    mixed[::5] = -0.0
    return np.concatenate(blocks + [mixed]).astype(np.float32)


def round_trips() -> None:
    x = vector()
    x.tofile(OUT / "input.f32")
    for name in QUANTIZED:
        with np.errstate(all="ignore"):
            packed = np.ascontiguousarray(quantize(x.reshape(1, -1), Type[name])).view(np.uint8)
            values = dequantize(packed, Type[name])
        packed.tofile(OUT / f"{name.lower()}.bin")
        values.astype(np.float32).tofile(OUT / f"{name.lower()}.f32")


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    hashes()
    round_trips()
