#!/bin/sh
# The shared library exports exactly the functions of the header and nothing else.
#
#   tests/capi/symbols.sh LIBDIR
set -eu

[ $# -eq 1 ] || { echo "usage: $0 LIBDIR" >&2; exit 2; }
library=$(cd "$1" && pwd)/libember.so
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sh tests/capi/functions.sh >"$work/declared"
nm -D --defined-only "$library" | awk '{ print $NF }' | sort >"$work/exported"
if ! diff "$work/declared" "$work/exported" >"$work/difference"; then
    echo "symbols: the header (<) and $library (>) differ:" >&2
    cat "$work/difference" >&2
    exit 1
fi
echo "symbols: exactly the $(wc -l <"$work/declared") functions of the header"
