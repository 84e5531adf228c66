"""Writes tests/fixtures/quant/rmse.txt: the error that llama.cpp's quantizers leave in four kinds of data.

A line is a format, a kind of data and the root of the mean squared error over that of the mean square. The data are
made of integers from a linear congruential generator, so that the test of Ember makes the same without a file.
Needs: pip install gguf numpy, and llama.cpp's libggml-base (pip install xllamacpp or llama-cpp-python).
Run: python tests/oracle/quant_rmse.py
"""
import ctypes
import pathlib
import sysconfig

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize

OUT = pathlib.Path(__file__).parent.parent / "fixtures" / "quant" / "rmse.txt"
N = 16384
FORMATS = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")


def draws(n: int, seed: int) -> np.ndarray:
    """Numbers of 24 bits."""
    state, out = seed, []
    for _ in range(n):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(state >> 8)
    return np.array(out, np.int64)


def data() -> dict[str, np.ndarray]:
    uniform = (draws(N, 6) - (1 << 23)).astype(np.float32) / np.float32(1 << 23)
    four = draws(4 * N, 7).reshape(-1, 4).sum(axis=1)
    bell = (four - (1 << 25)).astype(np.float32) / np.float32(1 << 24)   # nearly normal
    return {"uniform": uniform, "bell": bell, "heavy": bell * abs(bell), "shifted": bell + np.float32(0.5)}


def ggml() -> ctypes.CDLL:
    found = sorted(pathlib.Path(sysconfig.get_path("purelib")).glob("**/libggml-base.so"))
    lib = ctypes.CDLL(str(found[0]))
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [
        ctypes.c_void_p]
    return lib


def main() -> None:
    lib = ggml()
    with open(OUT, "w") as out:
        for name in FORMATS:
            for kind, x in data().items():
                packed = np.zeros(4 * N, np.uint8)
                n = lib.ggml_quantize_chunk(Type[name], x.ctypes.data, packed.ctypes.data, 0, 1, N, None)
                values = dequantize(packed[:n], Type[name]).astype(np.float64)
                error = np.sqrt(np.mean((values - x) ** 2) / np.mean(x.astype(np.float64) ** 2))
                print(name, kind, f"{error:.8f}", file=out)


if __name__ == "__main__":
    main()
