"""Measures Ember and, where it is installed, llama.cpp on the same files with the same work, and writes a table.

    make bench                                              everything; hours on a small machine
    make bench BENCH="--quick --models smollm2-q4_0"        some of it
    make bench PYTHON=venv/bin/python                       with the llama_cpp package of that Python

Both engines stay loaded and take turns, repetition by repetition (A B A B), so that what the machine does meanwhile
hits both. bench/README.md says what each column means.
"""

import argparse
import csv
import importlib.util
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date

from gguf_sizes import read_sizes

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
CACHE = pathlib.Path(os.environ.get("EMBER_BENCH", pathlib.Path.home() / ".cache/ember/bench"))
EMBER = [str(ROOT / "build/bin/bench")]
LLAMA = [sys.executable, str(HERE / "peer.py")]
COLUMNS = ("model,what,tokens,depth,batch,threads,unit,ember,llama_fa_on,llama_fa_off,ratio_to_better,ratio_to_default,"
           "isa,roof,share_of_roof").split(",")

# How each model file is made: fetched by scripts/fetch-model.sh, quantized from another of this list, or random
# numbers in the shape of Llama 3.2 1B.
MODELS = {
    "smollm2-q4_1": ("fetch", "smollm2"),
    "smollm2-q4_0": ("quantize", "smollm2-q4_1", "Q4_0"),
    "smollm2-q8_0": ("quantize", "smollm2-q4_1", "Q8_0"),
    "smollm2-f16": ("quantize", "smollm2-q4_1", "F16"),
    "gemma3-270m-q4_k_m": ("fetch", "gemma3"),
    "1b-q4_0": ("synthetic", "Q4_0"),
    "1b-q4_k_m": ("synthetic", "Q4_K_M"),
    "1b-q6_k": ("synthetic", "Q6_K"),
    "1b-q8_0": ("synthetic", "Q8_0"),
    # Half as many layers and a smaller vocabulary.
    **{f"half-{name.lower()}": ("synthetic", name, "n_layer=8", "n_vocab=32000")
       for name in ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0")},
    # Experts in the numbers and sizes of OLMoE, Qwen3-30B-A3B and LFM2-8B-A1B, in two or three layers.
    "olmoe-q4_0": ("synthetic", "Q4_0", "n_layer=3", "n_vocab=32000", "n_head=16", "n_head_kv=16", "n_ff=1024", "n_expert=64", "n_expert_used=8"),
    "a3b-q4_0": ("synthetic", "Q4_0", "n_layer=2", "n_vocab=32000", "n_head_kv=4", "n_ff=768", "n_expert=128", "n_expert_used=8"),
    "a1b-q4_0": ("synthetic", "Q4_0", "n_layer=3", "n_vocab=32000", "n_ff=1792", "n_expert=32", "n_expert_used=4"),
}
# Made by bench/shapes.py, which needs PyTorch and llama.cpp's converter; measured when they are named.
SHAPES = ("lfm2-1.2b", "qwen3.5-0.8b", "gemma4-e2b", "gpt-oss-20b", "granite4-h-tiny", "glm-4.7-flash")
DEFAULT = list(MODELS)
# In the shapes of Qwen3 4B and Llama 3.1 8B, 2.3 and 4.6 GB; measured when they are named.
MODELS |= {
    "4b-q4_k_m": ("synthetic", "Q4_K_M", "n_embd=2560", "n_layer=36", "n_head_kv=8", "n_ff=9728", "n_vocab=151936"),
    "8b-q4_k_m": ("synthetic", "Q4_K_M", "n_embd=4096", "n_layer=32", "n_head_kv=8", "n_ff=14336", "n_vocab=128256"),
}
MODELS |= {f"{name}-{form.lower()}": ("shape", name, form) for name in SHAPES for form in ("Q4_0", "Q4_K_M")}

# Seconds to wait after llama.cpp's turn: the threads of its OpenMP library spin for 0.2 s before they sleep.
SETTLE = 0.3


def model_file(name: str) -> str:
    """The path of a model, which is made first if it is not there."""
    kind, *arguments = MODELS[name]
    if kind == "fetch":
        fetch = [str(ROOT / "scripts/fetch-model.sh"), arguments[0]]
        return subprocess.run(fetch, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    path = CACHE / f"{name}.gguf"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        source = [model_file(arguments.pop(0))] if kind == "quantize" else []
        if kind == "shape":
            kind, source = "quantize", [str(CACHE / f"{arguments.pop(0)}-f16.gguf")]
            if not pathlib.Path(source[0]).exists():
                sys.exit(f"there is no {source[0]}: bench/shapes.py writes it")
        partial = path.with_suffix(".part")
        cargo = [os.environ.get("CARGO", "cargo"), "run", "--quiet", "--release", "--example", kind, "--"]
        subprocess.run([*cargo, *source, str(partial), *arguments], check=True, cwd=ROOT, stdout=sys.stderr)
        partial.rename(path)
    return str(path)


class Engine:
    """A program that measures, one repetition whenever it is asked."""

    def __init__(self, name: str, command: list[str]):
        self.name = name
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.load = self.read()

    def read(self) -> dict:
        line = self.child.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended early with the exit code {self.child.wait()}")
        return json.loads(line)

    def repeat(self) -> dict:
        print(file=self.child.stdin, flush=True)
        line = self.read()
        if self.name != "ember":
            time.sleep(SETTLE)
        return line

    def close(self):
        self.child.stdin.close()
        self.child.stdout.read()
        self.child.wait()


def once(command: list[str]) -> list[dict]:
    """All lines of a run of its own."""
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def joined(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))


class Bench:
    def __init__(self, args):
        self.args = args
        # Each engine's command; "ember" is the first.
        self.engines = {"ember": [*EMBER, "--kv", args.kv]}
        if args.llama:
            self.engines["llama_fa_on"] = [*LLAMA, "--fa", "on"]
            self.engines["llama_fa_off"] = [*LLAMA, "--fa", "off"]
        self.default = None  # which of the two llama.cpp would choose itself
        self.isa = "unknown"
        self.peaks = {}
        self.rows = []

    def add(self, model: str, spec: dict, unit: str, values: dict[str, float], roof: float | None = None):
        """Adds a row. Of seconds and MiB less is better: a ratio is always how many times better Ember is."""
        ember = values["ember"]
        others = {name: v for name, v in values.items() if name != "ember"}
        more = unit == "tokens/s"
        ratio = (lambda other: ember / other) if more else (lambda other: other / ember)
        better = max if more else min
        row = {"model": model, "unit": unit, "isa": self.isa, **spec, **{k: f"{v:.4g}" for k, v in values.items()}}
        if others:
            row["ratio_to_better"] = f"{ratio(better(others.values())):.3f}"
            row["ratio_to_default"] = f"{ratio(others[self.default]):.3f}"
        if roof:
            row |= {"roof": f"{roof:.4g}", "share_of_roof": f"{ember / roof:.3f}"}
        self.rows.append(row)
        print(" ".join(f"{c}={row[c]}" for c in COLUMNS if row.get(c)), file=sys.stderr, flush=True)

    def wanted(self, what: str) -> bool:
        return not self.args.only or what in self.args.only

    def roof(self, sizes, what: str, tokens: int, depth: int, batch: int, threads: int) -> float | None:
        """Tokens a second that the machine's measured peaks allow, attention's arithmetic and all caches left out."""
        peaks = self.peaks.get(threads)
        if peaks is None or batch > 1:
            return None
        if what == "prefill":
            return peaks["int8_gmac_s"] * 1e9 / sizes.weight_macs if "int8_gmac_s" in peaks else None
        if sizes.windowed and depth > 0:
            return None
        return peaks["read_gb_s"] * 1e9 / (sizes.weight_bytes + sizes.kv_bytes * (depth + tokens / 2))

    def speed(self, model: str, path: str, threads: int):
        """Prefill and decode, at every depth and batch."""
        args = self.args
        prefill = args.p if self.wanted("prefill") else []
        decode = args.n if self.wanted("decode") else []
        if not prefill and not decode:
            return
        sizes = read_sizes(path)
        for depth in args.d:
            # Long prompts and many sequences at a depth would only say again what shorter depths do.
            batches = args.b if depth == 0 and decode else args.b[:1]
            prefill = prefill if depth == 0 else []
            if not prefill and not decode:
                continue
            command = ["-m", path, "-t", str(threads), "-r", str(args.r), "--step", "-d", str(depth),
                       "-b", joined(batches), "-p", joined(prefill or [0]), "-n", joined(decode or [0])]
            engines = [Engine(name, [*program, *command]) for name, program in self.engines.items()]
            self.isa = engines[0].load["isa"]
            time.sleep(SETTLE)
            plan = [("prefill", n, 1) for n in prefill] + [("decode", n, b) for b in batches for n in decode]
            for what, tokens, batch in plan:
                spec = {"what": what, "tokens": tokens, "depth": depth, "batch": batch, "threads": threads}
                found = {engine.name: [] for engine in engines}
                for _ in range(args.r):
                    for engine in engines:
                        line = engine.repeat()
                        if any(line[key] != value for key, value in spec.items()):
                            raise SystemExit(f"{engine.name} measured {line}, not {spec}")
                        found[engine.name] += line["tokens_per_s"]
                medians = {name: statistics.median(values) for name, values in found.items()}
                self.add(model, spec, "tokens/s", medians, self.roof(sizes, what, tokens, depth, batch, threads))
            for engine in engines:
                engine.close()

    def alone(self, model: str, path: str, threads: int):
        """What takes a process of its own: cold start, and the most memory ever resident."""
        spec = {"depth": 0, "batch": 1, "threads": threads}
        if self.wanted("cold"):
            found = {name: [] for name in self.engines}
            for _ in range(max(self.args.r, 3)):
                for name, program in self.engines.items():
                    line = once([*program, "-m", path, "-t", str(threads), "--cold"])[0]
                    found[name] += line["seconds"]
                    if name == "ember":
                        self.isa = line["isa"]
            medians = {name: statistics.median(values) for name, values in found.items()}
            self.add(model, {"what": "cold", "tokens": 9, **spec}, "s", medians)
        if self.wanted("memory"):
            mib = {}
            for name, program in self.engines.items():
                line = once([*program, "-m", path, "-t", str(threads), "-p", "512", "-n", "16", "-r", "1"])[-1]
                mib[name] = (line["peak_kib"] - line["before_kib"]) / 1024
            self.add(model, {"what": "memory", "tokens": 528, **spec}, "MiB", mib)

    def find_default(self, path: str):
        """Asks llama.cpp whether it would use flash attention."""
        if len(self.engines) > 1:
            line = once([*LLAMA, "-m", path, "-t", "1", "--cold"])[0]
            self.default = f"llama_fa_{line['fa']}"
            self.llama_version, self.llama_system = line["version"], line["system"]

    def find_peaks(self):
        """The machine's peaks, measured by the example `kernels`."""
        if not self.args.peaks:
            return
        cargo = [os.environ.get("CARGO", "cargo"), "run", "--quiet", "--release", "--example", "kernels", "--", "--peaks"]
        output = subprocess.run(cargo, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
        for line in map(json.loads, output.splitlines()):
            self.peaks.setdefault(line["threads"], {})[line["what"]] = line["value"]

    def library_sizes(self) -> dict[str, int]:
        """Bytes of the shared libraries without symbols for debuggers."""
        files = {"ember": [ROOT / "build/lib/libember.so"]}
        spec = importlib.util.find_spec("llama_cpp") if len(self.engines) > 1 else None
        if spec:
            lib = pathlib.Path(spec.origin).parent / "lib"
            # What a program that loads a model needs; the package brings a library for images too.
            files["llama.cpp"] = [p for p in sorted(lib.glob("*.so")) if p.name.startswith(("libllama.", "libggml"))]
        sizes = {}
        with tempfile.TemporaryDirectory() as folder:
            for name, paths in files.items():
                sizes[name] = 0
                for path in paths:
                    stripped = pathlib.Path(folder) / "stripped.so"
                    subprocess.run(["strip", "-o", str(stripped), str(path)], check=True)
                    sizes[name] += stripped.stat().st_size
        return sizes

    def header(self) -> list[str]:
        """What the table's first lines say about the machine and the programs."""
        lines = [f"date: {date.today()}", f"machine: {machine()}", f"ember: {ember_version()}, {self.isa}"]
        if len(self.engines) > 1:
            lines.append(f"llama.cpp: llama-cpp-python {self.llama_version}; its default is {self.default[6:]}")
            lines.append(f"llama.cpp was compiled for {self.llama_system}")
        sizes = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in self.library_sizes().items())
        lines.append(f"stripped shared libraries: {sizes}")
        for threads, peaks in self.peaks.items():
            lines.append(f"peaks of {threads} threads: " + ", ".join(f"{k} {v:.1f}" for k, v in peaks.items()))
        lines.append(f"median of {self.args.r} repetitions; ember's keys and values: {self.args.kv}; {self.args.note}".rstrip("; "))
        return lines

    def write(self, path: pathlib.Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        rows, head = self.rows, self.header()
        if self.args.append and path.exists():
            text = path.read_text().splitlines()
            # What was said of rows that stay, from an earlier day, commit or number of repetitions, say.
            before = ["before: " + line.removeprefix("# ").removeprefix("before: ") for line in text if line.startswith("#")]
            head += [line for line in dict.fromkeys(before) if line.removeprefix("before: ") not in head]
            lines = [line for line in text if not line.startswith("#")]
            key = lambda row: tuple(str(row[c]) for c in COLUMNS[:COLUMNS.index("unit")])
            new = {key(row) for row in rows}
            rows = [row for row in csv.DictReader(lines) if key(row) not in new] + rows
        with open(path, "w", newline="") as out:
            for line in head:
                print(f"# {line}", file=out)
            table = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
            table.writeheader()
            table.writerows(rows)

    def run(self):
        paths = {name: model_file(name) for name in self.args.models}
        self.find_peaks()
        self.find_default(paths[self.args.models[0]])
        try:
            for model, path in paths.items():
                for threads in self.args.t:
                    self.speed(model, path, threads)
                self.alone(model, path, self.args.t[-1])
        finally:
            if self.rows:
                self.write(self.args.out)
                print(self.args.out)


def ember_version() -> str:
    commit = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(commit, stdout=subprocess.PIPE, text=True).stdout.strip() or "unknown"


def machine() -> str:
    """The processor's name, cores, caches and vector instructions, as Linux tells them."""
    lines = dict(line.split(":", 1) for line in open("/proc/cpuinfo") if ":" in line)
    info = {key.strip(): value.strip() for key, value in lines.items()}
    caches = []
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            caches.append(f"L{level} {size}")
    flags = info.get("flags", info.get("Features", "")).split()
    vector = [f for f in flags if f.startswith(("avx", "amx", "fma", "f16c", "asimd", "i8mm", "sve"))]
    name = info.get("model name", platform.processor())
    model = f"family {info['cpu family']} model {info['model']}, " if "cpu family" in info else ""
    return f"{name}, {model}{os.cpu_count()} cores, {', '.join(caches)}, {' '.join(vector)}, {platform.system()}"


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--models", type=lambda s: s.split(","), default=DEFAULT, help=", ".join(MODELS))
    parser.add_argument("--only", type=lambda s: s.split(","), default=[], help="prefill, decode, cold, memory")
    parser.add_argument("--quick", action="store_true", help="short prompts and texts, no depths, all cores")
    parser.add_argument("-p", type=numbers, help="tokens of prompts")
    parser.add_argument("-n", type=numbers, help="tokens to generate")
    parser.add_argument("-d", type=numbers, help="tokens that are in the context already")
    parser.add_argument("-b", type=numbers, help="sequences that generate together")
    parser.add_argument("-t", type=numbers, help="threads")
    parser.add_argument("-r", type=int, help="repetitions")
    parser.add_argument("--kv", default="auto", help="what Ember rounds keys and values to; llama.cpp's stay f16")
    parser.add_argument("--no-llama", dest="llama", action="store_false", help="Ember alone")
    parser.add_argument("--no-peaks", dest="peaks", action="store_false", help="without the machine's peaks")
    parser.add_argument("--note", default="", help="what the table should say about the run")
    parser.add_argument("--append", action="store_true", help="keep what the table has already and is not measured again")
    parser.add_argument("--out", type=pathlib.Path, help="the table (default: bench/results/DATE-MACHINE.csv)")
    args = parser.parse_args()
    full = {"p": [128, 512, 2048], "n": [64], "d": [0, 1024, 4096], "b": [1, 4, 8], "t": sorted({1, cores}), "r": 5}
    quick = {"p": [512], "n": [32], "d": [0], "b": [1], "t": [cores], "r": 3}
    for key, value in (quick if args.quick else full).items():
        if getattr(args, key) is None:
            setattr(args, key, value)
    for name in set(args.models) - set(MODELS):
        parser.error(f"there is no model {name!r}; there are {', '.join(MODELS)}")
    if args.llama and importlib.util.find_spec("llama_cpp") is None:
        print("llama_cpp is not installed in this Python: Ember is measured alone", file=sys.stderr)
        args.llama = False
    processor = re.sub("[^a-z0-9]+", "-", machine().split(",")[0].lower()).strip("-")
    args.out = args.out or HERE / "results" / f"{date.today()}-{processor}.csv"
    return args


if __name__ == "__main__":
    Bench(read_arguments()).run()
