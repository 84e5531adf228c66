"""What contexts tell: their dimensions, timings, scores, vectors."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

from ._abi import Backend, ember_context_info
from ._library import call
from ._typing import Floats, Matrix


class ContextInfo(NamedTuple):
    """The options in force in a context."""

    n_ctx: int
    n_seq: int
    n_batch: int
    n_threads: int
    page_len: int  # tokens of a page of the KV cache; a sequence takes whole pages
    n_pages: int
    n_free_pages: int  # that no sequence has at the moment
    backend: Backend


def info_of(function: Any, pointer: int) -> ContextInfo:
    """What ember_context_info_get tells, or its like."""
    raw = ember_context_info(struct_size=ctypes.sizeof(ember_context_info))
    call(function, pointer, ctypes.byref(raw))
    info = ContextInfo(*(getattr(raw, name) for name in ContextInfo._fields))
    return info._replace(backend=Backend(info.backend))


class Timings(NamedTuple):
    """Tokens that a context ran, and the nanoseconds they took."""

    load_ns: int  # loading the model
    n_prefill: int  # tokens of calls with several tokens of a sequence: prompts
    prefill_ns: int
    n_decode: int  # tokens of calls with one of each sequence: generation
    decode_ns: int
    n_embed: int  # tokens of texts that were embedded
    embed_ns: int
    n_replay: int = 0  # tokens run once more for the states of recurrent layers, since their sequence was shortened
    replay_ns: int = 0


class TokenScore(NamedTuple):
    """What a token scores: its log-probability, and how many tokens are likelier at its place."""

    token: int
    logprob: float
    rank: int


class Score(NamedTuple):
    """How likely a continuation is."""

    logprob: float
    is_greedy: bool
    tokens: list[TokenScore]
    n_prompt: int
    n_reused: int


class Embeddings(Sequence[Floats]):
    """Vectors of `dim` numbers each, float32, which belong to this object. Each is a memory view; `numpy()` is all of them as
    a matrix and `tolist()` as lists."""

    def __init__(self, values: Any, dim: int) -> None:
        self._values = memoryview(values).cast("B").cast("f")
        self.dim = dim

    def __len__(self) -> int:
        return len(self._values) // self.dim

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        at = range(len(self))[index] * self.dim
        return self._values[at : at + self.dim]

    def tolist(self) -> list[list[float]]:
        return [list(vector) for vector in self]

    def numpy(self) -> Matrix:
        """A matrix over the same memory, a row for each vector. Needs numpy."""
        import numpy

        return numpy.asarray(self._values, dtype=numpy.float32).reshape(len(self), self.dim)
