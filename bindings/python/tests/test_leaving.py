"""Loops over events that are left: what the sequence has, and how to go on so that nothing is lost or repeated."""

import time

import ember
import pytest

PROMPT = "The sea was calm, and the moon"
N = 20


@pytest.fixture(params=["text", "tokens"])
def prompt(request, model):
    return PROMPT if request.param == "text" else model.tokenize(PROMPT)


def left_after(n, generation):
    """What is shown when a loop is left after n tokens, and the last event."""
    shown = ""
    for i, event in enumerate(generation, 1):
        shown += event.text
        if i == n:
            break
    return shown, event


def test_the_last_token_is_shown_and_not_yet_in_the_sequence(model, context, prompt):
    for n in (1, 5):
        context.rewind()
        generation = context.generate(prompt, max_tokens=N)
        shown, event = left_after(n, generation)
        assert model.detokenize([*context.tokens(), event.token]) == PROMPT + shown
        assert context.n_past() == len(model.tokenize(PROMPT)) + n - 1
        next(generation)
        assert model.detokenize(context.tokens()) == PROMPT + shown


@pytest.mark.parametrize("drafts", [{}, {"lookup": 8}])
def test_going_on_gives_what_the_loop_would_have(model, context, prompt, drafts):
    want = context.complete(prompt, max_tokens=N)
    end = context.tokens()
    for n in range(1, N):
        context.rewind()
        generation = context.generate(prompt, max_tokens=N, **drafts)
        assert left_after(n, generation)[0] + generation.text() == want.text and context.tokens() == end
        context.rewind()
        shown, event = left_after(n, context.generate(prompt, max_tokens=N, **drafts))
        assert shown + context.complete([event.token], max_tokens=N - n, **drafts).text == want.text
        assert context.tokens() == end


def test_going_on_with_another_prompt(model, context, prompt):
    more = " said the king"
    for n in (1, 4, 9):
        context.rewind()
        context.complete(prompt, max_tokens=n)  # to its end, with which the sequence has all
        want, whole = context.complete(more, max_tokens=8).text, context.tokens()
        context.rewind()
        _shown, event = left_after(n, context.generate(prompt, max_tokens=N))
        tokens = [event.token, *model.tokenize(more, add_special=False)]
        assert context.complete(tokens, max_tokens=8).text == want and context.tokens() == whole


def test_drawn_text_goes_on_with_its_sampler(context, prompt):
    want = context.complete(prompt, max_tokens=N, temperature=0.9, top_k=20, seed=3, ignore_eog=True).text
    for n in (1, 7):
        context.rewind()
        sampler = ember.Sampler(3, top_k=20, temperature=0.9)
        options = {"sampler": sampler, "ignore_eog": True}
        shown, event = left_after(n, context.generate(prompt, max_tokens=N, **options))
        assert shown + context.complete([event.token], max_tokens=N - n, **options).text == want


def test_what_ends_leave_out(model, context):
    n_prompt = len(model.tokenize(PROMPT))
    token = ember.CancelToken()
    n = 0
    for event in context.generate(PROMPT, max_tokens=N, cancel_token=token):
        n += event.token is not None
        if n == 5:
            token.cancel()
    assert event.finish_reason is ember.FinishReason.CANCELLED and context.n_past() == n_prompt + n - 1
    for options, reason in (
        ({"max_tokens": 5}, ember.FinishReason.MAX_TOKENS),
        ({"stop": ","}, ember.FinishReason.STOP_STRING),
    ):
        context.rewind()
        result = context.complete(PROMPT, **options)
        assert (result.finish_reason, context.n_past()) == (reason, n_prompt + len(result.tokens))


def test_a_request_runs_on_until_it_is_closed_or_let_go(model):
    with ember.Engine(model, n_ctx=512, n_parallel=1, backend=ember.Backend.SCALAR) as engine:
        request = engine.submit(PROMPT, max_tokens=450, ignore_eog=True)
        for _ in request:
            break
        before = engine.metrics.n_generated
        deadline = time.monotonic() + 20
        while engine.metrics.n_generated < before + 5 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert engine.metrics.n_generated >= before + 5 and engine.metrics.n_cancelled == 0
        request.close()
        for _ in engine.submit(PROMPT, max_tokens=450, ignore_eog=True):
            break
        with engine.submit(PROMPT, max_tokens=450, ignore_eog=True) as request:
            next(request)
        while engine.metrics.n_cancelled < 3 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert (engine.metrics.n_cancelled, engine.metrics.n_finished) == (3, 0)
