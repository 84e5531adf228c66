"""The shared library, calls into it, and handles that are safe to close."""

from __future__ import annotations

import _thread
import array
import ctypes
import os
import pathlib
import sys
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from ._abi import FUNCTIONS, Status
from .errors import BY_STATUS, ClosedError, EmberError, InvalidArgumentError

T = TypeVar("T")


def _load() -> Any:
    """The library beside this file, or the one that the environment variable EMBER_LIBRARY names."""
    name = {"darwin": "libember.dylib", "win32": "ember.dll"}.get(sys.platform, "libember.so")
    path = os.environ.get("EMBER_LIBRARY") or str(pathlib.Path(__file__).resolve().parent / name)
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


def raise_error(status: int, err: ctypes.c_void_p) -> None:
    """Raises the exception of a status with the sentence of an error, which it frees."""
    message = lib.ember_error_message(err).decode("utf-8", "replace")
    lib.ember_error_free(err)
    err.value = None
    raise BY_STATUS.get(status, EmberError)(message, status)


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
    """Keeps what a callback raises on this thread, since no exception can pass through C."""
    _raised[threading.get_ident()] = error


def take_raised() -> BaseException | None:
    """What a callback raised on this thread, where no call of Python's led to it."""
    return _raised.pop(threading.get_ident(), None)


def settle(status: int, err: ctypes.c_void_p) -> None:
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
        raise_error(status, err)


def call(function: Any, *arguments: Any) -> None:
    """Calls a C function with an error slot behind its arguments."""
    err = ctypes.c_void_p()
    settle(function(*arguments, ctypes.byref(err)), err)


def fill(kind: Any, guess: int, function: Any, *arguments: Any, tail: tuple[Any, ...] = ()) -> Any:
    """Calls a C function that fills an array of `kind`, with room for `guess` elements at first; the filled array. `tail`
    goes behind the arguments of the array."""
    while True:
        buffer = (kind * guess)()
        needed = ctypes.c_size_t()
        err = ctypes.c_void_p()
        status = function(*arguments, buffer, guess, ctypes.byref(needed), *tail, ctypes.byref(err))
        if status == Status.OK:
            return (kind * needed.value).from_buffer(buffer)
        if status != Status.BUFFER_TOO_SMALL or needed.value <= guess:
            raise_error(status, err)
        lib.ember_error_free(err)
        guess = needed.value


def unsigned(name: str, value: int, bits: int = 32) -> int:
    """Checks a number, which ctypes would cut to size without a word."""
    if not 0 <= value < 1 << bits:
        raise InvalidArgumentError(f"{name} must be a whole number from 0 to {(1 << bits) - 1}, not {value}")
    return value


def text_arrays(texts: Sequence[bytes]) -> tuple[Any, Any, int]:
    """Texts as arrays of pointers and of lengths, and their number."""
    n = len(texts)
    return (ctypes.c_char_p * n)(*texts), (ctypes.c_size_t * n)(*map(len, texts)), n


def token_array(tokens: Sequence[int]) -> Any:
    """Token ids as a C array."""
    try:
        ids = array.array("I", tokens)
    except OverflowError:
        raise InvalidArgumentError("a token id must be a whole number from 0 to 4294967295") from None
    return (ctypes.c_uint32 * len(ids)).from_buffer(ids)


class Handle:
    """An object of the C library. `with handle as pointer` is a use of it: closing it meanwhile, on whatever thread, makes
    further uses an error and frees the object when the last use ends."""

    __slots__ = ("_closed", "_free", "_lock", "_noun", "_pointer", "_users", "__weakref__")

    def __init__(self, noun: str, free: Callable[[int], object], make: Any, *arguments: Any) -> None:
        self._closed = True  # should making it fail
        self._pointer = 0
        self._noun = noun
        self._free = free
        self._lock = threading.Lock()
        self._users = 0
        out = ctypes.c_void_p()
        try:
            call(make, *arguments, ctypes.byref(out))
        except BaseException:
            if out.value:
                free(out.value)
            raise
        self._pointer = out.value or 0
        self._closed = False

    def __enter__(self) -> int:
        with self._lock:
            if self._closed:
                raise ClosedError(f"this {self._noun} was closed")
            self._users += 1
            return self._pointer

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        where: TracebackType | None = None,
    ) -> None:
        with self._lock:
            self._users -= 1
            pointer = self._take()
        if pointer:
            self._free(pointer)

    def _take(self) -> int:
        """The pointer, if it is time to free it."""
        if not self._closed or self._users:
            return 0
        pointer, self._pointer = self._pointer, 0
        return pointer

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        with self._lock:
            self._closed = True
            pointer = self._take()
        if pointer:
            self._free(pointer)

    def __del__(self) -> None:
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


class CancelToken:
    """Ends calls early, from any thread: loading, long prompts, generating, embedding, scoring. One token may serve any
    number of calls."""

    def __init__(self) -> None:
        self._handle = Handle("cancel token", lib.ember_cancel_token_free, lib.ember_cancel_token_new)

    def cancel(self) -> None:
        """Ends the calls under way that were given the token, and those to come."""
        with self._handle as pointer:
            lib.ember_cancel_token_cancel(pointer)

    def reset(self) -> None:
        """Makes the token fit for new calls."""
        with self._handle as pointer:
            lib.ember_cancel_token_reset(pointer)

    @property
    def cancelled(self) -> bool:
        with self._handle as pointer:
            return bool(lib.ember_cancel_token_is_cancelled(pointer))


class _Errand:
    """A call that another thread runs while the main thread waits for it or for Ctrl-C."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.lock = threading.Lock()
        self.begun = self.abandoned = False
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        with self.lock:
            if self.abandoned:
                return
            self.begun = True
        try:
            self.result = self.function()
        except BaseException as error:  # handed to the thread that waits
            self.error = error
        self.done.set()

    def give_up(self, token: CancelToken) -> None:
        """Ends the call and waits for that, so that nothing runs behind the caller's back."""
        with self.lock:
            self.abandoned = True
            if not self.begun:
                return
        was_cancelled = token.cancelled
        token.cancel()
        while not self.done.is_set():
            try:
                self.done.wait()
            except KeyboardInterrupt:
                continue  # it is ending already
        if not was_cancelled:
            token.reset()


def interruptible(function: Callable[[], T], token: CancelToken) -> T:
    """Runs a call that may take long and that `token` ends. Python tells the main thread of Ctrl-C between two steps of
    Python only, so there the call runs on a thread of its own, and Ctrl-C cancels it."""
    if threading.current_thread() is not threading.main_thread():
        return function()
    errand = _Errand(function)
    try:
        _thread.start_new_thread(errand.run, ())
        errand.done.wait()
    except BaseException:
        errand.give_up(token)
        raise
    error, errand.error = errand.error, None
    if error is not None:
        try:
            raise error
        finally:
            del error  # whose traceback has this frame
    result: T = errand.result
    return result
