"""llama.cpp with a small Python class: tokens in, float32 logits of every position out.

Used by the other scripts of this folder; it makes no files of its own. It speaks llama.cpp's C API through
the `llama_cpp` package, because the package's own `Llama` class needs a tokenizer and the fixtures have none.
"""

import ctypes
import sys

import llama_cpp as c
import numpy as np

KV_TYPES = {"f32": 0, "f16": 1, "q8_0": 8}  # ggml type numbers
ERROR = 4  # ggml's log level


@c.llama_log_callback
def _log_errors(level, text, _user_data):
    if level == ERROR:
        print(text.decode(errors="replace"), end="", file=sys.stderr)


class LlamaCpp:
    """A model file and one context over it.

    n_ctx      tokens that fit the context; 0 takes the model's own number
    kv         element type of the KV cache: "f16" (llama.cpp's default) or "f32"
    flash      flash attention on or off; None lets llama.cpp choose
    n_threads  threads for prefill and decode
    repack     let llama.cpp rearrange weights for the CPU at hand (its default)
    embeddings for `encode` instead of `decode`
    n_ubatch   most tokens evaluated at once; 0 takes n_ctx
    """

    def __init__(self, path, n_ctx=0, kv="f16", flash=None, n_threads=1, repack=True, embeddings=False, n_ubatch=0):
        c.llama_log_set(_log_errors, None)
        model_params = c.llama_model_default_params()
        model_params.use_extra_bufts = repack
        self.model = c.llama_model_load_from_file(str(path).encode(), model_params)
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {path}")
        self.vocab = c.llama_model_get_vocab(self.model)
        self.n_vocab = c.llama_vocab_n_tokens(self.vocab)
        params = c.llama_context_default_params()
        params.n_ctx = n_ctx or c.llama_model_n_ctx_train(self.model)
        params.n_batch, params.n_ubatch = params.n_ctx, n_ubatch or params.n_ctx
        params.n_threads = params.n_threads_batch = n_threads
        params.type_k = params.type_v = KV_TYPES[kv]
        params.flash_attn_type = -1 if flash is None else int(flash)
        params.embeddings = embeddings
        if embeddings:
            params.pooling_type = c.LLAMA_POOLING_TYPE_NONE
        self.ctx = c.llama_init_from_model(self.model, params)
        if not self.ctx:
            raise RuntimeError(f"llama.cpp cannot make a context over {path}")
        self.n_past = 0

    def reset(self):
        """Empties the KV cache."""
        c.llama_memory_clear(c.llama_get_memory(self.ctx), True)
        self.n_past = 0

    def decode(self, tokens, last=None):
        """Appends `tokens` in one batch; returns the logits of all, or of the `last` so many: [rows, n_vocab]."""
        first = len(tokens) - (last or len(tokens))
        self._run(tokens, first)
        return np.stack([np.ctypeslib.as_array(c.llama_get_logits_ith(self.ctx, i), shape=(self.n_vocab,)).copy()
                         for i in range(first, len(tokens))])

    def encode(self, tokens):
        """The last hidden state of each of `tokens`, shape [len(tokens), n_embd]."""
        self._run(tokens, call="llama_encode")
        n_embd = c.llama_model_n_embd(self.model)
        return np.stack([np.ctypeslib.as_array(c.llama_get_embeddings_ith(self.ctx, i), shape=(n_embd,)).copy()
                         for i in range(len(tokens))])

    def read(self, text):
        """Has the encoder of a model with a decoder read `text`; the decoder's tokens are next."""
        self._run(text, call="llama_encode")
        self.n_past = 0

    def _run(self, tokens, first=0, call="llama_decode"):
        """Evaluates one batch, with output at every position from `first` on."""
        batch = c.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = self.n_past + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = i >= first
        status = getattr(c, call)(self.ctx, batch)
        c.llama_batch_free(batch)
        if status != 0:
            raise RuntimeError(f"{call} returned {status}")
        self.n_past += len(tokens)

    def tokenize(self, text, add_special=True, parse_special=False):
        """Token ids of `text`; BOS and EOS as the file's metadata says when `add_special`."""
        data = text.encode()
        ids = (c.llama_token * (len(data) + 8))()
        n = c.llama_tokenize(self.vocab, data, len(data), ids, len(ids), add_special, parse_special)
        return list(ids[:n])

    def token_bytes(self, token):
        """The bytes one token stands for; control tokens give their name."""
        buffer = ctypes.create_string_buffer(256)
        n = c.llama_token_to_piece(self.vocab, token, buffer, len(buffer), 0, True)
        return buffer.raw[:n]

    def is_eog(self, token):
        """Does the token end a generation?"""
        return c.llama_vocab_is_eog(self.vocab, token)

    def close(self):
        """Frees the context and the model."""
        c.llama_free(self.ctx)
        c.llama_model_free(self.model)


def relative_rms(found, expected):
    """Root of the mean squared error of `found`, over the root mean square of `expected`."""
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    return float(np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected ** 2)))


def top_gap(logits):
    """Per row, how far the largest logit is above the second largest."""
    two = np.partition(logits, -2, axis=-1)[..., -2:]
    return two[..., 1] - two[..., 0]
