#!/usr/bin/env python3
"""Whether scripts/release-check.py notices each file that names another version, and a changelog that is not fit for a release."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OTHERS = [
    ("Cargo.toml", r'^version = ".*"', 'version = "9.8.7"'),
    ("CHANGELOG.md", r"^## \[.*\] - ", "## [9.8.7] - "),
    ("CHANGELOG.md", r"^## \[(.*)\] - .*", r"## [\1] - soon"),
    ("CHANGELOG.md", r"^## \[(.*)\] - .*", r"## [\1] - 2030-01-01"),
    ("CHANGELOG.md", r"^### Added\n", "### Added\n" + 40 * "- more\n"),
    ("include/ember.h", r"VERSION_MINOR \d+", "VERSION_MINOR 87"),
    ("bindings/node/package.json", r'"version": ".*"', '"version": "9.8.7"'),
    ("bindings/go/ember.go", r"for example \".*\"", 'for example "9.8.7"'),
    ("bindings/dotnet/Ember/Library.cs", r"for example \".*?\"", 'for example "9.8.7"'),
    ("bindings/python/pyproject.toml", r'^version = ".*"\n', ""),
    ("cli/Cargo.toml", r'^version = ".*"', 'version = "9.8.7"'),
    ("docs/c.md", r"find_package\(Ember \S+", "find_package(Ember 9.8"),
]

with tempfile.TemporaryDirectory() as work:
    work = pathlib.Path(work)
    files = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True).splitlines()
    for name in files:
        if re.match(r"(Cargo\.|CHANGELOG|include/|bindings/|cli/Cargo\.|docs/|scripts/|tests/golden/)", name) and (ROOT / name).is_file():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, work / name)

    def check():
        done = subprocess.run([sys.executable, work / "scripts/release-check.py"], capture_output=True, text=True)
        return done.returncode, done.stderr

    assert check()[0] == 0, check()[1]
    for name, expression, other in OTHERS:
        path = work / name
        text = path.read_text()
        changed, n = re.subn(expression, other, text, count=1, flags=re.M)
        assert n == 1, f"{name} has nothing like {expression}"
        path.write_text(changed)
        code, errors = check()
        assert code == 1 and name.split("/")[-1].split(".")[0] in errors or "golden" in errors, f"{name} with {other!r}: {code} {errors}"
        path.write_text(text)
print(f"release_check: {len(OTHERS)} faults are noticed")
