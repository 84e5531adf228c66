#!/bin/sh
# Runs the example programs as their users do; arguments are go's flags.
set -eu
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
go build "$@" -o "$out/" ./examples/...

# expect WANT PROGRAM ARGUMENT...
expect() {
    want=$1
    shift
    got=$("$@" 2>&1) || true
    [ "$got" = "$want" ] || { printf '%s gave\n%s\ninstead of\n%s\n' "$*" "$got" "$want" >&2; exit 1; }
}
expect 'Once upon a time, I was in the habit of' "$out/generate" -p 'Once upon a time' -n 8 -temp 0
seeded=$("$out/generate" -p 'The wolf said' -n 30 --seed 5)
expect "$seeded" "$out/generate" -p 'The wolf said' -n 30 --seed 5
expect 1.0000 "$out/embed" 'The sea.' 'The sea.'
expect 'usage: embed -m MODEL TEXT TEXT' "$out/embed" 'The sea.'
expect 'ember: no.gguf: No such file or directory' sh -c "'$out/generate' -m no.gguf | cut -c1-1000"
