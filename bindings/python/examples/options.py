"""What the examples share: their command line, and what happens with errors and Ctrl-C."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import ember


def parser(description: str) -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=description)
    options.add_argument("-m", dest="model", default="examples/models/ember-tales.gguf", metavar="MODEL")
    return options


def add_generation(options: argparse.ArgumentParser, prompt: str) -> None:
    options.add_argument("-p", dest="prompt", default=prompt, metavar="PROMPT")
    options.add_argument("-n", dest="n_tokens", type=int, default=128, metavar="N", help="most tokens to generate")
    options.add_argument("--temp", dest="temperature", type=float, default=0.8, metavar="T")
    options.add_argument("--top-k", type=int, default=40, metavar="K")
    options.add_argument("--top-p", type=float, default=0.95, metavar="P")
    options.add_argument("--seed", type=int, default=None, metavar="S")


def sampler(options: argparse.Namespace) -> ember.Sampler:
    return ember.Sampler(
        options.seed, top_k=options.top_k, top_p=options.top_p, temperature=options.temperature
    )


def run(main: Callable[[], None]) -> None:
    """Runs the program: what Ember refuses becomes a sentence and exit code 1, Ctrl-C 130."""
    try:
        main()
    except ember.EmberError as error:
        sys.exit(f"{sys.argv[0]}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
