"""Writes tests/fixtures/rank: tiny classifiers and rerankers with random weights, as folders and as GGUF files, and their scores by
`transformers`.

    python tests/oracle/rank_golden.py

Needs torch, transformers and gguf. `scores.json` has for each folder what its texts, or its query and documents, are scored with.
"""

import json
import pathlib
import shutil

import gguf
import torch
import transformers as tf
from safetensors import safe_open
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = pathlib.Path(__file__).resolve().parents[1] / "fixtures/rank"
QUERY = "who ate the fish"
TEXTS = [
    "the cat ate a fish, and slept",
    "ships sail at noon",
    "a",
    "no fish was here. yes, it was the cat who ate the fish and then the bird",
]
CORPUS = [QUERY, *TEXTS, "yes no yes no", "Judge whether the Document meets the requirements", "Query Document Instruct answer"]
TEMPLATE = (
    '<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that '
    'the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant '
    "passages that answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
)


def bert_tokenizer():
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    words = ["the", "cat", "fish", "who", "##ip", "##s", ",", "."]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *["##" + c for c in letters if c != "s"], *words]
    t = Tokenizer(models.WordPiece({text: i for i, text in enumerate(tokens)}, unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    frame = {"single": "[CLS] $A [SEP]", "pair": "[CLS] $A [SEP] $B:1 [SEP]:1"}
    t.post_processor = processors.TemplateProcessing(**frame, special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    t.add_special_tokens(tokens[:5])
    roles = dict(unk_token="[UNK]", sep_token="[SEP]", pad_token="[PAD]", cls_token="[CLS]", mask_token="[MASK]")
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return tf.PreTrainedTokenizerFast(tokenizer_object=t, model_input_names=names, **roles)


def qwen_tokenizer():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(CORPUS * 4, trainers.BpeTrainer(vocab_size=320, special_tokens=specials, initial_alphabet=alphabet))
    assert t.token_to_id("yes") is not None and t.token_to_id("no") is not None
    return tf.PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|endoftext|>", pad_token="<|endoftext|>")


def randomize(model, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            norm = p.dim() == 1 and name.endswith("weight")
            p.copy_(1 + 0.2 * torch.randn(p.shape, generator=g) if norm else 0.25 * torch.randn(p.shape, generator=g))
    return model.eval()


def bert(n_labels, seed, **more):
    sizes = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64)
    config = tf.BertConfig(vocab_size=len(bert_tokenizer()), num_labels=n_labels, **sizes, **more)
    return randomize(tf.BertForSequenceClassification(config), seed)


def qwen(cls, seed, **more):
    sizes = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16)
    tokens = qwen_tokenizer()
    config = tf.Qwen3Config(vocab_size=len(tokens), max_position_embeddings=512, pad_token_id=tokens.pad_token_id, **sizes, **more)
    return randomize(cls(config), seed)


def activate(model, logits):
    """As the pipeline for text classification does."""
    kind, n = model.config.problem_type, model.config.num_labels
    if kind == "regression":
        return logits
    return torch.sigmoid(logits) if kind == "multi_label_classification" or n == 1 else torch.softmax(logits, -1)


def run(model, inputs):
    with torch.no_grad():
        return model(**inputs).logits[0]


BERT = {
    "bert.embeddings.word_embeddings": "token_embd", "bert.embeddings.position_embeddings": "position_embd",
    "bert.embeddings.token_type_embeddings": "token_types", "bert.embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
    "bert.pooler.dense": "cls", "classifier": "cls.output",
}
QWEN = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def renamed(name, table):
    stem, end = name.rsplit(".", 1)
    if ".layer" in stem:
        head, rest = stem.split("layer.", 1) if "encoder.layer." in stem else stem.split("layers.", 1)
        number, part = rest.split(".", 1)
        return f"blk.{number}.{table[part]}.{end}"
    return f"{table[stem]}.{end}"


def write_bert(model, tokens, path, labels):
    c = model.config
    w = gguf.GGUFWriter(path, "bert")
    w.add_block_count(c.num_hidden_layers), w.add_context_length(c.max_position_embeddings), w.add_embedding_length(c.hidden_size)
    w.add_feed_forward_length(c.intermediate_size), w.add_head_count(c.num_attention_heads), w.add_layer_norm_eps(c.layer_norm_eps)
    w.add_causal_attention(False), w.add_pooling_type(gguf.PoolingType.RANK), w.add_token_type_count(2)
    if labels:
        w.add_array("bert.classifier.output_labels", labels)
    texts = sorted(tokens.get_vocab(), key=tokens.get_vocab().get)
    plain = lambda t: t if t.startswith("[") else t[2:] if t.startswith("##") else "\u2581" + t
    w.add_tokenizer_model("bert"), w.add_tokenizer_pre("jina-v2-en"), w.add_token_list([plain(t) for t in texts])
    w.add_token_types([3 if t.startswith("[") else 1 for t in texts])
    w.add_bos_token_id(2), w.add_sep_token_id(3), w.add_pad_token_id(0), w.add_unk_token_id(1), w.add_mask_token_id(4)
    for name, p in model.state_dict().items():
        if not name.endswith("position_ids"):
            w.add_tensor(renamed(name, BERT), p.numpy())
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


def write_qwen(model, tokens, path):
    """As llama.cpp's converter writes Qwen3-Reranker."""
    c = model.config
    w = gguf.GGUFWriter(path, "qwen3")
    w.add_block_count(c.num_hidden_layers), w.add_context_length(c.max_position_embeddings), w.add_embedding_length(c.hidden_size)
    w.add_feed_forward_length(c.intermediate_size), w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(c.num_key_value_heads), w.add_layer_norm_rms_eps(c.rms_norm_eps), w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim), w.add_rope_freq_base(c.rope_parameters["rope_theta"])
    w.add_pooling_type(gguf.PoolingType.RANK), w.add_array("qwen3.classifier.output_labels", ["yes", "no"])
    w.add_chat_template([{"name": "rerank", "template": TEMPLATE}])
    texts = sorted(tokens.get_vocab(), key=tokens.get_vocab().get)
    w.add_tokenizer_model("gpt2"), w.add_tokenizer_pre("gpt-2"), w.add_token_list(texts)
    w.add_token_types([3 if t.startswith("<|") else 1 for t in texts])
    merges = json.loads(tokens.backend_tokenizer.to_str())["model"]["merges"]
    w.add_token_merges([" ".join(m) if isinstance(m, list) else m for m in merges])
    w.add_eos_token_id(tokens.eos_token_id), w.add_add_bos_token(False)
    for name, p in model.state_dict().items():
        if name == "lm_head.weight":
            rows = torch.stack([p[tokens.convert_tokens_to_ids(t)] for t in ("yes", "no")])
            w.add_tensor("cls.output.weight", rows.numpy())
        else:
            w.add_tensor(renamed(name, QWEN), p.numpy())
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    scores = {}
    b, q = bert_tokenizer(), qwen_tokenizer()

    def save(name, model, tokens):
        model.save_pretrained(OUT / name)
        tokens.save_pretrained(OUT / name)

    for name, n, seed, more in [
        ("bert-rerank", 1, 1, {}),
        ("bert-labels", 3, 2, {"id2label": {0: "bad", 1: "so so", 2: "good"}}),
        ("bert-several", 2, 3, {"problem_type": "multi_label_classification"}),
        ("bert-number", 1, 4, {"problem_type": "regression"}),
    ]:
        model = bert(n, seed, **more)
        save(name, model, b)
        single = [run(model, b(text, return_tensors="pt")) for text in TEXTS]
        entry = {"texts": [activate(model, x).tolist() for x in single], "logits": [x.tolist() for x in single]}
        entry["labels"] = [model.config.id2label[i] for i in range(n)]
        if n == 1:
            pairs = [run(model, b(QUERY, text, return_tensors="pt")) for text in TEXTS]
            entry["pairs"] = [activate(model, x).tolist()[0] for x in pairs]
            plain = [b(QUERY, text, return_tensors="pt") for text in TEXTS]
            for inputs in plain:
                inputs["token_type_ids"] = torch.zeros_like(inputs["token_type_ids"])
            entry["pairs_of_one_type"] = [activate(model, run(model, inputs)).tolist()[0] for inputs in plain]
            ids = b(QUERY, TEXTS[0])
            assert 1 in ids["token_type_ids"] and ids["input_ids"][0] == 2
        scores[name] = entry
        if name in ("bert-rerank", "bert-labels"):
            write_bert(model, b, str(OUT / f"{name}.gguf"), entry["labels"] if n > 1 else None)
    model = qwen(tf.Qwen3ForSequenceClassification, 5, num_labels=2, id2label={0: "cold", 1: "warm"})
    save("qwen3-labels", model, q)
    single = [run(model, q(text, return_tensors="pt")) for text in TEXTS]
    scores["qwen3-labels"] = {
        "texts": [activate(model, x).tolist() for x in single],
        "logits": [x.tolist() for x in single],
        "labels": ["cold", "warm"],
    }
    model = qwen(tf.Qwen3ForCausalLM, 6, tie_word_embeddings=False)
    save("qwen3-reranker", model, q)
    pairs = []
    for text in TEXTS:
        logits = run(model, q(TEMPLATE.replace("{query}", QUERY).replace("{document}", text), return_tensors="pt"))[-1]
        both = logits[[q.convert_tokens_to_ids("yes"), q.convert_tokens_to_ids("no")]]
        pairs.append(torch.softmax(both, 0)[0].item())
    scores["qwen3-reranker"] = {"pairs": pairs}
    write_qwen(model, q, str(OUT / "qwen3-reranker.gguf"))
    (OUT / "scores.json").write_text(json.dumps({"query": QUERY, "texts": TEXTS, "scores": scores}, indent=1) + "\n")


if __name__ == "__main__":
    main()
