"""Answers many prompts with Ray Data: actors that hold a model each, on this machine or on a cluster.

ray_batch.py -m MODEL -o FOLDER [options] FILE...      (pip install "ray[data]")

FILE is JSON lines or Parquet with a column of prompts, or text with a prompt in each line. The answers go to FOLDER in parts, each
written whole or not at all. Started again with the same arguments, it goes on where it was interrupted. Ray starts an actor
again whose process was killed, and its prompts with it, so each prompt has one answer.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ember
import pyarrow as pa
import pyarrow.parquet as parquet
import ray
from options import run

ANSWERS = pa.schema(
    [
        ("id", pa.string()),  # of the prompt: its file and row, or its own
        ("prompt", pa.string()),
        ("text", pa.string()),  # the answer
        ("finish_reason", pa.string()),  # EOG, STOP_STRING, MAX_TOKENS, CONTEXT_FULL; "" with an error
        ("n_prompt", pa.int64()),  # tokens
        ("n_generated", pa.int64()),
        ("error", pa.string()),  # why there is no answer, or ""
        ("worker", pa.int64()),  # the actor's process
    ]
)


class Answers:
    """An actor: a model and an engine, which runs the prompts of a batch together."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.model = ember.Model(options["model"])
        self.engine = ember.Engine(
            self.model,
            n_parallel=options["parallel"],
            max_queue=options["batch_size"],
            n_threads=max(1, int(options["num_cpus"])),
            n_ctx=options["ctx"],
        )

    def __call__(self, batch: pa.Table) -> pa.Table:
        rows = [{**dict.fromkeys(ANSWERS.names, ""), **row, "worker": os.getpid()} for row in batch.to_pylist()]
        for row, request in [(row, self.submit(row)) for row in rows]:
            row["n_prompt"] = row["n_generated"] = 0
            if request is None:
                continue
            try:
                done = request.complete()
            except ember.EmberError as error:  # of this prompt alone: it does not fit, say
                row["error"] = str(error)
                continue
            row["text"], row["finish_reason"] = done.text, done.finish_reason.name
            row["n_prompt"], row["n_generated"] = done.usage.n_prompt, done.usage.n_generated
        return pa.Table.from_pylist(rows, schema=ANSWERS)

    def submit(self, row: dict[str, Any]) -> ember.Request | None:
        options = self.options
        sampler = None
        if options["temperature"] > 0:  # a seed for each prompt, which is the same whoever answers it
            seed = zlib.crc32(f"{options['seed']} {row['id']}".encode())
            sampler = ember.Sampler(
                seed, temperature=options["temperature"], top_k=options["top_k"], top_p=options["top_p"]
            )
        try:
            prompt = self.chat(row["prompt"]) if options["chat"] else row["prompt"]
            return self.engine.submit(prompt, max_tokens=options["n_tokens"], stop=options["stop"], sampler=sampler)
        except ember.EmberError as error:
            row["error"] = str(error)
            return None

    def chat(self, prompt: str) -> list[int]:
        plain = self.model.tokenize(prompt, add_special=False)
        if plain != self.model.tokenize(prompt, add_special=False, parse_special=True):
            raise ember.InvalidArgumentError("the prompt spells a control token of the model")
        messages = [{"role": "user", "content": prompt}]
        if self.options["system"]:
            messages.insert(0, {"role": "system", "content": self.options["system"]})
        text = self.model.apply_chat_template(messages)
        return self.model.tokenize(text, add_special=False, parse_special=True)


def prompts(path: str, column: str, id_column: str | None) -> Iterator[dict[str, str]]:
    """The prompts of a file and their ids."""
    try:
        yield from read(path, column, id_column)
    except (OSError, ValueError) as error:  # of json and of pyarrow too
        raise SystemExit(f"{path}: {error}") from None


def read(path: str, column: str, id_column: str | None) -> Iterator[dict[str, str]]:
    rows: Iterator[Any]
    suffix = Path(path).suffix
    if suffix == ".parquet":
        batches = parquet.ParquetFile(path).iter_batches()
        rows = itertools.chain.from_iterable(batch.to_pylist() for batch in batches)
    elif suffix in (".jsonl", ".ndjson", ".json"):
        rows = (json.loads(line) for line in open(path, encoding="utf-8") if line.strip())
    else:
        rows = ({column: line.rstrip("\r\n")} for line in open(path, encoding="utf-8"))
    for number, row in enumerate(rows):
        here = f"{path}:{number}"
        if not isinstance(row, dict) or not isinstance(row.get(column), str):
            raise SystemExit(f"{here} has no text called {column!r}; --column names another")
        if id_column is not None and row.get(id_column) is None:
            raise SystemExit(f"{here} has no id called {id_column!r}")
        yield {"id": here if id_column is None else str(row[id_column]), "prompt": row[column]}


class Parts:
    """The folder of answers."""

    def __init__(self, folder: Path, form: str, settings: dict[str, Any]) -> None:
        self.folder, self.form = folder, form
        folder.mkdir(parents=True, exist_ok=True)
        about = folder / "_settings.json"  # what begins so is no data to those who read folders
        if about.exists():
            before = json.loads(about.read_text(encoding="utf-8"))
            for name in settings:
                if before.get(name) != settings[name]:
                    raise SystemExit(
                        f"{folder} has answers made with {name} = {before.get(name)!r}, not {settings[name]!r}; "
                        "take another folder, or the same setting"
                    )
        self.replace(about, lambda path: path.write_text(json.dumps(settings, indent=1), encoding="utf-8"))
        self.next = 1 + max((int(path.stem.split("-")[1]) for path in self.paths()), default=-1)

    def paths(self) -> list[Path]:
        return sorted(self.folder.glob(f"part-*.{self.form}"))

    def ids(self) -> set[str]:
        """The prompts that have answers."""
        found: set[str] = set()
        for path in self.paths():
            if self.form == "parquet":
                found.update(parquet.read_table(path, columns=["id"])["id"].to_pylist())
            else:
                found.update(json.loads(line)["id"] for line in open(path, encoding="utf-8"))
        return found

    def write(self, table: pa.Table) -> None:
        path = self.folder / f"part-{self.next:06}.{self.form}"
        self.next += 1
        if self.form == "parquet":
            self.replace(path, lambda new: parquet.write_table(table, new))
        else:
            lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()]
            self.replace(path, lambda new: new.write_text("".join(lines), encoding="utf-8"))

    def replace(self, path: Path, write: Any) -> None:
        """Has a file written beside its place, which it takes when it is whole."""
        new = path.with_name(f".{path.name}.tmp")
        write(new)
        os.replace(new, path)


def answer(options: argparse.Namespace) -> None:
    settings = {name: value for name, value in vars(options).items() if name in SETTINGS}
    settings["model"] = str(Path(options.model).resolve())
    ember.inspect(settings["model"])  # a model that is not there is a sentence here, not a failing actor
    parts = Parts(options.out, options.format, settings)
    done = parts.ids()
    todo, ids = [], set()
    for row in itertools.chain.from_iterable(prompts(path, options.column, options.id_column) for path in options.files):
        if row["id"] in ids:
            raise SystemExit(f"two prompts have the id {row['id']!r}")
        ids.add(row["id"])
        if row["id"] not in done:
            todo.append(row)
    print(f"{len(ids)} prompts, {len(ids) - len(todo)} of them with answers already", file=sys.stderr)
    if not todo:
        return

    logging.getLogger("ray.data").setLevel(logging.WARNING)
    ray.init(address=options.address, logging_level="warning", **({} if options.address else {"include_dashboard": False}))
    there = ray.cluster_resources().get("CPU", 0)
    if there < options.actors * options.num_cpus:
        raise SystemExit(f"{options.actors} actors with {options.num_cpus} CPUs each are too many: Ray has {there:g}")
    ray.data.DataContext.get_current().enable_progress_bars = False  # there is one of our own
    batches = [pa.Table.from_pylist(list(some)) for some in batched(todo, options.batch_size)]
    answers = ray.data.from_arrow(batches).map_batches(
        Answers,
        fn_constructor_args=[{**settings, "batch_size": options.batch_size, "num_cpus": options.num_cpus}],
        batch_format="pyarrow",
        batch_size=options.batch_size,
        compute=ray.data.ActorPoolStrategy(size=options.actors),
        num_cpus=options.num_cpus,
    )
    progress = Progress(len(todo))
    waiting: list[pa.Table] = []
    try:
        for table in answers.iter_batches(batch_size=None, batch_format="pyarrow"):
            waiting.append(table.cast(ANSWERS))
            progress.add(table)
            if sum(map(len, waiting)) >= options.part_rows:
                parts.write(pa.concat_tables(waiting))
                waiting.clear()
    finally:  # Ctrl-C and errors lose no answer that came
        if waiting:
            parts.write(pa.concat_tables(waiting))
        progress.end()


def batched(rows: list[dict[str, str]], n: int) -> Iterator[list[dict[str, str]]]:
    return (rows[i : i + n] for i in range(0, len(rows), n))


class Progress:
    """What was done, on standard error: one line that changes on a terminal, else a line now and then."""

    def __init__(self, rows: int) -> None:
        self.rows, self.done, self.tokens, self.errors = rows, 0, 0, 0
        self.workers: set[int] = set()
        self.start = time.monotonic()
        self.shown = 0.0

    def add(self, table: pa.Table) -> None:
        self.done += len(table)
        self.tokens += sum(table["n_generated"].to_pylist())
        self.errors += sum(map(bool, table["error"].to_pylist()))
        self.workers.update(table["worker"].to_pylist())
        if time.monotonic() - self.shown >= (0.2 if sys.stderr.isatty() else 5) or self.done == self.rows:
            self.show("\r" if sys.stderr.isatty() else "\n")

    def show(self, end: str) -> None:
        self.shown = time.monotonic()
        took = self.shown - self.start
        print(
            f"{self.done}/{self.rows} prompts, {self.done / took:.1f} a second, {self.tokens / took:.0f} tokens a second, "
            f"{len(self.workers)} workers, {self.errors} errors",
            end=end,
            file=sys.stderr,
            flush=True,
        )

    def end(self) -> None:
        if sys.stderr.isatty():
            print(file=sys.stderr)


# What answers depend on: those of one folder have the same.
SETTINGS = {
    "model", "chat", "system", "n_tokens", "temperature", "top_k", "top_p", "seed", "stop", "ctx", "parallel", "column", "id_column"
}  # fmt: skip


def main() -> None:
    about, _, _ = (__doc__ or "").partition("\n\nFILE")
    arguments = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("files", nargs="+", metavar="FILE")
    arguments.add_argument("-m", dest="model", required=True, metavar="MODEL", help="a path that all machines have")
    arguments.add_argument("-o", dest="out", required=True, type=Path, metavar="FOLDER")
    arguments.add_argument("--format", choices=("parquet", "jsonl"), default="parquet", help="of the answers")
    arguments.add_argument("--column", default="prompt", metavar="NAME", help="of the prompts")
    arguments.add_argument("--id-column", metavar="NAME", help="of ids of your own; else they are file:row")
    arguments.add_argument("--chat", action="store_true", help="prompts are messages of a user: use the chat template")
    arguments.add_argument("--system", metavar="TEXT", help="the system message, with --chat")
    arguments.add_argument("-n", dest="n_tokens", type=int, default=128, metavar="N", help="most tokens of an answer")
    arguments.add_argument("--temp", dest="temperature", type=float, default=0.0, metavar="T", help="0: the likeliest tokens")
    arguments.add_argument("--top-k", type=int, default=40, metavar="K")
    arguments.add_argument("--top-p", type=float, default=0.95, metavar="P")
    arguments.add_argument("--seed", type=int, default=0, metavar="S")
    arguments.add_argument("--stop", action="append", default=[], metavar="TEXT", help="may be given again")
    arguments.add_argument("--ctx", type=int, default=0, metavar="N", help="tokens of a prompt and its answer; 0: the model's")
    arguments.add_argument("--parallel", type=int, default=8, metavar="N", help="prompts that an actor runs together")
    arguments.add_argument("--actors", type=int, default=2, metavar="N")
    arguments.add_argument("--num-cpus", type=float, default=1, metavar="N", help="CPUs, and threads, of an actor")
    arguments.add_argument("--batch-size", type=int, default=32, metavar="N", help="prompts that an actor gets at a time")
    arguments.add_argument("--part-rows", type=int, default=256, metavar="N", help="answers of a part, about")
    arguments.add_argument("--address", metavar="ADDRESS", help="of a Ray cluster; by default Ray starts on this machine")
    answer(arguments.parse_args())


if __name__ == "__main__":
    run(main)
