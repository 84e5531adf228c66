"""Several completions of one prompt."""

import ember
import pytest

PROMPT = "Once upon a time"


def test_each_is_as_alone(model):
    options = {"max_tokens": 12, "logprobs": True, "temperature": 1.1}
    with ember.Context(model, n_ctx=128, n_seq=3) as context:
        every = context.completions(PROMPT, 3, seed=21, **options)
        with pytest.raises(ember.InvalidArgumentError, match="has not ended"):
            every.rank()
        texts, logprobs, ends = ["", "", ""], [[], [], []], []
        for index, event in every:
            texts[index] += event.text
            if event.logprob is not None:
                logprobs[index].append(event.logprob)
            if event.finish_reason is not None:
                ends.append(index)
        assert sorted(ends) == [0, 1, 2] and len(set(texts)) > 1
        for i, text in enumerate(texts):
            with ember.Context(model, n_ctx=128) as own:
                alone = own.complete(PROMPT, seed=21 + i, **options)
            assert (text, every.text(i)) == (alone.text, alone.text)
            assert logprobs[i] == alone.logprobs
            assert every.usage(i).n_generated == alone.usage.n_generated == 12
        means = [sum(each) / len(each) for each in logprobs]
        assert every.rank() == sorted(range(3), key=lambda i: -means[i])
        every.close()
        with pytest.raises(ember.ClosedError):
            next(every)


def test_greedy_ones_are_the_same(model):
    with ember.Context(model, n_ctx=128, n_seq=2) as context:
        with context.completions(model.tokenize(PROMPT), 2, max_tokens=6) as both:
            both.finish()
            assert both.text(0) == both.text(1) != ""
            with pytest.raises(ember.InvalidArgumentError, match="no completion 2"):
                both.text(2)
            with pytest.raises(ember.InvalidArgumentError, match="not asked for"):
                both.rank()
        with pytest.raises(ember.InvalidArgumentError, match="3 completions"):
            context.completions(PROMPT, 3)


def test_own_stages_may_raise(model):
    def fail(tokens, logits):
        raise ValueError("enough")

    with ember.Context(model, n_ctx=128, n_seq=2) as context:
        with pytest.raises(ValueError, match="enough"):
            context.completions(PROMPT, 2, sampler=ember.Sampler(1).stage(fail)).finish()
