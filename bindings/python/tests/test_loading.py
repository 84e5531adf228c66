"""Loading from files, buffers and with options; memory, timings, headers."""

import array
import gc
import math
import mmap
import os
import signal
import subprocess
import sys
import threading

import ember
import pytest

PROMPT = "Once upon a time"
# Of an architecture that can go beyond the positions it was trained on, and of experts.
LLAMA = "tests/fixtures/models/llama-linear-rope-mha.gguf"
FLOATS = "tests/fixtures/models/llama-tied-f32.gguf"
EXPERTS = "tests/fixtures/models/llama-moe-8-2.gguf"


def text_of(model):
    with ember.Context(model, n_ctx=64) as context:
        return context.complete(PROMPT, max_tokens=6).text


@pytest.fixture(scope="module")
def expected(model):
    return text_of(model)


def test_part_of_an_open_file(path, expected, tmp_path):
    data = path.read_bytes()
    (tmp_path / "archive").write_bytes(b"x" * 4096 + data + b"after")
    with (tmp_path / "archive").open("rb") as file:
        model = ember.Model.from_file(file, offset=4096, length=len(data))
        with ember.Model.from_file(file.fileno(), offset=4096, use_mmap=False) as other:
            assert other.info.n_params == model.info.n_params
        with pytest.raises(ember.InvalidArgumentError, match="offset"):
            ember.Model.from_file(file, offset=4096, length=len(data) + 7)
        with pytest.raises(ember.FormatError, match="<fd "):
            ember.Model.from_file(file)
        with pytest.raises(ember.InvalidArgumentError, match="length"):
            ember.Model.from_file(file, length=-1)
    assert text_of(model) == expected
    for wrong in (-1, 1 << 40):
        with pytest.raises(ember.InvalidArgumentError, match="file descriptor"):
            ember.Model.from_file(wrong)


def test_lent_bytes(path, expected):
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    model = ember.Model.from_buffer(mapped)
    context = ember.Context(model, n_ctx=64)
    with pytest.raises(BufferError):
        mapped.close()  # no copy: the model looks at it
    model.close()
    with pytest.raises(BufferError):
        mapped.close()
    assert context.complete(PROMPT, max_tokens=6).text == expected
    context.close()
    mapped.close()

    data = bytearray(path.read_bytes())
    model = ember.Model.from_buffer(memoryview(data), pack=ember.Pack.NEVER)
    with pytest.raises(BufferError):
        data.append(0)
    other = threading.Thread(target=model.close)  # it is given back on any thread
    other.start()
    other.join()
    data.append(0)
    numpy = pytest.importorskip("numpy", reason="tests/run.sh installs it")
    for whole in (numpy.fromfile(path, dtype=numpy.uint8), array.array("B", path.read_bytes())):
        assert text_of(ember.Model.from_buffer(whole)) == expected
    odd = memoryview(b"x" + path.read_bytes())[1:]
    with ember.Model.from_buffer(odd) as copied:
        odd.release()
        assert text_of(copied) == expected


def test_what_is_not_lent_stays_free(path):
    data = bytearray(path.read_bytes()[:1000])
    for options in ({}, {"isa": "warp"}, {"warp": 1}):
        with pytest.raises((ember.FormatError, ember.InvalidArgumentError, TypeError)):
            ember.Model.from_buffer(data, **options)
        data.append(0)
    with pytest.raises(TypeError):
        ember.Model.from_buffer("text")
    with pytest.raises(BufferError):
        ember.Model.from_buffer(memoryview(data)[::2])


def test_lent_bytes_at_exit(path):
    """The interpreter may end while bytes are lent."""
    program = (
        "import ember, pathlib\n"
        f"data = bytearray(pathlib.Path({str(path)!r}).read_bytes())\n"
        "model = ember.Model.from_buffer(data); context = ember.Context(model); context.decode([1])\n"
        "model.loop = [context, model]"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_progress(path, model):
    seen = []
    ember.Model(path, progress=seen.append, use_mmap=False)
    assert seen == sorted(seen) and seen[0] >= 0 and seen[-1] == 1

    class Enough(Exception):
        pass

    def stop(done):
        raise Enough(done)

    data = bytearray(path.read_bytes())
    for load in (
        lambda: ember.Model(path, progress=stop),
        lambda: ember.Model.from_bytes(bytes(data), progress=stop),
        lambda: ember.Model.from_buffer(data, progress=stop),
    ):
        with pytest.raises(Enough) as caught:
            load()
        assert "stop" in [entry.name for entry in caught.traceback]
        raised = []

        def run(load=load, raised=raised):
            try:
                load()
            except Enough as error:
                raised.append(error)

        other = threading.Thread(target=run)
        other.start()
        other.join()
        assert len(raised) == 1
    data.append(0)
    assert text_of(ember.Model(path, progress=None)) == text_of(model)  # nothing of it is left


def test_ctrl_c_during_progress(path):
    with pytest.raises(KeyboardInterrupt):
        ember.Model(path, use_mmap=False, progress=lambda done: os.kill(os.getpid(), signal.SIGINT))
        threading.Event().wait(10)  # until the signal comes, should the load be over first


def test_options(root, path, expected):
    with ember.Model(path, check_tensors=True, memory_limit=1 << 30) as model:
        assert text_of(model) == expected
    with pytest.raises(ember.OutOfMemoryError, match="1000"):
        ember.Model(path, use_mmap=False, memory_limit=1000)
    with pytest.raises(TypeError, match="use_mmpa"):
        ember.Model(path, use_mmpa=True)
    with pytest.raises(ember.InvalidArgumentError, match="memory_limit"):
        ember.Model(path, memory_limit=-1)
    try:
        ember.Model(path, lock=True).close()
    except ember.OutOfMemoryError:
        pass  # as much as the system lets it
    meta = {"llama.context_length": 77, "own.flag": True, "own.number": 0.5, "own.text": "na\u00efve", "own.big": -(1 << 63)}
    with ember.Model(root / LLAMA, meta=meta) as model:
        assert model.info.n_ctx_train == 77
        assert {key: model.metadata[key] for key in meta} == meta and model.metadata["own.flag"] is True
    for key, value, error in (("", 1, ValueError), ("a", 1 << 63, ValueError), ("a", None, TypeError), ("a", [1], TypeError)):
        with pytest.raises(error):
            ember.Model(root / LLAMA, meta={key: value})


def test_tensors_are_checked(root):
    data = (root / FLOATS).read_bytes()
    broken = data[:-4] + array.array("f", [math.nan]).tobytes()  # the last number of the last tensor
    with ember.Model.from_bytes(broken), ember.Model.from_bytes(data, check_tensors=True):
        pass
    with pytest.raises(ember.FormatError, match="element 63 .*finite"):
        ember.Model.from_bytes(broken, check_tensors=True)


def test_new_fields(root, model, chat_path):
    info = model.info
    assert (info.n_expert, info.n_expert_used, info.has_chat_template) == (0, 0, False)
    assert info.unk_token is None or isinstance(info.unk_token, int)
    with ember.Model(root / EXPERTS) as experts:
        assert experts.info.n_expert > experts.info.n_expert_used > 0
    with ember.Model(chat_path) as chat:
        assert chat.info.has_chat_template and chat.is_eog(chat.info.eot_token or chat.info.eos_token)
        assert len(chat.metadata["tokenizer.ggml.merges"]) > 40000


def test_inspect(root, path, model):
    said = ember.inspect(path)
    assert said["supported"] is True and said["n_params"] == model.info.n_params
    assert said["dimensions"]["n_vocab"] == model.info.n_vocab
    with pytest.raises(ember.IoError, match="no-such"):
        ember.inspect("no-such.gguf")


def test_memory(path, model):
    with ember.Context(model, n_ctx=64) as context:
        estimate = ember.estimate_memory(path, context={"n_ctx": 64})
        assert context.memory == estimate and context.memory.kv > 0 and context.memory.workspace > 0
        assert model.memory._replace(kv=0, workspace=0) == estimate._replace(kv=0, workspace=0)
    wide = ember.estimate_memory(path, {"use_mmap": False}, {"n_ctx": 64, "kv_type": ember.KvType.F32})
    assert wide.kv > 1.9 * estimate.kv and wide.weights > estimate.weights
    mixed = ember.estimate_memory(path, context={"n_ctx": 64, "k_type": ember.KvType.F32})
    assert estimate.kv < mixed.kv < wide.kv
    with pytest.raises(ember.OutOfMemoryError):
        ember.Context(model, n_ctx=64, memory_limit=1000)
    with pytest.raises(TypeError, match="n_tcx"):
        ember.Context(model, n_tcx=64)
    with pytest.raises(TypeError, match="n_ctx"):
        ember.estimate_memory(path, {"n_ctx": 64})
    with pytest.raises(ember.IoError):
        ember.estimate_memory("no-such.gguf")


def test_timings(context, model):
    tokens = model.tokenize(PROMPT)
    context.complete(PROMPT, max_tokens=4)
    context.embed(["The moon"])
    timings = context.timings
    assert timings.n_prefill == len(tokens) and timings.n_decode >= 3 and timings.n_embed > 0
    assert min(timings.load_ns, timings.prefill_ns, timings.decode_ns, timings.embed_ns) > 0
    context.reset_timings()
    assert context.timings == ember.Timings(timings.load_ns, 0, 0, 0, 0, 0, 0)


def test_loads_leave_nothing(path):
    from ember import _library, _loans

    gc.collect()
    assert _loans._lent == {} and _library._raised == {}
