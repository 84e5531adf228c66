"""Generations under way, their events, and what they give."""

from __future__ import annotations

import builtins
import ctypes
import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple

from ._abi import ConstraintProgress, EventKind, FinishReason, ember_event, ember_generate_result
from ._arguments import unsigned
from ._cancel import interruptible
from ._ending import Carried
from ._library import Handle, Lease, Single, call, fill, lib, settle
from .errors import BusyError, ClosedError
from .sampler import Sampler
from .state import Sequences


class TokenLogprob(NamedTuple):
    """A token and the natural logarithm of its probability."""

    token: int
    logprob: float


class Event(NamedTuple):
    """What happens in a generation: its own copy, to be kept as long as you like."""

    kind: EventKind
    text: str  # new text, of whole code points; perhaps empty
    token: int | None  # of EventKind.TOKEN
    bytes: builtins.bytes  # what the token stands for, perhaps a part of a code point
    logprob: float | None  # if asked for
    tops: tuple[TokenLogprob, ...]  # the likeliest tokens at this place, if asked for
    finish_reason: FinishReason | None  # of EventKind.END


class Usage(NamedTuple):
    """What a generation did."""

    n_prompt: int
    n_generated: int
    n_reused: int
    prefill_ns: int
    decode_ns: int
    finish_reason: FinishReason
    n_drafted: int  # draft tokens that were run ahead (lookup, draft)
    n_accepted: int  # of these, those that were accepted
    n_shifted: int  # tokens that were forgotten to go on (shift)
    n_forced: int  # tokens that a constraint left no choice for and that were run together with others
    progress: ConstraintProgress  # how far the text is that follows a constraint; one that is cut off is UNFINISHED


_KINDS = {int(kind): kind for kind in EventKind}
_TOKEN = EventKind.TOKEN
_new_tuple = tuple.__new__


def event_of(raw: Any) -> Event:
    """A copy of an event, whose pointers are Ember's. Runs once a token, and by then the model's weights have pushed Python out
    of the caches: what counts is how much there is to touch."""
    text = raw.text[: raw.text_len].decode() if raw.text_len else ""
    kind = _KINDS[raw.kind]
    if kind is _TOKEN:
        logprob = raw.logprob
        return _new_tuple(
            Event,
            (
                kind,
                text,
                raw.token,
                raw.bytes[: raw.n_bytes] if raw.n_bytes else b"",
                logprob if logprob == logprob else None,
                tuple(TokenLogprob(top.token, top.logprob) for top in raw.tops[: raw.n_tops]) if raw.n_tops else (),
                None,
            ),
        )
    reason = FinishReason(raw.finish_reason) if kind is EventKind.END else None
    return Event(kind, text, None, b"", None, (), reason)


def usage_of(function: Any, pointer: int) -> Usage:
    """What a function of the library says about a generation."""
    raw = ember_generate_result(struct_size=ctypes.sizeof(ember_generate_result))
    call(function, pointer, ctypes.byref(raw))
    counts = raw.n_prompt, raw.n_generated, raw.n_reused, raw.prefill_ns, raw.decode_ns
    others = raw.n_drafted, raw.n_accepted, raw.n_shifted, raw.n_forced
    return Usage(*counts, FinishReason(raw.finish_reason), *others, ConstraintProgress(raw.progress))


class Completion(NamedTuple):
    """A finished generation."""

    text: str
    tokens: list[int]
    finish_reason: FinishReason
    usage: Usage
    logprobs: list[float]  # of the tokens, if asked for; else there are none


def completion_of(events: Sequence[Event], usage: Usage) -> Completion:
    """All events of a generation as one."""
    text = "".join(event.text for event in events)
    tokens = [event.token for event in events if event.token is not None]
    logprobs = [event.logprob for event in events if event.logprob is not None]
    return Completion(text, tokens, usage.finish_reason, usage, logprobs)


class Generation(Single):
    """A generation under way: an iterator of events, the last of which is of EventKind.END. Made by Context.generate.

    One thread at a time. The context's sequence keeps all generated tokens but that of the last event that was taken: it is run
    with the next one. A loop that is left after a token has shown it, and the sequence lacks it; so it does after an end of
    FinishReason.CANCELLED. Further events of this generation go on where the loop was left. A prompt that begins with the token's
    id, `[event.token, *model.tokenize(text, add_special=False)]` or `[event.token]` alone, does so too, greedy or drawn by the
    same sampler. Stages that look back, as penalties do, then count the token twice. After other ends the sequence has all.
    """

    def __init__(
        self,
        context: Sequences,
        handle: Handle,
        sampler: Sampler | None,
        draft: Sequences | None,
        leases: list[Lease],
    ) -> None:
        self._context = context
        self._draft = draft
        self._handle = handle
        # The library's generation uses these, so that they cannot be freed while an event is made; it keeps them anyway.
        self._leases = leases
        self.sampler = sampler
        self.finish_reason: FinishReason | None = None
        self._event = ember_event(struct_size=ctypes.sizeof(ember_event))
        self._error = ctypes.c_void_p()
        with handle as pointer:
            self._arguments = pointer, ctypes.byref(self._event), ctypes.byref(self._error)
        # Whoever has it may use the handle. A caller that finds it locked does not wait: it may be this thread that has it.
        self._lock = threading.Lock()
        self._closed = False
        self._prompt_is_run = False

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._lock.locked():
            self._check_open()
            raise BusyError("another thread is taking an event of this generation")
        try:
            with self._lock:
                self._check_open()
                if self.finish_reason is not None:
                    raise StopIteration
                if self._context._views:
                    self._context._forget_logits()
                if self._draft is not None:
                    self._draft._forget_logits()
                if self._prompt_is_run:
                    self._step()
                else:
                    interruptible(self._step, self._context._token)
                    self._prompt_is_run = True
                event = event_of(self._event)
                self.finish_reason = event.finish_reason
                return event
        finally:
            if self._closed:
                self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this generation was closed")

    def _step(self) -> None:
        if self.sampler is not None and self.sampler._callbacks:
            with Carried(self._context._token):
                settle(lib.ember_generator_next(*self._arguments), self._error)
        else:
            settle(lib.ember_generator_next(*self._arguments), self._error)

    def text(self) -> str:
        """Takes all events that are left; their text."""
        return "".join(event.text for event in self)

    @property
    def usage(self) -> Usage:
        """What it did so far."""
        self._check_open()
        with self._handle as pointer:
            return usage_of(lib.ember_generator_usage, pointer)

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Frees the generation, once no other thread is taking an event. Closing twice is fine."""
        self._closed = True
        if not self._lock.locked():  # otherwise whoever has it closes
            with self._lock:
                self._handle.close()
                self._leases.clear()

    def __enter__(self) -> Generation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


class Completions(Single):
    """Several completions of one prompt under way, made by Context.completions: an iterator of pairs, which completion and its event. They
    take turns, a token each, and each ends with one event of EventKind.END. One thread at a time."""

    def __init__(self, context: Sequences, handle: Handle, sampler: Sampler | None, leases: list[Lease]) -> None:
        self._context = context
        self._handle = handle
        self._leases = leases  # what is not to be freed while an event is made
        self._sampler = sampler
        self._event = ember_event(struct_size=ctypes.sizeof(ember_event))
        self._index = ctypes.c_uint32()
        self._error = ctypes.c_void_p()

    def __iter__(self) -> Iterator[tuple[int, Event]]:
        return self

    def __next__(self) -> tuple[int, Event]:
        if self._context._views:
            self._context._forget_logits()
        with self._handle as pointer:
            interruptible(lambda: self._step(pointer), self._context._token)
            if self._event.kind == EventKind.NONE:
                raise StopIteration
            return self._index.value, event_of(self._event)

    def _step(self, pointer: int) -> None:
        arguments = pointer, ctypes.byref(self._event), ctypes.byref(self._index), ctypes.byref(self._error)
        if self._sampler is not None and self._sampler._callbacks:
            with Carried(self._context._token):
                settle(lib.ember_completions_next(*arguments), self._error)
        else:
            settle(lib.ember_completions_next(*arguments), self._error)

    def finish(self) -> None:
        """Takes all events that are left."""
        for _ in self:
            pass

    def text(self, index: int) -> str:
        """The text of a completion so far."""
        number = unsigned("index", index)
        with self._handle as pointer:
            return bytes(fill(ctypes.c_uint8, 256, lib.ember_completions_text, pointer, number)).decode()

    def usage(self, index: int) -> Usage:
        """What a completion did so far."""
        number = unsigned("index", index)
        with self._handle as pointer:
            return usage_of(lambda p, *rest: lib.ember_completions_usage(p, number, *rest), pointer)

    def rank(self) -> list[int]:
        """All completions by the mean log-probability of their tokens, the likeliest first, when all have ended. Needs the option
        `logprobs`."""
        with self._handle as pointer:
            return list(fill(ctypes.c_uint32, 8, lib.ember_completions_rank, pointer))

    @property
    def closed(self) -> bool:
        return self._handle.closed

    def close(self) -> None:
        """Frees the completions, once no other thread is taking an event. Closing twice is fine."""
        self._handle.close()
        self._leases.clear()

    def __enter__(self) -> Completions:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
