"""What Python adds to each token of a generation: the time of the call less the library's own.

overhead.py MODEL [N_TOKENS [REPETITIONS]]
"""

import statistics
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
        while generation.finish_reason is None:
            start = time.perf_counter_ns()
            event = next(generation)
            end = time.perf_counter_ns()
            after = generation.usage.decode_ns
            if event.kind is ember.EventKind.TOKEN:
                added.append(end - start - (after - before))
                decode.append(after - before)
            before = after
own, more = statistics.median(decode) / 1000, statistics.median(added) / 1000
print(
    f"decode {own:.0f} us a token, Python {more:.1f} us more, {100 * more / own:.3f} % "
    f"(medians of {len(added)} tokens; least {min(decode) / 1000:.0f} and {min(added) / 1000:.1f} us)"
)
