"""Writes tests/fixtures/tokenizer/*.json: texts and the tokens that llama.cpp gives for them.

A fixture names its model file and holds cases [text, parse_special, tokens], without BOS and EOS. Characters that
Unicode added after version 15 are avoided: which of them are letters depends on the age of a program's tables.
"""

import json
import os
import random

from llamacpp import LlamaCpp

MODELS = ["SmolLM2-135M-Instruct.Q4_1.gguf", "stories15M.gguf"]
FIXTURES = os.path.join(os.path.dirname(__file__), "..", "fixtures", "tokenizer")
N_RANDOM = 170

CHOSEN = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", " \n\n  \n", "a", " a", "  a", "a ", "a  b", "a\n\nb", "\r\n\r\n x",
    "Hello, world!", "The capital of France is", "Once upon a time", "I'll say it's John's; they'VE gone, don't you?",
    "3.14159 and 2026-11-21 cost $1,234.50 or 50%", "0x7fff 1e-5 ²½Ⅷ①", "snake_case camelCase kebab-case",
    "fn main() {\n    println!(\"{}\", x[0] as u32);\n}\n", "a\u00a0b\u3000c\u2028d\u0085e",
    "Füße, naïve café, Ærøskøbing, Łódź", "Привет, мир! Γειά σου Κόσμε", "日本語のテキスト。 中文文本 한국어",
    "مرحبا بالعالم שלום עולם", "हिन्दी ไทย বাংলা", "😀👨‍👩‍👧‍👦🏳️‍🌈 ❤️", "e\u0301 vs é", "\ufeffBOM", "a\u0000b\u0004\u0016c\u007f",
    "\U0010ffff\U000f0000\ue000", "<s></s><unk><0x41>", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "<|endoftext|><|endoftext|> <|im_end|", "</s> </s>x<s>", "▁▁ a▁b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", " " * 70,
    "=" * 50 + "\n" + "-" * 33, "https://example.org/a?b=c&d=%20#e",
]  # fmt: skip

WORDS = (
    "the of and to in is you that it he was for on are as with his they at be this have from or one had by word but "
    "not what all were we when your can said there use an each which she do how their if will up other about out many "
    "then them these so some her would make like him into time has look two more write go see number no way could"
).split()


def random_text(rng):
    def character(*ranges):
        return chr(rng.randint(*rng.choice(ranges)))

    makers = [
        lambda: " " + rng.choice(WORDS),
        lambda: rng.choice(WORDS).capitalize(),
        lambda: rng.choice([" ", "  ", "    ", "\n", "\n\n", "\t", "\r\n", "\u00a0"]),
        lambda: "".join(rng.choices("0123456789", k=rng.randint(1, 5))),
        lambda: "".join(rng.choices("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", k=rng.randint(1, 3))),
        lambda: rng.choice(["'s", "'S", "'re", "'LL", "'d", "'ve", "<s>", "</s>", "<|im_end|>", "<repo_name>"]),
        lambda: character((0xA1, 0x24F), (0x391, 0x3C9), (0x410, 0x44F)),
        lambda: character((0x5D0, 0x5EA), (0x905, 0x939), (0x3041, 0x3096), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3)),
        lambda: character((0x1F300, 0x1F5FF), (0xE000, 0xF8FF), (0, 0x1F)),
    ]
    return "".join(rng.choice(makers)() for _ in range(rng.randint(1, 12)))


def main():
    directory = os.environ.get("EMBER_MODELS", os.path.expanduser("~/.cache/ember/models"))
    for name in MODELS:
        model = LlamaCpp(os.path.join(directory, name), n_ctx=8)
        chosen = [(text, parse_special) for text in CHOSEN for parse_special in (False, True)]
        rng = random.Random(2026)
        chosen += [(random_text(rng), rng.random() < 0.5) for _ in range(N_RANDOM)]
        cases = [[text, special, model.tokenize(text, False, special)] for text, special in chosen]
        model.close()
        stem = name.split("-")[0].split(".")[0].lower()
        rows = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
        with open(os.path.join(FIXTURES, stem + ".json"), "w", encoding="utf-8") as f:
            f.write(f'{{"model":{json.dumps(name)},"cases":[\n{rows}\n]}}\n')


main()
