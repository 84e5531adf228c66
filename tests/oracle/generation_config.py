"""Writes tests/fixtures/generation_config.json: which tokens `transformers` would choose from by a generation_config.json.

    python tests/oracle/generation_config.py

A case is {"config": …, "logits": …, "accepted": tokens before, "left": [[token, probability], …]}.
"""

import json
import pathlib
import random

import torch
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

OUT = pathlib.Path(__file__).resolve().parents[1] / "fixtures/generation_config.json"
N = 80
CONFIGS = [
    {},
    {"do_sample": True},
    {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.05},
    {"do_sample": True, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0.02},
    {"do_sample": True, "temperature": 1.3, "top_k": 0, "typical_p": 0.6},
    {"do_sample": True, "top_k": 64, "top_p": 0.95, "suppress_tokens": [1, 2, 17]},
    {"do_sample": False, "repetition_penalty": 1.4},
    {"repetition_penalty": 0.8, "suppress_tokens": [0]},
    {"do_sample": True, "top_k": None, "top_p": 1.0, "min_p": 0.3},
]


def main():
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 1, "num_key_value_heads": 1}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=N, num_hidden_layers=1, **sizes))
    rng = random.Random(5)
    cases = []
    for config in CONFIGS:
        for scale in (1.0, 4.0):
            logits = torch.tensor([rng.gauss(0, scale) for _ in range(N)], dtype=torch.float32)
            accepted = [rng.randrange(N) for _ in range(20)]
            generation, _ = model._prepare_generation_config(GenerationConfig(**config))
            generation._eos_token_tensor = None
            processors = model._get_logits_processor(generation, len(accepted), None, None, None, device="cpu")
            scores = processors(torch.tensor([accepted]), logits[None].clone())[0]
            if not generation.do_sample:
                best = scores.argmax()
                scores = torch.full_like(scores, -float("inf")).index_fill(0, best, 0.0)
            left = [[i, float(f"{p:.7g}")] for i, p in enumerate(torch.softmax(scores, 0).tolist()) if scores[i] > -1e30]
            cases.append(json.dumps({"config": config, "logits": logits.tolist(), "accepted": accepted, "left": left}))
    OUT.write_text("[\n" + ",\n".join(cases) + "\n]\n")


if __name__ == "__main__":
    main()
