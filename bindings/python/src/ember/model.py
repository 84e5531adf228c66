"""Models: loading, dimensions, metadata, tokens."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Union

from ._abi import EMBER_TOKEN_NONE, Pack, Pooling, ember_model_info
from ._library import CancelToken, Handle, call, fill, interruptible, lib, token_array, unsigned

MetaValue = Union[str, int, float, bool]


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


class Metadata(Mapping[str, MetaValue]):
    """The metadata of a model's file: its strings, numbers and booleans by key. Arrays are left out."""

    _STRING, _ARRAY = 8, 9
    _FLOATS = (6, 12)
    _BOOL = 7

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        keys = ctypes.c_size_t()
        self._keys: dict[str, int] = {}
        with handle as pointer:
            call(lib.ember_model_meta_count, pointer, ctypes.byref(keys))
            for index in range(keys.value):
                raw = fill(ctypes.c_char, 64, lib.ember_model_meta_key, pointer, index).raw
                kind = ctypes.c_uint32()
                call(lib.ember_model_meta_type, pointer, raw, len(raw), ctypes.byref(kind))
                if kind.value != self._ARRAY:
                    self._keys[raw.decode("utf-8", "replace")] = kind.value

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __getitem__(self, key: str) -> MetaValue:
        kind = self._keys[key]
        name = key.encode()
        with self._handle as pointer:
            if kind == self._STRING:
                text = fill(ctypes.c_char, 256, lib.ember_model_meta_string, pointer, name, len(name))
                return str(text.raw, "utf-8", "replace")
            value: Any
            if kind == self._BOOL:
                value, function = ctypes.c_bool(), lib.ember_model_meta_bool
            elif kind in self._FLOATS:
                value, function = ctypes.c_double(), lib.ember_model_meta_f64
            elif kind in (1, 3, 5, 11):
                value, function = ctypes.c_int64(), lib.ember_model_meta_i64
            else:
                value, function = ctypes.c_uint64(), lib.ember_model_meta_u64
            call(function, pointer, name, len(name), ctypes.byref(value))
            result: MetaValue = value.value
            return result


class Model:
    """A loaded model: immutable, usable from any number of threads at once. Contexts keep alive what they need of it."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        use_mmap: bool = True,
        pack: Pack = Pack.AUTO,
        isa: str = "",
        cancel_token: CancelToken | None = None,
    ) -> None:
        """Loads a GGUF file, or a folder in the layout of Hugging Face. `use_mmap` False reads files that others may change
        meanwhile; `pack` and `isa` are those of ember.h."""
        token = cancel_token or CancelToken()
        name, level = os.fsencode(path), isa.encode()
        options = Handle("options object", lib.ember_model_options_free, lib.ember_model_options_new)
        with options as opt, token._handle as cancel:
            call(lib.ember_model_options_set_use_mmap, opt, use_mmap)
            call(lib.ember_model_options_set_pack, opt, int(pack))
            call(lib.ember_model_options_set_isa, opt, level, len(level))
            call(lib.ember_model_options_set_cancel_token, opt, cancel)
            self._finish(
                interruptible(
                    lambda: Handle("model", lib.ember_model_release, lib.ember_model_load, name, len(name), opt), token
                )
            )

    @classmethod
    def from_bytes(cls, data: bytes) -> Model:
        """The model of a GGUF file that lies in memory. Ember keeps a copy."""
        model = cls.__new__(cls)
        model._finish(Handle("model", lib.ember_model_release, lib.ember_model_load_buffer, data, len(data), None))
        return model

    def _finish(self, handle: Handle) -> None:
        self._handle = handle
        raw = ember_model_info(struct_size=ctypes.sizeof(ember_model_info))
        with handle as pointer:
            call(lib.ember_model_info_get, pointer, ctypes.byref(raw))
            self._isa: str = lib.ember_model_isa(pointer).decode()
        fields = {name: getattr(raw, name) for name in ModelInfo._fields}
        for name in ("bos_token", "eos_token"):
            fields[name] = None if fields[name] == EMBER_TOKEN_NONE else fields[name]
        for name in ("has_tokenizer", "add_bos", "causal"):
            fields[name] = fields[name] != 0
        fields["pooling"] = Pooling(fields["pooling"])
        self._info = ModelInfo(**fields)

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

    def tokenize(self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """The token ids of a text, or of bytes that need not be UTF-8. `add_special` adds the BOS and EOS tokens that the
        file asks for; `parse_special` takes the text of control tokens for these tokens."""
        raw = text.encode() if isinstance(text, str) else text
        function = lib.ember_model_tokenize if isinstance(text, str) else lib.ember_model_tokenize_bytes
        with self._handle as pointer:
            ids = fill(
                ctypes.c_uint32, len(raw) // 2 + 8, function, pointer, raw, len(raw), add_special, parse_special
            )
        return list(ids)

    def detokenize_bytes(self, tokens: Sequence[int], *, render_special: bool = False) -> bytes:
        """The bytes of tokens, joined."""
        ids = token_array(tokens)
        with self._handle as pointer:
            out = fill(
                ctypes.c_char, len(ids) * 6 + 16, lib.ember_model_detokenize, pointer, ids, len(ids), render_special
            )
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
        out = ctypes.c_bool()
        with self._handle as pointer:
            call(lib.ember_model_token_is_eog, pointer, unsigned("token", token), ctypes.byref(out))
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
    ) -> str:
        """The text of a conversation as the model was trained on it: messages have "role", "content" and what else the
        template looks at. It spells control tokens: tokenize it with parse_special and without add_special."""
        content = json.dumps(messages).encode()
        options = Handle("options object", lib.ember_chat_options_free, lib.ember_chat_options_new)
        with options as opt, self._handle as pointer:
            for function, text in (
                (lib.ember_chat_options_set_tools, "" if tools is None else json.dumps(tools)),
                (lib.ember_chat_options_set_variables, "" if variables is None else json.dumps(variables)),
                (lib.ember_chat_options_set_template, template),
                (lib.ember_chat_options_set_template_name, template_name),
            ):
                raw = text.encode()
                call(function, opt, raw, len(raw))
            call(lib.ember_chat_options_set_add_generation_prompt, opt, add_generation_prompt)
            if now is not None:
                call(lib.ember_chat_options_set_now, opt, now)
            out = fill(
                ctypes.c_char,
                len(content) + 1024,
                lib.ember_chat_apply_template,
                pointer,
                content,
                len(content),
                opt,
            )
        return str(out.raw, "utf-8")

    def chat_template(self, name: str = "") -> str:
        """The text of one of the model's templates, the default one without a name."""
        raw = name.encode()
        with self._handle as pointer:
            out = fill(ctypes.c_char, 8192, lib.ember_model_chat_template, pointer, raw, len(raw))
        return str(out.raw, "utf-8")

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
