"""Drives the files of `sentence-transformers` folders: modules, their order and every field of their configurations.

Each case is a folder of tests/fixtures/hf with a vocabulary of words, `modules.json` and what it lists. The vectors of four texts go into
tests/fixtures/sentence/FAMILY.json and .f32. tests/it/hf_sentence.rs holds Ember to them: the same vectors, or a refusal that names the
module or the field.

    python sentence_fields.py [--out FOLDER]
    python sentence_fields.py --check     whether docs/sentence-fields.md lists every field that the installed package has
"""

import argparse
import inspect
import json
import logging
import os
import random
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import sentence_transformers
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as package

ROOT = Path(__file__).resolve().parents[1] / "fixtures"
DEFAULT_OUTPUT = ROOT / "sentence"
PAGE = ROOT.parents[1] / "docs/sentence-fields.md"
BASES = {"bert": "bert", "llama": "llama-yarn", "qwen3": "qwen3-tied", "gemma3": "gemma3"}
TEXTS = ["w1 w2 w3", "w7", "w9 w4 w4 w1 w30 w12 w8 w22 w5", "W3 w11 w2"]
NEW = "sentence_transformers.sentence_transformer.modules."
OLD = "sentence_transformers.models."
MODES = ["cls", "lasttoken", "max", "mean", "mean_sqrt_len_tokens", "weightedmean"]
FLAGS = ["pooling_mode_cls_token", "pooling_mode_mean_tokens", "pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens",
         "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"]


def words(n):
    vocab = {"[UNK]": 0, "[PAD]": 1} | {f"w{i}": i for i in range(2, n)} | {"w1": n}
    vocab = {text: min(i, n - 1) if text == "w1" else i for text, i in vocab.items() if not (text == f"w{n - 1}")}
    return dict(version="1.0", truncation=None, padding=None, added_tokens=[], normalizer=None, pre_tokenizer=dict(type="WhitespaceSplit"),
                post_processor=None, decoder=None, model=dict(type="WordLevel", vocab=vocab, unk_token="[UNK]"))


def bpe_words(n):
    """A vocabulary of words that is a WordPiece model, which Ember reads."""
    made = words(n)
    made["model"] = dict(type="WordPiece", vocab=made["model"]["vocab"], unk_token="[UNK]", continuing_subword_prefix="##", max_input_chars_per_word=100)
    return made


def module(idx, kind, path, prefix=NEW):
    where = {"Transformer": "sentence_transformers.base.modules.transformer.Transformer"}.get(kind, f"{prefix}{kind}") if prefix == NEW else f"{prefix}{kind}"
    return dict(idx=idx, name=str(idx), path=path, type=where)


def listed(*kinds, prefix=OLD):
    return [module(i, kind, "" if kind == "Transformer" else f"{i}_{kind}", prefix) for i, kind in enumerate(kinds)]


def cases(n_embd):
    """(field, files) of every case: the content of files by their paths."""
    pool = dict(word_embedding_dimension=n_embd, pooling_mode_cls_token=False, pooling_mode_mean_tokens=True)
    plain = {"modules.json": listed("Transformer", "Pooling"), "1_Pooling/config.json": pool}
    scaled = {"modules.json": listed("Transformer", "Pooling", "Normalize"), "1_Pooling/config.json": pool}
    dense = dict(in_features=n_embd, out_features=8, bias=True, activation_function="torch.nn.modules.activation.Tanh")
    out = [("modules.json", plain), ("modules.json", scaled)]
    # The package's own modules for a folder without a list: they depend on the model's architecture.
    for names in (None, [], ["UnheardOf"], ["LlamaForCausalLM"], ["LlamaModel", "LlamaForCausalLM"], ["LlamaForCausalLM", "LlamaModel"]):
        out.append(("architectures", {"architectures": names}))
        out.append(("architectures", {"architectures": names, "1_Pooling/config.json": pool | {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}}))
    for prefix in (OLD, NEW):
        for kind in ("Pooling", "Normalize"):
            out.append(("type", plain | {"modules.json": listed("Transformer", "Pooling", *([kind] if kind != "Pooling" else []), prefix=prefix)}))
    out.append(("type", scaled | {"modules.json": [m | {"type": m["type"] if m["idx"] == 0 else OLD + f"{m['type'].rsplit('.')[-1]}.{m['type'].rsplit('.')[-1]}"} for m in scaled["modules.json"]]}))
    out.append(("path", {"modules.json": [module(0, "Transformer", "", OLD), module(1, "Pooling", "pool", OLD)], "pool/config.json": pool | {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}}))
    out.append(("path", {"modules.json": [module(0, "Transformer", "", OLD), module(1, "Pooling", "pool/deeper/", OLD)], "pool/deeper/config.json": pool}))
    out.append(("idx", plain | {"modules.json": [m | {"idx": 9 - m["idx"]} for m in plain["modules.json"]]}))
    out.append(("name", plain | {"modules.json": [m | {"name": f"n{m['idx']}"} for m in plain["modules.json"]]}))
    out.append(("Pooling", {"modules.json": listed("Transformer")}))
    out.append(("Normalize", scaled | {"modules.json": listed("Transformer", "Pooling", "Normalize", "Normalize")}))
    out.append(("Dropout", scaled | {"modules.json": listed("Transformer", "Pooling", "Dropout"), "2_Dropout/config.json": dict(dropout=0.5)}))
    out.append(("Dense", plain | {"modules.json": listed("Transformer", "Pooling", "Dense"), "2_Dense/config.json": dense, "dense": 2}))
    out.append(("Dense", scaled | {"modules.json": listed("Transformer", "Pooling", "Dense", "Normalize"), "2_Dense/config.json": dense, "dense": 2}))
    out.append(("LayerNorm", plain | {"modules.json": listed("Transformer", "Pooling", "LayerNorm"), "2_LayerNorm/config.json": dict(dimension=n_embd), "norm": 2}))
    for mode in MODES:
        out.append(("pooling_mode", scaled | {"1_Pooling/config.json": dict(embedding_dimension=n_embd, pooling_mode=mode)}))
        out.append(("pooling_mode", scaled | {"1_Pooling/config.json": pool | dict(pooling_mode=mode)}))
        out.append(("pooling_mode", scaled | {"1_Pooling/config.json": dict(embedding_dimension=n_embd, pooling_mode=[mode])}))
    out.append(("pooling_mode", scaled | {"1_Pooling/config.json": dict(embedding_dimension=n_embd, pooling_mode=["mean", "cls"])}))
    out.append(("pooling_mode", scaled | {"1_Pooling/config.json": dict(embedding_dimension=n_embd, pooling_mode="unheard-of")}))
    out.append(("pooling_mode", scaled | {"1_Pooling/config.json": dict(embedding_dimension=n_embd, pooling_mode=None)}))
    out.append(("pooling_mode", scaled | {"1_Pooling/config.json": dict(embedding_dimension=n_embd)}))
    for flag in FLAGS:
        out.append((flag, scaled | {"1_Pooling/config.json": dict(word_embedding_dimension=n_embd) | {f: f == flag for f in FLAGS}}))
        out.append((flag, scaled | {"1_Pooling/config.json": pool | {flag: True}}))
        out.append((flag, scaled | {"1_Pooling/config.json": dict(word_embedding_dimension=n_embd) | {f: False for f in FLAGS}}))
    for field in ("word_embedding_dimension", "embedding_dimension"):
        for value in (n_embd + 1, None):
            out.append((field, scaled | {"1_Pooling/config.json": dict(pooling_mode="mean") | {field: value}}))
    for value in (False, True, None):
        out.append(("include_prompt", scaled | {"1_Pooling/config.json": pool | dict(include_prompt=value)}))
    for field, values in {"max_seq_length": [None, 4, 64], "do_lower_case": [None, False, True]}.items():
        for value in values:
            out.append((field, scaled | {"sentence_bert_config.json": {field: value}}))
    prompts = {"query": "w5 w6 ", "document": "", "none": None}
    for name in (None, "query", "document", "missing"):
        out.append(("default_prompt_name", scaled | {"config_sentence_transformers.json": dict(prompts=prompts | {"none": ""}, default_prompt_name=name)}))
    out.append(("prompts", scaled | {"config_sentence_transformers.json": dict(prompts={}, default_prompt_name=None)}))
    out.append(("include_prompt", scaled | {"config_sentence_transformers.json": dict(prompts=prompts | {"none": ""}, default_prompt_name="query"),
                                            "1_Pooling/config.json": pool | dict(include_prompt=False)}))
    for value in (None, 5, 4096):
        out.append(("truncate_dim", scaled | {"config_sentence_transformers.json": dict(truncate_dim=value)}))
    for value in (None, "cosine", "dot"):
        out.append(("similarity_fn_name", scaled | {"config_sentence_transformers.json": dict(similarity_fn_name=value)}))
    rest = {
        "transformer_task": [None, "feature-extraction", "text-generation"],
        "module_output_name": [None, "token_embeddings", "x"],
        "module_input_name": [None, "x"],
        "tokenizer_name_or_path": [None, "elsewhere"],
        "query_expansion": [None, {"query": 4}],
        "query_length": [None, 4],
        "document_length": [None, 4],
        "unpad_inputs": [None, False, True],
        "modality_config": [None, {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
                            {"text": {"method": "forward", "method_output_name": "x"}}, {"text": {"method": "x", "method_output_name": "last_hidden_state"}}],
        "processing_kwargs": [None, {}, {"text": {}}, {"text": {"max_length": 3, "truncation": True}}, {"common": {"add_special_tokens": False}}],
        "model_kwargs": [None, {}, {"use_safetensors": True}],
        "model_args": [None, {}, {"use_safetensors": True}],
        "config_kwargs": [None, {}, {"use_cache": False}, {"num_hidden_layers": 1}],
        "config_args": [None, {}, {"use_cache": False}, {"num_hidden_layers": 1}],
        "processor_kwargs": [None, {}, {"model_max_length": 3}, {"padding_side": "left"}, {"unk_token": "w1"}],
        "tokenizer_args": [None, {}, {"model_max_length": 3}, {"padding_side": "left"}, {"unk_token": "w1"}],
    }
    for field, values in rest.items():
        out += [(field, scaled | {"sentence_bert_config.json": {field: value}}) for value in values]
    for kind in (None, "SentenceTransformer", "SparseEncoder"):
        out.append(("model_type", scaled | {"config_sentence_transformers.json": dict(model_type=kind)}))
    out += several(n_embd, scaled, pool)
    out.append(("__version__", scaled | {"config_sentence_transformers.json": {"__version__": {"sentence_transformers": "2.0.0"}}}))
    return out


def several(n_embd, scaled, pool):
    """Folders with several fields changed at random, from the same seed each time."""
    rng, out = random.Random(41), []
    modes = [dict(pooling_mode=mode) for mode in ("cls", "mean", "lasttoken")] + [{f: f == flag for f in FLAGS} for flag in FLAGS]
    for _ in range(16):
        files = dict(scaled)
        files["modules.json"] = listed("Transformer", "Pooling", *rng.choice([[], ["Normalize"], ["Dropout", "Normalize"]]), prefix=rng.choice([OLD, NEW]))
        if len(files["modules.json"]) == 4:
            files["2_Dropout/config.json"] = dict(dropout=0.1)
        files["1_Pooling/config.json"] = dict(embedding_dimension=n_embd) | rng.choice(modes) | rng.choice([{}, dict(include_prompt=True)])
        files["sentence_bert_config.json"] = dict(max_seq_length=rng.choice([None, 3, 5, 64]), do_lower_case=rng.choice([None, False]))
        files["config_sentence_transformers.json"] = dict(prompts={"query": "w5 w6 ", "document": ""}, default_prompt_name=rng.choice([None, "query", "document"]),
                                                          similarity_fn_name=rng.choice([None, "dot"]))
        out.append(("several", files))
    return out


class Driver:
    def __init__(self, family, work):
        self.folder, self.work = ROOT / "hf" / BASES[family], Path(work)
        config = json.loads((self.folder / "config.json").read_text())
        self.n_embd, self.n_vocab = config["hidden_size"], config["vocab_size"]

    def run(self, files):
        folder = Path(tempfile.mkdtemp(dir=self.work))
        try:
            for name in ("config.json", "model.safetensors"):
                shutil.copy(self.folder / name, folder)
            (folder / "tokenizer.json").write_text(json.dumps(bpe_words(self.n_vocab)))
            (folder / "tokenizer_config.json").write_text(json.dumps(dict(tokenizer_class="PreTrainedTokenizerFast", pad_token="[PAD]", unk_token="[UNK]")))
            if "architectures" in files:
                config = json.loads((self.folder / "config.json").read_text()) | {"architectures": files["architectures"]}
                (folder / "config.json").write_text(json.dumps(config))
            for name, content in files.items():
                if name in ("dense", "norm", "architectures"):
                    continue
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(json.dumps(content))
            weights = {}
            if "dense" in files:
                weights = {"linear.weight": torch.ones(8, self.n_embd) * 0.1, "linear.bias": torch.zeros(8)}
                name = f"{files['dense']}_Dense"
            if "norm" in files:
                weights, name = {"norm.weight": torch.ones(self.n_embd), "norm.bias": torch.zeros(self.n_embd)}, f"{files['norm']}_LayerNorm"
            if weights:
                from safetensors.torch import save_file
                save_file(weights, folder / name / "model.safetensors")
            model = SentenceTransformer(str(folder), device="cpu", model_kwargs=dict(attn_implementation="eager", dtype=torch.float32))
            return np.stack([model.encode(text, convert_to_numpy=True) for text in TEXTS]).astype("<f4")
        finally:
            shutil.rmtree(folder)


def drive(family, out):
    with tempfile.TemporaryDirectory() as work:
        driver, numbers, found = Driver(family, work), [], []
        for field, files in cases(driver.n_embd):
            case = dict(field=field, files={k: v for k, v in files.items() if k not in ("dense", "norm")})
            try:
                rows = driver.run(files)
            except Exception as e:
                case["expect"], case["error"] = "error", f"{type(e).__name__}: {str(e)[:100]}"
            else:
                same = (i for i, other in enumerate(numbers) if other.shape == rows.shape and np.linalg.norm(other - rows) <= 1e-6 * np.linalg.norm(rows))
                case["expect"] = next(same, len(numbers))
                if case["expect"] == len(numbers):
                    numbers.append(rows)
            found.append(case)
    facts = dict(base=BASES[family], source=f"sentence-transformers {sentence_transformers.__version__}, transformers {transformers.__version__}, float32", texts=TEXTS,
                 tokenizer=bpe_words(driver.n_vocab), widths=[rows.shape[1] for rows in numbers])
    dump = lambda value: json.dumps(value, separators=(",", ":"))  # noqa: E731
    (out / f"{family}.json").write_text(dump(facts)[:-1] + ',"cases":[\n' + ",\n".join(map(dump, found)) + "\n]}\n")
    np.concatenate([rows.ravel() for rows in numbers]).tofile(out / f"{family}.f32")
    print(f"{family}: {len(found)} cases, {len(numbers)} results, {sum(c['expect'] == 'error' for c in found)} errors", flush=True)


def fields():
    """The fields that the package writes and reads."""
    out = {"model_type", "tokenizer_name_or_path", "model_kwargs", "model_args", "config_kwargs", "config_args", "processor_kwargs", "tokenizer_args", "dropout", "idx", "name", "path", "type", "max_seq_length", "do_lower_case", "prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim", "__version__"}
    out |= set(FLAGS)
    for kind in (package.Pooling, package.Dense, package.Normalize):
        out |= set(kind.config_keys)
    out |= set(sentence_transformers.base.modules.transformer.Transformer.config_keys)
    return sorted(out)


def check():
    listed_ = {line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")}
    wrong = [field for field in fields() if field not in listed_]
    print("\n".join(f"{field} is not in {PAGE.name}" for field in wrong) or f"{len(fields())} fields: sentence-transformers {sentence_transformers.__version__} has no other")
    sys.exit(bool(wrong))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    transformers.logging.set_verbosity(logging.CRITICAL)
    transformers.utils.logging.disable_progress_bar()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    if args.check:
        check()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    for family in BASES:
        drive(family, args.out)


if __name__ == "__main__":
    main()
