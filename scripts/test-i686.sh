#!/usr/bin/env bash
# Builds the tests for 32-bit x86 Linux, where the scalar kernels are all there is, and runs them on this machine.
#
#   scripts/test-i686.sh                      the unit tests, most test files and the C tests
#   scripts/test-i686.sh OPTION… [-- FILTER…] `cargo test` with these options, such as --lib, instead
#
# Needs a C compiler and library for the target; on Debian either gcc-multilib or gcc-i686-linux-gnu (the latter beside
# compilers for other machines). Rust's standard library for the target is added with rustup if it is not there.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/cross.sh
. scripts/cross.sh

target=i686-unknown-linux-gnu
libc=/usr/i686-linux-gnu/lib
compiler=("${CC:-cc}" -m32)
link=()
if command -v i686-linux-gnu-gcc >/dev/null && [ -e $libc/ld-linux.so.2 ]; then
    # Programs run with the C library that they are linked with.
    compiler=(i686-linux-gnu-gcc)
    link=("-Wl,--dynamic-linker=$libc/ld-linux.so.2" "-Wl,-rpath,$libc")
    export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_LINKER=i686-linux-gnu-gcc
    export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_RUSTFLAGS="${link[*]/#/-C link-arg=}"
elif ! echo 'int main(void) { return 0; }' | "${compiler[@]}" -x c - -o /dev/null 2>/dev/null; then
    echo "$0: there is no C compiler for 32 bits; please install gcc-multilib or gcc-i686-linux-gnu" >&2
    exit 1
fi
cross_std $target
if (($#)); then
    "$cargo" test --target $target "${build_std[@]}" "$@"
    exit
fi

# The rest: architecture, readme and models_doc read the sources, whatever the machine; real models, large vocabularies and
# folders run the same code as these.
tests=(--lib --test gguf_hostile --test it)
"$cargo" test --target $target "${build_std[@]}" --lib --test gguf_hostile
"$cargo" test --target $target "${build_std[@]}" --test it -- bundled_model:: context_batching:: generate:: gguf_errors:: \
    gguf_split:: isa:: model_golden::

# The C functions, in the library that these tests made, so with debug assertions.
messages=$("$cargo" test --target $target "${build_std[@]}" "${tests[@]}" --no-run --message-format=json-render-diagnostics)
shared=$(sed -n 's/.*"\([^"]*\/libember\.so\)".*/\1/p' <<<"$messages" | tail -n 1)
[ -f "$shared" ] || { echo "$0: cargo names no shared library" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$shared" "${shared%.so}.a" "$work"
ln -s libember.so "$work/libember.so.$(sed -n 's/^version = "\([0-9]*\).*/\1/p' Cargo.toml | head -n 1)"
# Tagged so that libraries find what they need where the program does.
printf '#!/bin/sh\nexec %s "$@" %s -Wl,--disable-new-dtags\n' "${compiler[*]}" "${link[*]}" >"$work/cc"
chmod +x "$work/cc"
CC=$work/cc tests/capi/run.sh "$work" examples/models/ember-tales.gguf plain
echo "test-i686: passed"
