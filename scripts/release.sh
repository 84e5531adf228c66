#!/usr/bin/env bash
# Builds the library for one system into build/release/TARGET: lib, and bin for Windows' DLL.
#
#   scripts/release.sh TARGET
#
# TARGET is one of those below. Python's packages `ziglang` and `cargo-zigbuild` link (packaging/build-requirements.txt; they come
# into build/tools, or are in EMBER_BUILD_TOOLS), and Debian's mingw-w64 does for x86_64-windows-gnu. FEATURES are options of cargo
# that choose features. No path of the machine that builds is in what is built.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/cross.sh
. scripts/cross.sh

die() { echo "release: $*" >&2; exit 1; }

target=${1:-}
# The oldest systems that libraries are for: glibc 2.28 is of 2018, macOS 11 of 2020, Windows 10.
glibc=2.28
export MACOSX_DEPLOYMENT_TARGET=11.0
with=zigbuild flags=
case $target in
x86_64-linux-gnu | aarch64-linux-gnu) triple=${target/linux/unknown-linux} suffix=.$glibc ;;
# Programs with the C library in them cannot load shared ones.
x86_64-linux-musl | aarch64-linux-musl) triple=${target/linux/unknown-linux} flags="-Ctarget-feature=-crt-static" ;;
x86_64-apple-darwin | aarch64-apple-darwin) triple=$target ;;
x86_64-windows-gnu) triple=x86_64-pc-windows-gnu with=build ;;
aarch64-windows-gnullvm) triple=aarch64-pc-windows-gnullvm ;;
*) die "the target is one of x86_64-linux-gnu, aarch64-linux-gnu, x86_64-linux-musl, aarch64-linux-musl, aarch64-apple-darwin," \
    "x86_64-apple-darwin, x86_64-windows-gnu, aarch64-windows-gnullvm, not \"$target\"" ;;
esac

cross_std "$triple"
if [ $with = zigbuild ]; then
    tools=${EMBER_BUILD_TOOLS:-$PWD/build/tools}
    if [ ! -x "$tools/bin/cargo-zigbuild" ]; then
        python3 -m venv "$tools"
        "$tools/bin/pip" install -q -r packaging/build-requirements.txt
    fi
    PATH=$tools/bin:$PATH
else
    command -v x86_64-w64-mingw32-gcc >/dev/null || die "there is no x86_64-w64-mingw32-gcc; please install mingw-w64"
fi

# No path of the machine that builds is in what is built. A folder of its own, since other flags would build all anew.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
RUSTFLAGS="--remap-path-prefix=$PWD=/ember --remap-path-prefix=$cargo_home=/cargo $flags"
RUSTFLAGS+=" --remap-path-prefix=$(rustc --print sysroot)=/rust"
export RUSTFLAGS
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/release-builds CARGO_PROFILE_RELEASE_DEBUG=0
if [ $with = build ]; then set -- build; else set -- zigbuild; fi
# shellcheck disable=SC2086 # several options in one
"$cargo" "$1" --release --lib --target "$triple${suffix:-}" --features capi "${build_std[@]}" ${FEATURES:-}
built=$CARGO_TARGET_DIR/$triple/release
out=build/release/$target
rm -rf "$out"
mkdir -p "$out/lib"
cp "$built/libember.a" "$out/lib"
case $target in
*-windows-*)
    mkdir "$out/bin"
    cp "$built/ember.dll" "$out/bin"
    cp "$built/libember.dll.a" "$out/lib"
    { echo LIBRARY ember.dll; echo EXPORTS; sh tests/capi/functions.sh | sed 's/^/    /'; } >"$out/lib/ember.def"
    ;;
*-apple-*) cp "$built/libember.dylib" "$out/lib" ;;
*) cp "$built/libember.so" "$out/lib" ;;
esac
echo "$out"
