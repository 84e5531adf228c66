"""The end of the interpreter, and Python functions that C calls.

The interpreter ends a daemon thread where it next waits for Python's lock, by unwinding its stack. In a Python function that
the library called, and on the way into one, that stack has frames of the library, which cannot be unwound: the process would
abort. So what may have C call Python is known here while it lasts, and is over before the interpreter ends.
"""

from __future__ import annotations

import atexit
import os
import time
from _thread import get_ident
from typing import Any, ClassVar, Protocol

from .errors import ClosedError


class Stoppable(Protocol):
    """What ends a call early, and makes the next one possible again."""

    def interrupt(self) -> None: ...

    def restore(self) -> None: ...


class Carried:
    """`with Carried(token):` is around a call that may have C call Python functions on this thread; `token` ends it. While the
    interpreter ends, other threads than the one that ends it get a ClosedError, and their functions are called no more."""

    __slots__ = ("_thread", "_token")

    # Names of this module may be gone when the last objects are freed; those of the class are not.
    _under_way: ClassVar[set[Carried]] = set()
    _ending: ClassVar[int] = 0  # the thread that ends the interpreter
    _this_thread = staticmethod(get_ident)

    def __init__(self, token: Stoppable | None = None) -> None:
        self._token = token
        self._thread = 0

    def __enter__(self) -> None:
        self._thread = self._this_thread()
        self.begin()

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        self._under_way.add(self)
        if self.refused():
            self.end()
            raise ClosedError("the interpreter is ending")

    def end(self) -> None:
        self._under_way.discard(self)

    @classmethod
    def refused(cls) -> bool:
        """Whether this thread may have C call Python no more."""
        return cls._ending != 0 and cls._ending != cls._this_thread()

    def stop(self) -> None:
        if self._token is not None:
            self._token.interrupt()

    def resume(self) -> None:
        if self._token is not None:
            self._token.restore()

    @classmethod
    def stop_all(cls) -> None:
        """Ends what other threads have under way, and waits for that."""
        cls._ending = cls._this_thread()
        stopped: set[Any] = set()
        while others := [one for one in cls._under_way.copy() if one._thread != cls._ending]:
            for one in others:
                one.stop()
            stopped.update(others)
            time.sleep(0.001)
        for one in stopped:
            one.resume()  # for what this thread may do yet


class Lasting(Carried):
    """What may have C call Python functions at any time, from begin() to end()."""

    __slots__ = ()

    @classmethod
    def refused(cls) -> bool:
        return cls._ending != 0  # there would be nobody to stop it


atexit.register(Carried.stop_all)
if hasattr(os, "register_at_fork"):  # the other threads do not come along
    os.register_at_fork(after_in_child=Carried._under_way.clear)
