"""Engines: many generations at once."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import itertools
import queue
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any

from ._abi import (
    EMBER_FOREVER,
    EventKind,
    FinishReason,
    ember_engine_metrics,
    ember_event,
    ember_event_callback,
)
from ._arguments import instance
from ._ending import Lasting
from ._library import Handle, Single, call, inside, lib, take_raised
from ._typing import Unpack
from .context import GenerateOptions, options_handle, prompt_of, sampler_of
from .errors import BusyError, ClosedError, EmberError
from .generation import Completion, Event, Usage, completion_of, event_of, usage_of
from .model import Model
from .options import EngineOptions, engine_options
from .results import ContextInfo, info_of
from .sampler import Sampler


@dataclass(frozen=True)
class EngineMetrics:
    """What an engine has done since it was made, and how things stand."""

    n_submitted: int  # requests that were taken
    n_refused: int  # requests that were refused with QueueFullError
    n_finished: int  # requests that ended by themselves, by a stop text, or where the context was full
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


class _Inbox:
    """Where a request's events go."""

    def __init__(self, put: Callable[[Event], object], sampler: Sampler | None) -> None:
        self.put = put
        self.sampler = sampler  # whose stages C may call until the end
        self.raised: BaseException | None = None  # by a stage, which ended the request
        self.end: Event | None = None  # should it get lost on its way


def _on_event(raw: Any, number: int) -> int:
    with inside:
        inbox = _inboxes[number]
        event = event_of(raw.contents)
        if event.kind is EventKind.END:
            del _inboxes[number]
            inbox.raised, inbox.end = take_raised(), event
        with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody waits
            inbox.put(event)
    return 0


_CALLBACK: Any = ember_event_callback(_on_event)


class _Running(Lasting):
    """An engine, whose thread calls Python: from before it is made until it is freed."""

    __slots__ = ("handle", "left")

    def __init__(self) -> None:
        super().__init__()
        self.handle: Callable[[], Handle | None] = lambda: None  # a weak reference, once it is made
        self.left: list[int] = []  # its pointer, where it is left to stop() to free it

    def stop(self) -> None:
        handle = self.handle()
        if handle is not None:
            handle.close()
        while self.left:
            self._free(self.left.pop())

    def make(self, *arguments: Any) -> int:
        self.begin()
        status: int = lib.ember_engine_new(*arguments)
        if status:
            self.end()
        return status

    def free(self, pointer: int) -> None:
        """The collector may find an engine on its own thread, which cannot wait for itself: another does, or, at the end of the
        interpreter, where none can be started, the main thread."""
        if not inside.depth:
            self._free(pointer)
        elif threading.main_thread().is_alive():
            threading.Thread(target=self._free, args=(pointer,), daemon=True).start()
        else:
            self.left.append(pointer)

    def _free(self, pointer: int) -> None:
        lib.ember_engine_free(pointer)
        self.end()


class _EngineHandle(Handle):
    __slots__ = ()

    _carried = contextlib.nullcontext  # that it runs is known until it is freed


class Engine(Single):
    """Many generations on one model together, which takes far less time than one after the other. Requests wait in a queue of
    bounded length; each gives what it would give alone. Any number of threads may use an engine at once. A thread of its own
    does the work; only to hand over an event does it need Python's lock."""

    def __init__(self, model: Model, **options: Unpack[EngineOptions]) -> None:
        """EngineOptions lists the options; `n_ctx` are the positions of each request."""
        running = _Running()
        with engine_options(options) as opt, instance("model", model, Model)._handle as pointer:
            self._handle = _EngineHandle("engine", running.free, running.make, pointer, opt)
        running.handle = weakref.ref(self._handle)

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
        function = lib.ember_engine_submit if is_text else lib.ember_engine_submit_tokens
        sampler = sampler_of(options)
        inbox = _Inbox(put, sampler)
        number = next(_numbers)

        def make(*arguments: Any) -> int:
            _inboxes[number] = inbox  # until the last event, which each request has that was made
            status: int = function(*arguments)
            if status:
                del _inboxes[number]
            return status

        with options_handle(options) as opt, self._handle as pointer, contextlib.ExitStack() as stack:
            draw = None if sampler is None else stack.enter_context(sampler._handle)
            arguments = pointer, content, len(content), opt, draw, _CALLBACK, number
            return Handle("request", lib.ember_request_free, make, *arguments), inbox

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


class _Request(Single):
    """What requests have in common."""

    def __init__(self, engine: Engine, handle: Handle, inbox: _Inbox) -> None:
        self._engine = engine  # lives as long as its requests
        self._handle = handle
        self._inbox = inbox
        # Of who takes an event. A caller that finds it locked does not wait: it may be this thread that has it.
        self._lock = threading.Lock()
        self.finish_reason: FinishReason | None = None

    def _begin(self) -> bool:
        """Whether there is another event, for this thread, or this task, alone to take."""
        if self._lock.locked():
            raise BusyError("somebody else is taking an event of this request")
        if self.finish_reason is not None and not self._handle.closed:
            return False
        with self._handle as pointer:
            if inside.depth:  # C knows, when it is to wait, whether this is the engine's own thread
                try:
                    call(lib.ember_request_next, pointer, 1, ctypes.byref(_empty_event()))
                except BusyError:
                    raise
                except EmberError:
                    pass  # what ended the request comes after its events
        return True

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
    """A generation that an engine was asked for: an iterator of events, the last of which is of EventKind.END. It runs whether
    its events are taken or not, and after a loop that was left, until it is cancelled or closed, its `with` block is left, or
    its last reference goes. One thread at a time takes its events. Waiting holds neither Python's lock nor up Ctrl-C. A stage on
    the engine's own thread, which would wait for itself, gets a BusyError."""

    def __init__(self, engine: Engine, handle: Handle, inbox: _Inbox, events: queue.SimpleQueue[Event]) -> None:
        super().__init__(engine, handle, inbox)
        self._events = events

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if not self._begin():
            raise StopIteration
        with self._lock:
            try:
                return self._note(self._events.get())
            except BaseException:
                end = self._inbox.end
                if end is not None and self.finish_reason is None and self._events.empty():
                    self._events.put(end)  # what a signal's handler raised came between taking it and noting it
                raise

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
        with self._lock:
            try:
                return self._note(await self._events.get())
            except asyncio.CancelledError:
                with contextlib.suppress(ClosedError):
                    self.cancel()
                raise

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
