"""Sequences that are shifted where they are full, and draft tokens: the text is the same."""

import gc
import threading
import weakref

import ember
import pytest

# A text that says things again, for a lookup to find.
PROMPT = "one two three, one two three, one two three, one two"


@pytest.fixture(scope="module")
def shift(golden):
    return golden["shift"]


@pytest.fixture(scope="module")
def rotary(root, shift):
    """A model whose tokens can be moved, as those of the bundled one cannot; it has no tokenizer."""
    return ember.Model(root / shift["model"])


def plain(result):
    return result.text, result.tokens, result.finish_reason


def test_a_shift_goes_on_where_the_sequence_is_full(rotary, shift):
    numbers = shift["n_keep"], shift["n_drop"]
    with ember.Context(rotary, n_ctx=shift["n_ctx"], n_seq=2) as context:
        got = context.complete(shift["prompt_tokens"], max_tokens=shift["max_tokens"], shift=numbers)
        assert got.tokens == shift["tokens"] and got.finish_reason.name.lower() == shift["finish"]
        assert got.usage.n_shifted == shift["n_shifted"] > shift["n_ctx"]
        assert context.n_past() == len(shift["prompt_tokens"]) + shift["max_tokens"] - shift["n_shifted"]
        context.rewind()
        drafted = context.complete(shift["prompt_tokens"], max_tokens=shift["max_tokens"], shift=numbers, lookup=8)
        assert drafted.tokens == shift["tokens"]

        # The same by hand.
        greedy, tokens, new = ember.Sampler().greedy(), [], shift["prompt_tokens"]
        while len(tokens) < shift["max_tokens"]:
            if context.n_past(1) == shift["n_ctx"]:
                context.shift_sequence(*numbers, sequence=1)
                assert context.n_past(1) == shift["n_ctx"] - shift["n_drop"]
            context.decode(new, sequences=[1] * len(new))
            new = [greedy.sample(context.logits(len(new) - 1))]
            tokens += new
        assert tokens == shift["tokens"]


def test_refused_shifts(model, context, rotary, shift):
    tokens = shift["prompt_tokens"]
    with ember.Context(rotary, n_ctx=32) as full:
        assert full.complete(tokens, max_tokens=100).finish_reason is ember.FinishReason.CONTEXT_FULL
        assert full.n_past() == 32
        view = full.logits(0)
        for wrong, culprit in (
            (lambda: full.shift_sequence(30, 3), "32"),
            (lambda: full.shift_sequence(0, 1, sequence=9), "9"),
            (lambda: full.shift_sequence(0, -5), "-5"),
            (lambda: full.generate(tokens, shift=(22, 10)), "n_ctx 32"),
            (lambda: full.generate(tokens, shift=(-1, 10)), "-1"),
        ):
            with pytest.raises(ember.InvalidArgumentError, match=culprit):
                wrong()
        with pytest.raises(ValueError):
            view[0]  # what it showed may be gone
        assert full.n_past() == 32
    context.decode(model.tokenize(PROMPT))
    with ember.Engine(model) as engine:
        for call, culprit in (
            (lambda: context.shift_sequence(0, 1), "position"),
            (lambda: context.generate(PROMPT, shift=(4, 8)), "position"),
            (lambda: engine.submit(PROMPT, shift=(4, 8)), "engine"),
        ):
            with pytest.raises(ember.UnsupportedError, match=culprit):
                call()


def test_drafts_change_nothing(model, context):
    with ember.Context(model, n_seq=2) as draft, ember.Engine(model, n_ctx=256) as engine:
        for drawn in ({}, {"seed": 3, "top_k": 5, "temperature": 0.7}):
            options = {"max_tokens": 40, "ignore_eog": True, **drawn}

            def complete(**drafts):
                context.rewind()
                return context.complete(PROMPT, **options, **drafts)

            want = complete()
            assert want.usage[-3:] == (0, 0, 0)
            for drafts in (
                {"lookup": 8},
                {"lookup": 8, "lookup_ngram": 2},
                {"draft": draft},
                {"draft": draft, "n_draft": 4, "draft_sequence": 1},
                {"lookup": 8, "draft": draft},
            ):
                got = complete(**drafts)
                assert plain(got) == plain(want)
                assert 0 < got.usage.n_accepted <= got.usage.n_drafted
            assert draft.n_past(0) > 0 and draft.n_past(1) > 0
            for drafts in ({"lookup": 0}, {"draft": draft, "n_draft": 0}, {"lookup": None, "draft": None}):
                none = complete(**drafts)
                assert plain(none) == plain(want) and none.usage.n_drafted == 0
            together = engine.complete(PROMPT, **options, lookup=8, draft=draft)
            assert plain(together) == plain(want) and together.usage.n_drafted == 0


def test_a_draft_is_lent_and_kept(model, context):
    options = {"max_tokens": 40, "ignore_eog": True}
    want = context.complete(PROMPT, **options)
    context.rewind()
    draft = ember.Context(model)
    draft.decode(model.tokenize(PROMPT))
    view = draft.logits(len(model.tokenize(PROMPT)) - 1)
    generation = context.generate(PROMPT, **options, draft=draft)
    events = [next(generation), next(generation)]
    with pytest.raises(ValueError):
        view[0]  # the generation has used the draft
    draft.rewind()  # between two events it is free
    events.append(next(generation))
    draft.close()
    events += generation
    assert "".join(event.text for event in events) == want.text
    assert generation.usage.n_accepted > 0
    with pytest.raises(ember.ClosedError):
        context.generate(PROMPT, draft=draft)

    # One that nobody else has any more lives as long as the generation, and no longer.
    context.rewind()
    draft = ember.Context(model)
    gone = weakref.ref(draft)
    generation = context.generate(PROMPT, **options, draft=draft)
    del draft
    gc.collect()
    assert gone() is not None and generation.text() == want.text
    del generation
    gc.collect()
    assert gone() is None


def test_a_draft_at_work_is_busy(model, slow, context):
    generation = context.generate(PROMPT, max_tokens=40, ignore_eog=True, draft=slow)
    assert next(generation).text  # the prompt's logits give the first token without a draft
    long = model.tokenize(" ".join(["the sea was calm and the moon was bright"] * 40))
    thread = threading.Thread(target=lambda: slow.decode(long))
    thread.start()
    busy = 0
    while thread.is_alive():
        try:
            slow.n_past()
        except ember.BusyError:
            with pytest.raises(ember.BusyError, match="draft"):
                next(generation)
            busy += 1
            break
    thread.join()
    assert busy == 1
    slow.rewind()
    rest = generation.text()  # and can be tried again
    context.rewind()
    assert context.complete(PROMPT, max_tokens=40, ignore_eog=True).text.endswith(rest)


def test_refused_drafts(model, context, rotary, root):
    with ember.Context(model) as draft, ember.Context(rotary) as other:
        for drafts, culprit in (
            ({"lookup": 33}, "^lookup must"),
            ({"lookup": -1}, "-1"),
            ({"lookup": 8, "lookup_ngram": 0}, "ngram"),
            ({"lookup": 8, "lookup_ngram": 17}, "17"),
            ({"lookup_ngram": 3}, "lookup"),
            ({"n_draft": 3}, "draft"),
            ({"draft_sequence": 0, "draft": None}, "draft"),
            ({"draft": draft, "n_draft": 33}, "33"),
            ({"draft": draft, "draft_sequence": 1}, "sequence 1"),
            ({"draft": context}, "itself"),
            ({"draft": other}, "vocabulary"),
        ):
            with pytest.raises(ember.InvalidArgumentError, match=culprit):
                context.generate(PROMPT, **drafts)
    with ember.Context(ember.Model(root / "tests/fixtures/models/bert.gguf")) as encoder:
        with pytest.raises(ember.UnsupportedError, match="encoder"):
            context.generate(PROMPT, draft=encoder)
