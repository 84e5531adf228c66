"""Calls of tools, constraints, scores of texts, tokenizers alone."""

import json
import math
import re

import ember
import pytest
from ember import ChatEventKind, Constraint, ConstraintProgress, FinishReason, Sampler, Tokenizer

HERMES = (
    "{% for m in messages %}<u>{{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %}<a>{% if not enable_thinking | default(true) %}<think></think>"
    "{% endif %}{% endif %}{# <think> #}"
)
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = [{"type": "function", "function": {"name": "weather", "parameters": CITY}}]


def test_a_model_calls_a_tool_and_answers_with_its_result(tools_path):
    context = ember.Context(ember.Model(tools_path))
    conversation = ember.Conversation(context, chat={"tools": WEATHER}, max_tokens=40)
    events = list(conversation.send("What is the weather in Paris?"))
    kinds = [event.kind for event in events]
    assert (kinds[0], kinds[-2:]) == (ChatEventKind.CALL_BEGIN, [ChatEventKind.CALL_DONE, ChatEventKind.END])
    done = events[-2]
    assert (done.name, json.loads(done.text)) == ("weather", {"city": "Paris"})
    assert done.text == "".join(event.text for event in events if event.kind is ChatEventKind.CALL_ARGUMENTS)
    conversation.add(
        {"role": "tool", "tool_call_id": done.id, "name": done.name, "content": "It is sunny, 21 degrees."}
    )
    assert "sunny" in conversation.text()
    assert [message["role"] for message in conversation.messages] == ["user", "assistant", "tool", "assistant"]
    # The choice of one reply.
    for choice, calls in [("none", False), ("required", True)]:
        conversation.set_tool_choice(choice)
        events = list(conversation.send("What is the weather in Bern?"))
        assert any(event.kind is ChatEventKind.CALL_DONE for event in events) is calls
    with pytest.raises(ember.InvalidArgumentError, match="tool_choice"):
        conversation.set_tool_choice("sing")


def test_a_call_that_has_to_be_made_is_constrained_and_read(tools_path):
    model = ember.Model(tools_path)
    options = {"tools": WEATHER, "tool_choice": "required", "parallel_calls": False}
    messages = [{"role": "user", "content": "What is the weather in Bern?"}]
    prompt = model.apply_chat_template(messages, tools=WEATHER)
    constraint = Constraint.chat(model, prompt, **options)
    assert Constraint.chat(model, prompt, **{**options, "tool_choice": "none"}) is None
    parser = ember.ChatParser(model, prompt, **options)
    assert parser.format.name == "hermes" and parser.format.thinking_open == ""
    generation = ember.Context(model).chat(
        messages, tools=WEATHER, max_tokens=60, constraint=constraint, render_special=True
    )
    events = [event for piece in generation for event in parser.push(piece.text)]
    events += parser.finish(generation.finish_reason)
    calls = [json.loads(event.text) for event in events if event.kind is ChatEventKind.CALL_DONE]
    assert calls == [{"city": "Bern"}] and generation.usage.progress is ConstraintProgress.COMPLETE
    with pytest.raises(ember.InvalidArgumentError, match="tool_choice"):
        ember.Conversation(ember.Context(model), chat={"tools": WEATHER, "tool_choice": "sing"})


def test_replies_are_read_in_pieces(model):
    parser = ember.ChatParser(model, template=HERMES, tools=[{"name": "f", "parameters": {}}])
    assert [event.text for event in parser.push("<think>So")] == ["So"] and parser.thinking
    events = parser.push(".</think>\n\nYes.\n<tool_call>{\"name\": \"f\",\"arguments\": {\"a\":1}}</tool_call>")
    events += parser.push("<tool_call>{\"name\": \"h\"}</tool_call>") + parser.finish(FinishReason.EOG)
    assert not parser.thinking
    by_kind = {event.kind: event for event in events}
    assert by_kind[ChatEventKind.CALL_DONE].text == '{"a":1}'
    broken = by_kind[ChatEventKind.CALL_BROKEN]
    assert (broken.reason, broken.call, broken.text[:11]) == ('no tool is named "h"', 1, "<tool_call>")
    wanted = ("hermes", "<think>", "</think>", "enable_thinking", "true", "false")
    assert parser.format == wanted and parser.push("more") == []
    text = model.apply_chat_template([{"role": "user", "content": "Hi"}], template=HERMES, thinking=False)
    assert text == "<u>Hi<a><think></think>"
    with pytest.raises(ember.UnsupportedError, match="chat template"):
        ember.ChatParser(model)
    parser.close()
    with pytest.raises(ember.ClosedError):
        parser.push("x")


def test_texts_follow_constraints(model, context):
    def constrained(constraint):
        context.rewind()
        done = context.complete("The king said", constraint=constraint, max_tokens=200, temperature=1.5, seed=5)
        assert (done.finish_reason, done.usage.progress) == (FinishReason.EOG, ConstraintProgress.COMPLETE)
        return done.text

    answers = {"type": "object", "properties": {"answer": {"enum": ["yes", "no"]}}, "required": ["answer"]}
    schema = {**answers, "additionalProperties": False}
    for given in (schema, json.dumps(schema)):
        assert json.loads(constrained(Constraint.json_schema(model, given)))["answer"] in ("yes", "no")
    assert re.fullmatch("[a-c]{3}-[0-9]{1,3}0", constrained(Constraint.regex(model, "[a-c]{3}-[0-9]{1,3}0")))
    assert constrained(Constraint.lark(model, 'start: "ab" "cd"\n')) == "abcd"
    assert constrained(Constraint.choices(model, ["Grüße", "🌙"])) in ("Grüße", "🌙")

    context.rewind()
    cut = context.complete("The king said", constraint=Constraint.json_object(model), max_tokens=1)
    assert cut.usage.progress is ConstraintProgress.UNFINISHED
    context.rewind()
    waits = Constraint.json_object(model, triggers=["never said"], whitespace=0, repeat=True)
    free = context.complete("Once upon a time", constraint=waits, max_tokens=4)
    assert (free.text, free.usage.progress) == (", I was in", ConstraintProgress.WAITING)
    context.rewind()
    after = Constraint.choices(model, [" he said"], trigger_tokens=model.tokenize(",", add_special=False))
    assert context.complete("Once upon a time", constraint=after, max_tokens=9).text == ", he said"

    only = Constraint.choices(model, ["only this"])
    sampler = Sampler(1).constraint(only).greedy()
    context.rewind()
    assert context.complete("Once", sampler=sampler).text == "only this"
    assert sampler.progress is ConstraintProgress.COMPLETE
    with ember.Engine(model) as engine:
        done = engine.submit("Once", constraint=only).complete()
        assert done.text == "only this" and done.usage.n_forced > 0
    only.close()
    with pytest.raises(ember.ClosedError):
        context.generate("Once", constraint=only)


def test_what_no_constraint_can_hold_to_is_refused(model, context):
    limits = {ember.ConstraintLimit.SOURCE: 2}
    for kind, match, call in (
        (ember.UnsupportedError, "propertyNames", lambda: Constraint.json_schema(model, {"propertyNames": {"maxLength": 3}})),
        (ember.InvalidArgumentError, "nothing", lambda: Constraint.json_schema(model, {"type": "nothing"})),
        (ember.InvalidArgumentError, "choices", lambda: Constraint.choices(model, [])),
        (ember.InvalidArgumentError, "repeat", lambda: Constraint.json_object(model, repeat=True)),
        (ember.InvalidArgumentError, "limit", lambda: Constraint.regex(model, "abc", limits=limits)),
        (ember.InvalidArgumentError, "a key of limits", lambda: Constraint.regex(model, "abc", limits={9: 2})),
        (TypeError, "schema must be a mapping or JSON text, got", lambda: Constraint.json_schema(model, ["x"])),
        (TypeError, "there is no option 'trigger'", lambda: Constraint.regex(model, "a", trigger="x")),
        (TypeError, "triggers must be", lambda: Constraint.regex(model, "a", triggers="x")),
        (TypeError, "constraint must be a Constraint", lambda: context.generate("Once", constraint="x")),
        (TypeError, "model must be a Model", lambda: Constraint.regex("m", "a")),
    ):
        with pytest.raises(kind, match=match):
            call()


def test_stages(model, path):
    logits = [-9.0] * model.info.n_vocab
    logits[7] = 9
    for sampler in (
        Sampler(1).top_n_sigma(1).min_p(0.05).adaptive_p(0.5),
        Sampler(1).mirostat_1(5, 0.1),
        Sampler(1).top_k(40).infill(model).greedy(),
        Sampler.of(ember.Model(path, meta={"general.sampling.temp": 0.0}), 7),
    ):
        assert sampler.sample(logits) == 7
    assert sampler.seed == 7 and sampler.progress is ConstraintProgress.NONE
    with pytest.raises(ember.NotFoundError, match="general.sampling"):
        Sampler.of(model)
    with pytest.raises(ember.InvalidArgumentError, match="^target must"):
        Sampler(1).adaptive_p(2)


@pytest.mark.parametrize("name", ["bert-rerank", "bert-labels"])
def test_scores_of_texts(root, name):
    golden = json.loads((root / "tests/fixtures/rank/scores.json").read_text(encoding="utf-8"))
    want = golden["scores"][name]
    model = ember.Model(root / f"tests/fixtures/rank/{name}.gguf")
    context = ember.Context(model)
    assert model.labels == want["labels"]
    for got, numbers in zip(context.classify(golden["texts"]), want["texts"], strict=True):
        assert got == pytest.approx(numbers, abs=1e-4)
    assert context.classify([]) == []
    if name == "bert-labels":
        with pytest.raises(ember.UnsupportedError):
            context.rerank("a", ["b"])
        return
    assert context.rerank(golden["query"], golden["texts"]) == pytest.approx(want["pairs"], abs=1e-4)
    raw = context.rerank("who", ["the cat"], activation=ember.ClassifyActivation.NONE)
    assert context.rerank("who", ["the cat"]) == pytest.approx([1 / (1 + math.exp(-raw[0]))], abs=1e-6)
    with pytest.raises(ember.ContextFullError, match="text 0"):
        context.rerank("who", ["a " * 200])
    assert len(context.rerank("who", ["a " * 200], truncate=True)) == 1
    for match, call in (
        ("activation must be", lambda: context.classify(["a"], activation="none")),
        (r"documents\[0\] must be", lambda: context.rerank("a", [1])),
        ("there is no option 'top_k'", lambda: context.classify(["a"], top_k=3)),
    ):
        with pytest.raises(TypeError, match=match):
            call()


def test_tokenizers_alone(model, path):
    text = "Once upon a time <|endoftext|>"
    alone = Tokenizer(path)
    for one in (alone, model.tokenizer, Tokenizer.from_bytes(path.read_bytes())):
        for special in (False, True):
            tokens = model.tokenize(text, parse_special=special)
            assert one.tokenize(text, parse_special=special) == tokens
            assert one.tokenize(text.encode(), parse_special=special) == tokens
            assert one.count(text, parse_special=special) == len(tokens)
            assert one.detokenize(tokens, render_special=True) == text
    info = alone.info
    assert info.n_vocab == model.info.n_vocab and info.eos_token == model.info.eos_token and info.add_bos is model.info.add_bos
    assert info.fim_prefix_token is None and alone.is_eog(info.eos_token) and alone.is_control(info.eos_token)
    assert alone.token_bytes(info.eos_token) == b"<|endoftext|>"
    with pytest.raises(FileNotFoundError):
        Tokenizer("no/such/file")
    with pytest.raises(ember.FormatError, match="<buffer>"):
        Tokenizer.from_bytes(b"GGUF")
    with alone, pytest.raises(ember.UnsupportedError, match="before the gap"):
        alone.fim_prompt("a", "b")
    with pytest.raises(ember.ClosedError):
        alone.tokenize("a")


def test_prompts_to_fill_a_gap(path):
    marks = {"pre": 5, "suf": 6, "mid": 7, "sep": 8}
    meta = {f"tokenizer.ggml.fim_{name}_token_id": token for name, token in marks.items()}
    tokenizer = ember.Model(path, meta=meta).tokenizer
    prefix, suffix = (tokenizer.tokenize(text, add_special=False) for text in ("Once upon", " time."))
    assert tokenizer.fim_prompt("Once upon", " time.") == [5, *prefix, 6, *suffix, 7]
    spm = ember.FimOrder.SPM
    assert tokenizer.fim_prompt("Once upon", " time.", order=spm) == [6, *suffix, 5, *prefix, 7]
    assert tokenizer.fim_prompt("Once upon", " time.", file="a", files=[("b", "the sea")])[0] == 8
    with pytest.raises(ember.UnsupportedError, match="repository"):
        tokenizer.fim_prompt("Once upon", " time.", repository="r")
    with pytest.raises(TypeError, match=r"files\[0\] must be a name and a text"):
        tokenizer.fim_prompt("a", "b", files=["x"])


def test_what_is_dropped_is_asked_for(model):
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>"
    conversation = ember.Conversation(ember.Context(model, n_ctx=96), chat={"template": template}, max_tokens=8)
    asked = []

    def on_full(n_tokens, n_ctx, n_turns):
        assert n_tokens > n_ctx == 96 and n_turns > 0
        asked.append(n_turns)
        if answer is None:
            raise ZeroDivisionError("full")
        return answer

    def talk():
        for _ in range(10):
            conversation.text("Tell of the sea and the moon.")

    conversation.set_on_full(on_full)
    answer = 0
    with pytest.raises(ember.ContextFullError):
        talk()
    answer = None
    with pytest.raises(ZeroDivisionError, match="full"):
        talk()
    answer = 1
    talk()
    n = len(asked)
    assert n > 3
    conversation.set_on_full(None)
    talk()
    assert len(asked) == n
