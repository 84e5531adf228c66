"""The shared library, calls into it, and handles that are safe to close."""

from __future__ import annotations

import ctypes
import os
import pathlib
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, ClassVar, NoReturn

from ._abi import FUNCTIONS, Status
from ._ending import Carried
from ._names import in_python
from .errors import BY_STATUS, ClosedError, EmberError


def _load() -> Any:
    """The library beside this file, or the one that the environment variable EMBER_LIBRARY names."""
    folder = pathlib.Path(__file__).resolve().parent
    name, form = {"darwin": ("libember.dylib", "libember*.dylib"), "win32": ("ember.dll", "ember.dll")}.get(
        sys.platform, ("libember.so", "libember.so*")
    )
    path = os.environ.get("EMBER_LIBRARY") or str(min(folder.glob(form), default=folder / name))
    library = ctypes.CDLL(path)
    for function, (result, arguments) in FUNCTIONS.items():
        try:
            entry = getattr(library, function)
        except AttributeError:
            raise ImportError(f"{path} has no function {function}: it is not of this package's version") from None
        entry.restype = result
        entry.argtypes = arguments
    return library


lib: Any = _load()


def raise_error(
    status: int, err: ctypes.c_void_p, function: Any = None, names: Mapping[str, str] | None = None
) -> None:
    """Raises the exception of a status with the sentence of an error, which it frees, as in_python has it."""
    message = lib.ember_error_message(err).decode("utf-8", "replace")
    lib.ember_error_free(err)
    err.value = None
    raise BY_STATUS.get(status, EmberError)(in_python(getattr(function, "__name__", ""), message, names), status)


class _Inside(threading.local):
    """How many events and stages the library is handing to Python on this thread."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


# Around what the thread of an engine calls.
inside = _Inside()


# What Python functions raised that the library called, by thread. The call into the library that led there raises it.
_raised: dict[int, BaseException] = {}


def keep_raised(error: BaseException) -> None:
    """Keeps what a callback raises on this thread, since no exception can pass through C. Where it comes out, a StopIteration
    would end a loop over events without a word: as of a generator, it becomes a RuntimeError."""
    if isinstance(error, (StopIteration, StopAsyncIteration)):
        stop, error = error, RuntimeError(f"a function that Ember called raised {type(error).__name__}")
        error.__cause__ = stop
    _raised[threading.get_ident()] = error


def take_raised() -> BaseException | None:
    """What a callback raised on this thread, where no call of Python's led to it."""
    return _raised.pop(threading.get_ident(), None)


def settle(
    status: int, err: ctypes.c_void_p, function: Any = None, names: Mapping[str, str] | None = None
) -> None:
    """Raises what a call into the library has given, the exception of a callback before its own."""
    if _raised:
        raised = _raised.pop(threading.get_ident(), None)
        if raised is not None:
            lib.ember_error_free(err)
            err.value = None
            try:
                raise raised
            finally:
                del raised  # whose traceback has this frame
    if status:
        raise_error(status, err, function, names)


def _status(function: Any, *arguments: Any) -> int:
    try:
        status: int = function(*arguments)
    except ctypes.ArgumentError as error:
        raise TypeError(f"{function.__name__}: {error}") from None
    return status


def call(function: Any, *arguments: Any, names: Mapping[str, str] | None = None) -> None:
    """Calls a C function with an error slot after its arguments; `names` are those of in_python."""
    err = ctypes.c_void_p()
    settle(_status(function, *arguments, ctypes.byref(err)), err, function, names)


def fill(kind: Any, capacity: int, function: Any, *arguments: Any, tail: tuple[Any, ...] = ()) -> Any:
    """Calls a C function that fills an array of `kind`, of `capacity` elements at first, and returns the filled part. `tail`
    goes after the arguments of the array."""
    while True:
        buffer = (kind * capacity)()
        needed = ctypes.c_size_t()
        err = ctypes.c_void_p()
        status = _status(function, *arguments, buffer, capacity, ctypes.byref(needed), *tail, ctypes.byref(err))
        if status == Status.OK:
            return (kind * needed.value).from_buffer(buffer)
        if status != Status.BUFFER_TOO_SMALL or needed.value <= capacity:
            raise_error(status, err, function)
        lib.ember_error_free(err)
        capacity = needed.value


class Single:
    """An object that stands for one of the library, so that there is no copy of it."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        name = type(self).__name__
        raise TypeError(f"{'an' if name[0] in 'AEIOU' else 'a'} {name} cannot be pickled or copied")


class Handle(Single):
    """An object of the C library. `with handle as pointer` is a use of it: closing it meanwhile, on whatever thread, makes
    further uses an error and frees the object when the last use ends.

    There is no lock: a signal's handler, or an object that the collector frees, would wait for it without end on the thread that
    has it. Each step is one of a list's operations, which are whole on any thread. Whatever comes between two of them, the object
    is freed once, and while nobody uses it."""

    __slots__ = ("_free", "_noun", "_open", "_owned", "_pointer", "_uses", "__weakref__")

    # Around freeing it. Names of this module may be gone when the last handles are freed; those of the class are not.
    _carried: ClassVar[type[AbstractContextManager[Any]]] = Carried

    def __init__(self, noun: str, free: Callable[[int], object], make: Any, *arguments: Any) -> None:
        self._noun = noun
        self._free = free
        self._uses = [True]  # one for each use; the first is that of being open
        self._owned: list[int] = []  # the pointer until it is freed
        self._open = [True]  # empty once it is closed
        out = ctypes.c_void_p()
        try:
            call(make, *arguments, ctypes.byref(out))
            self._pointer = out.value or 0
            self._owned.append(self._pointer)
        except BaseException:
            if out.value:
                self._owned[:] = [out.value]
            self.close()
            raise

    def __enter__(self) -> int:
        self._uses.append(True)  # before the look at whether it is open: who closes it from now on leaves it to this use
        if not self._open:
            self.__exit__()
            raise ClosedError(f"this {self._noun} was closed")
        return self._pointer

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        where: TracebackType | None = None,
    ) -> None:
        self._uses.pop()
        if not self._uses:
            pointer = self._take()
            if pointer:
                try:
                    with self._carried():
                        self._free(pointer)
                except ClosedError:
                    pass  # it ends with the process

    def _take(self) -> int:
        """The pointer, for the first who asks, who frees it."""
        try:
            return self._owned.pop()
        except IndexError:
            return 0

    @property
    def closed(self) -> bool:
        return not self._open

    def close(self) -> None:
        try:
            self._open.pop()
        except IndexError:
            return  # it was closed before
        self.__exit__()

    def __del__(self) -> None:
        if hasattr(self, "_open"):  # else making it was interrupted, or was a copy that is refused
            self.close()


class Lease:
    """A use of a handle that lasts as long as this object."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle) -> None:
        handle.__enter__()
        self._handle = handle

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:
            handle.__exit__()
