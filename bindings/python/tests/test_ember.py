"""Models, texts, generations, embeddings and logits."""

import array
import math
import subprocess
import sys

import ember
import pytest
from ember import EventKind, FinishReason

PROMPT = "Once upon a time"


def test_loading(path, model):
    with pytest.raises(ember.IoError, match="no-such-model.gguf") as caught:
        ember.Model("no-such-model.gguf")
    assert caught.value.status == ember.Status.IO and isinstance(caught.value, (ember.EmberError, OSError))
    with pytest.raises(ember.InvalidArgumentError, match="warp"):
        ember.Model(path, isa="warp")
    with pytest.raises(ember.FormatError, match="<buffer>"):
        ember.Model.from_bytes(b"not a model")
    with ember.Model.from_bytes(path.read_bytes()) as copy:
        assert copy.info == model.info
    with ember.Model(str(path), use_mmap=False, pack=ember.Pack.NEVER, isa="scalar") as scalar:
        assert scalar.isa == "scalar"
    assert model.info.causal is True and model.info.n_embd == 192 and model.info.pooling is ember.Pooling.AUTO
    assert ember.version() in ember.build_info()


def test_metadata(model):
    metadata = model.metadata
    assert metadata["general.architecture"] == "gpt2" and metadata["gpt2.block_count"] == model.info.n_layer
    everything = dict(metadata)
    assert len(everything) == len(metadata)
    tokens, kinds = everything["tokenizer.ggml.tokens"], everything["tokenizer.ggml.token_type"]
    assert len(tokens) == len(kinds) == model.info.n_vocab and set(kinds) <= {1, 3}
    assert tokens[0] == "<|endoftext|>" and kinds[0] == 3 and tokens[50] == model.detokenize([50])
    with pytest.raises(KeyError):
        metadata["no.such.key"]


def test_texts_and_tokens(model):
    text = "na\u00efve \0 text \U0001f319" + "x\n\x01" * 3000
    tokens = model.tokenize(text)
    assert model.detokenize(tokens) == text and model.detokenize([]) == ""
    assert b"".join(model.token_bytes(token) for token in tokens) == text.encode()
    assert model.tokenize(text.encode()) == tokens
    assert model.detokenize_bytes(model.tokenize(b"a\xffb")) != b""
    assert model.is_eog(model.info.eos_token) and not model.is_eog(tokens[0])
    assert model.is_control(model.info.eos_token) and not model.is_control(tokens[0])
    for wrong in (-1, 1 << 32, 4000000000):
        with pytest.raises(ember.InvalidArgumentError):
            model.detokenize([wrong])
        with pytest.raises(ember.InvalidArgumentError):
            model.token_bytes(wrong)


def test_events(context, model):
    with context.generate(PROMPT, max_tokens=12, echo=True, top_logprobs=3) as generation:
        events = list(generation)
        assert generation.usage.finish_reason is generation.finish_reason is FinishReason.MAX_TOKENS
        assert list(generation) == []
    assert [event.kind for event in events] == [EventKind.ECHO, *[EventKind.TOKEN] * 12, EventKind.END]
    assert events[0].text == PROMPT and events[0].token is None and events[-1].finish_reason is FinishReason.MAX_TOKENS
    for event in events[1:-1]:
        assert len(event.tops) == 3 and event.tops[0].token == event.token and event.bytes
        assert event.logprob == event.tops[0].logprob <= 0 and event.tops[0].logprob >= event.tops[2].logprob
    assert context.n_past() == len(model.tokenize(PROMPT)) + 12
    [event] = [event for event in context.generate("", max_tokens=1) if event.kind is EventKind.TOKEN]
    assert event.logprob is None and event.tops == ()


def test_options(context):
    text = context.complete(PROMPT, max_tokens=40, stop=["never", "habit"])
    assert text.finish_reason is FinishReason.STOP_STRING and "habit" not in text.text
    context.rewind()
    assert context.complete(PROMPT, max_tokens=40, stop="habit", include_stop=True).text.endswith("habit")
    assert context.complete(PROMPT, max_tokens=1, reuse_prefix=True).usage.n_reused > 0
    with pytest.raises(TypeError, match="tempreature"):
        context.generate(PROMPT, tempreature=1)
    with pytest.raises(ember.InvalidArgumentError, match="max_tokens"):
        context.generate(PROMPT, max_tokens=-1)
    with pytest.raises(ember.InvalidArgumentError, match="65"):
        context.generate(PROMPT, top_logprobs=65)
    with pytest.raises(ember.InvalidArgumentError, match="temperature"):
        context.generate(PROMPT, sampler=ember.Sampler(1), temperature=1)
    with pytest.raises(ember.InvalidArgumentError, match=r"prompt\[1\]"):
        context.generate([1, -2])


def test_sampler(context):
    sampler = ember.Sampler(7, top_k=40, temperature=0.8)

    def run():
        context.rewind()
        return context.generate(PROMPT, max_tokens=16, sampler=sampler).text()

    first = run()
    assert run() != first  # the random numbers went on
    sampler.reset()
    assert run() == first
    assert ember.Sampler().seed != ember.Sampler().seed
    assert ember.Sampler((1 << 64) - 1).seed != (1 << 64) - 1  # which stands for one drawn at random
    context.rewind()
    drawn = context.generate(PROMPT, max_tokens=16, temperature=0.9)
    text = drawn.text()
    context.rewind()
    assert context.generate(PROMPT, max_tokens=16, temperature=0.9, seed=drawn.sampler.seed).text() == text
    assert ember.Sampler(1).greedy().sample([0.5, 2.0, 1.0]) == 1
    assert ember.Sampler(1).greedy().sample(array.array("f", [0.5, 2.0, 3.0])) == 2
    with pytest.raises(ember.InvalidArgumentError, match="NaN"):
        sampler.sample([1.0, math.nan])
    with pytest.raises(ember.InvalidArgumentError):
        ember.Sampler(1, top_p=2.0)


def test_stages_of_the_sampler():
    logits = [0.5, 2.0, 1.0]
    assert ember.Sampler(1).deny([1]).greedy().sample(logits) == 2
    assert ember.Sampler(1).allow([0]).greedy().sample(logits) == 0
    assert ember.Sampler(1).bias({1: -math.inf, 0: 3.0}).greedy().sample(logits) == 0
    assert ember.Sampler(1).min_p(0.9).sample(logits) == 1
    assert ember.Sampler(1).typical_p(0.9).dynamic_temperature(0.5, 0.2).xtc(0.5, 0.4).mirostat(5, 0.1).sample(logits) < 3
    penalised = ember.Sampler(1).penalties(8, presence=100.0).greedy()
    penalised.accept(1)
    assert penalised.sample(logits) == 2
    penalised.reset()
    assert penalised.sample(logits) == 1
    with pytest.raises(ember.InvalidArgumentError):
        ember.Sampler(1).bias({-1: 1.0})


def test_context_full(model):
    with ember.Context(model, n_ctx=2) as small, pytest.raises(ember.ContextFullError):
        small.complete(PROMPT)


def test_embeddings(context, model):
    each = context.embed(["The moon", "The sea was calm"], pooling=ember.Pooling.NONE)
    assert len(each) == sum(len(model.tokenize(text)) for text in ("The moon", "The sea was calm"))
    [vector] = context.embed(["The moon"])
    assert sum(x * x for x in vector) == pytest.approx(1, abs=1e-4)
    [longer] = context.embed(["The moon"], normalize=False).tolist()
    assert sum(x * x for x in longer) > 1.1
    assert len(context.embed([])) == 0
    assert list(each[-1]) == list(each[1:][-1])
    with pytest.raises(TypeError, match="list"):
        context.embed("The moon")
    with pytest.raises(ember.InvalidArgumentError, match="all strings"):
        context.embed(["a", [1]])


def test_logits(context, model):
    tokens = model.tokenize(PROMPT)
    context.decode(tokens)
    logits = context.logits(len(tokens) - 1)
    assert len(logits) == model.info.n_vocab and logits.readonly and logits.format == "f"
    best = max(range(len(logits)), key=logits.__getitem__)
    assert ember.Sampler(0).greedy().sample(logits) == best
    with pytest.raises(ember.NotFoundError):
        context.logits(0)
    context.rewind()
    with pytest.raises(ValueError, match="released"):
        logits[0]
    assert context.complete(PROMPT, max_tokens=1).tokens == [best]
    context.rewind()
    context.decode(tokens, positions=range(len(tokens)), want_logits=[True] * len(tokens))
    assert len(context.logits(0)) == model.info.n_vocab
    with pytest.raises(ember.InvalidArgumentError, match="positions"):
        context.decode(tokens, positions=[0])
    with pytest.raises(ember.InvalidArgumentError):
        context.decode(tokens, sequences=[5] * len(tokens))


def test_numpy_sees_the_same_memory(context, model):
    numpy = pytest.importorskip("numpy", reason="numpy is optional; tests/run.sh installs it")
    context.decode([1, 2, 3])
    view = context.logits(2)
    matrix = numpy.asarray(view)
    assert matrix.dtype == numpy.float32 and numpy.shares_memory(matrix, view) and not matrix.flags.writeable
    assert ember.Sampler(0).greedy().sample(matrix) == int(matrix.argmax())
    expected = matrix.copy()
    context.close()
    assert (matrix == expected).all()  # the context's memory waits for it
    with ember.Context(model) as other:
        vectors = other.embed(["a", "b"])
    assert vectors.numpy().shape == (2, model.info.n_embd)
    assert numpy.shares_memory(vectors.numpy(), vectors[0]) and vectors.numpy().tolist() == vectors.tolist()


def test_numpy_is_optional(path):
    program = (
        "import sys; sys.modules['numpy'] = None; import ember\n"
        f"context = ember.Context(ember.Model({str(path)!r}))\n"
        "context.decode([1]); assert len(context.logits(0)) > 0 and len(context.embed(['a']).tolist()) == 1"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_chat(chat_path, context):
    assert ember.has_feature("chat") and not ember.has_feature("teleport")
    odd = 'a "quoted" back\\slash,\na new line, \x01 and \U0001f319'
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": odd}]
    with ember.Model(chat_path) as model:
        expected = f"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n{odd}<|im_end|>\n"
        assert model.apply_chat_template(messages, add_generation_prompt=False) == expected
        assert model.apply_chat_template(messages) == expected + "<|im_start|>assistant\n"
        own = "{{ messages[0].content }}{{ x }}{{ tools[0].name }}"
        assert (
            model.apply_chat_template(messages, template=own, variables={"x": 7}, tools=[{"name": "f"}]) == "Be brief.7f"
        )
        assert "im_start" in model.chat_template()
        with pytest.raises(ember.NotFoundError, match="no-such"):
            model.chat_template("no-such")
        with ember.Context(model, n_ctx=256) as conversation:
            messages = [{"role": "user", "content": "What is 2+2?"}]
            answer = conversation.chat(messages, max_tokens=24)
            assert " 4" in answer.text()
            messages += [
                {"role": "assistant", "content": "It is 4."},
                {"role": "user", "content": "Are you sure?"},
            ]
            answer = conversation.chat(messages, max_tokens=4)
            assert answer.text() and answer.usage.n_reused > 20
    with pytest.raises(ember.UnsupportedError):
        context.chat(messages)

def test_chat_by_another_template(model, context):
    messages = [{"role": "user", "content": "Once upon"}]
    template = "{{ messages[0].content }} a {{ tools[0].name }}, {{ who }}"
    options = {"template": template, "tools": [{"name": "time"}], "variables": {"who": "there"}}
    text = model.apply_chat_template(messages, **options)
    assert text == "Once upon a time, there"
    want = context.complete(text, max_tokens=6).tokens
    context.rewind()
    for n_reused in (0, len(model.tokenize(text)) - 1):
        answer = context.chat(messages, max_tokens=6, **options)
        assert [event.token for event in answer][:-1] == want and answer.usage.n_reused == n_reused
        assert context.tokens()[: len(model.tokenize(text))] == model.tokenize(text)
    for name, wanted in (("tools", "a list of tools"), ("variables", "a mapping"), ("template", "a str")):
        with pytest.raises(TypeError, match=f"^{name} must be {wanted}, got 5"):
            context.chat(messages, **{**options, name: 5})


def test_log(path, monkeypatch):
    lines = []
    ember.set_log(lambda level, text: lines.append((level, text)), ember.LogLevel.DEBUG)
    ember.Model(path)
    assert any(level is ember.LogLevel.INFO and "ember-tales" in text for level, text in lines)
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    ember.set_log(lambda level, text: 1 // 0)
    ember.Model(path)
    assert raised and raised[0].exc_type is ZeroDivisionError
    ember.set_log(None)
    lines.clear()
    ember.Model(path)
    assert not lines
