#!/usr/bin/env bash
# Builds the library for Android into build/android: a folder for each ABI, the header, and how to use them.
#
#   scripts/android.sh [ABI…]      default: arm64-v8a x86_64
#
# The static libraries need nothing but Rust. Shared ones are linked from them where ANDROID_NDK_HOME names an NDK, or else where Python's
# package `ziglang` is in EMBER_BUILD_TOOLS (default: build/tools): it has the unwinder that an NDK's compiler adds, and libraries
# that only name the system's functions stand for the system's. Their segments are aligned for devices with pages of 16 KB.
# libember_jni.so is for the package of Kotlin, and needs the header jni.h: the NDK's, or that of the JDK of JAVA. ANDROID_API is the
# lowest version of the system's interface (default 24). FEATURES are options of cargo that choose features.
#
#   BUILT=FOLDER scripts/android.sh ABI     links FOLDER/libember.a, which was built for the ABI, and compiles no Rust
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/cross.sh
. scripts/cross.sh

[ $# -gt 0 ] || set -- arm64-v8a x86_64
out=build/android
needs=packaging/android/system-symbols.txt
api=${ANDROID_API:-24}
rm -rf "$out"
mkdir -p "$out/include"
cp include/ember.h "$out/include"
cp packaging/android/README.md packaging/android/EmberConfig.cmake "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo '{ global: ember_*; local: *; };' >"$work/exports"
linker=$(cross_linker ld.lld)

zig() { ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$work/zig "$zig" -m ziglang "$@"; }

# android_parts PROCESSOR: without an NDK, what its compiler adds: the unwinder's objects, and libraries that stand for the system's.
android_parts() {
    local folder=$work/$1 sources library source symbols
    mkdir "$folder"
    sources=$("$zig" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "lib/libunwind"))')
    for source in libunwind.cpp UnwindLevel1.c UnwindLevel1-gcc-ext.c UnwindRegistersRestore.S UnwindRegistersSave.S; do
        # Its C library is another, but has the same interface for what the unwinder calls.
        zig cc -target "$1-linux-musl" -c -O2 -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -fno-sanitize=all -fno-stack-protector \
            -funwind-tables -ffunction-sections -DNDEBUG -D__errno_location=__errno -D_LIBUNWIND_IS_NATIVE_ONLY -D_LIBUNWIND_HIDE_SYMBOLS -Wno-unused-command-line-argument \
            "-I$sources/include" "$sources/src/$source" -o "$folder/$source.o"
    done
    for library in c dl; do
        symbols=$(grep -v -e '^#' -e '^_Unwind_' $needs | if [ $library = dl ]; then grep '^dl'; else grep -v '^dl'; fi)
        for symbol in $symbols; do printf '.globl %s\n.type %s, %%function\n%s:\n' "$symbol" "$symbol" "$symbol"; done >"$folder/$library.s"
        zig cc -target "$1-linux-musl" -c "$folder/$library.s" -o "$folder/$library.o"
        "$linker" -shared -soname "lib$library.so" "$folder/$library.o" -o "$folder/lib$library.so"
    done
}

# android_shared TARGET FOLDER: links the shared libraries in a folder, or says why not.
android_shared() {
    local processor=${1%%-*} headers link=() clang
    local options=(-shared -s --gc-sections --eh-frame-hdr -z text -z max-page-size=16384 -z noexecstack --hash-style=both)
    if [ -n "${ANDROID_NDK_HOME:-}" ]; then
        clang=$(echo "$ANDROID_NDK_HOME"/toolchains/llvm/prebuilt/*/bin/"$1$api-clang")
        [ -x "$clang" ] || { echo "android: there is no $clang" >&2; exit 1; }
        # shellcheck disable=SC2054 # commas are clang's
        link=("$clang" -shared -s -Wl,--gc-sections,-z,text,-z,max-page-size=16384)
        "${link[@]}" -Wl,-soname,libember.so "-Wl,--version-script,$work/exports" -Wl,--whole-archive "$2/libember.a" -Wl,--no-whole-archive \
            -ldl -lm -o "$2/libember.so"
        "${link[@]}" -std=c11 -O2 -fPIC -fvisibility=hidden -Iinclude bindings/android/jni.c -Wl,-soname,libember_jni.so "-L$2" -lember \
            -o "$2/libember_jni.so"
        return
    fi
    zig=${EMBER_BUILD_TOOLS:-build/tools}/bin/python3
    if ! "$zig" -c 'import ziglang' 2>/dev/null; then
        echo "android: no shared libraries, for there is no NDK (ANDROID_NDK_HOME) and no ziglang (EMBER_BUILD_TOOLS)"
        return
    fi
    if [ ! -d "$work/$processor" ]; then android_parts "$processor"; fi
    "$linker" "${options[@]}" -soname libember.so --version-script "$work/exports" --whole-archive "$2/libember.a" --no-whole-archive \
        "$work/$processor"/*.S.o "$work/$processor"/Unwind*.c.o "$work/$processor/libunwind.cpp.o" "-L$work/$processor" -lc -ldl -o "$2/libember.so"
    headers=$(dirname "$(dirname "$(readlink -f "$(command -v "${JAVA:-java}" || echo /none/none/none)")")")/include
    if [ ! -f "$headers/jni.h" ]; then
        echo "android: no libember_jni.so, for there is no jni.h in $headers (JAVA names a JDK)"
        return
    fi
    zig cc -target "$processor-linux-musl" -c -std=c11 -O2 -fPIC -fvisibility=hidden -fno-sanitize=all -fno-stack-protector -Iinclude \
        "-I$headers" "-I$headers/linux" bindings/android/jni.c -o "$work/jni.o"
    "$linker" "${options[@]}" -soname libember_jni.so "$work/jni.o" "-L$2" "-L$work/$processor" -lember -lc -o "$2/libember_jni.so"
}

for abi; do
    case $abi in
    arm64-v8a) target=aarch64-linux-android machine=elf-aarch64 ;;
    x86_64) target=x86_64-linux-android machine=elf-x86_64 ;;
    *) echo "android: the ABI is arm64-v8a or x86_64, not \"$abi\"" >&2; exit 2 ;;
    esac
    if [ -n "${BUILT:-}" ]; then
        built=$BUILT
    else
        cross_build $target staticlib
    fi
    mkdir "$out/$abi"
    cp "$built/libember.a" "$out/$abi"
    cross_strip "$out/$abi/libember.a"
    scripts/check-library.py $machine "$out/$abi/libember.a"
    # Linked as a program's CMake would, but without a C library: what is left must be the system's, and code as it is.
    "$linker" -shared -s --gc-sections -z text -z max-page-size=16384 --version-script "$work/exports" \
        --whole-archive "$out/$abi/libember.a" -o "$work/libember.so"
    scripts/check-library.py $machine --page-size 16384 --needs $needs "$work/libember.so"
    echo "$abi: $(stat -c %s "$work/libember.so") bytes in an app"
    android_shared $target "$out/$abi"
    if [ -f "$out/$abi/libember.so" ]; then
        scripts/check-library.py $machine --page-size 16384 --needs $needs "$out/$abi/libember.so"
    fi
    if [ -f "$out/$abi/libember_jni.so" ]; then
        scripts/check-library.py --jni $machine --page-size 16384 --needs $needs "$out/$abi/libember_jni.so"
    fi
done
# The same code of others is in all of them.
cross_licenses "$out/licenses" "$target"
