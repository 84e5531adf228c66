"""The log of the library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ._abi import LogLevel, ember_log_callback
from ._arguments import function, member
from ._ending import Lasting
from ._library import call, lib

_receiver: Callable[[LogLevel, str], object] | None = None


def _forward(level: int, text: int, length: int, _user_data: Any) -> None:
    receiver = _receiver
    if receiver is not None:
        receiver(LogLevel(level), ctypes.string_at(text, length).decode("utf-8", "replace"))


_callback = ember_log_callback(_forward)


class _Receiving(Lasting):
    """A receiver of the log. The calls that log, loads and those that free, are known themselves."""

    __slots__ = ()

    def stop(self) -> None:
        set_log(None)


_receiving = _Receiving()


def set_log(receiver: Callable[[LogLevel, str], object] | None, level: LogLevel = LogLevel.INFO) -> None:
    """Sends log lines of this level and more important ones to `receiver`; None makes the library silent again, as the end of
    the interpreter does. It runs on the thread whose call logs; what it raises is reported to sys.unraisablehook and goes no
    further."""
    global _receiver
    number = int(member("level", level, LogLevel))
    if receiver is None:
        _receiver = None
        call(lib.ember_log_set, ember_log_callback(), None, number)
        _receiving.end()
    else:
        function("receiver", receiver)
        _receiving.begin()
        _receiver = receiver
        call(lib.ember_log_set, _callback, None, number)
