"""Sequences of a context that are copied, kept and found, and their states."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Union

from ._abi import EMBER_ALL_SEQUENCES, ember_read_callback, ember_write_callback
from ._arguments import contents, integers, path_bytes, unsigned, wrong_type
from ._cancel import FollowingToken
from ._ending import Carried
from ._library import Handle, Single, call, fill, keep_raised, lib
from ._typing import Floats
from .errors import InvalidArgumentError, reading


class Writable(Protocol):
    """A file open for writing bytes, or the like."""

    def write(self, data: Any, /) -> Any: ...


class Readable(Protocol):
    """A file open for reading bytes, or the like."""

    def read(self, size: int, /) -> bytes: ...


Path = Union[str, "os.PathLike[str]"]


def _or_all(sequence: int | None) -> int:
    if sequence is None:
        return EMBER_ALL_SEQUENCES
    number = unsigned("sequence", sequence)
    if number == EMBER_ALL_SEQUENCES:
        raise InvalidArgumentError(f"there is no sequence {number}")
    return number


def _writer(write: Callable[[Any], Any]) -> object:
    def run(data: int, n: int, _user_data: Any) -> int:
        if Carried.refused():
            return 1
        try:
            rest = memoryview(ctypes.string_at(data, n))
            while rest:
                written = write(rest)  # files without a buffer may take a part
                rest = rest[len(rest) if written is None else written :]
        except BaseException as error:  # the call that saves raises it
            keep_raised(error)
            return 1
        return 0

    callback: object = ember_write_callback(run)
    return callback


def _reader(read: Callable[[int], bytes]) -> object:
    def run(buffer: int, capacity: int, _user_data: Any) -> int:
        if Carried.refused():
            return -1
        try:
            data = bytes(read(capacity))
        except BaseException as error:  # the call that loads raises it
            keep_raised(error)
            return -1
        if len(data) <= capacity:  # the library refuses more
            ctypes.memmove(buffer, data, len(data))
        return len(data)

    callback: object = ember_read_callback(run)
    return callback


class Sequences(Single):
    """What a context does with its sequences. In place of a sequence's number None stands for all of them."""

    _handle: Handle
    _token: FollowingToken
    _views: list[Floats]

    def _forget_logits(self) -> None:
        while self._views:
            try:
                self._views.pop().release()
            except BufferError:
                pass  # something else is made of it

    def copy_sequence(self, source: int, target: int, n_tokens: int) -> None:
        """Makes sequence `target` the first `n_tokens` tokens of sequence `source`. The two share memory until they differ, so
        this costs next to nothing: for several answers to one prompt."""
        self._forget_logits()
        numbers = unsigned("source", source), unsigned("target", target), unsigned("n_tokens", n_tokens)
        with self._handle as pointer:
            call(lib.ember_context_sequence_copy, pointer, *numbers)

    def shift_sequence(self, n_keep: int, n_drop: int, *, sequence: int = 0) -> None:
        """Forgets `n_drop` tokens of a sequence after its first `n_keep`, where a text has become too long. The tokens after them
        move forward, which takes about as long as reading them in the KV cache. The later tokens keep what was computed from the
        forgotten ones. So this is cheaper than running the rest anew, and not quite the same. UnsupportedError for a model with
        learned positions (GPT-2) and for an encoder."""
        self._forget_logits()
        numbers = unsigned("sequence", sequence), unsigned("n_keep", n_keep), unsigned("n_drop", n_drop)
        with self._handle as pointer:
            call(lib.ember_context_sequence_shift, pointer, *numbers)

    def keep_sequence(self, sequence: int) -> None:
        """Empties all sequences but this one."""
        self._forget_logits()
        with self._handle as pointer:
            call(lib.ember_context_sequence_keep, pointer, unsigned("sequence", sequence))

    def reuse(self, tokens: Sequence[int], *, sequence: int = 0, most: int | None = None) -> int:
        """Makes a sequence as much of the beginning of `tokens` as the KV cache has, and returns how many tokens that is. `most`
        is the most of them; by default all but the last one, which has to run for its logits. The sequence may have them already.
        With keep_prefixes, pages that were kept of other texts may have more. Decode the rest, then."""
        self._forget_logits()
        ids = integers("tokens", tokens)
        out = ctypes.c_size_t()
        limit = max(0, len(ids) - 1) if most is None else unsigned("most", most, 64)
        with self._handle as pointer:
            number = unsigned("sequence", sequence)
            call(lib.ember_context_sequence_reuse, pointer, number, ids, len(ids), limit, ctypes.byref(out))
        return out.value

    def save_state(self, *, sequence: int | None = None) -> bytes:
        """The state of a sequence, or of the whole context: tokens, KV cache, and the logits of the last token where they are
        there. Loading it in another process with the same model goes on with the same bits."""
        with self._handle as pointer:
            state: bytes = bytes(fill(ctypes.c_uint8, 0, lib.ember_context_state_save, pointer, _or_all(sequence)))
        return state

    def load_state(self, state: Any, *, sequence: int | None = None) -> None:
        """Makes a sequence what a state of one sequence says, or the whole context what a state of a context says. `state` is
        bytes, a mmap, or another buffer. On an error all is as it was. Load states of your own only."""
        self._forget_logits()
        raw = contents("state", state)
        with self._handle as pointer:
            call(lib.ember_context_state_load, pointer, _or_all(sequence), raw, len(raw))

    def save_state_to(self, target: Path | Writable, *, sequence: int | None = None) -> None:
        """As save_state, to a path, where a file that was there before stays as it was if anything fails, or to what has a method
        `write`, part by part. An exception from it is raised here."""
        number = _or_all(sequence)
        with self._handle as pointer:
            if isinstance(target, (str, os.PathLike)):
                name = path_bytes("target", target)
                call(lib.ember_context_state_save_file, pointer, number, name, len(name))
            else:
                if not callable(getattr(target, "write", None)):
                    raise wrong_type("target", "a path or what has a method write", target)
                with Carried():
                    call(lib.ember_context_state_write, pointer, number, _writer(target.write), None)

    def load_state_from(self, source: Path | Readable, *, sequence: int | None = None) -> None:
        """As load_state, from a path or from what has a method `read`, until that gives no more."""
        self._forget_logits()
        number = _or_all(sequence)
        with self._handle as pointer:
            if isinstance(source, (str, os.PathLike)):
                name = path_bytes("source", source)
                with reading(source):
                    call(lib.ember_context_state_load_file, pointer, number, name, len(name))
            else:
                if not callable(getattr(source, "read", None)):
                    raise wrong_type("source", "a path or what has a method read", source)
                with Carried():
                    call(lib.ember_context_state_read, pointer, number, _reader(source.read), None)
