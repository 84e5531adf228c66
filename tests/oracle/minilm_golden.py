"""Makes fixtures/embeddings/minilm.json: what `transformers` gives for 50 pairs of sentences with all-MiniLM-L6-v2.

    python tests/oracle/minilm_golden.py FOLDER

FOLDER is the model's (`config.json`, `model.safetensors`, `tokenizer.json`), as `scripts/fetch-model.sh minilm` leaves
it. The vectors follow sentence-transformers' formula for this model: the mean of the last hidden states over all
tokens, scaled to length 1; their cosine is their dot product. Each text runs alone, in float32 with eager attention:
`cosine` on the weights as they are, `cosine_f16` on weights rounded to float16 as `examples/bert_to_gguf.rs` rounds them,
which by itself moves cosines by up to 1.1e-4.
"""

import json
import sys
from pathlib import Path

import torch
import transformers

from minilm_pairs import PAIRS

OUTPUT = Path(__file__).resolve().parents[1] / "fixtures" / "embeddings" / "minilm.json"


@torch.no_grad()
def embed(tokenizer, model, text):
    """The token ids of `text` and its vector."""
    ids = tokenizer(text)["input_ids"]
    hidden = model(torch.tensor([ids])).last_hidden_state[0]
    return ids, torch.nn.functional.normalize(hidden.mean(0), dim=0)


@torch.no_grad()
def round_matrices(model):
    """Rounds what a GGUF file in F16 has in float16: all matrices but the tables of positions and token types."""
    for name, p in model.named_parameters():
        if p.dim() == 2 and "position_embeddings" not in name and "token_type_embeddings" not in name:
            p.copy_(p.half().float())


def cosine(u, v):
    return round(float(u.double() @ v.double()), 7)


def main():
    folder = sys.argv[1]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    assert len(PAIRS) == 50
    vectors = [[embed(tokenizer, model, text) for text in pair] for pair in PAIRS]
    round_matrices(model)
    pairs, moved = [], 0.0
    for (a, b), ((a_ids, u), (b_ids, v)) in zip(PAIRS, vectors):
        pair = dict(a=a, b=b, a_ids=a_ids, b_ids=b_ids, cosine=cosine(u, v))
        pair["cosine_f16"] = cosine(embed(tokenizer, model, a)[1], embed(tokenizer, model, b)[1])
        moved = max(moved, abs(pair["cosine"] - pair["cosine_f16"]))
        pairs.append(json.dumps(pair, ensure_ascii=False))
    source = f"transformers {transformers.__version__}, torch {torch.__version__}, float32, eager attention"
    first = json.dumps([round(x, 7) for x in vectors[0][0][1].tolist()])
    lines = ",\n".join(pairs)
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(f'{{"source":{json.dumps(source)},\n"first_vector":{first},\n"pairs":[\n{lines}\n]}}\n')
    lengths = [len(p[side]) for p in map(json.loads, pairs) for side in ("a_ids", "b_ids")]
    cosines = [json.loads(p)["cosine"] for p in pairs]
    print(f"{OUTPUT}: {min(lengths)} to {max(lengths)} tokens, cosines {min(cosines):.3f} to {max(cosines):.3f}, "
          f"of float16 weights up to {moved:.1e} from these")


if __name__ == "__main__":
    main()
