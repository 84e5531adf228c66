"""Writes models of random weights in the shapes of real ones, with fewer layers and a small vocabulary, to measure speed with.

    python bench/shapes.py LLAMA_CPP_SOURCE OUT_FOLDER [NAME ...]

LLAMA_CPP_SOURCE is `vendor/llama.cpp` of the source package of llama-cpp-python, whose converter writes the files
(OUT_FOLDER/NAME-f16.gguf); the example `quantize` makes Q4_0 and Q4_K_M of them. The environment is that of tests/oracle.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "oracle"))

N_VOCAB = 32_000
COMMON = dict(vocab_size=N_VOCAB, max_position_embeddings=8192, pad_token_id=None, bos_token_id=1, eos_token_id=2)


def shapes():
    """For each name a class of transformers and its configuration."""
    import transformers as t
    linear, full = "linear_attention", "full_attention"
    return {
        "lfm2-1.2b": (t.Lfm2ForCausalLM, t.Lfm2Config(
            hidden_size=2048, intermediate_size=12288, num_hidden_layers=8, num_attention_heads=32,
            num_key_value_heads=8, layer_types=["conv", "conv", full] * 2 + ["conv", full], **COMMON)),
        "qwen3.5-0.8b": (t.Qwen3_5ForCausalLM, t.Qwen3_5TextConfig(
            hidden_size=1024, intermediate_size=3584, num_hidden_layers=12, num_attention_heads=8,
            num_key_value_heads=2, head_dim=256, linear_num_key_heads=16, linear_num_value_heads=16,
            linear_key_head_dim=128, linear_value_head_dim=128, linear_conv_kernel_dim=4,
            layer_types=[linear, linear, linear, full] * 3, **COMMON)),
        "gemma4-e2b": (t.Gemma4ForCausalLM, t.Gemma4TextConfig(
            hidden_size=1536, intermediate_size=6144, num_hidden_layers=10, num_attention_heads=8,
            num_key_value_heads=1, head_dim=256, global_head_dim=512, sliding_window=512,
            hidden_size_per_layer_input=256, vocab_size_per_layer_input=N_VOCAB, num_kv_shared_layers=5,
            use_double_wide_mlp=True, layer_types=(["sliding_attention"] * 4 + [full]) * 2, **COMMON)),
        "gpt-oss-20b": (t.GptOssForCausalLM, t.GptOssConfig(
            hidden_size=2880, intermediate_size=2880, num_hidden_layers=2, num_attention_heads=64,
            num_key_value_heads=8, head_dim=64, num_local_experts=32, num_experts_per_tok=4, sliding_window=128,
            **COMMON)),
        "granite4-h-tiny": (t.GraniteMoeHybridForCausalLM, t.GraniteMoeHybridConfig(
            hidden_size=1536, intermediate_size=512, shared_intermediate_size=1024, num_hidden_layers=6,
            num_attention_heads=12, num_key_value_heads=4, num_local_experts=64, num_experts_per_tok=6,
            mamba_n_heads=48, mamba_d_head=64, mamba_d_state=128, mamba_n_groups=1, mamba_d_conv=4, mamba_expand=2,
            position_embedding_type="nope", layer_types=[linear] * 5 + [full], **COMMON)),
        "glm-4.7-flash": (t.Glm4MoeLiteForCausalLM, t.Glm4MoeLiteConfig(
            hidden_size=2048, intermediate_size=10240, moe_intermediate_size=1536, num_hidden_layers=3,
            num_attention_heads=20, num_key_value_heads=20, q_lora_rank=768, kv_lora_rank=512, qk_nope_head_dim=192,
            qk_rope_head_dim=64, v_head_dim=256, n_routed_experts=64, num_experts_per_tok=4, n_shared_experts=1,
            n_group=1, topk_group=1, mlp_layer_types=["dense", "sparse", "sparse"], **COMMON)),
    }


def make(name, folder):
    """Saves the model, whose weights are about as large as trained ones."""
    import torch
    cls, config = shapes()[name]
    # llama.cpp wants the output projection of these.
    config.tie_word_embeddings = name not in ("gpt-oss-20b", "glm-4.7-flash")
    torch.set_default_dtype(torch.bfloat16)
    torch.manual_seed(1)
    model = cls(config)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.02)
    model.save_pretrained(folder, max_shard_size="2GB")


def convert(source, folder, out):
    """As in tests/oracle/convert_folders.py, in F16 and with a vocabulary of unused tokens."""
    import convert_folders
    copy = folder.with_name("published")
    convert_folders.published(folder, copy)
    vocab = {str(i): i for i in range(N_VOCAB)}
    (copy / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab}, "added_tokens": []}))
    convert_folders.convert(source, copy, out, "MOSTLY_F16")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.names or shapes():
        out = args.out / f"{name}-f16.gguf"
        if out.exists():
            continue
        with tempfile.TemporaryDirectory(dir=args.out) as scratch:
            for step in ((make, name, Path(scratch) / "model"), (convert, args.source, Path(scratch) / "model", out)):
                process = multiprocessing.get_context("spawn").Process(target=step[0], args=step[1:])
                process.start()
                process.join()
                if process.exitcode:
                    sys.exit(f"{name}: {step[0].__name__} failed")
        print(out, flush=True)


if __name__ == "__main__":
    main()
