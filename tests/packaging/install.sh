#!/bin/sh
# Installs the libraries into a temporary folder and builds a program with what is there: through pkg-config and CMake,
# shared and static, and by the lines that the README gives.
#
#   tests/packaging/install.sh FOLDER
#
# FOLDER holds the libraries as cargo makes them. Needs a C compiler, pkg-config, CMake and binutils.
set -eu

[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
from=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
model=$PWD/examples/models/ember-tales.gguf
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
major=${version%%.*}
cc=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() { echo "install: $*" >&2; exit 1; }

# The runtime libraries of Ember's that a program asks for.
needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(libember.*\)\]/\1/p'; }

# works PROGRAM shared|static [LIBDIR]: it asks for the library as it should, and runs.
works() {
    case $2 in
    shared) [ "$(needed "$1")" = "libember.so.$major" ] || die "$1 asks for \"$(needed "$1")\"" ;;
    static) [ -z "$(needed "$1")" ] || die "$1 is linked with the shared library" ;;
    esac
    out=$(LD_LIBRARY_PATH="${3:-}" "$1" "$model") || die "$1 fails"
    [ "${out%% *}" = "$version" ] || die "$1 prints \"$out\", expected the version $version"
    echo "install: $(basename "$1") runs"
}

# by_pkg_config NAME LIBDIR: builds both ways with what ember.pc says, for an installation in $root.
by_pkg_config() {
    export PKG_CONFIG_SYSROOT_DIR="$root" PKG_CONFIG_LIBDIR="$2/pkgconfig"
    pkg-config --exact-version="$version" ember || die "pkg-config does not find Ember $version"
    # shellcheck disable=SC2046
    "$cc" -std=c99 -Wall -Werror tests/packaging/program.c -o "$work/$1-shared" $(pkg-config --cflags --libs ember)
    works "$work/$1-shared" shared "$2"
    # The linker warns of functions of the C library that want its shared one; nothing here calls them.
    # shellcheck disable=SC2046
    "$cc" -std=c99 -Wall -Werror tests/packaging/program.c -o "$work/$1-static" -static \
        $(pkg-config --static --cflags --libs ember) 2>"$work/log" || { cat "$work/log" >&2; die "the static link fails"; }
    works "$work/$1-static" static
    unset PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_LIBDIR
}

# by_cmake NAME ROOT [OPTION...]: the same with CMake.
by_cmake() {
    name=$1 found=$2
    shift 2
    if ! { cmake -S tests/packaging/cmake -B "$work/$name" -DCMAKE_PREFIX_PATH="$found" -DWANT="$version" "$@" &&
        cmake --build "$work/$name"; } >"$work/log" 2>&1; then
        cat "$work/log" >&2
        die "CMake fails"
    fi
    works "$work/$name/program-shared" shared
    works "$work/$name/program-static" static
}

# Where most systems have it, and where Debian does.
for libdir in lib lib/x86_64-linux-gnu; do
    root=$work/$(echo $libdir | tr / -)
    DESTDIR=$root PREFIX=/opt/ember LIBDIR=/opt/ember/$libdir scripts/install.sh "$from"
    [ "$(ls "$root" "$root/opt")" = "$(printf '%s\n' "$root:" opt "" "$root/opt:" ember)" ] || die "files outside PREFIX"
    installed=$root/opt/ember/$libdir
    [ "$(readlink "$installed/libember.so")" = "libember.so.$major" ] || die "libember.so is no link"
    [ "$(readlink "$installed/libember.so.$major")" = "libember.so.$version" ] || die "libember.so.$major is no link"
    soname=$(readelf -d "$installed/libember.so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    [ "$soname" = "libember.so.$major" ] || die "the library's name is \"$soname\", expected libember.so.$major"
    by_pkg_config "pkg-config-$(basename $libdir)" "$installed"
    by_cmake "cmake-$(basename $libdir)" "$root/opt/ember" -DCMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu
done

# refuses WHAT OPTION...: CMake does not take the installation.
refuses() {
    what=$1
    shift
    if cmake -S tests/packaging/cmake -B "$work/refused" -DCMAKE_PREFIX_PATH="$work/lib/opt/ember" "$@" >"$work/log" 2>&1; then
        die "CMake takes $what"
    fi
    grep -q 'Ember' "$work/log" || { cat "$work/log" >&2; die "CMake fails without naming Ember"; }
    rm -rf "$work/refused"
    echo "install: CMake refuses $what"
}
refuses "an older version than asked for" "-DWANT=$major.999"
refuses "another first number" "-DWANT=$((major + 1))"
rm "$work/lib/opt/ember/lib/libember.a"
refuses "an installation without its static library" "-DWANT=$version"
if PREFIX=relative scripts/install.sh "$from" 2>/dev/null; then die "a relative PREFIX is accepted"; fi
if DESTDIR=$work/x scripts/install.sh "$work" 2>/dev/null; then die "a folder without libraries is accepted"; fi

# The lines of docs/install.md, with another place for the program.
grep '^cc -Iinclude examples/c/hello.c ' docs/install.md >"$work/lines"
[ "$(wc -l <"$work/lines")" -eq 2 ] || die "docs/install.md has two lines that build hello.c"
while read -r line; do
    echo "install: $line"
    rm -f "$work/hello"
    sh -c "$(echo "$line" | sed "s|^cc |'$cc' |; s| -o hello | -o '$work/hello' |")"
    "$work/hello" | grep -q '^The sea was calm, and the moon.' || die "the program that this makes does not run"
done <"$work/lines"
echo "install: passed"
