"""Samplers."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ._abi import ConstraintProgress
from ._arguments import elements, instance, integers, mapping, real, text_arrays, texts, unsigned
from ._candidates import Stage, candidates_callback
from ._ending import Carried
from ._library import Handle, Single, call, lib
from .constraint import Constraint
from .errors import InvalidArgumentError
from .model import Model


def _seed(seed: int | None) -> int:
    return int.from_bytes(os.urandom(4), "little") if seed is None else unsigned("seed", seed, 64)


class Sampler(Single):
    """Chooses tokens: stages in the order in which they are added, then one random draw. A seed gives the same choices on
    every platform; without one it is drawn, and `seed` tells it."""

    def __init__(
        self,
        seed: int | None = None,
        *,
        repeat_penalty: float | None = None,
        frequency_penalty: float | None = None,
        presence_penalty: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        temperature: float | None = None,
    ) -> None:
        """The arguments are stages, in this order. The three penalties are one, of the latest 64 tokens; 1, 0 and 0 do nothing.
        The seed 2**64 - 1 (EMBER_SEED_RANDOM) stands for one that is drawn, as None does."""
        self._handle = Handle("sampler", lib.ember_sampler_free, lib.ember_sampler_new, _seed(seed))
        self.seed = self._reported_seed()
        self._callbacks: list[object] = []  # which C has the addresses of
        penalties = {
            "repeat_penalty": repeat_penalty,
            "frequency_penalty": frequency_penalty,
            "presence_penalty": presence_penalty,
        }
        if any(one is not None for one in penalties.values()):
            self._penalties(64, penalties)
        if top_k is not None:
            self.top_k(top_k)
        if top_p is not None:
            self.top_p(top_p)
        if min_p is not None:
            self.min_p(min_p)
        if temperature is not None:
            self.temperature(temperature)

    def _reported_seed(self) -> int:
        seed = ctypes.c_uint64()
        self._add(lib.ember_sampler_seed, ctypes.byref(seed))
        return seed.value

    def _add(self, function: Any, *arguments: Any, names: Mapping[str, str] | None = None) -> Sampler:
        with self._handle as pointer:
            call(function, pointer, *arguments, names=names)
        return self

    def _penalties(self, last_n: int, penalties: Mapping[str, float | None]) -> Sampler:
        """Those of repeat, frequency and presence, by the names that the caller has for them."""
        numbers = [
            real(name, nothing if value is None else value)
            for (name, value), nothing in zip(penalties.items(), (1.0, 0.0, 0.0))
        ]
        names = dict(zip(("repeat", "frequency", "presence"), penalties))
        return self._add(lib.ember_sampler_add_penalties, unsigned("last_n", last_n), *numbers, names=names)

    def greedy(self) -> Sampler:
        """Keeps the most probable token."""
        return self._add(lib.ember_sampler_add_greedy)

    def temperature(self, temperature: float) -> Sampler:
        """Divides the logits; 0 is greedy."""
        return self._add(lib.ember_sampler_add_temperature, real("temperature", temperature))

    def top_k(self, k: int) -> Sampler:
        """Keeps the k most probable tokens; 0 keeps all."""
        return self._add(lib.ember_sampler_add_top_k, unsigned("top_k", k))

    def top_p(self, p: float) -> Sampler:
        """Keeps the most probable tokens that make up p."""
        return self._add(lib.ember_sampler_add_top_p, real("top_p", p))

    def min_p(self, p: float) -> Sampler:
        """Keeps the tokens at least p times as probable as the most probable one."""
        return self._add(lib.ember_sampler_add_min_p, real("min_p", p))

    def typical_p(self, p: float) -> Sampler:
        """Keeps the tokens of the most expected surprise that make up p."""
        return self._add(lib.ember_sampler_add_typical_p, real("typical_p", p))

    def dynamic_temperature(self, temperature: float, spread: float, exponent: float = 1.0) -> Sampler:
        """A temperature within `spread` of `temperature` that grows with the entropy."""
        numbers = real("temperature", temperature), real("spread", spread), real("exponent", exponent)
        return self._add(lib.ember_sampler_add_dynamic_temperature, *numbers)

    def xtc(self, probability: float, threshold: float) -> Sampler:
        """Removes, as often as `probability` says, the tokens above `threshold` but the least likely of them."""
        return self._add(lib.ember_sampler_add_xtc, real("probability", probability), real("threshold", threshold))

    def penalties(
        self, last_n: int, *, repeat: float = 1.0, frequency: float = 0.0, presence: float = 0.0
    ) -> Sampler:
        """Makes tokens less likely that are among the latest `last_n`."""
        return self._penalties(last_n, {"repeat": repeat, "frequency": frequency, "presence": presence})

    def penalties_generated_only(self, generated_only: bool = True) -> Sampler:
        """Whether frequency and presence count the tokens that were generated since the last one of a prompt and no others, as
        OpenAI's API has them. `repeat` always counts all."""
        return self._add(lib.ember_sampler_set_penalties_generated_only, bool(generated_only))

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
        ends = (None, None, 0) if breakers is None else text_arrays(texts("breakers", breakers))
        lengths = unsigned("allowed_length", allowed_length), unsigned("last_n", last_n)
        numbers = real("multiplier", multiplier), real("base", base), *lengths
        with instance("model", model, Model)._handle as pointer:
            return self._add(lib.ember_sampler_add_dry, pointer, *numbers, *ends)

    def stage(self, function: Stage) -> Sampler:
        """A stage of your own: `function(tokens, logits)` is called with what the stages before have left, and may change the
        logits; minus infinity rules a token out. Both are memory views, without a copy, of uint32 in ascending order and of
        float32, and numpy.asarray makes arrays over the same memory of them. They are valid during the call only: keeping one is
        a ValueError. The call that samples raises the function's exceptions; a generation then has ended.
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

    @classmethod
    def of(cls, model: Model, seed: int | None = None) -> Sampler:
        """A sampler with the stages that the model's file proposes; a NotFoundError for a file that proposes nothing."""
        made = cls.__new__(cls)
        with instance("model", model, Model)._handle as pointer:
            made._handle = Handle("sampler", lib.ember_sampler_free, lib.ember_model_sampler, pointer, _seed(seed))
        made.seed = made._reported_seed()
        made._callbacks = []
        return made

    def top_n_sigma(self, n: float) -> Sampler:
        """Keeps the tokens whose logits are at most n standard deviations of all below the largest; 0 keeps all."""
        return self._add(lib.ember_sampler_add_top_n_sigma, real("n", n))

    def adaptive_p(self, target: float, decay: float = 0.9) -> Sampler:
        """Makes tokens the likelier, the nearer their probability is to a target, which moves so that chosen tokens have the probability
        `target` on average; the last stage, as a rule, after min_p."""
        return self._add(lib.ember_sampler_add_adaptive_p, real("target", target), real("decay", decay))

    def infill(self, model: Model) -> Sampler:
        """For filling a gap in a text: after top_k and top_p, it ends the text rather than go on with something unlikely."""
        with instance("model", model, Model)._handle as pointer:
            return self._add(lib.ember_sampler_add_infill, pointer)

    def constraint(self, constraint: Constraint) -> Sampler:
        """Keeps the tokens that may be next in a text that follows the constraint. Add it first."""
        with instance("constraint", constraint, Constraint)._handle as pointer:
            return self._add(lib.ember_sampler_add_constraint, pointer)

    @property
    def progress(self) -> ConstraintProgress:
        """How far the text is that follows a constraint of the sampler."""
        out = ctypes.c_int32()
        self._add(lib.ember_sampler_progress, ctypes.byref(out))
        return ConstraintProgress(out.value)

    def mirostat_1(self, tau: float, eta: float, m: int = 100) -> Sampler:
        """Mirostat's first version, which looks at the `m` likeliest tokens; the last stage, as a rule."""
        return self._add(lib.ember_sampler_add_mirostat_1, real("tau", tau), real("eta", eta), unsigned("m", m))

    def mirostat(self, tau: float, eta: float) -> Sampler:
        """Follows the surprise `tau` at the rate `eta` (Mirostat 2); the last stage, as a rule."""
        return self._add(lib.ember_sampler_add_mirostat, real("tau", tau), real("eta", eta))

    def bias(self, biases: Mapping[int, float]) -> Sampler:
        """Adds numbers to the logits of tokens; minus infinity rules a token out."""
        numbers = [real(f"biases[{token!r}]", value) for token, value in mapping("biases", biases).items()]
        ids = integers("biases", [unsigned("a token of biases", token) for token in biases])
        values = (ctypes.c_float * len(ids))(*numbers)
        return self._add(lib.ember_sampler_add_bias, ids, values, len(ids))

    def allow(self, tokens: Sequence[int]) -> Sampler:
        """Keeps these tokens only."""
        ids = integers("tokens", tokens)
        return self._add(lib.ember_sampler_add_allow, ids, len(ids))

    def deny(self, tokens: Sequence[int]) -> Sampler:
        """Rules these tokens out."""
        ids = integers("tokens", tokens)
        return self._add(lib.ember_sampler_add_deny, ids, len(ids))

    def accept(self, token: int) -> None:
        """Tells the stages that look back that a token is now part of the text; generations do so themselves."""
        self._add(lib.ember_sampler_accept, unsigned("token", token))

    def reset(self) -> None:
        """Starts over: the random numbers and what was accepted."""
        self._add(lib.ember_sampler_reset)

    def sample(self, logits: Any) -> int:
        """A token for the logits of one token: a memory view or an array of float32, or a sequence of numbers."""
        try:
            lent = memoryview(logits)
            if lent.ndim != 1:
                raise InvalidArgumentError(f"logits must have one dimension, not the shape {lent.shape}")
            if lent.format not in ("f", "<f"):
                raise InvalidArgumentError("logits must be float32")
            view = lent.cast("B")
            raw = (ctypes.c_char * view.nbytes).from_buffer_copy(view)
            values = (ctypes.c_float * (view.nbytes // 4)).from_buffer(raw)
        except TypeError:
            numbers = [real(f"logits[{i}]", one) for i, one in enumerate(elements("logits", "numbers", logits))]
            values = (ctypes.c_float * len(numbers))(*numbers)
        token = ctypes.c_uint32()
        with Carried():
            self._add(lib.ember_sampler_sample, values, len(values), ctypes.byref(token))
        return token.value

    def close(self) -> None:
        """Frees the sampler; generations that have it keep it. Closing twice is fine."""
        self._handle.close()

