"""Drives every field of the configuration classes of the supported model types, one at a time, through `transformers`.

Each case is a folder of tests/fixtures/hf whose `config.json` has one field absent, null or changed, or two that
contradict each other, or whose tensors differ from what the configuration says. What `transformers` makes of it goes into
tests/fixtures/hf_fields/MODEL_TYPE.json: the same numbers as the unchanged folder ("base"), other numbers (where they begin in
MODEL_TYPE.f32, two rows: those of a token in the middle and of the last), an error, or numbers that are partly random because the
folder lacks tensors. Sixteen folders of each model type have several fields changed at random. tests/it/hf_fields.rs holds Ember to them: the same numbers, or a refusal that names the field.

    python hf_fields.py [--out FOLDER] [MODEL_TYPE ...]     (all, or those that are named)
    python hf_fields.py --check     whether docs/folder-fields.md lists every field that the installed `transformers` has

A name with "+decoder" stands for the class with a decoder of a model type whose encoder is driven by itself too, and one with another
addition for another of its models.
"""

import argparse
import copy
import json
import logging
import random
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import transformers
from transformers import CONFIG_MAPPING

try:  # --check needs neither
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import AutoModel, AutoModelForCausalLM
except ImportError:
    torch = None

ROOT = Path(__file__).resolve().parents[1] / "fixtures"
DEFAULT_OUTPUT = ROOT / "hf_fields"
PAGE = ROOT.parents[1] / "docs/folder-fields.md"
# How many folders of each model type have several fields changed at random.
RANDOM_FOLDERS = 16

# The folder whose changes are driven for each model type.
BASES = {
    "llama": "llama-yarn", "mistral": "llama-window", "mixtral": "llama-moe-4-2", "qwen2": "qwen2-tied",
    "qwen3": "qwen3-tied", "qwen2_moe": "qwen2moe-6-2", "qwen3_moe": "qwen3moe-8-2", "gemma": "gemma", "gemma2": "gemma2",
    "gemma3_text": "gemma3", "gemma3": "gemma3", "gpt2": "gpt2-untied", "bert": "bert", "nomic_bert": "nomic-bert",
    "phi": "phi2", "phi3": "phi3-longrope-short", "phimoe": "phimoe-window", "gpt_neox": "gptneox-sequential", "starcoder2": "starcoder2-window",
    "stablelm": "stablelm-parallel-qknorm", "olmo2": "olmo2", "smollm3": "smollm3", "granite": "granite", "granitemoe": "granitemoe-5-2", "granitemoeshared": "granitemoe-7-3",
    "lfm2": "lfm2-long", "lfm2_moe": "lfm2moe-7-3", "qwen3_next": "qwen3next-old", "qwen3_5_text": "qwen35-list",
    "qwen3_5": "qwen35-list", "qwen3_5_moe_text": "qwen35moe-7-3", "qwen3_5_moe": "qwen35moe-7-3",
    "qwen2_vl": "qwen2vl", "qwen2_5_vl": "qwen25vl", "qwen3_vl": "qwen3vl", "qwen3_vl_moe": "qwen3vlmoe-7-3", "gpt_oss": "gpt-oss", "ministral3": "ministral3", "mistral3": "ministral3", "deepseek_v2": "deepseek2-groups", "deepseek_v3": "deepseek2-v3", "glm4_moe_lite": "deepseek2-sigmoid", "gemma4_text": "gemma4-shared", "gemma4": "gemma4-shared", "gemma3n_text": "gemma3n", "gemma3n": "gemma3n",
    "modernbert": "modern-bert", "eurobert": "eurobert", "jina_embeddings_v3": "jina-bert-v3", "xlm-roberta": "xlm-roberta", "roberta": "xlm-roberta",
    "camembert": "xlm-roberta", "distilbert": "distilbert", "mpnet": "mpnet", "t5": "t5encoder", "mt5": "t5encoder-gated", "umt5": "t5encoder-each",
    "t5+decoder": "t5", "mt5+decoder": "t5-gated", "umt5+decoder": "t5-each", "arcee": "arcee", "seed_oss": "seed-oss", "granitemoehybrid": "granitehybrid", "nemotron_h": "nemotron-h",
    "lfm3": "lfm3", "mamba": "mamba", "falcon_mamba": "mamba-norms", "mpt": "mpt", "cohere": "command-r-plus", "dots1": "dots1", "hunyuan_v1_dense": "hunyuan-dense",
    "hunyuan_v1_moe": "hunyuan-moe", "ernie4_5": "ernie4_5", "ernie4_5_moe": "ernie4_5-moe",
    "olmo3": "olmo3", "olmoe": "olmoe-6-2", "glm4": "glm4", "glm4_moe": "glm4moe", "cohere2": "cohere2", "exaone4": "exaone4-window",
    "mamba2": "mamba2", "bloom": "bloom", "gptj": "gptj", "falcon": "falcon", "falcon+two_norms": "falcon-40b", "apertus": "apertus", "falcon_h1": "falcon-h1",
    "minicpm3": "minicpm3", "llama4_text": "llama4", "llama4": "llama4", "bitnet": "bitnet",
}
# Models that see, whose part about language is driven; and the class of that part.
WRAPPERS = {"gemma3": "gemma3_text", "qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text",
            "qwen2_vl": "qwen2_vl_text", "qwen2_5_vl": "qwen2_5_vl_text", "qwen3_vl": "qwen3_vl_text",
            "qwen3_vl_moe": "qwen3_vl_moe_text", "mistral3": "ministral3", "gemma4": "gemma4_text",
            "gemma3n": "gemma3n_text", "llama4": "llama4_text"}
# What is set in that folder before, since `transformers` 5.24 fails on YaRN beside a `head_dim` that is null.
OVERRIDES = {"mixtral": {"head_dim": 8}, "roberta": {"model_type": "roberta", "architectures": ["RobertaModel"]},
             "camembert": {"model_type": "camembert", "architectures": ["CamembertModel"]}}
ENCODERS = {"bert", "nomic_bert", "modernbert", "eurobert", "jina_embeddings_v3", "xlm-roberta", "roberta", "camembert", "distilbert", "mpnet"}
# Models with a decoder, of which the encoder by itself is driven.
HALVES = {"t5": "T5EncoderModel", "mt5": "MT5EncoderModel", "umt5": "UMT5EncoderModel"}
# The same with their decoders.
WHOLES = {f"{name}+decoder" for name in HALVES}
# Fields that every configuration has although its class does not list them, and older names.
LEGACY = {
    "all": ["torch_dtype", "rope_theta", "rope_scaling", "original_max_position_embeddings", "partial_rotary_factor", "head_dim",
            "attn_implementation", "quantization_config", "auto_map", "layer_types", "sliding_window", "num_key_value_heads",
            "temperature", "top_k", "repetition_penalty", "per_layer_config", "tie_word_embeddings"],
    "gemma3_text": ["rope_local_base_freq", "sliding_window_pattern"],
    "gemma3": ["rope_local_base_freq", "sliding_window_pattern"],
    "gemma2": ["hidden_act", "sliding_window_pattern"],
    "deepseek_v2": ["moe_layer_freq", "scoring_func", "aux_loss_alpha", "seq_aux"],
    "deepseek_v3": ["moe_layer_freq", "scoring_func", "topk_method", "num_nextn_predict_layers", "num_local_experts", "aux_loss_alpha", "seq_aux"],
    "glm4_moe_lite": ["first_k_dense_replace", "num_nextn_predict_layers", "topk_method", "num_local_experts"],
    "gemma4_text": ["global_head_dim", "num_global_key_value_heads"],
    "granitemoehybrid": ["layers_block_type", "normalization_function"],
    "nemotron_h": ["hybrid_override_pattern", "layer_types", "num_hidden_layers", "attention_head_dim", "mamba_n_groups", "mamba_d_conv",
                   "mamba_dt_min", "mamba_dt_limit", "mamba_conv_bias", "num_local_experts"],
    "mamba": ["layer_types"], "falcon_mamba": ["use_falcon_mambapy"],
    "gpt_oss": ["num_experts", "experts_per_token", "initial_context_length"],
    "lfm2_moe": ["tie_embedding", "num_local_experts"],
    "qwen3_next": ["full_attention_interval", "num_local_experts"], "qwen3_5_text": ["full_attention_interval", "mtp_num_hidden_layers"],
    "qwen3_5_moe_text": ["full_attention_interval", "num_local_experts", "intermediate_size", "norm_topk_prob"],
    "lfm2": ["tie_embedding", "block_ff_dim", "theta", "conv_dim", "conv_use_xavier_init", "block_use_swiglu", "use_pos_enc"],
    "gemma": ["hidden_activation"],
    "gpt_neox": ["rotary_pct", "rotary_emb_base"],
    "bert": ["position_embedding_type", "pooler_type"], "roberta": ["position_embedding_type"], "xlm-roberta": ["position_embedding_type"],
    "camembert": ["position_embedding_type"], "modernbert": ["global_attn_every_n_layers", "global_rope_theta", "local_rope_theta"],
    "distilbert": ["hidden_size", "num_hidden_layers", "num_attention_heads", "hidden_act"],
    **{name: ["hidden_size", "num_hidden_layers", "num_attention_heads", "n_positions", "hidden_act"] for name in HALVES},
    **{name: ["hidden_size", "num_hidden_layers", "num_attention_heads", "n_positions", "hidden_act", "scale_decoder_outputs", "decoder_start_token_id",
              "bos_token_id"] for name in WHOLES},
    "mpnet": ["position_embedding_type"],
    "nomic_bert": ["rotary_emb_base", "rotary_emb_fraction", "rotary_scaling_factor", "prenorm", "causal", "qkv_proj_bias",
                   "max_trained_positions"],
    "olmo3": ["sliding_window_pattern"], "cohere2": ["sliding_window_pattern"], "olmoe": ["num_local_experts"],
    "glm4_moe": ["num_local_experts", "num_nextn_predict_layers", "scoring_func", "topk_method", "moe_layer_freq"],
    "bloom": ["n_embed", "num_hidden_layers", "num_attention_heads", "seq_length", "max_position_embeddings", "alibi"],
    "gptj": ["hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings", "n_ctx", "rotary", "scale_attn_weights"],
    "falcon": ["n_embed", "n_layer", "n_head", "n_head_kv", "rotary", "apply_residual_connection_post_layernorm"],
    "apertus": ["qk_norm", "post_norm", "mlp_bias"], "minicpm3": ["qk_head_dim", "logits_scaling"],
    "mixtral": ["num_experts"],
    "qwen3_moe": ["num_experts"],
    "stablelm": ["rope_pct"],
}
ACTIVATIONS = ["gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "quick_gelu", "relu", "relu2", "silu", "swish", "tanh"]
ABSENT = object()
# Tokens that no text of an encoder with a decoder has.
STARTS = (44, 63)


def language(config):
    """The part that describes the language model."""
    return config.get("text_config", config)


def layers(config):
    config = language(config)
    return config.get("num_hidden_layers") or config.get("n_layer") or config.get("n_layers") or config.get("num_layers") or len(config["layers_block_type"])


def heads(config):
    config = language(config)
    return config.get("num_attention_heads") or config.get("n_head") or config.get("n_heads") or config.get("num_heads")


def head_dim(config):
    config = language(config)
    return config.get("head_dim") or config.get("d_kv") or (config.get("hidden_size") or config.get("n_embd") or config.get("dim") or config.get("d_model")) // (heads(config) or 1)


def rope_values(config):
    """Objects that describe rotary positions, right ones and others."""
    part = (language(config).get("rope_parameters") or {}).get("partial_rotary_factor")
    extra = {} if part is None else {"partial_rotary_factor": part}
    n = int(head_dim(config) * (part or 1.0)) // 2
    theta = {"rope_theta": 5000.0}
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 16}
    long = {"rope_type": "longrope", "short_factor": [1.5] * n, "long_factor": [3.0] * n, "factor": 4.0,
            "original_max_position_embeddings": 32}
    flat = [
        {"rope_type": "default"}, {"rope_type": "default", **theta}, {"type": "default", **theta}, theta, {"rope_theta": None},
        {"rope_type": None, **theta}, {"rope_type": "linear", "factor": 2.0}, {"type": "linear", "factor": 2.0},
        {"factor": 2.0}, {"rope_type": "linear"}, {"rope_type": "linear", "type": "yarn", "factor": 2.0, **theta},
        {"rope_type": "linear", "factor": 2.0, **theta}, {"rope_type": "linear", "factor": 0.5},
        {"rope_type": "linear", "factor": None}, {"rope_type": "dynamic", "factor": 2.0}, yarn, yarn | theta,
        {k: v for k, v in yarn.items() if k != "original_max_position_embeddings"},
        yarn | {"original_max_position_embeddings": None}, yarn | {"factor": None}, yarn | {"factor": 1.0}, yarn | {"factor": 0.5},
        yarn | {"beta_fast": 16.0, "beta_slow": 2.0}, yarn | {"beta_fast": None}, yarn | {"beta_fast": 0},
        yarn | {"beta_slow": 0}, yarn | {"attention_factor": 0.8}, yarn | {"attention_factor": 1}, yarn | {"attention_factor": None},
        yarn | {"attention_factor": 0.0}, yarn | {"mscale": 0.7, "mscale_all_dim": 1.2}, yarn | {"mscale": 0.7},
        yarn | {"mscale_all_dim": 0.7}, yarn | {"mscale": 0.0, "mscale_all_dim": 1.0}, yarn | {"mscale": 0.7, "mscale_all_dim": 1.2,
                                                                                             "attention_factor": 0.9},
        yarn | {"truncate": False}, yarn | {"truncate": True}, yarn | {"truncate": None}, llama3, llama3 | theta,
        {k: v for k, v in llama3.items() if k != "original_max_position_embeddings"}, llama3 | {"low_freq_factor": 2.0},
        llama3 | {"high_freq_factor": None}, {k: v for k, v in llama3.items() if k != "low_freq_factor"},
        llama3 | {"factor": 2.0, "high_freq_factor": 6}, long, long | {"factor": None}, long | {"attention_factor": 0.9},
        {"rope_type": "su", **{k: v for k, v in long.items() if k != "rope_type"}}, {"rope_type": "proportional", **theta},
        {"rope_type": "proportional", "partial_rotary_factor": 0.5, **theta}, {"rope_type": "mrope", "mrope_section": [1, 1, 1]},
        {"rope_type": "unheard-of", **theta}, {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 16},
        {"partial_rotary_factor": 0.5, **theta}, {"rope_theta": 5000.0, "unheard_of": 3},
    ]
    flat = [value if "partial_rotary_factor" in value else value | extra for value in flat] + [{"rope_type": "default", **theta}]
    nested = [{"full_attention": {"rope_type": "default", **theta}}, {"sliding_attention": {"rope_type": "default", **theta}},
              {"full_attention": {"rope_type": "default", **theta},
               "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}},
              {"full_attention": {"rope_type": "linear", "factor": 2.0, **theta}, "sliding_attention": None},
              {"full_attention": None, "sliding_attention": None},
              {"full_attention": yarn, "sliding_attention": {"rope_type": "default"}},
              {"full_attention": {"type": "linear", "factor": 4.0}},
              {"sliding_attention": {"rope_type": "linear", "factor": 2.0}, "full_attention": {"rope_type": "default"}},
              {"full_attention": {"rope_type": "default", **theta}, "sliding_attention": {}, "rope_theta": 77.0}]
    return flat + nested


def rope_cases(config):
    """Whole configurations of rotary positions: fields that meet."""
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
    bare = {k: v for k, v in yarn.items() if k != "original_max_position_embeddings"}
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_theta": 900.0}
    default = {"rope_type": "default", "rope_theta": 1234.0}
    linear = {"type": "linear", "factor": 2.0}
    none = dict(rope_parameters=ABSENT)
    return [
        none | dict(rope_theta=900.0), none | dict(rope_theta=None), none | dict(rope_theta=900.0, rope_scaling=linear),
        none | dict(rope_scaling=linear), none | dict(rope_theta=900.0, rope_scaling=None), none | dict(rope_scaling={}),
        none | dict(rope_theta=900.0, rope_scaling=yarn), none | dict(rope_scaling=yarn | {"rope_theta": 700.0}, rope_theta=900.0),
        dict(rope_parameters=default, rope_theta=900.0), dict(rope_parameters=default, rope_scaling=linear),
        dict(rope_parameters=default, rope_scaling=yarn), dict(rope_parameters=default, rope_scaling=yarn, rope_theta=900.0),
        dict(rope_parameters=default, rope_scaling=None), dict(rope_parameters=default, rope_scaling={}),
        dict(rope_parameters=default, rope_scaling=yarn | {"rope_theta": 700.0}),
        dict(rope_parameters=yarn, rope_scaling=default), dict(rope_parameters=None, rope_scaling=yarn, rope_theta=800.0),
        dict(rope_parameters={}, rope_theta=800.0), dict(rope_parameters={}), dict(rope_parameters=None, rope_theta=800.0),
        dict(rope_parameters=bare, original_max_position_embeddings=24),
        dict(rope_parameters=yarn, original_max_position_embeddings=24),
        dict(rope_parameters=yarn | {"original_max_position_embeddings": 24}, original_max_position_embeddings=None),
        none | dict(rope_scaling=yarn, original_max_position_embeddings=24),
        none | dict(rope_scaling=bare, original_max_position_embeddings=24, rope_theta=900.0),
        none | dict(rope_scaling=bare, max_position_embeddings=40), dict(rope_parameters=bare, max_position_embeddings=40),
        dict(rope_parameters=llama3 | {"original_max_position_embeddings": 16}, original_max_position_embeddings=24),
        dict(rope_parameters=llama3, original_max_position_embeddings=24), dict(rope_parameters=llama3),
        dict(rope_parameters=llama3 | {"original_max_position_embeddings": 16}, rope_scaling=None),
        none | dict(rope_theta=900.0, rope_scaling={k: v for k, v in llama3.items() if k != "rope_theta"}),
        none | dict(rope_theta=900.0, partial_rotary_factor=0.5),
        dict(rope_parameters=default | {"partial_rotary_factor": 0.5}, partial_rotary_factor=0.25),
        dict(rope_parameters=default, partial_rotary_factor=0.5),
        dict(rope_parameters=default, partial_rotary_factor=None),
    ]


def gemma3_rope_cases():
    """What only a model with two bases has."""
    both = {"full_attention": {"rope_type": "default", "rope_theta": 900.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 70.0}}
    linear = {"rope_type": "linear", "factor": 2.0}
    none = dict(rope_parameters=ABSENT)
    return [
        none | dict(rope_local_base_freq=50.0), none | dict(rope_local_base_freq=50.0, rope_theta=900.0),
        none | dict(rope_local_base_freq=50.0, rope_theta=900.0, rope_scaling=linear),
        dict(rope_parameters=both, rope_local_base_freq=50.0), dict(rope_parameters=both, rope_theta=50.0),
        dict(rope_parameters=both, rope_scaling=linear), dict(rope_parameters=both, rope_scaling=linear | {"rope_theta": 5.0}),
        dict(rope_parameters={"full_attention": {"rope_type": "linear", "factor": 2.0}}, rope_theta=900.0, rope_local_base_freq=50.0),
        dict(rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 900.0}),
        dict(rope_parameters={"rope_type": "linear", "factor": 2.0}, rope_theta=900.0, rope_local_base_freq=50.0),
        none | dict(rope_local_base_freq=None, rope_theta=900.0), none | dict(rope_scaling=linear),
        none | dict(rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}),
        dict(rope_parameters=both, rope_scaling={"rope_type": "yarn", "factor": 4.0}, original_max_position_embeddings=24),
        dict(sliding_window_pattern=2, layer_types=ABSENT), dict(_sliding_window_pattern=2, layer_types=ABSENT),
        dict(sliding_window_pattern=2), dict(layer_types=ABSENT),
    ]


def has_delta_nets(config):
    return "linear_num_key_heads" in language(config)


MAMBA, FULL = "linear_attention", "full_attention"


def has_mixers(config):
    return "mamba_n_heads" in config or "mamba_num_heads" in config


def old_kinds(kinds):
    """The kinds of layers under their older names."""
    return [{MAMBA: "mamba", FULL: "attention"}.get(str(kind), kind) for kind in (kinds if isinstance(kinds, list) else [])]


def values(field, config):
    """What a field is changed to."""
    now, n = config.get(field), layers(config)
    if field in ("hidden_act", "hidden_activation", "activation_function"):
        return [None, *ACTIVATIONS]
    if field in ("rope_parameters", "rope_scaling"):
        return [None, {}, *rope_values(config)]
    if field == "layer_types":
        full, local = "full_attention", "sliding_attention"
        linear = "linear_attention"
        if config.get("model_type") == "llama4_text":
            kinds = [("chunked_attention" if i % 4 != 3 else full) for i in range(n)]
            return [None, kinds, kinds + [full], kinds[:-1], [full] * n, ["chunked_attention"] * n, [local] * n]
        if config.get("model_type") == "falcon_h1":
            return [None, ["hybrid"] * n, [MAMBA] * n]
        if has_mixers(config):
            return [None, old_kinds(now), [MAMBA] * n, [FULL] * n, [MAMBA] * (n - 1) + [FULL], [MAMBA] * (n - 1), ["conv"] * n]
        mixed = [] if not has_delta_nets(config) else [[linear if i % 3 else full for i in range(n)], [full] * (n - 1) + [linear]]
        return mixed + [None, [full] * n, [local] * n, [local if i % 2 else full for i in range(n)],
                [full if i % 2 else local for i in range(n)], [full] * (n + 1), [full] * (n - 1), ["chunked_attention"] * n,
                ["linear_attention"] * n]
    special = {
        "no_rope_layers": [None, [1] * n, [0] * n, [i % 2 for i in range(n)], [1] * (n - 1), []],
        "no_rope_layer_interval": [None, 2, 4, 1],
        "mlp_only_layers": [None, [], [0], [n - 1], [n + 5]],
        "decoder_sparse_step": [None, 1, 2, 3],
        "quantization_config": [None, {"quant_method": "bitsandbytes", "load_in_4bit": True}],
        "auto_map": [None, {}, {"AutoModel": "modeling.Model"}],
        "architectures": [None, [], ["UnheardOf"]],
        "position_embedding_type": [None, "absolute", "relative_key", "rope", "nope"],
        "hybrid_override_pattern": [None, "M-*-MM", "M-*-M-", "M-*-MX", "M-*-ME", ""],
        "layers_block_type": [None, old_kinds(now), [MAMBA, "mlp", FULL, "mlp", FULL, MAMBA], [MAMBA] * n, [FULL] * n, ["conv"] * n],
        "time_step_limit": [None, [0.0, {"__float__": "Infinity"}], [0.01, 0.5], [0.01, {"__float__": "Infinity"}], [0.5], 3],
        "feed_forward_proj": [None, "relu", "gated-gelu", "gated-silu", "gelu", "gelu_new", "gated-relu", "gated-gelu_new"],
        "dense_act_fn": [None, "relu", "gelu", "gelu_new", "silu"], "relative_attention_num_buckets": [None, 12, 2, 4, 13],
        "relative_attention_max_distance": [None, 2, 20, 128, 1000], "num_decoder_layers": [None, *range(5)],
        "decoder_start_token_id": [None, *STARTS, config["vocab_size"], -1] if "vocab_size" in config else [None],
        "num_ln_in_parallel_attn": [None, *range(4)], "num_kv_heads": [None, 1, 2, 4, 3], "activation": [None, *ACTIVATIONS],
        "rotary_dim": [None, 0, 2, 3, 8, 16], "seq_length": [None, 32, 4096],
        "mlp_multipliers": [None, [0.5, 0.7], [1.0], [1.0, 2.0, 3.0]], "ssm_multipliers": [None, [0.5, 0.6, 0.7, 0.8, 0.9], [1.0] * 5, [1.0] * 4],
        "moe_layers": [None, [], [0, 1, 2, 3, 4], [0, 2, 4], [1], [3, 1], [1, 3, 9]], "interleave_moe_layer_step": [None, 1, 3, 9],
        "attention_chunk_size": [None, 3, 8, 64, 0], "floor_scale": [None, 3, 0], "attn_scale": [None, 0.1, 0, -0.2],
        "scale_emb": [None, 5, 0.5, 0], "scale_depth": [None, 1.0, 3, 0], "dim_model_base": [None, 16, 64, 0],
        "clip_qkv": [None, 0.5, 3, 0], "logit_scale": [None, 0.1, 0, -0.5, 1],
        "topk_method": [None, "greedy", "group_limited_greedy", "noaux_tc"], "scoring_func": [None, "softmax", "sigmoid"],
        "mlp_layer_types": [None, ["sparse"] * n, ["dense"] * n, ["dense", "sparse"] * (n // 2), ["dense"] + ["sparse"] * (n - 1)],
        "q_lora_rank": [None, config.get("q_lora_rank"), 7], "first_k_dense_replace": [None, 0, 1, 2, n, n + 1],
        "mamba_d_head": [None, "auto", 3, now], "time_step_min": [None, 0.5], "mamba_dt_min": [None, 0.5],
        "mlp_hidden_act": [None, *ACTIVATIONS], "mamba_hidden_act": [None, *ACTIVATIONS],
        "dtype": [None, "float32"], "torch_dtype": [None, "float32"], "attn_implementation": [None, "eager"],
        "_name_or_path": ["x"], "name_or_path": ["x"], "id2label": [{"0": "a", "1": "b", "2": "c"}], "label2id": [{"a": 0}],
        "problem_type": [None, "regression"], "transformers_version": [None, "4.1.0"],
        "experts_implementation": [None], "per_layer_config": [None] if "per_layer_config" not in config else
        [None, {}, {"0": {"head_dim": 32}}, {str(i): {"head_dim": 32} for i in range(n)}, {"1": {"head_dim": 32}},
         {"1": {"head_dim": 32}, "4": {"head_dim": 32}, "5": {"head_dim": 32, "sliding_window": 3}}],
        "num_kv_shared_layers": [None, 0, 1, 3, n, n + 1], "use_bidirectional_attention": [None, "vision", "all"] if "per_layer_config" in config else [None, True],
        "global_head_dim": [None, 16, 32, 64], "num_global_key_value_heads": [None, 1, 2], "pooler_type": ["first_token_transform"],
        "full_attention_interval": [None, 1, 2, 3], "linear_conv_kernel_dim": [None, 4, 6],
        "query_pre_attn_scalar": [None, 7, 24.5, 0, -3], "summary_type": ["last"], "summary_activation": [None, "tanh"],
        "eos_token_id": [None, 3, [3, 5]], "sliding_window": [None, 0, 1, 5, 16, 4096],
        "tie_word_embeddings": [None, True, False], "head_dim": [None, head_dim(config), head_dim(config) * 2, 8],
        "rms_norm_eps": [None, 1e-2, 0, 1e-12], "layer_norm_eps": [None, 1e-2, 0, 1e-12], "norm_epsilon": [None, 1e-2],
        "layer_norm_epsilon": [None, 1e-2], "partial_rotary_factor": [None, 0.25, 0.5, 1.0, 0.0, 2.0],
        "rotary_pct": [None, 0.5, 1.0], "rotary_emb_base": [None, 777.0], "rope_pct": [0.5],
        "rope_theta": [None, 777.0, 777, 0, -5.0], "original_max_position_embeddings": [None, 16],
        "rope_local_base_freq": [None, 50.0], "max_trained_positions": [None, 16], "norm_topk_prob": [None, True, False],
        "num_experts_per_tok": [None, 1, 3, 99], "attention_multiplier": [None, 0.3, 0, 1], "embedding_multiplier": [None, 3, 0.5, 0],
        "residual_multiplier": [None, 0.5, 0, 2], "logits_scaling": [None, 4, 0.25], "attn_logit_softcapping": [None, 0, 5.0, 2],
        "final_logit_softcapping": [None, 0, 5.0, 2], "max_window_layers": [None, 0, 1, 99],
        "num_key_value_heads": [None, heads(config) or 2, 1], "time_step_rank": [None, "auto", now, 3], "type_vocab_size": [None, 1, 2, 3], "pad_token_id": [None, 3],
        "max_position_embeddings": [None, 32, 64, 4096], "n_positions": [None, 32, 64, 4096],
        "text_config": [None, {}], "vision_config": [None, {}], "sliding_window_pattern": [None, 2, 3, 1],
        "_sliding_window_pattern": [None, 2, 3],
    }
    if field in special:
        return special[field]
    if isinstance(now, bool) or field.startswith(("use_", "is_", "add_", "output_", "qk_", "qkv_", "return_", "scale_", "reorder")):
        return [None, True, False]
    if isinstance(now, int):
        return [None, now + 1, max(now - 1, 0), now * 2]
    if isinstance(now, float):
        return [None, now * 1.5 + 0.1, 0.0]
    return [None, 3]


def own_fields(model_type):
    """The fields of a configuration class, as a saved file has them."""
    config = CONFIG_MAPPING[model_type.split("+")[0]]()
    fields = set(config.to_dict())
    return sorted((fields | {"_name_or_path"}) - {"model_type"})


def all_fields(model_type):
    legacy = LEGACY["all"] + LEGACY.get(model_type, [])
    if model_type in WRAPPERS:
        text = set(CONFIG_MAPPING[WRAPPERS[model_type]]().to_dict()) - {"model_type"}
        own = {"gemma3": ["rope_local_base_freq"], "qwen3_5": ["full_attention_interval"],
               "qwen3_5_moe": ["full_attention_interval"], "gemma4": ["global_head_dim"]}.get(model_type, ["head_dim"])
        return own_fields(model_type), sorted(text | {"rope_theta", "rope_scaling", *own})
    return sorted(set(own_fields(model_type)) | set(legacy)), []


def cases(model_type, config):
    """(field, keys that are set or ABSENT, changes to the tensors) of every case."""
    out = []
    fields, inner = all_fields(model_type)
    if model_type in WRAPPERS and model_type != "gemma3":
        # Its default is a model of tens of GB.
        fields = [field for field in fields if field != "text_config"]
    for field in fields:
        if field in config:
            out.append((field, {field: ABSENT}, {}))
        for value in values(field, config):
            if field not in config or config[field] != value:
                out.append((field, {field: value}, {}))
    for field in inner:
        text, place = config["text_config"], f"text_config.{field}"
        if field in text:
            out.append((place, {place: ABSENT}, {}))
        out += [(place, {place: value}, {}) for value in values(field, text) if field not in text or text[field] != value]
    if "rope_parameters" in config:
        out += [("rope_parameters", change, {}) for change in rope_cases(config)]
    out += [(next(iter(change)), change, {}) for change in OWN_CASES.get(model_type, [])]
    if model_type in ("gemma3_text", "olmo3"):
        out += [("rope_parameters", change, {}) for change in gemma3_rope_cases()]
    if model_type == "modernbert":
        names = {"rope_local_base_freq": "local_rope_theta", "rope_theta": "global_rope_theta", "sliding_window_pattern": "global_attn_every_n_layers"}
        out += [("rope_parameters", {names.get(key, key): value for key, value in change.items()}, {}) for change in gemma3_rope_cases()]
    if "use_sliding_window" in config:
        for change in (dict(use_sliding_window=True, sliding_window=8), dict(use_sliding_window=True, sliding_window=8, max_window_layers=0),
                       dict(use_sliding_window=False, sliding_window=8), dict(use_sliding_window=True, sliding_window=None),
                       dict(use_sliding_window=True, sliding_window=8, max_window_layers=0, layer_types=ABSENT)):
            out.append(("use_sliding_window", change, {}))
    if "layer_types" in config:
        out.append(("layer_types", dict(layer_types=ABSENT), {}))
        out.append(("layer_types", dict(layer_types=["sliding_attention"] * layers(config), sliding_window=6), {}))
    if model_type in WHOLES:
        start = "decoder_start_token_id"
        out += [(start, {start: value, "bos_token_id": STARTS[1]}, {}) for value in (ABSENT, None, STARTS[0])]
        scale = "scale_decoder_outputs"
        out += [("tie_word_embeddings", {scale: ABSENT, "tie_word_embeddings": tie}, {}) for tie in (ABSENT, None, True, False)]
        out += [(scale, {scale: scales, "tie_word_embeddings": tie}, {}) for scales in (None, True, False) for tie in (True, False)]
        out += [("num_decoder_layers", {"num_decoder_layers": ABSENT, "num_layers": n}, {}) for n in range(1, 5)]
    return out + head_cases(model_type, config)


OWN_CASES = {
    "cohere2": [dict(layer_types=ABSENT), *(dict(layer_types=ABSENT, sliding_window_pattern=n) for n in (None, 0, 1, 2, 3))],
    "olmo3": [dict(layer_types=ABSENT, sliding_window_pattern=2)],
    "exaone4": [dict(layer_types=ABSENT), *(dict(layer_types=ABSENT, sliding_window_pattern=n) for n in (ABSENT, None, 0, 1, 2, 3, "LLLG")),
                dict(layer_types=ABSENT, sliding_window=None), dict(layer_types=["full_attention"] * 4, sliding_window=None),
                dict(layer_types=["full_attention"] * 4, sliding_window=None, sliding_window_pattern=None),
                dict(layer_types=["sliding_attention"] * 4, sliding_window=None), dict(layer_types=["full_attention"] * 4, sliding_window=ABSENT)],
    "bloom": [dict(pretraining_tp=2, slow_but_exact=True), dict(n_embed=24, hidden_size=ABSENT), dict(n_embed=24, hidden_size=48)],
    "falcon": [dict(n_embed=32, hidden_size=ABSENT), dict(n_embed=32, hidden_size=48), dict(multi_query=False, num_kv_heads=4)],
    "falcon+two_norms": [dict(num_kv_heads=n, multi_query=False) for n in (1, 4)],
    "falcon_h1": [dict(mamba_rms_norm=True, mamba_norm_before_gate=before) for before in (ABSENT, None, True, False)] +
                 [dict(mamba_d_ssm=None, mamba_expand=1), dict(mamba_d_ssm=None, mamba_expand=2)],
    "minicpm3": [dict(q_lora_rank=None), dict(scale_depth=None, scale_emb=1)],
    "llama4_text": [dict(moe_layers=ABSENT, interleave_moe_layer_step=n) for n in (ABSENT, None, 0, 1, 2, 3, 9)] +
                   [dict(no_rope_layers=ABSENT, no_rope_layer_interval=n) for n in (ABSENT, None, 0, 1, 2, 4)] +
                   [dict(no_rope_layers=ABSENT, layer_types=ABSENT, no_rope_layer_interval=2), dict(layer_types=ABSENT, attention_chunk_size=None)],
    "glm4_moe": [dict(n_group=3, topk_group=n) for n in (1, 2, 3, 4)] + [dict(n_group=2, topk_group=ABSENT), dict(n_group=None, topk_group=None)],
}


HEADS = {"gpt_neox": ("embed_out.weight", "gpt_neox.embed_in.weight"), "gpt2": ("lm_head.weight", "transformer.wte.weight"),
         "gptj": ("lm_head.weight", "transformer.wte.weight"), "mamba2": ("lm_head.weight", "backbone.embeddings.weight"),
         **{name: ("lm_head.weight", "transformer.word_embeddings.weight") for name in ("bloom", "falcon", "falcon+two_norms")},
         } | {wrapper: ("lm_head.weight", "model.language_model.embed_tokens.weight") for wrapper in WRAPPERS} | {
             "llama4": ("language_model.lm_head.weight", "language_model.model.embed_tokens.weight")}


def head_cases(model_type, config):
    """Heads that are stored, or not, beside what the configuration says."""
    if model_type in WHOLES:
        return both_cases(config)
    if model_type in HALVES:
        first = "encoder.block.0.layer.1.DenseReluDense"
        kinds = [dict(drop=[f"{first}.{part}.weight"]) for part in ("wi", "wi_0", "wi_1")]
        kinds += [dict(add=[[f"{first}.{new}.weight", f"{first}.{old}.weight", "reversed"]]) for new, old in (("wi_0", "wi"), ("wi_1", "wi"), ("wi", "wi_0"))]
        forms = [("feed_forward_proj", {"feed_forward_proj": form}, kind) for form in ("relu", "gated-gelu") for kind in kinds]
        tables = [("tie_word_embeddings", {"tie_word_embeddings": tie}, dict(add=[["encoder.embed_tokens.weight", "shared.weight", how]], drop=drop))
                  for tie in (True, False) for how in ("same", "reversed") for drop in ([], ["shared.weight"])]
        return forms + tables + bias_cases("encoder")
    if model_type in ENCODERS:
        return []
    head, embedding = HEADS.get(model_type, ("lm_head.weight", "model.embed_tokens.weight"))
    reverse, same = {"add": [[head, embedding, "reversed"]]}, {"add": [[head, embedding, "same"]]}
    drop = {"drop": [head]}
    out = []
    for tie in (True, False, None, ABSENT):
        for tensors in (reverse, same, drop):
            out.append(("tie_word_embeddings", {"tie_word_embeddings": tie}, tensors))
            if "text_config" in config:
                place = "text_config.tie_word_embeddings"
                out.append((place, {place: tie, "tie_word_embeddings": ABSENT}, tensors))
    # Biases that the configuration does not know of.
    for field, stems in (("attention_bias", ("self_attn.q_proj", "self_attn.o_proj")), ("mlp_bias", ("mlp.up_proj",)),
                         ("use_qkv_bias", ("self_attn.q_proj",)), ("qkv_bias", ("self_attn.q_proj",))):
        for stem in stems:
            weight = f"{'model.language_model.' if model_type in WRAPPERS else 'model.'}layers.0.{stem}.weight"
            add = {"add": [[weight.replace("weight", "bias"), weight, "column"]]}
            for change in ({}, {field: True}, {field: False}):
                if model_type not in ("gpt2", "gpt_neox"):
                    out.append((field, change, add))
    return out


def both_cases(config):
    """Feed-forward, embeddings and heads of an encoder with its decoder, and biases of later layers."""
    out = []
    for form in ("relu", "gated-gelu"):
        change = dict(feed_forward_proj=form, dense_act_fn=ABSENT, is_gated_act=ABSENT)
        for first in ("encoder.block.0.layer.1.DenseReluDense", "decoder.block.1.layer.2.DenseReluDense"):
            out += [("feed_forward_proj", change, dict(drop=[f"{first}.{part}.weight"])) for part in ("wi", "wi_0", "wi_1")]
            out += [("feed_forward_proj", change, dict(add=[[f"{first}.{new}.weight", f"{first}.{old}.weight", "reversed"]]))
                    for new, old in (("wi_0", "wi"), ("wi_1", "wi"), ("wi", "wi_0"))]
    shared, head = "shared.weight", "lm_head.weight"
    tables = [f"{part}.embed_tokens.weight" for part in ("encoder", "decoder")]
    for tie in (True, False):
        change = dict(tie_word_embeddings=tie, scale_decoder_outputs=ABSENT)
        for how in ("same", "reversed"):
            for added in ([tables[0]], [tables[1]], tables, [head], [head, tables[0]]):
                for drop in ([], [shared], [shared, head]):
                    drop = [name for name in drop if name not in added]
                    out.append(("tie_word_embeddings", change, dict(add=[[name, shared, how] for name in added], drop=drop)))
        out.append(("tie_word_embeddings", change, dict(add=[[tables[0], shared, "same"], [tables[1], shared, "reversed"]], drop=[shared])))
        out += [("tie_word_embeddings", change, dict(drop=drop)) for drop in ([head], [shared], [shared, head])]
    cross = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    out.append(("relative_attention_num_buckets", {}, dict(add=[[cross, BIAS.format("decoder", 0), "reversed"]])))
    return out + bias_cases("encoder") + bias_cases("decoder")


BIAS = "{}.block.{}.layer.0.SelfAttention.relative_attention_bias.weight"


def bias_cases(part):
    """Biases of layers that have none, and layers without theirs."""
    field = "relative_attention_num_buckets"
    added = (field, {}, dict(add=[[BIAS.format(part, 1), BIAS.format(part, 0), "reversed"]]))
    return [added, *((field, {}, dict(drop=[BIAS.format(part, i)])) for i in range(2))]


def change_tensors(tensors, change):
    """Tensors with some added, made of others, and some left out."""
    tensors = dict(tensors)
    for name in change.get("drop", []):
        tensors.pop(name, None)
    for name, source, how in change.get("add", []):
        if source not in tensors:
            return None
        made = {"reversed": lambda t: t.flip(0), "same": lambda t: t, "column": lambda t: t[:, 0]}[how](tensors[source])
        tensors[name] = made.clone().contiguous()
    return tensors


def apply(config, change):
    """The configuration with keys that are set or removed; a dot leads into an object."""
    config = copy.deepcopy(config)
    for key, value in change.items():
        *objects, last = key.split(".")
        place = config[objects[0]] if objects else config
        place.pop(last, None)
        if value is not ABSENT:
            place[last] = copy.deepcopy(value)
    return config


def wrapped(model_type, config, tensors):
    """A language model inside a wrapper that sees."""
    text = {k: v for k, v in config.items() if k not in ("architectures", "transformers_version", "tie_word_embeddings")}
    outer = dict(model_type=model_type, text_config=text, dtype="float32", initializer_range=0.02)
    if model_type == "gemma3":
        vision = dict(model_type="siglip_vision_model", hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
                      image_size=8, patch_size=8)
        outer |= dict(architectures=["Gemma3ForConditionalGeneration"], vision_config=vision, mm_tokens_per_image=1, boi_token_index=1,
                      eoi_token_index=2, image_token_index=88, tie_word_embeddings=True)
    elif model_type == "llama4":
        vision = dict(model_type="llama4_vision_model", hidden_size=8, intermediate_size=32, num_hidden_layers=1, num_attention_heads=1, image_size=8,
                      patch_size=4, vision_output_dim=8, projector_input_dim=8, projector_output_dim=8)
        outer |= dict(architectures=["Llama4ForConditionalGeneration"], vision_config=vision, image_token_index=1000, boi_token_index=2000,
                      eoi_token_index=3000, tie_word_embeddings=False)
        return outer, {f"language_model.{name}": t for name, t in tensors.items()}
    elif model_type == "gemma4":
        outer |= dict(architectures=["Gemma4ForConditionalGeneration"], vision_config=None, audio_config=None, image_token_id=1000,
                      video_token_id=2000, audio_token_id=3000, boi_token_id=95, eoi_token_id=96, boa_token_id=94, eoa_token_index=93,
                      tie_word_embeddings=True)
    elif model_type == "gemma3n":
        outer |= dict(architectures=["Gemma3nForConditionalGeneration"], vision_config=None, audio_config=None, image_token_id=1000,
                      audio_token_id=3000, boi_token_id=95, eoi_token_id=96, boa_token_id=94, eoa_token_id=93, tie_word_embeddings=True)
    elif model_type == "mistral3":
        vision = dict(model_type="pixtral", hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, image_size=8,
                      patch_size=4, head_dim=8)
        outer |= dict(architectures=["Mistral3ForConditionalGeneration"], vision_config=vision, image_token_index=88,
                      spatial_merge_size=1, tie_word_embeddings=True)
    else:
        vision = dict(model_type=model_type, hidden_size=8, intermediate_size=8, depth=1, num_heads=1, patch_size=2, in_channels=3,
                      spatial_merge_size=1, temporal_patch_size=2, out_hidden_size=text["hidden_size"], num_position_embeddings=4)
        name = "Qwen3_5Moe" if "moe" in model_type else "Qwen3_5"
        outer |= dict(architectures=[f"{name}ForConditionalGeneration"], vision_config=vision, image_token_id=97, video_token_id=98,
                      vision_start_token_id=99, vision_end_token_id=100, tie_word_embeddings=False)
    return outer, {name.replace("model.", "model.language_model.", 1): t for name, t in tensors.items()}


def blind_and_deaf():
    """Gemma 3n's parts that see and hear need a package of their own, and take no part in text: they become nothing."""
    from transformers.models.gemma3n import modeling_gemma3n

    class Parts:
        @staticmethod
        def from_config(config, **_):
            return AutoModel.from_config(config) if config.model_type == "gemma3n_text" else torch.nn.Module()

    modeling_gemma3n.AutoModel = Parts


class Driver:
    """One model type: its folder, the prompt and what the folder gives unchanged."""

    def __init__(self, model_type, work):
        self.model_type, self.work = model_type, work
        folder = ROOT / "hf" / BASES[model_type]
        self.config = json.loads((folder / "config.json").read_text()) | OVERRIDES.get(model_type, {})
        self.tensors = load_file(folder / "model.safetensors")
        twin = ROOT / "models" / f"{BASES[model_type]}.json"
        facts = json.loads((twin if twin.exists() else ROOT / "hf" / f"{BASES[model_type]}.json").read_text())
        self.tokens, self.n_text = facts["tokens"], facts.get("n_text", 0)
        assert not set(STARTS) & set(self.tokens[:self.n_text])
        # Or the folder has the part that sees already.
        self.is_wrapped = model_type in WRAPPERS and "text_config" not in self.config
        if model_type == "gemma3n":
            blind_and_deaf()
        if self.is_wrapped:
            self.config, self.tensors = wrapped(model_type, self.config, self.tensors)
        self.loaded = AutoModel if model_type in ENCODERS else AutoModelForCausalLM
        if model_type in HALVES:
            self.loaded = getattr(transformers, HALVES[model_type])
        if model_type in WHOLES:
            self.loaded = transformers.AutoModelForSeq2SeqLM

    def run(self, config, tensors):
        """Two rows of numbers, and the tensors that were made up."""
        folder = Path(tempfile.mkdtemp(dir=self.work))
        try:
            (folder / "config.json").write_text(json.dumps(config))
            save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
            loaded = self.loaded
            if self.model_type in WRAPPERS:
                loaded = transformers.AutoModelForImageTextToText
            model, info = loaded.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
            # Those that no number depends on are no matter.
            missing = [name for name in info["missing_keys"]
                       if not name.startswith(("pooler", "vision_model", "multi_modal_projector", "model.vision_tower", "model.multi_modal_projector", "model.visual",
                                            "model.embed_vision", "model.embed_audio"))]
            with torch.no_grad():
                # The class of Llama 4 with images fails on texts, and its part about text does not.
                asked = model.eval().language_model if self.model_type == "llama4" else model.eval()
                output = self.answered(asked) if self.n_text else asked(torch.tensor([self.tokens]))
            # The first, in both forms: hidden states or logits.
            rows = output[0][0]
            rows = rows[[len(rows) // 2, len(rows) - 1]].numpy().astype("<f4")
            return rows, sorted(missing), sorted(info["unexpected_keys"])
        finally:
            shutil.rmtree(folder)


    def answered(self, model):
        """The logits of an answer that begins with the token that `generate` would begin it with."""
        generation = model.generation_config
        start = generation.bos_token_id if generation.decoder_start_token_id is None else generation.decoder_start_token_id
        if start is None:
            raise ValueError("no token that answers begin with")
        text, answer = torch.tensor([self.tokens[:self.n_text]]), torch.tensor([[start, *self.tokens[self.n_text + 1:]]])
        return model(input_ids=text, decoder_input_ids=answer, use_cache=False, return_dict=True)


def near(a, b):
    return a.shape == b.shape and np.linalg.norm(a - b) <= 1e-6 * np.linalg.norm(b)


class Results:
    """The cases of a model type, and the distinct numbers that they gave."""

    def __init__(self, driver):
        self.driver = driver
        self.base, missing, _ = driver.run(driver.config, driver.tensors)
        assert not missing, missing
        self.found, self.numbers, self.seen = [], [], set()

    def add(self, field, change, tensor_change):
        config = apply(self.driver.config, change)
        key = json.dumps([config, tensor_change], sort_keys=True)
        tensors = change_tensors(self.driver.tensors, tensor_change)
        if key in self.seen or tensors is None:
            return
        self.seen.add(key)
        case = dict(field=field, set={k: v for k, v in change.items() if v is not ABSENT},
                    remove=[k for k, v in change.items() if v is ABSENT])
        case |= dict(tensors=tensor_change) if tensor_change else {}
        try:
            rows, missing, _ = self.driver.run(config, tensors)
        except Exception as e:
            case["expect"] = "error"
            case["error"] = f"{type(e).__name__}: {str(e).strip().splitlines()[-1][:120] if str(e).strip() else ''}"
        else:
            # Missing biases are made zero, all else is made up.
            made_up = [m for m in missing if not m.endswith(".bias")]
            if not np.isfinite(rows).all():
                case["expect"], case["error"] = "error", "numbers that are not finite"
            elif made_up:
                case["expect"], case["missing"] = "random", made_up[0]
            else:
                case["expect"] = self.place(rows)
        self.found.append(case)

    def place(self, rows):
        """Where these numbers are."""
        if near(rows, self.base):
            return "base"
        for i, other in enumerate(self.numbers):
            if near(rows, other):
                return i
        self.numbers.append(rows)
        return len(self.numbers) - 1


def combinations(cases, rng):
    """Changes of several fields at once, of which each alone gives numbers."""
    alone = [c for c in cases if c["expect"] not in ("error", "random") and "tensors" not in c]
    honoured = [c for c in alone if c["expect"] != "base"]
    for i in range(RANDOM_FOLDERS):
        picked = rng.sample(honoured, min(len(honoured), 1 + i % 3)) + rng.sample(alone, 2)
        change = {}
        for case in picked:
            change |= case["set"] | {key: ABSENT for key in case["remove"]}
        yield change


def drive(model_type, out):
    with tempfile.TemporaryDirectory() as work:
        results = Results(Driver(model_type, work))
        driver, numbers, found = results.driver, results.numbers, results.found
        for case in cases(model_type, driver.config):
            results.add(*case)
        for change in list(combinations(found, random.Random(41))):
            results.add("several", change, {})
    source = f"transformers {transformers.__version__}, torch {torch.__version__}, float32, eager attention"
    facts = dict(base=BASES[model_type], set=OVERRIDES.get(model_type, {}), tokens=driver.tokens, n_row=results.base.shape[1], source=source)
    if driver.n_text:
        facts["n_text"] = driver.n_text
    if driver.is_wrapped:
        facts["wrapper"] = {k: v for k, v in driver.config.items() if k != "text_config"}
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in found)
    (out / f"{model_type}.json").write_text(json.dumps(facts, separators=(",", ":"))[:-1] + ',"cases":[\n' + lines + "\n]}\n")
    np.stack(numbers).tofile(out / f"{model_type}.f32")
    kinds = [case["expect"] if isinstance(case["expect"], str) else "other" for case in found]
    print(f"{model_type}: {len(found)} cases, " + ", ".join(f"{kinds.count(k)} {k}" for k in ("base", "other", "error", "random")),
          flush=True)


def table():
    """What docs/folder-fields.md says: the fields of each model type."""
    listed = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 3:
            for model_type in cells[2].replace("`", "").split(", "):
                listed.setdefault(model_type, set()).add(cells[0])
    return listed


def check():
    """Fails when a class of the installed `transformers` has a field that the page does not list."""
    listed, wrong = table(), []
    for model_type in BASES:
        fields, inner = all_fields(model_type)
        # Of a part about language the fields are listed, but for the one folder that is driven without any.
        fields = (set(fields) - ({"text_config"} if inner else set())) | {f"text_config.{field}" for field in inner}
        wrong += [f"{model_type}: {field} is not in {PAGE.name}" for field in sorted(fields - listed.get(model_type, set()))]
    print("\n".join(wrong) or f"{sum(map(len, listed.values()))} fields of {len(listed)} model types: transformers "
          f"{transformers.__version__} has no other")
    sys.exit(bool(wrong))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="MODEL_TYPE")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUTPUT, help="folder to write to (%(default)s)")
    parser.add_argument("--check", action="store_true", help="compare the page's fields with the installed transformers")
    args = parser.parse_args()
    if args.check:
        check()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity(logging.CRITICAL)
    transformers.utils.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    args.out.mkdir(parents=True, exist_ok=True)
    for model_type in args.names or BASES:
        drive(model_type, args.out)


if __name__ == "__main__":
    main()
