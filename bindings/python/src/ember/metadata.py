"""The metadata of models' files."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from typing import Any, Union

from ._library import Handle, Single, call, fill, lib, raise_error

MetaValue = Union[str, int, float, bool, list[str], list[int], list[float], list[bool]]

_FLOATS = (6, 12)
_BOOL = 7
_STRING = 8
_ARRAY = 9
_SIGNED = (1, 3, 5, 11)


def _number(kind: int) -> tuple[Any, str]:
    """Where a number of this type is written to, and the name of the functions that do."""
    if kind == _BOOL:
        return ctypes.c_bool(), "bool"
    if kind in _FLOATS:
        return ctypes.c_double(), "f64"
    return (ctypes.c_int64(), "i64") if kind in _SIGNED else (ctypes.c_uint64(), "u64")


class Metadata(Single, Mapping[str, MetaValue]):
    """The metadata of a model's file by key: strings, numbers, booleans, and lists of these. Arrays of arrays are left out.
    A list is read when it is asked for, element by element: that takes 2 to 4 microseconds each."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        keys = ctypes.c_size_t()
        # The type of each key's value, and of an array the type of its elements and their number.
        self._keys: dict[str, tuple[bytes, int, int, int]] = {}
        with handle as pointer:
            call(lib.ember_model_meta_count, pointer, ctypes.byref(keys))
            for index in range(keys.value):
                raw = fill(ctypes.c_char, 64, lib.ember_model_meta_key, pointer, index).raw
                kind, element, n = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_size_t()
                call(lib.ember_model_meta_type, pointer, raw, len(raw), ctypes.byref(kind))
                if kind.value == _ARRAY:
                    call(lib.ember_model_meta_array, pointer, raw, len(raw), ctypes.byref(element), ctypes.byref(n))
                    if element.value == _ARRAY:
                        continue
                self._keys[raw.decode("utf-8", "replace")] = raw, kind.value, element.value, n.value

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __getitem__(self, key: str) -> MetaValue:
        name, kind, element, n = self._keys[key]
        result: MetaValue
        with self._handle as pointer:
            if kind == _ARRAY:
                return self._strings(pointer, name, n) if element == _STRING else self._numbers(pointer, name, element, n)
            if kind == _STRING:
                text = fill(ctypes.c_char, 256, lib.ember_model_meta_string, pointer, name, len(name))
                return str(text.raw, "utf-8", "replace")
            value, word = _number(kind)
            call(getattr(lib, f"ember_model_meta_{word}"), pointer, name, len(name), ctypes.byref(value))
            result = value.value
            return result

    @staticmethod
    def _strings(pointer: int, name: bytes, n: int) -> list[str]:
        function = lib.ember_model_meta_array_string
        capacity = 256
        buffer, needed, err = ctypes.create_string_buffer(capacity), ctypes.c_size_t(), ctypes.c_void_p()
        needed_ref, err_ref, length = ctypes.byref(needed), ctypes.byref(err), len(name)
        out = []
        for index in range(n):
            if function(pointer, name, length, index, buffer, capacity, needed_ref, err_ref):
                lib.ember_error_free(err)
                raw = fill(ctypes.c_char, needed.value, function, pointer, name, length, index).raw
            else:
                raw = buffer[: needed.value]
            out.append(raw.decode("utf-8", "replace"))
        return out

    @staticmethod
    def _numbers(pointer: int, name: bytes, element: int, n: int) -> Any:
        value, word = _number(element)
        function = getattr(lib, f"ember_model_meta_array_{word}")
        err = ctypes.c_void_p()
        value_ref, err_ref, length = ctypes.byref(value), ctypes.byref(err), len(name)
        out = []
        for index in range(n):
            status = function(pointer, name, length, index, value_ref, err_ref)
            if status:
                raise_error(status, err)
            out.append(value.value)
        return out
