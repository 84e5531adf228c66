"""What Python adds to each token of a generation: wall time of the loop less the library's own time.

overhead.py MODEL [N_TOKENS [REPETITIONS]]
"""

import sys
import time

import ember

path = sys.argv[1]
n_tokens = int(sys.argv[2]) if len(sys.argv) > 2 else 128
repetitions = int(sys.argv[3]) if len(sys.argv) > 3 else 5

context = ember.Context(ember.Model(path))
added, decode = [], []
for _ in range(repetitions):
    context.rewind()
    with context.generate("The capital of France is", max_tokens=n_tokens, ignore_eog=True) as generation:
        next(generation)  # runs the prompt
        before = generation.usage.decode_ns
        start = time.perf_counter_ns()
        n = sum(len(event.text) >= 0 for event in generation)
        wall = time.perf_counter_ns() - start
        own = generation.usage.decode_ns - before
    added.append((wall - own) / n / 1000)
    decode.append(own / n / 1000)
print(
    f"decode {min(decode):.1f} us a token, Python {min(added):.2f} us more, {100 * min(added) / min(decode):.3f} % "
    f"(the least of {repetitions} times {n_tokens} tokens)"
)
