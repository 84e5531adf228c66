#!/usr/bin/env bash
# Builds a library of an app's with what `make android` made, through CMake, as packaging/android/README.md says. There is
# no NDK in it: clang compiles and the C library is left out, so that what Ember needs of it stays open.
#
#   tests/packaging/android.sh FOLDER     default: build/android
#
# Needs CMake, clang and binutils.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/cross.sh
. scripts/cross.sh
from=$(cd "${1:-build/android}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "android: $*" >&2; exit 1; }

linker=$(cross_linker ld.lld)
# Libraries of the system's, with nothing in them.
for library in dl m; do ar cr "$work/lib$library.a"; done
# configure NAME ABI TARGET
configure() {
    cmake -S tests/packaging/android -B "$work/$1" -DCMAKE_BUILD_TYPE=Release -DEmber_DIR="$from" -DANDROID_ABI="$2" \
        -DCMAKE_C_COMPILER="${CLANG:-clang}" -DCMAKE_C_COMPILER_TARGET="$3" -DCMAKE_C_FLAGS=-ffreestanding \
        -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY \
        -DCMAKE_SHARED_LINKER_FLAGS="-nostdlib --ld-path=$linker -Wl,-z,text -L$work" >"$work/log" 2>&1
}
for pair in arm64-v8a:aarch64:AArch64 x86_64:x86_64:X86-64; do
    IFS=: read -r abi processor machine <<<"$pair"
    if ! { configure "$abi" "$abi" "$processor-linux-android21" && cmake --build "$work/$abi" >>"$work/log" 2>&1; }; then
        cat "$work/log" >&2
        die "the app for $abi cannot be built"
    fi
    app=$work/$abi/libapp.so
    readelf -h "$app" | grep -q "Machine:.*$machine" || die "the app for $abi is not for $machine"
    exported=$(nm -D --defined-only "$app" | awk '{ print $NF }')
    [ "$exported" = app_loads ] || die "the app for $abi exports more than its own function: $(head -c 300 <<<"$exported")"
    unknown=$(nm -D --undefined-only "$app" | awk '{ print $NF }' | grep -vxFf packaging/android/system-symbols.txt || true)
    [ -z "$unknown" ] || die "the app for $abi needs $unknown"
    readelf -lW "$app" | awk '$1 == "LOAD" { print $NF }' | sort -u | grep -qx 0x4000 || die "segments are not aligned to 16 KB"
    echo "android: an app for $abi: $(stat -c %s "$app") bytes"
    for library in "$from/$abi"/*.so; do
        [ -f "$library" ] || continue
        readelf -dW "$library" | grep -q "soname: \[$(basename "$library")\]" || die "$library has another name within"
        readelf -dW "$library" | grep -q 'NEEDED.*\[libc.so\]' || die "$library does not name the C library"
        # Where the unwinder looks for what it needs to catch a panic.
        readelf -lW "$library" | grep -q GNU_EH_FRAME || die "$library has no table of its frames"
    done
done
if configure mips mips mips64el-linux-gnu; then die "CMake takes an ABI that there is no library for"; fi
grep -q 'no library of Ember.s for the Android ABI "mips"' "$work/log" || { cat "$work/log" >&2; die "CMake does not say why"; }
echo "android: passed"
