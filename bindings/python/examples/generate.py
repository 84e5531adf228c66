"""Continues a prompt; the text is printed as it comes.

generate.py -m MODEL -p PROMPT [-n N] [--temp T] [--top-k K] [--top-p P] [--seed S]
"""

from __future__ import annotations

import ember
from options import add_generation, parser, run, sampler


def main() -> None:
    arguments = parser("Continues a prompt.")
    add_generation(arguments, "The sea was calm, and the moon")
    options = arguments.parse_args()
    with ember.Model(options.model) as model, ember.Context(model) as context:
        print(options.prompt, end="", flush=True)
        for event in context.generate(options.prompt, max_tokens=options.n_tokens, sampler=sampler(options)):
            print(event.text, end="", flush=True)
        print()


if __name__ == "__main__":
    run(main)
