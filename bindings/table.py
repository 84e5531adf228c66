"""Says which of the library's features each binding has: table.py [--update]

The table of README.md beside this file comes from the C functions that each binding calls. Without --update the program fails when the
table says something else.
"""

import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
README = HERE / "README.md"
START, END = "<!-- table.py writes this table -->\n", "<!-- end of the table -->"

# Where each language's binding stands: files that call the library, tests left out.
SOURCES = {
    "C++": ["cpp/ember.hpp", "cpp/ember/*.hpp"],
    "Go": ["go/*.go", "go/callback.c"],
    "Swift": ["swift/Sources/Ember/*.swift"],
    "Python": ["python/src/ember/*.py"],
    "Java": ["java/ember/*.java"],
    "Android": ["android/jni.c"],
    "Node": ["node/*.mjs"],
    ".NET": ["dotnet/Ember/*.cs"],
}
# Tests, the declarations of all C functions, names for errors, and a page that does without the package.
LEFT_OUT = re.compile(r"_test\.go$|\.test\.mjs$|/_abi\.py$|/_names\.py$|/node/generate\.mjs$|/dotnet/Ember/Native\.cs$")

# What a feature takes: functions, without ember_.
FEATURES = [
    ("load a file or a folder", "model_load"),
    ("load a part of an open file (descriptor)", "model_load_fd"),
    ("load bytes: copied", "model_load_buffer"),
    ("load bytes: where they are", "model_load_borrowed"),
    ("look into a file without loading it", "model_inspect"),
    ("metadata of a model", "model_meta_count model_meta_key model_meta_string"),
    ("tell before what loading takes", "memory_estimate"),
    ("generate: pull events", "generator_new_tokens generator_next generator_usage"),
    ("generate: events pushed to a callback", "generate"),
    ("generate in a sequence of one's choice", "generate_options_set_sequence"),
    ("n completions of a prompt, ranked", "completions_new_tokens completions_next completions_text completions_usage completions_rank"),
    ("log-probabilities of tokens", "generate_options_set_logprobs"),
    ("log-probabilities of the likeliest tokens", "generate_options_set_n_top"),
    ("stop texts, time limits", "generate_options_add_stop generate_options_set_time_limit"),
    ("forget tokens where the context is full", "generate_options_set_shift"),
    ("draft tokens: lookup, draft model", "generate_options_set_lookup generate_options_set_draft"),
    ("samplers: temperature, top-k, top-p, min-p", "sampler_add_temperature sampler_add_top_k sampler_add_top_p sampler_add_min_p"),
    ("samplers: every other stage", "sampler_add_*"),
    ("sample logits by hand", "context_decode context_logits sampler_sample"),
    ("constraints: schema, regex, grammar, choices", "constraint_new_* generate_options_set_constraint"),
    ("chat template, and its tokens", "chat_apply_template chat_tokenize"),
    ("conversation", "conversation_new conversation_begin conversation_next conversation_add conversation_undo conversation_usage_get"),
    ("conversation: save and load", "conversation_save conversation_load"),
    ("conversation: copy", "conversation_fork"),
    ("conversation: what is dropped when it is full", "conversation_set_when_full"),
    ("tools, and which is to be called", "chat_options_set_tools chat_options_set_tool_choice chat_options_set_parallel_calls conversation_set_tool_choice"),
    ("thinking: on, off, budget", "chat_options_set_thinking conversation_set_thinking_budget"),
    ("parse replies of one's own generations", "chat_parser_*"),
    ("engine: many requests at once", "engine_new engine_submit engine_metrics_get request_next request_cancel request_usage"),
    ("embed", "embed embed_options_set_*"),
    ("classify", "classify model_label"),
    ("rerank", "rerank"),
    ("score a continuation", "score"),
    ("tokenizer alone", "tokenizer_load tokenizer_load_buffer tokenizer_tokenize tokenizer_detokenize tokenizer_count tokenizer_token_bytes"),
    ("prompts that fill a gap", "tokenizer_fim_prompt"),
    ("states as bytes", "context_state_save context_state_load"),
    ("states as files", "context_state_save_file context_state_load_file"),
    ("copy and rewind sequences", "context_sequence_copy context_rewind"),
    ("cancel from another thread", "cancel_token_cancel generate_options_set_cancel_token"),
    ("log", "log_set"),
    ("memory that a context takes", "context_memory"),
    ("timings", "context_timings_get"),
]


def exported() -> list[str]:
    """All functions of the header."""
    listed = subprocess.run(["sh", "tests/capi/functions.sh"], cwd=HERE.parent, capture_output=True, text=True, check=True)
    return listed.stdout.split()


def code(path: pathlib.Path) -> str:
    """The text of a file without its comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = re.sub(r'"""[^"]*"""', "", text)
        return re.sub(r"^\s*#.*$|  #.*$", "", text, flags=re.MULTILINE)
    return re.sub(r"/\*.*?\*/|(?:^|\s)//.*?$", "", text, flags=re.MULTILINE | re.DOTALL)


def called(language: str, functions: list[str]) -> set[str]:
    """The functions that a binding calls: by their names, or, in Python, by the beginning of a name and an option's name."""
    paths = sorted(path for pattern in SOURCES[language] for path in HERE.glob(pattern) if not LEFT_OUT.search(path.as_posix()))
    if not paths:
        sys.exit(f"{language}: there is no file of {SOURCES[language]}")
    text = "\n".join(map(code, paths))
    words = set(re.findall(r"\w+", text))
    beginnings = set(re.findall(r'f"(ember_\w+_)\{', text))
    return {f for f in functions if f in words or any(f.startswith(b) and f.removeprefix(b) in words for b in beginnings)}


def table() -> str:
    functions = exported()
    languages = {"C": set(functions)} | {language: called(language, functions) for language in SOURCES}
    rows = ["| | " + " | ".join(languages) + " |", "|---|" + "---|" * len(languages)]
    for feature, needs in FEATURES:
        wanted = set()
        for name in needs.split():
            pattern = re.compile("ember_" + name.replace("*", r"\w+"))
            found = {f for f in functions if pattern.fullmatch(f)}
            if not found:
                sys.exit(f"{feature}: the header has no function ember_{name}")
            wanted |= found
        cells = ["yes" if wanted <= has else "part" if wanted & has else "–" for has in languages.values()]
        rows.append(f"| {feature} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def main() -> None:
    page = README.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    written, _, after = rest.partition(END)
    if not after:
        sys.exit(f"{README} has no table between {START.strip()} and {END}")
    if sys.argv[1:] == ["--update"]:
        README.write_text(before + START + "\n" + table() + "\n" + END + after, encoding="utf-8")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    elif written.strip() != table().strip():
        for row in table().splitlines():
            if row not in written:
                print(f"the code says: {row}", file=sys.stderr)
        sys.exit(f"{README} is not what the bindings call: make it anew with {pathlib.Path(__file__).name} --update")


if __name__ == "__main__":
    main()
