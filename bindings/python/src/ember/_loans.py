"""Memory of Python objects that is lent to the library."""

from __future__ import annotations

import ctypes
import itertools
import sys
from typing import Any

from ._abi import ember_release_callback


class _Buffer(ctypes.Structure):
    """Py_buffer of Python's C API."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes = [ctypes.POINTER(_Buffer)]
_release.restype = None

_numbers = itertools.count(1)
_lent: dict[int, _Buffer] = {}


class Loan:
    """The bytes of an object with a contiguous buffer, which stay where they are until they are given back. The library does so
    on any thread, through `on_release` with `key`."""

    def __init__(self, lender: Any) -> None:
        buffer = _Buffer()
        _get(lender, ctypes.byref(buffer), 0)  # PyBUF_SIMPLE: read-only bytes
        self.key = next(_numbers)
        _lent[self.key] = buffer
        self.address = buffer.buf
        self.size = buffer.len
        self._taken = False

    def take(self) -> None:
        """The library has taken the loan, and gives it back."""
        self._taken = True

    def settle(self) -> None:
        """Gives the bytes back if the library has not taken them."""
        if not self._taken:
            _give_back(self.key)


def _give_back(key: int | None, lent: dict[int, _Buffer] = _lent, release: Any = _release) -> None:
    buffer = lent.pop(key or 0, None)
    if buffer is not None and not sys.is_finalizing():
        release(ctypes.byref(buffer))


on_release = ember_release_callback(_give_back)
