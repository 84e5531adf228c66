"""Draws the picture of the README from a table of bench/run.py: Ember and llama.cpp on all threads, model by model.

Needs: pip install matplotlib
Run: python bench/plot.py bench/results/TABLE.csv docs/speed.svg
"""

import csv
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402 (the backend is chosen first)

PANELS = (("decode", "0", "one sequence, short context: tokens/s"), ("prefill", "0", "prompt of 512: tokens/s"))
EMBER, PEER = "#c2410c", "#94a3b8"


def rows_of(path: str) -> list[dict]:
    with open(path, newline="") as table:
        return list(csv.DictReader(line for line in table if not line.startswith("#")))


def better(row: dict) -> float:
    """llama.cpp's number, with or without flash attention, whichever is better; 0 where it was not measured."""
    return max((float(row[name]) for name in ("llama_fa_on", "llama_fa_off") if row[name]), default=0.0)


def main():
    if len(sys.argv) != 3:
        raise SystemExit("usage: plot.py TABLE.csv PICTURE.svg")
    rows = rows_of(sys.argv[1])
    threads = max((row["threads"] for row in rows), key=int)
    models = list(dict.fromkeys(row["model"] for row in rows))
    # Text stays text, and the same table gives the same file.
    plt.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "ember", "font.family": "sans-serif"}
    figure, panels = plt.subplots(1, len(PANELS), figsize=(10, 1.2 + 0.5 * len(models)), sharey=True, layout="constrained")
    for panel, (what, depth, title) in zip(panels, PANELS):
        chosen = {}
        for row in rows:
            if (row["what"], row["depth"], row["batch"], row["threads"]) == (what, depth, "1", threads):
                if what == "decode" or row["tokens"] == "512":
                    chosen[row["model"]] = row
        for i, model in enumerate(models):
            if model not in chosen:
                continue
            ember, peer = float(chosen[model]["ember"]), better(chosen[model])
            panel.barh(i - 0.19, ember, 0.38, color=EMBER, label="Ember" if i == 0 else None)
            panel.barh(i + 0.19, peer, 0.38, color=PEER, label="llama.cpp, the better setting" if i == 0 else None)
            ratio = f"  {ember / peer:.2f}×" if peer else ""
            panel.text(max(ember, peer), i, ratio, va="center", fontsize=9)
        panel.set_title(title, fontsize=10)
        panel.set_yticks(range(len(models)), models)
        panel.margins(x=0.15)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
