"""Options of models and contexts, and the memory that both take."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from ._abi import Backend, KvType, Pack, ember_memory, ember_progress_callback
from ._arguments import (
    flag,
    function,
    given,
    integers,
    mapping,
    member,
    path_bytes,
    real,
    signed,
    text,
    unsigned,
    wrong_type,
)
from ._cancel import CancelToken
from ._ending import Carried
from ._library import Handle, call, fill, keep_raised, lib
from .errors import reading


class LoadOptions(TypedDict, total=False):
    """How to load a model: the keyword arguments of Model and of its other constructors. None stands for the default."""

    use_mmap: bool | None  # False reads files that others may change meanwhile
    pack: Pack | None
    isa: str | None  # the highest instruction-set level to use
    lock: bool | None  # keeps the weights in memory, as far as `ulimit -l` allows
    check_tensors: bool | None  # looks at every number; one that is not finite is a FormatError
    # Called with how far the loading is, from 0 to 1. An exception from it ends the loading, which raises it. The main thread
    # lends the work to another one, which this then runs on.
    progress: Callable[[float], object] | None
    meta: Mapping[str, bool | int | float | str] | None  # keys as if the file had them
    memory_limit: int | None  # most bytes of the large buffers of the model and its contexts; 0: no limit
    cancel_token: CancelToken | None


class CommonOptions(TypedDict, total=False):
    """What contexts and engines have in common. None, and 0 for a number, stand for Ember's choice."""

    n_ctx: int | None  # positions per sequence; what the model was trained on, 4096 at most
    n_batch: int | None  # rows run through the model at a time
    n_threads: int | None  # a thread for each core
    worker_cpus: Sequence[int] | None  # what they run on
    kv_type: KvType | None  # what keys and values in the cache are rounded to
    k_type: KvType | None  # keys alone
    v_type: KvType | None  # values alone
    backend: Backend | None
    # Most bytes of the KV cache, which all sequences share; a call that needs more gives ContextFullError. As many as all need.
    kv_limit: int | None
    keep_all_positions: bool | None  # whether sequences keep what the windows of layers do not reach
    # Snapshots of the states of recurrent layers, from which a sequence that is shortened goes on. 8 for each sequence.
    n_snapshots: int | None
    snapshot_distance: int | None  # tokens between two of them within a prompt; 256
    memory_limit: int | None  # most bytes of its large buffers; 0: no limit of its own


class ContextOptions(CommonOptions, total=False):
    """How to make a context: the keyword arguments of Context. None, and 0 for a number, stand for Ember's choice."""

    n_seq: int | None  # sequences; 1
    keep_prefixes: bool | None  # whether what texts begin with is kept, while pages are free, for reuse and reuse_prefix


class EngineOptions(CommonOptions, total=False):
    """How to make an engine: the keyword arguments of Engine."""

    n_parallel: int | None  # how many requests run together; 8
    max_queue: int | None  # how many more may wait; 256
    share_prefixes: bool | None  # whether what requests begin with alike is computed once; True


# Options of contexts, which an engine's context has by options of the engine.
_NOT_OF_ENGINES = {
    "n_seq": "n_parallel is how many requests run together",
    "keep_prefixes": "share_prefixes is whether what requests begin with alike is computed once",
}


class Memory(NamedTuple):
    """Bytes of large buffers."""

    file: int  # the model's files, where they are mapped: the system's to keep or to drop
    weights: int  # packed weights, and files that were read
    kv: int  # the KV cache when it is full
    workspace: int  # what a context computes with


def _progress_callback(progress: Callable[[float], object]) -> object:
    def run(done: float, _user_data: Any) -> int:
        if Carried.refused():
            return 1
        try:
            progress(done)
        except BaseException as error:  # the load raises it
            keep_raised(error)
            return 1
        return 0

    callback: object = ember_progress_callback(run)
    return callback


class OptionsHandle(Handle):
    """Options of the library, and the function that they have the address of."""

    __slots__ = ("callback",)
    callback: object


def _set_meta(pointer: int, key: str, value: object) -> None:
    name, called = text("a key of meta", key), f"meta[{key!r}]"
    if isinstance(value, bool):
        call(lib.ember_model_options_set_meta_bool, pointer, name, len(name), value)
    elif isinstance(value, int):
        call(lib.ember_model_options_set_meta_i64, pointer, name, len(name), signed(called, value, 64))
    elif isinstance(value, float):
        call(lib.ember_model_options_set_meta_f64, pointer, name, len(name), real(called, value))
    elif isinstance(value, str):
        raw = text(called, value)
        call(lib.ember_model_options_set_meta_string, pointer, name, len(name), raw, len(raw))
    else:
        raise wrong_type(called, "a bool, an int, a float or a str", value)


def model_options(options: LoadOptions) -> OptionsHandle:
    """The library's object for options of a load. The cancel token is set by who loads."""
    wanted = given(options, LoadOptions)
    handle = OptionsHandle("options object", lib.ember_model_options_free, lib.ember_model_options_new)
    with handle as pointer:
        for name in ("use_mmap", "lock", "check_tensors"):
            if name in wanted:
                call(getattr(lib, f"ember_model_options_set_{name}"), pointer, flag(name, wanted[name]))
        call(lib.ember_model_options_set_pack, pointer, member("pack", wanted.get("pack", Pack.AUTO), Pack))
        isa = text("isa", wanted.get("isa", ""))
        call(lib.ember_model_options_set_isa, pointer, isa, len(isa))
        limit = unsigned("memory_limit", wanted.get("memory_limit", 0), 64)
        call(lib.ember_model_options_set_memory_limit, pointer, limit)
        for key, value in mapping("meta", wanted.get("meta", {})).items():
            _set_meta(pointer, key, value)
        if "progress" in wanted:
            handle.callback = _progress_callback(function("progress", wanted["progress"]))
            call(lib.ember_model_options_set_progress, pointer, handle.callback, None)
    return handle


def context_options(options: Mapping[str, Any], known: type = ContextOptions) -> Handle:
    """The library's object for options of a context, which may be among others that are `known`."""
    wanted = given(options, known)
    handle = Handle("options object", lib.ember_context_options_free, lib.ember_context_options_new)
    with handle as pointer:
        for name in ("n_ctx", "n_seq", "n_batch", "n_threads", "n_snapshots", "snapshot_distance"):
            if name in wanted:
                call(getattr(lib, f"ember_context_options_set_{name}"), pointer, unsigned(name, wanted[name]))
        for name, kind in (("kv_type", KvType), ("k_type", KvType), ("v_type", KvType), ("backend", Backend)):
            if name in wanted:
                call(getattr(lib, f"ember_context_options_set_{name}"), pointer, member(name, wanted[name], kind))
        cpus = integers("worker_cpus", wanted.get("worker_cpus", ()))
        call(lib.ember_context_options_set_worker_cpus, pointer, cpus, len(cpus))
        for name in ("kv_limit", "memory_limit"):
            limit = unsigned(name, wanted.get(name, 0), 64)
            call(getattr(lib, f"ember_context_options_set_{name}"), pointer, limit)
        for name in ("keep_prefixes", "keep_all_positions"):
            call(getattr(lib, f"ember_context_options_set_{name}"), pointer, flag(name, wanted.get(name, False)))
    return handle


def engine_options(options: EngineOptions) -> Handle:
    """The library's object for options of an engine that has a thread of its own."""
    wanted = given(options, EngineOptions, _NOT_OF_ENGINES)
    handle = Handle("options object", lib.ember_engine_options_free, lib.ember_engine_options_new)
    with handle as pointer, context_options(wanted, EngineOptions) as of_context:
        call(lib.ember_engine_options_set_context_options, pointer, of_context)
        for name in ("n_parallel", "max_queue"):
            if name in wanted:
                call(getattr(lib, f"ember_engine_options_set_{name}"), pointer, unsigned(name, wanted[name]))
        sharing = flag("share_prefixes", wanted.get("share_prefixes", True))
        call(lib.ember_engine_options_set_share_prefixes, pointer, sharing)
        call(lib.ember_engine_options_set_thread, pointer, True)
    return handle


def memory_of(function: Any, *arguments: Any) -> Memory:
    """What a function of the library says about memory."""
    raw = ember_memory(struct_size=ctypes.sizeof(ember_memory))
    call(function, *arguments, ctypes.byref(raw))
    return Memory(raw.file, raw.weights, raw.kv, raw.workspace)


def estimate_memory(
    path: str | os.PathLike[str], model: LoadOptions | None = None, context: ContextOptions | None = None
) -> Memory:
    """What the model at `path` and one context over it would take with these options, without loading it. Limits in the
    options do not count."""
    name = path_bytes("path", path)
    with (
        model_options(model or {}) as model_pointer,
        context_options(context or {}) as context_pointer,
        reading(path),
        Carried(),
    ):
        return memory_of(lib.ember_memory_estimate, name, len(name), model_pointer, context_pointer)


def inspect(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What the header of the model at `path` says, and whether this build would load it; ember_model_inspect of ember.h lists
    the keys. No weight is read."""
    name = path_bytes("path", path)
    with reading(path), Carried():
        header = fill(ctypes.c_char, 16384, lib.ember_model_inspect, name, len(name))
    result: dict[str, Any] = json.loads(header.raw)
    return result
