"""Ember runs language models on the CPU, inside the Python process."""

from ._abi import (
    Backend,
    ChatEventKind,
    ClassifyActivation,
    ConstraintLimit,
    ConstraintProgress,
    EventKind,
    FimOrder,
    FinishReason,
    KvType,
    LogLevel,
    Pack,
    Pooling,
    Status,
    WhenFull,
)
from ._arguments import text
from ._cancel import CancelToken
from ._candidates import Stage
from ._library import lib
from ._log import set_log
from .chat import ChatOptions, ChatParser, ReplyEvent, ReplyFormat
from .constraint import Constraint, ConstraintOptions
from .context import ClassifyOptions, Context, GenerateOptions
from .conversation import Conversation, ConversationUsage
from .engine import AsyncRequest, Engine, EngineMetrics, Request
from .errors import (
    BufferTooSmallError,
    BusyError,
    CancelledError,
    ClosedError,
    ContextFullError,
    EmberError,
    FormatError,
    InternalError,
    InvalidArgumentError,
    IoError,
    MissingFileError,
    NotFoundError,
    OutOfMemoryError,
    QueueFullError,
    UnsupportedError,
    Utf8Error,
)
from .generation import Completion, Completions, Event, Generation, TokenLogprob, Usage
from .metadata import Metadata, MetaValue
from .model import Model, ModelInfo
from .options import ContextOptions, EngineOptions, LoadOptions, Memory, estimate_memory, inspect
from .results import ContextInfo, Embeddings, Score, Timings, TokenScore
from .sampler import Sampler
from .tokenizer import Tokenizer, TokenizerInfo


def version() -> str:
    """The version of the library."""
    number: str = lib.ember_version_string().decode()
    return number


def build_info() -> str:
    """One line on what the library can do."""
    line: str = lib.ember_build_info().decode()
    return line


def has_feature(name: str) -> bool:
    """Whether the library has a part: "chat"."""
    raw = text("name", name)
    return bool(lib.ember_has_feature(raw, len(raw)))


__all__ = [
    "AsyncRequest",
    "Backend",
    "BufferTooSmallError",
    "BusyError",
    "CancelToken",
    "CancelledError",
    "ChatEventKind",
    "ChatOptions",
    "ChatParser",
    "ClassifyActivation",
    "ClassifyOptions",
    "ClosedError",
    "Completion",
    "Completions",
    "Constraint",
    "ConstraintLimit",
    "ConstraintOptions",
    "ConstraintProgress",
    "Context",
    "ContextFullError",
    "ContextInfo",
    "ContextOptions",
    "Conversation",
    "ConversationUsage",
    "Embeddings",
    "EmberError",
    "Engine",
    "EngineMetrics",
    "EngineOptions",
    "Event",
    "EventKind",
    "FimOrder",
    "FinishReason",
    "FormatError",
    "GenerateOptions",
    "Generation",
    "InternalError",
    "InvalidArgumentError",
    "IoError",
    "KvType",
    "LoadOptions",
    "LogLevel",
    "Memory",
    "MetaValue",
    "Metadata",
    "MissingFileError",
    "Model",
    "ModelInfo",
    "NotFoundError",
    "OutOfMemoryError",
    "Pack",
    "Pooling",
    "QueueFullError",
    "ReplyEvent",
    "ReplyFormat",
    "Request",
    "Sampler",
    "Score",
    "Stage",
    "Status",
    "Timings",
    "TokenLogprob",
    "TokenScore",
    "Tokenizer",
    "TokenizerInfo",
    "UnsupportedError",
    "Usage",
    "Utf8Error",
    "WhenFull",
    "build_info",
    "estimate_memory",
    "has_feature",
    "inspect",
    "set_log",
    "version",
]
