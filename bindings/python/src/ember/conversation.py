"""Conversations: messages in, events out, and a history that is kept."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple

from ._abi import (
    ChatEventKind,
    FinishReason,
    WhenFull,
    ember_chat_event,
    ember_conversation_usage,
    ember_full_callback,
)
from ._arguments import contents, function as checked, instance, json_of, mapping, member, text, unsigned
from ._cancel import interruptible
from ._ending import Carried
from ._library import Handle, Lease, Single, call, fill, keep_raised, lib
from ._typing import Unpack
from .chat import ChatOptions, ReplyEvent, chat_options, event_of
from .context import Context, GenerateOptions, options_handle, sampler_of


class ConversationUsage(NamedTuple):
    """What a reply took."""

    n_prompt: int  # tokens of the whole conversation, as it was when the reply began
    n_reused: int  # of these, those that the sequence held already
    n_generated: int
    n_thinking: int  # of these, those of thoughts
    n_dropped_turns: int  # turns that were dropped before the reply, since the context was full
    n_forgotten: int  # tokens that the sequence forgot with them, without running what stands after them again
    prefill_ns: int
    decode_ns: int
    finish_reason: FinishReason


def _full_callback(function: Callable[[int, int, int], int]) -> Any:
    """A function for C that calls this one, and keeps what it raises."""

    def run(n_tokens: int, n_ctx: int, n_turns: int, _user_data: Any) -> int:
        if Carried.refused():
            return 0
        try:
            return unsigned("the number of turns to drop", function(n_tokens, n_ctx, n_turns))
        except BaseException as error:  # the call that began the reply raises it
            keep_raised(error)
            return 0

    return ember_full_callback(run)


class Conversation(Single):
    """A conversation with a model in one sequence of a context. A reply runs only what the sequence does not hold; use the
    sequence for nothing else. Text from a user can never spell a control token. One thread at a time."""

    def __init__(
        self,
        context: Context,
        system: str = "",
        *,
        chat: ChatOptions | None = None,
        saved: bytes | None = None,
        **options: Unpack[GenerateOptions],
    ) -> None:
        """`system` is the system text, `chat` how the conversation is written, and GenerateOptions lists how replies are generated.
        With `saved`, what Conversation.save gave, that conversation goes on, with options of its own and without a `system`."""
        self._context = instance("context", context, Context)
        self._sampler = sampler_of(options)
        self._n = 0  # replies that were begun
        self._on_full: object = None  # which C has the address of
        with chat_options(chat or {}) as how, options_handle(options) as opt, context._handle as pointer:
            if saved is None:
                raw = text("system", system)
                self._handle = Handle(
                    "conversation",
                    lib.ember_conversation_free,
                    lib.ember_conversation_new,
                    pointer,
                    raw,
                    len(raw),
                    how,
                    opt,
                )
            else:
                data = contents("saved", saved)
                self._handle = Handle(
                    "conversation",
                    lib.ember_conversation_free,
                    lib.ember_conversation_load,
                    pointer,
                    data,
                    len(data),
                    how,
                    opt,
                )

    def add(self, message: Mapping[str, object]) -> None:
        """Adds a message without having it answered: the result of a tool, say, with role "tool"."""
        raw = json_of("message", dict(mapping("message", message))).encode()
        with self._handle as pointer:
            call(lib.ember_conversation_add, pointer, raw, len(raw))

    def send(self, message: str = "") -> Iterator[ReplyEvent]:
        """Adds a user's message and gives the reply's events, the last of which is of ChatEventKind.END; without a message those that
        were added are answered. Leaving the loop early gives the reply up: it becomes no message."""
        raw = text("message", message)
        self._n += 1
        n = self._n
        leases = [Lease(self._handle), Lease(self._context._handle)]
        with self._handle as pointer:
            self._context._forget_logits()
            with Carried(self._context._token):  # a function of set_on_full
                if self._sampler is None:
                    call(lib.ember_conversation_begin, pointer, raw, len(raw), None)
                else:
                    with self._sampler._handle as draw:
                        call(lib.ember_conversation_begin, pointer, raw, len(raw), draw)
        return self._events(n, leases)

    def _events(self, n: int, leases: list[Lease]) -> Iterator[ReplyEvent]:
        raw = ember_chat_event(struct_size=ctypes.sizeof(ember_chat_event))
        try:
            is_run = False
            while n == self._n:
                with self._handle as pointer:
                    arguments = lib.ember_conversation_next, pointer, ctypes.byref(raw)
                    if not is_run:
                        interruptible(lambda: call(*arguments), self._context._token)  # noqa: B023
                        is_run = True
                    elif self._sampler is not None and self._sampler._callbacks:
                        with Carried(self._context._token):
                            call(*arguments)
                    else:
                        call(*arguments)
                event = event_of(raw)
                yield event
                if event.kind is ChatEventKind.END:
                    return
        finally:
            if n == self._n and not self._handle.closed:
                with self._handle as pointer:
                    call(lib.ember_conversation_abandon, pointer)
            leases.clear()

    def text(self, message: str = "") -> str:
        """As send: the text of the answer."""
        kinds = (ChatEventKind.TEXT, ChatEventKind.CALL_BROKEN)
        return "".join(event.text for event in self.send(message) if event.kind in kinds)

    def undo(self) -> None:
        """Forgets the last turn: the user's last message and all after it."""
        with self._handle as pointer:
            call(lib.ember_conversation_undo, pointer)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """All messages so far, those that were dropped included."""
        with self._handle as pointer:
            out = fill(ctypes.c_char, 4096, lib.ember_conversation_messages, pointer)
        messages: list[dict[str, Any]] = json.loads(out.raw)
        return messages

    @property
    def usage(self) -> ConversationUsage:
        """What the last reply took."""
        raw = ember_conversation_usage(struct_size=ctypes.sizeof(ember_conversation_usage))
        with self._handle as pointer:
            call(lib.ember_conversation_usage_get, pointer, ctypes.byref(raw))
        numbers = {name: getattr(raw, name) for name in ConversationUsage._fields}
        return ConversationUsage(**numbers | {"finish_reason": FinishReason(raw.finish_reason)})

    def save(self) -> bytes:
        """The conversation as bytes: its messages, and which tokens its sequence holds. Save the sequence too (Context.save_state) where
        it shall not be run again."""
        with self._handle as pointer:
            return bytes(fill(ctypes.c_char, 8192, lib.ember_conversation_save, pointer).raw)

    def fork(self, sequence: int) -> Conversation:
        """The same conversation in another sequence of the context; both go on by themselves."""
        other = Conversation.__new__(Conversation)
        other._context, other._sampler, other._n = self._context, self._sampler, 0
        other._on_full = None
        number = unsigned("sequence", sequence)
        with self._handle as pointer:
            other._handle = Handle(
                "conversation", lib.ember_conversation_free, lib.ember_conversation_fork, pointer, number
            )
        return other

    def set_thinking_budget(self, n_tokens: int) -> None:
        """Ends a thought after so many tokens; 0: none does."""
        with self._handle as pointer:
            call(lib.ember_conversation_set_thinking_budget, pointer, unsigned("n_tokens", n_tokens))

    def set_tool_choice(self, choice: str) -> None:
        """Whether replies from now on have to call a tool: "auto", "none", "required", or a tool's name. It holds until another choice
        is set."""
        raw = text("choice", choice)
        with self._handle as pointer:
            call(lib.ember_conversation_set_tool_choice, pointer, raw, len(raw))

    def set_when_full(self, when_full: WhenFull, n_reserve: int = 0) -> None:
        """What happens where the conversation becomes longer than its sequence, and how many tokens must be free for a reply. 0:
        as many as the reply may have, and a quarter of the sequence at most."""
        numbers = member("when_full", when_full, WhenFull), unsigned("n_reserve", n_reserve)
        with self._handle as pointer:
            call(lib.ember_conversation_set_when_full, pointer, *numbers)

    def set_on_full(self, function: Callable[[int, int, int], int] | None) -> None:
        """Where the conversation becomes too long, `send` asks this function how many turns are dropped, the oldest first. It
        gets the number of tokens needed, the number that a sequence holds, and the number of turns that can be dropped. 0: the
        reply is a ContextFullError. `send` raises its exceptions. None: as few as need be. Copies of the conversation do
        without."""
        callback = ember_full_callback() if function is None else _full_callback(checked("function", function))
        with self._handle as pointer:
            call(lib.ember_conversation_set_on_full, pointer, callback, None)
            self._on_full = callback

    @property
    def closed(self) -> bool:
        return self._handle.closed

    def close(self) -> None:
        """Frees the conversation. Its sequence keeps its tokens."""
        self._handle.close()

    def __enter__(self) -> Conversation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
