"""Writes the tiny seeded models of make_fixtures.py as Hugging Face folders, as `save_pretrained` leaves them.

tests/fixtures/hf/NAME is the folder of the model of tests/fixtures/models/NAME.gguf: the same parameters, bit by bit,
so that file's expected logits hold for it too. Four more have no such file and their own expected logits, as
NAME.logits.f32 and NAME.json beside the folder: one in several shards, two stored as F16 and BF16, whose logits are
those of the rounded parameters in float32, and one with experts.

    python hf_folders.py [--out FOLDER] [NAME ...]     (all, or those whose name begins so)
"""

import argparse
import json
import shutil
from pathlib import Path

import torch
import transformers

from fixtures import gemma, llama, qwen
from fixtures.cases import CASES
from fixtures.core import Case, expected, make_model

DEFAULT_OUTPUT = Path(__file__).resolve().parents[1] / "fixtures" / "hf"

# Cases of make_fixtures.py: one of each family at least.
SAME = ["llama-yarn", "llama-window", "llama-moe-4-2", "qwen2-tied", "qwen3-tied", "qwen3moe-8-2", "gemma", "gemma2",
        "gemma3", "gpt2-untied", "bert", "nomic-bert", "phi2", "phi3-longrope-short", "gptneox-sequential",
        "starcoder2-window", "stablelm-parallel-qknorm", "olmo2", "smollm3", "granite", "lfm2", "lfm2-long", "lfm2moe-7-3", "lfm2moe-5-2"]

# Folders of their own: how they are saved, and as what.
ROPE = dict(rope_type="default", rope_theta=10000.0)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
SIZES = dict(vocab_size=89, max_position_embeddings=128, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2)
EXPERTS = dict(num_hidden_layers=1, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=8,
               shared_expert_intermediate_size=24, norm_topk_prob=False)
OWN = [
    (Case("llama3-sharded", llama.Llama(), 200,
          SIZES | dict(head_dim=16, tie_word_embeddings=False, attention_bias=True, mlp_bias=True, rope_parameters=LLAMA3),
          n_tokens=96), torch.float32, "16KB"),
    (Case("gemma3-f16", gemma.Gemma3(True), 201,
          SIZES | dict(head_dim=16, num_hidden_layers=3, query_pre_attn_scalar=24, sliding_window=8,
                       layer_types=["full_attention", "sliding_attention", "sliding_attention"],
                       rope_parameters=gemma.two_ropes(500.0, rope_type="linear", factor=4.0, rope_theta=1e6))),
     torch.float16, "1GB"),
    (Case("qwen2-bf16", qwen.Qwen2(), 202, SIZES | dict(tie_word_embeddings=False, rope_parameters=ROPE)),
     torch.bfloat16, "1GB"),
    (Case("qwen2moe-6-2", qwen.Qwen2Moe(), 203, SIZES | EXPERTS | dict(tie_word_embeddings=False, rope_parameters=ROPE)),
     torch.float32, "1GB"),
]


def save(model, folder, max_shard_size):
    """The folder as `save_pretrained` writes it, made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, max_shard_size=max_shard_size)
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{folder.name}: {size:,} bytes in {len(list(folder.iterdir()))} files", flush=True)


def make_own(case, dtype, max_shard_size, folder):
    """A folder whose expected logits are written beside it: those of the stored parameters in float32."""
    save(make_model(case).to(dtype), folder / case.name, max_shard_size)
    # Read back, since the conversion rounds more than parameters: the rotary frequencies too.
    model = case.arch.model.from_pretrained(folder / case.name, dtype=torch.float32, attn_implementation="eager").eval()
    generator = torch.Generator().manual_seed(1000 + case.seed)
    tokens = torch.randint(0, model.config.vocab_size, (case.n_tokens,), generator=generator).tolist()
    with torch.no_grad():
        found = expected(case, model, tokens).astype("<f4")
    found.tofile(folder / f"{case.name}.logits.f32")
    source = (f"transformers {transformers.__version__}, torch {torch.__version__}, float32, eager attention, "
              f"seed {case.seed}, parameters {dtype}")
    facts = dict(tokens=tokens, n_vocab=model.config.vocab_size, source=source)
    (folder / f"{case.name}.json").write_text(json.dumps(facts, separators=(",", ":")) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUTPUT, help="folder to write to (%(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    wanted = lambda name: not args.names or any(name.startswith(n) for n in args.names)
    cases = {case.name: case for case in CASES}
    for name in filter(wanted, SAME):
        save(make_model(cases[name]), args.out / name, "1GB")
    for case, dtype, max_shard_size in OWN:
        if wanted(case.name):
            make_own(case, dtype, max_shard_size, args.out)


if __name__ == "__main__":
    main()
