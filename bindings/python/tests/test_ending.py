"""The end of the interpreter while other threads are in the library: the process ends as it should."""

import subprocess
import sys

import pytest

# Each is what a daemon thread does without end. The log is on: calls that load, too, have Python functions called.
LOOPS = {
    "stage": "context.rewind(); context.complete('The', max_tokens=50, sampler=ember.Sampler(1).stage(stage))",
    "sample": "ember.Sampler(1).stage(stage).sample([1.0, 2.0])",
    "progress": "ember.Model(path, progress=lambda done: None)",
    "log": "ember.Model(path)",
    "write": "context.save_state_to(Sink(), sequence=0)",
    "read": "context.load_state_from(Source(state), sequence=0)",
    "buffer": "ember.Model.from_buffer(data).close()",
    "engine": "ember.Engine(model, n_ctx=64, n_parallel=2).complete('The', max_tokens=5)",
}

LOOP = """
import sys, threading, time
import ember

path, loop = sys.argv[1:]
model, data = ember.Model(path), open(path, "rb").read()
if loop.startswith("ember.Model(path)"):
    ember.set_log(lambda level, text: None)


def stage(tokens, logits):
    logits[0] = 0.0


class Sink:
    def write(self, data):
        return len(data)


class Source:
    def __init__(self, data):
        self.data = data

    def read(self, size):
        part, self.data = self.data[: min(size, 4096)], self.data[min(size, 4096) :]
        return part


def work():
    context = ember.Context(model, n_threads=1, n_ctx=128)
    context.complete("The", max_tokens=30)
    state = context.save_state(sequence=0)
    code = compile(loop, "loop", "exec")
    names = {**globals(), "context": context, "state": state}
    for n in range(10**9):
        exec(code, names)
        if n == 2:
            ready.release()


threading.excepthook = lambda what: None  # the calls to come are refused
ready = threading.Semaphore(0)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
for _ in range(3):
    ready.acquire()
"""


def run(program, *arguments):
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("name", LOOPS)
def test_daemon_threads(path, name):
    for _ in range(2):
        done = run(LOOP, path, LOOPS[name])
        assert done.returncode == 0 and "FATAL" not in done.stderr, done.stderr


REFUSED = """
import atexit, sys, threading, time

reported = []


@atexit.register
def last():  # runs last: what this thread does works as ever
    thread.join(60)
    said = [type(error).__name__ + ": " + str(error) for error in reported]
    print(sorted(set(said)))
    print(complete().finish_reason.name, ember.Model(path, progress=seen.append).info.n_vocab, seen[-1])
    try:
        ember.Engine(model)
    except ember.ClosedError as error:
        print(error)


import ember

path = sys.argv[1]
model, seen = ember.Model(path), []
context, other = ember.Context(model, n_threads=1), ember.Context(model)


def stage(tokens, logits):
    ready.set()


def complete():
    other.rewind()
    return other.complete("The", max_tokens=3, sampler=ember.Sampler(1).stage(stage))


def work():
    while True:
        context.rewind()
        try:
            result = context.complete("The", max_tokens=400, ignore_eog=True, sampler=ember.Sampler(1).stage(stage))
        except ember.EmberError as error:
            reported.append(error)
            return


ready = threading.Event()
thread = threading.Thread(target=work, daemon=True)
thread.start()
ready.wait()
atexit.register(lambda: print(complete().finish_reason.name))
"""


def test_what_is_refused_and_what_works(path):
    done = run(REFUSED, path)
    assert done.stdout == (
        "MAX_TOKENS\n"
        "['ClosedError: the interpreter is ending']\n"
        "MAX_TOKENS 3072 1.0\n"
        "the interpreter is ending\n"
    ), done.stdout + done.stderr
    assert (done.stderr, done.returncode) == ("", 0)


LET_GO = """
import sys, threading, time
import ember


def stage(tokens, logits):
    with engine._handle:  # as a call is a use of the engine: the last one, which frees it, on its own thread
        inside.set()
        while not engine.closed:
            time.sleep(0.001)


engine, inside = ember.Engine(ember.Model(sys.argv[1]), n_ctx=64), threading.Event()
request = engine.submit("The", max_tokens=5, sampler=ember.Sampler(1).stage(stage))
inside.wait()
"""


def test_an_engine_that_is_let_go_on_its_own_thread(path):
    done = run(LET_GO, path)
    assert (done.stderr, done.returncode) == ("", 0)


FORK = """
import os, sys, threading
import ember

model = ember.Model(sys.argv[1])
ready = threading.Event()


def stage(tokens, logits):
    ready.set()


def work():
    context = ember.Context(model, n_threads=1)
    while True:
        context.rewind()
        context.complete("The", max_tokens=50, ignore_eog=True, sampler=ember.Sampler(1).stage(stage))


threading.excepthook = lambda what: None
threading.Thread(target=work, daemon=True).start()
ready.wait()
child = os.fork()
if child:
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_does_not_wait_for_the_threads_of_its_parent(path):
    done = run(FORK, path)
    assert (done.stdout, done.returncode) == ("0\n", 0), done.stderr


FINALIZERS = """
import sys
import ember

model = ember.Model(sys.argv[1])
context = ember.Context(model, n_ctx=64)
with open(sys.argv[1], "rb") as file:
    data = bytearray(file.read())


class Last:
    def __init__(self):
        self.context = ember.Context(ember.Model.from_buffer(data))
        self.sampler = ember.Sampler(1).stage(lambda *candidates: None).greedy()

    def __del__(self):
        print(self.context.complete("The", max_tokens=3, sampler=self.sampler).text)


last = Last()
generation = context.generate("The", max_tokens=9)
next(generation)
ember.kept = [generation, ember.Sampler(1).stage(print), ember.CancelToken()]
"""


def test_what_is_freed_at_the_very_end(path):
    done = run(FINALIZERS, path)
    assert (done.stdout, done.stderr, done.returncode) == ("se were the\n", "", 0)
