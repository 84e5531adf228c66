"""Ending calls early: cancel tokens, and Ctrl-C."""

from __future__ import annotations

import _thread
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from ._library import Handle, Single, lib

T = TypeVar("T")


class CancelToken(Single):
    """Ends calls early, from any thread: loading, long prompts, generating, embedding, scoring. One token may serve any
    number of calls."""

    def __init__(self) -> None:
        self._handle = Handle("cancel token", lib.ember_cancel_token_free, lib.ember_cancel_token_new)
        self._followers: set[weakref.ref[FollowingToken]] = set()

    def cancel(self) -> None:
        """Ends the calls under way that were given the token, and those to come."""
        with self._handle as pointer:
            lib.ember_cancel_token_cancel(pointer)
        for one in self._followers.copy():
            follower = one()
            if follower is not None:
                follower.cancel()

    def reset(self) -> None:
        """Makes the token fit for new calls."""
        with self._handle as pointer:
            lib.ember_cancel_token_reset(pointer)
        for one in self._followers.copy():
            follower = one()
            if follower is not None:
                follower.follow()

    @property
    def cancelled(self) -> bool:
        with self._handle as pointer:
            return bool(lib.ember_cancel_token_is_cancelled(pointer))


class FollowingToken(CancelToken):
    """The token of one context, or of one loading: cancelled while the user's is, which may serve others too, and while Ctrl-C
    or the end of the interpreter interrupts its call."""

    def __init__(self, leader: CancelToken | None) -> None:
        super().__init__()
        self._interrupted = False
        self._leader = leader
        if leader is not None:
            leader._followers.add(weakref.ref(self, leader._followers.discard))
        self.follow()

    def interrupt(self) -> None:
        self._interrupted = True
        self.cancel()

    def restore(self) -> None:
        self._interrupted = False
        self.follow()

    def follow(self) -> None:
        """Makes it what it should be. The look at the others comes last, so that no cancelling gets lost."""
        self.reset()
        if self._interrupted or (self._leader is not None and self._leader.cancelled):
            self.cancel()


class _Errand:
    """A call that another thread runs while the main thread waits for it or for Ctrl-C."""

    def __init__(self, function: Callable[[], Any], token: FollowingToken) -> None:
        self.function = function
        self.token = token
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
        with self.lock:
            self.begun = False
            if self.abandoned:
                self.token.restore()
        self.done.set()

    def give_up(self) -> None:
        """Ends the call and waits for that, so that nothing runs without the caller's knowledge."""
        while True:
            try:
                with self.lock:
                    self.abandoned = True
                    if not self.begun:
                        return  # nor will it begin, or it is over
                    self.token.interrupt()
                self.done.wait()
            except BaseException:  # of another signal's handler: it is ending already
                continue


def interruptible(function: Callable[[], T], token: FollowingToken) -> T:
    """Runs a call that may take long and that `token` ends. Python tells the main thread of signals between two steps of
    Python only, so there the call runs on a thread of its own, and what a handler raises, as that of Ctrl-C does, cancels it.
    At the end of the interpreter no thread can be started any more."""
    main = threading.main_thread()
    if threading.current_thread() is not main or not main.is_alive():
        return function()
    errand = _Errand(function, token)
    try:
        _thread.start_new_thread(errand.run, ())
        errand.done.wait()
    except BaseException:
        errand.give_up()
        raise
    error, errand.error = errand.error, None
    if error is not None:
        try:
            raise error
        finally:
            del error  # whose traceback has this frame
    result: T = errand.result
    return result
