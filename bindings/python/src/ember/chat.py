"""Replies of models: how they are asked for, and how they are read while they stream."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from ._abi import ChatEventKind, FinishReason, Thinking, ember_chat_event, ember_chat_format
from ._arguments import flag, given, instance, json_of, mapping, member, objects, signed, text
from ._library import Handle, Single, call, lib
from ._typing import Unpack
from .model import Model


class ReplyEvent(NamedTuple):
    """A piece of a reply."""

    kind: ChatEventKind
    text: str  # of the answer, of a thought, of arguments (JSON), or what the model wrote of a call that is broken
    name: str  # of the tool that is called
    id: str  # of the call
    call: int  # its place among the calls of the reply
    reason: str  # why a call is broken
    finish_reason: FinishReason | None  # of ChatEventKind.END


class ChatOptions(TypedDict, total=False):
    """How a conversation is written: keyword arguments of Conversation. None stands for the default."""

    tools: Sequence[Mapping[str, object]] | None  # descriptions of the tools that the model may call
    tool_choice: str | None  # "auto", "none", "required", or a tool's name
    parallel_calls: bool | None  # whether a reply may have several calls; True
    strict_tools: bool | None  # whether calls follow the schemas of the tools, so that they always parse; True
    thinking: bool | None  # whether the model thinks before it answers; as the template has it
    variables: Mapping[str, object] | None  # more variables for the template
    template: str | None  # in place of the model's
    template_name: str | None  # one of the model's templates
    now: int | None  # what the template's clock shows: seconds since 1970 on the local clock


def chat_options(options: ChatOptions) -> Handle:
    """The options object of the C library."""
    wanted = given(options, ChatOptions)
    handle = Handle("options object", lib.ember_chat_options_free, lib.ember_chat_options_new)
    with handle as pointer:
        texts: dict[str, str] = {name: wanted[name] for name in ("tool_choice", "template", "template_name") if name in wanted}
        if "tools" in wanted:
            texts["tools"] = objects("tools", wanted["tools"], "a list of tools")
        if "variables" in wanted:
            texts["variables"] = json_of("variables", dict(mapping("variables", wanted["variables"])))
        for name, value in texts.items():
            raw = text(name, value)
            call(getattr(lib, f"ember_chat_options_set_{name}"), pointer, raw, len(raw))
        for name in ("parallel_calls", "strict_tools"):
            if name in wanted:
                call(getattr(lib, f"ember_chat_options_set_{name}"), pointer, flag(name, wanted[name]))
        if "thinking" in wanted:
            mode = Thinking.ON if flag("thinking", wanted["thinking"]) else Thinking.OFF
            call(lib.ember_chat_options_set_thinking, pointer, mode)
        if "now" in wanted:
            call(lib.ember_chat_options_set_now, pointer, signed("now", wanted["now"], 64))
    return handle


def event_of(raw: Any) -> ReplyEvent:
    """A copy of an event, whose pointers are Ember's."""
    kind = ChatEventKind(raw.kind)
    return ReplyEvent(
        kind,
        raw.text[: raw.text_len].decode(),
        raw.name[: raw.name_len].decode(),
        raw.id[: raw.id_len].decode(),
        raw.index,
        raw.reason[: raw.reason_len].decode(),
        FinishReason(raw.finish_reason) if kind is ChatEventKind.END else None,
    )


class ReplyFormat(NamedTuple):
    """How replies to a template's prompts are written. An empty text: there is none."""

    name: str  # of the form of calls: "hermes", "llama3", "mistral", "harmony" …
    thinking_open: str  # the mark before a thought
    thinking_close: str  # the mark after it
    thinking_variable: str  # the variable of the template that switches thinking
    thinking_on: str  # its value with which the model thinks, in JSON
    thinking_off: str  # and the value with which it does not


class ChatParser(Single):
    """Reads one reply of a model while it streams: the answer, thoughts, and calls of tools. Marks are often control tokens: have the
    generation write them (render_special). One thread at a time."""

    def __init__(self, model: Model, prompt: str = "", **options: Unpack[ChatOptions]) -> None:
        """`prompt` is what Model.apply_chat_template gave, best with the same options."""
        raw = text("prompt", prompt)
        with chat_options(options) as opt, instance("model", model, Model)._handle as pointer:
            arguments = pointer, opt, raw, len(raw)
            self._handle = Handle("parser", lib.ember_chat_parser_free, lib.ember_chat_parser_new, *arguments)

    def push(self, piece: str) -> list[ReplyEvent]:
        """More of the reply, and the events that come of it."""
        raw = text("piece", piece)
        with self._handle as pointer:
            call(lib.ember_chat_parser_push, pointer, raw, len(raw))
            return self._events(pointer)

    def finish(self, finish_reason: FinishReason) -> list[ReplyEvent]:
        """The reply is over. Text that waited for more comes now, and a call that is not complete is broken."""
        reason = member("finish_reason", finish_reason, FinishReason)
        with self._handle as pointer:
            call(lib.ember_chat_parser_finish, pointer, reason)
            return self._events(pointer)

    def _events(self, pointer: int) -> list[ReplyEvent]:
        raw = ember_chat_event(struct_size=ctypes.sizeof(ember_chat_event))
        events: list[ReplyEvent] = []
        while True:
            call(lib.ember_chat_parser_next, pointer, ctypes.byref(raw))
            if raw.kind == ChatEventKind.NONE:
                return events
            events.append(event_of(raw))

    @property
    def thinking(self) -> bool:
        """Whether the reply is inside a thought now."""
        out = ctypes.c_uint32()
        with self._handle as pointer:
            call(lib.ember_chat_parser_is_thinking, pointer, ctypes.byref(out))
        return out.value != 0

    @property
    def format(self) -> ReplyFormat:
        """How the replies are written."""
        raw = ember_chat_format(struct_size=ctypes.sizeof(ember_chat_format))
        with self._handle as pointer:
            call(lib.ember_chat_parser_format, pointer, ctypes.byref(raw))
            parts = [getattr(raw, name)[: getattr(raw, f"{name}_len")].decode() for name in ReplyFormat._fields]
        return ReplyFormat(*parts)

    def close(self) -> None:
        """Frees the parser. Closing twice is fine."""
        self._handle.close()
