"""Exceptions: one for each status of the C library."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any

from ._abi import Status


class EmberError(Exception):
    """What Ember refused, and why: the base of all exceptions here."""

    status: int = Status.INTERNAL

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        if status is not None:
            self.status = status


class InvalidArgumentError(EmberError, ValueError):
    """An argument is out of range, or does not fit the others."""

    status = Status.INVALID_ARGUMENT


class ClosedError(InvalidArgumentError):
    """The object was closed, or the interpreter is ending."""


class IoError(EmberError, OSError):
    """The operating system refused to open, map or read a file."""

    status = Status.IO


class MissingFileError(IoError, FileNotFoundError):
    """The file to read does not exist: an IoError with its `filename`."""

    def __init__(self, message: str, status: int | None = None, path: object = None) -> None:
        super().__init__(message, status)
        self.errno, self.filename = errno.ENOENT, path

    def __str__(self) -> str:
        return str(self.args[0])


@contextlib.contextmanager
def reading(path: Any) -> Iterator[None]:
    """Around a call that reads the file at `path`: tells whether that exists when it cannot be read."""
    try:
        yield
    except IoError as error:
        try:
            os.stat(path)
        except FileNotFoundError:
            raise MissingFileError(str(error), error.status, path) from None
        except (OSError, ValueError):
            pass
        raise


class FormatError(EmberError):
    """A model file is malformed or contradicts itself."""

    status = Status.FORMAT


class UnsupportedError(EmberError):
    """A model needs something that this version cannot do."""

    status = Status.UNSUPPORTED


class OutOfMemoryError(EmberError, MemoryError):
    """An allocation failed."""

    status = Status.NOMEM


class ContextFullError(EmberError):
    """The tokens do not fit into the context; its state is unchanged."""

    status = Status.CONTEXT_FULL


class BusyError(EmberError):
    """Another call is using the object, or is the one that this would wait for; nothing was done."""

    status = Status.BUSY


class Utf8Error(EmberError, ValueError):
    """Text that must be UTF-8 is not."""

    status = Status.UTF8


class BufferTooSmallError(EmberError):
    """A buffer is too small. The binding asks for sizes first, so it does not come out of it."""

    status = Status.BUFFER_TOO_SMALL


class NotFoundError(EmberError, LookupError):
    """The asked-for key, token or row does not exist."""

    status = Status.NOT_FOUND


class InternalError(EmberError):
    """A defect in Ember itself was caught."""

    status = Status.INTERNAL


class CancelledError(EmberError):
    """A cancel token ended the call; the context's sequences are as before."""

    status = Status.CANCELLED


class QueueFullError(EmberError):
    """As many requests wait as may; nothing was done. Try it again later."""

    status = Status.QUEUE_FULL


BY_STATUS: dict[int, type[EmberError]] = {
    int(cls.status): cls
    for cls in (
        InvalidArgumentError,
        IoError,
        FormatError,
        UnsupportedError,
        OutOfMemoryError,
        ContextFullError,
        BusyError,
        Utf8Error,
        BufferTooSmallError,
        NotFoundError,
        InternalError,
        CancelledError,
        QueueFullError,
    )
}
