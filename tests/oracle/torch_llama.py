"""Llama models in PyTorch, float32 on the dequantized weights, built from the file formats of others.

Used by the other scripts of this folder; it makes no files of its own. Both loaders return a `transformers`
LlamaForCausalLM with eager attention. Both formats keep query and key rows as interleaved rotary pairs,
`transformers` keeps them as two halves.
"""

import struct

import gguf
import numpy as np
import torch
import transformers

NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def _halves(rows, n_head):
    """Undoes the interleaving of each head's output rows."""
    return rows.reshape(n_head, rows.shape[0] // n_head // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def _build(config, tensors):
    """A model of `config` with `tensors` (GGUF name to float32 array) as its weights."""
    config._attn_implementation = "eager"
    model = transformers.LlamaForCausalLM(config).eval().float()
    state = {"model.embed_tokens.weight": tensors["token_embd.weight"],
             "model.norm.weight": tensors["output_norm.weight"],
             "lm_head.weight": tensors.get("output.weight", tensors["token_embd.weight"])}
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for i in range(config.num_hidden_layers):
        for short, long in NAMES.items():
            weight = tensors[f"blk.{i}.{short}.weight"]
            state[f"model.layers.{i}.{long}.weight"] = _halves(weight, heads[short]) if short in heads else weight
    model.load_state_dict({name: torch.from_numpy(np.array(w, order="C")) for name, w in state.items()})
    return model


def from_gguf(path):
    """A plain llama GGUF: no biases, no RoPE scaling."""
    reader = gguf.GGUFReader(path)
    value = lambda key: reader.fields[f"llama.{key}"].contents()
    tensors = {t.name: gguf.dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}
    config = transformers.LlamaConfig(
        vocab_size=tensors["token_embd.weight"].shape[0], hidden_size=value("embedding_length"),
        intermediate_size=value("feed_forward_length"), num_hidden_layers=value("block_count"),
        num_attention_heads=value("attention.head_count"), num_key_value_heads=value("attention.head_count_kv"),
        max_position_embeddings=value("context_length"), rms_norm_eps=value("attention.layer_norm_rms_epsilon"),
        rope_parameters=dict(rope_type="default", rope_theta=value("rope.freq_base")),
        tie_word_embeddings="output.weight" not in tensors)
    return _build(config, tensors)


def from_llama2c(data):
    """The bytes of a llama2.c checkpoint, version 0: seven int32, then float32 arrays in a fixed order.

    Source: karpathy/llama2.c, export.py (legacy_export) and run.c.
    """
    dim, hidden, layers, heads, kv_heads, vocab, seq_len = struct.unpack_from("<7i", data)
    floats, at = np.frombuffer(data, "<f4", offset=28), 0

    def take(*shape):
        nonlocal at
        array = floats[at:at + int(np.prod(shape))].reshape(shape)
        at += array.size
        return array

    shared, vocab, kv_dim = vocab > 0, abs(vocab), dim // heads * kv_heads
    tensors = {"token_embd.weight": take(vocab, dim)}
    for short, shape in [("attn_norm", (dim,)), ("attn_q", (dim, dim)), ("attn_k", (kv_dim, dim)),
                         ("attn_v", (kv_dim, dim)), ("attn_output", (dim, dim)), ("ffn_norm", (dim,)),
                         ("ffn_gate", (hidden, dim)), ("ffn_down", (dim, hidden)), ("ffn_up", (hidden, dim))]:
        for i, weight in enumerate(take(layers, *shape)):
            tensors[f"blk.{i}.{short}.weight"] = weight
    tensors["output_norm.weight"] = take(dim)
    take(2, seq_len, dim // heads // 2)  # cosines and sines, not needed
    if not shared:
        tensors["output.weight"] = take(vocab, dim)
    if at != floats.size:
        raise ValueError(f"the checkpoint has {floats.size} weights, {at} expected")
    config = transformers.LlamaConfig(
        vocab_size=vocab, hidden_size=dim, intermediate_size=hidden, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=kv_heads, max_position_embeddings=seq_len, rms_norm_eps=1e-5,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0), tie_word_embeddings=shared)
    return _build(config, tensors)
