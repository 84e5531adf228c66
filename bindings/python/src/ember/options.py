"""Options of models and contexts, and the memory that both take."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict, Union

from ._abi import Backend, KvType, Pack, ember_memory, ember_progress_callback
from ._library import CancelToken, Handle, call, fill, keep_raised, lib, token_array, unsigned
from .errors import InvalidArgumentError


class LoadOptions(TypedDict, total=False):
    """How to load a model: the keyword arguments of Model and of its other constructors."""

    use_mmap: bool  # False reads files that others may change meanwhile
    pack: Pack
    isa: str  # the highest instruction-set level to use
    lock: bool  # keeps the weights in memory, as far as `ulimit -l` allows
    check_tensors: bool  # looks at every number; one that is not finite is a FormatError
    # Told how far the loading is, from 0 to 1. What it raises ends the loading and comes out of it. The main thread lends
    # the work to another one, which this then runs on.
    progress: Callable[[float], object] | None
    meta: Mapping[str, Union[bool, int, float, str]]  # keys as if the file had them
    memory_limit: int  # most bytes of the large buffers of the model and its contexts; 0: no limit
    cancel_token: CancelToken | None


class ContextOptions(TypedDict, total=False):
    """How to make a context: the keyword arguments of Context. 0 stands for Ember's choice."""

    n_ctx: int  # positions per sequence; what the model was trained on, 4096 at most
    n_seq: int  # sequences; 1
    n_batch: int  # rows run through the model at a time
    n_threads: int  # a thread for each core
    worker_cpus: Sequence[int]  # what they run on
    kv_type: KvType  # what keys and values in the cache are rounded to
    k_type: KvType  # keys alone
    v_type: KvType  # values alone
    backend: Backend
    # Most bytes of the KV cache, which all sequences share; what finds no room is a ContextFullError. As many as all need.
    kv_limit: int
    keep_prefixes: bool  # whether what texts begin with is kept, while there is room, for reuse and reuse_prefix
    keep_all_positions: bool  # whether sequences keep what the windows of a model without other layers do not reach
    memory_limit: int  # most bytes of its large buffers; 0: no limit of its own


class EngineOptions(ContextOptions, total=False):
    """How to make an engine: the keyword arguments of Engine, and those of its context. The number of sequences and whether
    prefixes are kept are the engine's own matter."""

    n_parallel: int  # how many requests run together; 8
    max_queue: int  # how many more may wait; 256
    share_prefixes: bool  # whether what requests begin with alike is computed once; True


class Memory(NamedTuple):
    """Bytes of large buffers."""

    file: int  # the model's files, where they are mapped: the system's to keep or to drop
    weights: int  # packed weights, and files that were read
    kv: int  # the KV cache when it is full
    workspace: int  # what a context computes with


def _reject_unknown(options: Mapping[str, object], known: type) -> None:
    unknown = options.keys() - known.__annotations__.keys()
    if unknown:
        raise TypeError(f"there is no option {sorted(unknown)[0]!r}")


def _progress_callback(function: Callable[[float], object]) -> object:
    def run(done: float, _user_data: Any) -> int:
        try:
            function(done)
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
    name = key.encode()
    if isinstance(value, bool):
        call(lib.ember_model_options_set_meta_bool, pointer, name, len(name), value)
    elif isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise InvalidArgumentError(f"meta[{key!r}] is {value}, which does not fit 64 bits with a sign")
        call(lib.ember_model_options_set_meta_i64, pointer, name, len(name), value)
    elif isinstance(value, float):
        call(lib.ember_model_options_set_meta_f64, pointer, name, len(name), value)
    elif isinstance(value, str):
        raw = value.encode()
        call(lib.ember_model_options_set_meta_string, pointer, name, len(name), raw, len(raw))
    else:
        raise TypeError(f"meta[{key!r}] must be a bool, an int, a float or a str, not {type(value).__name__}")


def model_options(options: LoadOptions) -> OptionsHandle:
    """The library's object for options of a load. The cancel token is set by who loads."""
    _reject_unknown(options, LoadOptions)
    handle = OptionsHandle("options object", lib.ember_model_options_free, lib.ember_model_options_new)
    with handle as pointer:
        for name in ("use_mmap", "lock", "check_tensors"):
            if name in options:
                call(getattr(lib, f"ember_model_options_set_{name}"), pointer, bool(options[name]))
        call(lib.ember_model_options_set_pack, pointer, int(options.get("pack", Pack.AUTO)))
        isa = options.get("isa", "").encode()
        call(lib.ember_model_options_set_isa, pointer, isa, len(isa))
        limit = unsigned("memory_limit", options.get("memory_limit", 0), 64)
        call(lib.ember_model_options_set_memory_limit, pointer, limit)
        for key, value in options.get("meta", {}).items():
            _set_meta(pointer, key, value)
        progress = options.get("progress")
        if progress is not None:
            handle.callback = _progress_callback(progress)
            call(lib.ember_model_options_set_progress, pointer, handle.callback, None)
    return handle


def context_options(options: ContextOptions) -> Handle:
    """The library's object for options of a context."""
    _reject_unknown(options, ContextOptions)
    given: dict[str, Any] = dict(options)
    handle = Handle("options object", lib.ember_context_options_free, lib.ember_context_options_new)
    with handle as pointer:
        for name in ("n_ctx", "n_seq", "n_batch", "n_threads"):
            if name in given:
                call(getattr(lib, f"ember_context_options_set_{name}"), pointer, unsigned(name, given[name]))
        for name in ("kv_type", "k_type", "v_type", "backend"):
            if name in given:
                call(getattr(lib, f"ember_context_options_set_{name}"), pointer, int(given[name]))
        cpus = token_array(given.get("worker_cpus", ()))
        call(lib.ember_context_options_set_worker_cpus, pointer, cpus, len(cpus))
        for name in ("kv_limit", "memory_limit"):
            limit = unsigned(name, given.get(name, 0), 64)
            call(getattr(lib, f"ember_context_options_set_{name}"), pointer, limit)
        for name in ("keep_prefixes", "keep_all_positions"):
            call(getattr(lib, f"ember_context_options_set_{name}"), pointer, bool(given.get(name, False)))
    return handle


def engine_options(options: EngineOptions) -> Handle:
    """The library's object for options of an engine that has a thread of its own."""
    _reject_unknown(options, EngineOptions)
    given: dict[str, Any] = dict(options)
    own = {name: given.pop(name) for name in ("n_parallel", "max_queue", "share_prefixes") if name in given}
    context: Any = given
    handle = Handle("options object", lib.ember_engine_options_free, lib.ember_engine_options_new)
    with handle as pointer, context_options(context) as of_context:
        call(lib.ember_engine_options_set_context_options, pointer, of_context)
        for name in ("n_parallel", "max_queue"):
            if name in own:
                call(getattr(lib, f"ember_engine_options_set_{name}"), pointer, unsigned(name, own[name]))
        call(lib.ember_engine_options_set_share_prefixes, pointer, bool(own.get("share_prefixes", True)))
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
    name = os.fsencode(path)
    with model_options(model or {}) as model_pointer, context_options(context or {}) as context_pointer:
        return memory_of(lib.ember_memory_estimate, name, len(name), model_pointer, context_pointer)


def inspect(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What the header of the model at `path` says, and whether this build would load it; ember_model_inspect of ember.h lists
    the keys. No weight is read."""
    name = os.fsencode(path)
    text = fill(ctypes.c_char, 16384, lib.ember_model_inspect, name, len(name))
    result: dict[str, Any] = json.loads(text.raw)
    return result
