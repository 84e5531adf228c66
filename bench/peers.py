"""Ember beside OpenVINO GenAI and ONNX Runtime GenAI: prompts of 512 tokens, then 32 tokens one by one, in turns.

    python bench/peers.py FILE.gguf [--onnx FOLDER] [-t THREADS] [-r ROUNDS]

OpenVINO reads the same GGUF file. ONNX Runtime needs a folder of its own of a model of the same shape, in 4 bits:
`python -m onnxruntime_genai.models.builder -i HUGGING_FACE_FOLDER -o FOLDER -p int4 -e cpu`. Each engine runs in a process of its own, in
each round; prompts are random tokens, new ones each time. Prints the median tokens per second of the rounds.

Needs `make build/bin/bench` and `pip install numpy openvino-genai onnxruntime-genai`.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROMPT, TOKENS = 512, 32


def ember(model: str, threads: int) -> tuple[float, float]:
    command = [ROOT / "build/bin/bench", "-m", model, "-t", threads, "-p", PROMPT, "-n", TOKENS, "-r", 3]
    lines = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout
    speed = {line["what"]: line.get("tokens_per_s") for line in map(json.loads, lines.splitlines())}
    return statistics.median(speed["prefill"]), statistics.median(speed["decode"])


def prompts(count: int):
    import numpy

    return numpy.random.default_rng(0).integers(1000, 30000, (count, PROMPT))


def openvino(model: str, threads: int) -> tuple[float, float]:
    import numpy
    import openvino as ov
    import openvino_genai as genai

    pipeline = genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=threads)
    options = genai.GenerationConfig()
    options.max_new_tokens, options.ignore_eos, options.do_sample = TOKENS + 1, True, False
    speeds = []
    for ids in prompts(4):
        ids = ids[None, :].astype(numpy.int64)
        inputs = genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(numpy.ones_like(ids)))
        took = pipeline.generate(inputs, options).perf_metrics
        speeds.append((1000 * PROMPT / took.get_ttft().mean, 1000 / took.get_tpot().mean))
    return medians(speeds[1:])


def onnx(model: str, threads: int) -> tuple[float, float]:
    import numpy
    import onnxruntime_genai as genai

    config = genai.Config(model)
    session = {"intra_op_num_threads": threads, "inter_op_num_threads": 1}
    config.overlay(json.dumps({"model": {"decoder": {"session_options": session}}}))
    loaded = genai.Model(config)
    length = PROMPT + TOKENS + 2
    speeds = []
    for ids in prompts(4):
        options = genai.GeneratorParams(loaded)
        options.set_search_options(max_length=length, min_length=length, do_sample=False)
        generator = genai.Generator(loaded, options)
        begin = time.perf_counter()
        generator.append_tokens(ids[None, :].astype(numpy.int32))
        generator.generate_next_token()
        first = time.perf_counter()
        for _ in range(TOKENS):
            generator.generate_next_token()
        speeds.append((PROMPT / (first - begin), TOKENS / (time.perf_counter() - first)))
    return medians(speeds[1:])


def medians(speeds: list[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(s[0] for s in speeds), statistics.median(s[1] for s in speeds)


ENGINES = {"ember": ember, "openvino": openvino, "onnx": onnx}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--onnx")
    parser.add_argument("-t", type=int, default=1)
    parser.add_argument("-r", type=int, default=3)
    parser.add_argument("--engine", choices=ENGINES, help="one turn of one engine, as JSON")
    args = parser.parse_args()
    models = {"ember": args.file, "openvino": args.file, "onnx": args.onnx}
    if args.engine:
        print(json.dumps(ENGINES[args.engine](models[args.engine], args.t)))
        return
    turns = {engine: [] for engine, model in models.items() if model}
    for _ in range(args.r):
        for engine, speeds in turns.items():
            command = [sys.executable, __file__, *sys.argv[1:], "--engine", engine]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            speeds.append(json.loads(output.splitlines()[-1]))
    best = {engine: medians(speeds) for engine, speeds in turns.items()}
    for engine, (prompt, decode) in best.items():
        ratios = f"  Ember {best['ember'][0] / prompt:.2f}, {best['ember'][1] / decode:.2f} times as fast"
        print(f"{engine:10} prompt {prompt:8.1f}  decode {decode:7.1f} tokens/s{ratios if engine != 'ember' else ''}")


main()
