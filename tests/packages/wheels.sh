#!/usr/bin/env bash
# Whether PyPI would take the Python packages: twine reads what they say of themselves, and auditwheel whether the wheels for Linux run
# on the systems that their names promise. abi3audit has nothing to look at: nothing is compiled against Python.
#
#   tests/packages/wheels.sh [FOLDER]     default: build/packages
set -euo pipefail
cd "$(dirname "$0")/../.."

packages=${1:-build/packages}/python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check twine auditwheel
"$work/env/bin/twine" check --strict "$packages"/*
for wheel in "$packages"/*linux*"_$(uname -m).whl"; do
    name=$(basename "$wheel" .whl)
    "$work/env/bin/auditwheel" show "$wheel" >"$work/said"
    # musl's wheels have one tag, and glibc's may fit older systems too.
    tr -s ' \n' ' ' <"$work/said" | grep -qF "\"${name##*-none-}\"" || { cat "$work/said"; exit 1; }
    echo "wheels: auditwheel finds ${name##*-none-} in $(basename "$wheel")"
done
