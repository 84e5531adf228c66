"""Models: loading, dimensions, metadata, tokens."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from ._abi import EMBER_TOKEN_NONE, Pooling, Status, Thinking, ember_model_info
from ._arguments import (
    contents,
    flag,
    instance,
    integers,
    json_of,
    mapping,
    objects,
    path_bytes,
    signed,
    text,
    unsigned,
    wrong_type,
)
from ._cancel import CancelToken, FollowingToken, interruptible
from ._ending import Carried
from ._library import Handle, Single, call, fill, lib
from ._loans import Loan, on_release
from ._typing import Buffer, Self, Unpack
from .errors import InvalidArgumentError, reading
from .metadata import Metadata
from .options import LoadOptions, Memory, memory_of, model_options
from .tokenizer import Tokenizer


class OpenFile(Protocol):
    """What has a file descriptor."""

    def fileno(self) -> int: ...


def _retain(pointer: int, out: Any, _err: Any) -> int:
    """ember_model_retain with the arguments and the result of a function that makes something."""
    out._obj.value = lib.ember_model_retain(pointer)
    return Status.OK


def _chat(
    messages: Sequence[Mapping[str, object]],
    tools: Sequence[Mapping[str, object]] | None,
    variables: Mapping[str, object] | None,
    template: str,
    template_name: str,
    add_generation_prompt: bool,
    now: int | None,
    thinking: bool | None,
) -> tuple[bytes, Handle]:
    """Messages, and the options object of what writes them."""
    content = objects("messages", messages, "a list of messages").encode()
    options = Handle("options object", lib.ember_chat_options_free, lib.ember_chat_options_new)
    with options as opt:
        for name, value in (
            ("tools", "" if tools is None else objects("tools", tools, "a list of tools")),
            ("variables", "" if variables is None else json_of("variables", dict(mapping("variables", variables)))),
            ("template", template),
            ("template_name", template_name),
        ):
            raw = text(name, value)
            call(getattr(lib, f"ember_chat_options_set_{name}"), opt, raw, len(raw))
        beginning = flag("add_generation_prompt", add_generation_prompt)
        call(lib.ember_chat_options_set_add_generation_prompt, opt, beginning)
        if thinking is not None:
            mode = Thinking.ON if flag("thinking", thinking) else Thinking.OFF
            call(lib.ember_chat_options_set_thinking, opt, mode)
        if now is not None:
            call(lib.ember_chat_options_set_now, opt, signed("now", now, 64))
    return content, options


class ModelInfo(NamedTuple):
    """Dimensions of a model."""

    n_params: int
    file_size: int
    n_vocab: int
    n_ctx_train: int
    n_embd: int
    n_layer: int
    n_head: int
    n_head_kv: int
    head_dim: int
    n_ff: int
    bos_token: int | None
    eos_token: int | None
    has_tokenizer: bool
    add_bos: bool
    causal: bool
    pooling: Pooling
    n_expert: int
    n_expert_used: int
    eot_token: int | None
    unk_token: int | None
    pad_token: int | None
    has_chat_template: bool
    n_embd_out: int  # numbers of a text's vector
    n_prompts: int  # prompts for texts to be embedded, by their names


class Model(Single):
    """A loaded model: immutable, usable from any number of threads at once. Contexts keep alive what they need of it."""

    def __init__(self, path: str | os.PathLike[str], **options: Unpack[LoadOptions]) -> None:
        """Loads a GGUF file, or a folder in the layout of Hugging Face. LoadOptions lists the options."""
        name = path_bytes("path", path)
        with reading(path):
            self._load(options, lib.ember_model_load, name, len(name))

    @classmethod
    def from_file(
        cls, file: int | OpenFile, *, offset: int = 0, length: int = 0, **options: Unpack[LoadOptions]
    ) -> Self:
        """The model of a GGUF file that is part of an open file, given as an object with `fileno` or as a file descriptor:
        `length` bytes from `offset` on, up to its end with 0. The file may be closed afterwards."""
        try:
            number = file if isinstance(file, int) else file.fileno()
        except AttributeError:
            raise wrong_type("file", "an open file or a file descriptor", file) from None
        if not 0 <= number < 1 << 31:
            raise InvalidArgumentError(f"{number} is no file descriptor")
        model = cls.__new__(cls)
        part = unsigned("offset", offset, 64), unsigned("length", length, 64)
        model._load(options, lib.ember_model_load_fd, number, *part)
        return model

    @classmethod
    def from_bytes(cls, data: Buffer, **options: Unpack[LoadOptions]) -> Self:
        """The model of a GGUF file that lies in memory, in bytes or another buffer. Ember keeps a copy."""
        model = cls.__new__(cls)
        raw = contents("data", data)
        model._load(options, lib.ember_model_load_buffer, raw, len(raw))
        return model

    @classmethod
    def from_buffer(cls, data: Buffer, **options: Unpack[LoadOptions]) -> Self:
        """As from_bytes, without a copy: of bytes, a mmap, an array of numpy, or whatever else has a contiguous buffer. The object
        stays alive, and its buffer locked, until the model and its contexts are gone; nobody may change the bytes meanwhile."""
        model = cls.__new__(cls)
        loan = Loan(data)
        try:
            arguments = loan.address, loan.size, on_release, loan.key
            model._load(options, lib.ember_model_load_borrowed, *arguments, loaded=loan.take)
        finally:
            loan.settle()
        return model

    def _load(
        self, options: LoadOptions, function: Any, *arguments: Any, loaded: Callable[[], None] = lambda: None
    ) -> None:
        def load() -> Handle:
            with Carried(token):
                handle = Handle("model", lib.ember_model_release, function, *arguments, opt)
            loaded()
            return handle

        leader = options.get("cancel_token")
        token = FollowingToken(None if leader is None else instance("cancel_token", leader, CancelToken))
        with model_options(options) as opt, token._handle as cancel:
            call(lib.ember_model_options_set_cancel_token, opt, cancel)
            self._finish(interruptible(load, token))

    def _finish(self, handle: Handle) -> None:
        self._handle = handle
        raw = ember_model_info(struct_size=ctypes.sizeof(ember_model_info))
        with handle as pointer:
            call(lib.ember_model_info_get, pointer, ctypes.byref(raw))
            self._isa: str = lib.ember_model_isa(pointer).decode()
        fields = {name: getattr(raw, name) for name in ModelInfo._fields}
        for name in ("bos_token", "eos_token", "eot_token", "unk_token", "pad_token"):
            fields[name] = None if fields[name] == EMBER_TOKEN_NONE else fields[name]
        for name in ("has_tokenizer", "add_bos", "causal", "has_chat_template"):
            fields[name] = fields[name] != 0
        fields["pooling"] = Pooling(fields["pooling"])
        self._info = ModelInfo(**fields)

    def _another(self) -> Model:
        """The same model, to be closed on its own."""
        model = Model.__new__(Model)
        model._info, model._isa = self._info, self._isa
        with self._handle as pointer:
            model._handle = Handle("model", lib.ember_model_release, _retain, pointer)
        return model

    @property
    def info(self) -> ModelInfo:
        """Its dimensions."""
        return self._info

    @property
    def isa(self) -> str:
        """The instruction-set level that its contexts compute with."""
        return self._isa

    @property
    def metadata(self) -> Metadata:
        """What the model's file says about itself."""
        return Metadata(self._handle)

    @property
    def memory(self) -> Memory:
        """What the model takes; nothing of contexts."""
        with self._handle as pointer:
            return memory_of(lib.ember_model_memory, pointer)

    def tokenize(self, text: str | Buffer, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """The token ids of a text, or of bytes or another buffer, which need not be UTF-8. `add_special` adds the BOS and EOS
        tokens that the file asks for; `parse_special` takes the text of control tokens for these tokens."""
        raw = text.encode() if isinstance(text, str) else contents("text", text, "a str, bytes or another buffer")
        function = lib.ember_model_tokenize if isinstance(text, str) else lib.ember_model_tokenize_bytes
        flags = flag("add_special", add_special), flag("parse_special", parse_special)
        with self._handle as pointer:
            ids = fill(ctypes.c_uint32, len(raw) // 2 + 8, function, pointer, raw, len(raw), *flags)
        return list(ids)

    def detokenize_bytes(self, tokens: Sequence[int], *, render_special: bool = False) -> bytes:
        """The bytes of tokens, joined."""
        ids, special = integers("tokens", tokens), flag("render_special", render_special)
        with self._handle as pointer:
            function = lib.ember_model_detokenize
            out = fill(ctypes.c_char, len(ids) * 6 + 16, function, pointer, ids, len(ids), special)
        return bytes(out.raw)

    def detokenize(self, tokens: Sequence[int], *, render_special: bool = False) -> str:
        """The text of tokens. Bytes that are no UTF-8, at its ends for example, are U+FFFD."""
        return self.detokenize_bytes(tokens, render_special=render_special).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        """The exact bytes of one token."""
        with self._handle as pointer:
            out = fill(ctypes.c_char, 32, lib.ember_model_token_bytes, pointer, unsigned("token", token))
        return bytes(out.raw)

    def is_eog(self, token: int) -> bool:
        """Whether a token ends a generation."""
        return self._token_flag(lib.ember_model_token_is_eog, token)

    def is_control(self, token: int) -> bool:
        """Whether a token is a control token, such as BOS or the marks of a chat's turns, which stands for no text."""
        return self._token_flag(lib.ember_model_token_is_control, token)

    def _token_flag(self, function: Any, token: int) -> bool:
        out = ctypes.c_bool()
        with self._handle as pointer:
            call(function, pointer, unsigned("token", token), ctypes.byref(out))
        return out.value

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        tools: Sequence[Mapping[str, object]] | None = None,
        variables: Mapping[str, object] | None = None,
        template: str = "",
        template_name: str = "",
        add_generation_prompt: bool = True,
        now: int | None = None,
        thinking: bool | None = None,
    ) -> str:
        """The text of a conversation as the model was trained on it: messages have "role", "content" and what else the
        template looks at. It spells control tokens: tokenize it with parse_special and without add_special."""
        content, options = _chat(
            messages, tools, variables, template, template_name, add_generation_prompt, now, thinking
        )
        with options as opt, self._handle as pointer:
            capacity = len(content) + 1024
            out = fill(ctypes.c_char, capacity, lib.ember_chat_apply_template, pointer, content, len(content), opt)
        return str(out.raw, "utf-8")

    def tokenize_chat(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        tools: Sequence[Mapping[str, object]] | None = None,
        variables: Mapping[str, object] | None = None,
        template: str = "",
        template_name: str = "",
        add_generation_prompt: bool = True,
        now: int | None = None,
        thinking: bool | None = None,
    ) -> list[int]:
        """The token ids of what apply_chat_template writes. No text of a message or tool can spell a control token."""
        content, options = _chat(
            messages, tools, variables, template, template_name, add_generation_prompt, now, thinking
        )
        with options as opt, self._handle as pointer:
            capacity = len(content) // 2 + 256
            ids = fill(ctypes.c_uint32, capacity, lib.ember_chat_tokenize, pointer, content, len(content), opt)
        return list(ids)

    def chat_template(self, name: str = "") -> str:
        """The text of one of the model's templates, the default one without a name."""
        raw = text("name", name)
        with self._handle as pointer:
            out = fill(ctypes.c_char, 8192, lib.ember_model_chat_template, pointer, raw, len(raw))
        return str(out.raw, "utf-8")

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's own tokenizer, which may outlive it."""
        with self._handle as pointer:
            return Tokenizer._of(lib.ember_model_tokenizer, pointer)

    @property
    def labels(self) -> list[str]:
        """What Context.classify scores, in the order of the scores."""
        n = ctypes.c_size_t()
        with self._handle as pointer:
            call(lib.ember_model_label_count, pointer, ctypes.byref(n))
            labels = [fill(ctypes.c_char, 64, lib.ember_model_label, pointer, i).raw for i in range(n.value)]
        return [str(label, "utf-8") for label in labels]

    @property
    def closed(self) -> bool:
        return self._handle.closed

    def close(self) -> None:
        """Gives the model up; its contexts live on. Closing twice is fine."""
        self._handle.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
