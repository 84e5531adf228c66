"""Writes the tiny seeded models of make_fixtures.py as Hugging Face folders, as `save_pretrained` leaves them.

tests/fixtures/hf/NAME is the folder of the model of tests/fixtures/models/NAME.gguf: the same parameters, bit by bit,
so that file's expected logits hold for it too. Four more have no such file and their own expected logits, as
NAME.logits.f32 and NAME.json beside the folder: one in several shards, two stored as F16 and BF16, whose logits are
those of the rounded parameters in float32, one with experts, and one whose experts are in MXFP4 as gpt-oss publishes them.

    python hf_folders.py [--out FOLDER] [NAME ...]     (all, or those whose name begins so)
"""

import argparse
import json
import shutil
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

from fixtures import gemma, gpt_oss, llama, mamba, qwen
from fixtures.cases import CASES
from fixtures.core import Case, expected, make_model

DEFAULT_OUTPUT = Path(__file__).resolve().parents[1] / "fixtures" / "hf"

# Cases of make_fixtures.py: one of each family at least.
SAME = ["llama-yarn", "llama-window", "llama-moe-4-2", "qwen2-tied", "qwen3-tied", "qwen3moe-8-2", "gemma", "gemma2",
        "gemma3", "gpt2-untied", "bert", "nomic-bert", "phi2", "phi3-longrope-short", "phimoe-longrope", "phimoe-window", "gptneox-sequential",
        "starcoder2-window", "stablelm-parallel-qknorm", "olmo2", "smollm3", "granite", "granitemoe-7-3", "granitemoe-5-2", "lfm2", "lfm2-long", "lfm3", "lfm2moe-7-3", "lfm2moe-5-2",
        "qwen35-list", "qwen35moe-7-3", "qwen3next-7-3", "qwen3next-old", "qwen2vl", "qwen25vl", "qwen3vl", "qwen3vlmoe-7-3", "gpt-oss", "ministral3",
        "ministral3-stretched", "granitehybrid", "granitehybrid-dense", "nemotron-h", "mamba", "mamba-norms",
        "gemma4-shared", "gemma4-keys", "gemma4-experts", "gemma3n", "gemma3n-three",
        "deepseek2-lite", "deepseek2-groups", "deepseek2-sigmoid", "deepseek2-v3",
        "modern-bert", "eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v2-code", "jina-bert-v3", "nomic-bert-moe-bias", "xlm-roberta",
        "distilbert", "mpnet", "mpt", "command-r-plus", "dots1", "hunyuan-dense", "hunyuan-moe", "ernie4_5", "ernie4_5-moe",
        "t5encoder", "t5encoder-gated", "t5encoder-each", "t5", "t5-gated", "t5-each", "arcee", "seed-oss",
        "olmo3", "olmoe-6-2", "glm4", "glm4moe", "cohere2", "exaone4", "exaone4-window", "mamba2", "bloom", "gptj", "falcon", "falcon-40b",
        "apertus", "falcon-h1", "falcon-h1-norm", "minicpm3", "llama4", "bitnet"]

# Saved as the published models are, with all experts of a layer in one tensor: `save_pretrained` takes them apart.
JOINT = ["qwen35moe-7-3"]

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
    (Case("nemotron-h-experts", mamba.NemotronHMoe(), 205,
          mamba.NEMOTRON | dict(layers_block_type=["linear_attention", "moe", "full_attention"], mamba_num_heads=4, mamba_head_dim=16,
                                n_groups=2, ssm_state_size=12, n_routed_experts=5, num_experts_per_tok=2, moe_intermediate_size=24,
                                moe_shared_expert_intermediate_size=40, moe_latent_size=20, routed_scaling_factor=1.3, time_step_min=0.2,
                                mtp_layers_block_type=["full_attention"])),
     torch.float32, "1GB"),
]
MXFP4 = Case("gpt-oss-mxfp4", gpt_oss.GptOss(), 204,
             SIZES | dict(hidden_size=64, intermediate_size=32, head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=9,
                          rope_parameters=gpt_oss.YARN), n_tokens=60)


def save(model, folder, max_shard_size, arch=None):
    """The folder as `save_pretrained` writes it, made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    if arch and hasattr(arch, "folder"):
        # A model that `transformers` does not have.
        config, tensors = arch.folder(model)
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
        save_file({name: t.contiguous() for name, t in tensors.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    else:
        model.save_pretrained(folder, max_shard_size=max_shard_size)
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{folder.name}: {size:,} bytes in {len(list(folder.iterdir()))} files", flush=True)


def make_own(case, dtype, max_shard_size, folder):
    """A folder whose expected logits are written beside it: those of the stored parameters in float32."""
    save(make_model(case).to(dtype), folder / case.name, max_shard_size)
    # Read back, since the conversion rounds more than parameters: the rotary frequencies too.
    model = case.arch.model.from_pretrained(folder / case.name, dtype=torch.float32, attn_implementation="eager").eval()
    write_expected(case, model, folder, f"parameters {dtype}")


def write_expected(case, model, folder, how):
    """The prompt, and the logits of `model`."""
    generator = torch.Generator().manual_seed(1000 + case.seed)
    tokens = torch.randint(0, model.config.vocab_size, (case.n_tokens,), generator=generator).tolist()
    with torch.no_grad():
        found = expected(case, model, tokens).astype("<f4")
    found.tofile(folder / f"{case.name}.logits.f32")
    source = (f"transformers {transformers.__version__}, torch {torch.__version__}, float32, eager attention, "
              f"seed {case.seed}, {how}")
    facts = dict(tokens=tokens, n_vocab=model.config.vocab_size, source=source)
    (folder / f"{case.name}.json").write_text(json.dumps(facts, separators=(",", ":")) + "\n")


@torch.no_grad()
def make_mxfp4(case, folder):
    """A folder whose experts are codes and scales, and the logits that `transformers` makes of it in float32."""
    model = make_model(case)
    save(model, folder / case.name, "1GB")
    tensors = load_file(folder / case.name / "model.safetensors")
    for name in [name for name in tensors if name.endswith((".gate_up_proj", ".down_proj")) and "experts" in name]:
        rows = tensors.pop(name).transpose(1, 2).contiguous()
        blocks = gguf.quantize(rows.numpy(), gguf.GGMLQuantizationType.MXFP4).reshape(*rows.shape[:2], -1, 17)
        low, high = blocks[..., 1:] & 15, blocks[..., 1:] >> 4
        codes = np.concatenate([low, high], axis=-1)
        tensors[name + "_blocks"] = torch.from_numpy(codes[..., ::2] | codes[..., 1::2] << 4)
        tensors[name + "_scales"] = torch.from_numpy(blocks[..., 0].copy())
    save_file({name: t.contiguous() for name, t in tensors.items()}, folder / case.name / "model.safetensors", metadata={"format": "pt"})
    path = folder / case.name / "config.json"
    config = json.loads(path.read_text()) | dict(quantization_config=dict(quant_method="mxfp4", modules_to_not_convert=["lm_head"]))
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    model = case.arch.model.from_pretrained(folder / case.name, dtype=torch.float32, attn_implementation="eager",
                                            quantization_config=transformers.Mxfp4Config(dequantize=True)).float().eval()
    write_expected(case, model, folder, "experts in MXFP4")


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
        model = make_model(cases[name])
        save(model, args.out / name, "1GB", cases[name].arch)
        if name in JOINT:
            save_file(model.state_dict(), args.out / name / "model.safetensors", metadata={"format": "pt"})
    for case, dtype, max_shard_size in OWN:
        if wanted(case.name):
            make_own(case, dtype, max_shard_size, args.out)
    if wanted(MXFP4.name):
        make_mxfp4(MXFP4, args.out)


if __name__ == "__main__":
    main()
