#!/bin/sh
# symbols.sh must fail for a library that exports more than the header declares, or less.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A library of empty functions with the names on standard input.
make_library() {
    sed 's/.*/void &(void) {}/' >"$work/lib.c"
    ${CC:-cc} -shared -fPIC -fno-builtin -w "$work/lib.c" -o "$work/libember.so"
}

must_fail_naming() {
    if out=$(tests/capi/symbols.sh "$work" 2>&1); then
        echo "symbols-selftest: symbols.sh accepted a library with a wrong symbol: $1" >&2
        exit 1
    fi
    case $out in *"$1"*) ;; *) echo "symbols-selftest: $1 is not named in: $out" >&2; exit 1 ;; esac
}

tests/capi/functions.sh | make_library
tests/capi/symbols.sh "$work" >/dev/null
{ tests/capi/functions.sh; echo rogue_symbol; } | make_library
must_fail_naming rogue_symbol
tests/capi/functions.sh | grep -v '^ember_generate$' | make_library
must_fail_naming ember_generate
echo "symbols-selftest: a rogue and a missing symbol are both caught"
