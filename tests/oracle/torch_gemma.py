"""Gemma 3 in PyTorch, float32 on the dequantized weights of a GGUF, with eager attention.

Used by the other scripts of this folder; it makes no files of its own. The file holds the norms' whole factors,
`transformers` what they are above one.
"""

import gguf
import numpy as np
import torch
import transformers

NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
         "attn_k_norm": "self_attn.k_norm", "post_attention_norm": "post_attention_layernorm",
         "ffn_norm": "pre_feedforward_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj", "post_ffw_norm": "post_feedforward_layernorm"}


def from_gguf(path):
    """A text-only Gemma 3 without RoPE scaling, whose file leaves the local layers' rotary base at 10000."""
    reader = gguf.GGUFReader(path)
    value = lambda key: reader.fields[f"gemma3.{key}"].contents()
    tensors = {t.name: gguf.dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}
    default = lambda base: dict(rope_type="default", rope_theta=base)
    config = transformers.Gemma3TextConfig(
        vocab_size=tensors["token_embd.weight"].shape[0], hidden_size=value("embedding_length"),
        intermediate_size=value("feed_forward_length"), num_hidden_layers=value("block_count"),
        num_attention_heads=value("attention.head_count"), num_key_value_heads=value("attention.head_count_kv"),
        head_dim=value("attention.key_length"), query_pre_attn_scalar=value("attention.key_length"),
        max_position_embeddings=value("context_length"), rms_norm_eps=value("attention.layer_norm_rms_epsilon"),
        sliding_window=value("attention.sliding_window"),
        rope_parameters=dict(sliding_attention=default(10000.0), full_attention=default(value("rope.freq_base"))))
    config._attn_implementation = "eager"
    model = transformers.Gemma3ForCausalLM(config).eval().float()
    state = {"model.embed_tokens.weight": tensors["token_embd.weight"],
             "lm_head.weight": tensors["token_embd.weight"], "model.norm.weight": tensors["output_norm.weight"] - 1}
    for i in range(config.num_hidden_layers):
        for short, long in NAMES.items():
            weight = tensors[f"blk.{i}.{short}.weight"]
            state[f"model.layers.{i}.{long}.weight"] = weight - 1 if short.endswith("norm") else weight
    model.load_state_dict({name: torch.from_numpy(np.array(w, order="C")) for name, w in state.items()})
    return model
