#!/bin/sh
# Compares what `cargo cinstall` installs with what `make install` does, and builds programs with it.
#
#   tests/packaging/cinstall.sh FOLDER
#
# FOLDER holds the libraries as cargo makes them. Needs cargo-c (`cargo install cargo-c`), a C compiler, pkg-config and
# binutils.
set -eu

[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
from=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
model=$PWD/examples/models/ember-tales.gguf
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
cc=${CC:-cc}
cargo=${CARGO:-cargo}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() { echo "cinstall: $*" >&2; exit 1; }
"$cargo" capi --version >/dev/null 2>&1 || die "there is no cargo-c; please install it: cargo install cargo-c"

DESTDIR=$work/make PREFIX=/opt/ember scripts/install.sh "$from"
"$cargo" cinstall --release --locked --destdir="$work/cargo" --prefix=/opt/ember --libdir=/opt/ember/lib
ours=$work/make/opt/ember theirs=$work/cargo/opt/ember

# The same files and links, but for the packages of CMake, which cargo-c knows nothing of.
list() { (cd "$1" && find . \( -type f -o -type l \) | sort); }
list "$ours" | grep -v /cmake/ >"$work/expected"
list "$theirs" >"$work/found"
diff -u "$work/expected" "$work/found" || die "the installed files differ"

same() { cmp "$ours/$1" "$theirs/$1" || die "$1 differs"; }
(cd "$ours" && find include -type f) >"$work/headers"
while read -r header; do same "$header"; done <"$work/headers"

# cargo-c leads both links straight to the file, `make install` one over the other: the same for loader and linker.
for link in libember.so "libember.so.${version%%.*}"; do
    leads() { basename "$(readlink -f "$1/lib/$link")"; }
    [ "$(leads "$theirs")" = "$(leads "$ours")" ] || die "$link leads to $(leads "$theirs"), expected $(leads "$ours")"
done

soname() { readelf -d "$1/lib/libember.so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p'; }
[ "$(soname "$ours")" = "$(soname "$theirs")" ] || die "the shared library's name is \"$(soname "$theirs")\""
symbols() { nm -D --defined-only "$1/lib/libember.so" | awk '{ print $3 }' | sort; }
symbols "$ours" >"$work/expected"
symbols "$theirs" >"$work/found"
diff -u "$work/expected" "$work/found" || die "the exported symbols differ"

# asks FOLDER OPTION...: what pkg-config says there, without the folder.
asks() {
    folder=$1
    shift
    PKG_CONFIG_SYSROOT_DIR=${folder%/opt/ember} PKG_CONFIG_LIBDIR=$folder/lib/pkgconfig pkg-config "$@" ember |
        sed "s|${folder%/opt/ember}||g"
}
for what in --modversion --cflags --libs; do
    [ "$(asks "$ours" $what | tr ' ' '\n' | sort -u)" = "$(asks "$theirs" $what | tr ' ' '\n' | sort -u)" ] ||
        die "pkg-config $what says \"$(asks "$theirs" $what)\", expected \"$(asks "$ours" $what)\""
done

# What the static library needs: cargo-c names all libraries that Rust links with, GCC's shared one and the C library
# among them, so there may be more, but not less.
private() { asks "$1" --static --libs-only-l | tr ' ' '\n' | grep . | sort -u; }
private "$ours" >"$work/expected"
private "$theirs" >"$work/found"
missing=$(comm -23 "$work/expected" "$work/found")
[ -z "$missing" ] || die "pkg-config --static leaves out $missing"

export PKG_CONFIG_SYSROOT_DIR="$work/cargo" PKG_CONFIG_LIBDIR="$theirs/lib/pkgconfig"
# shellcheck disable=SC2046
"$cc" -std=c99 -Wall -Werror tests/packaging/program.c -o "$work/shared" $(pkg-config --cflags --libs ember)
# Ember alone is linked statically: GCC's library that cargo-c names has no static form.
rm "$theirs"/lib/libember.so
# shellcheck disable=SC2046
"$cc" -std=c99 -Wall -Werror tests/packaging/program.c -o "$work/static" $(pkg-config --static --cflags --libs ember)
readelf -d "$work/static" | grep -q 'NEEDED.*libember' && die "the static library is not what the program is linked with"
for program in shared static; do
    out=$(LD_LIBRARY_PATH="$theirs/lib" "$work/$program" "$model") || die "the program linked $program fails"
    [ "${out%% *}" = "$version" ] || die "the program linked $program prints \"$out\", expected the version $version"
    echo "cinstall: the program linked $program runs"
done
echo "cinstall: passed"
