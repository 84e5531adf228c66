"""Errors name what Python has, and not what the library calls it in C."""

import io

import ember
import pytest
from ember import _abi, _names

PROMPT = "Once upon a time"
MESSAGES = [{"role": "user", "content": "Hello!"}]


class Greedy(io.RawIOBase):
    def read(self, size=-1):
        return b"x" * (size + 1)


def not_a_number(tokens, logits):
    logits[0] = float("nan")


def refused_calls(model, context, path):
    """What is refused, and what the sentence begins with."""
    generate, sampler = context.generate, ember.Sampler(1)
    yield "top_logprobs must", lambda: generate(PROMPT, top_logprobs=65)
    yield "lookup must", lambda: generate(PROMPT, lookup=33)
    for n in (0, 17):
        yield "lookup_ngram must", lambda n=n: generate(PROMPT, lookup=4, lookup_ngram=n)
    yield "n_draft must", lambda: generate(PROMPT, draft=context, n_draft=33)
    yield "sequence 9 ", lambda: generate(PROMPT, sequence=9)
    yield "stop is empty", lambda: generate(PROMPT, stop="")
    for method in (sampler.top_p, sampler.min_p, sampler.typical_p, sampler.temperature):
        yield f"{method.__name__} must", lambda method=method: method(-1)
    for name in ("top_p", "temperature"):
        yield f"{name} must", lambda name=name: generate(PROMPT, **{name: -1})
    for values in ({"temperature": -1, "spread": 1}, {"spread": -1, "temperature": 1}):
        yield f"{next(iter(values))} must", lambda v=values: sampler.dynamic_temperature(**v)
    yield "exponent must", lambda: sampler.dynamic_temperature(1, 1, -1)
    for values in ({"probability": 2, "threshold": 1}, {"threshold": 2, "probability": 1}):
        yield f"{next(iter(values))} must", lambda v=values: sampler.xtc(**v)
    yield "last_n must", lambda: sampler.penalties(1 << 30)
    yield "repeat must", lambda: sampler.penalties(64, repeat=0)
    for name in ("frequency", "presence"):
        yield f"{name} must", lambda name=name: sampler.penalties(64, **{name: float("nan")})
    for name, value in (("multiplier", -1), ("base", 0), ("allowed_length", 1 << 30)):
        yield f"{name} must", lambda o={name: value}: sampler.dry(model, 64, **o)
    for values in ({"tau": -1, "eta": 1}, {"eta": -1, "tau": 1}):
        yield f"{next(iter(values))} must", lambda v=values: sampler.mirostat(**v)
    yield "a stage left token 0", lambda: ember.Sampler(1).stage(not_a_number).sample([1.0, 2.0])
    yield f"{path}: a stage left token 0", lambda: generate(PROMPT, sampler=ember.Sampler(1).stage(not_a_number)).text()
    for name, value in (("n_ctx", 1 << 31), ("n_seq", 0), ("n_batch", 1 << 31), ("n_threads", 1 << 20)):
        yield f"{name} must", lambda o={name: value}: ember.Context(model, **o)
    yield "kv_limit is", lambda: ember.Context(model, kv_limit=1)
    yield "worker_cpus has", lambda: ember.Context(model, worker_cpus=[9000])
    for name in ("n_parallel", "max_queue"):
        yield f"{name} must", lambda name=name: ember.Engine(model, **{name: 0})
    for value in (True, 1, 1.5, "x"):
        yield "a key of meta is empty", lambda value=value: ember.Model(path, meta={"": value})
    yield "isa is", lambda: ember.Model(path, isa="x")
    for function in (ember.Model, ember.inspect, ember.estimate_memory):
        yield "path is empty", lambda function=function: function("")
    yield "target is empty", lambda: context.save_state_to("")
    yield "source is empty", lambda: context.load_state_from("")
    yield "read returned", lambda: context.load_state_from(Greedy())
    yield 'variables has "messages"', lambda: model.apply_chat_template(
        MESSAGES, template="x", variables={"messages": []}
    )


def test_what_errors_name(model, context, path):
    for beginning, call in refused_calls(model, context, path):
        with pytest.raises(ember.InvalidArgumentError) as caught:
            call()
        message = str(caught.value)
        assert message.startswith(beginning) and "ember_" not in message and "callback" not in message, message


def test_a_missing_template_is_an_argument(model, context):
    for call in (
        lambda: model.apply_chat_template(MESSAGES),
        lambda: model.chat_template(),
        lambda: context.chat(MESSAGES),
    ):
        with pytest.raises(ember.UnsupportedError) as caught:
            call()
        assert "give one with the argument template of chat or apply_chat_template, else" in str(caught.value)


def test_the_table_names_functions_of_the_library():
    assert _names._BEGINNINGS.keys() <= _abi.FUNCTIONS.keys()
    in_python = _names.in_python
    assert in_python("ember_generate_options_set_n_top", "n_top must be 5") == "top_logprobs must be 5"
    assert in_python("", "n_top must be 5") == "n_top must be 5"
    assert in_python("ember_sampler_add_penalties", "repeat must be 5", {"repeat": "x"}) == "x must be 5"
    of_a_file = "path/to.state: the file does not exist"
    assert in_python("ember_context_state_load_file", of_a_file) == of_a_file
