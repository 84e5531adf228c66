#!/bin/sh
# Runs the programs of docs/ffi.md, of which both must print the same, where there are LuaJIT and Ruby.
#
#   tests/capi/ffi.sh LIBDIR MODEL
set -eu

[ $# -eq 2 ] || { echo "usage: $0 LIBDIR MODEL" >&2; exit 2; }
lib=$(cd "$1" && pwd)
model=$2
cd "$(dirname "$0")/../.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# block NAME: the block of the page that is called so.
block() {
    awk -v name="$1" '/^```/ { if (on) exit; on = ($2 == name); next } on' docs/ffi.md >"$out/$1"
    [ -s "$out/$1" ] || { echo "ffi: docs/ffi.md has no program $1" >&2; exit 1; }
}

block first.lua
block first.rb
export LD_LIBRARY_PATH="$lib"
for pair in luajit:first.lua ruby:first.rb; do
    program=${pair#*:}
    if command -v "${pair%%:*}" >/dev/null; then
        "${pair%%:*}" "$out/$program" "$model" >"$out/$program.said"
        grep -q "[a-z]" "$out/$program.said" || { echo "ffi: $program said nothing" >&2; exit 1; }
        cp "$out/$program.said" "$out/said"
    else
        echo "ffi: there is no ${pair%%:*} to run $program"
    fi
done
for said in "$out"/first.*.said; do
    [ ! -f "$said" ] || cmp "$said" "$out/said"
done
echo "ffi: done"
