"""Engines: many generations at once."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import ctypes
import itertools
import queue
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._abi import (
    EMBER_FOREVER,
    EventKind,
    FinishReason,
    ember_engine_metrics,
    ember_event,
    ember_event_callback,
)
from ._library import Handle, call, inside, lib, take_raised
from .context import ContextInfo, info_of
from .errors import BusyError, ClosedError
from .generation import (
    Completion,
    Event,
    GenerateOptions,
    Sampler,
    Usage,
    completion_of,
    event_of,
    options_handle,
    prompt_of,
    sampler_of,
    usage_of,
)
from .model import Model
from .options import EngineOptions, engine_options

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class EngineMetrics:
    """What an engine has done since it was made, and how things stand."""

    n_submitted: int  # requests that were taken
    n_refused: int  # requests that were refused with QueueFullError
    n_finished: int  # requests that ended by themselves, by a stop text, or without room
    n_cancelled: int  # requests that were cancelled, or ended by their time limit
    n_failed: int  # requests that an error ended
    n_preempted: int  # how often a request gave its memory up for others and was run again later
    n_prompt: int  # tokens of the prompts of requests that generated
    n_reused: int  # of these, those that were in the cache already
    n_prefilled: int  # tokens of prompts that were run, those that were run again included
    n_generated: int
    n_steps: int  # that ran something
    busy_ns: int  # spent in steps
    tokens_per_s: float  # generated, for each second spent in steps
    cache_hit_rate: float  # n_reused for each of n_prompt, 0 to 1
    n_queued: int  # requests that wait
    n_active: int  # requests that run
    n_pages: int  # of the KV cache
    n_free_pages: int  # that no request has; the cache may keep prefixes in them until they are needed


# What the engines' threads hand events to, by the number that C has. An entry is gone with the last event.
_inboxes: dict[int, _Inbox] = {}
_numbers = itertools.count(1)
# Those that are closed before the interpreter ends, because their threads call Python.
_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


class _Inbox:
    """Where a request's events go."""

    def __init__(self, put: Callable[[Event], object], sampler: Sampler | None) -> None:
        self.put = put
        self.sampler = sampler  # whose stages C may call until the end
        self.raised: BaseException | None = None  # by a stage, which ended the request


def _on_event(raw: Any, number: int) -> int:
    with inside:
        inbox = _inboxes[number]
        event = event_of(raw.contents)
        if event.kind is EventKind.END:
            del _inboxes[number]
            inbox.raised = take_raised()
        with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody waits
            inbox.put(event)
    return 0


_CALLBACK: Any = ember_event_callback(_on_event)


def _free(pointer: int) -> None:
    """Frees an engine. The collector may find it on the engine's own thread, which cannot wait for itself: another does."""
    if inside.depth:
        threading.Thread(target=lib.ember_engine_free, args=(pointer,), daemon=True).start()
    else:
        lib.ember_engine_free(pointer)


@atexit.register
def _close_engines() -> None:
    for engine in list(_engines):
        engine.close()


class Engine:
    """Many generations on one model together, which takes far less time than one after the other. Requests wait in a queue of
    bounded length; each gives what it would give alone. Any number of threads may use an engine at once. A thread of its own
    does the work; only to hand over an event does it need Python's lock."""

    def __init__(self, model: Model, **options: Unpack[EngineOptions]) -> None:
        """EngineOptions lists the options; `n_ctx` are the positions of each request."""
        with engine_options(options) as opt, model._handle as pointer:
            self._handle = Handle("engine", _free, lib.ember_engine_new, pointer, opt)
        _engines.add(self)

    def submit(self, prompt: str | Sequence[int], **options: Unpack[GenerateOptions]) -> Request:
        """Has a prompt continued, which is the whole text or its token ids: an iterator of events. GenerateOptions lists the
        options; `sequence` and `reuse_prefix` mean nothing here. A sampler is copied as it is: requests that shall differ need
        other seeds. QueueFullError when as many requests wait as may."""
        events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        return Request(self, *self._submit(prompt, options, events.put), events)

    def submit_async(self, prompt: str | Sequence[int], **options: Unpack[GenerateOptions]) -> AsyncRequest:
        """As submit, for the event loop that runs: an iterator for `async for`."""
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event] = asyncio.Queue()

        def put(event: Event) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        return AsyncRequest(self, *self._submit(prompt, options, put), events)

    def complete(self, prompt: str | Sequence[int], **options: Unpack[GenerateOptions]) -> Completion:
        """As submit, all at once."""
        with self.submit(prompt, **options) as request:
            return request.complete()

    def _submit(
        self, prompt: str | Sequence[int], options: GenerateOptions, put: Callable[[Event], object]
    ) -> tuple[Handle, _Inbox]:
        content, is_text = prompt_of(prompt)
        make = lib.ember_engine_submit if is_text else lib.ember_engine_submit_tokens
        sampler = sampler_of(options)
        inbox = _Inbox(put, sampler)
        number = next(_numbers)
        _inboxes[number] = inbox
        try:
            with options_handle(options) as opt, self._handle as pointer, contextlib.ExitStack() as stack:
                draw = None if sampler is None else stack.enter_context(sampler._handle)
                arguments = pointer, content, len(content), opt, draw, _CALLBACK, number
                return Handle("request", lib.ember_request_free, make, *arguments), inbox
        except BaseException:
            _inboxes.pop(number, None)
            raise

    @property
    def info(self) -> ContextInfo:
        """The options in force in its context: `n_ctx` are the positions of each request, for its prompt and what is generated,
        `n_seq` how many requests run together."""
        with self._handle as pointer:
            return info_of(lib.ember_engine_info_get, pointer)

    @property
    def metrics(self) -> EngineMetrics:
        """What it has done, and how things stand."""
        raw = ember_engine_metrics(struct_size=ctypes.sizeof(ember_engine_metrics))
        with self._handle as pointer:
            call(lib.ember_engine_metrics_get, pointer, ctypes.byref(raw))
        return EngineMetrics(*(getattr(raw, field.name) for field in fields(EngineMetrics)))

    @property
    def closed(self) -> bool:
        return self._handle.closed

    def close(self) -> None:
        """Ends all requests as cancelled and frees the engine. Closing twice is fine. Not for a sampler's stage, which runs on
        the engine's thread."""
        self._handle.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


class _Request:
    """What requests have in common."""

    def __init__(self, engine: Engine, handle: Handle, inbox: _Inbox) -> None:
        self._engine = engine  # lives as long as its requests
        self._handle = handle
        self._inbox = inbox
        self._lock = threading.Lock()
        self.finish_reason: FinishReason | None = None

    def _begin(self) -> bool:
        """Has this thread, or this task, alone take the next event. False: there is none any more."""
        if not self._lock.acquire(blocking=False):
            raise BusyError("somebody else is taking an event of this request")
        if self._handle.closed:
            self._lock.release()
            raise ClosedError("this request was closed")
        if self.finish_reason is not None:
            self._lock.release()
        return self.finish_reason is None

    def _note(self, event: Event) -> Event:
        """Raises what ended the request, if that was an error."""
        if event.finish_reason is None:
            return event
        self.finish_reason = event.finish_reason
        raised, self._inbox.raised = self._inbox.raised, None
        if raised is not None:
            try:
                raise raised
            finally:
                del raised  # whose traceback has this frame
        with self._handle as pointer:
            # The event comes a little before the result is written down.
            call(lib.ember_request_next, pointer, EMBER_FOREVER, ctypes.byref(_empty_event()))
        return event

    @property
    def usage(self) -> Usage:
        """What it did so far. The times are those of the steps that it was part of."""
        with self._handle as pointer:
            return usage_of(lib.ember_request_usage, pointer)

    def cancel(self) -> None:
        """Ends the request with the engine's next step, as FinishReason.CANCELLED. Any thread."""
        with self._handle as pointer:
            lib.ember_request_cancel(pointer)

    @property
    def closed(self) -> bool:
        return self._handle.closed

    def close(self) -> None:
        """Frees the request; one that has not ended is cancelled. Closing twice is fine."""
        self._handle.close()


def _empty_event() -> Any:
    return ember_event(struct_size=ctypes.sizeof(ember_event))


class Request(_Request):
    """A generation that an engine was asked for: an iterator of events, the last of which is of EventKind.END. Leaving it, or
    the `with` block, ends it. One thread at a time takes its events. Waiting holds neither Python's lock nor up Ctrl-C."""

    def __init__(self, engine: Engine, handle: Handle, inbox: _Inbox, events: queue.SimpleQueue[Event]) -> None:
        super().__init__(engine, handle, inbox)
        self._events = events

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if not self._begin():
            raise StopIteration
        try:
            return self._note(self._events.get())
        finally:
            self._lock.release()

    def complete(self) -> Completion:
        """Takes all events that are left."""
        events = list(self)
        return completion_of(events, self.usage)

    def __enter__(self) -> Request:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


class AsyncRequest(_Request):
    """As Request, for `async for` on the event loop that it was made on. A task that is cancelled while it waits cancels the
    request."""

    def __init__(self, engine: Engine, handle: Handle, inbox: _Inbox, events: asyncio.Queue[Event]) -> None:
        super().__init__(engine, handle, inbox)
        self._events = events

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if not self._begin():
            raise StopAsyncIteration
        try:
            return self._note(await self._events.get())
        except asyncio.CancelledError:
            with contextlib.suppress(ClosedError):
                self.cancel()
            raise
        finally:
            self._lock.release()

    async def complete(self) -> Completion:
        """Takes all events that are left."""
        events = [event async for event in self]
        return completion_of(events, self.usage)

    async def __aenter__(self) -> AsyncRequest:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
