"""Drives every field of `tokenizer_config.json` (and the files beside it) through `AutoTokenizer`.

Small tokenizers of the classes that the supported model types have are trained here and saved by `transformers`. Each case is such a
folder with a field absent, null or changed, or several. The tokens of some texts, with and without those that frame a text, go into
tests/fixtures/tokenizer/fields/FAMILY.json. tests/it/hf_tokenizer_fields.rs holds Ember to them: the same tokens, or a refusal that names
the field.

    python tokenizer_fields.py [--out FOLDER] [FAMILY ...]
    python tokenizer_fields.py --check     whether docs/tokenizer-fields.md lists every field that the installed `transformers` has
"""

import argparse
import inspect
import json
import logging
import random
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerBase

ROOT = Path(__file__).resolve().parents[1] / "fixtures"
DEFAULT_OUTPUT = ROOT / "tokenizer/fields"
PAGE = ROOT.parents[1] / "docs/tokenizer-fields.md"
RANDOM_FOLDERS = 24
ABSENT = object()

TEXTS = [
    "", " ", "Hello world", " Hello  world ", "Über Café, naïve ÉCOLE", "e\u0301cole I\u0307", "日本語 text 漢字", "don't I'LL we've", "a<s>b </s> c",
    "<|endoftext|>x <|endoftext|> y", "[CLS] a [SEP] b[MASK]", "x <new> y<new>z <NEW> w", "new Newer renew", "tab\tand\nline\n\n  two", "ÀÁ 123 4567",
    "<bos>hi<eos>", "▁under score", "emoji 🙂!", "ﬁ ligature ²", "<pad><unk>",
]
CORPUS = [
    "Hello world, the quick brown fox jumps over the lazy dog. new newer newest renew", "hello again, hello world! don't you think we've seen it?",
    "Über das Café: naïve école, ÉCOLE, ÜBER, àé", "uber das cafe naive ecole", "日本語 漢字 text and 123 4567 numbers", "tab\tand\nline\n\n  two  spaces",
    "under score a b c x y z w hi I'LL", "emoji 🙂 ligature fi 2",
] * 3


def wordpiece():
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=320, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False)
    made.train_from_iterator(CORPUS + [text.lower() for text in CORPUS], trainer)
    return json.loads(made.to_str())["model"]


def byte_level(specials, split=None, size=420):
    made = Tokenizer(models.BPE())
    own = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(split), "isolated"), own]) if split else own
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=specials, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    made.train_from_iterator(CORPUS, trainer)
    return json.loads(made.to_str())["model"]


def pieces(specials):
    made = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=560, special_tokens=specials + bytes_, show_progress=False)
    made.train_from_iterator([text for text in CORPUS if "日" not in text], trainer)
    return json.loads(made.to_str())["model"]


def unigram(specials):
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=specials, unk_token="<unk>", show_progress=False)
    made.train_from_iterator([text for text in CORPUS if "日" not in text], trainer)
    model = json.loads(made.to_str())["model"]
    model["vocab"] = [(text, round(score, 4)) for text, score in model["vocab"]]
    return model


def of_class(name, model_type, model, added=(), **settings):
    """A family whose tokenizer.json is what its class saves."""
    def save(folder):
        kind = getattr(transformers, name)
        vocab = {"vocab": model["vocab"]}
        if "merges" in model:
            vocab["merges"] = [tuple(m) if not isinstance(m, str) else tuple(m.split(" ")) for m in model["merges"]]
        kind(**vocab, **settings).save_pretrained(folder)
    return dict(model_type=model_type, save=save)


def backend(model_type):
    """A family whose tokenizer.json has parts of its own, as Llama 3's."""
    def save(folder):
        specials = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]
        model = byte_level([], QWEN)
        made = Tokenizer(models.BPE(vocab=model["vocab"], merges=[tuple(m) for m in model["merges"]], ignore_merges=True))
        made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        made.decoder = decoders.ByteLevel()
        made.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
        bos = made.token_to_id(specials[0])
        made.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
            single=f"{specials[0]} $A", pair=f"{specials[0]} $A {specials[0]} $B", special_tokens=[(specials[0], bos)])])
        transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token=specials[0], eos_token=specials[2]).save_pretrained(folder)
    return dict(model_type=model_type, save=save)


QWEN = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
FAMILIES = {
    "bert": lambda: of_class("BertTokenizer", "bert", wordpiece()),
    "gpt2": lambda: of_class("GPT2Tokenizer", "gpt2", byte_level(["<|endoftext|>"])),
    "gpt_neox": lambda: of_class("GPTNeoXTokenizer", "gpt_neox", byte_level(["<|endoftext|>", "<|padding|>"])),
    "qwen2": lambda: of_class("Qwen2Tokenizer", "qwen3", byte_level(["<|endoftext|>"], QWEN)),
    "gemma": lambda: of_class("GemmaTokenizer", "gemma3_text", pieces(["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"])),
    "llama": lambda: of_class("LlamaTokenizer", "llama", pieces(["<unk>", "<s>", "</s>"])),
    "xlm_roberta": lambda: of_class("XLMRobertaTokenizer", "xlm-roberta", unigram(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])),
    "t5": lambda: of_class("T5Tokenizer", "t5", unigram(["<pad>", "</s>", "<unk>"]), extra_ids=0, additional_special_tokens=["<extra_id_0>"]),
    "backend": lambda: backend("llama"),
}
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def token(content, **flags):
    return dict(content=content, **{flag: flags.get(flag, False) for flag in FLAGS})


def values(field, config):
    now = config.get(field)
    roles = ["<new>", "<|endoftext|>", "Hello"]
    special = {
        "tokenizer_class": [None, "PreTrainedTokenizerFast", "LlamaTokenizer", "BertTokenizerFast", "GPT2TokenizerFast", "Qwen2Tokenizer", "UnheardOf"],
        "added_tokens_decoder": decoders_of(config),
        "additional_special_tokens": [[], ["<new>"], ["Hello", "<new>"]], "extra_special_tokens": [[], ["<new>"], {"image_token": "<new>"}],
        "chat_template": [None, "x"], "errors": ["strict"], "model_max_length": [None, 3], "padding_side": ["left"], "truncation_side": ["left"],
        "image_token": ["<new>"], "legacy": [None, True, False], "clean_up_tokenization_spaces": [None, True, False],
        "auto_map": [{}], "sp_model_kwargs": [{}], "name_or_path": ["x"], "processor_class": ["x"], "backend": ["x"], "is_local": [True],
    }
    if field in special:
        return special[field]
    if field.endswith("_token") and not field.startswith("add_"):
        kind = {"__type": "AddedToken"}
        return [None, *roles, kind | token("<new>", special=True, lstrip=True), kind | token("<new>", rstrip=True), token("<new>")]
    return [None, True, False]


def decoders_of(config):
    """Other tokens on top of the model's."""
    now = config.get("added_tokens_decoder") or {}
    some = next(iter(now.items()), None)
    out = [{}]
    out += [now | {"9000": token("<new>", **flags)} for flags in (dict(special=True), dict(), dict(normalized=True), dict(lstrip=True, rstrip=True),
                                                                  dict(single_word=True), dict(special=True, lstrip=True))]
    out += [now | {"9000": token("new", normalized=True)}, now | {"9000": token("new", single_word=True)}, now | {"9000": token("École", normalized=True)}]
    if some:
        out += [now | {some[0]: some[1] | change} for change in (dict(lstrip=True), dict(rstrip=True), dict(special=False), dict(normalized=True))]
        out += [{some[0]: some[1]}]
    return out


# Fields of no class of transformers that files have.
LEGACY = ["do_basic_tokenize", "never_split", "sp_model_kwargs", "spaces_between_special_tokens", "use_fast", "processor_class", "auto_map", "image_token",
          "fix_mistral_regex", "chat_template", "tokenizer_file", "special_tokens_map_file", "name_or_path", "add_dummy_prefix", "max_length", "stride"]


def fields():
    """Every field that a constructor takes."""
    out = set(LEGACY) | set(PreTrainedTokenizerBase.SPECIAL_TOKENS_ATTRIBUTES)
    out |= {"added_tokens_decoder", "additional_special_tokens", "extra_special_tokens", "tokenizer_class", "add_bos_token", "add_eos_token",
            "add_prefix_space", "model_max_length", "padding_side", "truncation_side", "clean_up_tokenization_spaces", "split_special_tokens",
            "pad_token_type_id", "model_input_names", "backend", "is_local", "return_token_type_ids", "return_special_tokens_mask"}
    for name in ("BertTokenizer", "GPT2Tokenizer", "GPTNeoXTokenizer", "Qwen2Tokenizer", "GemmaTokenizer", "LlamaTokenizer", "TokenizersBackend",
                 "XLMRobertaTokenizer"):
        kind = getattr(transformers, name, None) or transformers.PreTrainedTokenizerFast
        out |= {p.name for p in inspect.signature(kind.__init__).parameters.values() if p.kind == p.POSITIONAL_OR_KEYWORD}
    text = inspect.getsource(PreTrainedTokenizerBase.__init__) + inspect.getsource(transformers.PreTrainedTokenizerFast.__init__)
    import re
    out |= set(re.findall(r"""kwargs\.(?:pop|get|setdefault)\(\s*["'](\w+)["']""", text))
    return sorted(out - {"self", "vocab", "merges", "tokenizer_object", "gguf_file", "post_processor", "args", "kwargs", "_json_truncation", "_json_padding",
                         "_spm_precompiled_charsmap", "tokenizer_truncation", "tokenizer_padding", "vocab_file", "tokenizer"})


def cases(config, tokenizer_json):
    """(field, keys that are set or ABSENT, files that are written) of every case."""
    out = []
    for field in fields():
        if field in config:
            out.append((field, {field: ABSENT}, {}))
        out += [(field, {field: value}, {}) for value in values(field, config) if field not in config or config[field] != value]
    gone = {"added_tokens_decoder": ABSENT}
    out += [("special_tokens_map.json", change, {"special_tokens_map.json": map_}) for change in ({}, gone) for map_ in (
        {"eos_token": "Hello"}, {"additional_special_tokens": ["<new>"]}, {"pad_token": token("<new>", lstrip=True)}, {})]
    out += [("added_tokens.json", change, {"added_tokens.json": map_}) for change in ({}, gone) for map_ in ({"<new>": 9000}, {"new": 9000}, {})]
    # What tokenizer.json says beside what the class builds.
    for part, value in (("normalizer", {"type": "Lowercase"}), ("normalizer", None), ("pre_tokenizer", None),
                        ("post_processor", None), ("added_tokens", []), ("truncation", dict(direction="Right", max_length=3, strategy="LongestFirst", stride=0))):
        if part == "pre_tokenizer" and config["tokenizer_class"] == "TokenizersBackend":
            continue  # a ByteLevel decoder without a pre-tokenizer spells another vocabulary
        out.append((f"tokenizer.json: {part}", {}, {"tokenizer.json": tokenizer_json | {part: value}}))
        if part in ("added_tokens", "normalizer"):
            out.append((f"tokenizer.json: {part}", gone, {"tokenizer.json": tokenizer_json | {part: value}}))
    return out


def apply(config, change):
    config = config | {k: v for k, v in change.items() if v is not ABSENT}
    return {k: v for k, v in config.items() if change.get(k) is not ABSENT}


class Driver:
    def __init__(self, family, work):
        self.work = Path(work)
        made = FAMILIES[family]()
        self.base = self.work / "base"
        made["save"](self.base)
        self.config = json.loads((self.base / "tokenizer_config.json").read_text())
        self.tokenizer = json.loads((self.base / "tokenizer.json").read_text())
        self.model_type = made["model_type"]

    def run(self, change, files):
        folder = Path(tempfile.mkdtemp(dir=self.work))
        try:
            (folder / "config.json").write_text(json.dumps(dict(model_type=self.model_type)))
            (folder / "tokenizer_config.json").write_text(json.dumps(apply(self.config, change)))
            (folder / "tokenizer.json").write_text(json.dumps(self.tokenizer))
            for name, content in files.items():
                (folder / name).write_text(json.dumps(content))
            made = AutoTokenizer.from_pretrained(folder)
            return [[made(text, add_special_tokens=special)["input_ids"] for text in TEXTS] for special in (False, True)]
        finally:
            shutil.rmtree(folder)


def drive(family, out):
    with tempfile.TemporaryDirectory() as work:
        driver = Driver(family, work)
        results, found, seen = [driver.run({}, {})], [], set()

        def add(field, change, files):
            key = json.dumps([apply(driver.config, change), files], sort_keys=True)
            if key in seen:
                return
            seen.add(key)
            case = dict(field=field, set={k: v for k, v in change.items() if v is not ABSENT}, remove=[k for k, v in change.items() if v is ABSENT])
            if "tokenizer.json" in files:
                part = field.removeprefix("tokenizer.json: ")
                case["tokenizer"] = {part: files["tokenizer.json"][part]}
            case |= {"files": {k: v for k, v in files.items() if k != "tokenizer.json"}}
            try:
                tokens = driver.run(change, files)
            except BaseException as e:  # panics of the Rust library are no Exception
                if isinstance(e, KeyboardInterrupt):
                    raise
                case["expect"], case["error"] = "error", f"{type(e).__name__}: {str(e)[:100]}"
            else:
                if tokens not in results:
                    results.append(tokens)
                case["expect"] = results.index(tokens)
            found.append(case)

        for case in cases(driver.config, driver.tokenizer):
            add(*case)
        rng = random.Random(41)
        alone = [c for c in found if c["expect"] != "error" and not c["files"] and "tokenizer" not in c]
        for _ in range(RANDOM_FOLDERS):
            change = {}
            for case in rng.sample(alone, 3):
                change |= case["set"] | {key: ABSENT for key in case["remove"]}
            add("several", change, {})
    facts = dict(model_type=driver.model_type, source=f"transformers {transformers.__version__}", texts=TEXTS, config=driver.config,
                 tokenizer=driver.tokenizer, results=results)
    dump = lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False)  # noqa: E731
    lines = ",\n".join(map(dump, found))
    (out / f"{family}.json").write_text(dump(facts)[:-1] + ',"cases":[\n' + lines + "\n]}\n")
    n_error = sum(case["expect"] == "error" for case in found)
    print(f"{family}: {len(found)} cases, {len(results)} results, {n_error} errors", flush=True)


def check():
    listed = {line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")}
    wrong = [field for field in fields() if field not in listed]
    print("\n".join(f"{field} is not in {PAGE.name}" for field in wrong) or f"{len(listed)} fields: transformers {transformers.__version__} has no other")
    sys.exit(bool(wrong))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="FAMILY")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    transformers.logging.set_verbosity(logging.CRITICAL)
    warnings.simplefilter("ignore")
    if args.check:
        check()
    args.out.mkdir(parents=True, exist_ok=True)
    for family in args.names or FAMILIES:
        drive(family, args.out)


if __name__ == "__main__":
    main()
