"""The log of the library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ._abi import LogLevel, ember_log_callback
from ._library import call, lib

_receiver: Callable[[LogLevel, str], object] | None = None


def _forward(level: int, text: int, length: int, _user_data: Any) -> None:
    receiver = _receiver
    if receiver is not None:
        receiver(LogLevel(level), ctypes.string_at(text, length).decode("utf-8", "replace"))


_callback = ember_log_callback(_forward)


def set_log(receiver: Callable[[LogLevel, str], object] | None, level: LogLevel = LogLevel.INFO) -> None:
    """Sends log lines of this level and more important ones to `receiver`; None makes the library silent again. It runs on the
    thread whose call logs; what it raises is reported to sys.unraisablehook and goes no further."""
    global _receiver
    _receiver = receiver
    call(lib.ember_log_set, _callback if receiver else ember_log_callback(), None, int(level))
