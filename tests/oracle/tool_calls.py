"""Has calls of tools that are drawn at random under the grammars of all forms validated by the Python package jsonschema.

    python tests/oracle/tool_calls.py [SEEDS] [CARGO-OPTION...]

tests/it/reply_constrained.rs draws SEEDS replies (20 if not given) for each form of calls, each choice of tools and each kind of vocabulary, and
reads them back; a call that breaks fails there. Formats are checked too. Needs `pip install 'jsonschema[format-nongpl]'`. Ends with 1 if
arguments are invalid.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import jsonschema

ROOT = pathlib.Path(__file__).parent.parent.parent
seeds, options = (sys.argv[1:] or ["20"])[0], sys.argv[2:]

with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / "calls"
    command = ["cargo", "test", *options, "--test", "it", "reply_constrained::whatever_is_drawn"]
    env = {**os.environ, "EMBER_SEEDS": seeds, "EMBER_CALLS_OUT": str(out)}
    subprocess.run(command, cwd=ROOT, env=env, check=True)
    lines = [json.loads(line) for line in out.read_text().split("\n") if line]

counts, n_wrong = collections.Counter(), 0
for line in lines:
    schema = {"type": "object", **line["schema"]}
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    for error in validator.iter_errors(line["arguments"]):
        n_wrong += 1
        print(line["form"], line["arguments"], error.message, file=sys.stderr)
    counts[line["form"]] += 1

print(f"{len(lines)} calls, {n_wrong} invalid: {dict(counts)}")
sys.exit(n_wrong > 0)
