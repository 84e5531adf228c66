"""Writes tests/fixtures/tokenizer/random/FAMILY.txt: what Hugging Face's tokenizers make of 100,000 random texts.

    python tokenizer_random.py                    all families
    python tokenizer_random.py gemma3 llama2      these
    python tokenizer_random.py --show gemma3 37   chunk 37 of one: a text (hexadecimal), whether control tokens are
                                                  parsed, and the tokens, as JSON on a line each

A fixture has one line for each 1,000 texts: the FNV-1a hash of their tokens. tests/it/tokenizer_random.rs makes the same
texts by the same rules (`Texts` there and here; change both) and compares. Every other text is encoded with control
tokens as plain text. One text in eight has bytes that are no UTF-8, which these tokenizers do not take: what is valid
is encoded as it is, and each gap between as one word of bytes, as `Tokenizer::encode_bytes` documents.
"""

import base64
import json
import os
import sys

from tokenizers import Tokenizer

MODELS = os.environ.get("EMBER_MODELS", os.path.expanduser("~/.cache/ember/models"))
FIXTURES = os.path.join(os.path.dirname(__file__), "..", "fixtures", "tokenizer", "random")
# The folder of the tokenizer, and the special tokens that texts have; without a list, all of them. Families with a list
# are for GGUF files, whose other added tokens may not be those of the tokenizer.json.
#
# For Unigram there is no tokenizer.json, so one is made of the vocabulary of XLM-RoBERTa in `nomic-bert-moe`'s GGUF file.
# The GGUF file itself is held against llama.cpp, without the bytes that are no UTF-8: Hugging Face's normalization goes
# by grapheme clusters and keeps trailing and repeated spaces, SentencePiece's and llama.cpp's do not. Hugging Face's
# Unigram model spells control tokens from plain text, which Ember never does, so all its texts are parsed. llama.cpp takes
# only ASCII white space along with `<mask>`, so it gets none.
UNIGRAM = ["<s>", "</s>", "<unk>", "<mask>", "<pad>"]
UNIGRAM_FILE = os.path.join(MODELS, "vocabs", "ggml-vocab-nomic-bert-moe.gguf")
FAMILIES = {
    "gguf-unigram": (None, None),
    **{
        name: (f"tokenizers/{name}", None)
        for name in (
            "deepseek_v3", "gemma3", "gpt2", "gptoss", "llama2", "llama3_2", "mistral_nemo", "qwen2_5", "qwen3",
        )
    },
    "minilm": ("all-MiniLM-L6-v2", None),
    "gguf-bert": ("all-MiniLM-L6-v2", ["[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]"]),
    "gguf-gemma3": (
        "tokenizers/gemma3",
        ["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<h1>", "</table>", "[multimodal]"],
    ),
    "gguf-gpt2": ("tokenizers/gpt2", ["<|endoftext|>"]),
    "gguf-llama2": ("tokenizers/llama2", ["<s>", "</s>", "<unk>"]),
    "gguf-llama3": (
        "tokenizers/llama3_2",
        ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
    ),
    "json-unigram": (None, UNIGRAM),
        "gguf-qwen2": ("tokenizers/qwen2_5", ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]),
}  # fmt: skip
N_CHUNKS, CHUNK = 100, 1000
MASK = (1 << 64) - 1

WORDS = (
    "the of and to in is you that it he was for on are as with his they at be this have from or one had by word but "
    "not what all were we when your can said there use an each which she do how their if will up other about out many "
    "then them these so some her would make like him into time has look two more write go see number no way could "
    "internationalization don't I'm def return print self function const var null true false {} [] != == /* */ </div>"
).split()
SPACES = [" ", " ", " ", "\n", "\t", "\r\n", "\u00a0", "\u2003", "\u3000", "\u0085", "\u2028", "\v", "\f", "\r"]
MARKS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
CONTRACTIONS = ["'s", "'S", "'re", "'LL", "'d", "'ve", "'ſ", "'T", "'m", "’s", "'Re", "''", "'x", "İ", "ß", "ﬁ", "ŉ"]
EMOJI = [0x1F600, 0x1F468, 0x1F469, 0x1F467, 0x1F3F3, 0x2764, 0x1F44D, 0x1F9D1, 0x1F680, 0x1F1E9, 0x1F1EA, 0x31, 0x23]
JOINERS = [0x200D, 0xFE0F, 0x1F3FB, 0x1F3FF, 0x20E3, 0xE0067, 0xE007F, 0x200D, 0x200D]
MARKED = [(0x300, 0x36F), (0x483, 0x489), (0x591, 0x5BD), (0x64B, 0x65F), (0x93A, 0x94D), (0xE31, 0xE3A), (0x1AB0, 0x1ABD), (0x20D0, 0x20F0)]
CONTROLS = [(0, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x2064), (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFD)]
CJK = [(0x4E00, 0x9FA5), (0x3041, 0x3096), (0x30A1, 0x30FA), (0xAC00, 0xD7A3), (0x3400, 0x4DB5), (0x3001, 0x3020), (0xFF01, 0xFF5E), (0x20000, 0x2A6D6), (0xF900, 0xFA6D)]
ARABIC = [(0x620, 0x64A), (0x660, 0x669), (0x6F0, 0x6F9), (0x671, 0x6D3), (0xFB50, 0xFBB1), (0xFE70, 0xFE74)]
LETTERS = [(0xA1, 0x24F), (0x391, 0x3A1), (0x3B1, 0x3C9), (0x410, 0x44F), (0x531, 0x556), (0x5D0, 0x5EA), (0x905, 0x939), (0x995, 0x9A8), (0xE01, 0xE2E), (0x10A0, 0x10C5), (0x1E00, 0x1EFF), (0x1F00, 0x1F15), (0x2160, 0x2188), (0x1D400, 0x1D454)]
OTHERS = [(0xB2, 0xB3), (0xBC, 0xBE), (0x2010, 0x2027), (0x2070, 0x2071), (0x20A0, 0x20BF), (0x2190, 0x23FF), (0x2460, 0x24FF), (0x2581, 0x2581), (0xE000, 0xF8FF), (0x1F300, 0x1F64F), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFF)]


class Texts:
    """The texts, each made by SplitMix64 from its number."""

    def __init__(self, specials):
        self.specials = specials
        self.state = 0

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % n

    def one_of(self, choices):
        return choices[self.below(len(choices))]

    def char(self, ranges):
        first, last = self.one_of(ranges)
        return chr(first + self.below(last - first + 1))

    def run(self, ranges, longest):
        return "".join(self.char(ranges) for _ in range(1 + self.below(longest)))

    def anything(self):
        code = self.below(0x110000 - 0x800)
        return chr(code if code < 0xD800 else code + 0x800)

    def part(self):
        match self.below(18):
            case 0 | 1:
                return " " + self.one_of(WORDS)
            case 2:
                word = self.one_of(WORDS)
                return word[:1].upper() + word[1:]
            case 3:
                return self.one_of(SPACES) * (1 + self.below(4))
            case 4:
                return self.one_of(SPACES) * (1 + self.below(60))
            case 5:
                return "".join(chr(0x30 + self.below(10)) for _ in range(1 + self.below(24)))
            case 6:
                return "".join(self.one_of(MARKS) for _ in range(1 + self.below(6)))
            case 7:
                return self.one_of(CONTRACTIONS)
            case 8:
                return self.run(CONTROLS, 3)
            case 9:
                return self.anything()
            case 10:
                return "".join(
                    chr(self.one_of(EMOJI)) + chr(self.one_of(JOINERS)) for _ in range(1 + self.below(4))
                ) + chr(self.one_of(EMOJI))
            case 11:
                return "".join(chr(0x61 + self.below(26)) + self.run(MARKED, 3) for _ in range(1 + self.below(3)))
            case 12:
                return self.run(CJK, 6)
            case 13:
                return self.run(ARABIC, 6)
            case 14:
                return self.run(LETTERS, 6)
            case 15:
                return self.run(OTHERS, 3)
            case 16 | 17:
                return self.one_of(self.specials)

    def make(self, number):
        """Text `number`, as bytes."""
        self.state = (number * 0x2545F4914F6CDD1D) & MASK
        parts = [self.part().encode() for _ in range(1 + self.below(10))]
        if number % 8 == 7:
            for _ in range(1 + self.below(3)):
                gap = bytes(0x80 + self.below(0x80) for _ in range(1 + self.below(4)))
                parts.insert(self.below(len(parts) + 1), gap)
        return b"".join(parts)


def byte_alphabet():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(0x100 + i) for i, b in enumerate(rest)}}


def unigram_json():
    from gguf import GGUFReader

    fields = GGUFReader(UNIGRAM_FILE).fields
    tokens, scores, charsmap = (
        fields["tokenizer.ggml." + key].contents() for key in ("tokens", "scores", "precompiled_charsmap")
    )
    common = {"single_word": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": tokens.index(text), "content": text, "lstrip": text == "<mask>", **common} for text in UNIGRAM
        ],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(bytes(charsmap)).decode()},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "post_processor": None,
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": 3, "vocab": list(zip(tokens, scores)), "byte_fallback": False},
    }


class LlamaCpp:
    """llama.cpp on the vocabulary of a GGUF file."""

    def __init__(self, file, specials):
        import llama_cpp

        self.model = llama_cpp.Llama(file, vocab_only=True, verbose=False)
        self.texts = Texts(specials)

    def encode(self, number):
        raw, parse = self.texts.make(number).decode(errors="ignore").encode(), number % 2 == 0
        return raw, parse, self.model.tokenize(raw, add_bos=False, special=parse)


class Family:
    def __init__(self, name):
        folder, specials = FAMILIES[name]
        if folder is None:
            file = unigram_json()
        else:
            with open(os.path.join(MODELS, folder, "tokenizer.json"), encoding="utf-8") as f:
                file = json.load(f)
        self.plain, self.parsing = (Tokenizer.from_str(json.dumps({**file, "padding": None, "truncation": None})) for _ in range(2))
        self.plain.encode_special_tokens = True
        self.texts = Texts(specials or [added["content"] for added in file["added_tokens"]])
        self.kind = file["model"]["type"] if "type" in file["model"] else "BPE"
        self.bytes = bool(file["model"].get("byte_fallback"))
        self.unk = file["model"].get("unk_token", "<unk>")
        self.alphabet = byte_alphabet()
        # Text after a gap does not start the sequence, so nothing is put before it.
        normalizer = file.get("normalizer") or {}
        steps = normalizer.get("normalizers", [normalizer])
        self.inner = {}
        if any(step.get("type") == "Prepend" for step in steps):
            kept = [step for step in steps if step.get("type") != "Prepend"]
            bare = {**file, "normalizer": {"type": "Sequence", "normalizers": kept}, "padding": None, "truncation": None}
            for plain in (True, False):
                self.inner[plain] = Tokenizer.from_str(json.dumps(bare))
                self.inner[plain].encode_special_tokens = plain

    def gap(self, gap):
        if self.kind in ("WordPiece", "Unigram"):
            return [self.parsing.token_to_id(self.unk)]
        if self.bytes:
            return [self.parsing.token_to_id(f"<0x{b:02X}>") for b in gap]
        return [token.id for token in self.parsing.model.tokenize("".join(self.alphabet[b] for b in gap))]

    def encode(self, number):
        """The text, whether control tokens are parsed, and the tokens."""
        raw, plain = self.texts.make(number), number % 2 == 1 and self.kind != "Unigram"
        tokenizer = self.plain if plain else self.parsing
        ids, valid, gap, after_gap = [], "", b"", False

        def flush():
            nonlocal valid
            if not valid:
                return
            if after_gap and self.inner:
                # Only what is before the first special token lacks the prefix.
                found = self.split(valid, plain)
                ids.extend(self.inner[plain].encode(found[0], add_special_tokens=False).ids)
                ids.extend(tokenizer.encode(found[1], add_special_tokens=False).ids)
            else:
                ids.extend(tokenizer.encode(valid, add_special_tokens=False).ids)
            valid = ""

        for c in raw.decode("utf-8", "surrogateescape"):
            if 0xDC80 <= ord(c) <= 0xDCFF:
                flush()
                gap += bytes([ord(c) - 0xDC00])
                after_gap = True
            else:
                if gap:
                    ids.extend(self.gap(gap))
                    gap = b""
                valid += c
        flush()
        if gap:
            ids.extend(self.gap(gap))
        return raw, not plain, ids

    def split(self, text, plain):
        """`text` before and from its first special token on."""
        if plain:
            return text, ""
        places = [text.find(special) for special in self.texts.specials]
        first = min((place for place in places if place >= 0), default=len(text))
        return text[:first], text[first:]


def fnv(h, number):
    for byte in number.to_bytes(4, "little"):
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def open_family(name):
    return LlamaCpp(UNIGRAM_FILE, UNIGRAM[:3]) if name == "gguf-unigram" else Family(name)


def main():
    if sys.argv[1:2] == ["--show"]:
        family, chunk = open_family(sys.argv[2]), int(sys.argv[3])
        for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
            raw, parse, ids = family.encode(number)
            print(json.dumps([raw.hex(), parse, ids]))
        return
    os.makedirs(FIXTURES, exist_ok=True)
    for name in sys.argv[1:] or FAMILIES:
        family = open_family(name)
        with open(os.path.join(FIXTURES, name + ".txt"), "w", encoding="ascii") as f:
            for chunk in range(N_CHUNKS):
                h = 0xCBF29CE484222325
                for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
                    ids = family.encode(number)[2]
                    h = fnv(h, len(ids))
                    for token in ids:
                        h = fnv(h, token)
                f.write(f"{h:016x}\n")


if __name__ == "__main__":
    main()
