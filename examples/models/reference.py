#!/usr/bin/env python3
"""Load the GGUF into transformers' GPT2LMHeadModel (Q8_0 weights made float32 again) and
write what an engine should reproduce, or print samples.

    python reference.py ember-tales.gguf                      # writes ember-tales-reference.json
    python reference.py ember-tales.gguf --sample "Once upon a time"
"""
import argparse, hashlib, json, os
import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import Tokenizer, models, pre_tokenizers, decoders
from transformers import GPT2Config, GPT2LMHeadModel

PROMPTS = ["Once upon a time", "The old king looked at his daughter and said,",
           "It was a dark and stormy night, and the little boat", "Far out in the sea, where the water is as blue"]
PARTS = {"attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj",
         "ffn_norm": "ln_2", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}
TOP = {"token_embd": "transformer.wte", "position_embd": "transformer.wpe", "output_norm": "transformer.ln_f"}


def load(path):
    r = GGUFReader(path)
    f = lambda k: r.fields[k].contents()
    cfg = GPT2Config(vocab_size=len(f("tokenizer.ggml.tokens")), n_positions=f("gpt2.context_length"),
                     n_embd=f("gpt2.embedding_length"), n_layer=f("gpt2.block_count"),
                     n_head=f("gpt2.attention.head_count"), n_inner=f("gpt2.feed_forward_length"),
                     layer_norm_epsilon=f("gpt2.attention.layer_norm_epsilon"), activation_function="gelu_new",
                     bos_token_id=f("tokenizer.ggml.bos_token_id"), eos_token_id=f("tokenizer.ggml.eos_token_id"))
    state = {}
    for t in r.tensors:
        x = torch.from_numpy(np.array(dequantize(t.data, t.tensor_type), np.float32))
        head, kind = t.name.rsplit(".", 1)
        if head in TOP:
            name = TOP[head]
        else:
            _, block, part = head.split(".")
            name = f"transformer.h.{block}.{PARTS[part]}"
            if ".c_" in name and kind == "weight":
                x = x.T.contiguous()                      # HF's Conv1D is (in, out)
        state[f"{name}.{kind}"] = x
    state["lm_head.weight"] = state["transformer.wte.weight"]
    model = GPT2LMHeadModel(cfg)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and not [m for m in missing if not m.endswith("attn.bias")], (missing, unexpected)
    tokens = f("tokenizer.ggml.tokens")
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)},
                               [tuple(m.split(" ")) for m in f("tokenizer.ggml.merges")]))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([tokens[f("tokenizer.ggml.eos_token_id")]])
    return model.eval(), tok


@torch.no_grad()
def generate(model, ids, n, temperature=0.0, top_k=40, eos=None):
    ids = list(ids)
    for _ in range(n):
        logits = model(torch.tensor([ids[-model.config.n_positions:]])).logits[0, -1]
        if temperature == 0:
            nxt = int(logits.argmax())
        else:
            v, i = (logits / temperature).topk(top_k)
            nxt = int(i[torch.multinomial(v.softmax(0), 1)])
        if nxt == eos:
            break
        ids.append(nxt)
    return ids


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("model")
    ap.add_argument("--out", default="ember-tales-reference.json")
    ap.add_argument("--tokenizer", help="a tokenizer.json the GGUF's own vocabulary must agree with")
    ap.add_argument("--sample", action="append")
    ap.add_argument("-n", type=int, default=120)
    ap.add_argument("--temperature", type=float, default=0.8)
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    torch.set_num_threads(1)
    model, tok = load(a.model)
    if a.sample:
        torch.manual_seed(a.seed)
        for p in a.sample:
            ids = generate(model, tok.encode(p).ids, a.n, a.temperature, eos=model.config.eos_token_id)
            print(tok.decode(ids), "\n" + "-" * 72)
        return
    other = Tokenizer.from_file(a.tokenizer) if a.tokenizer else tok
    cases = []
    for p in PROMPTS:
        ids = tok.encode(p).ids
        assert ids == other.encode(p).ids
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1]
        v, i = logits.topk(10)
        greedy = generate(model, ids, 48)[len(ids):]
        with torch.no_grad():                       # how far each greedy choice was from the runner-up
            top2 = model(torch.tensor([ids + greedy])).logits[0, len(ids) - 1:-1].topk(2).values
        cases.append(dict(prompt=p, ids=ids, top10=[dict(id=int(x), logit=float(y)) for x, y in zip(i, v)],
                          logits_sum=float(logits.double().sum()), logits_l2=float(logits.double().norm()),
                          greedy_ids=greedy, greedy_text=tok.decode(greedy),
                          greedy_margin=[round(float(a - b), 4) for a, b in top2]))
    tests = ["Hello, world!", "  two  spaces\n\nand lines ", "caf\u00e9 na\u00efve \u2014 \u201cquoted\u201d \U0001f525", "It's we'll 12345 don't", ""]
    json.dump(dict(model=os.path.basename(a.model), sha256=hashlib.sha256(open(a.model, "rb").read()).hexdigest(),
                   made_with="transformers GPT2LMHeadModel, float32, Q8_0 weights dequantized by gguf-py",
                   tokenizer=[dict(text=t, ids=tok.encode(t).ids) for t in tests], cases=cases),
              open(a.out, "w"), indent=1)
    print(a.out, os.path.getsize(a.out), "bytes")


if __name__ == "__main__":
    main()
