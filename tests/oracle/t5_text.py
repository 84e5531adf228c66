"""Writes tests/fixtures/t5: a tiny T5 with a vocabulary of its own, from text to text, as a folder and as llama.cpp's converter has it.

SentencePiece trains the vocabulary (Unigram, with the map of characters that T5's has) on fixtures/greedy/moby-dick.txt. `folder` is what
`save_pretrained` of `transformers` writes of the model and of its tokenizer, `converted.gguf` the file that llama.cpp's converter makes of
that folder and of SentencePiece's file. `expected.json` has texts, their tokens, and the greedy answers as tokens and as text;
`logits.f32` the logits of the first text's answer. The same texts with T5's own vocabulary of 32,100 pieces, which `scripts/fetch-model.sh
t5` fetches, are in `fixtures/t5_real.json`; the weights of that model are the formula of `formula` here and in
tests/it/t5_text.rs.

    python t5_text.py LLAMA_CPP_SOURCE [TOKENIZER_JSON]

LLAMA_CPP_SOURCE is `vendor/llama.cpp` of the source package of llama-cpp-python. Where `llama_cpp` is installed, its logits on the converted file
are compared with PyTorch's, too.
"""

import argparse
import importlib.util
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import sentencepiece
import torch
import transformers
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration, T5Tokenizer

from convert_folders import alone, error

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
OUT = FIXTURES / "t5"
N_PIECES, N_EXTRA, N_VOCAB = 360, 8, 376
CONFIG = dict(vocab_size=N_VOCAB, d_model=24, d_kv=8, d_ff=32, num_layers=3, num_decoder_layers=2, num_heads=3,
              relative_attention_num_buckets=16, feed_forward_proj="gated-gelu",
              tie_word_embeddings=False, decoder_start_token_id=0)
TEXTS = [
    "Call me Ishmael. Some years ago, never mind how long precisely, I thought I would sail about a little.",
    "translate English to German: The house is wonderful.",
    "  Spaces   in\tthe middle,\nlines and\r\nmore  ",
    "Ｆｕｌｌ width, ﬁne ligatures, ① circled, ½ and ™, naïve café, Ω Å",
    "Unknown: 日本語 and 🙂, \u200bzero\u00adwidth",
    "The <extra_id_0> walks in <extra_id_1> park</s>",
    "the sea",
]
N_ANSWER = 24


def train(folder):
    """SentencePiece's vocabulary with T5's first three tokens, and all of printable ASCII, of which T5's own lacks some."""
    lines = (FIXTURES / "greedy" / "moby-dick.txt").read_text().splitlines()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for line in lines if line]), model_prefix=str(folder / "spiece"), model_type="unigram",
        vocab_size=N_PIECES, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, pad_piece="<pad>", eos_piece="</s>", unk_piece="<unk>",
        normalization_rule_name="nmt_nfkc", required_chars="".join(map(chr, range(33, 127))), num_threads=1, minloglevel=2)
    return folder / "spiece.model"


def answers(model, tokenizer):
    """What becomes of each text."""
    out = []
    for text in TEXTS:
        ids = tokenizer(text).input_ids
        generation = transformers.GenerationConfig(do_sample=False, max_new_tokens=N_ANSWER, decoder_start_token_id=0, pad_token_id=0,
                                                   eos_token_id=1)
        with torch.no_grad():
            found = model.generate(torch.tensor([ids]), generation_config=generation)[0].tolist()
        assert found[0] == 0
        ended = found[-1] == 1
        answer = found[1:-1] if ended else found[1:]
        out.append(dict(text=text, tokens=ids, answer=answer, ended=ended, answered=tokenizer.decode(answer, skip_special_tokens=True)))
    return out


def convert(source, folder, spiece, out):
    """The file that llama.cpp's converter makes, with the vocabulary."""
    import sys
    sys.path[:0] = [str(source / "gguf-py"), str(source)]
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    import gguf
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "folder"
        shutil.copytree(folder, copy)
        shutil.copy(spiece, copy / "spiece.model")
        hparams = ModelBase.load_hparams(copy, False)
        with torch.inference_mode():
            get_model_class(get_model_architecture(hparams, ModelType.TEXT))(copy, gguf.LlamaFileType.ALL_F32, out).write()


def source_note():
    return f"transformers {transformers.__version__}, torch {torch.__version__}, float32, eager attention"


def small(source):
    """The folder, the file and what they give."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    # Not above: the converter, which runs in a process that reads this file too, needs its own package `gguf`.
    from fixtures.core import Case, make_model
    from fixtures.t5 import T5
    model = make_model(Case("t5-text", T5(T5Config, T5ForConditionalGeneration), 116, CONFIG))
    with tempfile.TemporaryDirectory() as scratch:
        spiece = train(Path(scratch))
        model.save_pretrained(OUT / "folder")
        T5Tokenizer.from_pretrained(scratch, extra_ids=N_EXTRA).save_pretrained(OUT / "folder")
        assert alone(convert, source, OUT / "folder", spiece, OUT / "converted.gguf"), "the converter fails"
    tokenizer = AutoTokenizer.from_pretrained(OUT / "folder")
    cases = answers(model, tokenizer)
    first = cases[0]
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([first["tokens"]]), decoder_input_ids=torch.tensor([[0, *first["answer"]]]), use_cache=False).logits[0].numpy()
    logits.astype("<f4").tofile(OUT / "logits.f32")
    (OUT / "expected.json").write_text(json.dumps(dict(source=source_note(), cases=cases), indent=1, ensure_ascii=False) + "\n")


def llamacpp(path, text, answer, out):
    """llama.cpp's logits of an answer."""
    from llamacpp import LlamaCpp
    model = LlamaCpp(path, n_ctx=256, kv="f32", flash=False)
    model.read(text)
    np.concatenate([model.decode([token]) for token in answer]).tofile(out)
    model.close()


def compare():
    """Prints how far llama.cpp is from PyTorch on the converted file."""
    case = json.loads((OUT / "expected.json").read_text())["cases"][0]
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "logits.f32"
        ended = alone(llamacpp, OUT / "converted.gguf", case["tokens"], [0, *case["answer"]], out)
        print("llama.cpp on the converted file:", error(out, np.fromfile(OUT / "logits.f32", "<f4")) if ended else "fails")


def formula(seed, shape, most):
    """Numbers that two languages make alike: SplitMix64, 24 bits, a power of two as their most."""
    n = int(np.prod(shape))
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, n + 1, dtype=np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return ((z >> np.uint64(40)).astype("f4") / np.float32(1 << 23) - np.float32(1)).reshape(shape) * np.float32(most)


REAL = dict(architectures=["T5ForConditionalGeneration"], model_type="t5", vocab_size=32128, d_model=32, d_kv=16, d_ff=64, num_layers=2,
            num_decoder_layers=2, num_heads=2, relative_attention_num_buckets=32, relative_attention_max_distance=128,
            feed_forward_proj="relu", layer_norm_epsilon=1e-6, decoder_start_token_id=0, eos_token_id=1, pad_token_id=0,
            is_encoder_decoder=True, tie_word_embeddings=False)
SETTINGS = dict(tokenizer_class="T5Tokenizer", extra_ids=100, additional_special_tokens=[f"<extra_id_{i}>" for i in range(100)],
                eos_token="</s>", unk_token="<unk>", pad_token="<pad>", model_max_length=512)


def scale(name):
    """How large the numbers of a matrix are."""
    return 4.0 if "relative" in name else 2.0 if name == "shared.weight" else 0.5


def real(tokenizer_json):
    """T5's own vocabulary, and weights by formula."""
    model = T5ForConditionalGeneration(T5Config(**REAL)).eval().float()
    with torch.no_grad():
        model.lm_head.weight = torch.nn.Parameter(torch.zeros_like(model.shared.weight))
        names = dict(model.named_parameters())
        for seed, (name, p) in enumerate(sorted(names.items())):
            if p.dim() == 1:
                p.fill_(1.0)
            else:
                p.copy_(torch.from_numpy(formula(seed, tuple(p.shape), scale(name))))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(tokenizer_json, Path(folder) / "tokenizer.json")
        for name, value in (("config", REAL), ("tokenizer_config", SETTINGS)):
            (Path(folder) / f"{name}.json").write_text(json.dumps(value))
        tokenizer = AutoTokenizer.from_pretrained(folder)
    facts = dict(source=source_note(), config=REAL, tokenizer_config=SETTINGS, cases=answers(model, tokenizer))
    (FIXTURES / "t5_real.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("tokenizer", type=Path, nargs="?")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.tokenizer:
        real(args.tokenizer)
    small(args.source)
    if importlib.util.find_spec("llama_cpp"):
        compare()


if __name__ == "__main__":
    main()
