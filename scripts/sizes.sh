#!/usr/bin/env bash
# Builds the shared library without one feature after another and prints its size without symbols, in bytes.
#
#   scripts/sizes.sh
set -euo pipefail
cd "$(dirname "$0")/.."

from=${CARGO_TARGET_DIR:-target}/release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# size OPTION...: that of a build.
size() {
    "${CARGO:-cargo}" build --quiet --release --lib "$@"
    "${STRIP:-strip}" -o "$work/libember.so" "$from/libember.so"
    stat -c %s "$work/libember.so"
}
full=$(size)
printf '%10d  all features\n' "$full"
# Each feature of `full` is left out in turn; `tokenizers`, which hf needs, stays until the last.
features=$(sed -n 's/^full = \[\(.*\)\]$/\1/p' Cargo.toml | tr -d '",')
[ -n "$features" ] || { echo "sizes: Cargo.toml has no line \"full = [...]\"" >&2; exit 1; }
for left_out in $features; do
    kept=tokenizers
    for feature in $features; do
        [ "$feature" = "$left_out" ] || kept+=",$feature"
    done
    bytes=$(size --no-default-features --features "$kept")
    printf '%10d  without %s (%d less)\n' "$bytes" "$left_out" $((full - bytes))
done
bytes=$(size --no-default-features)
printf '%10d  without any, tokenizers included (%d less)\n' "$bytes" $((full - bytes))
