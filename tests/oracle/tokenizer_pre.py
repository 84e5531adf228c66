"""Writes tests/fixtures/tokenizer/pre.json: texts, and their tokens under every pre-tokenizer that llama.cpp knows.

llama.cpp loads a vocabulary of its own source (`make models` fetches them) with another name under the key
`tokenizer.ggml.pre`. Beside it Hugging Face's `tokenizers` cuts the same texts by the published expressions, and merges with
the same vocabulary. Where the two differ llama.cpp only comes near the expression: the tokens are those of `tokenizers`, and
the names and texts are printed.

tests/fixtures/tokenizer/rwkv.gguf, plamo2.gguf and hybriddna.gguf are vocabularies of kinds of their own; their tokens are llama.cpp's.

    python tokenizer_pre.py LLAMA_CPP     (the folder of llama.cpp's source)
"""

import ctypes
import json
import re
import sys
import unicodedata
from functools import cache
from pathlib import Path

import gguf
import llama_cpp as c
import numpy as np
from tokenizers import Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "tokenizer"
VOCABS = Path.home() / ".cache/ember/models/vocabs"
BASE = "llama-bpe"
# Those that write pieces in the characters that they have need a vocabulary of such.
PIECES = {"gemma4": "gemma-4", "granite-embed-multi-311m": "gemma-4", "sarvam-moe": "gemma-4"}

TEXTS = [
    "Hello, world!  How are   you?", "I'll say it's John's; they'VE gone, DON'T you? \u2019s", "x=1234567; y = 12 345,678.90",
    "1 12 123 1234 12345 123456 1234567890123", "abc123def4567 12345abc _1234_", "\u0661\u0662\u0663\u0664\u0665 \u0967\u0968\u0969\u096a \u00b2\u00bd\u2167",
    "a \n b\n\nc \r\n\r\n  d\t\te", "   leading and trailing   ", "a" + " " * 5 + "b" + " " * 9 + "1" + " " * 17 + "(" + " " * 4,
    "tabs\t\t\tx \t y", "fn main() {\n    println!(\"{}\", x[0] as u32);\n}\n", "/usr/bin//x a/b\n/c //\n",
    "camelCaseHTTPServer XMLHttpRequest iPhone", "snake_case kebab-case a.b.c @x #y $z",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3002 \u4e2d\u6587\u6587\u672c\uff0c123\u4e2a abc\u6f22\u5b57def",
    "\ud55c\uad6d\uc5b4 \ud14d\uc2a4\ud2b8\uc785\ub2c8\ub2e4 \u3131\u3134 \u3105\u3106", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645\u060c \u05e9\u05dc\u05d5\u05dd", "\u0939\u093f\u0928\u094d\u0926\u0940 \u0939\u0948\u0964 \u0e44\u0e17\u0e22\u0e20\u0e32\u0e29\u0e32 \u09ac\u09be\u0982\u09b2\u09be",
    "F\u00fc\u00dfe, na\u00efve caf\u00e9, \u00c6r\u00f8 \u0141\u00f3d\u017a e\u0301x", "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308 \u2764\ufe0f ok",
    "wait\u2026 \u201cquoted\u201d \u2018x\u2019 \u2014 \u2013 \u00ab\u00bb", "3.14 -2e10 50% $1,234.50 \u20ac5 #1", "!!! ?? ... ,,, ((( ]]] {{{", "=== --- *** ~~~ ||| ^^ ``` <<>>",
    "(IMGIMGAAZ) <sentinel:12> x", "word\u00a0nbsp\u3000wide \u2028line", "A B C D a b c", "na\u0131ve \u01c5 \u02b0x \u00aa", " 'tis 'S 'LL'x",
]


class Vocabulary:
    """llama.cpp's, with other keys."""

    def __init__(self, path, **keys):
        params = c.llama_model_default_params()
        params.vocab_only = True
        overrides = (c.llama_model_kv_override * (len(keys) + 1))()
        for i, (key, value) in enumerate(keys.items()):
            overrides[i].tag, overrides[i].key = c.LLAMA_KV_OVERRIDE_TYPE_STR, f"tokenizer.ggml.{key}".encode()
            overrides[i].value.val_str = value.encode()
        params.kv_overrides = overrides
        self.model = c.llama_model_load_from_file(str(path).encode(), params)
        assert self.model, (path, keys)
        self.vocab = c.llama_model_get_vocab(self.model)

    def tokens(self, text):
        data = text.encode()
        out = (ctypes.c_int * (len(data) + 8))()
        return list(out[: c.llama_tokenize(self.vocab, data, len(data), out, len(out), False, False)])

    def close(self):
        c.llama_model_free(self.model)


def names_and_expressions(source):
    """Of every name the expressions, and whether a word that is a token is not merged."""
    text = (source / "src/llama-vocab.cpp").read_text()
    begin = text.index("struct llm_tokenizer_bpe : llm_tokenizer")
    cases = text[begin : text.index("struct llm_tokenizer_bpe_session", begin)]
    expressions, kinds = {}, []
    for line in cases.splitlines():
        line = line.strip()
        if found := re.match(r"case LLAMA_VOCAB_PRE_TYPE_(\w+):", line):
            kinds = kinds + [found[1]] if not any(k in expressions for k in kinds) else [found[1]]
        elif line.startswith("default:"):
            kinds = ["DEFAULT"]
        elif found := re.match(r'("(?:[^"\\]|\\.)*"),', line):
            for kind in kinds:
                expressions.setdefault(kind, []).append(json.loads(re.sub(r"\\'", "'", found[1])))
    rows = text[text.index('tokenizer_pre == "default"') : text.index("unknown pre-tokenizer type")]
    out = {}
    for row in rows.split("else if"):
        kind = re.search(r"PRE_TYPE_(\w+);", row)[1]
        for name in re.findall(r'tokenizer_pre == "([^"]+)"', row):
            out[name] = (expressions[kind], "ignore_merges = true" in row)
    return out


GPT4O = ("[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
# What llama.cpp computes by code of its own or comes near to.
PUBLISHED = {
    "tekken": ["[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
               "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"],
    "kimi-k2": ["[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+"
                "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+"
                "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
                "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"],
} | {name: [GPT4O] for name in ("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2", "granite-embed-multi-97m")}
PUBLISHED |= {name: ["\\d{1,3}(?=(?:\\d{3})*\\b)", GPT4O] for name in ("tiny_aya", "cohere2moe")}
DIGITS = {"\\p{AFMoE_digits}": "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))"}


@cache
def hugging_face(expressions, ignore_merges):
    """The vocabulary cut by `expressions`, by `tokenizers`."""
    fields = fields_of(VOCABS / f"ggml-vocab-{BASE}.gguf")
    tokens = {text: i for i, text in enumerate(fields["tokens"])}
    merges = [tuple(merge.split(" ", 1)) for merge in fields["merges"]]
    model = Tokenizer(BPE(tokens, merges, ignore_merges=ignore_merges))
    steps = [Split(Regex(DIGITS.get(e, e)), "isolated") for e in expressions]
    model.pre_tokenizer = Sequence(steps + [ByteLevel(add_prefix_space=False, use_regex=False)])
    return model


@cache
def fields_of(path):
    reader = gguf.GGUFReader(path)
    return {name: reader.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges")}


def rwkv():
    """A vocabulary whose texts are escaped bytes, and its cases."""
    texts = [b"\x00"] + [bytes([b]) for b in range(1, 256)]
    texts += [w.encode() for w in ("th", "the", "he", " the", "  ", "    ", "\n\n", "ab", "abc", "abcd", "abcde", "\u65e5", "\u65e5\u672c", "'s", "\\n", "12",
                                   "\U0001f600", "\u00e9t\u00e9", " w", " wor", " world", "\t\t")]
    texts += [b"\xe6\x97", b"\xf0\x9f", b"\xff\xfe"]
    path = FIXTURES / "rwkv.gguf"
    writer = gguf.GGUFWriter(path, "rwkv7")
    writer.add_tokenizer_model("rwkv")
    writer.add_token_list([b"<s>"] + [repr(text)[2:-1].encode() for text in texts[1:]])
    writer.add_token_types([3] + [1] * (len(texts) - 1))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    vocabulary = Vocabulary(path)
    found = [vocabulary.tokens(text) for text in TEXTS]
    vocabulary.close()
    return found


def plamo2():
    """A vocabulary of PLaMo 2's kind, whose scores leave many ties, and its cases."""
    rng = np.random.default_rng(7)
    words = sorted({text[i : i + n] for text in TEXTS for i in range(0, len(text), 3) for n in (1, 2, 3, 5)} - {""})
    texts = ["<|plamo:unk|>", "<|plamo:bos|>", "<|plamo:eos|>", "<|plamo:pad|>"] + [f"<0x{b:02X}>" for b in range(256)] + words
    scores = [0.0] * 260 + [round(float(x), 1) for x in -rng.uniform(1, 12, len(words))]
    # One that is never found, one that costs more than bytes, one as good as them.
    for i, score in ((265, -2500.0), (270, -1500.0), (280, 3.5)):
        scores[i] = score
    path = FIXTURES / "plamo2.gguf"
    writer = gguf.GGUFWriter(path, "plamo2")
    writer.add_tokenizer_model("plamo2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([text.encode() for text in texts])
    writer.add_token_scores(scores)
    writer.add_token_types([2, 3, 3, 3] + [6] * 256 + [1] * len(words))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    vocabulary = Vocabulary(path)
    found = [vocabulary.tokens(text) for text in TEXTS]
    vocabulary.close()
    return found


def hybriddna():
    """A vocabulary of BPE with tokens of six letters, and the cases of texts with sequences among others."""
    fields = fields_of(VOCABS / "ggml-vocab-gpt-2.gguf")
    kmers = ["ACGTAC", "AAAAAA", "CCCCCC", "GATTAC", "TTAAAA"]
    texts = fields["tokens"][:2000] + ["CCCCCC", "<dna>", "</dna>", "<oov>"] + [f"{kmer}\ue000" for kmer in kmers]
    known = set(texts)
    path = FIXTURES / "hybriddna.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("hybriddna")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(texts)
    writer.add_token_types([1] * len(texts))
    writer.add_token_merges([m for m in fields["merges"] if m.replace(" ", "", 1) in known and all(part in known for part in m.split(" ", 1))])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    vocabulary = Vocabulary(path)
    found = [vocabulary.tokens(text) for text in DNA]
    vocabulary.close()
    return found


DNA = ["the <dna>ACGTACcccccc</dna> and ACGTAC CCCCCC", "<dna></dna>", "<dna>GATTACTT", "x<dna>gattacA</dna><dna>NNNNNNacgtac</dna>", "</dna> <oov> <dna",
       "<dna>AAAAAA\u00e9AAAA</dna>end", "a<dna>TTAAAATT<dna>A</dna></dna>"]


def main():
    c.llama_log_set(QUIET, None)
    groups = {}
    for name, (expressions, ignore_merges) in names_and_expressions(Path(sys.argv[1])).items():
        vocab, keys = PIECES.get(name, BASE), dict(pre=name)
        if name in PIECES:
            keys |= dict(model="gpt2")
        elif name == "whitespace":
            keys |= dict(model="whitespace")
        vocabulary = Vocabulary(VOCABS / f"ggml-vocab-{vocab}.gguf", **keys)
        found = [vocabulary.tokens(text) for text in TEXTS]
        vocabulary.close()
        if vocab == BASE and name != "whitespace":
            other = hugging_face(tuple(PUBLISHED.get(name, expressions)), ignore_merges)
            judged = [other.encode(text, add_special_tokens=False).ids for text in TEXTS]
            wrong = [TEXTS[i] for i in range(len(TEXTS)) if judged[i] != found[i]]
            if wrong:
                print(name, wrong)
            found = judged
        if name in ("qwen2", "deepseek-r1-qwen", "f2llmv2"):
            # These compose characters first, which llama.cpp does not.
            found = [o.ids for o in (other.encode(unicodedata.normalize("NFC", text), add_special_tokens=False) for text in TEXTS)]
        groups.setdefault(json.dumps([vocab, keys.get("model"), found]), []).append(name)
    rows = []
    for key, names in groups.items():
        vocab, model, found = json.loads(key)
        rows.append(json.dumps(dict(names=names, vocab=vocab, model=model, tokens=found), separators=(",", ":")))
    rows.append(json.dumps(dict(names=[], vocab="rwkv", model=None, tokens=rwkv()), separators=(",", ":")))
    rows.append(json.dumps(dict(names=[], vocab="plamo2", model=None, tokens=plamo2()), separators=(",", ":")))
    rows.append(json.dumps(dict(names=[], vocab="hybriddna", model=None, texts=DNA, tokens=hybriddna()), separators=(",", ":")))
    text = ",\n".join(rows)
    (FIXTURES / "pre.json").write_text(f'{{"texts":{json.dumps(TEXTS)},\n"groups":[\n{text}\n]}}\n')
    print(len(groups), "groups", (FIXTURES / "pre.json").stat().st_size, "bytes")


@c.llama_log_callback
def QUIET(_level, _text, _user_data):
    pass


if __name__ == "__main__":
    main()
