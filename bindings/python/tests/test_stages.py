"""Stages of a sampler that are Python functions, and DRY."""

import array
import asyncio
import gc
import math
import subprocess
import sys
import threading

import ember
import pytest
from ember import FinishReason

PROMPT = "Once upon a time"
LOGITS = [3.0, 2.0, 1.0, 9.0, 8.0, 0.0]


def only_odd(tokens, logits):
    for i, token in enumerate(tokens):
        if token % 2 == 0:
            logits[i] = -math.inf


def test_a_stage_sees_and_changes_the_candidates():
    seen = []

    def stage(tokens, logits):
        seen.append((list(tokens), list(logits), tokens.readonly, logits.readonly, tokens.format, logits.format))
        only_odd(tokens, logits)

    sampler = ember.Sampler(1).deny([3]).stage(stage).greedy()
    copy = sampler.clone()
    assert copy.seed == 1 and sampler.sample(LOGITS) == 1
    assert seen == [([0, 1, 2, 4, 5], [3.0, 2.0, 1.0, 8.0, 0.0], True, False, "I", "f")]
    del sampler
    gc.collect()
    assert copy.sample(array.array("f", LOGITS)) == 1 and len(seen) == 2  # the copy keeps the function


def test_numpy_arrays_over_the_same_memory():
    numpy = pytest.importorskip("numpy", reason="numpy is optional; tests/run.sh installs it")

    def stage(tokens, logits):
        ids, numbers = numpy.asarray(tokens), numpy.asarray(logits)
        assert ids.dtype == numpy.uint32 and numbers.dtype == numpy.float32
        assert numpy.shares_memory(numbers, logits) and not ids.flags.writeable
        numbers[ids % 2 == 0] = -numpy.inf

    assert ember.Sampler(1).stage(stage).greedy().sample(LOGITS) == 3

    kept = []
    for keep in (
        lambda tokens, logits: kept.append(numpy.asarray(logits)),
        lambda tokens, logits: kept.append(tokens[1:]),
    ):
        with pytest.raises(ValueError, match="copy"):
            ember.Sampler(1).stage(keep).sample(LOGITS)
        kept.clear()
    views = []
    ember.Sampler(1).stage(lambda tokens, logits: views.append(logits)).sample(LOGITS)
    with pytest.raises(ValueError, match="released"):
        views[0][0]


class Refused(Exception):
    pass


def refuse(tokens, logits):
    raise Refused(len(tokens))


def test_what_a_stage_raises_comes_out(context):
    sampler = ember.Sampler(1).stage(refuse)
    with pytest.raises(Refused) as caught:
        sampler.sample(LOGITS)
    assert caught.value.args == (6,) and "refuse" in [entry.name for entry in caught.traceback]
    assert ember.Sampler(1).greedy().sample(LOGITS) == 3  # nothing of it is left

    raised = []

    def run():
        try:
            context.complete(PROMPT, sampler=sampler)
        except Refused as error:
            raised.append(error)

    other = threading.Thread(target=run)
    other.start()
    other.join()
    assert len(raised) == 1 and context.n_past() > 0
    context.rewind()

    calls = []

    def third(tokens, logits):
        calls.append(len(tokens))
        if len(calls) == 3:
            raise Refused

    generation = context.generate(PROMPT, max_tokens=9, sampler=ember.Sampler(1).stage(third).greedy())
    next(generation), next(generation)
    with pytest.raises(Refused):
        next(generation)
    assert [event.finish_reason for event in generation] == [FinishReason.CANCELLED]
    with pytest.raises(ember.InvalidArgumentError, match="NaN|nan"):
        ember.Sampler(1).stage(lambda tokens, logits: logits.__setitem__(0, math.nan)).sample(LOGITS)


def test_a_stage_of_a_generation_may_use_other_objects(context, model):
    plain = context.complete(PROMPT, max_tokens=8).tokens
    context.rewind()

    def stage(tokens, logits):
        assert len(tokens) == model.info.n_vocab and model.detokenize([int(tokens[5])])
        with pytest.raises(ember.BusyError):
            context.n_past()
        with pytest.raises(Refused):
            ember.Sampler(2).stage(refuse).sample(LOGITS)
        logits[plain[0]] = -math.inf

    def make():
        sampler = ember.Sampler(1).stage(stage).greedy()
        generation = context.generate(PROMPT, max_tokens=8, sampler=sampler)
        sampler.close()
        return generation

    generation = make()
    gc.collect()
    assert plain[0] not in [event.token for event in generation]


def test_dry(model):
    n = model.info.n_vocab
    logits = [0.0] * n
    logits[302], logits[400] = 2.0, 1.0
    sampler = ember.Sampler(1).dry(model, 100, multiplier=5.0).greedy()
    for token in (300, 301, 302, 500, 300, 301):
        assert sampler.sample(logits) == 302
        sampler.accept(token)
    assert sampler.sample(logits) == 400  # 302 would say 300 301 302 again
    ember.Sampler(1).dry(model, 8, breakers=[]).dry(model, 8, breakers=["\n", "the cat"]).sample(logits)
    with pytest.raises(ember.InvalidArgumentError, match="multiplier"):
        ember.Sampler(1).dry(model, 8, multiplier=-1)
    with pytest.raises(ember.InvalidArgumentError, match="last_n"):
        ember.Sampler(1).dry(model, -8)
    with pytest.raises(ember.InvalidArgumentError):
        ember.Sampler(1).dry(model, 8, breakers=["x" * 41])


@pytest.mark.parametrize("kind", [StopIteration, StopAsyncIteration])
def test_what_would_end_a_loop_is_an_error(model, context, path, kind):
    def stop(*_arguments):
        raise kind("enough")

    def check(call):
        with pytest.raises(RuntimeError, match=kind.__name__) as caught:
            call()
        assert isinstance(caught.value.__cause__, kind)

    sampler = ember.Sampler(1).stage(stop)
    check(lambda: list(context.generate(PROMPT, sampler=sampler)))
    check(lambda: sampler.sample([1.0]))
    check(lambda: ember.Model(path, progress=stop))
    with ember.Engine(model, n_ctx=64) as engine:
        check(lambda: list(engine.submit(PROMPT, sampler=sampler)))

        async def loop():
            return [event async for event in engine.submit_async(PROMPT, sampler=sampler)]

        check(lambda: asyncio.run(loop()))


WAITING = """
import sys
import ember

model = ember.Model(sys.argv[1])
engine, other = ember.Engine(model, n_ctx=512), ember.Engine(model, n_ctx=64)
waiting = engine.submit("The", max_tokens=1000, ignore_eog=True)
first = next(waiting)


def wait(call):
    def stage(tokens, logits):
        call()

    try:
        print(engine.complete("The", max_tokens=1, sampler=ember.Sampler(1).stage(stage)).finish_reason.name)
    except ember.BusyError as error:
        print("busy")


wait(lambda: next(waiting))
wait(lambda: engine.complete("The", max_tokens=1))
wait(lambda: engine.submit("The", max_tokens=1))
wait(lambda: other.complete("The", max_tokens=1))
sampler = ember.Sampler(1).stage(lambda *candidates: engine.complete("The", max_tokens=1))
print(ember.Context(model).complete("The", max_tokens=1, sampler=sampler).finish_reason.name)
print(list(waiting)[-1].finish_reason.name)
"""


def test_a_stage_cannot_wait_for_its_own_engine(path):
    done = subprocess.run([sys.executable, "-c", WAITING, path], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["busy", "busy", "MAX_TOKENS", "MAX_TOKENS", "MAX_TOKENS", "CONTEXT_FULL"], done.stderr


def test_stages_by_keyword(model, context):
    """What the keyword arguments of a generation, of a sampler and of an engine's request do is what the stages do."""
    by_hand = (
        ({"min_p": 0.2}, lambda s: s.min_p(0.2)),
        ({"repeat_penalty": 1.5}, lambda s: s.penalties(64, repeat=1.5)),
        ({"presence_penalty": 2.0}, lambda s: s.penalties(64, presence=2.0)),
        ({"frequency_penalty": 1.0, "temperature": 0}, lambda s: s.penalties(64, frequency=1.0).temperature(0)),
        (
            dict(temperature=0.7, min_p=0.05, top_p=0.9, top_k=40, presence_penalty=0.5, repeat_penalty=1.2),
            lambda s: s.penalties(64, repeat=1.2, presence=0.5).top_k(40).top_p(0.9).min_p(0.05).temperature(0.7),
        ),
    )
    none = ember.Sampler(5)
    plain = context.complete("The sea was calm", max_tokens=24, sampler=none).tokens
    with ember.Engine(model, n_ctx=64, n_parallel=1) as engine:
        for options, stages in by_hand:
            texts = []
            samplers = ember.Sampler(5, **options), stages(ember.Sampler(5))
            for given in ({"seed": 5, **options}, *({"sampler": sampler} for sampler in samplers)):
                context.rewind()
                texts.append(context.complete("The sea was calm", max_tokens=24, **given).tokens)
                assert texts[0] == texts[-1] != plain, options
            assert engine.complete("The sea was calm", max_tokens=24, seed=5, **options).tokens == texts[0]
    context.rewind()
    nothing = {"repeat_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0, "min_p": 0}
    assert context.complete("The sea was calm", max_tokens=24, seed=5, **nothing).tokens == plain


def test_refused_keywords(context):
    for name, value in (
        ("min_p", 2),
        ("repeat_penalty", 0),
        ("presence_penalty", float("inf")),
        ("frequency_penalty", float("nan")),
    ):
        with pytest.raises(ember.InvalidArgumentError, match=f"^{name} must be "):
            context.generate("The sea", **{name: value})
        with pytest.raises(TypeError, match=f"^{name} must be a number, got 'x'"):
            context.generate("The sea", **{name: "x"})
        with pytest.raises(ember.InvalidArgumentError, match=f"^{name} is the sampler's to say"):
            context.generate("The sea", sampler=ember.Sampler(), **{name: 0.5})


def test_the_seed_that_stands_for_none():
    taken = [ember.Sampler(2**64 - 1).seed for _ in range(2)]
    assert taken[0] != taken[1] and 2**64 - 1 not in taken
