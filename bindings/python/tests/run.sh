#!/bin/sh
# Builds the wheel, installs it into a fresh virtual environment and runs the tests there.
#
#   bindings/python/tests/run.sh LIBDIR FOLDER
#
# LIBDIR holds libember.so; the wheel goes to FOLDER/wheel and the environment to FOLDER/python.
set -eu

[ $# -eq 2 ] || { echo "usage: $0 LIBDIR FOLDER" >&2; exit 2; }
mkdir -p "$2"
lib=$(cd "$1" && pwd)
out=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."

./wheel.sh "$lib" "$out/wheel"
rm -rf "$out/python"
"${PYTHON:-python3}" -m venv "$out/python"
"$out/python/bin/pip" install --quiet --disable-pip-version-check pytest numpy mypy "$out"/wheel/*.whl
# Nothing but the wheel: neither the sources nor another library.
unset EMBER_LIBRARY PYTHONPATH
"$out/python/bin/python" -m pytest -q -p no:cacheprovider tests
