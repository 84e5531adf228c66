"""Samplers, and generations under way."""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from ._abi import EventKind, FinishReason, ember_event, ember_generate_result
from ._candidates import Stage, candidates_callback
from ._library import CancelToken, Handle, call, interruptible, lib, settle, text_arrays, token_array, unsigned
from .errors import BusyError, ClosedError, InvalidArgumentError

if TYPE_CHECKING:
    from .context import Context
    from .model import Model


class Sampler:
    """Chooses tokens: stages in the order in which they are added, then one random draw. A seed gives the same choices on
    every platform; without one it is drawn, and `seed` tells it."""

    def __init__(
        self,
        seed: int | None = None,
        *,
        top_k: int | None = None,
        top_p: float | None = None,
        temperature: float | None = None,
    ) -> None:
        """The arguments are stages, in this order."""
        number = int.from_bytes(os.urandom(4), "little") if seed is None else unsigned("seed", seed, 64)
        self._handle = Handle("sampler", lib.ember_sampler_free, lib.ember_sampler_new, number)
        told = ctypes.c_uint64()
        with self._handle as pointer:
            call(lib.ember_sampler_seed, pointer, ctypes.byref(told))
        self.seed = told.value
        self._callbacks: list[object] = []  # which C has the addresses of
        if top_k is not None:
            self.top_k(top_k)
        if top_p is not None:
            self.top_p(top_p)
        if temperature is not None:
            self.temperature(temperature)

    def _add(self, function: Any, *arguments: Any) -> Sampler:
        with self._handle as pointer:
            call(function, pointer, *arguments)
        return self

    def greedy(self) -> Sampler:
        """Keeps the most probable token."""
        return self._add(lib.ember_sampler_add_greedy)

    def temperature(self, temperature: float) -> Sampler:
        """Divides the logits; 0 is greedy."""
        return self._add(lib.ember_sampler_add_temperature, temperature)

    def top_k(self, k: int) -> Sampler:
        """Keeps the k most probable tokens; 0 keeps all."""
        return self._add(lib.ember_sampler_add_top_k, unsigned("top_k", k))

    def top_p(self, p: float) -> Sampler:
        """Keeps the most probable tokens that make up p."""
        return self._add(lib.ember_sampler_add_top_p, p)

    def min_p(self, p: float) -> Sampler:
        """Keeps the tokens at least p times as probable as the most probable one."""
        return self._add(lib.ember_sampler_add_min_p, p)

    def typical_p(self, p: float) -> Sampler:
        """Keeps the tokens of the most expected surprise that make up p."""
        return self._add(lib.ember_sampler_add_typical_p, p)

    def dynamic_temperature(self, temperature: float, spread: float, exponent: float = 1.0) -> Sampler:
        """A temperature within `spread` of `temperature` that grows with the entropy."""
        return self._add(lib.ember_sampler_add_dynamic_temperature, temperature, spread, exponent)

    def xtc(self, probability: float, threshold: float) -> Sampler:
        """Removes, as often as `probability` says, the tokens above `threshold` but the least likely of them."""
        return self._add(lib.ember_sampler_add_xtc, probability, threshold)

    def penalties(
        self, last_n: int, *, repeat: float = 1.0, frequency: float = 0.0, presence: float = 0.0
    ) -> Sampler:
        """Makes tokens less likely that are among the latest `last_n`."""
        return self._add(
            lib.ember_sampler_add_penalties, unsigned("last_n", last_n), repeat, frequency, presence
        )

    def dry(
        self,
        model: Model,
        last_n: int,
        *,
        multiplier: float = 0.8,
        base: float = 1.75,
        allowed_length: int = 2,
        breakers: Sequence[str] | None = None,
    ) -> Sampler:
        """Makes tokens less likely which would carry on a passage of `allowed_length` tokens or more that is among the latest
        `last_n` already (DRY). No passage goes beyond a breaker: None stands for line end, colon, quotation mark, asterisk."""
        texts = (None, None, 0) if breakers is None else text_arrays([text.encode() for text in breakers])
        numbers = multiplier, base, unsigned("allowed_length", allowed_length), unsigned("last_n", last_n)
        with model._handle as pointer:
            return self._add(lib.ember_sampler_add_dry, pointer, *numbers, *texts)

    def stage(self, function: Stage) -> Sampler:
        """A stage of your own: `function(tokens, logits)` is called with what the stages before have left, and may change the
        logits; minus infinity rules a token out. Both are memory views, without a copy, of uint32 in ascending order and of
        float32, and numpy.asarray makes arrays over the same memory of them. They are valid during the call only: keeping one
        is a ValueError. What the function raises comes out of the call that samples; a generation then has ended.
        """
        callback = candidates_callback(function)
        self._callbacks.append(callback)
        return self._add(lib.ember_sampler_add_callback, callback, None)

    def clone(self) -> Sampler:
        """A copy of the sampler: its stages and their state, its random numbers where they stand."""
        copy = Sampler.__new__(Sampler)
        copy.seed = self.seed
        copy._callbacks = list(self._callbacks)
        with self._handle as pointer:
            copy._handle = Handle("sampler", lib.ember_sampler_free, lib.ember_sampler_clone, pointer)
        return copy

    def mirostat(self, tau: float, eta: float) -> Sampler:
        """Follows the surprise `tau` at the rate `eta` (Mirostat 2); the last stage, as a rule."""
        return self._add(lib.ember_sampler_add_mirostat, tau, eta)

    def bias(self, biases: Mapping[int, float]) -> Sampler:
        """Adds numbers to the logits of tokens; minus infinity rules a token out."""
        ids = token_array(list(biases))
        values = (ctypes.c_float * len(ids))(*biases.values())
        return self._add(lib.ember_sampler_add_bias, ids, values, len(ids))

    def allow(self, tokens: Sequence[int]) -> Sampler:
        """Keeps these tokens only."""
        ids = token_array(tokens)
        return self._add(lib.ember_sampler_add_allow, ids, len(ids))

    def deny(self, tokens: Sequence[int]) -> Sampler:
        """Rules these tokens out."""
        ids = token_array(tokens)
        return self._add(lib.ember_sampler_add_deny, ids, len(ids))

    def accept(self, token: int) -> None:
        """Tells the stages that look back that a token is now part of the text; generations do so themselves."""
        self._add(lib.ember_sampler_accept, unsigned("token", token))

    def reset(self) -> None:
        """Starts over: the random numbers and what was accepted."""
        self._add(lib.ember_sampler_reset)

    def sample(self, logits: Any) -> int:
        """A token for logits: a memory view or an array of float32, or a sequence of numbers."""
        try:
            view = memoryview(logits).cast("B")
            if memoryview(logits).format not in ("f", "<f"):
                raise InvalidArgumentError("logits must be float32")
            raw = (ctypes.c_char * view.nbytes).from_buffer_copy(view)
            values = (ctypes.c_float * (view.nbytes // 4)).from_buffer(raw)
        except TypeError:
            values = (ctypes.c_float * len(logits))(*logits)
        token = ctypes.c_uint32()
        self._add(lib.ember_sampler_sample, values, len(values), ctypes.byref(token))
        return token.value

    def close(self) -> None:
        """Frees the sampler; generations that have it keep it. Closing twice is fine."""
        self._handle.close()


class GenerateOptions(TypedDict, total=False):
    """How to generate: the keyword arguments of Context.generate, Context.complete and Context.score.

    Without a sampler and without its arguments (temperature, top_k, top_p, seed) the likeliest token is taken.
    """

    max_tokens: int  # most tokens to generate; 128
    stop: str | Sequence[str]  # texts that end the generation
    include_stop: bool  # whether they are part of the text
    temperature: float
    top_k: int
    top_p: float
    seed: int
    sampler: Sampler  # instead of the four before
    logprobs: bool  # events tell the log-probability of their token
    top_logprobs: int  # and so many of the likeliest tokens; 64 at most
    echo: bool  # the first event is the prompt's text
    sequence: int  # of the context
    reuse_prefix: bool  # the prompt is the whole conversation; what the sequence has of it is not run again
    parse_special: bool  # the text of control tokens in the prompt stands for these tokens
    render_special: bool  # generated control tokens appear in the text
    ignore_eog: bool  # go on after an end-of-generation token
    time_limit: float  # seconds from the call on; a token that comes later is the end, with FinishReason.TIME_LIMIT
    priority: int  # of an engine's requests that wait the highest begins; 0
    # How many tokens stay at the beginning, and how many behind them are forgotten each time the sequence is full (n_ctx), as
    # Context.shift_sequence does it. Without it the generation ends there. Not with learned positions (GPT-2) nor in an engine.
    shift: tuple[int, int]
    # Most tokens to guess and run together, from what followed the last ones where they stood before; 32 at most. The text is
    # the same, only the time differs. Other calls that decode on the context between two events waste the guesses; an engine
    # makes none.
    lookup: int
    lookup_ngram: int  # how many of the last tokens to look for, 16 at most, down to 2; 3
    # A context of a smaller model with the same vocabulary, of about the same n_ctx, which guesses where lookup finds nothing.
    # It is in use while an event is made, which is a BusyError when another call has it then. It may be closed meanwhile.
    draft: Context
    n_draft: int  # most tokens for it to guess, 32 at most; 8
    draft_sequence: int  # of it, for each generation another; 0. It becomes the beginning of the text, whatever it held
    cancel_token: CancelToken


class TokenLogprob(NamedTuple):
    """A token and the natural logarithm of its probability."""

    token: int
    logprob: float


class Event(NamedTuple):
    """What happens in a generation: its own copy, to be kept as long as you like."""

    kind: EventKind
    text: str  # new text, of whole code points; perhaps empty
    token: int | None  # of EventKind.TOKEN
    bytes: bytes  # what the token stands for, perhaps a part of a code point
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
    n_drafted: int  # tokens that were guessed and run ahead (lookup, draft)
    n_accepted: int  # of these, those that came true
    n_shifted: int  # tokens that were forgotten for room (shift)


_STAGES = ("seed", "top_k", "top_p", "temperature")
_NUMBERS = {"max_tokens": "max_tokens", "sequence": "sequence", "top_logprobs": "n_top"}
_FLAGS = ("include_stop", "logprobs", "echo", "reuse_prefix", "parse_special", "render_special", "ignore_eog")
_KINDS = {int(kind): kind for kind in EventKind}
_TOKEN = EventKind.TOKEN
_new_tuple = tuple.__new__


def _set_guesses(pointer: int, given: dict[str, Any]) -> None:
    """The options of who guesses tokens."""
    for name, of in (("lookup_ngram", "lookup"), ("n_draft", "draft"), ("draft_sequence", "draft")):
        if name in given and given.get(of) is None:
            raise InvalidArgumentError(f"{name} says nothing without {of}")
    if given.get("lookup") is not None:
        numbers = unsigned("lookup", given["lookup"]), unsigned("lookup_ngram", given.get("lookup_ngram", 3))
        call(lib.ember_generate_options_set_lookup, pointer, *numbers)
    if given.get("draft") is not None:
        numbers = unsigned("draft_sequence", given.get("draft_sequence", 0)), unsigned("n_draft", given.get("n_draft", 8))
        with given["draft"]._handle as draft:
            call(lib.ember_generate_options_set_draft, pointer, draft, *numbers)


def options_handle(options: GenerateOptions) -> Handle:
    """The options object of the C library for keyword arguments."""
    unknown = set(options) - set(GenerateOptions.__annotations__)
    if unknown:
        raise TypeError(f"there is no option {sorted(unknown)[0]!r}")
    given: dict[str, Any] = dict(options)
    handle = Handle("options object", lib.ember_generate_options_free, lib.ember_generate_options_new)
    with handle as pointer:
        for name, setter in _NUMBERS.items():
            if name in given:
                function = getattr(lib, f"ember_generate_options_set_{setter}")
                call(function, pointer, unsigned(name, given[name]))
        for name in _FLAGS:
            if name in given:
                call(getattr(lib, f"ember_generate_options_set_{name}"), pointer, given[name])
        if given.get("time_limit") is not None:
            milliseconds = unsigned("time_limit", math.ceil(given["time_limit"] * 1000), 64)
            call(lib.ember_generate_options_set_time_limit, pointer, milliseconds)
        priority = given.get("priority", 0)
        if not -(1 << 31) <= priority < 1 << 31:
            raise InvalidArgumentError(f"priority is {priority}, which does not fit 32 bits with a sign")
        call(lib.ember_generate_options_set_priority, pointer, priority)
        if given.get("shift") is not None:
            keep, drop = given["shift"]
            numbers = unsigned("shift", keep), unsigned("shift", drop)
            call(lib.ember_generate_options_set_shift, pointer, *numbers)
        _set_guesses(pointer, given)
        stops = given.get("stop", ())
        for text in (stops,) if isinstance(stops, str) else stops or ():
            raw = text.encode()
            call(lib.ember_generate_options_add_stop, pointer, raw, len(raw))
        if given.get("cancel_token") is not None:
            with given["cancel_token"]._handle as token:
                call(lib.ember_generate_options_set_cancel_token, pointer, token)
    return handle


def sampler_of(options: GenerateOptions) -> Sampler | None:
    """The sampler that keyword arguments ask for."""
    stages: dict[str, Any] = {name: value for name, value in options.items() if name in _STAGES and value is not None}
    sampler = options.get("sampler")
    if sampler is not None and stages:
        raise InvalidArgumentError(f"{sorted(stages)[0]} is the sampler's to say when one is given")
    if sampler is None and stages:
        return Sampler(**stages)
    return sampler


def prompt_of(prompt: str | Sequence[int]) -> tuple[Any, bool]:
    """A prompt as C takes it, and whether it is a text."""
    return (prompt.encode(), True) if isinstance(prompt, str) else (token_array(prompt), False)


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
    return Usage(*counts, FinishReason(raw.finish_reason), raw.n_drafted, raw.n_accepted, raw.n_shifted)


class Completion(NamedTuple):
    """A finished generation."""

    text: str
    tokens: list[int]
    finish_reason: FinishReason
    usage: Usage


def completion_of(events: Sequence[Event], usage: Usage) -> Completion:
    """All events of a generation as one."""
    tokens = [event.token for event in events if event.token is not None]
    return Completion("".join(event.text for event in events), tokens, usage.finish_reason, usage)


class Generation:
    """A generation under way: an iterator of events, the last of which is of EventKind.END. Made by Context.generate.

    One thread at a time. What was generated stays in the context's sequence; leaving a loop early is fine.
    """

    def __init__(self, context: Context, handle: Handle, sampler: Sampler | None, draft: Context | None) -> None:
        self._context = context
        self._draft = draft
        self._handle = handle
        self.sampler = sampler
        self.finish_reason: FinishReason | None = None
        self._event = ember_event(struct_size=ctypes.sizeof(ember_event))
        self._error = ctypes.c_void_p()
        with handle as pointer:
            self._arguments = pointer, ctypes.byref(self._event), ctypes.byref(self._error)
        self._lock = threading.Lock()  # whoever has it may use the handle
        self._closed = False
        self._prompt_is_run = False

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if not self._lock.acquire(blocking=False):
            self._check_open()
            raise BusyError("another thread is taking an event of this generation")
        try:
            if self._closed:
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
            self._lock.release()
            if self._closed:
                self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this generation was closed")

    def _step(self) -> None:
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
        if self._lock.acquire(blocking=False):  # otherwise whoever has it closes
            try:
                self._handle.close()
            finally:
                self._lock.release()

    def __enter__(self) -> Generation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
