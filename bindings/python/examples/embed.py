"""Prints how alike two texts are: the cosine of their vectors.

embed.py -m MODEL TEXT TEXT
"""

from __future__ import annotations

import ember
from options import parser, run


def main() -> None:
    arguments = parser("Prints how alike two texts are.")
    arguments.add_argument("texts", nargs=2, metavar="TEXT")
    options = arguments.parse_args()
    with ember.Model(options.model) as model, ember.Context(model) as context:
        first, second = context.embed(options.texts)
        print(f"{sum(a * b for a, b in zip(first, second)):.4f}")


if __name__ == "__main__":
    run(main)
