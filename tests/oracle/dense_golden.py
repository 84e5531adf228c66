"""Makes tests/fixtures/dense.json: what `sentence-transformers` gives for folders with Dense modules, prompts by name and shorter vectors.

Each case is a folder of tests/fixtures/hf with a vocabulary of words, modules, and Dense layers whose weights follow a formula that
tests/it/embed_options.rs has too, with the prompt that texts are embedded after and how many numbers are kept.

    python dense_golden.py
"""

import json
import os
import shutil
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import sentence_transformers
import torch
import transformers
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer

from sentence_fields import ROOT, TEXTS, bpe_words, module

OUTPUT = ROOT / "dense.json"
IDENTITY, TANH = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Tanh"
PROMPTS = {"query": "w5 w6 ", "document": "w9 ", "empty": ""}


def formula(n, seed):
    """`n` numbers between -1 and 1."""
    return [((i * 37 + seed * 11) % 101 - 50) / 50 for i in range(n)]


def layers(sizes):
    """Configurations and tensors of Dense modules: (outputs, activation, bias) each."""
    out, width = [], None
    for i, (n_in, n_out, activation, bias) in enumerate(sizes):
        config = dict(in_features=n_in, out_features=n_out, bias=bias, activation_function=activation)
        weight = torch.tensor(formula(n_in * n_out, i)).reshape(n_out, n_in) / n_in ** 0.5
        out.append((config, {"linear.weight": weight} | ({"linear.bias": torch.tensor(formula(n_out, 7 + i))} if bias else {})))
    return out


CASES = [
    dict(base="gemma-embedding", dense=[(24, 40, IDENTITY, False), (40, 24, IDENTITY, False)], normalize=True),
    dict(base="gemma-embedding", dense=[(24, 40, IDENTITY, False), (40, 24, IDENTITY, False)], normalize=True, prompt="query"),
    dict(base="gemma-embedding", dense=[(24, 40, IDENTITY, False), (40, 24, IDENTITY, False)], normalize=True, prompt="document", dimensions=10),
    dict(base="bert", dense=[(36, 7, TANH, True)], normalize=False),
    dict(base="bert", dense=[(36, 7, TANH, True)], normalize=True, dimensions=3),
    dict(base="bert", dense=[], normalize=True, prompt="empty", dimensions=8),
    dict(base="distilbert", dense=[(36, 20, TANH, True)], normalize=True),
    dict(base="mpnet", dense=[(36, 12, IDENTITY, True), (12, 30, TANH, False)], normalize=True, prompt="query", dimensions=1),
    dict(base="xlm-roberta", dense=[], normalize=False, prompt="query"),
    dict(base="nomic-bert", dense=[], normalize=True, prompt="document", dimensions=9),
    dict(base="modern-bert", dense=[], normalize=True, prompt="query", dimensions=16, mode="cls"),
    dict(base="eurobert", dense=[], normalize=True, prompt="document", dimensions=5),
    dict(base="jina-bert-v3", dense=[], normalize=True, prompt="query", dimensions=12),
    dict(base="qwen3-tied", dense=[], normalize=True, prompt="query", dimensions=20, mode="lasttoken"),
    dict(base="t5encoder", dense=[(24, 30, IDENTITY, False)], normalize=True, prompt="query", dimensions=11),
    dict(base="t5encoder-gated", dense=[], normalize=False, prompt="document"),
]


def modes(wanted):
    """What a configuration says of a kind of pooling."""
    flags = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "lasttoken": "pooling_mode_lasttoken"}
    return {flag: name == wanted for name, flag in flags.items() if name in ("mean", wanted)}


def run(case):
    folder = Path(tempfile.mkdtemp())
    try:
        for name in ("config.json", "model.safetensors"):
            shutil.copy(ROOT / "hf" / case["base"] / name, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "tokenizer.json").write_text(json.dumps(bpe_words(config["vocab_size"])))
        (folder / "tokenizer_config.json").write_text(json.dumps(dict(tokenizer_class="PreTrainedTokenizerFast", unk_token="[UNK]", pad_token="[PAD]")))
        width = config.get("hidden_size") or config.get("dim") or config["d_model"]
        files = {"1_Pooling/config.json": dict(word_embedding_dimension=width, **modes(case.get("mode", "mean"))),
                 "config_sentence_transformers.json": dict(prompts=PROMPTS, default_prompt_name=None)}
        kinds = ["Transformer", "Pooling"] + ["Dense"] * len(case["dense"]) + ["Normalize"] * case["normalize"]
        files["modules.json"] = [module(i, kind, "" if i == 0 else f"{i}_{kind}", "sentence_transformers.models.") for i, kind in enumerate(kinds)]
        for i, (config, tensors) in enumerate(layers(case["dense"]), 2):
            files[f"{i}_Dense/config.json"] = config
            (folder / f"{i}_Dense").mkdir()
            save_file(tensors, folder / f"{i}_Dense/model.safetensors")
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(json.dumps(content))
        model = SentenceTransformer(str(folder), device="cpu", model_kwargs=dict(attn_implementation="eager", dtype=torch.float32))
        options = dict(prompt_name=case.get("prompt"), truncate_dim=case.get("dimensions"), normalize_embeddings=case["normalize"])
        rows = [model.encode(text, convert_to_numpy=True, **options) for text in TEXTS]
        return files, [[round(float(x), 7) for x in row] for row in rows]
    finally:
        shutil.rmtree(folder)


def main():
    torch.set_num_threads(1)
    out = []
    for case in CASES:
        files, rows = run(case)
        out.append(case | dict(files=files, rows=rows))
    source = f"sentence-transformers {sentence_transformers.__version__}, transformers {transformers.__version__}, float32"
    cases = ",\n".join(json.dumps(case, separators=(",", ":")) for case in out)
    OUTPUT.write_text(f'{{"source":"{source}","texts":{json.dumps(TEXTS)},"cases":[\n{cases}\n]}}\n')
    print(f"{OUTPUT}: {len(out)} cases, {OUTPUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
