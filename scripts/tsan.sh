#!/bin/sh
# Runs the thread pool's tests under the thread sanitizer, with a standard library that is instrumented too.
#
#   scripts/tsan.sh [TEST…]
#
# RUST_SRC is the folder `library` of the compiler's own sources; without it they are where `rustup component add
# rust-src` puts them. CARGO names cargo.
set -eu
cd "$(dirname "$0")/.."

sources=${RUST_SRC:-$(rustc --print sysroot)/lib/rustlib/src/rust/library}
[ -f "$sources/std/src/lib.rs" ] || {
    echo "$0: there are no sources of Rust in $sources: rustup component add rust-src, or set RUST_SRC" >&2
    exit 1
}
target=$(rustc -vV | sed -n 's/^host: //p')
# Sanitizers and building the standard library are unstable; the stable compiler has them all the same.
export RUSTC_BOOTSTRAP=1 __CARGO_TESTS_ONLY_SRC_ROOT="$sources"
export RUSTFLAGS="-Zsanitizer=thread" TSAN_OPTIONS="halt_on_error=1"
exec "${CARGO:-cargo}" test --manifest-path tests/threads/Cargo.toml --lib -Zbuild-std --target "$target" -- "$@"
