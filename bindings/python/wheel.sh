#!/bin/sh
# Builds the wheel, the only one in its folder.
#
#   bindings/python/wheel.sh LIBDIR FOLDER
set -eu

[ $# -eq 2 ] || { echo "usage: $0 LIBDIR FOLDER" >&2; exit 2; }
file=libember.so
[ "$(uname -s)" != Darwin ] || file=libember.dylib
[ -f "$1/$file" ] || { echo "$0: there is no file $1/$file" >&2; exit 2; }
EMBER_LIBRARY=$(cd "$1" && pwd)/$file
export EMBER_LIBRARY
rm -rf "$2"
mkdir -p "$2"
out=$(cd "$2" && pwd)
# In a copy, because building leaves files among the sources.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cd "$(dirname "$0")"
cp -R pyproject.toml setup.py README.md src "$copy"
mkdir "$copy/licenses"
cp ../../LICENSE ../../LICENSE-APACHE ../../LICENSE-MIT "$copy/licenses"
"${PYTHON:-python3}" -m pip wheel --quiet --disable-pip-version-check --no-deps -w "$out" "$copy"
