"""What handlers of signals do, and raise, in the midst of calls. Tracing stands for signals that come at each step of Python."""

import os
import signal
import subprocess
import sys
import threading

import ember
import pytest
from ember import FinishReason

LONG = " ".join(["the sea was calm and the moon was bright"] * 40)

# Runs an action of a handler at one step after the other of what the main thread does with a handle.
AT_EACH_STEP = """
import sys
from ember import _library

MODULE = _library.__file__


def at_step(wanted, action, work):
    # Whether there is a step of this number.
    left = [wanted]

    def trace(frame, event, _argument):
        if frame.f_code.co_filename != MODULE:
            return None
        frame.f_trace_opcodes = True
        if event in ("opcode", "line"):  # Python 3.12.1 tells of lines only
            left[0] -= 1
            if left[0] == 0:
                sys.settrace(None)
                action()
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return left[0] <= 0


def make(out, _err):
    out._obj.value = 8
    return 0


def one(wanted, action_of):
    freed, in_use = [], []

    def free(pointer):
        assert not in_use
        freed.append(pointer)

    handle = _library.Handle("thing", free, make)

    def work():
        for _ in range(2):
            try:
                with handle as pointer:
                    in_use.append(pointer)
                    assert pointer == 8 and not freed
                    in_use.pop()
            except _library.ClosedError:
                assert handle.closed
        handle.close()

    more = at_step(wanted, lambda: action_of(handle), work)
    assert freed == [8] and handle.closed
    return more


def use(handle):
    try:
        with handle:
            pass
    except _library.ClosedError:
        pass


def use_and_close(handle):
    use(handle)
    handle.close()


for action in (_library.Handle.close, use, use_and_close):
    step = 1
    while one(step, action):
        step += 1
    assert step > 10
print("done")
"""


def test_a_handler_may_use_what_the_main_thread_is_using():
    done = subprocess.run([sys.executable, "-c", AT_EACH_STEP], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("done\n", "")


POLLING = """
import signal
import ember

for _ in range(2000):
    token = ember.CancelToken()
    signal.signal(signal.SIGALRM, lambda *_: token.cancel())
    signal.setitimer(signal.ITIMER_REAL, 0.0002)
    while not token.cancelled:
        pass
print("done")
"""


def test_a_handler_may_cancel_the_token_that_a_loop_looks_at():
    done = subprocess.run([sys.executable, "-c", POLLING], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("done\n", "")


class Alarm(Exception):
    pass


def test_many_signals_leave_a_context_as_it_was(slow, model, monkeypatch):
    class Ringing(threading.Event):
        """What is waited for when handlers raise something, several times in a row, while a call is under way."""

        def wait(self, timeout=None):
            if not rings:
                return super().wait(timeout)
            while not self.is_set():
                try:
                    slow.n_past()
                except ember.BusyError:
                    break
            rings.pop()
            raise Alarm

    rings = []
    monkeypatch.setattr(threading, "Event", Ringing)
    for n in (1, 2, 5):
        rings[:] = [True] * n
        with pytest.raises(Alarm):
            slow.decode(model.tokenize(LONG))
        rings.clear()
        slow.rewind()
        slow.decode(model.tokenize(LONG)[:20])
        assert slow.n_past() == 20


def test_ctrl_c_ends_the_call_of_the_main_thread_only(model):
    token = ember.CancelToken()
    with (
        ember.Context(model, backend=ember.Backend.SCALAR, cancel_token=token) as ours,
        ember.Context(model, cancel_token=token) as other,
    ):
        generation = other.generate("The", max_tokens=400, ignore_eog=True)
        next(generation)
        seen = []

        def watch():
            while not done.is_set():
                try:
                    ours.n_past()
                except ember.BusyError:
                    os.kill(os.getpid(), signal.SIGINT)
                    while not done.is_set():
                        event = next(generation)
                        seen.append(event.finish_reason)
                        if event.finish_reason is not None:
                            return

        done = threading.Event()
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                while True:
                    ours.rewind()
                    ours.decode(model.tokenize(LONG))
        finally:
            done.set()
            watcher.join()
        assert FinishReason.CANCELLED not in seen and not token.cancelled
        ours.rewind()
        ours.decode([1, 2])

        # One that somebody cancels meanwhile stays so.
        from ember._cancel import FollowingToken

        follower = ours._token
        assert isinstance(follower, FollowingToken)
        follower.interrupt()
        token.cancel()
        follower.restore()
        assert follower.cancelled
        with pytest.raises(ember.CancelledError):
            ours.decode([3])
        follower.interrupt()
        token.reset()
        assert follower.cancelled and not token.cancelled  # the call that is interrupted ends all the same
        follower.restore()
        ours.decode([3])


def test_a_token_ends_contexts_and_loads_that_follow_it(path, model):
    token = ember.CancelToken()
    contexts = [ember.Context(model, cancel_token=token) for _ in range(2)]
    del contexts[0]
    token.cancel()
    late = ember.Context(model, cancel_token=token)
    for context in (*contexts, late):
        with pytest.raises(ember.CancelledError):
            context.decode([1, 2])
    with pytest.raises(ember.CancelledError):
        ember.Model(path, cancel_token=token)
    token.reset()
    for context in (*contexts, late):
        context.decode([1, 2])
    del contexts, context, late
    assert not token._followers


SUBMITTING = """
import sys
import ember
from ember import engine as module

raised = []


def trace(frame, event, _argument):
    out = frame.f_locals.get("out") if frame.f_code.co_name == "__init__" else None
    if event == "line" and frame.f_locals.get("noun") == "request" and out is not None and out.value and not raised:
        raised.append(True)
        raise KeyboardInterrupt
    return trace


with ember.Engine(ember.Model(sys.argv[1]), n_ctx=64) as engine:
    for _ in range(20):
        raised.clear()
        sys.settrace(trace)
        try:
            engine.submit("The", max_tokens=5, sampler=ember.Sampler(1).stage(lambda *candidates: None))
        except KeyboardInterrupt:
            sys.settrace(None)
        assert raised
    print(engine.complete("The", max_tokens=2).finish_reason.name)
print(module._inboxes)
"""


def test_ctrl_c_while_a_request_is_submitted(path):
    done = subprocess.run([sys.executable, "-c", SUBMITTING, path], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("MAX_TOKENS\n{}\n", "")


def test_ctrl_c_as_the_last_event_is_taken(model):
    class Interrupted:
        """A queue whose last event gets lost once."""

        def __init__(self, events):
            self.events = events
            self.empty, self.put = events.empty, events.put

        def get(self):
            event = self.events.get()
            if event.finish_reason is not None:
                request._events = self.events
                raise KeyboardInterrupt
            return event

    with ember.Engine(model, n_ctx=64) as engine:
        request = engine.submit("The", max_tokens=2)
        request._events = Interrupted(request._events)
        with pytest.raises(KeyboardInterrupt):
            list(request)
        assert not request._events.empty()
        assert [event.finish_reason for event in request] == [FinishReason.MAX_TOKENS]
