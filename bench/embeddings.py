"""Texts per second of ember_embed beside ONNX Runtime and PyTorch: the same texts, the same threads, in turns.

    EMBER_LIBRARY=build/lib/libember.so python bench/embeddings.py FOLDER [--gguf FILE …] [-n TEXTS] [-t THREADS] [-r ROUNDS]

FOLDER is a Sentence Transformers folder of a BERT model (`scripts/fetch-model.sh minilm`). Ember embeds it from there and from
each --gguf FILE. PyTorch and ONNX Runtime take batches of 32 texts of like length, padded to the longest of the batch, which is
what Sentence Transformers and fastembed do. The texts are made of words of the vocabulary, 4 to 60 words each, with a fixed seed.

Needs `pip install numpy torch transformers onnxruntime onnx onnxscript`. Prints the median of the rounds, the ratio of Ember to
each peer, and the smallest cosine between Ember's vectors and PyTorch's.
"""

import argparse
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--gguf", action="append", default=[])
parser.add_argument("-n", type=int, default=1000)
parser.add_argument("-t", type=int, default=1)
parser.add_argument("-r", type=int, default=3)
args = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(args.t)
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "bindings/python/src"))

import ember  # noqa: E402
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

torch.set_num_threads(args.t)
random.seed(1)
tokenizer = transformers.AutoTokenizer.from_pretrained(args.folder)
words = sorted(w for w in tokenizer.get_vocab() if w.isalpha() and len(w) > 1)
texts = [" ".join(random.choices(words, k=random.randint(4, 60))) for _ in range(args.n)]
BATCH = 32
order = sorted(range(len(texts)), key=lambda i: len(texts[i]))


def in_batches(run):
    """Vectors of all texts: the mean of the last hidden states over a text's tokens, of length 1."""
    out = [None] * len(texts)
    for first in range(0, len(order), BATCH):
        some = order[first : first + BATCH]
        inputs = tokenizer([texts[i] for i in some], padding=True, truncation=True, max_length=256, return_tensors="np")
        hidden = run(inputs)
        mask = inputs["attention_mask"][:, :, None].astype(np.float32)
        mean = (hidden * mask).sum(1) / mask.sum(1)
        mean /= np.linalg.norm(mean, axis=1, keepdims=True)
        for i, vector in zip(some, mean):
            out[i] = vector
    return np.stack(out)


model = transformers.AutoModel.from_pretrained(args.folder, attn_implementation="sdpa").eval()


def pytorch():
    with torch.inference_mode():
        return in_batches(lambda x: model(**{k: torch.from_numpy(v) for k, v in x.items()}).last_hidden_state.numpy())


class Hidden(torch.nn.Module):
    """The inputs by position, as the exporter wants them."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, token_type_ids, attention_mask):
        return self.model(input_ids=input_ids, token_type_ids=token_type_ids, attention_mask=attention_mask).last_hidden_state


names = ["input_ids", "token_type_ids", "attention_mask"]
with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/model.onnx"
    eager = transformers.AutoModel.from_pretrained(args.folder, attn_implementation="eager").eval()
    example = tuple(torch.ones(2, 8, dtype=torch.int64) for _ in names)
    axes = {name: {0: "batch", 1: "length"} for name in [*names, "hidden"]}
    torch.onnx.export(
        Hidden(eager), example, path, input_names=names, output_names=["hidden"], dynamic_axes=axes, dynamo=False, opset_version=17
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.t
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def onnx():
    return in_batches(lambda x: session.run(["hidden"], {k: x[k].astype(np.int64) for k in names})[0])


def by_ember(path):
    context = ember.Context(ember.Model(path), n_threads=args.t)
    return lambda: np.stack([np.asarray(v, dtype=np.float32) for v in context.embed(texts, truncate=True)])


engines = {"PyTorch": pytorch, "ONNX Runtime": onnx}
for path in [args.folder, *args.gguf]:
    engines["Ember, " + pathlib.Path(path).name] = by_ember(path)
seconds = {name: [] for name in engines}
vectors = {}
for round_ in range(args.r + 1):
    for name, run in engines.items():
        start = time.perf_counter()
        vectors[name] = run()
        if round_:  # the first warms up
            seconds[name].append(time.perf_counter() - start)
rates = {name: args.n / statistics.median(times) for name, times in seconds.items()}
print(f"{args.n} texts, threads: {args.t}, rounds: {args.r}")
for name, rate in rates.items():
    line = f"{name:32} {rate:8.1f} texts/s"
    if name.startswith("Ember"):
        cosine = (vectors[name] * vectors["PyTorch"]).sum(1).min()
        line += f"  {rate / rates['PyTorch']:5.2f} of PyTorch  {rate / rates['ONNX Runtime']:5.2f} of ONNX Runtime"
        line += f"  least cosine {cosine:.7f}"
    print(line)
