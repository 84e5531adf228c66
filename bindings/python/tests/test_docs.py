"""The programs in the README and the examples run."""

import os
import platform
import re
import subprocess
import sys

import pytest


def test_readme(root, path, chat_path, tools_path, tmp_path, monkeypatch, capsys):
    readme = (root / "bindings/python/README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    (tmp_path / "model.gguf").symlink_to(path)
    (tmp_path / "small.gguf").symlink_to(path)
    (tmp_path / "chat.gguf").symlink_to(chat_path)
    (tmp_path / "tools.gguf").symlink_to(tools_path)
    monkeypatch.chdir(tmp_path)
    (tools,) = (block for block in blocks if "tools.gguf" in block)
    assert len(tools.splitlines()) < 20
    exec(compile(tools, "README.md", "exec"), {})  # a program as it stands
    assert re.search("sunny.*21 degrees", capsys.readouterr().out)
    (front,) = re.findall(r"^```python\n(.*?)^```$", (root / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    exec(compile(front, "README.md", "exec"), {})
    assert re.search(r"\w+ \w+ \w+", capsys.readouterr().out)  # what a small model says depends on the instruction set
    names = {}
    for block in blocks:  # one after the other, as one reads
        exec(compile(block, "README.md", "exec"), names)
    assert "Ember Tales" in capsys.readouterr().out


def run(root, name, *arguments, **environment):
    return subprocess.run(
        [sys.executable, root / f"bindings/python/examples/{name}.py", *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **environment},
    )


def test_generate(root, path):
    done = run(root, "generate", "-m", path, "-p", "Once upon a time", "-n", 5, "--temp", 0)
    assert (done.stdout, done.returncode) == ("Once upon a time, I was in the\n", 0), done.stderr
    done = run(root, "generate", "-m", "no-such-model.gguf")
    assert done.returncode == 1 and "no-such-model.gguf" in done.stderr and "Traceback" not in done.stderr
    assert run(root, "generate", "-n", "many").returncode == 2


def test_chat(root, path, chat_path):
    done = run(root, "chat", "-m", chat_path, "-p", "What is 2+2?", "-n", 24, "--temp", 0)
    assert " 4" in done.stdout and done.returncode == 0, done.stderr
    assert run(root, "chat", "-m", path).returncode == 1


def test_embed(root, path):
    texts = "The sea was calm, and the moon was bright.", "A bright moon stood over the quiet sea."
    # The last digits are those of the instructions and of the cache, which is of another type on x86-64 than elsewhere.
    cosine = "0.7744\n" if platform.machine() in ("x86_64", "AMD64") else "0.7739\n"
    done = run(root, "embed", "-m", path, *texts, EMBER_ISA="scalar")
    assert (done.stdout, done.returncode) == (cosine, 0), done.stderr
    assert run(root, "embed", "-m", path, "one").returncode == 2


def test_examples_are_checked_by_the_compiler_of_types(root):
    pytest.importorskip("mypy", reason="tests/run.sh installs it")
    done = subprocess.run(
        [sys.executable, "-m", "mypy"], cwd=root / "bindings/python", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
