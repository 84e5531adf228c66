"""examples/ray_batch.py as a user runs it: an actor that is killed, a run that is interrupted, all kinds of files.

ray_batch_check.py MODEL CHAT_MODEL   (ray.sh runs it, in an environment with Ray)
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zlib
from pathlib import Path

import ember
import pyarrow as pa
import pyarrow.parquet as parquet

MODEL, CHAT_MODEL = sys.argv[1:3]
SCRIPT = Path(__file__).parents[1] / "examples/ray_batch.py"
os.environ["EMBER_ISA"] = "scalar"  # slow, so that there is a middle to be killed in; actors inherit it
os.environ.pop("RAY_ADDRESS", None)
OPTIONS = {"-n": 48, "--temp": 0.9, "--seed": 5, "--ctx": 128, "--batch-size": 4, "--part-rows": 4, "--parallel": 4}
PROMPTS = [f"Tale {i} is of a king who" for i in range(120)]


def command(out, *files, **options):
    arguments = [sys.executable, str(SCRIPT), "-m", MODEL, "-o", str(out), *map(str, files)]
    for name, value in {**OPTIONS, **options}.items():
        arguments += [name] if value is True else [name, str(value)]
    return arguments


def expected(prompts, name):
    """What an engine gives without Ray: the answers to prompts of the file `name`."""
    with ember.Model(MODEL) as model, ember.Engine(model, n_ctx=128, max_queue=len(prompts)) as engine:
        requests = []
        for i, prompt in enumerate(prompts):
            seed = zlib.crc32(f"5 {name}:{i}".encode())
            sampler = ember.Sampler(seed, temperature=0.9, top_k=40, top_p=0.95)
            requests.append(engine.submit(prompt, max_tokens=48, sampler=sampler))
        return [request.complete().text for request in requests]


def parts(out):
    return sorted(Path(out).glob("part-*"))


def answers(out):
    return [row for path in parts(out) for row in parquet.read_table(path).to_pylist()]


def workers(driver):
    """The processes of actors that the process `driver` has started, by their ids."""
    parents, found = {}, set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if (entry / "cmdline").read_bytes().startswith(b"ray::MapWorker"):
                found.add(int(entry.name))
        except OSError:  # it has ended
            continue

    def is_ours(pid):
        while pid not in (0, driver):
            pid = parents.get(pid, 0)
        return pid == driver

    return {pid for pid in found if is_ours(pid)}


def wait_until(what, condition, running):
    for _ in range(6000):
        if condition():
            return
        if running.poll() is not None:
            raise AssertionError(f"the program ended before {what}: {running.stderr.read()}")
        time.sleep(0.02)
    raise AssertionError(f"there was never {what}")


class RayBatch(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        os.chdir(cls.folder.name)
        Path("prompts.jsonl").write_text("".join(json.dumps({"prompt": p}) + "\n" for p in PROMPTS))
        cls.texts = {f"prompts.jsonl:{i}": text for i, text in enumerate(expected(PROMPTS, "prompts.jsonl"))}

    @classmethod
    def tearDownClass(cls):
        os.chdir("/")
        cls.folder.cleanup()

    def start(self, *arguments):
        return subprocess.Popen(command(*arguments), stderr=subprocess.PIPE, text=True)

    def check(self, out):
        rows = answers(out)
        self.assertEqual(sorted(row["id"] for row in rows), sorted(self.texts), "each row is there once")
        self.assertEqual({row["error"] for row in rows}, {""})
        self.assertEqual({row["id"]: row["text"] for row in rows}, self.texts)
        return rows

    def test_a_killed_worker(self):
        running = self.start("killed", "prompts.jsonl")
        at_work = set()

        def both_are_at_work():
            at_work.update(row["worker"] for row in answers("killed"))
            return len(at_work) >= 2 and len(workers(running.pid)) == 2

        wait_until("two actors at work", both_are_at_work, running)
        before = len(answers("killed"))
        victim = workers(running.pid).pop()
        os.kill(victim, signal.SIGKILL)
        _, said = running.communicate()
        self.assertEqual(running.returncode, 0, said)
        self.assertLess(before, len(PROMPTS) // 2, "it was in the middle")
        rows = self.check("killed")
        by = {row["worker"] for row in rows}
        print(f"killed {victim} after {before} of {len(rows)} rows, which are of {by}", file=sys.stderr)

    def test_an_interrupted_run(self):
        running = self.start("resumed", "prompts.jsonl")
        wait_until("three parts", lambda: len(parts("resumed")) >= 3, running)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate()
        self.assertEqual(running.returncode, 130, said)
        first = {path: path.stat().st_mtime_ns for path in parts("resumed")}
        there = len(answers("resumed"))
        self.assertLess(there, len(PROMPTS))
        done = subprocess.run(command("resumed", "prompts.jsonl"), stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{len(PROMPTS)} prompts, {there} of them with answers already", done.stderr)
        self.check("resumed")
        self.assertEqual({path: path.stat().st_mtime_ns for path in first}, first)
        # A third time there is nothing to do; with another seed it is refused.
        again = subprocess.run(command("resumed", "prompts.jsonl"), stderr=subprocess.PIPE, text=True, check=True)
        self.assertIn(f"{len(PROMPTS)} of them with answers already", again.stderr)
        other = command("resumed", "prompts.jsonl", **{"--seed": 6})
        refused = subprocess.run(other, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("seed = 5, not 6", refused.stderr)

    def test_the_command_of_the_readme(self):
        readme = (SCRIPT.parents[1] / "README.md").read_text(encoding="utf-8")
        [line] = [line for line in readme.splitlines() if "ray_batch.py -m" in line]
        installs, _, line = line.partition(" && ")
        self.assertEqual(installs, 'pip install "ray[data]"')  # ray.sh has done so
        Path("model.gguf").symlink_to(MODEL)
        line = line.replace("python bindings/python/examples/ray_batch.py", f"{sys.executable} {SCRIPT}")
        done = subprocess.run(line, shell=True, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = answers("answers")
        self.assertEqual(sorted(row["id"] for row in rows), sorted(self.texts))
        self.assertIn(f"{len(PROMPTS)}/{len(PROMPTS)} prompts", done.stderr)

    def test_files_and_errors(self):
        Path("a.txt").write_text("The sea\nThe wolf\n" + "The king said " * 100 + "\n")
        parquet.write_table(pa.table({"question": ["What is 2+2?", "<|im_end|>"], "key": ["x", "y"]}), "b.parquet")
        done = subprocess.run(
            command("text", "a.txt", **{"--format": "jsonl", "--actors": 1, "--batch-size": 32}),
            stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [json.loads(line) for path in parts("text") for line in path.read_text().splitlines()]
        rows.sort(key=lambda row: row["id"])
        self.assertEqual([row["id"] for row in rows], ["a.txt:0", "a.txt:1", "a.txt:2"])
        self.assertEqual([row["text"] for row in rows[:2]], expected(["The sea", "The wolf"], "a.txt"))
        self.assertIn("n_ctx 128", rows[2]["error"])
        chat = command("chat", "b.parquet", **{"--column": "question", "--id-column": "key", "--chat": True, "--temp": 0})
        chat[chat.index("-m") + 1] = CHAT_MODEL
        done = subprocess.run(chat, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        by_id = {row["id"]: row for row in answers("chat")}
        self.assertIn(" 4", by_id["x"]["text"])
        self.assertIn("control token", by_id["y"]["error"])
        Path("c.jsonl").write_text('{"prompt": ')
        for files, says in [
            (["none.jsonl"], "none.jsonl"),
            (["c.jsonl"], "c.jsonl"),
            (["b.parquet"], "no text called 'prompt'"),
            (["a.txt"] * 2, "two prompts have the id"),
        ]:
            refused = subprocess.run(command("refused", *files), stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(says, refused.stderr)
            self.assertNotIn("Traceback", refused.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
