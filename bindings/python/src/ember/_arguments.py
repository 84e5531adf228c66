"""Checks of arguments, which ctypes would cut to size without a word or refuse without a name."""

from __future__ import annotations

import array
import ctypes
import enum
import json
import operator
import os
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from .errors import InvalidArgumentError

T = TypeVar("T")
Member = TypeVar("Member", bound=enum.IntEnum)


def wrong_type(name: str, wanted: str, value: object) -> TypeError:
    return TypeError(f"{name} must be {wanted}, got {reprlib.repr(value)}")


def _whole(name: str, value: Any, low: int, high: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise wrong_type(name, "an integer", value) from None
    if not low <= number <= high:
        raise InvalidArgumentError(f"{name} must be an integer from {low} to {high}, not {number}")
    return number


def unsigned(name: str, value: Any, bits: int = 32) -> int:
    return _whole(name, value, 0, (1 << bits) - 1)


def signed(name: str, value: Any, bits: int) -> int:
    return _whole(name, value, -(1 << bits - 1), (1 << bits - 1) - 1)


def real(name: str, value: Any) -> float:
    try:
        if not isinstance(value, (str, bytes, bytearray)):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise wrong_type(name, "a number", value)


def flag(name: str, value: Any, wanted: str = "a bool") -> bool:
    """A bool, of numpy too: by its truth alone "no" would be a yes."""
    if isinstance(value, bool) or (str(getattr(value, "dtype", "")) == "bool" and getattr(value, "ndim", 1) == 0):
        return bool(value)
    raise wrong_type(name, wanted, value)


def text(name: str, value: Any) -> bytes:
    """UTF-8."""
    if not isinstance(value, str):
        raise wrong_type(name, "a str", value)
    return value.encode()


def elements(name: str, wanted: str, values: Any) -> list[Any]:
    """A list of what is no text, no bytes and no mapping, whose elements or keys nobody means."""
    is_bytes = isinstance(values, memoryview) and values.itemsize == 1
    if not is_bytes and not isinstance(values, (str, bytes, bytearray, Mapping)):
        try:
            return list(values)
        except (TypeError, NotImplementedError):  # which a memory view of more dimensions raises
            pass
    raise wrong_type(name, wanted, values)


def texts(name: str, values: Iterable[str], wanted: str = "a list of texts") -> list[bytes]:
    return [text(f"{name}[{i}]", value) for i, value in enumerate(elements(name, wanted, values))]


def text_arrays(values: Sequence[bytes]) -> tuple[Any, Any, int]:
    """Texts as arrays of pointers and of lengths, and their number."""
    n = len(values)
    return (ctypes.c_char_p * n)(*values), (ctypes.c_size_t * n)(*map(len, values)), n


def integers(name: str, values: Iterable[int], wanted: str = "a list of integers") -> Any:
    """Token ids, or the like, as a C array of uint32."""
    numbers = elements(name, wanted, values)
    try:
        kept = array.array("I", numbers)
    except (TypeError, OverflowError):
        kept = array.array("I", [unsigned(f"{name}[{i}]", number) for i, number in enumerate(numbers)])
    return (ctypes.c_uint32 * len(kept)).from_buffer(kept)


def contents(name: str, value: Any, wanted: str = "bytes or another buffer") -> bytes:
    """The bytes of bytes, a mmap, or another buffer."""
    if isinstance(value, bytes):
        return value
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise wrong_type(name, wanted, value) from None


def path_bytes(name: str, value: Any) -> bytes:
    try:
        return os.fsencode(value)
    except TypeError:
        raise wrong_type(name, "a str or an os.PathLike", value) from None


def instance(name: str, value: Any, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise wrong_type(name, f"a {kind.__name__}", value)
    return value


def mapping(name: str, value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise wrong_type(name, "a mapping", value)
    return value


def objects(name: str, values: Any, wanted: str) -> str:
    """A list of mappings as JSON."""
    listed = [dict(mapping(f"{name}[{i}]", one)) for i, one in enumerate(elements(name, wanted, values))]
    return json_of(name, listed)


def json_of(name: str, value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{name} must be what JSON can hold: {error}") from None


def function(name: str, value: T) -> T:
    if not callable(value):
        raise wrong_type(name, "a function", value)
    return value


def member(name: str, value: Any, kind: type[Member]) -> Member:
    """A member of an enumeration, or its number."""
    names = f"a {kind.__name__} ({', '.join(one.name for one in kind)})"
    try:
        return kind(operator.index(value))
    except TypeError:
        raise wrong_type(name, names, value) from None
    except ValueError:
        raise InvalidArgumentError(f"{name} must be {names}, not {value}") from None


def given(
    options: Mapping[str, Any], known: type, others: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """The keyword arguments that say something; None stands for the default. `others` tell more of some that are not known."""
    unknown = sorted(options.keys() - known.__annotations__.keys())
    if unknown:
        name = unknown[0]
        more = f": {others[name]}" if name in others else "; the options are " + ", ".join(sorted(known.__annotations__))
        raise TypeError(f"there is no option {name!r}{more}")
    return {name: value for name, value in options.items() if value is not None}
