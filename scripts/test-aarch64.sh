#!/usr/bin/env bash
# Builds tests for 64-bit Arm Linux and runs them under emulation on three processors, each of which must select its own
# level of kernels: one with plain NEON, one with dot products, one with matrix products too.
#
#   scripts/test-aarch64.sh             the unit tests of quant, kernels and backend, then whole models
#   scripts/test-aarch64.sh FILTER...   only the unit tests whose names contain one of the filters
#
# Needs qemu's user mode and a C compiler to link with; on Debian: qemu-user-static gcc-aarch64-linux-gnu
# libc6-dev-arm64-cross. Rust's standard library for the target is added with rustup if it is not there.
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
libc=${EMBER_AARCH64_SYSROOT:-/usr/aarch64-linux-gnu}
linker=${CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER:-aarch64-linux-gnu-gcc}
cargo=${CARGO:-cargo}
# Emulated code is slow enough.
export CARGO_PROFILE_TEST_OPT_LEVEL=${CARGO_PROFILE_TEST_OPT_LEVEL:-3}

die() { echo "test-aarch64: $*" >&2; exit 1; }

if ! ls "$(rustc --print target-libdir --target $target)"/libstd-* >/dev/null 2>&1; then
    command -v rustup >/dev/null || die "Rust has no standard library for $target, and there is no rustup to add it"
    rustup target add $target || die "rustup could not add the target $target"
fi
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) ||
    die "qemu-aarch64 is missing; please install qemu-user-static"
command -v "$linker" >/dev/null || die "$linker is missing; please install gcc-aarch64-linux-gnu"
[ -e "$libc/lib/ld-linux-aarch64.so.1" ] || die "$libc has no C library; please install libc6-dev-arm64-cross"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$linker

# binary ARGUMENT...: builds a test and prints the path of its program.
binary() {
    local messages
    messages=$("$cargo" test --target $target --no-run --message-format=json-render-diagnostics "$@")
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' <<<"$messages" | tail -n 1
}
unit=$(binary --lib)
it=$(binary --test it)
for program in "$unit" "$it"; do
    [ -x "$program" ] || die "cargo named no test program"
done

# on CPU LEVEL FILTER...: the tests on one processor.
on() {
    local emulate=("$qemu" -cpu "$1" -L "$libc") highest
    highest=$("${emulate[@]}" "$it" --exact isa::levels_of_this_machine --nocapture | sed -n 's/.*level //p' | tail -n 1)
    echo "== $1: $highest"
    [ "$highest" = "$2" ] || die "the highest level of $1 is \"$highest\", expected $2"
    if (($# > 2)); then
        "${emulate[@]}" "$unit" "${@:3}"
    else
        "${emulate[@]}" "$unit" quant:: kernels:: backend::
        "${emulate[@]}" "$it" isa:: model_golden::
    fi
}
on cortex-a53 neon "$@"
on cortex-a76 dotprod "$@"
on max i8mm "$@"
echo "test-aarch64: all levels pass"
