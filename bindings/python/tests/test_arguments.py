"""Arguments of wrong types: each is refused with a sentence that names it. None stands for the default of an option."""

import array
import copy
import io
import itertools
import math
import pickle
import reprlib
import types
import typing

import ember
import pytest

PROMPT = "Once upon a time"
DATA = b"\x09\0\0\0"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, None])
def test_bytes_are_no_token_ids(model, context, kind):
    data = "text" if kind is None else kind(DATA)
    token_ids = [
        ("tokens", lambda: model.detokenize(data)),
        ("tokens", lambda: context.decode(data)),
        ("tokens", lambda: context.reuse(data)),
        ("tokens", lambda: ember.Sampler(1).allow(data)),
        ("tokens", lambda: ember.Sampler(1).deny(data)),
        ("positions", lambda: context.decode([1, 2, 3, 4], positions=data)),
        ("sequences", lambda: context.decode([1, 2, 3, 4], sequences=data)),
        ("worker_cpus", lambda: ember.Context(model, worker_cpus=data)),
    ]
    prompts = [
        ("prompt", lambda: context.generate(data)),
        ("prompt", lambda: context.score(data, data)),
        ("continuation", lambda: context.score([1], data)),
        (r"texts\[0\]", lambda: context.embed([data])),
    ]
    for name, call in token_ids + (prompts if kind else []):
        with pytest.raises(TypeError, match=f"^{name} must be .*, got "):
            call()
    with ember.Engine(model, n_ctx=64) as engine:
        if kind:
            with pytest.raises(TypeError, match="^prompt must be"):
                engine.submit(data)


def test_whole_numbers_of_any_kind_are(model, context):
    numpy = pytest.importorskip("numpy", reason="numpy is optional; tests/run.sh installs it")
    tokens = model.tokenize(PROMPT)
    want = context.complete(tokens, max_tokens=3).text
    for same in (
        tuple(tokens),
        array.array("q", tokens),
        memoryview(array.array("I", tokens)),
        numpy.array(tokens),
        numpy.array(tokens, dtype=numpy.uint16),
        iter(tokens),
    ):
        context.rewind()
        assert context.complete(same, max_tokens=numpy.int64(3), temperature=numpy.float32(0)).text == want
    context.rewind()
    assert context.complete(tokens, max_tokens=True).tokens


def wrong_calls(model, context, path):
    sampler, generate = ember.Sampler(1), context.generate
    for name in ("max_tokens", "top_k", "seed", "top_logprobs", "sequence", "priority", "lookup", "n_draft"):
        for value in (1.5, "3", b"3", [1]):
            options = {"draft": context} if name == "n_draft" else {}
            yield name, "an integer", value, lambda o={name: value, **options}: generate(PROMPT, **o)
    for name in ("temperature", "top_p", "time_limit"):
        for value in ("0.8", b"1", 1j, [1.0]):
            yield name, "a number", value, lambda o={name: value}: generate(PROMPT, **o)
    for name in ("top_k", "accept"):
        yield name.replace("accept", "token"), "an integer", None, lambda f=getattr(sampler, name): f(None)
    for name in ("top_p", "min_p", "typical_p", "temperature"):
        yield name, "a number", None, lambda f=getattr(sampler, name): f(None)
    for name, value in (("sampler", "x"), ("draft", "x"), ("cancel_token", "x"), ("cancel_token", False)):
        yield name, "a ", value, lambda o={name: value}: generate(PROMPT, **o)
    yield "stop", "a str or a list of texts", b"x", lambda: generate(PROMPT, stop=b"x")
    yield r"stop\[1\]", "a str", None, lambda: generate(PROMPT, stop=["a", None])
    yield "stop", "a str or a list of texts", 5, lambda: generate(PROMPT, stop=5)
    yield "shift", "two numbers", 3, lambda: generate(PROMPT, shift=3)
    yield "shift", "two numbers", (1,), lambda: generate(PROMPT, shift=(1,))
    yield r"prompt\[0\]", "an integer", "a", lambda: generate(["a"])
    yield r"prompt\[0\]", "an integer", 1.0, lambda: generate([1.0])
    yield "prompt", "a str or a list", None, lambda: generate(None)
    yield "prompt", "a str or a list", 5, lambda: context.score(5, 5)
    yield "texts", "a list of texts", None, lambda: context.embed(None)
    yield r"texts\[0\]", "a str or a list", 5, lambda: context.embed([5])
    yield "pooling", r"a Pooling \(AUTO, NONE, MEAN, CLS, LAST, RANK\)", "mean", lambda: context.embed(["a"], pooling="mean")
    for name, value in (("n_ctx", "5"), ("n_ctx", 64.0), ("n_threads", 1.5), ("memory_limit", "1")):
        yield name, "an integer", value, lambda o={name: value}: ember.Context(model, **o)
    for name in ("kv_type", "k_type", "v_type"):
        yield name, r"a KvType \(F16, F32, Q8_0, I16, AUTO\)", "q8_0", lambda o={name: "q8_0"}: ember.Context(model, **o)
    yield "backend", r"a Backend \(", "scalar", lambda: ember.Context(model, backend="scalar")
    yield r"worker_cpus\[0\]", "an integer", "0", lambda: ember.Context(model, worker_cpus=["0"])
    yield "cancel_token", "a CancelToken", False, lambda: ember.Context(model, cancel_token=False)
    for make in (ember.Context, ember.Engine):
        for value in (None, "path"):
            yield "model", "a Model", value, lambda make=make, value=value: make(value)
    yield "n_parallel", "an integer", "2", lambda: ember.Engine(model, n_parallel="2")
    for value in (None, 5):
        yield "path", "a str or an os.PathLike", value, lambda value=value: ember.Model(value)
        yield "path", "a str or an os.PathLike", value, lambda value=value: ember.inspect(value)
        yield "path", "a str or an os.PathLike", value, lambda value=value: ember.estimate_memory(value)
    yield "progress", "a function", 5, lambda: ember.Model(path, progress=5)
    yield "pack", r"a Pack \(AUTO, NEVER, ALWAYS\)", "auto", lambda: ember.Model(path, pack="auto")
    yield "isa", "a str", 5, lambda: ember.Model(path, isa=5)
    yield "meta", "a mapping", 5, lambda: ember.Model(path, meta=5)
    yield "a key of meta", "a str", 1, lambda: ember.Model(path, meta={1: 2})
    yield r"meta\['a'\]", "a bool, an int", [1], lambda: ember.Model(path, meta={"a": [1]})
    yield "cancel_token", "a CancelToken", 5, lambda: ember.Model(path, cancel_token=5)
    yield "data", "bytes or another buffer", "GGUF", lambda: ember.Model.from_bytes("GGUF")
    for value in (str(path), None):
        yield "file", "an open file or a file descriptor", value, lambda value=value: ember.Model.from_file(value)
    yield "text", "a str, bytes or another buffer", 5, lambda: model.tokenize(5)
    yield "tokens", "a list of integers", None, lambda: model.detokenize(None)
    yield "token", "an integer", 5.0, lambda: model.token_bytes(5.0)
    yield "name", "a str", None, lambda: model.chat_template(None)
    yield "name", "a str", None, lambda: ember.has_feature(None)
    yield "template", "a str", None, lambda: model.apply_chat_template([], template=None)
    yield "now", "an integer", 1.5, lambda: model.apply_chat_template([], now=1.5)
    yield "index", "an integer", 1.0, lambda: context.logits(1.0)
    yield "state", "bytes or another buffer", "x", lambda: context.load_state("x")
    yield "model", "a Model", None, lambda: sampler.dry(None, 5)
    yield "breakers", "a list of texts", "abc", lambda: sampler.dry(model, 5, breakers="abc")
    yield "a stage", "a function", None, lambda: sampler.stage(None)
    yield "biases", "a mapping", None, lambda: sampler.bias(None)
    yield r"biases\[1\]", "a number", None, lambda: sampler.bias({1: None})
    yield "a token of biases", "an integer", "1", lambda: sampler.bias({"1": 1.0})
    yield "logits", "numbers", None, lambda: sampler.sample(None)
    yield r"logits\[1\]", "a number", "x", lambda: sampler.sample([1.0, "x"])
    yield "receiver", "a function", 5, lambda: ember.set_log(5)
    yield "want_logits", "a list of bools", 5, lambda: context.decode([1], want_logits=5)
    yield "want_logits", "a list of bools", "y", lambda: context.decode([1], want_logits="y")
    yield "target", "a path or what has a method write", 5, lambda: context.save_state_to(5)
    yield "source", "a path or what has a method read", 5, lambda: context.load_state_from(5)
    yield "level", r"a LogLevel \(ERROR, WARN, INFO, DEBUG\)", "info", lambda: ember.set_log(print, "info")


def no_bools(model, context, path):
    """By their truth alone all of these would be a yes."""
    for value in (5, 1, 0, "no", [True]):
        for name in ("include_stop", "echo", "reuse_prefix", "parse_special", "render_special", "ignore_eog"):
            yield name, "a bool", value, lambda o={name: value}: context.generate(PROMPT, **o)
        yield "logprobs", r"a bool \(top_logprobs is", value, lambda v=value: context.generate(PROMPT, logprobs=v)
        for name in ("use_mmap", "lock", "check_tensors"):
            yield name, "a bool", value, lambda o={name: value}: ember.Model(path, **o)
        for name in ("keep_prefixes", "keep_all_positions"):
            yield name, "a bool", value, lambda o={name: value}: ember.Context(model, **o)
        yield "share_prefixes", "a bool", value, lambda v=value: ember.Engine(model, share_prefixes=v)
        for name in ("normalize", "truncate"):
            yield name, "a bool", value, lambda o={name: value}: context.embed(["a"], **o)
        for name in ("add_special", "parse_special"):
            yield name, "a bool", value, lambda o={name: value}: model.tokenize("a", **o)
        yield "render_special", "a bool", value, lambda v=value: model.detokenize([1], render_special=v)
        yield r"want_logits\[1\]", "a bool", value, lambda v=value: context.decode([1, 2], want_logits=[True, v])
        template = {"template": "x", "add_generation_prompt": value}
        yield "add_generation_prompt", "a bool", value, lambda o=template: model.apply_chat_template([], **o)


def no_lists(model, context):
    """What there is of a list in these are letters and keys."""
    message = {"role": "user", "content": "Hello!"}
    for value in ("hello", None, message, 5):
        yield "messages", "a list of messages", value, lambda v=value: context.chat(v)
        yield "messages", "a list of messages", value, lambda v=value: model.apply_chat_template(v)
        if value is not None:
            yield "tools", "a list of tools", value, lambda v=value: model.apply_chat_template([message], tools=v)
    for value in ("hello", None, [message]):
        yield r"messages\[1\]", "a mapping", value, lambda v=value: context.chat([message, v])
        yield r"tools\[0\]", "a mapping", value, lambda v=value: model.apply_chat_template([message], tools=[v])
    yield "variables", "a mapping", [1], lambda: model.apply_chat_template([message], variables=[1])
    for name, wanted, call in (
        ("tokens", "a list of integers", model.detokenize),
        ("prompt", "a str or a list of token ids", context.generate),
        ("texts", "a list of texts or of lists of token ids", context.embed),
    ):
        yield name, wanted, {"a": 1}, lambda call=call: call({"a": 1})


def test_wrong_types(model, context, path):
    context.decode([1])
    calls = itertools.chain(wrong_calls(model, context, path), no_bools(model, context, path), no_lists(model, context))
    for name, wanted, value, call in calls:
        with pytest.raises(TypeError) as caught:
            call()
        message = str(caught.value)
        assert type(caught.value) is TypeError, message
        with pytest.raises(TypeError, match=f"^{name} must be {wanted}"):
            call()
        assert message.endswith(f", got {reprlib.repr(value)}"), message


def test_numbers_out_of_range(model, context, path):
    for name, call in (
        (r"positions\[0\]", lambda: context.decode([1], positions=[-1])),
        (r"sequences\[0\]", lambda: context.decode([1], sequences=[1 << 32])),
        (r"worker_cpus\[1\]", lambda: ember.Context(model, worker_cpus=[0, -1])),
        (r"tokens\[0\]", lambda: model.detokenize([-1])),
        ("now", lambda: model.apply_chat_template([], now=1 << 70)),
        ("priority", lambda: context.generate(PROMPT, priority=1 << 31)),
        (r"meta\['a'\]", lambda: ember.Model(path, meta={"a": 1 << 63})),
        (r"kv_type must be a KvType \(F16, ", lambda: ember.Context(model, kv_type=99)),
        ("level", lambda: ember.set_log(print, 9)),
    ):
        with pytest.raises(ember.InvalidArgumentError, match=f"^{name}"):
            call()


def test_what_ctypes_refuses_is_a_type_error():
    from ember._library import call, lib

    with pytest.raises(TypeError, match="^ember_sampler_new: ") as caught:
        call(lib.ember_sampler_new, "a seed", None)
    assert type(caught.value) is TypeError


def test_bools_and_messages_of_any_kind(model, context):
    numpy = pytest.importorskip("numpy", reason="numpy is optional; tests/run.sh installs it")
    for value in (numpy.bool_(True), numpy.array(True)):
        assert model.tokenize("a", add_special=value) == model.tokenize("a")
        context.rewind()
        assert context.complete(PROMPT, max_tokens=2, logprobs=value).logprobs
    context.rewind()
    context.decode([1, 2], want_logits=numpy.array([True, False]))
    assert len(context.logits(0)) == model.info.n_vocab
    message = types.MappingProxyType({"role": "user", "content": "Hello!"})
    for messages in ([message], (message,), iter([message])):
        text = model.apply_chat_template(messages, tools=[message], template="{{ messages[0].content }}{{ tools|length }}")
        assert text == "Hello!1"


def test_what_json_cannot_hold(model):
    for options in ({"tools": [{"a": {1}}]}, {"variables": {"a": {1}}}):
        with pytest.raises(TypeError, match=f"^{next(iter(options))} must be what JSON can hold: .*set"):
            model.apply_chat_template([], template="x", **options)
    message = {"role": "user"}
    message["content"] = message
    with pytest.raises(TypeError, match="^messages must be what JSON can hold: "):
        model.apply_chat_template([message], template="x")


def test_logits_have_one_dimension(model):
    numpy = pytest.importorskip("numpy", reason="numpy is optional; tests/run.sh installs it")
    sampler = ember.Sampler(1).greedy()
    logits = numpy.arange(6, dtype=numpy.float32)
    assert sampler.sample(logits) == sampler.sample(logits[::2]) + 3 == sampler.sample(logits.tolist()) == 5
    for wrong in (logits.reshape(2, 3), logits.reshape(1, 6), logits.reshape(2, 3).T, logits[1], numpy.array(logits[1])):
        with pytest.raises(ember.InvalidArgumentError, match="^logits must have one dimension, not the shape"):
            sampler.sample(wrong)
    with pytest.raises(TypeError, match=r"^logits\[0\] must be a number"):
        sampler.sample(logits.reshape(2, 3).tolist())
    with pytest.raises(TypeError, match="^tokens must be a list of integers"):
        model.detokenize(memoryview(numpy.ones((2, 2), numpy.uint32)))


def test_options_that_engines_have_none_of(model):
    for name, instead in (("n_seq", "n_parallel"), ("keep_prefixes", "share_prefixes")):
        with pytest.raises(TypeError, match=f"^there is no option '{name}': {instead} is "):
            ember.Engine(model, **{name: 3})
    with pytest.raises(TypeError, match="^there is no option 'n_gpu_layers'; the options are .*n_parallel.*$"):
        ember.Engine(model, n_gpu_layers=3)


def test_none_stands_for_the_default(path, model, context):
    from ember.context import GenerateOptions

    want = context.complete(PROMPT)
    context.rewind()
    got = context.complete(PROMPT, **dict.fromkeys(GenerateOptions.__annotations__))
    assert (got.text, got.tokens) == (want.text, want.tokens) and len(got.tokens) == 128
    with ember.Context(model, **dict.fromkeys(ember.ContextOptions.__annotations__)) as other:
        assert other.info == ember.Context(model).info
    with ember.Engine(model, **dict.fromkeys(typing.get_type_hints(ember.EngineOptions))) as engine:
        assert engine.info.n_seq == 8
    assert ember.Model(path, **dict.fromkeys(ember.LoadOptions.__annotations__)).info == model.info


def test_buffers(path, model):
    data = path.read_bytes()
    for same in (bytearray(data), memoryview(data), array.array("B", data)):
        assert ember.Model.from_bytes(same).info == model.info
    assert model.tokenize(bytearray(b"The sea")) == model.tokenize(memoryview(b"The sea")) == model.tokenize("The sea")


def test_time_limits(model, context):
    for limit in (None, math.inf, 1e30, 3600):
        context.rewind()
        assert context.complete(PROMPT, max_tokens=3, time_limit=limit).finish_reason is ember.FinishReason.MAX_TOKENS
    reasons = set()
    while ember.FinishReason.TIME_LIMIT not in reasons:  # as long as the machine makes all tokens within a millisecond
        context.rewind()
        reasons.add(context.complete("word " * 100, max_tokens=300, ignore_eog=True, time_limit=0).finish_reason)
    for limit in (-1, -1e-9, -math.inf, math.nan):
        with pytest.raises(ember.InvalidArgumentError, match="^time_limit must be 0 seconds or more, not"):
            context.generate(PROMPT, time_limit=limit)


def test_missing_files(path, model, context, tmp_path):
    missing = tmp_path / "missing.gguf"
    for call in (
        lambda: ember.Model(missing),
        lambda: ember.inspect(missing),
        lambda: ember.estimate_memory(missing),
        lambda: context.load_state_from(missing),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            call()
        error = caught.value
        assert isinstance(error, ember.IoError) and error.status == ember.Status.IO
        assert (error.errno, error.filename) == (2, missing)
        assert "missing.gguf" in str(error) and "does not exist" in str(error)
    for there in (tmp_path, "a\0b"):
        with pytest.raises(ember.IoError) as caught:
            ember.Model(there)
        assert not isinstance(caught.value, FileNotFoundError)


def test_what_stands_for_an_object_of_the_library_has_no_copy(model, context, capfd):
    with ember.Engine(model, n_ctx=64) as engine:
        for one in (
            model,
            context,
            engine,
            engine.submit(PROMPT),
            context.generate(PROMPT),
            ember.Sampler(1),
            ember.CancelToken(),
            model.metadata,
            model._handle,
        ):
            name = type(one).__name__
            for copying in (copy.copy, copy.deepcopy, pickle.dumps, lambda one: pickle.dump([one], io.BytesIO(), 2)):
                with pytest.raises(TypeError, match=f"^an? {name} cannot be pickled or copied$"):
                    copying(one)
    assert pickle.loads(pickle.dumps(model.info)) == model.info
    assert capfd.readouterr().err == ""


def test_type_hints_can_be_asked_for():
    for name in ember.__all__:
        one = getattr(ember, name)
        if isinstance(one, type):
            typing.get_type_hints(one)
            for member in vars(one).values():
                function = getattr(member, "fget", getattr(member, "__func__", member))
                if callable(function) and (getattr(function, "__module__", None) or "").startswith("ember"):
                    typing.get_type_hints(function)
        elif callable(one) and hasattr(one, "__annotations__"):
            typing.get_type_hints(one)
    assert typing.get_type_hints(ember.GenerateOptions)["draft"] == ember.Context | None
    assert typing.get_type_hints(ember.Event)["bytes"] is bytes


def test_logprobs_of_a_completion(context, model):
    result = context.complete(PROMPT, max_tokens=4, logprobs=True)
    assert len(result.logprobs) == 4 and all(logprob <= 0 for logprob in result.logprobs)
    context.rewind()
    assert context.complete(PROMPT, max_tokens=4).logprobs == []
    with ember.Engine(model, n_ctx=64) as engine:
        together = engine.complete(PROMPT, max_tokens=4, top_logprobs=1).logprobs
        assert together == pytest.approx(result.logprobs, abs=0.01)
