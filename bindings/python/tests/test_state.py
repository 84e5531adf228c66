"""Sequences that are copied, kept and found, and their states."""

import io
import os
import threading

import ember
import pytest

STORY = "Once upon a time, there was a king who had three sons, and the eldest of them was very proud. " * 4


@pytest.fixture
def filled(model):
    with ember.Context(model, n_ctx=256, n_seq=3, keep_prefixes=True) as context:
        context.decode(model.tokenize(STORY), sequences=[1] * len(model.tokenize(STORY)))
        yield context


def goes_on(context, sequence):
    return context.complete(" He", max_tokens=6, sequence=sequence).text


def test_sequences(model, filled):
    tokens = model.tokenize(STORY)
    free = filled.info.n_free_pages
    filled.copy_sequence(1, 2, len(tokens))
    assert filled.info.n_free_pages == free
    want = goes_on(filled, 1)
    assert goes_on(filled, 2) == want
    filled.keep_sequence(2)
    assert [filled.n_past(sequence) for sequence in range(3)] == [0, 0, len(tokens) + 7]
    assert filled.tokens() == [] and filled.tokens(2)[: len(tokens)] == tokens and len(filled.tokens(2)) == len(tokens) + 7
    filled.rewind(sequence=2)
    page = filled.info.page_len
    assert filled.reuse(tokens, sequence=0) == (len(tokens) - 1) // page * page > 0
    assert filled.reuse(tokens, sequence=0, most=page) == page
    filled.decode(tokens[page:])
    assert goes_on(filled, 0) == want
    for wrong in (
        lambda: filled.copy_sequence(0, 0, 1),
        lambda: filled.copy_sequence(-1, 0, 1),
        lambda: filled.copy_sequence(0, 1, 1000),
        lambda: filled.keep_sequence(3),
        lambda: filled.tokens(3),
        lambda: filled.reuse(tokens, sequence=9),
        lambda: filled.reuse(tokens, most=-1),
    ):
        with pytest.raises(ember.InvalidArgumentError):
            wrong()


def test_kv_limit(model, filled):
    whole = filled.info
    assert whole.backend is ember.Backend.AUTO
    with ember.Context(model, n_ctx=256, n_seq=3, kv_limit=filled.memory.kv // 3) as context:
        assert context.info.n_pages == whole.n_pages // 3
        context.decode([47] * 250)
        with pytest.raises(ember.ContextFullError):
            context.decode([47] * 250, sequences=[1] * 250)
        context.rewind()
        context.decode([47] * 250, sequences=[1] * 250)
    with pytest.raises(ember.InvalidArgumentError):
        ember.Context(model, kv_limit=1)


class Slow:
    """Gives, and takes, a few bytes at a time."""

    def __init__(self, data=b""):
        self.data = data

    def read(self, size):
        part, self.data = self.data[: min(size, 1000)], self.data[min(size, 1000) :]
        return part

    def write(self, data):
        self.data += bytes(data[:1000])
        return min(len(data), 1000)


def test_states(model, filled, tmp_path):
    state, everything = filled.save_state(sequence=1), filled.save_state()
    stream, slow, path = io.BytesIO(), Slow(), tmp_path / "state"
    filled.save_state_to(stream, sequence=1)
    filled.save_state_to(slow, sequence=1)
    filled.save_state_to(path, sequence=1)
    with open(tmp_path / "written", "wb", buffering=0) as file:
        filled.save_state_to(file, sequence=1)
    assert stream.getvalue() == slow.data == path.read_bytes() == (tmp_path / "written").read_bytes() == state
    want = goes_on(filled, 1)

    def through_a_pipe(context):
        into, out = os.pipe()
        with open(into, "rb") as reader, open(out, "wb") as writer:
            filled.load_state(state, sequence=1)

            def write():
                filled.save_state_to(writer, sequence=1)
                writer.close()

            thread = threading.Thread(target=write)
            thread.start()
            context.load_state_from(reader, sequence=0)
            thread.join()

    for load in (
        lambda context: context.load_state(state, sequence=0),
        lambda context: context.load_state(memoryview(bytearray(state)), sequence=0),
        lambda context: context.load_state_from(path, sequence=0),
        lambda context: context.load_state_from(str(path), sequence=0),
        lambda context: context.load_state_from(io.BytesIO(state), sequence=0),
        lambda context: context.load_state_from(Slow(state), sequence=0),
        through_a_pipe,
    ):
        with ember.Context(model, n_ctx=256) as other:
            load(other)
            assert goes_on(other, 0) == want
    with ember.Context(model, n_ctx=256, n_seq=3) as other:
        other.load_state(everything)
        assert goes_on(other, 1) == want


class Broken:
    def write(self, data):
        raise OSError("the disk is full")

    def read(self, size):
        raise EOFError("there is no more")


class Greedy:
    def read(self, size):
        return b"x" * (size + 1)


def test_refused_states(model, filled, tmp_path):
    state = filled.save_state(sequence=1)
    damaged = bytearray(state)
    damaged[len(state) // 2] ^= 1
    for load, kind, text in (
        (lambda: filled.load_state(bytes(damaged), sequence=1), ember.FormatError, "."),
        (lambda: filled.load_state(state[:100], sequence=1), ember.FormatError, "."),
        (lambda: filled.load_state(state, sequence=9), ember.InvalidArgumentError, "9"),
        (lambda: filled.load_state(state, sequence=0xFFFFFFFF), ember.InvalidArgumentError, "4294967295"),
        (lambda: filled.load_state_from(tmp_path / "none"), ember.IoError, "none"),
        (lambda: filled.save_state_to(tmp_path / "no/folder"), ember.IoError, "folder"),
        (lambda: filled.save_state_to(Broken()), OSError, "the disk is full"),
        (lambda: filled.load_state_from(Broken()), EOFError, "no more"),
        (lambda: filled.load_state_from(Greedy()), ember.InvalidArgumentError, "bytes"),
        (lambda: filled.load_state_from(io.StringIO("text")), TypeError, "encoding"),
        (lambda: filled.save_state_to(3), TypeError, "^target must be a path or what has a method write, got 3"),
    ):
        with pytest.raises(kind, match=text):
            load()
    assert filled.save_state(sequence=1) == state
    with ember.Context(model, n_ctx=256) as context:
        context.decode([1, 2, 3])
        view = context.logits(2)
        context.load_state(state, sequence=0)
        with pytest.raises(ValueError):
            view[0]  # what it showed is gone
    with pytest.raises(ember.ClosedError):
        context.save_state()
