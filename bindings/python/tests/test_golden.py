"""The results in tests/golden/bindings.json, which are the same for all languages."""

import json

import ember
import pytest


def test_generations(model, golden):
    assert golden["generate"]
    for case in golden["generate"]:
        options = {"max_tokens": case["max_tokens"], "stop": case["stops"]}
        if case["sampler"] is not None:
            sampler = ember.Sampler(case["sampler"]["seed"])
            for stage in case["sampler"]["stages"]:
                value = int(stage["value"]) if stage["stage"] == "top_k" else stage["value"]
                getattr(sampler, stage["stage"])(value)
            options["sampler"] = sampler
        assert model.tokenize(case["prompt"]) == case["prompt_tokens"], case["name"]
        for prompt in (case["prompt"], case["prompt_tokens"]):
            if "sampler" in options:
                options["sampler"].reset()
            with ember.Context(model) as context:
                got = context.complete(prompt, **options)
            assert got.tokens == case["tokens"], case["name"]
            assert got.text == case["text"], case["name"]
            assert got.finish_reason.name.lower() == case["finish"], case["name"]
            assert got.usage.n_generated == len(case["tokens"]) and got.usage.n_prompt == len(case["prompt_tokens"])


def test_sampler_arguments_make_the_same_sampler(context, golden):
    [case] = [case for case in golden["generate"] if case["name"] == "top_k_top_p"]
    values = {stage["stage"]: stage["value"] for stage in case["sampler"]["stages"]}
    values["top_k"] = int(values["top_k"])
    got = context.complete(case["prompt"], max_tokens=case["max_tokens"], seed=case["sampler"]["seed"], **values)
    assert got.text == case["text"]


def test_embeddings(model, context, golden):
    case = golden["embeddings"]
    got = context.embed(case["texts"])
    assert len(got) == 2 and got.dim == case["n_embd"]
    for vector, expected in zip(got.tolist(), case["vectors"]):
        assert vector == pytest.approx(expected, abs=0.01)
    assert sum(a * b for a, b in zip(got[0], got[1])) == pytest.approx(case["cosine"], abs=0.01)
    assert context.embed([model.tokenize(text) for text in case["texts"]]).tolist() == got.tolist()


def test_dense(root):
    """The vectors of a folder with a Dense module are narrower than the model's layers."""
    golden = json.loads((root / "tests/fixtures/dense.json").read_text())
    texts = golden["texts"]
    model = ember.Model(root / "tests/fixtures/dense-folder")
    assert (model.info.n_embd, model.info.n_embd_out, model.info.n_prompts) == (36, 7, 3)
    with ember.Context(model, kv_type=ember.KvType.F32) as context:
        cases = [case for case in golden["cases"] if case["base"] == "bert" and case["dense"]]
        assert len(cases) == 2
        for case in cases:
            got = context.embed(texts, normalize=case["normalize"], dimensions=case.get("dimensions", 0))
            assert (len(got), got.dim) == (len(texts), len(case["rows"][0]))
            for vector, expected in zip(got.tolist(), case["rows"]):
                assert vector == pytest.approx(expected, abs=1e-4)
        prompted = context.embed([f"w5 w6 {text}" for text in texts])
        assert context.embed(texts, prompt="query").tolist() == prompted.tolist()
        rows = context.embed(["w7 w8"], pooling=ember.Pooling.NONE)
        assert (len(rows), rows.dim) == (len(model.tokenize("w7 w8")), 36)
        cut = context.embed(["w7 w8"], pooling=ember.Pooling.NONE, dimensions=5)
        assert cut.tolist() == [row[:5] for row in rows.tolist()]
        for dimensions in (8, 2**64 - 1):
            with pytest.raises(ember.InvalidArgumentError, match="1 to 7"):
                context.embed(texts, dimensions=dimensions)
        with pytest.raises(ember.InvalidArgumentError, match='"passage"'):
            context.embed(texts, prompt="passage")


def test_score(model, context, golden):
    case = golden["score"]
    tokens = model.tokenize(case["prompt"] + case["continuation"])
    n_prompt = len(model.tokenize(case["prompt"]))
    for got in (
        context.score(case["prompt"], case["continuation"]),
        context.score(tokens[:n_prompt], tokens[n_prompt:]),
    ):
        assert [(one.token, one.rank) for one in got.tokens] == [(one["token"], one["rank"]) for one in case["tokens"]]
        for one, expected in zip(got.tokens, case["tokens"]):
            assert one.logprob == pytest.approx(expected["logprob"], abs=0.1)
        assert got.logprob == pytest.approx(case["logprob"], abs=0.2)
        assert got.is_greedy == case["is_greedy"]
