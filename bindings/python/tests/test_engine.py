"""Engines: many generations at once."""

import asyncio
import contextlib
import gc
import subprocess
import sys
import threading
import weakref

import ember
import pytest
from ember import EventKind, FinishReason

PROMPTS = ["Once upon a time", "The wolf said", "The sea was calm, and the moon", "An old man had"]


@pytest.fixture
def engine(model):
    with ember.Engine(model, n_ctx=256, n_parallel=6) as made:
        yield made


def options(i):
    drawn = {} if i % 3 == 0 else {"seed": i, "top_k": 20, "temperature": 0.8}
    return {"max_tokens": 4 + i % 9, "echo": i % 2 == 0, "top_logprobs": i % 3, **drawn}


@pytest.fixture
def alone(model):
    with ember.Context(model, n_ctx=256) as context:
        found = []
        for i in range(24):
            context.rewind()
            found.append(list(context.generate(PROMPTS[i % 4], **options(i))))
        return found


def test_requests_of_many_threads_give_what_they_give_alone(engine, alone):
    together = [None] * len(alone)

    def run(i):
        with engine.submit(PROMPTS[i % 4], **options(i)) as request:
            together[i] = list(request)
            assert request.finish_reason is FinishReason.MAX_TOKENS and request.usage.n_generated == 4 + i % 9
            with pytest.raises(StopIteration):
                next(request)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(alone))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone
    metrics = engine.metrics
    assert (metrics.n_submitted, metrics.n_finished, metrics.n_queued, metrics.n_active) == (24, 24, 0, 0)
    assert metrics.n_generated == sum(4 + i % 9 for i in range(24)) and metrics.n_steps > 0
    info = engine.info
    assert (info.n_ctx, info.n_seq, info.n_pages) == (256, 6, metrics.n_pages) and info.backend is ember.Backend.AUTO
    assert metrics.busy_ns > 0 and metrics.tokens_per_s > 0 and metrics.n_pages >= metrics.n_free_pages > 0


def test_requests_of_an_event_loop_give_what_they_give_alone(engine, alone):
    async def run(i):
        async with engine.submit_async(PROMPTS[i % 4], **options(i)) as request:
            return [event async for event in request]

    async def main():
        return await asyncio.gather(*(run(i) for i in range(len(alone))))

    assert asyncio.run(main()) == alone

    async def complete(prompt):
        return await engine.submit_async(prompt, max_tokens=5).complete()

    tokens = asyncio.run(complete([1, 300, 301]))
    assert tokens == engine.complete([1, 300, 301], max_tokens=5)._replace(usage=tokens.usage)


def test_cancelling(model):
    with ember.Engine(model, n_ctx=256) as engine:
        request = engine.submit(PROMPTS[0], max_tokens=240, ignore_eog=True)
        next(request)
        request.cancel()
        assert list(request)[-1].finish_reason is FinishReason.CANCELLED
        token = ember.CancelToken()
        request = engine.submit(PROMPTS[0], max_tokens=240, ignore_eog=True, cancel_token=token)
        next(request)
        token.cancel()
        assert request.complete().finish_reason is FinishReason.CANCELLED

        async def leave():
            request = engine.submit_async(PROMPTS[0], max_tokens=240, ignore_eog=True)
            await request.__anext__()
            task = asyncio.ensure_future(request.complete())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return (await request.complete()).finish_reason

        assert asyncio.run(leave()) is FinishReason.CANCELLED

        waiting = engine.submit(PROMPTS[0], max_tokens=240, ignore_eog=True)
        next(waiting)
    assert waiting.complete().finish_reason is FinishReason.CANCELLED  # with the engine
    waiting.close()
    for use in (lambda: next(waiting), waiting.cancel, lambda: waiting.usage):
        with pytest.raises(ember.ClosedError):
            use()
    for use in (lambda: engine.submit("x"), lambda: engine.metrics):
        with pytest.raises(ember.ClosedError):
            use()
    assert engine.closed and waiting.closed


class Gate:
    """A sampler whose stage keeps the engine waiting."""

    def __init__(self):
        self.inside, self.open = threading.Event(), threading.Event()
        self.sampler = ember.Sampler(1).stage(self.stage).greedy()

    def stage(self, tokens, logits):
        self.inside.set()
        self.open.wait()

    @contextlib.contextmanager
    def hold(self, engine):
        request = engine.submit(PROMPTS[0], max_tokens=1, sampler=self.sampler)
        self.inside.wait()
        try:
            yield request
        finally:
            self.open.set()


def test_queue_and_priority(model):
    with ember.Engine(model, n_ctx=256, n_parallel=1, max_queue=2) as engine:
        with Gate().hold(engine):
            low = engine.submit(PROMPTS[1], max_tokens=1, priority=-1)
            high = engine.submit(PROMPTS[2], max_tokens=1, priority=7)
            with pytest.raises(ember.QueueFullError):
                engine.submit(PROMPTS[3])
            metrics = engine.metrics
            assert (metrics.n_queued, metrics.n_refused) == (2, 1)
        low.complete()
        assert high.usage.finish_reason is FinishReason.MAX_TOKENS  # which began first
        with pytest.raises(ember.InvalidArgumentError, match="priority"):
            engine.submit("x", priority=1 << 31)


def test_time_limit(engine):
    assert engine.complete(PROMPTS[0], max_tokens=4, time_limit=3600).finish_reason is FinishReason.MAX_TOKENS
    reasons = set()
    while FinishReason.TIME_LIMIT not in reasons:  # as long as the machine makes all tokens within a millisecond
        reasons.add(engine.complete("word " * 100, max_tokens=100, ignore_eog=True, time_limit=1e-9).finish_reason)
    with pytest.raises(ember.InvalidArgumentError, match="time_limit"):
        engine.submit("x", time_limit=-1)


def test_prefixes_are_shared(model):
    system = "The sea was calm, and the moon was bright. " * 8
    with ember.Engine(model, n_ctx=256) as engine:
        for line in ("The wolf", "The king"):
            engine.complete(system + line, max_tokens=2)
        metrics = engine.metrics
        assert metrics.n_reused > 0 and metrics.cache_hit_rate > 0 and metrics.n_prefilled < metrics.n_prompt
    with ember.Engine(model, n_ctx=256, share_prefixes=False) as engine:
        for _ in range(2):
            engine.complete(system, max_tokens=1)
        assert engine.metrics.n_reused == 0


class Refused(Exception):
    pass


def refuse(tokens, logits):
    raise Refused(len(tokens))


def test_stages_run_on_the_engines_thread(engine, context):
    def odd(tokens, logits):
        threads.add(threading.get_ident())
        for i, token in enumerate(tokens):
            if token % 2 == 0:
                logits[i] = -float("inf")

    threads = set()
    sampler = ember.Sampler(1).stage(odd).greedy()
    want = context.complete(PROMPTS[0], max_tokens=4, sampler=sampler).text
    threads.clear()
    assert engine.complete(PROMPTS[0], max_tokens=4, sampler=sampler).text == want
    assert len(threads) == 1 and threading.get_ident() not in threads
    request = engine.submit(PROMPTS[0], max_tokens=4, sampler=ember.Sampler(1).stage(odd).greedy())
    gc.collect()  # the request keeps the function
    assert request.complete().text == want

    refusing = [engine.submit(PROMPTS[0], sampler=ember.Sampler(1).stage(refuse)) for _ in range(3)]
    fine = engine.submit(PROMPTS[0], max_tokens=4)
    for request in refusing:
        with pytest.raises(Refused):
            request.complete()
    assert fine.complete().finish_reason is FinishReason.MAX_TOKENS

    async def main():
        with pytest.raises(Refused):
            await engine.submit_async(PROMPTS[0], sampler=ember.Sampler(1).stage(refuse)).complete()

    asyncio.run(main())


def test_refusals(model, engine):
    for wrong in ({"n_parallel": 0}, {"n_parallel": 4097}, {"max_queue": -1}, {"n_ctx": -1}):
        with pytest.raises(ember.InvalidArgumentError):
            ember.Engine(model, **wrong)
    with pytest.raises(TypeError, match="cook"):
        ember.Engine(model, cook=1)
    for prompt, kind in (("", ember.InvalidArgumentError), ("word " * 400, ember.ContextFullError), ([99999], ValueError)):
        with pytest.raises(kind):
            engine.submit(prompt)
    with pytest.raises(RuntimeError):
        engine.submit_async("x")  # no event loop runs
    with pytest.raises(TypeError, match="cook"):
        engine.submit("x", cook=1)
    with Gate().hold(engine) as request:
        with request._lock, pytest.raises(ember.BusyError):
            next(request)
    assert [event.kind for event in request] == [EventKind.TOKEN, EventKind.END]


def test_nothing_is_left_behind(model):
    from ember import engine as module
    from ember._ending import Carried

    with ember.Engine(model, n_ctx=256) as engine:
        dropped = engine.submit(PROMPTS[0], max_tokens=240, ignore_eog=True)
        gone = weakref.ref(dropped)
        next(dropped)
        del dropped
        assert gone() is None
    assert not module._inboxes and not [one for one in Carried._under_way if isinstance(one, module._Running)]


def test_one_that_is_let_go_on_its_own_thread_is_freed(model):
    def let_go(_tokens, _logits):
        if held:
            known.update(threading.enumerate())
            held.clear()
            gone.set()

    held, known, gone, logged = {}, set(), threading.Event(), []
    ember.set_log(lambda _level, text: logged.append(text))
    try:
        engine = held["engine"] = ember.Engine(model, n_ctx=256)
        sampler = ember.Sampler(1).stage(let_go).greedy()
        held["request"] = engine.submit(PROMPTS[0], max_tokens=200, ignore_eog=True, sampler=sampler)
        del engine
        assert gone.wait(60)
        for thread in set(threading.enumerate()) - known:
            thread.join(60)
            assert not thread.is_alive()
    finally:
        ember.set_log(None)
    assert not [text for text in logged if "not freed" in text]


def test_a_program_may_end_in_the_midst(path):
    program = f"""
import ember
engine = ember.Engine(ember.Model({str(path)!r}))
requests = [engine.submit("Once", max_tokens=400, ignore_eog=True) for _ in range(5)]
print(next(requests[0]).kind.name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("TOKEN\n", "", 0)
