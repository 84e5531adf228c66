"""Contexts: generating, embedding, scoring, and logits."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from ._abi import Backend, Pooling, ember_context_info, ember_score_result, ember_timings, ember_token_score
from ._library import CancelToken, Handle, Lease, call, fill, interruptible, lib, text_arrays, token_array, unsigned
from .errors import InvalidArgumentError
from .generation import (
    Completion,
    GenerateOptions,
    Generation,
    completion_of,
    options_handle,
    prompt_of,
    sampler_of,
)
from .model import Model
from .options import ContextOptions, Memory, context_options, memory_of
from .state import Sequences

if TYPE_CHECKING:
    import numpy
    import numpy.typing
    from typing_extensions import Unpack


class ContextInfo(NamedTuple):
    """The options in force in a context."""

    n_ctx: int
    n_seq: int
    n_batch: int
    n_threads: int
    page_len: int  # tokens of a page of the KV cache; a sequence takes whole pages
    n_pages: int
    n_free_pages: int  # that no sequence has at the moment
    backend: Backend


def info_of(function: Any, pointer: int) -> ContextInfo:
    """What ember_context_info_get tells, or its like."""
    raw = ember_context_info(struct_size=ctypes.sizeof(ember_context_info))
    call(function, pointer, ctypes.byref(raw))
    info = ContextInfo(*(getattr(raw, name) for name in ContextInfo._fields))
    return info._replace(backend=Backend(info.backend))


class Timings(NamedTuple):
    """Tokens that a context ran, and the nanoseconds they took."""

    load_ns: int  # loading the model
    n_prefill: int  # tokens of calls with several tokens of a sequence: prompts
    prefill_ns: int
    n_decode: int  # tokens of calls with one of each sequence: generation
    decode_ns: int
    n_embed: int  # tokens of texts that were embedded
    embed_ns: int


class TokenScore(NamedTuple):
    """What a token scores: its log-probability, and how many tokens are likelier at its place."""

    token: int
    logprob: float
    rank: int


class Score(NamedTuple):
    """How likely a continuation is."""

    logprob: float
    is_greedy: bool
    tokens: list[TokenScore]
    n_prompt: int
    n_reused: int


class Embeddings(Sequence["memoryview[float]"]):
    """Vectors of `dim` numbers each, float32, which belong to this object. Each is a memory view; `numpy()` is all of them as
    a matrix and `tolist()` as lists."""

    def __init__(self, values: Any, dim: int) -> None:
        self._values = memoryview(values).cast("B").cast("f")
        self.dim = dim

    def __len__(self) -> int:
        return len(self._values) // self.dim

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        at = range(len(self))[index] * self.dim
        return self._values[at : at + self.dim]

    def tolist(self) -> list[list[float]]:
        return [list(vector) for vector in self]

    def numpy(self) -> numpy.typing.NDArray[numpy.float32]:
        """A matrix over the same memory, a row for each vector. Needs numpy."""
        import numpy

        return numpy.asarray(self._values, dtype=numpy.float32).reshape(len(self), self.dim)


class Context(Sequences):
    """Token sequences being processed over a model. One thread at a time: a second one gets a BusyError."""

    def __init__(
        self, model: Model, *, cancel_token: CancelToken | None = None, **options: Unpack[ContextOptions]
    ) -> None:
        """ContextOptions lists the options. The cancel token may end all of the context's calls."""
        self._token = cancel_token or CancelToken()
        self._views: list[memoryview[float]] = []
        self._model = model
        self._n_vocab = model.info.n_vocab
        self._n_embd = model.info.n_embd
        with context_options(options) as opt, model._handle as pointer, self._token._handle as token:
            self._handle = Handle("context", lib.ember_context_free, lib.ember_context_new, pointer, opt)
            with self._handle as context:
                call(lib.ember_context_set_cancel_token, context, token)

    @property
    def info(self) -> ContextInfo:
        with self._handle as pointer:
            return info_of(lib.ember_context_info_get, pointer)

    @property
    def memory(self) -> Memory:
        """What the context takes, and its model."""
        with self._handle as pointer:
            return memory_of(lib.ember_context_memory, pointer)

    @property
    def timings(self) -> Timings:
        """What the context has done since it was made, or since reset_timings."""
        raw = ember_timings(struct_size=ctypes.sizeof(ember_timings))
        with self._handle as pointer:
            call(lib.ember_context_timings_get, pointer, ctypes.byref(raw))
        return Timings(*(getattr(raw, name) for name in Timings._fields))

    def reset_timings(self) -> None:
        """Sets the counters to 0; load_ns stays."""
        with self._handle as pointer:
            call(lib.ember_context_timings_reset, pointer)

    def generate(self, prompt: str | Sequence[int], **options: Unpack[GenerateOptions]) -> Generation:
        """Continues a sequence by a prompt, a text or token ids, and then by generated tokens: an iterator of events.
        GenerateOptions lists the options. Nothing runs before the first event is taken."""
        sampler = sampler_of(options)
        content, is_text = prompt_of(prompt)
        make = lib.ember_generator_new if is_text else lib.ember_generator_new_tokens
        with options_handle(options) as opt, self._handle as pointer:
            arguments = (pointer, content, len(content), opt)
            if sampler is None:
                handle = Handle("generation", lib.ember_generator_free, make, *arguments, None)
            else:
                with sampler._handle as draw:
                    handle = Handle("generation", lib.ember_generator_free, make, *arguments, draw)
        return Generation(self, handle, sampler, options.get("draft"))

    def chat(self, messages: Sequence[Mapping[str, object]], **options: Unpack[GenerateOptions]) -> Generation:
        """As generate: the answer to a conversation, written by the model's chat template. Give all of the conversation each
        time; what the sequence holds of it is not run again (unless reuse_prefix is False)."""
        text = self._model.apply_chat_template(messages)
        options.setdefault("reuse_prefix", True)
        return self.generate(self._model.tokenize(text, add_special=False, parse_special=True), **options)

    def complete(self, prompt: str | Sequence[int], **options: Unpack[GenerateOptions]) -> Completion:
        """As generate, all at once."""
        with self.generate(prompt, **options) as generation:
            events = list(generation)
            usage = generation.usage
        return completion_of(events, usage)

    def embed(
        self,
        texts: Sequence[str] | Sequence[Sequence[int]],
        *,
        pooling: Pooling = Pooling.AUTO,
        normalize: bool | None = None,
        truncate: bool = False,
    ) -> Embeddings:
        """A vector for each text (a string, or token ids to which nothing is added); with Pooling.NONE for each token of
        each text. `normalize` None scales vectors to length 1, but not with Pooling.NONE."""
        if isinstance(texts, (str, bytes)):
            raise TypeError("embed takes a list of texts, not a single one")
        options = Handle("options object", lib.ember_embed_options_free, lib.ember_embed_options_new)
        contents = [text.encode() if isinstance(text, str) else list(text) for text in texts]
        n = len(contents)
        function: Any
        arguments: tuple[Any, ...]
        strings = [content for content in contents if isinstance(content, bytes)]
        with options as opt, self._handle as pointer:
            call(lib.ember_embed_options_set_pooling, opt, int(pooling))
            call(lib.ember_embed_options_set_truncate, opt, truncate)
            if normalize is not None:
                call(lib.ember_embed_options_set_normalize, opt, normalize)
            if len(strings) == n:
                function, arguments = lib.ember_embed, (pointer, *text_arrays(strings), opt)
            elif strings:
                raise InvalidArgumentError("the texts must be all strings or all token ids")
            else:
                lengths = (ctypes.c_size_t * n)(*map(len, contents))
                ids = token_array([token for content in contents for token in content])
                function, arguments = lib.ember_embed_tokens, (pointer, ids, len(ids), lengths, n, opt)
            values = interruptible(
                lambda: fill(ctypes.c_float, n * self._n_embd, function, *arguments), self._token
            )
        return Embeddings(values, self._n_embd)

    def score(
        self, prompt: str | Sequence[int], continuation: str | Sequence[int], **options: Unpack[GenerateOptions]
    ) -> Score:
        """How likely a continuation is behind a prompt, both texts or both token ids. Of the options `sequence`,
        `parse_special` and `cancel_token` count."""
        result = ember_score_result(struct_size=ctypes.sizeof(ember_score_result))
        function: Any
        arguments: tuple[Any, ...]
        if isinstance(prompt, str) and isinstance(continuation, str):
            before, behind = prompt.encode(), continuation.encode()
            function, arguments = lib.ember_score, (before, len(before), behind, len(behind))
        elif isinstance(prompt, str) or isinstance(continuation, str):
            raise InvalidArgumentError("prompt and continuation must be both texts or both token ids")
        else:
            ids = token_array([*prompt, *continuation])
            function, arguments = lib.ember_score_tokens, (ids, len(ids), len(prompt))
        self._forget_logits()
        with options_handle(options) as opt, self._handle as pointer:
            scores = interruptible(
                lambda: fill(
                    ember_token_score,
                    len(continuation) + 8,
                    function,
                    pointer,
                    *arguments,
                    opt,
                    tail=(ctypes.byref(result),),
                ),
                self._token,
            )
        tokens = [TokenScore(one.token, one.logprob, one.rank) for one in scores]
        return Score(result.logprob, result.is_greedy != 0, tokens, result.n_prompt, result.n_reused)

    def decode(
        self,
        tokens: Sequence[int],
        *,
        positions: Sequence[int] | None = None,
        sequences: Sequence[int] | None = None,
        want_logits: Sequence[bool] | None = None,
    ) -> None:
        """Runs tokens through the model; logits() has the results. Without `want_logits` the last token's are wanted."""
        ids = token_array(tokens)
        for name, other in (("positions", positions), ("sequences", sequences), ("want_logits", want_logits)):
            if other is not None and len(other) != len(ids):
                raise InvalidArgumentError(f"{name} has {len(other)} elements, tokens {len(ids)}")
        arguments = (
            ids,
            None if positions is None else token_array(positions),
            None if sequences is None else token_array(sequences),
            None if want_logits is None else bytes(map(bool, want_logits)),
            len(ids),
        )
        self._forget_logits()
        with self._handle as pointer:
            if len(ids) == 1:
                call(lib.ember_context_decode, pointer, *arguments)
            else:
                interruptible(lambda: call(lib.ember_context_decode, pointer, *arguments), self._token)

    def logits(self, index: int) -> memoryview[float]:
        """The logits of token `index` of the last decode: n_vocab float32 numbers, read-only, without a copy. They are the
        context's own memory, valid until its next decode, generation, score or rewind: then the view is released, and
        using it is a ValueError. A numpy array made of the view cannot be taken back: copy what is needed for longer."""
        out = ctypes.c_void_p()
        with self._handle as pointer:
            call(lib.ember_context_logits, pointer, unsigned("index", index, 64), ctypes.byref(out))
            numbers: Any = (ctypes.c_float * self._n_vocab).from_address(out.value or 0)
            numbers.lease = Lease(self._handle)  # closing the context waits for the view
        view: memoryview[float] = memoryview(numbers).toreadonly().cast("B").cast("f")
        self._views.append(view)
        return view

    def _forget_logits(self) -> None:
        while self._views:
            try:
                self._views.pop().release()
            except BufferError:
                pass  # something else is made of it

    def n_past(self, sequence: int = 0) -> int:
        """The number of tokens in a sequence."""
        out = ctypes.c_uint32()
        with self._handle as pointer:
            call(lib.ember_context_n_past, pointer, unsigned("sequence", sequence), ctypes.byref(out))
        return out.value

    def tokens(self, sequence: int = 0) -> list[int]:
        """The tokens of a sequence, in order: those that decoding, generating and loading a state brought there, after a shift
        those that are left."""
        number = unsigned("sequence", sequence)
        with self._handle as pointer:
            return list(fill(ctypes.c_uint32, 0, lib.ember_context_tokens, pointer, number))

    def rewind(self, n_past: int = 0, *, sequence: int = 0) -> None:
        """Forgets the tokens of a sequence from position `n_past` on."""
        self._forget_logits()
        with self._handle as pointer:
            call(
                lib.ember_context_rewind, pointer, unsigned("sequence", sequence), unsigned("n_past", n_past)
            )

    @property
    def closed(self) -> bool:
        return self._handle.closed

    def close(self) -> None:
        """Frees the context; a call under way on another thread, and arrays made of its logits, keep its memory until they
        end. Closing twice is fine."""
        self._forget_logits()
        self._handle.close()

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
