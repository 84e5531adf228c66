"""Stages of a sampler that are Python functions."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import Any

from ._abi import ember_candidates_callback
from ._arguments import function as checked
from ._ending import Carried
from ._library import inside, keep_raised
from ._typing import Floats, Ints

Stage = Callable[[Ints, Floats], object]


def candidates_callback(function: Stage) -> object:
    """A function for C that calls this one with views of the candidates, and keeps what it raises."""
    checked("a stage", function)

    def run(tokens: Any, logits: Any, n: int, _user_data: Any) -> int:
        if Carried.refused():
            return 1
        try:
            with inside:
                _lend(function, tokens, logits, n)
        except BaseException as error:  # the call that samples raises it
            keep_raised(error)
            return 1
        return 0

    callback: object = ember_candidates_callback(run)
    return callback


def _lend(function: Stage, tokens: Any, logits: Any, n: int) -> None:
    ids = (ctypes.c_uint32 * n).from_address(ctypes.addressof(tokens.contents))
    numbers = (ctypes.c_float * n).from_address(ctypes.addressof(logits.contents))
    lent = weakref.ref(ids), weakref.ref(numbers)
    with (
        memoryview(ids).toreadonly().cast("B").cast("I") as id_view,
        memoryview(numbers).cast("B").cast("f") as number_view,
    ):
        function(id_view, number_view)
        # Whatever else is made of the views keeps what is below them alive.
        del ids, numbers
        id_view.release()
        number_view.release()
    if any(one() is not None for one in lent):
        raise ValueError("a sampler's stage kept tokens or logits, which are valid during its call only: copy them")
