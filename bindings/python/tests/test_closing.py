"""Closing what a call is using, and what lives on."""

import threading

import ember
import pytest

PROMPT = "Once upon a time"


@pytest.fixture
def logged():
    lines = []
    ember.set_log(lambda _level, text: lines.append(text), ember.LogLevel.ERROR)
    yield lines
    ember.set_log(None)


@pytest.mark.parametrize("what", ["context", "sampler", "draft"])
@pytest.mark.parametrize("on_a_thread", [False, True])
def test_what_is_closed_while_an_event_is_made_is_freed_afterwards(path, model, logged, what, on_a_thread):
    data = bytearray(path.read_bytes())
    with ember.Model.from_buffer(data) as lent:
        context = ember.Context(lent, n_ctx=256)
        draft = ember.Context(lent, n_ctx=256) if what == "draft" else None

    def close(_tokens, _logits):
        closing = threading.Thread(target=things[what].close) if on_a_thread else None
        if closing is None:
            things[what].close()
        else:
            closing.start()
            closing.join()

    sampler = ember.Sampler(1).stage(close).greedy()
    things = {"context": context, "sampler": sampler, "draft": draft}
    generation = context.generate(PROMPT, max_tokens=4, ignore_eog=True, sampler=sampler, draft=draft)
    assert generation.text() and things[what]._handle.closed  # it goes on with what was closed
    generation.close()
    for one in things.values():
        if one is not None:
            one.close()
    assert logged == []  # that something was not freed
    data.append(0)  # nothing is left that looks at the model


def test_a_draft_that_is_closed_while_it_drafts_is_freed_afterwards(path, model, context, logged):
    data = bytearray(path.read_bytes())
    with ember.Model.from_buffer(data) as lent:
        draft = ember.Context(lent, backend=ember.Backend.SCALAR)
    generation = context.generate(PROMPT, max_tokens=40, ignore_eog=True, draft=draft)

    def run():
        while generation.finish_reason is None:
            try:
                next(generation)
            except ember.BusyError:
                pass  # the look at the draft, below, came first

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive() and not draft.closed:
        try:
            draft.n_past()
        except ember.BusyError:
            draft.close()
    thread.join()
    assert draft.closed and generation.usage.n_generated == 40
    generation.close()
    assert logged == []
    data.append(0)


def test_a_sampler_that_closes_itself_is_freed(logged):
    sampler = ember.Sampler(1).stage(lambda *candidates: sampler.close())
    assert sampler.sample([1.0]) == 0
    assert sampler._handle.closed and logged == []


def test_contexts_live_on_when_their_model_is_closed(chat_path):
    messages = [{"role": "user", "content": "What is 2+2?"}]
    with ember.Model(chat_path) as model:
        context = ember.Context(model, n_ctx=256)
    assert model.closed
    assert context.chat(messages, max_tokens=4).text()
    context.close()
    with pytest.raises(ember.ClosedError, match="this context was closed"):
        context.chat(messages)
    with pytest.raises(ember.ClosedError, match="this model was closed"):
        ember.Context(model)
