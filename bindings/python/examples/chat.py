"""Answers a message as the model was trained to; the answer is printed as it comes.

chat.py -m MODEL -p MESSAGE [-n N] [--temp T] [--top-k K] [--top-p P] [--seed S]
"""

from __future__ import annotations

import ember
from options import add_generation, parser, run, sampler


def main() -> None:
    arguments = parser("Answers a message.")
    add_generation(arguments, "What is the capital of France?")
    options = arguments.parse_args()
    with ember.Model(options.model) as model, ember.Context(model) as context:
        messages = [{"role": "user", "content": options.prompt}]
        for event in context.chat(messages, max_tokens=options.n_tokens, sampler=sampler(options)):
            print(event.text, end="", flush=True)
        print()


if __name__ == "__main__":
    run(main)
