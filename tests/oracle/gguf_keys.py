"""Fails when llama.cpp has a key of GGUF files that docs/gguf-keys.md does not have, or reads one for an architecture that
Ember ignores there.

    python tests/oracle/gguf_keys.py PATH_OF_LLAMA_CPP

The page shows the table src/arch/keys_table.rs, which tests/gguf_keys.rs holds to what Ember does.
"""

import pathlib
import re
import sys

# What load_hparams reads for one architecture that Ember does not have.
ELSEWHERE = {
    "LLM_KV_FEATURES_LENGTH",  # WavTokenizer, and so are the next four
    "LLM_KV_POSNET_EMBEDDING_LENGTH",
    "LLM_KV_POSNET_BLOCK_COUNT",
    "LLM_KV_CONVNEXT_EMBEDDING_LENGTH",
    "LLM_KV_CONVNEXT_BLOCK_COUNT",
    "LLM_KV_ROPE_SCALING_ALPHA",  # only HunYuan's graph uses it
}
# What llama.cpp reads after something that Ember refuses.
AFTER = {("olmo2", "%s.rope.freq_base_swa")}  # a window
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/gguf-keys.md"


def keys_of_llama_cpp(root):
    """LLM_KV_NAMES, in which %s stands for the name of the architecture."""
    text = (root / "src/llama-arch.cpp").read_text()
    table = re.search(r"LLM_KV_NAMES\s*=\s*\{(.*?)\n\};", text, re.S)
    if table is None:
        sys.exit("llama-arch.cpp has no LLM_KV_NAMES")
    return dict(re.findall(r"\{\s*(LLM_KV_\w+)\s*,\s*\"([^\"]+)\"", table.group(1)))


def row_of(key, rows):
    return rows[key.replace("%s", "{arch}")]


def read_but_ignored(root, names, rows):
    """Keys that llama.cpp reads for one of Ember's architectures, and that Ember warns of and ignores there."""
    everywhere = re.search(r"::load_hparams\(.*?\n\}", (root / "src/llama-model.cpp").read_text(), re.S).group(0)
    registry = (PAGE.parents[1] / "src/arch/mod.rs").read_text()
    for arch in re.findall(r"\(\"([a-z0-9-]+)\", \|file\|", registry):
        own = (root / f"src/arch/{arch}.cpp").read_text()
        for kv in sorted(set(re.findall(r"LLM_KV_\w+", everywhere + own))):
            if kv not in names or kv in ELSEWHERE:
                continue
            honoured_by, otherwise = row_of(names[kv], rows)
            is_read = honoured_by == "all" or arch in honoured_by.split(", ")
            refused_by = re.search(r"; refused by (.*)", otherwise)
            if refused_by and arch in refused_by.group(1).split(", "):
                continue
            if not is_read and (arch, names[kv]) not in AFTER and otherwise.startswith("ignored"):
                yield arch, names[kv]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = re.findall(r"^\| `([^`]+)` \| (.*?) ?\| (.*?) ?\|$", PAGE.read_text(), re.M)
    rows = {key: (honoured_by, otherwise) for key, honoured_by, otherwise in found}
    root = pathlib.Path(sys.argv[1])
    names = keys_of_llama_cpp(root)
    keys = [name.replace("%s", "{arch}") for name in names.values()]
    if len(keys) < 100:
        sys.exit(f"llama-arch.cpp seems to have only {len(keys)} keys")
    missing = [key for key in keys if key not in rows]
    for key in missing:
        print(f"docs/gguf-keys.md lacks {key}")
    for key in sorted(set(rows) - set(keys)):
        print(f"llama.cpp does not have {key} any more")
    print(f"{len(keys)} keys, {len(missing)} of them missing")
    ignored = [] if missing else list(read_but_ignored(root, names, rows))
    for arch, key in ignored:
        print(f"llama.cpp reads {key} for {arch}, and Ember ignores it")
    sys.exit(1 if missing or ignored else 0)


if __name__ == "__main__":
    main()
