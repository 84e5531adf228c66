"""Prepares include/ember.h for doxygen: reference.py HEADER writes it to standard output with the comment at its top as that of
the file, errors as paragraphs of their own, and every function and type in the group of its noun."""

import re
import sys

# The groups in the order of the reference: name, title, what the names in it begin with. The first match counts.
GROUPS = [
    ("chat", "Conversations", ["ember_chat", "ember_model_chat"]),
    ("metadata", "Metadata of models", ["ember_model_meta"]),
    ("text", "Tokens", ["ember_model_tokenize", "ember_model_detokenize", "ember_model_token_", "EMBER_TOKEN_NONE"]),
    ("models", "Models", ["ember_model", "ember_memory", "ember_pack", "ember_progress", "ember_allocate", "ember_deallocate",
                          "ember_release"]),
    ("states", "States of sequences", ["ember_context_state", "ember_read", "ember_write"]),
    ("contexts", "Contexts", ["ember_context", "ember_kv_type", "ember_backend", "ember_timings", "EMBER_ALL_SEQUENCES"]),
    ("samplers", "Samplers", ["ember_sampler", "ember_candidates", "EMBER_SEED_RANDOM"]),
    ("scoring", "Scoring", ["ember_score", "ember_token_score"]),
    ("generation", "Generation", ["ember_generat", "ember_event", "ember_finish_reason", "ember_token_logprob"]),
    ("embeddings", "Embeddings", ["ember_embed", "ember_pooling"]),
    ("cancelling", "Cancelling", ["ember_cancel"]),
    ("errors", "Errors", ["ember_error", "ember_status"]),
    ("log", "Log", ["ember_log"]),
    ("library", "The library", ["ember_", "EMBER_"]),
]
ORDER = ["models", "metadata", "text", "contexts", "states", "generation", "samplers", "chat", "embeddings", "scoring", "cancelling",
         "errors", "log", "library"]


def group(name: str) -> str:
    return next(group for group, _, prefixes in GROUPS if any(name.startswith(prefix) for prefix in prefixes))


def declared(code: str) -> str:
    """The name that the declaration behind a comment declares; nothing for fields and enumerators."""
    patterns = [
        r"#define (EMBER_\w+)",
        r"enum (ember_\w+)",
        r"typedef struct (ember_\w+)",
        r"typedef \w+ \(\*(ember_\w+)\)",
        r"[a-z][\w ]*[ *](ember_\w+)\(",
    ]
    found = (re.match(pattern, code) for pattern in patterns)
    return next((match.group(1) for match in found if match), "")


def main(path: str) -> None:
    text = open(path, encoding="utf-8").read()
    text = text.replace("/*\n", "/** @file\n", 1)
    # What a function's errors are becomes a paragraph.
    text = re.sub(r"(^ \*|(?<=[.)])) Errors: ", r"\1\n *\n * **Errors:** ", text, flags=re.MULTILINE)
    out, at = [], 0
    for match in re.finditer(r"^/\*\*.*?\*/\n", text, re.MULTILINE | re.DOTALL):
        name = declared(text[match.end() :])
        if name:
            out += [text[at : match.end() - 3], f"@ingroup {group(name)} */\n"]
            at = match.end()
    print("".join(out) + text[at:], end="")
    titles = {name: title for name, title, _ in GROUPS}
    for name in ORDER:
        print(f"/** @defgroup {name} {titles[name]} */")


main(sys.argv[1])
