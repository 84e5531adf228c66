"""Contexts: generating, embedding, scoring, and logits."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, TypedDict

from ._abi import ClassifyActivation, Pooling, ember_score_result, ember_timings, ember_token_score
from ._arguments import (
    elements,
    flag,
    given,
    instance,
    integers,
    member,
    real,
    signed,
    text as text_of,
    text_arrays,
    texts as text_list,
    unsigned,
    wrong_type,
)
from ._cancel import CancelToken, FollowingToken, interruptible
from ._library import Handle, Lease, call, fill, lib
from ._typing import Floats, Unpack
from .constraint import Constraint
from .errors import InvalidArgumentError
from .generation import Completion, Completions, Generation, completion_of
from .model import Model
from .options import ContextOptions, Memory, context_options, memory_of
from .results import ContextInfo, Embeddings, Score, Timings, TokenScore, info_of
from .sampler import Sampler
from .state import Sequences


class GenerateOptions(TypedDict, total=False):
    """How to generate: the keyword arguments of Context.generate, Context.complete and Context.score. None stands for the default.

    Without a sampler and without its arguments (temperature to seed) the likeliest token is taken. With any of them tokens are
    drawn, with a temperature of 1 unless one is given; 0 takes the likeliest.
    """

    max_tokens: int | None  # most tokens to generate; 128
    stop: str | Sequence[str] | None  # texts that end the generation
    include_stop: bool | None  # whether they are part of the text
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None  # keeps the tokens at least so many times as probable as the most probable one; 0 keeps all
    repeat_penalty: float | None  # of the latest 64 tokens, the prompt's too: above 1 makes them less likely; 1 does nothing
    presence_penalty: float | None  # taken from the logits of those; 0 does nothing
    frequency_penalty: float | None  # the same for each time that they are there; 0 does nothing
    seed: int | None  # drawn without one, and for 2**64 - 1 (EMBER_SEED_RANDOM)
    sampler: Sampler | None  # instead of those before, from temperature on
    logprobs: bool | None  # events tell the log-probability of their token
    top_logprobs: int | None  # and so many of the likeliest tokens; 64 at most
    echo: bool | None  # the first event is the prompt's text
    sequence: int | None  # of the context
    reuse_prefix: bool | None  # the prompt is the whole conversation; what the sequence has of it is not run again
    parse_special: bool | None  # the text of control tokens in the prompt stands for these tokens
    render_special: bool | None  # generated control tokens appear in the text
    ignore_eog: bool | None  # go on after an end-of-generation token
    # Seconds from the call on: a token that comes later is the end, with FinishReason.TIME_LIMIT. It is counted in milliseconds,
    # of which there is one at least: with 0 too, the end comes with the first token that took longer. Infinity is no limit.
    time_limit: float | None
    priority: int | None  # of an engine's requests that wait the highest begins; 0
    # How many tokens stay at the beginning, and how many after them are forgotten each time the sequence is full (n_ctx), as
    # Context.shift_sequence does it. Without it the generation ends there. Not with learned positions (GPT-2) nor in an engine.
    shift: tuple[int, int] | None
    # The most draft tokens of a step, 32 at most: what followed the last tokens where they stood in the text before. The text
    # is the same, only the time differs. Other calls that decode on the context between two events discard the drafts. An
    # engine makes none.
    lookup: int | None
    lookup_ngram: int | None  # how many of the last tokens to look for, 16 at most, down to 2; 3
    # A context of a smaller model with the same vocabulary, of about the same n_ctx, which drafts where lookup finds nothing.
    # It is in use while an event is made, which is a BusyError when another call has it then. It may be closed meanwhile.
    draft: Context | None
    n_draft: int | None  # its most draft tokens of a step, 32 at most; 8
    draft_sequence: int | None  # of it, for each generation another; 0. It becomes the beginning of the text, whatever it held
    constraint: Constraint | None  # what the generated text has to follow; Usage.progress tells whether it is complete
    cancel_token: CancelToken | None


class ClassifyOptions(TypedDict, total=False):
    """How texts are scored: keyword arguments of Context.classify and Context.rerank. None stands for the default."""

    activation: ClassifyActivation | None  # what is done to the head's outputs; what the model's source says
    truncate: bool | None  # of a text that is too long what fits is taken, instead of refusing it
    template: str | None  # the prompt of rerankers that are decoders, with the places {query} and {document}
    yes_no: bool | None  # the score of a model without a head is the probability of "yes" against "no"


_PROMPT = "a str or a list of token ids"
_STAGES = (
    "seed",
    "top_k",
    "top_p",
    "min_p",
    "temperature",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
)
_NUMBERS = {"max_tokens": "max_tokens", "sequence": "sequence", "top_logprobs": "n_top"}
_FLAGS = dict.fromkeys(
    ("include_stop", "echo", "reuse_prefix", "parse_special", "render_special", "ignore_eog"), "a bool"
) | {"logprobs": "a bool (top_logprobs is how many of the likeliest tokens to tell)"}


def _set_drafts(pointer: int, wanted: dict[str, Any]) -> None:
    """The options of draft tokens."""
    for name, of in (("lookup_ngram", "lookup"), ("n_draft", "draft"), ("draft_sequence", "draft")):
        if name in wanted and of not in wanted:
            raise InvalidArgumentError(f"{name} says nothing without {of}")
    if "lookup" in wanted:
        numbers = unsigned("lookup", wanted["lookup"]), unsigned("lookup_ngram", wanted.get("lookup_ngram", 3))
        call(lib.ember_generate_options_set_lookup, pointer, *numbers)
    if "draft" in wanted:
        sequence = unsigned("draft_sequence", wanted.get("draft_sequence", 0))
        with instance("draft", wanted["draft"], Context)._handle as draft:
            n_draft = unsigned("n_draft", wanted.get("n_draft", 8))
            call(lib.ember_generate_options_set_draft, pointer, draft, sequence, n_draft)


def _milliseconds(time_limit: Any) -> int:
    """As C counts a time limit, for which 0 would be none."""
    seconds = real("time_limit", time_limit)
    if not seconds >= 0:
        raise InvalidArgumentError(f"time_limit must be 0 seconds or more, not {seconds}")
    return max(1, math.ceil(min(seconds * 1000, 1 << 62)))


def options_handle(options: GenerateOptions) -> Handle:
    """The options object of the C library for keyword arguments."""
    wanted = given(options, GenerateOptions)
    handle = Handle("options object", lib.ember_generate_options_free, lib.ember_generate_options_new)
    with handle as pointer:
        for name, setter in _NUMBERS.items():
            if name in wanted:
                function = getattr(lib, f"ember_generate_options_set_{setter}")
                call(function, pointer, unsigned(name, wanted[name]))
        for name, what in _FLAGS.items():
            if name in wanted:
                function = getattr(lib, f"ember_generate_options_set_{name}")
                call(function, pointer, flag(name, wanted[name], what))
        if "time_limit" in wanted:
            call(lib.ember_generate_options_set_time_limit, pointer, _milliseconds(wanted["time_limit"]))
        priority = signed("priority", wanted.get("priority", 0), 32)
        call(lib.ember_generate_options_set_priority, pointer, priority)
        if "shift" in wanted:
            try:
                keep, drop = wanted["shift"]
            except (TypeError, ValueError):
                needed = "two numbers of tokens, those that stay and those that are forgotten"
                raise wrong_type("shift", needed, wanted["shift"]) from None
            numbers = unsigned("shift[0]", keep), unsigned("shift[1]", drop)
            call(lib.ember_generate_options_set_shift, pointer, *numbers)
        _set_drafts(pointer, wanted)
        stop = wanted.get("stop", ())
        stops = [stop] if isinstance(stop, str) else stop
        for raw in text_list("stop", stops, "a str or a list of texts"):
            call(lib.ember_generate_options_add_stop, pointer, raw, len(raw))
        if "constraint" in wanted:
            with instance("constraint", wanted["constraint"], Constraint)._handle as constraint:
                call(lib.ember_generate_options_set_constraint, pointer, constraint)
        if "cancel_token" in wanted:
            with instance("cancel_token", wanted["cancel_token"], CancelToken)._handle as token:
                call(lib.ember_generate_options_set_cancel_token, pointer, token)
    return handle


def sampler_of(options: GenerateOptions) -> Sampler | None:
    """The sampler that keyword arguments ask for."""
    asked: dict[str, Any] = dict(options)
    stages = {name: asked[name] for name in _STAGES if asked.get(name) is not None}
    sampler = options.get("sampler")
    if sampler is None:
        return Sampler(**stages) if stages else None
    if stages:
        raise InvalidArgumentError(f"{sorted(stages)[0]} is the sampler's to say when one is given")
    return instance("sampler", sampler, Sampler)


def prompt_of(prompt: str | Sequence[int]) -> tuple[Any, bool]:
    """A prompt as C takes it, and whether it is a text."""
    if isinstance(prompt, str):
        return prompt.encode(), True
    return integers("prompt", prompt, _PROMPT), False


class Context(Sequences):
    """Token sequences being processed over a model. One thread at a time: a second one gets a BusyError."""

    def __init__(
        self, model: Model, *, cancel_token: CancelToken | None = None, **options: Unpack[ContextOptions]
    ) -> None:
        """ContextOptions lists the options. The cancel token may end all of the context's calls."""
        leader = None if cancel_token is None else instance("cancel_token", cancel_token, CancelToken)
        self._model = instance("model", model, Model)._another()  # which may be closed before the context
        self._token = FollowingToken(leader)
        self._views = []
        self._n_vocab = model.info.n_vocab
        self._model_info = model.info
        with context_options(options) as opt, self._model._handle as pointer, self._token._handle as token:
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
        draft = options.get("draft")
        with options_handle(options) as opt, self._handle as pointer:
            arguments = (pointer, content, len(content), opt)
            leases = [Lease(one._handle) for one in (self, sampler, draft) if one is not None]
            if sampler is None:
                handle = Handle("generation", lib.ember_generator_free, make, *arguments, None)
            else:
                with sampler._handle as draw:
                    handle = Handle("generation", lib.ember_generator_free, make, *arguments, draw)
        return Generation(self, handle, sampler, draft, leases)

    def chat(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        tools: Sequence[Mapping[str, object]] | None = None,
        variables: Mapping[str, object] | None = None,
        template: str = "",
        **options: Unpack[GenerateOptions],
    ) -> Generation:
        """As generate: the answer to a conversation, written by the model's chat template, or by `template`; it sees `tools` and
        `variables` as those of Model.apply_chat_template. Give all of the conversation each time; what the sequence holds of it
        is not run again (unless reuse_prefix is False). No text of a message can spell a control token."""
        with self._handle:  # a context that was closed says so itself
            tokens = self._model.tokenize_chat(
                messages, tools=tools, variables=variables, template=template
            )
        if options.get("reuse_prefix") is None:
            options["reuse_prefix"] = True
        return self.generate(tokens, **options)

    def complete(self, prompt: str | Sequence[int], **options: Unpack[GenerateOptions]) -> Completion:
        """As generate, all at once."""
        with self.generate(prompt, **options) as generation:
            events = list(generation)
            usage = generation.usage
        return completion_of(events, usage)

    def completions(self, prompt: str | Sequence[int], n: int, **options: Unpack[GenerateOptions]) -> Completions:
        """`n` completions of a prompt, which runs once: an iterator of pairs, which completion and its event. Completion i is in sequence
        `sequence` + i, so the context needs as many (n_seq), and draws with the seed of the sampler + i. GenerateOptions lists the
        options; the library refuses `shift` and leaves drafts out."""
        count = unsigned("n", n)
        sampler = sampler_of(options)
        content, is_text = prompt_of(prompt)
        make = lib.ember_completions_new if is_text else lib.ember_completions_new_tokens
        with options_handle(options) as opt, self._handle as pointer:
            arguments = (pointer, content, len(content), count, opt)
            leases = [Lease(one._handle) for one in (self, sampler) if one is not None]
            if sampler is None:
                handle = Handle("completions", lib.ember_completions_free, make, *arguments, None)
            else:
                with sampler._handle as draw:
                    handle = Handle("completions", lib.ember_completions_free, make, *arguments, draw)
        return Completions(self, handle, sampler, leases)

    def embed(
        self,
        texts: Sequence[str] | Sequence[Sequence[int]],
        *,
        pooling: Pooling = Pooling.AUTO,
        normalize: bool | None = None,
        truncate: bool = False,
        dimensions: int = 0,
        prompt: str = "",
    ) -> Embeddings:
        """A vector for each text (a string, or token ids to which nothing is added); with Pooling.NONE for each token of each
        text. `normalize` None scales vectors to length 1 where the model does, but not with Pooling.NONE. Of each vector the
        first `dimensions` numbers are kept; 0: all. `prompt` is the name of the model's prompt that is put before each string,
        such as "query"; empty: its default."""
        wanted = elements("texts", "a list of texts or of lists of token ids", texts)
        options = Handle("options object", lib.ember_embed_options_free, lib.ember_embed_options_new)
        n = len(wanted)
        function: Any
        arguments: tuple[Any, ...]
        strings = [one for one in wanted if isinstance(one, str)]
        with options as opt, self._handle as pointer:
            call(lib.ember_embed_options_set_pooling, opt, member("pooling", pooling, Pooling))
            call(lib.ember_embed_options_set_truncate, opt, flag("truncate", truncate))
            call(lib.ember_embed_options_set_dimensions, opt, unsigned("dimensions", dimensions, 64))
            name = text_of("prompt", prompt)
            call(lib.ember_embed_options_set_prompt, opt, name, len(name))
            if normalize is not None:
                call(lib.ember_embed_options_set_normalize, opt, flag("normalize", normalize))
            if len(strings) == n:
                raw = text_list("texts", strings)
                function, arguments = lib.ember_embed, (pointer, *text_arrays(raw), opt)
            elif strings:
                raise InvalidArgumentError("the texts must be all strings or all token ids")
            else:
                each = [integers(f"texts[{i}]", one, _PROMPT) for i, one in enumerate(wanted)]
                lengths = (ctypes.c_size_t * n)(*map(len, each))
                ids = integers("texts", [token for one in each for token in one])
                function, arguments = lib.ember_embed_tokens, (pointer, ids, len(ids), lengths, n, opt)
            info = self._model_info
            kind = info.pooling if pooling == Pooling.AUTO else pooling
            longest = info.n_embd if kind == Pooling.NONE else info.n_embd_out
            values = interruptible(lambda: fill(ctypes.c_float, n * longest, function, *arguments), self._token)
        return Embeddings(values, dimensions or longest)

    def classify(self, texts: Sequence[str], **options: Unpack[ClassifyOptions]) -> list[list[float]]:
        """The scores of each text, one for each of Model.labels. Texts run together: give many at once."""
        raw = text_list("texts", texts)
        numbers = self._scores(len(raw), options, lib.ember_classify, *text_arrays(raw))
        width = len(numbers) // max(1, len(raw))
        return [numbers[i * width : (i + 1) * width] for i in range(len(raw))]

    def rerank(self, query: str, documents: Sequence[str], **options: Unpack[ClassifyOptions]) -> list[float]:
        """How well each document answers the query: a score for each, the higher the better. Give many at once."""
        asked, raw = text_of("query", query), text_list("documents", documents)
        return self._scores(len(raw), options, lib.ember_rerank, asked, len(asked), *text_arrays(raw))

    def _scores(self, n: int, options: ClassifyOptions, function: Any, *arguments: Any) -> list[float]:
        wanted = given(options, ClassifyOptions)
        handle = Handle("options object", lib.ember_classify_options_free, lib.ember_classify_options_new)
        with handle as opt, self._handle as pointer:
            if "activation" in wanted:
                activation = member("activation", wanted["activation"], ClassifyActivation)
                call(lib.ember_classify_options_set_activation, opt, activation)
            for name in ("truncate", "yes_no"):
                if name in wanted:
                    call(getattr(lib, f"ember_classify_options_set_{name}"), opt, flag(name, wanted[name]))
            if "template" in wanted:
                raw = text_of("template", wanted["template"])
                call(lib.ember_classify_options_set_template, opt, raw, len(raw))
            run = lambda: fill(ctypes.c_float, n, function, pointer, *arguments, opt)  # noqa: E731
            return list(interruptible(run, self._token))

    def score(
        self, prompt: str | Sequence[int], continuation: str | Sequence[int], **options: Unpack[GenerateOptions]
    ) -> Score:
        """How likely a continuation is after a prompt, both texts or both token ids. Of the options `sequence`,
        `parse_special` and `cancel_token` count."""
        result = ember_score_result(struct_size=ctypes.sizeof(ember_score_result))
        function: Any
        arguments: tuple[Any, ...]
        if isinstance(prompt, str) and isinstance(continuation, str):
            before, after = prompt.encode(), continuation.encode()
            n_after = len(after)
            function, arguments = lib.ember_score, (before, len(before), after, n_after)
        elif isinstance(prompt, str) or isinstance(continuation, str):
            raise InvalidArgumentError("prompt and continuation must be both texts or both token ids")
        else:
            of_prompt = integers("prompt", prompt, _PROMPT)
            of_continuation = integers("continuation", continuation, _PROMPT)
            n_after = len(of_continuation)
            ids = integers("tokens", [*of_prompt, *of_continuation])
            function, arguments = lib.ember_score_tokens, (ids, len(ids), len(of_prompt))
        self._forget_logits()
        with options_handle(options) as opt, self._handle as pointer:
            scores = interruptible(
                lambda: fill(
                    ember_token_score,
                    n_after + 8,
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
        ids = integers("tokens", tokens)
        wants = None if want_logits is None else elements("want_logits", "a list of bools", want_logits)
        others = {
            "positions": None if positions is None else integers("positions", positions),
            "sequences": None if sequences is None else integers("sequences", sequences),
            "want_logits": None if wants is None else bytes(flag(f"want_logits[{i}]", one) for i, one in enumerate(wants)),
        }
        for name, other in others.items():
            if other is not None and len(other) != len(ids):
                raise InvalidArgumentError(f"{name} has {len(other)} elements, tokens {len(ids)}")
        arguments = (ids, *others.values(), len(ids))
        self._forget_logits()
        with self._handle as pointer:
            if len(ids) == 1:
                call(lib.ember_context_decode, pointer, *arguments)
            else:
                interruptible(lambda: call(lib.ember_context_decode, pointer, *arguments), self._token)

    def logits(self, index: int) -> Floats:
        """The logits of token `index` of the last decode: n_vocab float32 numbers, read-only, without a copy. They are the
        context's own memory, valid until its next decode, generation, score or rewind: then the view is released, and
        using it is a ValueError. A numpy array made of the view cannot be taken back: copy what is needed for longer."""
        out = ctypes.c_void_p()
        with self._handle as pointer:
            call(lib.ember_context_logits, pointer, unsigned("index", index, 64), ctypes.byref(out))
            numbers: Any = (ctypes.c_float * self._n_vocab).from_address(out.value or 0)
            numbers.lease = Lease(self._handle)  # closing the context waits for the view
        view: Floats = memoryview(numbers).toreadonly().cast("B").cast("f")
        self._views.append(view)
        return view

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
        """Frees the context; a call under way on another thread, its generations, and arrays made of its logits, keep its memory
        until they end. Closing twice is fine."""
        self._forget_logits()
        self._handle.close()
        self._model.close()

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
