"""Tokenizers without a model, and prompts to fill a gap."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple

from ._abi import EMBER_TOKEN_NONE, FimOrder, ember_tokenizer_info
from ._arguments import contents, elements, flag, integers, member, path_bytes, text as utf8, unsigned, wrong_type
from ._library import Handle, Single, call, fill, lib
from ._typing import Buffer, Self
from .errors import reading


class TokenizerInfo(NamedTuple):
    """What a tokenizer knows of its tokens. None: there is no such token."""

    n_vocab: int
    bos_token: int | None
    eos_token: int | None
    eot_token: int | None
    unk_token: int | None
    pad_token: int | None
    add_bos: bool
    add_eos: bool
    has_chat_template: bool
    fim_prefix_token: int | None  # fill-in-the-middle: before the text in front of a gap
    fim_suffix_token: int | None  # before the text after it
    fim_middle_token: int | None  # before what fills it
    fim_repository_token: int | None
    fim_file_token: int | None


class Tokenizer(Single):
    """A tokenizer: a model's (Model.tokenizer), or one that was loaded alone. Any number of threads may use it at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Loads it from a GGUF file, of which no tensor is looked at, from a tokenizer.json, or from the folder of one."""
        raw = path_bytes("path", path)
        with reading(path):
            self._handle = Handle("tokenizer", lib.ember_tokenizer_release, lib.ember_tokenizer_load, raw, len(raw))

    @classmethod
    def from_bytes(cls, data: Buffer) -> Self:
        """The tokenizer of a GGUF file, or of a tokenizer.json, that lies in memory. Nothing of it is kept."""
        raw = contents("data", data)
        return cls._of(lib.ember_tokenizer_load_buffer, raw, len(raw))

    @classmethod
    def _of(cls, function: Any, *arguments: Any) -> Self:
        tokenizer = cls.__new__(cls)
        tokenizer._handle = Handle("tokenizer", lib.ember_tokenizer_release, function, *arguments)
        return tokenizer

    @property
    def info(self) -> TokenizerInfo:
        raw = ember_tokenizer_info(struct_size=ctypes.sizeof(ember_tokenizer_info))
        with self._handle as pointer:
            call(lib.ember_tokenizer_info_get, pointer, ctypes.byref(raw))
        fields = {name: getattr(raw, name) for name in TokenizerInfo._fields}
        for name, value in fields.items():
            if name.endswith("_token"):
                fields[name] = None if value == EMBER_TOKEN_NONE else value
            elif name != "n_vocab":
                fields[name] = value != 0
        return TokenizerInfo(**fields)

    def tokenize(self, text: str | Buffer, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """As Model.tokenize."""
        raw = text.encode() if isinstance(text, str) else contents("text", text, "a str, bytes or another buffer")
        function = lib.ember_tokenizer_tokenize if isinstance(text, str) else lib.ember_tokenizer_tokenize_bytes
        flags = flag("add_special", add_special), flag("parse_special", parse_special)
        with self._handle as pointer:
            return list(fill(ctypes.c_uint32, len(raw) // 2 + 8, function, pointer, raw, len(raw), *flags))

    def count(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> int:
        """How many tokens `tokenize` gives."""
        raw, out = utf8("text", text), ctypes.c_size_t()
        flags = flag("add_special", add_special), flag("parse_special", parse_special)
        with self._handle as pointer:
            call(lib.ember_tokenizer_count, pointer, raw, len(raw), *flags, ctypes.byref(out))
        return out.value

    def detokenize_bytes(self, tokens: Sequence[int], *, render_special: bool = False) -> bytes:
        """The bytes of tokens, joined."""
        ids, special = integers("tokens", tokens), flag("render_special", render_special)
        with self._handle as pointer:
            function = lib.ember_tokenizer_detokenize
            return bytes(fill(ctypes.c_char, len(ids) * 6 + 16, function, pointer, ids, len(ids), special).raw)

    def detokenize(self, tokens: Sequence[int], *, render_special: bool = False) -> str:
        """The text of tokens. Bytes that are no UTF-8, at its ends for example, are U+FFFD."""
        return self.detokenize_bytes(tokens, render_special=render_special).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        """The exact bytes of one token."""
        number = unsigned("token", token)
        with self._handle as pointer:
            return bytes(fill(ctypes.c_char, 32, lib.ember_tokenizer_token_bytes, pointer, number).raw)

    def is_eog(self, token: int) -> bool:
        """Whether a token ends a generation."""
        return self._token_flag(lib.ember_tokenizer_token_is_eog, token)

    def is_control(self, token: int) -> bool:
        """Whether a token is a control token, which stands for no text."""
        return self._token_flag(lib.ember_tokenizer_token_is_control, token)

    def _token_flag(self, function: Any, token: int) -> bool:
        out = ctypes.c_bool()
        with self._handle as pointer:
            call(function, pointer, unsigned("token", token), ctypes.byref(out))
        return out.value

    def fim_prompt(
        self,
        prefix: str,
        suffix: str,
        *,
        order: FimOrder = FimOrder.AUTO,
        repository: str = "",
        file: str = "",
        files: Sequence[tuple[str, str]] = (),
    ) -> list[int]:
        """The tokens of a prompt that asks for what stands between `prefix` and `suffix`, for Context.generate. `file` is the name of the
        file that has the gap, `files` are names and texts of others, to stand before it. An UnsupportedError names the token that the
        tokenizer lacks."""
        options = Handle("options object", lib.ember_fim_options_free, lib.ember_fim_options_new)
        before, after = utf8("prefix", prefix), utf8("suffix", suffix)
        with options as opt, self._handle as pointer:
            call(lib.ember_fim_options_set_order, opt, member("order", order, FimOrder))
            for name, value in (("repository", repository), ("file", file)):
                raw = utf8(name, value)
                call(getattr(lib, f"ember_fim_options_set_{name}"), opt, raw, len(raw))
            for i, one in enumerate(elements("files", "pairs of a name and a text", files)):
                try:
                    name, content = one
                except (TypeError, ValueError):
                    raise wrong_type(f"files[{i}]", "a name and a text", one) from None
                raw, other = utf8(f"files[{i}][0]", name), utf8(f"files[{i}][1]", content)
                call(lib.ember_fim_options_add_file, opt, raw, len(raw), other, len(other))
            capacity = (len(before) + len(after)) // 2 + 64
            arguments = pointer, before, len(before), after, len(after), opt
            return list(fill(ctypes.c_uint32, capacity, lib.ember_tokenizer_fim_prompt, *arguments))

    @property
    def closed(self) -> bool:
        return self._handle.closed

    def close(self) -> None:
        """Gives the tokenizer up. Closing twice is fine."""
        self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
