"""Makes the tiny seeded models of tests/fixtures/models and the logits that they must give.

Each case is a random `transformers` model in float32, written as GGUF under llama.cpp's conventions, next to
NAME.logits.f32 (little-endian float32, one row of n_vocab logits per prompt token, PyTorch with eager
attention) and NAME.json (the prompt's tokens, n_vocab and where the numbers come from). A quantized case
stores its weight matrices in that format, and its logits are those of the dequantized weights in float32.

    python make_fixtures.py [OUTPUT_FOLDER]
"""

import json
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Type

DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "fixtures" / "models"
QUANTIZED = [Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1]
FILE_TYPES = {Type.F32: 0, Type.F16: 1, Type.Q4_0: 2, Type.Q4_1: 3, Type.Q8_0: 7, Type.BF16: 32}  # general.file_type


@dataclass
class Case:
    """One model: an architecture, what its `transformers` config is given, and how it is stored."""

    name: str
    arch: str
    seed: int
    config: dict
    n_tokens: int = 48
    types: list = field(default_factory=lambda: [Type.F32])


CASES = [
    Case("gpt2-tied", "gpt2", 1,
         dict(vocab_size=101, n_positions=64, n_embd=48, n_layer=2, n_head=3)),
    Case("gpt2-untied", "gpt2", 2,
         dict(vocab_size=97, n_positions=64, n_embd=32, n_layer=2, n_head=4, n_inner=80, tie_word_embeddings=False)),
    Case("llama-tied", "llama", 3,
         dict(vocab_size=97, max_position_embeddings=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
              num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True),
         types=[Type.F32, *QUANTIZED]),
    Case("llama3-untied-biased", "llama", 4,
         dict(vocab_size=97, max_position_embeddings=256, hidden_size=48, intermediate_size=80, num_hidden_layers=2,
              num_attention_heads=3, num_key_value_heads=1, head_dim=32, tie_word_embeddings=False,
              attention_bias=True, mlp_bias=True,
              rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
                                   high_freq_factor=4.0, original_max_position_embeddings=128)),
         n_tokens=96),
    Case("llama-linear-rope-mha", "llama", 5,
         dict(vocab_size=89, max_position_embeddings=96, hidden_size=32, intermediate_size=56, num_hidden_layers=2,
              num_attention_heads=4, num_key_value_heads=4, tie_word_embeddings=False,
              rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0)),
         n_tokens=64),
    Case("gpt2-quant", "gpt2", 6,
         dict(vocab_size=101, n_positions=64, n_embd=64, n_layer=2, n_head=4, n_inner=128),
         types=QUANTIZED),
]


def make_model(case):
    """The case's `transformers` model with its random weights, float32, eager attention."""
    classes = {"gpt2": (transformers.GPT2Config, transformers.GPT2LMHeadModel),
               "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM)}
    make_config, make = classes[case.arch]
    config = make_config(**case.config, bos_token_id=None, eos_token_id=None)
    config._attn_implementation = "eager"
    model = make(config).eval().float()
    randomize(model, case.seed)
    return model


@torch.no_grad()
def randomize(model, seed):
    """Fills every parameter so that no part of the model is idle.

    Matrices get a standard deviation of about 1/sqrt(n_in), so that activations keep their size; queries and
    keys somewhat more, so that attention is sharp rather than uniform. Norm weights lie around one, biases
    around zero.
    """
    torch.manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape)
        if p.dim() == 1:
            is_norm = name.endswith("weight")
            p.copy_(1.0 + 0.3 * noise if is_norm else 0.2 * noise)
        elif any(part in name for part in ("wte", "wpe", "embed_tokens")):
            p.copy_(0.3 * noise)
        else:
            sharp = any(part in name for part in ("c_attn", "q_proj", "k_proj"))
            n_in = p.shape[0] if model.config.model_type == "gpt2" and "lm_head" not in name else p.shape[1]
            p.copy_((1.4 if sharp else 1.1) / math.sqrt(n_in) * noise)


def interleave(rows, n_head):
    """Reorders each head's output rows from the half-split rotary layout to GGUF's interleaved pairs."""
    return rows.reshape(n_head, 2, rows.shape[0] // n_head // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def gpt2_tensors(model):
    """(GGUF name, parameter, layout change) of a GPT-2 model; Conv1D matrices are stored transposed."""
    same, transpose = (lambda w: w), (lambda w: w.T)
    t, out = model.transformer, []
    out += [("token_embd.weight", t.wte.weight, same), ("position_embd.weight", t.wpe.weight, same)]
    for i, layer in enumerate(t.h):
        norms = {"attn_norm": layer.ln_1, "ffn_norm": layer.ln_2}
        linears = {"attn_qkv": layer.attn.c_attn, "attn_output": layer.attn.c_proj,
                   "ffn_up": layer.mlp.c_fc, "ffn_down": layer.mlp.c_proj}
        for name, module in (norms | linears).items():
            out.append((f"blk.{i}.{name}.weight", module.weight, transpose if name in linears else same))
            out.append((f"blk.{i}.{name}.bias", module.bias, same))
    out += [("output_norm.weight", t.ln_f.weight, same), ("output_norm.bias", t.ln_f.bias, same)]
    if not model.config.tie_word_embeddings:
        out.append(("output.weight", model.lm_head.weight, same))
    return out


def llama_tensors(model):
    """(GGUF name, parameter, layout change) of a llama model; query and key rows are interleaved."""
    config, out = model.config, []
    same = lambda w: w
    for_head = {"attn_q": lambda w: interleave(w, config.num_attention_heads),
                "attn_k": lambda w: interleave(w, config.num_key_value_heads)}
    out.append(("token_embd.weight", model.model.embed_tokens.weight, same))
    for i, layer in enumerate(model.model.layers):
        a, m = layer.self_attn, layer.mlp
        modules = {"attn_norm": layer.input_layernorm, "attn_q": a.q_proj, "attn_k": a.k_proj, "attn_v": a.v_proj,
                   "attn_output": a.o_proj, "ffn_norm": layer.post_attention_layernorm,
                   "ffn_gate": m.gate_proj, "ffn_up": m.up_proj, "ffn_down": m.down_proj}
        for name, module in modules.items():
            change = for_head.get(name, same)
            out.append((f"blk.{i}.{name}.weight", module.weight, change))
            if getattr(module, "bias", None) is not None:
                out.append((f"blk.{i}.{name}.bias", module.bias, change))
    out.append(("output_norm.weight", model.model.norm.weight, same))
    if not config.tie_word_embeddings:
        out.append(("output.weight", model.lm_head.weight, same))
    return out


def rope_factors(model):
    """What each rotary frequency is divided by under the llama-3 rule (GGUF's rope_freqs.weight)."""
    rotary = model.model.rotary_emb
    plain, _ = rotary.compute_default_rope_parameters(model.config)
    return (plain / rotary.inv_freq).numpy().astype(np.float32)


def write_metadata(writer, model):
    """Hyper-parameters under llama.cpp's keys, and no tokenizer."""
    config = model.config
    writer.add_vocab_size(config.vocab_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    if config.model_type == "gpt2":
        writer.add_feed_forward_length(config.n_inner or 4 * config.n_embd)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_dimension_count(config.head_dim)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
        if config.head_dim * config.num_attention_heads != config.hidden_size:
            writer.add_key_length(config.head_dim)
            writer.add_value_length(config.head_dim)
        if config.rope_parameters["rope_type"] == "linear":
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(config.rope_parameters["factor"])
    writer.add_tokenizer_model("none")


@torch.no_grad()
def write_model(model, kind, path):
    """Writes `model` as GGUF with its matrices as `kind`, and leaves in it what a reader of the file finds."""
    config = model.config
    writer = gguf.GGUFWriter(path, config.model_type)
    writer.add_name(path.stem)
    writer.add_file_type(FILE_TYPES[kind])
    write_metadata(writer, model)
    tensors = gpt2_tensors(model) if config.model_type == "gpt2" else llama_tensors(model)
    for name, parameter, change in tensors:
        stored_as = kind if parameter.dim() == 2 else Type.F32
        plain = np.ascontiguousarray(parameter.numpy())
        stored = gguf.quantize(np.ascontiguousarray(change(plain)), stored_as)
        writer.add_tensor(name, stored, raw_dtype=stored_as)
        if stored_as != Type.F32:
            # Where each stored element came from tells where its rounded value goes back to.
            origin = change(np.arange(plain.size).reshape(plain.shape)).ravel()
            rounded = np.empty(plain.size, np.float32)
            rounded[origin] = gguf.dequantize(stored, stored_as).ravel()
            parameter.copy_(torch.from_numpy(rounded.reshape(plain.shape)))
    if config.model_type == "llama" and config.rope_parameters["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_factors(model))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def describe(model, tokens, logits):
    """One line that shows that the case is not degenerate, with the error of float32 arithmetic itself."""
    with torch.no_grad():
        seen = model(torch.tensor([tokens]), output_attentions=True).attentions
        exact = model.double()(torch.tensor([tokens])).logits[0].numpy()
    last = torch.stack([a[0, :, -1] for a in seen])
    spread = (-(last * last.clamp_min(1e-30).log()).sum(-1)).exp().mean().item()
    two = np.sort(logits, axis=1)[:, -2:]
    gaps = two[:, 1] - two[:, 0]
    error = np.sqrt(np.mean((logits - exact) ** 2) / np.mean(exact ** 2))
    return (f"logit std {logits.std():.2f}, top-2 gap median {np.median(gaps):.3f} min {gaps.min():.4f}, "
            f"{len(set(logits.argmax(1)))} different winners, attention over {spread:.1f} of {len(tokens)}, "
            f"float32 against float64 {error:.1e}")


def make_case(case, kind, folder):
    """Writes one model file, its expected logits and its description."""
    name = case.name if case.types == [Type.F32] else f"{case.name}-{kind.name.lower()}"
    model = make_model(case)
    write_model(model, kind, folder / f"{name}.gguf")
    generator = torch.Generator().manual_seed(1000 + case.seed)
    tokens = torch.randint(0, model.config.vocab_size, (case.n_tokens,), generator=generator).tolist()
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0].numpy().astype("<f4")
    logits.tofile(folder / f"{name}.logits.f32")
    source = (f"transformers {transformers.__version__}, torch {torch.__version__}, float32, eager attention, "
              f"seed {case.seed}, matrices {kind.name}")
    facts = dict(tokens=tokens, n_vocab=model.config.vocab_size, source=source)
    (folder / f"{name}.json").write_text(json.dumps(facts, separators=(",", ":")) + "\n")
    size = (folder / f"{name}.gguf").stat().st_size
    print(f"{name}: {size:,} bytes; {describe(model, tokens, logits)}")


def main():
    torch.set_num_threads(1)
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_OUTPUT
    folder.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        for kind in case.types:
            make_case(case, kind, folder)


if __name__ == "__main__":
    main()
