#!/usr/bin/env python3
"""Write work/ckpt.pt and work/tokenizer.json as a Q8_0 GGUF file (llama.cpp's names for gpt2).

    python export_gguf.py --work work --out ember-tales.gguf
"""
import argparse, json, os
import numpy as np
import torch
from gguf import GGUFWriter, GGMLQuantizationType, LlamaFileType, TokenType
from gguf.quants import quantize

NAMES = {"wte.weight": "token_embd.weight", "wpe.weight": "position_embd.weight",
         "ln_f.weight": "output_norm.weight", "ln_f.bias": "output_norm.bias"}
PARTS = {"ln_1": "attn_norm", "c_attn": "attn_qkv", "c_proj": "attn_output",
         "ln_2": "ffn_norm", "c_fc": "ffn_up", "c_out": "ffn_down"}


def gguf_name(name):
    if name in NAMES:
        return NAMES[name]
    _, block, part, kind = name.split(".")
    return f"blk.{block}.{PARTS[part]}.{kind}"


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--work", default="work")
    ap.add_argument("--out", default="ember-tales.gguf")
    a = ap.parse_args()
    ckpt = torch.load(os.path.join(a.work, "ckpt.pt"), map_location="cpu")
    c = ckpt["config"]
    tok = json.load(open(os.path.join(a.work, "tokenizer.json"), encoding="utf-8"))
    vocab = sorted(tok["model"]["vocab"].items(), key=lambda kv: kv[1])
    assert [i for _, i in vocab] == list(range(c["vocab"]))
    merges = [m if isinstance(m, str) else " ".join(m) for m in tok["model"]["merges"]]
    special = {t["content"]: t["id"] for t in tok["added_tokens"]}
    eot = special["<|endoftext|>"]

    w = GGUFWriter(a.out, "gpt2")
    w.add_type("model")
    w.add_name("Ember Tales")
    w.add_description("A 2.9M-parameter GPT-2 trained from scratch on public-domain prose")
    w.add_license("apache-2.0")
    w.add_languages(["en"])
    w.add_block_count(c["layers"])
    w.add_context_length(c["ctx"])
    w.add_embedding_length(c["d"])
    w.add_feed_forward_length(4 * c["d"])
    w.add_head_count(c["heads"])
    w.add_layer_norm_eps(1e-5)
    w.add_vocab_size(c["vocab"])
    w.add_file_type(LlamaFileType.MOSTLY_Q8_0)
    w.add_quantization_version(2)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list([t for t, _ in vocab])
    w.add_token_types([TokenType.CONTROL if t in special else TokenType.NORMAL for t, _ in vocab])
    w.add_token_merges(merges)
    w.add_bos_token_id(eot)
    w.add_eos_token_id(eot)
    w.add_add_bos_token(False)
    for name, p in ckpt["model"].items():
        x = p.float().numpy()               # nn.Linear is (out, in) already: nothing to transpose
        if x.ndim == 2:
            q = GGMLQuantizationType.Q8_0
            w.add_tensor(gguf_name(name), quantize(np.ascontiguousarray(x), q), raw_dtype=q)
        else:
            w.add_tensor(gguf_name(name), x)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    print(a.out, os.path.getsize(a.out), "bytes, step", ckpt["step"], "tokens", ckpt["tokens"])


if __name__ == "__main__":
    main()
