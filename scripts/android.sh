#!/usr/bin/env bash
# Builds the library for Android into build/android: a folder for each ABI, the header, and how to use them.
#
#   scripts/android.sh [ABI…]      default: arm64-v8a x86_64
#
# The static libraries need nothing but Rust. Shared ones are made where ANDROID_NDK_HOME names an NDK, whose linker they
# need; their segments are aligned for devices with pages of 16 KB. ANDROID_API is the lowest version of the system's
# interface (default 24). FEATURES are options of cargo that choose features.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/cross.sh
. scripts/cross.sh

[ $# -gt 0 ] || set -- arm64-v8a x86_64
out=build/android
needs=packaging/android/system-symbols.txt
rm -rf "$out"
mkdir -p "$out/include"
cp include/ember.h "$out/include"
cp packaging/android/README.md packaging/android/EmberConfig.cmake "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo '{ global: ember_*; local: *; };' >"$work/exports"
linker=$(cross_linker ld.lld)

for abi; do
    case $abi in
    arm64-v8a) target=aarch64-linux-android machine=elf-aarch64 ;;
    x86_64) target=x86_64-linux-android machine=elf-x86_64 ;;
    *) echo "android: the ABI is arm64-v8a or x86_64, not \"$abi\"" >&2; exit 2 ;;
    esac
    types=staticlib
    if [ -n "${ANDROID_NDK_HOME:-}" ]; then
        clang=$(echo "$ANDROID_NDK_HOME"/toolchains/llvm/prebuilt/*/bin/"$target${ANDROID_API:-24}-clang")
        [ -x "$clang" ] || { echo "android: there is no $clang" >&2; exit 1; }
        variable=CARGO_TARGET_$(echo "$target" | tr a-z- A-Z_)_LINKER
        export "$variable=$clang"
        types=staticlib,cdylib
    fi
    cross_build $target $types
    mkdir "$out/$abi"
    cp "$built/libember.a" "$out/$abi"
    cross_strip "$out/$abi/libember.a"
    scripts/check-library.py $machine "$out/$abi/libember.a"
    # Linked as a program's CMake would, but without a C library: what is left must be the system's, and code as it is.
    "$linker" -shared -s --gc-sections -z text -z max-page-size=16384 --version-script "$work/exports" \
        --whole-archive "$out/$abi/libember.a" -o "$work/libember.so"
    scripts/check-library.py $machine --page-size 16384 --needs $needs "$work/libember.so"
    echo "$abi: $(stat -c %s "$work/libember.so") bytes in an app"
    if [ $types != staticlib ]; then
        cp "$built/libember.so" "$out/$abi"
        scripts/check-library.py $machine --page-size 16384 --needs $needs "$out/$abi/libember.so"
    fi
done
# The same code of others is in all of them.
cross_licenses "$out/licenses" "$target"
