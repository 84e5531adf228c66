"""What the sentences of the library's errors name, and what that is called here."""

from __future__ import annotations

from collections.abc import Mapping

# By function of the library: what its sentences may begin with.
_BEGINNINGS: dict[str, dict[str, str]] = {
    "ember_generate_options_set_n_top": {"n_top": "top_logprobs"},
    "ember_generate_options_set_lookup": {"n_draft": "lookup", "ngram": "lookup_ngram"},
    "ember_sampler_add_top_p": {"top-p": "top_p"},
    "ember_sampler_add_min_p": {"min-p": "min_p"},
    "ember_sampler_add_typical_p": {"typical-p": "typical_p"},
    "ember_sampler_add_dynamic_temperature": {"range": "spread"},
    "ember_context_options_set_worker_cpus": {"cpus": "worker_cpus"},
    "ember_context_state_save_file": {"path is empty": "target is empty"},
    "ember_context_state_load_file": {"path is empty": "source is empty"},
    **{f"ember_model_options_set_meta_{kind}": {"key": "a key of meta"} for kind in ("bool", "i64", "f64", "string")},
}
# Wherever they stand.
_PHRASES = {
    "ember_chat_options_set_template": "the argument template of chat or apply_chat_template",
    "the callback left": "a stage left",
    "the callback returned": "read returned",
}


def in_python(function: str, sentence: str, names: Mapping[str, str] | None = None) -> str:
    """The sentence of an error of a function, with `names` for what it may begin with if not those of the function."""
    for phrase, own in _PHRASES.items():
        sentence = sentence.replace(phrase, own)
    for beginning, own in (_BEGINNINGS.get(function, {}) if names is None else names).items():
        if sentence.startswith(beginning):
            return own + sentence[len(beginning) :]
    return sentence
