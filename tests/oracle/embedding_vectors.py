"""Makes the vectors that `sentence-transformers` gives for the 50 pairs of sentences of minilm_pairs.py with the model in FOLDER.

    python embedding_vectors.py FOLDER OUT

OUT.json has the texts and the name of the prompt before each (of two that the folder has, queries and documents take turns), OUT.f32 a
vector for each, float32. They are made for one machine and not committed:

    EMBER_REFERENCE=OUT EMBER_FOLDER=FOLDER cargo test --release --test it -- --ignored --nocapture real_embedders::
"""

import json
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from minilm_pairs import PAIRS


def main():
    folder, out = sys.argv[1], Path(sys.argv[2])
    model = SentenceTransformer(folder, device="cpu", model_kwargs=dict(attn_implementation="eager", dtype=torch.float32))
    names = ["query", "document"] if {"query", "document"} <= set(model.prompts) and any(model.prompts.values()) else [None, None]
    texts = [(text, name) for pair in PAIRS for text, name in zip(pair, names)]
    rows = np.stack([model.encode(text, prompt_name=name, normalize_embeddings=True) for text, name in texts]).astype("<f4")
    rows.tofile(out.with_suffix(".f32"))
    out.with_suffix(".json").write_text(json.dumps([dict(text=text, prompt=name) for text, name in texts]))
    print(f"{out}: {rows.shape[0]} vectors of {rows.shape[1]} numbers")


if __name__ == "__main__":
    main()
