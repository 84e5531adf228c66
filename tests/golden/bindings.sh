#!/bin/sh
# Makes tests/golden/bindings.json anew, at the lowest instruction-set level, which defines what the others must give; or with
# --check tells whether it is what the library gives, at the machine's best level and at the lowest (all must give the same
# tokens; numbers are compared to within 0.1), and whether the table of features in bindings/README.md is what the bindings call.
#
#   tests/golden/bindings.sh LIBDIR [--check]
#
# LIBDIR holds libember.so. CC names the compiler.
set -eu

[ $# -ge 1 ] || { echo "usage: $0 LIBDIR [--check]" >&2; exit 2; }
lib=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
golden=tests/golden/bindings.json
"${CC:-cc}" -std=c99 -O1 -Wall -Wextra -Werror -pedantic -Iinclude tests/golden/bindings.c -o "$out/bindings" \
    "-L$lib" -lember "-Wl,-rpath,$lib"
if [ "${2:-}" = --check ]; then
    for isa in '' scalar; do
        EMBER_ISA=$isa "$out/bindings" examples/models/ember-tales.gguf >"$out/bindings.json"
        python3 tests/golden/compare.py "$golden" "$out/bindings.json"
    done
    # The table of features is what the bindings call.
    python3 bindings/table.py
    echo "$golden is what the library gives"
else
    EMBER_ISA=scalar "$out/bindings" examples/models/ember-tales.gguf >"$out/bindings.json"
    cp "$out/bindings.json" "$golden"
fi
