"""Writes src/quant/*.bin: the grids of the IQ formats, as the `gguf` package packs them.

Each value is stored as its number in the list of values that occur in the grid, which src/quant has beside the grid.
Needs: pip install gguf. Run: python tests/oracle/quant_grids.py
"""
import pathlib

from gguf import quants

OUT = pathlib.Path(__file__).parent.parent.parent / "src" / "quant"


def main() -> None:
    for name in ("IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"):
        packed = bytes.fromhex(getattr(quants, name).grid_hex.decode())
        (OUT / f"{name.lower()}.bin").write_bytes(packed)


if __name__ == "__main__":
    main()
