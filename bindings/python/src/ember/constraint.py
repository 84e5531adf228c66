"""Constraints: what a text has to follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from ._abi import ConstraintLimit
from ._arguments import flag, given, instance, integers, json_of, mapping, member, text, text_arrays, texts, unsigned, wrong_type
from ._library import Handle, Single, call, lib
from ._typing import Unpack
from .chat import ChatOptions, chat_options
from .model import Model


class ConstraintOptions(TypedDict, total=False):
    """How to make a constraint. None stands for the default."""

    whitespace: int | None  # most characters of white space between two parts of JSON, 256 at most; 32
    triggers: Sequence[str] | None  # the text is free until one of these was generated, and the constraint begins after it
    trigger_tokens: Sequence[int] | None  # the same for tokens
    repeat: bool | None  # whether the text is free again after its end, until the next trigger; otherwise it ends there
    limits: Mapping[ConstraintLimit, int] | None  # bounds on work and memory


def _options(options: ConstraintOptions) -> Handle:
    wanted = given(options, ConstraintOptions)
    handle = Handle("options object", lib.ember_constraint_options_free, lib.ember_constraint_options_new)
    with handle as pointer:
        if "whitespace" in wanted:
            number = unsigned("whitespace", wanted["whitespace"])
            call(lib.ember_constraint_options_set_whitespace, pointer, number)
        for raw in texts("triggers", wanted.get("triggers", ())):
            call(lib.ember_constraint_options_add_trigger_text, pointer, raw, len(raw))
        for token in integers("trigger_tokens", wanted.get("trigger_tokens", ())):
            call(lib.ember_constraint_options_add_trigger_token, pointer, token)
        if "repeat" in wanted:
            call(lib.ember_constraint_options_set_repeat, pointer, flag("repeat", wanted["repeat"]))
        for limit, value in mapping("limits", wanted.get("limits", {})).items():
            which = member("a key of limits", limit, ConstraintLimit)
            number = unsigned(f"limits[{which.name}]", value, 64)
            call(lib.ember_constraint_options_set_limit, pointer, which, number)
    return handle


def _schema(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        pydantic = ", such as its model_json_schema()" if hasattr(schema, "model_json_schema") else ""
        raise wrong_type("schema", f"a mapping or JSON text{pydantic}", schema)
    return dict(schema)


class Constraint(Single):
    """What a text has to follow, compiled for the tokens of a model: the option `constraint` of a generation, and a stage of a
    Sampler. It is made once and used by many generations of the model, on any number of threads. Ember refuses what it cannot
    enforce: an error names it."""

    _handle: Handle

    @classmethod
    def _make(cls, model: Model, options: ConstraintOptions, function: Any, *arguments: Any) -> Constraint:
        made = cls.__new__(cls)
        with _options(options) as opt, instance("model", model, Model)._handle as pointer:
            made._handle = Handle("constraint", lib.ember_constraint_free, function, pointer, *arguments, opt)
        return made

    @classmethod
    def json_schema(
        cls, model: Model, schema: Mapping[str, object] | str, **options: Unpack[ConstraintOptions]
    ) -> Constraint:
        """JSON that a JSON Schema describes, given as a mapping or as its text. An UnsupportedError names what of it the library cannot
        hold to."""
        raw = text("schema", schema if isinstance(schema, str) else json_of("schema", _schema(schema)))
        return cls._make(model, options, lib.ember_constraint_new_json_schema, raw, len(raw))

    @classmethod
    def json_object(cls, model: Model, **options: Unpack[ConstraintOptions]) -> Constraint:
        """A JSON object, whatever it holds."""
        return cls._make(model, options, lib.ember_constraint_new_json_object)

    @classmethod
    def regex(cls, model: Model, regex: str, **options: Unpack[ConstraintOptions]) -> Constraint:
        """What a regular expression matches as a whole. It has the syntax of Rust's crate regex."""
        raw = text("regex", regex)
        return cls._make(model, options, lib.ember_constraint_new_regex, raw, len(raw))

    @classmethod
    def lark(cls, model: Model, grammar: str, **options: Unpack[ConstraintOptions]) -> Constraint:
        """What a grammar in the syntax of Lark derives from its rule "start"."""
        raw = text("grammar", grammar)
        return cls._make(model, options, lib.ember_constraint_new_lark, raw, len(raw))

    @classmethod
    def choices(cls, model: Model, choices: Sequence[str], **options: Unpack[ConstraintOptions]) -> Constraint:
        """One of these texts."""
        return cls._make(model, options, lib.ember_constraint_new_choices, *text_arrays(texts("choices", choices)))

    @classmethod
    def chat(cls, model: Model, prompt: str = "", **options: Unpack[ChatOptions]) -> Constraint | None:
        """A reply that may call tools: calls follow the schemas of their tools, and where `tool_choice` asks for a call, the reply is
        one. `prompt` is what Model.apply_chat_template gave with the same options. None: there is nothing to constrain. A Conversation
        does this by itself."""
        raw = text("prompt", prompt)
        made = cls.__new__(cls)
        with chat_options(options) as opt, instance("model", model, Model)._handle as pointer:
            arguments = pointer, opt, raw, len(raw)
            made._handle = Handle("constraint", lib.ember_constraint_free, lib.ember_chat_constraint, *arguments)
        with made._handle as out:
            return made if out else None

    def close(self) -> None:
        """Frees the constraint; generations and samplers that have it keep what they need. Closing twice is fine."""
        self._handle.close()
