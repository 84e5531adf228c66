"""llama.cpp measured as build/bin/bench measures Ember: the same options, the same work, the same lines of JSON.

It speaks llama.cpp's C API through the `llama_cpp` package (pip install llama-cpp-python), with its own defaults: 2048
tokens to a call, 512 to a step, an f16 cache; the sliding window keeps only what it needs, as in llama-bench.
Ember's program is described by `build/bin/bench --help`; here is one option more:

    --fa on|off|auto   flash attention; auto, llama.cpp's default, lets it choose
"""

import argparse
import ctypes
import json
import sys
import time

import llama_cpp
import llama_cpp.llama_cpp as c
import numpy as np

WARM_UP, COLD_PROMPT = 512, 8
ERROR = 4  # ggml's log level
KV_TYPES = {"f32": 0, "f16": 1, "q8_0": 8}  # ggml type numbers
FLASH = {"auto": -1, "off": 0, "on": 1}
MASK = (1 << 64) - 1


# What --fa auto came to, according to the log.
chosen_flash = {"on": "on", "off": "off"}


@c.llama_log_callback
def read_log(level, text, _user_data):
    line = text.decode(errors="replace")
    if level == ERROR:
        print(line, end="", file=sys.stderr)
    if "Flash Attention enabled" in line:
        chosen_flash["auto"] = "on"
    elif "Flash Attention" in line and "disabled" in line:
        chosen_flash["auto"] = "off"


def random_tokens(n: int, n_vocab: int) -> np.ndarray:
    """Token ids from SplitMix64 with the seed 0, as Ember's program draws them."""
    state, ids = 0, np.empty(n, np.int32)
    for i in range(n):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        ids[i] = (z ^ (z >> 31)) % n_vocab
    return ids


def peak_kib() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


class Run:
    """A model and one context at a time."""

    def __init__(self, args):
        self.args = args
        self.before_kib = peak_kib()
        self.start = time.perf_counter()
        c.llama_log_set(read_log, None)
        c.llama_backend_init()
        self.model = c.llama_model_load_from_file(args.m.encode(), c.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {args.m}")
        self.n_vocab = c.llama_vocab_n_tokens(c.llama_model_get_vocab(self.model))
        self.ctx = None

    def make_context(self, n_ctx: int, n_seq: int, n_threads: int):
        """A context for `n_seq` sequences of `n_ctx` tokens; 0: what the model was trained on, at most 4096."""
        params = c.llama_context_default_params()
        params.n_ctx = (n_ctx or min(4096, c.llama_model_n_ctx_train(self.model))) * n_seq
        params.n_seq_max = n_seq
        params.n_batch, params.n_ubatch = self.args.n_batch, self.args.n_ubatch
        params.n_threads = params.n_threads_batch = n_threads
        params.flash_attn_type = FLASH[self.args.fa]
        params.swa_full = False
        params.type_k = params.type_v = KV_TYPES[self.args.kv]
        self.ctx = c.llama_init_from_model(self.model, params)
        if not self.ctx:
            raise SystemExit("llama.cpp cannot make a context")
        self.n_seq, self.n_threads, self.n_past = n_seq, n_threads, 0
        self.memory = c.llama_get_memory(self.ctx)
        self.saved = {}
        self.step_batch = c.llama_batch_init(n_seq, 0, 1)
        self.prompt_batch = c.llama_batch_init(self.args.n_batch, 0, 1)
        self.prompt_seq = -1

    def free_context(self):
        c.llama_batch_free(self.step_batch)
        c.llama_batch_free(self.prompt_batch)
        c.llama_free(self.ctx)

    def decode(self, batch):
        status = c.llama_decode(self.ctx, batch)
        if status != 0:
            raise SystemExit(f"llama_decode returned {status}")

    def prompt(self, tokens: np.ndarray, seq: int, first: int):
        """Runs tokens of one sequence from position `first` on; the logits of the last one are computed."""
        batch, most = self.prompt_batch, self.args.n_batch
        for i in range(most if seq != self.prompt_seq else 0):
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = seq
        self.prompt_seq = seq
        for start in range(0, len(tokens), most):
            part = tokens[start:start + most]
            n = batch.n_tokens = len(part)
            ctypes.memmove(batch.token, part.ctypes.data, 4 * n)
            positions = np.arange(first + start, first + start + n, dtype=np.int32)
            ctypes.memmove(batch.pos, positions.ctypes.data, 4 * n)
            ctypes.memset(batch.logits, 0, n)
            batch.logits[n - 1] = start + n == len(tokens)
            self.decode(batch)

    def set_depth(self, depth: int):
        """Leaves every sequence with `depth` tokens. They are computed once, then put back, as llama-bench does."""
        c.llama_memory_clear(self.memory, False)
        if depth > 0 and depth not in self.saved:
            for seq in range(self.n_seq):
                self.prompt(self.tokens[:depth], seq, 0)
            c.llama_synchronize(self.ctx)
            self.saved = {depth: []}
            for seq in range(self.n_seq):
                state = (ctypes.c_uint8 * c.llama_state_seq_get_size(self.ctx, seq))()
                c.llama_state_seq_get_data(self.ctx, state, len(state), seq)
                self.saved[depth].append(state)
        elif depth > 0:
            for seq, state in enumerate(self.saved[depth]):
                if c.llama_state_seq_set_data(self.ctx, state, len(state), seq) == 0:
                    raise SystemExit("llama.cpp cannot restore a sequence")
        self.n_past = depth

    def prefill(self, n: int):
        self.prompt(self.tokens[:n], 0, self.n_past)
        c.llama_synchronize(self.ctx)
        c.llama_get_logits_ith(self.ctx, -1)

    def generate(self, n: int):
        """`n` tokens in every sequence, always the likeliest."""
        batch = self.step_batch
        batch.n_tokens = self.n_seq
        for seq in range(self.n_seq):
            batch.token[seq] = self.tokens[seq]
            batch.n_seq_id[seq] = 1
            batch.seq_id[seq][0] = seq
            batch.logits[seq] = 1
        for i in range(n):
            for seq in range(self.n_seq):
                batch.pos[seq] = self.n_past + i
            self.decode(batch)
            for seq in range(self.n_seq):
                batch.token[seq] = self.likeliest(seq)

    def likeliest(self, index: int) -> int:
        logits = c.llama_get_logits_ith(self.ctx, index)
        return int(np.ctypeslib.as_array(logits, shape=(self.n_vocab,)).argmax())

    def print_line(self, what: str, tokens: int, depth: int, batch: int, seconds: list[float]):
        print(json.dumps({
            "engine": "llama.cpp", "version": llama_cpp.__version__, "fa": chosen_flash.get(self.args.fa, "?"),
            "system": llama_cpp.llama_print_system_info().decode().strip(" |\n"), "what": what,
            "model": self.args.m, "tokens": tokens, "depth": depth, "batch": batch, "threads": self.n_threads,
            "seconds": [round(s, 6) for s in seconds],
            "tokens_per_s": [round(tokens * batch / s, 3) for s in seconds if tokens > 0],
        }), flush=True)

    def measure(self, what: str, work, n: int, depth: int):
        """One measurement: `work` on `n` tokens after `depth` others."""
        batch = self.n_seq if what == "decode" else 1
        seconds = []
        for i in range(self.args.r):
            if self.args.step and not sys.stdin.readline():
                return
            if i == 0:
                self.set_depth(depth)
                work(min(n, WARM_UP))
            self.set_depth(depth)
            start = time.perf_counter()
            work(n)
            seconds.append(time.perf_counter() - start)
            if self.args.step:
                self.print_line(what, n, depth, batch, seconds[-1:])
        if not self.args.step and seconds:
            self.print_line(what, n, depth, batch, seconds)

    def cold(self):
        """The time until a user sees a token, and one more; what Python needs to start is not part of it."""
        self.make_context(0, 1, self.args.t[0])
        self.tokens = random_tokens(COLD_PROMPT, self.n_vocab)
        self.prefill(COLD_PROMPT)
        self.tokens[0], self.n_past = self.likeliest(-1), COLD_PROMPT
        self.generate(1)
        self.print_line("cold", COLD_PROMPT + 1, 0, 1, [time.perf_counter() - self.start])

    def run(self):
        args = self.args
        n_ctx = max(args.d) + max(args.p + args.n + [1])
        self.tokens = random_tokens(max(args.p + args.d) + max(args.b), self.n_vocab)
        loaded = False
        for threads in args.t:
            for n_seq in args.b:
                self.make_context(n_ctx, n_seq, threads)
                if not loaded:
                    loaded = True
                    self.print_line("load", 0, 0, 1, [time.perf_counter() - self.start])
                for depth in args.d:
                    for n in filter(None, args.p if n_seq == args.b[0] else []):
                        self.measure("prefill", self.prefill, n, depth)
                    for n in filter(None, args.n):
                        self.measure("decode", self.generate, n, depth)
                self.free_context()


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", required=True, help="GGUF file")
    parser.add_argument("-p", type=numbers, default=[512], help="tokens of the prompts to time")
    parser.add_argument("-n", type=numbers, default=[128], help="tokens to generate")
    parser.add_argument("-d", type=numbers, default=[0], help="tokens that are in the context already")
    parser.add_argument("-b", type=numbers, default=[1], help="sequences that generate together")
    parser.add_argument("-t", type=numbers, default=[1], help="threads")
    parser.add_argument("-r", type=int, default=5, help="repetitions")
    parser.add_argument("--fa", choices=FLASH, default="auto", help="flash attention")
    parser.add_argument("--kv", choices=KV_TYPES, default="f16", help="keys and values; q8_0 needs flash attention")
    parser.add_argument("--n-batch", type=int, default=2048, help="tokens to a call")
    parser.add_argument("--n-ubatch", type=int, default=512, help="tokens to a step")
    parser.add_argument("--cold", action="store_true", help="time from the start to a token, and nothing else")
    parser.add_argument("--step", action="store_true", help="wait for a line on standard input before a repetition")
    run = Run(parser.parse_args())
    if run.args.cold:
        run.cold()
    else:
        run.run()
    print(json.dumps({"engine": "llama.cpp", "what": "memory", "model": run.args.m, "threads": run.n_threads,
                      "before_kib": run.before_kib, "peak_kib": peak_kib()}), flush=True)


if __name__ == "__main__":
    main()
