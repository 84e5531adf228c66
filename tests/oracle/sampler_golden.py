"""Writes tests/fixtures/sampler.json: which candidates llama.cpp's samplers leave, and their probabilities.

    python tests/oracle/sampler_golden.py

Needs llama-cpp-python. A case is [stage, parameters, index of the logits, [[token, probability], …]]; `accepted` are the
tokens that were there before. `adaptive_p` has runs of that stage, which learns from what is accepted.
"""

import ctypes
import json
import math
import pathlib
import random

import llama_cpp as lib

OUT = pathlib.Path(__file__).resolve().parents[1] / "fixtures/sampler.json"
N = 48


def candidates(logits, accepted, sampler):
    """The tokens and probabilities that `sampler` leaves of `logits`."""
    data = (lib.llama_token_data * len(logits))()
    for i, logit in enumerate(logits):
        data[i] = lib.llama_token_data(i, logit, 0.0)
    array = lib.llama_token_data_array(data, len(logits), -1, False)
    for token in accepted:
        lib.llama_sampler_accept(sampler, token)
    lib.llama_sampler_apply(sampler, ctypes.byref(array))
    lib.llama_sampler_free(sampler)
    left = [(array.data[i].id, array.data[i].logit) for i in range(array.size)]
    top = max(logit for _, logit in left)
    total = sum(math.exp(logit - top) for _, logit in left)
    return sorted([token, math.exp(logit - top) / total] for token, logit in left if logit > -1e9)


def adaptive(sets, target, decay):
    """Choices one after another: [index of the logits, chosen token, [[token, probability], …]]. Each is accepted but every third."""
    sampler = lib.llama_sampler_init_adaptive_p(target, decay, 5)
    steps = []
    for step in range(24):
        logits = sets[step % len(sets)]
        data = (lib.llama_token_data * N)(*[lib.llama_token_data(i, x, 0.0) for i, x in enumerate(logits)])
        array = lib.llama_token_data_array(data, N, -1, False)
        lib.llama_sampler_apply(sampler, ctypes.byref(array))
        chosen = array.data[array.selected].id
        lib.llama_sampler_accept(sampler, chosen if step % 3 < 2 else (chosen + 1) % N)
        steps.append([step % len(sets), chosen, [[array.data[i].id, float(f"{array.data[i].p:.7g}")] for i in range(N)]])
    lib.llama_sampler_free(sampler)
    return {"target": target, "decay": decay, "steps": steps}


def main():
    rng = random.Random(7)
    single = lambda x: ctypes.c_float(x).value
    # No equal logits: which of them llama.cpp takes first is chance.
    sets = [[single(rng.gauss(0, scale)) for _ in range(N)] for scale in (0.1, 1.0, 3.0, 8.0)]
    accepted = [3, 5, 5, 9, 40, 3, 3, 47, 0, 12]
    stages = []
    for p in (0.02, 0.1, 0.5, 0.999):
        stages.append(("min_p", [p], lambda p=p: lib.llama_sampler_init_min_p(p, 1)))
        stages.append(("typical_p", [p], lambda p=p: lib.llama_sampler_init_typical(p, 1)))
        stages.append(("top_p", [p], lambda p=p: lib.llama_sampler_init_top_p(p, 1)))
    for t in ([0.8, 0.0, 1.0], [0.8, 0.5, 1.0], [1.0, 2.0, 0.7], [0.3, 0.25, 2.0]):
        stages.append(("dynamic_temperature", t, lambda t=t: lib.llama_sampler_init_temp_ext(*t)))
    for v in ([10, 1.3, 0.0, 0.0], [4, 1.0, 0.5, 0.0], [10, 1.0, 0.0, 0.7], [7, 1.2, 0.3, -0.4], [0, 2.0, 1.0, 1.0]):
        stages.append(("penalties", v, lambda v=v: lib.llama_sampler_init_penalties(N, *v)))
    # No larger ones: a number of tokens beyond 31 bits is chance in llama.cpp.
    for v in ([3.0, 0.1, 100], [1.0, 0.2, 7], [2.0, 0.3, 3], [0.4, 0.1, 30]):
        stages.append(("mirostat_1", v, lambda v=v: lib.llama_sampler_init_mirostat(N, 3, *v)))
    for n in (0.1, 0.5, 1.0, 2.5):
        stages.append(("top_n_sigma", [n], lambda n=n: lib.llama_sampler_init_top_n_sigma(n)))
    for v in ([1.0, 0.05], [1.0, 0.1], [1.0, 0.4]):
        stages.append(("xtc", v, lambda v=v: lib.llama_sampler_init_xtc(*v, 1, 1)))
    cases = []
    for name, parameters, make in stages:
        for i, logits in enumerate(sets):
            left = candidates(logits, accepted, make())
            cases.append(json.dumps([name, parameters, i, [[t, float(f"{p:.7g}")] for t, p in left]]))
    adapted = [adaptive(sets, *v) for v in ([0.3, 0.9], [0.05, 0.5], [0.9, 0.99], [0.5, 0.0], [0.0, 0.7], [1.0, 0.3])]
    head = json.dumps({"accepted": accepted, "logits": sets, "adaptive_p": adapted})[:-1]
    OUT.write_text(head + ', "cases": [\n' + ",\n".join(cases) + "\n]}\n")


if __name__ == "__main__":
    main()
