#!/bin/sh
# Builds the wheel, installs it beside Ray into an environment of its own, and checks examples/ray_batch.py there.
#
#   bindings/python/tests/ray.sh LIBDIR FOLDER MODEL CHAT_MODEL
#
# LIBDIR holds libember.so; the wheel goes to FOLDER/wheel and the environment, with Ray (600 MB), to FOLDER/ray. Two CPUs at least.
set -eu

[ $# -eq 4 ] || { echo "usage: $0 LIBDIR FOLDER MODEL CHAT_MODEL" >&2; exit 2; }
mkdir -p "$2"
out=$(cd "$2" && pwd)
model=$(realpath "$3")
chat_model=$(realpath "$4")
here=$(cd "$(dirname "$0")" && pwd)

"$here/../wheel.sh" "$1" "$out/wheel"
[ -x "$out/ray/bin/python" ] || "${PYTHON:-python3}" -m venv "$out/ray"
"$out/ray/bin/pip" install --quiet --disable-pip-version-check 'ray[data]==2.60.0'
"$out/ray/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$out"/wheel/*.whl
unset EMBER_LIBRARY PYTHONPATH
"$out/ray/bin/python" "$here/ray_batch_check.py" "$model" "$chat_model"
