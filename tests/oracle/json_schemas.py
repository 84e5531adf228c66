"""Has texts that Ember generates under JSON schemas validated by the Python package jsonschema.

    python tests/oracle/json_schemas.py [TEXTS] [CARGO-OPTION...]

For each schema of tests/fixtures/schemas.json (made by make_schemas.py) TEXTS texts (50 if not given, which makes 10,100) are generated on a
model of random weights at temperature 1.5 by tests/it/constraint_schemas.rs, with other random numbers each. Formats are checked too.
Texts that max_tokens cut off are counted apart. Needs `pip install 'jsonschema[format-nongpl]'`. Ends with 1 if a text is invalid.
"""

import collections
import decimal
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import jsonschema

ROOT = pathlib.Path(__file__).parent.parent.parent
texts, options = int((sys.argv[1:] or ["50"])[0]), sys.argv[2:]

with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / "texts"
    command = ["cargo", "test", *options, "--test", "it", "--", "--ignored", "constraint_schemas::texts_for_the_oracle"]
    env = {**os.environ, "EMBER_SCHEMA_TEXTS": str(texts), "EMBER_SCHEMA_OUT": str(out)}
    subprocess.run(command, cwd=ROOT, env=env, check=True)
    lines = [json.loads(line) for line in out.read_text().split("\n") if line]

# As decimal numbers: 80.88 is a multiple of 0.01, but not as floats.
schemas = json.loads((ROOT / "tests/fixtures/schemas.json").read_text(), parse_float=decimal.Decimal)["schemas"]
counts, invalid = collections.Counter(), []
validators = {}
for line in lines:
    name = line["schema"]
    if "refused" in line:
        counts["refused"] += 1
        print("refused:", name, line["refused"])
        continue
    if not line["complete"]:
        counts["cut off"] += 1
        continue
    if name not in validators:
        kind = jsonschema.validators.validator_for(schemas[name], default=jsonschema.Draft202012Validator)
        validators[name] = kind(schemas[name], format_checker=kind.FORMAT_CHECKER)
    try:
        error = next(validators[name].iter_errors(json.loads(line["text"], parse_float=decimal.Decimal)), None)
    except json.JSONDecodeError as e:
        error = e
    counts["valid" if error is None else "invalid"] += 1
    if error is not None:
        invalid.append((name, line["text"], str(error).splitlines()[0]))
for name, text, error in invalid[:40]:
    print("invalid:", name, repr(text), error)
print(f"{len(lines)} texts of {len(schemas)} schemas:", ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
sys.exit(bool(invalid))
