"""What the tests share. They run against the installed package: tests/run.sh makes a fresh environment for it."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import ember
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Shells have what they start in the background ignore Ctrl-C, which tests wait for.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def golden():
    return json.loads((ROOT / "tests/golden/bindings.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def path():
    return ROOT / "examples/models/ember-tales.gguf"


@pytest.fixture(scope="session")
def chat_path():
    """A model with a chat template: scripts/fetch-model.sh smollm2 fetches it."""
    models = pathlib.Path(os.environ.get("EMBER_MODELS") or pathlib.Path.home() / ".cache/ember/models")
    found = models / "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert found.is_file(), f"there is no {found}: run scripts/fetch-model.sh smollm2"
    return found


@pytest.fixture(scope="session")
def tools_path(chat_path, tmp_path_factory):
    """A model that calls tools."""
    made = tmp_path_factory.mktemp("tools") / "tools.gguf"
    subprocess.run([sys.executable, ROOT / "bindings/tool_model.py", chat_path, made], check=True)
    return made


@pytest.fixture(scope="session")
def model(path):
    return ember.Model(path)


@pytest.fixture
def context(model):
    with ember.Context(model) as made:
        yield made


@pytest.fixture
def slow(model):
    """A context whose calls take long enough for another thread to see them at work."""
    with ember.Context(model, backend=ember.Backend.SCALAR) as made:
        yield made
