#!/usr/bin/env bash
# A panic is caught in libraries that are linked as scripts/release.sh links them: an abort would end the host's process.
#
#   tests/packaging/unwind.sh
#
# Needs ziglang in the Python of EMBER_BUILD_TOOLS (default: build/tools). With musl-gcc it tests musl too, with mingw-w64 and wine64
# Windows.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/cross.sh
. scripts/cross.sh

python=$(cd "${EMBER_BUILD_TOOLS:-build/tools}/bin" && pwd)/python3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >panics.rs <<'RUST'
/// Whether a panic was caught.
#[unsafe(no_mangle)]
pub extern "C" fn caught() -> i32 {
    std::panic::catch_unwind(|| panic!("as it should")).is_err().into()
}
RUST
cat >program.c <<'C'
int caught(void);
int main(void) { return caught() == 1 ? 0 : 1; }
C
echo caught >functions
printf 'LIBRARY panics.dll\nEXPORTS\n    caught\n' >panics.def

# expect NAME PROGRAM ARGUMENT...
expect() {
    local name=$1
    shift
    "$@" 2>said || { cat said; echo "unwind: a panic is not caught in $name" >&2; exit 1; }
    echo "unwind: a panic is caught in $name"
}

triple=$(uname -m)-unknown-linux-gnu
rustc -O --crate-type staticlib --target "$triple" panics.rs -o libpanics.a
cross_elf "$triple" libpanics.a functions libpanics.so libpanics.so "$python" -m ziglang cc -target "$(uname -m)-linux-gnu.2.28"
cc program.c libpanics.a -o static -lpthread -ldl -lm
expect "a static library" ./static
cc program.c ./libpanics.so -o shared -Wl,-rpath,.
expect "a shared library" ./shared

triple=$(uname -m)-unknown-linux-musl
if command -v musl-gcc >/dev/null && cross_std "$triple"; then
    rustc -O --crate-type staticlib --target "$triple" -Ctarget-feature=-crt-static panics.rs -o libpanics.a
    cross_elf "$triple" libpanics.a functions libpanics.so libpanics.so "$python" -m ziglang cc -target "$(uname -m)-linux-musl"
    musl-gcc -static -Wl,--eh-frame-hdr program.c libpanics.a -o static
    expect "a static program with musl" ./static
    musl-gcc program.c ./libpanics.so -o shared -Wl,-rpath,.
    expect "a shared library with musl" ./shared
fi

wine=$(command -v wine64 || echo /usr/lib/wine/wine64)
if command -v x86_64-w64-mingw32-gcc >/dev/null && [ -x "$wine" ] && cross_std x86_64-pc-windows-gnu; then
    export WINEDEBUG=-all WINEPREFIX=${WINEPREFIX:-$work/wine}
    rustc -O --crate-type staticlib --target x86_64-pc-windows-gnu panics.rs -o libpanics.a
    cross_strip libpanics.a
    cross_dll libpanics.a panics.def panics.dll libpanics.dll.a x86_64-w64-mingw32-gcc -static-libgcc
    x86_64-w64-mingw32-gcc -shared -O1 "$OLDPWD/tests/windows/bcryptprimitives.c" -o bcryptprimitives.dll -ladvapi32
    x86_64-w64-mingw32-gcc program.c libpanics.dll.a -o shared.exe
    expect "a DLL" "$wine" shared.exe
    x86_64-w64-mingw32-gcc program.c libpanics.a -o static.exe -lws2_32 -luserenv -lntdll -lbcrypt -ladvapi32 -static
    expect "a static library for Windows" "$wine" static.exe
fi
