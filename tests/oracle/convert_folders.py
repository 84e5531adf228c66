"""Converts the folders of tests/fixtures/hf with llama.cpp's converter and compares what reads the files with PyTorch.

The files of make_fixtures.py are written by this folder's own scripts. Here the converter that people use writes
them, so its keys and its layout of tensors are those of published files. Each file is read by Ember's tool `logits`
and by llama.cpp itself, each in a process of its own: llama.cpp aborts on some. The converter reads the names of
fields that models were published with, which `save_pretrained` does not always write, so `published` puts them back;
Ember reads that folder too. The folders have no tokenizer; the file says that it has none.

    python convert_folders.py LLAMA_CPP_SOURCE [NAME ...]     (all, or those whose name begins so)

LLAMA_CPP_SOURCE is `vendor/llama.cpp` of the source package of llama-cpp-python.
"""

import argparse
import json
import shutil
import multiprocessing
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

# What the converter does not write, or not as PyTorch has it.
LOST = {
    "gemma3-f16": "no list of layers with a window",
    "deepseek2-sigmoid": "no sigmoid of routers, but for the sizes of the published model",
    "granitehybrid-dense": "no rotary positions beside recurrent layers",
    "qwen3next-old": "no shares that are left as they are",
    "llama-window": "no window of arch llama",
    "nemotron-h-experts": "no least time step",
    "starcoder2-window": "no window of arch starcoder2",
    "gpt2-untied": "feed-forward blocks four times as wide as the embedding",
    "gpt-oss, as llama.cpp has it": "YaRN's bounds rounded, which the published model's are not",
    "phi2": "feed-forward blocks four times as wide as the embedding, whatever the configuration says",
}
# What llama.cpp demands of models whose folders have what it does not read or leaves out, as changes of their configurations.
PLAIN = {
    "qwen35": dict(linear_value_head_dim=12, rope=dict(mrope_section=[2, 2, 2])),
    "qwen35moe-7-3": dict(linear_value_head_dim=12, rope=dict(mrope_section=[2, 2, 2])),
    "qwen3next-7-3": dict(linear_value_head_dim=12),
    "nemotron-h-moe": {},
    "lfm2-long": dict(conv_bias=False, tie_word_embeddings=True),
    "gemma4-shared": dict(layer_types=["sliding_attention", "full_attention"] * 3),
    "gpt-oss": dict(rope=dict(truncate=True)),
    "deepseek2-lite": dict(q_lora_rank=20),
    "deepseek2-groups": dict(n_group=1, topk_group=1, topk_method="greedy"),
}
KINDS = {"linear_attention": "mamba", "full_attention": "attention"}
LETTERS = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
EMBER = Path("build/bin/logits")


def published(folder, copy):
    """Copies the folder, with the field names of the published models in its configuration."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    config = json.loads((folder / "config.json").read_text())
    match config["model_type"]:
        case "gpt2":
            config["n_ctx"] = config["n_positions"]
        case "gpt_neox":
            rope = config.get("rope_parameters", {})
            config |= dict(rotary_pct=rope.get("partial_rotary_factor", 0.25), rotary_emb_base=rope.get("rope_theta", 10000))
        case "granitemoehybrid":
            config["layer_types"] = [KINDS[kind] for kind in config["layer_types"]]
        case "nemotron_h":
            if "moe" not in config["layers_block_type"]:
                del config["num_experts_per_tok"]
            config["num_hidden_layers"] = len(config["layers_block_type"])
            config["hybrid_override_pattern"] = "".join(LETTERS[kind] for kind in config.pop("layers_block_type"))
        case "glm4_moe_lite":
            config["first_k_dense_replace"] = config.pop("mlp_layer_types").count("dense")
    (copy / "config.json").write_text(json.dumps(config))


def convert(source, folder, out, kind="ALL_F32"):
    """Writes the folder's model, by default as F32."""
    sys.path[:0] = [str(source / "gguf-py"), str(source)]
    import torch
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    import gguf

    def no_tokenizer(self):
        if not any("general.vocab_size" in kv or f"{self.gguf_writer.arch}.vocab_size" in kv for kv in self.gguf_writer.kv_data):
            self.gguf_writer.add_vocab_size(self.hparams["vocab_size"])
        self.gguf_writer.add_tokenizer_model("none")

    raw = json.loads((folder / "config.json").read_text())
    if raw["model_type"] == "nemotron_h":
        # The configuration class of transformers puts experts into models without.
        ModelBase.load_hparams = staticmethod(lambda *_, **__: dict(raw))
    hparams = ModelBase.load_hparams(folder, False)
    cls = get_model_class(get_model_architecture(hparams, ModelType.TEXT))
    classes = [ModelBase]
    for each in classes:
        each.set_vocab, each.no_mtp = no_tokenizer, True
        classes += each.__subclasses__()
    with torch.inference_mode():
        cls(folder, gguf.LlamaFileType[kind], out).write()


def llamacpp(path, tokens, n_ctx, out):
    """llama.cpp's logits, token by token under an f32 cache."""
    from llamacpp import LlamaCpp
    model = LlamaCpp(path, n_ctx=n_ctx, kv="f32", flash=False)
    np.concatenate([model.decode([t]) for t in tokens]).tofile(out)
    model.close()


def ember(path, tokens, out):
    """Ember's logits."""
    subprocess.run([EMBER, path, out, *map(str, tokens)], check=True)


def alone(target, *args):
    """Runs it in a process of its own; whether it ended well."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=args)
    process.start()
    process.join()
    return process.exitcode == 0


def error(path, truth):
    """Relative root-mean-square error of the numbers in `path`."""
    found = np.fromfile(path, "<f4")
    return f"{np.sqrt(((found - truth) ** 2).mean() / (truth ** 2).mean()):.1e}" if found.size == truth.size else "size"


def facts(name):
    """What the prompt is and what PyTorch makes of it."""
    for stem in (FIXTURES / "models" / name, FIXTURES / "hf" / name):
        if stem.with_name(name + ".json").is_file():
            return json.loads(stem.with_name(name + ".json").read_text()), np.fromfile(stem.with_name(name + ".logits.f32"), "<f4")
    raise FileNotFoundError(name)


def plain(name, changes, folder):
    """Makes the model of the folder's name with other fields, and what PyTorch makes of its prompt."""
    import copy
    import torch
    from fixtures.cases import CASES
    from fixtures.core import expected, make_model
    case = copy.deepcopy(next(case for case in CASES if case.name == name))
    case.config["rope_parameters"] = case.config.get("rope_parameters", {}) | changes.get("rope", {})
    case.config |= {key: value for key, value in changes.items() if key != "rope"}
    model = make_model(case)
    model.save_pretrained(folder)
    tokens = json.loads((FIXTURES / "models" / f"{name}.json").read_text())["tokens"]
    with torch.no_grad():
        truth = expected(case, model, tokens)
    return tokens, truth.ravel()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    print("| folder | Ember on the folder | on the converter's file | llama.cpp on the same | lost |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        folders = [(p.name, p) for p in (FIXTURES / "hf").iterdir() if p.is_dir() and "bert" not in p.name]
        folders += [(f"{name}, as llama.cpp has it", Path(scratch) / f"{name}-plain") for name in PLAIN]
        for name, folder in sorted(folders):
            if args.names and not any(name.startswith(n) for n in args.names):
                continue
            path, out = Path(scratch) / "model.gguf", Path(scratch) / "logits.f32"
            path.unlink(missing_ok=True)
            if folder.exists():
                about, truth = facts(name)
                tokens, n_ctx = about["tokens"], about.get("n_ctx") or 256
            else:
                short = name.partition(",")[0]
                (tokens, truth), n_ctx = plain(short, PLAIN[short], folder), 256
            copy = Path(scratch) / "published"
            published(folder, copy)


            def result(*run):
                out.unlink(missing_ok=True)
                return error(out, truth) if alone(*run) else "fails"

            results = [result(ember, copy, tokens, out)]
            vocab = {str(i): i for i in range(len(truth) // len(tokens))}
            (copy / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab}, "added_tokens": []}))
            if alone(convert, args.source, copy, path):
                results += [result(ember, path, tokens, out), result(llamacpp, path, tokens, n_ctx, out)]
            else:
                results += ["not converted"] * 2
            print(f"| {name} | {' | '.join(results)} | {LOST.get(name, '')} |", flush=True)


if __name__ == "__main__":
    main()
