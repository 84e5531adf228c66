"""Closing, threads, cancelling, Ctrl-C, memory."""

import gc
import os
import pathlib
import resource
import signal
import threading
import weakref

import ember
import pytest
from ember import FinishReason

PROMPT = "Once upon a time"
LONG = " ".join(["the sea was calm and the moon was bright"] * 40)


def test_use_after_close(path):
    model = ember.Model(path)
    context = ember.Context(model)
    sampler = ember.Sampler(1)
    generation = context.generate(PROMPT, sampler=sampler)
    for thing in (model, context, generation, sampler):
        thing.close()
        thing.close()
    assert model.closed and context.closed and generation.closed
    for use in (
        lambda: model.tokenize("a"),
        lambda: model.metadata,
        lambda: model.memory,
        lambda: model.is_control(0),
        lambda: ember.Context(model),
        lambda: context.generate(PROMPT),
        lambda: context.embed(["a"]),
        lambda: context.score("a", "b"),
        lambda: context.decode([1]),
        lambda: context.logits(0),
        lambda: context.n_past(),
        lambda: context.rewind(),
        lambda: context.info,
        lambda: context.memory,
        lambda: context.timings,
        lambda: context.reset_timings(),
        lambda: next(generation),
        lambda: generation.usage,
        lambda: sampler.sample([1.0]),
        lambda: sampler.clone(),
        lambda: sampler.stage(print),
        lambda: ember.Sampler(1).dry(model, 8),
    ):
        with pytest.raises(ember.ClosedError, match="closed"):
            use()


def test_any_order(path):
    model = ember.Model(path)
    context = ember.Context(model)
    sampler = ember.Sampler(1, top_k=5)
    generation = context.generate(PROMPT, max_tokens=4, sampler=sampler)
    model.close()
    sampler.close()
    context.close()
    assert generation.text()


def test_failed_constructors_leave_nothing_to_close():
    model = ember.Model.__new__(ember.Model)
    del model
    with pytest.raises(ember.IoError):
        ember.Model("no-such-model")
    gc.collect()


class Work:
    """Runs a long call on another thread, from whose beginning on it is in the context."""

    def __init__(self, context, call):
        self.error = None
        self.thread = threading.Thread(target=self.run, args=(call,))
        self.thread.start()
        while self.thread.is_alive():  # until the context is at work
            try:
                context.n_past()
            except ember.BusyError:
                return
        raise AssertionError("the call was over before anybody saw it") from self.error

    def run(self, call):
        try:
            call()
        except ember.EmberError as error:
            self.error = error

    def join(self):
        self.thread.join()
        return self.error


def test_a_second_thread_gets_busy_and_may_close(slow, model):
    work = Work(slow, lambda: slow.decode(model.tokenize(LONG)))
    with pytest.raises(ember.BusyError):
        slow.rewind()
    with pytest.raises(ember.BusyError):
        next(slow.generate([1], max_tokens=1))
    slow.close()  # takes effect when the call is over
    assert work.join() is None and slow.closed


def test_a_generation_is_one_threads_and_any_may_close_it(slow, model):
    generation = slow.generate(model.tokenize(LONG), max_tokens=4)
    work = Work(slow, lambda: next(generation))
    with pytest.raises(ember.BusyError, match="another thread"):
        next(generation)
    generation.close()  # takes effect when the event is there
    assert generation.closed
    assert work.join() is None
    with pytest.raises(ember.ClosedError, match="closed"):
        next(generation)


def test_a_generation_goes_on_after_an_error(slow):
    generation = slow.generate(PROMPT, max_tokens=4)
    slow.decode([1])
    for _ in range(2):
        with pytest.raises(ember.InvalidArgumentError, match="changed by somebody else"):
            next(generation)
    slow.rewind()
    assert next(generation).token is not None


def test_cancelling_from_another_thread(model):
    token = ember.CancelToken()
    with ember.Context(model, backend=ember.Backend.SCALAR, cancel_token=token) as context:
        work = Work(context, lambda: context.decode(model.tokenize(LONG)))
        token.cancel()
        assert isinstance(work.join(), ember.CancelledError)
        assert token.cancelled and context.n_past() == 0
        generation = context.generate(PROMPT)
        assert [event.finish_reason for event in generation] == [FinishReason.CANCELLED]
        token.reset()
        own = ember.CancelToken()
        generation = context.generate(PROMPT, max_tokens=10000, ignore_eog=True, cancel_token=own)
        next(generation)
        thread = threading.Thread(target=own.cancel)
        thread.start()
        thread.join()
        assert next(generation).finish_reason is FinishReason.CANCELLED
    own.cancel()
    with pytest.raises(ember.CancelledError):
        ember.Model(pathlib.Path(__file__).resolve().parents[3] / "examples/models/ember-tales.gguf", cancel_token=own)


def interrupted_at_work(context, call):
    """Runs the call and sends Ctrl-C once the context is at work."""
    over = threading.Event()

    def send():
        while not over.is_set():
            try:
                context.n_past()
            except ember.BusyError:
                os.kill(os.getpid(), signal.SIGINT)
                return

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
            while True:  # until the signal comes, should the call be over first
                over.wait(1)
    finally:
        over.set()
        sender.join()


def test_ctrl_c_ends_long_calls(slow, model):
    before = slow.complete(PROMPT, max_tokens=4).text
    slow.rewind()
    tokens = model.tokenize(LONG)
    generation = slow.generate(tokens, max_tokens=4)
    for call in (
        lambda: next(generation),
        lambda: slow.decode(tokens),
        lambda: slow.score(PROMPT, LONG),
    ):
        interrupted_at_work(slow, call)
        assert slow.n_past() == 0  # none of it was finished
    interrupted_at_work(slow, lambda: slow.embed([LONG]))
    assert slow.complete(PROMPT, max_tokens=4).text == before


def test_ctrl_c_ends_a_loop(slow):
    class Stop(Exception):
        pass

    generation = slow.generate(PROMPT, max_tokens=400, ignore_eog=True)
    with pytest.raises(KeyboardInterrupt):
        for n, _event in enumerate(generation):
            if n == 3:
                os.kill(os.getpid(), signal.SIGINT)
            assert n <= 4
    next(generation)


def test_nothing_leaks(path):
    data = path.read_bytes()

    def once():
        model = ember.Model.from_bytes(data, progress=lambda done: None, meta={"own.key": "value"})
        ember.Model.from_buffer(bytearray(data))
        with pytest.raises(ZeroDivisionError):
            ember.Model.from_buffer(bytearray(data), progress=lambda done: 1 / 0)
        context = ember.Context(model, n_ctx=256)
        context.complete(PROMPT, max_tokens=3, sampler=ember.Sampler(1).stage(lambda *candidates: None).clone())
        with pytest.raises(ZeroDivisionError):
            context.complete(PROMPT, sampler=ember.Sampler(1).stage(lambda *candidates: 1 / 0))
        context.rewind()
        context.complete(PROMPT, max_tokens=3, temperature=0.5, stop="x", top_logprobs=2)
        context.embed(["a", "b"])
        context.score("a", " b")
        context.decode([1])
        context.logits(0)
        with pytest.raises(ember.InvalidArgumentError):
            context.decode([1 << 31])
        for _ in context.generate(PROMPT):
            break

    def resident():
        gc.collect()
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    for _ in range(10):
        once()
    before = resident()
    for _ in range(60):
        once()
    # A model of 3 MB that stays would be 180 MB here.
    assert resident() - before < 20 << 20


def test_what_a_stage_raises_keeps_nothing_alive(model):
    """A context goes with its last reference, not when the collector finds it."""

    def once():
        context = ember.Context(model)
        try:
            context.complete(PROMPT, sampler=ember.Sampler(1).stage(lambda *candidates: 1 / 0))
        except ZeroDivisionError:
            return weakref.ref(context)

    gc.disable()
    try:
        assert once()() is None
    finally:
        gc.enable()


def test_handles_are_freed(path, monkeypatch):
    """Every object that was made is given back, errors included."""
    from ember import _library

    alive = []
    made, take = _library.Handle.__init__, _library.Handle._take

    def counting_init(self, *arguments):
        made(self, *arguments)
        alive.append(self._pointer)

    def counting_take(self):
        pointer = take(self)
        if pointer:
            alive.remove(pointer)
        return pointer

    monkeypatch.setattr(_library.Handle, "__init__", counting_init)
    monkeypatch.setattr(_library.Handle, "_take", counting_take)
    model = ember.Model(path)
    context = ember.Context(model)
    context.complete(PROMPT, max_tokens=2, temperature=0.7, stop=["a"], cancel_token=ember.CancelToken())
    context.embed(["a"])
    context.score("a", " b")
    with pytest.raises(ember.InvalidArgumentError):
        context.generate(PROMPT, stop="")
    del model, context
    gc.collect()
    assert alive == []
