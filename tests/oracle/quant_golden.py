"""Writes tests/fixtures/quant/: what the `gguf` package makes of one vector in every format.

input.f32 holds the values; NAME.bin the quantized bytes; NAME.f32 the values those bytes stand for.
Needs: pip install gguf numpy. Run: python tests/oracle/quant_golden.py
"""
import pathlib

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize

OUT = pathlib.Path(__file__).parent.parent / "fixtures" / "quant"


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


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    x = vector()
    x.tofile(OUT / "input.f32")
    for name in ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"):
        with np.errstate(all="ignore"):
            packed = np.ascontiguousarray(quantize(x.reshape(1, -1), Type[name])).view(np.uint8)
            values = dequantize(packed, Type[name])
        packed.tofile(OUT / f"{name.lower()}.bin")
        values.astype(np.float32).tofile(OUT / f"{name.lower()}.f32")


if __name__ == "__main__":
    main()
