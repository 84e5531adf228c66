#!/usr/bin/env bash
# Builds the library for one system into build/release/TARGET: lib, and bin for Windows' DLL; the licences of all code in it, and a
# bill of materials. The same of the command-line program goes into its folder `program`. scripts/packages packs that.
#
#   scripts/release.sh TARGET [FOLDER OUT [PROGRAM]]
#
# TARGET is one of those below. With FOLDER and OUT the libember.a of FOLDER (and libember.dylib) is linked into OUT/TARGET instead,
# with the command-line program PROGRAM or without one, and nothing is compiled. Python's packages `ziglang` and `cargo-zigbuild` link
# (packaging/build-requirements.txt; they come into build/tools, or are in EMBER_BUILD_TOOLS), and Debian's mingw-w64 does for
# x86_64-windows-gnu. FEATURES are options of cargo that choose features of the library. No path of the machine that builds is in what is built.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/cross.sh
. scripts/cross.sh

die() { echo "release: $*" >&2; exit 1; }

target=${1:-} built=${2:-} program=${4:-}
[ $# -ne 2 ] || die "FOLDER and OUT go together"
# The oldest systems that libraries are for: glibc 2.28 is of 2018, macOS 11 of 2020, Windows 10.
glibc=2.28
export MACOSX_DEPLOYMENT_TARGET=11.0
with=zig flags=
case $target in
x86_64-linux-gnu | aarch64-linux-gnu) triple=${target/linux/unknown-linux} zig=$target.$glibc ;;
# Programs with the C library in them cannot load shared ones.
x86_64-linux-musl | aarch64-linux-musl) triple=${target/linux/unknown-linux} zig=$target flags="-Ctarget-feature=-crt-static" ;;
x86_64-apple-darwin | aarch64-apple-darwin) triple=$target ;;
x86_64-windows-gnu) triple=x86_64-pc-windows-gnu with=gcc machine=i386:x86-64 ;;
aarch64-windows-gnullvm) triple=aarch64-pc-windows-gnullvm zig=aarch64-windows-gnu machine=arm64 ;;
*) die "the target is one of x86_64-linux-gnu, aarch64-linux-gnu, x86_64-linux-musl, aarch64-linux-musl, aarch64-apple-darwin," \
    "x86_64-apple-darwin, x86_64-windows-gnu, aarch64-windows-gnullvm, not \"$target\"" ;;
esac

cross_std "$triple"
if [ $with = zig ]; then
    tools=${EMBER_BUILD_TOOLS:-$PWD/build/tools}
    if [ ! -x "$tools/bin/cargo-zigbuild" ]; then
        python3 -m venv "$tools"
        "$tools/bin/pip" install -q -r packaging/build-requirements.txt
    fi
    PATH=$tools/bin:$PATH
    link=("$tools/bin/python3" -m ziglang cc -target "${zig:-}")
else
    link=(x86_64-w64-mingw32-gcc -static-libgcc)
    command -v "${link[0]}" >/dev/null || die "there is no ${link[0]}; please install mingw-w64"
fi
if [[ $target == *-windows-* ]]; then
    dlltool=$(command -v llvm-dlltool) || die "there is no llvm-dlltool; please install llvm"
fi

# No path of the machine that builds is in what is built. A folder of its own, since other flags would build all anew.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
RUSTFLAGS="--remap-path-prefix=$PWD=/ember --remap-path-prefix=$cargo_home=/cargo $flags"
RUSTFLAGS+=" --remap-path-prefix=$(rustc --print sysroot)=/rust"
export RUSTFLAGS
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/release-builds CARGO_PROFILE_RELEASE_DEBUG=0
out=${3:-build/release}/$target
# The shared library is linked below, from the static one: for this glibc, and without the C functions of other libraries, which
# rustc would export from a DLL. A crate that Ember is built from is linked on the way, so the linker is that of the target.
case $target in
"$(uname -m)"-linux-* | x86_64-windows-gnu) set -- "$cargo" rustc --crate-type staticlib ;;
*) set -- cargo-zigbuild rustc --crate-type staticlib ;;
esac
compiled=
if [ -z "$built" ]; then
    compiled=yes
    # shellcheck disable=SC2086 # several options in one
    "$@" --release --lib --target "$triple" --features capi "${build_std[@]}" ${FEATURES:-}
    built=$CARGO_TARGET_DIR/$triple/release
fi
rm -rf "$out"
mkdir -p "$out/lib"
cp "$built/libember.a" "$out/lib"
case $target in
*-windows-*)
    mkdir "$out/bin"
    cross_strip "$out/lib/libember.a"
    { echo LIBRARY ember.dll; echo EXPORTS; sh tests/capi/functions.sh | sed 's/^/    /'; } >"$out/lib/ember.def"
    # What MSVC's linker takes.
    "$dlltool" -m "$machine" -d "$out/lib/ember.def" -D ember.dll -l "$out/lib/ember.lib"
    cross_dll "$out/lib/libember.a" "$out/lib/ember.def" "$out/bin/ember.dll" "$out/lib/libember.dll.a" "${link[@]}"
    ;;
*-apple-*)
    cross_strip "$out/lib/libember.a"
    if [ -n "$compiled" ]; then
        sh tests/capi/functions.sh | sed 's/^/_/' >"$out/functions"
        version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
        stub=$("$tools/bin/python3" -c 'import ziglang; print(ziglang.__path__[0])')/lib/libc/darwin/libSystem.tbd
        cross_macho "${target%%-*}" "$MACOSX_DEPLOYMENT_TARGET" "$out/lib/libember.a" "$out/functions" "$out/lib/libember.dylib" "$version" "$stub"
        rm "$out/functions"
    else
        cp "$built/libember.dylib" "$out/lib"
    fi
    ;;
*)
    sh tests/capi/functions.sh >"$out/functions"
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
    cross_elf "$triple" "$out/lib/libember.a" "$out/functions" "$out/lib/libember.so" "libember.so.${version%%.*}" "${link[@]}"
    rm "$out/functions"
    ;;
esac
# What unwinds the stack when a panic is caught; Apple's systems have it.
runtime=()
case $target in
*-linux-* | *-gnullvm)
    zig_folder=$("$tools/bin/python3" -c "import ziglang; print(ziglang.__path__[0])")
    runtime=(--runtime "LLVM-libunwind" "zig-$("$tools/bin/python3" -m ziglang version)" "Apache-2.0 WITH LLVM-exception"
        "$zig_folder/lib/libunwind/LICENSE.TXT")
    ;;
x86_64-windows-gnu)
    runtime=(--runtime libgcc "$("${link[0]}" -dumpfullversion)" "GPL-3.0-or-later WITH GCC-exception-3.1" -)
    ;;
esac
cross_licenses "$out/licenses" "$triple" "${runtime[@]}"
mv "$out/licenses/ember.cdx.json" "$out"
if [ -n "$program" ]; then
    mkdir "$out/program"
    cp "$program" "$out/program"
    python3 scripts/third-party.py "$out/program" --program --target "$triple"
elif [ -n "$compiled" ]; then
    case $target in
    *-linux-gnu) set -- zigbuild --target "$triple.$glibc" ;;
    x86_64-windows-gnu) set -- build --target "$triple" ;;
    *) set -- zigbuild --target "$triple" ;;
    esac
    cross_program "$triple" "$out/lib" "$out/program" "$@"
fi
echo "$out"
